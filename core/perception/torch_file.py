"""Reads the tensors of a PyTorch state dict without PyTorch, and without running its code.

The file is a pickle; this unpickler knows five harmless names and refuses every other, so
a tampered file cannot run anything. Format: the legacy (pre-zip) one of `torch.save`.
"""

import collections
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAGIC = 0x1950A86A20F9469CFC6C
FORMAT_VERSION = 1001
DTYPES: Mapping[str, type[np.generic]] = {"FloatStorage": np.float32, "LongStorage": np.int64}


class TorchFileError(Exception):
    """The file is not a state dict that this reader knows."""


class _Storage(NamedTuple):
    """A named run of values, stored after the pickles."""

    key: str
    dtype: type[np.generic]


class _Tensor:
    """A view of a storage, as the pickle describes it."""

    def __init__(
        self,
        storage: _Storage,
        offset: int,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        *_: object,
    ) -> None:
        self.storage, self.offset, self.size, self.stride = storage, offset, size, stride

    def view(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values that this tensor shows. Raises `TorchFileError` if out of bounds."""
        last = self.offset + sum(
            (n - 1) * step for n, step in zip(self.size, self.stride, strict=True)
        )
        if self.offset < 0 or min((*self.size, *self.stride, 0)) < 0 or last >= values.size:
            raise TorchFileError("a tensor reaches outside its storage")
        strides = [step * values.itemsize for step in self.stride]
        return np.lib.stride_tricks.as_strided(values[self.offset :], self.size, strides).copy()


class _Unpickler(pickle.Unpickler):
    """Builds tensors' descriptions; refuses every class but those listed."""

    _ALLOWED: Mapping[tuple[str, str], Any] = {
        ("collections", "OrderedDict"): collections.OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2"): _Tensor,
        ("torch", "FloatStorage"): "FloatStorage",
        ("torch", "LongStorage"): "LongStorage",
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._ALLOWED[module, name]
        except KeyError:
            raise TorchFileError(f"refused {module}.{name}") from None

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, _device, _count, view = pid
        if kind != "storage" or view is not None:
            raise TorchFileError("unknown storage")
        return _Storage(str(key), DTYPES[dtype])


def read_state_dict(path: Path) -> dict[str, NDArray[Any]]:
    """Tensors by name. Raises `TorchFileError` or `OSError`."""
    with path.open("rb") as file:
        try:
            return _read(file)
        except (TorchFileError, OSError):
            raise
        except Exception as error:  # a broken pickle raises many kinds
            raise TorchFileError(f"not a PyTorch state dict: {error}") from error


def _read(file: BinaryIO) -> dict[str, NDArray[Any]]:
    if (_Unpickler(file).load(), _Unpickler(file).load()) != (MAGIC, FORMAT_VERSION):
        raise TorchFileError("not a legacy PyTorch file")
    if not _Unpickler(file).load()["little_endian"]:
        raise TorchFileError("big-endian")
    tensors: dict[str, _Tensor] = _Unpickler(file).load()
    keys: list[str] = _Unpickler(file).load()
    dtypes = {tensor.storage.key: tensor.storage.dtype for tensor in tensors.values()}
    storages: dict[str, NDArray[Any]] = {}
    for key in keys:
        count = int(np.frombuffer(file.read(8), "<i8")[0])
        dtype = np.dtype(dtypes[key])
        storages[key] = np.frombuffer(file.read(count * dtype.itemsize), dtype)
    return {name: tensor.view(storages[tensor.storage.key]) for name, tensor in tensors.items()}
