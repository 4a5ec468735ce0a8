"""Tensors, axes and reducers."""

from __future__ import annotations

import functools
import math
import pickle

import numpy as np
import pytest

import loopwright as lw
from loopwright import te, tir
from loopwright.arith import Analyzer
from loopwright.ir.prim_expr import Range
from loopwright.ir.structural import assert_structural_equal, structural_equal
from loopwright.tir.interpreter import run


def test_placeholder_and_compute():
    n = te.var("n", "int64")
    a = te.placeholder((n, 4), name="A")
    assert a.dtype == "float32" and a.ndim == 2 and a.op.name == "A"
    b = te.compute((n, 4), lambda i, j: a[i, j] + 1.0, name="B", tag="elemwise", attrs={"k": 1})
    assert b.op.tag == "elemwise" and b.op.attrs == {"k": 1}
    assert b.op.input_tensors == (a,)
    assert b.shape[0] is n and [int(s) for s in b.shape[1:]] == [4]
    assert [x.var.name for x in b.op.axis] == ["i", "j"]
    assert b.op.output(0) is b and b.op.num_outputs == 1


def test_tensors_of_te_are_copied_with_what_they_compute():
    a = te.placeholder((3,), name="a")
    b = te.compute((3,), lambda i: a[i] + 1.0, name="b")
    copy = pickle.loads(pickle.dumps(b))
    assert (copy.name, copy.dtype, copy.op.output(0)) == ("b", "float32", copy)
    same = te.create_prim_func([copy.op.input_tensors[0], copy])
    assert_structural_equal(same, te.create_prim_func([a, b]))


def names(tensor):
    return [x.var.name for x in tensor.op.axis]


def test_axes_are_named_after_the_function():
    assert names(te.compute((2, 3), lambda *i: i[0])) == ["i0", "i1"]
    assert names(te.compute((2, 3, 4), lambda a, *r: a + r[0])) == ["a", "i0", "i1"]
    assert names(te.compute((2, 3), lambda *i: i[0], varargs_names=["u", "v"])) == ["u", "v"]
    assert names(te.compute((2,), lambda i, scale=3: i * scale)) == ["i"]
    assert names(te.compute((2,), functools.partial(lambda x, i: i + x, 1))) == ["i"]
    assert names(te.compute((), lambda: tir.const(1.0))) == []


def test_an_expression_beside_a_tensor():
    n, a = te.var("n"), te.placeholder((2, 3), name="a")
    for made in (n + a, a[0, 0] * a, a - n):
        assert isinstance(made, te.Tensor) and structural_equal(list(made.shape), list(a.shape))
    assert isinstance(n + te.placeholder((), name="b"), tir.PrimExpr)  # an element


def test_wrong_number_of_indices():
    with pytest.raises(ValueError, match="fcompute do not match dimension, ndim=2"):
        te.compute((2, 3), lambda i: i)
    a = te.placeholder((2, 3))
    with pytest.raises(ValueError, match="has 2 dimensions"):
        a(1)


def test_slices_and_elements():
    a = te.placeholder((2, 3, 4), "int32", name="A")
    i = te.var("i")
    part = a[i]
    assert isinstance(part, te.TensorSlice) and part.dtype == "int32"
    assert structural_equal(part[1, 2], a(i, 1, 2))
    assert structural_equal(part[1][2], a[i, 1, 2])
    assert isinstance(a[i, 1, 2], tir.ProducerLoad)
    scalar = te.placeholder((), name="s")
    assert scalar().producer is scalar and scalar[()].dtype == "float32"


def test_reductions_stand_alone():
    a = te.placeholder((4, 5), name="A")
    k = te.reduce_axis((0, 5), name="k")
    with pytest.raises(ValueError, match="Reductions are only allowed at the top level of compute"):
        te.compute((4,), lambda i: te.sum(a[i, k], axis=k) + 1.0)
    with pytest.raises(ValueError, match=r"te\.reduce_axis"):
        te.sum(a[0, 0], axis=te.compute((4,), lambda i: i).op.axis[0])


def test_reducers_on_plain_values_combine_them():
    x, y = te.var("x"), te.var("y")
    assert structural_equal(tir.max(x, y), tir.Max(x, y))
    assert structural_equal(te.sum(x, y), tir.Add(x, y))
    assert int(te.min(3, 4)) == 3


def test_reduce_nodes():
    a = te.placeholder((4, 5), name="A")
    k = te.reduce_axis((0, 5), name="k")
    total = te.sum(a[0, k], axis=k, where=k < 3, init=2.0)
    assert isinstance(total, tir.Reduce) and total.axis == (k,)
    assert float(total.init[0]) == 2.0 and isinstance(total.condition, tir.LT)
    assert float(te.max(a[0, k], axis=k).combiner.identity_element[0]) == -math.inf


def test_comm_reducer_of_two_values():
    def combine(a, b):
        return tir.Select(a[1] > b[1], a[0], b[0]), tir.Select(a[1] > b[1], a[1], b[1])

    argmax = te.comm_reducer(combine, lambda i, v: (tir.const(-1, i), te.min_value(v)), "argmax")
    a = te.placeholder((4, 5), name="A")
    k = te.reduce_axis((0, 5), name="k")
    index, value = te.compute((4,), lambda i: argmax((k, a[i, k]), axis=k), name="best")
    assert (index.dtype, value.dtype) == ("int32", "float32")
    assert (index.name, value.name) == ("best_v0", "best_v1")
    assert index.op is value.op and index.op.reduce_axis == (k,)


def test_equal_reductions_are_structurally_equal():
    a = te.placeholder((5,), name="A")

    def total():
        k = te.reduce_axis((0, 5), name="k")
        return te.sum(a[k], axis=k)

    assert structural_equal(total(), total())


