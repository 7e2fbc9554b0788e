"""Streamed text is cut into clauses that can be spoken, each as early as is safe.

The first clause is short, so that the first sound comes early; later ones are sentences. A
border is only drawn before a character that has arrived, and depends on nothing after it:
how the text was split into deltas makes no difference.
"""

import re
import unicodedata

FIRST_COMMA_CHARS = 12  # the first clause ends at a comma from here on
FIRST_WORD_CHARS = 40  # or at a word from here on
FIRST_CHARS = 60  # and at any word from here on
COMMA_CHARS = 110  # a later clause ends at a comma from here on
WORD_CHARS = 160  # or at any word from here on
UNBROKEN_CHARS = 200  # longer text without a space is cut anywhere
WIDE_FIRST_CHARS, WIDE_CHARS = 16, 48  # the same for Chinese, Japanese and Korean

CLOSERS = "\"'”’)]}*_`»」』）"
WIDE_ENDS = "。！？"
WIDE_COMMAS = "，、；："
COMMAS = ",;:—–" + WIDE_COMMAS
LINE_STARTS = "-*•#+>|`"
LINE_MARK = re.compile(r"\s*(?:[-*•+>|]\s|#+\s|\d+[.)](?:\s|$)|\|)")
SPEAKABLE = re.compile(r"[^\W_]")
FENCE = "```"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Abbreviations that do not end a sentence; that do before a capital; that do unless a number
# follows. After a linking word no clause is cut for its length alone.
TITLES = _words(
    "dr mr mrs ms prof st gen col sgt capt rev hon vs approx cf ca e.g i.e viz resp dept est"
)
OFTEN_LAST = _words("etc inc ltd co corp jr sr a.m p.m ph.d al")
BEFORE_NUMBER = _words("no nos fig figs p pp vol ch sec eq art")
LINKING = _words(
    "a an the of to in on at by for with from and or but is are was were i you he she it we "
    "they my your his her its our their this that these those as not no very"
)


class ClauseSplitter:
    """Cuts a text that comes in deltas. Joined again, the clauses are the text, white space too."""

    def __init__(self) -> None:
        self._text = ""
        self._is_first = True
        self._in_code = False

    def feed(self, delta: str) -> list[str]:
        """The clauses that are complete now."""
        clauses = []
        for char in delta:
            if self._ends_before(char):
                clauses.append(self._take())
            self._text += char
            if char == "`" and self._text.endswith(FENCE):
                self._in_code = not self._in_code
        return clauses

    def flush(self) -> list[str]:
        """What is left, now that the text has ended."""
        rest = self._take()
        self._is_first, self._in_code = True, False
        return [rest] if rest.strip() else []

    def _take(self) -> str:
        text, self._text = self._text, ""
        self._is_first = False
        return text

    def _ends_before(self, char: str) -> bool:
        text = self._text
        if char.isspace() or self._in_code:
            return False
        if not SPEAKABLE.search(text):
            return len(text) >= UNBROKEN_CHARS
        body = text.rstrip()
        if len(body) == len(text):
            return self._ends_unspaced(text, char)
        return (
            self._ends_line(body, text[len(body) :], char)
            or _ends_sentence(body, char)
            or self._is_long_enough(body)
        )

    def _ends_unspaced(self, text: str, char: str) -> bool:
        if char in CLOSERS or char in WIDE_ENDS or char in WIDE_COMMAS:
            return False
        last = text.rstrip(CLOSERS)[-1:]
        if last in WIDE_ENDS:
            return True
        limit = WIDE_FIRST_CHARS if self._is_first else WIDE_CHARS
        if last in WIDE_COMMAS:
            return len(text) >= limit // 2
        if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Mn", "Sk"):
            return False
        if _is_wide(last) and _is_wide(char):
            return len(text) >= limit
        return len(text) - 1 - text.rfind(" ") >= UNBROKEN_CHARS

    def _ends_line(self, body: str, gap: str, char: str) -> bool:
        if "\n" not in gap:
            return False
        line = body.rsplit("\n", 1)[-1]
        return (
            gap.count("\n") > 1
            or char in LINE_STARTS
            or char.isdigit()
            or body.rstrip(CLOSERS)[-1:] in tuple(".!?:;…")
            or body.endswith(FENCE)
            or LINE_MARK.match(line) is not None
        )

    def _is_long_enough(self, body: str) -> bool:
        length = len(body.lstrip())
        bare = body.rstrip(CLOSERS)
        if bare[-1:] in tuple(COMMAS) or body.endswith((" -", "--")):
            return length >= (FIRST_COMMA_CHARS if self._is_first else COMMA_CHARS)
        if not self._is_first:
            return length >= WORD_CHARS
        if length < FIRST_WORD_CHARS:
            return False
        word = _last_word(bare)
        is_linking = word.lower() in LINKING or bare.endswith(".") or word[-1:].isdigit()
        return length >= FIRST_CHARS or not is_linking


def _ends_sentence(body: str, char: str) -> bool:
    """Whether a sentence ends with `body`, white space and then `char` following."""
    bare = body.rstrip(CLOSERS)
    last = bare[-1:]
    if last in tuple("!?") or last in tuple(WIDE_ENDS):
        return len(bare) == len(body) or not char.islower()
    if last == "…" or bare.endswith(".."):
        return not char.islower()
    if last != ".":
        return False
    word = _last_word(bare)
    name = word.rstrip(".").lower()
    if name in TITLES:
        return False
    if name in BEFORE_NUMBER:
        return not char.isdigit() and not char.islower()
    if name.isdigit() and bare.rsplit("\n", 1)[-1].strip() == word:
        return False  # a numbered item
    letters = name.split(".")
    is_initials = name != "i" and all(len(letter) == 1 and letter.isalpha() for letter in letters)
    if is_initials and name not in OFTEN_LAST:
        return False  # J. Smith, the U.S. Navy
    return not char.islower()


def _last_word(body: str) -> str:
    words = body.rsplit(maxsplit=1)
    return words[-1].lstrip("\"'“‘([{*_") if words else ""


def _is_wide(char: str) -> bool:
    return unicodedata.east_asian_width(char) in ("W", "F") if char else False
