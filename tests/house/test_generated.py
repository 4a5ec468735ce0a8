"""Checked-in files that a script makes are what it makes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tools import make_digits


def _without_weights(model: onnx.ModelProto) -> str:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.initializer[:]
    return str(copy)


def test_digits_model():
    stored = onnx.load(make_digits.FOLDER / "digits.onnx")
    made = make_digits.model()
    assert _without_weights(stored) == _without_weights(made)
    for old, new in zip(stored.graph.initializer, made.graph.initializer, strict=True):
        assert old.name == new.name
        # The solver's last bits depend on the machine's BLAS.
        np.testing.assert_allclose(
            numpy_helper.to_array(old), numpy_helper.to_array(new), rtol=1e-3, atol=1e-3
        )


def test_digits_model_reads_digits():
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(make_digits.FOLDER / "digits.onnx")
    pictures, labels = make_digits.images(20, seed=99)
    (probability,) = session.run(None, {"image": pictures})
    assert (probability.argmax(axis=1) == labels).all()
    shipped = np.load(make_digits.FOLDER / "digits.npz")
    (probability,) = session.run(None, {"image": shipped["image"]})
    assert (probability.argmax(axis=1) == shipped["label"]).all()


def test_stubs():
    # In a process of its own, for tests register operators.
    command = [sys.executable, "-m", "tools.make_stubs", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"run `python -m tools.make_stubs`\n{done.stdout}{done.stderr}"
