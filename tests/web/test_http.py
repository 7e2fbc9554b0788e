"""Plain HTTP routes: health, the protocol, the page, and offers that are none."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from core.engines.base import EngineHealth
from core.protocol import protocol_schema
from tests.fakes import WAIT_S, ScriptedEngine
from tests.web.clients import eventually
from tests.web.conftest import App, Serve
from webapp.server import OFFER_BYTES

pytestmark = pytest.mark.web

STATIC = Path(__file__).resolve().parents[2] / "static"
MODULES = {path.name: path.read_text() for path in STATIC.glob("*.js")}


@pytest.fixture
async def http(app: App) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=app.url, timeout=WAIT_S) as client:
        yield client


async def test_the_process_is_alive(http: httpx.AsyncClient) -> None:
    response = await http.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(("status", "code"), [("loading", 503), ("ready", 200), ("failed", 503)])
async def test_readiness_is_the_engine_s(
    app: App, http: httpx.AsyncClient, status: Any, code: int
) -> None:
    app.engine.status = EngineHealth(status, "in words")
    response = await http.get("/readyz")
    assert response.status_code == code
    body = response.json()
    assert (body["status"], body["detail"]) == (status, "in words")
    assert body["engine"]["name"] == "scripted"
    assert body["engine"]["input_modalities"] == ["image", "text"]
    assert (await http.get("/healthz")).status_code == 200


async def test_an_engine_that_cannot_start_leaves_the_page_alive(serve: Serve) -> None:
    class Broken(ScriptedEngine):
        async def start(self) -> None:
            self.status = EngineHealth("failed", "no weights")
            raise RuntimeError("no weights")

    app = await serve(Broken())
    await eventually(lambda: app.engine.status.status == "failed", "it failed")
    async with httpx.AsyncClient(base_url=app.url, timeout=WAIT_S) as http:
        assert (await http.get("/")).status_code == 200
        assert (await http.get("/readyz")).json()["detail"] == "no weights"


async def test_the_protocol_is_served_as_json_schema(http: httpx.AsyncClient) -> None:
    response = await http.get("/protocol.json")
    assert response.headers["content-type"] == "application/json"
    assert response.json() == protocol_schema()


async def test_the_page_is_served_and_loads_nothing_from_elsewhere(
    app: App, http: httpx.AsyncClient
) -> None:
    response = await http.get("/")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    page = response.text
    assert "sightline" in page
    loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"([^\"]+)\"", page)
    assert loaded
    own = urlsplit(app.url).netloc
    assert {urlsplit(url).netloc for url in loaded} <= {"", own}
    assert not re.search(r"(?:fonts\.g|cdnjs|unpkg|jsdelivr|googletagmanager)", page)


def test_our_own_files_name_no_other_host() -> None:
    assert MODULES
    for path in STATIC.iterdir():
        named = re.findall(r"https?://[\w.:-]+", path.read_text())
        assert set(named) <= {"http://www.w3.org", "http://localhost"}, path


async def test_modules_are_served_as_javascript(http: httpx.AsyncClient) -> None:
    for name, text in MODULES.items():
        response = await http.get(f"/static/{name}")
        assert response.status_code == 200
        kind = response.headers["content-type"].split(";")[0]
        assert kind in ("text/javascript", "application/javascript")
        assert response.text == text


async def test_files_outside_static_are_not_served(http: httpx.AsyncClient) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py"):
        assert "def main" not in (await http.get(path)).text


async def test_what_a_peer_connection_is_made_with(serve: Serve) -> None:
    app = await serve(ice_servers=[{"urls": "stun:stun.example"}])
    async with httpx.AsyncClient(base_url=app.url) as http:
        config = (await http.get("/webrtc/config")).json()
    assert config["iceServers"] == [{"urls": "stun:stun.example"}]
    assert config["heartbeat_ms"] / 1000 < app.server.settings.peer_timeout_s


EMPTY_SDP = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"


def offer(**fields: Any) -> dict[str, Any]:
    return {"sdp": EMPTY_SDP, "type": "offer", "webrtc_id": "w"} | fields


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_offer"),
        (b"{nope", "invalid_offer"),
        (b"\xff\xfe", "invalid_offer"),
        ([], "invalid_offer"),
        ({}, "invalid_offer"),
        (offer(sdp=5), "invalid_offer"),
        (offer(sdp=""), "invalid_offer"),
        (offer(sdp="not SDP"), "invalid_offer"),
        (offer(sdp="v=0\r\nm=video x y z\r\n"), "invalid_offer"),
        (offer(), "invalid_offer"),
        (offer(type="answer"), "invalid_offer"),
        (offer(webrtc_id=""), "invalid_offer"),
        (offer(webrtc_id="x" * 129), "invalid_offer"),
        (offer(sdp="v" * 300_000), "invalid_offer"),
        (offer(config=[]), "invalid_offer"),
        (offer(config={"num_frames": 0}), "invalid_field"),
    ],
)
async def test_an_offer_that_is_none_is_refused_and_takes_no_place(
    app: App, http: httpx.AsyncClient, body: Any, code: str
) -> None:
    sent = {"content": body} if isinstance(body, bytes) else {"json": body}
    response = await http.post("/webrtc/offer", **sent)
    assert response.status_code == 400
    answer = response.json()
    assert answer["status"] == "failed"
    assert answer["error"]["code"] == code
    assert answer["error"]["message"]
    assert app.server.peers.admission.taken == 0
    assert len(app.server.peers) == 0


async def test_an_offer_that_is_too_large_is_refused(http: httpx.AsyncClient) -> None:
    response = await http.post("/webrtc/offer", content=b" " * (OFFER_BYTES + 1))
    assert response.status_code == 400
    assert "512 KiB" in response.json()["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"nobody", b"\xff\xff", b"x" * 100_000])
async def test_a_goodbye_of_nobody_is_fine(http: httpx.AsyncClient, body: bytes) -> None:
    assert (await http.post("/webrtc/close", content=body)).status_code == 204
