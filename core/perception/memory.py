"""What a session has seen: its notes in the order of time."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace

from core.perception.note import Note
from core.perception.subjects import Claim, claims

MAX_NOTES = 2000
GRIDS = 32  # newest notes that motion can be measured between (36 KiB each)


class Memory:
    """Notes by content id and by time, at most `limit`; the oldest leave."""

    def __init__(self, limit: int = MAX_NOTES) -> None:
        self._limit = limit
        self._notes: list[Note] = []  # by time
        self._by_id: dict[str, Note] = {}
        self._claims: dict[str, tuple[Claim, ...]] = {}
        self.subject = ""  # what the last answer was about, for `it`

    def __len__(self) -> int:
        return len(self._notes)

    def __iter__(self) -> Iterator[Note]:
        return iter(self._notes)

    def get(self, content_id: str) -> Note | None:
        """The note of a frame."""
        return self._by_id.get(content_id)

    def add(self, note: Note) -> None:
        """Keep a note; a frame has one, the first."""
        if note.content_id in self._by_id:
            return
        index = bisect_right(self._notes, note.time_s, key=_time)
        self._notes.insert(index, note)
        self._by_id[note.content_id] = note
        self._forget_claims(index + 1)
        if len(self._notes) > self._limit:
            oldest = self._notes.pop(0)
            del self._by_id[oldest.content_id]
            self._claims.pop(oldest.content_id, None)
            self._forget_claims(0)
        newest = len(self._notes) - GRIDS
        for old in {index, newest - 1}:  # notes may come newest first
            if 0 <= old < newest and self._notes[old].grid is not None:
                self._replace(old, replace(self._notes[old], grid=None))

    def add_text(self, content_id: str, text: tuple[str, ...]) -> None:
        """The frame has been read."""
        note = self._by_id.get(content_id)
        if note is not None:
            index = self._notes.index(note)
            self._replace(index, replace(note, text=text))
            self._forget_claims(index)

    def claims(self, note: Note) -> tuple[Claim, ...]:
        """What may be said of a note of this memory."""
        found = self._claims.get(note.content_id)
        if found is None:
            index = bisect_right(self._notes, note.time_s, key=_time) - 1
            before = self._notes[index - 1] if index > 0 else None
            found = self._claims[note.content_id] = claims(note, before)
        return found

    def up_to(self, time_s: float) -> list[Note]:
        """The notes of frames that had come by then, oldest first."""
        return self._notes[: bisect_right(self._notes, time_s, key=_time)]

    def between(self, from_s: float, to_s: float) -> list[Note]:
        """The notes that were valid in that time: the one before it counts, too."""
        start = max(0, bisect_right(self._notes, from_s, key=_time) - 1)
        return self.up_to(to_s)[start:]

    def at(self, time_s: float) -> Note | None:
        """The note valid then: the newest that is not later."""
        notes = self.up_to(time_s)
        return notes[-1] if notes else None

    def _replace(self, index: int, note: Note) -> None:
        self._notes[index] = self._by_id[note.content_id] = note

    def _forget_claims(self, index: int) -> None:
        if index < len(self._notes):
            self._claims.pop(self._notes[index].content_id, None)


def _time(note: Note) -> float:
    return note.time_s
