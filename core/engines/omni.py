"""vLLM-Omni in this server: an omni model that sees, hears and speaks, as `AsyncOmni` runs it.

Its stages are thinker (text), talker and code2wav (speech). Written against vllm-omni 0.30.0,
and tested against its own classes with scripted stages; not yet run on a GPU.
"""

import asyncio
import copy
import inspect
import logging
from collections.abc import AsyncGenerator, Sequence, Set
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from core.engines.base import (
    AudioPart,
    Engine,
    EngineHealth,
    EngineInfo,
    EngineOutput,
    EngineRequest,
    EngineUsage,
    Message,
)
from core.engines.vllm_model import AUDIOS_PER_PROMPT, ModelLimits, model_limits
from core.engines.vllm_prompt import PromptRenderer
from core.errors import EngineError
from core.settings import Settings

if TYPE_CHECKING:
    from vllm_omni import AsyncOmni

log = logging.getLogger(__name__)

ANSWER_TOKENS = 512  # of an answer whose length neither a client nor the deploy config names
RATE_HZ = 24_000  # of speech, where an output does not name it
RATE_KEYS = ("sr", "sample_rate", "audio_sample_rate")
CODEC_FRAME_SAMPLES = 1_920  # of the first emission: what the codec makes of nothing before it


def create(settings: Settings) -> "OmniEngine":
    """The engine that `--engine omni` names.

    Raises `EngineError` (`model_required`, `engine_not_installed`).
    """
    if not settings.model:
        raise EngineError(
            "model_required", "--engine omni needs --model: a local path or a model's hub id"
        )
    if find_spec("vllm_omni") is None:
        raise EngineError(
            "engine_not_installed",
            "vLLM-Omni is not installed: pip install -r requirements-omni.txt on a GPU machine",
        )
    return OmniEngine(settings)


def omni_args(settings: Settings) -> dict[str, Any]:
    """`AsyncOmni`'s arguments for our settings; `engine_options` have the last word.

    What concerns the thinker is given to stage 0 alone: the deploy config divides the memory
    of the GPUs among the stages, and one share for all would not fit.
    """
    thinker: dict[str, Any] = {
        "limit_mm_per_prompt": {
            "image": settings.max_images,
            "audio": AUDIOS_PER_PROMPT,
            "video": 0,
        }
    }
    if settings.max_model_len is not None:
        thinker["max_model_len"] = settings.max_model_len
    if "gpu_memory_utilization" in settings.model_fields_set:
        thinker["gpu_memory_utilization"] = settings.gpu_memory_utilization
    args = {"model": settings.model, **settings.engine_options}
    if settings.dtype != "auto":
        args.setdefault("dtype", settings.dtype)
    overrides = args.get("stage_overrides") or {}
    args["stage_overrides"] = {**overrides, "0": thinker | overrides.get("0", {})}
    return args


