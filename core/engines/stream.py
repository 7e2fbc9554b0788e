"""One request's life on an engine: submitted, read, and finished or aborted exactly once."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable

from core.engines.base import Engine, EngineOutput, EngineRequest
from core.errors import EngineError
from core.limits import SessionLimits

log = logging.getLogger(__name__)


class EngineStream:
    """Read with `next` until it gives None, then always `close`.

    `stop` may be called at any time: `next` gives None soon after. `close` lets go of the
    engine in the order that it can follow: a submission under way is waited for, the
    generator is closed, then the request is aborted and the abort acknowledged. Every wait
    has a deadline.
    """

    def __init__(self, engine: Engine, request: EngineRequest, limits: SessionLimits) -> None:
        self.request = request
        self._engine = engine
        self._limits = limits
        self._stopped = asyncio.Event()
        self._iterator: AsyncIterator[EngineOutput] | None = None
        self._step: asyncio.Task[EngineOutput | None] | None = None
        self._ended = False  # the engine has nothing left of this request

    def stop(self) -> None:
        """Ask for no more outputs."""
        self._stopped.set()

    async def next(self) -> EngineOutput | None:
        """The next output; None at the end or once stopped.

        Raises `EngineError` (`engine_timeout`, or what the engine raised).
        """
        if self._ended or self._stopped.is_set():
            return None
        if self._iterator is None:
            try:
                self._iterator = aiter(self._engine.generate(self.request))
            except EngineError:
                raise
            except Exception as error:
                raise self._failure(error) from error
        self._step = asyncio.create_task(self._read(self._iterator))
        await self._wait_for_step(self._step)
        if not self._step.done():
            return None
        step, self._step = self._step, None
        if step.cancelled():  # by the engine: nobody here cancels a step that is awaited
            self._ended = True
            raise EngineError("engine_failed", "The engine cancelled the request")
        try:
            output = step.result()
        except EngineError:
            self._ended = True
            raise
        except Exception as error:
            self._ended = True
            raise self._failure(error) from error
        if output is None:
            self._ended = True
        else:
            self.request.submitted.set()
        return output

    async def close(self) -> None:
        """Let go of the engine; returns once it has let go of the request, or by a deadline."""
        if self._iterator is None:
            return
        if self._step is not None:
            await self._end_step(self._step)
            self._step = None
        aclose = getattr(self._iterator, "aclose", None)
        if aclose is not None:
            await self._by_deadline(aclose(), "close its generator")
        if not self._ended and self.request.submitted.is_set():
            await self._by_deadline(self._engine.abort(self.request.request_id), "abort")
        self._ended = True

    def _failure(self, error: Exception) -> EngineError:
        log.error("request %s: the engine failed", self.request.request_id, exc_info=error)
        return EngineError("engine_failed", f"The engine failed: {error}")

    @staticmethod
    async def _read(iterator: AsyncIterator[EngineOutput]) -> EngineOutput | None:
        try:
            return await anext(iterator)
        except StopAsyncIteration:
            return None

    async def _wait_for_step(self, step: asyncio.Task[EngineOutput | None]) -> None:
        """Wait for `step`, for `stop`, or raise at the deadline."""
        accepted = self.request.submitted
        if not accepted.is_set() and not await _first(
            self._limits.submit_s, step, self._stopped, accepted
        ):
            raise EngineError("engine_timeout", "The engine did not accept the request in time")
        if not step.done() and not await _first(self._limits.stall_s, step, self._stopped):
            raise EngineError("engine_timeout", "The engine stopped answering")

    async def _end_step(self, step: asyncio.Task[EngineOutput | None]) -> None:
        if not step.done() and not self.request.submitted.is_set():
            # The engine must never see an abort for a request it has not received.
            await _first(self._limits.submit_s, step, self.request.submitted)
        if step.done():
            if step.cancelled() or step.exception() is not None or step.result() is None:
                self._ended = True
            else:
                self.request.submitted.set()  # an output says so as well
            return
        step.cancel()
        await asyncio.wait([step], timeout=self._limits.abort_s)
        if not step.done():
            log.error("request %s: its generator cannot be stopped", self.request.request_id)

    async def _by_deadline(self, work: Awaitable[object], what: str) -> None:
        try:
            async with asyncio.timeout(self._limits.abort_s):
                await work
        except TimeoutError:
            log.error("request %s: the engine did not %s in time", self.request.request_id, what)
        except Exception:
            log.exception("request %s: the engine failed to %s", self.request.request_id, what)


async def _first(
    timeout_s: float, step: asyncio.Task[EngineOutput | None], *events: asyncio.Event
) -> bool:
    """Wait for the step or one of the events, whichever is first; False at the deadline."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(
            [step, *waits], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        for wait in waits:
            wait.cancel()
    return bool(done)
