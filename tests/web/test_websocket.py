"""`/v1/video/chat/stream` over a real socket."""

import asyncio
import base64
import io
import wave
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from core.engines.base import EngineHealth, EngineInfo
from core.protocol import MAX_FRAME_BASE64_BYTES, Pong
from tests.fakes import NOT_AN_IMAGE, ScriptedEngine, jpeg, say, texts, tone
from tests.web.clients import b64, chat, eventually
from tests.web.conftest import App, Serve

pytestmark = pytest.mark.web

SPEAKING = EngineInfo("scripted", "script", "", output_modalities=frozenset({"text", "audio"}))
HEARING = EngineInfo(
    "scripted", "script", "", input_modalities=frozenset({"text", "image", "audio"})
)


def gated() -> ScriptedEngine:
    """Says one word, then waits for its gate."""
    return ScriptedEngine(lambda r: say("One", " two"), gate=asyncio.Event())


# --- a conversation -------------------------------------------------------------------


async def test_a_whole_conversation(serve: Serve) -> None:
    app = await serve(ScriptedEngine(lambda r: say("A ", "cup.")))
    async with chat(app.socket_url, model="any", num_sample_frames=2) as client:
        created = client.events[0]
        assert created["engine"]["name"] == "scripted"
        assert created["config"]["num_frames"] == 2
        for index in range(3):
            await client.frame(str(index), jpeg(index), pts_ms=index * 100, capture_ts_ms=index)
        acks = [await client.until("video.frame.ack") for _ in range(3)]
        await client.send("video.query", text="What is this?")
        await client.until("response.done")
        await client.send("video.done")
        assert await client.until_closed() == 1000
    for index, ack in enumerate(acks):
        assert ack["frame_id"] == str(index)
        assert ack["accepted"]
        assert ack["buffered_frames"] == index + 1
        assert (ack["pts_ms"], ack["capture_ts_ms"]) == (index * 100, index)
        assert ack["server_receive_ts_ms"] > 0
    assert client.types()[4:] == [
        "response.start",
        "video.frames.consumed",
        "response.text.delta",
        "response.text.delta",
        "response.text.done",
        "response.done",
        "video.filter.stats",
        "session.done",
    ]
    [consumed] = client.of("video.frames.consumed")
    assert consumed["frame_ids"] == ["0", "2"]
    assert consumed["latest_pts_ms"] == 200
    assert "".join(d["delta"] for d in client.of("response.text.delta")) == "A cup."
    [start] = client.of("response.start")
    assert {e.get("request_id", start["request_id"]) for e in client.events} == {
        start["request_id"]
    }


async def test_native_speech_arrives_as_wav(serve: Serve) -> None:
    app = await serve(ScriptedEngine(lambda r: [tone(0.1), *say("Beep")], info=SPEAKING))
    async with chat(app.socket_url) as client:
        await client.frame()
        await client.send("video.query", text="?")
        delta = await client.until("response.output_audio.delta")
        await client.until("response.output_audio.done")
    assert delta["format"] == "wav"
    with wave.open(io.BytesIO(base64.b64decode(delta["data"]))) as wav:
        assert (wav.getframerate(), wav.getnframes()) == (24_000, 2400)


async def test_older_clients_get_the_older_audio_names(serve: Serve) -> None:
    app = await serve(ScriptedEngine(lambda r: [tone(0.1)], info=SPEAKING))
    async with chat(app.socket_url, legacy_audio_events=True) as client:
        await client.frame()
        await client.send("video.query", text="?")
        await client.until("response.audio.delta")
        await client.until("response.audio.done")
    assert not any("output_audio" in kind for kind in client.types())


async def test_a_question_by_voice_alone(serve: Serve) -> None:
    app = await serve(ScriptedEngine(info=HEARING))
    async with chat(app.socket_url) as client:
        await client.send("audio.chunk", data=b64(b"\1\0" * 100))
        await client.send("video.query", text="", audio_data=b64(b"\2\0" * 50))
        await client.until("response.done")
    [request] = app.engine.requests
    [part] = request.messages[-1].parts
    assert part.pcm16 == b"\1\0" * 100 + b"\2\0" * 50  # type: ignore[union-attr]


async def test_ping_is_answered_with_its_time(app: App) -> None:
    async with chat(app.socket_url) as client:
        await client.send("ping")
        assert await client.until("pong") == {"type": "pong"}
        await client.send("ping", ts_ms=12.5)
        assert await client.until("pong") == {"type": "pong", "ts_ms": 12.5}


async def test_a_filtered_frame_gets_an_ack_with_the_reason(app: App) -> None:
    async with chat(app.socket_url, enable_frame_filter=True) as client:
        for frame_id in ("first", "same"):
            await client.frame(frame_id)
        await client.until("video.frame.ack")
        ack = await client.until("video.frame.ack")
    assert (ack["frame_id"], ack["accepted"], ack["reason"]) == ("same", False, "filtered")


