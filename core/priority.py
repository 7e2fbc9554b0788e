"""One thread of work for all sessions, the most urgent first."""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class PriorityThread:
    """Runs one piece of work at a time on its own thread; lower `priority` goes first.

    Work that has begun is not stopped; who no longer waits for work that has not begun
    takes it out of the line. All calls come from one event loop.
    """

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._busy = False

    async def run(
        self,
        priority: int,
        work: Callable[[], T],
        begun: Callable[[asyncio.Future[T]], None] = lambda future: None,
    ) -> T:
        """`work()` on the thread, when its turn has come; `begun` is then given its future.

        Raises what `work` raises. If the caller is cancelled, work that has begun goes on.
        """
        await self._turn(priority)
        try:
            future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        except BaseException:
            self._next()
            raise
        begun(future)  # its callbacks come before the next work begins
        future.add_done_callback(self._finished)
        return await asyncio.shield(future)

    def close(self) -> None:
        """Let running work end; start no more."""
        for _, _, turn in self._waiting:
            turn.cancel()
        self._waiting.clear()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _turn(self, priority: int) -> None:
        if not self._busy:
            self._busy = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._order), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._next()  # it had just been given the thread
            raise

    def _finished(self, future: asyncio.Future[T]) -> None:
        if not future.cancelled():
            future.exception()  # whoever waits for it has it; nobody may be waiting
        self._next()

    def _next(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._busy = False
