"""Reducers: `sum`, `max` and similar ones over reduction axes, and `comm_reducer` to define new
ones; and how the analyzer simplifies their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce as _fold
from typing import TYPE_CHECKING, Any

from ..arith.context import Context
from ..arith.simplify import RULES
from ..base.errors import explain
from ..base.names import named
from ..ir.functor import any_node
from ..ir.prim_expr import Call, IterVar, PrimExpr, ScalarLike, Select, Var
from ..ir.prim_op import add, const, convert, infimum, maximum, minimum, multiply, supremum
from ..ir.variables import substitute, vars_in
from .expr import CommReducer, Reduce
from .op import HARMLESS, effect_of

if TYPE_CHECKING:
    from ..ir.node import Node


def _as_tuple(value: PrimExpr | float | Sequence[PrimExpr]) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _check_axes(name: str, axis: IterVar | Sequence[IterVar]) -> tuple[IterVar, ...]:
    axes = _as_tuple(axis)
    for item in axes:
        if not isinstance(item, IterVar) or item.iter_type != IterVar.CommReduce:
            what = f"{name} reduces over axes made by te.reduce_axis"
            raise ValueError(explain(what, got=str(item), instead="te.reduce_axis((0, n))"))
    return axes


def make_reduce(
    combiner: CommReducer,
    source: Sequence[PrimExpr],
    axis: Sequence[IterVar],
    where: ScalarLike | None = None,
    init: float | None = None,
) -> Any:
    """The `Reduce` nodes of a combiner, one per value; a single one is returned bare."""
    values = tuple(convert(v) for v in _as_tuple(source))
    condition = const(True) if where is None else convert(where)
    start: tuple[PrimExpr, ...] = ()
    if init is not None:
        pairs = zip(_as_tuple(init), values, strict=True)
        start = tuple(i if isinstance(i, PrimExpr) else const(i, v.dtype) for i, v in pairs)
    reduces = [Reduce(combiner, values, axis, condition, n, start) for n in range(len(values))]
    return reduces[0] if len(reduces) == 1 else tuple(reduces)


def comm_reducer(
    fcombine: Callable[[Any, Any], Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """A commutative reducer from `fcombine(lhs, rhs)` and `fidentity(*dtypes)`.

    Both take and return tuples if several values are reduced together (argmax). The result
    `reducer(expr, axis, where=None, init=None)` builds `Reduce` nodes; called with plain values
    (`reducer(a, b)`) it combines them directly.
    """

    def combine(
        expr: PrimExpr | Sequence[PrimExpr] | float,
        axis: IterVar | Sequence[IterVar],
        where: PrimExpr | None,
        init: float | None,
    ) -> Any:
        axes = _check_axes(name, axis)
        values = [convert(v) for v in _as_tuple(expr)]
        several = isinstance(expr, (tuple, list))
        dtypes = [v.dtype for v in values]
        lhs = [Var("x" if not several else f"x{n}", t) for n, t in enumerate(dtypes)]
        rhs = [Var("y" if not several else f"y{n}", t) for n, t in enumerate(dtypes)]
        identity = _as_tuple(fidentity(*dtypes))
        result = fcombine(tuple(lhs), tuple(rhs)) if several else fcombine(lhs[0], rhs[0])
        result = _as_tuple(result)
        if not len(result) == len(identity) == len(values):
            what = f"{name} returns one result and one identity for each value"
            got = f"{len(values)} values, {len(result)} results, {len(identity)} identities"
            raise ValueError(explain(what, got=got))
        reducer = CommReducer(
            tuple(lhs),
            tuple(rhs),
            tuple(convert(r) for r in result),
            tuple(const(i, t) for i, t in zip(identity, dtypes, strict=True)),
        )
        nodes = make_reduce(reducer, values, axes, where, init)
        return (nodes,) if several and len(values) == 1 else nodes

    def reducer(
        expr: PrimExpr | float | Sequence[PrimExpr],
        axis: PrimExpr | float | Sequence[IterVar],
        where: PrimExpr | None = None,
        init: float | None = None,
        *args: Any,
    ) -> Any:
        if isinstance(axis, (IterVar, list, tuple)) and not args:
            return combine(expr, axis, where, init)
        values = [expr, axis, *(v for v in (where, init) if v is not None), *args]
        return _fold(fcombine, values)

    doc = f"{name} of `expr` over `axis` where `where` holds, from `init` on; of scalars without axes: `{name}(a, b, *args)`."
    return named(reducer, name, doc)


sum = comm_reducer(add, lambda t: const(0, t), name="sum")
prod = comm_reducer(multiply, lambda t: const(1, t), name="prod")
min = comm_reducer(minimum, supremum, name="min")
max = comm_reducer(maximum, infimum, name="max")


def _simplified(ctx: Context, e: Reduce) -> PrimExpr:
    """A reduction with its parts simplified: the axes in their ranges, without values that the one in
    question does not depend on; over no axis, its one term."""
    for axis in e.axis:
        if axis.dom is not None:
            ctx.bind(axis.var, axis.dom)
    sides = (e.source, e.init, e.combiner.result, e.combiner.identity_element)
    needed = _needed(e)
    source, init, result, identity = (
        tuple(ctx.simplified(side[n]) for n in needed) if side else () for side in sides
    )
    condition, index = ctx.simplified(e.condition), needed.index(e.value_index)
    old = e.combiner
    if not e.axis:
        first = (init or identity)[index]
        pairs = [(old.lhs, init), (old.rhs, source)]
        substitution = {v[n]: x for v, side in pairs for n, x in zip(needed, side, strict=False)}
        value = substitute(result[index], substitution) if init else source[index]
        return ctx.simplified(Select._make(condition, value, first))
    new = (source, init, result, identity)
    same = all(a is b for x, y in zip(new, sides, strict=True) for a, b in zip(x, y, strict=False))
    if len(needed) == len(e.source) and same and condition is e.condition:
        return e
    lhs, rhs = (tuple(side[n] for n in needed) for side in (old.lhs, old.rhs))
    combiner = CommReducer(lhs, rhs, result, identity)
    return Reduce(combiner, source, e.axis, condition, index, init, span=e.span)


def _needed(e: Reduce) -> list[int]:
    """The values that the one in question depends on, and those that have an effect."""
    combiner = e.combiner
    number = {v: n for side in (combiner.lhs, combiner.rhs) for n, v in enumerate(side)}
    needed: set[int] = set()
    effects = [n for n, value in enumerate(e.source) if any_node(value, _has_effect)]
    left = [e.value_index, *effects]
    while left:
        n = left.pop()
        if n not in needed:
            needed.add(n)
            left += [number[v] for v in vars_in(combiner.result[n]) if v in number]
    return sorted(needed)


def _has_effect(node: Node) -> bool:
    return type(node) is Call and effect_of(node) not in HARMLESS


RULES.register(Reduce, _simplified)
