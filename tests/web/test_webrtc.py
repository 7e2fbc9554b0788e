"""WebRTC: the running app and aiortc as its client, over real UDP."""

import asyncio
import random
from typing import Any

import httpx
import numpy as np
import pytest

from core.engines.base import AudioPart, EngineInfo
from tests.fakes import ScriptedEngine, images, jpeg, picture, say, texts, tone
from tests.web.clients import Caller, Camera, Microphone, b64, caller, eventually
from tests.web.conftest import App, Serve

pytestmark = pytest.mark.web

SPEAKING = EngineInfo("scripted", "script", "", output_modalities=frozenset({"text", "audio"}))
HEARING = EngineInfo(
    "scripted", "script", "", input_modalities=frozenset({"text", "image", "audio"})
)
LIVES_S = 60.0  # a peer timeout that no test reaches


def gated() -> ScriptedEngine:
    """Says one word, then waits for its gate."""
    return ScriptedEngine(lambda r: say("One", " two"), gate=asyncio.Event())


def show(peer: Caller) -> None:
    """A frame over the data channel, where no camera is needed."""
    peer.send("video.frame", data=b64(jpeg()), frame_id="f")


# --- a call ---------------------------------------------------------------------------


async def test_events_travel_on_the_data_channel(serve: Serve) -> None:
    app = await serve(ScriptedEngine(lambda r: say("A ", "cup.")), peer_timeout_s=LIVES_S)
    async with caller(app.url) as peer:
        created = await peer.connect(num_frames=2, modalities=["text"])
        assert created["config"]["num_frames"] == 2
        assert created["config"]["timestamps"], "on for calls, unless told otherwise"
        peer.send("ping", ts_ms=3)
        assert await peer.until("pong") == {"type": "pong", "ts_ms": 3}
        show(peer)
        assert (await peer.until("video.frame.ack"))["accepted"]
        peer.send("video.query", text="What is this?")
        await peer.until("response.done")
    assert "".join(d["delta"] for d in peer.of("response.text.delta")) == "A cup."
    time_mark, question = texts(app.engine.requests[0])
    assert time_mark.endswith(" s>")
    assert question == "What is this?"


async def test_what_the_camera_saw_is_what_the_engine_is_given(serve: Serve) -> None:
    app = await serve(peer_timeout_s=LIVES_S)
    shown = picture(3, 160, 120)
    async with caller(app.url) as peer:
        camera = Camera(shown)
        await peer.connect(camera)
        decision = await peer.until("video.frame.decision", kept=True)
        assert (decision["width"], decision["height"]) == (160, 120)
        assert decision["thumbnail"]
        camera.rgb = picture(4, 160, 120)
        await peer.until("video.frame.decision", 2, kept=True)
        peer.send("video.query", text="?")
        consumed = await peer.until("video.frames.consumed")
        await peer.until("response.done")
    assert consumed["frame_ids"][0] == decision["frame_id"] == "camera-1"
    times = [entry["pts_ms"] for entry in consumed["frames"]]
    assert times == sorted(times)
    given = images(app.engine.requests[0])
    assert len(given) == len(consumed["frames"]) >= 2
    for image, original in ((given[0], shown), (given[-1], camera.rgb)):
        assert image.rgb.shape == (120, 160, 3)
        assert np.abs(image.rgb.astype(int) - original).mean() < 12
    assert not peer.of("video.frame.ack"), "camera frames are the server's own"


def answered(peer: Caller) -> int:
    """Questions that have ended, well or not."""
    return len(peer.of("response.done") + peer.of("error"))


