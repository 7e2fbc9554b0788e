"""Every wire event of `/v1/video/chat/stream`, one model each, in two tagged unions.

Source of the format: vLLM-Omni's public streaming-video protocol. Fields and events that
are ours are marked "added": a client that ignores unknown fields works unchanged.
"""

import base64
import binascii
import json
import math
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    computed_field,
)
from pydantic_core import PydanticCustomError

from core.engines.base import EngineInfo
from core.errors import ProtocolError, SightlineError
from core.speech.pcm import wav_bytes

MAX_FRAME_BASE64_BYTES = 10 * 1024 * 1024  # of base64 text, as the reference measures it
MAX_AUDIO_BASE64_BYTES = 8 * 1024 * 1024  # of base64 text: more than the 4 MiB audio buffer
MAX_TEXT_CHARS = 32_768
MAX_ID_CHARS = 256
MAX_DEPTH = 32  # of nested JSON: what is deeper cannot be sent back

Modality = Literal["text", "audio"]

# --- binary fields -------------------------------------------------------------------


def _decode_base64(value: Any, limit_bytes: int, name: str, too_large: str) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("invalid_base64", "must be a base64 string")
    if len(value) > limit_bytes:
        raise PydanticCustomError(
            too_large,
            "{name} is {size_mib} MiB of base64, the limit is {limit_mib} MiB",
            {
                "name": name,
                "size_mib": f"{len(value) / 2**20:.1f}",
                "limit_mib": f"{limit_bytes / 2**20:.0f}",
            },
        )
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise PydanticCustomError("invalid_base64", "is not valid base64") from error


def _decode_image(value: Any) -> bytes:
    data = _decode_base64(value, MAX_FRAME_BASE64_BYTES, "the frame", "frame_too_large")
    if not data:
        raise PydanticCustomError("invalid_image", "is empty")
    return data


def _decode_pcm16(value: Any) -> bytes:
    data = _decode_base64(value, MAX_AUDIO_BASE64_BYTES, "the audio", "audio_too_large")
    if len(data) % 2:
        raise PydanticCustomError(
            "invalid_audio",
            "has an odd number of bytes ({size}); PCM16 has two bytes a sample",
            {"size": len(data)},
        )
    return data


_BASE64_SCHEMA = {"type": "string", "contentEncoding": "base64"}
ImageBytes = Annotated[bytes, BeforeValidator(_decode_image), WithJsonSchema(_BASE64_SCHEMA)]
Pcm16Bytes = Annotated[bytes, BeforeValidator(_decode_pcm16), WithJsonSchema(_BASE64_SCHEMA)]

# --- client to server ----------------------------------------------------------------


