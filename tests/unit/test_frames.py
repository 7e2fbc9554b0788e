"""Frames: choosing, buffering, reading images of every kind, letting pictures go."""

import asyncio
import base64
import io
import struct
import threading
import zlib
from contextlib import suppress
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from core.errors import MediaError
from core.frames import (
    THUMBNAIL_SIDE,
    DecodePool,
    EncodedImage,
    Frame,
    FrameBuffer,
    FrameInput,
    PixelState,
    VideoImage,
    spread,
)
from core.timeline import FrameTimeline
from tests.fakes import BROKEN_JPEG, NOT_AN_IMAGE, WAIT_S, jpeg, picture, png

pytestmark = pytest.mark.unit

KEY = b"k" * 16


def encoded(data: bytes, max_pixels: int = 10_000_000) -> EncodedImage:
    return EncodedImage(data, max_pixels=max_pixels)


def file_of(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


# --- which frames ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "count", "chosen"),
    [
        (2, 5, [0, 4]),
        (1, 3, [2]),
        (8, 3, [0, 1, 2]),
        (2, 3, [0, 2]),
        (4, 5, [0, 1, 2, 4]),
        (1, 5, [4]),
        (8, 5, [0, 1, 2, 3, 4]),
        (4, 50, [0, 12, 24, 49]),
        (4, 0, []),
        (1, 1, [0]),
    ],
)
def test_rows_12_and_13_which_frames_a_question_gets(
    wanted: int, count: int, chosen: list[int]
) -> None:
    assert spread(count, wanted) == chosen


@given(st.integers(0, 300), st.integers(1, 300))
def test_chosen_frames_are_in_order_and_end_with_the_newest(count: int, wanted: int) -> None:
    chosen = spread(count, wanted)
    assert len(chosen) == min(count, wanted)
    assert chosen == sorted(set(chosen))
    assert not count or chosen[-1] == count - 1
    assert all(0 <= index < count for index in chosen)


# --- the buffer -----------------------------------------------------------------------


class Source:
    """A frame source of a given cost."""

    def __init__(self, nbytes: int = 10) -> None:
        self.nbytes = nbytes

    def thumbnail(self) -> Any:
        raise NotImplementedError

    def rgb(self) -> Any:
        raise NotImplementedError

    def content_id(self, key: bytes) -> str:
        raise NotImplementedError


def kept(name: str = "f", nbytes: int = 10) -> Frame:
    frame = Frame(
        FrameInput(Source(nbytes), frame_id=name),
        content_id=name,
        time_s=0.0,
        timeline=FrameTimeline(0.0),
    )
    frame.state = PixelState.DECODING
    return frame


