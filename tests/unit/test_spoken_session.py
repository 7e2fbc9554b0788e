"""A session that listens and speaks: turns of speech, barge-in, backchannels, what was heard."""

import asyncio

import pytest

from core.engines.base import AudioPart, EngineInfo
from core.protocol import SessionConfig, TurnDetection
from core.speech.kit import PartStatus
from tests.fakes import (
    Harness,
    HeldPlayback,
    ScriptedEngine,
    ScriptedRecogniser,
    frame,
    images,
    say,
    scripted_kit,
    sound,
    texts,
    tone,
)

pytestmark = pytest.mark.unit

LISTENING = SessionConfig(enable_frame_filter=False, turn_detection=TurnDetection())
PUSH_TO_TALK = SessionConfig(
    enable_frame_filter=False, turn_detection=TurnDetection(type="push_to_talk")
)
SPEAKING = EngineInfo("s", "s", "", output_modalities=frozenset({"text", "audio"}))
HEARING = EngineInfo("s", "s", "", input_modalities=frozenset({"text", "image", "audio"}))
SPEECH = sound(1.0, loud=True) + sound(0.7, loud=False)
STORY = "One two three four five six seven. Eight nine ten eleven twelve thirteen."


async def test_what_is_said_is_asked() -> None:
    async with Harness(config=LISTENING, kit=scripted_kit("What is this?")) as h:
        h.session.frame(frame())
        h.session.audio(SPEECH)
        done = await h.client.until("response.done")
    types = h.client.types()
    order = [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "conversation.item.input_audio_transcription.completed",
        "response.start",
    ]
    assert [t for t in types if t in order] == order
    start = h.client.of("response.start")[0]
    assert start.question == "What is this?"
    assert start.item_id == h.client.of(order[0])[0].item_id
    assert texts(h.engine.requests[0])[-1] == "What is this?"
    marks = done.timing.marks_ms
    assert marks["speech_end"] < marks["turn_end"] <= marks["asked"] == 0
    assert sum(s.ms for s in done.timing.segments) == pytest.approx(done.timing.total_ms, abs=0.1)


async def test_a_cough_asks_nothing() -> None:
    async with Harness(config=LISTENING, kit=scripted_kit("x")) as h:
        h.session.audio(sound(0.1, loud=True) + sound(1.0, loud=False))
        h.session.audio(SPEECH)
        await h.client.until("response.start")
    assert len(h.client.of("input_audio_buffer.speech_started")) == 1


async def test_speech_without_words_asks_nothing() -> None:
    async with Harness(config=LISTENING, kit=scripted_kit("", "Hello?")) as h:
        h.session.frame(frame())
        h.session.audio(SPEECH)
        await h.client.until("conversation.item.input_audio_transcription.completed")
        h.session.audio(SPEECH)
        await h.client.until("response.start")
    assert [e.question for e in h.client.of("response.start")] == ["Hello?"]


async def test_an_engine_that_hears_gets_the_audio() -> None:
    engine = ScriptedEngine(info=HEARING)
    async with Harness(engine, LISTENING, kit=scripted_kit("What is this?")) as h:
        h.session.frame(frame())
        h.session.audio(SPEECH)
        await h.client.until("response.done")
    kinds = [type(part).__name__ for part in engine.requests[0].messages[-1].parts]
    assert kinds == ["ImagePart", "AudioPart"]
    assert h.client.of("response.start")[0].question == "What is this?"


async def test_an_engine_that_hears_needs_no_recogniser() -> None:
    engine = ScriptedEngine(info=HEARING)
    async with Harness(engine, LISTENING, kit=scripted_kit()) as h:
        h.session.frame(frame())
        h.session.audio(SPEECH)
        await h.client.until("response.done")
    assert isinstance(engine.requests[0].messages[-1].parts[-1], AudioPart)


async def test_push_to_talk() -> None:
    async with Harness(config=PUSH_TO_TALK, kit=scripted_kit("Held.")) as h:
        h.session.frame(frame())
        h.session.audio(SPEECH)
        h.session.begin_speech()
        h.session.audio(sound(0.4, loud=True))
        await asyncio.sleep(0.01)
        h.session.end_speech()
        await h.client.until("response.done")
        h.session.end_speech()
        assert (await h.client.until("error")).code == "empty_question"
    assert [e.question for e in h.client.of("response.start")] == ["Held."]


async def test_audio_in_a_query_is_recognised_for_a_deaf_engine() -> None:
    async with Harness(kit=scripted_kit("What colour?")) as h:
        h.session.frame(frame())
        h.session.audio(sound(1.0, loud=True))
        h.session.ask("")
        done = await h.client.until("response.done")
    assert texts(h.engine.requests[0])[-1] == "What colour?"
    assert "recognised" in done.timing.marks_ms


async def test_audio_alone_starts_nothing_unless_asked_to() -> None:
    async with Harness(kit=scripted_kit("x")) as h:
        h.session.audio(SPEECH)
        h.session.frame(frame())
        await h.client.until("video.frame.ack")
    assert "response.start" not in h.client.types()
    assert "input_audio_buffer.speech_started" not in h.client.types()


