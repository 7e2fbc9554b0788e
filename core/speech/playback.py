"""Where spoken answers go, and how much of them was heard."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from core.clock import Clock
from core.protocol import AudioDelta, ServerEvent


class Playback(Protocol):
    """The speaker at the other end, as far as this end can know."""

    delay_s: float  # from sending to the ear, as the client reports it
    waits: bool  # an answer lasts until it was heard, since it may be interrupted till then

    def play(self, audio: AudioDelta) -> None:
        """Queue audio to be heard after what is queued already."""

    def pause(self) -> None:
        """Silence, for now: somebody may be about to speak."""

    def resume(self) -> None:
        """Go on after `pause`."""

    def flush(self) -> None:
        """Drop what was not heard yet; silence."""

    @property
    def unplayed_s(self) -> float:
        """Seconds of audio that are still to be heard."""

    async def drained(self) -> None:
        """Until nothing is left to be waited for. Cancellable."""


class ClientPlayback:
    """A client that plays by itself: audio goes out as events.

    It is taken to play from the first event on without a gap, and is waited for only where
    the session listens.
    """

    def __init__(self, emit: Callable[[ServerEvent], None], clock: Clock) -> None:
        self._emit = emit
        self._clock = clock
        self._heard_until_s = 0.0
        self.delay_s = 0.0
        self.waits = False

    def play(self, audio: AudioDelta) -> None:
        """Send it."""
        begins_s = max(self._heard_until_s, self._clock.monotonic() + self.delay_s)
        self._heard_until_s = begins_s + audio.duration_s
        self._emit(audio)

    def pause(self) -> None:
        """The client decides."""

    def resume(self) -> None:
        """The client decides."""

    def flush(self) -> None:
        """`response.interrupted` tells the client to drop what it has."""
        self._heard_until_s = 0.0

    @property
    def unplayed_s(self) -> float:
        """By the clock."""
        return max(0.0, self._heard_until_s - self._clock.monotonic())

    async def drained(self) -> None:
        """Until it was heard, where that matters."""
        while self.waits and (left_s := self.unplayed_s) > 0:  # noqa: ASYNC110 - by the clock
            await asyncio.sleep(left_s)
