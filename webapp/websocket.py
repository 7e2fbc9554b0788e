"""`/v1/video/chat/stream`: the WebSocket and a Session."""

import asyncio
import logging
from contextlib import suppress
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from core.errors import ProtocolError, SightlineError
from core.outbox import Outbox
from core.protocol import ClientMessage, ErrorEvent, SessionConfig, parse_client_message
from core.session import Session
from webapp.admission import Admission
from webapp.dispatch import dispatch
from webapp.shared import Shared

log = logging.getLogger(__name__)

LARGE_MESSAGE_CHARS = 64 * 1024  # parsed on the decode pool, not on the event loop
POLICY_VIOLATION = 1008
TRY_AGAIN_LATER = 1013
NORMAL = 1000
GOODBYE_S = 2.0  # for the last events, and for the closing handshake


class Disconnected(Exception):
    """The client is gone."""


class VideoChatSocket:
    """One WebSocket client from accept to close."""

    def __init__(self, socket: WebSocket, shared: Shared) -> None:
        self._socket = socket
        self._shared = shared
        self._settings = settings = shared.settings
        self._outbox = Outbox(settings.outbox)
        self._session: Session | None = None

    async def serve(self, admission: Admission) -> None:
        """Until the session is over or the client is gone; nothing is left running."""
        await self._socket.accept()
        try:
            admission.enter()
        except SightlineError as error:
            await self._refuse(error)
            return
        writer = asyncio.create_task(self._write())
        reason: tuple[int, str] = (NORMAL, "")
        try:
            reason = await self._read_until_over(writer)
        except Disconnected:
            pass
        finally:
            try:
                if self._session is not None:
                    await self._session.close()
                self._outbox.close()
                await self._end(writer)
                await self._close(*reason)
            finally:
                admission.leave()

    async def _end(self, writer: asyncio.Task[None]) -> None:
        """Wait for the last events to be sent; not for ever, and not if nobody reads them."""
        if not self._outbox.overflowed:
            await asyncio.wait([writer], timeout=GOODBYE_S)
        writer.cancel()
        await asyncio.wait([writer])
        error = None if writer.cancelled() else writer.exception()
        if error is not None and not isinstance(error, Disconnected):
            log.error("an event could not be sent", exc_info=error)

    async def _read_until_over(self, writer: asyncio.Task[None]) -> tuple[int, str]:
        """Read messages; returns how to close. Raises `Disconnected`."""
        session = await self._configured()
        if session is None:
            return POLICY_VIOLATION, "no session.config in time"
        finishing: asyncio.Task[None] | None = None
        reading = asyncio.create_task(self._receive())
        heard_s = self._now()
        try:
            while True:
                waits = {reading, writer} | ({finishing} if finishing else set())
                done, _ = await asyncio.wait(
                    waits, timeout=1.0, return_when=asyncio.FIRST_COMPLETED
                )
                if self._outbox.overflowed:  # the writer may be stuck in a send
                    return POLICY_VIOLATION, "the client reads too slowly"
                if writer in done:
                    raise Disconnected
                if finishing is not None and finishing in done:
                    return NORMAL, ""
                if reading in done:
                    heard_s = self._now()
                    keep_on = await self._handle(session, reading.result())
                    if not keep_on and finishing is None:
                        finishing = asyncio.create_task(session.finish())
                    reading = asyncio.create_task(self._receive())
                if session.busy or finishing is not None:
                    heard_s = self._now()  # a client that is being answered is not idle
                elif self._now() - heard_s > self._settings.idle_timeout_s:
                    return POLICY_VIOLATION, f"idle for {self._settings.idle_timeout_s:.0f} s"
        finally:
            reading.cancel()
            if finishing is not None:
                finishing.cancel()
            await asyncio.wait([task for task in (reading, finishing) if task is not None])

    async def _configured(self) -> Session | None:
        """Wait for `session.config` and start the session; None if it does not come."""
        try:
            async with asyncio.timeout(self._settings.config_timeout_s):
                while True:
                    event = await self._parse(await self._receive())
                    if isinstance(event, SessionConfig):
                        break
                    if event is not None:
                        self._error(
                            ProtocolError(
                                "not_configured",
                                "The first message must be session.config",
                                event_type=event.type,
                            )
                        )
        except TimeoutError:
            self._error(
                ProtocolError(
                    "config_timeout",
                    f"No session.config within {self._settings.config_timeout_s:.0f} s",
                )
            )
            return None
        self._session = Session(
            event,
            self._shared.engine,
            self._outbox.put,
            pool=self._shared.pool,
            kit=self._shared.kit,
            gate=self._shared.gate,
            pipeline=self._shared.pipeline,
            limits=self._settings.limits,
        )
        self._session.start()
        return self._session

    async def _handle(self, session: Session, message: dict[str, Any]) -> bool:
        event = await self._parse(message)
        if event is None:
            return True
        try:
            return dispatch(session, event, self._outbox.put, self._settings.limits)
        except ProtocolError as error:
            self._error(error)
            return True

    async def _parse(self, message: dict[str, Any]) -> ClientMessage | None:
        """The message's event; None after an error was sent."""
        text = message.get("text")
        try:
            if text is None:
                raise ProtocolError(
                    "binary_message", "Binary messages are not part of the protocol; send JSON text"
                )
            if len(text) > LARGE_MESSAGE_CHARS:
                return await self._shared.pool.run(parse_client_message, text)
            return parse_client_message(text)
        except ProtocolError as error:
            self._error(error)
            return None

    async def _receive(self) -> dict[str, Any]:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise Disconnected
        return dict(message)

    async def _write(self) -> None:
        """Send what the outbox holds until it is closed and empty. Raises `Disconnected`."""
        while (event := await self._outbox.get()) is not None:
            try:
                await self._socket.send_text(event.wire())
            except (WebSocketDisconnect, RuntimeError) as error:
                self._outbox.close()
                raise Disconnected from error

    def _error(self, error: ProtocolError) -> None:
        if self._session is not None:
            self._session.reject(error)
        else:
            self._outbox.put(ErrorEvent.of(error))

    async def _refuse(self, error: SightlineError) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.send_text(ErrorEvent.of(error).wire())
        await self._close(TRY_AGAIN_LATER, error.code)

    async def _close(self, code: int, reason: str) -> None:
        if self._socket.client_state is WebSocketState.CONNECTED:
            with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
                async with asyncio.timeout(GOODBYE_S):
                    await self._socket.close(code, reason)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
