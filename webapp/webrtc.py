"""WebRTC signalling, and one peer: tracks, data channel and their Session."""

import asyncio
import logging
import re
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from aiortc import (
    MediaStreamTrack,
    RTCDataChannel,
    RTCPeerConnection,
    RTCSessionDescription,
)
from pydantic import BaseModel, Field, ValidationError

from core.errors import ProtocolError, SightlineError
from core.outbox import Outbox
from core.protocol import (
    ErrorEvent,
    SessionConfig,
    field_error,
    parse_client_message,
)
from core.session import Session
from webapp.admission import Admission
from webapp.dispatch import dispatch
from webapp.ice import rtc_configuration
from webapp.media import LifeSign, Speaker, pump_camera, pump_microphone
from webapp.shared import Shared

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 15.0  # from the answer to the first sign of life
WATCH_S = 0.25
CHANNEL_BUFFER_BYTES = 256 * 1024  # written ahead on the data channel
SEND_STALL_S = 10.0
CHANNEL = "events"  # the label of the data channel
GOODBYE_S = 0.5  # from `session.done` to the end of the connection
CAMERA_QUEUE = 2  # frames waiting for the filter: a camera's older ones are worthless
# kbit/s, for Chrome: it starts low and shrinks the picture when all it gets is REMB.
BITRATES = "x-google-start-bitrate=1500;x-google-min-bitrate=1000;x-google-max-bitrate=4000"


class Offer(BaseModel):
    """The body of `POST /webrtc/offer`; the shape that fastrtc's clients send, and `config`."""

    sdp: str = Field(max_length=256 * 1024)
    type: str
    webrtc_id: str = Field(min_length=1, max_length=128)
    config: dict[str, Any] = Field(default_factory=dict)


class Answer(BaseModel):
    """The answer to an offer."""

    sdp: str
    type: str
    session_id: str


