"""What blocks read and write while some of the loops around them run."""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer, IntervalSet, eval_ranges
from ...arith.int_set import is_infinite
from ...ir.prim_expr import PrimExpr, Range, Var
from ...ir.prim_op import const, maximum, minimum, subtract
from ..buffer import Buffer
from .rewrite import substitute
from .state import Ref

Box = list[tuple[PrimExpr, PrimExpr]]  # least and greatest index of each dimension, both included


def loops_between(block: Ref, above: Ref) -> list[Ref]:
    """The loops around a block below `above` (a loop or a block), the innermost first."""
    found = []
    for ref in block.ancestors():
        if ref is above:
            break
        if not ref.is_block:
            found.append(ref)
    return found


def axis_values(block: Ref) -> dict[Var, PrimExpr]:
    """Axis to the value it is bound to."""
    return {
        axis.var: value
        for axis, value in zip(block.stmt.iter_vars, block.realize.iter_values, strict=True)
    }


def loop_domain(loops: list[Ref]) -> dict[Var, Range]:
    """Loop variable to range."""
    return {
        ref.stmt.loop_var: Range.from_min_extent(ref.stmt.min, ref.stmt.extent) for ref in loops
    }


def relaxed_region(sch: Any, block: Ref, above: Ref, buffer: Buffer, *, write: bool) -> Box | None:
    """The box of `buffer` that a block reads or writes while the loops below `above` run, in
    terms of the loops from `above` on outwards; None where it does not access the buffer."""
    regions = [r for r in (block.stmt.writes if write else block.stmt.reads) if r.buffer is buffer]
    if not regions:
        return None
    values = axis_values(block)
    ana = sch.state.analyzer(block)
    domain = loop_domain(loops_between(block, above))
    total: Box | None = None
    for region in regions:
        ranges = [
            Range.from_min_extent(substitute(r.min, values), substitute(r.extent, values))
            for r in region.region
        ]
        total = union_box(ana, total, bounded(eval_ranges(ranges, domain, ana), buffer))
    return total


def bounded(sets: list[IntervalSet], buffer: Buffer) -> Box:
    """Intervals as a box; the whole dimension where there is no bound."""
    box: Box = []
    for one, extent in zip(sets, buffer.shape, strict=True):
        low = const(0, extent.dtype) if is_infinite(one.min_value) else one.min_value
        high = subtract(extent, 1) if is_infinite(one.max_value) else one.max_value
        box.append((low, high))
    return box


def union_box(ana: Analyzer, a: Box | None, b: Box | None) -> Box | None:
    """The least box that contains both."""
    if a is None or b is None:
        return b if a is None else a
    return [
        (ana.simplify(minimum(l0, l1)), ana.simplify(maximum(h0, h1)))
        for (l0, h0), (l1, h1) in zip(a, b, strict=True)
    ]


def region_covers(
    ana: Analyzer, provided: Box | None, needed: Box | None, shape: Any = None
) -> bool:
    """Whether the box `provided` is proven to contain `needed`."""
    if needed is None:
        return True
    if provided is None:
        return False
    for n, ((p0, p1), (n0, n1)) in enumerate(zip(provided, needed, strict=True)):
        low = ana.can_prove(p0 <= n0) or (shape is not None and ana.can_prove(p0 <= 0))
        if not low:
            return False
        if not ana.can_prove(n1 <= p1):
            if shape is None or not ana.can_prove(p1 >= shape[n] - 1):
                return False
    return True


def whole(box: Box, ana: Analyzer) -> list[tuple[PrimExpr, PrimExpr]]:
    """A box as (begin, extent) pairs."""
    return [(low, ana.simplify(high - low + 1)) for low, high in box]
