import numpy as np
import pytest

from core.perception import blossom, colour
from core.perception.note import Box

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("rgb", "name"),
    [
        ((250, 250, 250), "white"),
        ((10, 10, 12), "black"),
        ((128, 128, 128), "grey"),
        ((220, 20, 20), "red"),
        ((142, 31, 11), "red"),  # glazed china
        ((240, 140, 20), "orange"),
        ((219, 141, 81), "orange"),  # a dahlia
        ((140, 80, 40), "brown"),
        ((197, 119, 63), "brown"),  # wood in warm light
        ((145, 106, 77), "brown"),  # fur
        ((250, 220, 30), "yellow"),
        ((30, 160, 40), "green"),
        ((1, 64, 63), "green"),  # leaves in the shade
        ((40, 200, 200), "turquoise"),
        ((30, 60, 200), "blue"),
        ((120, 40, 180), "purple"),
        ((250, 150, 180), "pink"),
        ((230, 205, 170), "beige"),
    ],
)
def test_colours_have_the_names_that_a_person_would_use(rgb, name):
    picture = np.full((4, 4, 3), rgb, np.uint8)
    assert colour.NAMES[colour.name_pixels(picture)[0, 0]] == name


def test_the_subject_is_what_the_border_is_not():
    picture = np.full((480, 640, 3), (30, 120, 40), np.uint8)
    picture[170:310, 250:390] = (220, 20, 20)
    measured = colour.measure(picture)
    assert measured.whole[0][0] == "green"
    assert measured.subject[0][0] == "red"


def test_a_box_says_where_the_subject_is():
    picture = np.full((480, 640, 3), 250, np.uint8)
    picture[:, :100] = (30, 60, 200)
    measured = colour.measure(picture, Box(0.0, 0.0, 0.15, 1.0))
    assert measured.subject[0] == ("blue", pytest.approx(1.0, abs=0.1))


def test_brightness_is_the_mean_luma():
    assert colour.brightness(np.full((60, 80, 3), 51, np.uint8)) == pytest.approx(0.2, abs=0.01)
    assert colour.brightness(np.zeros((60, 80, 3), np.uint8)) == 0.0


def test_a_smooth_ball_on_grass_is_no_flower():
    picture = np.full((120, 160, 3), (30, 120, 40), np.uint8)
    y, x = np.mgrid[:120, :160]
    picture[(x - 80) ** 2 + (y - 60) ** 2 < 35**2] = (230, 120, 20)
    assert blossom.likeness(picture) == 0.0


def test_petals_before_leaves_are_a_flower_and_before_a_wall_are_not():
    picture = np.full((120, 160, 3), (30, 110, 40), np.uint8)
    y, x = np.mgrid[:120, :160]
    disc = (x - 80) ** 2 + (y - 60) ** 2 < 40**2
    petals = ((np.hypot(x - 80, y - 60) // 4 + np.arctan2(y - 60, x - 80) // 0.4) % 2).astype(bool)
    picture[disc & petals] = (250, 90, 140)
    picture[disc & ~petals] = (190, 30, 70)
    assert blossom.likeness(picture) > 0.6
    picture[~disc] = (200, 200, 200)
    assert blossom.likeness(picture) == 0.0
