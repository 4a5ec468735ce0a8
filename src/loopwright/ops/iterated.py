"""Special functions of two arguments that need loops: the incomplete gamma functions, orthogonal polynomials.

Formulas: Abramowitz and Stegun, Handbook of Mathematical Functions, chapters 6 and 22.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from .. import te, tir
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const
from ..tir.ir_builder import BufferVar, IRBuilder
from .common import broadcast_all, broadcast_index, by_loops, infer_broadcast, shape_of
from .core import case, op
from .params import Tensor
from .special import log_gamma, where
from .statements import long, loops, written


def _elementwise(name: str, a: Any, b: Any, write: Callable[..., PrimExpr]) -> Any:
    """`write(ib, x, y)`, of numbers in float64, for each pair of elements that broadcast."""
    dims = broadcast_all([shape_of(a), shape_of(b)])
    tensors = [t for t in (a, b) if isinstance(t, te.Tensor)]

    def body(ib: IRBuilder, *buffers: BufferVar) -> None:
        with ExitStack() as stack:
            at, pointers = tuple(loops(ib, stack, dims, parallel=True)), iter(buffers)
            pair = [
                next(pointers)[tuple(broadcast_index(t, at, dims))]
                if isinstance(t, te.Tensor)
                else t
                for t in (a, b)
            ]
            x, y = (ib.let(n, cast("float64", v)) for n, v in zip(("x", "y"), pair, strict=True))
            buffers[-1][at] = cast(a.dtype, write(ib, x, y))

    return written([dims], tensors, body, [a.dtype], name)


def _loop_until(ib: IRBuilder, state: BufferVar, step: Callable[[PrimExpr], PrimExpr]) -> None:
    """`step(k)` for k = 1, 2, ... until the change that it returns is below the last digit; state[0] is k."""
    state[0] = const(0.0, "float64")
    state[1] = const(1.0, "float64")
    with ib.while_loop(tir.all(state[0] < _MOST, state[1] > _DIGIT)):
        state[0] = state[0] + 1.0
        state[1] = step(state[0])


_MOST, _DIGIT = 5000.0, 1e-16  # steps; relative change of a sum
_TINY = 1e-300  # for a denominator of 0 in a continued fraction (Lentz)


def _incomplete_gamma(ib: IRBuilder, a: PrimExpr, x: PrimExpr, upper: bool) -> Any:
    """The series of 6.5.29 below a + 1, the continued fraction of 6.5.31 above."""
    state, value = ib.allocate("float64", 2, "state"), ib.allocate("float64", 3, "value")
    scale = ib.let("scale", tir.exp(a * tir.log(x) - x - log_gamma(a)))
    with ib.if_scope(x < a + 1.0):
        value[0] = value[1] = 1.0 / a

        def add(k):
            value[1] = value[1] * x / (a + k)
            value[0] = value[0] + value[1]
            return tir.abs(value[1] / value[0])

        _loop_until(ib, state, add)
        value[0] = 1.0 - value[0] * scale if upper else value[0] * scale
    with ib.else_scope():
        value[1] = const(1 / _TINY, "float64")
        value[2] = 1.0 / (x + 1.0 - a)
        value[0] = value[2]

        def multiply(k):
            factor, first = ib.let("factor", k * (a - k)), x + 1.0 - a + k * 2.0
            away = lambda v: tir.Select(tir.abs(v) < _TINY, const(_TINY, "float64"), v)  # noqa: E731
            value[2] = 1.0 / away(factor * value[2] + first)
            value[1] = away(first + factor / value[1])
            value[0] = value[0] * value[1] * value[2]
            return tir.abs(value[1] * value[2] - 1.0)

        _loop_until(ib, state, multiply)
        value[0] = value[0] * scale if upper else 1.0 - value[0] * scale
    none, whole = (float(upper), 1.0 - upper)
    out = where(x.equal(0.0), none, where(tir.any(tir.isinf(x), a.equal(0.0)), whole, value[0]))
    out = where(tir.isinf(a), none, out)
    bad = tir.any(a < 0.0, x < 0.0, tir.isnan(a), tir.isnan(x), tir.all(a.equal(0.0), x.equal(0.0)))
    return where(tir.any(bad, tir.all(tir.isinf(a), tir.isinf(x))), math.nan, out)


def _incomplete(name: str, upper: bool, doc: str) -> None:
    def body(a: Tensor, x: Tensor):
        return _elementwise(name, a, x, lambda ib, b, y: _incomplete_gamma(ib, b, y, upper))

    body.__name__, body.__doc__ = name, doc
    operator = op(f"relax.special.{name}")(body)

    operator.numpy(by_loops(operator.body))
    operator.samples(
        case((3, 4), (3, 4), low=1.5, high=8.0), case(("n", 1), (4,), low=1.5, high=8.0)
    )


_incomplete(
    "igamma", False, "The lower incomplete gamma function of x, divided by the gamma function of a."
)
_incomplete("igammac", True, "1 - igamma(a, x), also of large x.")


# Of each family: the second polynomial, c + d x as (c, d), and by its degree k the next one after p and q,
# those of degrees k and k - 1: (e + f x) p - g q as (e, f, g) (22.7). Shifted ones are those of 2 x - 1.
_Row = tuple[float, float, Callable[[Any], tuple[Any, Any, Any]]]
_POLYNOMIALS: dict[str, _Row] = {
    "chebyshev_t": (0, 1, lambda k: (0, 2, 1)),
    "chebyshev_u": (0, 2, lambda k: (0, 2, 1)),
    "chebyshev_v": (-1, 2, lambda k: (0, 2, 1)),
    "chebyshev_w": (1, 2, lambda k: (0, 2, 1)),
    "hermite_h": (0, 2, lambda k: (0, 2, k * 2.0)),
    "hermite_he": (0, 1, lambda k: (0, 1, k)),
    "laguerre_l": (1, -1, lambda k: ((k * 2.0 + 1.0) / (k + 1.0), -1.0 / (k + 1.0), k / (k + 1.0))),
    "legendre_p": (0, 1, lambda k: (0, (k * 2.0 + 1.0) / (k + 1.0), k / (k + 1.0))),
}


@op("relax.special.polynomial", choices={"family": _POLYNOMIALS})
def polynomial(x: Tensor, n: Tensor, family: str = "chebyshev_t", shifted: bool = False):
    """The polynomial of degree n (rounded toward zero; 0 below 0) of a family, "chebyshev_t", "_u", "_v", "_w",
    "hermite_h", "hermite_he", "laguerre_l" or "legendre_p", at x, or at 2 x - 1 of shifted ones."""
    first, slope, recurrence = _POLYNOMIALS[family]

    def write(ib: IRBuilder, value: PrimExpr, degree: PrimExpr) -> PrimExpr:
        y = ib.let("at", value * 2.0 - 1.0) if shifted else value
        pair = ib.allocate("float64", 2, "pair")
        pair[0] = const(1.0, "float64")
        pair[1] = y * float(slope) + float(first)
        count = ib.let("count", cast("int64", degree))
        with ib.for_range(long(0), tir.max(count - 1, long(0)), "k", dtype="int64") as k:
            e, f, g = recurrence(cast("float64", k + 1))
            following = ib.let("following", (y * f + e) * pair[1] - pair[0] * g)
            pair[0] = pair[1]
            pair[1] = following
        return where(count < 0, 0.0, where(count < 1, 1.0, pair[1]))

    return _elementwise("polynomial", x, n, write)


polynomial.infer(lambda x, n, **_: infer_broadcast(x, n, x.dtype))
polynomial.numpy(by_loops(polynomial.body))

_DEGREES = np.array([-1, -0.5, 1, 2, 5], np.float32)
polynomial.samples(
    *(case((2, 5), _DEGREES, family=name, shifted=name.endswith("w")) for name in _POLYNOMIALS),
    case(("n", 1), np.array([3, 4], np.int64), family="chebyshev_u"),
)
