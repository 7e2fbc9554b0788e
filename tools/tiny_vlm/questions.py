"""Conversations about drawn scenes, with their right answers, in both prompt layouts."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Literal

import numpy as np

from tools.tiny_vlm.scenes import COLOURS, KINDS, NUMBERS, Scene, random_scene
from tools.tiny_vlm.wordings import FILM_KINDS, SINGLE_KINDS, SYSTEM_PROMPTS, ask, pick

Layout = Literal["window", "chronological"]
Message = dict[str, Any]  # as OpenAI's chat API has it: role, content

MAX_FRAMES = 16
MAX_RUNS = 4
MAX_RUN_FRAMES = 6
MAX_TURNS = 8
STARTS_S = (0.0, 2.0, 30.0, 120.0)  # a film starts somewhere below one of these; it ends by 199.9
TIME_MARKS = 0.65  # the share of films that have them
GAPS_S = (0.1, 5.0)
OFTEN = {"position": 4, "order": 2, "changed": 2, "when": 4}  # times as often as other kinds
INTERRUPTED_MARK = " [interrupted]"


@dataclass(frozen=True)
class Frame:
    """One picture of a film; `time_s` is on its time mark, None without marks."""

    scene: Scene
    time_s: float | None = None


@dataclass(frozen=True)
class Turn:
    """New frames, a question, and its answer; `said` is what of the answer came out."""

    frames: tuple[Frame, ...]
    kind: str
    question: str
    answer: str
    said: str


@dataclass(frozen=True)
class Conversation:
    """What the model is shown; the last turn's answer is what it is to say."""

    system: str | None
    preface: tuple[tuple[str, str], ...]  # questions and answers without their frames
    summary: str | None
    turns: tuple[Turn, ...]

    @property
    def frames(self) -> tuple[Frame, ...]:
        """All frames, oldest first."""
        return tuple(frame for turn in self.turns for frame in turn.frames)

    def messages(self) -> list[Message]:
        """The messages up to the last question, without its answer."""
        messages: list[Message] = []
        if self.system:
            messages.append(_message("system", self.system))
        for question, answer in self.preface:
            messages += [_message("user", question), _message("assistant", answer)]
        for index, turn in enumerate(self.turns):
            parts: list[dict[str, str]] = []
            if index == 0 and self.summary:
                parts.append({"type": "text", "text": self.summary})
            for frame in turn.frames:
                if frame.time_s is not None:
                    parts.append({"type": "text", "text": f"<{frame.time_s:.1f} s>"})
                parts.append({"type": "image"})
            parts.append({"type": "text", "text": turn.question})
            messages.append({"role": "user", "content": parts})
            if index < len(self.turns) - 1:
                messages.append(_message("assistant", turn.said))
        return messages


def _message(role: str, text: str) -> Message:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def runs(frames: Sequence[Frame]) -> list[Frame]:
    """The first frame of each stretch of frames that show the same scene."""
    return [next(run) for _, run in groupby(frames, key=lambda frame: frame.scene)]


def right_answer(kind: str, frames: Sequence[Frame], subject: Scene | None = None) -> str:
    """What a perfect observer says to a question of `kind` after `frames`.

    Raises ValueError where the question makes no sense: no frames, no side, no time mark.
    """
    if not frames:
        raise ValueError(f"{kind}: nothing has been shown")
    newest, starts = frames[-1].scene, runs(frames)
    if kind == "colour":
        return newest.colour
    if kind == "shape":
        return newest.kind
    if kind == "position":
        if newest.side is None:
            raise ValueError("position: several shapes have no side")
        return newest.side
    if kind == "count":
        return NUMBERS[newest.count - 1]
    if kind == "now":
        return newest.phrase
    if kind == "order":
        return ", then ".join(start.scene.phrase for start in starts)
    if kind == "first":
        return starts[0].scene.phrase
    if kind == "changed":
        if len(starts) == 1:
            return "nothing"
        return f"{starts[-2].scene.phrase} became {starts[-1].scene.phrase}"
    if kind == "when":
        times = [start.time_s for start in starts if start.scene == subject]
        if len(times) != 1 or times[0] is None:
            raise ValueError("when: the subject has no one run with a time mark")
        return f"{times[0]:.1f} s"
    raise ValueError(f"no such kind of question: {kind}")


def _similar(scene: Scene, rng: np.random.Generator) -> Scene:
    """`scene` with one of colour, kind and count changed."""
    other = random_scene(rng)
    what = int(rng.integers(3))
    count = other.count if what == 2 else scene.count
    return Scene(
        colour=pick(tuple(COLOURS), rng) if what == 0 else scene.colour,
        kind=pick(KINDS, rng) if what == 1 else scene.kind,
        count=count,
        side=(other.side or scene.side or "left") if count == 1 else None,
    )