class Peer:
    """One browser: its connection, its session, and everything that runs for them."""

    def __init__(self, config: SessionConfig, shared: Shared) -> None:
        self._settings = settings = shared.settings
        self._outbox = Outbox(settings.outbox)
        self._speaker = Speaker()
        self._pc = RTCPeerConnection(rtc_configuration(settings.ice_servers))
        self._life = LifeSign()
        self._channel_writable = asyncio.Event()
        self._connected = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        self.closed = asyncio.Event()
        self._limits = replace(settings.limits, media_queue=CAMERA_QUEUE)
        self.session = Session(
            config,
            shared.engine,
            self._outbox.put,
            pool=shared.pool,
            kit=shared.kit,
            gate=shared.gate,
            pipeline=shared.pipeline,
            playback=self._speaker,
            limits=self._limits,
            max_rate_hz=settings.kept_fps,
        )
        self._pc.on("datachannel", self._on_channel)
        self._pc.on("track", self._on_track)
        self._pc.on("connectionstatechange", self._on_connection_state)

    async def answer(self, offer: Offer) -> Answer:
        """Accept an offer. Raises `SightlineError` (`invalid_offer`)."""
        try:
            if offer.type != "offer":
                raise ValueError(f"type is {offer.type!r}, not 'offer'")
            await self._pc.setRemoteDescription(RTCSessionDescription(offer.sdp, "offer"))
            if not self._pc.getTransceivers() and self._pc.sctp is None:
                raise ValueError("it offers neither media nor a data channel")
            audio_lines = [line for line in self._pc.getTransceivers() if line.kind == "audio"]
            if audio_lines:  # aiortc cannot answer a line that was not offered
                self._pc.addTrack(self._speaker)
            await self._pc.setLocalDescription(await self._pc.createAnswer())
            self._speaker.connected = any(
                line.currentDirection in ("sendrecv", "sendonly") for line in audio_lines
            )
        except Exception as error:  # aiortc raises many kinds for what is not SDP
            raise SightlineError(
                "invalid_offer", f"/webrtc/offer: not an acceptable SDP offer: {error}"
            ) from error
        self.session.start()
        self._spawn(self._watch())
        local = self._pc.localDescription
        return Answer(
            sdp=with_bitrates(local.sdp), type=local.type, session_id=self.session.session_id
        )

    def close(self) -> None:
        """Free everything, in the background; `closed` is set when that is done."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())

    async def _close(self) -> None:
        try:
            current = [task for task in self._tasks if not task.done()]
            for task in current:
                task.cancel()
            self._outbox.close()
            await asyncio.gather(self.session.close(), self._pc.close())
        except Exception:
            log.exception("peer %s: closing failed", self.session.session_id)
        finally:
            self.closed.set()

    # --- what aiortc calls -----------------------------------------------------------

    def _on_track(self, track: MediaStreamTrack) -> None:
        if track.kind == "video":
            self._spawn(
                pump_camera(track, self.session, self._life, fps=self._settings.analysed_fps)
            )
        else:
            self._spawn(pump_microphone(track, self.session, self._life))

    def _on_channel(self, channel: RTCDataChannel) -> None:
        if channel.label != CHANNEL:
            return
        channel.bufferedAmountLowThreshold = CHANNEL_BUFFER_BYTES // 2
        channel.on("bufferedamountlow", self._channel_writable.set)
        channel.on("message", self._on_message)
        self._spawn(self._write(channel))

    def _on_message(self, message: str | bytes) -> None:
        self._life.heard()
        try:
            if isinstance(message, bytes):
                raise ProtocolError(
                    "binary_message", "Binary messages are not part of the protocol; send JSON text"
                )
            event = parse_client_message(message)
            if not dispatch(self.session, event, self._outbox.put, self._limits):
                self._spawn(self._finish())
        except ProtocolError as error:
            self.session.reject(error)

    def _on_connection_state(self) -> None:
        state = self._pc.connectionState
        log.info("peer %s: %s", self.session.session_id, state)
        if state == "connected":
            self._connected = True
            self._life.heard()
        elif state in ("failed", "closed"):
            self.close()

    # --- what runs for it ------------------------------------------------------------

    async def _write(self, channel: RTCDataChannel) -> None:
        while (event := await self._outbox.get()) is not None:
            while channel.bufferedAmount > CHANNEL_BUFFER_BYTES:
                self._channel_writable.clear()
                async with asyncio.timeout(SEND_STALL_S):
                    await self._channel_writable.wait()
            if channel.readyState != "open":
                break
            channel.send(event.wire())
        if self._outbox.overflowed:
            log.warning("peer %s reads too slowly", self.session.session_id)
        else:
            await asyncio.sleep(GOODBYE_S)  # for the last events to arrive
        self.close()

    async def _finish(self) -> None:
        await self.session.finish()
        self._outbox.close()

    async def _watch(self) -> None:
        """Close the peer once nothing was heard of it for too long."""
        while True:
            await asyncio.sleep(WATCH_S)
            limit_s = self._settings.peer_timeout_s if self._connected else CONNECT_TIMEOUT_S
            if self._life.silent_s > limit_s:
                log.info("peer %s: silent for %.1f s", self.session.session_id, limit_s)
                self.close()
                return

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("peer %s failed", self.session.session_id, exc_info=error)
            self.close()


class Peers:
    """All peers by their webrtc_id."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._peers: dict[str, Peer] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self.admission = Admission(shared.settings.max_peers)

    def __len__(self) -> int:
        return len(self._peers)

    async def offer(self, offer: Offer) -> Answer:
        """Answer an offer; one with the id of a living peer replaces it.

        Raises `SightlineError` (`server_full`, `invalid_offer`, `invalid_field`).
        """
        try:
            config = SessionConfig.model_validate(
                {
                    "timestamps": True,
                    "frame_events": True,
                    "turn_detection": {"type": "server_vad"} if self._hears else None,
                    **offer.config,
                }
            )
        except ValidationError as error:
            raise field_error(error, "session.config") from error
        while (before := self._peers.get(offer.webrtc_id)) is not None:
            before.close()
            await before.closed.wait()
            await asyncio.sleep(0)  # its slot is given back by the task that waits for it
        self.admission.enter()
        try:
            peer = Peer(config, self._shared)
        except BaseException:
            self.admission.leave()
            raise
        self._peers[offer.webrtc_id] = peer
        leaving = asyncio.create_task(self._leave_when_closed(offer.webrtc_id, peer))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        try:
            return await peer.answer(offer)
        except BaseException:
            peer.close()
            await peer.closed.wait()
            await asyncio.sleep(0)  # as above
            raise

    @property
    def _hears(self) -> bool:
        return self._shared.kit.recognises or self._shared.engine.info.hears

    def close(self, webrtc_id: str) -> None:
        """The page says goodbye; an unknown id is fine, it may have been noticed before."""
        if (peer := self._peers.get(webrtc_id)) is not None:
            peer.close()

    async def close_all(self) -> None:
        """The server stops."""
        for peer in self._peers.values():
            peer.close()
        if self._leaving:
            await asyncio.wait(list(self._leaving))

    async def _leave_when_closed(self, webrtc_id: str, peer: Peer) -> None:
        await peer.closed.wait()
        if self._peers.get(webrtc_id) is peer:
            del self._peers[webrtc_id]
        self.admission.leave()


def with_bitrates(sdp: str) -> str:
    """The answer's SDP with Chrome's bitrate hints on every VP8 format."""

    def hinted(match: re.Match[str]) -> str:
        return f"{match[0]}a=fmtp:{match[1]} {BITRATES}\r\n"

    return re.sub(r"a=rtpmap:(\d+) VP8/90000\r\n", hinted, sdp)


def busy_answer(error: SightlineError, limit: int) -> dict[str, Any]:
    """The body of a refused offer: our error, and what fastrtc's clients look for."""
    body: dict[str, Any] = {"error": ErrorEvent.of(error).payload(), "status": "failed"}
    if error.code == "server_full":
        body["meta"] = {"error": "concurrency_limit_reached", "limit": limit}
    return body
