"""Incremental prefill: what a question costs, by layout, on vLLM in this process.

    python -m benchmarks.prefill [ttft] [tokens] [neighbours]

`ttft`: time to first token with a checkpoint of SmolVLM-256M's shape, random weights,
float32. `tokens`: tokens computed over ten turns. `neighbours`: a session that asks beside
eight that stream, with the trained tiny model. All on the CPU; a quarter of an hour.
"""

import asyncio
import logging
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from core.context import Context, Exchange
from core.engines.base import EngineRequest
from core.engines.sampling import SamplingParams
from core.engines.vllm import create
from core.frames import NO_SOURCE, Frame, FrameInput
from core.prompt import Layout, prompt
from core.settings import Settings
from core.timeline import FrameTimeline
from tests.engines.conftest import TINY_VLM, vllm_settings
from tests.engines.conversation import computed_tokens, converse
from tests.engines.neighbours import Neighbours, scheduled_ahead
from tests.engines.recorder import Recorder
from tests.fakes import picture
from tools.random_vlm import SHAPES, Shape, make

log = logging.getLogger("prefill")

FRAME_COUNTS = (1, 4, 16, 48)
REPEATS = 3
ANSWER_TOKENS = 8
GREEDY = (SamplingParams(temperature=0.0, max_tokens=ANSWER_TOKENS, ignore_eos=True),)
TURNS, FRAMES_PER_TURN = 10, 5
STREAMING, INTERVAL_S, QUESTIONS, ROUNDS = 8, 1.0, 50, 5
COUNTERS = {"disable_log_stats": False}


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Recorder]:
    """An engine of these settings."""
    engine = create(settings)
    await engine.start()
    try:
        yield Recorder(engine)
    finally:
        await engine.close()


@asynccontextmanager
async def random_model(shape: Shape, **fields: Any) -> AsyncIterator[Recorder]:
    """An engine with a model of this shape and random weights."""
    with tempfile.TemporaryDirectory(prefix="prefill-") as folder:
        make(Path(folder), shape)
        async with running(vllm_settings(model=folder, **fields)) as engine:
            yield engine


# --- time to first token ------------------------------------------------------------------


def frames(count: int, *, width: int = 640, height: int = 480) -> tuple[Frame, ...]:
    """New frames, half a second apart, each unlike any other."""
    made = []
    for number in range(count):
        frame = Frame(
            FrameInput(NO_SOURCE),
            content_id=uuid.uuid4().hex,
            time_s=number / 2,
            timeline=FrameTimeline(0),
        )
        frame.number = number
        frame.finish_decode(picture(uuid.uuid4().int % 2**32, width, height), 0.0)
        made.append(frame)
    return tuple(made)


async def ask(
    engine: Recorder, session: str, layout: Layout, context: Context, text: str = ""
) -> tuple[float, str]:
    """Time to first token (s) and the answer; without `text`, of a warm-up."""
    request = EngineRequest(
        uuid.uuid4().hex,
        session,
        prompt(layout, context, system_prompt=None, timestamps=True, text=text),
        sampling=GREEDY,
        max_tokens=None if text else 1,
        prefill_only=not text,
    )
    async for _ in engine.generate(request):
        pass
    record = engine.records[-1]
    return record.ttft_s, record.text


async def ttft() -> None:
    """The table of times to first token."""
    async with random_model(
        SHAPES["smolvlm-256m"], max_model_len=8192, max_images=64, kv_cache_gib=2.0
    ) as engine:
        await ask(engine, "x", "window", Context(frames(1)), "hello")  # whatever is made once
        rows: dict[int, dict[str, float]] = {count: {} for count in FRAME_COUNTS}
        for layout in ("window", "chronological"):
            await warm_rows(engine, layout, rows)
        for count in FRAME_COUNTS:
            cold = Context(frames(count))
            rows[count]["cold"] = (await ask(engine, uuid.uuid4().hex, "window", cold, "what?"))[0]
            log.info("cold, %d frames: %.2f s", count, rows[count]["cold"])
    names = ["cold", "window", "chronological", "2nd turn, window", "2nd turn, chronological"]
    print("time to first token, ms; SmolVLM-256M's shape, float32, random weights")
    print("frames".ljust(8) + "".join(name.rjust(25) for name in names))
    for count, row in rows.items():
        print(f"{count:<8}" + "".join(f"{row[name] * 1000:25.0f}" for name in names))
    for name in ("window", "chronological"):
        print(
            f"warm, {name}: 48 frames are {rows[48][name] / rows[1][name]:.2f} x 1 frame, and "
            f"{rows[48][name] / rows[16]['cold']:.2%} of cold at 16"
        )