class ClientEvent(BaseModel):
    """A message from the client. Unknown fields are ignored, as the reference does."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, frozen=True)


class TurnDetection(ClientEvent):
    """Who says when a person has spoken (OpenAI Realtime's names)."""

    type: Literal["server_vad", "push_to_talk"] = "server_vad"
    threshold: float = Field(0.5, ge=0, le=1, description="Voice probability that is speech.")
    prefix_padding_ms: int = Field(300, ge=0, le=2000, description="Audio before the speech.")
    silence_duration_ms: int = Field(500, ge=100, le=5000, description="Silence that ends a turn.")


class SessionConfig(ClientEvent):
    """`session.config`: the first message, once. Old field names are understood."""

    type: Literal["session.config"] = "session.config"
    model: str | None = Field(None, max_length=MAX_ID_CHARS)
    modalities: list[Modality] = ["text", "audio"]
    num_frames: int = Field(
        4, ge=1, le=128, validation_alias=AliasChoices("num_frames", "num_sample_frames")
    )
    max_frames: int = Field(50, ge=1, le=256)
    system_prompt: str | None = Field(None, max_length=MAX_TEXT_CHARS)
    use_audio_in_video: bool = True
    sampling_params_list: list[dict[str, Any]] | None = None
    enable_frame_filter: bool = Field(
        True, validation_alias=AliasChoices("enable_frame_filter", "evs_enabled")
    )
    frame_filter_threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        validation_alias=AliasChoices("frame_filter_threshold", "evs_threshold"),
        description="Naming one chooses the reference filter with it (its default: 0.95).",
    )
    frame_filter: Literal["block", "reference"] | None = Field(
        None, description="Added. Which filter; absent: `block`, or as the threshold says."
    )
    frame_filter_max_gap_s: float = Field(
        5.0, gt=0, le=3600, description="Added. `block` keeps a frame at least this often (s)."
    )
    timestamps: bool = Field(
        False, description="Added. Put each frame's time before it in the prompt: `<3.2 s>`."
    )
    context_layout: Literal["window", "chronological"] | None = Field(
        None,
        description="Added. What the model is shown: `window` (the last two history messages, "
        "then the frames) or `chronological` (everything in its time, so that each frame is "
        "prefilled once). Absent: `chronological` where the engine prefills ahead.",
    )
    frame_events: bool = Field(
        False, description="Added. Send `video.frame.decision` with a thumbnail if kept."
    )
    turn_detection: TurnDetection | None = Field(
        None,
        description="Added. Listen to the audio: `server_vad` asks what was said when the "
        "person falls silent, `push_to_talk` what was said between `input_audio_buffer.clear` "
        "and `.commit`. Null: audio waits for the next query and starts nothing.",
    )
    language: str | None = Field(
        None, max_length=16, description="Added. Of speech, for recognisers that know several."
    )
    voice: str | None = Field(
        None, max_length=64, description="Added. Who speaks; absent: the server's default."
    )
    speech_speed: float = Field(1.0, ge=0.5, le=2.0, description="Added. 1 is natural.")
    legacy_audio_events: bool = Field(
        False, description="Added. Name audio events `response.audio.*`, as older servers did."
    )

    @property
    def filter_name(self) -> Literal["off", "block", "reference"]:
        """Which frame filter this session asks for."""
        if not self.enable_frame_filter:
            return "off"
        if self.frame_filter is not None:
            return self.frame_filter
        return "block" if self.frame_filter_threshold is None else "reference"


class SessionUpdate(ClientEvent):
    """`session.update` (added): change fields of the config from the next frame or turn on."""

    type: Literal["session.update"] = "session.update"
    session: dict[str, Any] = Field(description="Fields of `session.config` to change.")


class VideoFrame(ClientEvent):
    """`video.frame`: one JPEG or PNG image."""

    type: Literal["video.frame"] = "video.frame"
    data: ImageBytes
    frame_id: str | None = Field(None, max_length=MAX_ID_CHARS)
    pts_ms: float | None = None
    source_pts_ms: float | None = None
    capture_ts_ms: float | None = None
    quality_profile: str | None = Field(None, max_length=MAX_ID_CHARS)


class AudioChunk(ClientEvent):
    """`audio.chunk`: PCM16, 16 kHz, mono."""

    type: Literal["audio.chunk"] = "audio.chunk"
    data: Pcm16Bytes


class VideoQuery(ClientEvent):
    """`video.query`: a question; empty text asks with the buffered audio alone."""

    type: Literal["video.query"] = "video.query"
    text: str = Field("", max_length=MAX_TEXT_CHARS)
    audio_data: Pcm16Bytes | None = None


class AudioBufferClear(ClientEvent):
    """`input_audio_buffer.clear` (added): forget buffered audio; with `push_to_talk`, begin."""

    type: Literal["input_audio_buffer.clear"] = "input_audio_buffer.clear"


class AudioBufferCommit(ClientEvent):
    """`input_audio_buffer.commit` (added): what was said so far is the question."""

    type: Literal["input_audio_buffer.commit"] = "input_audio_buffer.commit"


class ResponseCancel(ClientEvent):
    """`response.cancel` (added, OpenAI Realtime's name): stop the answer in flight."""

    type: Literal["response.cancel"] = "response.cancel"


class PlaybackReport(ClientEvent):
    """`output_audio.playback` (added): how late the client plays what it is sent."""

    type: Literal["output_audio.playback"] = "output_audio.playback"
    delay_ms: float = Field(ge=0, le=10_000, description="From arrival to the ear.")


