"""Reading text: PP-OCR through rapidocr. Slow (0.3 to 1 s), so only on demand or when idle."""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.weights import ModelError

QUICK_SIDE = 480  # pixels of the longer side at first; more if nothing is found
CAREFUL_SIDE = 736
SURE_SCORE = 0.95  # enough for any text
LIKELY_SCORE = 0.9  # enough for two characters or more
FOREIGN_SCORE = 0.97  # for characters beyond Latin: textures are taken for those
LONE_HEIGHT = 0.15  # of the picture: a single character must be at least this high


class TextReader:
    """Reads printed text of a picture, line by line from the top."""

    def __init__(self) -> None:
        self._readers: dict[int, Any] = {}
        self._reader(QUICK_SIDE)

    def read(self, rgb: NDArray[np.uint8], *, careful: bool = True) -> tuple[str, ...]:
        """Lines of text of a uint8 height × width × 3 picture; empty if none can be read."""
        lines = self._read(rgb, QUICK_SIDE)
        if not lines and careful and max(rgb.shape[:2]) > QUICK_SIDE:
            lines = self._read(rgb, CAREFUL_SIDE)
        return lines

    def _read(self, rgb: NDArray[np.uint8], side: int) -> tuple[str, ...]:
        result = self._reader(side)(np.ascontiguousarray(rgb[..., ::-1]))
        if result.txts is None or result.scores is None:
            return ()
        return tuple(
            line
            for text, score, box in zip(result.txts, result.scores, result.boxes, strict=True)
            if (line := " ".join(text.split()))
            and is_reliable(line, float(score), height=_height(box) / rgb.shape[0])
        )

    def _reader(self, side: int) -> Any:
        if side not in self._readers:
            try:
                from rapidocr import RapidOCR

                self._readers[side] = RapidOCR(
                    params={
                        "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                        "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                        "Global.use_cls": False,
                        "Global.log_level": "error",
                        "Det.limit_type": "max",
                        "Det.limit_side_len": side,
                    }
                )
            except Exception as error:
                raise ModelError(f"text (rapidocr): cannot be loaded: {error}") from error
            logging.getLogger("RapidOCR").setLevel(logging.ERROR)
        return self._readers[side]


def is_reliable(line: str, score: float, *, height: float) -> bool:
    """Whether a line is text rather than a texture taken for text.

    `height` is the line's, as a fraction of the picture's.
    """
    letters = [character for character in line if character.isalnum()]
    if not letters:
        return False
    if not "".join(letters).isascii() and score < FOREIGN_SCORE:
        return False
    if len(letters) == 1:
        return score >= SURE_SCORE and height >= LONE_HEIGHT
    return score >= LIKELY_SCORE


def _height(box: Any) -> float:
    """Pixels from the top to the bottom of a quadrilateral."""
    rows = np.asarray(box, np.float64)[:, 1]
    return float(rows.max() - rows.min())
