"""Which words mean which things: synonyms, wider terms, and what can be recognised at all."""

from functools import cache

from core.perception.classifier import read_classes
from core.perception.detector import NAMES, SPOKEN
from core.perception.words import singular

DETERMINERS = frozenset(
    {
        *("a", "an", "the", "my", "your", "his", "her", "our", "their", "this", "that", "these"),
        *("those", "any", "some", "another", "one", "of", "first", "there", "here", "again"),
        *("please", "now"),
    }
)

# What else a person may call a thing that is recognised under the name on the left.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "person": (
        "people", "man", "woman", "human", "human being", "somebody", "someone", "anybody",
        "anyone", "me", "face", "guy", "boy", "girl", "child", "kid", "lady", "myself", "us",
        "astronaut",
    ),
    "cat": ("kitten", "kitty", "pussycat"),
    "dog": ("puppy", "doggy", "hound"),
    "cup": ("mug", "coffee mug", "coffee cup", "tea cup", "teacup"),
    "espresso": ("coffee", "cup of coffee", "espresso cup"),
    "coffee mug": ("coffee",),
    "tea cup": ("tea", "cup of tea"),
    "building": ("house", "temple", "tower", "architecture", "pagoda", "pavilion"),
    "flower": ("blossom", "bloom", "dahlia"),
    "phone": ("cell phone", "mobile", "mobile phone", "smartphone", "cellphone", "telephone"),
    "screen": ("tv", "television", "monitor", "display", "tv screen"),
    "sofa": ("couch", "settee"),
    "laptop": ("notebook", "computer", "laptop computer"),
    "plane": ("airplane", "aeroplane", "aircraft", "airliner"),
    "car": ("automobile", "taxi", "cab"),
    "motorcycle": ("motorbike", "bike", "moped", "scooter"),
    "bicycle": ("bike", "cycle"),
    "boat": ("ship",),
    "ship": ("boat",),
    "glasses": ("spectacles", "sunglasses", "shades"),
    "bag": ("handbag", "purse", "sack"),
    "backpack": ("rucksack", "bag"),
    "table": ("desk", "dining table"),
    "ball": ("football", "basketball"),
    "rabbit": ("bunny",),
    "cupboard": ("cabinet", "wardrobe"),
    "trash can": ("bin", "rubbish bin"),
    "sign": ("text", "writing", "words", "board", "page"),
    "potted plant": ("plant", "houseplant"),
    "remote control": ("remote",),
    "computer mouse": ("mouse",),
    "sheep": ("lamb",),
    "pen": ("biro",),
}  # fmt: skip

# Of these, the ones that say more than what was recognised.
LOOSE = frozenset(
    {
        *("man", "woman", "guy", "boy", "girl", "child", "kid", "lady", "astronaut"),
        *("kitten", "kitty", "puppy", "hound", "house", "temple", "tower"),
        *("pagoda", "pavilion", "dahlia", "taxi", "cab", "lamb", "football", "basketball"),
        *("desk", "tea cup", "coffee mug", "coffee cup", "moped", "scooter", "wardrobe"),
    }
)

# Wider terms: what is recognised under the names on the right is one of these too.
WIDER: dict[str, tuple[str, ...]] = {
    "animal": (
        "cat", "dog", "bird", "fish", "horse", "sheep", "cow", "elephant", "bear", "zebra",
        "giraffe", "rabbit", "fox", "wolf", "wild dog", "wild cat", "monkey", "ape", "pig",
        "squirrel", "snake", "lizard", "frog", "turtle", "insect", "butterfly", "spider",
        "crab", "lobster", "whale", "shark", "crocodile", "antelope", "ferret", "lemur",
        "newt", "snail", "slug", "jellyfish",
    ),
    "pet": ("cat", "dog", "rabbit", "hamster", "guinea pig"),
    "vehicle": (
        "car", "truck", "bus", "train", "boat", "ship", "plane", "bicycle", "motorcycle",
        "tractor", "tricycle",
    ),
    "furniture": ("chair", "table", "sofa", "bed", "bench", "cupboard", "bookcase"),
    "food": (
        "apple", "orange", "banana", "lemon", "fruit", "vegetable", "mushroom", "bread",
        "sandwich", "dessert", "soup", "pizza", "cake", "donut", "hot dog", "broccoli", "carrot",
    ),
    "fruit": ("apple", "orange", "banana", "lemon"),
    "drink": ("cup", "wine", "espresso", "bottle"),
    "plant": ("flower", "potted plant", "vegetable"),
    "instrument": ("guitar", "piano", "drum", "violin", "trumpet", "woodwind instrument"),
    "clothes": ("hat", "coat", "dress", "shirt", "tie", "swimsuit", "shoe"),
    "computer": ("laptop", "keyboard", "screen"),
}  # fmt: skip
ANIMALS = frozenset(WIDER["animal"])


def normal(phrase: str) -> str:
    """A thing as it is looked up: lower case, singular, without articles."""
    words = [word for word in phrase.lower().split() if word not in DETERMINERS]
    if not words:
        return ""
    return " ".join([*words[:-1], singular(words[-1])]) if " of " not in phrase else " ".join(words)


@cache
def terms(name: str) -> frozenset[str]:
    """All that a thing recognised as `name` may be called."""
    found = {name.lower(), *SYNONYMS.get(name, ())}
    found |= {wider for wider, narrower in WIDER.items() if name in narrower}
    head, of, _ = name.lower().partition(" of ")
    words = (head if of else name.lower()).split()
    if len(words) > 1:
        found.add(words[-1])
    return frozenset(normal(term) for term in found)


@cache
def vocabulary() -> frozenset[str]:
    """Every word that something can be recognised by."""
    classes = read_classes()
    names = {*classes.names, *classes.kinds, *(SPOKEN.get(name, name) for name in NAMES)}
    names |= {*SYNONYMS, *WIDER, "sign"}
    return frozenset(term for name in names for term in terms(name)) | {
        normal(name) for name in names
    }


def is_known(phrase: str) -> bool:
    """Whether there is anything that would be recognised as this."""
    target = normal(phrase)
    return any(target == word or target.endswith(" " + word) for word in vocabulary())


def matches(phrase: str, names: frozenset[str]) -> bool:
    """Whether `phrase` (`the red cup`, `cats`) means one of the terms `names`."""
    target = normal(phrase)
    return bool(target) and any(target == term or target.endswith(" " + term) for term in names)
