"""What is asked: English text to an intent, what it is about, and a time."""

import re

from core.perception.intents import Intent, Question
from core.perception.rules import RULES, known_things

CONTRACTIONS = {
    r"\b(what|where|when|who|how|that|there|it|he|she|which)'?s\b": r"\1 is",
    r"\b(what|how|who)'?re\b": r"\1 are",
    r"\bi'?m\b": "i am",
    r"\bi'?ve\b": "i have",
    r"\byou'?(ve)\b": "you have",
    r"\byou'?re\b": "you are",
    r"\bthey'?re\b": "they are",
    r"\bcan'?t\b": "cannot",
    r"\b(did|do|does|is|are|was|has|have)n'?t\b": r"\1 not",
    r"\bcolou?r(s|ed|ful)?\b": "colour",
    r"\bgrey|gray\b": "grey",
    r"\bmoments?\b": "moment",
    r"\bsecs?\b": "seconds",
    r"\bmins?\b": "minutes",
    r"\bppl\b": "people",
}


def parse(text: str) -> Question:
    """The intent of a question, whatever its case and punctuation."""
    words = clean(text)
    for intent, rule in RULES:
        question = rule(words)
        if question is not None:
            return Question(intent, *question)
    return Question(Intent.OTHER, known_things(words))


def clean(text: str) -> str:
    """Lower case, no punctuation, contractions and numbers as this module expects them."""
    words = text.lower().replace("’", "'").replace("`", "'")
    for pattern, plain in CONTRACTIONS.items():
        words = re.sub(pattern, plain, words)
    words = re.sub(r"(?<=\d),(?=\d)", ".", words)
    words = re.sub(r"(?<!\d)\.|\.(?!\d)", " ", words)
    words = re.sub(r"[^\w\s.\-']", " ", words)
    words = re.sub(
        r"\b(?:please|hey|hi|hello|okay|ok|so|well|um|uh|and then|now then)\b", " ", words
    )
    words = re.sub(
        r"\b(?:can|could|would|will) you (?:tell|say|explain)(?: to)?(?: me)?\b", " ", words
    )
    words = re.sub(r"^\s*(?:tell me|do you know|i want to know|and|but)\b", " ", words)
    return " ".join(words.split())
