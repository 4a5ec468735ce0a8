"""Builders of the operators `special.*`.

Made by `python -m tools.make_stubs`.
"""

from loopwright.relax.expr import Call as _Call, Expr as _Expr, TensorLike as _TensorLike

def airy_ai(x: _TensorLike) -> _Call: """Airy's function Ai."""
def digamma(x: _TensorLike) -> _Call: """The derivative of lgamma."""
def erfc(x: _TensorLike) -> _Call: """1 - erf(x), also of large x."""
def erfcx(x: _TensorLike) -> _Call: """exp(x * x) * erfc(x)."""
def erfinv(x: _TensorLike) -> _Call: """The inverse of erf."""
def i0(x: _TensorLike) -> _Call: """The modified Bessel function I of order 0."""
def i0e(x: _TensorLike) -> _Call: """exp(-abs(x)) * i0(x)."""
def i1(x: _TensorLike) -> _Call: """The modified Bessel function I of order 1."""
def i1e(x: _TensorLike) -> _Call: """exp(-abs(x)) * i1(x)."""
def igamma(a: _TensorLike, x: _TensorLike) -> _Call: """The lower incomplete gamma function of x, divided by the gamma function of a."""
def igammac(a: _TensorLike, x: _TensorLike) -> _Call: """1 - igamma(a, x), also of large x."""
def j0(x: _TensorLike) -> _Call: """The Bessel function J of order 0."""
def j1(x: _TensorLike) -> _Call: """The Bessel function J of order 1."""
def k0(x: _TensorLike) -> _Call: """The modified Bessel function K of order 0."""
def k0e(x: _TensorLike) -> _Call: """exp(x) * k0(x)."""
def k1(x: _TensorLike) -> _Call: """The modified Bessel function K of order 1."""
def k1e(x: _TensorLike) -> _Call: """exp(x) * k1(x)."""
def lgamma(x: _TensorLike) -> _Call: """The logarithm of the absolute value of the gamma function."""
def ndtri(x: _TensorLike) -> _Call: """The quantile of the normal distribution."""
def polynomial(x: _TensorLike, n: _TensorLike, family: str = 'chebyshev_t', shifted: bool = False) -> _Call: """The polynomial of degree n (rounded toward zero; 0 below 0) of a family, "chebyshev_t", "_u", "_v", "_w", "hermite_h", "hermite_he", "laguerre_l" or "legendre_p", at x, or at 2 x - 1 of shifted ones."""
def spherical_j0(x: _TensorLike) -> _Call: """sin(x) / x, and 1 at 0."""
def y0(x: _TensorLike) -> _Call: """The Bessel function Y of order 0."""
def y1(x: _TensorLike) -> _Call: """The Bessel function Y of order 1."""
def zeta(x1: _Expr, x2: _Expr) -> _Call: """Hurwitz's zeta function, the sum of (q + k) ** -s over k = 0, 1, ..., for s > 1; of q < 0 for whole s. It has a gradient for q."""
