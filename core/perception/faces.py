"""Faces and where they are: CenterFace."""

import cv2
import numpy as np
from numpy.typing import NDArray

from core.perception.models import FACES, faces_onnx
from core.perception.note import Box, Seen
from core.weights import run_session

LONG_SIDE = 320  # pixels: faces down to about 15 pixels of this are found
STEP = 32  # pixels: both sides of the input are multiples of it
CELL = 4  # pixels between the cells of the output
MIN_SCORE = 0.5
MAX_OVERLAP = 0.3  # intersection over union


class FaceFinder:
    """Finds faces; who they are is not looked at."""

    def __init__(self) -> None:
        self._session = run_session(FACES.what, faces_onnx())
        self._input = self._session.get_inputs()[0].name

    def look(self, rgb: NDArray[np.uint8]) -> tuple[Seen, ...]:
        """Faces of a uint8 height × width × 3 picture, best first."""
        scale = min(1.0, LONG_SIDE / max(rgb.shape[:2]))
        height, width = (max(STEP, int(np.ceil(s * scale / STEP)) * STEP) for s in rgb.shape[:2])
        picture = cv2.resize(rgb, (width, height), interpolation=cv2.INTER_AREA)
        batch = picture[..., ::-1].transpose(2, 0, 1)[None].astype(np.float32)
        heat, sizes, offsets, _ = self._session.run(
            None, {self._input: np.ascontiguousarray(batch)}
        )
        rows, columns = np.nonzero(heat[0, 0] >= MIN_SCORE)
        if not len(rows):
            return ()
        scores = heat[0, 0, rows, columns]
        box_heights, box_widths = np.exp(sizes[0][:, rows, columns]) * CELL
        centre_y = (rows + offsets[0, 0, rows, columns] + 0.5) * CELL
        centre_x = (columns + offsets[0, 1, rows, columns] + 0.5) * CELL
        left, top = centre_x - box_widths / 2, centre_y - box_heights / 2
        boxes = np.stack([left, top, box_widths, box_heights], axis=1)
        kept = cv2.dnn.NMSBoxes(boxes.tolist(), scores.tolist(), MIN_SCORE, MAX_OVERLAP)
        return tuple(
            Seen(
                "face",
                round(float(scores[i]), 3),
                Box(
                    round(float(left[i] / width), 4),
                    round(float(top[i] / height), 4),
                    round(float((left[i] + box_widths[i]) / width), 4),
                    round(float((top[i] + box_heights[i]) / height), 4),
                ),
            )
            for i in np.asarray(kept, np.int64).reshape(-1)
        )
