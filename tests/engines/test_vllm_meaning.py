"""What the tiny trained model says to what a session was shown, in both prompt layouts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from core.prompt import Layout
from core.protocol import SessionConfig
from tests.engines.conftest import START_S
from tests.engines.recorder import Recorder
from tests.fakes import Harness, encoded, frame
from tools.tiny_vlm.scenes import Scene, draw

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(START_S),
    pytest.mark.parametrize("layout", ["window", "chronological"]),
]

CIRCLE = Scene("red", "circle", 1, "left")
SQUARES = Scene("blue", "square", 2)
TRIANGLES = Scene("yellow", "triangle", 3)


class Person:
    """Shows scenes to a session, and asks."""

    def __init__(self, harness: Harness) -> None:
        self._session, self._client = harness.session, harness.client
        self._jitter = np.random.default_rng(0)
        self.shown = self.asked = 0

    async def show(self, scene: Scene, *, frames: int = 2) -> None:
        for _ in range(frames):
            picture = draw(scene, 320, 240, 7, jitter=self._jitter)
            self._session.frame(frame(encoded(picture, "JPEG", quality=70)))
            self.shown += 1
            await self._client.until("video.frame.ack", self.shown)
        for seen in self._session._intake.buffer.frames:
            await seen.decoded.wait()

    async def ask(self, question: str) -> str:
        self._session.ask(question)
        self.asked += 1
        await self._client.until("response.done", self.asked)
        return str(self._client.of("response.text.done")[-1].text)


@asynccontextmanager
async def person(engine: Recorder, layout: Layout, **config: Any) -> AsyncIterator[Person]:
    """Somebody in a new session."""
    settings = SessionConfig(
        modalities=["text"],
        enable_frame_filter=False,
        num_frames=16,
        timestamps=True,
        context_layout=layout,
        sampling_params_list=[{"temperature": 0.0, "max_tokens": 48}],
        **config,
    )
    async with Harness(engine, settings) as harness:
        yield Person(harness)


async def test_what_is_shown_now(tiny_vlm: Recorder, layout: Layout) -> None:
    async with person(tiny_vlm, layout) as me:
        await me.show(CIRCLE)
        assert await me.ask("What do you see?") == "a red circle"
        assert await me.ask("Is it left or right?") == "left"
        await me.show(SQUARES)
        assert await me.ask("What do you see now?") == "two blue squares"
        assert await me.ask("What colour is it?") == "blue"
        await me.show(TRIANGLES)
        assert await me.ask("How many are there?") == "three"
        assert await me.ask("What shape is it?") == "triangle"


async def test_what_came_before(tiny_vlm: Recorder, layout: Layout) -> None:
    async with person(tiny_vlm, layout, system_prompt="You are a helpful assistant.") as me:
        await me.show(SQUARES)
        await me.show(CIRCLE, frames=3)
        assert await me.ask("What changed?") == "two blue squares became a red circle"
        await me.show(TRIANGLES)
        assert await me.ask("What came first?") == "two blue squares"
        wanted = "two blue squares, then a red circle, then three yellow triangles"
        assert await me.ask("List what you saw in order.") == wanted


async def test_at_which_time_mark(tiny_vlm: Recorder, layout: Layout) -> None:
    async with person(tiny_vlm, layout) as me:
        await me.show(CIRCLE)
        await me.show(TRIANGLES)
        answer = await me.ask("When did you first see the three yellow triangles?")
        marks = [frame.time_s for frame in me._session._intake.buffer.frames]
        assert answer == f"{marks[2]:.1f} s"


async def test_the_other_order_is_another_answer(tiny_vlm: Recorder, layout: Layout) -> None:
    """The same pictures: what decides is when they were shown."""
    for scenes in ((CIRCLE, SQUARES), (SQUARES, CIRCLE)):
        async with person(tiny_vlm, layout) as me:
            for scene in scenes:
                await me.show(scene)
            answer = await me.ask("List what you saw in order.")
            assert answer == f"{scenes[0].phrase}, then {scenes[1].phrase}"
