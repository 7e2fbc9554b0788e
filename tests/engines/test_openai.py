"""The openai engine against real vLLM servers on the CPU, alone and behind nginx."""

import asyncio
import itertools
import urllib.request
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from core.engines.base import EngineRequest, ImagePart, Message, TextPart
from core.engines.sampling import SamplingParams
from core.errors import EngineError, PromptTooLong
from core.protocol import SessionConfig
from core.settings import Settings
from tests.engines.servers import (
    CHECKPOINT,
    MODEL,
    NGINX,
    ROOT,
    Server,
    free_port,
    nginx,
    vllm_servers,
)
from tests.fakes import Harness, frame, jpeg, picture

pytest.importorskip("vllm", reason="vLLM is not installed")
pytest.importorskip("openai", reason="the openai package is not installed")

from benchmarks.affinity import measure
from core.engines.openai import create

# The first test of all waits for the servers.
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(420),
    pytest.mark.skipif(not CHECKPOINT.exists(), reason=f"{CHECKPOINT} is missing"),
]
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")

WAIT_S = 60.0
PROMPTLY_S = 2.0  # until a server has let go of an aborted request
KEY = "sesame-4711"


@pytest.fixture(scope="session")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """Two servers of the tiny model, for all tests here."""
    with vllm_servers(2, tmp_path_factory.mktemp("vllm"), f"--api-key={KEY}") as servers:
        yield servers


@asynccontextmanager
async def engine_at(base_url: str, **settings: Any) -> Any:
    """A started engine."""
    engine = create(Settings(base_url=base_url, api_key=SecretStr(KEY), **settings))
    try:
        await engine.start()
        yield engine
    finally:
        await engine.close()


def request(
    name: str, *, frames: int = 4, text: str = "what is shown?", **rest: Any
) -> EngineRequest:
    """A question about `frames` frames of a session called `name`; no text: its warm-up."""
    parts: list[Any] = []
    for number in range(frames):
        parts += [
            TextPart(f"<{number}.0 s>"),
            ImagePart(picture(number), f"{name}-{number}", number),
        ]
    if text:
        parts.append(TextPart(text))
    sampling = SamplingParams(temperature=0, max_tokens=rest.pop("max_tokens", 8), ignore_eos=True)
    return EngineRequest(
        f"{name}-{text[:20].strip() or 'warm'}",
        name,
        (Message("system", (TextPart("Say what is shown."),)), Message("user", tuple(parts))),
        sampling=(sampling,),
        prefill_only=not text,
        **rest,
    )


async def ask(engine: Any, asked: EngineRequest) -> tuple[str, Any]:
    """The text of an answer, and its last output."""
    async with asyncio.timeout(WAIT_S):
        outputs = [output async for output in engine.generate(asked)]
    return "".join(output.text_delta for output in outputs), outputs[-1]


async def until_idle(*servers: Server) -> None:
    """Until the servers work on nothing; fails if that takes longer than promptly."""
    async with asyncio.timeout(PROMPTLY_S):
        for _ in itertools.count():
            if not any([await asyncio.to_thread(_unfinished, server) for server in servers]):
                return
            await asyncio.sleep(0.02)


async def until_busy(server: Server) -> None:
    async with asyncio.timeout(WAIT_S):
        for _ in itertools.count():
            if await asyncio.to_thread(_unfinished, server):
                return
            await asyncio.sleep(0.01)


def _unfinished(server: Server) -> float:
    return server.unfinished


async def test_the_model_is_found_and_described(replicas):
    async with engine_at(replicas[0].base_url) as engine:
        info = engine.info
        assert (info.model, info.context_tokens, info.prefix_caching) == (MODEL, 4096, True)
        assert f"127.0.0.1:{replicas[0].port}" in info.description
        assert (await engine.health()).status == "ready"


async def test_a_warmed_prompt_is_found_in_the_cache(replicas):
    async with engine_at(replicas[0].base_url, engine_options={"priority": True}) as engine:
        text, last = await ask(engine, request("warmed", text="", priority=10))
        warm = last.usage
        assert text == ""
        assert warm.cached_tokens == 0
        text, last = await ask(engine, request("warmed"))
        assert text
        assert last.finish_reason == "length"
        usage = last.usage
        # All whole blocks of 32 tokens up to the last image; the question is a few tokens.
        assert usage.cached_tokens >= warm.prompt_tokens - 2 * 32
        assert usage.cached_tokens % 32 == 0
        assert usage.cached_tokens > 0


async def test_one_session_finds_nothing_of_another(replicas):
    """The same pictures under the same ids: the salt keeps the caches apart."""
    async with engine_at(replicas[0].base_url) as engine:
        first = request("salted")
        await ask(engine, first)
        again = EngineRequest("again", "salted", first.messages, first.sampling)
        other = EngineRequest("other", "spy", first.messages, first.sampling)
        assert (await ask(engine, again))[1].usage.cached_tokens > 0
        assert (await ask(engine, other))[1].usage.cached_tokens == 0


async def test_an_aborted_answer_stops_on_the_server(replicas):
    async with engine_at(replicas[0].base_url) as engine:
        asked = request("aborted", max_tokens=3000)
        outputs = engine.generate(asked)
        await anext(outputs)
        await until_busy(replicas[0])
        await engine.abort(asked.request_id)
        await until_idle(replicas[0])
        await outputs.aclose()
        await engine.abort(asked.request_id)


