"""Symbolic sizes of torch (sympy expressions of a ShapeEnv) as integer expressions of ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add, mul, truediv
from typing import Any

import sympy
import torch

from ...base.errors import explain
from ...ir import prim_op
from ...ir.prim_expr import PrimExpr
from ...ir.prim_expr import Var as TirVar

Symbols = dict[sympy.Symbol, PrimExpr]


def _power(base: Any, exponent: Any) -> Any:
    if not isinstance(exponent, int) or exponent < 0:
        raise ValueError(
            explain("the exponent of a size must be a literal", got=f"{base}**{exponent}")
        )
    return reduce(lambda a, b: a * b, [base] * exponent, 1)


# By the class of the expression: torch's own are in torch.utils._sympy.functions.
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda *terms: reduce(lambda a, b: a + b, terms),
    "Mul": lambda *factors: reduce(lambda a, b: a * b, factors),
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": prim_op.floordiv,
    "CleanDiv": prim_op.floordiv,
    "IntTrueDiv": prim_op.floordiv,  # below a rounding to an integer
    "TruncToInt": lambda x: x,
    "FloorToInt": lambda x: x,
    "Mod": prim_op.floormod,
    "PythonMod": prim_op.floormod,
    "ModularIndexing": lambda x, d, m: prim_op.floormod(prim_op.floordiv(x, d), m),
    "Max": lambda *terms: reduce(prim_op.maximum, terms),
    "Min": lambda *terms: reduce(prim_op.minimum, terms),
}


# Operations of symbolic floats; others are of integers.
REAL: dict[str, Callable[[Any, Any], Any]] = {
    "Add": add, "Mul": mul, "FloatTrueDiv": truediv, "IntTrueDiv": truediv, "ToFloat": add,
}  # fmt: skip


def integer(value: Any, symbols: Symbols) -> Any:
    """A size of torch as an int or an expression. Raises ValueError for what has no counterpart."""
    if isinstance(value, torch.SymInt):
        value = value.node.expr
    if isinstance(value, (int, sympy.Integer)):
        return int(value)
    if isinstance(value, sympy.Symbol):
        if value not in symbols:
            raise ValueError(explain("no input determines a symbolic size", got=value))
        return symbols[value]
    name = type(value).__name__
    if name in ("TruncToInt", "FloorToInt") and value.has(sympy.Float):
        return prim_op.cast("int64", _real(value.args[0], symbols))
    operation = _OPERATIONS.get(name)
    if operation is None:
        raise ValueError(explain("a symbolic size has no counterpart here", got=value))
    return operation(*(integer(a, symbols) for a in value.args))


def _real(value: Any, symbols: Symbols) -> Any:
    """A float that a size is computed from, which is never negative."""
    if value.is_number:
        return prim_op.const(float(value), "float64")
    operation = REAL.get(type(value).__name__)
    if operation is None:
        return prim_op.cast("float64", integer(value, symbols))
    return reduce(operation, (_real(a, symbols) for a in value.args))


def define(size: Any, name: str, symbols: Symbols, kind: type[TirVar] = TirVar) -> Any:
    """The extent of an input; the symbol in it is defined, where it is new. name, kind: of a new variable."""
    expr = size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)
    new: list[Any] = sorted(expr.free_symbols - symbols.keys(), key=str)
    if not new:
        return integer(expr, symbols)
    if isinstance(expr, sympy.Symbol):
        symbols[expr] = kind(str(expr), "int64")
        return symbols[expr]
    # An extent that is derived from another, a * s + b, defines s.
    (symbol, *rest), extent = new, kind(name, "int64")
    slope: Any = expr.coeff(symbol)
    offset = expr.subs(symbol, 0)
    if rest or sympy.expand(slope * symbol + offset - expr) != 0 or not slope.is_Integer:
        raise ValueError(explain("the sizes of an input do not determine its symbols", got=expr))
    symbols[symbol] = prim_op.floordiv(extent - integer(offset, symbols), int(slope))
    return extent