class VideoDone(ClientEvent):
    """`video.done`: end of session; a running answer is finished first."""

    type: Literal["video.done"] = "video.done"


class Ping(ClientEvent):
    """`ping`: answered by `pong`, which echoes `ts_ms` (added)."""

    type: Literal["ping"] = "ping"
    ts_ms: float | None = None


ClientMessage = Annotated[
    SessionConfig
    | SessionUpdate
    | VideoFrame
    | AudioChunk
    | VideoQuery
    | AudioBufferClear
    | AudioBufferCommit
    | PlaybackReport
    | ResponseCancel
    | VideoDone
    | Ping,
    Field(discriminator="type"),
]
_CLIENT: TypeAdapter[ClientMessage] = TypeAdapter(ClientMessage)
_OUR_CODES = frozenset(
    {"invalid_base64", "frame_too_large", "audio_too_large", "invalid_audio", "invalid_image"}
)


def parse_client_message(message: str | bytes) -> ClientMessage:
    """One text message of the client as its model, base64 already decoded.

    Cost: about 1 ms a MiB, so callers hand large messages to the decode pool.
    Raises `ProtocolError` with the code `invalid_json`, `invalid_message`,
    `unknown_type`, `invalid_base64`, `frame_too_large`, `audio_too_large`,
    `invalid_audio`, `invalid_image` or `invalid_field`.
    """
    try:
        value = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("invalid_json", "Invalid JSON: the message is not JSON") from error
    return client_event(value)


def client_event(value: Any) -> ClientMessage:
    """A decoded JSON value as the client event it is. Raises as `parse_client_message`."""
    if not isinstance(value, dict):
        raise ProtocolError("invalid_message", "A message must be a JSON object")
    kind = value.get("type")
    if not isinstance(kind, str):
        raise ProtocolError("invalid_message", "A message needs a string `type`")
    _require_sendable(value)
    if kind not in _client_types():
        shown = kind[:80]
        raise ProtocolError("unknown_type", f"Unknown type: {shown}", event_type=shown)
    try:
        return _CLIENT.validate_python(value)
    except ValidationError as error:
        frame_id = value.get("frame_id") if kind == "video.frame" else None
        if not isinstance(frame_id, str) or not 0 < len(frame_id) <= MAX_ID_CHARS:
            frame_id = None
        raise field_error(error, kind, frame_id=frame_id) from error


def _require_sendable(value: Any) -> None:
    """Refuse what `json.loads` takes but no JSON text can carry back to the client."""
    waiting = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise ProtocolError(
                "invalid_message", f"The message is nested more than {MAX_DEPTH} deep"
            )
        if isinstance(item, dict):
            waiting += [(part, depth + 1) for pair in item.items() for part in pair]
        elif isinstance(item, list):
            waiting += [(part, depth + 1) for part in item]
        elif isinstance(item, float) and not math.isfinite(item):
            raise ProtocolError("invalid_json", "Invalid JSON: a number is NaN or infinite")
        elif isinstance(item, str) and not item.isascii():
            try:
                item.encode()
            except UnicodeEncodeError as error:
                raise ProtocolError(
                    "invalid_json", "Invalid JSON: a string holds half a surrogate pair"
                ) from error


