"""Special functions, by series and expansions in float64, exact to about 1e-12.

Formulas: Abramowitz and Stegun, Handbook of Mathematical Functions, chapters 6, 7, 9, 10, 22 and 23.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from .. import tir
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const
from ..relax import op as R
from .family import binary, unary

Formula = Callable[[PrimExpr], PrimExpr]
_EULER = 0.5772156649015329
# B2, B4, ...
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SHIFT = 10  # asymptotic series are taken at x + 10, where eight terms are exact to 1e-13
_TERMS = 40  # of the zeta function, so that arguments down to -30 have a large one


def _let(value: PrimExpr, body: Callable[[Any], PrimExpr]) -> Any:
    """`body` of a value that is computed once."""
    var = tir.Var("v", value.dtype)
    return tir.Let(var, value, body(var))


def where(condition: PrimExpr, a: PrimExpr | float, b: PrimExpr | float) -> Any:
    a, b = (const(v, "float64") if isinstance(v, (int, float)) else v for v in (a, b))
    return tir.Select(condition, a, b)


def _polynomial(x: PrimExpr, coefficients: Iterable[float]) -> Any:
    """c0 + c1 x + c2 x**2 + ..., by Horner's rule."""
    *rest, last = coefficients
    out: Any = const(last, "float64")
    for c in reversed(rest):
        out = out * x + c
    return out


# ---------------------------------------------------------------- the gamma function


def log_gamma(x: PrimExpr) -> PrimExpr:
    """Stirling's series at x + 10, and the reflection for x < 0.5 (6.1.40, 6.1.17)."""
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)]

    def right(y):
        product = y
        for k in range(1, _SHIFT):
            product = product * (y + float(k))
        large = lambda z: (  # noqa: E731
            (z - 0.5) * tir.log(z) - z + 0.5 * math.log(2 * math.pi)
            + _let(1.0 / z, lambda w: _polynomial(w * w, terms) * w) - tir.log(product)
        )  # fmt: skip
        return _let(y + float(_SHIFT), large)

    def reflected(value):
        sine = tir.abs(tir.sin((x - tir.floor(x)) * math.pi))
        return where(x < 0.5, math.log(math.pi) - tir.log(sine) - value, value)

    out = _let(_let(where(x < 0.5, 1.0 - x, x), right), reflected)
    return where(tir.isinf(x), math.inf, out)


def _digamma(x: PrimExpr) -> PrimExpr:
    """The asymptotic series at x + 10, and the reflection for x < 0.5 (6.3.18, 6.3.7)."""
    terms = [b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)]

    def right(y):
        below = 1.0 / y
        for k in range(1, _SHIFT):
            below = below + 1.0 / (y + float(k))
        large = lambda z: (  # noqa: E731
            tir.log(z) - 0.5 / z - _let(1.0 / (z * z), lambda w: w * _polynomial(w, terms)) - below
        )
        return _let(y + float(_SHIFT), large)

    value = _let(where(x < 0.5, 1.0 - x, x), right)
    out = where(x < 0.5, value - math.pi / tir.tan((x - tir.floor(x)) * math.pi), value)
    pole = tir.all(x < 0.0, x.equal(tir.floor(x)))
    return where(pole, math.nan, where(x.equal(0.0), -math.inf, out))


def _zeta(s: PrimExpr, q: PrimExpr) -> PrimExpr:
    """The sum of (q + k) ** -s, by Euler and Maclaurin's formula at q + 40 (23.2.23 for any q). NaN where that
    is not large: below -30."""
    total = tir.pow(q, -s)
    for k in range(1, _TERMS):
        total = total + tir.pow(q + float(k), -s)

    def rest(z):
        out = tir.pow(z, 1.0 - s) / (s - 1.0) + tir.pow(z, -s) * 0.5
        factor = s * tir.pow(z, -s - 1.0)
        for k, b in enumerate(_BERNOULLI, 1):
            out = out + factor * (b / math.factorial(2 * k))
            factor = factor * (s + float(2 * k - 1)) * (s + float(2 * k)) / (z * z)
        return out

    return where(q < -30.0, math.nan, total + _let(q + float(_TERMS), rest))


def _hurwitz(s: PrimExpr, q: PrimExpr) -> PrimExpr:
    at_pole = where(
        q.equal(tir.floor(q)), math.inf, math.nan
    )  # real powers of negative numbers are NaN
    inside = tir.any(q > 0.0, tir.all(tir.floor(q) < q, s.equal(tir.floor(s))))
    value = where(inside, _zeta(s, q), at_pole)
    return where(s > 1.0, value, where(s.equal(1.0), math.inf, math.nan))


# ---------------------------------------------------------------- the error function


