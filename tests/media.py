"""Known photos, as a file camera's film and as pictures to compare frames with."""

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


def film(path: Path, scenes: list[tuple[str, float]]) -> Path:
    """An MJPEG file for Chromium's file camera: each photo for its seconds; it loops."""
    with av.open(str(path), "w", format="mjpeg") as container:
        stream = container.add_stream("mjpeg", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuvj420p"
        stream.time_base = Fraction(1, FPS)
        stream.options = {"qmin": "4", "qmax": "6"}
        for name, seconds in scenes:
            frame = av.VideoFrame.from_ndarray(photo(name), format="rgb24")
            for _ in range(round(seconds * FPS)):
                frame.pts = None
                container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def nearest_photo(rgb: np.ndarray, names: list[str]) -> str:
    """Which of the photos a picture of any size shows, by its colours in a coarse grid."""

    def coarse(picture: np.ndarray) -> np.ndarray:
        small = Image.fromarray(picture).convert("RGB").resize((8, 6), Image.Resampling.BOX)
        return np.asarray(small, np.float64)

    seen = coarse(rgb)
    return min(names, key=lambda name: float(np.mean((coarse(photo(name)) - seen) ** 2)))
