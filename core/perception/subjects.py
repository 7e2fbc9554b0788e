"""From a note to what may be said of it: things, how many, and how sure."""

from dataclasses import dataclass
from enum import IntEnum

from core.perception.note import Box, Label, Note, Seen
from core.perception.vocabulary import ANIMALS, terms
from core.perception.words import counted, listed, with_article

SURE_LABEL = 0.5  # wrong labels of whole pictures stay below
MAYBE_LABEL = 0.33  # said as a maybe, and only if seen twice or agreed on
AGREEING_LABEL = 0.15  # enough beside an object of the same name
SURE_OBJECT = 0.5
PERSON_BESIDE_ANIMAL = 0.7  # the detector takes animals for people
PROBABLE_DETAIL = 0.85  # of the kind's probability
POSSIBLE_DETAIL = 0.1
SURE_FLOWER = 0.6  # by shape and colour: never more than a `looks like`
CONFLICT = 0.6  # intersection over union: two names for one thing
FLAT_PRINT = 0.6  # of the picture in one even tone
PART = 0.8  # overlap: a part of a person, not another one

COFFEE = frozenset({"espresso"})
PRINT = "sign or page"
TEXT = "text"
PUNCTUATION = ".,:;!?\"'()"
MAX_QUOTED = 80  # characters of text in a phrase


class Certainty(IntEnum):
    """How something is said."""

    MAYBE = 1
    LIKELY = 2
    SURE = 3


@dataclass(frozen=True)
class Claim:
    """One thing, or several of a kind, that can be said to be in the picture."""

    name: str
    certainty: Certainty = Certainty.SURE
    count: int = 1
    detail: str = ""  # `probably an Egyptian Mau`
    names: frozenset[str] = frozenset()  # all that it may be called
    guesses: frozenset[str] = frozenset()  # of these, what it may not be
    box: Box | None = None

    @property
    def phrase(self) -> str:
        """`a cat, probably an Egyptian Mau`; `two people`."""
        if self.name == "person" or self.count > 1:
            return counted(self.count, self.name)
        if self.name == TEXT:
            return f"text that says {self.detail}" if self.detail else "text"
        noun = "a sign or a printed page" if self.name == PRINT else with_article(self.name)
        return f"{noun}, {self.detail}" if self.detail else noun

    @property
    def short(self) -> str:
        """`a cat`; `two people`."""
        if self.name == TEXT:
            return self.phrase
        return Claim(self.name, count=self.count).phrase

    @property
    def the(self) -> str:
        """`the cat`; `the two people`."""
        if self.count > 1:
            return f"the {counted(self.count, self.name)}"
        if self.name == TEXT and self.detail:
            return f"the text {self.detail}"
        return f"the {self.name}"


def is_printed(note: Note) -> bool:
    """Whether the picture has something of a page or a sign: worth reading."""
    return note.flat >= FLAT_PRINT or any(
        kind.name == PRINT and kind.probability >= AGREEING_LABEL for kind in note.kinds
    )


@dataclass(frozen=True)
class People:
    """How many people are in the picture, and how many of them show a face."""

    count: int
    faces: int
    box: Box | None = None


def people(note: Note) -> People:
    """Faces, and bodies without a face of their own."""
    animal = _main_kind(note)
    limit = SURE_OBJECT
    if not note.faces and animal is not None and animal.name in ANIMALS:
        limit = PERSON_BESIDE_ANIMAL
    bodies = [item for item in note.objects if item.name == "person" and item.score >= limit]
    kept: list[Seen] = []
    for body in sorted(bodies, key=lambda item: -item.box.area):
        inside = any(body.box.overlap(other.box) > PART for other in kept)
        if not inside:
            kept.append(body)
    faceless = list(kept)
    for face in note.faces:
        owner = next((body for body in faceless if body.box.overlap(face.box) > PART / 2), None)
        if owner is not None:
            faceless.remove(owner)
    box = kept[0].box if kept else note.faces[0].box if note.faces else None
    return People(len(note.faces) + len(faceless), len(note.faces), box)


def claims(note: Note, before: Note | None = None) -> tuple[Claim, ...]:
    """What may be said of a note, the main thing first; `before` is the note before it."""
    found: list[Claim] = []
    crowd = people(note)
    if crowd.count:
        names = terms("person")
        found.append(Claim("person", Certainty.SURE, crowd.count, names=names, box=crowd.box))
    scene = _scene(note, before)
    objects = _objects(note, scene)
    same = next((item for item in objects if scene is not None and item.names & scene.names), None)
    if scene is not None and same is not None:
        objects.remove(same)
        scene = Claim(
            scene.name,
            Certainty.SURE,
            max(scene.count, same.count),
            scene.detail,
            scene.names | same.names,
            scene.guesses - same.names,
            same.box,
        )
    if scene is not None:
        found.append(scene)
    found += objects
    unsure = scene is None or scene.certainty is Certainty.MAYBE
    if unsure and not objects and note.flower >= SURE_FLOWER:
        if scene is not None:
            found.remove(scene)
        found.insert(0, Claim("flower", Certainty.LIKELY, names=terms("flower")))
    if note.text:
        written = _written(note.text)
        if scene is not None and scene.name == PRINT:
            found.remove(scene)
        found.append(written)
    return tuple(found)