def _erfcx(x: PrimExpr, scaled: bool = True) -> PrimExpr:
    """1 - erf(x), or for large x the continued fraction of 7.1.14. scaled: times exp(x * x)."""

    def tail(large):
        fraction = large
        for k in range(40, 0, -1):
            fraction = large + (0.5 * k) / fraction
        return 1.0 / (fraction * math.sqrt(math.pi))

    def both(y):
        right = _let(tir.max(y, const(2.0, "float64")), tail)
        square = tir.exp(y * y)
        near = (1.0 - tir.erf(y)) * square if scaled else 1.0 - tir.erf(y)
        value = where(y < 2.0, near, right if scaled else right / square)
        return where(x < 0.0, (square * 2.0 if scaled else const(2.0, "float64")) - value, value)

    return _let(tir.abs(x), both)


def _erfinv(y: PrimExpr) -> PrimExpr:
    """Winitzki's approximation, then Halley's steps."""
    a = 0.147
    log = tir.log((1.0 - y) * (y + 1.0))

    def start(pair):
        half = pair * 0.5 + 2.0 / (math.pi * a)
        return tir.sqrt(tir.max(tir.sqrt(half * half - pair / a) - half, const(0.0, "float64")))

    def step(x, left):
        slope = tir.exp(-(x * x)) * (2.0 / math.sqrt(math.pi))
        closer = _let((tir.erf(x) - y) / slope, lambda error: x - error / (x * error + 1.0))
        return _let(closer, lambda z: step(z, left - 1)) if left else x

    sign = where(y < 0.0, -1.0, 1.0)
    out = _let(_let(log, start) * sign, lambda x: step(x, 3))
    end = tir.abs(y).equal(1.0)
    return where(end, y * math.inf, where(tir.abs(y) > 1.0, math.nan, out))


def _ndtri(p: PrimExpr) -> PrimExpr:
    return _erfinv(p * 2.0 - 1.0) * math.sqrt(2.0)


# ---------------------------------------------------------------- Bessel functions of order n = 0 and 1


def _series(n: int, sign: int, terms: int, weight: Callable[[int], float]) -> list[float]:
    """The coefficients of (x / 2) ** 2k in 9.1.10, 9.6.10, and of what follows the logarithm in 9.1.11."""
    return [sign**k * weight(k) / (math.factorial(k) * math.factorial(k + n)) for k in range(terms)]


def _expansion(n: int, terms: int) -> list[float]:
    """The coefficients of (1 / x) ** k in Hankel's expansions (9.2.5, 9.7.1)."""
    out = [1.0]
    for k in range(1, terms):
        out.append(out[-1] * (4 * n * n - (2 * k - 1) ** 2) / (8 * k))
    return out


def _harmonic(k: int) -> float:
    return sum(1 / j for j in range(1, k + 1))


def _pair(n: int) -> Callable[[int], float]:
    """The factors of the series of the second kind."""
    return (lambda k: _harmonic(k) + _harmonic(k + 1)) if n else _harmonic


def _split(y: PrimExpr, at: float, low: Formula, high: Formula) -> Any:
    """`low` up to a number, and `high` of more."""
    bound = const(at, "float64")
    return where(y < bound, _let(tir.min(y, bound), low), _let(tir.max(y, bound), high))


def _signed(x: PrimExpr, n: int, value: PrimExpr) -> Any:
    """Functions of order 1 are odd."""
    return _let(value, lambda v: where(x < 0.0, -v, v)) if n else value


def _bessel_i(n: int, scaled: bool) -> Formula:
    alternating = [(-1) ** k * c for k, c in enumerate(_expansion(n, 16))]

    def low(y):
        out = _let(y * y * 0.25, lambda w: _polynomial(w, _series(n, 1, 40, lambda k: 1.0)))
        return out * tir.exp(-y) * (y * 0.5 if n else 1.0)

    def high(y):
        return _let(1.0 / y, lambda w: _polynomial(w, alternating)) / tir.sqrt(y * (2 * math.pi))

    def formula(x: PrimExpr) -> PrimExpr:
        out = _let(tir.abs(x), lambda y: _split(y, 12.0, low, high))
        return _signed(x, n, out if scaled else out * tir.exp(tir.abs(x)))

    return formula


def _bessel_k(n: int, scaled: bool) -> Formula:
    def low(y):
        log = tir.log(y * 0.5) + _EULER
        series = lambda w, weight: _polynomial(w, _series(n, 1, 30, weight))  # noqa: E731

        def both(w):
            first, second = series(w, lambda k: 1.0), series(w, _pair(n))
            if n:
                return 1.0 / y + log * first * (y * 0.5) - second * (y * 0.25)
            return second - log * first

        out = _let(y * y * 0.25, both)
        return out * tir.exp(y) if scaled else out

    def high(y):
        out = _let(1.0 / y, lambda w: _polynomial(w, _expansion(n, 16)))
        out = out * tir.sqrt(math.pi * 0.5 / y)
        return out if scaled else out * tir.exp(-y)

    def formula(x: PrimExpr) -> PrimExpr:
        out = _split(x, 8.0, low, high)
        return where(x < 0.0, math.nan, where(x.equal(0.0), math.inf, out))

    return formula


