"""Special functions beside their integrals, and where these do not converge."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from loopwright import relax
from loopwright.driver import compile
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.struct_info import TensorStructInfo


def integral(f: Callable[[Any], Any], end: float, start: float = 0.0) -> Any:
    """The integral of f(t), for arrays of t along a first axis."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    t = (nodes + 1) * 0.5 * (end - start) + start
    return np.tensordot(weights * 0.5 * (end - start), np.stack([f(v) for v in t]), 1)


def of_float(f: Callable[[float], float]) -> Callable[..., Any]:
    return np.vectorize(f, otypes=[np.float64])


def bessel_j(n: int) -> Callable[..., Any]:
    return lambda x: integral(lambda t: np.cos(n * t - x * np.sin(t)), np.pi) / np.pi


def bessel_y(n: int) -> Callable[..., Any]:
    def run(x: Any) -> Any:
        wave = integral(lambda t: np.sin(x * np.sin(t) - n * t), np.pi)
        growth = lambda t: np.exp(n * t) + (-1) ** n * np.exp(-n * t)  # noqa: E731
        tail = integral(lambda t: growth(t) * np.exp(-x * np.sinh(t)), 7.0)
        return (wave - tail) / np.pi

    return run


def bessel_i(n: int, scaled: bool) -> Callable[..., Any]:
    def run(x: Any) -> Any:
        out = integral(lambda t: np.cos(n * t) * np.exp(x * np.cos(t)), np.pi) / np.pi
        return out * np.exp(-abs(x)) if scaled else out

    return run


def bessel_k(n: int, scaled: bool) -> Callable[..., Any]:
    def run(x: Any) -> Any:
        out = integral(lambda t: np.cosh(n * t) * np.exp(-x * np.cosh(t)), 7.0)
        return out * np.exp(x) if scaled else out

    return run


def airy(x: Any) -> Any:
    """On a path where the integrand of 10.4.32 does not oscillate."""
    w = np.exp(1j * np.pi / 6)
    return integral(lambda t: (w * np.exp(1j * x * w * t - t**3 / 3)).real, 8.0) / np.pi


def zeta(s: Any, q: Any) -> Any:
    """The first terms, and the integral of the others."""
    count = 2000.0
    total = sum((q + k) ** -s for k in range(int(count)))
    z = q + count
    return total + z ** (1 - s) / (s - 1) + 0.5 * z**-s


def digamma(x: Any) -> Any:
    """The central difference of the logarithm of the gamma function."""
    step = 1e-5
    return (of_float(math.lgamma)(x + step) - of_float(math.lgamma)(x - step)) / (2 * step)


def bisected(y: float) -> float:
    """The x of which y is the error function."""
    low, high = -7.0, 7.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < y else (low, middle)
    return (low + high) / 2


def lower_gamma(a: float, x: float) -> float:
    """The lower incomplete gamma function, regularized."""
    return integral(lambda t: t ** (a - 1) * np.exp(-t), x) / math.gamma(a)


NORMAL = math.sqrt(2.0)
# name: (reference, least and greatest argument)
REFERENCES: dict[str, tuple[Callable[..., Any], float, float]] = {
    "lgamma": (of_float(math.lgamma), -3.7, 20.0),
    "digamma": (digamma, 0.1, 20.0),
    "erfc": (of_float(math.erfc), -3.0, 6.0),
    "erfcx": (lambda x: of_float(math.erfc)(x) * np.exp(x * x), -3.0, 6.0),
    "erfinv": (of_float(bisected), -0.95, 0.95),
    "ndtri": (lambda p: of_float(bisected)(2 * p - 1) * NORMAL, 0.05, 0.95),
    "i0": (bessel_i(0, False), -3.0, 14.0),
    "i0e": (bessel_i(0, True), -3.0, 20.0),
    "i1": (bessel_i(1, False), -3.0, 14.0),
    "i1e": (bessel_i(1, True), -3.0, 20.0),
    "k0": (bessel_k(0, False), 0.2, 12.0),
    "k0e": (bessel_k(0, True), 0.2, 12.0),
    "k1": (bessel_k(1, False), 0.2, 12.0),
    "k1e": (bessel_k(1, True), 0.2, 12.0),
    "j0": (bessel_j(0), -20.0, 20.0),
    "j1": (bessel_j(1), -20.0, 20.0),
    "y0": (bessel_y(0), 0.2, 20.0),
    "y1": (bessel_y(1), 0.2, 20.0),
    "spherical_j0": (lambda x: np.sinc(x / np.pi), -9.0, 9.0),
    "airy_ai": (airy, -6.0, 9.0),
}


