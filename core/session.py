"""Session: one conversation; the only owner of its state.

Transports call `frame`, `audio`, `ask`, `interrupt`, `update`, `finish` and `close`; none
of them waits for media. One task reads the inbox and changes state, with three parts that
it alone calls: `FrameIntake` (eyes), `Listening` (ears) and `Answering` (who has the
engine). What takes time is a child of the session and reports back through the inbox.
"""

import asyncio
import logging
import secrets
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import Any

from core.answering import Answering, Idle
from core.clock import Clock, SystemClock
from core.engines.base import Engine
from core.engines.sampling import stage_sampling
from core.errors import MediaError, ProtocolError, SightlineError
from core.frames import DecodePool, Frame, FrameInput
from core.gate import QuestionGate
from core.inbox import Inbox
from core.intake import Arrival, Decoded, Filtered, FrameIntake
from core.limits import SessionLimits
from core.listening import Heard, Listening
from core.pipeline import Pipeline
from core.protocol import (
    EngineDescription,
    ErrorEvent,
    ServerEvent,
    SessionConfig,
    SessionCreated,
    SessionDone,
    SessionUpdated,
    updated_config,
)
from core.speech.activity import (
    ActivityEvent,
    SpeechConfirmed,
    SpeechEnded,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    VoiceHeard,
    VoiceLost,
)
from core.speech.kit import SpeechKit
from core.speech.pcm import AudioBuffer
from core.speech.playback import ClientPlayback, Playback
from core.turn import InterruptReason, Question

log = logging.getLogger(__name__)

AUDIO_PIECE_BYTES = 3_200  # 0.1 s: what is listened to at a time
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
class _BeginSpeech:
    pass


@dataclass(frozen=True)
class _EndSpeech:
    pass


@dataclass(frozen=True)
class _Update:
    changes: dict[str, Any]


@dataclass(frozen=True)
class _Finish:
    after_media: int


@dataclass(frozen=True)
class _Close:
    pass


_Notice = Filtered | Decoded | Heard | Idle
_Control = _Ask | _Interrupt | _Update | _Finish | _Close | _Notice
_Media = Arrival | bytes | _BeginSpeech | _EndSpeech


