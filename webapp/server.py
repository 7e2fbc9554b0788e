"""The FastAPI app: routes, lifespan, and the Gradio page mounted at `/`."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import gradio as gr
from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from core.engines.base import Engine
from core.engines.load import load_engine
from core.errors import SightlineError
from core.frames import DecodePool
from core.gate import QuestionGate
from core.pipeline import load_pipeline
from core.protocol import EngineDescription, field_error, protocol_schema
from core.settings import Settings
from core.speech.kit import SpeechKit
from webapp.admission import Admission
from webapp.ice import offer_loopback_where_alone
from webapp.shared import Shared
from webapp.ui import PageFiles, build_ui, mount_options
from webapp.webrtc import Offer, Peers, busy_answer
from webapp.websocket import VideoChatSocket

log = logging.getLogger(__name__)

HEARTBEAT_MS = 1_000  # of the page's pings
STATUS_OF_CODE = {"server_full": 503}  # every other code: 400
OFFER_BYTES = 512 * 1024
CLOSE_BYTES = 256  # of a webrtc_id


class Server:
    """What the routes share: the engine, the decode pool, peers and sockets."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self.settings = settings
        self.engine = engine
        self.pool = DecodePool(settings.decode_workers)
        self.kit = SpeechKit(vad=settings.vad, asr=settings.asr, tts=settings.tts)
        pipeline = load_pipeline(settings.pipeline)
        self.shared = Shared(settings, engine, self.pool, self.kit, QuestionGate(), pipeline)
        self.peers = Peers(self.shared)
        self.sockets = Admission(settings.max_sockets)
        self._loading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the engine in the background; the page is there meanwhile."""
        offer_loopback_where_alone()
        self._loading = asyncio.create_task(self._load())

    async def _load(self) -> None:
        try:
            await self.engine.start()
        except Exception:
            # `health` says so to the page and to `/readyz`; the server itself lives.
            log.exception("the engine could not be started")
        await self.kit.load()

    async def stop(self) -> None:
        """End all sessions, then the engine."""
        await self.peers.close_all()
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        await self.engine.close()
        self.kit.close()
        self.pool.close()

    async def readiness(self) -> tuple[int, dict[str, Any]]:
        """HTTP status and body of `/readyz`."""
        health = await self.engine.health()
        body = {
            "status": health.status,
            "detail": health.detail,
            "engine": EngineDescription.of(self.engine.info).model_dump(),
            "speech": {
                part: {"status": status.status, "detail": status.detail}
                for part, status in self.kit.status.items()
            },
        }
        return (200 if health.status == "ready" else 503), body


def create_app(settings: Settings, engine: Engine | None = None) -> FastAPI:
    """The web app. `engine` overrides the one that the settings name.

    Raises `SightlineError` if that one, or the pipeline, cannot be imported.
    """
    server = Server(settings, engine or load_engine(settings))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await server.start()
        yield
        await server.stop()

    app = FastAPI(title="Sightline", lifespan=lifespan, docs_url="/docs", redoc_url=None)
    app.state.server = server
    _add_routes(app, server)
    app.mount("/static", PageFiles(), name="static")
    page = build_ui(settings, server.engine.info)
    gr.mount_gradio_app(app, page, path="/", **mount_options())
    return app


def _add_routes(app: FastAPI, server: Server) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process is alive."""
        return {"status": "ok"}

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        """Whether questions can be answered, and by what."""
        status, body = await server.readiness()
        return JSONResponse(body, status)

    @app.get("/protocol.json")
    async def protocol() -> dict[str, Any]:
        """JSON Schema of every event, both directions."""
        return protocol_schema()

    @app.get("/webrtc/config")
    async def webrtc_config() -> dict[str, Any]:
        """What the page's RTCPeerConnection is made with."""
        servers = [item.model_dump(exclude_none=True) for item in server.settings.ice_servers]
        return {"iceServers": servers, "heartbeat_ms": HEARTBEAT_MS}

    @app.post("/webrtc/offer")
    async def webrtc_offer(request: Request) -> Response:
        """WebRTC signalling: an SDP offer, answered."""
        try:
            offer = await _read_offer(request)
            answer = await server.peers.offer(offer)
        except SightlineError as error:
            body = busy_answer(error, server.peers.admission.limit)
            return JSONResponse(body, STATUS_OF_CODE.get(error.code, 400))
        return JSONResponse(answer.model_dump())

    @app.post("/webrtc/close", status_code=204)
    async def webrtc_close(request: Request) -> Response:
        """The page was closed or Stop was pressed (`sendBeacon`): the body is its webrtc_id."""
        body = await _read_body(request, CLOSE_BYTES)
        server.peers.close(body.decode("utf-8", "replace"))
        return Response(status_code=204)

    @app.websocket("/v1/video/chat/stream")
    async def video_chat(socket: WebSocket) -> None:
        """vLLM-Omni's streaming-video protocol."""
        chat = VideoChatSocket(socket, server.shared)
        await chat.serve(server.sockets)


async def _read_body(request: Request, limit_bytes: int) -> bytes:
    """The body, or no more than one byte over the limit of it."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit_bytes:
            return body[: limit_bytes + 1]
    return body


async def _read_offer(request: Request) -> Offer:
    body = await _read_body(request, OFFER_BYTES)
    if len(body) > OFFER_BYTES:
        raise SightlineError(
            "invalid_offer", f"/webrtc/offer: the body is over {OFFER_BYTES // 1024} KiB"
        )
    try:
        return Offer.model_validate_json(body)
    except ValidationError as error:
        raise SightlineError(
            "invalid_offer", field_error(error, "/webrtc/offer").message
        ) from error
