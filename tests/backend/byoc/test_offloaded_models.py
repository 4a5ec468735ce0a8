"""Models of the zoo offloaded to oneDNN and BLAS answer as the default build does."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import loopwright as lw
from loopwright.frontend.onnx import from_path_or_proto
from loopwright.relax import transform as rt
from loopwright.relax.byoc import get_backend
from tools.zoo import RegistryError, fetch

# A composite that stands as an operator while it is lowered has no text.
pytestmark = pytest.mark.no_roundtrip
SHAPES = {"centerface": (1, 3, 64, 64), "ppocr-cls": (1, 3, 48, 64)}
CASES = [
    ("ppocr-cls", ["blas", "onednn"], 74),
    ("ppocr-cls", ["onednn"], 74),
    ("ppocr-cls", ["blas"], 1),
    ("centerface", ["onednn"], 66),
]


def model(name):
    try:
        mod = from_path_or_proto(str(fetch(name)))
    except RegistryError as error:
        pytest.skip(f"the model cannot be fetched: {error}")
    dims = mod["main"].params[0].struct_info.get_shape()
    known = {d.name: n for d, n in zip(dims, SHAPES[name]) if isinstance(d, lw.tir.Var)}
    return rt.BindSymbolicVars(known, "main")(mod)


def answers(exe, x):
    made = exe["main"](x)
    return [made.numpy()] if hasattr(made, "numpy") else [m.numpy() for m in made]


@cache
def reference(name):
    """The model, an input, what the default build answers."""
    mod = model(name)
    x = np.random.default_rng(0).random(SHAPES[name], "float32")
    return mod, x, answers(lw.compile(mod), x)


@pytest.mark.slow
@pytest.mark.parametrize("name, backends, calls", CASES)
def test_offloaded_models(name, backends, calls):
    for backend in backends:
        if get_backend(backend).why_not():
            pytest.skip(get_backend(backend).why_not())
    mod, x, wanted = reference(name)
    everything = [replace(get_backend(b), cost=None) for b in backends]
    exe = lw.compile(mod, backends=everything)
    for have, want in zip(answers(exe, x), wanted, strict=True):
        assert np.abs(have - want).max() <= 1e-4 * np.abs(want).max()
    text = exe.lowered["main"].script()
    assert len(re.findall(r"^ +(?:onednn_(?!reorder)|matmul_kernel)\w*\(", text, re.M)) == calls
