"""Speaking with the server over the WebSocket: real voice activity, recognition, voice."""

import asyncio
import base64
import io
import time
import wave

import numpy as np
import pytest

from core.speech.moonshine import Moonshine
from core.speech.pcm import INPUT_RATE_HZ, pcm16_from_float
from core.speech.synthesis import OUTPUT_RATE_HZ, resampled, speak_clause
from core.speech.voices import VOICES, load_voice
from tests.fakes import ScriptedEngine, say
from tests.web.clients import ChatClient, b64, chat, eventually
from tests.web.conftest import App, Serve

pytestmark = [pytest.mark.web, pytest.mark.voice]

CHUNK_S = 0.1
SPEECH = {"vad": "silero", "asr": "moonshine", "tts": "default"}


@pytest.fixture(scope="module")
def question() -> bytes:
    """Somebody asks what the server sees: int16 mono 16 kHz, with silence around it."""
    audio = speak_clause(load_voice("tenor"), "What do you see?", "What do you see?")
    spoken = resampled(2 * audio, OUTPUT_RATE_HZ, INPUT_RATE_HZ)
    silence = np.zeros(INPUT_RATE_HZ, np.float32)
    return pcm16_from_float(np.concatenate([silence, spoken, silence]))


@pytest.fixture
async def app(serve: Serve) -> App:
    app = await serve(ScriptedEngine(lambda r: say("It is a cup ", "of coffee.")), **SPEECH)
    kit = app.server.kit
    await eventually(lambda: len(kit.parts.voices) == len(VOICES), "speech", timeout_s=60)
    assert {status.status for status in kit.status.values()} == {"ready"}
    return app


async def speak(client: ChatClient, pcm16: bytes) -> None:
    size = int(CHUNK_S * INPUT_RATE_HZ) * 2
    for start in range(0, len(pcm16), size):
        await client.send("audio.chunk", data=b64(pcm16[start : start + size]))


async def test_a_spoken_question_is_answered_aloud(app: App, question: bytes) -> None:
    async with chat(app.socket_url, turn_detection={"type": "server_vad"}) as client:
        await client.frame()
        await speak(client, question)
        done = await client.until("response.done")
    transcript = client.of("conversation.item.input_audio_transcription.completed")[0]
    assert transcript["transcript"].lower().startswith("what do you see")
    assert client.of("response.start")[0]["question"] == transcript["transcript"]
    assert client.of("response.text.done")[0]["text"] == "It is a cup of coffee."
    pcm16 = b""
    for event in client.of("response.output_audio.delta"):
        with wave.open(io.BytesIO(base64.b64decode(event["data"]))) as audio:
            assert (audio.getframerate(), audio.getnchannels(), audio.getsampwidth()) == (
                24_000,
                1,
                2,
            )
            pcm16 += audio.readframes(audio.getnframes())
    spoken = np.frombuffer(pcm16, "<i2").astype(np.float32) / 32768
    heard = Moonshine().transcribe(pcm16_from_float(resampled(spoken, 24_000, INPUT_RATE_HZ)))
    print(f"\nsaid {transcript['transcript']!r}, heard {heard!r}, {done['timing']['marks_ms']}")
    assert "cup of coffee" in heard.lower()
    assert client.types().index("response.text.done") < client.types().index(
        "response.output_audio.done"
    )


async def test_audio_alone_starts_nothing_unless_asked_to(app: App, question: bytes) -> None:
    async with chat(app.socket_url) as client:
        await client.frame()
        await speak(client, question)
        await client.send("ping")
        await client.until("pong")
        assert "response.start" not in client.types()
        await client.send("video.query", text="")  # the buffered audio is the question
        await client.until("response.text.done")
    assert client.of("conversation.item.input_audio_transcription.completed")[0][
        "transcript"
    ].startswith("What do you see")


async def core_share(app: App, **config: object) -> float:
    """Cores that a session takes that is sent a quiet room's sound in real time for 4 s."""
    rng = np.random.default_rng(0)
    quiet = rng.normal(0, 0.003, (40, int(CHUNK_S * INPUT_RATE_HZ))).astype(np.float32)
    async with chat(app.socket_url, **config) as client:
        before = time.process_time()
        began_s = time.monotonic()
        for index, chunk in enumerate(quiet):
            await asyncio.sleep(max(0.0, began_s + index * CHUNK_S - time.monotonic()))
            await client.send("audio.chunk", data=b64(pcm16_from_float(chunk)))
        await client.send("ping")
        await client.until("pong")
        share = (time.process_time() - before) / (time.monotonic() - began_s)
    assert "input_audio_buffer.speech_started" not in client.types()
    return share


async def test_listening_costs_little(app: App) -> None:
    """Beside a session that is sent the same sound and does not listen.

    The least of three each, in turn: what else the machine does only ever adds.
    """
    pairs = [
        (await core_share(app), await core_share(app, turn_detection={"type": "server_vad"}))
        for _ in range(3)
    ]
    deaf, listening = (min(shares) for shares in zip(*pairs, strict=True))
    print(f"\nlistening {listening:.3f}, not listening {deaf:.3f} core, client included")
    assert listening - deaf < 0.05
