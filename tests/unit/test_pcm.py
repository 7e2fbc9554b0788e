"""PCM, WAV, and the buffer of what a client has said."""

import io
import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.speech.pcm import AudioBuffer, pcm16_from_float, wav_bytes

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("rate_hz", [16_000, 24_000, 48_000])
@pytest.mark.parametrize("samples", [0, 1, 481])
def test_a_wav_is_mono_pcm16_at_its_rate(rate_hz: int, samples: int) -> None:
    pcm = np.arange(samples, dtype="<i2").tobytes()
    with wave.open(io.BytesIO(wav_bytes(pcm, rate_hz))) as wav:
        assert (wav.getnchannels(), wav.getsampwidth(), wav.getframerate()) == (1, 2, rate_hz)
        assert wav.readframes(samples) == pcm


def test_floats_become_little_endian_int16_and_clip() -> None:
    floats = np.array([0, 0.5, 1, -1, 1.7, -9], np.float32)
    assert np.frombuffer(pcm16_from_float(floats), "<i2").tolist() == [
        0,
        16384,
        32767,
        -32767,
        32767,
        -32767,
    ]


@given(st.lists(st.floats(-2, 2, width=32)))
def test_floats_keep_their_value_to_half_a_step(values: list[float]) -> None:
    back = np.frombuffer(pcm16_from_float(np.array(values, np.float32)), "<i2") / 32767
    assert back == pytest.approx(np.clip(values, -1, 1), abs=0.5 / 32767 + 1e-6)


def test_take_gives_everything_once_oldest_first() -> None:
    buffer = AudioBuffer(100)
    assert buffer.append(b"aa")
    assert buffer.append(b"bb")
    assert len(buffer) == 4
    assert buffer.take() == b"aabb"
    assert len(buffer) == 0
    assert buffer.take() == b""


def test_row_25_a_chunk_that_does_not_fit_empties_the_buffer() -> None:
    buffer = AudioBuffer(4)
    assert buffer.append(b"aaaa")
    assert not buffer.append(b"bb")
    assert buffer.take() == b""
    assert buffer.append(b"cc")
    assert buffer.take() == b"cc"


def test_restore_puts_back_before_what_came_since() -> None:
    buffer = AudioBuffer(10)
    buffer.append(b"aaaa")
    taken = buffer.take()
    buffer.append(b"bb")
    buffer.restore(taken)
    assert buffer.take() == b"aaaabb"


def test_restore_keeps_the_newest_that_has_room() -> None:
    buffer = AudioBuffer(6)
    buffer.append(b"bbbb")
    buffer.restore(b"123456")
    assert buffer.take() == b"56bbbb"
    buffer.append(b"cccccc")
    buffer.restore(b"lost")
    assert buffer.take() == b"cccccc"


@given(st.lists(st.binary(max_size=8)), st.integers(2, 20))
def test_a_buffer_is_never_over_its_limit(chunks: list[bytes], limit: int) -> None:
    buffer = AudioBuffer(limit)
    for chunk in chunks:
        buffer.append(chunk)
        assert len(buffer) <= limit
    held = len(buffer)
    tail = buffer.take()
    assert len(tail) == held
    assert b"".join(chunks).endswith(tail)
