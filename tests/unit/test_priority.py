import asyncio
import threading

import pytest

from core.priority import PriorityThread

pytestmark = pytest.mark.unit

WAIT_S = 10.0


@pytest.fixture
def thread():
    made = PriorityThread("test")
    yield made
    made.close()


async def test_the_most_urgent_waits_least(thread):
    hold, order = threading.Event(), []
    first = asyncio.create_task(thread.run(5, lambda: hold.wait(WAIT_S)))
    await asyncio.sleep(0)
    others = [
        asyncio.create_task(thread.run(priority, lambda p=priority: order.append(p)))
        for priority in (10, 0, 5)
    ]
    await asyncio.sleep(0)
    hold.set()
    await asyncio.wait_for(asyncio.gather(first, *others), WAIT_S)
    assert order == [0, 5, 10]


async def test_who_gives_up_waiting_is_taken_out_of_the_line(thread):
    hold, done = threading.Event(), []
    first = asyncio.create_task(thread.run(0, lambda: hold.wait(WAIT_S)))
    await asyncio.sleep(0)
    second = asyncio.create_task(thread.run(0, lambda: done.append("second")))
    await asyncio.sleep(0)
    second.cancel()
    hold.set()
    await asyncio.wait_for(first, WAIT_S)
    await asyncio.wait_for(thread.run(0, lambda: done.append("third")), WAIT_S)
    assert done == ["third"]


async def test_work_goes_on_when_its_caller_leaves_and_the_next_waits_for_it(thread):
    hold, started, order = threading.Event(), threading.Event(), []

    def slow():
        started.set()
        hold.wait(WAIT_S)
        order.append("slow")

    caller = asyncio.create_task(thread.run(0, slow))
    await asyncio.to_thread(started.wait, WAIT_S)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    after = asyncio.create_task(thread.run(0, lambda: order.append("after")))
    hold.set()
    await asyncio.wait_for(after, WAIT_S)
    assert order == ["slow", "after"]


async def test_what_the_work_raises_is_raised_and_the_thread_goes_on(thread):
    def broken():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await thread.run(0, broken)
    assert await asyncio.wait_for(thread.run(0, lambda: 7), WAIT_S) == 7
