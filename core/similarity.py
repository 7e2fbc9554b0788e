"""Frame filters: which frames are worth showing to a model, with a score and a reason.

A filter works in two steps: `features` is slow and pure and runs on the decode pool;
`decide` is quick, changes the filter's state and runs where the session's state lives.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from core.frames import FrameSource, Thumbnail
from core.protocol import SessionConfig

REFERENCE_THRESHOLD = 0.95
REFERENCE_SIDE = 64  # pixels

GRID_WIDTH, GRID_HEIGHT = 128, 96  # pixels compared; aspect ignored
BLOCK = 8  # pixels; 16 × 12 blocks
NOISE_FLOOR = 6.0  # grey levels that a block may differ by without having changed
NOISE_GAIN = 3.0  # times the picture's own noise
CHANGED_AREA = 0.03  # of all blocks
LARGEST_CHANGE = 24.0  # grey levels of one block, standing out from its surroundings
BRIGHTNESS_STEP = 40.0  # grey levels: the light itself was switched


@dataclass(frozen=True)
class Decision:
    """Whether a frame is kept. `score` is how much changed, 0 to 1, None if not compared."""

    kept: bool
    reason: str
    score: float | None


class FrameFilter(Protocol):
    """Decides on frames of one session, one after another."""

    def features(self, source: FrameSource, thumbnail: Thumbnail) -> Any:
        """What `decide` needs of a frame. Pure; may be slow. Raises `MediaError`."""

    def decide(self, features: Any, time_s: float) -> Decision:
        """The decision on the frame that arrived at `time_s`."""


class KeepAll:
    """The filter that is switched off."""

    def features(self, source: FrameSource, thumbnail: Thumbnail) -> None:
        """Nothing is needed."""

    def decide(self, features: None, time_s: float) -> Decision:
        """Keep."""
        return Decision(True, "off", None)


class ReferenceFilter:
    """The released filter, number for number.

    similarity = 1 − MSE / 255² between 64×64 RGB pictures (bilinear, aspect ignored) of
    this and the last kept frame; dropped at or above `threshold`. The score is
    1 − similarity. Source: vLLM-Omni's EVS frame filter; its blindness is fault F9.
    """

    def __init__(self, threshold: float = REFERENCE_THRESHOLD) -> None:
        self._threshold = threshold
        self._last: NDArray[np.float64] | None = None

    def features(self, source: FrameSource, thumbnail: Thumbnail) -> NDArray[np.float64]:
        """64 × 64 × 3 values, 0 to 255, of the fully decoded frame."""
        image = Image.fromarray(source.rgb())
        small = image.resize((REFERENCE_SIDE, REFERENCE_SIDE), Image.Resampling.BILINEAR)
        return np.asarray(small, np.float64)

    def decide(self, features: NDArray[np.float64], time_s: float) -> Decision:
        """Compare with the last kept frame; the first is always kept."""
        if self._last is None:
            self._last = features
            return Decision(True, "first", None)
        similarity = 1.0 - float(np.mean((features - self._last) ** 2)) / 255.0**2
        if similarity >= self._threshold:
            return Decision(False, "still", 1.0 - similarity)
        self._last = features
        return Decision(True, "changed", 1.0 - similarity)


class BlockFilter:
    """Ours: where did the picture change, rather than how much on average.

    8×8 blocks of a luma and chroma thumbnail are compared with the last kept frame, after
    a global brightness step (exposure, auto white balance) is taken out. A block has
    changed when it differs by more than the picture's own noise. Kept: enough blocks
    changed, or one changed a lot, or the light was switched, or `max_gap_s` went by.
    At most `max_rate_hz` frames a second are kept; a change that comes too early is kept
    as soon as it may be, since it still differs from the last kept frame then.
    """

    def __init__(self, *, max_gap_s: float = 5.0, max_rate_hz: float | None = None) -> None:
        self._max_gap_s = max_gap_s
        self._min_gap_s = 1.0 / max_rate_hz if max_rate_hz else 0.0
        self._last: NDArray[np.float32] | None = None
        self._last_s = 0.0

    def features(self, source: FrameSource, thumbnail: Thumbnail) -> NDArray[np.float32]:
        """96 × 128 × 3 values, 0 to 255: luma, red and blue difference."""
        small = cv2.resize(thumbnail.rgb, (GRID_WIDTH, GRID_HEIGHT), interpolation=cv2.INTER_AREA)
        return cv2.cvtColor(small, cv2.COLOR_RGB2YCrCb).astype(np.float32)

    def decide(self, features: NDArray[np.float32], time_s: float) -> Decision:
        """Compare with the last kept frame; the first is always kept."""
        if self._last is None:
            return self._keep(features, time_s, "first", None)
        change = block_change(features, self._last)
        gap_s = time_s - self._last_s
        if change.significant:
            if gap_s < self._min_gap_s:
                return Decision(False, "rate", change.score)
            return self._keep(features, time_s, "changed", change.score)
        if gap_s >= self._max_gap_s:
            return self._keep(features, time_s, "max_gap", change.score)
        return Decision(False, "still", change.score)

    def _keep(
        self, features: NDArray[np.float32], time_s: float, reason: str, score: float | None
    ) -> Decision:
        self._last, self._last_s = features, time_s
        return Decision(True, reason, score)


@dataclass(frozen=True)
class BlockChange:
    """What changed between two pictures."""

    area: float  # fraction of blocks that changed, 0 to 1
    largest: float  # grey levels, of the block that changed most
    brightness: float  # grey levels, of the whole picture

    @property
    def significant(self) -> bool:
        """Whether a model should see it."""
        return (
            self.area >= CHANGED_AREA
            or self.largest >= LARGEST_CHANGE
            or abs(self.brightness) >= BRIGHTNESS_STEP
        )

    @property
    def score(self) -> float:
        """How much changed, 0 to 1: the strongest of the three, 0.5 where it is enough."""
        strongest = max(
            self.area / CHANGED_AREA,
            self.largest / LARGEST_CHANGE,
            abs(self.brightness) / BRIGHTNESS_STEP,
        )
        return strongest**2 / (1.0 + strongest**2)


def block_change(now: NDArray[np.float32], before: NDArray[np.float32]) -> BlockChange:
    """Compare two YCrCb pictures of GRID_HEIGHT × GRID_WIDTH × 3."""
    luma, luma_before = now[..., 0], before[..., 0]
    # Exposure multiplies: fit now ≈ gain · before + offset, robustly, on the luma.
    lit = (luma_before > 16) & (luma_before < 240) & (luma < 250)
    gain = float(np.median(luma[lit] / luma_before[lit])) if lit.mean() > 0.25 else 1.0
    gain = min(max(gain, 0.5), 2.0)
    fits = [_unexplained(luma, luma_before * gain), _unexplained(luma, luma_before)]
    luma_difference = min(fits, key=lambda fit: float(np.mean(np.abs(fit))))
    chroma = now[..., 1:] - before[..., 1:]
    chroma -= np.median(chroma, axis=(0, 1))
    blocks = np.maximum(
        _block_means(np.abs(_smooth(luma_difference))),
        _block_means(np.abs(_smooth(chroma)).max(axis=-1)),
    )
    noise = float(np.median(blocks))
    changed = blocks > max(NOISE_FLOOR, NOISE_GAIN * noise)
    brightness = float(np.median(luma) - np.median(luma_before))
    # A block that changed alone is a flicker of noise unless it stands out.
    return BlockChange(
        area=float(changed.mean()),
        largest=max(0.0, float(blocks.max()) - noise),
        brightness=brightness,
    )


def _unexplained(luma: NDArray[np.float32], predicted: NDArray[np.float32]) -> NDArray[np.float32]:
    """What remains of `luma` once `predicted`, shifted to fit and clipped to white, is taken."""
    shifted = predicted + np.median(luma - predicted)
    return np.asarray(luma - np.clip(shifted, 0.0, 255.0), np.float32)


def _smooth(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(cv2.blur(values, (3, 3)), np.float32)


def _block_means(values: NDArray[np.float32]) -> NDArray[np.float32]:
    grid = (GRID_WIDTH // BLOCK, GRID_HEIGHT // BLOCK)
    return np.asarray(cv2.resize(values, grid, interpolation=cv2.INTER_AREA), np.float32)


def make_filter(config: SessionConfig, *, max_rate_hz: float | None) -> FrameFilter:
    """The filter that a session asks for."""
    if config.filter_name == "off":
        return KeepAll()
    if config.filter_name == "reference":
        threshold = config.frame_filter_threshold
        return ReferenceFilter(REFERENCE_THRESHOLD if threshold is None else threshold)
    return BlockFilter(max_gap_s=config.frame_filter_max_gap_s, max_rate_hz=max_rate_hz)
