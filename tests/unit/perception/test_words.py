import pytest

from core.perception import words
from core.perception.vocabulary import is_known, matches, terms

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cat", "a cat"),
        ("Egyptian Mau", "an Egyptian Mau"),
        ("hourglass", "an hourglass"),
        ("unicycle", "a unicycle"),
        ("soup", "some soup"),
        ("sunglasses", "a pair of sunglasses"),
    ],
)
def test_articles(name, said):
    assert words.with_article(name) == said


@pytest.mark.parametrize(
    ("number", "name", "said"),
    [
        (0, "cat", "no cats"),
        (1, "person", "one person"),
        (2, "person", "two people"),
        (3, "cup of coffee", "three cups of coffee"),
        (2, "bus", "two buses"),
        (12, "sheep", "12 sheep"),
    ],
)
def test_counting(number, name, said):
    assert words.counted(number, name) == said


def test_times_have_one_form_that_a_page_can_link():
    assert words.at(3.24) == "at 3.2 seconds"
    assert words.at(1.0) == "at 1.0 seconds"
    assert words.duration(1.0) == "1 second"
    assert words.duration(2.5) == "2.5 seconds"


def test_a_thing_is_found_by_its_other_names():
    assert matches("kitten", terms("cat"))
    assert matches("the animals", terms("cat"))
    assert matches("red cups", terms("cup"))
    assert matches("coffee", terms("espresso"))
    assert matches("people", terms("person"))
    assert not matches("dog", terms("cat"))


def test_known_words():
    assert is_known("kittens")
    assert not is_known("zorblax")
