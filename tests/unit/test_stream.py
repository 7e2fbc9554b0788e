"""One request's life on an engine: read, stopped, closed and aborted in the right order."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from core.engines.base import EngineOutput, EngineRequest
from core.engines.stream import EngineStream
from core.errors import EngineError
from core.limits import SessionLimits
from tests.fakes import WAIT_S, ScriptedEngine, say

pytestmark = pytest.mark.unit

SHORT_S = 0.05  # a deadline that a test waits for


def stream(engine: ScriptedEngine, **limits: float) -> EngineStream:
    return EngineStream(engine, EngineRequest("r", "s", ()), SessionLimits(**limits))  # type: ignore[arg-type]


def what(engine: ScriptedEngine) -> list[str]:
    return [entry[0] for entry in engine.log]


async def drained(reader: EngineStream) -> list[EngineOutput]:
    outputs = []
    while (output := await reader.next()) is not None:
        outputs.append(output)
    return outputs


async def closed(reader: EngineStream) -> None:
    async with asyncio.timeout(WAIT_S):
        await reader.close()


async def settled() -> None:
    """Let everything that can run now run."""
    for _ in range(20):
        await asyncio.sleep(0)


def gated() -> ScriptedEngine:
    return ScriptedEngine(lambda r: say("One", " two"), gate=asyncio.Event())


async def test_an_answer_that_ends_is_never_aborted() -> None:
    engine = ScriptedEngine(lambda r: say("a", "b"))
    reader = stream(engine)
    outputs = await drained(reader)
    assert [o.text_delta for o in outputs] == ["a", "b", ""]
    assert await reader.next() is None, "the end stays the end"
    await closed(reader)
    assert what(engine) == ["generate", "closed"]


async def test_the_first_output_means_that_the_request_was_accepted() -> None:
    reader = stream(gated())
    assert not reader.request.submitted.is_set()
    await reader.next()
    assert reader.request.submitted.is_set()
    reader.stop()
    await closed(reader)


async def test_stop_ends_a_read_under_way_and_close_aborts_once() -> None:
    engine = gated()
    reader = stream(engine)
    await reader.next()
    reading = asyncio.create_task(reader.next())
    await settled()
    assert not reading.done()
    reader.stop()
    async with asyncio.timeout(WAIT_S):
        assert await reading is None
    await closed(reader)
    await closed(reader)
    assert what(engine) == ["generate", "closed", "abort", "aborted"]
    assert engine.aborted == ["r"]


async def test_stop_between_two_reads() -> None:
    engine = gated()
    reader = stream(engine)
    await reader.next()
    reader.stop()
    assert await reader.next() is None
    await closed(reader)
    assert what(engine) == ["generate", "closed", "abort", "aborted"]


async def test_stopped_before_it_began_the_engine_hears_nothing() -> None:
    engine = ScriptedEngine()
    reader = stream(engine)
    reader.stop()
    assert await reader.next() is None
    await closed(reader)
    assert engine.log == []


async def test_close_waits_for_the_abort_to_be_acknowledged() -> None:
    engine = gated()
    engine.abort_gate = asyncio.Event()
    reader = stream(engine)
    await reader.next()
    reader.stop()
    closing = asyncio.create_task(reader.close())
    await engine.until("abort")
    await settled()
    assert not closing.done()
    engine.abort_gate.set()
    async with asyncio.timeout(WAIT_S):
        await closing


async def test_rows_38_and_39_a_submission_under_way_is_waited_for_before_the_abort() -> None:
    engine = gated()
    engine.submit_gate = asyncio.Event()
    reader = stream(engine)
    reading = asyncio.create_task(reader.next())
    await engine.until("generate")
    reader.stop()
    async with asyncio.timeout(WAIT_S):
        assert await reading is None
    closing = asyncio.create_task(reader.close())
    await settled()
    assert what(engine) == ["generate"]
    engine.submit_gate.set()
    async with asyncio.timeout(WAIT_S):
        await closing
    assert what(engine) == ["generate", "closed", "abort", "aborted"]


async def test_a_submission_that_never_ends_is_given_up_on_without_an_abort() -> None:
    engine = ScriptedEngine(submit_gate=asyncio.Event())
    reader = stream(engine, submit_s=SHORT_S)
    with pytest.raises(EngineError, match="did not accept") as caught:
        await reader.next()
    assert caught.value.code == "engine_timeout"
    await closed(reader)
    assert what(engine) == ["generate", "closed"]


async def test_an_engine_that_stalls_is_given_up_on_and_aborted() -> None:
    engine = gated()
    reader = stream(engine, stall_s=SHORT_S)
    await reader.next()
    with pytest.raises(EngineError, match="stopped answering"):
        await reader.next()
    await closed(reader)
    assert what(engine) == ["generate", "closed", "abort", "aborted"]


async def test_a_stall_after_acceptance_and_before_the_first_output() -> None:
    class Silent(ScriptedEngine):
        async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
            self._note("generate", request.request_id)
            request.submitted.set()
            await asyncio.Event().wait()
            yield EngineOutput()

    engine = Silent()
    reader = stream(engine, submit_s=WAIT_S, stall_s=SHORT_S)
    with pytest.raises(EngineError, match="stopped answering"):
        await reader.next()
    await closed(reader)
    assert engine.aborted == ["r"]


async def test_an_abort_that_is_never_acknowledged_is_given_up_on() -> None:
    engine = gated()
    engine.abort_gate = asyncio.Event()
    reader = stream(engine, abort_s=SHORT_S)
    await reader.next()
    reader.stop()
    await closed(reader)
    assert what(engine) == ["generate", "closed", "abort"]


class Raising(ScriptedEngine):
    """Says one word, then fails."""

    error: BaseException = RuntimeError("boom")

    async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        self._note("generate", request.request_id)
        request.submitted.set()
        yield EngineOutput(text_delta="One")
        raise self.error


async def test_what_the_engine_raises_becomes_an_engine_error_and_there_is_no_abort() -> None:
    engine = Raising()
    reader = stream(engine)
    await reader.next()
    with pytest.raises(EngineError, match="boom") as caught:
        await reader.next()
    assert caught.value.code == "engine_failed"
    assert await reader.next() is None
    await closed(reader)
    assert engine.aborted == []


async def test_an_engine_error_keeps_its_code() -> None:
    engine = Raising()
    engine.error = EngineError("context_too_long", "too many frames")
    reader = stream(engine)
    await reader.next()
    with pytest.raises(EngineError, match="too many frames") as caught:
        await reader.next()
    assert caught.value.code == "context_too_long"
    await closed(reader)


@pytest.mark.timeout(20)
async def test_an_engine_whose_work_was_cancelled_is_an_engine_error_too() -> None:
    engine = Raising()
    engine.error = asyncio.CancelledError()
    reader = stream(engine)
    await reader.next()
    try:
        with pytest.raises(EngineError):
            await reader.next()
    except asyncio.CancelledError:
        pytest.fail("the caller was cancelled")
    await closed(reader)


async def test_an_engine_that_refuses_at_once_is_an_engine_error_too() -> None:
    class Refusing(ScriptedEngine):
        def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:  # type: ignore[override]
            raise RuntimeError("no")

    with pytest.raises(EngineError):
        await stream(Refusing()).next()


async def test_an_engine_that_does_not_say_that_it_accepted_is_aborted_too() -> None:
    class Terse(ScriptedEngine):
        async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
            self._note("generate", request.request_id)
            assert self.gate is not None
            await self.gate.wait()
            yield EngineOutput(text_delta="One")
            yield EngineOutput(text_delta=" two")

    engine = Terse(gate=asyncio.Event())
    reader = stream(engine)
    reading = asyncio.create_task(reader.next())
    await engine.until("generate")
    reader.stop()
    assert await reading is None
    closing = asyncio.create_task(reader.close())
    await settled()
    engine.gate.set()  # type: ignore[union-attr]
    async with asyncio.timeout(WAIT_S):
        await closing
    assert engine.aborted == ["r"]


async def test_a_failing_abort_or_close_stays_inside() -> None:
    class Broken(ScriptedEngine):
        async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
            request.submitted.set()
            try:
                yield EngineOutput(text_delta="One")
                yield EngineOutput(text_delta=" two")
            finally:
                raise RuntimeError("cannot close")

        async def abort(self, request_id: str) -> None:
            self._note("abort", request_id)
            raise RuntimeError("cannot abort")

    engine = Broken()
    reader = stream(engine)
    await reader.next()
    reader.stop()
    await closed(reader)
    assert what(engine) == ["abort"]


async def test_a_generator_that_ignores_cancellation_is_left_behind() -> None:
    class Stubborn(ScriptedEngine):
        async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
            request.submitted.set()
            assert self.gate is not None
            while not self.gate.is_set():
                try:
                    await self.gate.wait()
                except asyncio.CancelledError:
                    self._note("ignored", request.request_id)
            yield EngineOutput(text_delta="late")

    engine = Stubborn(gate=asyncio.Event())
    reader = stream(engine, abort_s=SHORT_S)
    reading = asyncio.create_task(reader.next())
    await settled()
    reader.stop()
    assert await reading is None
    await closed(reader)
    assert what(engine) == ["ignored", "abort", "aborted"]
    engine.gate.set()  # type: ignore[union-attr]
    await settled()


async def test_an_iterator_that_cannot_be_closed_is_only_aborted() -> None:
    class Outputs:
        def __aiter__(self) -> "Outputs":
            return self

        async def __anext__(self) -> EngineOutput:
            return EngineOutput(text_delta="x")

    class Plain(ScriptedEngine):
        def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:  # type: ignore[override]
            request.submitted.set()
            return Outputs()

    engine = Plain()
    reader = stream(engine)
    assert await reader.next() == EngineOutput(text_delta="x")
    reader.stop()
    await closed(reader)
    assert engine.aborted == ["r"]
