"""docs/protocol.md is what the models say."""

import pytest

from core import protocol as p
from core.protocol import client_event
from tools.protocol_reference import CLIENT_EXAMPLES, PAGE, SERVER_EXAMPLES, models, render

pytestmark = pytest.mark.unit


def types(union: object) -> set[str]:
    return {model.model_fields["type"].default for model in models(union)}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == render(), "run: python -m tools.protocol_reference"


def test_every_message_has_an_example() -> None:
    assert {example["type"] for example in CLIENT_EXAMPLES} == types(p.ClientMessage)
    assert {example.type for example in SERVER_EXAMPLES} == types(p.ServerMessage)


@pytest.mark.parametrize("example", CLIENT_EXAMPLES, ids=lambda example: example["type"])
def test_an_example_is_a_message_that_the_server_takes(example: dict[str, object]) -> None:
    assert client_event(example).type == example["type"]
