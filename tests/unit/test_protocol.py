"""The wire format: what a client may send, what it is told when it is wrong, what it gets."""

import base64
import io
import json
import math
import wave
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.engines.base import EngineInfo
from core.errors import ProtocolError
from core.protocol import (
    MAX_AUDIO_BASE64_BYTES,
    MAX_FRAME_BASE64_BYTES,
    MAX_ID_CHARS,
    MAX_TEXT_CHARS,
    AudioChunk,
    AudioDelta,
    AudioDone,
    ConsumedFrame,
    EngineDescription,
    ErrorEvent,
    FrameAck,
    FrameDecision,
    FramesConsumed,
    Ping,
    Pong,
    ResponseCancel,
    ResponseDone,
    Segment,
    SessionConfig,
    SessionUpdate,
    SessionUpdated,
    TextDelta,
    TurnTiming,
    Usage,
    VideoDone,
    VideoFrame,
    VideoQuery,
    client_event,
    parse_client_message,
    protocol_schema,
    updated_config,
)

pytestmark = pytest.mark.unit

TIMING = TurnTiming(marks_ms={"asked": 0.0}, segments=[Segment(name="streaming", ms=3)], total_ms=3)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def parse(**message: Any) -> Any:
    return parse_client_message(json.dumps(message))


def refused(message: Any) -> ProtocolError:
    """The error that a message gets."""
    text = message if isinstance(message, str | bytes) else json.dumps(message)
    with pytest.raises(ProtocolError) as caught:
        parse_client_message(text)
    return caught.value


# --- what a client may send ----------------------------------------------------------


def test_the_defaults_of_a_config_are_the_reference_s() -> None:
    config = parse(type="session.config")
    assert config == SessionConfig()
    assert config.modalities == ["text", "audio"]
    assert (config.num_frames, config.max_frames) == (4, 50)
    assert config.use_audio_in_video
    assert config.enable_frame_filter
    assert not any((config.timestamps, config.frame_events, config.legacy_audio_events))