class OmniEngine(Engine):
    """A model of several stages. Its prompts are made by stage 0's own renderer."""

    def __init__(self, settings: Settings) -> None:
        assert settings.model is not None
        self._settings = settings
        self._model = settings.model
        self._omni: AsyncOmni | None = None
        self._submissions: _Submissions | None = None
        self._prompts: dict[bool, _Prompts] = {}  # by whether audio is said to be the video's
        self._limits = ModelLimits(context_tokens=settings.max_model_len)
        self._health = EngineHealth("loading", "Not started")
        # Until the stages are known: what Qwen-Omni has.
        self._info = EngineInfo(
            name="omni",
            model=self._model.rstrip("/").rsplit("/", 1)[-1],
            description="A model that sees, hears and speaks, on vLLM-Omni in this server.",
            input_modalities=frozenset({"text", "image", "audio"}),
            output_modalities=frozenset({"text", "audio"}),
            output_rate_hz=RATE_HZ,
            context_tokens=settings.max_model_len,
            stages=("thinker", "talker", "code2wav"),
        )

    @property
    def info(self) -> EngineInfo:
        """What it is; once it is loaded, read from its stages."""
        return self._info

    async def start(self) -> None:
        """Load all stages. Raises `EngineError`: what is wrong and what to do."""
        self._health = EngineHealth("loading", f"Loading {self._model}")
        try:
            omni = await asyncio.to_thread(_load, self._settings)
        except EngineError as error:
            self._health = EngineHealth("failed", error.message)
            raise
        self._limits = model_limits(omni, self._settings)
        self._info = _info_of(omni, self._info, self._limits)
        self._prompts = {
            False: _Prompts(omni, {}),
            True: _Prompts(omni, {"use_audio_in_video": True}),
        }
        if "submitted" not in inspect.signature(omni.generate).parameters:
            self._submissions = _Submissions(omni)
        self._omni = omni
        self._health = EngineHealth("ready")
        log.info("%s is ready: %s", self._model, self._info)

    async def health(self) -> EngineHealth:
        """Whether it can answer: all of its stages have to live."""
        if self._omni is None:
            return self._health
        try:
            await self._omni.check_health()
        except Exception as error:
            return EngineHealth("failed", f"{error}. Restart the server")
        return self._health

    async def generate(self, request: EngineRequest) -> AsyncGenerator[EngineOutput, None]:
        """Deltas of text and of speech as they come; then usage, and why it ended."""
        omni = self._omni
        if omni is None:
            status = "loading" if self._health.status == "loading" else "failed"
            raise EngineError(f"engine_{status}", self._health.detail)
        prompts = self._prompts[self._audio_in_video(request)]
        prompt = await prompts.prompt(request, self._limits)
        sampling = self._sampling(omni, request, len(prompt["prompt_token_ids"]))
        answer = _Answer(_cumulative_stages(omni, sampling))
        try:
            async with aclosing(self._submit(omni, request, prompt, sampling)) as outputs:
                async for output in outputs:
                    request.submitted.set()
                    if (new := answer.take(output)) is not None and not request.prefill_only:
                        yield new
        except EngineError:
            raise
        except Exception as error:
            raise _failure(omni, error) from error
        finally:
            if self._submissions is not None:
                self._submissions.forget(request.request_id)
        yield EngineOutput(usage=answer.usage, finish_reason=answer.finish_reason)

    def _submit(
        self, omni: "AsyncOmni", request: EngineRequest, prompt: dict[str, Any], sampling: list[Any]
    ) -> AsyncGenerator[Any, None]:
        options: dict[str, Any] = {}
        if self._submissions is not None:
            self._submissions.expect(request.request_id, request.submitted)
        else:
            options["submitted"] = request.submitted
        outputs: AsyncGenerator[Any, None] = omni.generate(
            prompt=prompt,
            request_id=request.request_id,
            sampling_params_list=sampling,
            output_modalities=["text"] if request.prefill_only else list(request.modalities),
            priority=request.priority,
            **options,
        )
        return outputs

    def _audio_in_video(self, request: EngineRequest) -> bool:
        """Row 23; and row 36: a warm-up and the question after it are asked alike."""
        hears = any(isinstance(part, AudioPart) for m in request.messages for part in m.parts)
        warmed = self._info.prefix_caching and "audio" not in request.modalities
        return request.use_audio_in_video and (hears or warmed)

    def _sampling(self, omni: "AsyncOmni", request: EngineRequest, prompt_tokens: int) -> list[Any]:
        """One object per stage (rows 3 to 6), each of them asking for deltas.

        An override starts from the constructor's defaults, what is not overridden is a copy
        of the engine's own parameters.
        """
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        stages: list[Any] = []
        for stage, default in enumerate(omni.default_sampling_params_list):
            override = request.sampling[stage] if stage < len(request.sampling) else None
            if override is None or not isinstance(default, SamplingParams):
                stages.append(copy.deepcopy(default))
            else:
                stages.append(SamplingParams(**override.model_dump(exclude={"output_kind"})))
            if isinstance(stages[stage], SamplingParams):
                stages[stage].output_kind = RequestOutputKind.DELTA
        wanted = request.max_tokens or stages[0].max_tokens or ANSWER_TOKENS
        limit = self._limits.context_tokens
        stages[0].max_tokens = min(wanted, limit - prompt_tokens) if limit else wanted
        return stages

    async def abort(self, request_id: str) -> None:
        """Stop a request in all stages; one that has ended is no error."""
        if self._omni is not None and not self._omni.errored:
            await self._omni.abort(request_id)

    async def forget(self, session_id: str) -> None:
        """Nothing is kept by session: cache blocks leave when others need their place."""

    async def close(self) -> None:
        """End the stages' processes."""
        omni, self._omni = self._omni, None
        if omni is not None:
            await asyncio.to_thread(omni.shutdown)


