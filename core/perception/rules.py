"""Patterns: which words make which question. They see text as `questions.clean` leaves it."""

import re
from collections.abc import Callable

from core.perception.intents import IT, PRONOUNS, Intent
from core.perception.vocabulary import DETERMINERS, is_known, normal

NUMBER_WORDS = {
    word: number
    for number, word in enumerate(
        (
            *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
            *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"),
            *("seventeen", "eighteen", "nineteen"),
        )
    )
} | {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90,
    "a": 1, "an": 1, "half a": 0.5, "a few": 3, "a couple of": 2, "couple of": 2, "few": 3,
}  # fmt: skip
_NUMBER = r"(\d+(?:\.\d+)?|half a|a few|a couple of|couple of|" + "|".join(NUMBER_WORDS) + ")"
_TIME = re.compile(rf"\b{_NUMBER}(?: and a (half))? ?(seconds?|minutes?|s|m)\b")
_AGO = re.compile(r"\b(ago|back|earlier|before now|in the past)\b")

_THING = r"(?:(?:the|a|an|any|some|my|your|that|this|these|those) )?([a-z0-9][a-z0-9 \-]*?)"
_CAME = r"(?: (?:came|appeared|was|arrived|did|left|disappeared).*)?$"

Rest = tuple[tuple[str, ...]] | tuple[tuple[str, ...], float | None, bool]
Rule = Callable[[str], Rest | None]


def _any(*patterns: str) -> Rule:
    """A rule: one of the patterns is in the question; what it is about is not named."""
    compiled = [re.compile(pattern) for pattern in patterns]
    return lambda words: ((),) if any(p.search(words) for p in compiled) else None


def _about(*patterns: str) -> Rule:
    """A rule whose patterns capture the thing that is asked about."""
    compiled = [re.compile(pattern) for pattern in patterns]

    def rule(words: str) -> Rest | None:
        for pattern in compiled:
            match = pattern.search(words)
            if match:
                return (tuple(_thing(group) for group in match.groups() if group),)
        return None

    return rule


def _thing(words: str) -> str:
    """A captured thing without what trails it; `IT` for a pronoun."""
    words = re.sub(
        r"\b(?:right now|now|here|there|in (?:the|this) (?:picture|image|frame|video|room|view)"
        r"|on (?:the )?(?:camera|screen)|at the moment|currently|so far|first|for the first time"
        r"|in view|appear(?:s|ed)?|show(?:ed)? up|come|came|visible|you see|you can see|did you see"
        r"|moving)\b.*$",
        "",
        words,
    ).strip()
    kept = [word for word in words.split() if word not in DETERMINERS - PRONOUNS]
    thing = " ".join(kept)
    if thing in PRONOUNS or (not thing and words):
        return IT
    return " ".join(w for w in kept if w not in DETERMINERS) or IT


def _time(words: str) -> Rest | None:
    """`five seconds ago`, `at 3.2 seconds`, `a minute ago`."""
    if re.search(r"\bjust now\b|\ba moment ago\b|\ba (?:little )?while ago\b", words):
        return ((), 3.0, True)
    match = _TIME.search(words)
    if not match:
        return None
    number, half, unit = match.groups()
    value = NUMBER_WORDS.get(number)
    seconds = float(number) if value is None else float(value)
    seconds += 0.5 if half else 0.0
    if unit.startswith("m"):
        seconds *= 60
    if _AGO.search(words):
        return ((), seconds, True)
    if re.search(r"\b(at|after|around|about)\b", words):
        return ((), seconds, False)
    return None


def _order(words: str) -> Rest | None:
    asks = re.search(
        r"\b(?:which|what|who|who is) (?:\w+ )*?(?:came|come|was|were|appeared|did|do|is)\b.*"
        r"\b(?:first|earlier|last|later|second)\b|\bfirst\b.*\bor\b|\bbefore or after\b"
        r"|\bcame first\b",
        words,
    )
    if asks:
        match = re.search(
            r"(?:first|earlier|last|later|second)?\s*([a-z \-]+?) or ([a-z \-]+)$", words
        )
        if match:
            first = re.sub(
                r"^.*\b(?:first|earlier|last|later|second|did you see|came|see|was)\b", "", match[1]
            )
            second = re.sub(r"\b(?:first|earlier|come|came|appear)\b.*$", "", match[2])
            if first.strip() and second.strip():
                return ((_thing(first), _thing(second)),)
        return ((),) if re.search(r"\b(?:came|come|appeared) first\b", words) else None
    match = re.search(
        r"\b(?:was|did|is) (?:the )?([a-z \-]+?) (?:come |came |there |shown |appear )?"
        r"(before|after) (?:the )?([a-z \-]+)$",
        words,
    )
    if match and is_known(match[1]):
        return ((_thing(match[1]), _thing(match[3])),)
    if re.search(
        r"\b(?:what|which) order\b|\bin order\b|\bsequence\b|\border (?:of|were|did)\b", words
    ):
        return ((),)
    return None


