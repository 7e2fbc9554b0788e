"""The protocol's two environment variables, read at run time."""

import logging
import os
from functools import cache

log = logging.getLogger(__name__)


def stream_deltas() -> bool:
    """`VLLM_VIDEO_ASYNC_CHUNK`: off sends the text once, at the end. Default on."""
    return _choice("VLLM_VIDEO_ASYNC_CHUNK", ("on", "off")) == "on"


def audio_delta_mode() -> str:
    """`VLLM_VIDEO_AUDIO_DELTA_MODE`: fast or slow, equal in effect today. Default fast."""
    return _choice("VLLM_VIDEO_AUDIO_DELTA_MODE", ("fast", "slow"))


def _choice(name: str, allowed: tuple[str, ...]) -> str:
    value = os.environ.get(name, allowed[0]).strip().lower()
    if value in allowed:
        return value
    _warn_once(name, value, allowed)
    return allowed[0]


@cache
def _warn_once(name: str, value: str, allowed: tuple[str, ...]) -> None:
    log.warning("%s=%r is not one of %s; using %s", name, value, "|".join(allowed), allowed[0])
