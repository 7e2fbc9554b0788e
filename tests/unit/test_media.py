"""The spoken answer as an audio track, and camera and microphone into a session."""

import asyncio
from collections.abc import Awaitable, Callable
from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest
from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError

from core.frames import FrameInput
from core.protocol import AudioDelta
from webapp.media import (
    LATE_S,
    PACKET_S,
    PACKET_SAMPLES,
    SPEAKER_RATE_HZ,
    LifeSign,
    Speaker,
    pump_camera,
    pump_microphone,
)

pytestmark = pytest.mark.unit


class FakeTime:
    """The event loop's clock as a test moves it; sleeping moves it at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self._sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now_s)
        monkeypatch.setattr(asyncio, "sleep", self._slept)

    async def _slept(self, delay_s: float) -> None:
        self.now_s += delay_s
        await self._sleep(0)


@pytest.fixture
async def fake_time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    return FakeTime(monkeypatch)


def sine(seconds: float, rate_hz: int = 24_000, hz: float = 1000.0) -> bytes:
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    return np.round(10_000 * np.sin(2 * np.pi * hz * t)).astype("<i2").tobytes()


async def packets(speaker: Speaker, count: int) -> list[np.ndarray]:
    return [(await speaker.recv()).to_ndarray().reshape(-1) for _ in range(count)]


def level(samples: np.ndarray) -> float:
    """RMS, int16 steps."""
    return float(np.sqrt(np.mean(samples.astype(float) ** 2)))


# --- the speaker ----------------------------------------------------------------------


async def test_packets_are_20_ms_of_silence_when_there_is_nothing_to_say(
    fake_time: FakeTime,
) -> None:
    speaker = Speaker()
    frames = [await speaker.recv() for _ in range(3)]
    for index, frame in enumerate(frames):
        assert (frame.samples, frame.sample_rate, frame.layout.name) == (960, 48_000, "mono")
        assert frame.pts == index * PACKET_SAMPLES
        assert frame.time_base == Fraction(1, 48_000)
        assert not frame.to_ndarray().any()


async def test_deadlines_are_absolute_and_do_not_drift(fake_time: FakeTime) -> None:
    speaker = Speaker()
    start_s = fake_time.now_s
    for index in range(500):
        await speaker.recv()
        assert fake_time.now_s == pytest.approx(start_s + index * PACKET_S, abs=0.006)
        fake_time.now_s += 0.005  # what sending costs


def spoken(pcm16: bytes, rate_hz: int) -> AudioDelta:
    return AudioDelta(request_id="r", pcm16=pcm16, sample_rate_hz=rate_hz)


async def test_a_short_delay_is_caught_up(fake_time: FakeTime) -> None:
    speaker = Speaker()
    await speaker.recv()
    fake_time.now_s += 0.1
    late_s = fake_time.now_s
    for _ in range(5):
        await speaker.recv()
    assert fake_time.now_s == late_s, "what is due is sent at once"
    await speaker.recv()
    assert fake_time.now_s == pytest.approx(late_s + PACKET_S)


async def test_after_a_long_sleep_there_is_no_burst(fake_time: FakeTime) -> None:
    speaker = Speaker()
    await speaker.recv()
    fake_time.now_s += LATE_S + 3
    await speaker.recv()
    woke_s = fake_time.now_s
    for index in range(1, 10):
        await speaker.recv()
        assert fake_time.now_s == pytest.approx(woke_s + index * PACKET_S)


@pytest.mark.parametrize("rate_hz", [16_000, 22_050, 24_000, 48_000])
async def test_speech_of_any_rate_comes_out_at_48_khz(fake_time: FakeTime, rate_hz: int) -> None:
    speaker = Speaker()
    speaker.play(spoken(sine(0.5, rate_hz), rate_hz))
    assert speaker.queued_s == pytest.approx(0.5, abs=0.005)
    heard = np.concatenate(await packets(speaker, 30))
    assert np.flatnonzero(heard).max() == pytest.approx(0.5 * SPEAKER_RATE_HZ, rel=0.01)
    middle = heard[4800:19200]
    assert level(middle) == pytest.approx(10_000 / 2**0.5, rel=0.03)
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(middle.size)))
    assert spectrum.argmax() * SPEAKER_RATE_HZ / middle.size == pytest.approx(1000, abs=10)


async def test_pieces_of_speech_join_without_a_gap(fake_time: FakeTime) -> None:
    whole, pieces = Speaker(), Speaker()
    speech = sine(0.5)
    whole.play(spoken(speech, 24_000))
    for start in range(0, len(speech), 1234):
        pieces.play(spoken(speech[start : start + 1234], 24_000))
    one = np.concatenate(await packets(whole, 24)).astype(int)
    other = np.concatenate(await packets(pieces, 24)).astype(int)
    assert np.abs(one - other).max() <= 2


async def test_flush_is_silence_from_the_next_packet_on(fake_time: FakeTime) -> None:
    speaker = Speaker()
    speaker.play(spoken(sine(5), 24_000))
    assert level((await packets(speaker, 5))[-1]) > 1000
    speaker.flush()
    assert speaker.queued_s == 0
    assert not np.concatenate(await packets(speaker, 5)).any()
    speaker.play(spoken(sine(0.2), 24_000))
    assert level((await packets(speaker, 3))[-1]) > 1000


async def test_pause_holds_what_is_queued(fake_time: FakeTime) -> None:
    speaker = Speaker()
    speaker.play(spoken(sine(1), 24_000))
    await packets(speaker, 5)
    speaker.pause()
    left_s = speaker.queued_s
    assert not np.concatenate(await packets(speaker, 10)).any()
    assert speaker.queued_s == left_s
    speaker.resume()
    assert level((await packets(speaker, 2))[-1]) > 1000


async def test_unplayed_counts_what_is_on_its_way(fake_time: FakeTime) -> None:
    speaker = Speaker()
    speaker.delay_s = 0.2
    speaker.play(spoken(sine(0.1), 24_000))
    await packets(speaker, 6)
    assert speaker.queued_s == 0
    assert 0.1 < speaker.unplayed_s <= 0.2
    await packets(speaker, 12)
    assert speaker.unplayed_s == 0


async def test_a_change_of_rate_midway(fake_time: FakeTime) -> None:
    speaker = Speaker()
    speaker.play(spoken(sine(0.2, 16_000), 16_000))
    speaker.play(spoken(sine(0.2, 24_000), 24_000))
    assert speaker.queued_s == pytest.approx(0.4, abs=0.005)


async def test_a_stopped_speaker_ends() -> None:
    speaker = Speaker()
    speaker.stop()
    with pytest.raises(MediaStreamError):
        await speaker.recv()


# --- camera and microphone ------------------------------------------------------------


class FakeSession:
    """What the pumps use of a session."""

    elapsed_s = 1.5

    def __init__(self) -> None:
        self.frames: list[FrameInput] = []
        self.heard = b""

    def frame(self, frame: FrameInput) -> None:
        self.frames.append(frame)

    def audio(self, pcm16: bytes) -> None:
        self.heard += pcm16


class FakeTrack(MediaStreamTrack):
    """Gives the frames it has, each `gap_s` after the one before, then ends."""

    kind = "video"

    def __init__(self, frames: list[Any], clock: FakeTime, gap_s: float) -> None:
        super().__init__()
        self._frames = frames
        self._clock = clock
        self._gap_s = gap_s
        self.read = 0

    async def recv(self) -> Any:
        if self.read == len(self._frames):
            raise MediaStreamError
        self._clock.now_s += self._gap_s
        self.read += 1
        return self._frames[self.read - 1]


def picture(
    width: int = 64, height: int = 48, pix_fmt: str = "yuv420p", pts: int | None = 0
) -> av.VideoFrame:
    frame = av.VideoFrame(width, height, pix_fmt)
    frame.pts = pts
    frame.time_base = Fraction(1, 90_000)
    return frame


async def pumped(
    frames: list[Any], clock: FakeTime, *, track_fps: float, fps: float
) -> FakeSession:
    session, life = FakeSession(), LifeSign()
    track = FakeTrack(frames, clock, 1 / track_fps)
    await pump_camera(track, session, life, fps=fps)  # type: ignore[arg-type]
    assert track.read == len(frames), "every frame is read, or the track lags"
    assert life.silent_s == 0
    return session


@pytest.mark.parametrize("track_fps", [10, 24, 30, 60])
@pytest.mark.parametrize("fps", [2, 10])
async def test_at_most_so_many_frames_a_second_are_handed_on(
    fake_time: FakeTime, track_fps: int, fps: int
) -> None:
    seconds = 10
    session = await pumped(
        [picture(pts=i) for i in range(seconds * track_fps)],
        fake_time,
        track_fps=track_fps,
        fps=fps,
    )
    assert len(session.frames) <= seconds * fps + 1
    assert len(session.frames) >= 0.85 * seconds * fps


async def test_frames_of_a_slow_track_are_all_handed_on_at_once(fake_time: FakeTime) -> None:
    session = await pumped([picture() for _ in range(20)], fake_time, track_fps=5, fps=10)
    assert len(session.frames) == 20


async def test_after_a_pause_there_is_no_burst(fake_time: FakeTime) -> None:
    session, life = FakeSession(), LifeSign()
    for gap_s in (1 / 30, 20.0, 1 / 30):
        track = FakeTrack([picture() for _ in range(30)], fake_time, gap_s)
        await pump_camera(track, session, life, fps=10)  # type: ignore[arg-type]
    assert len(session.frames) <= 11 + 30 + 11


async def test_each_frame_has_a_number_and_its_times(fake_time: FakeTime) -> None:
    session = await pumped(
        [picture(pts=90_000 * i) for i in range(3)], fake_time, track_fps=1, fps=10
    )
    assert [f.frame_id for f in session.frames] == ["camera-1", "camera-2", "camera-3"]
    assert [f.source_pts_ms for f in session.frames] == [0, 1000, 2000]
    assert all(f.internal and f.pts_ms == 1500 for f in session.frames)
    ids = [f.source.content_id(b"key") for f in session.frames]
    assert len(set(ids)) == 3


async def test_the_picture_may_change_its_size_and_format(fake_time: FakeTime) -> None:
    kinds = [
        (640, 480, "yuv420p"),
        (320, 240, "yuvj420p"),
        (319, 241, "yuv420p"),
        (240, 320, "nv12"),
    ]
    session = await pumped([picture(*kind) for kind in kinds], fake_time, track_fps=1, fps=10)
    shapes = [f.source.rgb().shape for f in session.frames]
    assert shapes == [(height, width, 3) for width, height, _ in kinds]
    assert [(t.width, t.height) for t in (f.source.thumbnail() for f in session.frames)] == [
        kind[:2] for kind in kinds
    ]


async def test_a_frame_without_a_time_stamp_has_none(fake_time: FakeTime) -> None:
    session = await pumped([picture(pts=None)], fake_time, track_fps=1, fps=10)
    assert session.frames[0].source_pts_ms is None


@pytest.mark.parametrize(
    ("rate_hz", "layout"), [(48_000, "stereo"), (48_000, "mono"), (16_000, "mono")]
)
async def test_the_microphone_becomes_16_khz_mono(
    fake_time: FakeTime, rate_hz: int, layout: str
) -> None:
    channels = 2 if layout == "stereo" else 1
    samples = np.frombuffer(sine(1.0, rate_hz, hz=440), "<i2")
    frames = []
    for start in range(0, samples.size, rate_hz // 50):
        part = np.repeat(samples[start : start + rate_hz // 50], channels).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(part, format="s16", layout=layout)
        frame.sample_rate, frame.pts = rate_hz, start
        frame.time_base = Fraction(1, rate_hz)
        frames.append(frame)
    session, life = FakeSession(), LifeSign()
    await pump_microphone(FakeTrack(frames, fake_time, 0.02), session, life)  # type: ignore[arg-type]
    heard = np.frombuffer(session.heard, "<i2")
    assert heard.size == pytest.approx(16_000, rel=0.01)
    middle = heard[2000:14_000]
    assert level(middle) == pytest.approx(10_000 / 2**0.5, rel=0.05)
    crossings = np.count_nonzero(np.diff(np.signbit(middle)))
    assert crossings / 2 * 16_000 / middle.size == pytest.approx(440, rel=0.02)


async def test_life_is_seconds_since_something_was_heard(fake_time: FakeTime) -> None:
    life = LifeSign()
    fake_time.now_s += 2
    assert life.silent_s == pytest.approx(2)
    life.heard()
    assert life.silent_s == 0
