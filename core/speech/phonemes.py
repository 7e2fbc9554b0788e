"""English words as phonemes, from a dictionary and a small network; without espeak-ng.

The dictionary (gold and silver), the suffix and context rules are those of misaki 0.9.4
(github.com/hexgrad/misaki, Apache-2.0): one character a phoneme, `A I O W Y` for the five
diphthongs, `ˈ ˌ` before the stressed vowel. The perceptron that tells "record" the noun from
the verb, and the network for unknown words, are data of the package hibari-tts.
"""

import gzip
import json
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from core.weights import ModelError, WeightsFile, run_session

HIBARI = "hibari-tts==0.2.1 without its dependencies"


def hibari_file(path: str, sha256: str) -> WeightsFile:
    """A data file of the package hibari-tts."""
    return WeightsFile("pronunciation", "hibari", f"assets/{path}", sha256, HIBARI)


GOLD = hibari_file(
    "lexicon_us_gold.json.gz", "63ae94f8ef0e906d5b24fe9b59ffcbd1529aca5686a774610e43973cbaa86ad2"
)
SILVER = hibari_file(
    "lexicon_us_silver.json.gz", "c4c2546ebf1eb07010331e7ef785a431aa17ba8e7bfb6b4af8d654ee96a71fd3"
)
TAGGER = hibari_file(
    "tagger.json.gz", "d2da7502284bbbe45d49e0b7ce3ce67bdab82254150f4317f1b8559b4d38d0eb"
)
UNKNOWN = hibari_file(
    "oov.onnx", "d3cfd8122c5f172a98c8de38268bf1213ee09f2c2ae4df6e055fc6532590fe76"
)
UNKNOWN_LETTERS = hibari_file(
    "oov.json", "b462e6e5dbdf0e7346c732385d0dd844f612f1770871441c56932bff4ca75d8c"
)

PRIMARY, SECONDARY = "ˈ", "ˌ"
VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻɐ")
CONSONANTS = frozenset("bdfhjklmnpstvwzðŋɡɹɾʃʒʤʧθ")
FLAPPING = frozenset("AIOWYiuæɑəɛɪɹʊʌ")  # before these an American t becomes a flap
PAUSES = frozenset(";:,.!?—…")
MAX_UNKNOWN_CHARS = 40
TOKEN = re.compile(
    r"[^\W\d_](?:\.[^\W\d_])+\.?"  # U.S.
    r"|[^\W\d_]+(?:'[^\W\d_]+)*'?"  # don't, the dogs'
    r"|[;:,.!?—…]|-"
)
CONTRACTION = re.compile(r"(?i)(n't|'(?:s|re|ve|ll|d|m))$")

Entry = str | dict[str, str | None] | None


