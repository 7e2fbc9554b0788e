"""Second lesson: the language model learns to answer, from image tokens that are made already."""

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import Idefics3ForConditionalGeneration

from tools.tiny_vlm.batches import TARGET_CLASSES, Batch, batches
from tools.tiny_vlm.geometry import TEXT_WIDTH
from tools.tiny_vlm.questions import MAX_FRAMES
from tools.tiny_vlm.scenes import ALL_SCENES
from tools.tiny_vlm.vision import UNKNOWN
from tools.tiny_vlm.wordings import KINDS

log = logging.getLogger(__name__)

LEARNING_RATE = 1.5e-3
BATCH_TOKENS = 4096
HINTS_LAYER = 3  # after so many layers the model is to know what frame_targets() says
HINTS_WEIGHT = 0.3  # at the start; it falls to nothing
LOOKING_LAYER = 4  # whose first heads are to look at the frame whose time is told
LOOKING_HEADS = 2
LOG_EVERY = 100  # steps


@dataclass(frozen=True)
class Album:
    """The image tokens of a pool, float32 (n, width), and which of them show which scene."""

    tokens: Tensor
    by_scene: list[np.ndarray]

    @classmethod
    def of(cls, tokens: Tensor, scenes: np.ndarray) -> "Album":
        """The album of `tokens`, whose pictures show `scenes`, indices in ALL_SCENES."""
        return cls(tokens, [np.flatnonzero(scenes == index) for index in range(len(ALL_SCENES))])

    def draw(self, scenes: Tensor, rng: np.random.Generator) -> Tensor:
        """An image token of some picture of each scene: float32 (len(scenes), width)."""
        luck = rng.random(len(scenes))
        chosen = [
            self.by_scene[scene][int(fraction * len(self.by_scene[scene]))]
            for scene, fraction in zip(scenes.tolist(), luck, strict=True)
        ]
        return self.tokens[torch.tensor(chosen)]


def _embedded(model: Idefics3ForConditionalGeneration, batch: Batch, images: Tensor) -> Tensor:
    embeds = model.model.text_model.embed_tokens(batch.ids)
    rows, positions = batch.image_at.unbind(1)
    return embeds.index_put((rows, positions), images)


def _hidden(
    model: Idefics3ForConditionalGeneration, batch: Batch, images: Tensor
) -> tuple[tuple[Tensor, ...], Tensor]:
    """Hidden states before each layer, and at the end: (n, length, width) each."""
    with torch.autocast("cpu", torch.bfloat16):
        out = model.model.text_model(
            inputs_embeds=_embedded(model, batch, images),
            output_hidden_states=True,
            use_cache=False,
        )
    return out.hidden_states, out.last_hidden_state.float()


def _hints_loss(heads: nn.Linear, hidden: Tensor, batch: Batch) -> Tensor:
    rows, positions = batch.image_at.unbind(1)
    logits = heads(hidden[rows, positions + 1]).split(TARGET_CLASSES, 1)
    losses = [
        functional.cross_entropy(z, y, ignore_index=UNKNOWN, reduction="sum")
        for z, y in zip(logits, batch.targets.unbind(1), strict=True)
    ]
    return torch.stack(losses).sum() / len(rows)


def _looking_loss(model: Idefics3ForConditionalGeneration, hidden: Tensor, batch: Batch) -> Tensor:
    """Cross entropy of where the heads look while a time is told."""
    if not len(batch.looks):
        return torch.zeros(())
    text = model.model.text_model
    layer = text.layers[LOOKING_LAYER]
    attention = layer.self_attn
    rows, queries, keys = batch.looks.unbind(1)
    states = layer.input_layernorm(hidden.float())
    positions = torch.arange(hidden.shape[1])[None]
    cos, sin = text.rotary_emb(states, positions)
    heads = (*states.shape[:2], LOOKING_HEADS, attention.head_dim)
    width = LOOKING_HEADS * attention.head_dim
    q = functional.linear(states, attention.q_proj.weight[:width]).view(heads).transpose(1, 2)
    k = functional.linear(states, attention.k_proj.weight[:width]).view(heads).transpose(1, 2)
    q, k = q * cos + _turned(q) * sin, k * cos + _turned(k) * sin
    scores = torch.einsum("phd,phld->phl", q[rows, :, queries], k[rows])
    scores = scores * attention.head_dim**-0.5
    scores = scores.masked_fill(positions > queries[:, None, None], float("-inf"))
    return functional.cross_entropy(scores.flatten(0, 1), keys.repeat_interleave(LOOKING_HEADS))