def _written(text: tuple[str, ...]) -> Claim:
    """The text that was read, as a thing that is seen."""
    words = " ".join(text)
    names = {word.strip(PUNCTUATION).lower() for word in words.split()} | {words.lower()}
    return Claim(TEXT, detail=quoted(text), names=terms("sign") | names | {TEXT})


def quoted(text: tuple[str, ...], limit: int = MAX_QUOTED) -> str:
    """Lines of text in quotation marks, cut at a word."""
    words = ", ".join(line.rstrip(",") for line in text)
    if len(words) > limit:
        words = words[:limit].rsplit(" ", 1)[0] + " …"
    return f"“{words}”"


def _main_kind(note: Note) -> Label | None:
    return note.kinds[0] if note.kinds and note.kinds[0].probability >= SURE_LABEL else None


def _scene(note: Note, before: Note | None) -> Claim | None:
    """What the classifier says, if it may be said."""
    if not note.kinds:
        return None
    kind = note.kinds[0]
    certainty = Certainty.SURE
    if kind.probability < SURE_LABEL:
        twice = before is not None and _probability(before, kind.name) >= MAYBE_LABEL
        agreed = any(item.name == kind.name for item in note.objects)
        if agreed and kind.probability >= AGREEING_LABEL:
            certainty = Certainty.SURE
        elif twice and kind.probability >= MAYBE_LABEL:
            certainty = Certainty.MAYBE
        else:
            return None
    name, detail = kind.name, _detail(note, kind)
    names = terms(kind.name) | (terms("sign") if kind.name == PRINT else frozenset())
    guesses: frozenset[str] = frozenset()
    for label in note.labels:
        if label.probability >= PROBABLE_DETAIL * kind.probability:
            names |= terms(label.name)
        elif label.probability >= POSSIBLE_DETAIL:
            guesses |= terms(label.name) - names
    if kind.name == "cup" and note.labels and note.labels[0].name in COFFEE:
        name = "cup of coffee"
    return Claim(name, certainty, detail=detail, names=names | guesses, guesses=guesses - names)


def _detail(note: Note, kind: Label) -> str:
    """The narrower name: `probably an Egyptian Mau`, `perhaps a palace or a bell tower`."""
    if not note.labels or note.labels[0].name == kind.name or kind.name == PRINT:
        return ""
    best = note.labels[0]
    if best.probability >= PROBABLE_DETAIL * kind.probability:
        return f"probably {with_article(best.name)}"
    options = [
        with_article(label.name)
        for label in note.labels[:2]
        if label.probability >= max(POSSIBLE_DETAIL, 0.3 * best.probability)
    ]
    return f"perhaps {listed(options, 'or')}" if options else ""


def _objects(note: Note, scene: Claim | None) -> list[Claim]:
    """What the detector says beside people, if it may be said; several of a kind in one."""
    kept: list[Seen] = []
    for item in note.objects:
        agreed = scene is not None and item.name in scene.names
        likely = item.score >= SURE_OBJECT or agreed
        rival = any(_same_place(item.box, other.box) > CONFLICT for other in kept)
        against = (
            scene is not None
            and scene.certainty is Certainty.SURE
            and item.name in ANIMALS
            and not agreed
            and bool(scene.names & ANIMALS)
        )
        if item.name != "person" and likely and not rival and not against:
            kept.append(item)
    counts: dict[str, list[Seen]] = {}
    for item in kept:
        counts.setdefault(item.name, []).append(item)
    return [
        Claim(name, Certainty.SURE, _number(items), names=terms(name), box=items[0].box)
        for name, items in counts.items()
    ]


def _number(items: list[Seen]) -> int:
    """How many of a kind: what was only agreed on counts once."""
    return max(1, sum(item.score >= SURE_OBJECT for item in items))


def _same_place(one: Box, other: Box) -> float:
    """Intersection over union."""
    common = one.overlap(other) * min(one.area, other.area)
    union = one.area + other.area - common
    return common / union if union else 0.0


def _probability(note: Note, kind: str) -> float:
    return next((label.probability for label in note.kinds if label.name == kind), 0.0)
