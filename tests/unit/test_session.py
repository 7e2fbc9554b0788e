"""One session on a scripted engine: frames, questions, interrupts, warm-up, the end."""

import asyncio

import pytest

from core.engines.base import AudioPart, EngineHealth, EngineInfo
from core.limits import SessionLimits
from core.protocol import SessionConfig
from tests.fakes import (
    BROKEN_JPEG,
    NOT_AN_IMAGE,
    Harness,
    ScriptedEngine,
    frame,
    images,
    jpeg,
    say,
    texts,
    tone,
)

pytestmark = pytest.mark.unit

CACHING = EngineInfo("scripted", "script", "", prefix_caching=True)
HEARING = EngineInfo(
    "scripted", "script", "", input_modalities=frozenset({"text", "image", "audio"})
)
SPEAKING = EngineInfo("scripted", "script", "", output_modalities=frozenset({"text", "audio"}))
NO_FILTER = SessionConfig(enable_frame_filter=False)


async def test_a_frame_with_an_id_is_acknowledged_and_the_question_is_answered() -> None:
    async with Harness(ScriptedEngine(lambda r: say("A ", "cup."))) as h:
        h.session.frame(frame(frame_id="f1", pts_ms=40, capture_ts_ms=7))
        h.session.ask("What is this?")
        done = await h.client.until("response.done")
    ack = h.client.of("video.frame.ack")[0]
    assert (ack.frame_id, ack.pts_ms, ack.capture_ts_ms) == ("f1", 40, 7)
    assert ack.accepted
    assert ack.buffered_frames == 1
    assert [d.delta for d in h.client.of("response.text.delta")] == ["A ", "cup."]
    assert h.client.of("response.text.done")[0].text == "A cup."
    assert done.usage is not None
    assert done.usage.cached_tokens == 4
    assert texts(h.engine.requests[0])[-1] == "What is this?"


async def test_consumed_comes_before_the_first_text_and_in_time_order() -> None:
    async with Harness() as h:
        h.session.frame(frame(frame_id="a", pts_ms=10))
        h.session.frame(frame(jpeg(1), frame_id=None))
        h.session.frame(frame(jpeg(2), frame_id="c", pts_ms=30))
        h.session.ask("?")
        await h.client.until("response.done")
    consumed = h.client.of("video.frames.consumed")
    assert len(consumed) == 1
    types = h.client.types()
    assert types.index("video.frames.consumed") < types.index("response.text.delta")
    assert consumed[0].frame_ids == ["a", "c"]
    assert [entry.frame_id for entry in consumed[0].frames] == ["a", None, "c"]
    assert consumed[0].latest_pts_ms == 30
    for entry in consumed[0].frames:
        assert entry.receiver_received_ts_ms <= entry.decoded_ready_ts_ms
        assert entry.decoded_ready_ts_ms <= consumed[0].model_selected_ts_ms


async def test_the_marks_of_a_turn_add_up() -> None:
    async with Harness() as h:
        h.session.frame(frame())
        h.session.ask("?")
        timing = (await h.client.until("response.done")).timing
    marks = timing.marks_ms
    assert marks["asked"] == 0
    order = ["asked", "ready", "selected", "submitted", "first_output", "first_text", "done"]
    assert list(marks) == order
    assert sum(s.ms for s in timing.segments) == pytest.approx(timing.total_ms, abs=0.01)


async def test_a_question_waits_for_the_frames_that_came_before_it() -> None:
    config = SessionConfig(num_frames=8, frame_filter="block")
    async with Harness(config=config) as h:
        for seed in range(6):
            h.session.frame(frame(jpeg(seed, width=640, height=480), frame_id=str(seed)))
        h.session.ask("?")
        consumed = await h.client.until("video.frames.consumed")
    assert consumed.frame_ids == list("012345")


async def test_repeated_deltas_survive() -> None:
    async with Harness(ScriptedEngine(lambda r: say("20", "0", "0"))) as h:
        h.session.frame(frame())
        h.session.ask("?")
        done = await h.client.until("response.text.done")
    assert done.text == "2000"


async def test_a_new_question_interrupts_and_the_engine_lets_go_first() -> None:
    engine = ScriptedEngine(lambda r: say("One", " two"), gate=asyncio.Event())
    async with Harness(engine) as h:
        h.session.frame(frame())
        h.session.ask("first")
        await h.client.until("response.text.delta")
        engine.abort_gate = asyncio.Event()
        h.session.ask("second")
        await engine.until("abort")
        assert len(engine.requests) == 1, "the second must wait for the abort"
        engine.gate.set()
        engine.abort_gate.set()
        await h.client.until("response.done")
    first, second = (r.request_id for r in engine.requests)
    assert engine.log[:4] == [
        ("generate", first),
        ("closed", first),
        ("abort", first),
        ("aborted", first),
    ]
    interrupted = h.client.of("response.interrupted")
    assert [(e.request_id, e.reason, e.text) for e in interrupted] == [(first, "new_query", "One")]
    assert [e.request_id for e in h.client.of("response.text.done")] == [second]
    assert engine.aborted == [first]


