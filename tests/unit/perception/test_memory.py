import pytest

from core.perception.memory import GRIDS, Memory
from core.perception.scenes import scenes
from tests.unit.perception.notes import cat, coffee, nothing, remembered, sign

pytestmark = pytest.mark.unit


def test_notes_are_in_the_order_of_time_however_they_come():
    memory = remembered(cat(3.0), coffee(1.0), cat(2.0))
    assert [note.time_s for note in memory] == [1.0, 2.0, 3.0]


def test_the_note_valid_at_a_time_is_the_newest_that_is_not_later():
    memory = remembered(coffee(1.0), cat(4.0))
    assert memory.at(0.5) is None
    assert memory.at(1.0).time_s == 1.0
    assert memory.at(3.9).time_s == 1.0
    assert memory.at(60.0).time_s == 4.0


def test_between_counts_the_note_that_was_valid_at_the_start():
    memory = remembered(coffee(1.0), cat(4.0), cat(6.0))
    assert [note.time_s for note in memory.between(2.0, 5.0)] == [1.0, 4.0]


def test_the_oldest_notes_leave():
    memory = Memory(limit=3)
    for time_s in range(5):
        memory.add(cat(float(time_s)))
    assert [note.time_s for note in memory] == [2.0, 3.0, 4.0]
    assert memory.get("0.0") is None


def test_a_frame_has_one_note():
    memory = remembered(cat(1.0), coffee(1.0))
    assert len(memory) == 1
    assert memory.get("1.0").kinds[0].name == "cat"


@pytest.mark.parametrize("newest_first", [False, True])
def test_only_the_newest_notes_keep_what_motion_is_measured_with(newest_first):
    times = [float(t) for t in range(GRIDS + 5)]
    memory = remembered(*(cat(t) for t in (reversed(times) if newest_first else times)))
    assert [note.grid is not None for note in memory] == [False] * 5 + [True] * GRIDS


def test_text_that_is_read_later_changes_what_may_be_said():
    memory = remembered(nothing(1.0))
    assert memory.claims(memory.at(1.0)) == ()
    memory.add_text("1.0", ("OPEN",))
    assert memory.claims(memory.at(1.0))[0].phrase == "text that says “OPEN”"


def test_scenes_join_notes_of_one_thing_and_forgive_a_flicker():
    memory = remembered(
        coffee(0.5), coffee(1.0), cat(1.5), nothing(2.0, grid_level=60), cat(2.5), sign(3.0)
    )
    found = [(s.main.name, s.start_s, s.end_s) for s in scenes(memory, list(memory))]
    assert found == [
        ("cup of coffee", 0.5, 1.0),
        ("cat", 1.5, 2.5),
        ("text", 3.0, 3.0),
    ]
