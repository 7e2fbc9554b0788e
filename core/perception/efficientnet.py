"""EfficientNet-Lite as an ONNX graph, built from the tensors of its PyTorch checkpoint.

Architecture: Tan & Le 2019 (EfficientNet) without squeeze-and-excitation and with ReLU6.
Batch normalisation is folded into the convolutions.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

STAGE_STRIDES = (1, 2, 2, 2, 1, 2, 1)
BATCH_NORM_EPSILON = 1e-3
CLASSES = 1000
OPSET, IR_VERSION = 17, 8

Tensors = Mapping[str, NDArray[Any]]


class _Graph:
    """Nodes and weights under construction."""

    def __init__(self, tensors: Tensors) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._tensors = tensors
        self._convolutions = 0
        self.weight("zero", np.array(0, np.float32))
        self.weight("six", np.array(6, np.float32))

    def weight(self, name: str, values: NDArray[Any]) -> str:
        """Add a constant; returns its name."""
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values, np.float32), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node; returns the name of its output."""
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def convolution(
        self, x: str, kernel: str, norm: str, *, stride: int = 1, depthwise: bool = False
    ) -> str:
        """A convolution with its batch normalisation folded in."""
        weight = self._tensors[kernel + ".weight"].astype(np.float64)
        variance = self._tensors[norm + ".running_var"].astype(np.float64)
        gain = self._tensors[norm + ".weight"] / np.sqrt(variance + BATCH_NORM_EPSILON)
        bias = self._tensors[norm + ".bias"] - self._tensors[norm + ".running_mean"] * gain
        self._convolutions += 1
        name = f"conv{self._convolutions}"
        inputs = [
            x,
            self.weight(name + ".weight", weight * gain[:, None, None, None]),
            self.weight(name + ".bias", bias),
        ]
        return self.node(
            "Conv",
            inputs,
            name,
            kernel_shape=list(weight.shape[2:]),
            strides=[stride, stride],
            group=weight.shape[0] if depthwise else 1,
            auto_pad="SAME_UPPER",
        )

    def relu6(self, x: str) -> str:
        """Values cut to 0 … 6."""
        return self.node("Clip", [x, "zero", "six"], x + ".relu6")


def build(tensors: Tensors, side: int) -> onnx.ModelProto:
    """The model: `input` 1 × 3 × side × side float32 to `logits` 1 × 1000.

    Raises `KeyError` if a tensor is missing, `ValueError` if the blocks do not add up.
    """
    graph = _Graph(tensors)
    x = graph.relu6(graph.convolution("input", "_conv_stem", "_bn0", stride=2))
    blocks = 1 + max(int(name.split(".")[1]) for name in tensors if name.startswith("_blocks."))
    channels, stage = 32, -1
    stage_channels = 0
    for index in range(blocks):
        block = f"_blocks.{index}."
        out_channels = tensors[block + "_project_conv.weight"].shape[0]
        stride = 1
        if out_channels != stage_channels:
            stage, stage_channels = stage + 1, out_channels
            if stage >= len(STAGE_STRIDES):
                raise ValueError("more stages than EfficientNet-Lite has")
            stride = STAGE_STRIDES[stage]
        y = x
        if block + "_expand_conv.weight" in tensors:
            y = graph.relu6(graph.convolution(y, block + "_expand_conv", block + "_bn0"))
        y = graph.convolution(
            y, block + "_depthwise_conv", block + "_bn1", stride=stride, depthwise=True
        )
        y = graph.convolution(graph.relu6(y), block + "_project_conv", block + "_bn2")
        if stride == 1 and channels == out_channels:
            y = graph.node("Add", [y, x], block + "sum")
        x, channels = y, out_channels
    if stage != len(STAGE_STRIDES) - 1:
        raise ValueError("fewer stages than EfficientNet-Lite has")
    x = graph.relu6(graph.convolution(x, "_conv_head", "_bn1"))
    x = graph.node("Flatten", [graph.node("GlobalAveragePool", [x], "pooled")], "features")
    weights = [
        graph.weight("classes.weight", tensors["_fc.weight"]),
        graph.weight("classes.bias", tensors["_fc.bias"]),
    ]
    graph.node("Gemm", [x, *weights], "logits", transB=1)
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "efficientnet_lite",
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, side, side])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, CLASSES])],
            graph.weights,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return model
