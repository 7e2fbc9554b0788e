"""The openai engine against a scripted server: requests, retries, and every way to fail."""

import asyncio
import base64
import io
import itertools
import json
import logging
import wave
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydantic import SecretStr

from core.engines.base import (
    AudioPart,
    EngineRequest,
    EngineUsage,
    ImagePart,
    Message,
    TextPart,
)
from core.engines.sampling import SamplingParams
from core.errors import EngineError, PromptTooLong
from core.settings import Settings
from tests.fakes import WAIT_S, Client, Harness, frame, jpeg, picture

pytestmark = pytest.mark.unit
pytest.importorskip("openai", reason="the openai package is not installed")

from core.engines import openai as engine_module  # noqa: E402
from core.engines import openai_server  # noqa: E402
from core.engines.openai import OpenAIEngine, create  # noqa: E402

KEY = "sk-very-secret-4711"

Reply = Callable[["Asked", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Asked:
    """One HTTP request as the server got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class ScriptedServer:
    """An HTTP server; each chat completion takes the next reply, the last one for ever."""

    replies: list[Reply] = field(default_factory=list)
    models: Reply | None = None
    health: Reply | None = None
    asked: list[Asked] = field(default_factory=list)
    asked_to_chat: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)  # a client closed its connection
    port: int = 0
    _server: asyncio.Server | None = None

    @property
    def chats(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.path.endswith("/chat/completions")]

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server.close_clients() if hasattr(self._server, "close_clients") else None
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, path, _ = head[0].split()
            headers = {
                name.lower(): value
                for name, _, value in (line.partition(": ") for line in head[1:] if line)
            }
            data = await reader.readexactly(int(headers.get("content-length", 0)))
            asked = Asked(method, path, headers, json.loads(data) if data else None)
            self.asked.append(asked)
            if path.endswith("/chat/completions"):
                self.asked_to_chat.set()
            watch = asyncio.create_task(self._watch(reader))
            await self._reply(path)(asked, writer)
            writer.close()
            watch.cancel()
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    def _reply(self, path: str) -> Reply:
        if path.endswith("/models"):
            return self.models or models()
        if path.endswith("/health"):
            return self.health or respond(200, "")
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        await reader.read()
        self.gone.set()


def respond(status: int, body: Any, kind: str = "application/json") -> Reply:
    """A whole response."""
    data = (body if isinstance(body, str) else json.dumps(body)).encode()

    async def reply(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(status, kind, f"Content-Length: {len(data)}\r\n") + data)
        await writer.drain()

    return reply


def models(*cards: dict[str, Any]) -> Reply:
    listed = cards or ({"id": "tiny", "owned_by": "vllm", "max_model_len": 4096},)
    return respond(200, {"object": "list", "data": list(listed)})


def refuse(status: int, message: str) -> Reply:
    """An error in OpenAI's form."""
    return respond(status, {"error": {"message": message, "type": "x", "code": status}})


def chunk(text: str | None = None, finish: str | None = None) -> str:
    delta = {} if text is None else {"content": text}
    return json.dumps(
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "tiny",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }
    )


def usage(prompt: int, cached: int | None) -> str:
    details = None if cached is None else {"cached_tokens": cached}
    cost = {"prompt_tokens": prompt, "completion_tokens": 2, "total_tokens": prompt + 2}
    return json.dumps(
        {"choices": [], "usage": {**cost, "prompt_tokens_details": details}, "id": "c"}
    )


ANSWER = (chunk("A "), chunk("cup."), chunk(finish="stop"), usage(90, 64), "[DONE]")


def stream(*data: str, then: str = "end", kind: str = "text/event-stream") -> Reply:
    """Server-sent events. `then`: end, break (cut the connection) or hang."""

    async def reply(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(200, kind, "Transfer-Encoding: chunked\r\n"))
        for line in data:
            event = f"data: {line}\n\n".encode()
            writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        await writer.drain()
        if then == "end":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        elif then == "hang":
            await asyncio.sleep(3600)

    return reply


async def cut(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Hang up without a word."""


async def gibberish(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\x01\x02 this is not HTTP\r\n\r\n")
    await writer.drain()


async def silence(asked: Asked, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


def _head(status: int, kind: str, rest: str) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{rest}Connection: close\r\n\r\n"
    return head.encode()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for, shorter."""
    monkeypatch.setattr(engine_module, "RETRY_S", (0.01, 0.02))
    monkeypatch.setattr(openai_server, "WATCH_S", (0.02,))
    monkeypatch.setattr(openai_server, "HEALTH_AGE_S", 0.0)


@asynccontextmanager
async def serving(
    *replies: Reply, started: bool = True, **settings: Any
) -> AsyncIterator[tuple[OpenAIEngine, ScriptedServer]]:
    """A scripted server, and an engine that asks it."""
    server = ScriptedServer(list(replies or (stream(*ANSWER),)))
    server.models = settings.pop("models", None)
    await server.open()
    engine = engine_at(server.port, **settings)
    try:
        if started:
            await engine.start()
        yield engine, server
    finally:
        await engine.close()
        await server.close()


def engine_at(port: int, **settings: Any) -> OpenAIEngine:
    made = create(Settings(base_url=f"http://127.0.0.1:{port}/v1", **settings))
    assert isinstance(made, OpenAIEngine)
    return made


PIXELS = picture(1)


def request(*, text: str = "What is it?", number: list[int] = [0], **rest: Any) -> EngineRequest:  # noqa: B006
    number[0] += 1
    parts = [TextPart("<1.0 s>"), ImagePart(PIXELS, "frame-a", 1.0)]
    messages = (
        Message("system", (TextPart("Be brief."),)),
        Message("user", (*parts, TextPart(text)) if text else tuple(parts)),
    )
    defaults: dict[str, Any] = {"session_id": "session-1", "messages": messages}
    return EngineRequest(f"request-{number[0]}", **(defaults | rest))


async def answer(engine: OpenAIEngine, asked: EngineRequest) -> tuple[str, Any]:
    """The text, and the last output."""
    async with asyncio.timeout(WAIT_S):
        outputs = [output async for output in engine.generate(asked)]
    return "".join(output.text_delta for output in outputs), outputs[-1]


async def until(condition: Callable[[], bool]) -> None:
    """Look every 10 ms until it holds."""
    async with asyncio.timeout(WAIT_S):
        for _ in itertools.count():
            if condition():
                return
            await asyncio.sleep(0.01)


async def refused(engine: OpenAIEngine, asked: EngineRequest | None = None) -> EngineError:
    with pytest.raises(EngineError) as raised:
        await answer(engine, asked or request())
    return raised.value


# --- what is asked, and what comes back ------------------------------------------------


async def test_an_answer_streams_with_its_usage():
    async with serving() as (engine, _):
        asked = request()
        text, last = await answer(engine, asked)
        assert text == "A cup."
        assert last.usage == EngineUsage(prompt_tokens=90, cached_tokens=64)
        assert last.finish_reason == "stop"
        assert asked.submitted.is_set()


async def test_a_vllm_server_gets_ids_a_salt_and_the_sessions_header():
    async with serving() as (engine, server):
        await answer(engine, request())
        (chat,) = server.chats
        system, user = chat.body["messages"]
        assert system == {"role": "system", "content": "Be brief."}
        mark, image, text = user["content"]
        assert (mark["text"], text["text"]) == ("<1.0 s>", "What is it?")
        assert image["uuid"] == "frame-a"
        kind, _, data = image["image_url"]["url"].partition(",")
        assert kind == "data:image/jpeg;base64"
        sent = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))), int)
        assert np.abs(sent - PIXELS).mean() < 3
        assert chat.body["cache_salt"] == chat.headers["x-session-id"] == "session-1"
        assert chat.headers["x-request-id"].startswith("request-")
        assert "priority" not in chat.body
        assert chat.body["max_tokens"] == 512
        assert chat.body["stream_options"] == {"include_usage": True}


