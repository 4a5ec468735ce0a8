"""Transposed convolutions as plain ones: the same numbers for each window, stride and padding."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.prim_expr import Var
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import SplitTransposedConvolutions
from loopwright.relax.transform.legalize_ops.common import LEGALIZATIONS, register_legalize


def network(
    rng: np.random.Generator,
    window: list[int],
    symbolic: bool,
    results: int = 4,
    scale: float = 1.0,
    **attrs: Any,
) -> tuple[lw.IRModule, np.ndarray]:
    sides = [7, 9][: len(window)]
    dims = [Var(f"l{k}", "int64") for k in range(len(sides))] if symbolic else sides
    weight = rng.standard_normal((6, results, *window)).astype("float32") * np.float32(scale)
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo([2, 6, *dims], "float32"))
    convolve = getattr(op.nn, f"conv{len(window)}d_transpose")
    with bb.function("main", [x]):
        with bb.dataflow():
            made = bb.emit_output(bb.emit(convolve(x, relax.const(weight), **attrs)))
        bb.emit_func_output(made)
    return bb.get(), rng.standard_normal((2, 6, *sides)).astype("float32")


def names(mod: lw.IRModule) -> list[str]:
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    return [v.op.name for v in values if isinstance(v, relax.Call)]


@pytest.mark.sample(4)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("window", "strides"), [([5], [2]), ([3, 4], [2, 3]), ([2, 5], [1, 4]), ([2, 2], [2, 2])]
)
def test_the_same_numbers(
    rng: np.random.Generator, window: list[int], strides: list[int], symbolic: bool
) -> None:
    rank = len(window)
    for before, after, more in itertools.product((0, 1), (0, 2), (0, 1)):
        more = [min(more, s - 1) for s in strides]
        attrs = {"strides": strides, "padding": [before] * rank + [after] * rank}
        mod, x = network(rng, window, symbolic, output_padding=more, **attrs)
        split = SplitTransposedConvolutions()(mod)
        assert "relax.nn.join_phases" in names(split)
        want, got = (Interpreter(m)["main"](x).numpy() for m in (mod, split))
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, atol=1e-5)
        if bool(before) == bool(after):  # half of them are compiled as well
            np.testing.assert_allclose(lw.compile(mod)(x).numpy(), want, atol=1e-5)


@pytest.mark.parametrize(
    "attrs",
    [
        {"strides": [1, 1]},
        {"strides": [2, 2], "dilation": [2, 1]},
        {"strides": [3, 3]},
        {"strides": [4, 2]},
    ],
)
def test_what_stays(rng: np.random.Generator, attrs: dict[str, Any]) -> None:
    """Without a stride it is a convolution already; windows that do not overlap have blocks."""
    mod, _ = network(rng, [3, 3], False, 8, **attrs)
    assert names(SplitTransposedConvolutions()(mod)) == ["relax.nn.conv2d_transpose"]


def test_a_kernel_of_the_users_is_not_taken_apart(rng: np.random.Generator) -> None:
    mod, _ = network(rng, [3], False, strides=[2])
    with LEGALIZATIONS.registry.snapshot(), lw.Target("llvm"):
        register_legalize("relax.nn.conv1d_transpose", lambda bb, call: None, target="llvm")
        assert names(SplitTransposedConvolutions()(mod)) == ["relax.nn.conv1d_transpose"]


@pytest.mark.parametrize(("window", "strides"), [([5], [2]), ([3, 4], [2, 3]), ([3, 3], [2, 2])])
def test_infinity_meets_no_zeros_that_fill(
    rng: np.random.Generator, window: list[int], strides: list[int]
) -> None:
    """Phases have their own numbers of taps."""
    mod, x = network(rng, window, False, strides=strides, output_padding=[s - 1 for s in strides])
    x.flat[::17] = np.inf
    assert "relax.nn.conv" in names(SplitTransposedConvolutions()(mod))[0]
    want = Interpreter(mod)["main"](x).numpy()
    assert np.isinf(want).any() and not np.isinf(want).all()
    np.testing.assert_allclose(lw.compile(mod)(x).numpy(), want, atol=1e-5)


def test_infinite_weights_stay(rng: np.random.Generator) -> None:
    """Beyond the data's ends there are no zeros for them."""
    mod, x = network(rng, [4], False, scale=np.inf, strides=[2])
    assert names(SplitTransposedConvolutions()(mod)) == ["relax.nn.conv1d_transpose"]
    np.testing.assert_array_equal(lw.compile(mod)(x).numpy(), Interpreter(mod)["main"](x).numpy())