def known_things(words: str) -> tuple[str, ...]:
    """Things of the vocabulary that are named, longest first at each place."""
    tokens = words.split()
    found: list[str] = []
    index = 0
    while index < len(tokens):
        for length in (3, 2, 1):
            phrase = " ".join(tokens[index : index + length])
            if len(tokens) - index >= length and normal(phrase) and is_known(phrase):
                found.append(normal(phrase))
                index += length - 1
                break
        index += 1
    return tuple(found)


_SEE = r"(?:see|saw|seen|notice|noticed|spot|spotted|detect|recogni[sz]e)"

RULES: list[tuple[Intent, Rule]] = [
    (
        Intent.CAPABILITIES,
        _any(
            r"\bwhat (?:\w+ )?(?:can|could) (?:you|this|it) (?:\w+ )?"
            r"(?:do|answer|tell|help)\b(?!.*\babout\b)",
            r"\b(?:who|what) are you\b(?! (?:look|see|watch))",
            r"\bhow (?:can|do) you (?:help|work)\b",
            r"\bwhat (?:kind of|sort of)? ?(?:model|ai|questions)\b",
            r"^help(?: me)?$",
            r"\bare you (?:an? )?(?:ai|model|language model|human|robot|llm)\b",
            r"\byour (?:abilities|capabilities|features)\b",
            r"\bwhat are you (?:able|capable)\b",
            r"\bwhat (?:should|can|could) i ask\b",
        ),
    ),
    (Intent.ORDER, _order),
    (
        Intent.LAST_SEEN,
        _about(
            rf"\bwhen (?:\w+ )*?last (?:time )?(?:\w+ )*?{_SEE} {_THING}$",
            rf"\blast time (?:\w+ )*?{_SEE} {_THING}$",
        ),
    ),
    (
        Intent.FIRST_SEEN,
        _about(
            rf"\bwhen (?:\w+ )*?{_SEE} {_THING}(?: (?:for the )?first(?: time)?)?$",
            r"\bwhen (?:did|was|were|has) (.+?) (?:first |initially )?"
            r"(?:appear|come|arrive|show up|shown|enter|seen|visible|begin|there)\b",
            rf"\b(?:what time|since when|how long ago)\b.*?\b{_SEE} {_THING}$",
            rf"\bfirst (?:time )?(?:\w+ )*?{_SEE} {_THING}$",
        ),
    ),
    (Intent.BEFORE, _about(rf"\b(?:before|prior to) {_THING}{_CAME}")),
    (Intent.AT_TIME, _time),
    (Intent.AFTER, _about(rf"\b(?:after|following|followed) {_THING}{_CAME}")),
    (
        Intent.READ,
        _any(
            r"\bread\b",
            r"\bwhat (?:does|do|did) (?:\S+ ){1,5}?say\b",
            r"\bwhat is (?:\w+ )*?written\b",
            r"\b(?:is|are) there (?:any |some )?(?:text|writing|words|letters)\b",
            r"\bwhat (?:text|words|letters)\b",
            r"\bwhat is (?:the |this |that )?(?:text|writing|sign say)",
            r"\bsays what\b",
            r"\bspell\b",
            r"\bsee (?:any |some )?(?:text|writing|words|letters)\b",
            r"\bwhat (?:is )?(?:it|this|that|sign) says?\b",
        ),
    ),
    (
        Intent.COUNT,
        _about(
            rf"\bhow many (?:different )?{_THING}(?: (?:do|can|are|is|am|did|have|in|on) .*)?$",
            rf"\bcount (?:all |up )?{_THING}(?: (?:in|on|that|you) .*)?$",
            rf"\bnumber of {_THING}(?: (?:do|can|are|is|did|in|on) .*)?$",
            r"^(?:is|are) (?:there )?(anyone|anybody|someone|somebody|people)\b",
            r"\b(?:am i|are we) (alone)\b",
            r"\bdo you see (anyone|anybody|someone|somebody|people|any people)\b",
        ),
    ),
    (
        Intent.COLOUR,
        _about(
            rf"\bcolour (?:is|are|was|of|has|have|does|do) {_THING}"
            r"(?: (?:have|here|now|wearing|made|that|which|in)\b.*)?$",
        ),
    ),
    (Intent.COLOUR, _any(r"\bcolour\b", r"\bwhat shade\b")),
    (
        Intent.BRIGHTNESS,
        _any(
            r"\b(?:bright|dark|brightness|lit|gloomy|dim|darkness)\b",
            r"\bhow (?:much light|light is)\b",
            r"\bis (?:it|the light|the room) (?:light|day|night)",
            r"\blights? (?:on|off)\b",
            r"\benough light\b",
        ),
    ),
    (
        Intent.MOTION,
        _any(
            r"\b(?:mov(?:e|es|ed|ing|ement)|motion|moves)\b",
            r"\bis (?:it|everything|anything) (?:still|static)\b",
            r"\bhappening\b.*\bmov",
            r"\bstanding still\b",
        ),
    ),
    (
        Intent.CHANGE,
        _any(
            r"\bchang(?:e|es|ed|ing)\b",
            r"\bdifferent\b",
            r"\bdifference\b",
            r"\bwhat (?:just )?happened\b",
            r"\bwhat is new\b",
            r"\banything new\b",
        ),
    ),
    (
        Intent.HISTORY,
        _any(
            r"\bwhat (?:have|had) you seen\b",
            r"\bwhat did you see\b",
            r"\bso far\b",
            r"\bsumm",
            r"\bhistory\b",
            r"\bwhat (?:was|were) (?:there|here|that|it)\b(?:.* (?:earlier|before))?$",
            r"\bremember\b",
            r"\bwhat else did you see\b",
            r"\bwhat (?:came|did i show)\b",
            r"\bfirst thing\b",
            r"\bwhat did you first see\b",
        ),
    ),
    (
        Intent.HOLDING,
        _any(
            r"\b(?:holding|hold|held)\b",
            r"\bin my (?:hands?|fingers)\b",
            r"\bam i (?:showing|pointing)\b",
            r"\b(?:showing|pointing) (?:you|to you|at)\b",
        ),
    ),
    (
        Intent.PRESENT,
        _about(
            rf"^(?:do|can|did|have) you (?:also |still )?{_SEE} (?!anything|something){_THING}$",
            rf"^(?:is|are) there (?:still |also )?(?!anything|something|nothing){_THING}$",
            rf"^(?:is|are) (?:this|that|it|these|those|they) (?:really )?{_THING}$",
            rf"^where (?:is|are) {_THING}$",
        ),
    ),
    (
        Intent.DESCRIBE,
        _any(
            r"\bwhat (?:\w+ )?(?:do|can|are|is|does) (?:you|it|the camera) (?:\w+ )*?"
            r"(?:see|seeing|look|looking|watch|watching|view)",
            r"\bdescribe\b",
            r"\bwhat is (?:\w+ )*?(?:visible|happening|going on|there)",
            r"\bwhat is (?:\w+ )*?in (?:the |this )?(?:picture|image|frame|view|video|room|front)",
            r"\blook (?:at|around)\b",
            r"\bwhat (?:is|are) (?:in front|around|here|you seeing|we looking)",
            r"\bwhat (?:are|is) there\b",
            r"\bwhat am i (?:doing|looking)\b",
            r"\bwhat can (?:be )?seen?\b",
            r"\bwhat else\b",
            r"\bwhat (?:about )?now\b",
            r"^see anything\b",
            r"\bwhat you (?:can |are )?(?:now )?(?:see|seeing)\b",
            r"\bis going on\b",
            r"\b(?:do|can) you see (?:any|some)thing\b",
            r"^(?:is|are) there (?:any|some|no)thing\b",
            r"\bwhat does (?:it|this|the picture|the image|the scene) (?:show|look)\b",
            r"\bwhere am i\b",
        ),
    ),
    (
        Intent.IDENTIFY,
        _any(
            r"\bwhat(?: kind of| sort of| type of| breed of)?(?: \w+)? (?:is|are|would|was) "
            r"(?:this|that|it|these|those|they|he|she)\b",
            r"^(?:what|who) (?:is|are) (?:this|that|it|these|those|here)\b",
            r"\bidentify\b",
            r"\brecogni[sz]e (?:this|that|it)\b",
            r"^(?:this|that)$",
            r"^what(?: is| the)?$",
            r"\bwhat (?:thing|object|animal|item|breed|plant|building)\b",
            r"^name (?:this|that|it)\b",
            r"\bwhat do you (?:think|call) (?:this|that|it)\b",
            r"^guess\b",
            r"\bwhat is (?:in|on) my\b",
        ),
    ),
]
