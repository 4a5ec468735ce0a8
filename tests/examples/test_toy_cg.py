"""The back end of examples/toy_cg on networks that its library takes, and on some that it does not."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

import loopwright as lw
from loopwright.base.registry import registries
from loopwright.ir import trace as tracing
from loopwright.runtime import ExternLibrary
from tests.house.source import ROOT

from ..programs import graph

# A module that carries a library of this process has no text that says all of it.
pytestmark = pytest.mark.no_roundtrip


@pytest.fixture(scope="module")
def backend():
    sys.path.insert(0, str(ROOT / "examples"))
    with ExitStack() as before:
        for registry in registries():
            before.enter_context(registry.snapshot())
        try:
            import toy_cg
        finally:
            sys.path.pop(0)
        yield toy_cg.BACKEND
    for name in [n for n in sys.modules if n.partition(".")[0] == "toy_cg"]:
        del sys.modules[name]


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def winners(mod, backend):
    with tracing.trace() as trace:
        exe = lw.compile(mod, backends=[backend])
    found = [n.facts["winner"] for n in trace.explain("toy_cg_thflow.dense_bias", "legalize")]
    return exe, found


def test_a_symbolic_batch_is_an_argument_of_the_library(backend):
    Network = graph("y = R.add(R.matmul(x, w), b)", x=("n", 8), w=(8, 4), b=(4,))

    exe, found = winners(Network, backend)
    assert found == ["target toy_cg_thflow: kernel dense_bias_kernel"]
    w, b = numbers(8, 4), numbers(4)
    for n in (0, 1, 5):
        x = numbers(n, 8)
        np.testing.assert_allclose(exe["main"](x, w, b).numpy(), x @ w + b, rtol=1e-5, atol=1e-6)


def test_what_the_library_cannot_add_is_left_to_the_compiler(backend):
    """A matched composite that no kernel fits is legalized as the operators it stands for."""

    Residual = graph("y = R.add(R.matmul(x, w), b)", x=(3, 8), w=(8, 4), b=(3, 4))

    exe, found = winners(Residual, backend)
    assert len(found) == 1 and found[0].startswith("default: ")
    x, w, b = numbers(3, 8), numbers(8, 4), numbers(3, 4)
    np.testing.assert_allclose(exe["main"](x, w, b).numpy(), x @ w + b, rtol=1e-5, atol=1e-6)


TWO = """
h = R.nn.relu(R.add(R.matmul(x, R.const(w1)), R.const(b1)))
y = R.add(R.matmul(h, R.const(w2)), R.const(b2))
"""
WEIGHTS = {"w1": numbers(20, 8), "b1": numbers(8), "w2": numbers(8, 4), "b2": numbers(4)}


def two(x):
    """What TWO computes."""
    w1, b1, w2, b2 = WEIGHTS.values()
    return np.maximum(x @ w1 + b1, 0) @ w2 + b2


def test_the_tensor_between_two_calls_is_in_the_workspace(backend):
    mod = graph(TWO, values=WEIGHTS, x=(5, 20))

    exe = lw.compile(mod, backends=[backend])
    text = exe.lowered["main"].script()
    assert 'T.allocate([T.int64(192)], "uint8", "global")' in text  # 5 x 8 float32, to 64 bytes
    x = numbers(5, 20)
    expected = two(x)
    np.testing.assert_allclose(exe["main"](x).numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("arenas", [(), ["sram"]], ids=["own plan", "arena"])
def test_as_c_the_library_is_compiled_beside_the_model(backend, arenas, tmp_path):
    mod = graph(TWO + "; z = R.exp(y)", values=WEIGHTS, x=(5, 20))

    model = lw.compile(mod, target="c", backends=[backend], arenas=arenas)
    assert '#include "toy_cg_thflow.h"' in model.source
    assert "malloc" not in model.source
    written = {path.name for path in model.write(tmp_path)}
    assert written >= {"model.c", "model.h", "toy_cg_thflow.c", "toy_cg_thflow.h"}
    x = numbers(5, 20)
    expected = np.exp(two(x))
    run = model.build(flags=["-O1"])
    np.testing.assert_allclose(np.asarray(run(x)), expected, rtol=1e-3)


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c"])
def test_a_failure_in_the_library_is_an_error_of_the_model(backend, target, tmp_path):
    source = tmp_path / "broken.c"
    functions = [p.text for p in backend.libraries[0].prototypes.values()]
    used = "(void)x; (void)weight; (void)bias; (void)out; (void)rows; (void)depth; (void)units;"
    bodies = "\n".join(f"{text} {{ {used} return 7; }}" for text in functions)
    source.write_text(f"#include <stdint.h>\n{';'.join(functions)};\n{bodies}\n")
    broken = ExternLibrary("broken", functions, sources=[source])

    Network = graph("y = R.add(R.matmul(x, w), b)", x=(3, 8), w=(8, 4), b=(4,))

    made = lw.compile(Network, target, backends=[replace(backend, libraries=[broken])])
    run = made.build(flags=["-O1"]) if target == "c" else made["main"]
    expected = "main returned -1" if target == "c" else "toy_cg_thflow: dense_bias failed"
    with pytest.raises((RuntimeError, ValueError), match=expected):
        run(numbers(3, 8), numbers(8, 4), numbers(4))