def heard_s(engine: ScriptedEngine) -> float:
    """Seconds of sound in all audio that the engine was given."""
    parts = [p for r in engine.requests for m in r.messages for p in m.parts]
    pcm = b"".join(p.pcm16 for p in parts if isinstance(p, AudioPart))
    samples = np.frombuffer(pcm, "<i2").astype(float)
    packets = samples[: samples.size // 320 * 320].reshape(-1, 320)
    return 0.02 * np.count_nonzero(np.abs(packets).mean(axis=1) > 500)


async def test_what_the_microphone_heard_goes_with_a_spoken_question(serve: Serve) -> None:
    app = await serve(ScriptedEngine(info=HEARING), peer_timeout_s=LIVES_S)
    async with caller(app.url) as peer:
        microphone = Microphone()
        await peer.connect(microphone)
        show(peer)
        await peer.until("video.frame.ack")
        peer.send("session.update", session={"turn_detection": {"type": "push_to_talk"}})
        peer.send("input_audio_buffer.clear")
        await peer.until("input_audio_buffer.speech_started")
        sent = len(microphone.sent)
        microphone.say(0.6)
        await eventually(lambda: len(microphone.sent) > sent + 50, "it was said")
        peer.send("video.query", text="")
        await eventually(lambda: answered(peer) == 1, "an answer")
    assert 0.5 <= heard_s(app.engine) <= 0.75
    assert not peer.of("error")


async def test_a_spoken_answer_is_heard_and_silent_soon_after_a_cancel(serve: Serve) -> None:
    engine = ScriptedEngine(
        lambda r: [tone(5.0), *say("Beep")], info=SPEAKING, gate=asyncio.Event()
    )
    app = await serve(engine, peer_timeout_s=LIVES_S)
    async with caller(app.url) as peer:
        await peer.connect()
        show(peer)
        await peer.until("video.frame.ack")
        assert peer.loud_s == 0
        peer.send("video.query", text="?")
        await eventually(lambda: peer.loud_s >= 0.5, "it was heard")
        said_s = peer.loud_s
        peer.send("response.cancel")
        await peer.until("response.interrupted")
        packets = len(peer.heard)
        await eventually(lambda: len(peer.heard) >= packets + 40, "0.8 s more of the line")
        after_s = peer.loud_s - said_s
        assert after_s <= 0.3
        assert not any(np.abs(packet).mean() > 500 for packet in peer.heard[-20:])
    assert not peer.of("response.output_audio.delta"), "speech goes to the track"


async def test_the_end_of_a_session_is_told(serve: Serve) -> None:
    app = await serve(peer_timeout_s=LIVES_S)
    async with caller(app.url) as peer:
        await peer.connect()
        peer.send("video.done")
        await peer.until("session.done")


@pytest.mark.parametrize("camera", [True, False])
async def test_a_caller_without_sound_is_answered_too(serve: Serve, camera: bool) -> None:
    app = await serve(peer_timeout_s=LIVES_S)
    async with caller(app.url) as peer:
        if camera:
            peer.pc.addTrack(Camera(picture(1, 160, 120)))
        response = await peer.offer()
        assert response.status_code == 200, response.text


# --- what is wrong with a message -----------------------------------------------------


async def test_nonsense_on_the_data_channel_does_not_end_the_call(serve: Serve) -> None:
    app = await serve(peer_timeout_s=LIVES_S)
    rng = random.Random(7)
    nonsense: list[str | bytes] = [
        b"\x00\xff",
        "",
        "{",
        "[]",
        '{"type": 5}',
        '{"type": "session.config"}',
        '{"type": "video.frame", "data": 5, "frame_id": "x"}',
        '{"type": "video.frame", "data": "AAAA", "frame_id": "y"}',
        '{"type": "session.update", "session": {"no": 1}}',
        "[" * 50_000,
        *(rng.randbytes(rng.randrange(1, 200)) for _ in range(20)),
        *("".join(chr(rng.randrange(32, 0x2FF)) for _ in range(50)) for _ in range(20)),
    ]
    async with caller(app.url) as peer:
        await peer.connect()
        for message in nonsense:
            peer.channel.send(message)
        refused = await peer.until("video.frame.ack", frame_id="x")
        assert (refused["accepted"], refused["reason"]) == (False, "invalid")
        show(peer)
        await peer.until("video.frame.ack", accepted=True)
        peer.send("video.query", text="?")
        await peer.until("response.done")
        codes = {event["code"] for event in peer.of("error")}
    assert codes == {
        "binary_message",
        "invalid_json",
        "invalid_message",
        "already_configured",
        "invalid_base64",
        "invalid_image",
        "invalid_field",
    }


@pytest.mark.parametrize("message", [r'{"type": "\ud800"}', '{"type": "ping", "ts_ms": NaN}'])
async def test_what_cannot_be_echoed_does_not_end_the_call(serve: Serve, message: str) -> None:
    app = await serve(peer_timeout_s=LIVES_S)
    async with caller(app.url) as peer:
        await peer.connect()
        peer.channel.send(message)
        peer.send("ping", ts_ms=1)
        await eventually(lambda: {"type": "pong", "ts_ms": 1} in peer.events, "a pong", 2.0)
        assert peer.of("error")


# --- places and goodbyes --------------------------------------------------------------


async def freed(app: App, timeout_s: float) -> float:
    """Seconds until no peer is left."""
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    peers = app.server.peers
    await eventually(
        lambda: len(peers) == 0 and peers.admission.taken == 0, "the place is free", timeout_s
    )
    return loop.time() - start_s


async def goodbye(app: App, webrtc_id: str) -> None:
    async with httpx.AsyncClient(base_url=app.url) as http:
        assert (await http.post("/webrtc/close", content=webrtc_id)).status_code == 204


async def test_beyond_the_cap_the_next_one_is_told_and_has_a_place_later(serve: Serve) -> None:
    app = await serve(max_peers=1, peer_timeout_s=LIVES_S)
    async with caller(app.url, "first") as first, caller(app.url, "second") as second:
        await first.connect()
        second.pc.addTransceiver("audio", direction="recvonly")
        response = await second.offer()
        assert response.status_code == 503
        body = response.json()
        assert body["error"]["code"] == "server_full"
        assert body["status"] == "failed"
        assert body["meta"] == {"error": "concurrency_limit_reached", "limit": 1}
        await goodbye(app, "first")
        await freed(app, 5)
    async with caller(app.url, "third") as third:
        await third.connect()


async def test_a_silent_peer_is_freed_and_one_that_pings_is_not(serve: Serve) -> None:
    app = await serve(gated(), peer_timeout_s=1.0)
    async with caller(app.url) as peer:
        await peer.connect()
        show(peer)
        peer.send("video.query", text="?")
        await peer.until("response.text.delta")
        for _ in range(6):
            await asyncio.sleep(0.25)
            peer.send("ping")
        assert len(app.server.peers) == 1
        silent_s = await freed(app, 5)
        assert 0.7 <= silent_s < 3
    assert app.engine.aborted == [app.engine.requests[0].request_id]


async def test_a_goodbye_frees_at_once_and_aborts(serve: Serve) -> None:
    app = await serve(gated(), peer_timeout_s=LIVES_S)
    async with caller(app.url, "me") as peer:
        await peer.connect()
        show(peer)
        peer.send("video.query", text="?")
        await peer.until("response.text.delta")
        await goodbye(app, "somebody else")
        assert len(app.server.peers) == 1
        await goodbye(app, "me")
        assert await freed(app, 5) < 2
    assert app.engine.aborted == [app.engine.requests[0].request_id]
    assert len(app.engine.forgotten) == 1


async def test_hanging_up_frees_too(serve: Serve) -> None:
    app = await serve(peer_timeout_s=LIVES_S)
    async with caller(app.url) as peer:
        await peer.connect()
    await freed(app, 5)


async def test_a_second_offer_of_the_same_id_replaces_the_first(serve: Serve) -> None:
    app = await serve(max_peers=1, peer_timeout_s=LIVES_S)
    async with caller(app.url, "me") as first, caller(app.url, "me") as second:
        one = await first.connect()
        two = await second.connect()
        assert one["session_id"] != two["session_id"]
        assert app.engine.forgotten == [one["session_id"]]
        assert len(app.server.peers) == app.server.peers.admission.taken == 1
        second.send("ping")
        await second.until("pong")


async def test_two_callers_do_not_hear_each_other(serve: Serve) -> None:
    app = await serve(
        ScriptedEngine(lambda r: say(f"You asked: {texts(r)[-1]}")), peer_timeout_s=LIVES_S
    )

    async def conversation(name: str) -> Any:
        async with caller(app.url, name) as peer:
            await peer.connect()
            show(peer)
            peer.send("video.query", text=name)
            return (await peer.until("response.text.done"))["text"]

    answers = await asyncio.gather(conversation("anna"), conversation("ben"))
    assert answers == ["You asked: anna", "You asked: ben"]


async def test_stopping_the_server_hangs_up(serve: Serve) -> None:
    app = await serve(gated(), peer_timeout_s=LIVES_S)
    async with caller(app.url) as peer:
        await peer.connect()
        show(peer)
        peer.send("video.query", text="?")
        await peer.until("response.text.delta")
        app.stop()
        await freed(app, 5)
    assert app.engine.aborted == [app.engine.requests[0].request_id]
