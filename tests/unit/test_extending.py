"""Pipelines and engines of somebody's own: the examples of docs/extending.md, run as they stand."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from core.errors import SightlineError
from core.pipeline import Pipeline, load_pipeline
from core.protocol import SessionConfig
from tests.fakes import Harness, ScriptedEngine, frame, images, jpeg, say, texts

pytestmark = pytest.mark.unit

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
EXAMPLES = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", PAGE.read_text(), re.DOTALL))
UNFILTERED = SessionConfig(enable_frame_filter=False, modalities=["text"])


def example(module: str) -> dict[str, Any]:
    """What an example defines."""
    defined: dict[str, Any] = {}
    exec(compile(EXAMPLES[module], f"{module}.py", "exec"), defined)
    return defined


def show(harness: Harness, count: int) -> None:
    for seed in range(count):
        harness.session.frame(frame(jpeg(seed), f"f{seed}"))


def test_every_example_is_short() -> None:
    assert set(EXAMPLES) == {"every_fifth", "last_frame", "my_engine"}
    assert all(text.count("\n") < 40 for text in EXAMPLES.values())


async def test_every_fifth_frame_is_answered_unasked() -> None:
    engine = ScriptedEngine(lambda request: say("A cup."))
    pipeline = example("every_fifth")["EveryFifth"]
    async with Harness(engine, UNFILTERED, pipeline=pipeline) as h:
        for count in range(1, 11):
            show(h, 1)
            await h.client.until("video.frame.ack", count)
            if count in (5, 10):
                await h.client.until("response.done", count // 5)
        starts = h.client.of("response.start")
        assert [start.unasked for start in starts] == [True, True]
        h.session.ask("And now?")
        await h.client.until("response.done", 3)
    assert "unasked" not in h.client.of("response.start")[2].payload()
    questions = [request for request in engine.requests if not request.prefill_only]
    assert [len(images(request)) for request in questions[:2]] == [4, 4]
    assert texts(questions[0])[-1] == "What do you see now?"


async def test_an_unasked_answer_does_not_interrupt_one_that_was_asked_for() -> None:
    engine = ScriptedEngine(lambda request: say("A ", "cup."), gate=asyncio.Event())
    pipeline = example("every_fifth")["EveryFifth"]
    async with Harness(engine, UNFILTERED, pipeline=pipeline) as h:
        show(h, 1)
        h.session.ask("What is it?")
        await h.client.until("response.start")
        show(h, 6)
        await h.client.until("video.frame.ack", 7)
        assert len(h.client.of("response.start")) == 1
        engine.gate.set()
        await h.client.until("response.done")


async def test_a_prompt_and_a_memory_of_ones_own() -> None:
    engine = ScriptedEngine(lambda request: say("A cup."))
    pipeline = example("last_frame")["LastFrame"]
    async with Harness(engine, UNFILTERED, pipeline=pipeline) as h:
        show(h, 3)
        await h.client.until("video.frame.ack", 3)
        for number, question in enumerate(("What is it?", "Is it full?"), 1):
            h.session.ask(question)
            await h.client.until("response.done", number)
    first, second = (request for request in engine.requests if not request.prefill_only)
    assert [len(images(request)) for request in (first, second)] == [1, 1]
    assert texts(first)[-1] == "Asked before: nothing. Now: What is it?"
    assert texts(second)[-1] == "Asked before: What is it?. Now: Is it full?"
    assert first.messages[0] == second.messages[0]


async def test_an_engine_of_ones_own() -> None:
    engine = example("my_engine")["create"](None)
    async with Harness(engine, UNFILTERED) as h:
        show(h, 3)
        await h.client.until("video.frame.ack", 3)
        h.session.ask("How many?")
        assert (await h.client.until("response.text.done")).text == "I was given 3 pictures."


class Broken(Pipeline):
    """Fails in every way that it can."""

    def see(self, frame: Any) -> None:
        raise RuntimeError("see")

    def unasked(self, frame_count: int, *, generating: bool) -> str | None:
        raise RuntimeError("unasked")

    def prompt(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("prompt")


async def test_a_broken_pipeline_hurts_its_turns_only() -> None:
    async with Harness(ScriptedEngine(), UNFILTERED, pipeline=Broken) as h:
        show(h, 2)
        await h.client.until("video.frame.ack", 2)
        h.session.ask("What is it?")
        error = await h.client.until("error", 3)
        assert error.code == "internal_error"
        assert error.request_id == h.client.of("response.start")[0].request_id
        h.session.ask("And now?")
        await h.client.until("error", 4)


async def test_a_pipeline_sees_the_config_as_it_is() -> None:
    seen: list[str | None] = []

    class Listening(Pipeline):
        """Notes the system prompt at each frame."""

        def see(self, frame: Any) -> None:
            seen.append(self.config.system_prompt)

    async with Harness(ScriptedEngine(), UNFILTERED, pipeline=Listening) as h:
        show(h, 1)
        await h.client.until("video.frame.ack")
        h.session.update({"system_prompt": "Be brief."})
        await h.client.until("session.updated")
        show(h, 1)
        await h.client.until("video.frame.ack", 2)
    assert seen == [None, "Be brief."]


def test_a_pipeline_is_loaded_by_name() -> None:
    assert load_pipeline(None) is Pipeline
    assert load_pipeline(f"{__name__}:Broken") is Broken


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nowhere:Thing", "No module named"),
        ("core.pipeline:Nothing", "has no attribute"),
        ("core.pipeline:load_pipeline", "not a subclass"),
        ("core.pipeline", "has no attribute"),
        ("", "Empty module name"),
    ],
)
def test_a_name_that_is_no_pipeline_is_refused(path: str, why: str) -> None:
    with pytest.raises(SightlineError, match=why) as error:
        load_pipeline(path)
    assert error.value.code == "pipeline_import_failed"
