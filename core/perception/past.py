"""Spoken answers about the past, composed from the memory of a session."""

from collections.abc import Iterator, Sequence

from core.perception.intents import IT, Question
from core.perception.memory import Memory
from core.perception.note import Note
from core.perception.phrases import (
    colour_words,
    described,
    light_words,
    seen_list,
    summary,
    unknown,
)
from core.perception.scenes import (
    LIGHT_STEP,
    NEW_PICTURE,
    Scene,
    main_claim,
    replaced,
    same_thing,
    scenes,
)
from core.perception.subjects import Certainty, Claim, people
from core.perception.vocabulary import is_known, matches, normal
from core.perception.words import any_of, at, capital, counted, duration

MAX_LISTED = 6  # scenes in one sentence


def claim_at(question: Question, memory: Memory, now_s: float) -> Claim | None:
    """The main thing at the time that a question names."""
    note = memory.at(_moment(question, now_s))
    return main_claim(memory, note) if note is not None else None


def at_time(question: Question, memory: Memory, now_s: float) -> Iterator[str]:
    """What was seen then."""
    moment_s = _moment(question, now_s)
    notes = memory.up_to(now_s)
    note = memory.at(min(moment_s, now_s))
    if not notes:
        yield "I have not seen anything yet."
    elif moment_s > now_s:
        yield f"That is still to come: it is {duration(round(now_s, 1))} since we began."
    elif note is None:
        first = notes[0]
        yield f"I was not watching yet then: my first picture came {at(first.time_s)}."
        yield f"It showed {summary(memory.claims(first), first)}."
    else:
        when = at(moment_s)
        if question.ago:
            when = f"{duration(question.seconds or 0.0)} ago, {when},"
        yield capital(f"{when} I saw {summary(memory.claims(note), note)}.").replace(",,", ",")


def first_seen(target: str, memory: Memory, now_s: float) -> Iterator[str]:
    """When a thing came into view, and whether it still is."""
    notes = memory.up_to(now_s)
    hits = _hits(target, memory, notes)
    if not hits:
        yield from _never(target, memory, notes)
        return
    note, claim = hits[0]
    sure = claim.certainty is Certainty.SURE
    verb = "first saw" if sure else "may first have seen"
    yield f"I {verb} {_named(claim)} {at(note.time_s)}."
    last = hits[-1][0]
    if last is notes[-1]:
        if len(notes) > 1 and note is not notes[-1]:
            yield f"I still see {_them(claim)}."
    else:
        yield f"I last saw {_them(claim)} {at(last.time_s)}."


def last_seen(target: str, memory: Memory, now_s: float) -> Iterator[str]:
    """When a thing was last in view."""
    notes = memory.up_to(now_s)
    hits = _hits(target, memory, notes)
    if not hits:
        yield from _never(target, memory, notes)
    elif hits[-1][0] is notes[-1]:
        yield f"I see {_named(hits[-1][1])} right now."
    else:
        yield f"I last saw {_named(hits[-1][1])} {at(hits[-1][0].time_s)}."


def order(targets: Sequence[str], memory: Memory, now_s: float) -> Iterator[str]:
    """Which of two things came first; or all that was seen, in order."""
    notes = memory.up_to(now_s)
    named = [target for target in targets if target != IT]
    if len(named) < 2:
        yield from history(memory, now_s)
        return
    firsts: list[tuple[float, Claim]] = []
    for target in named[:2]:
        hits = _hits(target, memory, notes)
        if not hits:
            yield from _never(target, memory, [])
        else:
            firsts.append((hits[0][0].time_s, hits[0][1]))
    if len(firsts) == 1:
        time_s, claim = firsts[0]
        yield f"I first saw {_named(claim)} {at(time_s)}."
    if not firsts and notes:
        yield described(memory.claims(notes[-1]), notes[-1])
    if len(firsts) < 2:
        return
    (first_s, first), (second_s, second) = sorted(firsts, key=lambda item: item[0])
    if first_s == second_s:
        yield f"I saw {_named(first)} and {_named(second)} together, {at(first_s)}."
    else:
        yield (
            f"{capital(first.the)} came first, {at(first_s)}; "
            f"{second.the} came after, {at(second_s)}."
        )


def history(memory: Memory, now_s: float) -> Iterator[str]:
    """All that was seen, in order."""
    found = [scene for scene in scenes(memory, memory.up_to(now_s)) if scene.main is not None]
    if not found:
        yield "I have not seen anything yet that I could name."
        return
    if len(found) == 1:
        yield f"So far I have only seen {_scene_name(found[0])}, {at(found[0].start_s)}."
        return
    shown = found[-MAX_LISTED:]
    parts = [f"{_scene_name(scene)} {at(scene.start_s)}" for scene in shown]
    opening = "First I saw" if len(found) <= MAX_LISTED else "Lately I saw"
    yield f"{opening} {parts[0]}, then {', then '.join(parts[1:])}."


