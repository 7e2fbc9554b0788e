"""The engine protocol: what every engine is asked, and what it gives back."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from core.engines.sampling import SamplingParams


@dataclass(frozen=True)
class EngineInfo:
    """What an engine is and can do; read by the session and shown on the page."""

    name: str
    model: str
    description: str  # one sentence for a person
    input_modalities: frozenset[str] = frozenset({"text", "image"})
    output_modalities: frozenset[str] = frozenset({"text"})
    output_rate_hz: int = 24_000  # of native audio
    context_tokens: int | None = None  # prompt and answer together
    images_per_prompt: int | None = None
    prefix_caching: bool = False  # a warm-up makes the next question cheaper
    counts: str = "tokens"  # what its usage is counted in
    remembers: bool = False  # what it saw of a session, after the frames left the prompt
    stages: tuple[str, ...] = ("thinker",)

    @property
    def hears(self) -> bool:
        """Whether it takes audio itself."""
        return "audio" in self.input_modalities

    @property
    def speaks(self) -> bool:
        """Whether it gives audio itself."""
        return "audio" in self.output_modalities


@dataclass(frozen=True)
class EngineHealth:
    """Whether the engine can answer, in words for the page and `/readyz`."""

    status: Literal["loading", "ready", "failed"]
    detail: str = ""


@dataclass(frozen=True)
class TextPart:
    """Text of a message."""

    text: str


@dataclass(frozen=True)
class ImagePart:
    """One frame: uint8 RGB, height × width × 3. `content_id` names it for caches."""

    rgb: NDArray[np.uint8] = field(repr=False, compare=False)
    content_id: str
    time_s: float  # seconds since the session began


@dataclass(frozen=True)
class AudioPart:
    """Mono int16 PCM bytes, 16 kHz."""

    pcm16: bytes = field(repr=False)


Part = TextPart | ImagePart | AudioPart


@dataclass(frozen=True)
class Message:
    """One message of the prompt."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[Part, ...]


@dataclass
class EngineRequest:
    """One request. `submitted` is set by the engine once it has accepted the request."""

    request_id: str
    session_id: str
    messages: tuple[Message, ...]
    sampling: tuple[SamplingParams | None, ...] = ()  # per stage; None: the engine's default
    modalities: tuple[str, ...] = ("text",)
    max_tokens: int | None = None
    priority: int = 0  # lower goes first, as in vLLM
    prefill_only: bool = False  # a warm-up: nothing will be said
    use_audio_in_video: bool = False
    time_s: float = 0.0  # when it was asked, seconds since the session began
    submitted: asyncio.Event = field(default_factory=asyncio.Event, repr=False)


@dataclass(frozen=True)
class EngineUsage:
    """What a request cost: tokens of its prompt, and how many came from a cache."""

    prompt_tokens: int
    cached_tokens: int


@dataclass(frozen=True)
class EngineOutput:
    """One output: any of a text delta, audio (float32 mono), usage, the reason it ended."""

    text_delta: str = ""
    audio: NDArray[np.float32] | None = field(default=None, repr=False)
    sample_rate_hz: int | None = None
    usage: EngineUsage | None = None
    finish_reason: str | None = None


class Engine(Protocol):
    """A model that answers about frames. One engine serves all sessions."""

    @property
    def info(self) -> EngineInfo:
        """What it is; may be called before `start`."""

    async def start(self) -> None:
        """Load. Returns once it can answer; raises `EngineError` if it cannot."""

    def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        """Outputs of a request. Text is always a delta.

        Raises `EngineError`; `PromptTooLong` if a shorter prompt would do.
        """

    async def abort(self, request_id: str) -> None:
        """Stop an accepted request; returns once the engine has let go of it."""

    async def forget(self, session_id: str) -> None:
        """Drop what is remembered of a session that ended."""

    async def health(self) -> EngineHealth:
        """Whether it can answer now."""

    async def close(self) -> None:
        """Free everything."""
