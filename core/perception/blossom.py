"""How much the picture looks like a flower, by shape and colour alone.

ImageNet knows three flowers, so most flowers have no class. What is measured here is a
round patch of a petal's colour, with fine texture all over it, before foliage.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from core.perception.colour import (
    GREEN,
    LUMA,
    ORANGE,
    PINK,
    PURPLE,
    RED,
    TURQUOISE,
    YELLOW,
    name_pixels,
)

SIDE = 160  # pixels of the longer side
PETALS = (RED, ORANGE, YELLOW, PINK, PURPLE)
FOLIAGE = (GREEN, TURQUOISE)

# Ramps: at the first value a measurement counts nothing, from the second on it is met.
AREA = (0.03, 0.06)  # of the picture
ROUND = (0.60, 0.75)  # patch over its smallest enclosing circle
SOLID = (0.82, 0.92)  # patch over its convex hull
LEAVES = (0.30, 0.50)  # foliage among what is not the patch
TEXTURE = (0.05, 0.09)  # fine contrast over mean luma, in the median cell of the patch
LARGEST = 0.7  # of the picture


def likeness(rgb: NDArray[np.uint8]) -> float:
    """0 (not at all) to 1: as much as the least fulfilled of the measurements."""
    scale = min(1.0, SIDE / max(rgb.shape[:2]))
    size = (max(8, round(rgb.shape[1] * scale)), max(8, round(rgb.shape[0] * scale)))
    small = np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), np.uint8)
    names = name_pixels(small)
    foliage = np.isin(names, FOLIAGE)
    patch = _largest_patch(np.isin(names, PETALS))
    area = float(patch.mean())
    if not AREA[0] < area < LARGEST or foliage.mean() < LEAVES[0] * (1 - area):
        return 0.0
    contours, _ = cv2.findContours(patch.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    outline = max(contours, key=cv2.contourArea)
    filled = cv2.contourArea(outline)
    _, radius = cv2.minEnclosingCircle(outline)
    hull = cv2.contourArea(cv2.convexHull(outline))
    return min(
        _ramp(area, AREA),
        _ramp(filled / max(np.pi * radius**2, 1.0), ROUND),
        _ramp(filled / max(hull, 1.0), SOLID),
        _ramp(float(foliage[~patch].mean()), LEAVES),
        _ramp(_texture(small, patch), TEXTURE),
    )


def _largest_patch(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The largest connected region, with its gaps closed."""
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (7, 7))
    closed = cv2.morphologyEx(mask.astype(np.uint8), cv2.MORPH_CLOSE, kernel)
    closed = cv2.morphologyEx(closed, cv2.MORPH_OPEN, kernel)
    count, regions, statistics, _ = cv2.connectedComponentsWithStats(closed, connectivity=4)
    if count < 2:
        return np.zeros(mask.shape, np.bool_)
    largest = 1 + int(np.argmax(statistics[1:, cv2.CC_STAT_AREA]))
    return np.asarray(regions == largest, np.bool_)


def _texture(rgb: NDArray[np.uint8], patch: NDArray[np.bool_]) -> float:
    """Fine contrast of the patch's median cell: petals everywhere, not an edge somewhere."""
    luma = rgb.astype(np.float32) @ LUMA
    fine = np.abs(luma - cv2.GaussianBlur(luma, (0, 0), 3.0)) / max(float(luma[patch].mean()), 1.0)
    inner = cv2.erode(patch.astype(np.uint8), np.ones((5, 5), np.uint8)).astype(np.float32)
    cell = (9, 9)
    weight = cv2.blur(inner, cell)
    local = cv2.blur(np.asarray(fine * inner, np.float32), cell) / np.maximum(weight, 1e-3)
    inside = inner > 0
    return float(np.median(local[inside])) if inside.any() else 0.0


def _ramp(value: float, limits: tuple[float, float]) -> float:
    low, high = limits
    return float(min(1.0, max(0.0, (value - low) / (high - low))))
