"""A session's ears: what the microphone brings becomes turns of speech, then their text.

Called only from the session's own task; `recognised` is a child of it.
"""

import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from core.clock import Clock
from core.errors import SightlineError
from core.protocol import (
    ErrorEvent,
    ServerEvent,
    SpeechStartedEvent,
    SpeechStoppedEvent,
    TranscriptCompleted,
    TranscriptPartial,
    TurnDetection,
)
from core.speech.activity import (
    ActivityDetector,
    ActivityEvent,
    ActivitySettings,
    SpeechEnded,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
)
from core.speech.kit import SpeechKit


@dataclass(frozen=True)
class Heard:
    """Notice: a turn of speech and its text; no text where there were no words."""

    item_id: str
    text: str
    audio: bytes
    speech_end_s: float  # monotonic: when the person fell silent
    turn_end_s: float  # monotonic: when that was certain


class Listening:
    """Voice activity and recognition of one session's audio."""

    def __init__(
        self,
        detection: TurnDetection,
        kit: SpeechKit,
        *,
        language: str | None,
        clock: Clock,
        emit: Callable[[ServerEvent], None],
    ) -> None:
        self._clock = clock
        self._emit = emit
        self._item_id = ""
        self._detector = ActivityDetector(
            kit.voice_model(),
            replace(
                ActivitySettings(),
                on_threshold=detection.threshold,
                off_threshold=max(0.0, detection.threshold - 0.15),
                preroll_s=detection.prefix_padding_ms / 1000,
                end_s=detection.silence_duration_ms / 1000,
                pause_s=min(0.2, detection.silence_duration_ms / 1000),
            ),
        )
        self._detector.hands_free(detection.type == "server_vad")
        self._recognition = kit.recognition(self._on_partial, language or "")

    @property
    def short_s(self) -> float:
        """Speech below this may be a backchannel."""
        return self._detector.settings.short_s

    def feed(self, pcm16: bytes, *, playing: bool) -> list[ActivityEvent]:
        """Audio of the microphone; `playing`: our own voice can be heard just now."""
        self._detector.playing(playing)
        return self._seen(self._detector.feed(pcm16))

    def begin(self) -> list[ActivityEvent]:
        """Push-to-talk: the button is down."""
        return self._seen(self._detector.begin())

    def end(self) -> list[ActivityEvent]:
        """Push-to-talk: the button is up."""
        return self._seen(self._detector.end())

    def stopped(self, ended: SpeechEnded, *, backchannel: bool) -> None:
        """Tell the client that a turn of speech is over; a backchannel is not recognised."""
        self._emit(
            SpeechStoppedEvent(
                item_id=self._item_id,
                audio_end_ms=round(ended.end_s * 1000),
                backchannel=backchannel,
            )
        )
        if backchannel and self._recognition is not None:
            self._recognition.cancel()

    def recognised(self, ended: SpeechEnded) -> Coroutine[Any, Any, Heard]:
        """The text of the turn that is just over. Never raises; the client is told of failures."""
        return self._recognise(ended, self._item_id)

    async def _recognise(self, ended: SpeechEnded, item_id: str) -> Heard:
        now_s = self._clock.monotonic()
        text = ""
        if self._recognition is not None:
            try:
                text = await self._recognition.finish(ended.audio)
            except SightlineError as error:
                self._emit(ErrorEvent.of(error))
            self._emit(TranscriptCompleted(item_id=item_id, transcript=text))
        return Heard(
            item_id=item_id,
            text=text,
            audio=ended.audio,
            speech_end_s=now_s - (ended.at_s - ended.end_s),
            turn_end_s=now_s,
        )

    def abandon(self) -> None:
        """Others listen from now on: a turn in mid-speech is dropped, one that has ended is not."""
        if self._detector.speaking:
            end_ms = round(self._detector.now_s * 1000)
            self._emit(
                SpeechStoppedEvent(item_id=self._item_id, audio_end_ms=end_ms, backchannel=False)
            )
            self._emit(TranscriptCompleted(item_id=self._item_id, transcript=""))
        if self._recognition is not None:
            self._recognition.cancel()

    async def close(self) -> None:
        """Nothing more will be heard."""
        if self._recognition is not None:
            await self._recognition.close()

    def _seen(self, events: list[ActivityEvent]) -> list[ActivityEvent]:
        """Tell the client and the recogniser; the session decides on the rest."""
        for event in events:
            if isinstance(event, SpeechStarted):
                self._item_id = f"item-{uuid.uuid4().hex}"
                self._emit(
                    SpeechStartedEvent(
                        item_id=self._item_id, audio_start_ms=round(event.start_s * 1000)
                    )
                )
            elif self._recognition is not None:
                if isinstance(event, SpeechPaused):
                    self._recognition.expect(event.audio)
                elif isinstance(event, SpeechResumed):
                    self._recognition.resume()
        if self._recognition is not None and self._detector.speaking:
            self._recognition.hear(self._detector.audio)
        return events

    def _on_partial(self, text: str) -> None:
        self._emit(TranscriptPartial(item_id=self._item_id, text=text))
