"""Who has the engine: the newest question, or else a warm-up. What each of them asks it.

Called only from the session's own task. A question interrupts the one before it; its turn
begins when the frames that came before it are in the buffer and the engine is free.
"""

import logging
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from core.clock import Clock
from core.engines.base import Engine, EngineRequest
from core.engines.sampling import stage_sampling
from core.errors import MediaError
from core.frames import Frame, FrameBuffer, PixelState, spread
from core.limits import SessionLimits
from core.prompt import History, window_prompt
from core.protocol import ResponseStart, ServerEvent, SessionConfig
from core.speech.kit import SpeechKit
from core.speech.playback import Playback
from core.speech.synthesis import Synthesis
from core.turn import InterruptReason, Question, Turn, TurnState
from core.warmup import WARMUP_PRIORITY, Warmup, WarmupState, warms_up

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Idle:
    """Notice: the engine is free again; `work` has ended."""

    work: Turn | Warmup


class Answering:
    """Turns and warm-ups of one session."""

    def __init__(
        self,
        config: SessionConfig,
        engine: Engine | None,
        buffer: FrameBuffer,
        *,
        session_id: str,
        clock: Clock,
        limits: SessionLimits,
        emit: Callable[[ServerEvent], None],
        spawn: Callable[[Coroutine[Any, Any, Idle]], None],
        kit: SpeechKit,
        playback: Playback,
        created_s: float,
    ) -> None:
        self._engine = engine
        self._buffer = buffer
        self._session_id = session_id
        self._clock = clock
        self._limits = limits
        self._emit = emit
        self._spawn = spawn
        self._kit = kit
        self._playback = playback
        self._created_s = created_s
        self._history = History(limits.history_messages)
        self._pending: Turn | None = None  # the newest question, not yet running
        self._running: Turn | Warmup | None = None  # who has the engine
        self._warmed: frozenset[str] = frozenset()  # content ids the engine has been shown
        self.configure(config)

    def configure(self, config: SessionConfig) -> None:
        """Take over a changed config, from the next turn on."""
        self._config = config
        self._buffer.drop_half = self.incremental

    @property
    def busy(self) -> bool:
        """Whether a question is waiting or being answered."""
        return self._pending is not None or isinstance(self._running, Turn)

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nobody has the engine."""
        return self._pending is None and self._running is None

    def ask(self, question: Question) -> None:
        """A question; one that waits or is being answered is interrupted."""
        self.interrupt("new_query")
        turn = Turn(
            f"video-{uuid.uuid4().hex}",
            question,
            clock=self._clock,
            limits=self._limits,
            emit=self._emit,
            playback=self._playback,
            synthesis=self._synthesis(),
            legacy_audio_events=self._config.legacy_audio_events,
        )
        self._emit(
            ResponseStart(
                request_id=turn.request_id, question=question.text, item_id=question.item_id
            )
        )
        self._pending = turn

    def interrupt(self, reason: InterruptReason) -> None:
        """Stop the question that waits and the answer in flight."""
        if self._pending is not None:
            self._pending.interrupt(reason)
            self._pending = None
        if isinstance(self._running, Turn):
            self._running.interrupt(reason)

    def stop_warmup(self) -> None:
        """Let the engine go, unless a turn has it."""
        if isinstance(self._running, Warmup):
            self._running.stop()

    def advance(
        self, *, media_before: Callable[[int], bool], take_audio: Callable[[], bytes]
    ) -> None:
        """Begin whatever can begin now.

        `media_before(n)`: is media numbered n or less still on its way to the buffer?
        `take_audio`: what was said, taken from the session's buffer.
        """
        pending = self._pending
        if pending is None:
            if self._running is None:
                self._warm_up()
            return
        self.stop_warmup()
        if pending.state is TurnState.QUEUED and not media_before(pending.question.after_media):
            pending.select(self._chosen_frames(), take_audio())
        if pending.state is TurnState.SELECTED and self._running is None:
            self._pending = None
            self._running = pending
            self._spawn(self._run(pending))

    def on_idle(self, work: Turn | Warmup) -> bytes:
        """Its work has ended; audio that was not heard goes back to the session's buffer."""
        self._running = None
        if isinstance(work, Warmup):
            if work.state is not WarmupState.STOPPED:
                self._warmed = work.content_ids  # a failed one waits for news, too
            return b""
        self._warmed = frozenset()  # the history has grown: another prefix (row 37)
        interrupted = work.state is TurnState.INTERRUPTED
        if work.state is TurnState.DONE or interrupted:
            self._history.commit(work.asked, work.got, interrupted=interrupted)
        return work.buffered if work.state is TurnState.FAILED else b""

    async def _run(self, turn: Turn) -> Idle:
        await turn.run(self._engine, self._request, self._kit.transcribe)
        return Idle(turn)

    # --- what a turn asks the engine -------------------------------------------------

    @property
    def incremental(self) -> bool:
        """Whether this session shows the engine frames before it is asked."""
        return self._engine is not None and warms_up(self._engine.info, self._config.modalities)

    def _synthesis(self) -> Synthesis | None:
        """A voice for an answer whose engine has none, if one is wanted and there."""
        if "audio" not in self._config.modalities or self._engine is None:
            return None
        if self._engine.info.speaks:
            return None
        return self._kit.synthesis(
            self._config.voice,
            speed=self._config.speech_speed,
            unplayed_s=lambda: self._playback.unplayed_s,
        )

    def _chosen_frames(self) -> list[Frame]:
        frames = self._buffer.frames
        if self.incremental:
            return list(frames)
        return [frames[index] for index in spread(len(frames), self._config.num_frames)]

    def _request(self, turn: Turn, usable: list[Frame]) -> EngineRequest:
        """The engine request of a turn. Raises `SightlineError` if it cannot be asked."""
        assert self._engine is not None
        hears = self._engine.info.hears
        audio = turn.audio if hears else b""
        text = "" if hears and turn.question.spoken and audio else turn.asked
        if not usable and not audio and not self._any_frame_usable():
            raise MediaError(
                "no_frames", "No frames buffered: nothing has been seen yet to answer about"
            )
        info = self._engine.info
        return self._engine_request(
            turn.request_id,
            usable,
            audio=audio,
            text=text,
            sampling=stage_sampling(self._config.sampling_params_list, len(info.stages)),
            modalities=tuple(
                kind for kind in self._config.modalities if kind in info.output_modalities
            ),
        )

    def _engine_request(
        self,
        request_id: str,
        frames: list[Frame],
        *,
        audio: bytes = b"",
        text: str = "",
        **rest: Any,
    ) -> EngineRequest:
        return EngineRequest(
            request_id=request_id,
            session_id=self._session_id,
            messages=window_prompt(
                system_prompt=self._config.system_prompt,
                history=self._history.recent(),
                frames=frames,
                timestamps=self._config.timestamps,
                audio=audio,
                text=text,
            ),
            use_audio_in_video=self._config.use_audio_in_video,
            time_s=self._clock.monotonic() - self._created_s,
            **rest,
        )

    def _any_frame_usable(self) -> bool:
        return any(frame.state is not PixelState.FAILED for frame in self._buffer.frames)

    # --- warm-up ---------------------------------------------------------------------

    def _warm_up(self) -> None:
        """Show the engine what the next question would show it, if there is news."""
        if not self.incremental or self._engine is None:
            return
        frames = [frame for frame in self._buffer.frames if frame.rgb is not None]
        if not frames or {frame.content_id for frame in frames} <= self._warmed:
            return
        request = self._engine_request(
            f"video-warmup-{uuid.uuid4().hex}",
            frames,
            max_tokens=1,
            priority=WARMUP_PRIORITY,
            prefill_only=True,
        )
        self._running = Warmup(self._engine, request, frames, self._limits)
        self._spawn(self._run_warmup(self._running))

    async def _run_warmup(self, warmup: Warmup) -> Idle:
        await warmup.run()
        return Idle(warmup)