async def warm_rows(engine: Recorder, layout: Layout, rows: dict[int, dict[str, float]]) -> None:
    """A session that is shown frame after frame, and asked at each count of `rows`.

    The second turn is asked at once after the first, nothing warmed between them.
    """
    session, seen = uuid.uuid4().hex, frames(max(FRAME_COUNTS))
    for count in range(1, len(seen) + 1):
        context = Context(seen[:count])
        await ask(engine, session, layout, context)
        if count not in rows:
            continue
        times = [
            await ask(engine, session, layout, context, f"what is there {number}?")
            for number in range(REPEATS)
        ]
        rows[count][layout] = statistics.median(first for first, _ in times)
        said = Exchange(0, "what is there 0?", times[0][1], count - 1, text="what is there 0?")
        second = Context(seen[:count], (said,))
        rows[count][f"2nd turn, {layout}"] = (
            await ask(engine, session, layout, second, "and now?")
        )[0]
        log.info("%s, %d frames: %s", layout, count, rows[count])


# --- tokens computed ----------------------------------------------------------------------


async def tokens() -> None:
    """The table of tokens computed over ten turns."""
    print(f"\ntokens computed over {TURNS} turns of {FRAMES_PER_TURN} new frames")
    columns = ("distinct", "computed", "ratio", "over")
    print("tokens a frame".ljust(16) + "layout".ljust(16) + "".join(c.rjust(10) for c in columns))
    large = random_model(
        SHAPES["256-tokens"], max_model_len=16_384, max_images=64, engine_options=COUNTERS
    )
    small = running(vllm_settings(max_images=64, engine_options=COUNTERS))
    for name, model in (("256", large), ("tiny VLM's 4", small)):
        async with model as engine:
            for layout in ("chronological", "window"):
                before = computed_tokens()
                distinct = await converse(engine, layout, turns=TURNS, new_frames=FRAMES_PER_TURN)
                computed = computed_tokens() - before
                ratio = f"{computed / distinct:.3f}"
                figures = (distinct, computed, ratio, computed - distinct)
                print(f"{name:<16}{layout:<16}" + "".join(str(f).rjust(10) for f in figures))
    print(
        "`over` is what was computed more than once: in partly filled cache blocks of 32 tokens "
        "and, for `window`, behind a prefix that changed"
    )


# --- neighbours ---------------------------------------------------------------------------


async def neighbours() -> None:
    """Fifty questions, with eight streaming sessions and without, in turns."""
    silent: list[float] = []
    beside: list[float] = []
    steps: list[float] = []
    ahead = warmups = 0
    async with running(vllm_settings(model=str(TINY_VLM))) as engine:
        for _ in range(ROUNDS):
            silent += await questions(engine, streaming=0)
            beside += await questions(engine, streaming=STREAMING)
            steps += [
                after - before
                for record in engine.questions
                for before, after in pairwise(record.output_s)
            ]
            ahead += len(scheduled_ahead(engine))
            warmups += len(engine.warmups)
    print(f"\n{len(beside)} questions beside {STREAMING} sessions with a kept frame a second")
    print("".ljust(32) + "".join(name.rjust(10) for name in ("p50 ms", "p95 ms", "max ms")))
    for name, values in (
        ("first token, the eight silent", silent),
        ("first token, the eight streaming", beside),
        ("engine step, the eight streaming", steps),
    ):
        points = (*np.percentile(values, [50, 95]), max(values))
        print(name.ljust(32) + "".join(f"{point * 1000:10.1f}" for point in points))
    more = np.percentile(beside, 95) - np.percentile(silent, 95)
    print(
        f"p95 is {more * 1000:.1f} ms later; {warmups} warm-ups of the eight, "
        f"{ahead} scheduled ahead of a waiting question"
    )


async def questions(engine: Recorder, *, streaming: int) -> list[float]:
    """Times to first token (s) of a round; the engine's records are of this round alone."""
    engine.records.clear()
    async with Neighbours(engine, streaming=streaming, interval_s=INTERVAL_S) as sessions:
        await asyncio.sleep(INTERVAL_S)
        for number in range(QUESTIONS // ROUNDS):
            await sessions.ask(f"What do you see? {number}")
            await asyncio.sleep(0.3)
        await asyncio.sleep(0.1)
    return [record.ttft_s for record in engine.questions]


async def main(names: Sequence[str]) -> None:
    """The named tables, or all."""
    chosen = {"ttft": ttft, "tokens": tokens, "neighbours": neighbours}
    started = time.monotonic()
    for name in names or chosen:
        await chosen[name]()
    print(f"\n{time.monotonic() - started:.0f} s in all")


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    log.setLevel(logging.INFO)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    asyncio.run(main(sys.argv[1:]))
