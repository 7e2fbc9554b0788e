"""What the model is shown: history, frames with their times, audio, question."""

import numpy as np
import pytest

from core.context import Context, Dropped, Exchange, History
from core.engines.base import AudioPart, ImagePart, Message, TextPart
from core.frames import NO_SOURCE, Frame, FrameInput
from core.prompt import image_parts, prompt
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


def ask(layout: str, context: Context, **given: object) -> tuple[Message, ...]:
    fields = {"system_prompt": None, "timestamps": False}
    return prompt(layout, context, **(fields | given))  # type: ignore[arg-type]


def exchange(number: int, after: int, **given: object) -> Exchange:
    words = {"question": f"q{number}", "answer": f"a{number}", "text": f"q{number}"}
    return Exchange(number, after=after, **(words | given))  # type: ignore[arg-type]


def numbered(*numbers: int) -> tuple[Frame, ...]:
    frames = []
    for number in numbers:
        frame = seen(f"f{number}", float(number))
        frame.number = number
        frames.append(frame)
    return tuple(frames)


def test_the_window_is_system_history_then_frames_audio_and_the_text_last() -> None:
    context = Context(numbered(0, 1), (exchange(0, 0, question="before", answer="answer"),))
    assert ask("window", context, system_prompt="Be brief.", audio=b"\1\0", text="What?") == (
        Message("system", (TextPart("Be brief."),)),
        Message("user", (TextPart("before"),)),
        Message("assistant", (TextPart("answer"),)),
        user(image("f0", 0), image("f1", 1), AudioPart(b"\1\0"), TextPart("What?")),
    )


@pytest.mark.parametrize("layout", ["window", "chronological"])
@pytest.mark.parametrize("system_prompt", [None, ""])
def test_what_is_not_there_leaves_no_trace(layout: str, system_prompt: str | None) -> None:
    fields = {"system_prompt": system_prompt, "timestamps": True}
    assert ask(layout, Context(), **fields) == ()
    assert ask(layout, Context(), **fields, text="?") == (user(TextPart("?")),)
    assert ask(layout, Context(), **fields, audio=b"\1\0") == (user(AudioPart(b"\1\0")),)


def test_chronological_is_time_in_order() -> None:
    context = Context(numbered(0, 1, 2, 3), (exchange(0, 1), exchange(1, 1), exchange(2, 2)))
    assert ask("chronological", context, system_prompt="Be brief.", text="q3") == (
        Message("system", (TextPart("Be brief."),)),
        user(image("f0", 0), image("f1", 1), TextPart("q0")),
        Message("assistant", (TextPart("a0"),)),
        user(TextPart("q1")),
        Message("assistant", (TextPart("a1"),)),
        user(image("f2", 2), TextPart("q2")),
        Message("assistant", (TextPart("a2"),)),
        user(image("f3", 3), TextPart("q3")),
    )


def test_chronological_keeps_a_spoken_question_as_the_engine_heard_it() -> None:
    spoken = exchange(0, 0, question="what is it", audio=b"\1\0", text="")
    context = Context(numbered(0), (spoken,))
    assert ask("chronological", context)[0] == user(image("f0"), AudioPart(b"\1\0"))
    assert ask("window", context)[0] == user(TextPart("what is it"))


def test_what_was_dropped_is_one_line_before_everything_else() -> None:
    dropped = Dropped().plus(numbered(0, 1, 2), [exchange(0, 2)])
    context = Context(numbered(3), (), dropped)
    line = '[0.0–2.0 s is no longer shown: 3 frames. Asked: "q0" Answered: "a0".]'
    assert ask("chronological", context, text="?") == (
        user(TextPart(line), image("f3", 3), TextPart("?")),
    )
    assert ask("window", context, text="?") == (user(image("f3", 3), TextPart("?")),)


def test_the_dropped_line_stays_short() -> None:
    dropped = Dropped().plus((), [exchange(n, -1, question="why " * 400) for n in range(50)])
    assert len(dropped.line) < 3 * 2 * 200
    assert "q49" not in dropped.line
    assert '"a49"' in dropped.line


