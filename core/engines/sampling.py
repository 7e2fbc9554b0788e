"""Sampling parameters of one engine stage, under vLLM's names."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.errors import ProtocolError


class SamplingParams(BaseModel):
    """One stage's parameters. What a client leaves out takes these defaults (row 5)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=-1)
    min_p: float = Field(0.0, ge=0, le=1)
    repetition_penalty: float = Field(1.0, gt=0)
    presence_penalty: float = Field(0.0, ge=-2, le=2)
    frequency_penalty: float = Field(0.0, ge=-2, le=2)
    max_tokens: int | None = Field(None, ge=1)
    min_tokens: int = Field(0, ge=0)
    seed: int | None = None
    stop: list[str] = Field(default_factory=list)
    stop_token_ids: list[int] = Field(default_factory=list)
    ignore_eos: bool = False
    detokenize: bool = True
    output_kind: Literal["delta"] = "delta"


def stage_sampling(
    overrides: list[dict[str, Any]] | None, stages: int
) -> tuple[SamplingParams | None, ...]:
    """One entry per engine stage: the client's parameters, or None for the engine's own.

    Overrides past the last stage are ignored: a client may name stages that this engine
    has not. Raises `ProtocolError` (`invalid_sampling_params`).
    """
    given = (overrides or [])[:stages]
    try:
        params = [SamplingParams(**entry) if entry else None for entry in given]
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ProtocolError(
            "invalid_sampling_params",
            f"sampling_params_list: {name}: {first['msg']}",
            event_type="session.config",
        ) from error
    return tuple(params + [None] * (stages - len(params)))
