"""Fast approximations of functions of float32; other types are computed exactly."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from ... import te, tir
from ...ir.prim_expr import PrimExpr
from ...ir.prim_op import cast
from ...ops.reduce import exp_and_sum
from ...te.tensor import Tensor

LIMIT = 88.3762626647949  # beyond it exp overflows float32
LOG2_E, LN2_HIGH, LN2_LOW = 1.44269504, 0.693359375, -2.12194440e-4
EXP = (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)  # the Taylor series
# Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: within 1.5e-7.
ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592, 0.0)
ERF_SCALE = 0.3275911
SATURATED = 9.0  # beyond it tanh is 1


def _let(name: str, value: PrimExpr, body: Callable[[Any], Any]) -> Any:
    """`body` of a value that is computed once."""
    var = tir.Var(name, value.dtype)
    return tir.Let(var, value, body(var))


def _polynomial(x: PrimExpr, coefficients: tuple[float, ...]) -> Any:
    """The highest power first."""
    first, *others = (tir.const(c, x.dtype) for c in coefficients)
    return reduce(lambda value, c: value * x + c, others, first)


def _clamped(x: PrimExpr, limit: float) -> Any:
    return tir.max(tir.min(x, tir.const(limit, "float32")), tir.const(-limit, "float32"))


def _exp(x: PrimExpr) -> Any:
    """2 to the integer part, as bits, times a polynomial of the rest."""

    def scaled(x: PrimExpr, whole: PrimExpr) -> Any:
        rest = x - whole * LN2_HIGH - whole * LN2_LOW
        scale = tir.reinterpret("float32", (tir.Cast("int32", whole) + 127) << 23)
        return _let("rest", rest, lambda r: _polynomial(r, EXP) * scale)

    def parted(x: PrimExpr) -> Any:
        return _let("whole", tir.floor(x * LOG2_E + 0.5), lambda whole: scaled(x, whole))

    return _let("x", _clamped(x, LIMIT), parted)


def _erf(x: Any) -> Any:
    def signed(value: PrimExpr) -> Any:
        return tir.Select(x < 0.0, value * -1.0, value)

    t = tir.const(1.0, "float32") / (tir.abs(x) * ERF_SCALE + 1.0)
    tail = _let("t", t, lambda t: _polynomial(t, ERF)) * _exp(x * x * -1.0)
    return _let("value", tir.const(1.0, "float32") - tail, signed)


def _tanh(x: PrimExpr) -> Any:
    raised = _exp(_clamped(x, SATURATED) * 2.0)
    return tir.const(1.0, "float32") - tir.const(2.0, "float32") / (raised + 1.0)


def _each(name: str, x: Tensor, fast: Callable[..., Any], exact: Callable[..., Any]) -> Tensor:
    function = fast if x.dtype == "float32" else exact
    return te.compute(x.shape, lambda *i: function(x(*i)), name=name, tag="elemwise")


def fast_exp(x: Tensor) -> Tensor:
    """exp, within 1e-6 of its value."""
    return _each("T_fast_exp", x, _exp, tir.exp)


def fast_erf(x: Tensor) -> Tensor:
    """erf, within 1e-6."""
    return _each("T_fast_erf", x, _erf, tir.erf)


def fast_tanh(x: Tensor) -> Tensor:
    """tanh, within 1e-6."""
    return _each("T_fast_tanh", x, _tanh, tir.tanh)


def fast_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """softmax along `axis` by `fast_exp`."""
    return softmax_by(_exp if x.dtype == "float32" else tir.exp, x, axis)


def softmax_by(function: Callable[..., Any], x: Tensor, axis: int) -> Tensor:
    """softmax along `axis`, with a division for each element, as TVM has it."""
    which = axis % x.ndim
    _, exped, total = exp_and_sum(x, which, function)
    share = lambda *i: cast(x.dtype, exped(*i) / total(*i[:which], *i[which + 1 :]))  # noqa: E731
    return te.compute(x.shape, share, name="T_softmax_norm", tag="softmax_output")


# The operators that FastMathTransform replaces.
BY_OPERATOR = {
    "relax.exp": fast_exp,
    "relax.erf": fast_erf,
    "relax.tanh": fast_tanh,
    "relax.nn.softmax": fast_softmax,
}
