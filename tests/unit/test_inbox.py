"""The two lanes into a session."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.inbox import Inbox
from tests.fakes import WAIT_S

pytestmark = pytest.mark.unit


def inbox(control: int = 3, media: int = 2) -> Inbox[str, str]:
    return Inbox(control_limit=control, media_limit=media)


async def test_control_overtakes_media() -> None:
    lanes = inbox()
    lanes.put_media("frame", may_drop=True)
    lanes.put_control("ask")
    assert await lanes.get(media=True) == ("ask", None)
    assert await lanes.get(media=True) == (None, (1, "frame"))


async def test_media_waits_while_it_is_not_wanted() -> None:
    lanes = inbox()
    lanes.put_media("frame", may_drop=True)
    reading = asyncio.create_task(lanes.get(media=False))
    await asyncio.sleep(0)
    assert not reading.done()
    lanes.put_control("ask")
    async with asyncio.timeout(WAIT_S):
        assert await reading == ("ask", None)


async def test_a_waiting_reader_wakes_for_media() -> None:
    lanes = inbox()
    reading = asyncio.create_task(lanes.get(media=True))
    await asyncio.sleep(0)
    lanes.put_media("frame", may_drop=True)
    async with asyncio.timeout(WAIT_S):
        assert await reading == (None, (1, "frame"))


def test_the_oldest_frame_gives_way_and_audio_never() -> None:
    lanes = inbox(media=2)
    assert lanes.put_media("audio", may_drop=False) is None
    assert lanes.put_media("a", may_drop=True) is None
    assert lanes.put_media("b", may_drop=True) is None
    assert lanes.put_media("c", may_drop=True) == "a"
    assert lanes.put_media("more audio", may_drop=False) is None
    assert lanes.clear_media() == ["audio", "b", "c", "more audio"]


def test_a_full_control_lane_refuses_commands_but_not_notices() -> None:
    lanes = inbox(control=2)
    assert lanes.put_control("1")
    assert lanes.put_control("2")
    assert not lanes.put_control("3")
    lanes.notify("notice")
    assert lanes.drain() == ["1", "2", "notice"]
    assert lanes.put_control("4")


async def test_numbers_tell_a_question_which_media_came_before_it() -> None:
    lanes = inbox()
    lanes.put_media("a", may_drop=True)
    lanes.put_media("b", may_drop=True)
    barrier = lanes.media_count
    lanes.put_media("late audio", may_drop=False)
    assert lanes.has_media_up_to(barrier)
    await lanes.get(media=True)
    assert lanes.has_media_up_to(barrier)
    await lanes.get(media=True)
    assert not lanes.has_media_up_to(barrier)
    assert lanes.has_media_up_to(barrier + 1)


@given(st.lists(st.booleans()), st.integers(1, 5))
def test_newest_frames_win_in_order_and_nothing_else_is_lost(
    droppable: list[bool], limit: int
) -> None:
    lanes: Inbox[str, tuple[int, bool]] = Inbox(control_limit=1, media_limit=limit)
    sent = list(enumerate(droppable))
    displaced = [d for item in sent if (d := lanes.put_media(item, may_drop=item[1])) is not None]
    frames = [item for item in sent if item[1]]
    assert displaced == frames[: max(0, len(frames) - limit)]
    assert lanes.clear_media() == [item for item in sent if item not in displaced]
