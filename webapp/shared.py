"""What all sessions of a server have in common."""

from dataclasses import dataclass

from core.engines.base import Engine
from core.frames import DecodePool
from core.gate import QuestionGate
from core.pipeline import Pipeline
from core.settings import Settings
from core.speech.kit import SpeechKit


@dataclass(frozen=True)
class Shared:
    """Handed to every peer and every socket."""

    settings: Settings
    engine: Engine
    pool: DecodePool
    kit: SpeechKit
    gate: QuestionGate
    pipeline: type[Pipeline]
