"""An answer's text becomes speech while it is still being written: clause by clause.

    synthesis = Synthesis(voice, thread, unplayed_s=track.unplayed_s)
    synthesis.feed("I see a cup. ")       # as the text comes
    synthesis.finish()
    async for chunk in synthesis.chunks():
        play(chunk.audio)

All sessions share the voices and one thread. What is said runs ahead of what is heard by
no more than `lead_s`.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from core.clock import Clock, SystemClock
from core.priority import PriorityThread
from core.speech.clauses import ClauseSplitter
from core.speech.spoken import spoken
from core.speech.voices import Voice
from core.weights import ModelError

OUTPUT_RATE_HZ = 24_000
LEAD_S = 3.0  # how far ahead of playback it speaks
PIECE_S = 0.6  # a clause goes out in pieces of about this length
SHORTEST_WAIT_S = 0.02
FADE_S = 0.004  # at both ends of a clause
QUIET = 0.006  # of the loudest sample: below, it is silence
MARGIN_S = 0.04  # of silence kept around a clause
LOUDNESS = 0.08  # root mean square of speech; a voice that is louder or softer is brought to it
STRONGEST_GAIN = 4.0
PEAK = 0.89  # -1 dB

PAUSE_S = {"": 0.03, ",": 0.12, ";": 0.2, ":": 0.2, "—": 0.15, ".": 0.3, "!": 0.3, "?": 0.35}
PARAGRAPH_S = 0.5
PAUSE_MARKS = {"…": ".", "。": ".", "！": "!", "？": "?", "，": ",", "、": ",", "–": "—"}
CLOSERS = "\"'”’)]}*_`»」』"


@dataclass(frozen=True)
class SpokenChunk:
    """A stretch of the answer: its text, and how it sounds (mono float32).

    The texts of all chunks, joined, are the text that was fed. `audio` is empty where there
    is nothing to say, such as for an emoji alone.
    """

    text: str
    audio: NDArray[np.float32] = field(repr=False, compare=False)
    sample_rate_hz: int = OUTPUT_RATE_HZ

    @property
    def duration_s(self) -> float:
        """Of the audio."""
        return len(self.audio) / self.sample_rate_hz


class Synthesis:
    """One answer, spoken. All calls come from one event loop; `chunks` has one reader."""

    def __init__(
        self,
        voice: Voice,
        thread: PriorityThread,
        *,
        speed: float = 1.0,
        priority: int = 0,
        lead_s: float = LEAD_S,
        unplayed_s: Callable[[], float] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`unplayed_s` tells how much of what was given is still to be heard, in seconds.

        Without it, playback is taken to go on from the first chunk without a gap.
        """
        self._voice = voice
        self._thread = thread
        self._speed = speed
        self._priority = priority
        self._lead_s = lead_s
        self._unplayed_s = unplayed_s or self._assumed_unplayed_s
        self._clock = clock or SystemClock()
        self._splitter = ClauseSplitter()
        self._clauses: list[str] = []
        self._ended = False
        self._cancelled = False
        self._changed = asyncio.Event()
        self._heard_until_s = 0.0  # on the clock; for the assumption

    def feed(self, delta: str) -> None:
        """More of the answer's text."""
        if not self._ended:
            self._clauses += self._splitter.feed(delta)
            self._changed.set()

    def finish(self) -> None:
        """There is no more text: what is left is spoken, then `chunks` ends."""
        if not self._ended:
            self._clauses += self._splitter.flush()
            self._ended = True
            self._changed.set()

    def cancel(self) -> None:
        """`chunks` ends at once; what is being synthesised is thrown away."""
        self._cancelled = self._ended = True
        self._clauses.clear()
        self._changed.set()

    def moved(self) -> None:
        """`unplayed_s` has changed in another way than by time going on (a flush, a pause)."""
        self._changed.set()

    async def chunks(self) -> AsyncIterator[SpokenChunk]:
        """What is spoken, in order. Raises `ModelError` if the voice fails."""
        while (clause := await self._next_clause()) is not None:
            audio = await self._say(clause)
            if audio is None:
                return
            for chunk in pieces(clause, audio):
                await self._room(chunk.duration_s)
                if self._cancelled:
                    return
                now_s = self._clock.monotonic()
                self._heard_until_s = max(self._heard_until_s, now_s) + chunk.duration_s
                yield chunk
                if self._cancelled:
                    return

    async def _next_clause(self) -> str | None:
        while not self._clauses and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        return self._clauses.pop(0) if self._clauses else None

    async def _say(self, clause: str) -> NDArray[np.float32] | None:
        """The clause at 24 kHz with its pause; None if cancelled meanwhile."""
        words = spoken(clause)
        if not words:
            return np.zeros(0, np.float32)
        if words[-1].isalnum():
            is_last = self._ended and not self._clauses
            words += "." if is_last or clause.rstrip(" ").endswith("\n") else ","
        voice, speed = self._voice, self._speed
        work = asyncio.ensure_future(
            self._thread.run(self._priority, lambda: speak_clause(voice, clause, words, speed))
        )
        work.add_done_callback(lambda _: self._changed.set())
        try:
            while not work.done() and not self._cancelled:
                self._changed.clear()
                await self._changed.wait()
            return None if self._cancelled else work.result()
        finally:
            work.cancel()
            work.add_done_callback(_let_go)

    async def _room(self, duration_s: float) -> None:
        """Until `duration_s` more does not lead too far, or it was cancelled."""
        while not self._cancelled:
            unplayed_s = self._unplayed_s()
            excess_s = min(unplayed_s, unplayed_s + duration_s - self._lead_s)
            if excess_s <= 0:
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(max(excess_s, SHORTEST_WAIT_S)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _assumed_unplayed_s(self) -> float:
        return max(0.0, self._heard_until_s - self._clock.monotonic())


def _let_go(work: "asyncio.Future[Any]") -> None:
    """Nobody may be waiting for what the work raised."""
    if not work.cancelled():
        work.exception()


def speak_clause(voice: Voice, clause: str, words: str, speed: float = 1.0) -> NDArray[np.float32]:
    """A clause at 24 kHz: trimmed, faded, brought to one loudness, and the pause after it.

    Blocks. Raises `ModelError`.
    """
    try:
        audio = np.asarray(voice.speak(words, speed), np.float32)
    except Exception as error:
        raise ModelError(f"voice {voice.name}: cannot speak: {error}") from error
    audio = _framed(resampled(audio, voice.sample_rate_hz, OUTPUT_RATE_HZ))
    if not audio.size:
        return audio
    pause = np.zeros(round(pause_s(clause) / speed * OUTPUT_RATE_HZ), np.float32)
    return np.concatenate([audio, pause])


def pause_s(clause: str) -> float:
    """The silence that follows a clause, by its last mark, at normal speed."""
    if clause.count("\n", len(clause.rstrip())) > 1:
        return PARAGRAPH_S
    bare = clause.rstrip().rstrip(CLOSERS)
    if not bare:
        return PAUSE_S[""]
    mark = PAUSE_MARKS.get(bare[-1], bare[-1])
    line_end = "\n" in clause[len(clause.rstrip()) :]
    return PAUSE_S.get(mark, PAUSE_S["."] if line_end else PAUSE_S[""])


def resampled(audio: NDArray[np.float32], rate_hz: int, to_hz: int) -> NDArray[np.float32]:
    """All of `audio` at another rate: libswresample, band-limited, its end flushed out."""
    if rate_hz == to_hz or not audio.size:
        return audio
    resampler = av.AudioResampler(format="fltp", layout="mono", rate=to_hz)
    frame = av.AudioFrame.from_ndarray(audio.reshape(1, -1), format="fltp", layout="mono")
    frame.sample_rate = rate_hz
    blocks: list[Any] = [*resampler.resample(frame), *resampler.resample(None)]
    out = np.concatenate([block.to_ndarray().reshape(-1) for block in blocks])
    whole: NDArray[np.float32] = out[: round(len(audio) * to_hz / rate_hz)]
    return whole


def pieces(clause: str, audio: NDArray[np.float32]) -> list[SpokenChunk]:
    """A clause in pieces of about PIECE_S, each with its share of the words."""
    count = max(1, round(len(audio) / OUTPUT_RATE_HZ / PIECE_S))
    words = re.findall(r"\s*\S+\s*", clause) or [clause]
    out: list[SpokenChunk] = []
    said = 0
    for number in range(1, count + 1):
        upto = len(clause) if number == count else _word_end(words, len(clause) * number // count)
        upto = max(upto, said)
        start, end = (len(audio) * n // count for n in (number - 1, number))
        out.append(SpokenChunk(clause[said:upto], audio[start:end]))
        said = upto
    return out


def _word_end(words: list[str], position: int) -> int:
    """The end of the last word that ends at or before `position`, at least of the first."""
    end = len(words[0])
    for word in words[1:]:
        if end + len(word) > position:
            break
        end += len(word)
    return end


def _framed(audio: NDArray[np.float32]) -> NDArray[np.float32]:
    """Without the silence around it, at one loudness, faded in and out."""
    peak = float(np.abs(audio).max(initial=0.0))
    if peak == 0.0:
        return np.zeros(0, np.float32)
    loud = np.flatnonzero(np.abs(audio) > QUIET * peak)
    margin = round(MARGIN_S * OUTPUT_RATE_HZ)
    audio = audio[max(0, loud[0] - margin) : loud[-1] + margin]
    strong = audio[np.abs(audio) > 0.05 * peak]
    loudness = float(np.sqrt(np.mean(strong**2)))
    audio = audio * min(LOUDNESS / loudness, PEAK / peak, STRONGEST_GAIN)
    fade = min(round(FADE_S * OUTPUT_RATE_HZ), len(audio) // 2)
    if fade:
        ramp = np.linspace(0.0, 1.0, fade, endpoint=False, dtype=np.float32)
        audio[:fade] *= ramp
        audio[-fade:] *= ramp[::-1]
    return audio.astype(np.float32)
