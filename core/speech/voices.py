"""The voices that can speak, their weights inside packages of the registry."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from core.speech.phonemes import HIBARI, PAUSES, Phonemizer
from core.weights import ModelError, WeightsFile, run_session

MAX_PHONEMES = 400  # longer ones are spoken in parts
SLOWEST, FASTEST = 0.5, 2.0

HEART_MODEL = WeightsFile(
    what="voice heart",
    package="hibari",
    path="assets/hibari.onnx",
    sha256="5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
    requirement=HIBARI,
)
HEART_SYMBOLS = WeightsFile(
    what="voice heart",
    package="hibari",
    path="assets/vocab.json",
    sha256="70abefbe8a1c8865e43e0a43bbdc25b91a33e4aa053479d443ccf23e20a59e5d",
    requirement=HIBARI,
)


class Voice(Protocol):
    """Somebody who speaks. One voice serves all sessions, one call at a time."""

    @property
    def name(self) -> str:
        """As in `VOICES`."""

    @property
    def sample_rate_hz(self) -> int:
        """Of what `speak` gives."""

    def speak(self, text: str, speed: float = 1.0) -> NDArray[np.float32]:
        """Words (`spoken.spoken` has made them) as mono float32 in [-1, 1]; blocks.

        `speed` 0.5 to 2, 1 is natural. Empty where nothing can be said.
        """


@dataclass(frozen=True)
class VoiceInfo:
    """A voice that can be chosen, and how it is loaded."""

    name: str
    description: str  # for the page
    load: Callable[[], Voice] = field(repr=False)


class Heart:
    """hibari's voice: spectra from a network of 6 M parameters, made audible here. 24 kHz.

    The harmonic part filters a pulse train of the predicted pitch, the other parts are
    shaped noise and free phase (the formula is in the package's README, section "ONNX
    interface"):

        S = exp(lh) exp(iπ tanh θ) STFT(pulses) + exp(ln) Z + exp(lr) exp(iφ)

    `pitch` and `formants` make another speaker of her: factors of the voice's pitch and of
    the frequencies that the vocal tract favours.
    """

    sample_rate_hz = 24_000
    FFT, HOP = 1200, 300  # samples
    LOUDEST = 7.0  # of a logarithmic magnitude
    UNVOICED_HZ, HIGHEST_HZ = 40.0, 11_000.0

    def __init__(
        self,
        phonemizer: Phonemizer,
        name: str = "heart",
        *,
        pitch: float = 1.0,
        formants: float = 1.0,
    ) -> None:
        """Raises `ModelError`."""
        self.name = name
        self._pitch = pitch
        self._formants = formants
        self._phonemize = phonemizer
        self._ids = _read(HEART_SYMBOLS)
        self._session = run_session(HEART_MODEL.what, HEART_MODEL.find())
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(self.FFT) / self.FFT)
        self._window = window.astype(np.float32)

    def speak(self, text: str, speed: float = 1.0) -> NDArray[np.float32]:
        """See `Voice`."""
        parts = [self._say(part, speed) for part in _parts(self._phonemize(text))]
        return _joined(parts)

    def _say(self, phonemes: str, speed: float) -> NDArray[np.float32]:
        ids = [0, *(self._ids[p] for p in phonemes if p in self._ids), 0]
        outputs = self._session.run(
            None,
            {
                "ids": np.asarray([ids], np.int64),
                "speed": np.asarray([np.clip(speed, SLOWEST, FASTEST)], np.float32),
            },
        )
        *spectra, pitch_hz = (output[0] for output in outputs)
        harmonic, turn, noise, free, phase = (self._moved(part) for part in spectra)
        spectrum = self._analyse(self._pulses(pitch_hz * self._pitch))
        spectrum *= self._magnitude(harmonic) * np.exp(1j * np.pi * np.tanh(turn))
        random = np.random.default_rng(0).standard_normal((2, *noise.shape), dtype=np.float32)
        spectrum += self._magnitude(noise) * (random[0] + 1j * random[1])
        spectrum += self._magnitude(free) * np.exp(1j * phase)
        return self._synthesise(spectrum)

    def _moved(self, part: NDArray[np.float32]) -> NDArray[np.float32]:
        """Bins × frames with the formants at other frequencies."""
        if self._formants == 1.0:
            return part
        bins = np.minimum(np.arange(len(part)) / self._formants, len(part) - 1.0)
        below = np.minimum(bins.astype(np.intp), len(part) - 2)
        share = (bins - below).astype(np.float32)[:, None]
        moved: NDArray[np.float32] = part[below] * (1 - share) + part[below + 1] * share
        return moved

    def _magnitude(self, logarithm: NDArray[np.float32]) -> NDArray[np.float32]:
        magnitude: NDArray[np.float32] = np.exp(np.minimum(logarithm, self.LOUDEST))
        return magnitude

    def _pulses(self, pitch_hz: NDArray[np.float32]) -> NDArray[np.float32]:
        """All harmonics below HIGHEST_HZ at one amplitude, in closed form; 0 where unvoiced."""
        frames = len(pitch_hz)
        at = (np.arange(frames * self.HOP) + 0.5) / self.HOP - 0.5
        hz = np.interp(at, np.arange(frames), pitch_hz)
        voiced = hz > self.UNVOICED_HZ
        hz = np.maximum(hz, self.UNVOICED_HZ)
        phase = 2 * np.pi * (np.cumsum(hz / self.sample_rate_hz) % 1.0)
        harmonics = np.floor(self.HIGHEST_HZ / hz) + 0.5
        half = 2 * np.sin(phase / 2)
        peak = np.abs(half) < 2e-3
        half[peak] = 1.0
        pulses = np.where(peak, harmonics, np.sin(harmonics * phase) / half) - 0.5
        return np.where(voiced, pulses, 0.0).astype(np.float32)

    def _analyse(self, signal: NDArray[np.float32]) -> NDArray[np.complex64]:
        """Short-time spectra, bins × frames; a unit cosine has its amplitude."""
        frames = len(signal) // self.HOP
        padded = np.pad(signal, self.FFT // 2, mode="reflect")
        blocks = np.lib.stride_tricks.sliding_window_view(padded, self.FFT)[:: self.HOP][:frames]
        spectra = np.fft.rfft(blocks * (self._window / self.HOP), axis=1)
        return spectra.astype(np.complex64).T

    def _synthesise(self, spectrum: NDArray[np.complex64]) -> NDArray[np.float32]:
        """Overlap and add, the windows' sum divided out."""
        frames, overlaps = spectrum.shape[1], self.FFT // self.HOP
        blocks = np.fft.irfft(spectrum.T, n=self.FFT, axis=1) * self._window
        blocks = blocks.reshape(frames, overlaps, self.HOP)
        weights = (self._window**2).reshape(overlaps, self.HOP)
        audio = np.zeros((frames + overlaps - 1, self.HOP))
        weight = np.zeros_like(audio)
        for k in range(overlaps):
            audio[k : k + frames] += blocks[:, k]
            weight[k : k + frames] += weights[k]
        start = self.FFT // 2
        whole = (audio / np.maximum(weight, 1e-11)).reshape(-1)
        inside: NDArray[np.float32] = whole[start : start + frames * self.HOP]
        return inside.astype(np.float32)


def _parts(phonemes: str) -> list[str]:
    """Short enough for a model, cut at pauses, else at words; each ends in punctuation."""
    parts: list[str] = []
    while len(phonemes) > MAX_PHONEMES:
        head = phonemes[:MAX_PHONEMES]
        cut = max((head.rfind(pause + " ") for pause in PAUSES), default=-1) + 1
        cut = cut or head.rfind(" ") + 1 or MAX_PHONEMES
        parts.append(phonemes[:cut].strip())
        phonemes = phonemes[cut:].strip()
    parts.append(phonemes)
    return [
        part if part[-1] in PAUSES else part + ","
        for part in parts
        if any(sound not in PAUSES and not sound.isspace() for sound in part)
    ]


def _joined(parts: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    audio = np.concatenate(parts) if parts else np.zeros(0, np.float32)
    return np.clip(audio, -1.0, 1.0)


def _read(weights: WeightsFile) -> dict[str, Any]:
    try:
        return dict(json.loads(weights.find().read_bytes()))
    except ValueError as error:
        raise ModelError(f"{weights.what}: cannot be read: {error}") from error


class _Shared:
    """The phonemizer that the voices share, loaded once."""

    def __init__(self) -> None:
        self._phonemizer: Phonemizer | None = None
        self._lock = threading.Lock()

    def __call__(self) -> Phonemizer:
        with self._lock:
            if self._phonemizer is None:
                self._phonemizer = Phonemizer.load()
            return self._phonemizer


_phonemizer = _Shared()

VOICES: dict[str, VoiceInfo] = {
    voice.name: voice
    for voice in (
        VoiceInfo("heart", "Heart, a woman's voice", lambda: Heart(_phonemizer())),
        VoiceInfo(
            "tenor",
            "Tenor, Heart's voice made deeper",
            lambda: Heart(_phonemizer(), "tenor", pitch=0.6, formants=0.84),
        ),
    )
}
DEFAULT_VOICE = "heart"


def load_voice(name: str = DEFAULT_VOICE) -> Voice:
    """A voice, ready and warm; blocks for about a second. Raises `ModelError`."""
    info = VOICES.get(name)
    if info is None:
        raise ModelError(f"voice {name}: there is no such voice, choose {' or '.join(VOICES)}")
    voice = info.load()
    try:
        voice.speak("Ready.")
    except Exception as error:
        raise ModelError(f"voice {name}: cannot speak: {error}") from error
    return voice