async def test_three_questions_at_once_leave_only_the_last() -> None:
    async with Harness() as h:
        h.session.frame(frame())
        for text in ("1", "2", "3"):
            h.session.ask(text)
        await h.client.until("response.done")
    assert [e.reason for e in h.client.of("response.interrupted")] == ["new_query"] * 2
    assert [texts(r)[-1] for r in h.engine.requests] == ["3"]
    started = {e.request_id for e in h.client.of("response.start")}
    assert len(started) == 3
    assert not h.client.of("error")


async def test_an_interrupt_during_submission_waits_for_it() -> None:
    engine = ScriptedEngine(submit_gate=asyncio.Event())
    async with Harness(engine) as h:
        h.session.frame(frame())
        h.session.ask("?")
        await engine.until("generate")
        h.session.interrupt()
        for _ in range(20):
            await asyncio.sleep(0)
        assert engine.log == [("generate", engine.requests[0].request_id)]
        engine.submit_gate.set()
        await h.client.until("response.interrupted")
    assert [what for what, _ in engine.log] == ["generate", "closed", "abort", "aborted"]


async def test_what_an_interrupted_answer_said_is_the_history() -> None:
    engine = ScriptedEngine(lambda r: say("One", " two"), gate=asyncio.Event())
    async with Harness(engine) as h:
        h.session.frame(frame())
        h.session.ask("first")
        await h.client.until("response.text.delta")
        h.session.interrupt()
        await h.client.until("response.interrupted")
        engine.gate.set()
        h.session.ask("second")
        await h.client.until("response.done")
    assert texts(engine.requests[1]) == ["first", "One [interrupted]", "second"]


async def test_no_frames_is_an_error_and_keeps_the_audio() -> None:
    async with Harness(ScriptedEngine(info=HEARING)) as h:
        engine = h.engine
        engine.info = EngineInfo("scripted", "script", "")  # deaf at first
        h.session.audio(b"\x01\x00" * 100)
        h.session.ask("What?")
        error = await h.client.until("error")
        assert error.code == "no_frames"
        assert error.request_id == h.client.of("response.start")[0].request_id
        engine.info = HEARING
        h.session.ask("")
        await h.client.until("response.done")
    parts = engine.requests[0].messages[-1].parts
    assert parts == (AudioPart(b"\x01\x00" * 100),)
    assert parts[0].pcm16 == b"\x01\x00" * 100


async def test_an_undecodable_frame_is_reported_and_not_refilled() -> None:
    config = SessionConfig(enable_frame_filter=False, num_frames=2)
    async with Harness(config=config) as h:
        for index in range(5):
            data = BROKEN_JPEG if index == 4 else jpeg(index)
            h.session.frame(frame(data, frame_id=str(index)))
        h.session.ask("?")
        consumed = await h.client.until("video.frames.consumed")
        await h.client.until("response.done")
    assert consumed.frame_ids == ["0"]
    assert len(images(h.engine.requests[0])) == 1
    error = h.client.of("error")[0]
    assert (error.code, error.frame_id) == ("frame_decode_failed", "4")


async def test_an_image_that_the_filter_cannot_read_gets_an_ack_with_a_reason() -> None:
    async with Harness(config=SessionConfig(frame_filter="block")) as h:
        h.session.frame(frame(NOT_AN_IMAGE, frame_id="x"))
        h.session.frame(frame(jpeg(1), frame_id="y"))
        await h.client.until("video.frame.ack", 2)
    bad, good = h.client.of("video.frame.ack")
    assert (bad.frame_id, bad.accepted, bad.reason) == ("x", False, "invalid")
    assert (good.frame_id, good.accepted) == ("y", True)
    assert h.client.of("error")[0].code == "invalid_image"


async def test_filtered_frames_are_counted_and_explained() -> None:
    config = SessionConfig(frame_events=True)
    async with Harness(config=config) as h:
        h.session.frame(frame(jpeg(1, width=320, height=240), frame_id="1"))
        h.session.frame(frame(jpeg(1, width=320, height=240), frame_id="2"))
        await h.client.until("video.frame.decision", 2)
        await h.session.finish()
    first, second = h.client.of("video.frame.decision")
    assert (first.kept, first.reason, second.kept, second.reason) == (True, "first", False, "still")
    assert first.thumbnail
    assert second.thumbnail is None
    stats = h.client.of("video.filter.stats")[0]
    assert (stats.retained, stats.dropped, stats.drop_rate) == (1, 1, 0.5)
    assert h.client.of("video.frame.ack")[1].reason == "filtered"


