"""Parts of sentences that answers about the present and the past share."""

from collections.abc import Sequence

from core.perception.note import Note
from core.perception.subjects import Certainty, Claim
from core.perception.words import listed, with_article

MOSTLY = 0.5  # of the pixels
ALSO = 0.15
LIGHT = (
    (0.12, "very dark"),
    (0.28, "rather dark"),
    (0.55, "neither very bright nor dark"),
    (0.75, "bright"),
    (1.01, "very bright"),
)  # mean luma below, words


def colour_words(colours: Sequence[tuple[str, float]]) -> str:
    """`mostly brown, with some beige`; `brown, grey and white`."""
    if not colours:
        return "of no colour that I can name"
    (first, fraction), *rest = colours
    others = [name for name, share in rest if share >= ALSO][:2]
    if fraction >= MOSTLY:
        return f"mostly {first}" + (f", with some {listed(others)}" if others else "")
    return f"mostly {listed([first, *others])}" if others else f"partly {first}"


def light_words(brightness: float) -> str:
    """How bright a mean luma of 0 to 1 is, in words."""
    return next(words for limit, words in LIGHT if brightness < limit)


def unknown(note: Note) -> str:
    """What can be said where nothing can be named: `something mostly red and white`."""
    return f"something {colour_words(note.colours.subject or note.colours.whole)}"


def seen_list(claims: Sequence[Claim]) -> str:
    """`one person, a cup and a table`; details only where they are not in the way."""
    if len(claims) == 1:
        return claims[0].phrase
    plain = [claim.short for claim in claims]
    first = claims[0]
    if first.detail and first.name != "text":
        return f"{first.phrase}, and {listed(plain[1:])}"
    return listed(plain)


def described(claims: Sequence[Claim], note: Note) -> str:
    """The sentence that says what is seen, as surely as it is known."""
    if not claims:
        colours = colour_words(note.colours.subject or note.colours.whole)
        return f"I am not sure what it is; it is {colours}."
    sure = [claim for claim in claims if claim.certainty is Certainty.SURE]
    unsure = [claim for claim in claims if claim.certainty is not Certainty.SURE]
    if not sure:
        return f"{_hedged(unsure)}."
    if unsure:
        return f"I see {seen_list(sure)}, and perhaps {seen_list(unsure)}."
    return f"I see {seen_list(sure)}."


def looks_like(claim: Claim) -> str:
    """`It is a cat.`; `It looks like a flower, but I am not sure.`"""
    if claim.name == "text":
        return f"I see {claim.phrase}."
    if claim.certainty is not Certainty.SURE:
        return f"It looks like {claim.phrase}, but I am not sure."
    if claim.name == "person":
        return "It is a person." if claim.count == 1 else f"They are {claim.phrase}."
    verb = "They are" if claim.count > 1 else "It is"
    return f"{verb} {claim.phrase}."


def summary(claims: Sequence[Claim], note: Note) -> str:
    """What was seen, as an object of `I saw`."""
    sure = [claim for claim in claims if claim.certainty is Certainty.SURE]
    if sure:
        return seen_list(sure)
    if claims:
        return f"what looked like {with_article(claims[0].name)}"
    return f"{unknown(note)}, but I am not sure what it was"


def _hedged(claims: Sequence[Claim]) -> str:
    likely = any(claim.certainty is Certainty.LIKELY for claim in claims)
    if likely:
        return f"I think I see {seen_list(claims)}"
    return f"I am not sure, but it may be {seen_list(claims)}"
