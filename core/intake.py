"""The way of a frame into a session: filter, buffer, decode; what the client is told.

Called only from the session's own task; the two coroutines, `look` and `decode`, are
children of the session that work on the decode pool and report by a notice.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from core.clock import Clock
from core.errors import MediaError
from core.frames import (
    NO_SOURCE,
    DecodePool,
    Frame,
    FrameBuffer,
    FrameInput,
    PixelState,
    Rgb,
    Thumbnail,
)
from core.limits import SessionLimits
from core.protocol import (
    ErrorEvent,
    FilterStatistics,
    FrameAck,
    FrameDecision,
    ServerEvent,
    SessionConfig,
)
from core.similarity import Decision, FrameFilter, make_filter
from core.timeline import FrameTimeline

log = logging.getLogger(__name__)

DECODES_AT_ONCE = 2  # of one session: it does not fill the pool that all share

FILTER_FIELDS = (
    "enable_frame_filter",
    "frame_filter",
    "frame_filter_threshold",
    "frame_filter_max_gap_s",
)


@dataclass(frozen=True)
class Arrival:
    """A frame on its way to the filter."""

    meta: FrameInput
    received_s: float


@dataclass(frozen=True)
class Filtered:
    """Notice: what the filter needs of a frame is there, or why it cannot be had."""

    arrival: Arrival
    filter: FrameFilter
    thumbnail: Thumbnail | None = None
    features: Any = field(repr=False, default=None)
    content_id: str = ""
    preview: str | None = field(repr=False, default=None)
    error: MediaError | None = None


@dataclass(frozen=True)
class Decoded:
    """Notice: a kept frame's pixels are there, or why they cannot be had."""

    frame: Frame
    rgb: Rgb | None = field(repr=False, default=None)
    error: MediaError | None = None


