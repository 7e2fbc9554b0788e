"""Every setting, by flag (`--max-peers 8`) and by environment (`SIGHTLINE_MAX_PEERS=8`)."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from core.limits import SessionLimits

DEFAULTS = SessionLimits()


class IceServer(BaseModel):
    """One STUN or TURN server, as RTCIceServer in a browser."""

    model_config = ConfigDict(extra="forbid")
    urls: str | list[str]
    username: str | None = None
    credential: str | None = None


class Settings(BaseSettings):
    """Sightline: live video chat for open models."""

    model_config = SettingsConfigDict(
        env_prefix="SIGHTLINE_",
        cli_prog_name="app.py",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        env_parse_none_str="none",
        frozen=True,
    )

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(7860, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="What is logged."
    )

    engine: str = Field(
        "embedded",
        description="`embedded`, `vllm` (in this process), `openai` (a server or a fleet), "
        "`omni` (vLLM-Omni), or your own as `package.module:factory`.",
    )
    model: str | None = Field(
        None,
        description="The model of `vllm` and `omni`: a local path or a hub id; of `openai`: "
        "its name on the server (default: the first one there).",
    )
    base_url: str = Field(
        "http://127.0.0.1:8000/v1", description="Of `openai`: where the server's API is."
    )
    api_key: SecretStr | None = Field(None, description="Of `openai`: the server's API key.")
    dtype: str = Field("auto", description="Of `vllm`: float32 is the fastest on most CPUs.")
    max_model_len: int | None = Field(
        None, ge=256, description="Of `vllm`: most tokens of prompt and answer; the model's own."
    )
    max_images: int = Field(
        64, ge=1, description="Of `vllm` and `omni`: most images in one prompt."
    )
    gpu_memory_utilization: float = Field(
        0.9, gt=0, le=1, description="Of `vllm`: the share of the GPU's memory it may take."
    )
    kv_cache_gib: float | None = Field(
        None, gt=0, description="Of `vllm`: memory of the KV cache, GiB (on a CPU: 4)."
    )
    engine_options: dict[str, Any] = Field(
        default_factory=dict,
        description="More options of the engine, as JSON. Of `vllm`: any of AsyncEngineArgs.",
    )

    pipeline: str | None = Field(
        None,
        description="When to answer and what to show the model: your own subclass of "
        "core.pipeline.Pipeline, as `package.module:Class`.",
    )

    vad: Literal["silero", "off"] = Field(
        "silero", description="Voice activity: when somebody speaks. `off`: push-to-talk only."
    )
    asr: Literal["moonshine", "whisper", "off"] = Field(
        "moonshine", description="What turns speech into text: moonshine (English), whisper."
    )
    tts: str = Field(
        "default", description="Who speaks for engines without a voice: a voice's name, `off`."
    )

    max_peers: int = Field(4, ge=1, description="Browsers at a time; the next one is told.")
    max_sockets: int = Field(16, ge=1, description="WebSocket sessions at a time.")
    ice_servers: list[IceServer] = Field(
        default_factory=list,
        description="STUN and TURN servers as JSON, RTCIceServer dictionaries. None by default: "
        "a public STUN server would delay every call where it cannot be reached.",
    )
    peer_timeout_s: float = Field(
        2.5, gt=0, description="A browser silent for so long (no media, no ping) is gone, s."
    )
    analysed_fps: float = Field(
        10.0, gt=0, le=60, description="Camera frames a second that the filter looks at."
    )
    kept_fps: float = Field(
        2.0, gt=0, le=30, description="Camera frames a second that the filter keeps at most."
    )

    config_timeout_s: float = Field(
        10.0, gt=0, description="A WebSocket client sends session.config within, s."
    )
    idle_timeout_s: float = Field(
        60.0, gt=0, description="A WebSocket client silent for so long is disconnected, s."
    )
    max_message_bytes: int = Field(
        16 * 2**20, ge=1024, description="Largest WebSocket message, bytes."
    )
    decode_workers: int = Field(2, ge=1, description="Threads that decode and resize.")

    media_queue: int = Field(
        DEFAULTS.media_queue, ge=1, description="Frames waiting for the filter, per session."
    )
    outbox: int = Field(
        DEFAULTS.outbox, ge=16, description="Events waiting for a slow client, per session."
    )
    frame_pixels: int = Field(
        DEFAULTS.frame_pixels, ge=1, description="Most pixels of one frame, width × height."
    )
    buffer_bytes: int = Field(
        DEFAULTS.buffer_bytes, ge=2**20, description="Most bytes of one session's frames."
    )
    decode_s: float = Field(DEFAULTS.decode_s, gt=0, description="Deadline of a decode, s.")
    submit_s: float = Field(
        DEFAULTS.submit_s, gt=0, description="Deadline of the engine to accept a request, s."
    )
    stall_s: float = Field(
        DEFAULTS.stall_s, gt=0, description="Longest pause of the engine within an answer, s."
    )
    abort_s: float = Field(
        DEFAULTS.abort_s, gt=0, description="Deadline of the engine to acknowledge an abort, s."
    )

    @property
    def limits(self) -> SessionLimits:
        """The bounds of one session."""
        return SessionLimits(
            media_queue=self.media_queue,
            outbox=self.outbox,
            frame_pixels=self.frame_pixels,
            buffer_bytes=self.buffer_bytes,
            decode_s=self.decode_s,
            submit_s=self.submit_s,
            stall_s=self.stall_s,
            abort_s=self.abort_s,
        )
