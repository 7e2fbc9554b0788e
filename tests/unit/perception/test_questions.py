import pytest

from core.perception.intents import IT, Intent, Question
from core.perception.questions import parse

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "intent", "targets"),
    [
        ("What do you see?", Intent.DESCRIBE, ()),
        ("what can you see right now", Intent.DESCRIBE, ()),
        ("WHAT DO YOU SEE", Intent.DESCRIBE, ()),
        ("Describe the scene.", Intent.DESCRIBE, ()),
        ("Tell me what you see", Intent.DESCRIBE, ()),
        ("What is this?", Intent.IDENTIFY, ()),
        ("what’s this", Intent.IDENTIFY, ()),
        ("What kind of animal is this?", Intent.IDENTIFY, ()),
        ("What am I holding?", Intent.HOLDING, ()),
        ("What's in my hand?", Intent.HOLDING, ()),
        ("How many people do you see?", Intent.COUNT, ("people",)),
        ("How many cats are there in the picture?", Intent.COUNT, ("cats",)),
        ("Is anyone there?", Intent.COUNT, ("anyone",)),
        ("What does it say?", Intent.READ, ()),
        ("What does the sign say?", Intent.READ, ()),
        ("Read this.", Intent.READ, ()),
        ("Could you read that please", Intent.READ, ()),
        ("What colour is it?", Intent.COLOUR, (IT,)),
        ("what color is the flower", Intent.COLOUR, ("flower",)),
        ("Is it bright or dark?", Intent.BRIGHTNESS, ()),
        ("How dark is it", Intent.BRIGHTNESS, ()),
        ("Is anything moving?", Intent.MOTION, ()),
        ("What changed?", Intent.CHANGE, ()),
        ("what's different now", Intent.CHANGE, ()),
        ("When did you first see the cat?", Intent.FIRST_SEEN, ("cat",)),
        ("when did you first see it", Intent.FIRST_SEEN, (IT,)),
        ("When did the cat appear?", Intent.FIRST_SEEN, ("cat",)),
        ("When did you see a cup for the first time?", Intent.FIRST_SEEN, ("cup",)),
        ("When did you last see the cat?", Intent.LAST_SEEN, ("cat",)),
        ("What can you do?", Intent.CAPABILITIES, ()),
        ("Who are you?", Intent.CAPABILITIES, ()),
        ("Which came first, the cat or the coffee?", Intent.ORDER, ("cat", "coffee")),
        ("What did you see first: the coffee, or the cat?", Intent.ORDER, ("coffee", "cat")),
        ("Did the cat come before the coffee?", Intent.ORDER, ("cat", "coffee")),
        ("In which order did you see them?", Intent.ORDER, ()),
        ("What came before the cat?", Intent.BEFORE, ("cat",)),
        ("What did you see after the coffee?", Intent.AFTER, ("coffee",)),
        ("What have you seen so far?", Intent.HISTORY, ()),
        ("Do you see a cat?", Intent.PRESENT, ("cat",)),
        ("Is there a dog?", Intent.PRESENT, ("dog",)),
        ("Do you see anything?", Intent.DESCRIBE, ()),
        ("What is the meaning of life?", Intent.OTHER, ()),
        ("Is she smiling?", Intent.OTHER, ()),
        ("How many fingers am I holding up?", Intent.COUNT, ("fingers",)),
        ("Wait a second.", Intent.OTHER, ()),
        ("", Intent.OTHER, ()),
    ],
)
def test_intent_and_targets(text, intent, targets):
    assert parse(text) == Question(intent, targets)


@pytest.mark.parametrize(
    ("text", "seconds", "ago"),
    [
        ("What did you see 5 seconds ago?", 5.0, True),
        ("what did you see five seconds ago", 5.0, True),
        ("What was there two and a half seconds ago?", 2.5, True),
        ("A minute ago, what did you see?", 60.0, True),
        ("what did you see 1.5 secs ago", 1.5, True),
        ("What did you see at 3.2 seconds?", 3.2, False),
    ],
)
def test_times(text, seconds, ago):
    assert parse(text) == Question(Intent.AT_TIME, (), seconds, ago)
