"""Marks of a turn, and the stretches between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.timeline import SEGMENT_NAMES, Mark, TurnTimeline
from tests.fakes import FakeClock

pytestmark = pytest.mark.unit


def test_marks_are_relative_to_the_question_and_segments_add_up() -> None:
    clock = FakeClock()
    timeline = TurnTimeline(clock)
    for mark in Mark:
        timeline.mark(mark)
        clock.advance(0.010)
    timing = timeline.timing()
    before_asked = list(Mark).index(Mark.ASKED)
    assert timing.marks_ms["asked"] == 0
    assert timing.marks_ms["speech_end"] == pytest.approx(-10 * before_asked)
    names = [*list(SEGMENT_NAMES.values())[:-1], "speaking"]  # its text was whole before
    assert [s.name for s in timing.segments] == names
    assert [s.ms for s in timing.segments] == pytest.approx([10] * len(timing.segments))
    assert timing.total_ms == pytest.approx(10 * (len(Mark) - 1))


def test_a_mark_is_set_once() -> None:
    clock = FakeClock()
    timeline = TurnTimeline(clock)
    first = timeline.mark(Mark.ASKED)
    clock.advance(1)
    assert timeline.mark(Mark.ASKED) == first
    assert timeline.get(Mark.ASKED) == first
    assert timeline.get(Mark.DONE) is None


def test_what_did_not_happen_is_absent() -> None:
    clock = FakeClock()
    timeline = TurnTimeline(clock)
    timeline.mark(Mark.ASKED)
    clock.advance(0.5)
    timeline.mark(Mark.DONE)
    timing = timeline.timing()
    assert timing.marks_ms == {"asked": 0, "done": 500}
    assert [(s.name, s.ms) for s in timing.segments] == [("streaming", 500)]


@given(
    st.permutations([m for m in Mark if m not in (Mark.ASKED, Mark.SPEECH_END)]),
    st.lists(st.floats(0, 100), min_size=8, max_size=8),
    st.integers(0, 7),
)
def test_segments_add_up_in_whatever_order_the_marks_come(
    order: list[Mark], gaps_s: list[float], count: int
) -> None:
    clock = FakeClock()
    timeline = TurnTimeline(clock)
    timeline.mark(Mark.ASKED)
    for mark, gap_s in zip(order[:count], gaps_s, strict=False):
        clock.advance(gap_s)
        timeline.mark(mark)
    timing = timeline.timing()
    assert sum(s.ms for s in timing.segments) == pytest.approx(timing.total_ms, abs=0.01)
    assert list(timing.marks_ms.values()) == sorted(timing.marks_ms.values())
    assert all(s.ms >= 0 for s in timing.segments)