class _Prompts(PromptRenderer):
    """Stage 0's renderer, with keywords for its multimodal processor."""

    def __init__(self, omni: "AsyncOmni", processor_kwargs: dict[str, Any]) -> None:
        super().__init__(omni)
        self._processor_kwargs = processor_kwargs

    async def _rendered(self, messages: Sequence[Message], session_id: str, known: Set[str]) -> Any:
        rendered = await super()._rendered(messages, session_id, known)
        if self._processor_kwargs:
            rendered["mm_processor_kwargs"] = dict(self._processor_kwargs)
        return rendered

    async def prompt(self, request: EngineRequest, limits: ModelLimits) -> dict[str, Any]:
        """The engine input; later stages read the keywords from it, too."""
        prompt = await super().prompt(request, limits)
        if self._processor_kwargs:
            prompt["mm_processor_kwargs"] = dict(self._processor_kwargs)
        return prompt


class _Submissions:
    """Says when the engine has received a request, where `generate` does not (0.30.0).

    An abort before that would be for a request that the engine has not got, and be lost.
    """

    def __init__(self, omni: "AsyncOmni") -> None:
        self._expected: dict[str, asyncio.Event] = {}
        self._add_request = omni.engine.add_request_async
        omni.engine.add_request_async = self._add_and_tell

    def expect(self, request_id: str, submitted: asyncio.Event) -> None:
        """Set `submitted` once the request has been received."""
        self._expected[request_id] = submitted

    def forget(self, request_id: str) -> None:
        """The request has ended."""
        self._expected.pop(request_id, None)

    async def _add_and_tell(self, *args: Any, **kwargs: Any) -> None:
        await self._add_request(*args, **kwargs)
        internal_id = kwargs["request_id"] if "request_id" in kwargs else args[0]
        # The engine's own id of a request is the client's, a dash, and a suffix.
        submitted = self._expected.get(internal_id.rpartition("-")[0])
        if submitted is not None:
            submitted.set()


class _Answer:
    """What is new in each output of a request, whether a stage sends deltas or the whole."""

    def __init__(self, cumulative_stages: frozenset[int]) -> None:
        self.usage: EngineUsage | None = None
        self.finish_reason: str | None = None
        self._cumulative = cumulative_stages
        self._text: dict[int, str] = {}  # by stage that sends the whole: what came so far
        self._samples: dict[int, int] = {}
        self._spoke = False

    def take(self, output: Any) -> EngineOutput | None:
        """The new text or speech in an `OmniRequestOutput`; None if there is nothing new.

        Raises `EngineError` if the engine gave the request up.
        """
        completion = output.outputs[0] if output.outputs else None
        if completion is None:
            return None
        stage: int = output.stage_id or 0
        if stage == 0:
            self.usage = EngineUsage(
                prompt_tokens=len(output.prompt_token_ids or ()),
                cached_tokens=output.num_cached_tokens or 0,
            )
        if completion.finish_reason == "error":
            raise EngineError("engine_failed", "vLLM-Omni gave the request up; see its log")
        if output.final_output_type == "audio":
            return self._speech(stage, getattr(completion, "multimodal_output", None))
        if output.final_output_type != "text":
            return None
        self.finish_reason = completion.finish_reason or self.finish_reason
        text = self._new_text(stage, completion.text or "")
        return EngineOutput(text_delta=text) if text else None

    def _new_text(self, stage: int, text: str) -> str:
        if stage not in self._cumulative:
            return text
        known = self._text.get(stage, "")
        self._text[stage] = text
        return text[len(known) :]

    def _speech(self, stage: int, payload: Any) -> EngineOutput | None:
        audio = payload.get("audio") if payload is not None else None
        if audio is None:
            return None
        samples = _mono(audio)
        if stage in self._cumulative:
            known = self._samples.get(stage, 0)
            self._samples[stage] = samples.size
            samples = samples[known:]
        if not samples.size:
            return None
        if not self._spoke and samples.size > 2 * CODEC_FRAME_SAMPLES:
            samples = samples[CODEC_FRAME_SAMPLES:]
        self._spoke = True
        return EngineOutput(audio=samples, sample_rate_hz=_rate_hz(payload))