class FrameIntake:
    """Filter, buffer and counters of one session's frames; one frame at the filter at a time."""

    def __init__(
        self,
        config: SessionConfig,
        *,
        pool: DecodePool,
        clock: Clock,
        limits: SessionLimits,
        emit: Callable[[ServerEvent], None],
        content_key: bytes,
        created_s: float,
        max_rate_hz: float | None,
    ) -> None:
        self.buffer = FrameBuffer(max_frames=config.max_frames, max_bytes=limits.buffer_bytes)
        self.at_filter: int | None = None  # number of the media item there
        self._config = config
        self._pool = pool
        self._clock = clock
        self._limits = limits
        self._emit = emit
        self._content_key = content_key
        self._created_s = created_s
        self._max_rate_hz = max_rate_hz
        self._filter = make_filter(config, max_rate_hz=max_rate_hz)
        self._kept = 0
        self._dropped = 0
        self._decoding = asyncio.Semaphore(DECODES_AT_ONCE)

    def configure(self, config: SessionConfig) -> None:
        """Take over a changed config; the filter starts anew only if its own fields changed."""
        before, self._config = self._config, config
        if any(getattr(before, name) != getattr(config, name) for name in FILTER_FIELDS):
            self._filter = make_filter(config, max_rate_hz=self._max_rate_hz)
        self.buffer.resize(config.max_frames, self.buffer.max_images)

    def statistics(self) -> FilterStatistics:
        """The filter's counters so far."""
        total = self._kept + self._dropped
        return FilterStatistics(
            retained=self._kept,
            dropped=self._dropped,
            total=total,
            drop_rate=self._dropped / total if total else 0.0,
        )

    async def look(self, arrival: Arrival) -> Filtered:
        """On the pool: the thumbnail, the filter's features, the content id. Never raises."""
        frame_filter = self._filter
        try:
            async with asyncio.timeout(self._limits.decode_s):
                return await self._pool.run(self._look, arrival, frame_filter, self._config)
        except MediaError as cause:
            error = cause
        except TimeoutError:
            error = MediaError("decode_timeout", "Decoding a frame took too long")
        except Exception:
            log.exception("the frame filter failed")
            error = MediaError("invalid_image", "Invalid image data")
        return Filtered(arrival, frame_filter, error=error)

    def _look(self, arrival: Arrival, frame_filter: FrameFilter, config: SessionConfig) -> Filtered:
        source = arrival.meta.source
        content_id = source.content_id(self._content_key)
        if config.filter_name == "off" and not config.frame_events:
            return Filtered(arrival, frame_filter, content_id=content_id)  # no thumbnail needed
        thumbnail = source.thumbnail()
        features = frame_filter.features(source, thumbnail)
        preview = thumbnail.jpeg_base64() if config.frame_events else None
        return Filtered(arrival, frame_filter, thumbnail, features, content_id, preview)

    def on_filtered(self, notice: Filtered) -> Frame | None:
        """Decide on a frame and tell the client; the frame if it was kept: decode it next."""
        self.at_filter = None
        arrival = notice.arrival
        if notice.error is not None:
            self._report(notice.error, arrival.meta.frame_id)
            self.refuse(arrival, "invalid")
            return None
        time_s = arrival.received_s - self._created_s
        decision = notice.filter.decide(notice.features, time_s)
        frame = None
        if decision.kept:
            self._kept += 1
            frame = self._keep(arrival, notice.content_id, time_s)
        else:
            self._dropped += 1
            self.refuse(arrival, "filtered")
        self._emit_decision(notice, decision, time_s)
        return frame

    def _keep(self, arrival: Arrival, content_id: str, time_s: float) -> Frame:
        frame = Frame(
            arrival.meta,
            content_id=content_id,
            time_s=time_s,
            timeline=FrameTimeline(
                received_s=arrival.received_s,
                captured_ts_ms=arrival.meta.capture_ts_ms,
                decided_s=self._clock.monotonic(),
            ),
        )
        left = self.buffer.append(frame)
        frame.state = PixelState.DECODING
        self._ack(arrival, accepted=True, left=left)
        return frame

    async def decode(self, frame: Frame) -> Decoded:
        """On the pool: all pixels of a kept frame, if it still is one. Never raises."""
        try:
            async with self._decoding, asyncio.timeout(self._limits.decode_s):
                if not frame.wanted:
                    return Decoded(frame)
                return Decoded(frame, await self._pool.run(frame.meta.source.rgb))
        except TimeoutError:
            error = MediaError("decode_timeout", "Frame decode failed: it took too long")
        except MediaError as cause:
            error = MediaError("frame_decode_failed", f"Frame decode failed: {cause.message}")
        except Exception as cause:
            log.exception("a frame's pixels could not be had")
            error = MediaError("frame_decode_failed", f"Frame decode failed: {cause}")
        return Decoded(frame, error=error)

    def on_decoded(self, notice: Decoded) -> None:
        """Give a frame its pixels, or tell the client that it has none."""
        notice.frame.finish_decode(notice.rgb, self._clock.monotonic())
        self.buffer.account()
        if notice.error is not None:
            self._report(notice.error, notice.frame.meta.frame_id)

    def refuse(self, arrival: Arrival, reason: str) -> None:
        """Tell the client that a frame was not taken."""
        self._ack(arrival, accepted=False, reason=reason)

    def refuse_unread(self, frame_id: str, reason: str) -> None:
        """Tell the client that a message was no frame at all."""
        arrival = Arrival(FrameInput(NO_SOURCE, frame_id=frame_id), self._clock.monotonic())
        self.refuse(arrival, reason)

    def _report(self, error: MediaError, frame_id: str | None) -> None:
        error.event_type, error.frame_id = "video.frame", frame_id
        self._emit(ErrorEvent.of(error))

    def _ack(
        self,
        arrival: Arrival,
        *,
        accepted: bool,
        reason: str | None = None,
        left: list[Frame] | None = None,
    ) -> None:
        """Only frames with an id are acknowledged (row 8)."""
        meta = arrival.meta
        if not meta.frame_id or meta.internal:
            return
        dropped = [frame.meta.frame_id for frame in left or [] if frame.meta.frame_id]
        self._emit(
            FrameAck(
                frame_id=meta.frame_id,
                pts_ms=meta.pts_ms,
                capture_ts_ms=meta.capture_ts_ms,
                accepted=accepted,
                buffered_frames=len(self.buffer),
                server_receive_ts_ms=self._clock.epoch_ms(arrival.received_s),
                reason=reason,
                dropped_frame_id=dropped[-1] if dropped else None,
            )
        )

    def _emit_decision(self, notice: Filtered, decision: Decision, time_s: float) -> None:
        if not self._config.frame_events or notice.thumbnail is None:
            return
        self._emit(
            FrameDecision(
                frame_id=notice.arrival.meta.frame_id,
                time_s=round(time_s, 3),
                kept=decision.kept,
                reason=decision.reason,
                score=None if decision.score is None else round(decision.score, 4),
                width=notice.thumbnail.width,
                height=notice.thumbnail.height,
                thumbnail=notice.preview if decision.kept else None,
                kept_total=self._kept,
                dropped_total=self._dropped,
            )
        )