def _bessel_jy(n: int, second: bool) -> Formula:
    """J and Y (9.1.10, 9.1.11; 9.2.5 and 9.2.6 from 14 on)."""
    terms = _expansion(n, 20)
    even, odd = ([(-1) ** k * c for k, c in enumerate(terms[start::2])] for start in (0, 1))

    def low(y):
        series = lambda w, weight: _polynomial(w, _series(n, -1, 45, weight))  # noqa: E731
        log, half = tir.log(y * 0.5) + _EULER, y * 0.5 if n else const(1.0, "float64")

        def both(w):
            first = series(w, lambda k: 1.0) * half
            if not second:
                return first
            rest = log * first * 2.0 - series(w, _pair(n)) * (half if n else 2.0)
            return (rest - 2.0 / y if n else rest) / math.pi

        return _let(y * y * 0.25, both)

    def high(y):
        def wave(angle):
            p = _let(1.0 / (y * y), lambda z: _polynomial(z, even))
            q = _let(1.0 / (y * y), lambda z: _polynomial(z, odd)) / y
            sin, cos = tir.sin(angle), tir.cos(angle)
            return sin * p + cos * q if second else cos * p - sin * q

        return _let(y - (n * 0.5 + 0.25) * math.pi, wave) * tir.sqrt(2.0 / (y * math.pi))

    def formula(x: PrimExpr) -> PrimExpr:
        out = _let(tir.abs(x), lambda y: _split(y, 14.0, low, high))
        if second:
            return where(x < 0.0, math.nan, where(x.equal(0.0), -math.inf, out))
        return _signed(x, n, out)

    return formula


def _spherical_j0(x: PrimExpr) -> PrimExpr:
    return where(x.equal(0.0), 1.0, tir.sin(x) / x)


# ---------------------------------------------------------------- Airy's function