def _mono(audio: Any) -> NDArray[np.float32]:
    """A tensor, or the list of those that came since the last output, as float32 samples."""
    chunks = audio if isinstance(audio, list) else [audio]
    arrays = [chunk.detach().float().cpu().numpy().reshape(-1) for chunk in chunks]
    return np.concatenate(arrays) if arrays else np.zeros(0, np.float32)


def _rate_hz(payload: Any) -> int:
    for key in RATE_KEYS:
        rate = payload.get(key)
        if isinstance(rate, list):
            rate = rate[-1] if rate else None
        if rate is not None:
            return int(rate)
    return RATE_HZ


def _cumulative_stages(omni: "AsyncOmni", sampling: list[Any]) -> frozenset[int]:
    """The stages that send all they have each time: a pipeline may insist, whatever is asked."""
    from vllm.sampling_params import RequestOutputKind

    effective = omni.resolve_sampling_params_list(list(sampling), allow_delta_coercion=True)
    return frozenset(
        stage
        for stage, params in enumerate(effective)
        if getattr(params, "output_kind", None) is RequestOutputKind.CUMULATIVE
    )


def _info_of(omni: "AsyncOmni", info: EngineInfo, limits: ModelLimits) -> EngineInfo:
    stages = [omni.engine.get_stage_metadata(stage) for stage in range(omni.num_stages)]
    final = {stage.final_output_type for stage in stages if stage.final_output}
    return EngineInfo(
        name=info.name,
        model=info.model,
        description=info.description,
        input_modalities=limits.input_modalities,
        output_modalities=frozenset(final & {"text", "audio"}),
        output_rate_hz=info.output_rate_hz,
        context_tokens=limits.context_tokens,
        images_per_prompt=limits.images_per_prompt,
        prefix_caching=limits.prefix_caching,
        stages=tuple(stage.model_stage or f"stage {n}" for n, stage in enumerate(stages)),
    )


def _load(settings: Settings) -> "AsyncOmni":
    """Start all stages; blocks for as long as that takes. Raises `EngineError`."""
    model = settings.model
    assert model is not None
    if model.startswith((".", "/", "~")) and not Path(model).expanduser().is_dir():
        raise EngineError("model_not_found", f"--model {model}: there is no such folder")
    try:
        from vllm_omni import AsyncOmni

        return AsyncOmni(**omni_args(settings))
    except Exception as error:
        raise _explained(model, error) from error


def _explained(model: str, error: Exception) -> EngineError:
    """What is wrong, by what vLLM-Omni says when it starts."""
    said = str(error).strip() or type(error).__name__
    if isinstance(error, ImportError):
        return EngineError(
            "engine_not_installed",
            f"vLLM-Omni cannot be imported ({said}): its version has to be that of vLLM; "
            "pip install -r requirements-omni.txt",
        )
    if "Repository not found" in said or "restricted" in said:
        return EngineError("model_not_found", f"--model {model}: {said}")
    if "did not resolve to a registered Omni pipeline" in said:
        return EngineError("model_not_supported", f"--model {model}: {said}")
    if "out of memory" in said.lower() or "no available memory" in said.lower():
        return EngineError(
            "engine_out_of_memory",
            f"--model {model}: not enough memory ({said}). Choose a smaller --max-model-len, or "
            'divide the memory otherwise: --engine-options \'{"deploy_config": "FILE"}\'',
        )
    return EngineError(
        "engine_start_failed",
        f"--model {model}: vLLM-Omni could not start ({said}); the log above has its own words",
    )


def _failure(omni: "AsyncOmni", error: Exception) -> EngineError:
    if omni.errored:
        return EngineError("engine_died", "vLLM-Omni died during the request. Restart the server")
    log.error("vLLM-Omni failed on a request", exc_info=error)
    return EngineError("engine_failed", f"vLLM-Omni failed on the request: {error}")
