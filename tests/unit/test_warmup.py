"""Seeing ahead: when the engine is shown frames before anybody asks, and how it stops."""

import asyncio

import pytest

from core.context import Context
from core.engines.base import EngineInfo, EngineRequest
from core.errors import EngineError
from core.frames import NO_SOURCE, Frame, FrameInput
from core.gate import QuestionGate
from core.limits import SessionLimits
from core.protocol import SessionConfig
from core.timeline import FrameTimeline
from core.warmup import Warmup, WarmupState, warms_up
from tests.fakes import WAIT_S, Harness, ScriptedEngine, frame, images, jpeg, say, texts

pytestmark = pytest.mark.unit

CACHING = EngineInfo("scripted", "script", "", prefix_caching=True)
TEXT_ONLY = SessionConfig(enable_frame_filter=False, modalities=["text"])


def warmup(engine: ScriptedEngine, frames: list[Frame], gate: QuestionGate | None = None) -> Warmup:
    request = EngineRequest("video-warmup-1", "s", (), prefill_only=True)
    return Warmup(
        engine,
        gate or QuestionGate(),
        SessionLimits(),
        context=lambda: Context(tuple(frames)),
        request=lambda context: request,
    )


def held(name: str) -> Frame:
    return Frame(FrameInput(NO_SOURCE), content_id=name, time_s=0, timeline=FrameTimeline(0))


@pytest.mark.parametrize(
    ("caching", "engine_speaks", "modalities", "expected"),
    [
        (True, False, ["text"], True),
        (True, False, ["text", "audio"], True),  # the voice is ours: the prompt has no talker
        (True, True, ["text"], True),
        (True, True, ["text", "audio"], False),
        (False, False, ["text"], False),
    ],
)
def test_row_40_when_it_is_on(
    caching: bool, engine_speaks: bool, modalities: list[str], expected: bool
) -> None:
    output = frozenset({"text", "audio"}) if engine_speaks else frozenset({"text"})
    info = EngineInfo("e", "m", "", prefix_caching=caching, output_modalities=output)
    assert warms_up(info, modalities) is expected


async def test_frames_are_held_until_it_is_done() -> None:
    engine = ScriptedEngine(lambda r: say("x"), gate=asyncio.Event())
    frames = [held("a"), held("b")]
    work = warmup(engine, frames)
    running = asyncio.create_task(work.run())
    await engine.until("generate")
    assert work.content_ids == {"a", "b"}
    assert all(f.held for f in frames)
    engine.gate.set()  # type: ignore[union-attr]
    async with asyncio.timeout(WAIT_S):
        await running
    assert work.state is WarmupState.DONE
    assert not any(f.held for f in frames)
    assert engine.aborted == []


async def test_rows_36_and_38_stopping_lets_the_engine_go_and_releases() -> None:
    engine = ScriptedEngine(submit_gate=asyncio.Event(), gate=asyncio.Event())
    frames = [held("a")]
    work = warmup(engine, frames)
    running = asyncio.create_task(work.run())
    await engine.until("generate")
    work.stop()
    work.stop()
    assert work.state is WarmupState.STOPPED
    assert [what for what, _ in engine.log] == ["generate"]
    engine.submit_gate.set()  # type: ignore[union-attr]
    async with asyncio.timeout(WAIT_S):
        await running
    assert [what for what, _ in engine.log] == ["generate", "closed", "abort", "aborted"]
    assert work.state is WarmupState.STOPPED
    assert not frames[0].held


async def test_a_failure_is_a_state_and_not_an_exception() -> None:
    def failing(request: EngineRequest) -> list[object]:
        raise EngineError("engine_failed", "no")

    frames = [held("a")]
    work = warmup(ScriptedEngine(failing), frames)  # type: ignore[arg-type]
    async with asyncio.timeout(WAIT_S):
        await work.run()
    assert work.state is WarmupState.FAILED
    work.stop()
    assert work.state is WarmupState.FAILED
    assert not frames[0].held


async def test_one_at_a_time_and_the_newest_state_wins() -> None:
    engine = ScriptedEngine(lambda r: say("x"), info=CACHING, gate=asyncio.Event())
    async with Harness(engine, TEXT_ONLY) as h:
        h.session.frame(frame(jpeg(0), frame_id="0"))
        await engine.until("generate")
        for seed in range(1, 5):
            h.session.frame(frame(jpeg(seed), frame_id=str(seed)))
        await h.client.until("video.frame.ack", 5)
        assert len(engine.requests) == 1
        engine.gate.set()  # type: ignore[union-attr]
        while len(images(engine.requests[-1])) < 5:
            await engine.until("generate", len(engine.requests) + 1)
        shown = [len(images(request)) for request in engine.requests]
    assert shown == sorted(set(shown)), "each shows more than the one before"
    assert all(r.prefill_only and r.max_tokens == 1 for r in engine.requests)


async def test_row_37_a_finished_turn_warms_up_anew() -> None:
    engine = ScriptedEngine(info=CACHING)
    async with Harness(engine, TEXT_ONLY) as h:
        h.session.frame(frame())
        await engine.until("closed")
        h.session.ask("What is it?")
        await h.client.until("response.done")
        await engine.until("generate", 3)
    before, question, after = engine.requests
    assert [r.prefill_only for r in engine.requests] == [True, False, True]
    assert texts(before) == []
    assert texts(question) == ["What is it?"]
    assert texts(after) == ["What is it?", "Yes."]


async def test_row_36_it_is_not_restarted_while_a_question_is_answered() -> None:
    engine = ScriptedEngine(lambda r: say("a", "b"), info=CACHING, gate=asyncio.Event())
    async with Harness(engine, TEXT_ONLY) as h:
        h.session.frame(frame(jpeg(0), frame_id="0"))
        await engine.until("generate")
        h.session.ask("?")
        await h.client.until("response.text.delta")
        h.session.frame(frame(jpeg(1), frame_id="1"))
        await h.client.until("video.frame.ack", 2)
        assert [r.prefill_only for r in engine.requests] == [True, False]
        assert engine.aborted == [engine.requests[0].request_id]
        engine.gate.set()  # type: ignore[union-attr]
        await h.client.until("response.done")


async def test_without_news_the_engine_is_left_alone() -> None:
    engine = ScriptedEngine(info=CACHING)
    async with Harness(engine, TEXT_ONLY) as h:
        h.session.frame(frame())
        await engine.until("closed")
        h.session.update({"num_frames": 2})
        await h.client.until("session.updated")
        h.session.interrupt()
        h.session.update({"num_frames": 3})
        await h.client.until("session.updated", 2)
        assert len(engine.requests) == 1


async def test_a_failed_warm_up_does_not_end_the_session() -> None:
    def answer(request: EngineRequest) -> list[object]:
        if request.prefill_only:
            raise RuntimeError("boom")
        return list(say("Yes."))

    engine = ScriptedEngine(answer, info=CACHING)  # type: ignore[arg-type]
    async with Harness(engine, TEXT_ONLY) as h:
        h.session.frame(frame())
        await engine.until("closed")
        h.session.ask("?")
        assert (await h.client.until("response.text.done")).text == "Yes."
    assert not h.client.of("error")