class Phonemizer:
    """Text of words and punctuation to phonemes; what is no English letter is passed over."""

    def __init__(
        self,
        gold: dict[str, Entry],
        silver: dict[str, Entry],
        tagger: "Tagger",
        unknown: "UnknownWords",
    ) -> None:
        self._gold = gold
        self._silver = silver
        self._tagger = tagger
        self._unknown = unknown

    @classmethod
    def load(cls) -> "Phonemizer":
        """From the installed package, about 0.4 s. Raises `ModelError`."""
        files = [weights.find() for weights in (GOLD, SILVER, TAGGER, UNKNOWN, UNKNOWN_LETTERS)]
        try:
            gold, silver, tagger = (_read_json(path) for path in files[:3])
            return cls(gold, silver, Tagger(tagger), UnknownWords(files[3], _read_json(files[4])))
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"{GOLD.what}: cannot be read: {error}") from error

    def __call__(self, text: str) -> str:
        """The phonemes of a clause, words apart by a space, punctuation as it was."""
        text = unicodedata.normalize("NFKC", text.replace("’", "'").replace("‘", "'"))
        matches = list(TOKEN.finditer(text))
        tags = self._tagger([match.group() for match in matches])
        out: list[str] = []
        next_vowel: bool | None = None  # whether what follows begins with a vowel; None: a pause
        next_word = ""
        for match, tag in zip(reversed(matches), reversed(tags), strict=True):
            token = match.group()
            gap = " " if text[match.end() : match.end() + 1].isspace() else ""
            if token == "-" or token in PAUSES:
                phonemes = token.replace("-", "")
            else:
                phonemes = self._word(token.rstrip("'"), tag, next_vowel, next_word)
                if next_word == "-":
                    phonemes = stressed(phonemes, 0)
            for sound in phonemes:
                if sound in VOWELS or sound in CONSONANTS or sound in PAUSES:
                    next_vowel = None if sound in PAUSES else sound in VOWELS
                    break
            next_word = token + gap
            out.append(phonemes + gap)
        said = "".join(reversed(out)).replace("ɾ", "T").replace("ʔ", "t")
        return re.sub(r"\s+", " ", said).strip()

    def _word(self, word: str, tag: str, next_vowel: bool | None, next_word: str) -> str:
        special = self._special(word, tag, next_vowel, next_word)
        if special is not None:
            return special
        if "." in word:
            return self._spelt(word.replace(".", "")) or ""
        stress = None if word == word.lower() else 2.0 if word == word.upper() else 0.5
        lower = word.lower()
        if (
            len(word) > 1
            and word != lower
            and (tag != "NNP" or len(word) > 7)
            and self._entry(word) is None
            and (word == word.upper() or word[1:] == word[1:].lower())
            and (self._entry(lower) is not None or self._stem(lower, tag, stress, next_vowel))
        ):
            word = lower
        if self._is_known(word):
            said = self._look_up(word, tag, stress, next_vowel)
        else:
            said = self._stem(word, tag, stress, next_vowel)
        return said if said is not None else self._unknown(word)

    def _special(self, word: str, tag: str, next_vowel: bool | None, next_word: str) -> str | None:
        lower = word.lower()
        if lower == "a":
            return "ɐ" if tag == "DT" else "ˈA"
        if lower == "an":
            return "ɐn"
        if word == "am":
            return "æm" if next_vowel is None else "ɐm"
        if word == "I" and tag == "PRP":
            return SECONDARY + "I"
        if lower == "to" and (word != "TO" or tag in ("TO", "IN")):
            return {None: "tu", False: "tə", True: "tʊ"}[next_vowel]
        if lower == "in" and (word != "IN" or tag != "NNP"):
            return (PRIMARY if next_vowel is None or tag != "IN" else "") + "ɪn"
        if lower == "the":
            return "ði" if next_vowel else "ðə"
        if lower == "by" and _parent(tag) == "ADV":
            return "bˈI"
        if lower == "used" and tag in ("VBD", "JJ") and next_word.lower() == "to ":
            return "jˈust"
        return None

    def _entry(self, word: str) -> Entry:
        return _either_case(self._gold, word) or _either_case(self._silver, word)

    def _is_known(self, word: str) -> bool:
        if self._entry(word) is not None:
            return True
        if not word.isascii() or not word.isalpha():
            return False
        return len(word) == 1 or word[1:] == word[1:].upper()

    def _look_up(
        self, word: str, tag: str | None, stress: float | None, next_vowel: bool | None
    ) -> str | None:
        is_name = False
        if word == word.upper() and _either_case(self._gold, word) is None:
            word = word.lower()
            is_name = tag == "NNP"
        entry = _either_case(self._gold, word)
        if entry is None and not is_name:
            entry = _either_case(self._silver, word)
        if isinstance(entry, dict):
            key = tag
            if next_vowel is None and "None" in entry:
                key = "None"
            elif tag not in entry:
                key = _parent(tag)
            entry = entry.get(key or "DEFAULT", entry["DEFAULT"])
        if entry is None or (is_name and PRIMARY not in entry):
            spelt = self._spelt(word)
            if spelt is not None:
                return spelt
        return None if entry is None else stressed(entry, stress)

    def _spelt(self, word: str) -> str | None:
        """The names of the letters, the last one stressed."""
        letters = [_either_case(self._gold, c.upper()) for c in word if c.isalpha()]
        if not letters or not all(isinstance(letter, str) for letter in letters):
            return None
        said = stressed("".join(str(letter) for letter in letters), 0)
        return PRIMARY.join(said.rsplit(SECONDARY, 1))

    def _stem(
        self, word: str, tag: str, stress: float | None, next_vowel: bool | None
    ) -> str | None:
        """A word with -s, -ed or -ing from its stem, or None."""
        for stem, ending in _stems(word):
            if self._is_known(stem):
                if ending is _ing and stress is None:
                    stress = 0.5
                said = self._look_up(stem, tag, stress, next_vowel)
                return ending(said) if said else None
        return None


