"""Sorting and running sums: dtypes, errors, sizes known at run time."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.prim_expr import Var as TirVar
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import LegalizeOps


def module(shape, dtype, build):
    x = relax.Var("x", relax.TensorStructInfo(shape, dtype))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(bb.emit(build(x)))
        bb.emit_func_output(out)
    return bb.finalize()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "float16", "float64", "int64"])
def test_dtypes(dtype):
    x = (np.random.default_rng(1).standard_normal((3, 13)) * 3).astype(dtype)
    order = lw.compile(module(x.shape, dtype, lambda v: relax.op.argsort(v, dtype="int64")))
    np.testing.assert_array_equal(order["main"](x).numpy(), np.argsort(x, kind="stable"))
    ordered = lw.compile(module(x.shape, dtype, lambda v: relax.op.sort(v, axis=0)))
    np.testing.assert_array_equal(ordered["main"](x).numpy(), np.sort(x, 0))


def test_fewer_elements_than_asked_for():
    mod = module((TirVar("n", "int64"),), "float32", lambda v: relax.op.topk(v, 3))
    x = np.array([1, 5, 2, 4], "float32")
    exe = lw.compile(mod)
    np.testing.assert_array_equal(exe["main"](x)[0].numpy(), [5, 4, 2])
    np.testing.assert_array_equal(exe["main"](x)[1].numpy(), [1, 3, 2])
    for run in (exe["main"], Interpreter(LegalizeOps()(mod))["main"]):
        with pytest.raises(Exception, match="the axis has fewer than 3 elements"):
            run(x[:2])


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda v: relax.op.sort(v, axis=5), "relax.sort: axis is out of range"),
        (lambda v: relax.op.topk(v, ret_type="x"), "relax.topk: unknown ret_type"),
        (lambda v: relax.op.cumsum(v, axis=2), "relax.cumsum: axis is out of range"),
        (lambda v: relax.op.unique(v, axis=-3), "relax.unique: axis is out of range"),
    ],
)
def test_errors(build, text):
    with pytest.raises(ValueError, match=text):
        module((3, 13), "float32", build)


def test_unknown_shapes_are_left_alone():
    mod = module(None, "float32", lambda v: relax.op.cumsum(v, axis=0))
    assert LegalizeOps()(mod) is mod or len(LegalizeOps()(mod).functions) == 1


def test_sizes_that_only_the_values_decide():
    x = np.array([[3, 0, 3], [1, 3, 0]], "int64")
    n = TirVar("n", "int64")
    places = lw.compile(module((2, n), "int64", relax.op.nonzero))
    np.testing.assert_array_equal(places["main"](x).numpy(), np.stack(np.nonzero(x)))
    found = lw.compile(
        module((2, n), "int64", lambda v: relax.op.unique(v, True, False, False, True))
    )
    values, counts = found["main"](x)
    np.testing.assert_array_equal(values.numpy(), [0, 1, 3])
    np.testing.assert_array_equal(counts.numpy(), [2, 1, 3])
