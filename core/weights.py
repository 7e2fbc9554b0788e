"""Model weights: where the files are, that they are the right ones, and how they are run.

Weights come inside packages of the registry, or lie in this folder. Each file is compared
with its SHA-256 before it is used; nothing of those packages is imported.
"""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import onnxruntime


class ModelError(Exception):
    """A model cannot be used; the message says which, why and what to do."""


@dataclass(frozen=True)
class WeightsFile:
    """A file of weights: in the installed `package`, or (None) in `core/`."""

    what: str  # for a person
    package: str | None
    path: str  # inside the package or this folder
    sha256: str
    requirement: str = ""

    def find(self) -> Path:
        """The verified file. Raises `ModelError`."""
        path = self._folder() / self.path
        if not path.is_file():
            raise ModelError(f"{self.what}: {path} is missing{self._remedy()}")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != self.sha256:
            raise ModelError(
                f"{self.what}: {path} is not the expected file: its SHA-256 is "
                f"{found[:12]}…, expected {self.sha256[:12]}…{self._remedy()}"
            )
        return path

    def _folder(self) -> Path:
        if self.package is None:
            return Path(__file__).parent
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise ModelError(f"{self.what}: {self.package} is not installed{self._remedy()}")
        return Path(spec.submodule_search_locations[0])

    def _remedy(self) -> str:
        return f"; install {self.requirement}" if self.requirement else ""


def run_session(what: str, model: bytes | Path) -> onnxruntime.InferenceSession:
    """A session that uses one thread and does not spin. Raises `ModelError`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(
            model if isinstance(model, bytes) else str(model),
            options,
            providers=["CPUExecutionProvider"],
        )
    except Exception as error:
        raise ModelError(f"{what}: cannot be loaded: {error}") from error
