"""Conversations as token ids, labels and targets, in batches of like length."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from tools.tiny_vlm.questions import Conversation, Frame, Layout, conversation_about, random_film
from tools.tiny_vlm.scenes import ALL_SCENES, Scene
from tools.tiny_vlm.tokens import (
    AROUND_IMAGE,
    END,
    IMAGE,
    NUMBERS_BELOW,
    START,
    WHOLE_IMAGE,
    tokenizer,
)
from tools.tiny_vlm.vision import LABELS, UNKNOWN

GROUP = 320  # conversations, sorted by length before they are cut into batches
SCENE_INDEX = {scene: index for index, scene in enumerate(ALL_SCENES)}
# What is known at the token after an image, besides the answer: see frame_targets().
TARGET_CLASSES = (6, 3, 3, 2, 6, 3, 3, 2, 4, NUMBERS_BELOW + 1, 11)


@dataclass(frozen=True)
class Example:
    """One conversation: ids and labels of equal length, and what its images show."""

    ids: list[int]
    labels: list[int]  # UNKNOWN where nothing is to be learnt
    image_at: list[int]  # the positions of the image tokens
    scenes: list[int]  # indices in ALL_SCENES, one an image
    targets: list[list[int]]  # one row of TARGET_CLASSES an image
    kinds: list[str]  # of the answers that are to be learnt, in order
    looks: list[tuple[int, int]]  # where a time is told, and the token to look at for it


@dataclass(frozen=True)
class Batch:
    """Padded on the right: int64 (n, length) ids and labels; images flat over the batch."""

    ids: Tensor
    labels: Tensor
    image_at: Tensor  # int64 (images, 2): row, position
    scenes: Tensor  # int64 (images,)
    targets: Tensor  # int64 (images, len(TARGET_CLASSES))
    looks: Tensor  # int64 (any, 3): row, position, the position to look at
    kinds: list[list[str]]


@lru_cache(maxsize=20_000)
def _ids(text: str) -> tuple[int, ...]:
    return tuple(tokenizer().encode(text, add_special_tokens=False))


def frame_targets(frames: tuple[Frame, ...]) -> list[list[int]]:
    """What a model that follows a film knows after each frame; UNKNOWN where it cannot.

    Colour, kind, count and side of the frame; colour, kind and count of the run before its
    own; whether a run starts here; the number of its run; the whole number and the tenths of
    its time mark, the last class where it has none.
    """
    rows = []
    run, shown, before = -1, None, None
    for frame in frames:
        starts = frame.scene != shown
        if starts:
            run, shown, before = run + 1, frame.scene, shown
        mark = [NUMBERS_BELOW, 10]
        if frame.time_s is not None:
            mark = [int(number) for number in f"{frame.time_s:.1f}".split(".")]
        look = LABELS[SCENE_INDEX[frame.scene]].tolist()
        rows.append([*look, *_look(before), int(starts), run, *mark])
    return rows


def _look(scene: Scene | None) -> list[int]:
    return [UNKNOWN] * 3 if scene is None else LABELS[SCENE_INDEX[scene], :3].tolist()


def encode(conversation: Conversation) -> Example:
    """`conversation` with its last answer, in the very tokens the chat template makes of it.

    Learnt are the answers that were not cut, each with its end.
    """
    end, image = _ids(END), [*_ids(AROUND_IMAGE + WHOLE_IMAGE + IMAGE), *_ids(AROUND_IMAGE)]
    last = conversation.turns[-1]
    messages = [
        *conversation.messages(),
        {"role": "assistant", "content": [{"type": "text", "text": last.answer}]},
    ]
    learnt = [False] * len(conversation.preface)
    learnt += [turn.said == turn.answer for turn in conversation.turns[:-1]] + [True]
    kinds = [turn.kind for turn in conversation.turns[:-1] if turn.said == turn.answer]
    ids, image_at = list(_ids(START)), []
    labels = [UNKNOWN]
    answers = iter(learnt)
    told = iter([""] * len(conversation.preface) + [turn.kind for turn in conversation.turns])
    looks: list[tuple[int, int]] = []
    for message in messages:
        ids += _ids(f"{message['role'].capitalize()}:")
        start = len(ids)
        for part in message["content"]:
            if part["type"] == "image":
                image_at.append(len(ids) + 2)
                ids += image
            else:
                ids += _ids(part["text"])
        ids += end
        labels += [UNKNOWN] * (len(ids) - len(labels))
        if message["role"] == "assistant":
            kind = next(told)
            if next(answers):
                labels[start:] = ids[start:]
                if kind == "when":
                    frame = _dated(conversation.frames, message["content"][0]["text"])
                    looks += [(at, image_at[frame] + 1) for at in range(start - 1, len(ids) - 3)]
        ids += _ids("\n")
    labels += [UNKNOWN] * (len(ids) - len(labels))
    frames = conversation.frames
    return Example(
        ids,
        labels,
        image_at,
        [SCENE_INDEX[frame.scene] for frame in frames],
        frame_targets(frames),
        [*kinds, last.kind],
        looks,
    )


def _dated(frames: tuple[Frame, ...], time: str) -> int:
    """The index of the frame whose time mark says `time`."""
    return next(index for index, frame in enumerate(frames) if f"{frame.time_s:.1f} s" == time)


def collate(examples: list[Example]) -> Batch:
    """`examples` as one batch."""
    length = max(len(example.ids) for example in examples)
    pad = tokenizer().pad_token_id
    return Batch(
        torch.tensor([e.ids + [pad] * (length - len(e.ids)) for e in examples]),
        torch.tensor([e.labels + [UNKNOWN] * (length - len(e.labels)) for e in examples]),
        torch.tensor([[row, at] for row, e in enumerate(examples) for at in e.image_at]),
        torch.tensor([scene for e in examples for scene in e.scenes]),
        torch.tensor([row for e in examples for row in e.targets]),
        torch.tensor([[row, *look] for row, e in enumerate(examples) for look in e.looks]),
        [e.kinds for e in examples],
    )


def _random_example(rng: np.random.Generator, max_frames: int) -> Example:
    layout: Layout = "chronological" if rng.random() < 0.65 else "window"
    return encode(conversation_about(random_film(rng, max_frames), layout, None, rng))


def batches(rng: np.random.Generator, tokens: int, max_frames: int) -> Iterator[Batch]:
    """Endless batches of about `tokens` tokens, conversations of both layouts in each."""
    while True:
        group = [_random_example(rng, max_frames) for _ in range(GROUP)]
        made: list[Batch] = []
        part: list[Example] = []
        for example in sorted(group, key=lambda example: len(example.ids)):
            if part and (len(part) + 1) * len(example.ids) > tokens:
                made.append(collate(part))
                part = []
            part.append(example)
        made.append(collate(part))
        yield from (made[index] for index in rng.permutation(len(made)))