@pytest.mark.parametrize(
    ("old", "new", "old_value", "new_value"),
    [
        ("num_sample_frames", "num_frames", 2, 7),
        ("evs_enabled", "enable_frame_filter", False, True),
        ("evs_threshold", "frame_filter_threshold", 0.5, 0.8),
    ],
)
def test_old_names_are_understood_and_the_new_one_wins(
    old: str, new: str, old_value: Any, new_value: Any
) -> None:
    assert getattr(parse(type="session.config", **{old: old_value}), new) == old_value
    for message in ({old: old_value, new: new_value}, {new: new_value, old: old_value}):
        assert getattr(parse(type="session.config", **message), new) == new_value


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "block"),
        ({"frame_filter_threshold": 0.9}, "reference"),
        ({"evs_threshold": 0.9}, "reference"),
        ({"frame_filter": "block", "frame_filter_threshold": 0.9}, "block"),
        ({"frame_filter": "reference"}, "reference"),
        ({"enable_frame_filter": False, "frame_filter": "block"}, "off"),
        ({"evs_enabled": False}, "off"),
    ],
)
def test_which_filter_a_config_asks_for(fields: dict[str, Any], name: str) -> None:
    assert parse(type="session.config", **fields).filter_name == name


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("num_frames", [1, 128], [0, 129, "many", None, 1.5]),
        ("max_frames", [1, 256], [0, 257]),
        ("frame_filter_threshold", [0, 1, 0.5, None], [-0.01, 1.01]),
        ("frame_filter_max_gap_s", [0.1, 3600], [0, 3601]),
        ("modalities", [["text"], ["audio"]], [["smell"], "text"]),
        ("model", ["m" * MAX_ID_CHARS, None], ["m" * (MAX_ID_CHARS + 1), 1]),
        ("system_prompt", ["x" * MAX_TEXT_CHARS, None], ["x" * (MAX_TEXT_CHARS + 1)]),
        ("sampling_params_list", [None, [], [{"temperature": 0}]], [{}, [1]]),
        ("frame_filter", ["block", "reference", None], ["off", "magic"]),
    ],
)
def test_the_range_of_each_config_field(field: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(parse(type="session.config", **{field: value}), field) == value
    for value in bad:
        error = refused({"type": "session.config", field: value})
        assert error.code == "invalid_field"
        assert error.event_type == "session.config"
        assert field in error.message


def test_every_other_client_event() -> None:
    frame = parse(
        type="video.frame",
        data=b64(b"jpeg"),
        frame_id="f",
        pts_ms=1,
        source_pts_ms=2,
        capture_ts_ms=3,
        quality_profile="high",
    )
    assert frame == VideoFrame(
        data=b"jpeg",
        frame_id="f",
        pts_ms=1,
        source_pts_ms=2,
        capture_ts_ms=3,
        quality_profile="high",
    )
    assert parse(type="audio.chunk", data=b64(b"\1\0")) == AudioChunk(data=b"\1\0")
    assert parse(type="video.query") == VideoQuery(text="", audio_data=None)
    assert parse(type="video.query", text="?", audio_data=b64(b"\1\0")).audio_data == b"\1\0"
    assert parse(type="response.cancel") == ResponseCancel()
    assert parse(type="video.done") == VideoDone()
    assert parse(type="ping", ts_ms=5) == Ping(ts_ms=5)
    assert parse(type="session.update", session={"num_frames": 2}) == SessionUpdate(
        session={"num_frames": 2}
    )


def test_unknown_fields_are_ignored() -> None:
    assert parse(type="video.done", from_the_future=1) == VideoDone()


# --- what it is told when it is wrong ------------------------------------------------


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("", "invalid_json"),
        ("{", "invalid_json"),
        (b"\xff\xfe{}", "invalid_json"),
        ("[" * 100_000, "invalid_json"),
        ("null", "invalid_message"),
        ("[]", "invalid_message"),
        ('"ping"', "invalid_message"),
        ("{}", "invalid_message"),
        ('{"type": 1}', "invalid_message"),
        ('{"type": "nope"}', "unknown_type"),
        ('{"type": "video.frame"}', "invalid_field"),
        ('{"type": "video.frame", "data": 5}', "invalid_base64"),
        ('{"type": "video.frame", "data": null}', "invalid_base64"),
        ('{"type": "video.frame", "data": "%%%"}', "invalid_base64"),
        ('{"type": "video.frame", "data": "é"}', "invalid_base64"),
        ('{"type": "video.frame", "data": ""}', "invalid_image"),
        ('{"type": "audio.chunk", "data": "AAA"}', "invalid_base64"),
        ('{"type": "audio.chunk", "data": "AA=="}', "invalid_audio"),
        ('{"type": "video.query", "audio_data": "AA=="}', "invalid_audio"),
        ('{"type": "video.query", "audio_data": {}}', "invalid_base64"),
        ('{"type": "video.query", "text": 1}', "invalid_field"),
        ('{"type": "session.update"}', "invalid_field"),
        ('{"type": "session.update", "session": []}', "invalid_field"),
    ],
)
def test_each_kind_of_wrong_message_has_its_code(message: str | bytes, code: str) -> None:
    assert refused(message).code == code


@pytest.mark.parametrize("kind", ["_ask", "session.created", "video.frame.ack", "Filtered"])
def test_row_20_no_internal_type_gets_in(kind: str) -> None:
    error = refused({"type": kind})
    assert error.message == f"Unknown type: {kind}"
    assert error.event_type == kind


def test_a_long_unknown_type_is_cut_short() -> None:
    assert len(refused({"type": "x" * 10_000}).message) < 120


def test_an_oversized_frame_is_named_with_its_size_and_limit() -> None:
    data = "A" * (MAX_FRAME_BASE64_BYTES + 4)
    error = refused({"type": "video.frame", "data": data, "frame_id": "big"})
    assert error.code == "frame_too_large"
    assert error.frame_id == "big"
    assert "10.0 MiB" in error.message
    assert "limit is 10 MiB" in error.message


def test_a_frame_of_just_the_limit_is_accepted() -> None:
    assert parse(type="video.frame", data="A" * MAX_FRAME_BASE64_BYTES).data


def test_oversized_audio_is_refused() -> None:
    data = "A" * (MAX_AUDIO_BASE64_BYTES + 4)
    assert refused({"type": "audio.chunk", "data": data}).code == "audio_too_large"


@pytest.mark.parametrize("frame_id", [None, "", 5, "x" * (MAX_ID_CHARS + 1)])
def test_an_error_names_only_ids_that_can_be_acknowledged(frame_id: Any) -> None:
    assert refused({"type": "video.frame", "data": "%", "frame_id": frame_id}).frame_id is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
KINDS = sorted(protocol_schema()["client"]["discriminator"]["mapping"])
FIELDS = sorted(
    {*SessionConfig.model_fields, *VideoFrame.model_fields, "text", "audio_data", "session"}
    - {"type"}
)


@given(st.binary() | st.text())
def test_arbitrary_text_never_raises_anything_but_a_protocol_error(message: bytes | str) -> None:
    _harmless(message)


