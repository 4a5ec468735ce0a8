"""Special functions, by series and expansions in float64; of float64 itself they are left to torch.

Formulas: Abramowitz and Stegun, Handbook of Mathematical Functions, chapters 6, 7, 9 and 23.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ....base.errors import explain
from ...graph.registry import Converter
from ..context import Arg, Term
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from .table import aten, each

Formula = Callable[[Context, Term], Term]
_BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
)  # B2, B4, ...
_SHIFT = 10  # asymptotic series are taken at x + 10, where eight terms are exact to 1e-13
_TERMS = 40  # of the zeta function, so that arguments down to -30 have a large one


def _in_float64(formula: Formula) -> Converter:
    def convert(cx: Context, node: Node, x: Term) -> Term:
        return formula(cx, _wide(cx, node, x)).astype(node.dtype)

    return convert


def _wide(cx: Context, node: Node, x: Arg) -> Term:
    if node.dtype == "float64":
        raise ValueError(explain("this function is not exact enough for float64"))
    return cx.tensor(x, "float64")


def _polynomial(x: Term, coefficients: Iterable[float]) -> Term:
    """c0 + c1 x + c2 x**2 + ..., by Horner's rule."""
    *rest, last = coefficients
    out = x * 0.0 + last
    for c in reversed(rest):
        out = out * x + c
    return out


def _log_gamma(cx: Context, x: Term) -> Term:
    """Stirling's series at x + 10, and the reflection for x < 0.5 (6.1.40, 6.1.17)."""
    reflected = x < 0.5
    y = cx.where(reflected, 1.0 - x, x)
    product = y
    for k in range(1, _SHIFT):
        product = product * (y + float(k))
    z = y + float(_SHIFT)
    series = _polynomial(
        1.0 / (z * z), [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)]
    )
    right = (z - 0.5) * z.log() - z + 0.5 * math.log(2 * math.pi) + series / z - product.log()
    left = math.log(math.pi) - ((x - x.floor()) * math.pi).sin().abs().log() - right
    return cx.where(x.isinf(), math.inf, cx.where(reflected, left, right))


def _digamma(cx: Context, x: Term) -> Term:
    """The asymptotic series at x + 10, and the reflection for x < 0.5 (6.3.18, 6.3.7)."""
    reflected = x < 0.5
    y = cx.where(reflected, 1.0 - x, x)
    below = 1.0 / y
    for k in range(1, _SHIFT):
        below = below + 1.0 / (y + float(k))
    z = y + float(_SHIFT)
    w = 1.0 / (z * z)
    right = (
        z.log()
        - 0.5 / z
        - w * _polynomial(w, [b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)])
        - below
    )
    out = cx.where(reflected, right - math.pi / ((x - x.floor()) * math.pi).tan(), right)
    pole = (x < 0.0) & x.equal(x.floor())
    return cx.where(pole, math.nan, cx.where(x.equal(0.0), math.inf * -1, out))


def _zeta(cx: Context, s: Term, q: Term) -> Term:
    """The sum of (q + k) ** -s, by Euler and Maclaurin's formula at q + 40 (23.2.23 for any q). NaN where that
    is not large: below -30."""
    total = q.power(-s)
    for k in range(1, _TERMS):
        total = total + (q + float(k)).power(-s)
    z = q + float(_TERMS)
    total = total + z.power(1.0 - s) / (s - 1.0) + z.power(-s) * 0.5
    factor = s * z.power(-s - 1.0)
    for k, b in enumerate(_BERNOULLI, 1):
        total = total + factor * (b / math.factorial(2 * k))
        factor = factor * (s + float(2 * k - 1)) * (s + float(2 * k)) / (z * z)
    return cx.where(q < -30.0, math.nan, total)


def _erfc(cx: Context, x: Term, scaled: bool = False) -> Term:
    """1 - erf(x), or for large x the continued fraction of 7.1.14. scaled: times exp(x * x)."""
    y = x.abs()
    large = y.maximum(2.0)
    fraction = large
    for k in range(40, 0, -1):
        fraction = large + (0.5 * k) / fraction
    tail = 1.0 / (fraction * math.sqrt(math.pi))
    small = 1.0 - y.erf()
    square = x * x
    right = (
        cx.where(y < 2.0, small * square.exp(), tail)
        if scaled
        else cx.where(y < 2.0, small, tail * (-square).exp())
    )
    left = square.exp() * 2.0 - right if scaled else 2.0 - right
    return cx.where(x < 0.0, left, right)


def _erfinv(cx: Context, y: Term) -> Term:
    """Winitzki's approximation, then Halley's steps."""
    a = 0.147
    log = ((1.0 - y) * (y + 1.0)).log()
    half = log * 0.5 + 2.0 / (math.pi * a)
    x = (((half * half - log / a).sqrt() - half).maximum(0.0)).sqrt() * y.sign()
    for _ in range(3):
        error = (x.erf() - y) / ((-(x * x)).exp() * (2.0 / math.sqrt(math.pi)))
        x = x - error / (x * error + 1.0)
    end = y.abs().equal(1.0)
    return cx.where(end, y * math.inf, cx.where(y.abs() > 1.0, math.nan, x))


def _ndtri(cx: Context, p: Term) -> Term:
    return _erfinv(cx, p * 2.0 - 1.0) * math.sqrt(2.0)


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


