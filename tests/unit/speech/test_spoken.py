"""Text as it is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.speech.spoken import cardinal, ordinal, spoken, year

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (21, "twenty-one"),
        (100, "one hundred"),
        (1_234, "one thousand two hundred thirty-four"),
        (2_000_001, "two million one"),
        (-7, "minus seven"),
    ],
)
def test_cardinals(number: int, words: str) -> None:
    assert cardinal(number) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [(1, "first"), (2, "second"), (12, "twelfth"), (20, "twentieth"), (33, "thirty-third")],
)
def test_ordinals(number: int, words: str) -> None:
    assert ordinal(number) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1987, "nineteen eighty-seven"),
        (1905, "nineteen oh five"),
        (1900, "nineteen hundred"),
        (2000, "two thousand"),
        (2024, "twenty twenty-four"),
    ],
)
def test_years(number: int, words: str) -> None:
    assert year(number) == words


@pytest.mark.parametrize(
    ("written", "said"),
    [
        # Numbers.
        ("It took 3.2 seconds.", "It took three point two seconds."),
        ("1,000 people", "one thousand people"),
        ("rooms 9-17 and 7–9", "rooms nine to seventeen and seven to nine"),
        ("-5 degrees", "minus five degrees"),
        ("call 5551234", "call five five five one two three four"),
        ("agent 007", "agent zero zero seven"),
        ("1/2, ¾", "one half, three quarters"),
        ("the 21st", "the twenty-first"),
        ("No. 5 and #3", "number five and number three"),
        ("version 1.2.3", "version one point two point three"),
        ("640x480", "six hundred forty by four hundred eighty"),
        ("GPT-4", "GPT four"),
        ("3 < 5", "three is less than five"),
        # Times and dates.
        ("at 12:30", "at twelve thirty"),
        ("at 9:05 am", "at nine oh five A M"),
        ("at 10:00", "at ten o'clock"),
        ("At 5 p.m. we left at 3pm.", "At five P M we left at three P M."),
        ("on 2024-05-01", "on May first, twenty twenty-four"),
        ("May 1, 2019", "May first, twenty nineteen"),
        ("in the 1990s", "in the nineteen nineties"),
        ("2048 pixels", "two thousand forty-eight pixels"),
        # Units and money.
        ("50% of 5 km", "fifty percent of five kilometers"),
        ("1 m, 1.5 s", "one meter, one point five seconds"),
        ("20°C", "twenty degrees Celsius"),
        ("10-20 km", "ten to twenty kilometers"),
        ("<3.2 s>", "three point two seconds"),
        ("$3.50 or €1,200", "three dollars and fifty cents or one thousand two hundred euros"),
        ("$2 million", "two million dollars"),
        # Abbreviations and symbols.
        (
            "Dr. Smith vs. Mr. Jones, e.g. here, etc.",
            "Doctor Smith versus Mister Jones, for example here, et cetera.",
        ),
        ("A & B = C", "A and B equals C"),
        ("the U.S. flag", "the U.S. flag"),
        # Markdown and addresses.
        ("**Bold** and `code_name`", "Bold and code name"),
        ("## Heading", "Heading"),
        ("- item", "item"),
        ("1. a cup", "one, a cup"),
        ("[a link](https://a.b/c)", "a link"),
        ("See https://www.example.com/a?b=1.", "See example dot com."),
        ("a@b.com", "a at b dot com"),
        ("foo.py", "foo dot py"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a, b, one, two"),
        ("```python\nprint(1)\n```", "a piece of code."),
        ("Hi 👋🏽 there 😀!", "Hi there!"),
        ("I’m “sure”.", "I'm “sure”."),
    ],
)
def test_it_is_said_as_a_person_would(written: str, said: str) -> None:
    assert spoken(written) == said


@pytest.mark.parametrize("nothing", ["", " ", "...", "😀", "---", "**", "`", "!?"])
def test_nothing_to_say(nothing: str) -> None:
    assert spoken(nothing) == ""


@given(st.text(max_size=120))
def test_any_text_can_be_said(text: str) -> None:
    said = spoken(text)
    assert said == said.strip()
    assert not any(c in said for c in "*#`_|<>\n")


@given(st.text(alphabet="0123456789.,:-/ $%xskm", max_size=60))
def test_any_figures_can_be_said(text: str) -> None:
    assert not any(c.isdigit() for c in spoken(text))