async def test_without_a_recogniser_a_deaf_engine_says_so() -> None:
    async with Harness() as h:
        h.session.frame(frame())
        h.session.ask("", sound(1.0, loud=True))
        assert (await h.client.until("error")).code == "recognition_unavailable"


async def test_the_answer_is_spoken_and_the_text_is_done_first() -> None:
    async with Harness(
        ScriptedEngine(lambda r: say("It is a cup.")), kit=scripted_kit(voice=True)
    ) as h:
        h.session.frame(frame())
        h.session.ask("?")
        done = await h.client.until("response.done")
    types = h.client.types()
    assert types.index("response.text.done") < types.index("response.output_audio.done")
    spoken = h.client.of("response.output_audio.delta")
    assert {e.sample_rate_hz for e in spoken} == {24_000}
    assert sum(e.duration_s for e in spoken) == pytest.approx(12 * 0.06, abs=0.5)
    assert "first_audio" in done.timing.marks_ms


async def test_text_only_sessions_are_not_spoken_to() -> None:
    config = SessionConfig(enable_frame_filter=False, modalities=["text"])
    async with Harness(config=config, kit=scripted_kit(voice=True)) as h:
        h.session.frame(frame())
        h.session.ask("?")
        await h.client.until("response.done")
    assert not h.client.of("response.output_audio.delta")


async def speaking(h: Harness, playback: HeldPlayback) -> None:
    """Until an answer is being spoken."""
    h.session.frame(frame())
    h.session.ask("Tell me")
    await h.client.until("response.text.done")
    await playback.until_played()


async def test_speech_hushes_at_once_and_interrupts_when_it_is_more_than_a_word() -> None:
    playback = HeldPlayback()
    engine = ScriptedEngine(lambda r: say(STORY))
    kit = scripted_kit("And now?", voice=True)
    async with Harness(engine, LISTENING, kit=kit, playback=playback) as h:
        await speaking(h, playback)
        playback.played_s = 0.8
        h.session.audio(sound(1.0, loud=True))
        event = await h.client.until("response.interrupted")
        assert event.reason == "speech"
        assert playback.calls.index("pause") < playback.calls.index("flush")
        assert STORY.startswith(event.heard_text)
        assert 0 < len(event.heard_text) < len(STORY)
        h.session.audio(sound(0.7, loud=False))
        await h.client.until("response.start", 2)
        await engine.until("generate", 2)
        heard = event.heard_text
    assert f"{heard} [interrupted]" in texts(engine.requests[1])


async def test_a_backchannel_does_not_interrupt() -> None:
    playback = HeldPlayback()
    kit = scripted_kit("Mhm.", voice=True)
    async with Harness(
        ScriptedEngine(lambda r: say(STORY)), LISTENING, kit=kit, playback=playback
    ) as h:
        await speaking(h, playback)
        h.session.audio(sound(1.0, loud=False) + sound(0.42, loud=True) + sound(0.7, loud=False))
        stopped = await h.client.until("input_audio_buffer.speech_stopped")
        assert stopped.backchannel
        await asyncio.sleep(0)
        assert "resume" in playback.calls
        assert not h.client.of("response.interrupted")
        assert len(h.client.of("response.start")) == 1


async def test_a_broken_voice_leaves_the_text() -> None:
    kit = scripted_kit(voice=True)

    def fail(text: str, speed: float = 1.0) -> None:
        raise RuntimeError("hoarse")

    kit._voices["hum"].speak = fail  # type: ignore[method-assign, assignment]
    async with Harness(ScriptedEngine(lambda r: say("Text.")), kit=kit) as h:
        h.session.frame(frame())
        h.session.ask("?")
        await h.client.until("response.done")
    assert h.client.of("error")[0].code == "speech_failed"
    assert h.client.of("response.text.done")[0].text == "Text."
    assert images(h.engine.requests[0])


async def test_a_click_hushes_for_a_moment_only() -> None:
    playback = HeldPlayback()
    kit = scripted_kit("x", voice=True)
    engine = ScriptedEngine(lambda r: say(STORY))
    async with Harness(engine, LISTENING, kit=kit, playback=playback) as h:
        await speaking(h, playback)
        h.session.audio(sound(1.0, loud=False) + sound(0.1, loud=True) + sound(0.3, loud=False))
        h.session.frame(frame(frame_id="after"))
        await h.client.until("video.frame.ack", 2)
        assert [call for call in playback.calls if call != "play"][-2:] == ["pause", "resume"]
        assert not h.client.of("input_audio_buffer.speech_started")
        assert not h.client.of("response.interrupted")


async def test_ears_that_come_later_are_asked_for_again() -> None:
    kit = scripted_kit()
    kit.status["recognition"] = PartStatus("loading")
    async with Harness(config=LISTENING, kit=kit) as h:
        assert (await h.client.until("error")).code == "recognition_loading"
        kit._recogniser = ScriptedRecogniser("Now?")
        h.session.update({"turn_detection": {"type": "server_vad"}})
        h.session.frame(frame())
        await h.client.until("session.updated")
        h.session.audio(SPEECH)
        assert (await h.client.until("response.start")).question == "Now?"


