"""Incremental prefill: the engine is shown new frames before anybody asks.

At most one warm-up in flight per session, and it shows the state as it is when it begins;
none while a question waits for the engine, in this session or any other. A warm-up only
ever sends what the next question would send anyway, so a miss may cost time, never meaning.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from core.context import Context
from core.engines.base import Engine, EngineInfo, EngineRequest, EngineUsage
from core.engines.stream import EngineStream
from core.errors import EngineError, PromptTooLong
from core.gate import QuestionGate
from core.limits import SessionLimits
from core.protocol import PrefillStatistics

log = logging.getLogger(__name__)

WARMUP_PRIORITY = 10  # after every question


def warms_up(info: EngineInfo, modalities: Sequence[str]) -> bool:
    """Whether incremental prefill is on: a prefix cache, and no native audio out (row 40)."""
    return info.prefix_caching and not ("audio" in modalities and info.speaks)


class WarmupState(Enum):
    """Where a warm-up stands."""

    WAITING = "waiting"  # at the gate: a question comes first
    RUNNING = "running"
    STOPPED = "stopped"  # for a question
    TOO_LONG = "too_long"  # the model takes less
    FAILED = "failed"
    DONE = "done"


class Warmup:
    """One `prefill_only` request; its frames are held until it ends.

    `context` is what it shows: asked for when the gate lets it through.
    """

    def __init__(
        self,
        engine: Engine,
        gate: QuestionGate,
        limits: SessionLimits,
        *,
        context: Callable[[], Context],
        request: Callable[[Context], EngineRequest],
    ) -> None:
        self.state = WarmupState.WAITING
        self.context = Context()
        self.usage: EngineUsage | None = None
        self._engine = engine
        self._gate = gate
        self._limits = limits
        self._choose = context
        self._request = request
        self._stream: EngineStream | None = None
        self._stopped = asyncio.Event()

    @property
    def content_ids(self) -> frozenset[str]:
        """The frames that it shows to the engine."""
        return frozenset(frame.content_id for frame in self.context.frames)

    def stop(self) -> None:
        """A question comes first."""
        if self.state in (WarmupState.WAITING, WarmupState.RUNNING):
            self.state = WarmupState.STOPPED
            self._stopped.set()
            if self._stream is not None:
                self._stream.stop()

    async def run(self) -> None:
        """Until the engine is done with it or has let go of it. Never raises."""
        await self._pass_gate()
        if self.state is WarmupState.STOPPED:
            return
        self.state = WarmupState.RUNNING
        self.context = self._choose()
        for frame in self.context.frames:
            frame.hold()
        try:
            with self._gate.passing(self.stop):
                await self._show(self._request(self.context))
        except Exception:  # of a pipeline or an engine of somebody's own
            log.exception("a warm-up failed")
            self.state = WarmupState.FAILED
        finally:
            for frame in self.context.frames:
                frame.release()

    async def _pass_gate(self) -> None:
        while self._gate.closed and not self._stopped.is_set():
            waits = [
                asyncio.create_task(self._gate.opened()),
                asyncio.create_task(self._stopped.wait()),
            ]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    async def _show(self, request: EngineRequest) -> None:
        stream = self._stream = EngineStream(self._engine, request, self._limits)
        try:
            while (output := await stream.next()) is not None:
                self.usage = output.usage or self.usage
            if self.state is WarmupState.RUNNING:
                self.state = WarmupState.DONE
        except PromptTooLong:
            self.state = WarmupState.TOO_LONG
        except EngineError as error:
            # The question that follows says what is wrong with the engine.
            level = logging.DEBUG if error.code == "engine_loading" else logging.WARNING
            log.log(level, "%s failed: %s", request.request_id, error.message)
            self.state = WarmupState.FAILED
        finally:
            await stream.close()


@dataclass
class PrefillLedger:
    """What seeing ahead cost and saved in one session, counted from the engine's own usage."""

    warmups: int = 0
    warmed: int = 0
    reused: int = 0
    computed: int = 0
    wasted: int = 0
    context: int = 0

    def __post_init__(self) -> None:
        self._unused: list[tuple[int, int]] = []  # spans of the prompt, warmed but never asked

    def warmed_up(self, usage: EngineUsage) -> None:
        """A warm-up ended: what was not cached it has computed."""
        self.warmups += 1
        self._keep_below(usage.cached_tokens)
        if usage.cached_tokens < usage.prompt_tokens:
            self._unused.append((usage.cached_tokens, usage.prompt_tokens))
        self.warmed += usage.prompt_tokens - usage.cached_tokens
        self.context = usage.prompt_tokens

    def asked(self, usage: EngineUsage) -> None:
        """A question ended: of what was warmed, the cached part was of use."""
        self._keep_below(usage.cached_tokens)
        self._unused.clear()
        self.reused += usage.cached_tokens
        self.computed += usage.prompt_tokens - usage.cached_tokens
        self.context = usage.prompt_tokens

    def _keep_below(self, cached: int) -> None:
        """Warmed tokens behind position `cached` were not in the cache: wasted."""
        self.wasted += sum(max(0, end - max(start, cached)) for start, end in self._unused)
        self._unused = [(start, min(end, cached)) for start, end in self._unused if start < cached]

    def event(self, context_limit: int | None) -> PrefillStatistics:
        """The figures as an event."""
        return PrefillStatistics(
            warmups=self.warmups,
            tokens_warmed=self.warmed,
            tokens_reused=self.reused,
            tokens_computed=self.computed,
            tokens_wasted=self.wasted,
            context_tokens=self.context,
            context_limit=context_limit,
        )
