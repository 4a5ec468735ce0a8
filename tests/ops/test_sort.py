"""Sorting and running sums: dtypes, errors, sizes known at run time."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.functor import nodes_of
from loopwright.ir.prim_expr import Call
from loopwright.ir.prim_expr import Var as TirVar
from loopwright.ops.sort import sorted_indices
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import LegalizeOps
from loopwright.runtime.vm import dynamic_sizes
from loopwright.tir import stmt as st
from loopwright.tir.op import is_call_to


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
    for shape in [(), (0, 4), (3, 8, 5), (4, 3, 8, 2)]:
        of_shape = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 3
        np.testing.assert_array_equal(
            dynamic_sizes.nonzero(of_shape), np.stack(np.nonzero(np.atleast_1d(of_shape)))
        )
    found = lw.compile(
        module((2, n), "int64", lambda v: relax.op.unique(v, True, False, False, True))
    )
    values, counts = found["main"](x)
    np.testing.assert_array_equal(values.numpy(), [0, 1, 3])
    np.testing.assert_array_equal(counts.numpy(), [2, 1, 3])


def _drawn(shape, dtype):
    """Few different values, so that most are equal to others; NaN, infinities and both zeros."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 40, shape).astype(dtype)
    if dtype.startswith("float"):
        x[(x == 0) & (rng.random(shape) < 0.5)] = -0.0
        x[rng.random(shape) < 0.05] = np.nan
        x[rng.random(shape) < 0.05] = -np.inf
    return x


# Results that are inserted, merged, and sorted as a whole; runs that are full and not; all axes.
@pytest.mark.sample(2)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis", "dtype", "count"),
    [
        ((2, 500), 1, "float32", 1),
        ((2, 500), -1, "float32", 16),
        ((2, 500), 1, "float32", 17),
        ((3, 333), 1, "float32", 100),
        ((3, 333), 1, "float32", 166),
        ((2, 97), 1, "float32", 97),
        ((200, 3), 0, "float32", 5),
        ((2, 90, 2, 3), -3, "float64", 20),
        ((70, 1, 1), 0, "float32", 4),
        ((1, 300), 1, "int64", 30),
        ((1, 300), 1, "uint8", 3),
    ],
)
def test_topk_is_the_start_of_a_stable_sort(shape, axis, dtype, count, largest):
    x = _drawn(shape, dtype)
    build = lambda v: relax.op.topk(v, count, axis, largest=largest, dtype="int64")  # noqa: E731
    values, indices = lw.compile(module(shape, dtype, build))["main"](x)
    want = np.take(sorted_indices(x, axis, largest), np.arange(count), axis)
    np.testing.assert_array_equal(indices.numpy(), want)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, want, axis))


@pytest.mark.sample(2)
@pytest.mark.parametrize("size", [1, 15, 16, 17, 31, 32, 33, 100, 257])
def test_sorts_of_an_axis_known_at_run_time(size):
    x = _drawn((size, 2), "float32")
    rows = (TirVar("n", "int64"), 2)
    build = lambda v: relax.op.argsort(v, 0, descending=True, dtype="int64")  # noqa: E731
    order = lw.compile(module(rows, "float32", build))["main"](x).numpy()
    np.testing.assert_array_equal(order, sorted_indices(x, 0, True))
    few = lw.compile(module(rows, "float32", lambda v: relax.op.topk(v, min(size, 20), 0)))
    np.testing.assert_array_equal(few["main"](x)[1].numpy(), order[:20])


@pytest.mark.sample(2)
@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("width", [0, 1, 7, 16, 17, 45, "n"])
@pytest.mark.parametrize("axis", [0, -3, 2, 3])
def test_running_sums_of_rows(axis, width, exclusive):
    size = 37 if width == "n" else width
    x = np.random.default_rng(0).standard_normal((2, 9, 3, size), "float32")
    shape = (2, 9, 3, TirVar("n", "int64") if width == "n" else width)
    build = lambda v: relax.op.cumsum(v, axis, exclusive=exclusive)  # noqa: E731
    got = lw.compile(module(shape, "float32", build))["main"](x).numpy()
    want = np.cumsum(x, axis)
    if exclusive:
        want = np.roll(want, 1, axis)
        np.moveaxis(want, axis, 0)[:1] = 0
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("axis, together", [(0, False), (1, True)])
def test_updates_of_rows_of_their_own_are_shared_among_threads(axis, together):
    rng = np.random.default_rng(0)
    data, spots = rng.normal(size=(40, 40)), rng.integers(-40, 40, (40, 90)[:: 1 if axis else -1])
    changes = rng.normal(size=spots.shape)

    def build(x):
        return relax.op.scatter_elements(x, relax.const(spots), relax.const(changes), axis)

    mod = module(data.shape, "float64", build)
    (kernel,) = (f for g, f in LegalizeOps()(mod).functions.items() if g.name_hint != "main")
    copy = next(n for n in nodes_of(kernel.body, st.For) if n.kind == st.ForKind.PARALLEL)
    assert together == any(is_call_to(n, "checked_index") for n in nodes_of(copy, Call))
    wanted = data.copy()
    for at in np.ndindex(spots.shape):
        wanted[(at[0], spots[at]) if axis else (spots[at], at[1])] = changes[at]
    np.testing.assert_array_equal(lw.compile(mod)["main"](data).numpy(), wanted)
