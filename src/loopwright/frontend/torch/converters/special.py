"""Special functions. They are exact to about 1e-12, so that float64 itself is left to torch."""

from __future__ import annotations

import math

from ....base.errors import explain
from ...graph.registry import Converter
from ..context import Arg, Term, op
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from .table import aten, each

_POLYNOMIALS = (
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
)  # fmt: skip
_FORMS = ("default", "x_scalar", "n_scalar")
_LARGEST_HERMITE = 128  # degree from which torch's result is NaN


def _narrow(cx: Context, node: Node, x: Arg) -> Term:
    """An argument in the type of the result, which is not float64."""
    if node.dtype == "float64":
        raise ValueError(explain("this function is not exact enough for float64"))
    return cx.tensor(x, node.dtype)


def _special(name: str) -> Converter:
    build = getattr(op.special, name)
    return lambda cx, node, *args: build(*cx.broadcast_terms(*(_narrow(cx, node, v) for v in args)))


each(
    {
        "lgamma": "lgamma", "digamma": "digamma", "erfc": "erfc", "erfinv": "erfinv",
        "special_ndtri": "ndtri", "special_erfcx": "erfcx",
        "i0 special_i0 special_modified_bessel_i0": "i0", "special_i0e": "i0e",
        "special_i1 special_modified_bessel_i1": "i1", "special_i1e": "i1e",
        "special_modified_bessel_k0": "k0", "special_scaled_modified_bessel_k0": "k0e",
        "special_modified_bessel_k1": "k1", "special_scaled_modified_bessel_k1": "k1e",
        "special_bessel_j0": "j0", "special_bessel_j1": "j1", "special_bessel_y0": "y0",
        "special_bessel_y1": "y1", "special_spherical_bessel_j0": "spherical_j0",
        "igamma": "igamma", "igammac": "igammac",
        "special_zeta special_zeta.self_scalar special_zeta.other_scalar": "zeta",
    },
    _special,
)  # fmt: skip


@aten("special_airy_ai")
def airy_ai(cx: Context, node: Node, x: Term) -> Term:
    value = _narrow(cx, node, x)
    return cx.where(value.isinf(), math.nan, op.special.airy_ai(value))


@aten("polygamma")
def polygamma(cx: Context, node: Node, n: int, x: Term) -> Term:
    """The n-th derivative of digamma, (-1) ** (n + 1) n! zeta(n + 1, x)."""
    value = _narrow(cx, node, x)
    if n == 0:
        return op.special.digamma(value)
    out = op.special.zeta(*cx.tensors("float64", float(n + 1), value))
    return out * float((-1) ** (n + 1) * math.factorial(n))


@aten(*(f"special_{name}.{form}" for name in _POLYNOMIALS for form in _FORMS))
def polynomial(cx: Context, node: Node, x: Arg, n: Arg) -> Term:
    name = node.op_type.split(".")[1].removeprefix("special_")
    shifted = name.startswith("shifted_")
    family = name.removeprefix("shifted_").replace("_polynomial", "")
    sides = [_narrow(cx, node, x), cx.tensor(n, node.dtype)]
    out = op.special.polynomial(*cx.broadcast_terms(*sides), family, shifted)
    return cx.where(sides[1] >= _LARGEST_HERMITE, math.nan, out) if "hermite" in name else out
