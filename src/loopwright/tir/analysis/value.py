"""Values of index expressions at one iteration."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Any

from ...ir import prim_expr as pe
from ...ir.prim_expr import IntImm, Var
from ...ir.prim_op import COMPARE
from ...ir.variables import uses_any
from ..op import is_call_to
from ..stmt import For


def _floordiv(a: int, b: int) -> int | None:
    return a // b if b else None


def _floormod(a: int, b: int) -> int | None:
    return a % b if b else None


def _div(a: int, b: int) -> int | None:
    return None if not b else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _mod(a: int, b: int) -> int | None:
    quotient = _div(a, b)
    return None if quotient is None else a - b * quotient


_BINARY: dict[type, Callable[[int, int], Any]] = {
    pe.Add: operator.add,
    pe.Sub: operator.sub,
    pe.Mul: operator.mul,
    pe.FloorDiv: _floordiv,
    pe.FloorMod: _floormod,
    pe.Div: _div,
    pe.Mod: _mod,
    pe.Min: min,
    pe.Max: max,
    **COMPARE,
}


def value_at(expr: pe.PrimExpr, at: dict[Var, int]) -> int | None:
    """The value of an integer expression where the variables have the values of `at`; None where
    it depends on more than them."""
    kind = type(expr)
    if kind is IntImm:
        return int(expr.value)
    if isinstance(expr, Var):
        return at.get(expr)
    rule = _BINARY.get(kind)
    if rule is not None:
        a = value_at(expr.a, at)
        b = None if a is None else value_at(expr.b, at)
        return None if a is None or b is None else rule(a, b)
    if kind is pe.And or kind is pe.Or:
        a, b = value_at(expr.a, at), value_at(expr.b, at)
        decided = kind is pe.Or  # True decides an Or, False an And
        if (a is not None and bool(a) is decided) or (b is not None and bool(b) is decided):
            return decided
        return None if a is None or b is None else not decided
    if kind is pe.Not:
        a = value_at(expr.a, at)
        return None if a is None else not a
    if kind is pe.Cast and expr.dtype.is_integer and expr.value.dtype.is_integer:
        return value_at(expr.value, at)
    if kind is pe.Select or is_call_to(expr, "if_then_else"):
        condition, yes, no = expr.args if kind is pe.Call else _parts(expr)
        chosen = value_at(condition, at)
        return None if chosen is None else value_at(yes if chosen else no, at)
    if is_call_to(expr, "likely"):
        return value_at(expr.args[0], at)
    return None


def _parts(select: pe.PrimExpr) -> tuple[Any, Any, Any]:
    return select.condition, select.true_value, select.false_value


def lanes_at(index: pe.PrimExpr, at: dict[Var, int]) -> list[int] | None:
    """The values of an index: one, or those of a Ramp or Broadcast."""
    if isinstance(index, pe.Ramp):
        base, step = value_at(index.base, at), value_at(index.stride, at)
        if base is None or step is None or not isinstance(index.lanes, int):
            return None
        return [base + n * step for n in range(index.lanes)]
    if isinstance(index, pe.Broadcast):
        index = index.value
    value = value_at(index, at)
    return None if value is None else [value]


def samples(loop: For, at: dict[Var, int], few: int) -> list[int]:
    """Some iterations of a loop: the first `few`, and the last. A loop of unknown extent is taken
    to run twice."""
    low, size = value_at(loop.min, at), value_at(loop.extent, at)
    if low is None:
        return []
    if size is None:
        return [low, low + 1]
    return sorted({*range(low, low + min(few, size)), *([low + size - 1] if size > 0 else [])})


def iterations(
    loops: tuple[For, ...], at: dict[Var, int], few: int, most: int
) -> Iterator[dict[Var, int]]:
    """At most `most` iterations of a nest (of its inner loops for each value of the outer one, where
    bounds depend on loops of the nest), as values of its variables added to `at`."""
    if not loops:
        yield at
        return
    own = {loop.loop_var for loop in loops}
    if not any(uses_any((loop.min, loop.extent), own) for loop in loops):
        values = product(*(samples(loop, at, few) for loop in loops))
        for one in islice(values, most):
            yield {**at, **{p.loop_var: v for p, v in zip(loops, one, strict=True)}}
        return
    for value in samples(loops[0], at, few):  # inner bounds depend on outer loops
        inner = {**at, loops[0].loop_var: value}
        yield from islice(iterations(loops[1:], inner, few, most), most)
