"""One injected clock: monotonic for durations, epoch milliseconds for the wire."""

import time
from typing import Protocol


class Clock(Protocol):
    """Where every time stamp of a session comes from."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""

    def epoch_ms(self, monotonic_s: float) -> int:
        """The wall-clock time, in ms since 1970, of a reading of `monotonic`."""


class SystemClock:
    """The machine's clock. The wall offset is read once, so marks never run backwards."""

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def epoch_ms(self, monotonic_s: float) -> int:
        """The wall-clock time, in ms since 1970, of a reading of `monotonic`."""
        return round((monotonic_s + self._offset_s) * 1000)
