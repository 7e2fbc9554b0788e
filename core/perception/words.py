"""Words: articles, plurals, counting, lists, times."""

from collections.abc import Sequence

NO_ARTICLE = frozenset(
    {
        *("hay", "guacamole", "wool", "dough", "carbonara", "soup", "wine", "bread", "consommé"),
        *("eggnog", "meatloaf", "pajamas", "snow", "text", "food", "fruit", "coffee", "tea"),
        *("water", "people", "furniture", "clothes", "writing", "broccoli", "tights"),
        *("mashed potatoes", "toilet paper", "chocolate syrup", "face powder", "red wine"),
        *("swimming trunks", "velvet cloth", "chain mail"),
    }
)
PAIRS = frozenset({"glasses", "sunglasses", "binoculars", "scissors", "skis", "jeans", "clogs"})
AN_EXCEPTIONS = ("hour", "honest", "heir", "x-ray")
A_EXCEPTIONS = ("uni", "use", "eur", "one", "ukulele", "ufo")
NUMBERS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
)  # fmt: skip
IRREGULAR = {
    "person": "people",
    "man": "men",
    "woman": "women",
    "child": "children",
    "mouse": "mice",
    "sheep": "sheep",
    "fish": "fish",
    "knife": "knives",
    "wolf": "wolves",
    "bookcase": "bookcases",
}
SINGULAR = {plural: singular for singular, plural in IRREGULAR.items()} | {
    "persons": "person",
    "kitties": "kitty",
    "dice": "dice",
    "buses": "bus",
    "glasses": "glasses",
    "scissors": "scissors",
    "sunglasses": "sunglasses",
    "skis": "skis",
    "pants": "pants",
    "jeans": "jeans",
    "clothes": "clothes",
    "cookies": "cookie",
    "knives": "knife",
    "bus": "bus",
}


def with_article(name: str) -> str:
    """`a cat`, `an Egyptian Mau`, `some soup`, `a pair of glasses`."""
    if name in PAIRS:
        return f"a pair of {name}"
    if name in NO_ARTICLE:
        return f"some {name}"
    lower = name.lower()
    vowel = lower[0] in "aeiou" and not lower.startswith(A_EXCEPTIONS)
    return f"{'an' if vowel or lower.startswith(AN_EXCEPTIONS) else 'a'} {name}"


def any_of(name: str) -> str:
    """The same in a sentence that denies it: `a cat`, `any soup`."""
    thing = with_article(name)
    return f"any {name}" if thing.startswith("some ") else thing


def plural(name: str) -> str:
    """`cats`, `people`, `cups of coffee`."""
    head, of, rest = name.partition(" of ")
    if of:
        return plural(head) + of + rest
    *before, last = name.split(" ")
    if last in IRREGULAR:
        last = IRREGULAR[last]
    elif last in PAIRS or last in NO_ARTICLE:
        pass
    elif last.endswith(("s", "x", "ch", "sh")):
        last += "es"
    elif last.endswith("y") and last[-2:-1] not in ("a", "e", "o", "u"):
        last = last[:-1] + "ies"
    else:
        last += "s"
    return " ".join([*before, last])


def singular(word: str) -> str:
    """The singular of one lower-case word, as far as rules go."""
    if word in SINGULAR:
        return SINGULAR[word]
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        return word[:-1]
    return word


def counted(number: int, name: str) -> str:
    """`no cats`, `one cat`, `two cats`, `12 cats`."""
    word = NUMBERS[number] if number < len(NUMBERS) else str(number)
    return f"{word} {name if number == 1 else plural(name)}"


def listed(items: Sequence[str], word: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


def at(time_s: float) -> str:
    """`at 3.2 seconds`: always in this form, so that a page can link it."""
    return f"at {time_s:.1f} seconds"


def duration(seconds: float) -> str:
    """`1 second`, `5 seconds`, `2.5 seconds`."""
    number = f"{seconds:.1f}".removesuffix(".0")
    return f"{number} second{'' if number == '1' else 's'}"


def capital(sentence: str) -> str:
    """The first letter in upper case."""
    return sentence[:1].upper() + sentence[1:]
