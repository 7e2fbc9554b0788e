"""Streamed text is cut into clauses that can be spoken."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.speech.clauses import (
    FIRST_CHARS,
    UNBROKEN_CHARS,
    WIDE_CHARS,
    WORD_CHARS,
    ClauseSplitter,
)

pytestmark = pytest.mark.unit

LONGEST_WORD = 12  # in the texts here


def clauses(text: str, *cuts: int) -> list[str]:
    """The clauses of a text that comes in deltas cut at these places."""
    splitter = ClauseSplitter()
    out: list[str] = []
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    for start, end in itertools.pairwise(edges):
        out += splitter.feed(text[start:end])
    return out + splitter.flush()


def stripped(text: str) -> list[str]:
    return [clause.strip() for clause in clauses(text)]


ANSWER = (
    "I can see a **cup**, e.g. 3.2 seconds ago; Dr. Who paid 1,000 at 12:30!\n\n"
    '- "Really?" he said. 好的。再见\n```py\nx = 1. Y\n```\n1. See https://a.b/c?d=1. …'
)


@given(st.text(max_size=300), st.lists(st.integers(0, 400), max_size=8))
@example(ANSWER, [3, 5, 40, 41, 90])
@example("```", [1])
def test_no_text_is_lost_however_it_is_split(text: str, cuts: list[int]) -> None:
    joined = "".join(clauses(text, *cuts))
    assert text.startswith(joined)
    assert not text[len(joined) :].strip()


@given(
    st.text(alphabet=" .,!?:;\n`*-\"')1aB。，中e", max_size=200),
    st.lists(st.integers(0, 400), max_size=20),
)
@example(ANSWER, list(range(200)))
def test_the_split_into_deltas_makes_no_difference(text: str, cuts: list[int]) -> None:
    assert clauses(text, *cuts) == clauses(text)


@given(st.lists(st.text(alphabet="abcXYZ19", min_size=1, max_size=LONGEST_WORD), max_size=200))
def test_long_text_without_punctuation_is_cut_between_words(words: list[str]) -> None:
    out = clauses(" ".join(words))
    assert [word for clause in out for word in clause.split()] == words
    assert all(len(clause) <= WORD_CHARS + LONGEST_WORD + 1 for clause in out)


@pytest.mark.parametrize(
    ("char", "longest"), [("中", WIDE_CHARS), ("x", UNBROKEN_CHARS), ("é", UNBROKEN_CHARS)]
)
def test_long_text_without_spaces_is_cut(char: str, longest: int) -> None:
    out = clauses(char * 1000)
    assert "".join(out) == char * 1000
    assert max(map(len, out)) <= longest


def test_the_first_clause_ends_at_a_comma_and_the_next_at_the_sentence() -> None:
    assert stripped("I can see a cup, a spoon, and a plate, all white. They are clean.") == [
        "I can see a cup,",
        "a spoon, and a plate, all white.",
        "They are clean.",
    ]


def test_the_first_clause_is_short_where_there_is_no_comma() -> None:
    text = "There is a very large dog with a stick in its mouth that runs along the beach. Good."
    first, *rest = stripped(text)
    assert first == "There is a very large dog with a stick in its mouth"
    assert len(first) <= FIRST_CHARS
    assert rest[-1] == "Good."


def test_the_first_clause_is_there_before_the_sentence_ends() -> None:
    splitter = ClauseSplitter()
    assert splitter.feed("Yes, I think so, ") == []
    assert splitter.feed("t") == ["Yes, I think so, "]


def test_a_first_clause_does_not_end_in_a_word_that_links() -> None:
    text = "The woman in the picture is standing on the edge of a tall cliff near the sea"
    assert not stripped(text)[0].endswith((" the", " of", " a"))


@pytest.mark.parametrize(
    "whole",
    [
        "It took 3.2 seconds.",
        "About 1,000 people came.",
        "Rooms 9-17 at 12:30 are free.",
        "Ask Dr. Smith or Mr. J. R. Kowalski.",
        "Some fruit, e.g. A pear.",
        "The U.S. Navy came.",
        "See No. 5 and fig. 3 please.",
        "It is at https://example.com/a.b?c=1,2 today.",
        '"Stop!" he said.',
        "Well... it may be.",
        "It costs approx. 30 euros.",
    ],
)
def test_one_sentence_stays_whole(whole: str) -> None:
    assert stripped(f"Hello. {whole} Then it ended.") == ["Hello.", whole, "Then it ended."]


def test_sentences_end_where_they_end() -> None:
    text = 'Wait… No. I do not. It was 2019. He said "go." Then (at 5 p.m.) he left, etc. Why? OK!'
    assert stripped(text) == [
        "Wait…",
        "No.",
        "I do not.",
        "It was 2019.",
        'He said "go."',
        "Then (at 5 p.m.) he left, etc.",
        "Why?",
        "OK!",
    ]


def test_items_headings_and_paragraphs_are_clauses() -> None:
    text = "## What I see\n1. a cup\n2. a *spoon*\n- plate\n\nThat is all\n\nBye"
    assert stripped(text) == [
        "## What I see",
        "1. a cup",
        "2. a *spoon*",
        "- plate",
        "That is all",
        "Bye",
    ]


def test_a_line_break_inside_a_sentence_ends_nothing() -> None:
    assert stripped("Yes. The cup\nis white. Fine.") == ["Yes.", "The cup\nis white.", "Fine."]


def test_code_stays_together() -> None:
    code = "```python\nprint('a. B')\n\n# A. B, c\n```"
    assert stripped(f"Do this:\n{code}\nThat is it.") == ["Do this:", code, "That is it."]


def test_chinese_is_cut_at_its_own_marks() -> None:
    assert stripped("好的。我看到一个杯子！“真的？”是的") == [
        "好的。",
        "我看到一个杯子！",
        "“真的？”",
        "是的",
    ]


def test_marks_alone_are_joined_to_what_follows() -> None:
    assert stripped("... ! Yes. 😀 No.") == ["... ! Yes.", "😀 No."]


@pytest.mark.parametrize("nothing", ["", " ", "\n\n"])
def test_nothing_gives_nothing(nothing: str) -> None:
    assert clauses(nothing) == []


def test_after_a_flush_it_starts_again() -> None:
    splitter = ClauseSplitter()
    splitter.feed("One ```two")
    assert splitter.flush() == ["One ```two"]
    assert splitter.feed("Here is a cup, and more") == ["Here is a cup, "]
