"""Which frames of a prompt a question needs noted or read before it can be answered."""

from collections.abc import Sequence

from core.engines.base import ImagePart
from core.perception.intents import IT, Intent, Question
from core.perception.memory import Memory
from core.perception.note import Note
from core.perception.scenes import SAME_PICTURE, replaced
from core.perception.subjects import PRINT, Certainty, is_printed
from core.perception.vocabulary import is_known, matches

MAX_LOOK_BACK = 24  # unseen frames that one question looks at
MAX_READ_BACK = 3  # unread frames that one question reads
FEW = 3  # newest frames that a question about motion is answered from

# Questions about the past are answered from all frames of the prompt.
ABOUT_THE_PAST = frozenset(
    {
        Intent.FIRST_SEEN,
        Intent.LAST_SEEN,
        Intent.AT_TIME,
        Intent.ORDER,
        Intent.BEFORE,
        Intent.AFTER,
        Intent.HISTORY,
        Intent.CHANGE,
    }
)
ABOUT_WHAT_IS_THERE = frozenset({Intent.DESCRIBE, Intent.IDENTIFY, Intent.HOLDING, Intent.CHANGE})
TEXT_WORDS = frozenset({"sign", "text", "writing", "word", "letter"})


def frames_to_note(
    memory: Memory, question: Question, frames: Sequence[ImagePart]
) -> list[ImagePart]:
    """Frames (given in the order of time) without a note that are needed, newest first."""
    if question.intent is Intent.MOTION:
        needed = frames[-FEW:]
    elif question.intent in ABOUT_THE_PAST:
        needed = frames[-MAX_LOOK_BACK:]
    else:
        return []
    return [f for f in reversed(needed) if memory.get(f.content_id) is None]


def frames_to_read(
    memory: Memory, question: Question, frames: Sequence[ImagePart]
) -> list[ImagePart]:
    """Frames whose text is needed and not known yet; all of them have notes."""
    if not frames:
        return []
    if question.intent is Intent.READ:
        note = memory.get(frames[-1].content_id)
        return [] if note is not None and note.text else [frames[-1]]
    if question.intent in ABOUT_WHAT_IS_THERE and _is_only_print(memory, frames[-1]):
        return [frames[-1]]
    if question.intent not in ABOUT_THE_PAST | {Intent.PRESENT}:
        return []
    for target in question.targets:
        if target == IT or (is_known(target) and target.split(" ")[-1] not in TEXT_WORDS):
            continue
        hit = _first_hit(memory, target)
        if hit is None:  # it may be the name of nothing, but a word that is written somewhere
            return _worth_reading(memory, frames)[:MAX_READ_BACK]
        if hit.text:  # it may have been there before it was read
            earlier = [frame for frame in frames if frame.time_s < hit.time_s]
            return _worth_reading(memory, earlier, like=hit)[:1]
    return []


def _is_only_print(memory: Memory, frame: ImagePart) -> bool:
    """Whether its text, not read yet, is the best that can be said of a frame."""
    note = memory.get(frame.content_id)
    if note is None or note.text is not None or not is_printed(note):
        return False
    return not any(
        claim.certainty is Certainty.SURE and claim.name != PRINT for claim in memory.claims(note)
    )


def _first_hit(memory: Memory, target: str) -> Note | None:
    """The first note that shows a thing."""
    return next(
        (
            note
            for note in memory
            if any(matches(target, claim.names) for claim in memory.claims(note))
        ),
        None,
    )


def _worth_reading(
    memory: Memory, frames: Sequence[ImagePart], like: Note | None = None
) -> list[ImagePart]:
    """Unread frames: the earliest of each scene; those that look like print come first.

    With `like`, only frames that show nearly the same picture as that note.
    """
    chosen: list[tuple[ImagePart, Note]] = []
    for frame in frames:
        note = memory.get(frame.content_id)
        if note is None or note.text is not None:
            continue
        if like is not None and (replaced(note, like) or 0.0) >= SAME_PICTURE:
            continue
        share = replaced(note, chosen[-1][1]) if chosen else None
        if share is None or share >= SAME_PICTURE:
            chosen.append((frame, note))
    newest_first = list(reversed(chosen))
    return [frame for frame, note in sorted(newest_first, key=lambda c: not is_printed(c[1]))]