class Tagger:
    """Parts of speech (Penn Treebank) by an averaged perceptron over words and their endings."""

    def __init__(self, model: dict[str, Any]) -> None:
        self._fixed: dict[str, str] = model["tagdict"]
        self._tags: list[str] = model["tags"]
        self._words = frozenset(model["vocab"])
        self._weights: dict[str, dict[str, float]] = model["weights"]

    def __call__(self, words: Sequence[str]) -> list[str]:
        """A tag for each word; contractions are tagged as their first part."""
        parts: list[str] = []
        firsts: list[int] = []
        for word in words:
            firsts.append(len(parts))
            parts += [part for part in CONTRACTION.split(word) if part]
        context = ["-START2-", "-START-", *map(self._seen, parts), "-END-", "-END2-"]
        tags: list[str] = []
        before, before_that = "-START-", "-START2-"
        for i, word in enumerate(parts):
            tag = self._fixed.get(word) or self._predict(i, word, context, before, before_that)
            tags.append(tag)
            before_that, before = before, tag
        return [tags[first] for first in firsts]

    def _seen(self, word: str) -> str:
        """The word as the perceptron knows it, or its shape."""
        known = "!HYPHEN" if "-" in word and word[0] != "-" else word.lower()
        return known if known in self._words else f"<{_shape(word)}>"

    def _predict(self, i: int, word: str, context: list[str], before: str, before_that: str) -> str:
        at = i + 2
        features = (
            "b",
            "s3=" + word[-3:],
            "p1=" + word[0],
            "w=" + context[at],
            "sh=" + _shape(word),
            "i+" if i else "i0",
            "t-1=" + before,
            "t-2=" + before_that,
            "t-12=" + before + "," + before_that,
            "w-1=" + context[at - 1],
            "s3-1=" + context[at - 1][-3:],
            "w-2=" + context[at - 2],
            "w+1=" + context[at + 1],
            "s3+1=" + context[at + 1][-3:],
            "w+2=" + context[at + 2],
        )
        scores: dict[str, float] = {}
        for feature in features:
            for tag, weight in self._weights.get(feature, {}).items():
                scores[tag] = scores.get(tag, 0.0) + weight
        return max(self._tags, key=lambda tag: (scores.get(tag, 0.0), tag)) if scores else "NN"


class UnknownWords:
    """Words that no dictionary has, read letter by letter by a small network."""

    def __init__(self, model: Path, meta: dict[str, Any]) -> None:
        self._session = run_session(UNKNOWN.what, model)
        self._letters = {letter: i + 1 for i, letter in enumerate(meta["in"])}
        self._sounds = {i + 1: sound for i, sound in enumerate(meta["out"])}
        self._longest = min(int(meta["maxlen"]), MAX_UNKNOWN_CHARS)

    def __call__(self, word: str) -> str:
        """Its phonemes; "" for a word in letters that it does not know."""
        ids = [self._letters[c] for c in word if c in self._letters][: self._longest]
        if not ids:
            return ""
        (frames,) = self._session.run(None, {"chars": np.asarray([ids], np.int64)})
        said, last = "", 0
        for sound in frames[0].tolist():
            if sound not in (0, last):
                said += self._sounds[sound]
            last = sound
        return said


