"""Turns out of a stream of audio, with a voice model that does what the test says."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.speech.activity import (
    WINDOW_S,
    ActivityDetector,
    ActivitySettings,
    SpeechConfirmed,
    SpeechEnded,
    SpeechPaused,
    SpeechStarted,
    VoiceHeard,
    level_dbfs,
)
from core.speech.pcm import pcm16_from_float
from tests.unit.speech.listening import FakeVoice, feed, kinds, quiet, voice, windows

pytestmark = pytest.mark.unit

PREROLL_BYTES = 9600  # 300 ms
TURN = ["Started", "Confirmed", "Paused", "Ended"]


def detector(**changes: float) -> ActivityDetector:
    return ActivityDetector(FakeVoice(), replace(ActivitySettings(), **changes))


def test_a_turn_and_its_times() -> None:
    events = feed(detector(), quiet(20) + voice(30) + quiet(20))
    assert kinds(events) == TURN
    started, confirmed, paused, ended = events
    assert isinstance(started, SpeechStarted)
    assert isinstance(confirmed, SpeechConfirmed)
    assert isinstance(paused, SpeechPaused)
    assert isinstance(ended, SpeechEnded)
    assert started.start_s == pytest.approx(20 * WINDOW_S)
    assert started.at_s - started.start_s == pytest.approx(0.2, abs=WINDOW_S)
    assert confirmed.at_s - started.start_s == pytest.approx(0.5, abs=WINDOW_S)
    assert ended.end_s == pytest.approx(50 * WINDOW_S)
    assert ended.speech_s == pytest.approx(30 * WINDOW_S)
    assert paused.at_s - ended.end_s == pytest.approx(0.2, abs=WINDOW_S)
    assert ended.at_s - ended.end_s == pytest.approx(0.5, abs=WINDOW_S)
    assert not ended.forced
    assert not ended.cut


def test_the_audio_reaches_from_the_preroll_to_the_pause() -> None:
    before = windows(0.1, 20)
    spoken = voice(30)
    *_, paused, ended = feed(detector(), before + spoken + quiet(20))
    assert isinstance(paused, SpeechPaused)
    assert isinstance(ended, SpeechEnded)
    assert paused.audio == before[-PREROLL_BYTES:] + spoken + quiet(6)
    assert ended.audio == paused.audio, "what was recognised early is the turn's text"


def test_at_the_streams_beginning_there_is_less_preroll() -> None:
    ended = feed(detector(), quiet(2) + voice(20) + quiet(20))[-1]
    assert isinstance(ended, SpeechEnded)
    assert ended.audio == quiet(2) + voice(20) + quiet(6)


def test_two_utterances_are_two_turns_that_share_no_audio() -> None:
    first, second = voice(20), windows(0.8, 25)
    events = feed(detector(), quiet(12) + first + quiet(18) + second + quiet(20))
    assert kinds(events) == TURN * 2
    ends = [event for event in events if isinstance(event, SpeechEnded)]
    assert first in ends[0].audio
    assert ends[0].audio[-1024:] != second[:1024]
    assert ends[1].audio == quiet(10)[-PREROLL_BYTES:] + second + quiet(6)
    assert ends[1].start_s == pytest.approx(50 * WINDOW_S)


def test_a_short_silence_between_turns_is_the_second_ones_preroll() -> None:
    """The turn ended at its pause: the silence after that is not yet in a turn."""
    events = feed(detector(), voice(20) + quiet(16) + voice(20) + quiet(20))
    ends = [event for event in events if isinstance(event, SpeechEnded)]
    assert ends[1].audio == quiet(10)[-PREROLL_BYTES:] + voice(20) + quiet(6)


def test_a_pause_in_a_sentence_does_not_end_the_turn() -> None:
    pause = quiet(11)  # 350 ms
    events = feed(detector(), quiet(10) + voice(20) + pause + voice(20) + quiet(20))
    assert kinds(events) == ["Started", "Confirmed", "Paused", "Resumed", "Paused", "Ended"]
    early, late, ended = events[2], events[4], events[5]
    assert isinstance(early, SpeechPaused)
    assert isinstance(late, SpeechPaused)
    assert isinstance(ended, SpeechEnded)
    assert late.audio.startswith(early.audio)
    assert ended.audio == late.audio
    assert ended.audio == quiet(10)[-PREROLL_BYTES:] + voice(20) + pause + voice(20) + quiet(6)


def test_silence_tells_nothing() -> None:
    assert feed(detector(), quiet(2000)) == []


@pytest.mark.parametrize("length", [1, 3, 5])  # windows; 6 are 200 ms
def test_voice_that_is_too_short_starts_no_turn(length: int) -> None:
    assert feed(detector(), (quiet(20) + voice(length)) * 10 + quiet(20)) == []


def test_what_was_too_short_is_in_the_preroll_of_what_follows() -> None:
    cough = windows(0.6, 2)
    events = feed(detector(), quiet(10) + cough + quiet(5) + voice(20) + quiet(20))
    ended = events[-1]
    assert isinstance(ended, SpeechEnded)
    assert cough + quiet(5) + voice(20) in ended.audio
    assert ended.start_s == pytest.approx(17 * WINDOW_S)


def test_a_short_gap_in_the_first_voice_is_bridged() -> None:
    events = feed(detector(), quiet(10) + voice(3) + quiet(2) + voice(3) + quiet(20))
    assert kinds(events) == ["Started", "Paused", "Ended"]
    assert isinstance(events[0], SpeechStarted)
    assert events[0].start_s == pytest.approx(10 * WINDOW_S)


def test_a_click_in_the_closing_silence_does_not_put_off_the_end() -> None:
    spoken = quiet(10) + voice(20)
    plain = feed(detector(), spoken + quiet(20))
    clicked = feed(detector(), spoken + quiet(8) + voice(1) + quiet(11))
    assert clicked == plain


def test_hysteresis() -> None:
    thresholds = {"on_threshold": 0.5, "off_threshold": 0.35}
    assert feed(detector(**thresholds), windows(0.45, 100)) == []
    wavering = quiet(10) + (windows(0.6, 1) + windows(0.4, 1)) * 20 + quiet(20)
    assert kinds(feed(detector(**thresholds), wavering)) == TURN
    fading = feed(detector(**thresholds), voice(10) + windows(0.4, 30) + windows(0.3, 20))
    ended = fading[-1]
    assert isinstance(ended, SpeechEnded)
    assert ended.end_s == pytest.approx(40 * WINDOW_S)


def test_the_longest_turn() -> None:
    d = detector(longest_turn_s=3.0)
    events = feed(d, quiet(10) + voice(120))
    ends = [event for event in events if isinstance(event, SpeechEnded)]
    assert [event.cut for event in ends] == [True]
    assert ends[0].speech_s == pytest.approx(3.0, abs=WINDOW_S)
    assert d.speaking, "who goes on speaking begins a new turn"
    later = feed(d, quiet(20))[-1]
    assert isinstance(later, SpeechEnded)
    assert len(ends[0].audio) + len(later.audio) == PREROLL_BYTES + len(voice(120) + quiet(6))


def test_backchannels_are_told_by_their_length() -> None:
    events = feed(detector(), quiet(10) + voice(12) + quiet(20))  # "mhm", 384 ms
    assert kinds(events) == ["Started", "Paused", "Ended"], "never confirmed"
    ended = events[-1]
    assert isinstance(ended, SpeechEnded)
    assert ended.speech_s < ActivitySettings().short_s
    assert kinds(feed(detector(), quiet(10) + voice(16) + quiet(20))) == TURN


class TestPlaying:
    """While our own voice plays, what is heard may be its echo."""

    def test_weak_voice_does_not_count(self) -> None:
        weak = quiet(10) + windows(0.6, 30) + quiet(20)
        d = detector()
        d.playing(True)
        assert feed(d, quiet(50) + weak) == []
        d.playing(False)
        assert kinds(feed(d, quiet(10) + weak)) == TURN

    def test_strong_voice_does(self) -> None:
        d = detector()
        d.playing(True)
        events = feed(d, quiet(50) + voice(30))
        assert isinstance(events[0], VoiceHeard)
        assert isinstance(events[1], SpeechStarted)
        assert events[0].at_s < events[1].at_s - 0.1
        assert events[1].at_s - events[1].start_s <= 0.25, "soon enough to interrupt"

    def test_in_its_first_moments_voice_must_last_longer(self) -> None:
        short = voice(8) + quiet(20)
        d = detector()
        feed(d, quiet(10))
        d.playing(True)
        assert feed(d, short) == []
        assert "Started" in kinds(feed(d, short)), "0.9 s later it need not"
        early = detector()
        early.playing(True)
        assert kinds(feed(early, voice(20) + quiet(20))) == TURN

    def test_quiet_sound_does_not_count(self) -> None:
        """However sure the model is: an echo that the browser has nearly removed."""

        class Sure(FakeVoice):
            def probability(self, window: np.ndarray) -> float:
                return 0.95 if window.any() else 0.0

        whisper = windows(0.005, 30)
        d = ActivityDetector(Sure())
        d.playing(True)
        assert feed(d, quiet(50) + whisper) == []
        assert "Started" in kinds(feed(ActivityDetector(Sure()), quiet(50) + whisper))

    def test_the_echo_outlives_the_playback(self) -> None:
        d = detector(playing_tail_s=0.3)
        d.playing(True)
        feed(d, quiet(50))
        d.playing(False)
        assert feed(d, windows(0.6, 8)) == []
        assert kinds(feed(d, windows(0.6, 20) + quiet(20))) == TURN

    def test_a_turn_that_goes_on_is_not_harmed(self) -> None:
        d = detector()
        feed(d, quiet(10) + voice(10))
        d.playing(True)
        assert kinds(feed(d, windows(0.6, 20) + quiet(20))) == ["Confirmed", "Paused", "Ended"]


class TestPushToTalk:
    def test_the_button_makes_the_turn(self) -> None:
        model = FakeVoice()
        d = ActivityDetector(model)
        feed(d, windows(0.1, 20))
        asked = model.windows
        (started,) = d.begin()
        assert d.begin() == []
        silent = feed(d, quiet(30) + windows(0.2, 20))
        (ended,) = d.end()
        assert silent == []
        assert model.windows == asked, "nobody asks the model"
        assert isinstance(started, SpeechStarted)
        assert isinstance(ended, SpeechEnded)
        assert started.forced
        assert ended.forced
        assert not ended.cut
        assert ended.audio == windows(0.1, 10)[-PREROLL_BYTES:] + quiet(30) + windows(0.2, 20)
        assert ended.speech_s == pytest.approx(50 * WINDOW_S)
        assert d.end() == []

    def test_what_is_less_than_a_window_is_in_it(self) -> None:
        d = detector()
        d.begin()
        d.feed(b"\x01\x00" * 700)
        (ended,) = d.end()
        assert isinstance(ended, SpeechEnded)
        assert ended.audio == b"\x01\x00" * 700
        assert ended.end_s == pytest.approx(700 / 16000)

    def test_it_works_without_a_model(self) -> None:
        d = ActivityDetector(None)
        assert feed(d, voice(100)) == []
        d.begin()
        feed(d, voice(10))
        assert kinds(d.end()) == ["Ended"]

    def test_hands_free_can_be_switched_off(self) -> None:
        model = FakeVoice()
        d = ActivityDetector(model)
        d.hands_free(False)
        assert feed(d, voice(50) + quiet(20)) == []
        assert model.windows == 0
        d.hands_free(True)
        assert model.resets == 1, "it has missed what came in between"
        assert kinds(feed(d, quiet(10) + voice(20) + quiet(20))) == TURN

    def test_a_turn_can_be_taken_over(self) -> None:
        d = detector()
        feed(d, quiet(10) + voice(20))
        assert d.begin() == [], "it has started already"
        assert feed(d, quiet(50)) == [], "and only ends with the button"
        (ended,) = d.end()
        assert isinstance(ended, SpeechEnded)
        assert ended.audio.endswith(voice(20) + quiet(50))

    def test_the_longest_turn_holds_here_too(self) -> None:
        d = detector(longest_turn_s=1.0)
        d.begin()
        assert kinds(feed(d, quiet(40))) == ["Ended"]

    def test_end_ends_any_turn(self) -> None:
        """The microphone was switched off in mid-sentence."""
        d = detector()
        feed(d, quiet(10) + voice(20))
        (ended,) = d.end()
        assert isinstance(ended, SpeechEnded)
        assert ended.cut
        assert ended.end_s == pytest.approx(30 * WINDOW_S)


def test_reset_forgets_all_but_the_time() -> None:
    model = FakeVoice()
    d = ActivityDetector(model)
    feed(d, windows(0.2, 20) + voice(10))
    assert d.speaking
    assert d.audio.endswith(voice(10))
    d.reset()
    assert not d.speaking
    assert d.audio == b""
    assert model.resets == 1
    assert d.now_s == pytest.approx(30 * WINDOW_S)
    events = feed(d, voice(20) + quiet(20))
    assert isinstance(events[0], SpeechStarted)
    assert events[0].start_s == pytest.approx(30 * WINDOW_S)
    ended = events[-1]
    assert isinstance(ended, SpeechEnded)
    assert ended.audio == voice(20) + quiet(6), "no pre-roll from before"


@pytest.mark.parametrize(
    "changes", [{"on_threshold": 0.2}, {"off_threshold": -0.1}, {"pause_s": 0.6}, {"pause_s": 0.0}]
)
def test_settings_that_cannot_be(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="activity"):
        detector(**changes)


def test_levels() -> None:
    assert level_dbfs(np.ones(512, np.float32)) == pytest.approx(0.0)
    assert level_dbfs(np.full(512, 0.1, np.float32)) == pytest.approx(-20.0)
    assert level_dbfs(np.zeros(512, np.float32)) == -120.0
    assert level_dbfs(np.zeros(0, np.float32)) == -120.0


@settings(deadline=None)
@given(st.lists(st.integers(1, 5000), min_size=1, max_size=50))
def test_the_size_of_the_blocks_changes_nothing(sizes: list[int]) -> None:
    """Odd ones neither, which cut samples in half."""
    stream = quiet(12) + voice(25) + quiet(8) + voice(3) + quiet(30) + windows(0.6, 20) + quiet(20)
    expected = detector().feed(stream)
    d = detector()
    events = []
    place = turn = 0
    while place < len(stream):
        size = sizes[turn % len(sizes)]
        events += d.feed(stream[place : place + size])
        place, turn = place + size, turn + 1
    assert events == expected
    assert kinds(events) == ["Started", "Confirmed", "Paused", "Resumed", "Paused", "Ended", *TURN]
    assert d.now_s == pytest.approx(len(stream) / 32000)


PROBABILITIES = st.sampled_from([0.0, 0.1, 0.3, 0.4, 0.6, 0.8, 1.0])


@settings(deadline=None)
@given(st.lists(st.tuples(PROBABILITIES, st.integers(1, 30)), max_size=60))
def test_whatever_is_heard_the_events_make_sense(heard: list[tuple[float, int]]) -> None:
    d = detector(longest_turn_s=4.0)
    stream = b"".join(windows(probability, count) for probability, count in heard)
    state = "silent"
    last_at_s, in_turns = 0.0, 0
    paused: SpeechPaused | None = None
    for event in feed(d, stream) + d.end():
        assert event.at_s >= last_at_s
        last_at_s = event.at_s
        if isinstance(event, SpeechStarted):
            assert state == "silent"
            state, paused = "speaking", None
        elif isinstance(event, SpeechPaused):
            assert state == "speaking"
            state, paused = "paused", event
        elif isinstance(event, SpeechEnded):
            assert state != "silent"
            assert event.start_s < event.end_s <= event.at_s
            assert event.at_s - event.start_s <= 4.0 + WINDOW_S
            assert event.audio in stream
            if state == "paused" and paused is not None:
                assert event.audio == paused.audio
            state, in_turns = "silent", in_turns + len(event.audio)
        elif not isinstance(event, SpeechConfirmed):  # resumed
            assert state == "paused"
            state = "speaking"
    assert state == "silent"
    assert in_turns <= len(stream), "no audio is in two turns"


def test_float_audio_comes_through() -> None:
    """The path of a client that sends what `pcm16_from_float` makes."""
    samples = np.full(16_000, 0.3, np.float32)
    assert "Started" in kinds(feed(detector(), pcm16_from_float(samples)))
