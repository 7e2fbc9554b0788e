"""Messages of a request in OpenAI's chat format, for engines that speak it."""

from collections.abc import Callable, Iterable
from typing import Any

from core.engines.base import AudioPart, ImagePart, Message, TextPart

ContentPart = dict[str, Any]


def chat_messages(
    messages: Iterable[Message],
    *,
    image: Callable[[ImagePart], ContentPart],
    audio: Callable[[AudioPart], ContentPart],
) -> list[dict[str, Any]]:
    """`messages` as chat messages; `image` and `audio` make the parts of their kind.

    A message of one text is a plain string: some chat templates take nothing else from the
    system and the assistant.
    """
    return [
        {"role": message.role, "content": _content(message, image, audio)} for message in messages
    ]


def _content(
    message: Message,
    image: Callable[[ImagePart], ContentPart],
    audio: Callable[[AudioPart], ContentPart],
) -> str | list[ContentPart]:
    match message.parts:
        case (TextPart(text),):
            return text
    content: list[ContentPart] = []
    for part in message.parts:
        match part:
            case TextPart(text):
                content.append({"type": "text", "text": text})
            case ImagePart():
                content.append(image(part))
            case AudioPart():
                content.append(audio(part))
    return content
