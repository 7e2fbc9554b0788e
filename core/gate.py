"""Questions first: no warm-up goes to the engine while any session's question waits for it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class QuestionGate:
    """One for all sessions of an engine.

    A question is waiting from when it is asked until the engine's first output for it. While
    one waits the gate is closed to warm-ups, and those that have passed it are called back.
    """

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._passed: set[Callable[[], None]] = set()

    @property
    def closed(self) -> bool:
        """Whether a question waits."""
        return bool(self._waiting)

    def enter(self, request_id: str) -> None:
        """A question waits."""
        self._waiting.add(request_id)
        self._open.clear()
        for call_back in list(self._passed):
            call_back()

    def leave(self, request_id: str) -> None:
        """It waits no more; told twice is as good as once."""
        self._waiting.discard(request_id)
        if not self._waiting:
            self._open.set()

    async def opened(self) -> None:
        """Wait until no question waits."""
        await self._open.wait()

    @contextmanager
    def passing(self, call_back: Callable[[], None]) -> Iterator[None]:
        """A warm-up goes through; `call_back` is called if a question comes meanwhile."""
        self._passed.add(call_back)
        try:
            yield
        finally:
            self._passed.discard(call_back)
