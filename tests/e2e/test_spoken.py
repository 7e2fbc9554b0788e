"""Hands off the keyboard: a spoken question, an interrupting one, and a "mhm" between."""

import base64
import io
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from playwright.sync_api import Playwright

from core.speech.kit import SpeechKit
from core.speech.moonshine import Moonshine
from core.speech.synthesis import OUTPUT_RATE_HZ, speak_clause
from core.speech.voices import load_voice
from tests.e2e.conftest import AnswerView, Stage, chromium, wait_until
from tests.media import film

pytestmark = [pytest.mark.e2e, pytest.mark.voice]

FIRST_S, SECOND_S, MHM_S = 6.0, 11.5, 15.5  # into the film of the microphone
END_S = 24.0
LOUD = 0.02  # RMS of what is heard or said, 0 to 1

# One clock for everything: the microphone's and the speaker's loudness every 10 ms, the
# events of the data channel, and a recording of what is heard.
INSTRUMENTS = """
window.heard = []; window.said = []; window.events = [];
const meter = (stream, into) => {
  const context = new AudioContext();
  const analyser = context.createAnalyser();
  analyser.fftSize = 512;
  context.createMediaStreamSource(stream).connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  setInterval(() => {
    analyser.getFloatTimeDomainData(samples);
    into.push([performance.now(), Math.sqrt(samples.reduce((s, x) => s + x * x, 0) / 512)]);
  }, 10);
};
const getUserMedia = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
navigator.mediaDevices.getUserMedia = async (constraints) => {
  const stream = await getUserMedia(constraints);
  const [microphone] = stream.getAudioTracks();
  if (microphone) meter(new MediaStream([microphone.clone()]), window.said);
  return stream;
};
const createDataChannel = RTCPeerConnection.prototype.createDataChannel;
RTCPeerConnection.prototype.createDataChannel = function (...args) {
  const channel = createDataChannel.apply(this, args);
  channel.addEventListener("message", ({ data }) => {
    const event = JSON.parse(data);
    if (event.type !== "video.frame.decision" && event.type !== "pong") {
      window.events.push([performance.now(), event]);
    }
  });
  this.addEventListener("track", ({ track }) => {
    if (track.kind !== "audio") return;
    const stream = new MediaStream([track]);
    meter(stream, window.heard);
    const recorder = new MediaRecorder(stream, { mimeType: "audio/webm;codecs=opus" });
    window.recording = [];
    recorder.ondataavailable = ({ data }) => window.recording.push(data);
    window.recorder = recorder;
    recorder.start();
  });
  return channel;
};
window.recorded = async () => {
  const stopped = new Promise((resolve) => { window.recorder.onstop = resolve; });
  window.recorder.stop();
  await stopped;
  const bytes = new Uint8Array(await new Blob(window.recording).arrayBuffer());
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
};
"""


def microphone_film(path: Path) -> Path:
    """A WAV with two questions and a "mhm" at their times."""
    voice = load_voice("tenor")
    audio = np.zeros(int(END_S * OUTPUT_RATE_HZ), np.float32)

    def say(words: str, at_s: float) -> None:
        spoken = speak_clause(voice, words, words)
        start = int(at_s * OUTPUT_RATE_HZ)
        audio[start : start + spoken.size] += 2 * spoken

    say("What can you do?", FIRST_S)
    say("What do you see?", SECOND_S)
    mhm = speak_clause(voice, "Mm", "Mm.")[: int(0.35 * OUTPUT_RATE_HZ)]
    start = int(MHM_S * OUTPUT_RATE_HZ)
    audio[start : start + mhm.size] += 2 * mhm
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(OUTPUT_RATE_HZ)
        out.writeframes((np.clip(audio, -1, 1) * 32767).astype("<i2").tobytes())
    return path


class Exchange:
    """What happened, on the page's clock in ms."""

    def __init__(self, stage: Stage) -> None:
        page = stage.page
        self.heard = np.array(page.evaluate("window.heard"))
        self.said = np.array(page.evaluate("window.said"))
        self.events: list[tuple[float, dict[str, Any]]] = page.evaluate("window.events")
        self.recording = base64.b64decode(page.evaluate("window.recorded()"))
        self.turns = [AnswerView(turn) for turn in page.locator(".turn").all()]

    def of(self, kind: str) -> list[tuple[float, dict[str, Any]]]:
        return [(at, event) for at, event in self.events if event["type"].endswith(kind)]

    def speech(self) -> list[tuple[float, float]]:
        """Begin and end of each stretch of the microphone's speech."""
        return stretches(self.said)

    def heard_after(self, at_ms: float) -> float:
        """When the speaker was first loud after `at_ms`."""
        later = self.heard[(self.heard[:, 0] > at_ms) & (self.heard[:, 1] > LOUD)]
        return float(later[0, 0])

    def transcript(self) -> str:
        """What a recogniser makes of what was heard."""
        with av.open(io.BytesIO(self.recording)) as container:
            resampler = av.AudioResampler("s16", "mono", 16_000)
            parts = [p for f in container.decode(audio=0) for p in resampler.resample(f)]
        pcm16 = b"".join(part.to_ndarray().astype("<i2").tobytes() for part in parts)
        return Moonshine().transcribe(pcm16)


