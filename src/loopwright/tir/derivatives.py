"""The derivatives of the scalar functions, for tensor expressions and graphs: each is a function of

- f: where the functions are by their names (`tir.op`, `relax.op`),
- n: what makes a number of the type of x,
- x and y: the argument and the value of the function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

DERIVATIVES: dict[str, Callable[[Any, Callable[[float], Any], Any, Any], Any]] = {
    "exp": lambda f, n, x, y: y,
    "exp2": lambda f, n, x, y: y * n(math.log(2)),
    "expm1": lambda f, n, x, y: f.exp(x),
    "log": lambda f, n, x, y: n(1) / x,
    "log1p": lambda f, n, x, y: n(1) / (x + n(1)),
    "log2": lambda f, n, x, y: n(1 / math.log(2)) / x,
    "sqrt": lambda f, n, x, y: n(0.5) / y,
    "rsqrt": lambda f, n, x, y: n(-0.5) * y / x,
    "sin": lambda f, n, x, y: f.cos(x),
    "cos": lambda f, n, x, y: -f.sin(x),
    "tan": lambda f, n, x, y: n(1) + y * y,
    "sinh": lambda f, n, x, y: f.cosh(x),
    "cosh": lambda f, n, x, y: f.sinh(x),
    "tanh": lambda f, n, x, y: n(1) - y * y,
    "asin": lambda f, n, x, y: f.rsqrt(n(1) - x * x),
    "acos": lambda f, n, x, y: -f.rsqrt(n(1) - x * x),
    "atan": lambda f, n, x, y: n(1) / (n(1) + x * x),
    "asinh": lambda f, n, x, y: f.rsqrt(n(1) + x * x),
    "acosh": lambda f, n, x, y: f.rsqrt(x * x - n(1)),
    "atanh": lambda f, n, x, y: n(1) / (n(1) - x * x),
    "sigmoid": lambda f, n, x, y: y * (n(1) - y),
    "erf": lambda f, n, x, y: n(2 / math.sqrt(math.pi)) * f.exp(-(x * x)),
}
