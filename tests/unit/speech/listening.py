"""What is heard in the tests of listening: sounds made here, and fakes of the models."""

import threading
import wave
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from core.speech.activity import WINDOW_SAMPLES, ActivityDetector, ActivityEvent
from core.speech.pcm import INPUT_RATE_HZ, pcm16_from_float

FULL_SCALE = 10_000  # the sample value that FakeVoice takes for a probability of 1
WAIT_S = 10.0  # the deadline of every wait; never reached on a good day


class FakeVoice:
    """Takes the level of a window for the probability; counts what it is asked."""

    def __init__(self) -> None:
        self.windows = 0
        self.resets = 0

    def probability(self, window: np.ndarray) -> float:
        assert window.shape == (WINDOW_SAMPLES,)
        assert window.dtype == np.float32
        self.windows += 1
        return min(1.0, float(np.abs(window).mean()) * 32768.0 / FULL_SCALE)

    def reset(self) -> None:
        self.resets += 1


@dataclass
class FakeRecogniser:
    """Says how long the audio was; holds back while `gate` is closed."""

    name: str = "fake"
    languages: frozenset[str] = frozenset({"en", "de"})
    answer: Callable[[bytes], str] = lambda pcm16: f"{len(pcm16) // 32} ms"
    heard: list[tuple[int, str]] = field(default_factory=list)  # ms, language
    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    gate: threading.Event = field(default_factory=threading.Event)
    ends_when_stopped: bool = True

    def __post_init__(self) -> None:
        self.gate.set()

    def transcribe(
        self, pcm16: bytes, language: str = "", stop: Callable[[], bool] = lambda: False
    ) -> str:
        self.heard.append((len(pcm16) // 32, language))
        self.begun.release()
        while not self.gate.wait(0.005):
            if stop() and self.ends_when_stopped:
                return ""
        return self.answer(pcm16)


def windows(probability: float, count: int) -> bytes:
    """Audio that FakeVoice finds to be voice with this probability; 32 ms a window."""
    value = round(probability * FULL_SCALE)
    return np.full(count * WINDOW_SAMPLES, value, "<i2").tobytes()


def voice(count: int) -> bytes:
    return windows(0.9, count)


def quiet(count: int) -> bytes:
    return windows(0.0, count)


def silence(seconds: float) -> bytes:
    return bytes(round(seconds * INPUT_RATE_HZ) * 2)


def noise(seconds: float, level: float, seed: int = 0) -> bytes:
    """White noise of a standard deviation of `level` of full scale."""
    samples = np.random.default_rng(seed).normal(0.0, level, round(seconds * INPUT_RATE_HZ))
    return pcm16_from_float(samples.astype(np.float32))


def clicks(seconds: float, every_s: float, length_s: float = 0.012) -> bytes:
    """Someone typing: short bursts of noise that die away, not quite regularly."""
    rng = np.random.default_rng(3)
    samples = rng.normal(0.0, 0.001, round(seconds * INPUT_RATE_HZ))
    at_s = 0.1
    while at_s < seconds - 0.1:
        start, length = round(at_s * INPUT_RATE_HZ), round(length_s * INPUT_RATE_HZ)
        burst = rng.normal(0.0, 0.3, length) * np.exp(-np.arange(length) / (length / 4))
        samples[start : start + length] += burst
        at_s += every_s * rng.uniform(0.6, 1.4)
    return pcm16_from_float(samples.astype(np.float32))


def beckett() -> bytes:
    """A person says "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better."

    10 s in the moonshine-cpp package; the first sentence begins at 0.5 s.
    """
    spec = find_spec("moonshine_cpp")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("moonshine-cpp is not installed")
    path = Path(spec.submodule_search_locations[0]) / "test-data" / "beckett.wav"
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)
        return file.readframes(file.getnframes())


def feed(detector: ActivityDetector, pcm16: bytes, block: int = 640) -> list[ActivityEvent]:
    """Everything that the detector tells about the audio, fed in blocks (20 ms)."""
    events: list[ActivityEvent] = []
    for start in range(0, len(pcm16), block):
        events += detector.feed(pcm16[start : start + block])
    return events


def kinds(events: list[ActivityEvent]) -> list[str]:
    """The names of events, less "Speech"."""
    return [type(event).__name__.removeprefix("Speech") for event in events]
