"""The clock marks of a frame and of a turn; segments that add up."""

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from core.clock import Clock
from core.protocol import Segment, TurnTiming


@dataclass
class FrameTimeline:
    """When things happened to one frame: monotonic seconds, None where it did not."""

    received_s: float
    captured_ts_ms: float | None = None  # the client's own clock
    decided_s: float | None = None  # kept or dropped by the filter
    decoded_s: float | None = None  # its pixels are there
    selected_s: float | None = None  # last put into a prompt


class Mark(StrEnum):
    """The marks of a turn."""

    SPEECH_END = "speech_end"  # the person has fallen silent
    TURN_END = "turn_end"  # long enough for the turn to be over
    ASKED = "asked"
    RECOGNISED = "recognised"  # a question that came as audio has its text
    READY = "ready"  # what came before it is out of the way
    SELECTED = "selected"  # frames chosen, their pixels there
    SUBMITTED = "submitted"  # the engine has accepted the request
    FIRST_OUTPUT = "first_output"
    FIRST_TEXT = "first_text"
    FIRST_AUDIO = "first_audio"
    TEXT_DONE = "text_done"  # of a spoken answer: what is left is to speak it
    DONE = "done"


# The name of the stretch that ends at a mark.
SEGMENT_NAMES = {
    Mark.TURN_END: "end_of_speech",
    Mark.ASKED: "recognition",
    Mark.RECOGNISED: "recognition",
    Mark.READY: "waiting",
    Mark.SELECTED: "decode",
    Mark.SUBMITTED: "submit",
    Mark.FIRST_OUTPUT: "first_output",
    Mark.FIRST_TEXT: "first_text",
    Mark.FIRST_AUDIO: "first_audio",
    Mark.TEXT_DONE: "streaming",
    Mark.DONE: "streaming",
}


class TurnTimeline:
    """The marks of one turn, each set once, from one clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._marks: dict[Mark, float] = {}

    def mark(self, mark: Mark, at_s: float | None = None) -> float:
        """Set `mark` to `at_s`, or now, unless it is set already; its monotonic time in s."""
        return self._marks.setdefault(mark, self._clock.monotonic() if at_s is None else at_s)

    def get(self, mark: Mark) -> float | None:
        """The monotonic time of `mark` in s, or None."""
        return self._marks.get(mark)

    def _segment_name(self, mark: Mark) -> str:
        if mark is Mark.DONE and Mark.TEXT_DONE in self._marks:
            return "speaking"
        return SEGMENT_NAMES[mark]

    def timing(self) -> TurnTiming:
        """All marks in ms since `asked`, and the stretches between those that follow."""
        ordered = sorted(self._marks.items(), key=lambda item: item[1])
        asked_s = self._marks.get(Mark.ASKED, ordered[0][1])
        segments = [
            Segment(name=self._segment_name(mark), ms=round((at - before) * 1000, 3))
            for (_, before), (mark, at) in pairwise(ordered)
            if mark in SEGMENT_NAMES
        ]
        return TurnTiming(
            marks_ms={mark.value: round((at - asked_s) * 1000, 3) for mark, at in ordered},
            segments=segments,
            total_ms=round((ordered[-1][1] - ordered[0][1]) * 1000, 3),
        )
