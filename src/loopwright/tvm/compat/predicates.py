"""TVM's `arith._ffi_api.NarrowPredicateExpression`, `DomainTouched` and
`tir.analysis._ffi_api._identify_memcpy`, queries of its own passes, and of scripts that inspect
them; its tests' `testing.check_bool_expr_is_true` and `check_int_constraints_trans_consistency`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...arith import Analyzer, IntConstraints, IntConstraintsTransform, detect_iter_map
from ...base.errors import explain
from ...driver.front import compile
from ...ir import prim_expr as pe
from ...ir.functor import any_node
from ...ir.literals import conjunction, is_one
from ...ir.prim_expr import FALSE, TRUE, PrimExpr, Range, Var
from ...ir.prim_op import (
    add,
    const,
    floordiv,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
)
from ...ir.variables import substitute, uses_any
from ...te import compute, create_prim_func
from ...tir.analysis.access import accessed_regions, range_between
from ...tir.analysis.bounds import Bound, bounds_of
from ...tir.buffer import Buffer, BufferRegion
from ...tir.expr import BufferLoad
from ...tir.stmt import Block, BufferStore, For

# whether each operand grows with the result, or the condition is the more true the greater it is
_GROWS: dict[type, tuple[bool, bool]] = {
    pe.Add: (True, True),
    pe.Sub: (True, False),
    pe.Min: (True, True),
    pe.Max: (True, True),
    pe.And: (True, True),
    pe.Or: (True, True),
    pe.LT: (True, False),
    pe.LE: (True, False),
    pe.GT: (False, True),
    pe.GE: (False, True),
}


class _Unknown(Exception):
    """Nothing is known of an operand's bounds."""


def narrow_predicate(expr: PrimExpr, free_parameters: Mapping[Var, Range]) -> PrimExpr:
    """A condition without the parameters; where it holds, `expr` does for all their values."""
    return _extreme(expr, dict(free_parameters), True)


def _extreme(expr: PrimExpr, ranges: dict[Var, Range], most: bool) -> PrimExpr:
    """What replaces a part of the condition, which is weakened where the part grows (`most`)."""
    kind = type(expr)
    if isinstance(expr, Var) and expr in ranges:
        return ranges[expr].last if most else ranges[expr].min
    if kind is pe.EQ:
        both = (pe.LE._make(expr.a, expr.b), pe.LE._make(expr.b, expr.a))
        return logical_and(*(_extreme(e, ranges, most) for e in both))
    if kind is pe.NE:
        both = (pe.LT._make(expr.a, expr.b), pe.LT._make(expr.b, expr.a))
        return logical_or(*(_extreme(e, ranges, most) for e in both))
    if kind is pe.Not:
        return logical_not(_extreme(expr.a, ranges, not most))
    if kind in _GROWS:
        try:
            operands = zip((expr.a, expr.b), _GROWS[kind], strict=True)
            a, b = (_extreme(e, ranges, most == grows) for e, grows in operands)
        except _Unknown:
            if not expr.dtype.is_bool:
                raise
            return FALSE if most else TRUE
        return expr if a is expr.a and b is expr.b else kind._make(a, b)
    if kind is pe.FloorDiv and isinstance(expr.b, pe.IntImm) and expr.b.value > 0:
        return floordiv(_extreme(expr.a, ranges, most), expr.b)
    if any_node(expr, lambda n: n in ranges if isinstance(n, Var) else isinstance(n, _OPAQUE)):
        raise _Unknown
    return expr


_OPAQUE = (BufferLoad, pe.FloorMod, pe.Mod, pe.Call)


def identify_memcpy(stmt: Any) -> list[Any]:
    """For each loop of a nest, the outermost first: (source, destination) where it copies one region
    of memory to another, else a StringImm that says why it does not."""
    results = []
    while isinstance(stmt, For):
        copy = _copied(stmt)
        results.append(pe.StringImm(copy) if isinstance(copy, str) else copy)
        stmt = stmt.body
    return results


def _copied(nest: For) -> tuple[BufferRegion, BufferRegion] | str:
    loops: dict[Var, Range] = {}
    body: Any = nest
    while isinstance(body, For):
        loops[body.loop_var] = body.range
        body = body.body
    if not isinstance(body, BufferStore):
        return f"Expected innermost loop to have BufferStore body, got {type(body).__name__}"
    load = body.value
    if not isinstance(load, BufferLoad):
        return f"Expected BufferStore's value to be BufferLoad, got {type(load).__name__}"
    analyzer = Analyzer(loops)
    sides = {"src": (load.buffer, load.indices), "dst": (body.buffer, body.indices)}
    flat = {side: analyzer.simplify(b.flat_offset(list(i))) for side, (b, i) in sides.items()}
    steps = const(1, nest.extent.dtype)
    for extent in (r.extent for r in loops.values()):
        steps = multiply(steps, extent)
    ends: dict[Var, Bound] = {v: (r.min, r.last) for v, r in loops.items()}
    for side, offset in flat.items():
        still = [v for v, r in loops.items() if not (is_one(r.extent) or uses_any(offset, {v}))]
        if still or detect_iter_map([offset], loops, check_level="injective").errors:
            return (
                f"The index of {side}, {offset}, does not form a bijective transform of the loops"
            )
        bounds = bounds_of(offset, ends)
        touched = None if bounds is None else analyzer.simplify(bounds[1] - bounds[0] + 1)
        if touched is None or not analyzer.can_prove_equal(touched, steps):
            what = f"loop iterations ({steps}) and number of {side} indices touched ({touched})"
            return f"Mismatch between {what}"
    apart = analyzer.simplify(flat["src"] - flat["dst"])
    if any_node(apart, lambda n: isinstance(n, Var) and n in loops):
        return f"The loops visit different source and destination indices: {flat}"
    src, dst = (_region(buffer, indices, ends) for buffer, indices in sides.values())
    return src, dst


