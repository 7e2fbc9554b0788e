"""Frames: how they come in, wait for their pixels, are held by a turn, and leave."""

import asyncio
import base64
import hashlib
import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, TypeVar

import av
import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps

from core.errors import MediaError
from core.timeline import FrameTimeline

T = TypeVar("T")
Rgb = NDArray[np.uint8]  # height × width × 3

THUMBNAIL_SIDE = 192  # pixels, of the longer side
THUMBNAIL_QUALITY = 70  # JPEG
IMAGE_FORMATS = ("JPEG", "PNG")

# A bomb is refused by our own limit, with our own error, before any pixel is decoded.
Image.MAX_IMAGE_PIXELS = None


class DecodePool:
    """The worker threads that decode, resize and encode; the event loop never does."""

    def __init__(self, workers: int) -> None:
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="decode")

    async def run(self, work: Callable[..., T], *args: object) -> T:
        """`work(*args)` on a worker thread."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, *args)

    def close(self) -> None:
        """Let running work end; start no more."""
        self._executor.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Thumbnail:
    """A small RGB picture of a frame, and the size of the whole frame in pixels."""

    rgb: Rgb
    width: int
    height: int

    def jpeg_base64(self) -> str:
        """The picture as a base64 JPEG, a few KB."""
        out = io.BytesIO()
        Image.fromarray(self.rgb).save(out, "JPEG", quality=THUMBNAIL_QUALITY)
        return base64.b64encode(out.getvalue()).decode("ascii")


class FrameSource(Protocol):
    """Where a frame's pixels come from. Slow: call it on the decode pool."""

    @property
    def nbytes(self) -> int:
        """Bytes that holding it costs."""

    def thumbnail(self) -> Thumbnail:
        """A small picture, longer side at most `THUMBNAIL_SIDE`. Raises `MediaError`."""

    def rgb(self) -> Rgb:
        """All pixels. Raises `MediaError`."""

    def content_id(self, key: bytes) -> str:
        """A keyed hash of the content: no session can name another's cache entry."""


class EncodedImage:
    """A JPEG or PNG file. EXIF orientation is honoured; transparency is dropped."""

    def __init__(self, data: bytes, *, max_pixels: int) -> None:
        self._data = data
        self._max_pixels = max_pixels

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return len(self._data)

    def thumbnail(self) -> Thumbnail:
        """A small picture; a JPEG is decoded at a fraction of its size (scaled DCT)."""
        return self._read(_thumbnail)

    def rgb(self) -> Rgb:
        """All pixels."""
        return self._read(_pixels)

    def content_id(self, key: bytes) -> str:
        """BLAKE2 of the encoded bytes."""
        return hashlib.blake2b(self._data, key=key, digest_size=16).hexdigest()

    def _read(self, read: Callable[[Image.Image], T]) -> T:
        try:
            with Image.open(io.BytesIO(self._data), formats=IMAGE_FORMATS) as image:
                width, height = image.size
                if width * height > self._max_pixels:
                    raise MediaError(
                        "frame_too_many_pixels",
                        f"video.frame: {width}×{height} pixels, the limit is "
                        f"{self._max_pixels / 1e6:.0f} million",
                    )
                return read(image)
        except MediaError:
            raise
        except Exception as error:  # Pillow raises many kinds for broken files
            raise MediaError("invalid_image", f"Invalid image data: {error}") from error


def _pixels(image: Image.Image) -> Rgb:
    if image.mode.startswith("I;16"):  # `convert` would clip it to white
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def _thumbnail(image: Image.Image) -> Thumbnail:
    width, height = image.size
    side = (THUMBNAIL_SIDE, THUMBNAIL_SIDE)
    image.thumbnail(side, Image.Resampling.BILINEAR, reducing_gap=2.0)
    if image.getexif().get(ExifTags.Base.Orientation, 1) >= 5:  # it is shown on its side
        width, height = height, width
    return Thumbnail(_pixels(image), width, height)


