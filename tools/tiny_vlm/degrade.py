"""What a camera's way to the model does to pictures: JPEG, and VP8 as in a WebRTC call."""

import io
from collections.abc import Sequence
from fractions import Fraction

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

Picture = NDArray[np.uint8]  # RGB (height, width, 3)


def jpeg(picture: Picture, quality: int) -> Picture:
    """`picture` after JPEG of `quality` 1 to 95; uint8 RGB of the same shape."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", quality=quality)
    return np.asarray(Image.open(buffer).convert("RGB"))


def vp8(film: Sequence[Picture], bit_rate: int, fps: int = 15) -> list[Picture]:
    """`film` after libvpx's real-time VP8 at `bit_rate` bit/s: as many pictures, same shape."""
    height, width = film[0].shape[:2]
    encoder = av.CodecContext.create("libvpx", "w")
    assert isinstance(encoder, av.VideoCodecContext)
    encoder.width, encoder.height = width, height
    encoder.pix_fmt = "yuv420p"
    encoder.bit_rate = bit_rate
    encoder.time_base = Fraction(1, fps)
    encoder.framerate = Fraction(fps)
    encoder.thread_count = 1  # with several, the real-time mode is twenty times slower
    encoder.options = {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}
    decoder = av.CodecContext.create("vp8", "r")
    assert isinstance(decoder, av.VideoCodecContext)
    packets = []
    for index, picture in enumerate(film):
        frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
        frame.pts = index
        packets += encoder.encode(frame)
    packets += encoder.encode(None)
    decoded = [frame for packet in packets for frame in decoder.decode(packet)]
    decoded += decoder.decode(None)
    return [np.asarray(frame.to_ndarray(format="rgb24"), np.uint8) for frame in decoded]
