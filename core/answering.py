"""Who has the engine: the newest question, or else a warm-up.

Called only from the session's own task. A question interrupts the one before it; its turn
begins when the frames that came before it are in the buffer and the engine is free.
"""

import logging
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from core.clock import Clock
from core.context import Context
from core.engines.base import Engine
from core.frames import FrameBuffer
from core.gate import QuestionGate
from core.limits import SessionLimits
from core.pipeline import Pipeline
from core.protocol import ResponseStart, ServerEvent, SessionConfig
from core.showing import Showing
from core.speech.kit import SpeechKit
from core.speech.playback import Playback
from core.speech.synthesis import Synthesis
from core.turn import InterruptReason, Question, Turn, TurnState
from core.warmup import PrefillLedger, Warmup, WarmupState

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
        pipeline: Pipeline,
        *,
        session_id: str,
        clock: Clock,
        limits: SessionLimits,
        emit: Callable[[ServerEvent], None],
        spawn: Callable[[Coroutine[Any, Any, Idle]], None],
        gate: QuestionGate,
        kit: SpeechKit,
        playback: Playback,
        created_s: float,
    ) -> None:
        self._config = config
        self._engine = engine
        self._clock = clock
        self._limits = limits
        self._emit = emit
        self._spawn = spawn
        self._gate = gate
        self._kit = kit
        self._playback = playback
        self._showing: Showing | None = None
        if engine is not None:
            self._showing = Showing(
                config,
                engine,
                buffer,
                pipeline,
                session_id=session_id,
                clock=clock,
                limits=limits,
                emit=emit,
                created_s=created_s,
            )
        self._ledger = PrefillLedger()
        self._pending: Turn | None = None  # the newest question, not yet running
        self._running: Turn | Warmup | None = None  # who has the engine
        self._warmed: frozenset[str] = frozenset()  # content ids the engine has been shown

    def configure(self, config: SessionConfig) -> None:
        """Take over a changed config, from the next turn on."""
        self._config = config
        if self._showing is not None:
            self._showing.configure(config)

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
            gate=self._gate,
            playback=self._playback,
            synthesis=self._synthesis(),
            legacy_audio_events=self._config.legacy_audio_events,
        )
        self._emit(
            ResponseStart(
                request_id=turn.request_id,
                question=question.text,
                item_id=question.item_id,
                unasked=True if question.unasked else None,
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
        if self._showing is not None:
            self._showing.fit()
        pending = self._pending
        if pending is None:
            if self._running is None:
                self._warm_up()
            return
        self.stop_warmup()
        if pending.state is TurnState.QUEUED and not media_before(pending.question.after_media):
            context = self._showing.question_context() if self._showing is not None else Context()
            pending.select(context, take_audio())
        if pending.state is TurnState.SELECTED and self._running is None:
            self._pending = None
            self._running = pending
            self._spawn(self._run(pending))

    def on_idle(self, work: Turn | Warmup) -> bytes:
        """Its work has ended; audio that was not heard goes back to the session's buffer."""
        self._running = None
        if isinstance(work, Warmup):
            self._end_warmup(work)
            return b""
        self._warmed = frozenset()  # the prompt goes on behind it (row 37)
        if self._showing is not None:
            self._showing.end_turn(work)
            if work.usage is not None:
                self._ledger.asked(work.usage)
                self._report_prefill()
        return work.buffered if work.state is TurnState.FAILED else b""

    async def _run(self, turn: Turn) -> Idle:
        build = self._showing.question if self._showing is not None else None
        await turn.run(self._engine, build, self._kit.transcribe)
        return Idle(turn)

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

    # --- warm-up ---------------------------------------------------------------------

    def _warm_up(self) -> None:
        """Show the engine what the next question would show it, if there is news."""
        if self._showing is None or self._engine is None or not self._showing.incremental:
            return
        frames = self._showing.warmup_context().frames
        if not frames or {frame.content_id for frame in frames} <= self._warmed:
            return
        self._running = Warmup(
            self._engine,
            self._gate,
            self._limits,
            context=self._showing.warmup_context,
            request=self._showing.warmup,
        )
        self._spawn(self._run_warmup(self._running))

    async def _run_warmup(self, warmup: Warmup) -> Idle:
        await warmup.run()
        return Idle(warmup)

    def _end_warmup(self, warmup: Warmup) -> None:
        assert self._showing is not None
        if warmup.usage is not None:
            self._ledger.warmed_up(warmup.usage)
            self._report_prefill()
        if warmup.state is WarmupState.TOO_LONG:
            smaller = warmup.context.halved()
            if smaller is not None:
                self._showing.trim_to(smaller)
                return
        if warmup.state is not WarmupState.STOPPED:
            self._warmed = warmup.content_ids  # a failed one waits for news, too

    def _report_prefill(self) -> None:
        if self._showing is not None and self._showing.incremental:
            self._emit(self._ledger.event(self._showing.info.context_tokens))