def _airy(x: PrimExpr) -> PrimExpr:
    """Maclaurin's series (10.4.2) between -7 and 5.5, the asymptotic expansions outside (10.4.59, 10.4.60)."""
    f, g = [1.0], [1.0]
    for k in range(1, 45):
        f.append(f[-1] / ((3 * k - 1) * (3 * k)))
        g.append(g[-1] / ((3 * k) * (3 * k + 1)))
    at_zero, slope = 0.355028053887817239, 0.258819403792806798
    c = [1.0]
    for k in range(1, 18):
        c.append(c[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
    near = _let(
        tir.max(tir.min(x, const(5.5, "float64")), const(-7.0, "float64")),
        lambda y: _let(
            y * y * y,
            lambda w: _polynomial(w, f) * at_zero - _polynomial(w, g) * slope * y,
        ),
    )

    def far(y):
        root = tir.sqrt(y)

        def decaying(z):
            series = _let(-1.0 / z, lambda w: _polynomial(w, c[:16]))
            return tir.exp(-z) * series / (tir.sqrt(root) * (2.0 * math.sqrt(math.pi)))

        def waving(z):
            signs = [(-1) ** k for k in range(8)]
            even = [s * v for s, v in zip(signs, c[0::2], strict=False)]
            odd = [s * v for s, v in zip(signs, c[1::2], strict=False)]
            parts = _let(
                1.0 / (z * z),
                lambda w: (
                    tir.sin(z + math.pi / 4) * _polynomial(w, even)
                    - tir.cos(z + math.pi / 4) * _polynomial(w, odd) / z
                ),
            )
            return parts / (tir.sqrt(root) * math.sqrt(math.pi))

        return _let(y * root * (2.0 / 3.0), lambda z: where(x < 0.0, waving(z), decaying(z)))

    outside = _let(tir.max(tir.abs(x), const(5.5, "float64")), far)
    return where(tir.all(x > -7.0, x < 5.5), near, outside)


# ---------------------------------------------------------------- the operators


def _special(
    name: str, formula: Formula, doc: str, slope: Callable[..., Any] | None = None,
    low: float = -3.0, high: float = 20.0,
) -> None:  # fmt: skip
    unary(
        f"relax.special.{name}",
        lambda x: cast(x.dtype, formula(cast("float64", x))),
        None,
        doc,
        float_only=True,
        sample={"low": low, "high": high},
        slope=slope,
        flat=False,
    )


# name: (formula, what it is, its derivative, arguments of the sample)
_ROOT_PI = math.sqrt(math.pi)
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "lgamma": (
        log_gamma, "The logarithm of the absolute value of the gamma function.",
        lambda cx, x: R.special.digamma(x), 0.1, 20.0,
    ),
    "digamma": (
        _digamma, "The derivative of lgamma.",
        lambda cx, x: R.special.zeta(R.full_like(x, cx.number(2)), x), 0.1, 20.0,
    ),
    "erfc": (
        lambda x: _erfcx(x, False), "1 - erf(x), also of large x.",
        lambda cx, x: cx.number(-2 / _ROOT_PI) * R.exp(-(x * x)), -3.0, 6.0,
    ),
    "erfcx": (
        _erfcx, "exp(x * x) * erfc(x).",
        lambda cx, x: cx.number(2) * x * cx.out - cx.number(2 / _ROOT_PI), -3.0, 6.0,
    ),
    "erfinv": (
        _erfinv, "The inverse of erf.",
        lambda cx, x: cx.number(_ROOT_PI / 2) * R.exp(cx.out * cx.out), -0.95, 0.95,
    ),
    "ndtri": (
        _ndtri, "The quantile of the normal distribution.",
        lambda cx, x: cx.number(math.sqrt(2 * math.pi)) * R.exp(cx.number(0.5) * cx.out * cx.out), 0.05, 0.95,
    ),
    "i0": (
        _bessel_i(0, False), "The modified Bessel function I of order 0.",
        lambda cx, x: R.special.i1(x), -3.0, 14.0,
    ),
    "i0e": (
        _bessel_i(0, True), "exp(-abs(x)) * i0(x).",
        lambda cx, x: R.special.i1e(x) - R.sign(x) * cx.out, -3.0, 20.0,
    ),
    "i1": (
        _bessel_i(1, False), "The modified Bessel function I of order 1.",
        lambda cx, x: R.special.i0(x) - cx.out / x, -3.0, 14.0,
    ),
    "i1e": (
        _bessel_i(1, True), "exp(-abs(x)) * i1(x).",
        lambda cx, x: R.special.i0e(x) - cx.out / x - R.sign(x) * cx.out, -3.0, 20.0,
    ),
    "k0": (
        _bessel_k(0, False), "The modified Bessel function K of order 0.",
        lambda cx, x: -R.special.k1(x), 0.2, 12.0,
    ),
    "k0e": (
        _bessel_k(0, True), "exp(x) * k0(x).",
        lambda cx, x: cx.out - R.special.k1e(x), 0.2, 12.0,
    ),
    "k1": (
        _bessel_k(1, False), "The modified Bessel function K of order 1.",
        lambda cx, x: -R.special.k0(x) - cx.out / x, 0.2, 12.0,
    ),
    "k1e": (
        _bessel_k(1, True), "exp(x) * k1(x).",
        lambda cx, x: cx.out - R.special.k0e(x) - cx.out / x, 0.2, 12.0,
    ),
    "j0": (
        _bessel_jy(0, False), "The Bessel function J of order 0.",
        lambda cx, x: -R.special.j1(x), -20.0, 20.0,
    ),
    "j1": (
        _bessel_jy(1, False), "The Bessel function J of order 1.",
        lambda cx, x: R.special.j0(x) - cx.out / x, -20.0, 20.0,
    ),
    "y0": (
        _bessel_jy(0, True), "The Bessel function Y of order 0.",
        lambda cx, x: -R.special.y1(x), 0.2, 20.0,
    ),
    "y1": (
        _bessel_jy(1, True), "The Bessel function Y of order 1.",
        lambda cx, x: R.special.y0(x) - cx.out / x, 0.2, 20.0,
    ),
    "spherical_j0": (
        _spherical_j0, "sin(x) / x, and 1 at 0.",
        lambda cx, x: (R.cos(x) - cx.out) / x, -9.0, 9.0,
    ),
    "airy_ai": (
        _airy, "Airy's function Ai.", None, -6.0, 9.0,
    ),
}  # fmt: skip
for _name, _facts in _FUNCTIONS.items():
    _special(_name, *_facts)


zeta = binary(
    "relax.special.zeta",
    lambda s, q: cast(s.dtype, _hurwitz(cast("float64", s), cast("float64", q))),
    None,
    "Hurwitz's zeta function, the sum of (q + k) ** -s over k = 0, 1, ..., for s > 1; of q < 0 for "
    "whole s. It has a gradient for q.",
    sample={"low": 1.5, "high": 6.0},
)


@zeta.grad
def _(cx, x1, x2):
    return [None, cx.fit(-x1 * R.special.zeta(x1 + cx.number(1), x2) * cx.grad, x2)]