@given(JSON)
def test_arbitrary_json_never_raises_anything_but_a_protocol_error(value: Any) -> None:
    _harmless(json.dumps(value))


@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6))
def test_arbitrary_fields_of_known_types_neither(kind: str, fields: dict[str, Any]) -> None:
    _harmless(json.dumps(fields | {"type": kind}))


def _harmless(message: str | bytes) -> None:
    with suppress(ProtocolError):
        parse_client_message(message)


@pytest.mark.parametrize(
    "message",
    [
        '{"type": "ping", "ts_ms": NaN}',
        '{"type": "ping", "ts_ms": 1e999}',
        '{"type": "video.frame", "data": "AAAA", "pts_ms": -Infinity}',
        '{"type": "session.config", "sampling_params_list": [{"temperature": Infinity}]}',
    ],
)
def test_numbers_that_json_has_not_are_refused(message: str) -> None:
    assert refused(message).code in ("invalid_json", "invalid_field")


@pytest.mark.parametrize(
    "message",
    [
        r'{"type": "\ud800"}',
        r'{"type": "video.frame", "data": "", "frame_id": "\ud800"}',
        r'{"type": "session.config", "sampling_params_list": [{"a": "\ud800"}]}',
        r'{"type": "session.update", "session": {"\ud800": 1}}',
    ],
)
def test_text_that_is_not_unicode_is_never_echoed(message: str) -> None:
    try:
        event = parse_client_message(message)
    except ProtocolError as error:
        ErrorEvent.of(error).wire().encode()
    else:
        assert not event, "nothing that cannot be encoded may get in"


def test_a_config_that_is_accepted_can_be_sent_back() -> None:
    deep = "[" * 300 + "]" * 300
    message = f'{{"type": "session.config", "sampling_params_list": [{{"stop": {deep}}}]}}'
    try:
        config = parse_client_message(message)
    except ProtocolError:
        return
    assert isinstance(config, SessionConfig)
    SessionUpdated(config=config).wire()


def test_client_event_takes_a_decoded_value() -> None:
    assert client_event({"type": "video.done"}) == VideoDone()


# --- session.update ------------------------------------------------------------------


def test_an_update_keeps_what_it_does_not_name() -> None:
    before = SessionConfig(num_frames=9, timestamps=True, evs_threshold=0.5)  # type: ignore[call-arg]
    after = updated_config(before, {"max_frames": 7})
    assert after == before.model_copy(update={"max_frames": 7})
    assert after.filter_name == "reference"


@pytest.mark.parametrize("changes", [{"nonsense": 1}, {"type": "ping"}, {"model": "other"}])
def test_an_update_cannot_change_what_is_not_a_setting(changes: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match=r"session\.update") as caught:
        updated_config(SessionConfig(), changes)
    assert next(iter(changes)) in caught.value.message


# --- server to client ----------------------------------------------------------------


def ack(**fields: Any) -> dict[str, Any]:
    values = {
        "frame_id": "f",
        "pts_ms": None,
        "capture_ts_ms": None,
        "accepted": True,
        "buffered_frames": 1,
        "server_receive_ts_ms": 5,
    }
    return json.loads(FrameAck(**(values | fields)).wire())


def test_an_ack_keeps_null_times_and_leaves_out_what_does_not_apply() -> None:
    assert ack() == {
        "type": "video.frame.ack",
        "frame_id": "f",
        "pts_ms": None,
        "capture_ts_ms": None,
        "accepted": True,
        "buffered_frames": 1,
        "server_receive_ts_ms": 5,
    }
    dropped = ack(reason="filtered", dropped_frame_id="e")
    assert (dropped["reason"], dropped["dropped_frame_id"]) == ("filtered", "e")


def test_rows_10_and_15_consumed_frames_have_six_fields_and_keep_nulls() -> None:
    event = FramesConsumed(
        request_id="video-1",
        model_selected_ts_ms=3,
        frame_ids=[],
        frames=[
            ConsumedFrame(
                frame_id=None,
                pts_ms=None,
                source_pts_ms=None,
                quality_profile=None,
                receiver_received_ts_ms=1,
                decoded_ready_ts_ms=2,
            )
        ],
        latest_pts_ms=None,
    )
    payload = json.loads(event.wire())
    assert payload["latest_pts_ms"] is None
    assert payload["frames"] == [
        {
            "frame_id": None,
            "pts_ms": None,
            "source_pts_ms": None,
            "quality_profile": None,
            "receiver_received_ts_ms": 1,
            "decoded_ready_ts_ms": 2,
        }
    ]


