"""Two lanes into a session: control first; media bounded, newest wins."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

Control = TypeVar("Control")
Media = TypeVar("Media")


class Inbox(Generic[Control, Media]):
    """What a session has yet to read. One reader; writers never wait.

    Media items are numbered from 1 as they arrive, so that a question can wait for just
    the media that came before it.
    """

    def __init__(self, *, control_limit: int, media_limit: int) -> None:
        self._control: deque[Control] = deque()
        self._media: deque[tuple[int, Media, bool]] = deque()
        self._control_limit = control_limit
        self._media_limit = media_limit
        self._droppable = 0  # of the media items that wait
        self._arrived = asyncio.Event()
        self.media_count = 0  # media items that ever arrived

    def put_control(self, item: Control) -> bool:
        """Add a client's command; False if the lane is full."""
        if len(self._control) >= self._control_limit:
            return False
        self.notify(item)
        return True

    def notify(self, item: Control) -> None:
        """Add a notice of the session's own; these are few and never refused."""
        self._control.append(item)
        self._arrived.set()

    def put_media(self, item: Media, *, may_drop: bool) -> Media | None:
        """Add a media item; returns the oldest that may be dropped if it had to give way."""
        self.media_count += 1
        self._media.append((self.media_count, item, may_drop))
        self._droppable += may_drop
        self._arrived.set()
        if self._droppable <= self._media_limit:
            return None
        oldest = next(entry for entry in self._media if entry[2])
        self._media.remove(oldest)
        self._droppable -= 1
        return oldest[1]

    def has_media_up_to(self, number: int) -> bool:
        """Whether an item numbered `number` or less still waits."""
        return bool(self._media) and self._media[0][0] <= number

    async def get(self, *, media: bool) -> tuple[Control | None, tuple[int, Media] | None]:
        """The next control item or, where there is none and `media` is true, media item."""
        while True:
            if self._control:
                return self._control.popleft(), None
            if media and self._media:
                number, item, may_drop = self._media.popleft()
                self._droppable -= may_drop
                return None, (number, item)
            self._arrived.clear()
            await self._arrived.wait()

    def drain(self) -> list[Control]:
        """All control items that nobody has read; empties their lane."""
        items = list(self._control)
        self._control.clear()
        return items

    def clear_media(self) -> list[Media]:
        """Drop all waiting media; returns it."""
        dropped = [item for _, item, _ in self._media]
        self._media.clear()
        self._droppable = 0
        return dropped