async def test_another_server_gets_only_what_openai_defines():
    params = SamplingParams(temperature=0, top_k=5, seed=0, stop=["END"], presence_penalty=0.5)
    other = models({"id": "llava", "owned_by": "library"})
    async with serving(models=other) as (engine, server):
        await answer(engine, request(sampling=(params,)))
        (chat,) = server.chats
        assert set(chat.body) == {
            "model", "messages", "stream", "stream_options", "max_tokens",
            "temperature", "top_p", "seed", "stop", "presence_penalty",
        }  # fmt: skip
        assert "uuid" not in chat.body["messages"][1]["content"][1]
        assert not engine.info.prefix_caching
        assert engine.info.context_tokens is None


async def test_vllm_gets_all_sampling_parameters_and_the_priority():
    params = SamplingParams(temperature=0, top_k=5, max_tokens=7)
    options = {"priority": True, "extra_body": {"chat_template_kwargs": {"thinking": False}}}
    async with serving(engine_options=options) as (engine, server):
        await answer(engine, request(sampling=(params,), priority=3))
        (chat,) = server.chats
        sent = {name: chat.body[name] for name in ("temperature", "top_k", "min_p", "max_tokens")}
        assert sent == {"temperature": 0, "top_k": 5, "min_p": 0, "max_tokens": 7}
        assert chat.body["priority"] == 3
        assert chat.body["chat_template_kwargs"] == {"thinking": False}