async def test_a_change_of_mode_drops_no_question_that_was_asked() -> None:
    async with Harness(config=LISTENING, kit=scripted_kit("Asked.")) as h:
        h.session.frame(frame())
        h.session.audio(SPEECH)
        await h.client.until("input_audio_buffer.speech_stopped")
        h.session.update({"turn_detection": {"type": "push_to_talk"}})
        assert (await h.client.until("response.start")).question == "Asked."
        h.session.update({"turn_detection": {"type": "server_vad"}})
        h.session.audio(sound(0.5, loud=True))
        await h.client.until("input_audio_buffer.speech_started", 2)
        h.session.update({"turn_detection": None})
        completed = "conversation.item.input_audio_transcription.completed"
        assert (await h.client.until(completed, 2)).transcript == ""


async def test_a_short_question_is_answered_aloud() -> None:
    """Shorter than a backchannel, but nothing was being said: it is a question."""
    playback = HeldPlayback()
    config = LISTENING
    kit = scripted_kit("Why?", voice=True)
    async with Harness(
        ScriptedEngine(lambda r: say(STORY)), config, kit=kit, playback=playback
    ) as h:
        h.session.frame(frame())
        h.session.audio(sound(0.4, loud=True) + sound(0.7, loud=False))
        await playback.until_played()
        assert not playback.paused


async def test_a_pause_inside_a_question_leaves_nothing_paused() -> None:
    playback = HeldPlayback()
    kit = scripted_kit("Long question?", voice=True)
    async with Harness(
        ScriptedEngine(lambda r: say(STORY)), LISTENING, kit=kit, playback=playback
    ) as h:
        h.session.frame(frame())
        h.session.audio(sound(1, loud=True) + sound(0.3, loud=False) + SPEECH)
        await playback.until_played()
        assert not playback.paused


async def test_push_to_talk_hears_all_that_came_before_its_end() -> None:
    kit = scripted_kit("Held.")
    async with Harness(config=PUSH_TO_TALK, kit=kit) as h:
        h.session.frame(frame())
        h.session.begin_speech()
        for _ in range(10):
            h.session.audio(sound(0.1, loud=True))
        h.session.end_speech()
        await h.client.until("response.done")
    assert len(kit._recogniser.given[-1]) >= 10 * 3200


async def test_each_turn_of_speech_keeps_its_own_item() -> None:
    async with Harness(config=LISTENING, kit=scripted_kit("One?", "Two?")) as h:
        h.session.frame(frame())
        h.session.audio(SPEECH + SPEECH)
        await h.client.until("response.start", 2)
        started = [e.item_id for e in h.client.of("input_audio_buffer.speech_started")]
        asked = [e.item_id for e in h.client.of("response.start")]
    assert started == asked
    assert len(set(asked)) == 2


async def test_finish_waits_for_a_question_that_is_being_recognised() -> None:
    async with Harness(config=LISTENING, kit=scripted_kit("Last one?")) as h:
        h.session.frame(frame())
        h.session.audio(SPEECH)
        await h.client.until("input_audio_buffer.speech_stopped")
        await h.session.finish()
        assert [e.question for e in h.client.of("response.start")] == ["Last one?"]
        assert h.client.types()[-1] == "session.done"


async def test_finish_asks_what_was_being_said() -> None:
    """A client that plays a recording and says that it is done at once."""
    async with Harness(config=LISTENING, kit=scripted_kit("Cut?")) as h:
        h.session.frame(frame())
        h.session.audio(sound(1, loud=True))
        await h.session.finish()
        assert [e.question for e in h.client.of("response.start")] == ["Cut?"]
        assert h.client.types()[-2:] == ["video.filter.stats", "session.done"]


async def test_an_answer_that_is_still_heard_can_be_interrupted() -> None:
    """The client plays by itself: all was sent, and only the clock says what is left."""
    engine = ScriptedEngine(lambda r: [tone(10.0), *say(STORY)], info=SPEAKING)
    kit = scripted_kit("Stop!")
    async with Harness(engine, LISTENING, kit=kit) as h:
        h.session.frame(frame())
        h.session.ask("Tell me")
        await h.client.until("response.text.done")
        h.session.audio(sound(1.5, loud=False) + sound(1.0, loud=True))
        event = await h.client.until("response.interrupted")
    assert event.reason == "speech"
    assert len(event.heard_text) < len(STORY)


async def test_a_recording_that_is_too_long_is_refused() -> None:
    async with Harness(kit=scripted_kit("x")) as h:
        h.session.frame(frame())
        h.session.ask("", sound(61, loud=True))
        assert (await h.client.until("error")).code == "audio_too_long"


async def test_speaking_is_told_apart_from_writing() -> None:
    engine = ScriptedEngine(lambda r: say("It is a cup."))
    async with Harness(engine, kit=scripted_kit(voice=True)) as h:
        h.session.frame(frame())
        h.session.ask("?")
        timing = (await h.client.until("response.done")).timing
    names = [segment.name for segment in timing.segments]
    assert names[-1] == "speaking"
    assert "streaming" in names
