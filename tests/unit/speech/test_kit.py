"""The kit: parts that are off, broken or there; nothing else depends on them."""

from dataclasses import replace

import pytest

from core.errors import SightlineError
from core.protocol import SpeechParts
from core.speech import kit as kit_module
from core.speech import vad_model
from core.speech.kit import SpeechKit
from core.weights import ModelError
from tests.fakes import ScriptedRecogniser, ToneVoice, sound

pytestmark = pytest.mark.unit


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recogniser and a voice that need no weights."""
    recognisers = {"moonshine": lambda: ScriptedRecogniser("Hello.")}
    monkeypatch.setattr(kit_module, "RECOGNISERS", recognisers)
    monkeypatch.setattr(kit_module, "VOICES", {"heart": None})
    monkeypatch.setattr(kit_module, "load_voice", lambda name: ToneVoice())


async def test_everything_off_is_nothing() -> None:
    kit = SpeechKit()
    await kit.load()
    assert kit.parts == SpeechParts()
    assert {status.status for status in kit.status.values()} == {"off"}
    assert kit.voice_model() is None
    assert kit.synthesis(None, speed=1, unplayed_s=lambda: 0.0) is None
    with pytest.raises(SightlineError, match="not recognised on this server"):
        await kit.transcribe(b"\0\0")
    kit.close()


async def test_what_is_loaded_is_told(scripted: None) -> None:
    kit = SpeechKit(asr="moonshine", tts="default")
    assert kit.status["recognition"].status == "loading"
    await kit.load()
    assert kit.parts == SpeechParts(recognition="scripted", voices=["heart"])
    assert [kit.status[part].status for part in ("recognition", "voice")] == ["ready", "ready"]
    assert await kit.transcribe(sound(1, loud=True)) == "Hello."
    kit.close()


async def test_a_broken_part_is_off_and_the_rest_works(
    scripted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ModelError("voice activity: the file is missing; install silero-vad")

    monkeypatch.setattr(kit_module, "SileroWeights", broken)
    kit = SpeechKit(vad="silero", asr="moonshine", tts="default")
    await kit.load()
    assert kit.status["activity"].status == "failed"
    assert "install silero-vad" in kit.status["activity"].detail
    assert kit.parts.activity is None
    assert kit.parts.recognition == "scripted"
    assert kit.parts.voices == ["heart"]
    kit.close()


async def test_weights_that_were_altered_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    altered = replace(vad_model.SILERO, sha256="0" * 64)
    monkeypatch.setattr(kit_module, "SileroWeights", lambda: vad_model.SileroWeights(altered))
    kit = SpeechKit(vad="silero")
    await kit.load()
    assert "SHA-256" in kit.status["activity"].detail
    kit.close()


@pytest.mark.parametrize("option", [{"asr": "nonsense"}, {"tts": "nonsense"}])
async def test_a_name_that_is_not_known_says_which_are(option: dict[str, str]) -> None:
    kit = SpeechKit(**option)
    await kit.load()
    [failed] = [status for status in kit.status.values() if status.status == "failed"]
    assert "nonsense" in failed.detail
    kit.close()


async def test_a_voice_that_is_not_there_is_replaced_by_the_default(scripted: None) -> None:
    kit = SpeechKit(tts="default")
    await kit.load()
    assert kit.synthesis("nobody", speed=1, unplayed_s=lambda: 0.0) is not None
    kit.close()
