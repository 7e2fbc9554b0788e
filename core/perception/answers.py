"""Spoken answers about the present, composed from notes; nothing is said that was not measured."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from core.perception import past
from core.perception.intents import IT, Intent, Question
from core.perception.memory import Memory
from core.perception.note import Note
from core.perception.phrases import (
    colour_words,
    described,
    light_words,
    looks_like,
    seen_list,
)
from core.perception.scenes import MOVED, NEW_PICTURE, difference, replaced, where
from core.perception.subjects import TEXT, Certainty, Claim, people, quoted
from core.perception.vocabulary import LOOSE, is_known, matches, normal, terms
from core.perception.words import any_of, at, capital, counted, duration, plural
from core.similarity import CHANGED_AREA, LARGEST_CHANGE, BlockChange

MOTION_S = 2.0  # seconds that `is moving` looks back
WHOLE_PICTURE = 0.6  # of the blocks: a moving camera rather than a moving thing

BASIC = "I am basic vision, not a language model"


@dataclass
class View:
    """What an answer may be composed from: the memory, the note valid now, the time now."""

    memory: Memory
    note: Note
    now_s: float
    parts: frozenset[str] = frozenset({"labels", "objects", "faces", "text"})  # what works

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What may be said of the present."""
        return self.memory.claims(self.note)

    def find(self, target: str) -> Claim | None:
        """What of the present is meant by a word, or by `it`."""
        if target == IT:
            return self.claims[0] if self.claims else None
        return next((claim for claim in self.claims if matches(target, claim.names)), None)

    def subject(self, target: str) -> str:
        """What `it` stands for: what was last spoken of, else the main thing in view."""
        if target != IT:
            return target
        if self.memory.subject:
            return self.memory.subject
        return self.claims[0].name if self.claims else ""


Answer = Callable[[Question, View], Iterator[str]]


def compose(question: Question, view: View) -> Iterator[str]:
    """The sentences of an answer, one after another."""
    yield from _ANSWERS.get(question.intent, _other)(question, view)


def remember_subject(question: Question, view: View) -> None:
    """Keep what the answer was about, for the next question's `it`."""
    named = next((target for target in question.targets if target != IT), "")
    if question.intent in (Intent.BEFORE, Intent.AFTER, Intent.ORDER, Intent.HISTORY):
        return
    if question.intent is Intent.AT_TIME:
        claim = past.claim_at(question, view.memory, view.now_s)
        view.memory.subject = claim.name if claim else view.memory.subject
    elif named and is_known(named):
        view.memory.subject = normal(named)
    elif not question.targets and view.claims:
        view.memory.subject = view.claims[0].name


def _describe(question: Question, view: View) -> Iterator[str]:
    yield described(view.claims, view.note)
    if view.claims:
        yield f"The picture is {colour_words(view.note.colours.whole)}."
    light = light_words(view.note.brightness)
    if light in ("very dark", "rather dark", "very bright"):
        yield f"It is {light}."


def _identify(question: Question, view: View) -> Iterator[str]:
    things = [claim for claim in view.claims if claim.name != "person"] or list(view.claims)
    if not things:
        yield described((), view.note)
        return
    yield looks_like(things[0])
    others = [claim for claim in view.claims if claim is not things[0]]
    if others:
        yield f"I also see {seen_list(others)}."


def _holding(question: Question, view: View) -> Iterator[str]:
    things = [c for c in view.claims if c.name not in ("person", "table", "chair", "bed", "sofa")]
    if not things:
        yield "I cannot tell what you are holding."
        yield described(view.claims, view.note)
        return
    yield looks_like(things[0])
    others = [claim for claim in view.claims if claim is not things[0]]
    if others:
        yield f"I also see {seen_list(others)}."


def _count(question: Question, view: View) -> Iterator[str]:
    target = question.targets[0] if question.targets else IT
    target = "person" if target in ("alone", IT) else target
    if matches(target, terms("person")):
        yield from _count_people(view)
        return
    claim = view.find(target)
    if not is_known(target):
        yield f"I cannot count {target}."
        yield from _other(question, view)
    elif claim is None:
        yield f"I do not see any {plural(normal(target))}."
        yield described(view.claims, view.note)
    elif claim.box is None:
        yield f"I see {claim.short}; whether there are more I cannot tell."
    else:
        yield f"I see {counted(claim.count, claim.name)}."


def _count_people(view: View) -> Iterator[str]:
    crowd = people(view.note)
    if crowd.count == 0:
        yield "I see no people."
        if view.claims:
            yield described(view.claims, view.note)
        return
    yield f"I see {counted(crowd.count, 'person')}."
    hidden = crowd.count - crowd.faces
    if hidden and "faces" in view.parts:
        if crowd.count == 1:
            yield "I do not see the face."
        else:
            yield f"Of these I see {counted(crowd.faces, 'face')}."


def _colour(question: Question, view: View) -> Iterator[str]:
    target = question.targets[0] if question.targets else IT
    claim = view.find(target)
    colours = view.note.colours
    if target != IT and claim is None:
        yield f"I do not see {_any(target)}."
    elif claim is not None and claim is view.claims[0] and claim.name != TEXT and colours.subject:
        part = claim.the
        if claim.name == "person":  # what they wear is not told from the rest
            part = f"the part of the picture with {claim.the}"
        verb = "is" if claim.count == 1 or claim.name == "person" else "are"
        yield f"{capital(part)} {verb} {colour_words(colours.subject)}."
    elif target == IT and colours.subject:
        yield f"It is {colour_words(colours.subject)}."
    yield f"The whole picture is {colour_words(colours.whole)}."


