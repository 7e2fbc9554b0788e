"""First lesson: the vision tower and the connector learn to tell scenes apart."""

import logging
import math
import time

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import Idefics3ForConditionalGeneration

from tools.tiny_vlm.geometry import TEXT_WIDTH, VISION_WIDTH
from tools.tiny_vlm.pictures import Pool
from tools.tiny_vlm.scenes import ALL_SCENES, COLOURS, KINDS, SIDES

log = logging.getLogger(__name__)

BATCH = 64  # pictures
LEARNING_RATE = 1e-3
SHIFT = 4  # px at model size
FEATURE_RMS = 0.3  # of an image token, near that of a word's embedding
SIDE_COLUMN = 3
UNKNOWN = -100  # a label that counts for nothing
CLASSES = (len(COLOURS), len(KINDS), 3, len(SIDES))
LABELS = torch.tensor(
    [
        [
            list(COLOURS).index(scene.colour),
            KINDS.index(scene.kind),
            scene.count - 1,
            UNKNOWN if scene.side is None else SIDES.index(scene.side),
        ]
        for scene in ALL_SCENES
    ]
)  # int64 (scenes, 4): colour, kind, count, side


def patches_and_token(
    model: Idefics3ForConditionalGeneration, pixels: Tensor
) -> tuple[Tensor, Tensor]:
    """What tower and connector make of `pixels`, float32 (n, 3, side, side) in -1..1.

    The patches, float32 (n, patches, tower's width), and the image token, (n, text's width).
    """
    patches = model.model.vision_model(pixel_values=pixels).last_hidden_state
    return patches.float(), model.model.connector(patches)[:, 0].float()


def normalised(pixels: NDArray[np.uint8]) -> Tensor:
    """uint8 (n, side, side, 3) as the image processor hands it on: float32 in -1..1."""
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1


