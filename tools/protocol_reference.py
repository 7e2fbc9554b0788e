"""Writes docs/protocol.md from the models in core/protocol.py.

python -m tools.protocol_reference
"""

import json
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel

from core import protocol as p

BOUNDS = (
    ("minimum", "at least", ""),
    ("exclusiveMinimum", "more than", ""),
    ("maximum", "at most", ""),
    ("maxLength", "at most", " characters"),
)
PAGE = Path(__file__).parents[1] / "docs" / "protocol.md"

INTRO = """\
# Protocol

`ws://host:7860/v1/video/chat/stream` speaks vLLM-Omni's public streaming-video protocol: JSON
text messages, one object each, with a `type`. The data channel of a WebRTC session (label
`events`) carries the same messages; there, camera and microphone are tracks, and the config is
in the offer. `GET /protocol.json` has the JSON Schema of all of it.

This page is made from [core/protocol.py](../core/protocol.py) by
`python -m tools.protocol_reference`.

## A conversation

    → session.config      first, once, within 10 s
    ← session.created
    → video.frame …       ← video.frame.ack …   for frames with an id
    → audio.chunk …       waits for the next query
    → video.query
    ← response.start
    ← video.frames.consumed
    ← response.text.delta …  response.output_audio.delta …
    ← response.text.done
    ← response.output_audio.done   if there was audio
    ← response.done                or response.interrupted, or error with its request_id
    → video.done
    ← video.filter.stats, session.done

A turn ends with exactly one of `response.done`, `response.interrupted` and an `error` that
carries its `request_id`. A new query interrupts the answer in flight. An error without a
`request_id` ends nothing: the session, its frames and other sessions live on.

## What differs from vLLM-Omni's

A client of theirs works unchanged, as long as it ignores fields and events that it does not
know.

- Events and fields marked *added* are ours. Deltas and errors carry a `request_id`, errors a
  stable `code`.
- An interrupted turn ends with `response.interrupted`, and the history keeps what the person
  really got, marked as cut; there, a cut answer is kept as if it were whole.
- `response.text.done` comes when the text is whole, never at the first audio.
- Repeated deltas are all sent; text is never cut.
- A frame that is invalid or too large is acknowledged as not accepted, with a `reason`.
- `data` of a wrong type, binary messages and bad base64 are errors; the session lives on. Audio
  with an odd number of bytes is an error, too.
- A question by voice alone works without any frame.
- Without a `frame_filter_threshold`, the filter is ours (`block`); naming one chooses theirs.
- An interrupt, `video.done` and a disconnect never wait behind frames.
- A client that is silent while it is being answered is not idle.
- `context_layout: "chronological"` puts the history between the frames it is about, so that each
  frame is prefilled once; it is the default where the engine prefills ahead. `"window"` is
  theirs: history before frames.
- `legacy_audio_events: true` names audio events `response.audio.*`, as older servers did.
- Older names of config fields are understood: `num_sample_frames`, `evs_enabled`,
  `evs_threshold`.
- Over `--max-sockets` sessions, the connection is closed with 1013 and `server_full`.
"""

TURN = {"request_id": "video-3f0c"}
TIMING = p.TurnTiming(
    marks_ms={"asked": 0.0, "first_text": 180.2, "done": 640.0},
    segments=[p.Segment(name="waiting", ms=180.2), p.Segment(name="streaming", ms=459.8)],
    total_ms=640.0,
)
CONSUMED = p.ConsumedFrame(
    frame_id="f7",
    pts_ms=3500.0,
    source_pts_ms=None,
    quality_profile=None,
    receiver_received_ts_ms=1764560000100,
    decoded_ready_ts_ms=1764560000112,
)
ENGINE = p.EngineDescription(
    name="vllm",
    model="Qwen2.5-VL-3B-Instruct",
    description="A vision-language model, on vLLM in this server.",
    input_modalities=["image", "text"],
    output_modalities=["text"],
    context_tokens=32768,
    images_per_prompt=64,
)