def _turned(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def train_language(
    model: Idefics3ForConditionalGeneration,
    album: Album,
    held_out: Album,
    steps: int,
    seed: int,
    shortest: int,
    keep: Callable[[], None],
) -> None:
    """Train the text model in place.

    Films are of up to `shortest` frames at first and grow over the first third of the steps.
    `keep` is called whenever accuracy has been measured.
    """
    rng = np.random.default_rng(seed)
    heads = nn.Linear(TEXT_WIDTH, sum(TARGET_CLASSES))
    learning = nn.ModuleList([model.model.text_model, model.lm_head, heads])
    optimiser = torch.optim.AdamW(
        learning.parameters(), lr=0.0, betas=(0.9, 0.98), weight_decay=0.02
    )
    started = time.monotonic()
    max_frames, source = 0, batches(rng, BATCH_TOKENS, 1)
    for step in range(steps):
        progress = step / steps
        wanted = min(MAX_FRAMES, shortest + int(progress * 3 * (MAX_FRAMES - shortest)))
        if wanted != max_frames:
            max_frames, source = wanted, batches(rng, BATCH_TOKENS, wanted)
        batch = next(source)
        rate = LEARNING_RATE * min(1.0, step / 100) * max(0.01, _falling(progress))
        for group in optimiser.param_groups:
            group["lr"] = rate
        states, last = _hidden(model, batch, album.draw(batch.scenes, rng))
        learnt = batch.labels[:, 1:] != UNKNOWN
        logits = model.lm_head(last[:, :-1][learnt])
        loss = functional.cross_entropy(logits, batch.labels[:, 1:][learnt])
        hints = _hints_loss(heads, states[HINTS_LAYER].float(), batch)
        looking = _looking_loss(model, states[LOOKING_LAYER], batch)
        optimiser.zero_grad()
        (loss + HINTS_WEIGHT * (1 - progress) * (hints + looking)).backward()
        nn.utils.clip_grad_norm_(learning.parameters(), 1.0)
        optimiser.step()
        if step % LOG_EVERY == LOG_EVERY - 1 or step == steps - 1:
            shares = accuracy(model, held_out, seed + 1)
            log.info(
                "language: step %d, %.0f s, up to %d frames, loss %.4f, hints %.3f, looking %.3f, "
                "held out: %s",
                step + 1,
                time.monotonic() - started,
                max_frames,
                loss.item(),
                hints.item(),
                looking.item(),
                ", ".join(f"{kind} {shares[kind]:.3f}" for kind in KINDS),
            )
            keep()


def _falling(progress: float) -> float:
    """One for the first half, then a half cosine down to zero."""
    return 1.0 if progress < 0.5 else (1 + math.cos(math.pi * (2 * progress - 1))) / 2


@torch.no_grad()
def accuracy(
    model: Idefics3ForConditionalGeneration, album: Album, seed: int, rounds: int = 12
) -> dict[str, float]:
    """The share of answers whose every token is right, by kind, in full-length conversations."""
    rng = np.random.default_rng(seed)
    source = batches(rng, BATCH_TOKENS, MAX_FRAMES)
    tally: dict[str, list[bool]] = defaultdict(list)
    for _ in range(rounds):
        batch = next(source)
        _, last = _hidden(model, batch, album.draw(batch.scenes, rng))
        wrong = model.lm_head(last[:, :-1]).argmax(2) != batch.labels[:, 1:]
        learnt = batch.labels[:, 1:] != UNKNOWN
        starts = learnt & ~functional.pad(learnt, (1, -1))
        answer = starts.cumsum(1) - 1
        for row, kinds in enumerate(batch.kinds):
            bad = set(answer[row][wrong[row] & learnt[row]].tolist())
            for index, kind in enumerate(kinds):
                tally[kind].append(index not in bad)
    return {kind: float(np.mean(tally[kind])) for kind in KINDS}
