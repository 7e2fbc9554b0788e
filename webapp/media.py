"""aiortc tracks and a Session: camera and microphone in, the spoken answer out."""

import asyncio
import math
from collections import deque
from fractions import Fraction

import av
import numpy as np
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError

from core.frames import FrameInput, VideoImage
from core.protocol import AudioDelta
from core.session import Session
from core.speech.pcm import INPUT_RATE_HZ

SPEAKER_RATE_HZ = 48_000
PACKET_S = 0.020
PACKET_SAMPLES = int(SPEAKER_RATE_HZ * PACKET_S)
DEFAULT_DELAY_S = 0.1  # from sending to the ear, until the page reports it
LATE_S = 0.5  # behind by more than this, the speaker starts its schedule anew


class LifeSign:
    """When something was last heard of a peer."""

    def __init__(self) -> None:
        self.at_s = self._now()

    def heard(self) -> None:
        """Something arrived just now."""
        self.at_s = self._now()

    @property
    def silent_s(self) -> float:
        """Seconds since something arrived."""
        return self._now() - self.at_s

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


async def pump_camera(
    track: MediaStreamTrack, session: Session, life: LifeSign, *, fps: float
) -> None:
    """Read every frame at once and hand on at most `fps` a second, always the newest.

    Whoever reads a track slower than it comes lags further behind with every frame.
    Resolution and pixel format may change from frame to frame. Ends with the track.
    """
    loop = asyncio.get_running_loop()
    number = 0
    next_s = 0.0
    while True:
        try:
            frame = await track.recv()
        except MediaStreamError:
            return
        life.heard()
        now_s = loop.time()
        if not isinstance(frame, av.VideoFrame) or now_s < next_s:
            continue
        next_s = max(next_s + 1.0 / fps, now_s + 0.5 / fps)
        number += 1
        session.frame(
            FrameInput(
                VideoImage(frame, number),
                frame_id=f"camera-{number}",
                pts_ms=round(session.elapsed_s * 1000, 1),
                source_pts_ms=_pts_ms(frame),
                internal=True,
            )
        )


async def pump_microphone(track: MediaStreamTrack, session: Session, life: LifeSign) -> None:
    """Hand on all audio as 16 kHz mono int16. Ends with the track."""
    resampler = av.AudioResampler(format="s16", layout="mono", rate=INPUT_RATE_HZ)
    while True:
        try:
            frame = await track.recv()
        except MediaStreamError:
            return
        life.heard()
        if isinstance(frame, av.AudioFrame):
            for part in resampler.resample(frame):
                session.audio(part.to_ndarray().astype("<i2").tobytes())


def _pts_ms(frame: av.VideoFrame) -> float | None:
    if frame.pts is None or frame.time_base is None:
        return None
    return round(float(frame.pts * frame.time_base) * 1000, 1)


class Speaker(MediaStreamTrack):
    """The outbound audio track: 20 ms packets at absolute deadlines, silence between.

    48 kHz, mono, int16. A `Playback`: `play` queues speech of any rate, `pause` holds it,
    `flush` drops what was not sent.
    """

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self.delay_s = DEFAULT_DELAY_S
        self.waits = True
        self.connected = True  # False: the other side has offered to hear nothing
        self._queue: deque[np.ndarray] = deque()
        self._resampler: av.AudioResampler | None = None
        self._rate_hz = 0
        self._paused = False
        self._started_s: float | None = None
        self._spoke_s = -math.inf  # when speech was last sent
        self._pts = 0

    def play(self, audio: AudioDelta) -> None:
        """Queue speech."""
        if not self.connected:
            return
        if self._resampler is None or audio.sample_rate_hz != self._rate_hz:
            self._resampler = av.AudioResampler("s16", "mono", SPEAKER_RATE_HZ)
            self._rate_hz = audio.sample_rate_hz
        samples = np.frombuffer(audio.pcm16, "<i2").reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        frame.sample_rate = audio.sample_rate_hz
        for part in self._resampler.resample(frame):
            self._queue.append(part.to_ndarray().reshape(-1))

    def pause(self) -> None:
        """Silence from the next packet on; what is queued stays."""
        self._paused = True

    def resume(self) -> None:
        """Go on where `pause` held."""
        self._paused = False

    def flush(self) -> None:
        """Drop what was not sent; silence from the next packet on."""
        self._queue.clear()
        self._resampler = None
        self._paused = False

    @property
    def queued_s(self) -> float:
        """Seconds of speech that were not sent yet."""
        return sum(chunk.size for chunk in self._queue) / SPEAKER_RATE_HZ

    @property
    def unplayed_s(self) -> float:
        """Seconds of speech that are queued, or sent and not yet at the ear."""
        on_its_way_s = self._spoke_s + self.delay_s - asyncio.get_running_loop().time()
        return self.queued_s + min(max(on_its_way_s, 0.0), self.delay_s)

    async def drained(self) -> None:
        """Until all speech has been heard."""
        while (left_s := self.unplayed_s) > 0:  # noqa: ASYNC110 - time passes, nobody tells
            await asyncio.sleep(max(left_s, PACKET_S))

    async def recv(self) -> av.AudioFrame:
        """The next packet, at its time."""
        if self.readyState != "live":
            raise MediaStreamError
        loop = asyncio.get_running_loop()
        if self._started_s is None:
            self._started_s = loop.time()
        wait_s = self._started_s + self._pts / SPEAKER_RATE_HZ - loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        elif wait_s < -LATE_S:
            self._started_s -= wait_s  # the machine slept: do not send a burst
        frame = av.AudioFrame.from_ndarray(
            self._next_samples().reshape(1, -1), format="s16", layout="mono"
        )
        frame.sample_rate = SPEAKER_RATE_HZ
        frame.pts = self._pts
        frame.time_base = Fraction(1, SPEAKER_RATE_HZ)
        self._pts += PACKET_SAMPLES
        return frame

    def _next_samples(self) -> np.ndarray:
        packet = np.zeros(PACKET_SAMPLES, np.int16)
        filled = 0
        if self._paused:
            return packet
        while self._queue and filled < PACKET_SAMPLES:
            chunk = self._queue.popleft()
            used = min(chunk.size, PACKET_SAMPLES - filled)
            packet[filled : filled + used] = chunk[:used]
            filled += used
            if used < chunk.size:
                self._queue.appendleft(chunk[used:])
        if filled:
            self._spoke_s = asyncio.get_running_loop().time()
        return packet
