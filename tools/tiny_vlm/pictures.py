"""A pool of pictures to learn from: drawn scenes, degraded as on a camera's way, at model size."""

import multiprocessing
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tools.tiny_vlm.degrade import Picture, jpeg, vp8
from tools.tiny_vlm.geometry import image_processor
from tools.tiny_vlm.scenes import ALL_SCENES, draw, random_layout

FILM_SCENES = 48  # scenes in one film, each with two pictures
SIZES = ((320, 240), (320, 240), (320, 240), (640, 480), (640, 360))
BITS_PER_PIXEL = (0.06, 0.25)  # of VP8, each frame; 0.09 is 400 kbit/s at 640x480 and 15 Hz
FPS = 15
# Indices in ALL_SCENES; a single shape is there on two sides, so that the counts come out even.
DECK = [i for i, scene in enumerate(ALL_SCENES) for _ in range(1 if scene.count == 1 else 2)]


@dataclass(frozen=True)
class Pool:
    """Pictures at model size."""

    pixels: NDArray[np.uint8]  # RGB (n, side, side, 3)
    scenes: NDArray[np.int64]  # (n,), indices in ALL_SCENES
    centres: NDArray[np.float32]  # (n, 3, 2): x and y of each shape, 0 to 1; NaN where none is


def model_pixels(pictures: list[Picture]) -> NDArray[np.uint8]:
    """`pictures` as the model's image processor sizes them: uint8 RGB (n, side, side, 3)."""
    sized = image_processor()(pictures, do_rescale=False, do_normalize=False, return_tensors="np")
    return np.ascontiguousarray(sized["pixel_values"][0].transpose(0, 2, 3, 1))


def _film(film: int, seed: int) -> Pool:
    """Two pictures each of FILM_SCENES scenes, all degraded in one way."""
    rng = np.random.default_rng((seed, film))
    width, height = SIZES[int(rng.integers(len(SIZES)))]
    scenes = rng.permutation(DECK)[:FILM_SCENES]
    seeds = rng.integers(1 << 40, size=len(scenes)).tolist()
    centres = np.full((len(scenes), 3, 2), np.nan, np.float32)
    for index, (scene, seed_) in enumerate(zip(scenes, seeds, strict=True)):
        layout = random_layout(ALL_SCENES[scene], width / height, np.random.default_rng(seed_))
        for place, (x, y, _) in enumerate(layout.places):
            centres[index, place] = x * height / width, y
    pictures = [
        draw(ALL_SCENES[scene], width, height, seed_, jitter=rng)
        for scene, seed_ in zip(scenes, seeds, strict=True)
        for _ in range(2)
    ]
    way = rng.choice(["clean", "jpeg", "vp8"], p=[0.2, 0.3, 0.5])
    if way == "jpeg":
        pictures = [jpeg(picture, int(rng.integers(30, 91))) for picture in pictures]
    elif way == "vp8":
        bit_rate = int(rng.uniform(*BITS_PER_PIXEL) * width * height * FPS)
        pictures = vp8([picture for picture in pictures for _ in range(2)], bit_rate, FPS)[1::2]
    return Pool(model_pixels(pictures), np.repeat(scenes, 2), np.repeat(centres, 2, axis=0))


def draw_pool(size: int, seed: int, processes: int = 2) -> Pool:
    """About `size` pictures; the same ones for the same seed, however many processes draw."""
    films = range(-(-size // (2 * FILM_SCENES)))
    with multiprocessing.get_context("spawn").Pool(processes) as workers:
        parts = workers.map(partial(_film, seed=seed), films, chunksize=4)
    return Pool(
        np.concatenate([part.pixels for part in parts]),
        np.concatenate([part.scenes for part in parts]),
        np.concatenate([part.centres for part in parts]),
    )
