"""Questions first: no warm-up goes to the engine while a question waits for it."""

import asyncio

import pytest

from core.context import Context
from core.engines.base import EngineInfo, EngineOutput, EngineRequest, EngineUsage
from core.gate import QuestionGate
from core.limits import SessionLimits
from core.protocol import SessionConfig
from core.warmup import Warmup, WarmupState
from tests.fakes import WAIT_S, Harness, ScriptedEngine, frame, jpeg, say

pytestmark = pytest.mark.unit

CACHING = EngineInfo("scripted", "script", "", prefix_caching=True)
TEXT_ONLY = SessionConfig(enable_frame_filter=False, modalities=["text"])


def warmup(engine: ScriptedEngine, gate: QuestionGate) -> Warmup:
    return Warmup(
        engine,
        gate,
        SessionLimits(),
        context=Context,
        request=lambda context: EngineRequest("video-warmup-1", "s", (), prefill_only=True),
    )


async def test_it_opens_when_the_last_question_has_been_heard() -> None:
    gate = QuestionGate()
    gate.enter("a")
    gate.enter("b")
    waiting = asyncio.create_task(gate.opened())
    gate.leave("a")
    gate.leave("a")
    await asyncio.sleep(0)
    assert gate.closed
    assert not waiting.done()
    gate.leave("b")
    async with asyncio.timeout(WAIT_S):
        await waiting
    assert not gate.closed


async def test_a_warm_up_waits_for_the_question_of_another_session() -> None:
    engine, gate = ScriptedEngine(), QuestionGate()
    gate.enter("somebody's question")
    work = warmup(engine, gate)
    running = asyncio.create_task(work.run())
    for _ in range(5):
        await asyncio.sleep(0)
    assert work.state is WarmupState.WAITING
    assert engine.requests == []
    gate.leave("somebody's question")
    async with asyncio.timeout(WAIT_S):
        await running
    assert work.state is WarmupState.DONE


async def test_one_that_waits_can_be_stopped() -> None:
    engine, gate = ScriptedEngine(), QuestionGate()
    gate.enter("somebody's question")
    work = warmup(engine, gate)
    running = asyncio.create_task(work.run())
    await asyncio.sleep(0)
    work.stop()
    async with asyncio.timeout(WAIT_S):
        await running
    assert engine.requests == []


async def test_one_that_runs_is_called_back() -> None:
    engine, gate = ScriptedEngine(lambda r: say("a", "b"), gate=asyncio.Event()), QuestionGate()
    work = warmup(engine, gate)
    running = asyncio.create_task(work.run())
    await engine.until("generate")
    gate.enter("somebody's question")
    async with asyncio.timeout(WAIT_S):
        await running
    assert work.state is WarmupState.STOPPED
    assert engine.aborted == ["video-warmup-1"]


async def test_between_sessions_a_warm_up_never_goes_ahead_of_a_waiting_question() -> None:
    """The question waits for its first output; then the other session's warm-up may begin."""
    gate = QuestionGate()
    engine = ScriptedEngine(lambda r: say("a", "b"), info=CACHING, submit_gate=asyncio.Event())
    async with (
        Harness(engine, TEXT_ONLY, gate=gate) as asking,
        Harness(engine, TEXT_ONLY, gate=gate) as watching,
    ):
        asking.session.frame(frame())
        await engine.until("generate")
        asking.session.ask("What is it?")
        await asking.client.until("response.start")
        watching.session.frame(frame(jpeg(1)))
        await watching.client.until("video.frame.ack")
        engine.submit_gate.set()  # type: ignore[union-attr]
        await asking.client.until("response.done")
        await engine.until("generate", 3)
    kinds = [request.prefill_only for request in engine.requests[:3]]
    assert kinds == [True, False, True]
    assert not gate.closed


async def test_a_stopped_warm_up_is_taken_up_again_with_the_newest_frames() -> None:
    gate = QuestionGate()
    hold = asyncio.Event()
    engine = ScriptedEngine(lambda r: say("a", "b"), info=CACHING, gate=hold)
    async with Harness(engine, TEXT_ONLY, gate=gate) as h:
        h.session.frame(frame())
        await engine.until("generate")
        gate.enter("somebody's question")
        await engine.until("aborted")
        h.session.frame(frame(jpeg(1)))
        await h.client.until("video.frame.ack", 2)
        await h.session._intake.buffer.frames[1].decoded.wait()
        hold.set()
        gate.leave("somebody's question")
        await engine.until("closed", 2)
    last = engine.requests[-1]
    assert last.prefill_only
    assert len(last.messages[-1].parts) == 2


@pytest.mark.parametrize("how", ["fails", "is cancelled", "is closed"])
async def test_a_question_never_leaves_the_gate_shut_behind_it(how: str) -> None:
    gate = QuestionGate()
    hold = asyncio.Event()

    def answer(request: EngineRequest) -> list[EngineOutput]:
        if how == "fails":
            raise RuntimeError("boom")
        return [EngineOutput(usage=EngineUsage(1, 0))]

    engine = ScriptedEngine(answer, info=CACHING, submit_gate=hold)
    async with Harness(engine, TEXT_ONLY, gate=gate) as h:
        h.session.frame(frame())
        h.session.ask("?")
        await h.client.until("response.start")
        assert gate.closed
        if how == "is cancelled":
            h.session.interrupt()
            await h.client.until("response.interrupted")
        hold.set()
        if how == "fails":
            await h.client.until("error")
    assert not gate.closed