@torch.no_grad()
def features(model: Idefics3ForConditionalGeneration, pixels: NDArray[np.uint8]) -> Tensor:
    """The image tokens of a whole pool: float32 (n, width)."""
    parts = np.array_split(pixels, max(1, len(pixels) // 512))
    return torch.cat([patches_and_token(model, normalised(part))[1] for part in parts])


class Heads(nn.Module):
    """Linear readings of the image token and of each patch, for this lesson only."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = nn.Linear(TEXT_WIDTH, sum(CLASSES))
        self.patch = nn.Linear(VISION_WIDTH, 1 + len(COLOURS) + len(KINDS))

    def scene_logits(self, token: Tensor) -> tuple[Tensor, ...]:
        """Logits (n, classes) of colour, kind, count and side."""
        return self.scene(token).split(CLASSES, 1)

    def scene_loss(self, token: Tensor, labels: Tensor) -> Tensor:
        """Cross entropy of colour, kind, count and side, summed."""
        losses = [
            functional.cross_entropy(logits, labels[:, index], ignore_index=UNKNOWN)
            for index, logits in enumerate(self.scene_logits(token))
        ]
        return torch.stack(losses).sum()

    def patch_loss(self, patches: Tensor, labels: Tensor, centres: Tensor) -> Tensor:
        """Which patches hold a shape's centre, and, of those, colour and kind of the shape."""
        count, patch_count, _ = patches.shape
        across = math.isqrt(patch_count)
        rows = torch.arange(count)[:, None].expand(-1, centres.shape[1])
        there = ~centres[..., 0].isnan()
        places = (centres.nan_to_num() * across).long().clamp(0, across - 1)
        rows, places = rows[there], (places[..., 1] * across + places[..., 0])[there]
        found, colour, kind = self.patch(patches).split((1, len(COLOURS), len(KINDS)), 2)
        wanted = torch.zeros(count, patch_count).index_put((rows, places), torch.ones(()))
        return (
            functional.binary_cross_entropy_with_logits(found[..., 0], wanted) * 10
            + functional.cross_entropy(colour[rows, places], labels[rows, 0])
            + functional.cross_entropy(kind[rows, places], labels[rows, 1])
        )


def _augmented(
    pixels: Tensor, labels: Tensor, centres: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Half of the pictures mirrored, all of them shifted, lighter or darker."""
    count, _, side, _ = pixels.shape
    mirrored = torch.rand(count, generator=generator) < 0.5
    pixels = torch.where(mirrored[:, None, None, None], pixels.flip(3), pixels)
    labels, centres = labels.clone(), centres.clone()
    sided = mirrored & (labels[:, SIDE_COLUMN] != UNKNOWN)
    labels[sided, SIDE_COLUMN] = 1 - labels[sided, SIDE_COLUMN]
    centres[mirrored, :, 0] = 1 - centres[mirrored, :, 0]
    padded = functional.pad(pixels, (SHIFT,) * 4, mode="replicate")
    x, y = torch.randint(2 * SHIFT + 1, (2,), generator=generator).tolist()
    pixels = padded[:, :, y : y + side, x : x + side]
    centres += torch.tensor([SHIFT - x, SHIFT - y]) / side
    light = torch.rand(2, count, 1, 1, 1, generator=generator)
    return pixels * (0.8 + 0.4 * light[0]) + (0.3 * light[1] - 0.15), labels, centres


def train_vision(
    model: Idefics3ForConditionalGeneration, pool: Pool, held_out: Pool, epochs: int, seed: int
) -> None:
    """Train tower and connector in place."""
    generator = torch.Generator().manual_seed(seed)
    heads = Heads()
    learning = nn.ModuleList([model.model.vision_model, model.model.connector, heads])
    optimiser = torch.optim.AdamW(learning.parameters(), lr=0.0, weight_decay=0.05)
    pixels = normalised(pool.pixels)
    labels = LABELS[torch.from_numpy(pool.scenes)]
    centres = torch.from_numpy(pool.centres)
    steps_per_epoch = len(pixels) // BATCH
    steps, step, started = epochs * steps_per_epoch, 0, time.monotonic()
    for epoch in range(epochs):
        order = torch.randperm(len(pixels), generator=generator)
        for batch in order[: steps_per_epoch * BATCH].view(-1, BATCH):
            x, y, places = _augmented(pixels[batch], labels[batch], centres[batch], generator)
            progress = step / steps
            rate = LEARNING_RATE * min(1.0, step / 100) * (1 + math.cos(math.pi * progress)) / 2
            for group in optimiser.param_groups:
                group["lr"] = rate
            with torch.autocast("cpu", torch.bfloat16):
                patches, token = patches_and_token(model, x)
            loss = heads.scene_loss(token, y)
            hints = heads.patch_loss(patches, y, places)
            optimiser.zero_grad()
            (loss + (1 - progress) * hints).backward()
            nn.utils.clip_grad_norm_(learning.parameters(), 1.0)
            optimiser.step()
            step += 1
        log.info(
            "vision: epoch %d, %.0f s, loss %.4f, hints %.4f, held out: colour %.4f, "
            "kind %.4f, count %.4f, side %.4f, all %.4f",
            *(epoch + 1, time.monotonic() - started, loss.item(), hints.item()),
            *_accuracy(model, heads, held_out),
        )
    rms = features(model, held_out.pixels).square().mean().sqrt().item()
    with torch.no_grad():
        model.model.connector.modality_projection.proj.weight.mul_(FEATURE_RMS / rms)


@torch.no_grad()
def _accuracy(
    model: Idefics3ForConditionalGeneration, heads: Heads, pool: Pool
) -> tuple[float, ...]:
    """Shares of right colours, kinds, counts, sides, and of pictures with all of them right."""
    labels = LABELS[torch.from_numpy(pool.scenes)]
    logits = heads.scene_logits(features(model, pool.pixels))
    right = torch.stack([z.argmax(1) for z in logits], 1) == labels
    known = labels != UNKNOWN
    shares = [(right[:, i] & known[:, i]).sum() / known[:, i].sum() for i in range(len(CLASSES))]
    return *(share.item() for share in shares), (right | ~known).all(1).float().mean().item()
