"""Settings of the `openai` engine."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.errors import EngineError


class OpenAIOptions(BaseModel):
    """`--engine-options` of the `openai` engine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    affinity_header: str | None = Field("X-Session-ID", pattern=r"^[A-Za-z0-9-]+$")
    timeout_s: float = Field(60.0, gt=0)  # for an answer to begin, and between two pieces of it
    max_tokens: int = Field(512, ge=1)  # of an answer
    image_quality: int = Field(90, ge=1, le=95)  # JPEG
    priority: bool = False  # send vLLM's `priority` (serve with --scheduling-policy priority)
    vllm: bool | None = None  # whether it takes vLLM's parameters; None: as its model list says
    prefix_caching: bool | None = None  # None: where it is vLLM
    input_modalities: frozenset[Literal["text", "image", "audio"]] = frozenset({"text", "image"})
    context_tokens: int | None = Field(None, ge=1)  # None: as its model list says
    images_per_prompt: int | None = Field(None, ge=1)
    extra_body: dict[str, Any] = Field(default_factory=dict)  # into every request

    @classmethod
    def read(cls, options: dict[str, Any]) -> "OpenAIOptions":
        """The options. Raises `EngineError` (`invalid_engine_options`)."""
        try:
            return cls.model_validate(options)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            raise EngineError(
                "invalid_engine_options", f"--engine-options: {name}: {first['msg']}"
            ) from error
