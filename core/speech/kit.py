"""What the server hears and speaks with, for all sessions: loaded in the background."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from core.errors import SightlineError
from core.priority import PriorityThread
from core.protocol import SpeechParts
from core.speech.activity import VoiceModel
from core.speech.recognition import (
    BYTES_PER_S,
    RECOGNISERS,
    Recogniser,
    Recognition,
    RecognitionSettings,
    SpeechOnly,
)
from core.speech.synthesis import Synthesis
from core.speech.vad_model import SileroVoice, SileroWeights
from core.speech.voices import DEFAULT_VOICE, VOICES, Voice, load_voice
from core.weights import ModelError

log = logging.getLogger(__name__)

T = TypeVar("T")

OFF = "off"
DEFAULT = "default"
MAX_RECORDING_S = 60  # recognisers cost in proportion to the square of the length


@dataclass(frozen=True)
class PartStatus:
    """One part of the kit: `off`, `loading`, `ready` or `failed`, and why."""

    status: str
    detail: str = ""


class SpeechKit:
    """Voice activity, a recogniser and voices. A part that is off or broken is just absent.

    `vad`: `silero` or `off`; `asr`: a name of `RECOGNISERS` or `off`; `tts`: a name of
    `VOICES`, `default` or `off`.
    """

    def __init__(self, *, vad: str = OFF, asr: str = OFF, tts: str = OFF) -> None:
        self._vad, self._asr, self._tts = vad, asr, tts
        self._silero: SileroWeights | None = None
        self._recogniser: Recogniser | None = None
        self._voices: dict[str, Voice] = {}
        self._hearing = PriorityThread("recognise")
        self._speaking = PriorityThread("speak")
        self.status = {
            part: PartStatus(OFF if name == OFF else "loading")
            for part, name in (("activity", vad), ("recognition", asr), ("voice", tts))
        }

    async def load(self) -> None:
        """Load every part that is not off, the quickest first. Never raises for a model."""
        if self._vad != OFF:
            self._silero = await self._load("activity", SileroWeights)
        if self._asr != OFF:
            recogniser = await self._load("recognition", self._make_recogniser)
            silero = self._silero
            if recogniser is not None and silero is not None:
                recogniser = SpeechOnly(recogniser, lambda: SileroVoice(silero))
            self._recogniser = recogniser
        if self._tts != OFF:
            name = DEFAULT_VOICE if self._tts == DEFAULT else self._tts
            first = await self._load("voice", lambda: load_voice(name))
            if first is not None:
                self._voices[name] = first
                await self._load_other_voices()

    async def _load_other_voices(self) -> None:
        for name in VOICES:
            if name not in self._voices:
                try:
                    self._voices[name] = await asyncio.to_thread(load_voice, name)
                except Exception:
                    log.exception("speech: the voice %s cannot be loaded", name)

    def _make_recogniser(self) -> Recogniser:
        make = RECOGNISERS.get(self._asr)
        if make is None:
            raise ModelError(f"--asr {self._asr}: is not one of off, {', '.join(RECOGNISERS)}")
        return make()

    async def _load(self, part: str, make: Callable[[], T]) -> T | None:
        try:
            model = await asyncio.to_thread(make)
        except Exception as error:  # whatever it is, the other parts work
            log.exception("speech: %s cannot be loaded", part)
            self.status[part] = PartStatus("failed", str(error))
            return None
        self.status[part] = PartStatus("ready")
        return model

    # --- what sessions use -----------------------------------------------------------

    @property
    def parts(self) -> SpeechParts:
        """What is there now."""
        return SpeechParts(
            activity=self._vad if self._silero is not None else None,
            recognition=self._recogniser.name if self._recogniser is not None else None,
            voices=list(self._voices),
        )

    def voice_model(self) -> VoiceModel | None:
        """Voice activity for one stream of audio."""
        return SileroVoice(self._silero) if self._silero is not None else None

    @property
    def recognises(self) -> bool:
        """Whether speech can become text."""
        return self._recogniser is not None

    def cannot_recognise(self) -> SightlineError:
        """Why speech does not become text, for a client."""
        status = self.status["recognition"]
        if status.status == "loading":
            return SightlineError(
                "recognition_loading", "Speech recognition is still loading: type your question"
            )
        message = "Speech is not recognised on this server: type your question. " + status.detail
        return SightlineError("recognition_unavailable", message.strip())

    def recognition(self, on_partial: Callable[[str], None], language: str) -> Recognition | None:
        """Recognition for one session."""
        if self._recogniser is None:
            return None
        settings = RecognitionSettings(language=language)
        return Recognition(self._recogniser, self._hearing, on_partial, settings)

    async def transcribe(self, pcm16: bytes) -> str:
        """The words in a whole recording, int16 mono 16 kHz. Raises `SightlineError`."""
        recognition = self.recognition(lambda text: None, "")
        if recognition is None:
            raise self.cannot_recognise()
        if len(pcm16) > MAX_RECORDING_S * BYTES_PER_S:
            raise SightlineError(
                "audio_too_long", f"A spoken question lasts {MAX_RECORDING_S} s at most"
            )
        return await recognition.finish(pcm16)

    def synthesis(
        self, voice: str | None, *, speed: float, unplayed_s: Callable[[], float]
    ) -> Synthesis | None:
        """Speech for one answer; a voice that is not there is spoken for by the default one."""
        if not self._voices:
            return None
        chosen = self._voices.get(voice or "") or next(iter(self._voices.values()))
        return Synthesis(chosen, self._speaking, speed=speed, unplayed_s=unplayed_s)

    def close(self) -> None:
        """Stop the threads."""
        self._hearing.close()
        self._speaking.close()
