"""The real app under uvicorn on a free loopback port, in the test's own event loop."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import pytest
import uvicorn
from fastapi import FastAPI

from core.settings import Settings
from tests.fakes import WAIT_S, ScriptedEngine
from tests.web.clients import eventually
from webapp.server import Server, create_app

SHUTDOWN_S = 3
MUTE = {"vad": "off", "asr": "off", "tts": "off"}  # tests of speech bring their own kit


@dataclass
class App:
    """A running app: where it is, and what is behind it."""

    url: str
    engine: ScriptedEngine
    server: Server
    uvicorn: uvicorn.Server

    @property
    def socket_url(self) -> str:
        return self.url.replace("http", "ws") + "/v1/video/chat/stream"

    def stop(self) -> None:
        """As Ctrl-C does."""
        self.uvicorn.should_exit = True


class QuietServer(uvicorn.Server):
    """A uvicorn that leaves the test runner's signal handlers alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def running(app: FastAPI, settings: Settings) -> AsyncIterator[tuple[str, uvicorn.Server]]:
    """Serve `app` as `app.py` does; its URL, and the server."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        log_level="warning",
        ws_max_size=settings.max_message_bytes,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    server = QuietServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await eventually(lambda: server.started or serving.done(), "the server started")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", server
    finally:
        server.should_exit = True
        async with asyncio.timeout(WAIT_S):
            await serving
        listener.close()


Serve = Callable[..., Awaitable[App]]


@pytest.fixture(scope="session")
def built_app() -> FastAPI:
    """The app, made once: building the Gradio page takes half a second."""
    return create_app(Settings(), engine=ScriptedEngine())


@pytest.fixture
async def serve(built_app: FastAPI) -> AsyncIterator[Serve]:
    """Starts the app: `await serve(engine, max_sockets=1)`; it ends with the test."""
    async with AsyncExitStack() as stack:

        async def start(engine: ScriptedEngine | None = None, **fields: Any) -> App:
            settings, engine = Settings(**(MUTE | fields)), engine or ScriptedEngine()
            server: Server = built_app.state.server
            server.__init__(settings, engine)  # type: ignore[misc]  # as new, behind its routes
            url, uvicorn_server = await stack.enter_async_context(running(built_app, settings))
            return App(url, engine, server, uvicorn_server)

        yield start


@pytest.fixture
async def app(serve: Serve) -> App:
    """The app with default settings."""
    return await serve()
