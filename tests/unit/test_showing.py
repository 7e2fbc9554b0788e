"""What a session shows the engine: layouts, and what happens when the model takes less."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from core.engines.base import EngineInfo, EngineOutput, EngineRequest, EngineUsage
from core.errors import PromptTooLong
from core.protocol import SessionConfig
from tests.fakes import Harness, ScriptedEngine, frame, images, jpeg, say, texts

pytestmark = pytest.mark.unit

CACHING = EngineInfo("scripted", "script", "", prefix_caching=True)
PLAIN = EngineInfo("scripted", "script", "")


def config(**fields: Any) -> SessionConfig:
    return SessionConfig(enable_frame_filter=False, modalities=["text"], **fields)


async def show(h: Harness, *seeds: int) -> None:
    """Send frames and wait until all are in the buffer, decoded."""
    before = len(h.client.of("video.frame.ack"))
    for seed in seeds:
        h.session.frame(frame(jpeg(seed), frame_id=str(seed)))
        await h.client.until("video.frame.ack", before + seeds.index(seed) + 1)
    for kept in h.session._intake.buffer.frames:
        await kept.decoded.wait()


async def ask(h: Harness, text: str) -> None:
    done = len(h.client.of("response.done"))
    h.session.ask(text)
    await h.client.until("response.done", done + 1)


def questions(engine: ScriptedEngine) -> list[EngineRequest]:
    return [request for request in engine.requests if not request.prefill_only]


@pytest.mark.parametrize(
    ("info", "fields", "chronological"),
    [
        (CACHING, {}, True),
        (CACHING, {"context_layout": "window"}, False),
        (PLAIN, {}, False),
        (PLAIN, {"context_layout": "chronological"}, True),
    ],
)
async def test_chronological_where_it_saves_prefilling_or_is_asked_for(
    info: EngineInfo, fields: dict[str, Any], chronological: bool
) -> None:
    engine = ScriptedEngine(info=info)
    async with Harness(engine, config(**fields)) as h:
        await show(h, 0, 1)
        await ask(h, "one?")
        await show(h, 2)
        await ask(h, "two?")
    last = questions(engine)[-1]
    assert [message.role for message in last.messages] == ["user", "assistant", "user"]
    in_first = sum(part in last.messages[0].parts for part in images(last))
    assert in_first == (2 if chronological else 0)
    assert len(images(last)) == 3
    assert texts(last) == ["one?", "Yes.", "two?"]


async def test_the_consumed_event_lists_the_frames_of_the_prompt() -> None:
    async with Harness(ScriptedEngine(info=CACHING), config()) as h:
        await show(h, 0, 1)
        await ask(h, "one?")
        await show(h, 2)
        await ask(h, "two?")
    assert [e.frame_ids for e in h.client.of("video.frames.consumed")] == [
        ["0", "1"],
        ["0", "1", "2"],
    ]


async def test_frames_that_come_during_an_answer_stand_behind_it() -> None:
    engine = ScriptedEngine(lambda r: say("a", "b"), info=CACHING, gate=asyncio.Event())
    async with Harness(engine, config()) as h:
        engine.gate.set()  # type: ignore[union-attr]
        await show(h, 0)
        engine.gate.clear()  # type: ignore[union-attr]
        h.session.ask("one?")
        await h.client.until("response.text.delta")
        await show(h, 1)
        engine.gate.set()  # type: ignore[union-attr]
        await h.client.until("response.done")
        await ask(h, "two?")
    first, _, last = questions(engine)[-1].messages
    assert len(images(replace(questions(engine)[-1], messages=(first,)))) == 1
    assert len(images(replace(questions(engine)[-1], messages=(last,)))) == 1


async def test_an_interrupted_answer_stays_as_what_was_got() -> None:
    hold = asyncio.Event()
    engine = ScriptedEngine(lambda r: say("It is", " a cat"), info=CACHING, gate=hold)
    async with Harness(engine, config()) as h:
        hold.set()
        await show(h, 0)
        hold.clear()
        h.session.ask("one?")
        await h.client.until("response.text.delta")
        h.session.interrupt()
        await h.client.until("response.interrupted")
        hold.set()
        await ask(h, "two?")
    assert texts(questions(engine)[-1]) == ["one?", "It is [interrupted]", "two?"]


async def test_half_of_the_frames_leave_at_once_with_their_exchanges() -> None:
    engine = ScriptedEngine(info=CACHING)
    async with Harness(engine, config(max_frames=4)) as h:
        await show(h, 0, 1)
        await ask(h, "one?")
        await show(h, 2, 3)
        await ask(h, "two?")
        await show(h, 4)
        await ask(h, "three?")
    trimmed = h.client.of("context.trimmed")
    assert [(t.reason, t.frames, t.exchanges, t.frames_left) for t in trimmed] == [
        ("max_frames", 2, 1, 3)
    ]
    assert trimmed[0].message == (
        "The oldest 2 frames and 1 question have left what the model is shown: this session "
        "keeps 4 frames."
    )
    last = questions(engine)[-1]
    assert len(images(last)) == 3
    line, *rest = texts(last)
    assert line.startswith("[")
    assert 's is no longer shown: 2 frames. Asked: "one?" Answered: "Yes.".]' in line
    assert rest == ["two?", "Yes.", "three?"]


async def test_a_window_slides_without_a_word() -> None:
    engine = ScriptedEngine(info=CACHING)
    async with Harness(engine, config(max_frames=2, context_layout="window")) as h:
        await show(h, 0, 1, 2)
        await ask(h, "?")
    assert not h.client.of("context.trimmed")
    assert texts(questions(engine)[-1]) == ["?"]


async def test_an_engine_that_remembers_has_lost_nothing() -> None:
    engine = ScriptedEngine(info=replace(CACHING, remembers=True))
    async with Harness(engine, config(max_frames=2)) as h:
        await show(h, 0, 1, 2)
        await ask(h, "?")
    assert not h.client.of("context.trimmed")


@pytest.mark.parametrize("info", [CACHING, PLAIN])
async def test_no_more_images_than_the_model_takes(info: EngineInfo) -> None:
    engine = ScriptedEngine(info=replace(info, images_per_prompt=2))
    async with Harness(engine, config(num_frames=4)) as h:
        await show(h, 0, 1, 2, 3, 4)
        await ask(h, "?")
    assert all(len(images(request)) <= 2 for request in engine.requests)
    assert h.client.of("video.frames.consumed")[0].frame_ids[-1] == "4"
    reasons = {event.reason for event in h.client.of("context.trimmed")}
    assert reasons == ({"images_per_prompt"} if info is CACHING else set())


async def test_what_the_model_takes_is_asked_anew_once_it_is_loaded() -> None:
    engine = ScriptedEngine(info=CACHING)
    async with Harness(engine, config()) as h:
        await show(h, 0, 1, 2, 3)
        engine.info = replace(CACHING, images_per_prompt=2)
        await ask(h, "?")
    assert len(images(questions(engine)[-1])) == 2
    assert "it takes 2 images" in h.client.of("context.trimmed")[0].message


def limited(max_images: int, *, counts: str = "all") -> ScriptedEngine:
    """An engine that takes so many images, and says so only when it is asked."""

    def answer(request: EngineRequest) -> list[EngineOutput]:
        count = len(images(request))
        if count > max_images and (counts == "all" or not request.prefill_only):
            raise PromptTooLong(f"{count} images, the model takes {max_images}")
        return [EngineOutput(text_delta="Yes."), EngineOutput(usage=EngineUsage(count, 0))]

    return ScriptedEngine(answer, info=replace(CACHING, context_tokens=100))


async def test_a_prompt_that_is_too_long_loses_its_oldest_half_and_never_the_turn() -> None:
    engine = limited(2, counts="questions")
    async with Harness(engine, config()) as h:
        await show(h, 0, 1, 2, 3, 4, 5, 6)
        await ask(h, "?")
        consumed = h.client.of("video.frames.consumed")
        await ask(h, "and now?")
    assert [len(images(request)) for request in questions(engine)] == [7, 4, 2, 2]
    assert [event.frame_ids for event in consumed] == [["5", "6"]]
    trimmed = h.client.of("context.trimmed")
    assert [(t.reason, t.frames) for t in trimmed] == [("context_tokens", 5)]
    assert "it takes 100 tokens" in trimmed[0].message
    assert not h.client.of("error")


async def test_a_warm_up_finds_out_before_the_question_does() -> None:
    engine = limited(4)
    async with Harness(engine, config()) as h:
        await show(h, 0, 1, 2, 3)
        await engine.until("closed")
        await show(h, 4)
        await h.client.until("context.trimmed")
        await ask(h, "?")
    assert [len(images(request)) for request in questions(engine)] == [3]
    assert not h.client.of("error")


async def test_one_frame_that_is_too_long_is_a_clear_error_and_the_session_lives() -> None:
    engine = limited(0)
    async with Harness(engine, config()) as h:
        await show(h, 0)
        h.session.ask("?")
        error = await h.client.until("error")
        assert error.code == "prompt_too_long"
        assert error.request_id == questions(engine)[0].request_id
        h.session.update({"num_frames": 2})
        await h.client.until("session.updated")


async def test_a_window_of_sampled_frames_is_halved_for_this_question_only() -> None:
    engine = limited(1)
    engine.info = PLAIN
    async with Harness(engine, config(num_frames=4)) as h:
        await show(h, 0, 1, 2, 3)
        await ask(h, "?")
        await show(h, 4)
        await ask(h, "?")
    assert [len(images(request)) for request in questions(engine)] == [4, 2, 1, 4, 2, 1]
    assert [event.frame_ids for event in h.client.of("video.frames.consumed")] == [["3"], ["4"]]


async def test_an_interrupt_ends_the_search_for_a_prompt_that_fits() -> None:
    engine = limited(1)
    gate = asyncio.Event()
    engine.info = PLAIN
    engine.submit_gate = gate
    async with Harness(engine, config(num_frames=4)) as h:
        await show(h, 0, 1, 2, 3)
        h.session.ask("?")
        await engine.until("generate")
        h.session.interrupt()
        gate.set()
        await h.client.until("response.interrupted")
    assert len(engine.requests) == 1
    assert not h.client.of("error")
