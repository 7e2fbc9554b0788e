"""A conversation of several turns on a real engine, and what it computed."""

from prometheus_client import REGISTRY

from core.prompt import Layout
from core.protocol import SessionConfig
from tests.engines.recorder import Recorder
from tests.fakes import Harness, frame, jpeg


def computed_tokens() -> int:
    """Prompt tokens that were not in the prefix cache, by vLLM's own counters; all requests.

    They count a warm-up that was stopped in full: an upper bound.
    """
    read = REGISTRY.get_sample_value
    names = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total")
    labels = [
        sample.labels
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == names[0]
    ]
    queries, hits = (sum(read(name, each) or 0 for each in labels) for name in names)
    return round(queries - hits)


async def converse(engine: Recorder, layout: Layout, *, turns: int, new_frames: int) -> int:
    """A conversation with `new_frames` before each question: the tokens of its last prompt."""
    config = SessionConfig(
        modalities=["text"],
        enable_frame_filter=False,
        max_frames=turns * new_frames,
        timestamps=True,
        context_layout=layout,
        sampling_params_list=[{"max_tokens": 12, "temperature": 0.0}],
    )
    sent = 0
    async with Harness(engine, config) as h:
        for turn in range(turns):
            for _ in range(new_frames):
                h.session.frame(frame(jpeg(sent, width=160, height=120), frame_id=str(sent)))
                sent += 1
                await h.client.until("video.frame.ack", sent)
            for seen in h.session._intake.buffer.frames:
                await seen.decoded.wait()
            h.session.ask(f"What do you see in turn {turn}?")
            await h.client.until("response.done", turn + 1)
        assert not h.client.of("error")
        assert not h.client.of("context.trimmed")
    usage = engine.questions[-1].usage
    assert usage is not None
    return usage.prompt_tokens
