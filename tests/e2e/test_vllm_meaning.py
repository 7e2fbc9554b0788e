"""Shapes before a file camera, and right answers about them: the whole chain with real vLLM.

File camera → Chromium → WebRTC → filter → buffer → warm-up → vLLM with the tiny trained model
→ data channel → the page.
"""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Playwright

from tests.e2e.conftest import Stage, chromium, running_app, wait_until
from tests.engines.conftest import START_S, TINY_VLM
from tests.media import HEIGHT, WIDTH, film, nearest
from tools.tiny_vlm.scenes import Scene, draw

pytestmark = [pytest.mark.e2e, pytest.mark.vllm, pytest.mark.timeout(START_S + 60)]

SCENES = (
    Scene("red", "circle", 1, "left"),
    Scene("blue", "square", 2),
    Scene("green", "triangle", 3),
)
PICTURES = [draw(scene, WIDTH, HEIGHT, seed) for seed, scene in enumerate(SCENES, 11)]
SECONDS = (4.0, 4.0, 60.0)
ENGINE = (
    *("--engine", "vllm", "--model", str(TINY_VLM), "--dtype", "float32"),
    *("--max-model-len", "4096", "--max-images", "32", "--kv-cache-gib", "1"),
    *("--asr", "off", "--tts", "off", "--vad", "off"),
)


@pytest.fixture(scope="module")
def stage(playwright: Playwright, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The page, just after the camera has begun to show the last scene."""
    pytest.importorskip("vllm")
    folder = tmp_path_factory.mktemp("meaning")
    path = film(folder / "shapes.mjpeg", list(zip(PICTURES, SECONDS, strict=True)))
    with (
        running_app(folder / "log.txt", *ENGINE, start_s=START_S) as url,
        chromium(playwright, f"--use-file-for-fake-video-capture={path}") as browser,
    ):
        stage = Stage(browser.new_page(viewport={"width": 1360, "height": 860}), url)
        stage.start()
        wait_until(lambda: shown(stage) == 2, sum(SECONDS[:2]) + 10, "the camera shows triangles")
        time.sleep(1.5)  # well inside the scene
        yield stage


def shown(stage: Stage) -> int | None:
    picture = stage.newest_thumbnail()
    return None if picture is None else nearest(picture, PICTURES)


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("What do you see now?", "three green triangles"),
        ("What colour are they?", "green"),
        ("Which shape is it?", "triangle"),
        ("How many are there?", "three"),
        ("What came first?", "a red circle"),
        ("What changed?", "two blue squares became three green triangles"),
        (
            "List what you saw in order.",
            "a red circle, then two blue squares, then three green triangles",
        ),
    ],
)
def test_right_words_in_the_right_order(stage: Stage, question: str, wanted: str) -> None:
    answer = stage.ask(question)
    assert answer.text == wanted
    assert nearest(answer.frames()[-1][1], PICTURES) == 2


@pytest.mark.parametrize("number", [0, 1])
def test_the_time_of_the_frame_that_showed_it_first(stage: Stage, number: int) -> None:
    answer = stage.ask(f"When did you first see the {SCENES[number].shapes}?")
    frames = answer.frames()
    times = [time_s for time_s, picture in frames if nearest(picture, PICTURES) == number]
    assert answer.text == f"{min(times):.1f} s"


def test_what_was_seen_before_the_question_was_ready(stage: Stage) -> None:
    """The page says of how many tokens the engine had nothing left to do."""
    answer = stage.ask("What do you see now?")
    answer.wait_for("done")
    usage = answer.turn.locator(".usage")
    assert "tokens were ready" in usage.inner_text()
