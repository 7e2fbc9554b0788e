"""A thinker that hears, on real vLLM: a tiny Qwen2.5-Omni with random weights.

It runs in a process of its own, because its processor needs torchvision, beside which other
models' processors cannot be loaded with a CPU torch.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.engines.base import AudioPart, EngineRequest, EngineUsage, ImagePart, Message, TextPart
from core.settings import Settings
from tests.engines.packages import beside

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
IMAGES = 6
IMAGE_TOKENS = 16  # of 112 × 112 pixels, 28 × 28 each
AUDIO_TOKENS_PER_S = 25
BLOCK_TOKENS = 32
RATE_HZ = 16_000


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `measure` found, in a process with torchvision on its path."""
    pytest.importorskip("vllm")
    folder = tmp_path_factory.mktemp("thinker")
    torchvision = beside("torchvision", "torchvision==0.28.0")
    path = [ROOT / "tests" / "shim", torchvision, ROOT]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    found: dict[str, Any] = json.loads((folder / "measured.json").read_text())
    return found


def test_engine_says_that_it_hears(measured):
    assert measured["hears"] is True
    assert measured["speaks"] is False


def test_audio_reaches_the_engine_as_audio(measured):
    """Two more seconds are fifty more tokens, whatever was said in them."""
    assert measured["two_s"]["prompt"] == measured["other_two_s"]["prompt"]
    assert measured["four_s"]["prompt"] - measured["two_s"]["prompt"] == 2 * AUDIO_TOKENS_PER_S
    assert measured["two_s"]["prompt"] - measured["no_audio"]["prompt"] >= 2 * AUDIO_TOKENS_PER_S


def test_warm_prefix_holds_with_audio_behind_it(measured):
    """All full blocks that the warm-up filled with images are there for the question."""
    warmed = measured["warm_up"]["prompt"]
    assert warmed >= IMAGES * IMAGE_TOKENS
    assert measured["two_s"]["cached"] == warmed // BLOCK_TOKENS * BLOCK_TOKENS
    assert measured["two_s"]["cached"] >= IMAGES * IMAGE_TOKENS - BLOCK_TOKENS


def test_audio_does_not_change_what_is_cached(measured):
    cached = {measured[name]["cached"] for name in ("two_s", "other_two_s", "four_s", "no_audio")}
    assert cached == {measured["two_s"]["cached"]}


def test_same_audio_again_is_cached_too(measured):
    assert measured["two_s_again"]["cached"] > measured["two_s"]["cached"]
    assert measured["two_s_again"]["prompt"] == measured["two_s"]["prompt"]


def test_other_session_shares_nothing(measured):
    assert measured["other_session"]["cached"] == 0


async def measure(folder: Path) -> dict[str, Any]:
    """Ask a thinker made in `folder` about images, with and without audio behind them."""
    from core.engines.vllm import create
    from tools.tiny_omni.make import make

    make(folder)
    engine = create(
        Settings(
            engine="vllm",
            model=str(folder),
            dtype="float32",
            max_model_len=4096,
            max_images=16,
            kv_cache_gib=1,
            engine_options={"block_size": BLOCK_TOKENS},
        )
    )
    await engine.start()
    try:
        found: dict[str, Any] = {"hears": engine.info.hears, "speaks": engine.info.speaks}
        text = TextPart("What do you see?")
        asked: dict[str, tuple[Any, ...]] = {
            "warm_up": (),
            "two_s": (speech(2, seed=1), text),
            "other_two_s": (speech(2, seed=2), text),
            "four_s": (speech(4, seed=3), text),
            "no_audio": (text,),
            "two_s_again": (speech(2, seed=1), text),
        }
        for name, parts in asked.items():
            found[name] = await usage_of(engine, name, "one", parts)
        found["other_session"] = await usage_of(engine, "other", "two", asked["two_s"])
        return found
    finally:
        await engine.close()


async def usage_of(engine: Any, name: str, session: str, parts: tuple[Any, ...]) -> dict[str, int]:
    """Tokens of a prompt of the images and `parts`; of a warm-up, if there are none."""
    request = EngineRequest(
        request_id=name,
        session_id=session,
        messages=(Message("user", (*images(), *parts)),),
        max_tokens=1 if not parts else 4,
        prefill_only=not parts,
    )
    usage: EngineUsage | None = None
    async for output in engine.generate(request):
        usage = output.usage or usage
    assert usage is not None
    return {"prompt": usage.prompt_tokens, "cached": usage.cached_tokens}


def images() -> list[ImagePart]:
    """The same frames each time, named as the same."""
    rng = np.random.default_rng(0)
    return [
        ImagePart(rng.integers(0, 255, (112, 112, 3), np.uint8), f"frame-{number}", number / 2)
        for number in range(IMAGES)
    ]


def speech(seconds: int, *, seed: int) -> AudioPart:
    """Noise, as PCM16 at 16 kHz."""
    noise = np.random.default_rng(seed).normal(0, 3000, seconds * RATE_HZ)
    return AudioPart(noise.astype("<i2").tobytes())


if __name__ == "__main__":
    target = Path(sys.argv[1])
    (target / "measured.json").write_text(json.dumps(asyncio.run(measure(target))))
