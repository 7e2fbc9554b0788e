"""One question and its answer, interruptible."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from core.clock import Clock
from core.context import Context
from core.engines.base import Engine, EngineOutput, EngineRequest, EngineUsage
from core.engines.stream import EngineStream
from core.environment import stream_deltas
from core.errors import EngineError, PromptTooLong, SightlineError
from core.frames import Frame
from core.gate import QuestionGate
from core.limits import SessionLimits
from core.protocol import (
    AudioDelta,
    AudioDone,
    ConsumedFrame,
    ErrorEvent,
    FramesConsumed,
    ResponseDone,
    ResponseInterrupted,
    ServerEvent,
    TextDelta,
    TextDone,
    TranscriptCompleted,
    Usage,
)
from core.speech.pcm import pcm16_from_float
from core.speech.playback import Playback
from core.speech.synthesis import Synthesis
from core.timeline import Mark, TurnTimeline

log = logging.getLogger(__name__)

T = TypeVar("T")

InterruptReason = Literal["new_query", "cancelled", "closed", "speech"]


class TurnState(Enum):
    """Where a turn stands. The last three are final."""

    QUEUED = "queued"  # media that came before it is still being filtered
    SELECTED = "selected"  # it holds its frames and waits for the engine to be free
    PREPARING = "preparing"  # its frames' pixels are being decoded
    SUBMITTED = "submitted"  # handed to the engine
    STREAMING = "streaming"  # the engine has begun to answer
    SPEAKING = "speaking"  # the text is whole, it is still being spoken
    DONE = "done"
    INTERRUPTED = "interrupted"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        """Whether nothing more will happen."""
        return self in (TurnState.DONE, TurnState.INTERRUPTED, TurnState.FAILED)


@dataclass(frozen=True)
class Question:
    """What was asked: text, its own audio (PCM16), and the media number it waits for."""

    text: str
    audio: bytes
    after_media: int
    item_id: str | None = None  # of the speech that asked it
    speech_end_s: float | None = None  # monotonic
    turn_end_s: float | None = None  # monotonic
    unasked: bool = False  # nobody asked: the pipeline found an occasion

    @property
    def spoken(self) -> bool:
        """Whether `text` is what was recognised in `audio`."""
        return self.item_id is not None


class Turn:
    """From a question to exactly one terminal event: done, interrupted or an error.

    The session makes it, gives it frames with `select`, and runs it when the engine is
    free. `interrupt` may be called in any state.
    """

    def __init__(
        self,
        request_id: str,
        question: Question,
        *,
        clock: Clock,
        limits: SessionLimits,
        emit: Callable[[ServerEvent], None],
        gate: QuestionGate,
        playback: Playback,
        synthesis: Synthesis | None,
        legacy_audio_events: bool,
    ) -> None:
        self.request_id = request_id
        self.question = question
        self.state = TurnState.QUEUED
        self.timeline = TurnTimeline(clock)
        if question.speech_end_s is not None and question.turn_end_s is not None:
            self.timeline.mark(Mark.SPEECH_END, question.speech_end_s)
            self.timeline.mark(Mark.TURN_END, question.turn_end_s)
        self.timeline.mark(Mark.ASKED)
        self.frames: tuple[Frame, ...] = ()  # held until it ends
        self.context = Context()  # what the model is shown, smaller if it takes less
        self.usage: EngineUsage | None = None
        self.buffered = b""  # audio of the session's buffer, if nobody has heard it yet
        self.audio = b""  # that, and the question's own
        self.asked = question.text  # what was asked, as text, once that is known
        self.text = ""  # all that was sent of the answer
        self._clock = clock
        self._limits = limits
        self._emit = emit
        self._gate = gate
        self._playback = playback
        self._synthesis = synthesis
        self._legacy_audio = legacy_audio_events
        self._stopped = asyncio.Event()
        self._reason: InterruptReason = "cancelled"
        self._stream: EngineStream | None = None
        self._spoken: list[tuple[str, float]] = []  # text and seconds of what was sent to play
        self._heard: str | None = None  # of an interrupted spoken answer
        gate.enter(request_id)

    @property
    def got(self) -> str:
        """What the person really got of the answer."""
        return self.text if self._heard is None else self._heard

    def select(self, context: Context, buffered: bytes) -> None:
        """Take the context and the buffered audio that it will be about; holds the frames."""
        for frame in context.frames:
            frame.hold()
        self.context, self.frames, self.buffered = context, context.frames, buffered
        self.audio = buffered + self.question.audio
        self.state = TurnState.SELECTED

    def interrupt(self, reason: InterruptReason) -> None:
        """Stop as soon as the engine lets go. One that has not begun ends at once."""
        if self.state.final or self._stopped.is_set():
            return
        self._reason = reason
        self._stopped.set()
        if self._spoken:
            self._heard = self._heard_text()
            self._playback.flush()
        if self._synthesis is not None:
            self._synthesis.cancel()
        if self._stream is not None:
            self._stream.stop()
        if self.state in (TurnState.QUEUED, TurnState.SELECTED):
            self._end_interrupted()
            self._release()

    def fail(self, error: SightlineError) -> None:
        """End with an error that carries the request id."""
        self.state = TurnState.FAILED
        self._gate.leave(self.request_id)
        if self._spoken:
            self._playback.flush()
        self._emit(ErrorEvent(code=error.code, message=error.message, request_id=self.request_id))

    async def run(
        self,
        engine: Engine | None,
        build: Callable[["Turn"], EngineRequest] | None,
        transcribe: Callable[[bytes], Awaitable[str]],
    ) -> None:
        """Answer. `build` makes the request once the frames' pixels are there; again, of a
        smaller context, if the model takes less.

        Ends in a final state; never raises. Frames are released, the engine has let go.
        """
        self.state = TurnState.PREPARING
        self.timeline.mark(Mark.READY)
        try:
            if engine is None or build is None:
                raise EngineError("no_engine", "Streaming video requires an engine client")
            await self._decode_frames()
            if self.audio and not self.asked and not engine.info.hears:
                await self._recognise(transcribe)
            if not self._stopped.is_set():
                await self._require_ready(engine)
            if not self._stopped.is_set():
                await self._answer(engine, build)
            if self._stopped.is_set():
                self._end_interrupted()
            else:
                self._end_done()
        except SightlineError as error:
            if self._stopped.is_set():
                self._end_interrupted()
            else:
                self.fail(error)
        except Exception as error:
            log.exception("turn %s failed", self.request_id)
            self.fail(EngineError("internal_error", f"The turn failed: {error}"))
        finally:
            self._release()

    async def _recognise(self, transcribe: Callable[[bytes], Awaitable[str]]) -> None:
        """The text of a question that came as audio, for an engine that does not hear."""
        try:
            async with asyncio.timeout(self._limits.stall_s):
                text = await self._unless_stopped(transcribe(self.audio))
        except TimeoutError:
            message = "Recognising the question took too long"
            raise EngineError("recognition_timeout", message) from None
        if text is None:
            return
        self.timeline.mark(Mark.RECOGNISED)
        self._emit(TranscriptCompleted(item_id=self.request_id, transcript=text))
        self.buffered = b""
        if not text:
            raise EngineError("no_speech", "No words were understood: ask again, or type")
        self.asked = text

    async def _unless_stopped(self, work: Awaitable[T]) -> T | None:
        """The result of `work`; None, and `work` cancelled, if interrupted before."""
        task = asyncio.ensure_future(work)
        stop = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stop.cancel()
            task.cancel()

    async def _decode_frames(self) -> None:
        """Wait for the pixels of the selected frames; those that failed are left out."""
        pixels = [asyncio.create_task(frame.decoded.wait()) for frame in self.frames]
        stop = asyncio.create_task(self._stopped.wait())
        try:
            async with asyncio.timeout(self._limits.decode_s):
                for wait in pixels:
                    await asyncio.wait([wait, stop], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise EngineError("decode_timeout", "Decoding the frames took too long") from None
        finally:
            for wait in (*pixels, stop):
                wait.cancel()
        selected_s = self.timeline.mark(Mark.SELECTED)
        self.context = self.context.usable
        for frame in self.context.frames:
            frame.timeline.selected_s = selected_s

    async def _require_ready(self, engine: Engine) -> None:
        try:
            async with asyncio.timeout(self._limits.submit_s):
                health = await self._unless_stopped(engine.health())
        except TimeoutError:
            message = "The engine did not say whether it is ready"
            raise EngineError("engine_timeout", message) from None
        if health is None:
            return
        if health.status == "loading":
            raise EngineError("engine_loading", f"The engine is still loading. {health.detail}")
        if health.status == "failed":
            raise EngineError("engine_failed", f"The engine is not available. {health.detail}")

    async def _answer(self, engine: Engine, build: Callable[["Turn"], EngineRequest]) -> None:
        speaking = asyncio.create_task(self._speak())
        try:
            await self._submit(engine, build)
            if not self._stopped.is_set():
                self._end_text()
                await speaking
                await self._unless_stopped(self._playback.drained())
        finally:
            if self._synthesis is not None:
                self._synthesis.cancel()
            await asyncio.wait([speaking])

    async def _submit(self, engine: Engine, build: Callable[["Turn"], EngineRequest]) -> None:
        """Ask the engine; if the prompt is too long, without the oldest half of it."""
        while not self._stopped.is_set():
            request = build(self)
            self._stream = EngineStream(engine, request, self._limits)
            self.state = TurnState.SUBMITTED
            watch = asyncio.create_task(self._mark_submitted(request))
            try:
                await self._read(self._stream)
                return
            except PromptTooLong:
                smaller = self.context.halved()
                if smaller is None or self.state is not TurnState.SUBMITTED:
                    raise
                self.context = smaller
            finally:
                watch.cancel()
                await self._stream.close()

    async def _read(self, stream: EngineStream) -> None:
        deltas = stream_deltas()
        while (output := await stream.next()) is not None:
            self.timeline.mark(Mark.SUBMITTED)
            if self.state is TurnState.SUBMITTED:
                self.state = TurnState.STREAMING
                self.timeline.mark(Mark.FIRST_OUTPUT)
                self._gate.leave(self.request_id)
                self._emit_consumed()
            self._send(output, deltas=deltas)

    def _end_text(self) -> None:
        """The text is whole; what is left is to speak it."""
        if self.state is TurnState.SUBMITTED:
            self._emit_consumed()  # the engine had nothing to say
        if self._synthesis is not None or self._spoken:
            self.timeline.mark(Mark.TEXT_DONE)
        self._emit(TextDone(request_id=self.request_id, text=self.text))
        if self._synthesis is not None:
            self._synthesis.finish()
        self.state = TurnState.SPEAKING

    async def _speak(self) -> None:
        """Play the answer in our voice, where it has one. A broken voice leaves the text."""
        if self._synthesis is None:
            return
        try:
            async for chunk in self._synthesis.chunks():
                self._play(chunk.text, chunk.audio, chunk.sample_rate_hz)
        except SightlineError as error:
            self._emit(ErrorEvent.of(error))
        except Exception:
            log.exception("turn %s: speaking failed", self.request_id)
            self._emit(
                ErrorEvent(code="speech_failed", message="The voice failed; the text is whole")
            )

    def _play(self, text: str, audio: NDArray[np.float32], rate_hz: int) -> None:
        if not audio.size:
            self._spoken.append((text, 0.0))
            return
        self.timeline.mark(Mark.FIRST_AUDIO)
        self._spoken.append((text, audio.size / rate_hz))
        name: Literal["response.audio.delta", "response.output_audio.delta"] = (
            "response.audio.delta" if self._legacy_audio else "response.output_audio.delta"
        )
        self._playback.play(
            AudioDelta(
                type=name,
                request_id=self.request_id,
                pcm16=pcm16_from_float(audio),
                sample_rate_hz=rate_hz,
            )
        )

    def _heard_text(self) -> str:
        """What of the answer had been played when it was cut, in whole stretches or words."""
        played_s = sum(seconds for _, seconds in self._spoken) - self._playback.unplayed_s
        if self._synthesis is None:  # the engine's own voice: it does not say which words
            total_s = sum(seconds for _, seconds in self._spoken)
            return _words(self.text, played_s / total_s if total_s else 0.0)
        heard = ""
        for text, seconds in self._spoken:
            if seconds > played_s:
                return heard + _words(text, played_s / seconds)
            played_s -= seconds
            heard += text
        return heard

    async def _mark_submitted(self, request: EngineRequest) -> None:
        await request.submitted.wait()
        self.timeline.mark(Mark.SUBMITTED)

    def _send(self, output: EngineOutput, *, deltas: bool) -> None:
        if output.usage is not None:
            self.usage = output.usage
        if output.text_delta:
            self.timeline.mark(Mark.FIRST_TEXT)
            self.text += output.text_delta
            if deltas:
                self._emit(TextDelta(request_id=self.request_id, delta=output.text_delta))
        if output.text_delta and self._synthesis is not None:
            self._synthesis.feed(output.text_delta)
        if output.audio is not None:
            self._play("", output.audio, output.sample_rate_hz or 24_000)

    def _emit_consumed(self) -> None:
        """Protocol rows 9 to 15; nothing if no selected frame came with an id."""
        if not any(frame.meta.frame_id for frame in self.frames):
            return
        selected_s = self.timeline.get(Mark.SELECTED)
        assert selected_s is not None
        shown = self.context.frames
        self._emit(
            FramesConsumed(
                request_id=self.request_id,
                model_selected_ts_ms=self._clock.epoch_ms(selected_s),
                frame_ids=[frame.meta.frame_id for frame in shown if frame.meta.frame_id],
                frames=[self._consumed(frame) for frame in shown],
                latest_pts_ms=shown[-1].meta.pts_ms if shown else None,
            )
        )

    def _consumed(self, frame: Frame) -> ConsumedFrame:
        assert frame.timeline.decoded_s is not None
        return ConsumedFrame(
            frame_id=frame.meta.frame_id,
            pts_ms=frame.meta.pts_ms,
            source_pts_ms=frame.meta.source_pts_ms,
            quality_profile=frame.meta.quality_profile,
            receiver_received_ts_ms=self._clock.epoch_ms(frame.timeline.received_s),
            decoded_ready_ts_ms=self._clock.epoch_ms(frame.timeline.decoded_s),
        )

    def _end_done(self) -> None:
        self.timeline.mark(Mark.DONE)
        self.state = TurnState.DONE
        self._gate.leave(self.request_id)
        if self._spoken:
            name: Literal["response.audio.done", "response.output_audio.done"] = (
                "response.audio.done" if self._legacy_audio else "response.output_audio.done"
            )
            self._emit(AudioDone(type=name, request_id=self.request_id))
        usage = self.usage
        self._emit(
            ResponseDone(
                request_id=self.request_id,
                timing=self.timeline.timing(),
                usage=usage
                and Usage(prompt_tokens=usage.prompt_tokens, cached_tokens=usage.cached_tokens),
            )
        )

    def _end_interrupted(self) -> None:
        self.timeline.mark(Mark.DONE)
        self.state = TurnState.INTERRUPTED
        self._gate.leave(self.request_id)
        self._emit(
            ResponseInterrupted(
                request_id=self.request_id,
                reason=self._reason,
                text=self.text,
                heard_text=self._heard,
                timing=self.timeline.timing(),
            )
        )

    def _release(self) -> None:
        for frame in self.frames:
            frame.release()


def _words(text: str, share: float) -> str:
    """The first `share` (0 to 1) of `text`, in whole words."""
    if share >= 1.0:
        return text
    end = text.rfind(" ", 0, int(len(text) * max(share, 0.0)) + 1)
    return text[:end] if end > 0 else ""
