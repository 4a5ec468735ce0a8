"""A model means the same at every level: graph, loops, machine code on one thread and on two.

The interpreter of loops is slow, so the models get inputs that are as small as they allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import loopwright
from loopwright.frontend.onnx import from_onnx
from loopwright.relax.interpreter import Interpreter
from loopwright.runtime import num_threads, set_num_threads

from .conftest import relative_error

pytestmark = pytest.mark.no_roundtrip  # whole models; their printing is tested on small modules

BYTES, ROWS = 32, 8  # what shrunk magika reads, instead of 2048 bytes as 512 rows
SMALL = {
    "centerface": ((0, 255), (1, 3, 32, 32)),
    "ppocr-cls": ((-1, 1), (1, 3, 48, 16)),
    "magika": ((0, 257), (2, BYTES)),
}


def shrunk_magika(path: Path) -> onnx.ModelProto:
    """The model for files of 32 bytes: dimensions are constants in it, and one norm has weights
    for each row."""
    model = onnx.load(path)
    sizes = {2048: BYTES, 512: ROWS}
    for stored in model.graph.initializer:
        value = numpy_helper.to_array(stored)
        if value.dtype.kind == "i" and value.ndim == 1 and sizes.keys() & set(value.tolist()):
            value = np.array([sizes.get(v, v) for v in value.tolist()], value.dtype)
        elif value.shape == (1, 512, 1) and "LayerNorm_0" in stored.name:
            value = value[:, :ROWS]
        else:
            continue
        stored.CopyFrom(numpy_helper.from_array(value, stored.name))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = BYTES
    return model


@pytest.fixture
def threads() -> Iterator[None]:
    """The number of threads is as before when the test ends."""
    before = num_threads()
    yield
    set_num_threads(before)


def tensors(result: object) -> list[np.ndarray]:
    """What a function returned, as numpy arrays in order."""
    if isinstance(result, (list, tuple)):
        return [array for item in result for array in tensors(item)]
    return [result.numpy() if hasattr(result, "numpy") else np.asarray(result)]


@pytest.mark.budget(15)
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", SMALL)
def test_levels_agree(zoo, threads, name):
    path = zoo(name).path
    model = shrunk_magika(path) if name == "magika" else onnx.load(path)
    (low, high), shape = SMALL[name]
    rng = np.random.default_rng(7)
    if name == "magika":
        feed = rng.integers(low, high, shape).astype(np.int32)
    else:
        feed = rng.uniform(low, high, shape).astype(np.float32)

    graph = from_onnx(model)
    expected = tensors(Interpreter(graph)["main"](feed))
    got = {"loops": Interpreter(loopwright.lower(graph)["FuseTIR"].after)["main"](feed)}
    executable = loopwright.compile(graph)
    for count in (1, 2):
        set_num_threads(count)
        got[f"{count} threads"] = executable["main"](feed)
    for level, result in got.items():
        arrays = tensors(result)
        assert len(arrays) == len(expected)
        for array, wanted in zip(arrays, expected):
            assert np.abs(wanted).max() > 0
            assert relative_error(array, wanted) <= 1e-4, level