async def test_an_interrupted_session_stops_the_server_and_goes_on(replicas):
    config = SessionConfig(
        enable_frame_filter=False, sampling_params_list=[{"max_tokens": 3000, "ignore_eos": True}]
    )
    async with engine_at(replicas[0].base_url) as engine, Harness(engine, config) as harness:
        harness.session.frame(frame(jpeg(1)))
        harness.session.ask("what is shown?")
        await harness.client.until("response.text.delta")
        await until_busy(replicas[0])
        harness.session.interrupt()
        await harness.client.until("response.interrupted")
        await until_idle(replicas[0])


async def test_a_session_warms_up_and_its_question_finds_that(replicas):
    config = SessionConfig(
        enable_frame_filter=False,
        num_frames=16,  # of 4 tokens each: a few whole blocks of the cache
        sampling_params_list=[{"max_tokens": 8, "ignore_eos": True}],
    )
    async with engine_at(replicas[0].base_url) as engine, Harness(engine, config) as harness:
        for seed in range(16):
            harness.session.frame(frame(jpeg(seed), f"f{seed}"))
        async with asyncio.timeout(WAIT_S):
            for count in itertools.count(1):
                stats = await harness.client.until("prefill.stats", count)
                if stats.context_tokens >= 16 * 4:
                    break
        harness.session.ask("what is shown?")
        done = await harness.client.until("response.done")
        assert done.usage.cached_tokens > 0
        assert done.usage.prompt_tokens > done.usage.cached_tokens


async def test_what_vllm_refuses_is_explained(replicas):
    async with engine_at(replicas[0].base_url) as engine:
        with pytest.raises(PromptTooLong) as many:
            await ask(engine, request("many", frames=33))
        assert "At most 32 image" in many.value.message
        with pytest.raises(PromptTooLong) as long:
            await ask(engine, request("long", text="word " * 6000))
        assert "4096 tokens" in long.value.message
        text, _ = await ask(engine, request("after", text="what now?"))
        assert text


async def test_key_and_model_are_checked(replicas):
    base_url = replicas[0].base_url
    for settings, code in (
        ({"api_key": SecretStr("wrong")}, "engine_unauthorized"),
        ({}, "engine_unauthorized"),
        ({"api_key": SecretStr(KEY), "model": "big"}, "unknown_model"),
    ):
        engine = create(Settings(base_url=base_url, **settings))
        with pytest.raises(EngineError) as raised:
            await engine.start()
        assert raised.value.code == code
        assert (await engine.health()).status == "failed"
        await engine.close()


@needs_nginx
async def test_affinity_keeps_sessions_where_their_cache_is(replicas, tmp_path):
    dealt = await measure(replicas, tmp_path / "dealt", affinity=False, api_key=KEY)
    hashed = await measure(replicas, tmp_path / "hashed", affinity=True, api_key=KEY)
    print(f"cached: in turn {dealt.rate:.0%}, by session {hashed.rate:.0%}")
    assert hashed.prompt_tokens == dealt.prompt_tokens
    assert hashed.rate > dealt.rate + 0.15


@needs_nginx
async def test_an_abort_reaches_the_server_through_nginx(replicas, tmp_path):
    config = (ROOT / "deploy" / "replicas.conf").read_text()
    ports = {8000: free_port(), 8001: replicas[0].port, 8002: replicas[1].port}
    with nginx(config, ports, tmp_path) as router:
        async with engine_at(router.base_url) as engine:
            asked = request("through", max_tokens=3000)
            outputs = engine.generate(asked)
            await anext(outputs)
            await outputs.aclose()
            await until_idle(*replicas)


@needs_nginx
async def test_a_replica_that_is_gone_is_passed_over(replicas, tmp_path):
    config = (ROOT / "deploy" / "replicas.conf").read_text()
    ports = {8000: free_port(), 8001: replicas[0].port, 8002: free_port()}
    with nginx(config, ports, tmp_path) as router:
        async with engine_at(router.base_url) as engine:
            for number in range(4):
                text, _ = await ask(engine, request(f"moved-{number}", frames=1))
                assert text


@needs_nginx
async def test_nothing_behind_nginx_is_said_so(tmp_path):
    config = (ROOT / "deploy" / "replicas.conf").read_text()
    ports = {8000: free_port(), 8001: free_port(), 8002: free_port()}
    with nginx(config, ports, tmp_path) as router:
        engine = create(Settings(base_url=router.base_url))
        with pytest.raises(EngineError) as raised:
            await engine.start()
        assert raised.value.code == "engine_overloaded"
        assert (await engine.health()).status == "loading"
        await engine.close()


@needs_nginx
async def test_a_browser_stays_with_its_app(tmp_path):
    """deploy/apps.conf: without a cookie anywhere, with the cookie always the same."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    apps = [await asyncio.start_server(serve, "127.0.0.1", 0) for _ in range(2)]
    first, second = (app.sockets[0].getsockname()[1] for app in apps)
    config = (ROOT / "deploy" / "apps.conf").read_text()
    ports = {7860: free_port(), 7861: first, 7862: second}

    def visit(cookie: str | None) -> tuple[str, str | None]:
        asked = urllib.request.Request(proxy.root, headers={"Cookie": cookie} if cookie else {})
        with urllib.request.urlopen(asked, timeout=10) as reply:
            return reply.headers["X-Served-By"], reply.headers["Set-Cookie"]

    with nginx(config, ports, tmp_path) as proxy:
        served = set()
        for _ in range(12):
            app, cookie = await asyncio.to_thread(visit, None)
            served.add(app)
            for _ in range(3):
                assert await asyncio.to_thread(visit, cookie.split(";")[0]) == (app, None)
        assert served == {f"127.0.0.1:{first}", f"127.0.0.1:{second}"}
    for app in apps:
        app.close()
