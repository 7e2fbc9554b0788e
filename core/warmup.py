"""Seeing ahead: the engine is shown new frames before anybody asks.

In its simplest form: at most one warm-up in flight per session, the newest state wins,
none while a question waits. A warm-up only ever sends what the next question would send
anyway, so a miss may cost time, never meaning.
"""

import logging
from collections.abc import Sequence
from enum import Enum

from core.engines.base import Engine, EngineInfo, EngineRequest
from core.engines.stream import EngineStream
from core.errors import EngineError
from core.frames import Frame
from core.limits import SessionLimits

log = logging.getLogger(__name__)

WARMUP_PRIORITY = 10  # after every question


def warms_up(info: EngineInfo, modalities: Sequence[str]) -> bool:
    """Whether incremental prefill is on: a prefix cache, and no native audio out (row 40)."""
    return info.prefix_caching and not ("audio" in modalities and info.speaks)


class WarmupState(Enum):
    """Where a warm-up stands."""

    RUNNING = "running"
    STOPPED = "stopped"  # for a question
    FAILED = "failed"
    DONE = "done"


class Warmup:
    """One `prefill_only` request; its frames are held until it ends."""

    def __init__(
        self, engine: Engine, request: EngineRequest, frames: list[Frame], limits: SessionLimits
    ) -> None:
        self.frames = frames
        self.state = WarmupState.RUNNING
        self._stream = EngineStream(engine, request, limits)
        for frame in frames:
            frame.hold()

    @property
    def content_ids(self) -> frozenset[str]:
        """The frames that it shows to the engine."""
        return frozenset(frame.content_id for frame in self.frames)

    def stop(self) -> None:
        """A question comes first."""
        if self.state is WarmupState.RUNNING:
            self.state = WarmupState.STOPPED
            self._stream.stop()

    async def run(self) -> None:
        """Until the engine is done with it or has let go of it. Never raises."""
        try:
            while await self._stream.next() is not None:
                pass
            if self.state is WarmupState.RUNNING:
                self.state = WarmupState.DONE
        except EngineError as error:
            # The question that follows says what is wrong with the engine.
            log.warning("%s failed: %s", self._stream.request.request_id, error.message)
            self.state = WarmupState.FAILED
        finally:
            await self._stream.close()
            for frame in self.frames:
                frame.release()