def random_runs(rng: np.random.Generator, count: int) -> list[Scene]:
    """`count` scenes; neighbours differ in phrase, some are alike, some come again."""
    scenes: list[Scene] = []
    while len(scenes) < count:
        luck = rng.random()
        if luck < 0.35 and scenes:
            scene = _similar(scenes[-1], rng)
        elif luck < 0.42 and len(scenes) > 1:
            scene = scenes[int(rng.integers(len(scenes) - 1))]
        else:
            scene = random_scene(rng)
        same = [s for s in scenes if s.phrase == scene.phrase]
        if scenes and scene.phrase == scenes[-1].phrase:
            continue
        scenes.append(same[0] if same else scene)
    return scenes


def random_film(rng: np.random.Generator, max_frames: int = MAX_FRAMES) -> list[Frame]:
    """One to `max_frames` frames in runs, with or without time marks."""
    count = int(rng.integers(1, MAX_RUNS + 1))
    scenes = [
        scene
        for scene in random_runs(rng, count)
        for _ in range(int(rng.integers(1, MAX_RUN_FRAMES + 1)))
    ][:max_frames]
    if rng.random() >= TIME_MARKS:
        return [Frame(scene) for scene in scenes]
    low, high = sorted(rng.uniform(*GAPS_S, 2))
    gaps_s = rng.uniform(low, high, len(scenes))
    times_s = pick(STARTS_S, rng) * rng.random() + np.cumsum(gaps_s) - gaps_s[0]
    return [
        Frame(scene, round(float(time_s), 1)) for scene, time_s in zip(scenes, times_s, strict=True)
    ]


def possible_kinds(frames: Sequence[Frame]) -> list[str]:
    """The kinds of question that make sense after `frames`."""
    kinds = [*SINGLE_KINDS, *FILM_KINDS]
    if frames[-1].scene.side is None:
        kinds.remove("position")
    if frames[-1].time_s is None or not _datable(frames):
        kinds.remove("when")
    return kinds


def _random_kind(frames: Sequence[Frame], rng: np.random.Generator) -> str:
    return pick([kind for kind in possible_kinds(frames) for _ in range(OFTEN.get(kind, 1))], rng)


def _datable(frames: Sequence[Frame]) -> list[Scene]:
    """The scenes that occur in one run only."""
    scenes = [start.scene for start in runs(frames)]
    return [scene for scene in scenes if scenes.count(scene) == 1]


def _turn(
    rng: np.random.Generator, before: Sequence[Frame], new: Sequence[Frame], kind: str
) -> Turn:
    frames = [*before, *new]
    subject = None
    if kind == "when":
        subject = pick(_datable(frames), rng)
    question = ask(kind, rng, f"the {subject.shapes}" if subject else "")
    answer = right_answer(kind, frames, subject)
    return Turn(tuple(new), kind, question, answer, answer)


def _interrupt(turn: Turn, rng: np.random.Generator) -> Turn:
    words = turn.answer.split(" ")
    said = " ".join(words[: int(rng.integers(1, len(words) + 1))]) + INTERRUPTED_MARK
    return Turn(turn.frames, turn.kind, turn.question, turn.answer, said)


def _past(rng: np.random.Generator) -> tuple[str, str]:
    """A question and answer about frames that are no longer shown."""
    film = random_film(rng)
    turn = _turn(rng, [], film, _random_kind(film, rng))
    if rng.random() < 0.15:
        turn = _interrupt(turn, rng)
    return turn.question, turn.said


def _summary(rng: np.random.Generator, end_s: float) -> str:
    start_s = round(float(rng.uniform(0, end_s)), 1) if rng.random() < 0.3 else 0.0
    frames = int(rng.integers(1, 60))
    line = f"{start_s:.1f}–{end_s:.1f} s is no longer shown: {frames} frames."
    for _ in range(int(rng.integers(0, 4))):
        question, answer = _past(rng)
        line += f' Asked: "{question}" Answered: "{answer}".'
    return f"[{line}]"


def conversation_about(
    film: Sequence[Frame], layout: Layout, kind: str | None, rng: np.random.Generator
) -> Conversation:
    """A conversation in `layout` about `film`; its last question is of `kind`, any if None."""
    chronological = layout == "chronological"
    cuts = [0, len(film)]
    if chronological:
        turns = int(rng.integers(1, MAX_TURNS + 1))
        cuts = sorted([0, *rng.integers(1, len(film) + 1, turns - 1).tolist(), len(film)])
    asked: list[Turn] = []
    for start, end in pairwise(cuts):
        last = len(asked) == len(cuts) - 2
        what = kind if kind and last else _random_kind(film[:end], rng)
        turn = _turn(rng, film[:start], film[start:end], what)
        if not last and rng.random() < 0.12:
            turn = _interrupt(turn, rng)
        asked.append(turn)
    start_s = film[0].time_s or 0.0
    return Conversation(
        system=pick(SYSTEM_PROMPTS, rng) if rng.random() < 0.5 else None,
        preface=(_past(rng),) if not chronological and rng.random() < 0.5 else (),
        summary=_summary(rng, start_s) if chronological and rng.random() < 0.2 else None,
        turns=tuple(asked),
    )