def _region(buffer: Buffer, indices: Sequence[PrimExpr], ends: dict[Var, Bound]) -> BufferRegion:
    """The box of the indices."""
    spans = (bounds_of(index, ends) for index in indices)
    pairs = zip(spans, buffer.shape, strict=True)
    return BufferRegion(
        buffer, tuple(Range.upto(n) if span is None else range_between(*span) for span, n in pairs)
    )


def domain_touched(stmt: For, buffer: Buffer, loads: bool, stores: bool) -> tuple[Range, ...]:
    """The box of a buffer's elements that a statement reads, writes, or either; none is empty."""
    reads, writes, _ = accessed_regions(Block([], [], [], "touched", stmt), {})
    sides = [*(reads if loads else ()), *(writes if stores else ())]
    boxes = [r.region for r in sides if r.buffer is buffer]
    if not boxes:
        return ()
    ana, (first, *rest) = Analyzer(), boxes
    ends = [(r.min, r.last) for r in first]
    for box in rest:
        pairs = zip(ends, box, strict=True)
        ends = [(minimum(a, r.min), maximum(b, r.last)) for (a, b), r in pairs]
    return tuple(range_between(ana.simplify(a), ana.simplify(b)) for a, b in ends)


# ---------------------------------------------------------------- conditions at all points


_MOST_POINTS = 1 << 30  # a byte each


def check_bool_expr_is_true(
    bool_expr: PrimExpr, vranges: Mapping[Var, Range], cond: PrimExpr | None = None
) -> None:
    """Raise AssertionError, with a point, unless a condition holds for all values of its variables
    for which `cond` does. Raises ValueError for ranges without bounds."""
    expr = bool_expr if cond is None else logical_or(logical_not(cond), bool_expr)
    ana, lows, sizes = Analyzer(vranges), {}, []
    for v, r in vranges.items():  # a box, where a range depends on other variables
        low, high = (ana.const_int_bound(end) for end in (r.min, r.last))
        lows[v] = low.min_value
        sizes.append(max(high.max_value - low.min_value + 1, 0))
        expr = logical_or(logical_not(_inside(v, r)), expr)
    if math.prod(sizes) > _MOST_POINTS:
        raise ValueError(explain("the ranges have too many points", got=str(dict(vranges))))
    if 0 in sizes:
        return
    sizes = sizes or [1]

    def at(*point: Var) -> PrimExpr:
        pairs = zip(lows, point, strict=False)
        return substitute(expr, {v: add(p, lows[v]) for v, p in pairs})

    result = compute(sizes, at, name="holds")
    holds = np.zeros(sizes, "bool")
    compile(create_prim_func([result]))(holds)
    if not holds.all():
        wrong = np.argwhere(~holds)[0].tolist()
        point = {v.name: low + n for (v, low), n in zip(lows.items(), wrong, strict=False)}
        raise AssertionError(explain(f"{bool_expr} does not hold", got=str(point)))


def check_int_constraints_trans_consistency(
    constraints_trans: IntConstraintsTransform, vranges: Mapping[Var, Range] | None = None
) -> None:
    """Raise AssertionError unless each solution of either system is one of the other, and comes back
    as itself. vranges: the ranges of other variables."""
    t = constraints_trans
    for one, two, there, back in (
        (t.src, t.dst, t.dst_to_src, t.src_to_dst),
        (t.dst, t.src, t.src_to_dst, t.dst_to_src),
    ):
        consequences = [substitute(c, there) for c in _conditions(two)]
        consequences += [pe.EQ(v, substitute(back[v], there)) for v in one.variables if v in back]
        ranges = {**(vranges or {}), **one.ranges}
        check_bool_expr_is_true(conjunction(consequences), ranges, conjunction(_conditions(one)))


def _conditions(system: IntConstraints) -> list[PrimExpr]:
    """The conditions that the solutions of a system satisfy."""
    return [*(_inside(v, r) for v, r in system.ranges.items()), *system.relations]


def _inside(var: Var, rng: Range) -> PrimExpr:
    return logical_and(pe.LE(rng.min, var), pe.LT(var, add(rng.min, rng.extent)))