async def test_eviction_frees_the_picture_unless_a_turn_holds_it() -> None:
    engine = ScriptedEngine(lambda r: say("a", "b"), gate=asyncio.Event())
    config = SessionConfig(enable_frame_filter=False, max_frames=1)
    async with Harness(engine, config) as h:
        h.session.frame(frame(frame_id="A"))
        h.session.ask("?")
        await h.client.until("response.text.delta")
        [held] = h.session._intake.buffer.frames
        h.session.frame(frame(jpeg(1), frame_id="B"))
        ack = await h.client.until("video.frame.ack", 2)
        assert ack.dropped_frame_id == "A"
        assert held.rgb is not None
        engine.gate.set()
        await h.client.until("response.done")
        assert held.rgb is None


async def test_finish_lets_the_answer_end() -> None:
    engine = ScriptedEngine(lambda r: say("a", "b"), gate=asyncio.Event())
    async with Harness(engine) as h:
        h.session.frame(frame())
        h.session.ask("?")
        await h.client.until("response.text.delta")
        finishing = asyncio.create_task(h.session.finish())
        await asyncio.sleep(0)
        engine.gate.set()
        await finishing
    assert h.client.types()[-3:] == ["response.done", "video.filter.stats", "session.done"]
    assert engine.forgotten == [h.session.session_id]


async def test_close_interrupts_and_aborts() -> None:
    engine = ScriptedEngine(lambda r: say("a", "b"), gate=asyncio.Event())
    async with Harness(engine) as h:
        h.session.frame(frame())
        h.session.ask("?")
        await h.client.until("response.text.delta")
    assert engine.aborted == [engine.requests[0].request_id]
    assert h.client.of("response.interrupted")[0].reason == "closed"


async def test_native_audio_is_sent_as_wav() -> None:
    engine = ScriptedEngine(lambda r: [tone(0.1), *say("Beep")], info=SPEAKING)
    async with Harness(engine) as h:
        h.session.frame(frame())
        h.session.ask("?")
        await h.client.until("response.done")
    audio = h.client.of("response.output_audio.delta")[0]
    assert audio.payload()["format"] == "wav"
    assert len(audio.pcm16) == 2 * 2400
    types = h.client.types()
    assert types.index("response.text.done") < types.index("response.output_audio.done")
    assert engine.requests[0].modalities == ("text", "audio")


async def test_warm_up_shows_new_frames_and_gives_way_to_a_question() -> None:
    engine = ScriptedEngine(info=CACHING)
    config = SessionConfig(enable_frame_filter=False, modalities=["text"])
    async with Harness(engine, config) as h:
        h.session.frame(frame(frame_id="a"))
        await engine.until("generate")
        warmup = engine.requests[0]
        assert warmup.request_id.startswith("video-warmup-")
        assert warmup.prefill_only
        assert warmup.max_tokens == 1
        h.session.ask("?")
        await h.client.until("response.done")
        question = next(r for r in engine.requests if not r.prefill_only)
        assert [i.content_id for i in images(warmup)] == [i.content_id for i in images(question)]
        assert question.use_audio_in_video == warmup.use_audio_in_video


async def test_native_speech_never_warms_up() -> None:
    info = EngineInfo(
        "s", "s", "", prefix_caching=True, output_modalities=frozenset({"text", "audio"})
    )
    async with Harness(ScriptedEngine(info=info)) as h:
        h.session.frame(frame())
        h.session.ask("?")
        await h.client.until("response.done")
        assert not any(r.prefill_only for r in h.engine.requests)


async def test_incremental_sessions_drop_the_oldest_half() -> None:
    config = SessionConfig(enable_frame_filter=False, max_frames=4, modalities=["text"])
    async with Harness(ScriptedEngine(info=CACHING), config) as h:
        for index in range(5):
            h.session.frame(frame(jpeg(index), frame_id=str(index)))
        h.session.ask("?")
        consumed = await h.client.until("video.frames.consumed")
    assert consumed.frame_ids == ["2", "3", "4"]


async def test_a_stuck_engine_is_given_up_on() -> None:
    engine = ScriptedEngine(submit_gate=asyncio.Event())
    limits = SessionLimits(submit_s=0.05, abort_s=0.05)
    async with Harness(engine, NO_FILTER, limits=limits) as h:
        h.session.frame(frame())
        h.session.ask("?")
        error = await h.client.until("error")
        assert error.code == "engine_timeout"
        engine.submit_gate = None
        h.session.ask("again")
        await h.client.until("response.done")


