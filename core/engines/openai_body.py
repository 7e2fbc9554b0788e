"""The body of a chat completion: messages with their pictures, sampling, vLLM's extras."""

import asyncio
import base64
import io
from typing import Any

from PIL import Image

from core.engines.base import AudioPart, EngineRequest, ImagePart
from core.engines.chat import ContentPart, chat_messages
from core.engines.openai_options import OpenAIOptions
from core.engines.sampling import SamplingParams
from core.speech.pcm import INPUT_RATE_HZ, wav_bytes


class BodyWriter:
    """Makes bodies; keeps each session's encoded pictures until it is forgotten."""

    def __init__(self, options: OpenAIOptions) -> None:
        self._options = options
        self._data_urls: dict[str, dict[str, str]] = {}  # by session, by content id

    def forget(self, session_id: str) -> None:
        """Drop the pictures of a session."""
        self._data_urls.pop(session_id, None)

    async def write(self, request: EngineRequest, *, model: str, vllm: bool) -> dict[str, Any]:
        """The arguments of `chat.completions.create`; `vllm`: the server takes its extras."""
        urls = await self._encoded(request)

        def image(part: ImagePart) -> ContentPart:
            url = {"type": "image_url", "image_url": {"url": urls[part.content_id]}}
            return {**url, "uuid": part.content_id} if vllm else url

        body: dict[str, Any] = {
            "model": model,
            "messages": chat_messages(request.messages, image=image, audio=_audio),
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": self._max_tokens(request),
        }
        extra: dict[str, Any] = {"cache_salt": request.session_id} if vllm else {}
        if vllm and self._options.priority:
            extra["priority"] = request.priority
        params = request.sampling[0] if request.sampling else None
        if params is not None and not request.prefill_only:
            body |= _sampling(params)
            extra |= _vllm_sampling(params) if vllm else {}
        body["extra_body"] = extra | self._options.extra_body
        return body

    def _max_tokens(self, request: EngineRequest) -> int:
        if request.prefill_only:
            return 1
        params = request.sampling[0] if request.sampling else None
        wanted = params.max_tokens if params is not None else None
        return request.max_tokens or wanted or self._options.max_tokens

    async def _encoded(self, request: EngineRequest) -> dict[str, str]:
        """Data URLs of the request's images, by content id.

        Those of a session's last request are kept: the next one shows most of them again.
        """
        parts = {
            part.content_id: part
            for message in request.messages
            for part in message.parts
            if isinstance(part, ImagePart)
        }
        known = self._data_urls.get(request.session_id, {})
        new = [part for content_id, part in parts.items() if content_id not in known]
        if new:
            known = known | await asyncio.to_thread(_encode, new, self._options.image_quality)
        urls = {content_id: known[content_id] for content_id in parts}
        self._data_urls[request.session_id] = urls
        return urls


def _encode(parts: list[ImagePart], quality: int) -> dict[str, str]:
    """JPEGs as data URLs, by content id; runs on a thread."""
    urls = {}
    for part in parts:
        out = io.BytesIO()
        Image.fromarray(part.rgb).save(out, "JPEG", quality=quality)
        data = base64.b64encode(out.getvalue()).decode("ascii")
        urls[part.content_id] = f"data:image/jpeg;base64,{data}"
    return urls


def _audio(part: AudioPart) -> ContentPart:
    data = base64.b64encode(wav_bytes(part.pcm16, INPUT_RATE_HZ)).decode("ascii")
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def _sampling(params: SamplingParams) -> dict[str, Any]:
    """OpenAI's sampling parameters; those that would change nothing are left out."""
    body: dict[str, Any] = {"temperature": params.temperature, "top_p": params.top_p}
    if params.seed is not None:
        body["seed"] = params.seed
    if params.stop:
        body["stop"] = params.stop
    if params.presence_penalty:
        body["presence_penalty"] = params.presence_penalty
    if params.frequency_penalty:
        body["frequency_penalty"] = params.frequency_penalty
    return body


def _vllm_sampling(params: SamplingParams) -> dict[str, Any]:
    """vLLM's own: all of them, or else the model's defaults would apply to some."""
    names = ("top_k", "min_p", "repetition_penalty", "ignore_eos", "min_tokens", "stop_token_ids")
    return {name: getattr(params, name) for name in names}
