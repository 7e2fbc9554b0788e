"""Moonshine base (English) on onnxruntime: the weights of the moonshine-cpp package, no code.

Moonshine's encoder takes the samples themselves and costs in proportion to their number,
which suits short questions: https://arxiv.org/abs/2410.15608
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnxruntime import OrtValue

from core.speech.pcm import INPUT_RATE_HZ
from core.weights import ModelError, WeightsFile, run_session

_REQUIREMENT = "moonshine-cpp==0.1.4 without its dependencies"
ENCODER = WeightsFile(
    what="recognition (Moonshine, encoder)",
    package="moonshine_cpp",
    path="models/base-en/encoder_model.ort",
    sha256="9d1a19e044cbf89a207723d1adb667de89a5671a1e3e611b8ebe721b2c31219c",
    requirement=_REQUIREMENT,
)
DECODER = WeightsFile(
    what="recognition (Moonshine, decoder)",
    package="moonshine_cpp",
    path="models/base-en/decoder_model_merged.ort",
    sha256="370e0c1f161d68dc1c2264c1a82024fb123380da3b73f47f05531d1e8d3308c3",
    requirement=_REQUIREMENT,
)
TOKENS = WeightsFile(
    what="recognition (Moonshine, tokens)",
    package="moonshine_cpp",
    path="models/base-en/tokenizer.bin",
    sha256="04670d78994d030185c3dd843c60591788fed0a56cc6750747bd326825f13ca9",
    requirement=_REQUIREMENT,
)

START, END = 1, 2  # tokens
FIRST_BYTE, LAST_BYTE = 3, 258  # tokens that stand for one byte each, spelt <0x00>
TOKENS_PER_S = 6.5  # no speech has more: from Moonshine's own code
SPARE_TOKENS = 8
TAIL_S = 0.25  # of silence after the audio: speech cut short is misheard from its beginning
SHORTEST_S = 1.0  # shorter audio is made this long, with silence


class Moonshine:
    """A `Recogniser`; it loads when it is made, in about 2 s. Raises `ModelError`."""

    name = "moonshine-base"
    languages = frozenset({"en"})

    def __init__(
        self,
        encoder: WeightsFile = ENCODER,
        decoder: WeightsFile = DECODER,
        tokens: WeightsFile = TOKENS,
    ) -> None:
        self._tokens = read_tokens(tokens)
        self._encoder = run_session(encoder.what, plain_onnx(encoder))
        self._decoder = run_session(decoder.what, plain_onnx(decoder))
        self._pasts = [
            value for value in self._decoder.get_inputs() if value.name.startswith("past_")
        ]
        self._outputs = [value.name for value in self._decoder.get_outputs()]
        self.transcribe(bytes(INPUT_RATE_HZ))  # the first run is slow: let it be this one

    def transcribe(
        self, pcm16: bytes, language: str = "", stop: Callable[[], bool] = lambda: False
    ) -> str:
        """The words in int16 mono 16 kHz audio; '' if there are none, or `stop()` was true.

        `stop` is asked before each token. `language` is English, whatever it says.
        """
        samples = np.frombuffer(pcm16, "<i2").astype(np.float32) / 32768.0
        if stop() or not samples.any():
            return ""
        tokens: list[int] = []
        cache = self._empty_cache()
        heard = self._encode(samples)
        token = START
        for step in range(int(len(samples) / INPUT_RATE_HZ * TOKENS_PER_S) + SPARE_TOKENS):
            if stop():
                return ""
            token = self._next(token, heard, cache, first=step == 0)
            if token == END:
                break
            tokens.append(token)
        return self._text(tokens)

    def _encode(self, samples: NDArray[np.float32]) -> OrtValue:
        length = max(SHORTEST_S, len(samples) / INPUT_RATE_HZ + TAIL_S)
        padded = np.zeros((1, round(length * INPUT_RATE_HZ)), np.float32)
        padded[0, : len(samples)] = samples
        inputs = {self._encoder.get_inputs()[0].name: OrtValue.ortvalue_from_numpy(padded)}
        (heard,) = self._encoder.run_with_ort_values([self._encoder.get_outputs()[0].name], inputs)
        return heard

    def _empty_cache(self) -> dict[str, OrtValue]:
        _, heads, _, width = self._pasts[0].shape
        nothing = OrtValue.ortvalue_from_numpy(np.zeros((1, heads, 0, width), np.float32))
        return {value.name: nothing for value in self._pasts}

    def _next(self, token: int, heard: OrtValue, cache: dict[str, OrtValue], *, first: bool) -> int:
        """The likeliest token after `token`; the cache grows by one."""
        inputs = {
            "input_ids": OrtValue.ortvalue_from_numpy(np.array([[token]], np.int64)),
            "encoder_hidden_states": heard,
            "use_cache_branch": OrtValue.ortvalue_from_numpy(np.array([not first])),
            **cache,
        }
        logits, *presents = self._decoder.run_with_ort_values(self._outputs, inputs)
        for name, present in zip(self._outputs[1:], presents, strict=True):
            if first or ".decoder." in name:  # what concerns the audio stays as it was
                cache[name.replace("present", "past_key_values")] = present
        return int(logits.numpy()[0, -1].argmax())

    def _text(self, tokens: list[int]) -> str:
        spelt = b"".join(self._tokens[token] for token in tokens)
        return spelt.decode("utf-8", "replace").strip()


def read_tokens(weights: WeightsFile) -> list[bytes]:
    """Each token's UTF-8, by number: a length (two bytes from 128 on), then that many bytes."""
    data = weights.find().read_bytes()
    tokens: list[bytes] = []
    at = 0
    while at < len(data):
        length = data[at]
        at += 1
        if length >= 128:
            length += 128 * (data[at] - 1)
            at += 1
        tokens.append(data[at : at + length].replace("\u2581".encode(), b" "))
        at += length
    tokens[: END + 1] = [b""] * (END + 1)
    tokens[FIRST_BYTE : LAST_BYTE + 1] = [bytes([value]) for value in range(256)]
    return tokens


def plain_onnx(weights: WeightsFile) -> bytes:
    """An .ort model as ONNX, so that onnxruntime optimises it when it is loaded.

    It holds int8 weights that are made float in the graph. From an .ort file that happens at
    every step (100 ms a token); from ONNX once, when it is loaded (20 ms a token). The floats
    take four times the memory. Raises `ModelError`.
    """
    source = weights.find()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.save_model_format", "ONNX")
    options.log_severity_level = 3
    try:
        with tempfile.TemporaryDirectory() as folder:
            options.optimized_model_filepath = str(Path(folder) / "model.onnx")
            onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
            model = onnx.load(options.optimized_model_filepath)
    except Exception as error:
        raise ModelError(f"{weights.what}: cannot be converted: {error}") from error
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                attribute.g.name = attribute.name  # the conversion leaves it out, ONNX wants it
    return bytes(model.SerializeToString())