def field_error(error: ValidationError, kind: str, *, frame_id: str | None = None) -> ProtocolError:
    """The first problem of a pydantic error as ours: `video.frame: data: is not …`."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    path = ".".join(str(part) for part in first["loc"] if part != kind)
    code = first["type"] if first["type"] in _OUR_CODES else "invalid_field"
    place = f"{kind}: {path}" if path else kind
    return ProtocolError(code, f"{place}: {first['msg']}", event_type=kind, frame_id=frame_id)


def updated_config(config: SessionConfig, changes: dict[str, Any]) -> SessionConfig:
    """`config` with `changes` validated and applied. Raises `ProtocolError`."""
    known = set(SessionConfig.model_fields) - {"type", "model"}
    unknown = sorted(set(changes) - known)
    if unknown:
        raise ProtocolError(
            "invalid_field",
            f"session.update: {unknown[0]}: is not a field that can be changed",
            event_type="session.update",
        )
    try:
        return SessionConfig.model_validate(config.model_dump() | changes)
    except ValidationError as error:
        raise field_error(error, "session.update") from error


@cache
def _client_types() -> frozenset[str]:
    return frozenset(_CLIENT.json_schema()["discriminator"]["mapping"])


# --- server to client ----------------------------------------------------------------


class ServerEvent(BaseModel):
    """A message to the client."""

    model_config = ConfigDict(frozen=True)
    omitted_when_none: ClassVar[frozenset[str]] = frozenset()
    type: str

    def payload(self) -> dict[str, Any]:
        """The event as JSON-ready values; optional fields that do not apply are left out."""
        values = self.model_dump(mode="json")
        for name in self.omitted_when_none:
            if values[name] is None:
                del values[name]
        return values

    def wire(self) -> str:
        """The event as one JSON text message."""
        return json.dumps(self.payload(), separators=(",", ":"), ensure_ascii=False)


class EngineDescription(BaseModel):
    """What answers (added)."""

    name: str
    model: str
    description: str
    input_modalities: list[str]
    output_modalities: list[str]
    context_tokens: int | None = Field(None, description="Prompt and answer together.")
    images_per_prompt: int | None = None
    counts: str = Field("tokens", description="What its usage is counted in.")

    @classmethod
    def of(cls, info: EngineInfo | None) -> Self:
        """The description of an engine, or of none."""
        if info is None:
            return cls(
                name="none", model="", description="", input_modalities=[], output_modalities=[]
            )
        return cls(
            name=info.name,
            model=info.model,
            description=info.description,
            input_modalities=sorted(info.input_modalities),
            output_modalities=sorted(info.output_modalities),
            context_tokens=info.context_tokens,
            images_per_prompt=info.images_per_prompt,
            counts=info.counts,
        )


class SpeechParts(BaseModel):
    """What the server hears and speaks with (added); null: switched off, or not there yet."""

    activity: str | None = None
    recognition: str | None = None
    voices: list[str] = []


class SessionCreated(ServerEvent):
    """`session.created` (added): the session exists; what it runs with."""

    type: Literal["session.created"] = "session.created"
    session_id: str
    engine: EngineDescription
    speech: SpeechParts
    config: SessionConfig
    created_ts_ms: int


class SessionUpdated(ServerEvent):
    """`session.updated` (added): the config as it is now."""

    type: Literal["session.updated"] = "session.updated"
    config: SessionConfig


class FrameAck(ServerEvent):
    """`video.frame.ack`: what became of a frame that had an id."""

    omitted_when_none = frozenset({"reason", "dropped_frame_id"})
    type: Literal["video.frame.ack"] = "video.frame.ack"
    frame_id: str
    pts_ms: float | None
    capture_ts_ms: float | None
    accepted: bool
    buffered_frames: int
    server_receive_ts_ms: int
    reason: str | None = Field(
        None, description="`filtered`; added: `invalid`, `too_large`, `overload`, `closed`."
    )
    dropped_frame_id: str | None = None


class FrameDecision(ServerEvent):
    """`video.frame.decision` (added): what the filter said of a frame, and why."""

    omitted_when_none = frozenset({"thumbnail", "score"})
    type: Literal["video.frame.decision"] = "video.frame.decision"
    frame_id: str | None
    time_s: float = Field(description="Seconds since the session began.")
    kept: bool
    reason: str = Field(description="`first`, `changed`, `max_gap`, `still`, `rate`, `off`.")
    score: float | None = Field(None, description="How much changed, 0 to 1.")
    width: int
    height: int
    thumbnail: str | None = Field(None, description="Base64 JPEG of a kept frame.")
    kept_total: int
    dropped_total: int


class ConsumedFrame(BaseModel):
    """One frame of the prompt, in prompt order; nulls are kept."""

    frame_id: str | None
    pts_ms: float | None
    source_pts_ms: float | None
    quality_profile: str | None
    receiver_received_ts_ms: int
    decoded_ready_ts_ms: int


class FramesConsumed(ServerEvent):
    """`video.frames.consumed`: the frames that the answer was given, before its first text."""

    type: Literal["video.frames.consumed"] = "video.frames.consumed"
    request_id: str
    model_selected_ts_ms: int
    frame_ids: list[str]
    frames: list[ConsumedFrame]
    latest_pts_ms: float | None


class ResponseStart(ServerEvent):
    """`response.start`; the question's text is added."""

    omitted_when_none = frozenset({"item_id", "unasked"})
    type: Literal["response.start"] = "response.start"
    request_id: str
    question: str
    item_id: str | None = Field(None, description="Of the speech that asked it.")
    unasked: Literal[True] | None = Field(
        None, description="Nobody asked: the server's pipeline answers by itself."
    )