def _bessel_i(n: int, scaled: bool) -> Formula:
    def formula(cx: Context, x: Term) -> Term:
        y = x.abs()
        small, large = y.minimum(12.0), y.maximum(12.0)
        low = _polynomial(small * small * 0.25, _series(n, 1, 40, lambda k: 1.0)) * (
            small * 0.5 if n else 1.0
        )
        low = low * (-small).exp()
        high = _polynomial(1.0 / large, [(-1) ** k * c for k, c in enumerate(_expansion(n, 16))])
        out = cx.where(y < 12.0, low, high / (large * (2 * math.pi)).sqrt())
        out = out if scaled else out * y.exp()
        return cx.where(x < 0.0, -out, out) if n else out

    return formula


def _bessel_k(n: int, scaled: bool) -> Formula:
    def formula(cx: Context, x: Term) -> Term:
        small, large = x.minimum(8.0), x.maximum(8.0)
        w, log = small * small * 0.25, (small * 0.5).log() + 0.5772156649015329
        if n:
            growing = _polynomial(w, _series(1, 1, 30, lambda k: 1.0)) * (small * 0.5)
            rest = _polynomial(w, _series(1, 1, 30, lambda k: _harmonic(k) + _harmonic(k + 1))) * (
                small * 0.25
            )
            low = 1.0 / small + log * growing - rest
        else:
            low = _polynomial(w, _series(0, 1, 30, _harmonic)) - log * _polynomial(
                w, _series(0, 1, 30, lambda k: 1.0)
            )
        high = _polynomial(1.0 / large, _expansion(n, 16)) * (math.pi * 0.5 / large).sqrt()
        out = cx.where(
            x < 8.0, low * small.exp() if scaled else low, high if scaled else high * (-large).exp()
        )
        return cx.where(x < 0.0, math.nan, cx.where(x.equal(0.0), math.inf, out))

    return formula


def _oscillating(n: int, second: bool) -> Formula:
    """J and Y (9.1.10, 9.1.11; 9.2.5 and 9.2.6 from 14 on)."""

    def formula(cx: Context, x: Term) -> Term:
        y = x.abs()
        small, large = y.minimum(14.0), y.maximum(14.0)
        w = small * small * 0.25
        low = _polynomial(w, _series(n, -1, 45, lambda k: 1.0)) * (small * 0.5 if n else 1.0)
        if second:
            log = (small * 0.5).log() + 0.5772156649015329
            if n:
                rest = _polynomial(
                    w, _series(1, -1, 45, lambda k: _harmonic(k) + _harmonic(k + 1))
                ) * (small * 0.5)
                low = (log * low * 2.0 - 2.0 / small - rest) / math.pi
            else:
                low = (log * low - _polynomial(w, _series(0, -1, 45, _harmonic))) * (2.0 / math.pi)
        terms = _expansion(n, 20)
        z = 1.0 / (large * large)
        even = _polynomial(z, [(-1) ** k * c for k, c in enumerate(terms[::2])])
        odd = _polynomial(z, [(-1) ** k * c for k, c in enumerate(terms[1::2])]) / large
        angle = large - (n * 0.5 + 0.25) * math.pi
        wave = (
            angle.sin() * even + angle.cos() * odd
            if second
            else angle.cos() * even - angle.sin() * odd
        )
        out = cx.where(y < 14.0, low, wave * (2.0 / (large * math.pi)).sqrt())
        if second:
            return cx.where(x < 0.0, math.nan, cx.where(x.equal(0.0), -math.inf, out))
        return cx.where(x < 0.0, -out, out) if n else out

    return formula


each(
    {
        "lgamma": _log_gamma, "digamma": _digamma, "erfc": _erfc, "erfinv": _erfinv, "special_ndtri": _ndtri,
        "special_erfcx": lambda cx, x: _erfc(cx, x, scaled=True),
        "i0 special_i0 special_modified_bessel_i0": _bessel_i(0, False), "special_i0e": _bessel_i(0, True),
        "special_i1 special_modified_bessel_i1": _bessel_i(1, False), "special_i1e": _bessel_i(1, True),
        "special_modified_bessel_k0": _bessel_k(0, False), "special_scaled_modified_bessel_k0": _bessel_k(0, True),
        "special_modified_bessel_k1": _bessel_k(1, False), "special_scaled_modified_bessel_k1": _bessel_k(1, True),
        "special_bessel_j0": _oscillating(0, False), "special_bessel_j1": _oscillating(1, False),
        "special_bessel_y0": _oscillating(0, True), "special_bessel_y1": _oscillating(1, True),
        "special_spherical_bessel_j0": lambda cx, x: cx.where(x.equal(0.0), 1.0, x.sin() / x),
    },
    _in_float64,
)  # fmt: skip


@aten("polygamma")
def polygamma(cx: Context, node: Node, n: int, x: Term) -> Term:
    """The n-th derivative of digamma, (-1) ** (n + 1) n! zeta(n + 1, x) (6.4.10)."""
    value = _wide(cx, node, x)
    if n == 0:
        return _digamma(cx, value).astype(node.dtype)
    s = value * 0.0 + float(n + 1)
    return (_zeta(cx, s, value) * float((-1) ** (n + 1) * math.factorial(n))).astype(node.dtype)


@aten("special_zeta")
def zeta(cx: Context, node: Node, s: Arg, q: Arg) -> Term:
    a, b = _wide(cx, node, s), _wide(cx, node, q)
    positive = cx.where(b > 0.0, _zeta(cx, a, b), cx.tensor(math.nan, "float64"))
    out = cx.where(
        a > 1.0, positive, cx.where(a.equal(1.0), math.inf, cx.tensor(math.nan, "float64"))
    )
    return out.astype(node.dtype)
