"""Session affinity: how much of the prompts two vLLM replicas find in their prefix caches.

Several sessions talk at once, each in turns: two new frames, a warm-up, a question. The same
requests go to two servers of the tiny model behind nginx (deploy/replicas.conf), once with
the session's id hashed and once dealt out in turn. Needs nginx and vLLM.

    python -m benchmarks.affinity
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from PIL import Image

from core.engines.base import EngineRequest, ImagePart, Message, TextPart
from core.engines.openai import OpenAIEngine
from core.engines.sampling import SamplingParams
from tests.engines.servers import CHECKPOINT, NGINX, ROOT, Server, free_port, nginx, vllm_servers

SESSIONS = 6
TURNS = 4
FRAMES_PER_TURN = 2
ANSWER_TOKENS = 8
HASH_LINE = "hash $affinity consistent;"


@dataclass(frozen=True)
class HitRate:
    """Tokens of the questions' prompts, how many came from a cache, and how long it took."""

    prompt_tokens: int
    cached_tokens: int
    first_text_ms: float  # median over the questions

    @property
    def rate(self) -> float:
        """Share of the tokens that came from a cache, 0 to 1."""
        return self.cached_tokens / self.prompt_tokens


def router_config(*, affinity: bool) -> str:
    """deploy/replicas.conf, or without affinity the same with requests dealt out in turn."""
    config = (ROOT / "deploy" / "replicas.conf").read_text()
    assert HASH_LINE in config
    return config if affinity else config.replace(HASH_LINE, "")


async def measure(
    replicas: Sequence[Server],
    folder: Path,
    *,
    affinity: bool,
    sessions: int = SESSIONS,
    turns: int = TURNS,
    api_key: str = "",
) -> HitRate:
    """Talk through nginx; what of the questions' prompts was cached."""
    ports = {8000: free_port(), 8001: replicas[0].port, 8002: replicas[1].port}
    with nginx(router_config(affinity=affinity), ports, folder) as router:
        engine = OpenAIEngine(router.base_url, api_key=api_key)
        await engine.start()
        try:
            names = [f"{'hashed' if affinity else 'dealt'}-{n}" for n in range(sessions)]
            told = await asyncio.gather(*(_talk(engine, name, turns) for name in names))
        finally:
            await engine.close()
    questions = [question for session in told for question in session]
    return HitRate(
        prompt_tokens=sum(prompt for prompt, _, _ in questions),
        cached_tokens=sum(cached for _, cached, _ in questions),
        first_text_ms=statistics.median(ms for _, _, ms in questions),
    )


async def _talk(engine: OpenAIEngine, session_id: str, turns: int) -> list[tuple[int, int, float]]:
    """One session: prompt tokens, cached tokens and ms to the first output, by question."""
    parts: list[TextPart | ImagePart] = []
    told = []
    for turn in range(turns):
        for index in range(FRAMES_PER_TURN):
            number = turn * FRAMES_PER_TURN + index
            rgb = _picture(crc32(f"{session_id}-{number}".encode()))
            parts += [TextPart(f"<{number}.0 s>"), ImagePart(rgb, f"{session_id}-{number}", number)]
        await _send(engine, session_id, f"warm-{turn}", parts, prefill_only=True)
        asked = [*parts, TextPart("what is shown?")]
        told.append(await _send(engine, session_id, f"ask-{turn}", asked, prefill_only=False))
    return told


async def _send(
    engine: OpenAIEngine,
    session_id: str,
    name: str,
    parts: Sequence[TextPart | ImagePart],
    *,
    prefill_only: bool,
) -> tuple[int, int, float]:
    request = EngineRequest(
        f"{session_id}-{name}",
        session_id,
        (Message("user", tuple(parts)),),
        sampling=(SamplingParams(temperature=0, ignore_eos=True, max_tokens=ANSWER_TOKENS),),
        prefill_only=prefill_only,
    )
    began_s = time.perf_counter()
    first_s: float | None = None
    usage = None
    async for output in engine.generate(request):
        first_s = first_s or time.perf_counter()
        usage = output.usage or usage
    assert usage is not None
    assert first_s is not None
    return usage.prompt_tokens, usage.cached_tokens, 1000 * (first_s - began_s)


def _picture(seed: int) -> np.ndarray:
    small = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), np.uint8)
    return np.asarray(Image.fromarray(small).resize((160, 120), Image.Resampling.BICUBIC))


async def main() -> int:
    """Start the servers, measure both ways, print the table."""
    if NGINX is None or not CHECKPOINT.exists():
        missing = "nginx (Debian: nginx-light)" if NGINX is None else str(CHECKPOINT)
        print(f"affinity: needs {missing}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name, vllm_servers(2, Path(name)) as replicas:
        print(f"{SESSIONS} sessions × {TURNS} turns of {FRAMES_PER_TURN} frames, 2 replicas")
        print("| router | prompt tokens | cached | hit rate | first output, median |")
        print("|---|---|---|---|---|")
        for affinity, label in ((False, "in turn"), (True, "by session")):
            hits = await measure(replicas, Path(name) / label, affinity=affinity)
            print(
                f"| {label} | {hits.prompt_tokens} | {hits.cached_tokens} | {hits.rate:.0%} "
                f"| {hits.first_text_ms:.0f} ms |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