async def test_an_engine_that_raises_ends_only_the_turn() -> None:
    def broken(request: object) -> list[object]:
        raise RuntimeError("boom")

    engine = ScriptedEngine(broken)  # type: ignore[arg-type]
    async with Harness(engine) as h:
        h.session.frame(frame())
        h.session.ask("?")
        error = await h.client.until("error")
        assert error.code == "engine_failed"
        engine.answer = lambda r: say("fine")
        h.session.ask("again")
        await h.client.until("response.done")


@pytest.mark.parametrize(
    ("status", "code"), [("loading", "engine_loading"), ("failed", "engine_failed")]
)
async def test_a_question_before_the_engine_is_ready(status: str, code: str) -> None:
    engine = ScriptedEngine(status=EngineHealth(status, "weights 2 of 4"))  # type: ignore[arg-type]
    async with Harness(engine) as h:
        h.session.frame(frame())
        h.session.ask("?")
        error = await h.client.until("error")
        assert error.code == code
        assert "weights 2 of 4" in error.message
        engine.status = EngineHealth("ready")
        h.session.ask("?")
        await h.client.until("response.done")


async def test_a_session_without_an_engine_says_so() -> None:
    async with Harness(engine=None) as h:
        h.session.ask("?")
        error = await h.client.until("error")
    assert error.message == "Streaming video requires an engine client"


async def test_bad_sampling_parameters_fail_the_turn_only() -> None:
    config = SessionConfig(enable_frame_filter=False, sampling_params_list=[{"temperature": -1}])
    async with Harness(config=config) as h:
        assert (await h.client.until("error")).code == "invalid_sampling_params"
        h.session.frame(frame())
        h.session.ask("?")
        assert (await h.client.until("error", 2)).request_id
        assert not h.engine.requests
        h.session.update({"sampling_params_list": [{"temperature": 0.5}]})
        h.session.ask("?")
        await h.client.until("response.done")
    [params] = h.engine.requests[0].sampling
    assert params is not None
    assert (params.temperature, params.top_p, params.output_kind) == (0.5, 1.0, "delta")


async def test_update_changes_only_what_it_names() -> None:
    async with Harness() as h:
        h.session.update({"num_frames": 2, "system_prompt": "Be brief."})
        updated = await h.client.until("session.updated")
        assert (updated.config.num_frames, updated.config.max_frames) == (2, 50)
        h.session.update({"num_frames": 0})
        assert (await h.client.until("error")).code == "invalid_field"
        h.session.update({"nonsense": 1})
        assert "nonsense" in (await h.client.until("error", 2)).message
        h.session.frame(frame())
        h.session.ask("?")
        await h.client.until("response.done")
    assert texts(h.engine.requests[0])[0] == "Be brief."


async def test_audio_overflow_empties_the_buffer() -> None:
    limits = SessionLimits(audio_bytes=100)
    async with Harness(ScriptedEngine(info=HEARING), NO_FILTER, limits=limits) as h:
        h.session.audio(b"\0" * 80)
        h.session.audio(b"\0" * 80)
        assert (await h.client.until("error")).code == "audio_overflow"
        h.session.frame(frame())
        h.session.ask("?")
        await h.client.until("response.done")
    assert not any(isinstance(p, AudioPart) for p in h.engine.requests[0].messages[-1].parts)


async def test_too_many_frames_waiting_give_way_to_the_newest() -> None:
    limits = SessionLimits(media_queue=2)
    async with Harness(config=NO_FILTER, limits=limits) as h:
        for index in range(5):
            h.session.frame(frame(jpeg(index), frame_id=str(index)))
        await h.client.until("video.frame.ack", 5)
    refused = [a.frame_id for a in h.client.of("video.frame.ack") if a.reason == "overload"]
    assert refused == ["0", "1", "2"]


async def test_deltas_off_sends_the_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_VIDEO_ASYNC_CHUNK", " OFF ")
    async with Harness(ScriptedEngine(lambda r: say("a", "b"))) as h:
        h.session.frame(frame())
        h.session.ask("?")
        await h.client.until("response.done")
    assert not h.client.of("response.text.delta")
    assert h.client.of("response.text.done")[0].text == "ab"


async def test_two_sessions_never_share_a_content_id() -> None:
    ids = []
    for _ in range(2):
        async with Harness() as h:
            h.session.frame(frame(jpeg(7)))
            h.session.ask("?")
            await h.client.until("response.done")
            ids.append(images(h.engine.requests[0])[0].content_id)
    assert ids[0] != ids[1]
