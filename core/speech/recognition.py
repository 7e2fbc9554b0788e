"""Speech to text: what a recogniser is, which there are, and one session's use of one."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from core.errors import SightlineError
from core.priority import PriorityThread
from core.speech.activity import WINDOW_SAMPLES, VoiceModel
from core.speech.moonshine import Moonshine
from core.speech.pcm import BYTES_PER_SAMPLE, INPUT_RATE_HZ
from core.speech.whisper import Whisper

log = logging.getLogger(__name__)

FINAL, PARTIAL = 0, 1  # priorities on the thread
PARTIAL_GROWTH = 0.2  # of the audio so far: what must be new for the next partial
BYTES_PER_S = INPUT_RATE_HZ * BYTES_PER_SAMPLE
VOICE_PROBABILITY = 0.5
VOICE_WINDOWS = 3  # 96 ms: less voice in all is no word
VOICE_MARGIN_S = 0.4  # kept around the voice


class Recogniser(Protocol):
    """Turns speech into text; one for all sessions, called on one thread."""

    @property
    def name(self) -> str:
        """For a person."""

    @property
    def languages(self) -> frozenset[str]:
        """ISO 639-1 codes."""

    def transcribe(
        self, pcm16: bytes, language: str = "", stop: Callable[[], bool] = lambda: False
    ) -> str:
        """The words in int16 mono 16 kHz audio; '' if there are none. Blocks.

        `language`: an ISO 639-1 code; '' lets the recogniser find out. Once `stop()` is true
        nobody wants the text any more.
        """


RECOGNISERS: dict[str, Callable[[], Recogniser]] = {"moonshine": Moonshine, "whisper": Whisper}


class RecognitionError(SightlineError):
    """What was said could not be recognised; the session lives on."""

    def __init__(self, message: str) -> None:
        super().__init__("recognition_failed", f"recognition: {message}")


class SpeechOnly:
    """A recogniser that is only shown the part of the audio where there is a voice.

    Recognisers make up words for silence and noise; and silence costs time.
    """

    def __init__(self, recogniser: Recogniser, make_voice: Callable[[], VoiceModel]) -> None:
        self._recogniser = recogniser
        self._make_voice = make_voice

    @property
    def name(self) -> str:
        """The recogniser's."""
        return self._recogniser.name

    @property
    def languages(self) -> frozenset[str]:
        """The recogniser's."""
        return self._recogniser.languages

    def transcribe(
        self, pcm16: bytes, language: str = "", stop: Callable[[], bool] = lambda: False
    ) -> str:
        """The words in int16 mono 16 kHz audio; '' if there is no voice in it."""
        part = voiced_part(pcm16, self._make_voice())
        return self._recogniser.transcribe(part, language, stop) if part else ""


def voiced_part(pcm16: bytes, voice: VoiceModel) -> bytes:
    """From the first voice to the last, with a margin; empty if there is hardly any."""
    samples = np.frombuffer(pcm16, "<i2").astype(np.float32) / 32768.0
    samples = np.pad(samples, (0, -len(samples) % WINDOW_SAMPLES))
    voiced = [
        place
        for place, window in enumerate(samples.reshape(-1, WINDOW_SAMPLES))
        if voice.probability(window) >= VOICE_PROBABILITY
    ]
    if len(voiced) < VOICE_WINDOWS:
        return b""
    margin = round(VOICE_MARGIN_S * INPUT_RATE_HZ)
    first = max(0, voiced[0] * WINDOW_SAMPLES - margin)
    last = (voiced[-1] + 1) * WINDOW_SAMPLES + margin
    return pcm16[first * BYTES_PER_SAMPLE : last * BYTES_PER_SAMPLE]


@dataclass(frozen=True)
class RecognitionSettings:
    """What of a turn is recognised before it ends."""

    language: str = ""  # ISO 639-1; '' lets the recogniser find out
    partials: bool = True
    partial_every_s: float = 0.8  # of new audio
    partial_longest_s: float = 12.0  # a turn longer than this gets partials only at its pauses


class _Job:
    """One piece of audio on its way to being text."""

    task: asyncio.Task[str]

    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        """Leave the line, or end at the next token."""
        self.stopped = True
        self.task.cancel()


@dataclass(eq=False)
class _Turn:
    """What is being recognised of one turn."""

    newest: bytes = b""  # the audio so far
    shown: int = 0  # bytes of it that the last partial has seen
    text: str = ""  # the last partial
    partial: _Job | None = None
    early: _Job | None = None  # gives the whole turn's text, if it ended at its pause
    early_audio: bytes = b""

    def stop(self) -> None:
        """Nobody wants any of it."""
        for job in (self.partial, self.early):
            if job is not None:
                job.stop()
        self.partial = self.early = None


