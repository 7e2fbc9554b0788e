"""Which frames of a clip do the two filters keep, and what does that cost?

    python -m benchmarks.frame_filter [clip.mp4 ...]

Without arguments: the clips of `../shared/media`, where that folder is there, and a still
scene with sensor noise made here. Both filters see the same frames in the same run, so
their times compare; alone they mean little on a shared machine.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np

from core.frames import VideoImage
from core.similarity import BlockFilter, FrameFilter, ReferenceFilter

ANALYSED_FPS = 10.0
KEPT_FPS = 2.0
NOISE_LEVELS = 6.0  # grey levels, standard deviation
STILL_S = 30
SHARED_MEDIA = Path(__file__).resolve().parents[2] / "shared" / "media"


def clip_frames(path: Path) -> Iterator[tuple[float, av.VideoFrame]]:
    """Time in s and frame, at most ANALYSED_FPS a second."""
    with av.open(str(path)) as container:
        next_s = 0.0
        for frame in container.decode(video=0):
            if frame.time is not None and frame.time >= next_s:
                next_s += 1.0 / ANALYSED_FPS
                yield frame.time, frame


def still_frames() -> Iterator[tuple[float, av.VideoFrame]]:
    """A picture that does not change, but for noise; 640 × 480."""
    rng = np.random.default_rng(0)
    gradient = np.linspace(40, 200, 640)[None, :, None] * np.ones((480, 1, 3))
    for number in range(int(STILL_S * ANALYSED_FPS)):
        noisy = np.clip(gradient + rng.normal(0, NOISE_LEVELS, gradient.shape), 0, 255)
        frame = av.VideoFrame.from_ndarray(noisy.astype(np.uint8), format="rgb24")
        yield number / ANALYSED_FPS, frame.reformat(format="yuv420p")


def run(frames: Iterator[tuple[float, av.VideoFrame]], filters: dict[str, FrameFilter]) -> str:
    """One row: frames seen, and for each filter how many it kept and ms a frame."""
    kept = dict.fromkeys(filters, 0)
    spent_s = dict.fromkeys(filters, 0.0)
    seen = 0
    for time_s, frame in frames:
        seen += 1
        for name, frame_filter in filters.items():
            image = VideoImage(frame, seen)
            before = time.thread_time()
            features = frame_filter.features(image, image.thumbnail())
            kept[name] += frame_filter.decide(features, time_s).kept
            spent_s[name] += time.thread_time() - before
    cells = [f"{kept[name]:>6} {spent_s[name] / seen * 1000:>9.2f}" for name in filters]
    return f"{seen:>7} " + " ".join(cells)


def main() -> None:
    """Print the table."""
    paths = [Path(argument) for argument in sys.argv[1:]] or sorted(SHARED_MEDIA.glob("*.mp4"))
    clips = {path.name: clip_frames(path) for path in paths}
    if not sys.argv[1:]:
        clips["still scene, noisy"] = still_frames()
    print(f"{'clip':<24} {'frames':>7} {'reference':>16} {'block':>16}")
    print(f"{'':<24} {'':>7} {'kept':>6} {'ms/frame':>9} {'kept':>6} {'ms/frame':>9}")
    for name, frames in clips.items():
        filters: dict[str, FrameFilter] = {
            "reference": ReferenceFilter(),
            "block": BlockFilter(max_rate_hz=KEPT_FPS),
        }
        print(f"{name:<24} {run(frames, filters)}")


if __name__ == "__main__":
    main()
