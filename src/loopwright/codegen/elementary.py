"""Elementary functions on float32: what each computes, written once for all code generators.

Bounds on the error in units in the last place, with or without fused multiply-add, over the whole
float32 range including subnormal numbers (checked by tests/codegen/test_vecmath.py):

{TABLE}

NaN yields NaN; infinities and zeros follow C99 annex F.

The polynomials are least-squares fits with Lawson weights (close to minimax) of the expression
named at each table, computed with 40 digits and rounded to the type. Range reductions are standard:
Cody and Waite for exp and log, double precision for sin, cos, tan and pow, reciprocals for atan,
`asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2))`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .value_code import Code, Value

# ulp bounds of the float32 polynomials, checked by the tests.
BOUNDS: dict[str, float] = {
    "exp": 1.5,
    "exp2": 1.5,
    "expm1": 3.0,
    "log": 1.5,
    "log2": 2.5,
    "log10": 2.5,
    "log1p": 2.0,
    "tanh": 3.5,
    "sigmoid": 2.5,
    "erf": 2.0,
    "sin": 2.0,
    "cos": 2.0,
    "tan": 4.0,
    "asin": 3.0,
    "acos": 2.0,
    "atan": 2.0,
    "sinh": 2.0,
    "cosh": 2.0,
    "rsqrt": 1.6,
    "pow": 1.0,
}

__doc__ = (__doc__ or "").replace(
    "{TABLE}", "\n".join(f"    {name:8} {bound:4}" for name, bound in BOUNDS.items())
)

# (exp(r) - 1 - r) / r^2, |r| <= 0.3475
_EXP = (0.499999933, 0.166665191, 0.0416684058, 0.00836889887, 0.00138142198)
# (2^r - 1) / r, |r| <= 0.5
_EXP2 = (0.693147206, 0.240226513, 0.0555032774, 0.00961800541, 0.00134002831, 0.000154758982)
# (log1p(f) - f + f^2/2) / f^3, sqrt(1/2) <= 1 + f <= sqrt(2)
_LOG = (
    0.333333126, -0.250000096, 0.200021187, -0.166679956, 0.142195506, -0.12405592, 0.118881776,
    -0.116756388, 0.0674659193,
)  # fmt: skip
# -log(1 - erf(a)) / a - 1, 0 < a <= 3.93
_ERF = (
    0.128379166, 0.636619389, 0.102777869, -0.0191534869, -0.000158952840, 0.00166494645,
    -0.000631397124, 0.000117168907, -9.19738341e-06,
)  # fmt: skip
# (sin(r)/r - 1) / z and (cos(r) - 1 + z/2) / z^2 over z = r^2, |r| <= pi/4
_SIN = (-0.166666546, 0.0083321584, -0.000195149566)
_COS = (0.0416666468, -0.00138873645, 2.44380887e-05)
# (atan(a)/a - 1) / z over z = a^2, |a| <= 1
_ATAN = (
    -0.333332991, 0.199985482, -0.142642408, 0.109521811, -0.0840343665, 0.0579573595,
    -0.031177613, 0.010914481, -0.00179359389,
)  # fmt: skip
# (asin(x)/x - 1) / z over z = x^2, |x| <= 1/2
_ASIN = (0.166667539, 0.0749524178, 0.0454770971, 0.0241476119, 0.0422185462)
# (sinh(x)/x - 1) / z over z = x^2, |x| <= 1
_SINH = (0.166666665, 0.0083333506, 0.000198360662, 2.81743966e-06)
# double: log2((1 + s)/(1 - s)) / s over s^2, |s| <= 0.1716
_LOG2_D = (
    2.885390081777928, 0.9617966939241788, 0.5770780173222629, 0.41219838946663007,
    0.32061730470698147, 0.26141391338422065, 0.24328917412523737,
)  # fmt: skip
# double: (2^r - 1) / r, |r| <= 0.5
_EXP2_D = (
    0.693147180546115, 0.2402265069556895, 0.05550410940782735, 0.009618129216465363,
    0.0013333450853124386, 0.00015403417283987755, 1.531002097161782e-05, 1.3263151821263364e-06,
)  # fmt: skip

_MAGIC = 12582912.0  # 1.5 * 2^23: adding it rounds to an integer and leaves it in the low bits
_MAGIC_D = 6755399441055744.0  # 1.5 * 2^52, the same for double
_LN2_HI, _LN2_LO = 0.693359375, -2.12194440e-4  # the high part has 9 bits: times n it is exact


def _round(c: Code, x: Value, factor: float = 1.0) -> tuple[Value, Value]:
    """The integer nearest to x factor as a float and as an integer; any integer for NaN."""
    magic, kind = (_MAGIC, "f") if x.kind == "f" else (_MAGIC_D, "d")
    shifted = c.fma(x, factor, magic)
    base = c.value(magic, kind).bits()
    return shifted - magic, shifted.bits() - base


def _reduce_exp(c: Code, x: Value) -> tuple[Value, Value, Value]:
    """r, and n as a float and as an integer, with exp(x) = exp(r) 2^n."""
    n, k = _round(c, x, math.log2(math.e))
    return c.fma(n, -_LN2_LO, c.fma(n, -_LN2_HI, x)), n, k


def _exp_of_reduced(c: Code, r: Value) -> Value:
    return c.fma(c.fma(c.poly(r, _EXP), r, 1.0), r, 1.0)


def _power(k: Value) -> Value:
    """2^k for -126 <= k <= 127."""
    return ((k + 127) << 23).as_float()  # the exponent of a float: 8 bits, 127 for 2^0


def _scale(p: Value, n: Value, k: Value) -> Value:
    """p 2^k, where n is k as a float. By multiplications it takes two steps, so that results may be
    subnormal or overflow."""
    if p.code.scales:
        return p.code.scaled(p, n)
    half = k >> 1
    return p * _power(half) * _power(k - half)


def _exp(c: Code, x: Value) -> Value:
    r, n, k = _reduce_exp(c, x.at_least(-104.0).at_most(89.0))
    return _scale(_exp_of_reduced(c, r), n, k)


def _exp2(c: Code, x: Value) -> Value:
    x = x.at_least(-151.0).at_most(129.0)
    n, k = _round(c, x)
    r = x - n
    return _scale(c.fma(c.poly(r, _EXP2), r, 1.0), n, k)


def _expm1(c: Code, x: Value) -> Value:
    r, _, k = _reduce_exp(c, x.at_least(-17.5).at_most(89.0))
    p = c.fma(c.poly(r, _EXP), r * r, r)
    half = _power(k - 1)  # 2^k would overflow just before the result does
    result = c.fma(half, p, half - 0.5) * 2.0
    return (x * x < 8e-16).choose(x, result)  # below an ulp's root; also subnormal numbers


def _split_log(c: Code, x: Value) -> tuple[Value, Value]:
    """A positive x as m 2^e with m in [sqrt(1/2), sqrt(2)): m and e as floats."""
    tiny = x < 1.17549435e-38
    bits = tiny.choose(x * 33554432.0, x).bits()  # 2^25 brings subnormal numbers into range
    shifted = bits - 0x3F3504F3  # the bits of sqrt(1/2)
    e = (shifted >> 23).to("f", "sitofp")
    m = ((shifted & 0x7FFFFF) + 0x3F3504F3).as_float()
    return m, tiny.choose(e - 25.0, e)


def _log1p_poly(c: Code, f: Value) -> Value:
    """log(1 + f) - f on the reduced range."""
    z = f * f
    return c.fma(z, -0.5, z * f * c.poly(f, _LOG))


def _log_limits(x: Value, result: Value) -> Value:
    result = x.equals(math.inf).choose(math.inf, result)
    result = x.equals(0.0).choose(-math.inf, result)
    return (x.compare("ult", 0.0)).choose(math.nan, result)  # negative or NaN


def _log(c: Code, x: Value) -> Value:
    m, e = _split_log(c, x)
    f = m - 1.0
    y = c.fma(e, _LN2_LO, _log1p_poly(c, f))
    return _log_limits(x, c.fma(e, _LN2_HI, f + y))


def _log2(c: Code, x: Value) -> Value:
    m, e = _split_log(c, x)
    f = m - 1.0
    y = _log1p_poly(c, f)
    # log2(e) = 1.4375 + a small remainder, so that the high products lose little precision.
    low = math.log2(math.e) - 1.4375
    tail = c.fma(y, low, c.fma(f, low, y * 1.4375))
    return _log_limits(x, e + c.fma(f, 1.4375, tail))


def _log10(c: Code, x: Value) -> Value:
    m, e = _split_log(c, x)
    f = m - 1.0
    y = _log1p_poly(c, f)
    high = 0.301025390625  # log10(2), 11 bits
    tail = c.fma(e, math.log10(2) - high, y * math.log10(math.e))
    return _log_limits(x, c.fma(e, high, c.fma(f, math.log10(math.e), tail)))


def _log1p(c: Code, x: Value) -> Value:
    u = x + 1.0
    back = u - 1.0
    lost = (1.0 - (u - back)) + (x - back)  # u + lost = 1 + x exactly
    shifted = u.bits() - 0x3F3504F3  # the bits of sqrt(1/2)
    k = shifted >> 23
    e = k.to("f", "sitofp")
    m = ((shifted & 0x7FFFFF) + 0x3F3504F3).as_float()
    # lost 2^-k, or 0 if that is subnormal: the correction is then negligible.
    down = 127 - k
    f = (m - 1.0) + lost * ((down < 0).choose(c.value(0, "i"), down) << 23).as_float()
    y = c.fma(e, _LN2_LO, _log1p_poly(c, f))
    result = c.fma(e, _LN2_HI, f + y)
    result = x.equals(math.inf).choose(math.inf, result)
    result = x.equals(-1.0).choose(-math.inf, result)
    result = x.compare("ult", -1.0).choose(math.nan, result)
    return x.equals(0.0).choose(x, result)


def _tanh(c: Code, x: Value) -> Value:
    a = x.abs().at_most(10.0)
    em = _expm1(c, a * 2.0)
    return (em / (em + 2.0)).sign_of(x)


def _sigmoid(c: Code, x: Value) -> Value:
    e = _exp(c, -x.abs())
    return (x < 0.0).choose(e, 1.0) / (e + 1.0)


def _erf(c: Code, x: Value) -> Value:
    """1 - exp(-t) by exp(r) - 1: one formula for small and for large x, which loses nothing near 0."""
    a = x.abs().at_most(3.93)  # of which the result is 1
    t = c.fma(c.poly(a, _ERF), a, a)
    n, k = _round(c, t, -math.log2(math.e))
    r = c.fma(n, -math.log(2), -t)  # |n| <= 24: one float of log(2) is enough
    power = _power(k)
    p = c.fma(c.poly(r, _EXP), r * r, r)
    return c.fma(power, p, power - 1.0).sign_of(x)


_PI_2_A = 1.57079632673412561417  # pi/2: 33 bits, so that its products with k < 2^20 are exact
_PI_2_B = 6.07710050650619224932e-11  # and the rest


def _reduce_angle(c: Code, x: Value) -> tuple[Value, Value]:
    """x - k pi/2 as a float, in double precision within, and k. For |x| < 10^6."""
    wide = x.to("d", "fpext")
    n, k = _round(c, wide, 2 / math.pi)
    r = c.fma(n, -_PI_2_B, c.fma(n, -_PI_2_A, wide))
    return r.to("f", "fptrunc"), k.to("i", "trunc")


def _sin_cos(c: Code, r: Value) -> tuple[Value, Value]:
    z = r * r
    sine = c.fma(c.poly(z, _SIN) * z, r, r).sign_of(r)
    cosine = c.fma(c.poly(z, _COS) * z, z, c.fma(z, -0.5, 1.0))
    return sine, cosine


def _huge(x: Value) -> Value:
    a = x.abs()
    return (a > 1.0e6) & (a < math.inf)


def _sin(c: Code, x: Value, turn: int = 0) -> Value:
    r, k = _reduce_angle(c, x)
    k = k + turn
    sine, cosine = _sin_cos(c, r)
    value = (k & 1).equals(0).choose(sine, cosine)
    value = (value.bits() ^ ((k & 2) << 30)).as_float()
    return c.rarely(_huge(x), value, lambda: c.per_lane("cosf" if turn else "sinf", "f", x))


def _cos(c: Code, x: Value) -> Value:
    return _sin(c, x, turn=1)


def _tan(c: Code, x: Value) -> Value:
    r, k = _reduce_angle(c, x)
    sine, cosine = _sin_cos(c, r)
    even = (k & 1).equals(0)
    value = even.choose(sine, -cosine) / even.choose(cosine, sine)
    return c.rarely(_huge(x), value, lambda: c.per_lane("tanf", "f", x))


def _atan(c: Code, x: Value) -> Value:
    a = x.abs()
    big = a > 1.0
    z = big.choose(-1.0, a) / big.choose(a, 1.0)
    s = z * z
    p = c.poly(s, _ATAN) * s
    high, low = 1.57079637050628662109, -4.37113900018624283e-8  # pi/2 rounded, and the rest
    rest = c.fma(p, z, big.choose(low, c.value(0.0, "f")))
    return (big.choose(high, c.value(0.0, "f")) + (z + rest)).sign_of(x)


def _asin_parts(c: Code, x: Value) -> tuple[Value, Value, Value]:
    """Whether |x| <= 1/2, the reduced argument w, and asin(w)."""
    a = x.abs()
    near = a.compare("ole", 0.5)
    z = near.choose(a * a, c.fma(a, -0.5, 0.5))
    w = near.choose(a, z.sqrt())  # NaN beyond 1
    return near, w, c.fma(c.poly(z, _ASIN) * z, w, w)


def _asin(c: Code, x: Value) -> Value:
    near, _, part = _asin_parts(c, x)
    return near.choose(part, c.fma(part, -2.0, math.pi / 2)).sign_of(x)


def _acos(c: Code, x: Value) -> Value:
    near, _, part = _asin_parts(c, x)
    negative = x < 0.0
    inner = math.pi / 2 - part.sign_of(x)
    twice = part * 2.0
    outer = negative.choose(math.pi - twice, twice)
    return near.choose(inner, outer)


def _half_exp(c: Code, a: Value) -> Value:
    """exp(a) / 2 without early overflow, for a >= 0."""
    r, n, k = _reduce_exp(c, a.at_most(90.0))
    return _scale(_exp_of_reduced(c, r) * 0.5, n, k)


def _sinh(c: Code, x: Value) -> Value:
    a = x.abs()
    e = _half_exp(c, a)
    z = a * a
    small = c.fma(c.poly(z, _SINH) * z, a, a)
    return (a < 1.0).choose(small, e - 0.25 / e).sign_of(x)


def _cosh(c: Code, x: Value) -> Value:
    e = _half_exp(c, x.abs())
    return e + 0.25 / e


def _rsqrt(c: Code, x: Value) -> Value:
    return 1.0 / x.sqrt()


def _pow(c: Code, x: Value, y: Value) -> Value:
    """2^(y log2 x) in double precision, then the special cases of C99 F.9.4.4."""
    a = x.abs()
    bits = a.to("d", "fpext").bits()
    shifted = bits - 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
    e = (shifted >> 52).to("i", "trunc").to("d", "sitofp")
    m = ((shifted & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD).as_float()
    s = (m - 1.0) / (m + 1.0)
    log = c.fma(c.poly(s * s, _LOG2_D), s, e)
    log = a.equals(0.0).choose(-math.inf, log)
    log = a.equals(math.inf).choose(math.inf, log)
    # Beyond 2^+-200 the result is inf or 0 in float32, and the exponent below stays one of a double.
    t = (log * y.to("d", "fpext")).at_least(-200.0).at_most(200.0)
    n, k = _round(c, t)
    r = t - n
    scale = ((k + 1023) << 52).as_float()  # the exponent of a double: 11 bits, 1023 for 2^0
    value = (c.fma(c.poly(r, _EXP2_D), r, 1.0) * scale).to("f", "fptrunc")
    whole = y.intrinsic("trunc").equals(y)
    half = y * 0.5
    odd = whole & half.intrinsic("trunc").compare("one", half)
    # A negative base keeps its sign for odd exponents and yields NaN for fractional ones.
    sign = odd.choose(x.bits() & -0x80000000, c.value(0, "i"))
    value = (value.bits() | sign).as_float()
    bad = (x < 0.0) & (x > -math.inf) & whole.choose(c.value(0, "b"), c.value(1, "b"))
    value = bad.choose(math.nan, value)
    value = x.is_nan().choose(x, value)
    one = x.equals(1.0) | y.equals(0.0) | (x.equals(-1.0) & y.abs().equals(math.inf))
    return one.choose(1.0, value)


FLOAT32: dict[str, Callable[..., Value]] = {name: globals()[f"_{name}"] for name in BOUNDS}
