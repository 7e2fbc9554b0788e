"""What a session could show the model: frames and exchanges in time, and what was dropped.

The session's own is a `History` beside its `FrameBuffer`; a request takes a `Context`, a
picture of both that can only get smaller.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from core.frames import Frame

INTERRUPTED_MARK = " [interrupted]"
SUMMARY_EXCHANGES = 3  # the last dropped ones, told in the summary line
SUMMARY_CHARS = 160  # of each question and each answer there


@dataclass(frozen=True)
class Exchange:
    """One question and its answer."""

    number: int  # of the session's exchanges
    question: str  # in words
    answer: str
    after: int = -1  # the number of the newest frame that there was; -1: none
    audio: bytes = field(default=b"", repr=False)  # of the question, if the engine heard it
    text: str = ""  # of the question, as it stood in the prompt beside the audio


@dataclass(frozen=True)
class Dropped:
    """What has left the context, as one line of text for the model."""

    frames: int = 0
    from_s: float = 0.0
    until_s: float = 0.0
    exchanges: tuple[Exchange, ...] = ()  # the last few

    def __bool__(self) -> bool:
        return bool(self.frames or self.exchanges)

    def plus(self, frames: Sequence[Frame], exchanges: Sequence[Exchange]) -> "Dropped":
        """This and more; `frames` and `exchanges` oldest first."""
        return Dropped(
            frames=self.frames + len(frames),
            from_s=self.from_s if self.frames or not frames else frames[0].time_s,
            until_s=frames[-1].time_s if frames else self.until_s,
            exchanges=(*self.exchanges, *exchanges)[-SUMMARY_EXCHANGES:],
        )

    @property
    def line(self) -> str:
        """For example `[0.0–31.2 s is no longer shown: 24 frames. Asked: "…" Answered: "…".]`."""
        told = [
            f'Asked: "{_short(past.question)}" Answered: "{_short(past.answer)}".'
            for past in self.exchanges
        ]
        if self.frames:
            counted = "1 frame" if self.frames == 1 else f"{self.frames} frames"
            span = f"{self.from_s:.1f}–{self.until_s:.1f} s"
            told.insert(0, f"{span} is no longer shown: {counted}.")
        return f"[{' '.join(told)}]"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SUMMARY_CHARS else f"{line[: SUMMARY_CHARS - 1]}…"


@dataclass(frozen=True)
class Context:
    """What one request may show, oldest first."""

    frames: tuple[Frame, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    dropped: Dropped = Dropped()
    newest: int = -1  # the number of the newest frame in the buffer, shown or not
    trimmed: bool = False  # the model took less than there was

    @property
    def usable(self) -> "Context":
        """Only the frames whose pixels are there."""
        return replace(self, frames=tuple(f for f in self.frames if f.rgb is not None))

    def halved(self) -> "Context | None":
        """Without the oldest half; None if there is nothing left to leave out.

        That is half of the frames with the exchanges before them, or half of the exchanges
        where there is only one frame.
        """
        if len(self.frames) > 1:
            cut = len(self.frames) // 2
            gone, frames = self.frames[:cut], self.frames[cut:]
            past = sum(exchange.after < frames[0].number for exchange in self.exchanges)
        elif self.exchanges:
            gone, frames = (), self.frames
            past = (len(self.exchanges) + 1) // 2
        else:
            return None
        return replace(
            self,
            frames=frames,
            exchanges=self.exchanges[past:],
            dropped=self.dropped.plus(gone, self.exchanges[:past]),
            trimmed=True,
        )


class History:
    """The exchanges of a session that may still be shown, and a summary of the rest."""

    def __init__(self, *, max_exchanges: int, max_audio_bytes: int) -> None:
        self._max_exchanges = max_exchanges
        self._max_audio_bytes = max_audio_bytes
        self._exchanges: list[Exchange] = []
        self._dropped = Dropped()
        self.count = 0  # of exchanges so far, dropped ones too

    def __len__(self) -> int:
        return len(self._exchanges)

    def commit(
        self,
        question: str,
        answer: str,
        *,
        interrupted: bool,
        after: int = -1,
        audio: bytes = b"",
        text: str | None = None,
    ) -> None:
        """Keep an exchange as what the person really got: a cut answer says that it was cut.

        `text` stood in the prompt beside `audio`; it is the question where that is None. Over
        a limit the oldest half goes, so that what is left stays a prefix for long.
        """
        if interrupted and not answer:
            return
        said = answer + INTERRUPTED_MARK if interrupted else answer
        shown = question if text is None else text
        self._exchanges.append(Exchange(self.count, question, said, after, audio, shown))
        self.count += 1
        audio_bytes = sum(len(exchange.audio) for exchange in self._exchanges)
        if len(self._exchanges) > self._max_exchanges or audio_bytes > self._max_audio_bytes:
            self._drop((len(self._exchanges) + 1) // 2, ())

    def context(self, frames: Iterable[Frame], newest: int) -> Context:
        """All that can be shown now, with `frames`."""
        return Context(tuple(frames), tuple(self._exchanges), self._dropped, newest)

    def drop(self, frames: Sequence[Frame], *, first_frame: int, first_exchange: int = 0) -> int:
        """`frames` have left the buffer, whose first is now number `first_frame`.

        The exchanges before that frame go with them, and those numbered less than
        `first_exchange`. Returns how many exchanges went.
        """
        past = sum(
            exchange.after < first_frame or exchange.number < first_exchange
            for exchange in self._exchanges
        )
        self._drop(past, frames)
        return past

    def _drop(self, count: int, frames: Sequence[Frame]) -> None:
        self._dropped = self._dropped.plus(frames, self._exchanges[:count])
        del self._exchanges[:count]
