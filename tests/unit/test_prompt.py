"""What the model is shown: history, frames with their times, audio, question."""

import numpy as np
import pytest

from core.engines.base import AudioPart, ImagePart, Message, TextPart
from core.frames import NO_SOURCE, Frame, FrameInput
from core.prompt import History, HistoryMessage, image_parts, window_prompt
from core.timeline import FrameTimeline

pytestmark = pytest.mark.unit


def seen(name: str, time_s: float = 0.0, *, decodable: bool = True) -> Frame:
    frame = Frame(
        FrameInput(NO_SOURCE), content_id=name, time_s=time_s, timeline=FrameTimeline(time_s)
    )
    frame.finish_decode(np.zeros((2, 2, 3), np.uint8) if decodable else None, time_s)
    return frame


def image(name: str, time_s: float = 0.0) -> ImagePart:
    return ImagePart(np.zeros((2, 2, 3), np.uint8), name, time_s)


def user(*parts: TextPart | ImagePart | AudioPart) -> Message:
    return Message("user", parts)


def test_the_layout_is_system_history_then_frames_audio_and_the_text_last() -> None:
    messages = window_prompt(
        system_prompt="Be brief.",
        history=[HistoryMessage("user", "before"), HistoryMessage("assistant", "answer")],
        frames=[seen("a"), seen("b")],
        timestamps=False,
        audio=b"\1\0",
        text="What is it?",
    )
    assert messages == (
        Message("system", (TextPart("Be brief."),)),
        Message("user", (TextPart("before"),)),
        Message("assistant", (TextPart("answer"),)),
        user(image("a"), image("b"), AudioPart(b"\1\0"), TextPart("What is it?")),
    )


@pytest.mark.parametrize("system_prompt", [None, ""])
def test_what_is_not_there_leaves_no_trace(system_prompt: str | None) -> None:
    def prompt(**given: object) -> tuple[Message, ...]:
        fields = {"system_prompt": system_prompt, "history": [], "frames": [], "timestamps": True}
        return window_prompt(**(fields | given))  # type: ignore[arg-type]

    assert prompt() == ()
    assert prompt(text="?") == (user(TextPart("?")),)
    assert prompt(audio=b"\1\0") == (user(AudioPart(b"\1\0")),)


def test_each_frame_comes_after_its_time() -> None:
    parts = image_parts([seen("a", 3.24), seen("b", 61.0)], timestamps=True)
    assert parts == [
        TextPart("<3.2 s>"),
        image("a", 3.24),
        TextPart("<61.0 s>"),
        image("b", 61.0),
    ]


def test_a_frame_without_pixels_is_left_out_with_its_time() -> None:
    frames = [seen("a", 1), seen("bad", 2, decodable=False), seen("c", 3)]
    parts = image_parts(frames, timestamps=True)
    assert parts == [TextPart("<1.0 s>"), image("a", 1), TextPart("<3.0 s>"), image("c", 3)]


def test_the_warm_up_is_a_prefix_of_the_question() -> None:
    fields = {
        "system_prompt": "Be brief.",
        "history": [HistoryMessage("user", "q"), HistoryMessage("assistant", "a")],
        "frames": [seen("a", 1), seen("b", 2)],
        "timestamps": True,
    }
    warm = window_prompt(**fields)  # type: ignore[arg-type]
    question = window_prompt(**fields, audio=b"\1\0", text="?")  # type: ignore[arg-type]
    assert warm[:-1] == question[:-1]
    assert warm[-1].role == question[-1].role
    assert warm[-1].parts == question[-1].parts[: len(warm[-1].parts)]
    assert all(not isinstance(part, AudioPart) for part in warm[-1].parts)


def test_row_31_only_the_last_two_messages_as_text() -> None:
    history = History(limit=64)
    for turn in ("1", "2"):
        history.commit(f"question {turn}", f"answer {turn}", interrupted=False)
    assert history.recent() == [
        HistoryMessage("user", "question 2"),
        HistoryMessage("assistant", "answer 2"),
    ]
    assert len(history.recent(10)) == 4


def test_the_history_is_bounded() -> None:
    history = History(limit=4)
    for turn in range(10):
        history.commit(str(turn), str(turn), interrupted=False)
    assert [message.text for message in history.recent(100)] == ["8", "8", "9", "9"]


def test_f4_a_cut_answer_says_so_and_one_that_never_began_leaves_nothing() -> None:
    history = History(limit=4)
    history.commit("a?", "It is a", interrupted=True)
    history.commit("b?", "", interrupted=True)
    assert history.recent() == [
        HistoryMessage("user", "a?"),
        HistoryMessage("assistant", "It is a [interrupted]"),
    ]


def test_an_empty_answer_that_was_whole_is_history() -> None:
    history = History(limit=4)
    history.commit("a?", "", interrupted=False)
    assert [message.text for message in history.recent()] == ["a?", ""]
