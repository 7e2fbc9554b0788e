"""Everyday objects and where they are: NanoDet-m 416, the 80 classes of COCO."""

import cv2
import numpy as np
from numpy.typing import NDArray

from core.perception.models import DETECTOR
from core.perception.note import Box, Seen
from core.weights import run_session

SIDE = 416  # pixels
STRIDES = (8, 16, 32)  # pixels between the cells of each output
DISTANCES = 11  # bins of each edge's distance distribution
MIN_SCORE = 0.35
MAX_OVERLAP = 0.5  # intersection over union
MEAN_BGR = np.array([103.53, 116.28, 123.675], np.float32)
DEVIATION_BGR = np.array([57.375, 57.12, 58.395], np.float32)

NAMES = tuple(
    """person|bicycle|car|motorcycle|airplane|bus|train|truck|boat|traffic light|fire hydrant|
stop sign|parking meter|bench|bird|cat|dog|horse|sheep|cow|elephant|bear|zebra|giraffe|backpack|
umbrella|handbag|tie|suitcase|frisbee|skis|snowboard|sports ball|kite|baseball bat|baseball glove|
skateboard|surfboard|tennis racket|bottle|wine glass|cup|fork|knife|spoon|bowl|banana|apple|
sandwich|orange|broccoli|carrot|hot dog|pizza|donut|cake|chair|couch|potted plant|bed|
dining table|toilet|tv|laptop|mouse|remote|keyboard|cell phone|microwave|oven|toaster|sink|
refrigerator|book|clock|vase|scissors|teddy bear|hair drier|toothbrush""".replace("\n", "").split(
        "|"
    )
)

# As a person would say it; the same words as the classifier's kinds.
SPOKEN = {
    "airplane": "plane",
    "dining table": "table",
    "tv": "screen",
    "couch": "sofa",
    "cell phone": "phone",
    "mouse": "computer mouse",
    "remote": "remote control",
    "handbag": "bag",
    "sports ball": "ball",
    "hair drier": "hair dryer",
    "wine glass": "glass",
}


class Detector:
    """Finds objects in a letterboxed copy of the picture."""

    def __init__(self) -> None:
        self._session = run_session(DETECTOR.what, DETECTOR.find())

    def look(self, rgb: NDArray[np.uint8]) -> tuple[Seen, ...]:
        """Objects of a uint8 height × width × 3 picture with at least MIN_SCORE, best first."""
        height, width = rgb.shape[:2]
        scale = SIDE / max(height, width)
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        left, top = (SIDE - size[0]) // 2, (SIDE - size[1]) // 2
        canvas = np.zeros((SIDE, SIDE, 3), np.float32)
        canvas[top : top + size[1], left : left + size[0]] = cv2.resize(rgb, size)[..., ::-1]
        canvas = (canvas - MEAN_BGR) / DEVIATION_BGR
        batch = np.ascontiguousarray(canvas.transpose(2, 0, 1)[None], np.float32)
        scores, classes, boxes = self._decode(self._session.run(None, {"input_1": batch}))
        if not len(scores):
            return ()
        offsets = np.array([left, top, left, top], np.float32)
        boxes = ((boxes - offsets) / np.array([*size, *size], np.float32)).clip(0.0, 1.0)
        corners = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
        kept = cv2.dnn.NMSBoxesBatched(
            (corners * SIDE).tolist(), scores.tolist(), classes.tolist(), MIN_SCORE, MAX_OVERLAP
        )
        seen = [
            Seen(
                SPOKEN.get(NAMES[classes[i]], NAMES[classes[i]]),
                round(float(scores[i]), 3),
                Box(*(round(float(edge), 4) for edge in boxes[i])),
            )
            for i in np.asarray(kept, np.int64).reshape(-1)
        ]
        return tuple(sorted(seen, key=lambda item: -item.score))

    @staticmethod
    def _decode(
        outputs: list[NDArray[np.float32]],
    ) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]:
        """Scores, classes and boxes (pixels of the canvas) of all cells above MIN_SCORE.

        Each edge's distance is the mean of a distribution over DISTANCES bins
        (Generalized Focal Loss, Li et al. 2020).
        """
        by_shape = {output.shape[1:]: output[0] for output in outputs}
        found: list[tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]] = []
        for stride in STRIDES:
            cells = SIDE // stride
            scores = by_shape[cells * cells, len(NAMES)]
            edges = by_shape[cells * cells, 4 * DISTANCES]
            best = scores.max(axis=1)
            index = np.flatnonzero(best >= MIN_SCORE)
            bins = edges[index].reshape(-1, 4, DISTANCES)
            weights = np.exp(bins - bins.max(axis=2, keepdims=True))
            weights /= weights.sum(axis=2, keepdims=True)
            distance = (weights * np.arange(DISTANCES, dtype=np.float32)).sum(axis=2) * stride
            x = (index % cells + 0.5) * stride
            y = (index // cells + 0.5) * stride
            boxes = np.stack(
                [x - distance[:, 0], y - distance[:, 1], x + distance[:, 2], y + distance[:, 3]],
                axis=1,
            ).astype(np.float32)
            found.append((best[index], scores[index].argmax(axis=1), boxes))
        scores, classes, boxes = (np.concatenate(part) for part in zip(*found, strict=True))
        return scores, classes, boxes
