"""What was measured of one frame. Everything an answer says comes from notes."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Box:
    """A rectangle in the picture, as fractions of its width and height, 0 to 1."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def area(self) -> float:
        """Fraction of the picture."""
        return max(0.0, self.right - self.left) * max(0.0, self.bottom - self.top)

    @property
    def centre(self) -> tuple[float, float]:
        """Across, down."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def overlap(self, other: "Box") -> float:
        """Area in common over the smaller of the two areas, 0 to 1."""
        common = Box(
            max(self.left, other.left),
            max(self.top, other.top),
            min(self.right, other.right),
            min(self.bottom, other.bottom),
        )
        smaller = min(self.area, other.area)
        return common.area / smaller if smaller else 0.0


@dataclass(frozen=True)
class Label:
    """A class of the whole picture, with its probability in every view of it."""

    name: str
    probability: float  # 0 to 1


@dataclass(frozen=True)
class Seen:
    """An object or a face, and where it is."""

    name: str
    score: float  # 0 to 1
    box: Box


@dataclass(frozen=True)
class Colours:
    """Named colours with their fraction of the pixels, largest first."""

    whole: tuple[tuple[str, float], ...] = ()
    subject: tuple[tuple[str, float], ...] = ()  # of what stands out in the middle


@dataclass(frozen=True)
class Note:
    """What was measured of the frame `content_id` that came at `time_s` of its session.

    `text` is None until the frame was read; `grid` is what motion is measured with
    (uint8, GRID_HEIGHT × GRID_WIDTH × 3, YCrCb), kept for the newest notes only.
    """

    content_id: str
    time_s: float
    kinds: tuple[Label, ...] = ()  # cat, building, … : probabilities of classes added up
    labels: tuple[Label, ...] = ()  # Egyptian Mau, palace, …
    objects: tuple[Seen, ...] = ()
    faces: tuple[Seen, ...] = ()
    flower: float = 0.0  # how much it is shaped and coloured like a flower, 0 to 1
    flat: float = 0.0  # the share of one even tone behind strong contrast, as of print
    colours: Colours = Colours()
    brightness: float = 0.5  # mean luma, 0 to 1
    text: tuple[str, ...] | None = None
    grid: NDArray[np.uint8] | None = field(default=None, repr=False, compare=False)
