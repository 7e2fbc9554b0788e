"""The perceiver: one frame in, one note out, on whatever thread it is called."""

import logging
from collections.abc import Callable
from typing import TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from core.perception import blossom, colour
from core.perception.classifier import Classifier
from core.perception.detector import Detector
from core.perception.faces import FaceFinder
from core.perception.note import Box, Note, Seen
from core.perception.text import TextReader
from core.similarity import GRID_HEIGHT, GRID_WIDTH
from core.weights import ModelError

log = logging.getLogger(__name__)

BAR_LEVEL = 24  # a row or column whose pixels are darker may be of a letterbox bar
BAR_SHARE = 0.05  # of its pixels may be brighter all the same
TRIM_STEP = 8  # pixels
MIN_PICTURE = 0.3  # of width or height: what is left of a trimmed picture
EVEN_TONE = 10  # grey levels around the commonest that count as the same
PRINT_CONTRAST = 80  # grey levels between the darkest and the brightest
SUBJECT_SCORE = 0.5  # of an object whose colours are taken for the subject's
SUBJECT_AREA = (0.03, 0.8)  # of the picture
NOT_A_SUBJECT = frozenset({"table", "bed"})  # things lie on them

Rgb = NDArray[np.uint8]
Part = TypeVar("Part")


class Perceiver:
    """All models. A part whose weights are missing or broken is off; the rest works."""

    def __init__(self) -> None:
        self.problems: list[str] = []  # one sentence for each part that is off
        self._classifier: Classifier | None = None
        self._detector: Detector | None = None
        self._faces: FaceFinder | None = None
        self._reader: TextReader | None = None

    def load(self, progress: Callable[[str], None] = lambda part: None) -> None:
        """Load every part; `progress` is told which. Slow: seconds. Never raises."""
        cv2.setNumThreads(1)
        self._classifier = self._part("labels", Classifier, progress)
        self._detector = self._part("objects", Detector, progress)
        self._faces = self._part("faces", FaceFinder, progress)
        self._reader = self._part("text", TextReader, progress)

    def _part(
        self, name: str, make: Callable[[], Part], progress: Callable[[str], None]
    ) -> Part | None:
        progress(name)
        try:
            return make()
        except ModelError as error:
            log.error("%s", error)
            self.problems.append(str(error))
            return None

    @property
    def parts(self) -> frozenset[str]:
        """What works, of: labels, objects, faces, text. Colours and motion always do."""
        parts = {
            "labels": self._classifier,
            "objects": self._detector,
            "faces": self._faces,
            "text": self._reader,
        }
        return frozenset(name for name, part in parts.items() if part is not None)

    def look(self, rgb: Rgb, content_id: str, time_s: float) -> Note:
        """Measure everything but text of a uint8 height × width × 3 picture."""
        picture = trim(rgb)
        kinds, labels = self._classifier.look(picture) if self._classifier else ((), ())
        objects = self._detector.look(picture) if self._detector else ()
        return Note(
            content_id=content_id,
            time_s=time_s,
            kinds=kinds,
            labels=labels,
            objects=objects,
            faces=self._faces.look(picture) if self._faces else (),
            flower=blossom.likeness(picture),
            flat=flatness(picture),
            colours=colour.measure(picture, _subject_box(objects)),
            brightness=colour.brightness(picture),
            grid=motion_grid(rgb),
        )

    def read(self, rgb: Rgb, *, careful: bool = True) -> tuple[str, ...]:
        """Lines of text. Raises `ModelError` if that part is off."""
        if self._reader is None:
            raise ModelError("Reading text is switched off: its model could not be loaded")
        return self._reader.read(rgb, careful=careful)


def motion_grid(rgb: Rgb) -> NDArray[np.uint8]:
    """What `core.similarity.block_change` compares, as uint8 to take less room."""
    small = cv2.resize(rgb, (GRID_WIDTH, GRID_HEIGHT), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2YCrCb), np.uint8)


def flatness(rgb: Rgb) -> float:
    """The share of pixels of the commonest luma; 0 where nothing contrasts with it."""
    luma = motion_grid(rgb)[..., 0]
    low, high = np.percentile(luma, (1, 99))
    if high - low < PRINT_CONTRAST:
        return 0.0
    counts = np.bincount(luma.reshape(-1), minlength=256).astype(np.float64)
    near = np.convolve(counts, np.ones(2 * EVEN_TONE + 1), mode="same")
    return round(float(near.max() / luma.size), 3)


def trim(rgb: Rgb) -> Rgb:
    """The picture without the black bars of a letterbox; a dark picture stays whole."""
    # One in TRIM_STEP pixels along a line is enough to know the line.
    rows = np.flatnonzero(_bright_share(rgb[:, ::TRIM_STEP], axis=1) > BAR_SHARE)
    columns = np.flatnonzero(_bright_share(rgb[::TRIM_STEP], axis=0) > BAR_SHARE)
    if not len(rows) or not len(columns):
        return rgb
    top, bottom = rows[0], rows[-1] + 1
    left, right = columns[0], columns[-1] + 1
    height, width = rgb.shape[:2]
    if bottom - top < MIN_PICTURE * height or right - left < MIN_PICTURE * width:
        return rgb
    return rgb[top:bottom, left:right]


def _bright_share(rgb: Rgb, axis: int) -> NDArray[np.float64]:
    """The share of pixels along an axis with any channel above BAR_LEVEL."""
    bright = rgb[..., 0] > BAR_LEVEL
    bright |= rgb[..., 1] > BAR_LEVEL
    bright |= rgb[..., 2] > BAR_LEVEL
    return np.asarray(bright.mean(axis=axis), np.float64)


def _subject_box(objects: tuple[Seen, ...]) -> Box | None:
    for item in objects:
        if item.score >= SUBJECT_SCORE and item.name not in NOT_A_SUBJECT:
            smallest, largest = SUBJECT_AREA
            return item.box if smallest <= item.box.area <= largest else None
    return None
