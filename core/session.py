"""Session: one conversation; the only owner of its state.

Transports call `frame`, `audio`, `ask`, `interrupt`, `update`, `finish` and `close`; none
of them waits for media. One task reads the inbox and changes state; decoding, the turn
and the warm-up are its children and report back through the inbox.
"""

import asyncio
import logging
import secrets
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import Any

from core.clock import Clock, SystemClock
from core.engines.base import Engine, EngineRequest
from core.engines.sampling import stage_sampling
from core.errors import EngineError, MediaError, ProtocolError, SightlineError
from core.frames import (
    DecodePool,
    Frame,
    FrameInput,
    PixelState,
    spread,
)
from core.inbox import Inbox
from core.intake import Arrival, Decoded, Filtered, FrameIntake
from core.limits import SessionLimits
from core.prompt import History, window_prompt
from core.protocol import (
    EngineDescription,
    ErrorEvent,
    ResponseStart,
    ServerEvent,
    SessionConfig,
    SessionCreated,
    SessionDone,
    SessionUpdated,
    updated_config,
)
from core.speech.pcm import AudioBuffer
from core.turn import InterruptReason, Question, Turn, TurnState
from core.warmup import WARMUP_PRIORITY, Warmup, WarmupState, warms_up

log = logging.getLogger(__name__)

AUDIO_WAITING_BUFFERS = 4  # audio in the inbox, in audio buffers: a flood is refused

Emit = Callable[[ServerEvent], None]


class SessionState(Enum):
    """Where a session stands."""

    OPEN = "open"
    FINISHING = "finishing"  # a running answer may end; nothing new begins
    CLOSED = "closed"


@dataclass(frozen=True)
class _Ask:
    question: Question


@dataclass(frozen=True)
class _Interrupt:
    pass


@dataclass(frozen=True)
class _Update:
    changes: dict[str, Any]


@dataclass(frozen=True)
class _Finish:
    pass


@dataclass(frozen=True)
class _Close:
    pass


@dataclass(frozen=True)
class _Idle:
    """Notice: the engine is free again; `work` has ended."""

    work: Turn | Warmup


_Control = _Ask | _Interrupt | _Update | _Finish | _Close | Filtered | Decoded | _Idle
_Media = Arrival | bytes


