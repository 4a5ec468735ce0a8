"""What a softmax leaves out: NaN in its maxima, and the row of its exponentials."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, te, tir
from loopwright.relax import op
from loopwright.sched.rows import rows

from ..relax.transform.graphs import graph

ROWS = {"whole vectors": 256, "a rest": 197, "few": 40}
SPECIAL = (np.nan, np.inf, -np.inf)


def compiled(operator, shape):
    return lw.compile(graph(operator, shape))


OPERATORS = {
    "softmax": (lambda emit, x: op.nn.softmax(x), lambda s, x: s),
    "log_softmax": (lambda emit, x: op.nn.log_softmax(x), lambda s, x: np.log(s)),
    "softmax and relu": (
        lambda emit, x: op.nn.relu(emit(op.nn.softmax(x))),
        lambda s, x: np.maximum(s, 0),
    ),
    "softmax of sums": (lambda emit, x: op.nn.softmax(emit(op.add(x, x))), None),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("columns", ROWS.values(), ids=list(ROWS))
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.filterwarnings("ignore:invalid value|divide by zero:RuntimeWarning")
def test_rows_with_special_values(name, columns):
    make, then = OPERATORS[name]
    x = np.random.default_rng(0).normal(size=(12, columns)).astype("float32")
    for row, value in enumerate(SPECIAL):
        x[row, row * 7 + 3] = value
    x[4, :], x[5, :], x[6, -1], x[7, 0] = np.nan, -np.inf, np.nan, np.inf
    scores = (x if then else x + x).astype("float64")
    power = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = power / power.sum(axis=1, keepdims=True)
    expected = then(expected, x) if then else expected
    out = np.asarray(compiled(make, x.shape)["main"](x))
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1e-7)


def text_of(operator, shape):
    return compiled(operator, shape).lowered.script()


def test_maxima_of_a_softmax_ignore_nan_and_its_result_holds_the_exponentials():
    text = text_of(lambda emit, x: op.nn.softmax(x), (64, 256))
    assert "isnan" not in text
    assert "T_softmax_exp = T.decl_buffer" not in text


def hand_written(top_row, term):
    """A kernel that is nearly a softmax."""
    x = te.placeholder((24, 64), "float32", "x")
    axes = [te.reduce_axis((0, 64), n) for n in "kr"]
    top = te.compute((24,), lambda i: te.max(x[top_row(i), axes[0]], axes[0]), "top")
    power = te.compute((24, 64), lambda i, j: te.exp(x[i, j] - top[i]), "power")
    total = te.compute((24,), lambda i: te.sum(term(power[i, axes[1]]), axes[1]), "total")
    return te.create_prim_func(
        [x, te.compute((24, 64), lambda i, j: power[i, j] / total[i], "out")]
    )


@pytest.mark.parametrize(
    ("top_row", "term", "lean"),
    [
        (lambda i: i, lambda p: p, True),
        (lambda i: 0, lambda p: p, False),  # NaN of another row
        (lambda i: i, lambda p: te.if_then_else(tir.isnan(p), 0.0, p), False),  # a sum without it
    ],
)
def test_only_a_softmax_is_one(top_row, term, lean):
    func = hand_written(top_row, term)
    x = np.random.default_rng(0).normal(size=(24, 64)).astype("float32")
    x[0, 3], x[5, 7] = np.nan, np.nan
    out, expected = np.empty_like(x), np.empty_like(x)
    lw.compile(func)["main"](x, out)
    plain = tir.Schedule(func).mod["main"].with_attr("tir.is_scheduled", True)
    lw.compile(plain)["main"](x, expected)
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1e-7)
    scheduled = rows(func, lw.Target("llvm -mcpu=skylake-avx512"))
    kept = [] if scheduled is None else [b.name for b in scheduled.func.body.block.alloc_buffers]
    assert lean == (scheduled is not None and "power" not in kept)


def test_maxima_keep_nan_where_the_result_may_not_have_it():
    nan_to_zero = lambda emit, x: op.where(  # noqa: E731
        op.equal(y := emit(op.nn.softmax(x)), y), y, relax.const(0.0, "float32")
    )
    assert "isnan" in text_of(nan_to_zero, (64, 256))
