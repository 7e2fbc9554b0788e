"""PCM: int16 mono bytes, their WAV framing, and the buffer of what a client has said."""

import io
import wave
from collections import deque

import numpy as np
from numpy.typing import NDArray

INPUT_RATE_HZ = 16_000
BYTES_PER_SAMPLE = 2


def wav_bytes(pcm16: bytes, sample_rate_hz: int) -> bytes:
    """A whole WAV file (RIFF, PCM16, mono) around little-endian int16 samples."""
    out = io.BytesIO()
    with wave.open(out, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(BYTES_PER_SAMPLE)
        writer.setframerate(sample_rate_hz)
        writer.writeframes(pcm16)
    return out.getvalue()


def pcm16_from_float(audio: NDArray[np.float32]) -> bytes:
    """float32 mono in [-1, 1] as little-endian int16 bytes; what is outside is clipped."""
    clipped = np.clip(np.asarray(audio, np.float32), -1.0, 1.0)
    return np.round(clipped * 32767.0).astype("<i2").tobytes()


class AudioBuffer:
    """What was said since the last turn took it: int16 mono at 16 kHz, at most `max_bytes`.

    A chunk that does not fit empties the buffer (protocol row 25: the next query sees no
    stale audio).
    """

    def __init__(self, max_bytes: int) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._max_bytes = max_bytes

    def __len__(self) -> int:
        """Bytes held."""
        return self._size

    def append(self, pcm16: bytes) -> bool:
        """Add a chunk; False if it overflowed and the buffer is now empty."""
        if self._size + len(pcm16) > self._max_bytes:
            self.clear()
            return False
        self._chunks.append(pcm16)
        self._size += len(pcm16)
        return True

    def take(self) -> bytes:
        """Everything held, oldest first; the buffer is empty afterwards."""
        audio = b"".join(self._chunks)
        self.clear()
        return audio

    def restore(self, pcm16: bytes) -> None:
        """Put back what `take` gave, before what came since, as far as there is room."""
        room = self._max_bytes - self._size
        pcm16 = pcm16[-room:] if room else b""
        if not pcm16:
            return
        self._chunks.appendleft(pcm16)
        self._size += len(pcm16)

    def clear(self) -> None:
        """Forget everything."""
        self._chunks.clear()
        self._size = 0
