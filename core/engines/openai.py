"""The `openai` engine: any OpenAI-compatible server, or a fleet of them behind a router.

Streaming chat completions over HTTP. A server is recognised as vLLM by its model list; it
then also gets the frames' ids (`uuid`), a `cache_salt` per session and vLLM's own sampling
parameters. Every request carries the session's id in a header, so that a router can send a
session to where its prefix cache is (docs/scaling.md).

A warm-up is the question's prompt without the question, with `max_tokens=1`. The server's
chat template closes it: the few tokens after the last image (`<end_of_utterance>\\nAssistant:`
and the like) are not a prefix of the question's. That costs nothing in the cache: vLLM keeps
whole blocks of tokens, and the block with those tokens would not be full without them
either. Measured with 1, 4 and 8 frames and blocks of 32: the question finds 64, 128 and 192
cached tokens, with `add_generation_prompt: false` in the warm-up exactly as many, and
`continue_final_message` is refused where a message ends with an image.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import openai

from core.engines.base import (
    Engine,
    EngineHealth,
    EngineInfo,
    EngineOutput,
    EngineRequest,
    EngineUsage,
)
from core.engines.openai_body import BodyWriter
from core.engines.openai_options import OpenAIOptions
from core.engines.openai_server import ModelServer
from core.errors import EngineError
from core.settings import Settings

log = logging.getLogger(__name__)

RETRY_S = (0.2, 0.6)  # before the second and the third attempt
RETRIED_STATUS = (429, 502, 503)


def create(settings: Settings) -> Engine:
    """The engine that the settings describe. Raises `EngineError` (`invalid_engine_options`)."""
    options = OpenAIOptions.read(settings.engine_options)
    address = urlsplit(settings.base_url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise EngineError(
            "invalid_engine_options", "--base-url: is not an address such as http://host:8000/v1"
        )
    api_key = settings.api_key.get_secret_value() if settings.api_key else ""
    return OpenAIEngine(settings.base_url, options, model=settings.model, api_key=api_key)


@dataclass
class _Running:
    """One request; its stream once the server has accepted it."""

    stream: Any = None  # openai.AsyncStream[ChatCompletionChunk]
    aborted: bool = False


class OpenAIEngine(Engine):
    """Asks a server. `model` None: its first one; `api_key` empty: it needs none."""

    def __init__(
        self,
        base_url: str,
        options: OpenAIOptions | None = None,
        *,
        model: str | None = None,
        api_key: str = "",
    ) -> None:
        self._options = options or OpenAIOptions.read({})
        self._server = ModelServer(
            base_url, model=model, api_key=api_key, timeout_s=self._options.timeout_s
        )
        self._errors = self._server.errors
        self._bodies = BodyWriter(self._options)
        self._running: dict[str, _Running] = {}

    @property
    def info(self) -> EngineInfo:
        """What it is; complete once the server was there."""
        options, server = self._options, self._server
        card = server.card
        caching = options.prefix_caching
        return EngineInfo(
            name="openai",
            model=card.id if card else server.wanted or f"the first model of {server.host}",
            description=f"A model served at {server.host}.",
            input_modalities=frozenset(options.input_modalities),
            context_tokens=options.context_tokens or (card.max_model_len if card else None),
            images_per_prompt=options.images_per_prompt,
            prefix_caching=self._is_vllm if caching is None else caching,
        )

    @property
    def _is_vllm(self) -> bool:
        if self._options.vllm is not None:
            return self._options.vllm
        return self._server.card is not None and self._server.card.is_vllm

    async def start(self) -> None:
        """Find the model. Raises `EngineError` if it is not there, and goes on looking."""
        await self._server.find()

    async def health(self) -> EngineHealth:
        """How the server is, by what it said at most 2 s ago."""
        return await self._server.health()

    async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        """Stream an answer. Raises `EngineError`; `PromptTooLong` if a shorter one would do.

        A request is sent again only while nothing of an answer has come, and a warm-up never.
        """
        card = self._server.card or await self._server.find()
        running = self._running[request.request_id] = _Running()
        usage: EngineUsage | None = None
        finish_reason: str | None = None
        chunks = 0
        try:
            running.stream = await self._submit(request, card.id)
            request.submitted.set()
            if running.aborted:
                await running.stream.close()
            async for chunk in running.stream:
                self._server.seen()
                chunks += 1
                text, reason, cost = self._read(chunk)
                finish_reason, usage = reason or finish_reason, cost or usage
                if text and not request.prefill_only:
                    yield EngineOutput(text_delta=text)
            if finish_reason is None and not running.aborted:
                raise self._cut_short(running.stream, chunks)
        except Exception as error:
            if not running.aborted:  # else it is what closing the stream made of it
                raise self._failure(error, card.id, midway=running.stream is not None) from None
        finally:
            self._running.pop(request.request_id, None)
            if running.stream is not None:
                await running.stream.close()
        yield EngineOutput(usage=usage, finish_reason="abort" if running.aborted else finish_reason)

    async def abort(self, request_id: str) -> None:
        """Close the request's stream: the server notices, and stops."""
        running = self._running.get(request_id)
        if running is None:
            return
        running.aborted = True
        if running.stream is not None:
            await running.stream.close()

    async def forget(self, session_id: str) -> None:
        """Drop the pictures that were sent for a session."""
        self._bodies.forget(session_id)

    async def close(self) -> None:
        """End all requests and connections."""
        for request_id in list(self._running):
            await self.abort(request_id)
        await self._server.close()

    async def _submit(self, request: EngineRequest, model: str) -> Any:
        """Send the request; its stream, once the server has accepted it."""
        body = await self._bodies.write(request, model=model, vllm=self._is_vllm)
        headers = {"X-Request-Id": request.request_id}
        if self._options.affinity_header is not None:
            headers[self._options.affinity_header] = request.session_id
        waits = () if request.prefill_only else RETRY_S
        for wait_s in (*waits, None):
            try:
                return await self._server.client.chat.completions.create(
                    **body, extra_headers=headers
                )
            except openai.APIError as error:
                if wait_s is None or not _passing(error):
                    raise
                log.info("%s: sent again after %s", request.request_id, type(error).__name__)
                await asyncio.sleep(wait_s)
        raise AssertionError("the last attempt returns or raises")

    def _failure(self, error: Exception, model: str, *, midway: bool) -> EngineError:
        explained = self._errors.explain(error, model, midway=midway)
        if isinstance(error, openai.APIConnectionError | openai.NotFoundError):
            self._server.doubt()
        return explained

    def _read(self, chunk: Any) -> tuple[str, str | None, EngineUsage | None]:
        """Text, finish reason and usage of a chunk, whose shape the package does not check."""
        try:
            usage = _usage(chunk.usage) if chunk.usage is not None else None
            if not chunk.choices:
                return "", None, usage
            choice = chunk.choices[0]
            text = choice.delta.content or ""
            if not isinstance(text, str):
                raise TypeError(f"content is {type(text).__name__}")
            return text, choice.finish_reason, usage
        except (AttributeError, TypeError, ValueError, LookupError) as error:
            raise self._errors.bad_answer("a chunk has the wrong shape") from error

    def _cut_short(self, stream: Any, chunks: int) -> EngineError:
        if chunks:
            return self._errors.broken("without saying why")
        kind = self._errors.quote(stream.response.headers.get("content-type", "of no type"))
        return self._errors.bad_answer(f"it is no stream of chat completions ({kind})")


def _passing(error: openai.APIError) -> bool:
    """Whether the same request may well succeed in a moment, and nothing has come of it yet."""
    if isinstance(error, openai.APIStatusError):
        return error.status_code in RETRIED_STATUS
    return isinstance(error, openai.APIConnectionError) and not isinstance(
        error, openai.APITimeoutError
    )


def _usage(usage: Any) -> EngineUsage:
    details = usage.prompt_tokens_details
    cached = details.cached_tokens if details is not None else None
    return EngineUsage(prompt_tokens=int(usage.prompt_tokens), cached_tokens=int(cached or 0))