async def test_a_warm_up_is_the_same_prompt_with_one_token_that_is_not_said():
    params = SamplingParams(max_tokens=99, min_tokens=9)
    async with serving() as (engine, server):
        warm = request(text="", prefill_only=True, max_tokens=1, sampling=(params,))
        text, last = await answer(engine, warm)
        assert text == ""
        assert last.usage == EngineUsage(90, 64)
        await answer(engine, request())
        warmed, asked = server.chats
        assert warmed.body["max_tokens"] == 1
        assert "min_tokens" not in warmed.body
        assert asked.body["messages"][1]["content"][:2] == warmed.body["messages"][1]["content"]


async def test_audio_is_sent_as_wav():
    pcm = np.arange(160, dtype="<i2").tobytes()
    messages = (Message("user", (AudioPart(pcm), TextPart("What?"))),)
    options = {"input_modalities": ["text", "image", "audio"]}
    async with serving(engine_options=options) as (engine, server):
        assert engine.info.hears
        await answer(engine, request(messages=messages))
        sent = server.chats[0].body["messages"][0]["content"][0]["input_audio"]
        assert sent["format"] == "wav"
        with wave.open(io.BytesIO(base64.b64decode(sent["data"]))) as reader:
            assert reader.getframerate() == 16_000
            assert reader.readframes(160) == pcm


async def test_a_frame_is_encoded_once_and_dropped_with_its_session(monkeypatch):
    encoded = []
    from core.engines import openai_body

    encode = openai_body._encode
    monkeypatch.setattr(
        openai_body,
        "_encode",
        lambda parts, quality: encoded.append(parts) or encode(parts, quality),
    )
    async with serving() as (engine, _):
        await answer(engine, request(text="", prefill_only=True))
        await answer(engine, request())
        assert len(encoded) == 1
        await engine.forget("session-1")
        await answer(engine, request())
        assert len(encoded) == 2


async def test_usage_without_details_is_no_cached_tokens():
    async with serving(stream(chunk("Yes.", "stop"), usage(12, None), "[DONE]")) as (engine, _):
        _, last = await answer(engine, request())
        assert last.usage == EngineUsage(12, 0)


async def test_a_server_that_tells_no_usage_still_answers():
    async with serving(stream(chunk("Yes.", "stop"), "[DONE]")) as (engine, _):
        text, last = await answer(engine, request())
        assert (text, last.usage, last.finish_reason) == ("Yes.", None, "stop")


# --- retries ----------------------------------------------------------------------------


@pytest.mark.parametrize("first", [refuse(503, "loading"), refuse(429, "busy"), cut])
async def test_what_came_to_nothing_is_sent_again(first):
    async with serving(first, first, stream(*ANSWER)) as (engine, server):
        text, _ = await answer(engine, request())
        assert text == "A cup."
        assert len(server.chats) == 3


@pytest.mark.parametrize(
    ("reply", "code"),
    [(refuse(503, "loading"), "engine_overloaded"), (cut, "engine_unreachable")],
)
async def test_it_gives_up_after_two_retries(reply, code):
    async with serving(reply) as (engine, server):
        assert (await refused(engine)).code == code
        assert len(server.chats) == 3


async def test_a_warm_up_is_never_sent_again():
    async with serving(refuse(503, "busy")) as (engine, server):
        await refused(engine, request(text="", prefill_only=True))
        assert len(server.chats) == 1


@pytest.mark.parametrize("then", ["break", "end"])
async def test_an_answer_that_broke_off_is_never_asked_again(then):
    async with serving(stream(chunk("A "), then=then)) as (engine, server):
        outputs = engine.generate(request())
        assert (await anext(outputs)).text_delta == "A "
        with pytest.raises(EngineError) as raised:
            await anext(outputs)
        assert raised.value.code == "engine_failed"
        assert "broke off" in raised.value.message
        assert len(server.chats) == 1