def stretches(levels: np.ndarray, gap_ms: float = 450) -> list[tuple[float, float]]:
    """Begin and end of what is loud, joined over gaps."""
    found: list[tuple[float, float]] = []
    for at, level in levels:
        if level <= LOUD:
            continue
        if found and at - found[-1][1] < gap_ms:
            found[-1] = (found[-1][0], at)
        else:
            found.append((at, at))
    return found


@pytest.fixture(scope="module")
def exchange(
    app_url: str, playwright: Playwright, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Exchange]:
    folder = tmp_path_factory.mktemp("spoken")
    camera = film(folder / "camera.mjpeg", [("coffee", 3)])
    microphone = microphone_film(folder / "microphone.wav")
    with chromium(
        playwright,
        f"--use-file-for-fake-video-capture={camera}",
        f"--use-file-for-fake-audio-capture={microphone}%noloop",
    ) as browser:
        context = browser.new_context(viewport={"width": 1360, "height": 860})
        context.add_init_script(INSTRUMENTS)
        stage = Stage(context.new_page(), app_url)
        wait_until(
            lambda: (
                stage.page.request.get(f"{app_url}/readyz").json()["speech"]["voice"]["status"]
                == "ready"
            ),
            60,
            "speech is loaded",
        )
        stage.start()
        turns = stage.page.locator(".turn")
        wait_until(lambda: turns.count() == 2, 40, "two spoken questions")
        AnswerView(turns.nth(1)).wait_for("done", timeout_s=30)
        yield Exchange(stage)


def test_the_question_is_understood_and_answered(exchange: Exchange) -> None:
    first, second = exchange.turns
    assert "what can you do" in first.turn.locator(".question").inner_text().lower()
    assert "what do you see" in second.turn.locator(".question").inner_text().lower()
    assert "coffee" in second.text.lower()
    assert second.status == "done"


def test_the_marks_of_a_spoken_turn(exchange: Exchange) -> None:
    begin, end = exchange.speech()[0]
    started = exchange.of("speech_started")[0][0]
    final = exchange.of("transcription.completed")[0][0]
    text = exchange.of("response.text.delta")[0][0]
    audio = exchange.heard_after(end)
    print(
        f"\nspeech begins → noticed {started - begin:.0f} ms; end of speech → final text "
        f"{final - end:.0f} → first text {text - end:.0f} → first audio {audio - end:.0f} ms"
    )
    assert final - end < 1000
    assert audio - end < 2000


def test_speaking_up_silences_the_answer(exchange: Exchange) -> None:
    begin, _ = exchange.speech()[1]
    loud = exchange.heard[(exchange.heard[:, 0] < begin + 1000) & (exchange.heard[:, 1] > LOUD)]
    silence_ms = float(loud[-1, 0]) - begin
    print(f"\nbarge-in → silence {silence_ms:.0f} ms")
    assert exchange.heard_after(begin - 500) < begin, "it was speaking"
    assert silence_ms < 300
    first = exchange.turns[0]
    assert first.status == "interrupted"
    event = exchange.of("response.interrupted")[0][1]
    assert event["reason"] == "speech"
    assert event["text"].startswith(event["heard_text"])
    assert 0 < len(event["heard_text"]) < len(event["text"])


def test_a_backchannel_does_not_interrupt(exchange: Exchange) -> None:
    stopped = exchange.of("speech_stopped")
    print(f"\nspeech stopped: {[(round(at), e['backchannel']) for at, e in stopped]}")
    assert len(exchange.of("response.interrupted")) == 1
    assert exchange.turns[1].status == "done"
    mhm_begin, mhm_end = exchange.speech()[2]
    assert exchange.heard_after(mhm_begin - 300) < mhm_begin, "it was speaking"
    assert exchange.heard_after(mhm_end + 300) < mhm_end + 1500, "and went on"


def test_what_was_heard_can_be_understood(exchange: Exchange) -> None:
    heard = exchange.transcript().lower()
    answer = exchange.turns[1].text.lower()
    words = [word.strip(".,") for word in answer.split()]
    understood = sum(word in heard for word in words) / len(words)
    print(f"\nanswer {answer!r}\nheard  {heard!r}\nwords understood {understood:.0%}")
    assert understood > 0.8


def test_the_kit_says_what_is_loaded() -> None:
    kit = SpeechKit()
    assert {status.status for status in kit.status.values()} == {"off"}
