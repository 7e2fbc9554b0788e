"""Notes made by hand, for tests of what is said about them."""

from dataclasses import replace

import numpy as np

from core.perception.memory import Memory
from core.perception.note import Box, Colours, Label, Note, Seen
from core.similarity import GRID_HEIGHT, GRID_WIDTH

WHOLE = Box(0.1, 0.1, 0.9, 0.9)
FACE = Box(0.4, 0.2, 0.5, 0.4)


def grid(level=120, *, bright_column=None):
    """A flat picture; a bright bar at `bright_column` (fraction of the width)."""
    picture = np.full((GRID_HEIGHT, GRID_WIDTH, 3), 128, np.uint8)
    picture[..., 0] = level
    if bright_column is not None:
        left = int(bright_column * GRID_WIDTH)
        picture[20:70, left : left + 16, 0] = 230
    return picture


def note(time_s, *, grid_level=120, **fields):
    fields.setdefault("grid", grid(grid_level))
    fields.setdefault("colours", Colours((("grey", 0.9),), (("grey", 0.9),)))
    return Note(content_id=f"{time_s}", time_s=time_s, **fields)


def cat(time_s, **fields):
    return note(
        time_s,
        kinds=(Label("cat", 0.8),),
        labels=(Label("Egyptian Mau", 0.55), Label("tabby cat", 0.1)),
        colours=Colours((("brown", 0.8),), (("brown", 0.6), ("beige", 0.2))),
        **{"grid_level": 60, **fields},
    )


def coffee(time_s, **fields):
    return note(
        time_s,
        kinds=(Label("cup", 0.9),),
        labels=(Label("espresso", 0.85),),
        **{"grid_level": 180, **fields},
    )


def person(time_s, count=1, **fields):
    objects = tuple(
        Seen("person", 0.8, Box(i / count, 0.0, (i + 0.9) / count, 1.0)) for i in range(count)
    )
    faces = tuple(
        Seen("face", 0.9, Box((i + 0.3) / count, 0.1, (i + 0.5) / count, 0.3)) for i in range(count)
    )
    return note(time_s, objects=objects, faces=faces, **{"grid_level": 90, **fields})


def nothing(time_s, **fields):
    return note(time_s, **{"colours": Colours((("red", 0.7),), (("red", 0.7),)), **fields})


def sign(time_s, text=("OPEN 9-17",), **fields):
    return note(time_s, text=text, **{"grid_level": 220, **fields})


def remembered(*notes):
    memory = Memory()
    for item in notes:
        memory.add(item)
    return memory


def at(item, time_s):
    return replace(item, time_s=time_s, content_id=str(time_s))