def results(build: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
    """What machine code and the interpreter compute."""
    params = [
        relax.Var(f"x{k}", TensorStructInfo(a.shape, str(a.dtype))) for k, a in enumerate(arrays)
    ]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(build(*params)))
    mod = bb.get()
    return [run["main"](*arrays).numpy() for run in (compile(mod, "llvm"), Interpreter(mod))]


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", REFERENCES)
def test_integrals(name: str) -> None:
    reference, low, high = REFERENCES[name]
    x = np.linspace(low, high, 23)
    for got in results(getattr(op.special, name), x):
        np.testing.assert_allclose(got, reference(x), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "at_zero", "below", "at_infinity"),
    [
        ("lgamma", np.inf, np.inf, np.inf),
        ("digamma", -np.inf, np.nan, np.inf),
        ("k0", np.inf, np.nan, 0),
        ("k1e", np.inf, np.nan, 0),
        ("y0", -np.inf, np.nan, np.nan),
        ("erfcx", 1, 2 * math.e - 0.427583576155807, 0),
    ],
)
def test_at_the_ends(name: str, at_zero: float, below: float, at_infinity: float) -> None:
    x = np.array([0.0, -1.0, np.inf, np.nan])
    for got in results(getattr(op.special, name), x):
        np.testing.assert_allclose(got, [at_zero, below, at_infinity, np.nan], rtol=1e-7)


def test_the_zeta_function() -> None:
    s, q = np.linspace(1.5, 6.0, 7)[:, None], np.linspace(0.5, 6.0, 5)[None]
    for got in results(op.special.zeta, s, q):
        np.testing.assert_allclose(got, zeta(s, q), rtol=1e-9)


@pytest.mark.parametrize("upper", [False, True])
def test_incomplete_gamma_functions(upper: bool) -> None:
    a, x = np.array([[1.0], [4.0]]), np.linspace(0.5, 12.0, 5)[None]
    lower = np.vectorize(lower_gamma)(a, x)
    for got in results(op.special.igammac if upper else op.special.igamma, a, x):
        np.testing.assert_allclose(got, 1 - lower if upper else lower, rtol=1e-6, atol=1e-9)


POLYNOMIALS: dict[str, list[float]] = {  # the coefficients of degree 3
    "chebyshev_t": [4, 0, -3, 0],
    "chebyshev_u": [8, 0, -4, 0],
    "chebyshev_v": [8, -4, -4, 1],
    "chebyshev_w": [8, 4, -4, -1],
    "hermite_h": [8, 0, -12, 0],
    "hermite_he": [1, 0, -3, 0],
    "laguerre_l": [-1 / 6, 1.5, -3, 1],
    "legendre_p": [2.5, 0, -1.5, 0],
}


@pytest.mark.parametrize("family", POLYNOMIALS)
def test_polynomials(family: str) -> None:
    x, n = np.linspace(-2.0, 2.0, 5), np.full(5, 3)
    for shifted in (False, True):
        want = np.polyval(POLYNOMIALS[family], 2 * x - 1 if shifted else x)
        for got in results(partial(op.special.polynomial, family=family, shifted=shifted), x, n):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
