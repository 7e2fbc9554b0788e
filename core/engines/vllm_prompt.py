"""Prompts by vLLM's own renderer: the model's chat template and multimodal processor."""

import asyncio
import base64
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Sequence, Set
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from PIL import Image

from core.engines.base import AudioPart, EngineRequest, ImagePart, Message, TextPart
from core.engines.chat import ContentPart, chat_messages
from core.engines.vllm_model import ModelLimits
from core.errors import EngineError, PromptTooLong
from core.speech.pcm import wav_bytes

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM

AUDIO_RATE_HZ = 16_000
QUESTION_TOKENS = 512  # room that a warm-up leaves for the question and its answer
LEAST_ANSWER_TOKENS = 64  # room that a question's prompt leaves at least
KNOWN_IMAGES = 10_000  # content ids that are remembered as processed
STAND_INS = ("0", "1")  # two questions: what their prompts share is what any question's has


class PromptRenderer:
    """Makes engine inputs. Slow parts run on vLLM's renderer threads, not on the event loop."""

    def __init__(self, llm: "AsyncLLM") -> None:
        self._renderer = llm.renderer
        self._special = _special_tokens(self._renderer.get_tokenizer())
        self._processed: OrderedDict[str, None] = OrderedDict()  # content ids, oldest first

    async def prompt(self, request: EngineRequest, limits: ModelLimits) -> dict[str, Any]:
        """The engine input of a request; of a warm-up, only what precedes any question.

        Images and audio carry ids, so that a repeated one is neither processed nor encoded
        again; the cache salt keeps sessions apart. Raises `PromptTooLong`, `EngineError`.
        """
        images = _images(request)
        _require_images(len(images), limits)
        known = {image for image in images if image in self._processed}
        prompt = await self._made(request, known)
        if prompt is None:
            prompt = await self._made(request, set())
            assert prompt is not None
        require_room(len(prompt["prompt_token_ids"]), limits, prefill_only=request.prefill_only)
        self._processed |= dict.fromkeys(images)
        while len(self._processed) > KNOWN_IMAGES:
            self._processed.popitem(last=False)
        prompt["cache_salt"] = request.session_id
        return prompt

    async def _made(self, request: EngineRequest, known: Set[str]) -> dict[str, Any] | None:
        """The engine input, with the images in `known` named but not sent again.

        None if vLLM's cache of processed images has let go of one of them.
        """
        messages = [self._defused(message) for message in request.messages]
        try:
            if request.prefill_only:
                rendered = await self._prefix(messages, request.session_id, known)
            else:
                rendered = await self._rendered(messages, request.session_id, known)
        except Exception as error:
            raise EngineError(
                "prompt_not_rendered", f"The model's chat template failed: {error}"
            ) from error
        tokens = await self._tokens(rendered)
        try:
            return dict(await self._renderer.process_for_engine_async(tokens, time.time()))
        except ValueError:
            if not known:
                raise
            return None

    def _defused(self, message: Message) -> Message:
        """With the model's special tokens broken up where somebody has typed them.

        One more image token than there are images would end the engine process, and a role
        token would let a person speak as the system.
        """
        parts = tuple(
            TextPart(self._special.sub(_broken_up, part.text))
            if isinstance(part, TextPart)
            else part
            for part in message.parts
        )
        return replace(message, parts=parts)

    async def _tokens(self, rendered: Any) -> Any:
        from vllm.exceptions import VLLMValidationError

        try:
            return await self._renderer.tokenize_prompt_async(
                rendered, self._renderer.default_chat_tok_params
            )
        except VLLMValidationError as error:
            if error.parameter == "input_tokens":
                raise PromptTooLong(
                    f"The prompt has {error.value} tokens, the model takes "
                    f"{self._renderer.model_config.max_model_len} with its answer"
                ) from error
            raise

    async def _rendered(self, messages: Sequence[Message], session_id: str, known: Set[str]) -> Any:
        from vllm.renderers.params import ChatParams

        audio = partial(_audio_part, key=session_id.encode()[:64])
        image = partial(_image_part, known=known)
        chat = await asyncio.to_thread(chat_messages, messages, image=image, audio=audio)
        params = ChatParams(chat_template_kwargs={"add_generation_prompt": True})
        _, prompt = await self._renderer.render_messages_async(chat, params)
        return prompt

    async def _prefix(self, messages: Sequence[Message], session_id: str, known: Set[str]) -> Any:
        """What the prompts of two different questions after `messages` have in common."""
        one, other = [
            await self._rendered(_asked(messages, text), session_id, known) for text in STAND_INS
        ]
        key = "prompt_token_ids" if "prompt_token_ids" in one else "prompt"
        one[key] = one[key][: _common(one[key], other[key])]
        return one


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many items two sequences have in common from their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _special_tokens(tokenizer: Any) -> re.Pattern[str]:
    """What stands for more than its letters in this model's prompts."""
    names = {str(token) for token in tokenizer.get_added_vocab()}
    names |= {str(token) for token in tokenizer.all_special_tokens}
    written = [re.escape(name) for name in sorted(names, key=len, reverse=True) if len(name) > 1]
    return re.compile("|".join(written) or r"(?!)", re.IGNORECASE)


def _broken_up(token: re.Match[str]) -> str:
    return f"{token[0][0]} {token[0][1:]}"


def _asked(messages: Sequence[Message], text: str) -> list[Message]:
    """`messages` with a question as the last part of the last user message."""
    *before, last = messages
    if last.role != "user":
        return [*messages, Message("user", (TextPart(text),))]
    return [*before, replace(last, parts=(*last.parts, TextPart(text)))]


def require_room(tokens: int, limits: ModelLimits, *, prefill_only: bool) -> None:
    """Raise `PromptTooLong` unless a prompt of `tokens` leaves room for what follows it."""
    limit = limits.context_tokens
    if limit is None:
        return
    room = min(QUESTION_TOKENS if prefill_only else LEAST_ANSWER_TOKENS, limit // 4)
    if tokens + room > limit:
        raise PromptTooLong(
            f"The prompt has {tokens} tokens; with room for an answer the model takes "
            f"{limit - room} of {limit}"
        )


def _images(request: EngineRequest) -> list[str]:
    """The content ids of a request's images, in order."""
    parts = (part for message in request.messages for part in message.parts)
    return [part.content_id for part in parts if isinstance(part, ImagePart)]


def _require_images(count: int, limits: ModelLimits) -> None:
    limit = limits.images_per_prompt
    if limit is not None and count > limit:
        raise PromptTooLong(f"The prompt has {count} images, the model takes {limit}")


def _image_part(part: ImagePart, known: Set[str]) -> ContentPart:
    return {
        "type": "image_pil",
        "image_pil": None if part.content_id in known else Image.fromarray(part.rgb),
        "uuid": part.content_id,
    }


def _audio_part(part: AudioPart, key: bytes) -> ContentPart:
    wav = base64.b64encode(wav_bytes(part.pcm16, AUDIO_RATE_HZ)).decode("ascii")
    return {
        "type": "input_audio",
        "input_audio": {"data": wav, "format": "wav"},
        "uuid": hashlib.blake2b(part.pcm16, key=key, digest_size=16).hexdigest(),
    }
