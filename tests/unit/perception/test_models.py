import pickle

import numpy as np
import pytest

from core.perception import models, torch_file
from core.perception.classifier import agree, read_classes
from core.perception.look import Perceiver
from core.perception.text import is_reliable
from core.weights import ModelError, WeightsFile, run_session

pytestmark = pytest.mark.unit


def test_a_package_that_is_missing_is_named_with_its_remedy():
    weights = WeightsFile("labels", "no_such_package_here", "x.pth", "00", "labels-model==1.0")
    with pytest.raises(ModelError, match=r"no_such_package_here is not installed.*labels-model"):
        weights.find()


def test_a_file_that_is_not_the_expected_one_is_refused():
    weights = WeightsFile("objects", None, "perception/imagenet_labels.txt", "00" * 32)
    with pytest.raises(ModelError, match="is not the expected file"):
        weights.find()


def test_a_model_that_cannot_be_parsed_is_an_error_that_says_so():
    with pytest.raises(ModelError, match="objects: cannot be loaded"):
        run_session("objects", b"not a model")


def test_a_part_without_its_weights_is_off_and_the_rest_works(monkeypatch):
    def broken(*_):
        raise ModelError("it is broken")

    for part in ("Classifier", "Detector", "TextReader"):
        monkeypatch.setattr(f"core.perception.look.{part}", broken)
    perceiver = Perceiver()
    perceiver.load()
    assert perceiver.parts == {"faces"}
    assert perceiver.problems == ["it is broken"] * 3
    note = perceiver.look(np.full((48, 64, 3), (220, 20, 20), np.uint8), "a", 1.0)
    assert note.colours.whole[0][0] == "red"
    assert note.kinds == ()
    with pytest.raises(ModelError, match="switched off"):
        perceiver.read(np.zeros((48, 64, 3), np.uint8))


def test_the_classifier_is_converted_once_and_then_cached(tmp_path, monkeypatch):
    monkeypatch.setenv(models.CACHE_VARIABLE, str(tmp_path))
    first = models.classifier_onnx()
    (cached,) = tmp_path.iterdir()
    monkeypatch.setattr("core.perception.torch_file.read_state_dict", pytest.fail)
    assert models.classifier_onnx() == first
    monkeypatch.undo()
    monkeypatch.setenv(models.CACHE_VARIABLE, str(tmp_path))
    cached.write_bytes(first[:1000])  # cut short
    assert models.classifier_onnx() == first


def test_a_cache_that_cannot_be_written_is_no_problem(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv(models.CACHE_VARIABLE, str(blocked / "below"))
    assert len(models.classifier_onnx()) > 1_000_000


class Harmful:
    def __reduce__(self):
        return (print, ("run",))


def test_code_in_a_weights_file_is_not_run(tmp_path, capsys):
    path = tmp_path / "weights.pth"
    with path.open("wb") as file:
        for value in (torch_file.MAGIC, torch_file.FORMAT_VERSION, Harmful()):
            pickle.dump(value, file, protocol=2)
    with pytest.raises(torch_file.TorchFileError, match=r"refused \w+\.print"):
        torch_file.read_state_dict(path)
    assert capsys.readouterr().out == ""


def test_a_file_that_is_no_weights_file_is_refused(tmp_path):
    path = tmp_path / "weights.pth"
    path.write_bytes(b"hello")
    with pytest.raises(torch_file.TorchFileError):
        torch_file.read_state_dict(path)


def test_both_views_must_agree_and_kinds_add_up():
    classes = read_classes()
    assert len(classes.names) == len(classes.kinds) == 1000
    near, far = np.zeros(1000, np.float32), np.zeros(1000, np.float32)
    for name, a, b in [
        ("tabby cat", 0.3, 0.3), ("Egyptian Mau", 0.3, 0.3), ("honeycomb", 0.4, 0.01)
    ]:  # fmt: skip
        near[classes.names.index(name)], far[classes.names.index(name)] = a, b
    kinds, labels = agree(classes, near, far)
    assert kinds[0].name == "cat"
    assert kinds[0].probability == pytest.approx(0.6, abs=0.001)
    assert {label.name: label.probability for label in labels}["honeycomb"] < 0.07


@pytest.mark.parametrize(
    ("line", "score", "height", "reliable"),
    [
        ("OPEN 9-17", 0.92, 0.05, True),
        ("OPEN", 0.85, 0.05, False),
        ("8", 0.99, 0.03, False),
        ("8", 0.99, 0.4, True),
        ("鑫", 0.96, 0.2, False),
        ("---", 0.99, 0.2, False),
    ],
)
def test_texture_taken_for_text_is_dropped(line, score, height, reliable):
    assert is_reliable(line, score, height=height) is reliable
