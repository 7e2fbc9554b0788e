"""An answer is spoken while it is written: order, lead, cancellation, rates, real voices."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from core.priority import PriorityThread
from core.speech import phonemes, voices
from core.speech.synthesis import (
    FADE_S,
    OUTPUT_RATE_HZ,
    SpokenChunk,
    Synthesis,
    pause_s,
    pieces,
    resampled,
    speak_clause,
)
from core.speech.voices import VOICES, Voice, load_voice
from core.weights import ModelError, run_session
from tests.fakes import WAIT_S, FakeClock

pytestmark = pytest.mark.unit

CHAR_S = 0.05  # how long the tone voice takes for a character


class ToneVoice:
    """Says every text as a tone, CHAR_S a character. `gate` holds it back."""

    name = "tone"

    def __init__(self, sample_rate_hz: int = 24_000, hz: float = 440.0) -> None:
        self.sample_rate_hz = sample_rate_hz
        self.hz = hz
        self.said: list[str] = []
        self.gate: threading.Event | None = None
        self.begun = threading.Event()

    def speak(self, text: str, speed: float = 1.0) -> NDArray[np.float32]:
        self.said.append(text)
        self.begun.set()
        if self.gate is not None:
            assert self.gate.wait(WAIT_S)
        t = np.arange(round(len(text) * CHAR_S / speed * self.sample_rate_hz))
        return (0.5 * np.sin(2 * np.pi * self.hz * t / self.sample_rate_hz)).astype(np.float32)


class BrokenVoice(ToneVoice):
    def speak(self, text: str, speed: float = 1.0) -> NDArray[np.float32]:
        raise RuntimeError("no breath")


@pytest.fixture
def thread() -> Iterator[PriorityThread]:
    thread = PriorityThread("speech")
    yield thread
    thread.close()


async def all_of(synthesis: Synthesis) -> list[SpokenChunk]:
    async with asyncio.timeout(WAIT_S):
        return [chunk async for chunk in synthesis.chunks()]


async def said(
    text: str, voice: Voice, thread: PriorityThread, *, speed: float = 1.0
) -> list[SpokenChunk]:
    """Everything of a text that is there at once and heard at once."""
    synthesis = Synthesis(voice, thread, speed=speed, unplayed_s=lambda: 0.0)
    synthesis.feed(text)
    synthesis.finish()
    return await all_of(synthesis)


def joined(chunks: list[SpokenChunk]) -> NDArray[np.float32]:
    return np.concatenate([chunk.audio for chunk in chunks])


def pitch_hz(audio: NDArray[np.float32], rate_hz: int = OUTPUT_RATE_HZ) -> float:
    """The strongest frequency."""
    spectrum = np.abs(np.fft.rfft(audio * np.hanning(len(audio))))
    return float(np.argmax(spectrum) * rate_hz / len(audio))


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, WAIT_S)


async def next_of(chunks: AsyncIterator[SpokenChunk]) -> SpokenChunk:
    async with asyncio.timeout(WAIT_S):
        return await anext(chunks)


async def test_clauses_are_spoken_in_order_and_the_texts_are_the_text(
    thread: PriorityThread,
) -> None:
    voice = ToneVoice()
    text = "Yes, I see 2 cups, e.g. red ones. **Both** are full!\n\nIs that all?"
    chunks = await said(text, voice, thread)
    assert voice.said == [
        "Yes, I see two cups,",
        "for example red ones.",
        "Both are full!",
        "Is that all?",
    ]
    assert "".join(chunk.text for chunk in chunks) == text
    assert {chunk.sample_rate_hz for chunk in chunks} == {24_000}
    assert all(chunk.audio.dtype == np.float32 for chunk in chunks)


async def test_the_first_chunk_comes_before_the_text_has_ended(thread: PriorityThread) -> None:
    synthesis = Synthesis(ToneVoice(), thread, unplayed_s=lambda: 0.0)
    chunks = synthesis.chunks()
    waiting = asyncio.ensure_future(next_of(chunks))
    for delta in ("I can ", "see a cup", ", and ", "more"):
        synthesis.feed(delta)
    assert (await waiting).text.startswith("I can ")
    synthesis.cancel()


async def test_it_runs_ahead_by_the_lead_and_no_more(thread: PriorityThread) -> None:
    unplayed_s = 0.0
    synthesis = Synthesis(ToneVoice(), thread, lead_s=2.0, unplayed_s=lambda: unplayed_s)
    for number in range(10):
        synthesis.feed(f"This is sentence {number}. ")
    synthesis.finish()
    chunks = synthesis.chunks()
    given_s = 0.0
    while True:
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.wait({waiting}, timeout=0.3)
        if not waiting.done():
            break
        given_s += waiting.result().duration_s
        unplayed_s = given_s
    assert 1.0 < given_s <= 2.0
    unplayed_s = 0.5
    synthesis.moved()
    async with asyncio.timeout(WAIT_S):
        await waiting
    synthesis.cancel()


async def test_without_reports_playback_is_taken_to_go_on_with_time(
    thread: PriorityThread,
) -> None:
    clock = FakeClock()
    synthesis = Synthesis(ToneVoice(), thread, lead_s=1.0, clock=clock)
    synthesis.feed("x" * 100)
    synthesis.finish()
    chunks = synthesis.chunks()
    given_s = (await next_of(chunks)).duration_s
    waiting = asyncio.ensure_future(next_of(chunks))
    while not waiting.done():
        clock.advance(0.05)
        synthesis.moved()
        await asyncio.sleep(0)
    given_s += waiting.result().duration_s
    assert given_s - (clock.now_s - 1000.0) <= 1.0 + 0.1
    synthesis.cancel()


async def test_cancel_ends_it_while_a_clause_is_synthesised(thread: PriorityThread) -> None:
    voice = ToneVoice()
    voice.gate = threading.Event()
    synthesis = Synthesis(voice, thread, unplayed_s=lambda: 0.0)
    synthesis.feed("Hello there. And more. ")
    reading = asyncio.ensure_future(all_of(synthesis))
    await until(voice.begun)
    synthesis.cancel()
    assert await reading == [], "it ends although the voice has not returned"
    voice.gate.set()
    synthesis.feed("Too late. ")
    assert await all_of(synthesis) == []
    chunks = await said("Hello again.", voice, thread)
    assert "".join(chunk.text for chunk in chunks) == "Hello again."
    assert voice.said == ["Hello there.", "Hello again."]


async def test_cancel_ends_it_while_it_waits_for_playback(thread: PriorityThread) -> None:
    synthesis = Synthesis(ToneVoice(), thread, unplayed_s=lambda: 100.0)
    synthesis.feed("Hello there. And more. ")
    reading = asyncio.ensure_future(all_of(synthesis))
    await asyncio.sleep(0.05)
    synthesis.cancel()
    assert await reading == []


async def test_cancel_ends_it_while_it_waits_for_text(thread: PriorityThread) -> None:
    synthesis = Synthesis(ToneVoice(), thread)
    reading = asyncio.ensure_future(all_of(synthesis))
    await asyncio.sleep(0)
    synthesis.cancel()
    assert await reading == []


async def test_a_reader_that_is_cancelled_takes_its_work_along(thread: PriorityThread) -> None:
    voice = ToneVoice()
    voice.gate = threading.Event()
    synthesis = Synthesis(voice, thread, unplayed_s=lambda: 0.0)
    synthesis.feed("First clause. Second clause. ")
    reading = asyncio.ensure_future(all_of(synthesis))
    await until(voice.begun)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    voice.gate.set()
    assert await said("Something else.", voice, thread)
    assert voice.said == ["First clause.", "Something else."]


async def test_a_cancelled_answer_leaves_the_thread_to_the_next(thread: PriorityThread) -> None:
    voice = ToneVoice()
    voice.gate = threading.Event()
    busy = Synthesis(voice, thread, unplayed_s=lambda: 0.0)
    busy.feed("First answer. X")
    queued = Synthesis(voice, thread, unplayed_s=lambda: 0.0)
    queued.feed("Never said. X")
    readings = [asyncio.ensure_future(all_of(busy)), asyncio.ensure_future(all_of(queued))]
    await until(voice.begun)
    queued.cancel()
    voice.gate.set()
    busy.finish()
    await asyncio.gather(*readings)
    assert "Never said." not in voice.said


@pytest.mark.parametrize("rate_hz", [16_000, 22_050, 24_000, 48_000])
async def test_the_output_is_24_khz_with_pitch_and_length_kept(
    rate_hz: int, thread: PriorityThread
) -> None:
    voice = ToneVoice(rate_hz, hz=1000.0)
    text = "A tone that is spoken."
    audio = joined(await said(text, voice, thread))
    assert len(audio) / 24_000 == pytest.approx(len(text) * CHAR_S + pause_s(text), abs=0.01)
    assert pitch_hz(audio) == pytest.approx(1000.0, abs=2.0)


def test_resampling_adds_no_clicks() -> None:
    t = np.arange(22_050 * 2)
    tone = (0.5 * np.sin(2 * np.pi * 440 * t / 22_050)).astype(np.float32)
    audio = resampled(tone, 22_050, 24_000)
    ideal = 0.5 * np.sin(2 * np.pi * 440 * np.arange(len(audio)) / 24_000)
    assert len(audio) == 48_000
    assert np.abs(audio - ideal)[100:-100].max() < 1e-3
    assert np.abs(audio - ideal).max() < 0.02


def test_clauses_begin_and_end_softly() -> None:
    class Step(ToneVoice):
        def speak(self, text: str, speed: float = 1.0) -> NDArray[np.float32]:
            return np.full(24_000, 0.5, np.float32)

    audio = speak_clause(Step(), "Well,", "Well,")
    edge = round(FADE_S * OUTPUT_RATE_HZ)
    assert np.abs(np.diff(audio, prepend=0.0)).max() < 2 * np.abs(audio).max() / edge


async def test_speed_changes_how_long_it_takes_but_not_the_rate(thread: PriorityThread) -> None:
    slow = joined(await said("How long is this?", ToneVoice(), thread))
    fast = joined(await said("How long is this?", ToneVoice(), thread, speed=2.0))
    assert len(slow) == pytest.approx(2 * len(fast), rel=0.05)
    assert pitch_hz(fast) == pytest.approx(pitch_hz(slow), abs=2.0)


@pytest.mark.parametrize("text", ["...", "😀", " ", "", "**", "\n\n", "。"])
async def test_nothing_to_say_is_silent(text: str, thread: PriorityThread) -> None:
    voice = ToneVoice()
    chunks = await said(text, voice, thread)
    assert voice.said == []
    assert sum(len(chunk.audio) for chunk in chunks) == 0


async def test_a_broken_voice_says_so_and_the_thread_lives(thread: PriorityThread) -> None:
    with pytest.raises(ModelError, match="voice tone: cannot speak: no breath"):
        await said("Hello there.", BrokenVoice(), thread)
    assert await said("Hello there.", ToneVoice(), thread)


def test_pauses_follow_the_marks() -> None:
    pauses = [
        pause_s(clause) for clause in ("the ", "cup, ", 'cup." ', "Why? ", "item\n", "a.\n\n")
    ]
    assert pauses == [0.03, 0.12, 0.3, 0.35, 0.3, 0.5]


def test_pieces_carry_their_share_of_the_words() -> None:
    audio = np.arange(72_000, dtype=np.float32)
    out = pieces("one two three four five ", audio)
    assert len(out) == 5
    assert "".join(piece.text for piece in out) == "one two three four five "
    np.testing.assert_array_equal(joined(out), audio)


def test_there_is_no_such_voice() -> None:
    with pytest.raises(
        ModelError, match="voice robot: there is no such voice, choose heart or tenor"
    ):
        load_voice("robot")


def test_missing_weights_name_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = replace(voices.HEART_MODEL, package="no_such_package")
    monkeypatch.setattr(voices, "HEART_MODEL", gone)
    monkeypatch.setattr(voices, "_phonemizer", lambda: None)
    with pytest.raises(ModelError, match="voice heart: no_such_package is not installed; install"):
        load_voice("heart")


def test_changed_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phonemes, "GOLD", replace(phonemes.GOLD, sha256="0" * 64))
    with pytest.raises(ModelError, match=r"pronunciation: .* is not the expected file"):
        phonemes.Phonemizer.load()


def test_broken_weights_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "heart.onnx"
    broken.write_bytes(b"not a model")
    monkeypatch.setattr(voices, "run_session", lambda what, model: run_session(what, broken))
    monkeypatch.setattr(voices, "_phonemizer", lambda: None)
    with pytest.raises(ModelError, match="voice heart: cannot be loaded"):
        load_voice("heart")


# Real voices.


@pytest.fixture(scope="module", params=list(VOICES))
def voice(request: pytest.FixtureRequest) -> Voice:
    return load_voice(request.param)


@pytest.fixture(scope="module")
def phonemize() -> phonemes.Phonemizer:
    return phonemes.Phonemizer.load()


@pytest.mark.voice
async def test_a_voice_speaks_at_24_khz(voice: Voice, thread: PriorityThread) -> None:
    text = "I can see a woman in an orange space suit, smiling at the camera."
    audio = joined(await said(text, voice, thread))
    assert 2.5 < len(audio) / OUTPUT_RATE_HZ < 6.0, "at the wrong rate it would last otherwise"
    assert 0.02 < audio.std() < 0.3
    assert np.abs(audio).max() <= 1.0
    loud = np.abs(np.fft.rfft(audio)) ** 2
    hz = np.fft.rfftfreq(len(audio), 1 / OUTPUT_RATE_HZ)
    assert loud[(hz > 80) & (hz < 5000)].sum() > 0.9 * loud.sum(), "it is not speech"


@pytest.mark.voice
async def test_a_voice_can_hurry(voice: Voice, thread: PriorityThread) -> None:
    text = "The red car moved from left to right."
    slow, fast = [len(joined(await said(text, voice, thread, speed=speed))) for speed in (0.8, 1.4)]
    assert 1.4 < slow / fast < 2.2


def voice_pitch_hz(audio: NDArray[np.float32]) -> float:
    """The median over the voiced frames, by autocorrelation."""
    pitches = []
    for start in range(0, len(audio) - 1200, 600):
        frame = audio[start : start + 1200]
        echo = np.correlate(frame, frame, "full")[1199:]
        lag = 60 + int(np.argmax(echo[60:480]))  # 50 to 400 Hz
        if echo[0] > 1.0 and echo[lag] > 0.4 * echo[0]:
            pitches.append(OUTPUT_RATE_HZ / lag)
    return float(np.median(pitches))


@pytest.mark.voice
async def test_the_tenor_is_deeper(thread: PriorityThread) -> None:
    text = "I can see a woman in an orange space suit, smiling at the camera."
    heart, tenor = [
        joined(await said(text, load_voice(name), thread)) for name in ("heart", "tenor")
    ]
    assert len(tenor) == pytest.approx(len(heart), rel=0.05)
    assert voice_pitch_hz(tenor) < 0.8 * voice_pitch_hz(heart)


@pytest.mark.voice
@pytest.mark.parametrize("text", ["中文", "a", "Ω", "'", "x" * 500, "1" * 50, "A.", "-", "ß"])
async def test_a_voice_survives_odd_text(text: str, voice: Voice, thread: PriorityThread) -> None:
    chunks = await said(text, voice, thread)
    assert "".join(chunk.text for chunk in chunks) == text
    assert np.isfinite(joined(chunks)).all()


@pytest.mark.voice
@pytest.mark.parametrize(
    ("text", "phones"),
    [
        ("Hello there.", "həlˈO ðˈɛɹ."),
        ("the record shows", "ðə ɹˈɛkəɹd ʃˈOz"),
        ("they record it", "ðA ɹəkˈɔɹd ɪt"),
        ("the apple, a pear", "ði ˈæpᵊl, ɐ pˈɛɹ"),
        ("they used to eat", "ðA jˈust tʊ ˈit"),
        ("don't, it's, the dogs' bowl", "dˈOnt, ɪts, ðə dˈɔɡz bˈOl"),
        ("the U.S. and OCR", "ðə jˌuˈɛs ænd ˌOsˌiˈɑɹ"),
        ("twenty-one", "twˌɛntiwˈʌn"),
    ],
)
def test_words_become_phonemes(text: str, phones: str, phonemize: phonemes.Phonemizer) -> None:
    assert phonemize(text) == phones


@pytest.mark.voice
def test_unknown_words_are_read_by_their_letters(phonemize: phonemes.Phonemizer) -> None:
    said = phonemize("Kowalczyk xylorimba")
    assert len(said.split()) == 2
    assert said.count("ˈ") >= 2


@pytest.mark.voice
def test_foreign_letters_are_passed_over(phonemize: phonemes.Phonemizer) -> None:
    assert phonemize("中文, 12") == ","
