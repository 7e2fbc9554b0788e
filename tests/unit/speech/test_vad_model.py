"""Silero's model: what it takes for voice, on real and on made sounds; and its weights."""

import time
from dataclasses import replace

import numpy as np
import pytest

from core.speech.activity import (
    WINDOW_SAMPLES,
    ActivityDetector,
    SpeechEnded,
    SpeechPaused,
)
from core.speech.vad_model import SILERO, SileroVoice, SileroWeights
from core.weights import ModelError
from tests.unit.speech.listening import beckett, clicks, feed, kinds, noise, silence

pytestmark = [pytest.mark.unit, pytest.mark.voice]

TURN = ["Started", "Confirmed", "Paused", "Ended"]


@pytest.fixture(scope="module")
def weights() -> SileroWeights:
    return SileroWeights()


def part(from_s: float, to_s: float) -> bytes:
    return beckett()[round(from_s * 16_000) * 2 : round(to_s * 16_000) * 2]


SOUNDS = {
    "silence": lambda: silence(5),
    "faint noise": lambda: noise(5, 0.002),
    "noise": lambda: noise(5, 0.05),
    "loud noise": lambda: noise(5, 0.3),
    "bursts of noise": lambda: b"".join(noise(0.25, 0.2, n) + silence(0.5) for n in range(6)),
    "clicks": lambda: clicks(5, every_s=0.5),
    "typing": lambda: clicks(5, every_s=0.12),
    "knocking": lambda: clicks(5, every_s=0.3, length_s=0.06),
    "a hum": lambda: (8000 * np.sin(np.arange(80_000) / 25)).astype("<i2").tobytes(),
}


@pytest.mark.parametrize("name", list(SOUNDS))
def test_what_is_not_voice_starts_no_turn(weights: SileroWeights, name: str) -> None:
    assert feed(ActivityDetector(SileroVoice(weights)), SOUNDS[name]()) == []


def test_six_sentences_are_six_turns(weights: SileroWeights) -> None:
    events = feed(ActivityDetector(SileroVoice(weights)), beckett())
    assert kinds(events) == TURN * 6
    ends = [event for event in events if isinstance(event, SpeechEnded)]
    assert all(0.5 < event.speech_s < 1.2 for event in ends)
    assert ends[0].start_s == pytest.approx(0.4, abs=0.1)
    assert ends[0].end_s == pytest.approx(1.2, abs=0.1)


def test_voice_is_heard_in_noise(weights: SileroWeights) -> None:
    spoken = np.frombuffer(beckett(), "<i2").astype(np.int32)
    hiss = np.frombuffer(noise(len(spoken) / 16_000, 0.01), "<i2")
    mixed = np.clip(spoken + hiss, -32768, 32767).astype("<i2").tobytes()
    assert kinds(feed(ActivityDetector(SileroVoice(weights)), mixed)).count("Ended") == 6


def test_a_minute_of_noise_does_not_deafen_it(weights: SileroWeights) -> None:
    detector = ActivityDetector(SileroVoice(weights))
    assert feed(detector, noise(60, 0.01)) == []
    assert kinds(feed(detector, part(0.2, 1.7) + silence(0.3))) == TURN


def test_two_utterances(weights: SileroWeights) -> None:
    spoken = silence(0.5) + part(0.3, 1.25) + silence(0.8) + part(1.85, 2.85) + silence(0.8)
    events = feed(ActivityDetector(SileroVoice(weights)), spoken)
    assert kinds(events) == TURN * 2


def test_a_pause_of_350_ms_in_a_sentence(weights: SileroWeights) -> None:
    spoken = silence(0.5) + part(0.3, 1.22) + silence(0.35) + part(1.89, 2.85) + silence(0.8)
    events = feed(ActivityDetector(SileroVoice(weights)), spoken)
    assert kinds(events) == ["Started", "Confirmed", "Paused", "Resumed", "Paused", "Ended"]
    paused, ended = events[-2:]
    assert isinstance(paused, SpeechPaused)
    assert isinstance(ended, SpeechEnded)
    assert ended.audio == paused.audio
    assert ended.speech_s == pytest.approx(2.2, abs=0.15)


def test_sessions_do_not_hear_each_other(weights: SileroWeights) -> None:
    samples = np.frombuffer(part(0.3, 2.0), "<i2").astype(np.float32) / 32768.0
    windows = samples[: len(samples) // WINDOW_SAMPLES * WINDOW_SAMPLES].reshape(-1, WINDOW_SAMPLES)
    alone = SileroVoice(weights)
    expected = [alone.probability(window) for window in windows]
    first, other = SileroVoice(weights), SileroVoice(weights)
    got = []
    for window in windows:
        got.append(first.probability(window))
        other.probability(-window[::-1])
    assert got == expected
    first.reset()
    assert [first.probability(window) for window in windows] == expected


def test_an_idle_session_costs_little(weights: SileroWeights) -> None:
    detector = ActivityDetector(SileroVoice(weights))
    room = noise(8, 0.003)
    before_s = time.thread_time()
    feed(detector, room)
    assert (time.thread_time() - before_s) / 8 < 0.05, "of a core"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"package": "no_such_package"}, r"not installed; install silero-vad=="),
        ({"path": "data/no_such_file.onnx"}, r"is missing; install silero-vad=="),
        ({"sha256": "0" * 64}, "not the expected file"),
    ],
)
def test_missing_or_wrong_weights_are_said_to_be(change: dict[str, str], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        SileroWeights(replace(SILERO, **change))
