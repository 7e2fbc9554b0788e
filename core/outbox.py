"""Events on their way to one client: bounded; acks are lost before text is."""

import asyncio
from collections import deque

from core.protocol import FrameAck, FrameDecision, Pong, ServerEvent

STALE_FIRST = (FrameAck, FrameDecision, Pong)


class Outbox:
    """A bounded queue between a session, which never waits, and a writer task, which may.

    When it is full the oldest ack-like event is dropped. If there is none, the client
    reads too slowly to be served: `overflowed` is set and the writer should disconnect it.
    """

    def __init__(self, limit: int) -> None:
        self._events: deque[ServerEvent] = deque()
        self._limit = limit
        self._arrived = asyncio.Event()
        self._closed = False
        self.overflowed = False
        self.dropped = 0  # ack-like events that were never sent

    def put(self, event: ServerEvent) -> None:
        """Add an event; never waits."""
        if self._closed:
            return
        if len(self._events) >= self._limit and not self._drop_stale():
            self.overflowed = True
            self.close()
            return
        self._events.append(event)
        self._arrived.set()

    async def get(self) -> ServerEvent | None:
        """The next event; None once it is closed and empty, or has overflowed."""
        while not self._events or self.overflowed:
            if self._closed:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        return self._events.popleft()

    def close(self) -> None:
        """Nothing more will be put; what is there can still be read."""
        self._closed = True
        self._arrived.set()

    def _drop_stale(self) -> bool:
        for index, event in enumerate(self._events):
            if isinstance(event, STALE_FIRST):
                del self._events[index]
                self.dropped += 1
                return True
        return False
