"""Test-only: lets a CUDA build of torchvision be imported beside a CPU build of torch.

Such a torchvision cannot load its compiled operators, and stops at the first of them that it
names. Here their names are defined before it is imported, so that its Python part, which is
all that image processors need, works. Calling an operator fails, as it would without.

It is a `sitecustomize` so that worker processes have it too: put this folder on PYTHONPATH.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

OPERATORS = (
    "nms",
    "qnms",
    "roi_align",
    "qroi_align",
    "_roi_align_backward",
    "ps_roi_align",
    "_ps_roi_align_backward",
    "roi_pool",
    "_roi_pool_backward",
    "ps_roi_pool",
    "_ps_roi_pool_backward",
    "deform_conv2d",
    "_deform_conv2d_backward",
)


class OperatorNames(MetaPathFinder):
    """Finds nothing; when torchvision is looked for, defines its operators' names first."""

    def __init__(self) -> None:
        self._library: Any = None  # of torch; the definitions live as long as it does

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "torchvision" and self._library is None:
            import torch

            self._library = torch.library.Library("torchvision", "DEF")
            for name in OPERATORS:
                self._library.define(f"{name}(Tensor x) -> Tensor")
        return None


sys.meta_path.insert(0, OperatorNames())