# What a client may send, as it stands on the wire.
CLIENT_EXAMPLES: list[dict[str, Any]] = [
    {"type": "session.config", "modalities": ["text"], "num_frames": 8, "timestamps": True},
    {"type": "session.update", "session": {"system_prompt": "Answer briefly."}},
    {"type": "video.frame", "data": "/9j/4AAQ", "frame_id": "f7", "pts_ms": 3500.0},
    {"type": "audio.chunk", "data": "AAABAAIA"},
    {"type": "video.query", "text": "What do you see?"},
    {"type": "input_audio_buffer.clear"},
    {"type": "input_audio_buffer.commit"},
    {"type": "output_audio.playback", "delay_ms": 120.0},
    {"type": "response.cancel"},
    {"type": "video.done"},
    {"type": "ping", "ts_ms": 1764560000000.0},
]
SERVER_EXAMPLES: list[p.ServerEvent] = [
    p.SessionCreated(
        session_id="5d3b",
        engine=ENGINE,
        speech=p.SpeechParts(activity="silero", recognition="moonshine", voices=["Heart"]),
        config=p.SessionConfig(modalities=["text"]),
        created_ts_ms=1764560000000,
    ),
    p.SessionUpdated(config=p.SessionConfig(system_prompt="Answer briefly.")),
    p.FrameAck(
        frame_id="f7",
        pts_ms=3500.0,
        capture_ts_ms=None,
        accepted=False,
        buffered_frames=3,
        server_receive_ts_ms=1764560000100,
        reason="filtered",
    ),
    p.FrameDecision(
        frame_id=None,
        time_s=3.5,
        kept=True,
        reason="changed",
        score=0.31,
        width=640,
        height=480,
        thumbnail="/9j/4AAQ",
        kept_total=4,
        dropped_total=31,
    ),
    p.FramesConsumed(
        **TURN,
        model_selected_ts_ms=1764560001000,
        frame_ids=["f7"],
        frames=[CONSUMED],
        latest_pts_ms=3500.0,
    ),
    p.ResponseStart(**TURN, question="What do you see?"),
    p.TextDelta(**TURN, delta="A cup"),
    p.TextDone(**TURN, text="A cup of coffee."),
    p.AudioDelta(**TURN, pcm16=b"\x00\x00", sample_rate_hz=24_000),
    p.AudioDone(**TURN),
    p.ResponseDone(**TURN, timing=TIMING, usage=p.Usage(prompt_tokens=1310, cached_tokens=1240)),
    p.ResponseInterrupted(**TURN, reason="new_query", text="A cup of", timing=TIMING),
    p.SpeechStartedEvent(item_id="item-1", audio_start_ms=5200.0),
    p.SpeechStoppedEvent(item_id="item-1", audio_end_ms=6900.0, backchannel=False),
    p.TranscriptPartial(item_id="item-1", text="what do"),
    p.TranscriptCompleted(item_id="item-1", transcript="What do you see?"),
    p.PrefillStatistics(
        warmups=4,
        tokens_warmed=1240,
        tokens_reused=1240,
        tokens_computed=70,
        tokens_wasted=0,
        context_tokens=1310,
        context_limit=32768,
    ),
    p.ContextTrimmed(
        reason="max_frames",
        frames=25,
        exchanges=2,
        frames_left=25,
        message="The oldest 25 frames and 2 questions have left what the model is shown: "
        "this session keeps 50 frames.",
    ),
    p.FilterStatistics(retained=4, dropped=31, total=35, drop_rate=0.886),
    p.SessionDone(),
    p.Pong(ts_ms=1764560000000.0),
    p.ErrorEvent(
        code="invalid_base64", message="video.frame: data: is not valid base64",
        event_type="video.frame", frame_id="f8",
    ),
]  # fmt: skip


def models(union: Any) -> tuple[type[BaseModel], ...]:
    """The members of an annotated, tagged union."""
    return get_args(get_args(union)[0])


def render() -> str:
    """The page."""
    sent = {example["type"]: json.dumps(example) for example in CLIENT_EXAMPLES}
    received = {
        example.type: json.dumps(example.payload(), ensure_ascii=False)
        for example in SERVER_EXAMPLES
    }
    parts = [INTRO, "## From the client\n"]
    parts += [_message(model, sent) for model in models(p.ClientMessage)]
    parts.append("## From the server\n")
    parts += [_message(model, received) for model in models(p.ServerMessage)]
    parts.append("## Parts of messages\n")
    nested = (
        p.TurnDetection, p.EngineDescription, p.SpeechParts, p.ConsumedFrame, p.TurnTiming,
        p.Segment, p.Usage,
    )  # fmt: skip
    parts += [_section(model.__name__, model) for model in nested]
    return "\n".join(parts)


def _message(model: type[BaseModel], examples: dict[str, str]) -> str:
    name = model.model_fields["type"].default
    return _section(f"`{name}`", model) + f"\n```json\n{examples[name]}\n```\n"


def _section(title: str, model: type[BaseModel]) -> str:
    text = (model.__doc__ or "").strip().removeprefix(title)
    added = text.startswith(" (added")
    about = text.removeprefix(" (added)").removeprefix(" (added, ").lstrip(":; ").strip()
    lines = [f"### {title}{' (added)' if added else ''}\n"]
    if about:
        lines.append(f"{about[0].upper()}{about[1:]}\n")
    mode: Literal["serialization", "validation"] = (
        "serialization" if issubclass(model, p.ServerEvent) else "validation"
    )
    fields = model.model_json_schema(mode=mode)["properties"]
    rows = [_row(name, schema) for name, schema in fields.items() if name != "type"]
    if rows:
        lines += ["| field | type | default | |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _row(name: str, schema: dict[str, Any]) -> str:
    default = f"`{json.dumps(schema['default'])}`" if "default" in schema else "*required*"
    about = " ".join(text for text in (schema.get("description", ""), _bounds(schema)) if text)
    return f"| `{name}` | {_type(schema)} | {default} | {about} |"


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return ", ".join(f"`{json.dumps(choice)}`" for choice in choices)
    if schema.get("contentEncoding") == "base64":
        return "base64"
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    return str(schema.get("type", "any"))


def _bounds(schema: dict[str, Any]) -> str:
    """For example `At least 1, at most 128.`"""
    choices = [schema, *schema.get("anyOf", ())]
    found = [
        f"{words} {choice[key]}{unit}"
        for choice in choices
        for key, words, unit in BOUNDS
        if key in choice
    ]
    text = ", ".join(found)
    return f"{text[0].upper()}{text[1:]}." if text else ""


if __name__ == "__main__":
    PAGE.write_text(render())
