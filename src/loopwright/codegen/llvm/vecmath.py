"""Elementary functions over vectors, as LLVM IR text.

    symbol, text = require("exp", "float32", 16)       # "@lw_exp_f32x16"'s name and its definition

    math = VecMath()                                   # or: collect the functions of a module
    math.require("tanh", "float32", 16)
    math.text()                                        # definitions and declarations, each once

Each is an internal function `<N x float> @lw_NAME_f32xN(<N x float>)` (`pow` and others take two),
for any N; N = 1 takes and returns plain scalars. LLVM's own vector intrinsics call libm once per
lane (8 times slower), so float32 has polynomials here. float64, and float32 functions without one,
call libm per lane behind the same names. float16 and bfloat16 must be widened by the caller.
What they compute is in `codegen.elementary`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from ..elementary import FLOAT32
from ..value_code import Code, Value
from .vector_code import SUFFIX, VectorCode

# libm's functions, by their double name (float32 adds an f), of one argument and of two.
_UNARY = {
    "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "tanh", "erf", "erfc", "sin", "cos",
    "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "cbrt", "lgamma", "tgamma",
}  # fmt: skip
_BINARY = {"pow", "atan2", "fmod", "hypot", "nextafter"}
_LIBM = _UNARY | _BINARY


def _sigmoid64(c: Code, x: Value) -> Value:
    e = c.per_lane("exp", "d", -x.abs())
    return (x < 0.0).choose(e, 1.0) / (e + 1.0)


_FLOAT64: dict[str, Callable[..., Value]] = {"sigmoid": _sigmoid64, "rsqrt": FLOAT32["rsqrt"]}

_KINDS = {"float32": "f", "float64": "d"}


@dataclass(frozen=True)
class Function:
    """One function's symbol (without @), its definition, and the libm declarations it needs."""

    symbol: str
    definition: str
    libm: dict[str, str]


def supported(name: str, dtype: str) -> bool:
    """Whether `function(name, dtype, lanes)` is defined."""
    own = FLOAT32 if dtype == "float32" else _FLOAT64
    return dtype in _KINDS and (name in own or name in _LIBM)


@cache
def function(
    name: str, dtype: str, lanes: int, inline: bool = False, scales: bool = False
) -> Function:
    """The function for `lanes` values of a dtype (`float32` or `float64`).

    `inline` marks it `alwaysinline`; `scales`: the machine has AVX-512's instruction for x 2^n.
    Raises ValueError for an unsupported name or dtype.
    """
    if lanes < 1 or not supported(name, dtype):
        names = sorted(_LIBM | FLOAT32.keys())
        raise ValueError(
            f"no function {name!r} for {lanes} lanes of {dtype!r}; supported, for float32 and "
            f"float64: {', '.join(names)}"
        )
    kind = _KINDS[dtype]
    code = VectorCode(lanes, scales and dtype == "float32" and lanes in (16, 32, 64))
    write = (FLOAT32 if kind == "f" else _FLOAT64).get(name)
    args = [Value(code, kind, x) for x in (("%x0", "%x1") if name in _BINARY else ("%x0",))]
    if write is not None:
        result = write(code, *args)
    else:
        result = code.per_lane(f"{name}f" if kind == "f" else name, kind, *args)
    t = code.type(kind)
    symbol = f"lw_{name}_{SUFFIX[kind]}x{lanes}"
    params = ", ".join(f"{t} {a.ref}" for a in args)
    attributes = "alwaysinline nounwind" if inline else "nounwind"
    body = "\n".join(code.lines)
    definition = (
        f"define internal {t} @{symbol}({params}) {attributes} {{\n"
        f"entry:\n{body}\n  ret {t} {result.ref}\n}}\n"
    )
    return Function(symbol, definition, dict(code.libm))


def require(name: str, dtype: str, lanes: int) -> tuple[str, str]:
    """The symbol and the text (libm declarations included) of one function."""
    code = function(name, dtype, lanes)
    return code.symbol, "".join(f"{d}\n" for d in code.libm.values()) + code.definition


class VecMath:
    """The functions that one module uses, each emitted once. One with a single call is inlined: its
    constants stay in registers."""

    def __init__(self, scales: bool = False) -> None:
        self._scales = scales
        self._calls: Counter[tuple[str, str, int]] = Counter()

    def require(self, name: str, dtype: str, lanes: int) -> str:
        """The symbol for one call; its definition becomes part of `text`."""
        code = function(name, dtype, lanes, scales=self._scales)
        self._calls[name, dtype, lanes] += 1
        return code.symbol

    def _functions(self) -> list[Function]:
        return [function(*key, n == 1, self._scales) for key, n in self._calls.items()]

    def declarations(self) -> dict[str, str]:
        """The libm functions that the definitions call: name -> `declare` line."""
        return {k: v for code in self._functions() for k, v in code.libm.items()}

    def definitions(self) -> str:
        """The definitions alone."""
        return "\n".join(code.definition for code in self._functions())

    def text(self) -> str:
        """Declarations and definitions."""
        return "".join(f"{d}\n" for d in self.declarations().values()) + self.definitions()
