"""Sessions that stream frames beside one that asks, all on one engine and one gate."""

import asyncio
from contextlib import AsyncExitStack

from core.gate import QuestionGate
from core.protocol import SessionConfig
from tests.engines.recorder import Record, Recorder
from tests.fakes import Harness, frame, jpeg

CONFIG = SessionConfig(
    modalities=["text"],
    enable_frame_filter=False,
    timestamps=True,
    sampling_params_list=[{"max_tokens": 8, "temperature": 0.0, "ignore_eos": True}],
)


class Neighbours:
    """`streaming` sessions with a new kept frame every `interval_s`, and one that asks.

    The one that asks gets a new frame before each question. Use as a context manager.
    """

    def __init__(self, engine: Recorder, *, streaming: int, interval_s: float) -> None:
        gate = QuestionGate()
        self._asking = Harness(engine, CONFIG, gate=gate)
        self._streaming = [Harness(engine, CONFIG, gate=gate) for _ in range(streaming)]
        self._interval_s = interval_s
        self._sent = 0
        self._asked = 0
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Neighbours":
        for harness in (self._asking, *self._streaming):
            await self._stack.enter_async_context(harness)
        for index, harness in enumerate(self._streaming):
            delay_s = self._interval_s * index / len(self._streaming)
            self._tasks.append(asyncio.create_task(self._stream(harness, delay_s)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._stack.aclose()

    async def _stream(self, harness: Harness, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        while True:
            self._show(harness)
            await asyncio.sleep(self._interval_s)

    def _show(self, harness: Harness) -> None:
        self._sent += 1
        harness.session.frame(frame(jpeg(self._sent, width=160, height=120)))

    async def ask(self, text: str) -> None:
        """Show the asking session a new frame, and ask it."""
        self._show(self._asking)
        self._asking.session.ask(text)
        self._asked += 1
        await self._asking.client.until("response.done", self._asked)


def scheduled_ahead(engine: Recorder) -> list[tuple[Record, Record]]:
    """Warm-ups that went to the engine while a question waited for its first output."""
    return [
        (warmup, question)
        for question in engine.questions
        for warmup in engine.warmups
        if question.first_s is not None and question.asked_s < warmup.asked_s < question.first_s
    ]