class TextDelta(ServerEvent):
    """`response.text.delta`"""

    type: Literal["response.text.delta"] = "response.text.delta"
    request_id: str
    delta: str


class TextDone(ServerEvent):
    """`response.text.done`: the whole text of the answer."""

    type: Literal["response.text.done"] = "response.text.done"
    request_id: str
    text: str


class AudioDelta(ServerEvent):
    """`response.output_audio.delta`: a WAV of its own. Inside, mono int16 PCM bytes."""

    type: Literal["response.output_audio.delta", "response.audio.delta"] = (
        "response.output_audio.delta"
    )
    request_id: str
    pcm16: bytes = Field(exclude=True, repr=False)
    sample_rate_hz: int = Field(exclude=True)
    format: Literal["wav"] = "wav"

    @property
    def duration_s(self) -> float:
        """Of the audio."""
        return len(self.pcm16) / 2 / self.sample_rate_hz

    @computed_field  # type: ignore[prop-decorator]
    @property
    def data(self) -> str:
        """Base64 of the WAV file; made only when the event is written to a wire."""
        return base64.b64encode(wav_bytes(self.pcm16, self.sample_rate_hz)).decode("ascii")


class AudioDone(ServerEvent):
    """`response.output_audio.done`"""

    type: Literal["response.output_audio.done", "response.audio.done"] = (
        "response.output_audio.done"
    )
    request_id: str


class Segment(BaseModel):
    """One stretch between two marks that follow each other."""

    name: str
    ms: float


class Usage(BaseModel):
    """Tokens (or, for engines without tokens, what they count) of one request."""

    prompt_tokens: int
    cached_tokens: int


class TurnTiming(BaseModel):
    """Where the time of a turn went: `segments` add up to `total_ms`."""

    marks_ms: dict[str, float] = Field(description="Since `asked`, in ms.")
    segments: list[Segment]
    total_ms: float


class ResponseDone(ServerEvent):
    """`response.done` (added): the answer is whole; where its time went."""

    omitted_when_none = frozenset({"usage"})
    type: Literal["response.done"] = "response.done"
    request_id: str
    timing: TurnTiming
    usage: Usage | None = None


class ResponseInterrupted(ServerEvent):
    """`response.interrupted` (added): the answer ends here, `text` is all that was sent."""

    omitted_when_none = frozenset({"heard_text"})
    type: Literal["response.interrupted"] = "response.interrupted"
    request_id: str
    reason: Literal["new_query", "cancelled", "closed", "speech"]
    text: str
    heard_text: str | None = Field(
        None, description="Of a spoken answer, what could be heard before it was cut."
    )
    timing: TurnTiming


class SpeechStartedEvent(ServerEvent):
    """`input_audio_buffer.speech_started` (added): somebody speaks."""

    type: Literal["input_audio_buffer.speech_started"] = "input_audio_buffer.speech_started"
    item_id: str
    audio_start_ms: float = Field(description="In the stream of audio.")


class SpeechStoppedEvent(ServerEvent):
    """`input_audio_buffer.speech_stopped` (added): they have fallen silent."""

    type: Literal["input_audio_buffer.speech_stopped"] = "input_audio_buffer.speech_stopped"
    item_id: str
    audio_end_ms: float
    backchannel: bool = Field(description="Too short to interrupt; the answer goes on.")


