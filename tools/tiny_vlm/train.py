"""Make the checkpoint: draw pictures, teach the eyes, then the language.

    python -m tools.tiny_vlm.train

What each lesson leaves is kept in `build/tiny_vlm`, so that a run that was stopped goes on
where it was; delete the folder to begin anew.
"""

import logging
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from tools.tiny_vlm.checkpoint import CHECKPOINT, new_model, save
from tools.tiny_vlm.language import Album, train_language
from tools.tiny_vlm.pictures import Pool, draw_pool
from tools.tiny_vlm.vision import features, train_vision

log = logging.getLogger(__name__)

BUILD = Path("build/tiny_vlm")
LOG_FILE = Path(__file__).parent / "training.log"
PICTURES, HELD_OUT = 24_000, 2_400
PICTURES_SEED, HELD_OUT_SEED = 1, 2
VISION_EPOCHS = (6, 10)  # by round; the learning rate rises again at a round's start
LANGUAGE_STEPS = (3_600, 1_600)  # by round
SHORTEST = (4, 6)  # frames a film has at most at a round's start, by round
SEED = 0
EYES, WORDS = ("vision_model", "connector"), ("text_model", "lm_head")


def pool(size: int, seed: int) -> Pool:
    """A pool of pictures, drawn once."""
    file = BUILD / f"pool-{seed}-{size}.npz"
    if not file.exists():
        log.info("drawing %d pictures", size)
        drawn = draw_pool(size, seed)
        np.savez(file, pixels=drawn.pixels, scenes=drawn.scenes, centres=drawn.centres)
    with np.load(file) as stored:
        return Pool(**stored)


def _keep(model: nn.Module, parts: tuple[str, str], file: Path) -> None:
    """Write the weights of two parts of the model."""
    state = {key: w for key, w in model.state_dict().items() if any(p in key for p in parts)}
    torch.save(state, file)


def main() -> None:
    """Train from nothing to the checkpoint in this folder."""
    BUILD.mkdir(parents=True, exist_ok=True)
    handlers: list[logging.Handler] = [logging.StreamHandler(), logging.FileHandler(LOG_FILE)]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", handlers=handlers)
    torch.set_num_threads(2)
    torch.manual_seed(SEED)
    model = new_model(SEED)
    pictures, held_out = pool(PICTURES, PICTURES_SEED), pool(HELD_OUT, HELD_OUT_SEED)
    for number, epochs in enumerate(VISION_EPOCHS):
        eyes = BUILD / f"vision-{number}.pt"
        if eyes.exists():
            model.load_state_dict(torch.load(eyes), strict=False)
            continue
        train_vision(model, pictures, held_out, epochs, SEED + number)
        _keep(model, EYES, eyes)
    seen = Album.of(features(model, pictures.pixels), pictures.scenes)
    unseen = Album.of(features(model, held_out.pixels), held_out.scenes)
    for number, (steps, shortest) in enumerate(zip(LANGUAGE_STEPS, SHORTEST, strict=True)):
        words = BUILD / f"language-{number}.pt"
        if words.exists():
            model.load_state_dict(torch.load(words), strict=False)
            continue
        keep = partial(_keep, model, WORDS, words.with_suffix(".part"))
        train_language(model, seen, unseen, steps, SEED + 2 * number, shortest, keep)
        _keep(model, WORDS, words)
    save(model)
    log.info("saved to %s", CHECKPOINT)


if __name__ == "__main__":
    main()
