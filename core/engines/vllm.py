"""vLLM in this server: one shared `AsyncLLM` for all sessions, on a GPU or a CPU.

Its engine core is a process of its own. If that dies, running requests end with
`engine_died`, and a new one is started in the background.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from core.engines.base import (
    Engine,
    EngineHealth,
    EngineInfo,
    EngineOutput,
    EngineRequest,
    EngineUsage,
)
from core.engines.vllm_model import ModelLimits, load_model, model_limits, require_vllm
from core.engines.vllm_prompt import PromptRenderer
from core.errors import EngineError
from core.settings import Settings

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.v1.engine.async_llm import AsyncLLM

log = logging.getLogger(__name__)

ANSWER_TOKENS = 512  # of an answer whose length nobody named
SHUTDOWN_S = 5.0  # for the engine process to end by itself
RESTARTING = "The engine process died; it is being restarted"
WATCH_S = 0.5  # between two looks at whether the engine core is alive
RESTART_PAUSES_S = (0.0, 2.0, 10.0, 30.0)  # before each attempt to start it again


def create(settings: Settings) -> "VllmEngine":
    """The engine that `--engine vllm` names.

    Raises `EngineError` (`model_required`, `engine_not_installed`, `invalid_engine_options`).
    """
    if not settings.model:
        raise EngineError(
            "model_required", "--engine vllm needs --model: a local path or a model's hub id"
        )
    require_vllm(settings)
    return VllmEngine(settings)


class VllmEngine(Engine):
    """Any multimodal model that vLLM runs. Prompts are made by vLLM's own renderer."""

    def __init__(self, settings: Settings) -> None:
        assert settings.model is not None
        self._settings = settings
        self._model = settings.model
        self._llm: AsyncLLM | None = None
        self._renderer: PromptRenderer | None = None
        self._limits = ModelLimits(context_tokens=settings.max_model_len)
        self._health = EngineHealth("loading", "Not started")
        self._loading_since: float | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def info(self) -> EngineInfo:
        """What it is; what it can do is read from the model once that is loaded."""
        limits = self._limits
        return EngineInfo(
            name="vllm",
            model=self._model.rstrip("/").rsplit("/", 1)[-1],
            description="A multimodal language model on vLLM, in this server.",
            input_modalities=limits.input_modalities,
            context_tokens=limits.context_tokens,
            images_per_prompt=limits.images_per_prompt,
            prefix_caching=limits.prefix_caching,
        )

    async def start(self) -> None:
        """Load the model. Raises `EngineError`: what is wrong and what to do."""
        try:
            await self._load(f"Loading {self._model}")
        except EngineError as error:
            self._health = EngineHealth("failed", error.message)
            raise
        self._watching = asyncio.create_task(self._watch(), name="vllm-watch")

    async def _load(self, doing: str) -> None:
        self._health = EngineHealth("loading", doing)
        self._loading_since = time.monotonic()
        try:
            self._llm = await asyncio.to_thread(load_model, self._settings)
            self._limits = model_limits(self._llm, self._settings)
            self._renderer = PromptRenderer(self._llm)
        finally:
            self._loading_since = None
        self._health = EngineHealth("ready")
        log.info("%s is ready: %s", self._model, self._limits)

    async def _watch(self) -> None:
        """Start the engine core again whenever it has died."""
        while True:
            await asyncio.sleep(WATCH_S)
            if self._llm is not None and self._llm.errored:
                await self._restart()

    async def _restart(self) -> None:
        dead, self._llm, self._renderer = self._llm, None, None
        log.error("vLLM's engine process has died; starting it again")
        self._health = EngineHealth("loading", RESTARTING)
        if dead is not None:
            with suppress(Exception):  # of a dead process: nothing can be done about it
                await _shut_down(dead, 0.0)
        for pause_s in RESTART_PAUSES_S:
            await asyncio.sleep(pause_s)
            try:
                await self._load(RESTARTING)
            except EngineError as error:
                log.error("it could not be started again: %s", error.message)
                self._health = EngineHealth("failed", error.message)
            else:
                return

    async def health(self) -> EngineHealth:
        """Whether it can answer; while it loads, for how long already."""
        if self._llm is not None and self._llm.errored:
            return EngineHealth("loading", RESTARTING)
        if self._loading_since is not None:
            seconds = time.monotonic() - self._loading_since
            return replace(self._health, detail=f"{self._health.detail}: {seconds:.0f} s so far")
        return self._health

    async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        """Deltas of an answer, then its usage; of a warm-up, the usage alone."""
        llm, renderer = self._llm, self._renderer
        if llm is None or renderer is None:
            status = "loading" if self._health.status != "failed" else "failed"
            raise EngineError(f"engine_{status}", self._health.detail)
        finished = True
        try:
            prompt = await renderer.prompt(request, self._limits)
            params = self._sampling(llm, request, len(prompt["prompt_token_ids"]))
            collector = await llm.add_request(
                request.request_id, prompt, params, priority=request.priority
            )
            request.submitted.set()
            finished = False
            while not finished:
                output: Any = collector.get_nowait() or await collector.get()
                finished = output.finished
                yield _output(output, prefill_only=request.prefill_only)
        except EngineError:
            raise
        except Exception as error:
            finished = True
            raise self._failure(llm, error) from error
        finally:
            if not finished:
                await llm.abort(request.request_id)

    def _sampling(
        self, llm: "AsyncLLM", request: EngineRequest, prompt_tokens: int
    ) -> "SamplingParams":
        """Row 5: an override starts from vLLM's own defaults, not from the model's."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        override = request.sampling[0] if request.sampling else None
        if override is None:
            fields = llm.model_config.get_diff_sampling_param()
        else:
            fields = override.model_dump(exclude={"output_kind"})
        limit = self._limits.context_tokens
        wanted = request.max_tokens or fields.get("max_tokens") or ANSWER_TOKENS
        fields["max_tokens"] = min(wanted, limit - prompt_tokens) if limit else wanted
        return SamplingParams(**fields, output_kind=RequestOutputKind.DELTA)

    def _failure(self, llm: "AsyncLLM", error: Exception) -> EngineError:
        from vllm.exceptions import VLLMClientError

        if isinstance(error, VLLMClientError | ValueError):
            return EngineError("engine_rejected", f"The model cannot take this prompt: {error}")
        if llm.errored:
            return EngineError(
                "engine_died",
                "The engine process died during the request. It is being restarted: ask again "
                "in a moment",
            )
        log.error("vLLM failed on a request", exc_info=error)
        return EngineError("engine_failed", f"vLLM failed on the request: {error}")

    async def abort(self, request_id: str) -> None:
        """Stop a request; one that has ended is no error."""
        if self._llm is not None and not self._llm.errored:
            await self._llm.abort(request_id)

    async def forget(self, session_id: str) -> None:
        """Nothing is kept by session: cache blocks leave when others need their place."""

    async def close(self) -> None:
        """End the engine process."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        llm, self._llm, self._renderer = self._llm, None, None
        if llm is not None:
            await _shut_down(llm, SHUTDOWN_S)


async def _shut_down(llm: "AsyncLLM", timeout_s: float) -> None:
    """End the engine process. Its outputs are no longer read: their end would look like a crash."""
    if llm.output_handler is not None:
        llm.output_handler.cancel()
    await asyncio.to_thread(llm.shutdown, timeout_s)


def _output(output: Any, *, prefill_only: bool) -> EngineOutput:
    """One `RequestOutput` of vLLM's with delta text as ours."""
    completion = output.outputs[0] if output.outputs else None
    text = completion.text if completion is not None and not prefill_only else ""
    if not output.finished:
        return EngineOutput(text_delta=text)
    reason = completion.finish_reason if completion is not None else None
    if reason == "error":
        raise EngineError("engine_failed", "vLLM gave the request up; see the server's log")
    usage = EngineUsage(
        prompt_tokens=len(output.prompt_token_ids or ()),
        cached_tokens=output.num_cached_tokens or 0,
    )
    return EngineOutput(text_delta=text, usage=usage, finish_reason=reason)