async def test_the_config_can_be_changed_on_the_way(app: App) -> None:
    async with chat(app.socket_url) as client:
        await client.send("session.update", session={"system_prompt": "Be brief."})
        updated = await client.until("session.updated")
        assert updated["config"]["system_prompt"] == "Be brief."
        await client.send("session.update", session={"num_frames": 0})
        assert (await client.until("error"))["code"] == "invalid_field"


# --- what is wrong with a message -----------------------------------------------------


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"\x00\x01", "binary_message"),
        ("{nope", "invalid_json"),
        ("[]", "invalid_message"),
        ('{"type": "_ask"}', "unknown_type"),
        ('{"type": "video.frame", "data": 5}', "invalid_base64"),
        ('{"type": "audio.chunk", "data": "AAAA"}', "invalid_audio"),
        ('{"type": "audio.chunk", "data": "%"}', "invalid_base64"),
        ('{"type": "video.query", "text": "?", "audio_data": "%"}', "invalid_base64"),
        ('{"type": "session.config"}', "already_configured"),
    ],
)
async def test_a_wrong_message_is_answered_and_the_session_lives(
    app: App, message: str | bytes, code: str
) -> None:
    async with chat(app.socket_url) as client:
        await client.socket.send(message)
        assert (await client.until("error"))["code"] == code
        await client.frame()
        await client.send("video.query", text="?")
        await client.until("response.done")
    assert len(client.of("error")) == 1


async def test_f7_a_frame_that_is_no_base64_gets_an_error_and_an_ack(app: App) -> None:
    async with chat(app.socket_url) as client:
        await client.send("video.frame", data="%%%", frame_id="bad")
        error = await client.until("error")
        ack = await client.until("video.frame.ack")
    assert (error["code"], error["event_type"], error["frame_id"]) == (
        "invalid_base64",
        "video.frame",
        "bad",
    )
    assert (ack["frame_id"], ack["accepted"], ack["reason"]) == ("bad", False, "invalid")
    assert ack["buffered_frames"] == 0


async def test_an_oversized_frame_gets_an_error_and_an_ack(app: App) -> None:
    async with chat(app.socket_url) as client:
        await client.send("video.frame", data="A" * (MAX_FRAME_BASE64_BYTES + 4), frame_id="big")
        assert (await client.until("error"))["code"] == "frame_too_large"
        ack = await client.until("video.frame.ack")
        assert (ack["frame_id"], ack["accepted"], ack["reason"]) == ("big", False, "too_large")


async def test_a_message_beyond_every_limit_closes_the_connection(serve: Serve) -> None:
    app = await serve(max_message_bytes=100_000)
    async with chat(app.socket_url) as client:
        await client.socket.send("x" * 200_000)
        assert await client.until_closed() == 1009
    await eventually(lambda: app.server.sockets.taken == 0, "the place is free")


async def test_row_21_an_undecodable_frame_and_then_nothing_to_see(app: App) -> None:
    async with chat(app.socket_url) as client:
        await client.frame("x", NOT_AN_IMAGE)
        error = await client.until("error")
        assert error["message"].startswith("Frame decode failed")
        assert error["frame_id"] == "x"
        await client.send("video.query", text="?")
        error = await client.until("error")
        assert error["code"] == "no_frames"
        assert error["message"].startswith("No frames buffered")
        assert error["request_id"] == client.of("response.start")[0]["request_id"]


async def test_no_frames_yet(app: App) -> None:
    async with chat(app.socket_url) as client:
        await client.send("video.query", text="?")
        assert (await client.until("error"))["code"] == "no_frames"
        await client.frame()
        await client.send("video.query", text="?")
        await client.until("response.done")


async def test_row_7_wrong_sampling_and_session_done_is_still_last(app: App) -> None:
    async with chat(app.socket_url, sampling_params_list=[{"max_tokens": 0}]) as client:
        await client.frame()
        await client.send("video.query", text="?")
        while not (await client.until("error")).get("request_id"):
            pass
        await client.send("video.done")
        await client.until_closed()
    assert client.types()[-1] == "session.done"
    assert app.engine.requests == []


@pytest.mark.parametrize(
    "message",
    [
        r'{"type": "\ud800"}',
        r'{"type": "video.frame", "data": "", "frame_id": "\ud800"}',
        '{"type": "ping", "ts_ms": NaN}',
        '{"type": "ping", "ts_ms": 1e999}',
    ],
)
async def test_what_cannot_be_echoed_does_not_end_the_session(app: App, message: str) -> None:
    async with chat(app.socket_url) as client:
        await client.socket.send(message)
        await client.send("ping", ts_ms=1)
        await client.until("pong", ts_ms=1)


