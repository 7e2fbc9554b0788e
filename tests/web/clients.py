"""Clients of the running app: a WebSocket, a WebRTC peer, and how to wait for them."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from fractions import Fraction
from typing import Any

import av
import httpx
import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.mediastreams import MediaStreamError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from core.protocol import AudioDelta
from tests.fakes import WAIT_S, jpeg
from webapp.media import Speaker

POLL_S = 0.005


async def eventually(condition: Callable[[], Any], what: str, timeout_s: float = WAIT_S) -> None:
    """Until `condition` is true; fails at the deadline."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    while not condition():
        assert loop.time() < deadline_s, f"not within {timeout_s} s: {what}"
        await asyncio.sleep(POLL_S)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class ChatClient:
    """A client of `/v1/video/chat/stream`; keeps every event it gets."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.events: list[dict[str, Any]] = []

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def configure(self, **fields: Any) -> dict[str, Any]:
        """Send the config (the filter is off unless asked for); what the session is."""
        await self.send("session.config", **({"enable_frame_filter": False} | fields))
        return await self.until("session.created")

    async def frame(self, frame_id: str = "f", data: bytes | None = None, **fields: Any) -> None:
        image = jpeg() if data is None else data
        await self.send("video.frame", data=b64(image), frame_id=frame_id, **fields)

    async def until(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Read up to the next event of this type (with these fields); returns it."""
        async with asyncio.timeout(WAIT_S):
            while True:
                event = json.loads(await self.socket.recv(), parse_constant=_not_json)
                self.events.append(event)
                if event["type"] == kind and fields.items() <= event.items():
                    return event

    async def until_closed(self) -> int:
        """Read to the end; the close code."""
        async with asyncio.timeout(WAIT_S):
            try:
                async for message in self.socket:
                    self.events.append(json.loads(message, parse_constant=_not_json))
            except ConnectionClosed:
                pass
        assert self.socket.close_code is not None
        return self.socket.close_code

    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]


def _not_json(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


@asynccontextmanager
async def chat(url: str, **config: Any) -> AsyncIterator[ChatClient]:
    """A connected client, configured with `config` unless `configure=False`."""
    configure = config.pop("configure", True)
    async with connect(url, max_size=None) as socket:
        client = ChatClient(socket)
        if configure:
            await client.configure(**config)
        yield client


# --- WebRTC ---------------------------------------------------------------------------


class Camera(MediaStreamTrack):
    """A camera that shows one picture at 15 fps."""

    kind = "video"
    fps = 15

    def __init__(self, rgb: np.ndarray) -> None:
        super().__init__()
        self.rgb = rgb
        self._count = 0

    async def recv(self) -> av.VideoFrame:
        await asyncio.sleep(1 / self.fps)
        frame = av.VideoFrame.from_ndarray(self.rgb).reformat(format="yuv420p")
        frame.pts, frame.time_base = self._count, Fraction(1, self.fps)
        self._count += 1
        return frame


class Microphone(Speaker):
    """Somebody who says nothing until told to: a 440 Hz tone is in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[int] = []  # time stamps of the packets

    async def recv(self) -> av.AudioFrame:
        packet = await super().recv()
        self.sent.append(packet.pts or 0)
        return packet

    def say(self, seconds: float) -> None:
        t = np.arange(int(seconds * 48_000)) / 48_000
        tone = np.round(8_000 * np.sin(2 * np.pi * 440 * t)).astype("<i2")
        self.play(AudioDelta(request_id="microphone", pcm16=tone.tobytes(), sample_rate_hz=48_000))


class Caller:
    """A browser as the server sees it: an aiortc peer with a data channel and speakers."""

    def __init__(self, url: str, webrtc_id: str) -> None:
        self.url = url
        self.webrtc_id = webrtc_id
        self.pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.events: list[dict[str, Any]] = []
        self.heard: list[np.ndarray] = []  # int16 stereo-interleaved packets at 48 kHz
        self.channel = self.pc.createDataChannel("events")
        self._opened = asyncio.Event()
        self._arrived = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self.channel.on("open", self._opened.set)
        self.channel.on("message", self._on_message)
        self.pc.on("track", self._on_track)

    async def offer(self, **config: Any) -> httpx.Response:
        """Post an offer; the response, an answer or a refusal."""
        await self.pc.setLocalDescription(await self.pc.createOffer())
        async with httpx.AsyncClient(base_url=self.url, timeout=WAIT_S) as http:
            return await http.post(
                "/webrtc/offer",
                json={
                    "sdp": self.pc.localDescription.sdp,
                    "type": "offer",
                    "webrtc_id": self.webrtc_id,
                    "config": config,
                },
            )

    async def connect(self, *tracks: MediaStreamTrack, **config: Any) -> dict[str, Any]:
        """Call; the `session.created` event."""
        for track in tracks:
            self.pc.addTrack(track)
        if not any(track.kind == "audio" for track in tracks):
            self.pc.addTransceiver("audio", direction="recvonly")
        response = await self.offer(**config)
        assert response.status_code == 200, response.text
        answer = response.json()
        await self.pc.setRemoteDescription(RTCSessionDescription(answer["sdp"], "answer"))
        async with asyncio.timeout(WAIT_S):
            await self._opened.wait()
        created = await self.until("session.created")
        assert created["session_id"] == answer["session_id"]
        return created

    def send(self, kind: str, **fields: Any) -> None:
        self.channel.send(json.dumps({"type": kind, **fields}))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    async def until(self, kind: str, count: int = 1, **fields: Any) -> dict[str, Any]:
        """The `count`-th event of this type (with these fields), once it is there."""

        def matching() -> list[dict[str, Any]]:
            return [event for event in self.of(kind) if fields.items() <= event.items()]

        async with asyncio.timeout(WAIT_S):
            while len(matching()) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return matching()[count - 1]

    @property
    def loud_s(self) -> float:
        """Seconds of sound in what was heard so far."""
        return sum(0.02 for packet in self.heard if np.abs(packet).mean() > 500)

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
        await self.pc.close()

    def _on_message(self, message: str) -> None:
        self.events.append(json.loads(message, parse_constant=_not_json))
        self._arrived.set()

    def _on_track(self, track: MediaStreamTrack) -> None:
        self._listening = asyncio.create_task(self._listen(track))

    async def _listen(self, track: MediaStreamTrack) -> None:
        with suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                self.heard.append(frame.to_ndarray().reshape(-1))  # type: ignore[union-attr]


@asynccontextmanager
async def caller(url: str, webrtc_id: str = "w") -> AsyncIterator[Caller]:
    """A caller that has not called yet; it hangs up at the end."""
    peer = Caller(url, webrtc_id)
    try:
        yield peer
    finally:
        await peer.close()