class Session:
    """One conversation between a client and an engine.

    `emit` is called with every event for the client, from the event loop, and must not
    block. `kit` is what the server hears and speaks with; `playback` where spoken answers
    go, if not to the client as events; `pipeline` when it answers and what the engine is
    shown. `max_rate_hz` caps the frames a second that our
    filter keeps (live cameras). `gate` is one for all sessions of the engine: questions go
    before warm-ups.
    """

    def __init__(
        self,
        config: SessionConfig,
        engine: Engine | None,
        emit: Emit,
        *,
        pool: DecodePool,
        kit: SpeechKit | None = None,
        playback: Playback | None = None,
        clock: Clock | None = None,
        limits: SessionLimits | None = None,
        max_rate_hz: float | None = None,
        gate: QuestionGate | None = None,
        pipeline: type[Pipeline] = Pipeline,
    ) -> None:
        self.session_id = uuid.uuid4().hex
        self.state = SessionState.OPEN
        self._config = config
        self._engine = engine
        self._emit = emit
        self._kit = kit or SpeechKit()
        self._clock = clock or SystemClock()
        self._playback = playback or ClientPlayback(emit, self._clock)
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
        )
        self._pipeline = pipeline(config)
        self._answering = Answering(
            config,
            engine,
            self._intake.buffer,
            self._pipeline,
            session_id=self.session_id,
            clock=self._clock,
            limits=self._limits,
            emit=emit,
            spawn=self._child,
            gate=gate or QuestionGate(),
            kit=self._kit,
            playback=self._playback,
            created_s=self._created_s,
        )
        self._audio = AudioBuffer(self._limits.audio_bytes)
        self._audio_waiting = 0  # bytes of audio in the inbox
        self._listening: Listening | None = None
        self._last_media = 0  # what came before the client was done
        self._recognising = 0  # turns of speech whose text is not known yet
        self._children: asyncio.TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None

    # --- what a transport calls ------------------------------------------------------

    def start(self) -> None:
        """Begin: emit `session.created` and read the inbox."""
        self._emit(
            SessionCreated(
                session_id=self.session_id,
                engine=EngineDescription.of(self._engine.info if self._engine else None),
                speech=self._kit.parts,
                config=self._config,
                created_ts_ms=self._clock.epoch_ms(self._created_s),
            )
        )
        self._check_sampling()
        self._listen()
        self._task = asyncio.create_task(self._run(), name=f"session-{self.session_id[:8]}")

    @property
    def elapsed_s(self) -> float:
        """Seconds since the session began."""
        return self._clock.monotonic() - self._created_s

    @property
    def busy(self) -> bool:
        """Whether a question is waiting or being answered."""
        return self._answering.busy

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
            self._emit(ErrorEvent.of(self._audio_overflow()))
            return
        self._audio_waiting += len(pcm16)
        for start in range(0, len(pcm16), AUDIO_PIECE_BYTES):
            piece = pcm16[start : start + AUDIO_PIECE_BYTES]
            self._inbox.put_media(piece, may_drop=False)

    def ask(self, text: str, audio: bytes | None = None) -> None:
        """Ask a question; one in flight is interrupted. `audio` as in `audio()`."""
        text, audio = text.strip(), audio or b""
        if self._listening is not None and not text and not audio:
            self.end_speech()  # an empty query commits what was said
            return
        question = Question(text, audio, after_media=self._inbox.media_count)
        self._command(_Ask(question), "video.query")

    def begin_speech(self) -> None:
        """Forget buffered audio; with push-to-talk, a spoken question begins."""
        if self.state is SessionState.OPEN:
            self._inbox.put_media(_BeginSpeech(), may_drop=False)  # in its place among the audio

    def end_speech(self) -> None:
        """What was said since `begin_speech` is the question."""
        if self.state is SessionState.OPEN:
            self._inbox.put_media(_EndSpeech(), may_drop=False)

    def interrupt(self) -> None:
        """Stop the answer in flight, if any."""
        if self.state is not SessionState.CLOSED:
            self._inbox.notify(_Interrupt())

    def report_playback(self, delay_s: float) -> None:
        """How late the client plays what it is sent, in s."""
        self._playback.delay_s = delay_s

    def update(self, changes: dict[str, Any]) -> None:
        """Change fields of the config."""
        self._command(_Update(changes), "session.update")

    def reject(self, error: ProtocolError) -> None:
        """Tell the client that a message of its was no good; everything else lives on."""
        self._emit(ErrorEvent.of(error))
        if error.frame_id is not None:
            reason = "too_large" if error.code == "frame_too_large" else "invalid"
            self._intake.refuse_unread(error.frame_id, reason)

    async def finish(self) -> None:
        """Let the running answer end, then `session.done`. Returns when all is over."""
        self._inbox.notify(_Finish(self._inbox.media_count))
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
            message = f"{event_type}: {limit} messages are waiting already"
            error = ProtocolError("queue_full", message, event_type=event_type)
            self._emit(ErrorEvent.of(error))

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
                        await asyncio.sleep(0)  # a flood of messages holds up nobody else
                    except SightlineError as error:
                        self._emit(ErrorEvent.of(error))
                    except Exception:
                        log.exception("session %s: a message failed", self.session_id)
                        message = "The server failed on a message"
                        self._emit(ErrorEvent(code="internal_error", message=message))
                if self._listening is not None:
                    await self._listening.close()
        finally:
            self.state = SessionState.CLOSED
            self._intake.buffer.clear()
            for notice in self._inbox.drain():
                if isinstance(notice, Decoded):
                    self._intake.on_decoded(notice)
            if self._engine is not None:
                try:
                    async with asyncio.timeout(self._limits.abort_s):
                        await self._engine.forget(self.session_id)
                except Exception:
                    log.exception("session %s: the engine failed to forget it", self.session_id)

    def _on_control(self, item: _Control) -> None:
        match item:
            case _Ask(question):
                self._answering.ask(question)
            case _Interrupt():
                self._interrupt("cancelled")
            case _Update(changes):
                self._on_update(changes)
            case _Finish(after_media):
                self.state = SessionState.FINISHING
                self._last_media = after_media
            case _Close():
                self._interrupt("closed")
                self._answering.stop_warmup()
                self.state = SessionState.CLOSED
            case Filtered():
                if (frame := self._intake.on_filtered(item)) is not None:
                    self._child(self._intake.decode(frame))
                    self._on_frame(frame)
            case Decoded():
                self._intake.on_decoded(item)
            case Heard():
                self._on_heard(item)
            case Idle(work):
                unheard = self._answering.on_idle(work)
                if self._listening is None:
                    self._audio.restore(unheard)  # the next query has it

    def _on_media(self, number: int, item: _Media) -> None:
        match item:
            case Arrival():
                self._intake.at_filter = number
                self._child(self._intake.look(item))
            case _BeginSpeech():
                self._on_begin_speech()
            case _EndSpeech():
                self._on_end_speech()
            case _:
                self._on_audio(item)

    def _on_audio(self, item: bytes) -> None:
        self._audio_waiting -= len(item)
        if self._listening is not None:
            playing = self._playback.unplayed_s > 0
            self._on_activity(self._listening.feed(item, playing=playing))
        elif self._config.turn_detection is None and not self._audio.append(item):
            raise self._audio_overflow()

    def _advance(self) -> None:
        """Begin whatever can begin now; end when all is over."""
        if self.state is SessionState.CLOSED:
            return
        if self.state is SessionState.FINISHING and not self._media_before(self._last_media):
            if self._listening is not None:  # somebody may be in mid-speech
                self._on_activity(self._listening.end())
            if not self._answering.busy and not self._recognising:
                self._answering.stop_warmup()
                if self._answering.idle:
                    self._end()
                return
        self._answering.advance(media_before=self._media_before, take_audio=self._audio.take)

    def _media_before(self, number: int) -> bool:
        """Whether media numbered `number` or less is still on its way to the buffer."""
        at_filter = self._intake.at_filter
        if at_filter is not None and at_filter <= number:
            return True
        return self._inbox.has_media_up_to(number)

    # --- questions, typed and spoken -------------------------------------------------

    def _interrupt(self, reason: InterruptReason) -> None:
        self._answering.interrupt(reason)
        self._playback.flush()

    def _on_frame(self, frame: Frame) -> None:
        """A frame is in the buffer: it may be an occasion to answer, unasked."""
        self._pipeline.see(frame)
        if self.state is not SessionState.OPEN:
            return
        text = self._pipeline.unasked(frame.number + 1, generating=self._answering.busy)
        if text is not None:
            self._answering.ask(Question(text, b"", after_media=0, unasked=True))

    def _on_begin_speech(self) -> None:
        self._audio.clear()
        if self._listening is not None:
            self._on_activity(self._listening.begin())

    def _on_end_speech(self) -> None:
        if self._listening is None:
            self._answering.ask(Question("", b"", after_media=self._inbox.media_count))
            return
        events = self._listening.end()
        if not events:
            raise ProtocolError("empty_question", "There was no question: nothing was said")
        self._on_activity(events)

    def _on_activity(self, events: list[ActivityEvent]) -> None:
        """Somebody speaks: hush at once, interrupt once it is more than a "mhm"."""
        for event in events:
            match event:
                case SpeechStarted(forced=True) | SpeechConfirmed():
                    self._interrupt("speech")
                case VoiceHeard() | SpeechStarted() | SpeechResumed():
                    if self._answering.busy:
                        self._playback.pause()
                case VoiceLost():
                    self._playback.resume()
                case SpeechPaused() if self._is_backchannel(event):
                    self._playback.resume()
                case SpeechEnded():
                    self._on_speech_ended(event)

    def _on_speech_ended(self, ended: SpeechEnded) -> None:
        assert self._listening is not None
        backchannel = not ended.forced and self._is_backchannel(ended)
        self._listening.stopped(ended, backchannel=backchannel)
        self._playback.resume()
        if not backchannel:
            self._recognising += 1
            self._child(self._listening.recognised(ended))

    def _is_backchannel(self, speech: SpeechPaused | SpeechEnded) -> bool:
        """Whether it is too short to interrupt the answer that is going on."""
        assert self._listening is not None
        speaking = self._answering.busy or self._playback.unplayed_s > 0
        return speech.speech_s < self._listening.short_s and speaking

    def _on_heard(self, heard: Heard) -> None:
        self._recognising -= 1
        hears = self._engine is not None and self._engine.info.hears
        if not heard.text and (self._kit.recognises or not hears):
            return  # a noise
        self._answering.ask(
            Question(
                heard.text,
                heard.audio if hears else b"",
                after_media=self._inbox.media_count,
                item_id=heard.item_id,
                speech_end_s=heard.speech_end_s,
                turn_end_s=heard.turn_end_s,
            )
        )

    def _listen(self) -> None:
        """Begin to listen, or not, as the config asks."""
        self._listening = self._make_listening()
        self._playback.waits = self._listening is not None

    def _make_listening(self) -> Listening | None:
        """Ears, if the config asks for them and speech can lead anywhere."""
        detection = self._config.turn_detection
        if detection is None:
            return None
        hears = self._engine is not None and self._engine.info.hears
        if not self._kit.recognises and not hears:
            self._emit(ErrorEvent.of(self._kit.cannot_recognise()))
            return None
        return Listening(
            detection,
            self._kit,
            language=self._config.language,
            clock=self._clock,
            emit=self._emit,
        )

    def _audio_overflow(self) -> MediaError:
        return MediaError(
            "audio_overflow",
            f"Audio buffer overflow: more than {self._limits.audio_bytes / 2**20:.0f} MiB "
            "without a query; the buffer was emptied",
            event_type="audio.chunk",
        )

    # --- config and end --------------------------------------------------------------

    def _on_update(self, changes: dict[str, Any]) -> None:
        before, self._config = self._config, updated_config(self._config, changes)
        self._pipeline.config = self._config
        self._intake.configure(self._config)
        self._answering.configure(self._config)
        listens = ("turn_detection", "language")
        changed = any(getattr(before, name) != getattr(self._config, name) for name in listens)
        if changed or (self._listening is None and "turn_detection" in changes):
            if self._listening is not None:
                self._listening.abandon()
                self._playback.resume()
            self._listen()
        self._emit(SessionUpdated(config=self._config))
        self._check_sampling()

    def _check_sampling(self) -> None:
        """Say early what every question would fail on."""
        if self._engine is None:
            return
        try:
            stage_sampling(self._config.sampling_params_list, len(self._engine.info.stages))
        except ProtocolError as error:
            self._emit(ErrorEvent.of(error))

    def _end(self) -> None:
        for item in self._inbox.clear_media():
            if isinstance(item, Arrival):
                self._intake.refuse(item, "closed")
        self._emit(self._intake.statistics())
        self._emit(SessionDone())
        self.state = SessionState.CLOSED

    def _child(self, work: Coroutine[Any, Any, _Notice]) -> None:
        """Run `work` beside the session's task; what it returns is read from the inbox."""
        assert self._children is not None
        self._children.create_task(self._notify_of(work))

    async def _notify_of(self, work: Coroutine[Any, Any, _Notice]) -> None:
        self._inbox.notify(await work)
