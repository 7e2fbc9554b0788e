"""A person shows photos to a camera and asks about them: real Chromium, WebRTC, engine."""

import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from playwright.sync_api import Playwright

from tests.e2e.conftest import Stage, chromium, wait_until
from tests.media import film, nearest_photo

pytestmark = pytest.mark.e2e

PHOTOS = ["coffee", "chelsea"]
SCENE_S = 5.0


@pytest.fixture(scope="module")
def stage(
    app_url: str, playwright: Playwright, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    path = film(tmp_path_factory.mktemp("film") / "c.mjpeg", [(p, SCENE_S) for p in PHOTOS])
    with chromium(playwright, f"--use-file-for-fake-video-capture={path}") as browser:
        stage = Stage(browser.new_page(viewport={"width": 1360, "height": 860}), app_url)
        connect_ms = stage.start()
        print(f"\nconnect {connect_ms:.0f} ms")
        yield stage


def show(stage: Stage, name: str) -> None:
    """Wait until the camera has just begun to show a photo, and a moment for it to be kept."""

    def shown() -> str:
        picture = stage.newest_thumbnail()
        return "" if picture is None else nearest_photo(picture, PHOTOS)

    other = PHOTOS[1 - PHOTOS.index(name)]
    wait_until(lambda: shown() == other, 3 * SCENE_S, f"the camera shows {other}")
    wait_until(lambda: shown() == name, 3 * SCENE_S, f"the camera shows {name}")
    time.sleep(1.5)  # the film's own time, not the system's: well inside the scene


def test_the_answer_is_true_of_what_the_camera_shows(stage: Stage) -> None:
    for name, words in (("coffee", ("coffee", "espresso", "cup")), ("chelsea", ("cat",))):
        show(stage, name)
        answer = stage.ask("What do you see?")
        print(f"\n{name}: {answer.text!r} first text {answer.first_text_ms:.0f} ms")
        assert any(word in answer.text.lower() for word in words)
        assert answer.first_text_ms < 500
        frames = answer.frames()
        assert nearest_photo(frames[-1][1], PHOTOS) == name


def test_the_consumed_frames_are_the_ones_that_were_shown(stage: Stage) -> None:
    show(stage, "coffee")
    answer = stage.ask("What changed?")
    frames = answer.frames()
    assert int(answer.turn.get_attribute("data-consumed")) == len(frames)
    times = [at for at, _ in frames]
    assert times == sorted(times)
    shown = [nearest_photo(picture, PHOTOS) for _, picture in frames]
    print(f"\n{answer.text!r} {list(zip(times, shown, strict=True))}")
    assert shown[-1] == "coffee"
    assert "chelsea" in shown
    # Within a run of the same photo, frames lie inside one scene of the film.
    for (before, first), (after, second) in pairwise(zip(times, shown, strict=True)):
        if first == second:
            assert after - before < SCENE_S + 0.5
    assert "cat" in answer.text.lower()


def test_the_order_of_two_photos(stage: Stage) -> None:
    answer = stage.ask("Which came first, the cat or the coffee?")
    print(f"\n{answer.text!r}")
    first_words = answer.text.lower().split("before")[0]
    assert "coffee" in first_words or "espresso" in first_words or "cup" in first_words


def test_an_answer_shows_where_its_time_went(stage: Stage) -> None:
    answer = stage.ask("Is it bright or dark?")
    answer.wait_for("done")
    assert answer.turn.locator(".time-bar").is_visible()
    assert "ms" in answer.turn.inner_text()


def test_nothing_went_wrong_on_the_page(stage: Stage) -> None:
    assert not stage.errors