def test_tag_scope():
    a = te.placeholder((4,), name="A")
    with te.tag_scope("conv"):
        b = te.compute((4,), lambda i: a[i])
    assert b.op.tag == "conv"
    assert te.compute((4,), lambda i: a[i]).op.tag == ""

    @te.tag_scope("pool")
    def make():
        return te.compute((4,), lambda i: a[i])

    assert make().op.tag == "pool"
    with pytest.raises(ValueError, match="do not nest"), te.tag_scope("a"), te.tag_scope("b"):
        pass


def test_extern_needs_a_dtype():
    with pytest.raises(ValueError, match="pass dtype="):
        te.extern((4,), [], lambda ins, outs: tir.call_packed("f", outs[0]))
    a, b = te.placeholder((4,)), te.placeholder((4,), "int32")
    with pytest.raises(ValueError, match="differ in dtype"):
        te.extern((4,), [a, b], lambda ins, outs: tir.call_packed("f", outs[0]))


def test_expressions_end_at_tensors():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0)
    seen = []
    tir.stmt_functor.post_order_visit(b[2] * 2.0, seen.append)
    assert not any(isinstance(n, tir.Add) for n in seen)


def test_whole_tensors_without_operators_say_so(monkeypatch):
    monkeypatch.setattr(te.tensor.Operators, "_build", {})
    with pytest.raises(TypeError, match="no operator add"):
        te.placeholder((4,), name="A") + 1


def test_intrinsics_of_elements():
    """Every function of one or two numbers that te has, in the interpreter and natively."""
    x = (np.random.default_rng(2).random(9) + 0.1).astype("float32")
    a = te.placeholder((9,), name="A")
    cases = [
        (te.exp2(a[0]), np.exp2), (te.exp10(a[0]), lambda v: 10**v), (te.log1p(a[0]), np.log1p),
        (te.hypot(a[0], a[0]), lambda v: np.hypot(v, v)),
        (te.copysign(a[0], te.const(-1.0, "float32")), lambda v: -v),
        (te.subtract(te.multiply(a[0], a[0]), te.add(a[0], 1.0)), lambda v: v * v - (v + 1)),
    ]  # fmt: skip
    outs = [te.compute((1,), lambda i, e=e: e, name=f"out{n}") for n, (e, _) in enumerate(cases)]
    func = te.create_prim_func([a, *outs])
    for way in (lambda *v: run(func, list(v)), lw.compile(func, "llvm")["main"]):
        got = [np.zeros(1, "float32") for _ in cases]
        way(x, *got)
        for value, (_, expected) in zip(got, cases, strict=True):
            np.testing.assert_allclose(value[0], expected(x[0]), rtol=1e-5)


OPERATORS = {
    "neg": lambda x, y: -x,
    "left_shift": lambda x, y: x << y,
    "right_shift": lambda x, y: x >> y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "reversed": lambda x, y: 7 - x,
    "multiply": lambda x, y: x * y,
    "mod": lambda x, y: x % y,
    "floordiv": lambda x, y: x // y,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_of_tensors(name):
    x, y = te.placeholder((4,), "int32", name="x"), te.placeholder((4,), "int32", name="y")
    made = OPERATORS[name](x, y)
    a, b = np.array([1, 6, -9, 20], "int32"), np.array([3, 2, 1, 4], "int32")
    got = np.zeros(4, "int32")
    used = [t for t in (x, y) if t in made.op.input_tensors]
    run(te.create_prim_func([*used, made]), [*(a if t is x else b for t in used), got])
    np.testing.assert_array_equal(got, OPERATORS[name](a, b))


def test_rare_forms():
    a = te.placeholder((2, 3), "int32", name="a")
    assert structural_equal(a[1][2], a(1, 2)) and a[1].dtype == "int32"
    with pytest.raises(ValueError, match="has 2 dimensions"):
        te.compute((2,), lambda i: a[i])
    assert te.TagScope.get_current() is None
    with te.tag_scope("t") as scope:
        assert te.TagScope.get_current() is scope
    assert te.compute(4, lambda i: i).ndim == 1


def test_a_reduction_is_simplified_with_what_is_known():
    k, where = te.reduce_axis((0, 10), "k"), te.var("where")
    A = te.placeholder((10,), name="A")
    either = te.comm_reducer(
        lambda x, y: tir.Select(where < 0, x + y, x * y),
        lambda t: tir.Select(where < 0, tir.const(0, t), tir.const(1, t)),
    )
    ana = Analyzer()
    ana.bind(where, Range(-8, -4))
    made = ana.simplify(either(A[k], k))
    assert_structural_equal(made, te.sum(A[k], k), map_free_vars=True)
    clipped = te.sum(tir.if_then_else(k < 10, A[k], 0.0), k)
    assert_structural_equal(ana.simplify(clipped), te.sum(A[k], k), map_free_vars=True)
    assert str(ana.simplify(te.sum(A[3], []))) == "A[3]"
    assert str(ana.simplify(te.sum(A[3], [], where=where > 0, init=2.0))) == "T.float32(2.0)"


def test_values_of_a_reduction_that_are_not_needed_are_left_out():
    k = te.reduce_axis((0, 10), "k")
    A = te.placeholder((10,), name="A")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[0] + y[0] + x[1] + y[1]),
        lambda t, u: (tir.const(0, t), tir.const(0, u)),
    )
    first, second = both((A[k], A[9 - k]), k)
    made = Analyzer().simplify(first)
    assert_structural_equal(made, te.sum(A[k], k), map_free_vars=True)
    assert Analyzer().simplify(second) is second  # it depends on the first
    told = tir.call_extern("float32", "tell", A[k])
    assert len(Analyzer().simplify(both((A[k], told), k)[0]).source) == 2  # an effect stays
