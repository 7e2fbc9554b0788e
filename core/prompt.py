"""What the model is shown: system prompt, history, frames with their times, audio, question.

Two layouts. `window` is the protocol's: the last two history messages as text, then one
user message with the frames in order, audio if any, and the text last. `chronological` only
ever grows at its end: frames as they came, question, answer, frames, question; so what was
prefilled for one turn is still the prefix of the next.
"""

from collections.abc import Iterable
from typing import Literal

from core.context import Context, Exchange
from core.engines.base import AudioPart, ImagePart, Message, Part, TextPart
from core.frames import Frame

Layout = Literal["window", "chronological"]


def prompt(
    layout: Layout,
    context: Context,
    *,
    system_prompt: str | None,
    timestamps: bool,
    audio: bytes = b"",
    text: str = "",
) -> tuple[Message, ...]:
    """The messages of one request. Without audio and text it is the warm-up's prefix."""
    messages = [Message("system", (TextPart(system_prompt),))] if system_prompt else []
    if layout == "window":
        for exchange in context.exchanges[-1:]:  # two messages: protocol row 31
            messages.append(Message("user", (TextPart(exchange.question),)))
            messages.append(Message("assistant", (TextPart(exchange.answer),)))
        parts = image_parts(context.frames, timestamps=timestamps)
    else:
        past, parts = _past(context, timestamps=timestamps)
        messages += past
    parts += _question(audio, text)
    if parts:
        messages.append(Message("user", tuple(parts)))
    return tuple(messages)


def image_parts(frames: Iterable[Frame], *, timestamps: bool) -> list[Part]:
    """The frames whose pixels are there, each after its time mark if `timestamps`."""
    parts: list[Part] = []
    for frame in frames:
        if frame.rgb is None:
            continue
        if timestamps:
            parts.append(TextPart(f"<{frame.time_s:.1f} s>"))
        parts.append(ImagePart(frame.rgb, frame.content_id, frame.time_s))
    return parts


def _past(context: Context, *, timestamps: bool) -> tuple[list[Message], list[Part]]:
    """The messages up to the last answer, and the parts of the message that follows it."""
    messages: list[Message] = []
    parts: list[Part] = [TextPart(context.dropped.line)] if context.dropped else []
    frames = list(context.frames)
    for exchange in context.exchanges:
        before = [frame for frame in frames if frame.number <= exchange.after]
        del frames[: len(before)]
        parts += image_parts(before, timestamps=timestamps)
        messages += _exchange(parts, exchange)
        parts = []
    return messages, parts + image_parts(frames, timestamps=timestamps)


def _exchange(parts: list[Part], exchange: Exchange) -> list[Message]:
    asked = parts + _question(exchange.audio, exchange.text)
    return [
        Message("user", tuple(asked)),
        Message("assistant", (TextPart(exchange.answer),)),
    ]


def _question(audio: bytes, text: str) -> list[Part]:
    parts: list[Part] = [AudioPart(audio)] if audio else []
    return [*parts, TextPart(text)] if text else parts