# --- every way to fail --------------------------------------------------------------------

LONG = (
    "This model's maximum context length is 4096 tokens. However, your prompt contains at least "
    "4097 input tokens, which exceeds this limit even without any output tokens."
)
TOO_MANY = "At most 32 image(s) may be provided in one prompt. (parameter=image)"
TEXT_ONLY = "tiny is not a multimodal model"
NO_SUCH = "The model `tiny` does not exist."


@pytest.mark.parametrize(
    ("reply", "code", "says"),
    [
        (refuse(400, LONG), "prompt_too_long", "4096 tokens"),
        (refuse(400, TOO_MANY), "prompt_too_long", "At most 32"),
        (respond(413, "<html>", "text/html"), "prompt_too_long", "client_max_body_size"),
        (refuse(400, TEXT_ONLY), "engine_rejected", "does not take images"),
        (refuse(400, "At most 0 image(s) may"), "engine_rejected", "does not take images"),
        (refuse(400, "At most 0 audio(s) may"), "engine_rejected", "does not take audio"),
        (refuse(400, "bad seed"), "engine_rejected", "bad seed"),
        (respond(422, {"detail": "no such field"}), "engine_rejected", "no such field"),
        (refuse(401, f"wrong key {KEY}"), "engine_unauthorized", "SIGHTLINE_API_KEY"),
        (refuse(403, "no"), "engine_unauthorized", "SIGHTLINE_API_KEY"),
        (refuse(404, NO_SUCH), "unknown_model", "--model"),
        (refuse(500, "CUDA is sad"), "engine_failed", "CUDA is sad"),
        (refuse(504, "late"), "engine_timeout", "overloaded or stuck"),
        (respond(200, "<html>Welcome</html>", "text/html"), "engine_bad_answer", "--base-url"),
        (respond(200, {"choices": []}), "engine_bad_answer", "application/json"),
        (stream("{not json"), "engine_bad_answer", "not the JSON"),
        (stream('{"choices": 5}'), "engine_bad_answer", "wrong shape"),
        (stream('{"choices": [{"delta": {"content": 7}}]}'), "engine_bad_answer", "wrong shape"),
        (stream('[1, 2]'), "engine_bad_answer", "wrong shape"),
        (stream('"text"'), "engine_bad_answer", "wrong shape"),
        (stream("null"), "engine_bad_answer", "wrong shape"),
        (stream("[DONE]"), "engine_bad_answer", "no stream"),
        (stream('{"error": {"message": "died", "code": 500}}'), "engine_failed", "died"),
        (stream('{"error": {"message": "' + LONG + '", "code": 400}}'), "prompt_too_long", "4096"),
        (stream('{"error": "out of memory"}'), "engine_failed", "out of memory"),
        (gibberish, "engine_bad_answer", "not HTTP"),
    ],
)  # fmt: skip
async def test_failures_have_stable_codes_and_say_what_to_do(reply, code, says, caplog):
    caplog.set_level(logging.DEBUG)
    async with serving(reply, api_key=SecretStr(KEY)) as (engine, server):
        error = await refused(engine)
        assert error.code == code
        assert says in error.message
        assert f"127.0.0.1:{server.port}" in error.message
        assert isinstance(error, PromptTooLong) == (code == "prompt_too_long")
        assert KEY not in error.message
    assert KEY not in caplog.text


async def test_a_slow_server_is_given_up_on():
    async with serving(silence, engine_options={"timeout_s": 0.2}) as (engine, server):
        error = await refused(engine)
        assert error.code == "engine_timeout"
        assert "0.2 s" in error.message
        assert "timeout_s" in error.message
        assert len(server.chats) == 1  # it may be working on it


async def test_a_server_that_stops_in_the_middle_is_given_up_on():
    hang = stream(chunk("A "), then="hang")
    async with serving(hang, engine_options={"timeout_s": 0.2}) as (engine, _):
        error = await refused(engine)
        assert error.code == "engine_timeout"
        assert "in the middle" in error.message


# --- abort -------------------------------------------------------------------------------


async def test_abort_closes_the_stream_and_the_reader_ends():
    async with serving(stream(chunk("A "), then="hang")) as (engine, server):
        asked = request()
        outputs = engine.generate(asked)
        assert (await anext(outputs)).text_delta == "A "
        waiting = asyncio.ensure_future(anext(outputs))
        await asyncio.sleep(0)
        async with asyncio.timeout(WAIT_S):
            await engine.abort(asked.request_id)
            await server.gone.wait()
            assert (await waiting).finish_reason == "abort"
        await engine.abort(asked.request_id)  # again: harmless


