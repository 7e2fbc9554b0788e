"""Every bound of a session, with its default."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SessionLimits:
    """Bounds that keep one session from hurting itself or others. Times in s."""

    media_queue: int = 64  # frames waiting for the filter; the oldest gives way
    control_queue: int = 200  # questions and commands waiting
    outbox: int = 1_000  # events waiting for a slow client
    frame_pixels: int = 40_000_000  # width × height, checked before decoding
    buffer_bytes: int = 256 * 2**20  # decoded and encoded frames of one session
    audio_bytes: int = 4 * 2**20  # 131 s of PCM16 at 16 kHz
    history_messages: int = 64
    decode_s: float = 10.0  # one frame's decode, waiting included
    submit_s: float = 30.0  # until the engine accepts a request
    stall_s: float = 60.0  # between two outputs of the engine
    abort_s: float = 30.0  # until the engine acknowledges an abort
