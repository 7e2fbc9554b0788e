"""Colours by the names that a person would use, and how bright the picture is."""

import cv2
import numpy as np
from numpy.typing import NDArray

from core.perception.note import Box, Colours

SIDE = 96  # pixels of the longer side that colours are counted on
MIN_FRACTION = 0.08  # of the pixels: less is not worth a name
STANDS_OUT = 0.2  # of the middle: less is no subject before a background
CENTRE = 0.5  # of width and height: where the subject is looked for

NAMES = (
    "black", "grey", "white", "red", "orange", "brown", "yellow", "green",
    "turquoise", "blue", "purple", "pink", "beige",
)  # fmt: skip
BLACK, GREY, WHITE, RED, ORANGE, BROWN, YELLOW, GREEN, TURQUOISE, BLUE, PURPLE, PINK, BEIGE = range(
    len(NAMES)
)

LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # red, green, blue: ITU-R BT.601

Rgb = NDArray[np.uint8]


def name_pixels(rgb: Rgb) -> NDArray[np.intp]:
    """The index in NAMES of each pixel of a uint8 height × width × 3 picture.

    Rules on hue (degrees), chroma (max − min, 0 to 1) and value (max, 0 to 1), the corners
    of the HSV model as in Smith 1978; limits tuned on photographs.
    """
    pixels = rgb.astype(np.float32) / 255.0
    value = pixels.max(axis=-1)
    chroma = value - pixels.min(axis=-1)
    saturation = chroma / np.maximum(value, 1e-3)
    hsv = cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV)
    hue = hsv[..., 0]
    warm = (hue >= 12) & (hue < 50)
    rules: list[tuple[NDArray[np.bool_], int]] = [
        (value < 0.16, BLACK),
        ((value < 0.26) & (chroma < 0.10), BLACK),
        ((saturation < 0.13) & (value > 0.78), WHITE),
        ((saturation < 0.16) | (chroma < 0.07), GREY),
        (warm & (value > 0.68) & (saturation < 0.38), BEIGE),
        ((hue < 12) & (value > 0.75) & (saturation < 0.60), PINK),
        ((hue >= 345) & (value > 0.70) & (saturation < 0.60), PINK),
        (((hue < 12) | (hue >= 345)) & (value < 0.55) & (saturation < 0.55), BROWN),
        ((hue < 12) | (hue >= 345), RED),
        ((hue < 40) & (value >= 0.80) & (saturation >= 0.50), ORANGE),
        ((hue < 40) & (value >= 0.70) & (saturation >= 0.85), ORANGE),
        (hue < 40, BROWN),
        ((hue < 50) & (value < 0.60), BROWN),
        (hue < 68, YELLOW),
        (hue < 160, GREEN),
        ((hue < 188) & (value < 0.45), GREEN),  # a dark turquoise is called green
        (hue < 195, TURQUOISE),
        (hue < 255, BLUE),
        (hue < 300, PURPLE),
        (value > 0.55, PINK),
    ]
    return np.select([rule for rule, _ in rules], [index for _, index in rules], PURPLE)


def shares(
    names: NDArray[np.intp], weights: NDArray[np.float32] | None = None
) -> NDArray[np.float64]:
    """The fraction of the pixels that each of NAMES has."""
    flat = None if weights is None else weights.reshape(-1)
    counts = np.bincount(names.reshape(-1), flat, len(NAMES)).astype(np.float64)
    return np.asarray(counts / max(counts.sum(), 1e-9), np.float64)


def measure(rgb: Rgb, subject: Box | None = None) -> Colours:
    """Colours of a picture as a whole, and of its subject.

    The subject is what is in the box, else in the middle, weighed by how rare its colour
    is along the picture's border: the background's colours do not count.
    """
    scale = min(1.0, SIDE / max(rgb.shape[:2]))
    size = (max(8, round(rgb.shape[1] * scale)), max(8, round(rgb.shape[0] * scale)))
    names = name_pixels(np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8))
    height, width = names.shape
    box = subject or Box(0.5 - CENTRE / 2, 0.5 - CENTRE / 2, 0.5 + CENTRE / 2, 0.5 + CENTRE / 2)
    inside = np.zeros(names.shape, np.bool_)
    inside[
        int(box.top * height) : max(int(box.top * height) + 1, round(box.bottom * height)),
        int(box.left * width) : max(int(box.left * width) + 1, round(box.right * width)),
    ] = True
    middle = shares(names[inside])
    if subject is None:
        edge = max(1, min(height, width) // 8)
        border = np.ones(names.shape, np.bool_)
        border[edge:-edge, edge:-edge] = False
        rare = middle * np.clip(1.0 - shares(names[border]), 0.0, 1.0) ** 2
        if rare.sum() >= STANDS_OUT:
            middle = rare / rare.sum()
    return Colours(whole=_ranked(shares(names)), subject=_ranked(middle))


def brightness(rgb: Rgb) -> float:
    """Mean luma, 0 to 1."""
    small = cv2.resize(rgb, (64, 48), interpolation=cv2.INTER_AREA).astype(np.float32)
    return round(float((small @ LUMA).mean()) / 255.0, 4)


def _ranked(fractions: NDArray[np.float64]) -> tuple[tuple[str, float], ...]:
    order = np.argsort(-fractions, kind="stable")
    return tuple(
        (NAMES[i], round(float(fractions[i]), 3)) for i in order if fractions[i] >= MIN_FRACTION
    )
