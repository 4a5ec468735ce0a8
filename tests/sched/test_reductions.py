"""Reductions with few results, over leading axes and of pairs, and narrow products: in vectors, and shared
by threads."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import te, tir
from loopwright.ir.functor import nodes_of
from loopwright.ops import OPERATORS
from loopwright.relax import op
from loopwright.sched import ApplyDefaultSchedule
from loopwright.script import tir as T
from loopwright.tir.stmt import BufferStore, ForKind

from .test_rules import check, graph, kernels, loop_kinds, weight


def kinds(exe: object) -> set[ForKind]:
    """Of the loops of all kernels."""
    return {kind for kernel in kernels(exe).values() for kind in loop_kinds(kernel)}


@pytest.mark.sample(6)
@pytest.mark.parametrize("shape", [(3,), (100,), (600, 1000), (513, 1027)])
@pytest.mark.parametrize("name", ["sum", "max", "min", "mean"])
@pytest.mark.parametrize("keepdims", [True, False])
def test_a_reduction_of_all(
    rng: np.random.Generator, shape: tuple[int, ...], name: str, keepdims: bool
) -> None:
    build = lambda bb, x: getattr(op, name)(bb.emit(op.abs(x)), None, keepdims)  # noqa: E731
    exe = check(rng, graph(shape, build), shape)
    if shape[0] == 600:  # each thread has parts of it
        assert {ForKind.VECTORIZED, ForKind.PARALLEL} <= kinds(exe)


@pytest.mark.sample(6)
@pytest.mark.parametrize("shape", [(3, 20), (1024, 300), (520, 1000), (70_000, 8), (33, 5000)])
@pytest.mark.parametrize("name", ["sum", "max", "mean"])
def test_a_reduction_over_the_first_axis(
    rng: np.random.Generator, shape: tuple[int, int], name: str
) -> None:
    exe = check(rng, graph(shape, lambda bb, x: getattr(op, name)(x, [0])), shape)
    assert shape[0] < 100 or {ForKind.VECTORIZED, ForKind.PARALLEL} <= kinds(exe)


def test_a_reduction_of_a_function_of_all(rng: np.random.Generator) -> None:
    mod = graph((640, 512), lambda bb, x: op.sum(bb.emit(op.exp(bb.emit(op.add(x, x))))))
    assert ForKind.PARALLEL in kinds(check(rng, mod, (640, 512)))


@pytest.mark.sample(3)
@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("rows", ["n", 40])
@pytest.mark.parametrize("constant", [True, False])
def test_a_product_with_a_narrow_right_side(
    rng: np.random.Generator, rows: int | str, width: int, constant: bool
) -> None:
    w = weight(rng, 100, width)
    right = (lambda bb: w) if constant else (lambda bb: bb.emit(op.add(w, w)))
    exe = check(rng, graph((rows, 100), lambda bb, x: op.matmul(x, right(bb))), (40, 100))
    assert any(ForKind.VECTORIZED in loop_kinds(f) for f in kernels(exe).values())


@pytest.mark.sample(4)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 3, 40])
@pytest.mark.parametrize("kind", ["random", "rising", "falling", "ties", "special"])
def test_the_first_of_many_in_order(
    rng: np.random.Generator, kind: str, k: int, largest: bool
) -> None:
    n = 1003
    rows = {
        "random": rng.standard_normal((5, n)),
        "rising": np.tile(np.arange(n), (5, 1)),
        "falling": np.tile(np.arange(n)[::-1], (5, 1)),
        "ties": rng.integers(0, 4, (5, n)),
        "special": rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], (5, n)),
    }[kind].astype(np.float32)
    mod = graph(("m", n), lambda bb, x: op.topk(x, k, 1, largest=largest, dtype="int64"))
    values, indices = lw.compile(mod)["main"](rows)
    order = np.argsort(-rows if largest else rows, axis=1, kind="stable")  # NaN last
    if largest:  # NaN is the greatest
        first = np.argsort(~np.isnan(rows), axis=1, kind="stable")
        count = np.isnan(rows).sum(1)
        order = np.stack([[*f[:c], *o[: n - c]] for f, c, o in zip(first, count, order)])
    np.testing.assert_array_equal(np.asarray(indices), order[:, :k])
    np.testing.assert_array_equal(np.asarray(values), np.take_along_axis(rows, order[:, :k], 1))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_the_index_of_the_extreme(rng: np.random.Generator, name: str, axis: int | None) -> None:
    x = rng.integers(-3, 4, (70, 90)).astype(np.float32)
    x[:, 40:] = np.where(rng.random((70, 50)) < 0.01, np.nan, x[:, 40:])
    exe = lw.compile(graph((70, 90), lambda bb, v: getattr(op, name)(v, axis)))
    np.testing.assert_array_equal(np.asarray(exe["main"](x)), getattr(np, name)(x, axis))
    assert ForKind.VECTORIZED in kinds(exe)


def test_the_index_of_the_extreme_of_what_is_computed(rng: np.random.Generator) -> None:
    """The value that is compared is read from memory: computed twice, it could be rounded twice."""
    w, b = weight(rng, 300), weight(rng, 300)
    mod = graph(
        (50, 300), lambda bb, x: op.argmax(bb.emit(op.add(bb.emit(op.multiply(x, w)), b)), 1)
    )
    exe = check(rng, mod, (50, 300))
    assert len(kernels(exe)) == 2


def test_an_operand_that_is_compared_with_its_extreme_is_stored(rng: np.random.Generator) -> None:
    """Also where the caller has made one kernel of both."""
    x, w = te.placeholder((3, 333), "float32", "x"), te.placeholder((333,), "float32", "w")
    y = te.compute((3, 333), lambda i, j: tir.exp(x[i, j] * w[j]), "y")
    func = te.create_prim_func([x, w, OPERATORS["relax.argmax"](y, 1)])
    scheduled = ApplyDefaultSchedule()(lw.IRModule({"main": func}))["main"]
    stores = [n for n in nodes_of(scheduled.body, BufferStore) if n.buffer.name == "y"]
    assert scheduled.attrs["tir.is_scheduled"] and len(stores) == 1
    a, b = rng.standard_normal((3, 333), "f4"), rng.standard_normal(333, "f4")
    out = lw.runtime.tensor(np.zeros(3, np.int64))
    lw.tir.build(func)(lw.runtime.tensor(a), lw.runtime.tensor(b), out)
    np.testing.assert_array_equal(out.numpy(), np.argmax(a * b, 1))


@pytest.mark.parametrize("term", ["b * 0.5 + a", "b + a * b"])
def test_a_reduction_whose_order_counts_keeps_it(rng: np.random.Generator, term: str) -> None:
    """It has too few results for all threads, but is no fold of terms."""

    @T.prim_func
    def decays(A: T.Buffer((512, 1024), "float32"), B: T.Buffer((1,), "float32")):
        for u, i, j in T.grid(1, 512, 1024):
            with T.block("b"):
                vu, vi, vj = T.axis.remap("SRR", [u, i, j])
                with T.init():
                    B[vu] = T.float32(1)
                B[vu] = B[vu] * T.float32(0.5) + A[vi, vj]

    @T.prim_func
    def grows(A: T.Buffer((512, 1024), "float32"), B: T.Buffer((1,), "float32")):
        for u, i, j in T.grid(1, 512, 1024):
            with T.block("b"):
                vu, vi, vj = T.axis.remap("SRR", [u, i, j])
                with T.init():
                    B[vu] = T.float32(1)
                B[vu] = B[vu] + A[vi, vj] * B[vu]

    decay = term.startswith("b *")
    a = rng.standard_normal((512, 1024), "f4") * np.float32(1.0 if decay else 1e-5)
    out = lw.runtime.tensor(np.zeros(1, np.float32))
    lw.tir.build(decays if decay else grows)(lw.runtime.tensor(a), out)
    want = (
        sum(v * 0.5**k for k, v in enumerate(a.ravel()[:-60:-1]))
        if decay
        else np.prod(1 + a.astype(float))
    )
    np.testing.assert_allclose(out.numpy(), [want], rtol=1e-3)
