"""The drawn world of the tiny model: a few shapes of one colour and kind on a dull background.

Only numpy and Pillow, so that tests can draw camera films with it.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Values = NDArray[np.float64]
Side = Literal["left", "right"]

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (220, 40, 40),
    "green": (40, 180, 60),
    "blue": (45, 80, 225),
    "yellow": (235, 215, 40),
    "white": (240, 240, 240),
    "purple": (160, 50, 190),
}
KINDS = ("circle", "square", "triangle")
NUMBERS = ("one", "two", "three")
SIDES: tuple[Side, Side] = ("left", "right")

TINT = 14  # largest change of a channel of the shapes' colour, of 255
TURN = math.radians(8)  # largest turn of a square or a triangle
RADIUS = {1: (0.12, 0.21), 2: (0.11, 0.17), 3: (0.10, 0.145)}  # by count, of the picture's height
GAP = 0.05  # between two shapes and to the border, of the picture's height
JITTER = 0.008  # how far a shape moves between two frames, of the picture's height
NOISE = 5.0  # largest standard deviation of the sensor's noise, of 255


@dataclass(frozen=True)
class Scene:
    """One to three shapes; `side` is where a single one is, and None if there are several."""

    colour: str
    kind: str
    count: int
    side: Side | None = None

    @property
    def shapes(self) -> str:
        """The shapes without an article: "red circle", "two blue squares"."""
        if self.count == 1:
            return f"{self.colour} {self.kind}"
        return f"{NUMBERS[self.count - 1]} {self.colour} {self.kind}s"

    @property
    def phrase(self) -> str:
        """What the model calls the scene: "a red circle", "two blue squares"."""
        return f"a {self.shapes}" if self.count == 1 else self.shapes


ALL_SCENES = tuple(
    Scene(colour, kind, count, side)
    for colour in COLOURS
    for kind in KINDS
    for count in (1, 2, 3)
    for side in (SIDES if count == 1 else (None,))
)


def random_scene(rng: np.random.Generator) -> Scene:
    """A scene with colour, kind, count and side each drawn evenly."""
    count = int(rng.integers(1, 4))
    return Scene(
        colour=tuple(COLOURS)[int(rng.integers(len(COLOURS)))],
        kind=KINDS[int(rng.integers(len(KINDS)))],
        count=count,
        side=SIDES[int(rng.integers(2))] if count == 1 else None,
    )


@dataclass(frozen=True)
class Layout:
    """How one picture of a scene looks, whatever its size; pixel values of 255."""

    base: Values  # the background's colour: 3 channels
    slope: Values  # its change over the width and over the height
    blotches: Values  # float (6, 8), stretched over it
    tint: Values  # of the shapes: 3 channels
    noise: float  # standard deviation
    places: list[tuple[float, float, float]]  # centre x, y and radius, in picture heights
    turns: list[float]  # radians


def random_layout(scene: Scene, aspect: float, rng: np.random.Generator) -> Layout:
    """A layout for a picture `aspect` times as wide as high; dark in any hue, or mid-grey."""
    if rng.random() < 0.6:
        base = rng.uniform(0, 80, 3)
    else:
        base = np.full(3, rng.uniform(25, 120)) + rng.uniform(-6, 6, 3)
    return Layout(
        base=base,
        slope=rng.uniform(-25, 25, 2),
        blotches=rng.uniform(-9, 9, (6, 8)),
        tint=rng.uniform(-TINT, TINT, 3),
        noise=rng.uniform(0, NOISE),
        places=_places(rng, scene, aspect),
        turns=rng.uniform(-TURN, TURN, scene.count).tolist(),
    )


def _background(layout: Layout, width: int, height: int) -> Image.Image:
    rows = np.linspace(-0.5, 0.5, height, dtype=np.float32)[:, None] * layout.slope[0]
    columns = np.linspace(-0.5, 0.5, width, dtype=np.float32)[None, :] * layout.slope[1]
    coarse = Image.fromarray(layout.blotches.astype(np.float32))
    light = rows + columns + np.asarray(coarse.resize((width, height), Image.Resampling.BILINEAR))
    pixels = layout.base + light[:, :, None]
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def _places(
    rng: np.random.Generator, scene: Scene, aspect: float
) -> list[tuple[float, float, float]]:
    """Centre x, y and radius of each shape, in picture heights; no two touch."""
    low, high = RADIUS[scene.count]
    while True:
        places: list[tuple[float, float, float]] = []
        for _ in range(scene.count):
            radius = rng.uniform(low, high)
            edge = radius + GAP
            left, right = edge, aspect - edge
            if scene.side == "left":
                right = min(right, max(left, 0.36 * aspect))
            elif scene.side == "right":
                left = max(left, min(right, 0.64 * aspect))
            for _ in range(30):
                x, y = rng.uniform(left, right), rng.uniform(edge, 1 - edge)
                clear = (1.2 * (radius + r) + GAP < math.hypot(x - u, y - v) for u, v, r in places)
                if all(clear):
                    places.append((x, y, radius))
                    break
        if len(places) == scene.count:
            return places


def _outline(kind: str, radius: float, turn: float) -> list[tuple[float, float]]:
    """The corners of a square or a triangle around the origin; `turn` in radians."""
    if kind == "square":
        corners = [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]
    else:
        corners = [(0.0, -1.0), (1.0, 0.85), (-1.0, 0.85)]
    cos, sin = radius * math.cos(turn), radius * math.sin(turn)
    return [(x * cos - y * sin, x * sin + y * cos) for x, y in corners]


def draw(
    scene: Scene,
    width: int,
    height: int,
    rng: np.random.Generator | int,
    jitter: np.random.Generator | None = None,
) -> NDArray[np.uint8]:
    """A picture of `scene`: uint8 RGB (height, width, 3).

    `rng`, a generator or a seed, decides background, tint, places and sizes: the same seed
    draws the same picture. With `jitter` the shapes move a few pixels and the sensor's noise
    is new, as from one frame of a film to the next.
    """
    if isinstance(rng, int):
        rng = np.random.default_rng(rng)
    layout = random_layout(scene, width / height, rng)
    colour = tuple(int(v) for v in np.clip(COLOURS[scene.colour] + layout.tint, 0, 255))
    picture = _background(layout, width, height)
    canvas = ImageDraw.Draw(picture)
    for (x, y, radius), turn in zip(layout.places, layout.turns, strict=True):
        if jitter is not None:
            x, y = x + jitter.uniform(-JITTER, JITTER), y + jitter.uniform(-JITTER, JITTER)
        x, y, radius = x * height, y * height, radius * height
        if scene.kind == "circle":
            canvas.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
        else:
            corners = _outline(scene.kind, radius, turn)
            canvas.polygon([(x + dx, y + dy) for dx, dy in corners], fill=colour)
    source = rng if jitter is None else jitter
    noise = source.standard_normal((height, width, 1), dtype=np.float32) * layout.noise
    return np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8)
