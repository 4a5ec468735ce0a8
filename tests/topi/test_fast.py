"""The fast approximations: how near they are, compiled and interpreted; FastMathTransform."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import FastMathTransform

from ..programs import graph

X = np.concatenate([np.linspace(-9.5, 9.5, 96), [-80.0, 80.0, 0.0, 1e-6]]).astype("float32")


@pytest.mark.parametrize("name", ["exp", "erf", "tanh", "nn.softmax"])
def test_near(name):
    mod = graph(f"a = R.{name}(x)", x=("n",))
    fast = FastMathTransform()(mod)
    assert f"R.{name}" not in fast["main"].script()
    want = Interpreter(mod)["main"](X).numpy()
    relative = 1e-6 if name in ("exp", "nn.softmax") else 0
    for got in (Interpreter(fast)["main"](X), lw.compile(fast)["main"](X)):
        np.testing.assert_allclose(got.numpy(), want, rtol=relative, atol=1e-6)


def test_far_values_stay_finite():
    mod = FastMathTransform()(graph("a = R.exp(x)", x=(2,)))
    got = Interpreter(mod)["main"](np.array([-1000.0, 1000.0], "float32")).numpy()
    assert got[0] == 0 and np.isfinite(got[1]) and got[1] > 1e38


def test_softmax_along_an_axis():
    x = np.random.default_rng(0).uniform(-3, 3, (2, 3, 4)).astype("float32")
    mod = graph("a = R.nn.softmax(x, axis=1)", x=(2, 3, 4))
    got, want = (Interpreter(m)["main"](x).numpy() for m in (FastMathTransform()(mod), mod))
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_other_types_and_operators_stay():
    mod = graph("a = R.exp(x); b = R.sin(x); c = (a, b)", x='R.Tensor((2,), "float64")')
    assert FastMathTransform()(mod) is mod
