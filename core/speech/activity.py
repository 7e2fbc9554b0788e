"""Who speaks when: voice activity in a stream of PCM, as turns with their audio.

Pure logic: it is fed audio and told what happens around it; the times of its events are
seconds of the stream, counted in samples fed.
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from core.speech.pcm import BYTES_PER_SAMPLE, INPUT_RATE_HZ

WINDOW_SAMPLES = 512  # what a voice model looks at: 32 ms
WINDOW_S = WINDOW_SAMPLES / INPUT_RATE_HZ
_WINDOW_BYTES = WINDOW_SAMPLES * BYTES_PER_SAMPLE
_BYTES_PER_S = INPUT_RATE_HZ * BYTES_PER_SAMPLE
_SILENCE_DBFS = -120.0  # what digital silence counts as


class VoiceModel(Protocol):
    """Tells voice from other sounds. It has a state: one for each stream."""

    def probability(self, window: NDArray[np.float32]) -> float:
        """How likely the next WINDOW_SAMPLES samples, in [-1, 1], hold speech: 0 to 1."""

    def reset(self) -> None:
        """Forget the stream so far."""


@dataclass(frozen=True)
class ActivitySettings:
    """When sound is speech, and when speech is a turn. Times are rounded to windows."""

    on_threshold: float = 0.5  # a probability: voice begins at it
    off_threshold: float = 0.35  # a probability: voice goes on down to it
    preroll_s: float = 0.3  # audio kept from before the first voice
    min_speech_s: float = 0.2  # less voice than this starts no turn: coughs, clicks, typing
    gap_s: float = 0.1  # silence inside that first voice; more, and it is forgotten
    pause_s: float = 0.2  # silence after which the turn has likely ended
    end_s: float = 0.5  # silence after which it has
    resume_s: float = 0.064  # voice in a silence that ends it; less is a click
    longest_turn_s: float = 30.0
    short_s: float = 0.5  # shorter speech may be a backchannel ("mhm")
    # While our own voice plays, what the microphone hears may be its echo.
    playing_on_threshold: float = 0.7
    playing_min_level_dbfs: float = -45.0
    playing_min_speech_s: float = 0.2
    playing_hush_s: float = 0.064  # voice after which our own falls silent, to see
    playing_onset_s: float = 0.8  # until the browser's echo canceller has adapted:
    playing_onset_min_speech_s: float = 0.4
    playing_tail_s: float = 0.25  # how long an echo outlives the playback

    def __post_init__(self) -> None:
        if not 0.0 <= self.off_threshold <= self.on_threshold <= 1.0:
            raise ValueError("activity: 0 <= off_threshold <= on_threshold <= 1 is required")
        if not 0.0 < self.pause_s <= self.end_s:
            raise ValueError("activity: 0 < pause_s <= end_s is required")


@dataclass(frozen=True)
class VoiceHeard:
    """While our own voice plays: perhaps somebody begins to speak. Hush."""

    at_s: float


@dataclass(frozen=True)
class VoiceLost:
    """What `VoiceHeard` told of was no speech."""

    at_s: float


@dataclass(frozen=True)
class SpeechStarted:
    """A turn begins; what was spoken so far reaches from `start_s` to `at_s`."""

    at_s: float  # when this was known
    start_s: float  # when the voice began
    forced: bool = False  # push-to-talk


@dataclass(frozen=True)
class SpeechConfirmed:
    """The speech of this turn is now longer than a backchannel; once a turn at most."""

    at_s: float
    start_s: float


@dataclass(frozen=True)
class SpeechPaused:
    """The turn has likely ended. `audio` is its whole audio, if it has."""

    at_s: float
    start_s: float
    end_s: float  # when the voice ended
    audio: bytes  # int16 mono 16 kHz, from the pre-roll on

    @property
    def speech_s(self) -> float:
        """From the first voice to the last."""
        return self.end_s - self.start_s


@dataclass(frozen=True)
class SpeechResumed:
    """The turn had not ended: what was recognised early is not the whole."""

    at_s: float


@dataclass(frozen=True)
class SpeechEnded:
    """The turn is over. Its audio is that of the last `SpeechPaused`, unless it was cut."""

    at_s: float
    start_s: float
    end_s: float  # when the voice ended
    audio: bytes  # int16 mono 16 kHz, from the pre-roll on
    forced: bool = False  # push-to-talk
    cut: bool = False  # the longest turn was reached, or the caller ended it

    @property
    def speech_s(self) -> float:
        """From the first voice to the last."""
        return self.end_s - self.start_s


ActivityEvent = (
    VoiceHeard
    | VoiceLost
    | SpeechStarted
    | SpeechConfirmed
    | SpeechPaused
    | SpeechResumed
    | SpeechEnded
)


class _State(Enum):
    SILENT = "silent"
    MAYBE = "maybe"  # voice, but not yet enough to be speech
    SPEAKING = "speaking"
    PAUSED = "paused"
    FORCED = "forced"


class ActivityDetector:
    """Turns of one stream. Without a model there are only the turns that are forced."""

    def __init__(self, model: VoiceModel | None, settings: ActivitySettings | None = None) -> None:
        self.settings = settings or ActivitySettings()
        self._model = model
        self._hands_free = True
        self._fed_bytes = 0
        self._pending = bytearray()  # less than a window, not yet looked at
        self._playing_since_s: float | None = None
        self._played_until_s = -math.inf
        self._audio = bytearray()  # the turn's, or the pre-roll of the next
        self._paused_bytes = 0  # what of it there was when the turn paused
        self._state = _State.SILENT
        self._forget_turn()

    @property
    def now_s(self) -> float:
        """Seconds of the stream fed so far."""
        return self._fed_bytes / _BYTES_PER_S

    @property
    def speaking(self) -> bool:
        """Whether a turn is going on."""
        return self._state not in (_State.SILENT, _State.MAYBE)

    @property
    def audio(self) -> bytes:
        """The audio of the turn that is going on, from its pre-roll to now; else nothing."""
        return bytes(self._audio) if self.speaking else b""

    def feed(self, pcm16: bytes) -> list[ActivityEvent]:
        """Take the next audio, in blocks of any size; what is now known, in order."""
        events: list[ActivityEvent] = []
        self._pending += pcm16
        self._fed_bytes += len(pcm16)
        whole = len(self._pending) // _WINDOW_BYTES * _WINDOW_BYTES
        for start in range(0, whole, _WINDOW_BYTES):
            at_s = (self._fed_bytes - len(self._pending) + start + _WINDOW_BYTES) / _BYTES_PER_S
            self._window(bytes(self._pending[start : start + _WINDOW_BYTES]), at_s, events)
        del self._pending[:whole]
        return events

    def playing(self, on: bool) -> None:
        """Our own voice begins or ends to play, now: meanwhile speech must be stronger."""
        if on and self._playing_since_s is None:
            self._playing_since_s = self.now_s
        elif not on and self._playing_since_s is not None:
            self._playing_since_s = None
            self._played_until_s = self.now_s

    def hands_free(self, on: bool) -> None:
        """Whether voice starts turns, or only `begin` does. A turn going on is unharmed."""
        if on and not self._hands_free and self._model is not None:
            self._model.reset()  # it has not heard what came in between
        self._hands_free = on
        if not on and self._state is _State.MAYBE:
            self._forget_turn()

    def begin(self) -> list[ActivityEvent]:
        """A turn starts now and lasts until `end`, whatever is heard (push-to-talk)."""
        if self._state is _State.FORCED:
            return []
        started = self.speaking
        self._state = _State.FORCED
        if started:
            return []
        self._start_s = self.now_s
        return [SpeechStarted(self.now_s, self._start_s, forced=True)]

    def end(self) -> list[ActivityEvent]:
        """The turn going on, if any, ends now: the button or the microphone is let go."""
        if not self.speaking:
            self._forget_turn()
            return []
        odd = len(self._pending) % BYTES_PER_SAMPLE
        self._audio += self._pending[: len(self._pending) - odd]
        del self._pending[: len(self._pending) - odd]
        events: list[ActivityEvent] = []
        self._finish(self.now_s, events, cut=self._state is not _State.FORCED)
        return events

    def reset(self) -> None:
        """Forget the turn and what was heard, without a word; time goes on."""
        self._pending.clear()
        self._audio.clear()
        self._forget_turn()
        if self._model is not None:
            self._model.reset()

    def _forget_turn(self) -> None:
        self._state = _State.SILENT
        self._voiced = False
        self._start_s = self._end_s = 0.0
        self._voice_s = 0.0  # voice heard while it may be speech
        self._silence_s = 0.0  # since the last voice
        self._resuming_s = 0.0  # voice inside that silence
        self._confirmed = False
        self._hushed = False

    def _window(self, window: bytes, at_s: float, events: list[ActivityEvent]) -> None:
        self._audio += window
        if self._state is _State.FORCED:
            self._check_length(at_s, events)
            return
        voiced = self._is_voiced(window, at_s) if self._listens else False
        if self.speaking:
            self._in_turn(voiced, at_s, events)
        else:
            self._between_turns(voiced, at_s, events)

    @property
    def _listens(self) -> bool:
        return self._model is not None and (self._hands_free or self.speaking)

    def _is_voiced(self, window: bytes, at_s: float) -> bool:
        assert self._model is not None
        samples = np.frombuffer(window, "<i2").astype(np.float32) / 32768.0
        probability = self._model.probability(samples)
        if self._voiced:
            self._voiced = probability >= self.settings.off_threshold
        elif self._echo_is_possible(at_s):
            self._voiced = (
                probability >= max(self.settings.playing_on_threshold, self.settings.on_threshold)
                and level_dbfs(samples) >= self.settings.playing_min_level_dbfs
            )
        else:
            self._voiced = probability >= self.settings.on_threshold
        return self._voiced

    def _echo_is_possible(self, at_s: float) -> bool:
        if self._playing_since_s is not None:
            return True
        return at_s - self._played_until_s < self.settings.playing_tail_s

    def _needed_s(self, at_s: float) -> float:
        """How much voice is speech, just now."""
        needed_s = self.settings.min_speech_s
        if self._echo_is_possible(at_s):
            needed_s = max(needed_s, self.settings.playing_min_speech_s)
        since_s = self._playing_since_s
        if since_s is not None and self._start_s - since_s < self.settings.playing_onset_s:
            needed_s = max(needed_s, self.settings.playing_onset_min_speech_s)
        return needed_s

    def _between_turns(self, voiced: bool, at_s: float, events: list[ActivityEvent]) -> None:
        if self._state is _State.SILENT:
            if not voiced:
                self._trim_to_preroll(0)
                return
            self._state = _State.MAYBE
            self._start_s = at_s - WINDOW_S
            self._trim_to_preroll(_WINDOW_BYTES)
        if not voiced:
            self._silence_s += WINDOW_S
            if _reached(self._silence_s, self.settings.gap_s):
                if self._hushed:
                    events.append(VoiceLost(at_s))
                self._forget_turn()
                self._trim_to_preroll(0)
            return
        self._voice_s += WINDOW_S
        self._silence_s = 0.0
        needed_s = self._needed_s(at_s)
        if not _reached(self._voice_s, needed_s):
            self._check_hush(needed_s, at_s, events)
            return
        self._state = _State.SPEAKING
        self._end_s = at_s
        events.append(SpeechStarted(at_s, self._start_s))
        self._check_confirmed(at_s, events)
        self._check_length(at_s, events)

    def _in_turn(self, voiced: bool, at_s: float, events: list[ActivityEvent]) -> None:
        self._resuming_s = self._resuming_s + WINDOW_S if voiced else 0.0
        if voiced and (not self._silence_s or _reached(self._resuming_s, self.settings.resume_s)):
            self._silence_s = 0.0
            self._end_s = at_s
            if self._state is _State.PAUSED:
                self._state = _State.SPEAKING
                events.append(SpeechResumed(at_s))
            self._check_confirmed(at_s, events)
        else:
            self._silence_s += WINDOW_S
            if self._state is _State.SPEAKING and _reached(self._silence_s, self.settings.pause_s):
                self._state = _State.PAUSED
                self._paused_bytes = len(self._audio)
                events.append(SpeechPaused(at_s, self._start_s, self._end_s, bytes(self._audio)))
            if _reached(self._silence_s, self.settings.end_s):
                self._finish(at_s, events, cut=False)
                return
        self._check_length(at_s, events)

    def _check_hush(self, needed_s: float, at_s: float, events: list[ActivityEvent]) -> None:
        """Not in the first moments of playback: then it is most likely our own echo."""
        onset = needed_s > self.settings.playing_min_speech_s
        playing = self._playing_since_s is not None and not onset
        if playing and not self._hushed and _reached(self._voice_s, self.settings.playing_hush_s):
            self._hushed = True
            events.append(VoiceHeard(at_s))

    def _check_confirmed(self, at_s: float, events: list[ActivityEvent]) -> None:
        if not self._confirmed and _reached(self._end_s - self._start_s, self.settings.short_s):
            self._confirmed = True
            events.append(SpeechConfirmed(at_s, self._start_s))

    def _check_length(self, at_s: float, events: list[ActivityEvent]) -> None:
        if _reached(at_s - self._start_s, self.settings.longest_turn_s):
            self._finish(at_s, events, cut=True)

    def _finish(self, at_s: float, events: list[ActivityEvent], *, cut: bool) -> None:
        forced = self._state is _State.FORCED
        if self._state is _State.PAUSED:
            # As it was when it paused: what was recognised then is the turn's text.
            audio, rest = self._audio[: self._paused_bytes], self._audio[self._paused_bytes :]
        else:
            audio, rest = self._audio, bytearray()
        end_s = at_s if forced else self._end_s
        events.append(SpeechEnded(at_s, self._start_s, end_s, bytes(audio), forced, cut))
        self._forget_turn()
        self._audio = rest  # no audio is in two turns
        self._trim_to_preroll(0)

    def _trim_to_preroll(self, after_bytes: int) -> None:
        """Keep the pre-roll before the last `after_bytes`."""
        preroll_bytes = round(self.settings.preroll_s * INPUT_RATE_HZ) * BYTES_PER_SAMPLE
        surplus = len(self._audio) - after_bytes - preroll_bytes
        if surplus > 0:
            del self._audio[:surplus]


def level_dbfs(samples: NDArray[np.float32]) -> float:
    """RMS level of samples in [-1, 1], in dB of a full-scale square wave."""
    power = float(np.mean(np.square(samples, dtype=np.float64))) if len(samples) else 0.0
    return max(_SILENCE_DBFS, 10.0 * math.log10(power)) if power > 0.0 else _SILENCE_DBFS


def _reached(measured_s: float, limit_s: float) -> bool:
    """Whether a sum of windows has come to the limit, rounded to whole windows."""
    return round(measured_s / WINDOW_S) >= max(1, round(limit_s / WINDOW_S))