class VideoImage:
    """A decoded video frame (YUV or any format of PyAV's), number `number` of its session."""

    def __init__(self, frame: av.VideoFrame, number: int) -> None:
        self._frame = frame
        self._number = number

    @property
    def nbytes(self) -> int:
        """Bytes of its planes."""
        return sum(plane.buffer_size for plane in self._frame.planes)

    def thumbnail(self) -> Thumbnail:
        """A small picture, scaled by swscale straight from the planes."""
        width, height = self._frame.width, self._frame.height
        scale = min(1.0, THUMBNAIL_SIDE / max(width, height))
        small = self._frame.reformat(
            width=max(1, round(width * scale)),
            height=max(1, round(height * scale)),
            format="rgb24",
        )
        return Thumbnail(np.asarray(small.to_ndarray(), np.uint8), width, height)

    def rgb(self) -> Rgb:
        """All pixels."""
        return np.asarray(self._frame.to_ndarray(format="rgb24"), np.uint8)

    def content_id(self, key: bytes) -> str:
        """BLAKE2 of the frame's number: within a session that is its identity."""
        number = self._number.to_bytes(8, "big")
        return hashlib.blake2b(b"video" + number, key=key, digest_size=16).hexdigest()


@dataclass(frozen=True)
class FrameInput:
    """One frame as a transport hands it over; decoded lazily."""

    source: FrameSource
    frame_id: str | None = None
    pts_ms: float | None = None
    source_pts_ms: float | None = None
    capture_ts_ms: float | None = None
    quality_profile: str | None = None
    internal: bool = False  # `frame_id` was given by the server: nobody waits for an ack


class PixelState(Enum):
    """Where a kept frame's pixels are."""

    WAITING = "waiting"
    DECODING = "decoding"
    READY = "ready"
    FAILED = "failed"