def decoded(name: str = "f", rgb_bytes: int = 12) -> Frame:
    frame = kept(name)
    frame.finish_decode(np.zeros((1, rgb_bytes // 3, 3), np.uint8), 1.0)
    return frame


def names(frames: Any) -> list[str]:
    return [frame.content_id for frame in frames]


def buffer(max_frames: int, *, max_bytes: int = 10_000, drop_half: bool = False) -> FrameBuffer:
    return FrameBuffer(max_frames=max_frames, max_bytes=max_bytes, drop_half=drop_half)


@pytest.mark.parametrize(("drop_half", "left", "stay"), [(False, "0", "1234"), (True, "01", "234")])
def test_row_45_five_frames_at_most_four(drop_half: bool, left: str, stay: str) -> None:
    frames = buffer(4, drop_half=drop_half)
    for name in "0123":
        assert frames.append(kept(name)) == []
    assert names(frames.append(kept("4"))) == list(left)
    assert names(frames.frames) == list(stay)


@given(st.integers(1, 12), st.integers(0, 40), st.booleans())
def test_the_newest_frames_stay_in_order(max_frames: int, count: int, drop_half: bool) -> None:
    frames = buffer(max_frames, drop_half=drop_half)
    left = []
    for index in range(count):
        left += frames.append(kept(str(index)))
        assert 1 <= len(frames) <= max_frames
    assert names(left) + names(frames.frames) == [str(index) for index in range(count)]


def test_the_byte_limit_drops_the_oldest_but_never_the_last() -> None:
    frames = buffer(10, max_bytes=100)
    frames.append(kept("a", 60))
    assert frames.append(kept("b", 30)) == []
    assert frames.nbytes == 90
    assert names(frames.append(kept("c", 30))) == ["a"]
    assert names(frames.append(kept("big", 500))) == ["b", "c"]
    assert names(frames.frames) == ["big"]


def test_frames_that_grow_by_decoding_are_counted_again() -> None:
    frames = buffer(10, max_bytes=100)
    first, second = kept("a", 10), kept("b", 10)
    frames.append(first)
    frames.append(second)
    for frame in (first, second):
        frame.finish_decode(np.zeros((1, 20, 3), np.uint8), 1.0)
    assert names(frames.account()) == ["a"]
    assert first.rgb is None
    assert frames.nbytes == 60


def test_resizing_lets_the_oldest_go() -> None:
    frames = buffer(4)
    for name in "0123":
        frames.append(decoded(name))
    everyone = frames.frames
    frames.resize(2)
    assert names(frames.frames) == ["2", "3"]
    assert [frame.rgb is None for frame in everyone] == [True, True, False, False]
    frames.resize(3)
    frames.append(decoded("4"))
    assert names(frames.frames) == ["2", "3", "4"]


def test_clearing_frees_every_picture() -> None:
    frames = buffer(4)
    everyone = [decoded(name) for name in "012"]
    for frame in everyone:
        frames.append(frame)
    frames.clear()
    assert len(frames) == 0
    assert all(frame.rgb is None and frame.nbytes == 0 for frame in everyone)


def test_a_hold_outlives_eviction_until_it_is_released() -> None:
    frame = decoded()
    frame.hold()
    frame.hold()
    frame.evict()
    assert frame.held
    assert frame.rgb is not None
    frame.release()
    assert frame.rgb is not None
    frame.release()
    assert not frame.held
    assert frame.rgb is None
    assert frame.nbytes == 0


def test_row_19_a_frame_evicted_while_it_is_decoded_is_freed_afterwards() -> None:
    frame = kept()
    frame.evict()
    assert frame.state is PixelState.DECODING
    frame.finish_decode(np.zeros((1, 1, 3), np.uint8), 1.0)
    assert frame.rgb is None
    assert frame.decoded.is_set()


def test_decoding_lets_go_of_the_file_and_failing_of_everything() -> None:
    good, bad = kept("good", 1000), kept("bad", 1000)
    good.finish_decode(np.zeros((2, 2, 3), np.uint8), 5.0)
    assert (good.state, good.nbytes, good.timeline.decoded_s) == (PixelState.READY, 12, 5.0)
    assert good.meta.frame_id == "good"
    with pytest.raises(MediaError) as caught:
        good.meta.source.rgb()
    assert caught.value.code == "frame_freed"
    bad.finish_decode(None, 5.0)
    assert (bad.state, bad.nbytes) == (PixelState.FAILED, 0)
    assert bad.decoded.is_set()


# --- JPEG and PNG files ---------------------------------------------------------------


@pytest.mark.parametrize("data", [jpeg(3, width=161, height=121), png(3, width=33, height=7)])
def test_row_16_pixels_are_those_of_pillow(data: bytes) -> None:
    source = encoded(data)
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert source.rgb().dtype == np.uint8
    assert np.array_equal(source.rgb(), expected)
    assert source.nbytes == len(data)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_honoured(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = jpeg(5, width=320, height=160, exif=exif)
    upright = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    rgb = encoded(data).rgb()
    assert np.array_equal(rgb, np.asarray(upright))
    small = encoded(data).thumbnail()
    assert (small.width, small.height) == upright.size
    assert small.rgb.shape[:2] == ((96, 192) if orientation < 5 else (192, 96))
    expected = upright.resize(small.rgb.shape[1::-1], Image.Resampling.BOX)
    assert np.abs(small.rgb.astype(int) - np.asarray(expected)).mean() < 4


@pytest.mark.parametrize(
    ("image", "kind", "expected"),
    [
        (Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", (255, 0, 0)),
        (Image.new("L", (16, 16), 77), "JPEG", (77, 77, 77)),
        (Image.new("L", (16, 16), 77), "PNG", (77, 77, 77)),
        (Image.new("LA", (16, 16), (77, 0)), "PNG", (77, 77, 77)),
        (Image.new("RGBA", (16, 16), (10, 200, 30, 0)), "PNG", (10, 200, 30)),
        (Image.new("P", (16, 16), 0), "PNG", (0, 0, 0)),
        (Image.new("1", (16, 16), 1), "PNG", (255, 255, 255)),
        (Image.new("RGB", (1, 1), (1, 2, 3)), "PNG", (1, 2, 3)),
        (Image.new("RGB", (4000, 1), (1, 2, 3)), "PNG", (1, 2, 3)),
    ],
)
def test_every_kind_of_picture_becomes_rgb(
    image: Image.Image, kind: str, expected: tuple[int, int, int]
) -> None:
    source = encoded(file_of(image, kind))
    rgb = source.rgb()
    assert rgb.shape == (image.height, image.width, 3)
    assert np.abs(rgb.astype(int) - expected).max() <= 3
    small = source.thumbnail()
    assert np.abs(small.rgb.astype(int) - expected).max() <= 3
    assert (small.width, small.height) == image.size


def test_sixteen_bit_grey_keeps_its_shades() -> None:
    ramp = np.linspace(0, 65535, 64, dtype=np.uint16).reshape(8, 8)
    rgb = encoded(file_of(Image.fromarray(ramp))).rgb()
    assert np.abs(rgb[..., 0].astype(int) - (ramp >> 8)).max() <= 1


def test_an_animation_is_its_first_picture() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    data = file_of(frames[0], save_all=True, append_images=frames[1:], duration=100)
    assert encoded(data).rgb()[0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("kind", ["GIF", "BMP", "WEBP", "TIFF"])
def test_other_formats_are_refused(kind: str) -> None:
    with pytest.raises(MediaError) as caught:
        encoded(file_of(Image.new("RGB", (8, 8)), kind)).rgb()
    assert caught.value.code == "invalid_image"


def png_header(width: int, height: int) -> bytes:
    """A PNG that promises a size and has a few bytes of pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    ihdr = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    idat = zlib.compress(b"\0" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", ihdr) + chunk(b"IDAT", idat) + chunk(b"IEND", b"")


@pytest.mark.parametrize("read", ["rgb", "thumbnail"])
def test_a_decompression_bomb_is_refused_by_its_header(read: str) -> None:
    source = encoded(png_header(60_000, 60_000), max_pixels=40_000_000)
    with pytest.raises(MediaError) as caught:
        getattr(source, read)()
    assert caught.value.code == "frame_too_many_pixels"
    assert "60000×60000" in caught.value.message
    assert "40 million" in caught.value.message


def test_the_pixel_limit_is_inclusive() -> None:
    data = png(width=20, height=10)
    assert encoded(data, 200).rgb().shape == (10, 20, 3)
    with pytest.raises(MediaError):
        encoded(data, 199).rgb()


@pytest.mark.parametrize(
    "data",
    [b"", NOT_AN_IMAGE, BROKEN_JPEG, jpeg()[:100], png()[:60], png_header(20, 30_000), b"\xff\xd8"],
)
def test_broken_files_are_media_errors(data: bytes) -> None:
    with pytest.raises(MediaError) as caught:
        encoded(data).rgb()
    assert caught.value.code == "invalid_image"


GOOD_FILES = [
    jpeg(1),
    png(1),
    jpeg(1, progressive=True),
    jpeg(2, exif=b"Exif\0\0II*\0" + b"\1" * 9),
]
MUTATIONS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=8)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(GOOD_FILES), st.floats(0, 1), MUTATIONS)
def test_mutated_files_give_pixels_or_a_media_error(
    data: bytes, keep: float, mutations: list[tuple[int, int]]
) -> None:
    changed = bytearray(data[: round(len(data) * keep)])
    for place, value in mutations:
        if changed:
            changed[place % len(changed)] = value
    source = encoded(bytes(changed), 1_000_000)
    for read in (source.rgb, lambda: source.thumbnail().rgb):
        with suppress(MediaError):
            rgb = read()
            assert rgb.dtype == np.uint8
            assert rgb.ndim == 3
            assert rgb.shape[2] == 3


@pytest.mark.parametrize(
    ("size", "small"),
    [
        ((640, 480), (192, 144)),
        ((480, 640), (144, 192)),
        ((1920, 1080), (192, 108)),
        ((100, 50), (100, 50)),
        ((193, 10), (192, 10)),
        ((4000, 2), (192, 1)),
    ],
)
@pytest.mark.parametrize("make", [jpeg, png])
def test_a_thumbnail_keeps_the_aspect_and_knows_the_size(
    make: Any, size: tuple[int, int], small: tuple[int, int]
) -> None:
    thumbnail = encoded(make(4, width=size[0], height=size[1])).thumbnail()
    assert (thumbnail.width, thumbnail.height) == size
    assert thumbnail.rgb.shape == (small[1], small[0], 3)


def test_a_thumbnail_knows_the_size_of_an_almost_square_picture() -> None:
    thumbnail = encoded(jpeg(width=999, height=1000)).thumbnail()
    assert (thumbnail.width, thumbnail.height) == (999, 1000)


def test_a_thumbnail_shows_the_picture_and_is_a_jpeg_of_a_few_kilobytes() -> None:
    thumbnail = encoded(jpeg(6, width=640, height=480)).thumbnail()
    expected = Image.fromarray(picture(6, 640, 480)).resize((192, 144), Image.Resampling.BOX)
    assert np.abs(thumbnail.rgb.astype(int) - np.asarray(expected)).mean() < 4
    data = base64.b64decode(thumbnail.jpeg_base64())
    assert len(data) < 20_000
    assert Image.open(io.BytesIO(data)).size == (192, 144)


# --- frames of a camera track ---------------------------------------------------------


@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuvj420p", "rgb24", "nv12"])
@pytest.mark.parametrize("size", [(640, 480), (641, 479), (322, 182), (63, 65), (2, 2), (480, 640)])
def test_a_video_frame_gives_its_pixels_whatever_its_format(
    pix_fmt: str, size: tuple[int, int]
) -> None:
    width, height = size
    original = picture(8, width, height)
    source = VideoImage(av.VideoFrame.from_ndarray(original).reformat(format=pix_fmt), 1)
    rgb = source.rgb()
    assert rgb.shape == (height, width, 3)
    assert rgb.dtype == np.uint8
    difference = np.abs(rgb.astype(int) - original)
    assert difference.mean() < (6 if min(size) > 8 else 40)
    small = source.thumbnail()
    assert (small.width, small.height) == size
    assert max(small.rgb.shape[:2]) == min(THUMBNAIL_SIDE, max(size))
    assert small.rgb.shape[1] / small.rgb.shape[0] == pytest.approx(width / height, rel=0.02)


def test_full_and_limited_range_look_the_same() -> None:
    frame = av.VideoFrame.from_ndarray(picture(8, 320, 240))
    limited, full = (
        VideoImage(frame.reformat(format=name), 1).rgb().astype(int)
        for name in ("yuv420p", "yuvj420p")
    )
    assert np.abs(limited - full).mean() < 4


def test_a_video_frame_costs_its_planes() -> None:
    frame = av.VideoFrame.from_ndarray(picture(0, 640, 480)).reformat(format="yuv420p")
    assert VideoImage(frame, 1).nbytes == pytest.approx(640 * 480 * 1.5, rel=0.1)


# --- content ids ----------------------------------------------------------------------


def video_image(number: int) -> VideoImage:
    return VideoImage(av.VideoFrame(16, 16, "yuv420p"), number)


def test_content_ids_are_stable_within_a_session_and_keyed() -> None:
    other_key = b"o" * 16
    for one, another in (
        (encoded(jpeg(1)), encoded(jpeg(2))),
        (video_image(1), video_image(2)),
    ):
        assert one.content_id(KEY) == one.content_id(KEY)
        assert one.content_id(KEY) != one.content_id(other_key)
        assert one.content_id(KEY) != another.content_id(KEY)
    assert encoded(jpeg(1)).content_id(KEY) == encoded(jpeg(1)).content_id(KEY)


# --- the pool -------------------------------------------------------------------------


async def test_the_pool_works_off_the_event_loop_and_passes_errors_on() -> None:
    pool = DecodePool(1)
    try:
        async with asyncio.timeout(WAIT_S):
            assert await pool.run(threading.get_ident) != threading.get_ident()
            with pytest.raises(MediaError):
                await pool.run(encoded(NOT_AN_IMAGE).rgb)
    finally:
        pool.close()
