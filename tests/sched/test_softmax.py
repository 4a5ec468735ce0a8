"""What a softmax leaves out: NaN in its maxima, and the row of its exponentials."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.relax import op

ROWS = {"whole vectors": 256, "a rest": 197, "few": 40}
SPECIAL = (np.nan, np.inf, -np.inf)


def compiled(operator, shape):
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo(shape, "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(operator(bb, x))
        bb.emit_func_output(out)
    return lw.compile(bb.get())


OPERATORS = {
    "softmax": (lambda bb, x: op.nn.softmax(x), lambda s, x: s),
    "log_softmax": (lambda bb, x: op.nn.log_softmax(x), lambda s, x: np.log(s)),
    "softmax and relu": (
        lambda bb, x: op.nn.relu(bb.emit(op.nn.softmax(x))),
        lambda s, x: np.maximum(s, 0),
    ),
    "softmax of sums": (lambda bb, x: op.nn.softmax(bb.emit(op.add(x, x))), None),
}


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
    text = text_of(lambda bb, x: op.nn.softmax(x), (64, 256))
    assert "isnan" not in text
    assert "T_softmax_exp = T.decl_buffer" not in text


def test_maxima_keep_nan_where_the_result_may_not_have_it():
    nan_to_zero = lambda bb, x: op.where(  # noqa: E731
        op.equal(y := bb.emit(op.nn.softmax(x)), y), y, relax.const(0.0, "float32")
    )
    assert "isnan" in text_of(nan_to_zero, (64, 256))