def neighbour(target: str, step: int, memory: Memory, now_s: float) -> Iterator[str]:
    """What came before (step −1) or after (step 1) a thing."""
    notes = memory.up_to(now_s)
    found = scenes(memory, notes)
    word = "before" if step < 0 else "after"
    index = next((i for i, scene in enumerate(found) if _shows(scene, target)), None)
    if index is None:
        yield from _never(target, memory, notes)
        return
    main = found[index].main
    assert main is not None
    if not 0 <= index + step < len(found):
        if step < 0:
            yield f"Nothing: {main.the} was the first thing I saw, {at(found[index].start_s)}."
        else:
            yield f"Nothing yet: {main.the} is the last thing I saw."
        return
    other = found[index + step]
    yield capital(
        f"{word} {main.the} I saw {summary(memory.claims(other.note), other.note)}, "
        f"{at(other.start_s)}."
    )


def change(memory: Memory, now_s: float) -> Iterator[str]:
    """The last thing that changed."""
    notes = memory.up_to(now_s)
    if len(notes) < 2:
        yield "I have only seen one picture so far, so I know of no change."
        if notes:
            yield described(memory.claims(notes[-1]), notes[-1])
        return
    now = notes[-1]
    for before, after in zip(reversed(notes[:-1]), reversed(notes[1:]), strict=True):
        sentence = _what_changed(memory, now, before, after)
        if sentence:
            yield sentence
            return
    yield f"Not much has changed since {at(notes[0].time_s).removeprefix('at ')}."
    yield described(memory.claims(now), now)


def _what_changed(memory: Memory, now: Note, before: Note, after: Note) -> str:
    """How `now` differs from `before`; the change came with `after`."""
    when = capital(at(after.time_s))
    new, old = main_claim(memory, now), main_claim(memory, before)
    crowd, earlier = people(now).count, people(before).count
    was, is_now = summary(memory.claims(before), before), _in_view(memory, now)
    if new is not None and old is not None and not same_thing(new, old):
        return f"{when} the picture changed: before, I saw {was}; now I see {is_now}."
    if crowd != earlier:
        return f"{when} it changed from {counted(earlier, 'person')} to {counted(crowd, 'person')}."
    if now.text and before.text and now.text != before.text and new is not None:
        return f"{when} the text changed: now I see {new.phrase}."
    share = replaced(now, before)
    big = share is not None and share >= NEW_PICTURE
    if (new is None) != (old is None) and (share is None or big):
        was = was if old is not None else unknown(before)
        return f"{when} the picture changed: before, I saw {was}; now I see {is_now}."
    if abs(now.brightness - before.brightness) >= LIGHT_STEP:
        brighter = "brighter" if now.brightness > before.brightness else "darker"
        return f"{when} it became {brighter}: now it is {light_words(now.brightness)}."
    if new is None and old is None and big:
        was = colour_words(before.colours.whole)
        return (
            f"{when} the picture changed: before, it was {was}; "
            f"now it is {colour_words(now.colours.whole)}."
        )
    return ""


def _in_view(memory: Memory, note: Note) -> str:
    """What is seen, as an object of `now I see`."""
    claims = memory.claims(note)
    if not claims:
        return unknown(note)
    if claims[0].certainty is not Certainty.SURE:
        return f"what looks like {claims[0].phrase}"
    return seen_list([claim for claim in claims if claim.certainty is Certainty.SURE])


def _them(claim: Claim) -> str:
    return "them" if claim.count > 1 or claim.name == "person" else "it"


def _moment(question: Question, now_s: float) -> float:
    seconds = question.seconds or 0.0
    return now_s - seconds if question.ago else seconds


def _hits(target: str, memory: Memory, notes: Sequence[Note]) -> list[tuple[Note, Claim]]:
    """Notes that show a thing, with the claim that means it."""
    found: list[tuple[Note, Claim]] = []
    for note in notes:
        claim = next((c for c in memory.claims(note) if matches(target, c.names)), None)
        if claim is not None:
            found.append((note, claim))
    return found


def _never(target: str, memory: Memory, notes: Sequence[Note]) -> Iterator[str]:
    if target in ("", IT):
        yield "I am not sure what you mean."
    elif is_known(target):
        yield f"I have not seen {any_of(normal(target))} so far."
    else:
        yield f"I have not seen “{target}” so far, and I may not be able to recognise it."
    if notes:
        yield described(memory.claims(notes[-1]), notes[-1])


def _shows(scene: Scene, target: str) -> bool:
    return scene.main is not None and matches(target, scene.main.names)


def _scene_name(scene: Scene) -> str:
    assert scene.main is not None
    return scene.main.short


def _named(claim: Claim) -> str:
    return claim.short
