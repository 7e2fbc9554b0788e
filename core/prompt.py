"""What the model is shown: system prompt, history, frames with their times, audio, question.

The layout here is `window`, the protocol's: system, the last two history messages as
text, then one user message with the frames in order, audio if any, and the text last.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from core.engines.base import AudioPart, ImagePart, Message, Part, TextPart
from core.frames import Frame

HISTORY_IN_PROMPT = 2  # messages; protocol row 31
INTERRUPTED_MARK = " [interrupted]"


@dataclass(frozen=True)
class HistoryMessage:
    """One side of a past turn: text only, its media is gone."""

    role: Literal["user", "assistant"]
    text: str


class History:
    """What was said in this session, newest last, at most `limit` messages."""

    def __init__(self, limit: int) -> None:
        self._messages: deque[HistoryMessage] = deque(maxlen=limit)

    def commit(self, question: str, answer: str, *, interrupted: bool) -> None:
        """Keep a turn as what the person really got: a cut answer says that it was cut."""
        if interrupted and not answer:
            return
        self._messages.append(HistoryMessage("user", question))
        text = answer + INTERRUPTED_MARK if interrupted else answer
        self._messages.append(HistoryMessage("assistant", text))

    def recent(self, count: int = HISTORY_IN_PROMPT) -> list[HistoryMessage]:
        """The last `count` messages, oldest first."""
        return list(self._messages)[-count:]


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


def window_prompt(
    *,
    system_prompt: str | None,
    history: Sequence[HistoryMessage],
    frames: Iterable[Frame],
    timestamps: bool,
    audio: bytes = b"",
    text: str = "",
) -> tuple[Message, ...]:
    """The messages of one request. Without audio and text it is the warm-up's prefix."""
    messages = []
    if system_prompt:
        messages.append(Message("system", (TextPart(system_prompt),)))
    messages += [Message(past.role, (TextPart(past.text),)) for past in history]
    parts = image_parts(frames, timestamps=timestamps)
    if audio:
        parts.append(AudioPart(audio))
    if text:
        parts.append(TextPart(text))
    if parts:
        messages.append(Message("user", tuple(parts)))
    return tuple(messages)
