"""What the picture shows as a whole: 1000 ImageNet classes, and the kinds they belong to."""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from core.perception.models import CLASSIFIER, CLASSIFIER_SIDE, classifier_onnx
from core.perception.note import Label
from core.weights import run_session

LABELS_FILE = Path(__file__).parent / "imagenet_labels.txt"
ZOOM_OUT = 1.6  # the second view shows the picture this much smaller
UNCLEAR = 0.2  # where no kind is more probable, a second view cannot make it worth saying
MIN_PROBABILITY = 0.05  # less is not worth a note
KEPT = 5

Rgb = NDArray[np.uint8]


@dataclass(frozen=True)
class Classes:
    """Class names in index order, and the kind of each (the name itself if it has none)."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]


def read_classes(path: Path = LABELS_FILE) -> Classes:
    """The list of names: one a line, a kind after a tab, `#` starts a comment."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    fields = [line.split("\t") for line in lines]
    return Classes(tuple(field[0] for field in fields), tuple(field[-1] for field in fields))


class Classifier:
    """EfficientNet-Lite2 on two views of the picture: as it is, and smaller.

    A class counts as far as both views agree (geometric mean). A texture that is taken for
    something else, a flower for honeycomb, does not survive the change of scale.
    """

    def __init__(self) -> None:
        self._session = run_session(CLASSIFIER.what, classifier_onnx())
        self._classes = read_classes()

    def look(self, rgb: Rgb) -> tuple[tuple[Label, ...], tuple[Label, ...]]:
        """Kinds and classes of a uint8 height × width × 3 picture, most probable first."""
        near = self.probabilities(square(rgb))
        unclear = max(_sums(self._classes.kinds, near).values()) < UNCLEAR
        far = near if unclear else self.probabilities(square(rgb, ZOOM_OUT))
        return agree(self._classes, near, far)

    def probabilities(self, picture: Rgb) -> NDArray[np.float32]:
        """1000 probabilities of a square RGB picture of the input's size."""
        pixels = (picture.astype(np.float32) - 127.0) / 128.0
        batch = np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])
        logits = self._session.run(None, {"input": batch})[0][0]
        powers = np.exp(logits - logits.max())
        return np.asarray(powers / powers.sum(), np.float32)


def agree(
    classes: Classes, near: NDArray[np.float32], far: NDArray[np.float32]
) -> tuple[tuple[Label, ...], tuple[Label, ...]]:
    """Kinds and classes that both views see."""

    def ranked(names: tuple[str, ...]) -> tuple[Label, ...]:
        one, other = _sums(names, near), _sums(names, far)
        labels = [Label(name, round((one[name] * other[name]) ** 0.5, 4)) for name in one]
        labels = [label for label in labels if label.probability >= MIN_PROBABILITY]
        return tuple(sorted(labels, key=lambda label: -label.probability)[:KEPT])

    return ranked(classes.kinds), ranked(classes.names)


def _sums(names: tuple[str, ...], probabilities: NDArray[np.float32]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, probability in zip(names, probabilities.tolist(), strict=True):
        sums[name] = sums.get(name, 0.0) + probability
    return sums


def square(rgb: Rgb, zoom_out: float = 1.0) -> Rgb:
    """The whole picture in the middle of the input's square, on its mean colour."""
    height, width = rgb.shape[:2]
    scale = CLASSIFIER_SIDE / (max(height, width) * zoom_out)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    small = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
    canvas = np.empty((CLASSIFIER_SIDE, CLASSIFIER_SIDE, 3), np.uint8)
    canvas[:] = small.mean(axis=(0, 1)).astype(np.uint8)
    left, top = (CLASSIFIER_SIDE - size[0]) // 2, (CLASSIFIER_SIDE - size[1]) // 2
    canvas[top : top + size[1], left : left + size[0]] = small
    return canvas
