"""Sizes of memory that int64 arithmetic might wrap: computed in float64, and compared with a limit.

A wrapped size is a small allocation that a kernel then writes beyond, so sizes are checked before
anything is allocated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..base.errors import explain
from ..ir import prim_expr as pe
from ..ir.dtype import DataType
from ..ir.functor import post_order_visit
from ..ir.literals import conjunction
from ..ir.prim_expr import Call, FloatImm, IntImm, PrimExpr, ScalarLike, StringImm, Var
from ..ir.prim_op import cast, const, maximum, minimum, multiply
from .op import floor
from .stmt import AssertStmt, Stmt

# Attribute of a function: names of symbols -> their greatest values.
UPPER_BOUNDS = "tir_var_upper_bound"
LIMIT = 1 << 47  # bytes: the address space of a process
_EXACT = float(1 << 62)  # an int64 expression within this bound has not wrapped
_ARITHMETIC = (pe.Add, pe.Sub, pe.Mul)
_DIVISIONS = (pe.Div, pe.FloorDiv)
# Where a part may be larger than the whole.
_PARTIAL = (*_DIVISIONS, pe.Mod, pe.FloorMod, pe.Max, pe.Min, pe.Sub, pe.Select, pe.Call)


def known_bytes(dims: Iterable[PrimExpr], dtype: DataType) -> int:
    """The bytes of a tensor as far as its dimensions are numbers; others, and 0, count as 1."""
    total = dtype.lane_bytes
    for dim in dims:
        total *= max(dim.value, 1) if isinstance(dim, IntImm) else 1
    return total


def in_float64(expr: PrimExpr) -> PrimExpr:
    """An integer expression in float64, where it cannot wrap."""
    if isinstance(expr, IntImm):
        return FloatImm("float64", float(expr.value))
    if isinstance(expr, (*_ARITHMETIC, pe.Max, pe.Min)):
        return type(expr)(in_float64(expr.a), in_float64(expr.b))
    if isinstance(expr, _DIVISIONS):
        return floor(pe.Div(in_float64(expr.a), in_float64(expr.b)))
    return cast("float64", expr)


def product(dims: Iterable[PrimExpr], itemsize: int) -> PrimExpr:
    """The bytes of a tensor in float64; an extent of 0 counts as 1."""
    one = total = FloatImm("float64", 1.0)
    fixed = itemsize
    for dim in dims:
        if isinstance(dim, IntImm):
            fixed *= max(dim.value, 1)
        else:
            total = multiply(total, maximum(in_float64(dim), one))
    return multiply(total, FloatImm("float64", float(fixed)))


def fits(dims: Iterable[PrimExpr], size: PrimExpr) -> PrimExpr:
    """Whether `size`, the `product` of the dimensions, is within `LIMIT` and no part of a
    dimension wraps."""
    always: dict[PrimExpr, None] = {}
    chosen: dict[PrimExpr, list[PrimExpr]] = {}  # under which conditions a part is needed

    def visit(node: PrimExpr) -> None:
        if (choice := _choice(node)) is not None:
            condition, a, b = choice
            for side, holds in ((a, condition), (b, pe.Not(condition))):
                if isinstance(side, _ARITHMETIC):
                    chosen.setdefault(side, []).append(holds)
        elif isinstance(node, _PARTIAL):
            inner = [c for c in node.children() if isinstance(c, _ARITHMETIC)]
            always.update(dict.fromkeys(inner))

    for dim in dims:
        post_order_visit(dim, visit)
    within: list[PrimExpr] = [pe.LE(size, FloatImm("float64", float(LIMIT)))]
    for part in (*always, *(p for p in chosen if p not in always)):
        value = in_float64(part)
        ends = [
            pe.LE(value, FloatImm("float64", _EXACT)),
            pe.GE(value, FloatImm("float64", -_EXACT)),
        ]
        if part in always:
            within += ends
        else:
            unused = conjunction([pe.Not(condition) for condition in chosen[part]])
            within.append(pe.Or(unused, conjunction(ends)))
    return conjunction(within)


def _choice(node: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr] | None:
    """(condition, value where it holds, value elsewhere) of an expression that is one of two."""
    if isinstance(node, pe.Select):
        return node.condition, node.true_value, node.false_value
    if isinstance(node, pe.Call) and getattr(node.op, "name", "") == "tir.if_then_else":
        return node.args[0], node.args[1], node.args[2]
    return None


@dataclass
class Sizes:
    """The tensors whose sizes are known only at run time; of those that differ by a factor, the
    largest."""

    largest: dict[tuple[str, ...], tuple[int, tuple[PrimExpr, ...], str]] = field(
        default_factory=dict
    )

    def add(self, dims: tuple[PrimExpr, ...], dtype: str, name: str) -> None:
        """A tensor and its name in messages."""
        fixed = known_bytes(dims, DataType(dtype))
        key = tuple(sorted(str(d) for d in dims if not isinstance(d, IntImm)))
        if key and (key not in self.largest or fixed > self.largest[key][0]):
            self.largest[key] = fixed, dims, name

    def checked(self, function: str, body: Stmt) -> Stmt:
        """The body of a function, run only if no size wraps in int64."""
        for fixed, dims, name in reversed(self.largest.values()):
            size = product((d for d in dims if not isinstance(d, IntImm)), fixed)
            shape = ", ".join(map(plain, dims))
            text = f"{function}: {name}: a tensor of shape ({shape}) would take {{value}} bytes or more"
            shown = cast("int64", minimum(size, FloatImm("float64", float(1 << 62))))
            message = Call("handle", "tir.tvm_tuple", [StringImm(text), shown])
            body = AssertStmt(fits(dims, size), message, body)
        return body


def within(function: str, limits: Mapping[Var, int], body: Stmt) -> Stmt:
    """The body of a function, run only if each parameter is from 0 to its limit, by which memory was sized."""
    for var, most in limits.items():
        what = f"{function}: {var.name} must be from 0 to {most}"
        hint = f'raise its bound, "{UPPER_BOUNDS}"'
        text = StringImm(explain(what, got="{value}", instead=hint))
        message = Call("handle", "tir.tvm_tuple", [text, cast("int64", var)])
        least, greatest = const(0, var.dtype), const(most, var.dtype)
        body = AssertStmt(pe.And(pe.LE(least, var), pe.LE(var, greatest)), message, body)
    return body


def plain(dim: ScalarLike) -> str:
    """A dimension in a message, literals as bare numbers."""
    return re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(dim))
