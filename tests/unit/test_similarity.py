"""Frame filters: what they keep, what they drop, and what they say of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from core.frames import Rgb, Thumbnail
from core.protocol import SessionConfig
from core.similarity import (
    BlockFilter,
    Decision,
    FrameFilter,
    KeepAll,
    ReferenceFilter,
    make_filter,
)

pytestmark = pytest.mark.unit

WIDTH, HEIGHT = 192, 144


class Picture:
    """A frame source that is its own thumbnail."""

    nbytes = 0

    def __init__(self, rgb: Rgb) -> None:
        self._rgb = rgb

    def thumbnail(self) -> Thumbnail:
        return Thumbnail(self._rgb, self._rgb.shape[1], self._rgb.shape[0])

    def rgb(self) -> Rgb:
        return self._rgb

    def content_id(self, key: bytes) -> str:
        return ""


def shown(frame_filter: FrameFilter, rgb: Rgb, time_s: float = 0.0) -> Decision:
    source = Picture(np.clip(rgb, 0, 255).astype(np.uint8))
    return frame_filter.decide(frame_filter.features(source, source.thumbnail()), time_s)


def grey(level: int, width: int = WIDTH, height: int = HEIGHT) -> Rgb:
    return np.full((height, width, 3), level, np.uint8)


def room(seed: int = 0) -> Rgb:
    """A scene with smooth light, edges and texture, from 30 to 200."""
    rng = np.random.default_rng(seed)
    small = rng.integers(30, 200, (6, 8, 3), np.uint8)
    scene = Image.fromarray(small).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(scene)
    draw.rectangle((20, 20, 70, 120), fill=(90, 60, 40))
    draw.ellipse((110, 30, 160, 80), fill=(60, 110, 150))
    return np.asarray(scene)


def noisy(rgb: Rgb, sigma: float, seed: int) -> Rgb:
    noise = np.random.default_rng(seed).normal(0, sigma, rgb.shape)
    return np.clip(rgb + noise, 0, 255).astype(np.uint8)


# --- the released filter, number for number -------------------------------------------


def similarity(before: Rgb, now: Rgb) -> float:
    """What the reference filter makes of two pictures."""
    frame_filter = ReferenceFilter(threshold=0.0)
    shown(frame_filter, before)
    score = shown(frame_filter, now).score
    assert score is not None
    return 1.0 - score


def test_the_first_frame_is_kept_unseen() -> None:
    assert shown(ReferenceFilter(), grey(0)) == Decision(True, "first", None)


@pytest.mark.parametrize("step", [0, 1, 10, 57, 58, 255])
def test_similarity_is_one_minus_mse_over_255_squared(step: int) -> None:
    assert similarity(grey(0), grey(step)) == pytest.approx(1 - (step / 255) ** 2, abs=1e-12)


def test_f9_a_fifth_of_the_picture_at_100_grey_scores_0_97() -> None:
    with_object = grey(100, 640, 480)
    with_object[:, :128] = 200
    score = similarity(grey(100, 640, 480), with_object)
    assert score == pytest.approx(0.97, abs=0.003)  # 1 − 0.2·(100/255)²: blind at 0.95
    assert not shown_after(ReferenceFilter(), grey(100, 640, 480), with_object).kept


def shown_after(frame_filter: FrameFilter, before: Rgb, now: Rgb) -> Decision:
    shown(frame_filter, before)
    return shown(frame_filter, now)


def test_at_the_threshold_it_is_dropped() -> None:
    before, now = grey(0), grey(51)
    exact = similarity(before, now)
    assert shown_after(ReferenceFilter(exact), before, now) == Decision(False, "still", 1 - exact)
    above = float(np.nextafter(exact, 2))
    assert shown_after(ReferenceFilter(above), before, now).kept


def test_it_compares_with_the_last_frame_that_was_kept() -> None:
    frame_filter = ReferenceFilter(0.95)
    decisions = [shown(frame_filter, grey(level)).kept for level in (0, 50, 57, 60, 100, 118)]
    assert decisions == [True, False, False, True, False, True]


def test_the_size_and_aspect_do_not_matter() -> None:
    assert similarity(grey(10, 640, 480), grey(10, 31, 17)) == 1.0


def test_resizing_is_pillow_s_bilinear() -> None:
    before, now = room(1), room(2)

    def small(rgb: Rgb) -> np.ndarray:
        return np.asarray(Image.fromarray(rgb).resize((64, 64), Image.Resampling.BILINEAR), float)

    expected = 1 - ((small(before) - small(now)) ** 2).mean() / 255**2
    assert similarity(before, now) == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 255), st.integers(0, 255), st.floats(0, 1))
def test_kept_means_less_similar_than_the_threshold(a: int, b: int, threshold: float) -> None:
    decision = shown_after(ReferenceFilter(threshold), grey(a, 64, 64), grey(b, 64, 64))
    assert decision.score is not None
    assert decision.kept == (1.0 - decision.score < threshold)
    assert decision.reason == ("changed" if decision.kept else "still")


# --- ours -----------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0, 3, 8, 15])
def test_a_still_scene_is_dropped_however_noisy(sigma: float) -> None:
    frame_filter = BlockFilter(max_gap_s=100)
    assert shown(frame_filter, noisy(room(), sigma, 0)) == Decision(True, "first", None)
    for index in range(1, 30):
        decision = shown(frame_filter, noisy(room(), sigma, index), index / 10)
        assert (decision.kept, decision.reason) == (False, "still")
        assert decision.score is not None
        assert decision.score < 0.5


def with_object(rgb: Rgb) -> Rgb:
    """A cup-sized thing: 3 % of the picture."""
    changed = rgb.copy()
    changed[60:90, 85:115] = (220, 60, 40)
    return changed


@pytest.mark.parametrize("sigma", [0, 3, 8])
def test_a_small_object_is_seen_and_its_leaving_too(sigma: float) -> None:
    frame_filter = BlockFilter(max_gap_s=100)
    shown(frame_filter, noisy(room(), sigma, 0))
    for index, scene in enumerate((with_object(room()), room()), 1):
        decision = shown(frame_filter, noisy(scene, sigma, index), index / 10)
        assert (decision.kept, decision.reason) == (True, "changed")
        assert decision.score is not None
        assert decision.score >= 0.5


def test_a_line_of_text_on_a_page_is_seen() -> None:
    page = Image.new("RGB", (WIDTH, HEIGHT), "white")
    written = page.copy()
    ImageDraw.Draw(written).text(
        (10, 60), "the third line of this page", "black", ImageFont.load_default(size=10)
    )
    decision = shown_after(BlockFilter(max_gap_s=100), np.asarray(page), np.asarray(written))
    assert (decision.kept, decision.reason) == (True, "changed")


def test_f9_a_page_that_fills_with_text_and_a_pan_are_seen_by_ours_only() -> None:
    page = Image.new("RGB", (WIDTH, HEIGHT), "white")
    written = page.copy()
    ImageDraw.Draw(written).multiline_text(
        (5, 5), "\n".join(["what fills a page"] * 4), "black", ImageFont.load_default(size=10)
    )
    for before, now in (
        (np.asarray(page), np.asarray(written)),
        (room(), np.roll(room(), 4, axis=1)),
    ):
        assert 0.95 < similarity(before, now) < 1
        assert not shown_after(ReferenceFilter(), before, now).kept
        assert shown_after(BlockFilter(max_gap_s=100), before, now).kept


def test_another_colour_of_the_same_brightness_is_seen() -> None:
    scene = room()
    changed = scene.copy()
    changed[60:90, 85:115, 0] = np.clip(scene[60:90, 85:115, 0].astype(int) + 80, 0, 255)
    changed[60:90, 85:115, 1] = np.clip(scene[60:90, 85:115, 1].astype(int) - 41, 0, 255)
    assert shown_after(BlockFilter(max_gap_s=100), scene, changed).kept


@pytest.mark.parametrize("step", [-20, -8, 8, 20])
def test_a_step_of_brightness_is_compensated(step: int) -> None:
    scene = room()
    lit = np.clip(scene.astype(int) + step, 0, 255).astype(np.uint8)
    assert shown_after(BlockFilter(max_gap_s=100), scene, lit).reason == "still"


@pytest.mark.parametrize("gain", [0.85, 0.93, 1.07, 1.15])
def test_another_exposure_is_compensated(gain: float) -> None:
    scene = room()
    lit = np.clip(scene * gain, 0, 255).astype(np.uint8)
    assert shown_after(BlockFilter(max_gap_s=100), scene, lit).reason == "still"


def test_an_object_is_seen_through_another_exposure() -> None:
    lit = np.clip(with_object(room()) * 1.1, 0, 255).astype(np.uint8)
    assert shown_after(BlockFilter(max_gap_s=100), room(), lit).kept


@pytest.mark.parametrize("gain", [0.3, 0.5])
def test_a_light_that_is_switched_is_seen(gain: float) -> None:
    dark = (room() * gain).astype(np.uint8)
    assert shown_after(BlockFilter(max_gap_s=100), room(), dark).reason == "changed"
    assert shown_after(BlockFilter(max_gap_s=100), dark, room()).reason == "changed"


def test_a_frame_is_kept_at_least_every_max_gap() -> None:
    frame_filter = BlockFilter(max_gap_s=5)
    decisions = [shown(frame_filter, room(), time_s) for time_s in (0, 4.9, 5.0, 9.9, 10.0, 12)]
    assert [d.reason for d in decisions] == [
        "first",
        "still",
        "max_gap",
        "still",
        "max_gap",
        "still",
    ]


def test_a_change_that_comes_too_early_is_kept_later() -> None:
    frame_filter = BlockFilter(max_gap_s=100, max_rate_hz=2)
    times_s = (0, 0.1, 0.3, 0.5, 0.7)
    scenes = (room(), with_object(room()), with_object(room()), with_object(room()), room())
    reasons = [
        shown(frame_filter, scene, time_s).reason
        for scene, time_s in zip(scenes, times_s, strict=True)
    ]
    assert reasons == ["first", "rate", "rate", "changed", "rate"]


def test_the_kept_rate_is_capped_while_everything_moves() -> None:
    frame_filter = BlockFilter(max_gap_s=5, max_rate_hz=2)
    kept = [shown(frame_filter, room(index), index / 10).kept for index in range(100)]
    assert sum(kept) == pytest.approx(20, abs=1)


@given(st.integers(0, 255), st.integers(0, 255))
def test_flat_pictures_of_any_level_are_compared_without_fault(a: int, b: int) -> None:
    decision = shown_after(BlockFilter(), grey(a), grey(b))
    assert decision.score is not None
    assert 0 <= decision.score < 1
    assert decision.kept == (decision.reason == "changed")
    assert decision.kept or abs(a - b) < 60


@pytest.mark.parametrize("size", [(1, 1), (1, 192), (192, 1), (7, 5)])
def test_tiny_pictures_are_compared_too(size: tuple[int, int]) -> None:
    frame_filter = BlockFilter()
    assert shown(frame_filter, grey(10, *size)).kept
    assert not shown(frame_filter, grey(10, *size)).kept


# --- which filter ---------------------------------------------------------------------


def test_off_keeps_everything() -> None:
    frame_filter = make_filter(SessionConfig(enable_frame_filter=False), max_rate_hz=2)
    assert isinstance(frame_filter, KeepAll)
    assert shown(frame_filter, room()) == Decision(True, "off", None)
    assert shown(frame_filter, room()) == Decision(True, "off", None)


def test_a_named_threshold_chooses_the_reference_filter_with_it() -> None:
    step_50 = (grey(0), grey(50))  # similarity 0.9616
    strict = make_filter(SessionConfig(frame_filter_threshold=0.97), max_rate_hz=None)
    default = make_filter(SessionConfig(frame_filter="reference"), max_rate_hz=None)
    zero = make_filter(SessionConfig(frame_filter_threshold=0.0), max_rate_hz=None)
    assert all(isinstance(f, ReferenceFilter) for f in (strict, default, zero))
    assert shown_after(strict, *step_50).kept
    assert not shown_after(default, *step_50).kept
    assert not shown_after(zero, grey(0), grey(254)).kept


def test_by_default_ours_with_the_session_s_gap_and_rate() -> None:
    config = SessionConfig(frame_filter_max_gap_s=2)
    frame_filter = make_filter(config, max_rate_hz=1)
    assert isinstance(frame_filter, BlockFilter)
    assert shown(frame_filter, room(), 0).reason == "first"
    assert shown(frame_filter, with_object(room()), 0.5).reason == "rate"
    assert shown(frame_filter, room(), 1.9).reason == "still"
    assert shown(frame_filter, room(), 2.0).reason == "max_gap"
