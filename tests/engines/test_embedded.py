"""The embedded engine with its real models on real photos."""

import asyncio
import io
import threading

import cv2
import numpy as np
import pytest
from PIL import Image

from core.context import Context
from core.engines.base import EngineRequest
from core.engines.embedded import EmbeddedEngine, question_text
from core.errors import EngineError
from core.perception.look import Perceiver
from core.perception.note import Note
from core.prompt import Frame, prompt
from core.timeline import FrameTimeline
from core.weights import ModelError
from tests.media import photo

pytestmark = pytest.mark.unit

WAIT_S = 30.0
PHOTOS = ("coffee", "chelsea", "astronaut", "china", "flower", "sign")


class _Source:
    nbytes = 0


def frame(rgb, content_id, time_s):
    """A kept frame whose pixels are there."""
    from core.frames import FrameInput

    made = Frame(
        FrameInput(_Source()),
        content_id=content_id,
        time_s=time_s,
        timeline=FrameTimeline(received_s=time_s),
    )
    made.finish_decode(rgb, time_s)
    return made


def request(frames, text="", *, session_id="one", time_s=None, number=[0]):  # noqa: B006
    number[0] += 1
    prefill_only = not text
    return EngineRequest(
        f"request-{number[0]}",
        session_id,
        prompt(
            "chronological",
            Context(tuple(frames)),
            system_prompt="You are helpful.",
            timestamps=True,
            text=text,
        ),
        prefill_only=prefill_only,
        priority=10 if prefill_only else 0,
        time_s=time_s if time_s is not None else frames[-1].time_s + 0.2 if frames else 0.0,
    )


async def outputs(engine, asked):
    async with asyncio.timeout(WAIT_S):
        return [output async for output in engine.generate(asked)]


async def ask(engine, frames, text, **options):
    return "".join(o.text_delta for o in await outputs(engine, request(frames, text, **options)))


async def warm(engine, frames, **options):
    (last,) = await outputs(engine, request(frames, **options))
    return last.usage


def webcam(rgb, *, shift=(0, 0), scale=1.0, quality=60, letterbox=False):
    """As a camera and a video codec leave it: moved, scaled, softened, JPEG."""
    height, width = rgb.shape[:2]
    if letterbox:
        small = cv2.resize(rgb, (480, 360), interpolation=cv2.INTER_AREA)
        rgb = np.zeros((480, 640, 3), np.uint8)
        rgb[60:420, 80:560] = small
    matrix = np.array(
        [
            [scale, 0, shift[0] + width * (1 - scale) / 2],
            [0, scale, shift[1] + height * (1 - scale) / 2],
        ],
        np.float32,
    )
    moved = cv2.warpAffine(rgb, matrix, (width, height), borderMode=cv2.BORDER_REFLECT_101)
    data = io.BytesIO()
    Image.fromarray(cv2.GaussianBlur(moved, (0, 0), 0.9)).save(data, "JPEG", quality=quality)
    return np.asarray(Image.open(data))


@pytest.fixture(scope="module")
def perceiver():
    made = Perceiver()
    made.load()
    assert not made.problems
    return made


@pytest.fixture
async def engine(perceiver):
    made = EmbeddedEngine(perceiver, reads_ahead=False)
    perceiver.load = lambda progress: None  # loaded once for all tests
    await made.start()
    yield made
    await made.close()