def stressed(phonemes: str, stress: float | None) -> str:
    """With its stress raised or lowered (misaki's scale: 2 primary, 0.5 if none, 0 secondary)."""
    if stress is None:
        return phonemes
    if stress == 0 and PRIMARY in phonemes:
        return phonemes.replace(SECONDARY, "").replace(PRIMARY, SECONDARY)
    if stress > 1 and PRIMARY not in phonemes and SECONDARY in phonemes:
        return phonemes.replace(SECONDARY, PRIMARY)
    if PRIMARY in phonemes or SECONDARY in phonemes:
        return phonemes
    vowel = next((i for i, sound in enumerate(phonemes) if sound in VOWELS), None)
    if vowel is None:
        return phonemes
    return phonemes[:vowel] + (PRIMARY if stress > 1 else SECONDARY) + phonemes[vowel:]


def _stems(word: str) -> Any:
    """Possible stems of a word, each with the function that puts the ending on."""
    if len(word) > 2 and word.endswith("s"):
        if not word.endswith("ss"):
            yield word[:-1], _s
        if word.endswith("'s") or (
            len(word) > 4 and word.endswith("es") and not word.endswith("ies")
        ):
            yield word[:-2], _s
        if len(word) > 4 and word.endswith("ies"):
            yield word[:-3] + "y", _s
    if len(word) > 3 and word.endswith("d"):
        if not word.endswith("dd"):
            yield word[:-1], _ed
        if len(word) > 4 and word.endswith("ed") and not word.endswith("eed"):
            yield word[:-2], _ed
    if len(word) > 4 and word.endswith("ing"):
        if len(word) > 5:
            yield word[:-3], _ing
        yield word[:-3] + "e", _ing
        if len(word) > 5 and re.search(r"([bcdgklmnprstvxz])\1ing$|cking$", word):
            yield word[:-4], _ing


def _s(stem: str) -> str:
    if stem[-1] in "ptkfθ":
        return stem + "s"
    return stem + ("ᵻz" if stem[-1] in "szʃʒʧʤ" else "z")


def _ed(stem: str) -> str:
    if stem[-1] in "pkfθʃsʧ":
        return stem + "t"
    if stem[-1] == "d":
        return stem + "ᵻd"
    if stem[-1] != "t":
        return stem + "d"
    if len(stem) < 2:
        return stem + "ɪd"
    return stem[:-1] + "ɾᵻd" if stem[-2] in FLAPPING else stem + "ᵻd"


def _ing(stem: str) -> str:
    flapped = len(stem) > 1 and stem[-1] == "t" and stem[-2] in FLAPPING
    return (stem[:-1] + "ɾ" if flapped else stem) + "ɪŋ"


def _either_case(entries: dict[str, Entry], word: str) -> Entry:
    """The entry of a word; "Cat" also answers for "cat" and the other way round."""
    entry = entries.get(word)
    if entry is not None or len(word) < 2:
        return entry
    if word == word.lower():
        return entries.get(word.capitalize())
    return entries.get(word.lower()) if word == word.capitalize() else None


def _parent(tag: str | None) -> str | None:
    for start, parent in (("VB", "VERB"), ("NN", "NOUN"), ("RB", "ADV"), ("JJ", "ADJ")):
        if tag is not None and tag.startswith(start):
            return parent
    return tag


def _shape(word: str) -> str:
    if not word.isalpha():
        return "".join("x" if c.isalpha() else c for c in word[:4])
    if word.islower():
        return "x"
    if word.isupper():
        return "XX" if len(word) > 1 else "X1"
    return "Xx" if word[0].isupper() and word[1:].islower() else "xX"


def _read_json(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
