"""Client events to session calls: the same for the WebSocket and the data channel."""

from core.errors import ProtocolError
from core.frames import EncodedImage, FrameInput
from core.limits import SessionLimits
from core.protocol import (
    AudioBufferClear,
    AudioBufferCommit,
    AudioChunk,
    ClientMessage,
    Ping,
    PlaybackReport,
    Pong,
    ResponseCancel,
    SessionConfig,
    SessionUpdate,
    VideoDone,
    VideoFrame,
    VideoQuery,
)
from core.session import Emit, Session


def dispatch(session: Session, event: ClientMessage, emit: Emit, limits: SessionLimits) -> bool:
    """Make the session call that `event` stands for; False if it asks to end the session.

    Raises `ProtocolError` for an event that has no place in a running session.
    """
    match event:
        case VideoFrame():
            session.frame(
                FrameInput(
                    EncodedImage(event.data, max_pixels=limits.frame_pixels),
                    frame_id=event.frame_id,
                    pts_ms=event.pts_ms,
                    source_pts_ms=event.source_pts_ms,
                    capture_ts_ms=event.capture_ts_ms,
                    quality_profile=event.quality_profile,
                )
            )
        case AudioChunk():
            session.audio(event.data)
        case VideoQuery():
            session.ask(event.text, event.audio_data)
        case AudioBufferClear():
            session.begin_speech()
        case AudioBufferCommit():
            session.end_speech()
        case PlaybackReport():
            session.report_playback(event.delay_ms / 1000)
        case ResponseCancel():
            session.interrupt()
        case SessionUpdate():
            session.update(event.session)
        case Ping():
            emit(Pong(ts_ms=event.ts_ms))
        case VideoDone():
            return False
        case SessionConfig():
            raise ProtocolError(
                "already_configured",
                "session.config comes once, first; use session.update",
                event_type="session.config",
            )
    return True
