"""Events on their way to a client that may be slow."""

import asyncio

import pytest

from core.outbox import Outbox
from core.protocol import FrameAck, Pong, ServerEvent, TextDelta
from tests.fakes import WAIT_S

pytestmark = pytest.mark.unit


def text(delta: str) -> TextDelta:
    return TextDelta(request_id="r", delta=delta)


def ack(frame_id: str) -> FrameAck:
    return FrameAck(
        frame_id=frame_id,
        pts_ms=None,
        capture_ts_ms=None,
        accepted=True,
        buffered_frames=1,
        server_receive_ts_ms=1,
    )


async def everything(outbox: Outbox) -> list[ServerEvent]:
    outbox.close()
    events = []
    async with asyncio.timeout(WAIT_S):
        while (event := await outbox.get()) is not None:
            events.append(event)
    return events


async def test_events_leave_in_order_and_then_there_is_none() -> None:
    outbox = Outbox(10)
    sent = [text("a"), ack("f"), text("b")]
    for event in sent:
        outbox.put(event)
    assert await everything(outbox) == sent


async def test_a_full_outbox_loses_its_oldest_ack_and_never_text() -> None:
    outbox = Outbox(3)
    for event in (text("a"), ack("1"), ack("2"), text("b"), text("c")):
        outbox.put(event)
    assert not outbox.overflowed
    assert outbox.dropped == 2
    assert await everything(outbox) == [text("a"), text("b"), text("c")]


async def test_newer_acks_are_kept_over_older_ones() -> None:
    outbox = Outbox(2)
    for event in (ack("1"), Pong(), ack("2")):
        outbox.put(event)
    assert await everything(outbox) == [Pong(), ack("2")]


async def test_a_client_that_does_not_even_read_text_is_given_up_on() -> None:
    outbox = Outbox(2)
    for delta in "abc":
        outbox.put(text(delta))
    assert outbox.overflowed
    async with asyncio.timeout(WAIT_S):
        assert await outbox.get() is None


async def test_a_waiting_writer_wakes_for_an_event_and_for_the_end() -> None:
    outbox = Outbox(2)
    writer = asyncio.create_task(outbox.get())
    await asyncio.sleep(0)
    outbox.put(text("a"))
    async with asyncio.timeout(WAIT_S):
        assert await writer == text("a")
    writer = asyncio.create_task(outbox.get())
    await asyncio.sleep(0)
    outbox.close()
    async with asyncio.timeout(WAIT_S):
        assert await writer is None


async def test_nothing_is_added_after_the_end() -> None:
    outbox = Outbox(2)
    outbox.put(text("a"))
    outbox.close()
    outbox.put(text("b"))
    assert await everything(outbox) == [text("a")]
