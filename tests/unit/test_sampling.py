"""Sampling parameters of each engine stage: protocol rows 3 to 7."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from core.engines.base import EngineInfo
from core.engines.sampling import SamplingParams, stage_sampling
from core.errors import ProtocolError
from core.protocol import SessionConfig
from tests.fakes import Harness, ScriptedEngine, frame

pytestmark = pytest.mark.unit

THREE_STAGES = EngineInfo("s", "s", "", stages=("thinker", "talker", "code2wav"))


@pytest.mark.parametrize("overrides", [None, []])
@pytest.mark.parametrize("stages", [1, 3])
def test_row_6_nothing_given_leaves_every_stage_to_the_engine(
    overrides: list[dict[str, Any]] | None, stages: int
) -> None:
    assert stage_sampling(overrides, stages) == (None,) * stages


def test_row_3_one_entry_per_stage_the_rest_is_the_engine_s() -> None:
    thinker = stage_sampling([{"temperature": 0.5}], 3)
    assert thinker == (SamplingParams(temperature=0.5), None, None)
    everyone = stage_sampling([{"top_k": 1}, {"top_k": 2}, {"top_k": 3}], 3)
    assert [params and params.top_k for params in everyone] == [1, 2, 3]


def test_an_empty_entry_leaves_its_stage_to_the_engine() -> None:
    assert stage_sampling([{}, {"seed": 7}], 3) == (None, SamplingParams(seed=7), None)


def test_entries_past_the_last_stage_are_ignored() -> None:
    assert stage_sampling([{"seed": 1}, {"temperature": -1}], 1) == (SamplingParams(seed=1),)


def test_row_4_every_object_asks_for_deltas_and_is_one_of_its_own() -> None:
    first = stage_sampling([{"temperature": 0.5}], 1)[0]
    second = stage_sampling([{"temperature": 0.5}], 1)[0]
    assert first is not None
    assert first is not second
    assert first.output_kind == "delta"
    with pytest.raises(ValidationError):
        first.temperature = 2  # type: ignore[misc]


def test_row_5_what_is_left_out_takes_the_constructor_s_defaults() -> None:
    [params] = stage_sampling([{"temperature": 0.5}], 1)
    assert params is not None
    assert params.model_dump() == SamplingParams().model_dump() | {"temperature": 0.5}


@pytest.mark.parametrize(
    "entry",
    [
        {"temperature": -1},
        {"temperature": "hot"},
        {"max_tokens": 0},
        {"unheard_of": 1},
        {"top_p": 0},
        {"top_p": 1.1},
        {"output_kind": "cumulative"},
        {"stop": 5},
    ],
)
def test_row_7_what_is_wrong_is_named(entry: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError) as caught:
        stage_sampling([entry], 1)
    assert caught.value.code == "invalid_sampling_params"
    assert next(iter(entry)) in caught.value.message


JSON = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())


@settings(max_examples=50)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(list(SamplingParams.model_fields)) | st.text(), JSON),
        max_size=4,
    )
)
def test_arbitrary_overrides_never_raise_anything_but_a_protocol_error(
    overrides: list[dict[str, Any]],
) -> None:
    with suppress(ProtocolError):
        assert len(stage_sampling(overrides, 3)) == 3


@pytest.mark.parametrize("deltas", ["on", "off"])
@pytest.mark.parametrize("entries", [1, 3])
async def test_row_3_the_engine_is_asked_once_with_one_object_per_stage(
    monkeypatch: pytest.MonkeyPatch, deltas: str, entries: int
) -> None:
    monkeypatch.setenv("VLLM_VIDEO_ASYNC_CHUNK", deltas)
    config = SessionConfig(
        enable_frame_filter=False, sampling_params_list=[{"temperature": 0.25}] * entries
    )
    async with Harness(ScriptedEngine(info=THREE_STAGES), config) as h:
        h.session.frame(frame())
        h.session.ask("?")
        await h.client.until("response.done")
    [request] = h.engine.requests
    expected = [SamplingParams(temperature=0.25)] * entries + [None] * (3 - entries)
    assert list(request.sampling) == expected
