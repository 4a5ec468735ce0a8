"""The tutorial's model compiled, with passes of the user's own in the pipelines."""

from __future__ import annotations

import math

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.backend import cpu
from loopwright.tir.signature import signature_of

from . import seed2


@pytest.fixture
def tutorial(capsys):
    """The names that the tutorial's code defines."""
    names: dict = {"__name__": "tutorial"}
    for block in seed2.code():
        exec(compile(seed2.renamed(block), "tutorial", "exec"), names)
    capsys.readouterr()
    return names


def weights(params):
    rng = np.random.default_rng(0)
    return [(rng.standard_normal(p.shape) / 28).astype("float32") for _, p in params]


def expected(x, w, activation):
    return activation(x @ w[0].T + w[1]) @ w[2].T + w[3]


def relu(x):
    return np.maximum(x, 0)


def gelu(x):
    return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def test_one_binary_for_every_batch(tutorial):
    exe = lw.compile(tutorial["origin_mod"])
    w = weights(tutorial["params"])
    for n in (1, 7, 64):
        x = np.random.default_rng(n).standard_normal((n, 784)).astype("float32")
        got = exe["forward"](x, *w).numpy()
        assert got.shape == (n, 10)
        np.testing.assert_allclose(got, expected(x, w, relu), rtol=1e-4, atol=1e-5)


def test_own_pass_in_the_default_pipeline(tutorial):
    pipeline = cpu.graph_pipeline()
    names = pipeline.names()
    pipeline = pipeline.insert_before("LegalizeOps", tutorial["ReluToGelu"]())
    assert pipeline.names() == [
        *names[: names.index("LegalizeOps")],
        "ReluToGelu",
        *names[names.index("LegalizeOps") :],
    ]
    exe = lw.compile(tutorial["origin_mod"], relax_pipeline=pipeline)
    w = weights(tutorial["params"])
    x = np.random.default_rng(1).standard_normal((5, 784)).astype("float32")
    got = exe["forward"](x, *w).numpy()
    np.testing.assert_allclose(got, expected(x, w, gelu), rtol=1e-4, atol=1e-5)
    assert np.abs(got - expected(x, w, relu)).max() > 1e-3


def test_lowered_functions_are_shown(tutorial):
    seen = []

    @tir.transform.prim_func_pass(opt_level=0)
    def print_tir(f, mod, ctx):
        seen.append(f)
        return f

    with lw.transform.PassContext(opt_level=3, config={"tir.add_lower_pass": [(3, print_tir)]}):
        exe = lw.compile(tutorial["origin_mod"])
    functions = exe.lowered.functions.items()
    kernels = [
        g.name_hint for g, f in functions if isinstance(f, tir.PrimFunc) and not signature_of(f)
    ]
    assert sorted(f.attrs["global_symbol"] for f in seen) == sorted(kernels)
    assert len(kernels) >= 3
    texts = [func.script() for func in seen]
    assert not any("T.block" in text for text in texts)
    assert sum("for " in text for text in texts) >= 3


def test_a_pass_that_returns_nothing_is_named_with_its_line(tutorial):
    """The thread of seed 0 lost a day to a function that ends without `return f`."""

    @tir.transform.prim_func_pass(opt_level=0)
    def print_tir(f, mod, ctx):
        str(f)

    context = lw.transform.PassContext(config={"tir.add_lower_pass": [(3, print_tir)]})
    with context, pytest.raises(TypeError) as caught:
        lw.compile(tutorial["origin_mod"])
    message = str(caught.value)
    assert message.startswith("pass 'print_tir' returned None")
    assert "def print_tir(f, mod, ctx):" in message
    assert "test_tutorial_compiled.py:" in message
    assert "instead: return the (changed) function" in message