class TranscriptPartial(ServerEvent):
    """`conversation.item.input_audio_transcription.partial` (added): so far; replaces."""

    type: Literal["conversation.item.input_audio_transcription.partial"] = (
        "conversation.item.input_audio_transcription.partial"
    )
    item_id: str
    text: str


class TranscriptCompleted(ServerEvent):
    """`conversation.item.input_audio_transcription.completed` (added); empty: no words."""

    type: Literal["conversation.item.input_audio_transcription.completed"] = (
        "conversation.item.input_audio_transcription.completed"
    )
    item_id: str
    transcript: str


class PrefillStatistics(ServerEvent):
    """`prefill.stats` (added): what seeing ahead cost and saved so far, after each request."""

    omitted_when_none = frozenset({"context_limit"})
    type: Literal["prefill.stats"] = "prefill.stats"
    warmups: int = Field(description="Warm-up requests that ended.")
    tokens_warmed: int = Field(description="Computed by warm-ups.")
    tokens_reused: int = Field(description="Of questions, taken from the prefix cache.")
    tokens_computed: int = Field(description="Of questions, computed while somebody waited.")
    tokens_wasted: int = Field(description="Warmed, then dropped before any question.")
    context_tokens: int = Field(description="Of the newest prompt.")
    context_limit: int | None = Field(None, description="The model's, where it is known.")


class ContextTrimmed(ServerEvent):
    """`context.trimmed` (added): the oldest part has left what the model is shown."""

    type: Literal["context.trimmed"] = "context.trimmed"
    reason: Literal["max_frames", "max_bytes", "images_per_prompt", "context_tokens"]
    frames: int = Field(description="How many left.")
    exchanges: int = Field(description="How many questions with their answers left.")
    frames_left: int
    message: str = Field(description="For a person.")


class FilterStatistics(ServerEvent):
    """`video.filter.stats` (added): the filter's counters, before `session.done`."""

    type: Literal["video.filter.stats"] = "video.filter.stats"
    retained: int
    dropped: int
    total: int
    drop_rate: float


class SessionDone(ServerEvent):
    """`session.done`: the last message."""

    type: Literal["session.done"] = "session.done"


class Pong(ServerEvent):
    """`pong`"""

    omitted_when_none = frozenset({"ts_ms"})
    type: Literal["pong"] = "pong"
    ts_ms: float | None = None


class ErrorEvent(ServerEvent):
    """`error`. Added: a stable `code`, what it concerns. With a `request_id` it ends that turn."""

    omitted_when_none = frozenset({"event_type", "request_id", "frame_id"})
    type: Literal["error"] = "error"
    code: str
    message: str
    event_type: str | None = Field(None, description="The offending message's type.")
    request_id: str | None = None
    frame_id: str | None = None

    @classmethod
    def of(cls, error: SightlineError, *, request_id: str | None = None) -> Self:
        """The event that tells a client of `error`."""
        return cls(
            code=error.code,
            message=error.message,
            event_type=error.event_type,
            request_id=request_id,
            frame_id=error.frame_id,
        )


ServerMessage = Annotated[
    SessionCreated
    | SessionUpdated
    | FrameAck
    | FrameDecision
    | FramesConsumed
    | ResponseStart
    | TextDelta
    | TextDone
    | AudioDelta
    | AudioDone
    | ResponseDone
    | ResponseInterrupted
    | SpeechStartedEvent
    | SpeechStoppedEvent
    | TranscriptPartial
    | TranscriptCompleted
    | PrefillStatistics
    | ContextTrimmed
    | FilterStatistics
    | SessionDone
    | Pong
    | ErrorEvent,
    Field(discriminator="type"),
]
_SERVER: TypeAdapter[ServerMessage] = TypeAdapter(ServerMessage)


def protocol_schema() -> dict[str, Any]:
    """JSON Schema of both directions, as served at `/protocol.json`."""
    return {
        "title": "Sightline: /v1/video/chat/stream",
        "client": _CLIENT.json_schema(),
        "server": _SERVER.json_schema(mode="serialization"),
    }
