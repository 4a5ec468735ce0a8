"""Reducers: `sum`, `max` and the like over reduction axes, and `comm_reducer` to define new
ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as _fold
from typing import Any

from ..base.errors import explain
from ..ir.prim_expr import IterVar, PrimExpr, Var
from ..ir.prim_op import add, const, convert, infimum, maximum, minimum, multiply, supremum
from .expr import CommReducer, Reduce


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _check_axes(name: str, axis: Any) -> tuple[IterVar, ...]:
    axes = _as_tuple(axis)
    for item in axes:
        if not isinstance(item, IterVar) or item.iter_type != IterVar.CommReduce:
            what = f"{name} reduces over axes made by te.reduce_axis"
            raise ValueError(explain(what, got=str(item), instead="te.reduce_axis((0, n))"))
    return axes


def make_reduce(
    combiner: CommReducer, source: Any, axis: Any, where: Any = None, init: Any = None
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

    >>> xor = comm_reducer(lambda a, b: a ^ b, lambda t: const(0, t), name="xor")
    """

    def combine(expr: Any, axis: Any, where: Any, init: Any) -> Any:
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
            what = f"{name} returns as many results and identities as it reduces values"
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

    def reducer(expr: Any, axis: Any, where: Any = None, init: Any = None, *args: Any) -> Any:
        if isinstance(axis, (IterVar, list, tuple)) and not args:
            return combine(expr, axis, where, init)
        values = [expr, axis, *(v for v in (where, init) if v is not None), *args]
        return _fold(fcombine, values)

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = f"{name} of `expr` over `axis` where `where` holds, from `init` on."
    return reducer


sum = comm_reducer(add, lambda t: const(0, t), name="sum")
prod = comm_reducer(multiply, lambda t: const(1, t), name="prod")
min = comm_reducer(minimum, supremum, name="min")
max = comm_reducer(maximum, infimum, name="max")

__all__ = ["comm_reducer", "make_reduce", "max", "min", "prod", "sum"]
