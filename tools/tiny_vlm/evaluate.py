"""How often the checkpoint is right, on films that it has not seen, through real vLLM.

    python -m tools.tiny_vlm.evaluate

In float32 on the CPU: every kind of question, of pictures as they are, after JPEG and after
VP8, in both prompt layouts by turns. Ends with status 1 if a kind is right less often than
it has to be.
"""

import asyncio
import os
import sys
import uuid
from collections import Counter
from collections.abc import Sequence

import numpy as np

from core.engines.base import Engine, EngineRequest, ImagePart, Message, TextPart
from core.engines.sampling import SamplingParams
from core.engines.vllm import create
from core.settings import Settings
from tools.tiny_vlm.checkpoint import CHECKPOINT
from tools.tiny_vlm.degrade import Picture, jpeg, vp8
from tools.tiny_vlm.questions import (
    Conversation,
    Frame,
    Layout,
    conversation_about,
    possible_kinds,
    random_film,
)
from tools.tiny_vlm.scenes import draw
from tools.tiny_vlm.wordings import KINDS

ENOUGH = 200  # questions of each kind, for each way of the pictures
REQUIRED = 0.97
SEED = 3
WIDTH, HEIGHT = 320, 240  # px
JPEG_QUALITY = 60
VP8_BIT_RATE = 150_000  # bit/s at 15 frames a second: 0.13 bit a pixel
WAYS = ("clean", "jpeg", "vp8")
LAYOUTS: tuple[Layout, Layout] = ("chronological", "window")


def pictures_of(film: Sequence[Frame], way: str, rng: np.random.Generator) -> list[Picture]:
    """A picture of each frame: uint8 RGB (HEIGHT, WIDTH, 3); a scene stays where it is."""
    seeds = {frame.scene: int(rng.integers(1 << 40)) for frame in film}
    clean = [draw(frame.scene, WIDTH, HEIGHT, seeds[frame.scene], jitter=rng) for frame in film]
    if way == "jpeg":
        return [jpeg(picture, JPEG_QUALITY) for picture in clean]
    if way == "vp8":  # twice each, as a scene is there for more than one frame of a camera
        return vp8([picture for picture in clean for _ in range(2)], VP8_BIT_RATE)[1::2]
    return clean


def request(conversation: Conversation, images: Sequence[ImagePart]) -> EngineRequest:
    """The engine's request for the conversation's last answer."""
    left = iter(images)
    messages = tuple(
        Message(
            message["role"],
            tuple(
                next(left) if part["type"] == "image" else TextPart(part["text"])
                for part in message["content"]
            ),
        )
        for message in conversation.messages()
    )
    return EngineRequest(
        uuid.uuid4().hex,
        uuid.uuid4().hex,
        messages,
        sampling=(SamplingParams(temperature=0.0),),
        max_tokens=48,
    )


async def answer(engine: Engine, asked: EngineRequest) -> str:
    """What the engine says, without the space around it."""
    return "".join([output.text_delta async for output in engine.generate(asked)]).strip()


async def evaluate(engine: Engine, way: str) -> tuple[Counter[str], Counter[str]]:
    """Questions asked and answers that were right, by kind and by layout."""
    asked: Counter[str] = Counter()
    right: Counter[str] = Counter()
    rng = np.random.default_rng((SEED, WAYS.index(way)))
    while min(asked[kind] for kind in KINDS) < ENOUGH:
        film = random_film(rng)
        images = [
            ImagePart(picture, uuid.uuid4().hex, frame.time_s or 0.0)
            for frame, picture in zip(film, pictures_of(film, way, rng), strict=True)
        ]
        kinds = [kind for kind in possible_kinds(film) if asked[kind] < ENOUGH]
        layouts = [LAYOUTS[asked[kind] % 2] for kind in kinds]
        talks = [
            conversation_about(film, layout, kind, rng)
            for kind, layout in zip(kinds, layouts, strict=True)
        ]
        said = await asyncio.gather(*(answer(engine, request(talk, images)) for talk in talks))
        for kind, layout, talk, text in zip(kinds, layouts, talks, said, strict=True):
            wanted = talk.turns[-1].answer
            asked.update((kind, layout))
            right.update((kind, layout) if text == wanted else ())
            if text != wanted and "-v" in sys.argv:
                print(f"{way} {layout} {kind}: {text!r}, not {wanted!r}", flush=True)
    return asked, right


async def main() -> int:
    """Print the table; 1 if a cell is below what is required."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    settings = Settings(
        _cli_parse_args=False,
        engine="vllm",
        model=str(CHECKPOINT),
        dtype="float32",
        max_model_len=4096,
        kv_cache_gib=1.0,
    )
    engine = create(settings)
    await engine.start()
    enough = True
    print(f"| right of {ENOUGH} | {' | '.join((*KINDS, *LAYOUTS))} |")
    print("|---" * (1 + len(KINDS) + len(LAYOUTS)) + "|", flush=True)
    try:
        for way in WAYS:
            asked, right = await evaluate(engine, way)
            shares = {name: right[name] / asked[name] for name in (*KINDS, *LAYOUTS)}
            cells = " | ".join(f"{share:.1%}" for share in shares.values())
            print(f"| {way} | {cells} |", flush=True)
            enough &= min(shares[kind] for kind in KINDS) >= REQUIRED
    finally:
        await engine.close()
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