def test_chronological_only_grows_at_its_end() -> None:
    """Whatever happens, each prompt is a prefix of the next: flattened to its parts."""
    history = History(max_exchanges=100, max_audio_bytes=1000)
    shown: list[object] = []
    for turn in range(6):
        frames = numbered(*range(2 * turn + 2))
        context = history.context(frames, newest=2 * turn + 1)
        for question in ("", f"question {turn}"):
            messages = ask("chronological", context, text=question, timestamps=True)
            parts = [part for message in messages for part in message.parts]
            assert parts[: len(shown)] == shown
            shown = parts
        history.commit(f"question {turn}", f"answer {turn}", interrupted=turn == 3,
                       after=context.newest)  # fmt: skip
        shown = [*shown, *ask("chronological", history.context(frames, 0))[-1].parts]


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


@pytest.mark.parametrize("layout", ["window", "chronological"])
def test_the_warm_up_is_a_prefix_of_the_question(layout: str) -> None:
    context = Context(numbered(0, 1, 2), (exchange(0, 0),))
    fields = {"system_prompt": "Be brief.", "timestamps": True}
    warm = ask(layout, context, **fields)
    question = ask(layout, context, **fields, audio=b"\1\0", text="?")
    assert warm[:-1] == question[:-1]
    assert warm[-1].role == question[-1].role
    assert warm[-1].parts == question[-1].parts[: len(warm[-1].parts)]
    assert all(not isinstance(part, AudioPart) for part in warm[-1].parts)


def answers(history: History) -> list[str]:
    return [exchange.answer for exchange in history.context((), -1).exchanges]


def test_row_31_only_the_last_two_messages_as_text() -> None:
    history = History(max_exchanges=32, max_audio_bytes=0)
    for turn in ("1", "2"):
        history.commit(f"question {turn}", f"answer {turn}", interrupted=False)
    assert ask("window", history.context((), -1), text="?") == (
        user(TextPart("question 2")),
        Message("assistant", (TextPart("answer 2"),)),
        user(TextPart("?")),
    )


def test_the_history_is_bounded_and_loses_its_oldest_half_at_once() -> None:
    history = History(max_exchanges=4, max_audio_bytes=1000)
    kept = []
    for turn in range(10):
        history.commit(str(turn), str(turn), interrupted=False)
        kept.append(len(history))
    assert kept == [1, 2, 3, 4, 2, 3, 4, 2, 3, 4]
    assert answers(history) == ["6", "7", "8", "9"]
    assert [past.answer for past in history.context((), -1).dropped.exchanges] == ["3", "4", "5"]


def test_the_history_is_bounded_in_bytes_of_audio() -> None:
    history = History(max_exchanges=100, max_audio_bytes=100)
    for turn in range(4):
        history.commit(str(turn), str(turn), interrupted=False, audio=b"\0" * 40, text="")
    assert answers(history) == ["2", "3"]


def test_f4_a_cut_answer_says_so_and_one_that_never_began_leaves_nothing() -> None:
    history = History(max_exchanges=4, max_audio_bytes=0)
    history.commit("a?", "It is a", interrupted=True)
    history.commit("b?", "", interrupted=True)
    assert answers(history) == ["It is a [interrupted]"]


def test_an_empty_answer_that_was_whole_is_history() -> None:
    history = History(max_exchanges=4, max_audio_bytes=0)
    history.commit("a?", "", interrupted=False)
    assert answers(history) == [""]


def test_exchanges_leave_with_the_frames_before_them() -> None:
    history = History(max_exchanges=10, max_audio_bytes=0)
    for number, after in enumerate((1, 1, 4, 6)):
        history.commit(f"q{number}", f"a{number}", interrupted=False, after=after)
    assert history.drop(numbered(0, 1, 2), first_frame=3) == 2
    context = history.context(numbered(3, 4, 5, 6, 7), 7)
    assert [past.number for past in context.exchanges] == [2, 3]
    assert (context.dropped.frames, context.dropped.until_s) == (3, 2.0)


def test_half_of_a_context_is_left_out_until_there_is_nothing_more() -> None:
    context = Context(numbered(*range(8)), (exchange(0, 3), exchange(1, 5)))
    half = context.halved()
    assert half is not None
    assert [frame.number for frame in half.frames] == [4, 5, 6, 7]
    assert [past.number for past in half.exchanges] == [1]
    assert half.trimmed
    one = half.halved().halved()  # type: ignore[union-attr]
    assert [frame.number for frame in one.frames] == [7]
    assert one.exchanges == ()
    assert one.dropped.frames == 7
    assert one.halved() is None
    talk = Context((), tuple(exchange(n, -1) for n in range(3)))
    assert [past.number for past in talk.halved().exchanges] == [2]  # type: ignore[union-attr]