class Recognition:
    """One session's recognition, on the recogniser's thread, which all sessions share.

    A turn goes `hear`*, (`expect`, `resume`)*, `finish` or `cancel`; the next begins by
    itself. `on_partial` is called with the text so far, whenever it has changed. All calls
    come from one event loop.
    """

    def __init__(
        self,
        recogniser: Recogniser,
        thread: PriorityThread,
        on_partial: Callable[[str], None] = lambda text: None,
        settings: RecognitionSettings | None = None,
    ) -> None:
        self.settings = settings or RecognitionSettings()
        self._recogniser = recogniser
        self._thread = thread
        self._on_partial = on_partial
        self._turn = _Turn()
        self._jobs: set[_Job] = set()

    def hear(self, audio: bytes) -> None:
        """The turn's audio so far, as often as it is convenient: now and then it is a partial."""
        turn = self._turn
        turn.newest = audio
        if not self.settings.partials or turn.early is not None or turn.partial is not None:
            return
        # The whole is recognised each time: so that this costs no more than in proportion to
        # the turn's length, the steps grow with it.
        step = max(self.settings.partial_every_s * BYTES_PER_S, len(audio) * PARTIAL_GROWTH)
        longest = self.settings.partial_longest_s * BYTES_PER_S
        if turn.shown + step <= len(audio) <= longest:
            turn.shown = len(audio)
            turn.partial = self._start(lambda: turn.newest, PARTIAL)
            turn.partial.task.add_done_callback(lambda task: self._partial_done(turn, task))

    def expect(self, audio: bytes) -> None:
        """The turn has likely ended (`SpeechPaused`): recognise it before that is certain."""
        turn = self._turn
        turn.stop()
        turn.newest = turn.early_audio = audio
        turn.shown = len(audio)
        turn.early = self._start(lambda: audio, FINAL)
        turn.early.task.add_done_callback(lambda task: self._show(turn, task))

    def resume(self) -> None:
        """The turn had not ended (`SpeechResumed`)."""
        self._turn.stop()

    async def finish(self, audio: bytes) -> str:
        """The turn has ended: its text, '' if there are no words. Raises `RecognitionError`.

        If `expect` has had the same audio, its text is ready or soon will be. Cancelling this,
        or `close`, cancels the turn.
        """
        turn, self._turn = self._turn, _Turn()
        job = turn.early if turn.early_audio == audio else None
        if job is None:
            turn.stop()
            job = self._start(lambda: audio, FINAL)
        try:
            return await job.task
        finally:
            turn.stop()
            job.stop()

    def cancel(self) -> None:
        """Forget the turn."""
        self._turn.stop()
        self._turn = _Turn()

    async def close(self) -> None:
        """Forget everything; a `finish` that still waits is cancelled."""
        self.cancel()
        jobs = list(self._jobs)
        for job in jobs:
            job.stop()
        await asyncio.gather(*(job.task for job in jobs), return_exceptions=True)

    def _start(self, audio: Callable[[], bytes], priority: int) -> _Job:
        job = _Job()
        job.task = asyncio.create_task(self._run(job, audio, priority))
        self._jobs.add(job)
        job.task.add_done_callback(lambda task: self._done(job, task))
        return job

    async def _run(self, job: _Job, audio: Callable[[], bytes], priority: int) -> str:
        def work() -> str:
            if job.stopped:
                return ""
            language = self.settings.language
            return self._recogniser.transcribe(audio(), language, lambda: job.stopped)

        try:
            return await self._thread.run(priority, work)
        except Exception as error:
            log.exception("%s failed", self._recogniser.name)
            raise RecognitionError(f"{self._recogniser.name} failed: {error}") from error

    def _done(self, job: _Job, task: asyncio.Task[str]) -> None:
        self._jobs.discard(job)
        if not task.cancelled():
            task.exception()  # whoever waits for it has it; nobody may be waiting

    def _partial_done(self, turn: _Turn, task: asyncio.Task[str]) -> None:
        if turn.partial is not None and turn.partial.task is task:
            turn.partial = None
        self._show(turn, task)

    def _show(self, turn: _Turn, task: asyncio.Task[str]) -> None:
        """Tell of a partial text, while its turn goes on."""
        if turn is not self._turn or task.cancelled() or task.exception() is not None:
            return
        text = task.result()
        if text and text != turn.text:
            turn.text = text
            self._on_partial(text)
