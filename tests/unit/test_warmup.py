"""Seeing ahead: when the engine is shown frames before anybody asks, and how it stops."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.context import Context
from core.engines.base import EngineInfo, EngineRequest, EngineUsage
from core.errors import EngineError
from core.frames import NO_SOURCE, Frame, FrameInput
from core.gate import QuestionGate
from core.limits import SessionLimits
from core.protocol import SessionConfig
from core.timeline import FrameTimeline
from core.warmup import PrefillLedger, Warmup, WarmupState, warms_up
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


# --- what it cost and saved -----------------------------------------------------------


def test_tokens_are_counted_as_warmed_reused_and_wasted() -> None:
    ledger = PrefillLedger()
    ledger.warmed_up(EngineUsage(prompt_tokens=100, cached_tokens=0))
    ledger.warmed_up(EngineUsage(prompt_tokens=150, cached_tokens=96))
    assert (ledger.warmed, ledger.wasted) == (154, 4)  # 96 to 100 were computed twice
    ledger.asked(EngineUsage(prompt_tokens=160, cached_tokens=128))
    assert (ledger.reused, ledger.computed, ledger.wasted) == (128, 32, 4 + 22)
    ledger.asked(EngineUsage(prompt_tokens=170, cached_tokens=160))
    assert (ledger.reused, ledger.computed, ledger.wasted) == (288, 42, 26)
    assert (ledger.warmups, ledger.context) == (2, 170)


def test_what_was_warmed_for_a_prompt_that_changed_is_wasted() -> None:
    ledger = PrefillLedger()
    ledger.warmed_up(EngineUsage(1000, 0))
    ledger.warmed_up(EngineUsage(600, 0))  # the oldest half was dropped
    assert ledger.wasted == 1000
    ledger.asked(EngineUsage(610, 590))
    assert ledger.wasted == 1010


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 500), st.integers(0, 500))))
def test_nothing_is_wasted_that_was_not_warmed(requests: list[tuple[bool, int, int]]) -> None:
    ledger = PrefillLedger()
    for is_warmup, one, other in requests:
        usage = EngineUsage(max(one, other), min(one, other))
        (ledger.warmed_up if is_warmup else ledger.asked)(usage)
        assert 0 <= ledger.wasted <= ledger.warmed


async def test_the_figures_are_sent_after_each_request() -> None:
    engine = ScriptedEngine(info=replace(CACHING, context_tokens=4096))
    async with Harness(engine, TEXT_ONLY) as h:
        h.session.frame(frame())
        first = await h.client.until("prefill.stats")
        h.session.ask("?")
        second = await h.client.until("prefill.stats", 2)
    assert (first.warmups, first.tokens_warmed, first.tokens_reused) == (1, 6, 0)
    assert (second.tokens_reused, second.tokens_computed) == (4, 6)
    assert (second.context_tokens, second.context_limit) == (10, 4096)


async def test_without_warm_ups_there_are_no_figures() -> None:
    async with Harness() as h:
        h.session.frame(frame())
        h.session.ask("?")
        await h.client.until("response.done")
    assert not h.client.of("prefill.stats")


async def test_frames_are_warmed_up_to_the_first_whose_pixels_are_not_there() -> None:
    """A frame that is decoded late must not be squeezed in before what was warmed already."""
    engine = ScriptedEngine(info=CACHING)
    async with Harness(engine, TEXT_ONLY) as h:
        buffer = h.session._intake.buffer
        h.session.frame(frame(jpeg(0)))
        await engine.until("closed")
        late = held("late")
        buffer.append(late)
        h.session.frame(frame(jpeg(1)))
        await h.client.until("video.frame.ack", 2)
        await buffer.frames[-1].decoded.wait()
        h.session.update({"num_frames": 5})
        await h.client.until("session.updated")
        assert len(engine.requests) == 1
        late.finish_decode(np.zeros((4, 4, 3), np.uint8), 0.0)
        h.session.update({"num_frames": 6})
        await engine.until("closed", 2)
    assert len(images(engine.requests[1])) == 3
