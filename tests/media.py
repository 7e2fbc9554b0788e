"""Known pictures, as a file camera's film and to compare frames with."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

import av
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from skimage import data as skimage_data
from sklearn.datasets import load_sample_image

WIDTH, HEIGHT = 640, 480
FPS = 30  # Chromium plays every MJPEG file at this rate


@cache
def photo(name: str) -> np.ndarray:
    """A known photo cut to 640 × 480, uint8 RGB; `sign` is a rendered one."""
    if name == "sign":
        return sign("OPEN 9-17")
    if name in ("china", "flower"):
        rgb = load_sample_image(f"{name}.jpg")
    else:
        rgb = getattr(skimage_data, name)()
    image = Image.fromarray(rgb)
    scale = max(WIDTH / image.width, HEIGHT / image.height)
    image = image.resize((round(image.width * scale), round(image.height * scale)))
    left, top = (image.width - WIDTH) // 2, (image.height - HEIGHT) // 2
    return np.asarray(image.crop((left, top, left + WIDTH, top + HEIGHT)))


def sign(text: str) -> np.ndarray:
    """A white sign with black text, 640 × 480."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    font = ImageFont.load_default(size=90)
    ImageDraw.Draw(image).text((WIDTH // 2, HEIGHT // 2), text, "black", font, anchor="mm")
    return np.asarray(image)


def film(path: Path, scenes: Sequence[tuple[str | np.ndarray, float]]) -> Path:
    """An MJPEG file for Chromium's file camera: each picture for its seconds; it loops.

    A picture is a photo's name, or uint8 RGB 640 × 480.
    """
    with av.open(str(path), "w", format="mjpeg") as container:
        stream = container.add_stream("mjpeg", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuvj420p"
        stream.time_base = Fraction(1, FPS)
        stream.options = {"qmin": "4", "qmax": "6"}
        for picture, seconds in scenes:
            rgb = photo(picture) if isinstance(picture, str) else picture
            frame = av.VideoFrame.from_ndarray(rgb, format="rgb24")
            for _ in range(round(seconds * FPS)):
                frame.pts = None
                container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def nearest_photo(rgb: np.ndarray, names: Sequence[str]) -> str:
    """Which of the photos a picture of any size shows."""
    return names[nearest(rgb, [photo(name) for name in names])]


def nearest(rgb: np.ndarray, pictures: Sequence[np.ndarray]) -> int:
    """The index of the picture that is most like `rgb`, by its colours in a coarse grid."""
    seen = _coarse(rgb)
    apart = [float(np.mean((_coarse(picture) - seen) ** 2)) for picture in pictures]
    return apart.index(min(apart))


def _coarse(picture: np.ndarray) -> np.ndarray:
    small = Image.fromarray(picture).convert("RGB").resize((8, 6), Image.Resampling.BOX)
    return np.asarray(small, np.float64)