def _brightness(question: Question, view: View) -> Iterator[str]:
    percent = round(view.note.brightness * 100)
    light = light_words(view.note.brightness)
    yield f"It is {light}: the average brightness is {percent} percent."


def _motion(question: Question, view: View) -> Iterator[str]:
    notes = view.memory.up_to(view.now_s)
    recent = [note for note in notes if note.time_s >= view.now_s - MOTION_S]
    if len(notes) < 2 and recent:
        yield "I cannot tell yet: I have only seen one picture so far."
        return
    pairs = list(zip(notes[-len(recent) - 1 :], recent[-len(notes) + 1 :], strict=False))
    pairs = [(before, now) for before, now in pairs if before is not now]
    moved = [
        (before, now, change)
        for before, now in pairs
        if (change := difference(now, before)) is not None and _moves(change, now, before)
    ]
    if not moved:
        since = next((n.time_s for n in reversed(notes) if n.time_s < view.now_s - MOTION_S), None)
        yield "No, nothing is moving."
        if since is not None and not recent:
            yield f"The picture has been still for {duration(view.now_s - notes[-1].time_s)}."
        return
    before, now, _ = moved[-1]
    if len(moved) == 1 and (replaced(now, before) or 0.0) >= NEW_PICTURE:
        yield f"The whole picture changed, {at(now.time_s)}; nothing has moved since."
        return
    if (replaced(now, before, MOVED) or 0.0) >= WHOLE_PICTURE:
        yield "Yes, the whole picture is moving: perhaps the camera."
        return
    place = where(now, before)
    yield f"Yes, something is moving{' ' + place if place else ''}."


def _moves(change: BlockChange, now: Note, before: Note) -> bool:
    """Whether something moved; light that was switched is no motion."""
    stirred = change.area >= CHANGED_AREA or change.largest >= LARGEST_CHANGE
    return stirred or (replaced(now, before) or 0.0) >= NEW_PICTURE


def _present(question: Question, view: View) -> Iterator[str]:
    target = question.targets[0] if question.targets else IT
    claim = view.find(target)
    if claim is not None and normal(target) in claim.guesses | LOOSE:
        them = "they are" if claim.count > 1 else "it is"
        yield f"I see {claim.phrase}; whether {them} {_any(target)}, I cannot tell."
    elif claim is not None and claim.certainty is Certainty.SURE:
        yield f"Yes, I see {claim.phrase}."
    elif claim is not None:
        yield f"Perhaps: it looks like {claim.phrase}."
    elif not is_known(target):
        yield f"I cannot recognise {_any(target)}."
        yield described(view.claims, view.note)
    else:
        yield f"No, I do not see {_any(target)}."
        yield described(view.claims, view.note)


def _read(question: Question, view: View) -> Iterator[str]:
    text = view.note.text
    if not text:
        yield "I cannot see any text that I can read."
    else:
        yield f"It says {quoted(text, 1000)}."


def _capabilities(question: Question, view: View) -> Iterator[str]:
    yield f"{BASIC}."
    can = []
    if {"labels", "objects"} & view.parts:
        can.append("say what I see")
    if {"faces", "objects"} & view.parts:
        can.append("count people")
    if "text" in view.parts:
        can.append("read text")
    can += ["name colours", "tell how bright it is and whether something moves"]
    yield f"I can {', '.join(can)}."
    yield "I also remember what I saw and when: ask me what changed, or when I first saw something."


def _other(question: Question, view: View) -> Iterator[str]:
    yield described(view.claims, view.note)
    yield f"{BASIC}, so I can only answer simple questions about what I see."


def _any(target: str) -> str:
    return any_of(normal(target)) if is_known(target) else f"“{target}”"


_ANSWERS: dict[Intent, Answer] = {
    Intent.DESCRIBE: _describe,
    Intent.IDENTIFY: _identify,
    Intent.HOLDING: _holding,
    Intent.COUNT: _count,
    Intent.COLOUR: _colour,
    Intent.BRIGHTNESS: _brightness,
    Intent.MOTION: _motion,
    Intent.PRESENT: _present,
    Intent.READ: _read,
    Intent.CAPABILITIES: _capabilities,
    Intent.OTHER: _other,
    Intent.CHANGE: lambda question, view: past.change(view.memory, view.now_s),
    Intent.FIRST_SEEN: lambda question, view: past.first_seen(
        view.subject(question.targets[0] if question.targets else IT), view.memory, view.now_s
    ),
    Intent.LAST_SEEN: lambda question, view: past.last_seen(
        view.subject(question.targets[0] if question.targets else IT), view.memory, view.now_s
    ),
    Intent.AT_TIME: lambda question, view: past.at_time(question, view.memory, view.now_s),
    Intent.ORDER: lambda question, view: past.order(question.targets, view.memory, view.now_s),
    Intent.BEFORE: lambda question, view: past.neighbour(
        view.subject(question.targets[0] if question.targets else IT), -1, view.memory, view.now_s
    ),
    Intent.AFTER: lambda question, view: past.neighbour(
        view.subject(question.targets[0] if question.targets else IT), 1, view.memory, view.now_s
    ),
    Intent.HISTORY: lambda question, view: past.history(view.memory, view.now_s),
}
