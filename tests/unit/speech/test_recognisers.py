"""The real recognisers on a real recording; and their weights, missing and broken."""

import sys
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.priority import PriorityThread
from core.speech import moonshine, whisper
from core.speech.activity import ActivityDetector, SpeechEnded, SpeechPaused
from core.speech.moonshine import Moonshine
from core.speech.recognition import RECOGNISERS, Recogniser, Recognition, SpeechOnly
from core.speech.vad_model import SileroVoice, SileroWeights
from core.speech.whisper import Whisper
from core.weights import ModelError, WeightsFile
from tests.unit.speech.listening import beckett, clicks, feed, noise, silence

pytestmark = [pytest.mark.unit, pytest.mark.voice]


@pytest.fixture(scope="module")
def voices() -> Callable[[], SileroVoice]:
    weights = SileroWeights()
    return lambda: SileroVoice(weights)


@pytest.fixture(scope="module", params=list(RECOGNISERS))
def recogniser(request: pytest.FixtureRequest) -> Recogniser:
    if request.param == "whisper" and find_spec("ctranslate2") is None:
        pytest.skip("Whisper is an option, and not installed")
    return RECOGNISERS[request.param]()


def said(text: str) -> list[str]:
    return "".join(c if c.isalpha() else " " for c in text.lower()).split()


def test_a_recording(recogniser: Recogniser) -> None:
    text = recogniser.transcribe(beckett(), "en")
    assert text == text.strip()
    assert " ".join(said(text)).endswith(
        "tried ever failed no matter try again fail again fail better"
    )


def test_a_question_cut_short_at_both_ends(recogniser: Recogniser) -> None:
    sentence = beckett()[round(3.45 * 16_000) * 2 : round(5.65 * 16_000) * 2]
    assert said(recogniser.transcribe(sentence, "en")) == ["no", "matter", "try", "again"]


@pytest.mark.parametrize("language", ["", "en", "xx"])
def test_languages_it_does_not_know_are_no_error(recogniser: Recogniser, language: str) -> None:
    sentence = beckett()[round(3.45 * 16_000) * 2 : round(5.65 * 16_000) * 2]
    assert said(recogniser.transcribe(sentence, language))[-1:] == ["again"]


SOUNDS = {
    "nothing": lambda: b"",
    "one sample": lambda: b"\x01\x00",
    "silence": lambda: silence(2),
    "noise": lambda: noise(3, 0.05),
    "loud noise": lambda: noise(3, 0.3),
    "typing": lambda: clicks(4, every_s=0.2),
    "a hum": lambda: (8000 * np.sin(np.arange(48_000) / 25)).astype("<i2").tobytes(),
}


@pytest.mark.parametrize("name", list(SOUNDS))
def test_no_words_are_made_up(
    recogniser: Recogniser, voices: Callable[[], SileroVoice], name: str
) -> None:
    assert SpeechOnly(recogniser, voices).transcribe(SOUNDS[name](), "en") == ""


def test_it_stops_when_told_to(recogniser: Recogniser) -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 1

    assert recogniser.transcribe(beckett(), "en", stop) == ""
    assert recogniser.transcribe(beckett(), "en", lambda: True) == ""
    assert recogniser.transcribe(beckett(), "en") != ""


async def test_a_turn_is_recognised_once_and_before_it_ends(
    voices: Callable[[], SileroVoice],
) -> None:
    recogniser = SpeechOnly(Moonshine(), voices)
    asked: list[float] = []

    class Counting(SpeechOnly):
        def transcribe(self, pcm16: bytes, *options: Any) -> str:
            asked.append(len(pcm16) / 32_000)
            return recogniser.transcribe(pcm16, *options)

    thread = PriorityThread("recognition")
    recognition = Recognition(Counting(recogniser, voices), thread)
    sentences = beckett()[round(3.4 * 16_000) * 2 : round(5.75 * 16_000) * 2] + silence(0.6)
    texts = []
    try:
        for event in feed(ActivityDetector(voices()), sentences):
            if isinstance(event, SpeechPaused):
                recognition.expect(event.audio)
            elif isinstance(event, SpeechEnded):
                texts.append(await recognition.finish(event.audio))
    finally:
        await recognition.close()
        thread.close()
    assert [said(text) for text in texts] == [["no", "matter"], ["try", "again"]]
    assert len(asked) == 2


MOONSHINE_FILES = {
    "encoder": moonshine.ENCODER,
    "decoder": moonshine.DECODER,
    "tokens": moonshine.TOKENS,
}
WRONG = [
    ({"package": "no_such_package"}, "is not installed; install"),
    ({"path": "no/such/file"}, "is missing; install"),
    ({"sha256": "0" * 64}, "is not the expected file"),
]


@pytest.mark.parametrize("which", list(MOONSHINE_FILES))
@pytest.mark.parametrize(("change", "message"), WRONG)
def test_moonshine_without_its_weights(which: str, change: dict[str, str], message: str) -> None:
    with pytest.raises(ModelError, match=rf"recognition \(Moonshine, {which}\): .*{message}"):
        Moonshine(**{which: replace(MOONSHINE_FILES[which], **change)})


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "encoder.ort"
    path.write_bytes(b"not a model")
    broken = WeightsFile("recognition", None, str(path), sha256(b"not a model").hexdigest())
    with pytest.raises(ModelError, match="recognition: cannot be converted"):
        Moonshine(encoder=broken)


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_whisper_without_its_weights(change: dict[str, str], message: str) -> None:
    pytest.importorskip("ctranslate2")
    weights = (replace(whisper.WEIGHTS[0], **change), *whisper.WEIGHTS[1:])
    with pytest.raises(ModelError, match=message):
        Whisper(weights)


def test_whisper_without_its_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ModelError, match=r"Whisper.*install ctranslate2=="):
        Whisper()


def test_whispers_alphabet_spells_every_byte() -> None:
    letters = whisper.byte_alphabet()
    assert sorted(letters.values()) == list(range(256))
    assert (letters["a"], letters["Ġ"], letters["Ċ"]) == (ord("a"), ord(" "), ord("\n"))


def test_whispers_features_are_whole_frames_pairs_of_10_ms() -> None:
    filters = whisper.mel_filters(80)
    assert filters.shape == (80, 201)
    for seconds, frames in [(0.1, 800), (2.0, 800), (10.0, 1100), (29.5, 3000)]:
        samples = np.zeros(round(seconds * 16_000), np.float32)
        assert whisper.log_mel(samples, filters).shape == (80, frames)
