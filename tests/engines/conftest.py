"""Real vLLM on the CPU, loaded once for all tests of a model."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from core.engines.base import Engine
from core.settings import Settings
from tests.engines.recorder import Recorder

TINY_VLM = Path(__file__).parents[2] / "tools" / "tiny_vlm" / "checkpoint"
START_S = 240  # loading takes half a minute on two idle cores

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")


def vllm_settings(**fields: Any) -> Settings:
    """Settings of a small in-process engine, of the tiny model unless another is named."""
    defaults: dict[str, Any] = {
        "engine": "vllm",
        "model": str(TINY_VLM),
        "dtype": "float32",
        "max_model_len": 4096,
        "max_images": 32,
        "kv_cache_gib": 1.0,
    }
    return Settings(_cli_parse_args=False, **(defaults | fields))


async def started(settings: Settings) -> Recorder:
    """A running engine that records what it is asked."""
    from core.engines.vllm import create

    engine = create(settings)
    await engine.start()
    return Recorder(engine)


async def until_ready(engine: Engine) -> None:
    """Until the engine says that it can answer."""
    async with asyncio.timeout(START_S):
        while (await engine.health()).status != "ready":  # noqa: ASYNC110
            await asyncio.sleep(0.2)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def tiny_vlm() -> AsyncIterator[Recorder]:
    """The trained tiny model of `tools/tiny_vlm`."""
    engine = await started(vllm_settings())
    yield engine
    await engine.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def large_frames(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Recorder]:
    """A model that spends 256 tokens on a frame; it says nothing of sense."""
    from tools.random_vlm import SHAPES, make

    folder = tmp_path_factory.mktemp("256-tokens")
    make(folder, SHAPES["256-tokens"])
    engine = await started(
        vllm_settings(
            model=str(folder),
            max_model_len=16_384,
            max_images=64,
            engine_options={"disable_log_stats": False},
        )
    )
    yield engine
    await engine.close()