SEEN = {
    "coffee": "I see a cup of coffee, probably an espresso",
    "chelsea": "I see a cat",
    "astronaut": "I see one person",
    "china": "I see a building",
    "flower": "I think I see a flower",
    "sign": "Let me look closer. I see text that says “OPEN 9-17”.",
}
COLOURS = {
    "coffee": ("red", "brown"),
    "chelsea": ("brown",),
    "astronaut": ("orange",),
    "china": ("white", "brown", "grey"),
    "flower": ("orange",),
    "sign": ("white",),
}
VARIANTS = {
    "clean": {},
    "soft": {"shift": (9, -6)},
    "nearer": {"scale": 1.12, "shift": (-14, 8), "quality": 50},
    "letterbox": {"letterbox": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", PHOTOS)
async def test_known_photos(engine, name, variant):
    rgb = photo(name) if variant == "clean" else webcam(photo(name), **VARIANTS[variant])
    frames = [frame(rgb, name, 0.5)]
    await warm(engine, frames)
    assert (await ask(engine, frames, "What do you see?")).startswith(SEEN[name])
    people = await ask(engine, frames, "How many people do you see?")
    assert people.startswith("I see one person." if name == "astronaut" else "I see no people.")
    this = await ask(engine, frames, "What is this?")
    thing = SEEN[name].split(" see ")[-1].split(",")[0].replace("one person", "a person")
    assert thing in this
    if name == "flower":
        assert "not sure" in this
    first_colours = (await ask(engine, frames, "What colour is it?")).split(".")[0]
    assert any(colour in first_colours for colour in COLOURS[name])
    if name == "sign":
        assert await ask(engine, frames, "What does it say?") == "It says “OPEN 9-17”."


@pytest.mark.parametrize("name", ["coffee", "chelsea", "china", "flower"])
async def test_texture_is_not_read_as_text(engine, name):
    frames = [frame(webcam(photo(name), letterbox=True), name, 0.5)]
    assert await ask(engine, frames, "What does it say?") == (
        "Let me read it. I cannot see any text that I can read."
    )


async def test_a_sign_is_read_when_asked(engine):
    frames = [frame(photo("sign"), "sign", 0.5)]
    async with asyncio.timeout(WAIT_S):
        deltas = [
            output.text_delta
            async for output in engine.generate(request(frames, "Read this"))
            if output.text_delta
        ]
    assert deltas == ["Let me read it.", " It says “OPEN 9-17”."]


async def test_bright_and_dark(engine):
    dark = (photo("chelsea") * 0.15).astype(np.uint8)
    assert "very dark" in await ask(engine, [frame(dark, "dark", 1.0)], "Is it bright or dark?")
    sign = [frame(photo("sign"), "sign", 2.0)]
    assert "bright" in await ask(engine, sign, "Is it bright or dark?")


async def test_two_photos_in_turn(engine):
    frames = [
        frame(photo("coffee"), "a", 0.5),
        frame(photo("coffee"), "b", 2.0),
        frame(photo("chelsea"), "c", 4.0),
        frame(photo("chelsea"), "d", 5.0),
    ]
    for count in range(1, 5):
        await warm(engine, frames[:count])
    for question, answer in {
        "Which came first, the cat or the coffee?": (
            "The cup of coffee came first, at 0.5 seconds; the cat came after, at 4.0 seconds."
        ),
        "In which order did you see them?": (
            "First I saw a cup of coffee at 0.5 seconds, then a cat at 4.0 seconds."
        ),
        "When did you first see the cat?": "I first saw a cat at 4.0 seconds. I still see it.",
        "When did you first see a cup?": (
            "I first saw a cup of coffee at 0.5 seconds. I last saw it at 2.0 seconds."
        ),
    }.items():
        assert await ask(engine, frames, question) == answer
    assert (await ask(engine, frames, "What came before the cat?")).startswith(
        "Before the cat I saw a cup of coffee"
    )
    changed = await ask(engine, frames, "What changed?")
    assert changed.startswith("At 4.0 seconds the picture changed: before, I saw a cup of coffee")
    assert "now I see a cat" in changed
    ago = await ask(engine, frames, "What did you see 3 seconds ago?", time_s=6.0)
    assert ago.startswith("3 seconds ago, at 3.0 seconds, I saw a cup of coffee")
    assert (await ask(engine, frames, "Is anything moving?", time_s=9.0)).startswith(
        "No, nothing is moving."
    )
    assert (await ask(engine, frames, "What am I holding?")).startswith("It is a cat")


async def test_what_changed_between_two_signs(engine):
    from tests.media import sign

    frames = [frame(sign("OPEN 9-17"), "open", 1.0), frame(sign("CLOSED"), "closed", 4.0)]
    for shown in (frames[:1], frames):
        assert "It says" in await ask(engine, shown, "Read this")
    assert await ask(engine, frames, "What changed?") == (
        "At 4.0 seconds the picture changed: before, I saw text that says “OPEN 9-17”; "
        "now I see text that says “CLOSED”."
    )
    assert await ask(engine, frames, "When did you first see CLOSED?") == (
        "I first saw text that says “CLOSED” at 4.0 seconds."
    )


async def test_a_word_is_looked_for_in_frames_that_were_not_read(engine):
    frames = [frame(photo("sign"), "sign", 1.0), frame(photo("chelsea"), "cat", 4.0)]
    await warm(engine, frames)
    assert await ask(engine, frames, "When did you first see the word OPEN?") == (
        "Let me look closer. I first saw text that says “OPEN 9-17” at 1.0 seconds. "
        "I last saw it at 1.0 seconds."
    )


async def test_motion(engine):
    still = photo("coffee")
    moved = still.copy()
    moved[100:300, 20:150] = 255
    frames = [frame(still, "still", 1.0), frame(moved, "moved", 1.5)]
    assert (await ask(engine, frames, "Is anything moving?")).startswith("Yes, something is moving")
    same = [frame(still, "still", 1.0), frame(webcam(still, quality=90), "again", 1.6)]
    assert await ask(engine, same, "Is anything moving?", session_id="two") == (
        "No, nothing is moving."
    )


async def test_what_was_warmed_is_not_perceived_again(engine):
    frames = [frame(photo("coffee"), "a", 0.5), frame(photo("chelsea"), "b", 1.0)]
    usage = await warm(engine, frames)
    assert (usage.prompt_tokens, usage.cached_tokens) == (2, 0)
    *_, last = await outputs(engine, request(frames, "What do you see?"))
    assert (last.usage.prompt_tokens, last.usage.cached_tokens) == (2, 2)
    assert last.finish_reason == "stop"


async def test_a_cold_question_about_the_past_looks_at_all_frames(engine):
    frames = [frame(photo("coffee"), "a", 0.5), frame(photo("chelsea"), "b", 2.0)]
    assert await ask(engine, frames, "Which came first, the cat or the coffee?") == (
        "The cup of coffee came first, at 0.5 seconds; the cat came after, at 2.0 seconds."
    )


async def test_memory_outlives_the_prompt_but_not_the_session(engine):
    cup, cat = frame(photo("coffee"), "a", 0.5), frame(photo("chelsea"), "b", 2.0)
    await warm(engine, [cup])
    question = "When did you first see coffee?"
    assert (await ask(engine, [cat], question)).startswith("I first saw a cup of coffee")
    assert (await ask(engine, [cat], question, session_id="two")).startswith("I have not seen")
    await engine.forget("one")
    assert (await ask(engine, [cat], question)).startswith("I have not seen any coffee")


async def test_it_says_what_it_can_do_without_any_frame(engine):
    said = await ask(engine, [], "What can you do?")
    assert said.startswith("I am basic vision, not a language model.")
    assert await ask(engine, [], "What do you see?") == "I have not seen anything yet."


async def test_anything_else_gets_what_is_seen(engine):
    said = await ask(engine, [frame(photo("chelsea"), "a", 0.5)], "Who won the cup in 1954?")
    assert said.startswith("I see a cat")
    assert "basic vision, not a language model" in said


def test_time_marks_are_not_the_question():
    asked = request([frame(photo("sign"), "a", 3.2)], "What is this?")
    assert question_text(asked) == "What is this?"
    assert question_text(request([frame(photo("sign"), "a", 3.2)])) == ""


class GatedPerceiver(Perceiver):
    """Looks when it is let; records the order."""

    def __init__(self):
        super().__init__()
        self.looked = []
        self.began = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    def load(self, progress=lambda part: None):
        progress("labels")

    def look(self, rgb, content_id, time_s):
        self.looked.append(content_id)
        self.began.release()
        assert self.go.acquire(timeout=WAIT_S)
        return Note(content_id, time_s)


@pytest.fixture
async def gated():
    perceiver = GatedPerceiver()
    made = EmbeddedEngine(perceiver)
    await made.start()
    yield made, perceiver
    for _ in range(20):
        perceiver.go.release()
    await made.close()


PIXELS = np.zeros((48, 64, 3), np.uint8)


async def began(perceiver):
    assert await asyncio.to_thread(perceiver.began.acquire, True, WAIT_S)


async def test_the_newest_frame_is_perceived_first_and_abort_stops_between_frames(gated):
    engine, perceiver = gated
    frames = [frame(PIXELS, f"{t}", float(t)) for t in range(3)]
    asked = request(frames)
    running = asyncio.create_task(outputs(engine, asked))
    await asyncio.wait_for(asked.submitted.wait(), WAIT_S)
    await began(perceiver)
    await engine.abort(asked.request_id)
    perceiver.go.release()
    (last,) = await asyncio.wait_for(running, WAIT_S)
    assert last.finish_reason == "abort"
    assert perceiver.looked == ["2"]


async def test_a_question_goes_before_another_sessions_warm_up(gated):
    engine, perceiver = gated
    first = asyncio.create_task(outputs(engine, request([frame(PIXELS, "x", 1.0)])))
    await began(perceiver)
    second = asyncio.create_task(
        outputs(engine, request([frame(PIXELS, "warm", 1.0)], session_id="two"))
    )
    await asyncio.sleep(0)
    question = asyncio.create_task(
        outputs(engine, request([frame(PIXELS, "asked", 1.0)], "What is it?", session_id="three"))
    )
    await asyncio.sleep(0)
    for _ in range(3):
        perceiver.go.release()
    await asyncio.wait_for(asyncio.gather(first, second, question), WAIT_S)
    assert perceiver.looked == ["x", "asked", "warm"]


async def test_a_question_joins_the_look_that_a_closed_warm_up_began(gated):
    engine, perceiver = gated
    frames = [frame(PIXELS, "a", 1.0)]
    warming = asyncio.create_task(outputs(engine, request(frames)))
    await began(perceiver)
    warming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await warming
    asking = asyncio.create_task(ask(engine, frames, "What is this?"))
    await asyncio.sleep(0)
    perceiver.go.release()
    assert (await asyncio.wait_for(asking, WAIT_S)).startswith("I am not sure what it is")
    assert perceiver.looked == ["a"]


async def test_a_forgotten_session_keeps_nothing_of_the_look_under_way(gated):
    engine, perceiver = gated
    warming = asyncio.create_task(outputs(engine, request([frame(PIXELS, "a", 1.0)])))
    await began(perceiver)
    await engine.forget("one")
    perceiver.go.release()
    await asyncio.wait_for(warming, WAIT_S)
    assert await ask(engine, [], "What do you see?") == "I have not seen anything yet."


async def test_two_sessions_do_not_see_each_others_frames(engine):
    one, two = frame(photo("coffee"), "same-id", 0.5), frame(photo("chelsea"), "same-id", 0.5)
    said = await asyncio.gather(
        ask(engine, [one], "What is this?", session_id="one"),
        ask(engine, [two], "What is this?", session_id="two"),
    )
    assert said[0].startswith("It is a cup of coffee")
    assert said[1].startswith("It is a cat")


async def test_pixels_are_let_go_once_noted(engine):
    import weakref

    rgb = photo("coffee").copy()
    seen = weakref.ref(rgb)
    await warm(engine, [frame(rgb, "a", 0.5)])
    del rgb
    import gc

    gc.collect()
    assert seen() is None


async def test_before_it_is_loaded_it_says_so():
    engine = EmbeddedEngine(GatedPerceiver())
    assert (await engine.health()).status == "loading"
    with pytest.raises(EngineError) as raised:
        await ask(engine, [], "What do you see?")
    assert raised.value.code == "engine_loading"
    await engine.close()


async def test_a_part_that_is_off_is_named_and_the_rest_works(monkeypatch):
    def broken(*_):
        raise ModelError("labels: file is missing")

    monkeypatch.setattr("core.perception.look.Classifier", broken)
    monkeypatch.setattr("core.perception.look.TextReader", broken)
    engine = EmbeddedEngine()
    await engine.start()
    health = await engine.health()
    assert health.status == "ready"
    assert "labels: file is missing" in health.detail
    frames = [frame(photo("astronaut"), "a", 0.5)]
    assert await ask(engine, frames, "How many people do you see?") == "I see one person."
    assert "cannot read text" in await ask(engine, frames, "What does it say?")
    await engine.close()


async def test_frames_are_read_ahead_while_nobody_asks(perceiver):
    engine = EmbeddedEngine(perceiver)
    await engine.start()
    frames = [frame(photo("sign"), "a", 0.5)]
    await warm(engine, frames)
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*engine.background)
    assert await ask(engine, frames, "What does it say?") == "It says “OPEN 9-17”."
    await engine.close()
