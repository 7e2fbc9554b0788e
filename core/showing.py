"""What a session shows the engine: the requests of its questions and its warm-ups."""

import uuid
from collections.abc import Callable
from typing import Any, Literal

from core.clock import Clock
from core.context import Context
from core.engines.base import Engine, EngineInfo, EngineRequest
from core.engines.sampling import stage_sampling
from core.errors import MediaError
from core.frames import Frame, FrameBuffer, PixelState, spread
from core.limits import SessionLimits
from core.pipeline import Pipeline
from core.prompt import Layout
from core.protocol import ContextTrimmed, ServerEvent, SessionConfig
from core.turn import Turn, TurnState
from core.warmup import WARMUP_PRIORITY, warms_up


class Showing:
    """The frame buffer and the history of one session, as prompts that the engine can take."""

    def __init__(
        self,
        config: SessionConfig,
        engine: Engine,
        buffer: FrameBuffer,
        pipeline: Pipeline,
        *,
        session_id: str,
        clock: Clock,
        limits: SessionLimits,
        emit: Callable[[ServerEvent], None],
        created_s: float,
    ) -> None:
        self._engine = engine
        self._buffer = buffer
        self._pipeline = pipeline
        self._session_id = session_id
        self._clock = clock
        self._emit = emit
        self._created_s = created_s
        self._history = pipeline.make_history(limits)
        self.configure(config)

    def configure(self, config: SessionConfig) -> None:
        """Take over a changed config, from the next request on."""
        self._config = config
        self._buffer.drop_half = self._shows_all

    @property
    def info(self) -> EngineInfo:
        """Of the engine; may change when its model has been loaded."""
        return self._engine.info

    @property
    def incremental(self) -> bool:
        """Whether the engine is shown frames before it is asked."""
        return warms_up(self.info, self._config.modalities)

    @property
    def layout(self) -> Layout:
        """The client's choice, or `chronological` where that saves prefilling."""
        default: Layout = "chronological" if self.incremental else "window"
        return self._config.context_layout or default

    @property
    def _shows_all(self) -> bool:
        return self.incremental or self.layout == "chronological"

    # --- requests --------------------------------------------------------------------

    def question_context(self) -> Context:
        """What a question that is asked now is about."""
        frames = self._buffer.frames
        if not self._shows_all:
            wanted = min(self._config.num_frames, self.info.images_per_prompt or len(frames))
            frames = tuple(frames[index] for index in spread(len(frames), wanted))
        return self._history.context(frames, self._buffer.newest)

    def warmup_context(self) -> Context:
        """What it would be about: the frames whose pixels are there, up to the first without."""
        frames: list[Frame] = []
        for frame in self._buffer.frames:
            if not frame.decoded.is_set():
                break
            if frame.rgb is not None:
                frames.append(frame)
        return self._history.context(frames, self._buffer.newest)

    def question(self, turn: Turn) -> EngineRequest:
        """The request of a turn. Raises `SightlineError` if it cannot be asked."""
        audio, text = self._asked(turn)
        if not turn.context.frames and not audio and not self._any_frame_usable():
            raise MediaError(
                "no_frames", "No frames buffered: nothing has been seen yet to answer about"
            )
        info = self.info
        return self._request(
            turn.request_id,
            turn.context,
            audio=audio,
            text=text,
            sampling=stage_sampling(self._config.sampling_params_list, len(info.stages)),
            modalities=tuple(
                kind for kind in self._config.modalities if kind in info.output_modalities
            ),
        )

    def warmup(self, context: Context) -> EngineRequest:
        """The request of a warm-up."""
        return self._request(
            f"video-warmup-{uuid.uuid4().hex}",
            context,
            max_tokens=1,
            priority=WARMUP_PRIORITY,
            prefill_only=True,
        )

    def _request(
        self,
        request_id: str,
        context: Context,
        *,
        audio: bytes = b"",
        text: str = "",
        **rest: Any,
    ) -> EngineRequest:
        return EngineRequest(
            request_id=request_id,
            session_id=self._session_id,
            messages=self._pipeline.prompt(self.layout, context, audio=audio, text=text),
            use_audio_in_video=self._config.use_audio_in_video,
            time_s=self._clock.monotonic() - self._created_s,
            **rest,
        )

    def _asked(self, turn: Turn) -> tuple[bytes, str]:
        """The audio and the text of a question as the engine gets them."""
        if not self.info.hears:
            return b"", turn.asked
        return turn.audio, "" if turn.question.spoken and turn.audio else turn.asked

    def _any_frame_usable(self) -> bool:
        return any(frame.state is not PixelState.FAILED for frame in self._buffer.frames)

    # --- what has been shown ---------------------------------------------------------

    def end_turn(self, turn: Turn) -> None:
        """Keep what was said; leave out from now on what the model could not take."""
        self.trim_to(turn.context)
        if turn.state in (TurnState.DONE, TurnState.INTERRUPTED):
            audio, text = self._asked(turn)
            self._pipeline.remember(
                self._history,
                turn.asked,
                turn.got,
                interrupted=turn.state is TurnState.INTERRUPTED,
                after=turn.context.newest,
                audio=audio,
                text=text,
            )

    def trim_to(self, context: Context) -> None:
        """If a request had to leave something out, the session leaves it out as well."""
        if not context.trimmed:
            return
        if not self._shows_all:  # another question is given other frames
            return
        first = context.frames[0].number if context.frames else context.newest + 1
        self._buffer.drop_before(first)
        until = context.exchanges[0].number if context.exchanges else self._history.count
        self._leave_out("context_tokens", first_exchange=until)

    def fit(self) -> None:
        """Hold no more images than the engine takes; exchanges leave with their frames."""
        images = self.info.images_per_prompt if self._shows_all else None
        if self._buffer.max_images != images:
            self._buffer.resize(self._buffer.max_frames, images)
        if self._buffer.over_bytes:
            self._leave_out("max_bytes")
        elif self._buffer.limit < self._buffer.max_frames:
            self._leave_out("images_per_prompt")
        else:
            self._leave_out("max_frames")

    def _leave_out(
        self,
        reason: Literal["max_frames", "max_bytes", "images_per_prompt", "context_tokens"],
        *,
        first_exchange: int = 0,
    ) -> None:
        gone = self._buffer.take_left()
        past = 0
        if self.layout == "chronological" and (gone or first_exchange):
            past = self._history.drop(
                gone, first_frame=self._buffer.first, first_exchange=first_exchange
            )
        elif reason == "max_frames":
            return  # a window slides
        if (gone or past) and not self.info.remembers:
            self._report(reason, len(gone), past)

    def _report(
        self,
        reason: Literal["max_frames", "max_bytes", "images_per_prompt", "context_tokens"],
        frames: int,
        exchanges: int,
    ) -> None:
        because = {
            "max_frames": f"this session keeps {self._buffer.max_frames} frames",
            "max_bytes": "their pixels take too much memory",
            "images_per_prompt": f"it takes {self.info.images_per_prompt} images",
            "context_tokens": f"it takes {self.info.context_tokens or 'no more'} tokens",
        }[reason]
        parts = [
            _counted(count, thing)
            for count, thing in ((frames, "frame"), (exchanges, "question"))
            if count
        ]
        one = frames + exchanges == 1
        self._emit(
            ContextTrimmed(
                reason=reason,
                frames=frames,
                exchanges=exchanges,
                frames_left=len(self._buffer),
                message=f"The oldest {' and '.join(parts)} {'has' if one else 'have'} left what "
                f"the model is shown: {because}.",
            )
        )


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"
