"""Notes in a row that show the same thing: what came when, and what changed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.perception.memory import Memory
from core.perception.note import Note
from core.perception.subjects import Claim
from core.similarity import BLOCK, GRID_HEIGHT, GRID_WIDTH, BlockChange, block_change

NEW_PICTURE = 0.4  # of the blocks: it is not the same scene any more
SAME_PICTURE = 0.2  # of the blocks: at most this much differs within a scene
REPLACED = 16.0  # grey levels that a block differs by when it shows something else
MOVED = 6.0  # grey levels that a block differs by when something moved in it
LIGHT_STEP = 0.15  # of the full range of brightness


@dataclass
class Scene:
    """A run of notes with the same main thing (None: nothing that could be named)."""

    start_s: float
    end_s: float
    main: Claim | None
    note: Note  # the first


def scenes(memory: Memory, notes: Sequence[Note]) -> list[Scene]:
    """Notes (in the order of time) as scenes, oldest first."""
    found: list[Scene] = []
    for note in notes:
        main = main_claim(memory, note)
        if found and _same(found[-1], main, note):
            found[-1].end_s = note.time_s
            if found[-1].main is None:
                found[-1].main, found[-1].note = main, note
        else:
            found.append(Scene(note.time_s, note.time_s, main, note))
    return _without_flicker(found)


def main_claim(memory: Memory, note: Note) -> Claim | None:
    """The first thing that may be said of a note."""
    claims = memory.claims(note)
    return claims[0] if claims else None


def same_thing(one: Claim, other: Claim) -> bool:
    """Whether two claims are about one kind of thing, whatever its number."""
    if one.name == other.name:
        return one.detail == other.detail or one.name != "text"
    return one.name in other.names or other.name in one.names


def difference(now: Note, before: Note) -> BlockChange | None:
    """What changed between two notes; None where it is no longer known."""
    if now.grid is None or before.grid is None:
        return None
    return block_change(now.grid.astype(np.float32), before.grid.astype(np.float32))


def replaced(now: Note, before: Note, levels: float = REPLACED) -> float | None:
    """The fraction of blocks that differ by more than `levels`; None where it is not known.

    Unlike `BlockChange.area` it is not relative to the picture's own noise, which a change
    of the whole picture looks like.
    """
    if now.grid is None or before.grid is None:
        return None
    change = now.grid.astype(np.float32) - before.grid.astype(np.float32)
    change[..., 0] -= np.median(change[..., 0])
    blocks = np.abs(change).reshape(GRID_HEIGHT // BLOCK, BLOCK, GRID_WIDTH // BLOCK, BLOCK, 3)
    return float((blocks.mean(axis=(1, 3)).max(axis=-1) > levels).mean())


def still_around(memory: Memory, content_id: str) -> list[str]:
    """The content ids of unread notes before and after that show exactly the same."""
    notes = list(memory)
    index = next((i for i, note in enumerate(notes) if note.content_id == content_id), None)
    if index is None:
        return []
    found = []
    for neighbours in (reversed(notes[:index]), iter(notes[index + 1 :])):
        for note in neighbours:
            change = difference(note, notes[index])
            if note.text is not None or change is None or change.significant:
                break
            found.append(note.content_id)
    return found


def where(now: Note, before: Note) -> str:
    """Where most of the change is: `on the left`, `in the middle`, `on the right` or nothing.

    Left and right are those of the picture.
    """
    if now.grid is None or before.grid is None:
        return ""
    change = np.abs(now.grid[..., 0].astype(np.float32) - before.grid[..., 0].astype(np.float32))
    blocks = change.reshape(GRID_HEIGHT // BLOCK, BLOCK, GRID_WIDTH // BLOCK, BLOCK)
    columns = np.clip(blocks.mean(axis=(1, 3)) - 8.0, 0.0, None).sum(axis=0)
    if columns.sum() <= 0:
        return ""
    third = len(columns) // 3
    left, right = columns[: third + 1].sum(), columns[-third - 1 :].sum()
    middle = columns.sum() - left - right
    best = max(left, middle, right)
    if best < 0.6 * columns.sum():
        return ""
    names = {float(left): "on the left", float(middle): "in the middle"}
    return names.get(float(best), "on the right")


def _same(scene: Scene, main: Claim | None, note: Note) -> bool:
    if scene.main is not None and main is not None:
        return same_thing(scene.main, main)
    if scene.main is None and main is None:
        return True
    # One of them could not be named: the same scene if the picture is the same.
    share = replaced(note, scene.note)
    return share is not None and share < SAME_PICTURE


def _without_flicker(found: list[Scene]) -> list[Scene]:
    """Unnamed moments between two notes of one thing belong to it."""
    joined: list[Scene] = []
    for scene in found:
        previous = joined[-1] if joined else None
        if (
            len(joined) >= 2
            and previous is not None
            and previous.main is None
            and scene.main is not None
            and (earlier := joined[-2].main) is not None
            and same_thing(earlier, scene.main)
            and previous.end_s - previous.start_s < 1.0
        ):
            joined.pop()
            joined[-1].end_s = scene.end_s
        else:
            joined.append(scene)
    return joined