class Session:
    """One conversation between a client and an engine.

    `emit` is called with every event for the client, from the event loop, and must not
    block. `max_rate_hz` caps the frames a second that our filter keeps (live cameras).
    """

    def __init__(
        self,
        config: SessionConfig,
        engine: Engine | None,
        emit: Emit,
        *,
        pool: DecodePool,
        clock: Clock | None = None,
        limits: SessionLimits | None = None,
        max_rate_hz: float | None = None,
    ) -> None:
        self.session_id = uuid.uuid4().hex
        self.state = SessionState.OPEN
        self._config = config
        self._engine = engine
        self._emit = emit
        self._clock = clock or SystemClock()
        self._limits = limits or SessionLimits()
        self._created_s = self._clock.monotonic()
        self._inbox: Inbox[_Control, _Media] = Inbox(
            control_limit=self._limits.control_queue, media_limit=self._limits.media_queue
        )
        self._intake = FrameIntake(
            config,
            pool=pool,
            clock=self._clock,
            limits=self._limits,
            emit=emit,
            content_key=secrets.token_bytes(16),
            created_s=self._created_s,
            max_rate_hz=max_rate_hz,
            drop_half=self._incremental,
        )
        self._audio = self._make_audio_buffer()
        self._audio_waiting = 0  # bytes of audio in the inbox
        self._history = History(self._limits.history_messages)
        self._pending: Turn | None = None  # the newest question, not yet running
        self._running: Turn | Warmup | None = None  # who has the engine
        self._warmed: frozenset[str] = frozenset()  # content ids the engine has been shown
        self._children: asyncio.TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None

    # --- what a transport calls ------------------------------------------------------

    def start(self) -> None:
        """Begin: emit `session.created` and read the inbox."""
        self._emit(
            SessionCreated(
                session_id=self.session_id,
                engine=EngineDescription.of(self._engine.info if self._engine else None),
                config=self._config,
                created_ts_ms=self._clock.epoch_ms(self._created_s),
            )
        )
        self._check_sampling()
        self._task = asyncio.create_task(self._run(), name=f"session-{self.session_id[:8]}")

    @property
    def elapsed_s(self) -> float:
        """Seconds since the session began."""
        return self._clock.monotonic() - self._created_s

    @property
    def busy(self) -> bool:
        """Whether a question is waiting or being answered."""
        return self._pending is not None or isinstance(self._running, Turn)

    def frame(self, frame: FrameInput) -> None:
        """Hand over a frame; if too many wait for the filter, the oldest gives way."""
        if self.state is not SessionState.OPEN:
            return
        arrival = Arrival(frame, self._clock.monotonic())
        displaced = self._inbox.put_media(arrival, may_drop=True)
        if isinstance(displaced, Arrival):
            self._intake.refuse(displaced, "overload")

    def audio(self, pcm16: bytes) -> None:
        """Hand over audio: int16 little-endian, 16 kHz, mono."""
        if self.state is not SessionState.OPEN or not pcm16:
            return
        if self._audio_waiting + len(pcm16) > AUDIO_WAITING_BUFFERS * self._limits.audio_bytes:
            self._emit_error(self._audio_overflow())
            return
        self._audio_waiting += len(pcm16)
        self._inbox.put_media(pcm16, may_drop=False)

    def ask(self, text: str, audio: bytes | None = None) -> None:
        """Ask a question; one in flight is interrupted. `audio` as in `audio()`."""
        question = Question(text.strip(), audio or b"", after_media=self._inbox.media_count)
        self._command(_Ask(question), "video.query")

    def interrupt(self) -> None:
        """Stop the answer in flight, if any."""
        if self.state is not SessionState.CLOSED:
            self._inbox.notify(_Interrupt())

    def update(self, changes: dict[str, Any]) -> None:
        """Change fields of the config."""
        self._command(_Update(changes), "session.update")

    def reject(self, error: ProtocolError) -> None:
        """Tell the client that a message of its was no good; everything else lives on."""
        self._emit_error(error)
        if error.frame_id is not None:
            reason = "too_large" if error.code == "frame_too_large" else "invalid"
            self._intake.refuse_unread(error.frame_id, reason)

    async def finish(self) -> None:
        """Let the running answer end, then `session.done`. Returns when all is over."""
        self._inbox.notify(_Finish())
        await self._ended()

    async def close(self) -> None:
        """End now: the running answer is interrupted. Returns when nothing is left."""
        self._inbox.notify(_Close())
        await self._ended()

    def _command(self, item: _Control, event_type: str) -> None:
        if self.state is not SessionState.OPEN:
            return
        if not self._inbox.put_control(item):
            limit = self._limits.control_queue
            self._emit_error(
                ProtocolError(
                    "queue_full",
                    f"{event_type}: {limit} messages are waiting already",
                    event_type=event_type,
                )
            )

    async def _ended(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])

    # --- the one task that changes state ---------------------------------------------

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as self._children:
                while self.state is not SessionState.CLOSED:
                    control, media = await self._inbox.get(media=self._intake.at_filter is None)
                    try:
                        if control is not None:
                            self._on_control(control)
                        elif media is not None:
                            self._on_media(*media)
                        self._advance()
                    except SightlineError as error:
                        self._emit_error(error)
                    except Exception:
                        log.exception("session %s: a message failed", self.session_id)
                        self._emit_error(
                            SightlineError("internal_error", "The server failed on a message")
                        )
        finally:
            self.state = SessionState.CLOSED
            self._intake.buffer.clear()
            for notice in self._inbox.drain():
                if isinstance(notice, Decoded):
                    self._intake.on_decoded(notice)
            if self._engine is not None:
                await self._engine.forget(self.session_id)

    def _on_control(self, item: _Control) -> None:
        match item:
            case _Ask(question):
                self._on_ask(question)
            case _Interrupt():
                self._interrupt_turns("cancelled")
            case _Update(changes):
                self._on_update(changes)
            case _Finish():
                self.state = SessionState.FINISHING
            case _Close():
                self._on_close()
            case Filtered():
                if (frame := self._intake.on_filtered(item)) is not None:
                    self._child(self._intake.decode(frame))
            case Decoded():
                self._intake.on_decoded(item)
            case _Idle(work):
                self._on_idle(work)

    def _on_media(self, number: int, item: _Media) -> None:
        if isinstance(item, bytes):
            self._audio_waiting -= len(item)
            if not self._audio.append(item):
                raise self._audio_overflow()
            return
        self._intake.at_filter = number
        self._child(self._intake.look(item))

    def _audio_overflow(self) -> MediaError:
        return MediaError(
            "audio_overflow",
            f"Audio buffer overflow: more than {self._limits.audio_bytes / 2**20:.0f} MiB "
            "without a query; the buffer was emptied",
            event_type="audio.chunk",
        )

    def _advance(self) -> None:
        """Begin whatever can begin now."""
        if self.state is SessionState.CLOSED:
            return
        pending = self._pending
        if pending is not None:
            if isinstance(self._running, Turn):
                self._running.interrupt("new_query")
            elif self._running is not None:
                self._running.stop()
            if pending.state is TurnState.QUEUED and not self._media_before(pending):
                self._select(pending)
            if pending.state is TurnState.SELECTED and self._running is None:
                self._pending = None
                self._begin(pending)
        elif self._running is None and self.state is SessionState.OPEN:
            self._warm_up()
        if self.state is SessionState.FINISHING and self._pending is None:
            if self._running is None and self._intake.at_filter is None:
                self._end()
            elif isinstance(self._running, Warmup):
                self._running.stop()

    # --- turns -----------------------------------------------------------------------

    def _on_ask(self, question: Question) -> None:
        self._interrupt_turns("new_query")
        turn = Turn(
            f"video-{uuid.uuid4().hex}",
            question,
            clock=self._clock,
            limits=self._limits,
            emit=self._emit,
            legacy_audio_events=self._config.legacy_audio_events,
        )
        self._emit(ResponseStart(request_id=turn.request_id, question=question.text))
        self._pending = turn

    def _interrupt_turns(self, reason: InterruptReason) -> None:
        if self._pending is not None:
            self._pending.interrupt(reason)
            self._pending = None
        if isinstance(self._running, Turn):
            self._running.interrupt(reason)

    def _media_before(self, turn: Turn) -> bool:
        """Whether media that came before the question is still on its way to the buffer."""
        barrier = turn.question.after_media
        at_filter = self._intake.at_filter
        return (at_filter is not None and at_filter <= barrier) or self._inbox.has_media_up_to(
            barrier
        )

    def _select(self, turn: Turn) -> None:
        """Choose the frames and take the audio that the question is about."""
        wants_buffered = not self._config.live_audio or not turn.question.text
        buffered = self._audio.take() if wants_buffered else b""
        turn.select(self._chosen_frames(), buffered + turn.question.audio)

    def _chosen_frames(self) -> list[Frame]:
        frames = self._intake.buffer.frames
        if self._incremental:
            return list(frames)
        return [frames[index] for index in spread(len(frames), self._config.num_frames)]

    def _begin(self, turn: Turn) -> None:
        self._running = turn
        engine = self._engine
        if engine is None:
            turn.fail(EngineError("no_engine", "Streaming video requires an engine client"))
            self._inbox.notify(_Idle(turn))
        else:
            self._child(self._run_turn(turn, engine))

    async def _run_turn(self, turn: Turn, engine: Engine) -> _Idle:
        await turn.run(engine, self._request)
        return _Idle(turn)

    def _request(self, turn: Turn, usable: list[Frame]) -> EngineRequest:
        """The engine request of a turn. Raises `SightlineError` if it cannot be asked."""
        assert self._engine is not None
        hears = "audio" in self._engine.info.input_modalities
        audio = turn.audio if hears else b""
        text = turn.question.text
        if not text and not audio:
            if turn.audio:
                raise EngineError(
                    "audio_not_supported",
                    "This engine does not hear: send the question as text",
                )
            if self._config.live_audio:
                raise EngineError("empty_question", "There was no question: nothing was said")
        if not usable and not audio and not self._any_frame_usable():
            raise MediaError(
                "no_frames", "No frames buffered: nothing has been seen yet to answer about"
            )
        return EngineRequest(
            request_id=turn.request_id,
            session_id=self.session_id,
            messages=window_prompt(
                system_prompt=self._config.system_prompt,
                history=self._history.recent(),
                frames=usable,
                timestamps=self._config.timestamps,
                audio=audio,
                text=text,
            ),
            sampling=stage_sampling(
                self._config.sampling_params_list, len(self._engine.info.stages)
            ),
            modalities=tuple(
                kind
                for kind in self._config.modalities
                if kind in self._engine.info.output_modalities
            ),
            use_audio_in_video=self._config.use_audio_in_video,
            time_s=self.elapsed_s,
        )

    def _any_frame_usable(self) -> bool:
        return any(frame.state is not PixelState.FAILED for frame in self._intake.buffer.frames)

    def _on_idle(self, work: Turn | Warmup) -> None:
        self._running = None
        if isinstance(work, Warmup):
            if work.state is not WarmupState.STOPPED:
                self._warmed = work.content_ids  # a failed one waits for news, too
            return
        self._warmed = frozenset()  # the history has grown: another prefix (row 37)
        if work.state is TurnState.DONE or (work.state is TurnState.INTERRUPTED and work.text):
            self._history.commit(
                work.question.text, work.text, interrupted=work.state is TurnState.INTERRUPTED
            )
        elif work.state is TurnState.FAILED and work.audio and not self._config.live_audio:
            self._audio.restore(work.audio)  # it was not heard: the next query has it

    # --- warm-up ---------------------------------------------------------------------

    @property
    def _incremental(self) -> bool:
        return self._engine is not None and warms_up(self._engine.info, self._config.modalities)

    def _warm_up(self) -> None:
        """Show the engine what the next question would show it, if there is news."""
        if not self._incremental or self._engine is None:
            return
        frames = [frame for frame in self._intake.buffer.frames if frame.rgb is not None]
        if not frames or {frame.content_id for frame in frames} <= self._warmed:
            return
        request = EngineRequest(
            request_id=f"video-warmup-{uuid.uuid4().hex}",
            session_id=self.session_id,
            messages=window_prompt(
                system_prompt=self._config.system_prompt,
                history=self._history.recent(),
                frames=frames,
                timestamps=self._config.timestamps,
            ),
            max_tokens=1,
            priority=WARMUP_PRIORITY,
            prefill_only=True,
            use_audio_in_video=self._config.use_audio_in_video,
            time_s=self.elapsed_s,
        )
        self._running = Warmup(self._engine, request, frames, self._limits)
        self._child(self._run_warmup(self._running))

    async def _run_warmup(self, warmup: Warmup) -> _Idle:
        await warmup.run()
        return _Idle(warmup)

    # --- config, end, errors ---------------------------------------------------------

    def _on_update(self, changes: dict[str, Any]) -> None:
        before, self._config = self._config, updated_config(self._config, changes)
        self._intake.configure(self._config)
        if before.live_audio != self._config.live_audio:
            self._audio = self._make_audio_buffer()
        self._emit(SessionUpdated(config=self._config))
        self._check_sampling()

    def _check_sampling(self) -> None:
        """Say early what every question would fail on."""
        if self._engine is None:
            return
        try:
            stage_sampling(self._config.sampling_params_list, len(self._engine.info.stages))
        except ProtocolError as error:
            self._emit_error(error)

    def _make_audio_buffer(self) -> AudioBuffer:
        live = self._config.live_audio
        limit = self._limits.live_audio_bytes if live else self._limits.audio_bytes
        return AudioBuffer(limit, ring=live)

    def _on_close(self) -> None:
        self._interrupt_turns("closed")
        if isinstance(self._running, Warmup):
            self._running.stop()
        self.state = SessionState.CLOSED

    def _end(self) -> None:
        for item in self._inbox.clear_media():
            if isinstance(item, Arrival):
                self._intake.refuse(item, "closed")
        self._emit(self._intake.statistics())
        self._emit(SessionDone())
        self.state = SessionState.CLOSED

    def _emit_error(self, error: SightlineError) -> None:
        self._emit(ErrorEvent.of(error))

    def _child(self, work: Coroutine[Any, Any, _Control]) -> None:
        """Run `work` beside the session's task; what it returns is read from the inbox."""
        assert self._children is not None
        self._children.create_task(self._notify_of(work))

    async def _notify_of(self, work: Coroutine[Any, Any, _Control]) -> None:
        self._inbox.notify(await work)
