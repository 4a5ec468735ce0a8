"""Rules for operators, casts and calls: simplify operands, fold literals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..ir import prim_expr as pe
from ..ir import prim_op as po
from ..ir.op import Op
from ..ir.prim_expr import FloatImm, IntImm, PrimExpr
from ..ir.variables import substitute
from .atoms import is_index
from .bounds import any_bound, expr_bound
from .constraints import bind_value_bounds
from .context import Context, Rule
from .rules_vector import vector

if TYPE_CHECKING:
    from ..ir.dtype import DataType
    from ..ir.node import Node


def operand(ctx: Context, value: Node | int | Sequence[PrimExpr] | None) -> Any:
    """A field or argument with the expressions in it simplified."""
    if type(value) in PrimExpr.__kinds__ and type(value) is not pe.IterVar:
        return ctx.simplified(value)
    if isinstance(value, (tuple, list)):
        items = [operand(ctx, item) for item in value]
        if any(a is not b for a, b in zip(items, value, strict=True)):
            return type(value)(items)
    return value


def default(ctx: Context, expr: PrimExpr) -> Any:
    """An expression without a rule, with its fields simplified."""
    if type(expr) in pe.BinaryOpExpr.__kinds__:
        return binary(ctx, expr)
    values, changed = [], False
    for f in expr.__fields__:
        old = getattr(expr, f.name)
        new = operand(ctx, old)
        changed = changed or new is not old
        values.append(new)
    return expr._make(*values, span=expr.span) if changed else expr


def binary(ctx: Context, expr: PrimExpr) -> Any:
    """An operator with its operands simplified; its value if they are literals."""
    a, b = ctx.simplified(expr.a), ctx.simplified(expr.b)
    kind = type(expr)
    if kind is pe.Mul and type(a) is IntImm and type(b) is not IntImm:
        a, b = b, a
    folded = po.fold_binary(kind, a, b)
    if folded is not None:
        return folded
    if expr.dtype.lanes > 1:
        moved = vector(ctx, kind, a, b)
        if moved is not None:
            return moved
    return expr if a is expr.a and b is expr.b else kind._make(a, b, span=expr.span)


def _sum(ctx: Context, expr: PrimExpr) -> Any:
    """A + and - chain with its terms simplified; inner sums are not simplified separately."""
    if not is_index(expr.dtype):
        return binary(ctx, expr)
    chain = [expr]
    while type(chain[-1].a) in (pe.Add, pe.Sub):
        chain.append(chain[-1].a)
    total = ctx.simplified(chain[-1].a)
    for node in reversed(chain):
        b = ctx.simplified(node.b)
        if total is node.a and b is node.b:
            total = node
            continue
        folded = po.fold_binary(type(node), total, b)
        total = type(node)._make(total, b, span=node.span) if folded is None else folded
    return total


def _cast(ctx: Context, expr: pe.Cast) -> Any:
    value = ctx.simplified(expr.value)
    if isinstance(value, (IntImm, FloatImm)) or value.dtype == expr.dtype:
        return po.cast(expr.dtype, value)
    if type(value) is pe.Broadcast:
        inner = ctx.simplified(pe.Cast._make(expr.dtype.element, value.value))
        return pe.Broadcast._make(inner, value.lanes)
    if type(value) is pe.Call and expr.dtype.is_integer and expr.dtype.lanes == 1:
        low, high = expr_bound(ctx, pe.Cast._make(expr.dtype, value))
        if low == high:
            return po.const(int(low), expr.dtype)
    if type(value) in _QUOTIENTS and (parts := _as_narrow(ctx, value, expr.dtype)):
        return ctx.simplified(type(value)._make(*parts))
    return expr if value is expr.value else pe.Cast._make(expr.dtype, value, span=expr.span)


_QUOTIENTS = (pe.Div, pe.Mod, pe.FloorDiv, pe.FloorMod)


def _as_narrow(ctx: Context, e: Any, dtype: DataType) -> list[Any] | None:
    """The operands of a division in a narrower type that has all their values and the result: not
    of the least number by -1."""
    wide = e.dtype.is_integer and dtype.is_integer and e.dtype.bits > dtype.bits
    if not wide or not (e.dtype.is_int or dtype.is_uint):
        return None
    parts = []
    for part in (e.a, e.b):
        if type(part) is pe.Cast and part.value.dtype == dtype:
            parts.append(part.value)
        elif type(part) is IntImm and pe.int_min(dtype) <= part.value <= pe.int_max(dtype):
            parts.append(po.const(part.value, dtype))
        else:
            return None
    low, high = any_bound(ctx, parts[1])
    return parts if low > -1 or high < -1 else None


def _let(ctx: Context, expr: pe.Let) -> Any:
    value = ctx.simplified(expr.value)
    if isinstance(value, IntImm):
        return ctx.simplified(substitute(expr.body, {expr.var: value}))
    bind_value_bounds(ctx, expr.var, value)
    body = ctx.simplified(expr.body)
    if value is expr.value and body is expr.body:
        return expr
    return pe.Let._make(expr.var, value, body, span=expr.span)


def call(ctx: Context, expr: pe.Call) -> Any:
    """A call with its arguments simplified; its value if they are literals."""
    name = expr.op.name if isinstance(expr.op, Op) else ""
    simple = with_args(expr, tuple(operand(ctx, a) for a in expr.args))
    fold = _FOLDS.get(name)
    if fold is not None and all(type(a) is IntImm for a in simple.args):
        with suppress(ValueError):  # an out-of-range shift, in unreachable code
            return fold(*simple.args)
    return simple


def with_args(expr: pe.Call, args: tuple[Any, ...]) -> Any:
    """A call with other arguments; the same object if none differs."""
    if all(a is b for a, b in zip(args, expr.args, strict=True)):
        return expr
    return pe.Call._make(expr.dtype, expr.op, args, span=expr.span)


def _leading_zeros(x: IntImm) -> PrimExpr:
    return po.const(x.dtype.bits - (x.value % (1 << x.dtype.bits)).bit_length(), "int32")


_FOLDS: dict[str, Callable[..., PrimExpr]] = {"tir.clz": _leading_zeros} | {
    f"tir.{fn.__name__}": fn
    for fn in (
        po.shift_left,
        po.shift_right,
        po.bitwise_and,
        po.bitwise_or,
        po.bitwise_xor,
        po.bitwise_not,
    )
}
RULES: dict[type, Rule] = {pe.Add: _sum, pe.Sub: _sum, pe.Cast: _cast, pe.Let: _let}
