"""Every external thing a session touches, scripted: clock, engine, client, pictures."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

from core.engines.base import (
    EngineHealth,
    EngineInfo,
    EngineOutput,
    EngineRequest,
    EngineUsage,
    ImagePart,
    TextPart,
)
from core.frames import DecodePool, EncodedImage, FrameInput
from core.protocol import AudioDelta, ServerEvent, SessionConfig
from core.session import Session
from core.speech.kit import SpeechKit

WAIT_S = 10.0  # the deadline of every wait for an event; never reached on a good day


class FakeClock:
    """A clock that moves only when told to."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def monotonic(self) -> float:
        return self.now_s

    def epoch_ms(self, monotonic_s: float) -> int:
        return round(monotonic_s * 1000)

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class ScriptedEngine:
    """Says what it is told to; records what was asked, in the order it happened.

    `answer` gives the outputs of a request. Set `gate` to hold answers back: each waits
    for the event before every output after the first.
    """

    answer: Callable[[EngineRequest], Sequence[EngineOutput]] = lambda request: say("Yes.")
    info: EngineInfo = field(
        default_factory=lambda: EngineInfo("scripted", "script", "Says what it is told.")
    )
    gate: asyncio.Event | None = None
    submit_gate: asyncio.Event | None = None
    abort_gate: asyncio.Event | None = None
    status: EngineHealth = field(default_factory=lambda: EngineHealth("ready"))
    requests: list[EngineRequest] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)  # (what, request id)
    aborted: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def _note(self, what: str, request_id: str) -> None:
        self.log.append((what, request_id))
        self._changed.set()

    async def until(self, what: str, count: int = 1) -> None:
        """Until `what` (generate, closed, abort, aborted) was seen `count` times."""
        async with asyncio.timeout(WAIT_S):
            while [entry[0] for entry in self.log].count(what) < count:
                self._changed.clear()
                await self._changed.wait()

    async def start(self) -> None:
        pass

    async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        self.requests.append(request)
        self._note("generate", request.request_id)
        try:
            if self.submit_gate is not None:
                await self.submit_gate.wait()
            request.submitted.set()
            for index, output in enumerate(self.answer(request)):
                if index and self.gate is not None:
                    await self.gate.wait()
                yield output
        finally:
            self._note("closed", request.request_id)

    async def abort(self, request_id: str) -> None:
        self._note("abort", request_id)
        if self.abort_gate is not None:
            await self.abort_gate.wait()
        self.aborted.append(request_id)
        self._note("aborted", request_id)

    async def forget(self, session_id: str) -> None:
        self.forgotten.append(session_id)

    async def health(self) -> EngineHealth:
        return self.status

    async def close(self) -> None:
        pass


def say(*deltas: str) -> list[EngineOutput]:
    """Outputs that say `deltas` and end."""
    outputs = [EngineOutput(text_delta=delta) for delta in deltas]
    return [*outputs, EngineOutput(usage=EngineUsage(10, 4), finish_reason="stop")]


def tone(seconds: float, *, hz: float = 440.0, rate_hz: int = 24_000) -> EngineOutput:
    """An output of a sine."""
    t = np.arange(int(seconds * rate_hz)) / rate_hz
    audio = (0.5 * np.sin(2 * np.pi * hz * t)).astype(np.float32)
    return EngineOutput(audio=audio, sample_rate_hz=rate_hz)


class LoudIsVoice:
    """A voice model: what is loud is speech."""

    def probability(self, window: np.ndarray) -> float:
        return 1.0 if float(np.abs(window).max()) > 0.1 else 0.0

    def reset(self) -> None:
        pass


class ScriptedRecogniser:
    """Hears the next of its texts in whatever it is given."""

    name = "scripted"
    languages = frozenset({"en"})

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.given: list[bytes] = []

    def transcribe(
        self, pcm16: bytes, language: str = "", stop: Callable[[], bool] = lambda: False
    ) -> str:
        self.given.append(pcm16)
        return self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]


class ToneVoice:
    """A voice that hums: 60 ms a character."""

    name = "hum"
    sample_rate_hz = 24_000

    def speak(self, text: str, speed: float = 1.0) -> np.ndarray:
        t = np.arange(int(len(text) * 0.06 / speed * self.sample_rate_hz)) / self.sample_rate_hz
        return (0.3 * np.sin(2 * np.pi * 220 * t)).astype(np.float32)


def scripted_kit(*texts: str, voice: bool = False) -> SpeechKit:
    """Ears that hear `texts`, one a turn, and a voice that hums if `voice`."""
    kit = SpeechKit()
    kit.voice_model = LoudIsVoice  # type: ignore[method-assign]
    if texts:
        kit._recogniser = ScriptedRecogniser(*texts)
    if voice:
        kit._voices = {"hum": ToneVoice()}
    return kit


def sound(seconds: float, *, loud: bool) -> bytes:
    """PCM16 at 16 kHz: a tone, which LoudIsVoice takes for speech, or silence."""
    t = np.arange(int(seconds * 16_000)) / 16_000
    level = 10_000 if loud else 0
    return (level * np.sin(2 * np.pi * 300 * t)).astype("<i2").tobytes()