class Frame:
    """A kept frame. Its picture is held once and freed when nobody needs it any more."""

    def __init__(
        self, meta: FrameInput, *, content_id: str, time_s: float, timeline: FrameTimeline
    ) -> None:
        self.meta = meta
        self.content_id = content_id
        self.time_s = time_s  # since the session began
        self.number = -1  # of the frames that its buffer has taken
        self.timeline = timeline
        self.state = PixelState.WAITING
        self.rgb: Rgb | None = None
        self.decoded = asyncio.Event()  # READY or FAILED
        self._holds = 0
        self._evicted = False
        self._nbytes = meta.source.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes that it costs now: its file or planes, then its pixels."""
        return self._nbytes

    def finish_decode(self, rgb: Rgb | None, at_s: float) -> None:
        """Its pixels are there, or (None) cannot be had. The encoded source is let go."""
        self.state = PixelState.READY if rgb is not None else PixelState.FAILED
        self.rgb = rgb
        self.timeline.decoded_s = at_s
        self.meta = _without_source(self.meta)
        self._nbytes = rgb.nbytes if rgb is not None else 0
        self.decoded.set()
        self._free_if_unused()

    def hold(self) -> None:
        """A turn or warm-up needs it: its picture outlives eviction."""
        self._holds += 1

    def release(self) -> None:
        """Undo one `hold`."""
        self._holds -= 1
        self._free_if_unused()

    def evict(self) -> None:
        """It has left the buffer."""
        self._evicted = True
        self._free_if_unused()

    @property
    def held(self) -> bool:
        """Whether a turn or warm-up needs it."""
        return self._holds > 0

    @property
    def wanted(self) -> bool:
        """Whether it is in the buffer, or a turn or warm-up needs it."""
        return self.held or not self._evicted

    def _free_if_unused(self) -> None:
        if self._evicted and not self._holds and self.state is not PixelState.DECODING:
            self.rgb = None
            self.meta = _without_source(self.meta)
            self._nbytes = 0


class FrameBuffer:
    """The frames that the next question may be given: bounded in number and bytes."""

    def __init__(self, *, max_frames: int, max_bytes: int, drop_half: bool = False) -> None:
        self.max_frames = max_frames
        self.max_images: int | None = None  # what the engine takes; `resize` applies it
        self._max_bytes = max_bytes
        self.drop_half = drop_half  # append-only prefixes: one big loss instead of many
        self._frames: list[Frame] = []
        self.over_bytes = False  # why frames left last: their bytes, not their number
        self._taken = 0
        self._left: list[Frame] = []

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def frames(self) -> tuple[Frame, ...]:
        """All frames, oldest first."""
        return tuple(self._frames)

    @property
    def nbytes(self) -> int:
        """Bytes of all frames."""
        return sum(frame.nbytes for frame in self._frames)

    @property
    def newest(self) -> int:
        """The number of the last frame taken; -1: none yet."""
        return self._taken - 1

    @property
    def first(self) -> int:
        """The number of the oldest frame in it, or of the next one to come."""
        return self._frames[0].number if self._frames else self._taken

    @property
    def limit(self) -> int:
        """Most frames in it."""
        return min(self.max_frames, self.max_images or self.max_frames)

    def append(self, frame: Frame) -> list[Frame]:
        """Add `frame`; returns the frames that left for it, oldest first."""
        frame.number = self._taken
        self._taken += 1
        left: list[Frame] = []
        if len(self._frames) >= self.limit:
            self.over_bytes = False
            surplus = len(self._frames) - self.limit + 1
            left += self._drop(max(surplus, self.limit // 2 if self.drop_half else 1))
        self._frames.append(frame)
        return left + self._within_bytes()

    def resize(self, max_frames: int, max_images: int | None = None) -> None:
        """Change the number of frames kept; the oldest leave."""
        self.max_frames = max_frames
        self.max_images = max_images
        self._drop(max(0, len(self._frames) - self.limit))

    def account(self) -> list[Frame]:
        """Apply the byte limit after frames have grown by decoding; returns who left."""
        return self._within_bytes()

    def drop_before(self, number: int) -> None:
        """Evict the frames numbered less than `number`."""
        self._drop(sum(frame.number < number for frame in self._frames))

    def take_left(self) -> list[Frame]:
        """The frames that have left since the last call, oldest first."""
        left, self._left = self._left, []
        return left

    def clear(self) -> None:
        """Evict everything."""
        self._drop(len(self._frames))

    def _within_bytes(self) -> list[Frame]:
        left: list[Frame] = []
        while len(self._frames) > 1 and self.nbytes > self._max_bytes:
            self.over_bytes = True
            left += self._drop(len(self._frames) // 2 if self.drop_half else 1)
        return left

    def _drop(self, count: int) -> list[Frame]:
        left, self._frames = self._frames[:count], self._frames[count:]
        for frame in left:
            frame.evict()
        self._left += left
        return left


def spread(count: int, wanted: int) -> list[int]:
    """Indices of `wanted` frames out of `count`, the newest always among them.

    The reference's rule: all if there are few; otherwise 0, s, …, (wanted−2)·s with the
    stride s = max(1, count // wanted), then count−1.
    """
    if count <= wanted:
        return list(range(count))
    stride = max(1, count // wanted)
    return [index * stride for index in range(wanted - 1)] + [count - 1]


class _NoSource:
    """Stands where a frame's source was, or where there never was one."""

    nbytes = 0

    def thumbnail(self) -> Thumbnail:
        raise MediaError("frame_freed", "the frame's data was freed")

    def rgb(self) -> Rgb:
        raise MediaError("frame_freed", "the frame's data was freed")

    def content_id(self, key: bytes) -> str:
        raise MediaError("frame_freed", "the frame's data was freed")


NO_SOURCE = _NoSource()


def _without_source(meta: FrameInput) -> FrameInput:
    return replace(meta, source=NO_SOURCE)