async def test_a_client_whose_events_cannot_be_written_gives_its_place_back(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwritable(event: Pong) -> str:
        raise ValueError("this event has no wire form")

    monkeypatch.setattr(Pong, "wire", unwritable)
    app = await serve(max_sockets=1)
    async with chat(app.socket_url) as client:
        await client.send("ping")
        await client.until_closed()
    await eventually(lambda: app.server.sockets.taken == 0, "the place is free", 1.0)


FUZZ = st.one_of(
    st.binary(max_size=64),
    st.text(max_size=64).filter(lambda text: text.isprintable()),
    st.sampled_from(['{"type":"video.frame","data":"","frame_id":"q"}', '{"type":[]}', "{}", "0"]),
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(messages=st.lists(FUZZ, max_size=20))
async def test_no_nonsense_ends_a_session(app: App, messages: list[str | bytes]) -> None:
    async with chat(app.socket_url) as client:
        for message in messages:
            await client.socket.send(message)
        await client.send("ping")
        await client.until("pong")


# --- before and around the session ----------------------------------------------------


async def test_a_config_out_of_range_then_a_good_one(app: App) -> None:
    async with chat(app.socket_url, configure=False) as client:
        await client.send("session.config", num_frames=129)
        error = await client.until("error")
        assert error["code"] == "invalid_field"
        assert "num_frames" in error["message"]
        await client.configure(num_frames=128)


async def test_nothing_works_before_the_config(app: App) -> None:
    async with chat(app.socket_url, configure=False) as client:
        for kind in ("video.query", "ping", "video.done"):
            await client.send(kind)
            error = await client.until("error")
            assert (error["code"], error["event_type"]) == ("not_configured", kind)
        await client.configure()


async def test_a_client_that_sends_no_config_is_told_and_let_go(serve: Serve) -> None:
    app = await serve(config_timeout_s=0.2)
    async with chat(app.socket_url, configure=False) as client:
        assert (await client.until("error"))["code"] == "config_timeout"
        assert await client.until_closed() == 1008
    await eventually(lambda: app.server.sockets.taken == 0, "the place is free")


async def test_an_idle_client_is_let_go(serve: Serve) -> None:
    app = await serve(idle_timeout_s=0.3)
    async with chat(app.socket_url) as client:
        assert await client.until_closed() == 1008
        assert "idle" in str(client.socket.close_reason)
    await eventually(lambda: app.server.sockets.taken == 0, "the place is free")
    assert len(app.engine.forgotten) == 1


async def test_f13_a_client_that_is_being_answered_is_not_idle(serve: Serve) -> None:
    engine = gated()
    app = await serve(engine, idle_timeout_s=0.3)
    async with chat(app.socket_url) as client:
        await client.frame()
        await client.send("video.query", text="?")
        await client.until("response.text.delta")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):  # the idle limit is looked at every second
                await client.socket.recv()
        engine.gate.set()  # type: ignore[union-attr]
        await client.until("response.done")
        assert await client.until_closed() == 1008


@pytest.mark.parametrize(
    ("status", "code"), [("loading", "engine_loading"), ("failed", "engine_failed")]
)
async def test_a_question_before_the_engine_is_ready(serve: Serve, status: Any, code: str) -> None:
    engine = ScriptedEngine(status=EngineHealth(status, "weights 2 of 4"))
    app = await serve(engine)
    async with chat(app.socket_url) as client:
        await client.frame()
        await client.send("video.query", text="?")
        error = await client.until("error")
        assert error["code"] == code
        assert "weights 2 of 4" in error["message"]
        engine.status = EngineHealth("ready")
        await client.send("video.query", text="?")
        await client.until("response.done")


# --- interrupts and ends --------------------------------------------------------------


async def test_row_33_three_interrupts_in_a_row(serve: Serve) -> None:
    engine = gated()
    app = await serve(engine)
    async with chat(app.socket_url) as client:
        await client.frame()
        for number in range(4):
            await client.send("video.query", text=f"question {number}")
            delta = await client.until("response.text.delta")
            assert delta["request_id"] == client.of("response.start")[-1]["request_id"]
        engine.gate.set()  # type: ignore[union-attr]
        await client.until("response.done")
    ids = [request.request_id for request in engine.requests]
    assert len(set(ids)) == 4
    assert [e["request_id"] for e in client.of("response.interrupted")] == ids[:3]
    assert [e["request_id"] for e in client.of("response.text.done")] == ids[3:]
    assert not client.of("error")
    expected = [
        (what, request_id)
        for request_id in ids[:3]
        for what in ("generate", "closed", "abort", "aborted")
    ]
    assert engine.log[:12] == expected


async def test_response_cancel_stops_the_answer(serve: Serve) -> None:
    engine = gated()
    app = await serve(engine)
    async with chat(app.socket_url) as client:
        await client.frame()
        await client.send("video.query", text="?")
        await client.until("response.text.delta")
        await client.send("response.cancel")
        interrupted = await client.until("response.interrupted")
        assert (interrupted["reason"], interrupted["text"]) == ("cancelled", "One")
        await client.send("response.cancel")
        await client.send("ping")
        await client.until("pong")
    assert engine.aborted == [engine.requests[0].request_id]
    assert not client.of("response.text.done")


async def test_row_34_video_done_waits_for_the_answer(serve: Serve) -> None:
    engine = gated()
    app = await serve(engine)
    async with chat(app.socket_url) as client:
        await client.frame()
        await client.send("video.query", text="?")
        await client.until("response.text.delta")
        await client.send("video.done")
        await client.send("ping")
        await client.until("pong")
        assert "session.done" not in client.types()
        engine.gate.set()  # type: ignore[union-attr]
        assert await client.until_closed() == 1000
    assert client.types()[-3:] == ["response.done", "video.filter.stats", "session.done"]
    assert client.of("response.text.done")[0]["text"] == "One two"
    assert engine.aborted == []


@pytest.mark.parametrize("after_done", [False, True])
async def test_f1_a_disconnect_mid_answer_aborts_the_request(
    serve: Serve, after_done: bool
) -> None:
    engine = gated()
    app = await serve(engine)
    async with chat(app.socket_url) as client:
        await client.frame()
        await client.send("video.query", text="?")
        await client.until("response.text.delta")
        if after_done:
            await client.send("video.done")
            await client.send("ping")
            await client.until("pong")
    await engine.until("aborted")
    assert engine.aborted == [engine.requests[0].request_id]
    await eventually(lambda: app.server.sockets.taken == 0, "the place is free")
    assert len(engine.forgotten) == 1


async def test_a_line_that_goes_dead_without_goodbye(serve: Serve) -> None:
    engine = gated()
    app = await serve(engine)
    async with chat(app.socket_url) as client:
        await client.frame()
        await client.send("video.query", text="?")
        await client.until("response.text.delta")
        client.socket.transport.abort()
        await engine.until("aborted")
    await eventually(lambda: app.server.sockets.taken == 0, "the place is free")


async def test_two_clients_do_not_hear_each_other(serve: Serve) -> None:
    app = await serve(ScriptedEngine(lambda r: say(f"You asked: {texts(r)[-1]}")))

    async def conversation(name: str) -> tuple[list[str], str]:
        async with chat(app.socket_url) as client:
            for index in range(3):
                await client.frame(f"{name}-{index}", jpeg(index))
            await client.send("video.query", text=name)
            await client.until("response.done")
        consumed = client.of("video.frames.consumed")[0]["frame_ids"]
        return consumed, client.of("response.text.done")[0]["text"]

    answers = await asyncio.gather(conversation("anna"), conversation("ben"))
    for name, (consumed, text) in zip(("anna", "ben"), answers, strict=True):
        assert consumed == [f"{name}-{index}" for index in range(3)]
        assert text == f"You asked: {name}"
    ids = [p.content_id for r in app.engine.requests for p in r.messages[-1].parts[:-1]]  # type: ignore[union-attr]
    assert len(set(ids)) == 6


async def test_a_full_server_says_so_and_has_a_place_again_later(serve: Serve) -> None:
    app = await serve(max_sockets=1)
    async with chat(app.socket_url), chat(app.socket_url, configure=False) as second:
        error = await second.until("error")
        assert error["code"] == "server_full"
        assert await second.until_closed() == 1013
    await eventually(lambda: app.server.sockets.taken == 0, "the place is free")
    async with chat(app.socket_url) as third:
        await third.send("ping")
        await third.until("pong")


async def test_a_client_that_never_reads_is_disconnected(serve: Serve) -> None:
    engine = ScriptedEngine(lambda r: say(*["x" * 65_536] * 200))
    app = await serve(engine, outbox=16)
    async with connect(app.socket_url, max_queue=1, compression=None) as socket:
        await socket.send('{"type": "session.config", "enable_frame_filter": false}')
        await socket.send(f'{{"type": "video.frame", "data": "{b64(jpeg())}"}}')
        await socket.send('{"type": "video.query", "text": "?"}')
        await engine.until("generate")
        try:
            await eventually(lambda: app.server.sockets.taken == 0, "it was let go", 5)
        finally:
            socket.transport.abort()


async def test_stopping_the_server_ends_the_sessions(serve: Serve) -> None:
    engine = gated()
    app = await serve(engine)
    async with chat(app.socket_url) as client:
        await client.frame()
        await client.send("video.query", text="?")
        await client.until("response.text.delta")
        app.stop()
        assert await client.until_closed() in (1001, 1012)
        await engine.until("aborted")
    assert engine.aborted == [engine.requests[0].request_id]