class HeldPlayback:
    """A speaker whose time stands still: all that is played waits until it is flushed."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.waits = True
        self.queue: list[AudioDelta] = []
        self.paused = False
        self.calls: list[str] = []
        self.played_s = 0.0
        self._changed = asyncio.Event()

    def play(self, audio: AudioDelta) -> None:
        self.queue.append(audio)
        self.calls.append("play")
        self._changed.set()

    async def until_played(self) -> None:
        """Until there is something to hear."""
        async with asyncio.timeout(WAIT_S):
            while not self.queue:
                self._changed.clear()
                await self._changed.wait()

    def pause(self) -> None:
        self.paused = True
        self.calls.append("pause")

    def resume(self) -> None:
        self.paused = False
        self.calls.append("resume")

    def flush(self) -> None:
        self.queue.clear()
        self.paused = False
        self.calls.append("flush")
        self._changed.set()

    @property
    def unplayed_s(self) -> float:
        return max(0.0, sum(audio.duration_s for audio in self.queue) - self.played_s)

    async def drained(self) -> None:
        while self.unplayed_s > 0:
            self._changed.clear()
            await self._changed.wait()


class Client:
    """What a session emits, with ways to wait for it."""

    def __init__(self) -> None:
        self.events: list[ServerEvent] = []
        self._arrived = asyncio.Event()

    def emit(self, event: ServerEvent) -> None:
        self.events.append(event)
        self._arrived.set()

    def of(self, kind: str) -> list[Any]:
        """All events of a type so far."""
        return [event for event in self.events if event.type == kind]

    def types(self) -> list[str]:
        return [event.type for event in self.events]

    async def until(self, kind: str, count: int = 1) -> Any:
        """The `count`-th event of a type, once it is there."""
        async with asyncio.timeout(WAIT_S):
            while len(self.of(kind)) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.of(kind)[count - 1]


def jpeg(seed: int = 0, *, width: int = 64, height: int = 48, **options: Any) -> bytes:
    """A JPEG of smooth random colours, different for each seed."""
    return encoded(picture(seed, width, height), "JPEG", quality=90, **options)


def png(seed: int = 0, *, width: int = 64, height: int = 48) -> bytes:
    return encoded(picture(seed, width, height), "PNG")


def picture(seed: int, width: int = 64, height: int = 48) -> np.ndarray:
    """Smooth random colours, uint8 height × width × 3."""
    small = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), np.uint8)
    return np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))


def encoded(rgb: np.ndarray, kind: str, **options: Any) -> bytes:
    """A picture as a file of a kind that Pillow knows."""
    out = io.BytesIO()
    Image.fromarray(rgb).save(out, kind, **options)
    return out.getvalue()


BROKEN_JPEG = jpeg(99)[:-200] + b"\x00" * 10  # a good header, then too little data
NOT_AN_IMAGE = b"not an image at all"


def frame(data: bytes | None = None, frame_id: str | None = "f", **meta: Any) -> FrameInput:
    """A frame input from JPEG bytes."""
    source = EncodedImage(jpeg() if data is None else data, max_pixels=40_000_000)
    return FrameInput(source, frame_id=frame_id, **meta)


class Harness:
    """A session on a scripted engine, and its client. Use as an async context manager."""

    def __init__(
        self, engine: Any = "scripted", config: SessionConfig | None = None, **options: Any
    ) -> None:
        self.engine = ScriptedEngine() if engine == "scripted" else engine
        self.client = Client()
        self._pool = DecodePool(2)
        self.session = Session(
            config or SessionConfig(enable_frame_filter=False),
            self.engine,
            self.client.emit,
            pool=self._pool,
            **options,
        )

    async def __aenter__(self) -> "Harness":
        self.session.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        async with asyncio.timeout(WAIT_S):
            await self.session.close()
        self._pool.close()


def images(request: EngineRequest) -> list[ImagePart]:
    """The images of a request, in order."""
    return [p for m in request.messages for p in m.parts if isinstance(p, ImagePart)]


def texts(request: EngineRequest) -> list[str]:
    """The texts of a request, in order."""
    return [p.text for m in request.messages for p in m.parts if isinstance(p, TextPart)]


class Talker(ScriptedEngine):
    """Speaks for ten seconds: a tone at once, and a word every 100 ms. For `--engine`."""

    WORDS = 100
    WORD_S = 0.1

    async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        request.submitted.set()
        yield tone(self.WORDS * self.WORD_S)
        for number in range(self.WORDS):
            yield EngineOutput(text_delta=f"{number} ")
            await asyncio.sleep(self.WORD_S)


def create_talker(settings: Any) -> Talker:
    """The factory that `--engine tests.fakes:create_talker` names."""
    info = EngineInfo(
        "talker", "tone", "Speaks a tone.", output_modalities=frozenset({"text", "audio"})
    )
    return Talker(info=info)
