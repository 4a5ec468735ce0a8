"""Sorting as tensor expressions, under topi's signatures."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import te, tir, topi
from loopwright.tir import interpreter

DATA = np.array([[2, 1, 2, 0], [0, 3, 3, 1]], "float32")


def run(*outs):
    x = outs[0].op.input_tensors[0]
    func = te.create_prim_func([x, *outs])
    made = [np.zeros([int(d) for d in o.shape], str(o.dtype)) for o in outs]
    interpreter.run(func, [DATA.copy(), *made])
    return made


@pytest.fixture
def x():
    return te.placeholder((2, 4), "float32", "x")


def test_sort(x):
    np.testing.assert_array_equal(run(topi.sort(x))[0], np.sort(DATA))
    np.testing.assert_array_equal(run(topi.sort(x, 0, False))[0], -np.sort(-DATA, 0))


def test_argsort(x):
    (made,) = run(topi.argsort(x, is_ascend=False))
    assert made.dtype == "float32"
    np.testing.assert_array_equal(made, np.argsort(-DATA, kind="stable"))
    with pytest.raises(ValueError, match="sorts whole rows"):
        topi.argsort(x, valid_count=x)


def test_topk(x):
    values, indices = run(*topi.topk(x, 2))
    np.testing.assert_array_equal(values, -np.sort(-DATA)[:, :2])
    np.testing.assert_array_equal(indices, np.argsort(-DATA, kind="stable")[:, :2])
    assert indices.dtype == "int64"


def test_running_sum(x):
    np.testing.assert_array_equal(run(topi.cumsum(x, axis=0))[0], np.cumsum(DATA, 0))


def test_in_a_larger_expression(x):
    doubled = te.compute(x.shape, lambda i, j: x(i, j) * tir.const(2, "float32"), "doubled")
    ordered = topi.sort(doubled)
    last = te.compute((2,), lambda i: ordered(i, 3) + x(i, 0), "last")
    func = te.create_prim_func([x, last])
    out = np.zeros(2, "float32")
    interpreter.run(func, [DATA.copy(), out])
    np.testing.assert_array_equal(out, 2 * DATA.max(1) + DATA[:, 0])


def test_scratch_is_no_access_of_the_block(x):
    func = te.create_prim_func([x, te.compute((2,), lambda i: topi.sort(x)(i, 0), "least")])
    sort = func.body.block.body[0].block
    assert [r.buffer.name for r in sort.reads] == ["data"]
    assert [r.buffer.name for r in sort.writes] == ["sort"]
