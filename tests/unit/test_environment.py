"""The protocol's environment variables: rows 26 and 27."""

import logging

import pytest

from core import environment
from core.environment import audio_delta_mode, stream_deltas

pytestmark = pytest.mark.unit

DELTAS = "VLLM_VIDEO_ASYNC_CHUNK"
MODE = "VLLM_VIDEO_AUDIO_DELTA_MODE"


@pytest.fixture(autouse=True)
def _unwarned(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (DELTAS, MODE):
        monkeypatch.delenv(name, raising=False)
    environment._warn_once.cache_clear()


def test_the_defaults() -> None:
    assert stream_deltas()
    assert audio_delta_mode() == "fast"


@pytest.mark.parametrize(
    ("value", "on"), [("on", True), ("off", False), (" OFF \n", False), ("On", True)]
)
def test_values_are_stripped_and_lower_cased(
    monkeypatch: pytest.MonkeyPatch, value: str, on: bool
) -> None:
    monkeypatch.setenv(DELTAS, value)
    assert stream_deltas() is on


def test_the_variable_is_read_at_run_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert audio_delta_mode() == "fast"
    monkeypatch.setenv(MODE, " Slow ")
    assert audio_delta_mode() == "slow"


def test_an_invalid_value_falls_back_with_one_warning_per_value(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for value in ("maybe", "maybe", "perhaps", "maybe"):
        monkeypatch.setenv(DELTAS, value)
        assert stream_deltas()
    monkeypatch.setenv(MODE, "maybe")
    assert audio_delta_mode() == "fast"
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 3
    assert DELTAS in warnings[0]
    assert "maybe" in warnings[0]
    assert "on|off" in warnings[0]
    assert "perhaps" in warnings[1]
    assert MODE in warnings[2]


def test_the_empty_value_is_invalid(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(DELTAS, "")
    assert stream_deltas()
    assert len(caplog.records) == 1
