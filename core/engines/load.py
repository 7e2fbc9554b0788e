"""Engines by name, or by `package.module:factory`."""

from collections.abc import Callable
from importlib import import_module

from core.engines.base import Engine
from core.errors import EngineError
from core.settings import Settings

# Engines that come with us. Like anybody's, a factory takes the settings.
FACTORIES = {
    "embedded": "core.engines.load:embedded",
    "vllm": "core.engines.vllm:create",
    "openai": "core.engines.openai:create",
    "omni": "core.engines.omni:create",
}


def embedded(settings: Settings) -> Engine:
    """The default engine: small vision models on the CPU. It has no settings."""
    from core.engines.embedded import EmbeddedEngine  # its libraries load only for it

    return EmbeddedEngine()


def load_engine(settings: Settings) -> Engine:
    """The engine that `settings.engine` names, not yet started.

    Raises `EngineError` (`unknown_engine`, `engine_import_failed`).
    """
    path = FACTORIES.get(settings.engine, settings.engine)
    module_name, separator, name = path.partition(":")
    if not separator:
        known = ", ".join(sorted(FACTORIES))
        raise EngineError(
            "unknown_engine",
            f"--engine {settings.engine}: is not one of {known} or package.module:factory",
        )
    try:
        factory: Callable[[Settings], Engine] = getattr(import_module(module_name), name)
        if not callable(factory):
            raise TypeError(f"{name} is not callable")
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise EngineError(
            "engine_import_failed", f"--engine {settings.engine}: cannot be loaded: {error}"
        ) from error
    return factory(settings)
