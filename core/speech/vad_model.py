"""Silero's voice activity model, on onnxruntime; its weights only, none of its code."""

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from core.speech.activity import WINDOW_SAMPLES
from core.speech.pcm import INPUT_RATE_HZ
from core.weights import WeightsFile, run_session

CONTEXT_SAMPLES = 64  # of the window before, which the model wants to see again
STATE_SHAPE = (2, 1, 128)

SILERO = WeightsFile(
    what="voice activity (Silero VAD)",
    package="silero_vad",
    path="data/silero_vad_16k_op15.onnx",
    sha256="7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
    requirement="silero-vad==6.2.3 without its dependencies",
)


class SileroWeights:
    """The loaded model, for all sessions; it is loaded when it is made. Raises `ModelError`."""

    def __init__(self, weights: WeightsFile = SILERO) -> None:
        self.session = run_session(weights.what, weights.find())
        SileroVoice(self).probability(np.zeros(WINDOW_SAMPLES, np.float32))


class SileroVoice:
    """One stream's `VoiceModel`. From silero_vad/utils_vad.py, `OnnxWrapper.__call__`."""

    def __init__(self, weights: SileroWeights) -> None:
        self._run: onnxruntime.InferenceSession = weights.session
        self._rate = np.array(INPUT_RATE_HZ, np.int64)
        self._input = np.zeros((1, CONTEXT_SAMPLES + WINDOW_SAMPLES), np.float32)
        self._state = np.zeros(STATE_SHAPE, np.float32)

    def probability(self, window: NDArray[np.float32]) -> float:
        """How likely the next WINDOW_SAMPLES samples, in [-1, 1], hold speech: 0 to 1."""
        self._input[0, :CONTEXT_SAMPLES] = self._input[0, -CONTEXT_SAMPLES:]
        self._input[0, CONTEXT_SAMPLES:] = window
        output, self._state = self._run.run(
            None, {"input": self._input, "state": self._state, "sr": self._rate}
        )
        return float(output[0, 0])

    def reset(self) -> None:
        """Forget the stream so far."""
        self._input[:] = 0.0
        self._state = np.zeros(STATE_SHAPE, np.float32)
