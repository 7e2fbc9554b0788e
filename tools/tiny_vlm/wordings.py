"""How the tiny model may be asked: several wordings of each kind of question."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")

SINGLE_KINDS = ("colour", "shape", "position", "count")  # about the newest frame
FILM_KINDS = ("now", "order", "first", "changed", "when")  # about all frames shown so far
KINDS = SINGLE_KINDS + FILM_KINDS

# "{}" stands for a scene with "the": "the red circle", "the two blue squares".
WORDINGS: dict[str, tuple[str, ...]] = {
    "colour": (
        "What colour is it?",
        "What color is it?",
        "Which colour is it?",
        "What colour is this?",
        "What is the colour?",
        "What colour is it now?",
        "What colour are they?",
        "What colour is the shape?",
        "Tell me the colour.",
        "What colour do you see?",
    ),
    "shape": (
        "What shape is it?",
        "Which shape is it?",
        "What shape is this?",
        "What is the shape?",
        "What shape is it now?",
        "What shape are they?",
        "What kind of shape is it?",
        "Tell me the shape.",
        "What shape do you see?",
        "Is it a circle, a square or a triangle?",
    ),
    "position": (
        "Where is it?",
        "Where is it now?",
        "Is it left or right?",
        "Is it on the left or on the right?",
        "On which side is it?",
        "Which side is it on?",
        "Where is the shape?",
        "Where do you see it?",
        "Left or right?",
    ),
    "count": (
        "How many shapes are there?",
        "How many are there?",
        "How many shapes do you see?",
        "How many do you see?",
        "How many are there now?",
        "Count the shapes.",
        "How many shapes are shown?",
        "How many shapes are there now?",
        "How many things are there?",
    ),
    "now": (
        "What do you see now?",
        "What is shown now?",
        "What do you see?",
        "What can you see?",
        "What is there?",
        "What is it?",
        "What is this?",
        "What's this?",
        "What is there now?",
        "What do you see right now?",
        "What am I showing you?",
        "What is shown?",
        "Describe what you see.",
    ),
    "order": (
        "List what you saw in order.",
        "What did you see in order?",
        "List what you saw.",
        "List everything you saw in order.",
        "What did you see so far?",
        "Tell me what you saw in order.",
        "List all you have seen.",
        "What have you seen so far?",
    ),
    "first": (
        "What came first?",
        "What did you see first?",
        "What was the first thing you saw?",
        "What was first?",
        "What was shown first?",
        "What did I show you first?",
        "What was there at the beginning?",
    ),
    "changed": (
        "What changed?",
        "What has changed?",
        "What just changed?",
        "What did change?",
        "What was the last change?",
        "What is different now?",
        "Tell me what changed.",
    ),
    "when": (
        "When did you first see {}?",
        "When did you see {}?",
        "When did {} appear?",
        "When did {} come?",
        "When did {} first appear?",
        "At what time did you first see {}?",
        "When was {} first shown?",
    ),
}
OPENERS = ("Okay, ", "So, ", "Hey, ", "Please, ", "And ", "Now, ")

SYSTEM_PROMPTS = (
    "You are a helpful assistant that watches a live video.",
    "You are a helpful assistant.",
    "You watch a live video and answer questions about it.",
    "Answer briefly.",
    "You see what the camera sees. Answer in one short sentence.",
    "You are watching a live video. Be brief and friendly.",
    "You are Sightline. You see a live video and talk with a person.",
    "Answer questions about the video. Do not use markdown.",
    "You are a careful observer. Say only what you see.",
    "You are a voice assistant that can see. Keep answers short.",
)


def pick(options: Sequence[T], rng: np.random.Generator) -> T:
    """One of `options`, each as likely."""
    return options[int(rng.integers(len(options)))]


def ask(kind: str, rng: np.random.Generator, subject: str = "") -> str:
    """A question of `kind`, as typed or as a speech recogniser may write it."""
    question = pick(WORDINGS[kind], rng).format(subject)
    if rng.random() < 0.1:
        question = pick(OPENERS, rng) + question[0].lower() + question[1:]
    style = rng.random()
    if style < 0.35:
        return question
    if style < 0.6:
        return question.lower()
    if style < 0.8:
        return question.rstrip(".?")
    if style < 0.9:
        return question.lower().rstrip(".?").replace(",", "").replace("'", "")
    return question.rstrip(".?") + "?"
