"""Whole models give what onnxruntime gives, on both inputs, through one compiled binary."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright
from benchmarks.models import mlp, mlp_input, mlp_weights
from tools import make_digits

from .conftest import relative_error

pytestmark = pytest.mark.no_roundtrip  # whole models; their printing is tested on small modules


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("centerface", "magika")]


@pytest.mark.budget(15)
@pytest.mark.parametrize("name", ["ppocr-cls", *SLOW])
def test_zoo(zoo, name):
    model = zoo(name)
    executable = loopwright.compile(str(model.path))
    for case in model.cases:
        got = executable.run(case.feeds)
        assert list(got) == list(case.expected)
        for output, expected in case.expected.items():
            assert relative_error(got[output].numpy(), expected) <= 1e-4, output


def test_digits():
    onnxruntime = pytest.importorskip("onnxruntime")
    path = str(make_digits.FOLDER / "digits.onnx")
    executable, session = loopwright.compile(path), onnxruntime.InferenceSession(path)
    for count in (1, 4):
        pictures, labels = make_digits.images(count, seed=5)
        got = executable.run({"image": pictures})["probability"].numpy()
        assert (got.argmax(axis=1) == labels).all()
        (expected,) = session.run(None, {"image": pictures})
        assert relative_error(got, expected) <= 1e-4


@pytest.mark.parametrize("batch", ["n", 1, 64])
def test_mlp(batch):
    executable = loopwright.compile(mlp(batch))
    weights = {name: value.astype(np.float64) for name, value in mlp_weights().items()}
    for count in (1, 7, 64) if batch == "n" else (batch,):
        feeds = mlp_input(count)
        hidden = np.maximum(feeds["x"] @ weights["fc1.weight"].T + weights["fc1.bias"], 0)
        expected = hidden @ weights["fc2.weight"].T + weights["fc2.bias"]
        got = executable.run(feeds)["y"].numpy()
        assert relative_error(got, expected.astype(np.float32)) <= 1e-5