async def test_closing_the_generator_closes_the_stream_and_abort_after_it_is_harmless():
    async with serving(stream(chunk("A "), then="hang")) as (engine, server):
        asked = request()
        outputs = engine.generate(asked)
        await anext(outputs)
        step = asyncio.ensure_future(anext(outputs))
        await asyncio.sleep(0)
        step.cancel()
        await asyncio.wait([step])
        await outputs.aclose()
        await engine.abort(asked.request_id)
        async with asyncio.timeout(WAIT_S):
            await server.gone.wait()


async def test_a_request_that_is_not_accepted_yet_can_be_cancelled():
    async with serving(silence) as (engine, server):
        asked = request()
        step = asyncio.ensure_future(anext(engine.generate(asked)))
        async with asyncio.timeout(WAIT_S):
            await server.asked_to_chat.wait()
            assert not asked.submitted.is_set()
            step.cancel()
            await asyncio.wait([step])
            await server.gone.wait()


async def test_abort_before_the_server_accepted_ends_the_answer():
    accept = asyncio.Event()

    async def late(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await accept.wait()
        await stream(chunk("A "), then="hang")(asked, writer)

    async with serving(late) as (engine, server):
        asked = request()
        running = asyncio.ensure_future(answer(engine, asked))
        async with asyncio.timeout(WAIT_S):
            await server.asked_to_chat.wait()
            await engine.abort(asked.request_id)
            accept.set()
            text, last = await running
        assert (text, last.finish_reason) == ("", "abort")


# --- start and health ----------------------------------------------------------------------


async def test_the_first_model_is_taken_and_described():
    listed = models({"id": "one", "owned_by": "vllm", "max_model_len": 8192}, {"id": "two"})
    async with serving(models=listed, started=False) as (engine, server):
        assert engine.info.model == f"the first model of 127.0.0.1:{server.port}"
        await engine.start()
        info = engine.info
        assert (info.name, info.model, info.context_tokens) == ("openai", "one", 8192)
        assert info.prefix_caching
        assert f"127.0.0.1:{server.port}" in info.description
        assert (await engine.health()).status == "ready"


async def test_options_override_what_the_server_does_not_tell():
    options = {
        "context_tokens": 2048,
        "images_per_prompt": 8,
        "prefix_caching": True,
        "vllm": False,
        "affinity_header": None,
    }
    async with serving(engine_options=options) as (engine, server):
        info = engine.info
        assert (info.context_tokens, info.images_per_prompt, info.prefix_caching) == (2048, 8, True)
        await answer(engine, request())
        assert "cache_salt" not in server.chats[0].body
        assert "x-session-id" not in server.chats[0].headers


async def test_a_model_that_is_not_there_is_named_with_those_that_are():
    async with serving(started=False, model="big") as (engine, _):
        with pytest.raises(EngineError) as raised:
            await engine.start()
        assert raised.value.code == "unknown_model"
        assert "'big'" in raised.value.message
        assert "it has: tiny" in raised.value.message
        assert (await engine.health()).status == "failed"


@pytest.mark.parametrize(
    ("listed", "code", "status"),
    [
        (refuse(401, "no"), "engine_unauthorized", "failed"),
        (refuse(404, "no"), "engine_bad_answer", "failed"),
        (refuse(503, "loading the model"), "engine_overloaded", "loading"),
        (refuse(500, "oh"), "engine_failed", "failed"),
        (respond(200, "<html>Welcome</html>", "text/html"), "engine_bad_answer", "failed"),
        (respond(200, {"data": 5}), "engine_bad_answer", "failed"),
        (respond(200, {"data": []}), "unknown_model", "failed"),
        (gibberish, "engine_bad_answer", "failed"),
    ],
)
async def test_a_server_that_cannot_be_used_says_why(listed, code, status):
    async with serving(models=listed, started=False, api_key=SecretStr(KEY)) as (engine, _):
        with pytest.raises(EngineError) as raised:
            await engine.start()
        assert raised.value.code == code
        health = await engine.health()
        assert (health.status, health.detail) == (status, raised.value.message)
        assert (await refused(engine)).code == code


async def test_a_silent_server_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(openai_server, "PROBE_S", 0.1)
    async with serving(models=silence, started=False) as (engine, _):
        async with asyncio.timeout(WAIT_S):
            with pytest.raises(EngineError) as raised:
                await engine.start()
        assert raised.value.code == "engine_timeout"


async def test_a_server_that_comes_later_is_found(caplog):
    caplog.set_level(logging.INFO)
    server = ScriptedServer([stream(*ANSWER)])
    await server.open()
    await server.close()  # its port is known, and nobody listens
    engine = engine_at(server.port)
    with pytest.raises(EngineError) as raised:
        await engine.start()
    assert raised.value.code == "engine_unreachable"
    assert "--base-url" in raised.value.message
    health = await engine.health()
    assert (health.status, health.detail) == ("failed", raised.value.message)
    assert not engine.info.prefix_caching
    assert (await refused(engine)).code == "engine_unreachable"
    await server.open()
    await until(lambda: engine.info.prefix_caching)  # without anybody asking for its health
    assert (await engine.health()).status == "ready"
    assert (await answer(engine, request()))[0] == "A cup."
    assert caplog.text.count("engine_unreachable") == 1  # said once, not at every look
    await engine.close()
    await server.close()


async def test_a_server_that_went_away_is_noticed_and_found_again():
    async with serving() as (engine, server):
        await server.close()
        assert (await refused(engine)).code == "engine_unreachable"
        assert (await engine.health()).status == "failed"
        server.models = models({"id": "another", "owned_by": "vllm", "max_model_len": 1024})
        await server.open()
        await until(lambda: engine.info.model == "another")
        assert (await engine.health()).status == "ready"
        assert (engine.info.model, engine.info.context_tokens) == ("another", 1024)


async def test_health_is_asked_at_most_every_two_seconds_and_answers_count(monkeypatch):
    monkeypatch.setattr(openai_server, "HEALTH_AGE_S", 3600.0)
    async with serving() as (engine, server):
        await asyncio.gather(*(engine.health() for _ in range(5)))
        assert [asked.path for asked in server.asked] == ["/v1/models"]
        monkeypatch.setattr(openai_server, "HEALTH_AGE_S", 0.0)
        await asyncio.gather(*(engine.health() for _ in range(5)))
        assert [asked.path for asked in server.asked] == ["/v1/models", "/health"]


async def test_a_server_without_health_is_asked_for_its_models():
    async with serving() as (engine, server):
        server.health = respond(404, {"detail": "Not Found"})
        assert (await engine.health()).status == "ready"
        assert (await engine.health()).status == "ready"
        paths = [asked.path for asked in server.asked]
        assert paths == ["/v1/models", "/health", "/v1/models", "/v1/models"]


async def test_the_key_is_sent_and_written_nowhere(caplog):
    caplog.set_level(logging.DEBUG)
    async with serving(api_key=SecretStr(KEY)) as (engine, server):
        await answer(engine, request())
        assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {KEY}"}
        assert KEY not in repr(engine.info)
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"timeout": 3}, "timeout: Extra inputs"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"input_modalities": ["smell"]}, "input_modalities"),
        ({"affinity_header": "X-Bad: header"}, "affinity_header"),
    ],
)
def test_bad_options_are_refused(options, says):
    with pytest.raises(EngineError) as raised:
        create(Settings(engine_options=options))
    assert raised.value.code == "invalid_engine_options"
    assert says in raised.value.message


def test_a_bad_address_is_refused():
    with pytest.raises(EngineError) as raised:
        create(Settings(base_url="localhost:8000"))
    assert "--base-url" in raised.value.message


# --- through a session ------------------------------------------------------------------------


async def asked_in_session(engine: OpenAIEngine) -> Client:
    async with Harness(engine) as harness:
        harness.session.frame(frame(jpeg(1)))
        harness.session.ask("What is it?")
        await harness.session.finish()
    return harness.client


async def test_a_client_is_told_what_is_wrong_and_what_to_do():
    async with serving(refuse(400, TEXT_ONLY)) as (engine, _):
        (error,) = (await asked_in_session(engine)).of("error")
        assert error.code == "engine_rejected"
        assert "This model does not take images" in error.message


async def test_a_session_with_a_server_that_is_down_ends_in_an_error():
    async with serving() as (engine, server):
        await server.close()
        (error,) = (await asked_in_session(engine)).of("error")
        assert "is it running" in error.message