def test_optional_fields_of_the_other_events() -> None:
    assert Pong().payload() == {"type": "pong"}
    assert Pong(ts_ms=1).payload() == {"type": "pong", "ts_ms": 1}
    assert ErrorEvent(code="c", message="m").payload() == {
        "type": "error",
        "code": "c",
        "message": "m",
    }
    done = ResponseDone(request_id="r", timing=TIMING)
    assert "usage" not in done.payload()
    usage = Usage(prompt_tokens=3, cached_tokens=2)
    assert ResponseDone(request_id="r", timing=TIMING, usage=usage).payload()["usage"] == {
        "prompt_tokens": 3,
        "cached_tokens": 2,
    }
    decision = FrameDecision(
        frame_id=None,
        time_s=1.5,
        kept=False,
        reason="still",
        score=None,
        width=4,
        height=3,
        kept_total=1,
        dropped_total=1,
    ).payload()
    assert decision["frame_id"] is None
    assert not {"thumbnail", "score"} & set(decision)


def test_an_error_event_says_what_it_concerns() -> None:
    error = ProtocolError("c", "m", event_type="video.frame", frame_id="f")
    assert ErrorEvent.of(error, request_id="r").payload() == {
        "type": "error",
        "code": "c",
        "message": "m",
        "event_type": "video.frame",
        "request_id": "r",
        "frame_id": "f",
    }


def test_the_wire_is_compact_json_in_plain_unicode() -> None:
    wire = TextDelta(request_id="r", delta="Grüße 👋\n").wire()
    assert wire == '{"type":"response.text.delta","request_id":"r","delta":"Grüße 👋\\n"}'


def test_audio_deltas_are_wav_files_of_their_own() -> None:
    samples = np.arange(-1200, 1200, dtype="<i2")
    event = AudioDelta(request_id="r", pcm16=samples.tobytes(), sample_rate_hz=24_000)
    payload = json.loads(event.wire())
    assert set(payload) == {"type", "request_id", "format", "data"}
    assert payload["format"] == "wav"
    with wave.open(io.BytesIO(base64.b64decode(payload["data"]))) as wav:
        assert (wav.getnchannels(), wav.getsampwidth(), wav.getframerate()) == (1, 2, 24_000)
        assert wav.readframes(wav.getnframes()) == samples.tobytes()


def test_audio_events_have_their_old_names_too() -> None:
    delta = AudioDelta(
        type="response.audio.delta", request_id="r", pcm16=b"", sample_rate_hz=24_000
    )
    assert delta.payload()["type"] == "response.audio.delta"
    assert AudioDone(type="response.audio.done", request_id="r").payload()["type"] == (
        "response.audio.done"
    )
    assert AudioDone(request_id="r").payload()["type"] == "response.output_audio.done"


def test_engines_are_described_in_a_stable_order() -> None:
    info = EngineInfo("n", "m", "d", input_modalities=frozenset({"video", "text", "image"}))
    assert EngineDescription.of(info).input_modalities == ["image", "text", "video"]
    assert EngineDescription.of(None).name == "none"


def test_events_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Pong().ts_ms = 1  # type: ignore[misc]


# --- the schema ----------------------------------------------------------------------


def test_the_schema_names_every_event_of_both_directions() -> None:
    schema = protocol_schema()
    assert set(schema["client"]["discriminator"]["mapping"]) >= {
        "session.config",
        "session.update",
        "video.frame",
        "audio.chunk",
        "video.query",
        "response.cancel",
        "video.done",
        "ping",
    }
    assert {
        "video.frame.ack",
        "video.frames.consumed",
        "response.start",
        "response.text.delta",
        "response.text.done",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.audio.delta",
        "response.audio.done",
        "session.done",
        "pong",
        "error",
    } <= set(schema["server"]["discriminator"]["mapping"])


def test_the_schema_is_json_and_binary_fields_are_base64_strings() -> None:
    schema = json.loads(json.dumps(protocol_schema(), allow_nan=False))
    frame = schema["client"]["$defs"]["VideoFrame"]["properties"]["data"]
    assert frame["type"] == "string"
    assert frame["contentEncoding"] == "base64"
    audio = schema["server"]["$defs"]["AudioDelta"]["properties"]
    assert set(audio) == {"type", "request_id", "format", "data"}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_times_come_back_as_they_were_sent(ts_ms: float) -> None:
    ping = parse(type="ping", ts_ms=ts_ms)
    assert math.isclose(json.loads(Pong(ts_ms=ping.ts_ms).wire())["ts_ms"], ts_ms)
