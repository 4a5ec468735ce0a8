"""The regions that blocks read and write while some of the loops around them run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ....arith import Analyzer
from ....arith import poly as P
from ....arith.build import build
from ....arith.context import Context
from ....arith.convert import ring
from ....arith.int_set import hull
from ....arith.interval import Evaluator
from ....ir.prim_expr import PrimExpr, Range, Var
from ....ir.prim_op import const, subtract
from ...buffer import Buffer
from .refs import Ref
from .rewriting import substitute
from .state import ScheduleState

if TYPE_CHECKING:
    from ....ir.dtype import DataType

Box = list[tuple[PrimExpr, PrimExpr]]  # least and greatest index of each dimension, both included


def loops_between(block: Ref, above: Ref) -> list[Ref]:
    """The loops around a block below `above` (a loop or a block), the innermost first."""
    loops = []
    for ref in block.ancestors():
        if ref is above:
            break
        if not ref.is_block:
            loops.append(ref)
    return loops


def axis_values(block: Ref) -> dict[Var, PrimExpr]:
    """The value that each axis is bound to."""
    return {
        axis.var: value
        for axis, value in zip(block.stmt.iter_vars, block.realize.iter_values, strict=True)
    }


def substituted(ranges: Sequence[Range], values: dict[Var, PrimExpr]) -> list[Range]:
    """Ranges with variables replaced."""
    return [
        Range.from_min_extent(substitute(r.min, values), substitute(r.extent, values))
        for r in ranges
    ]


def loop_domain(loops: list[Ref]) -> dict[Var, Range]:
    """The range of each loop variable."""
    return {ref.stmt.loop_var: ref.stmt.range for ref in loops}


def sharing_loops(at: Ref, scope: str) -> list[Ref]:
    """The loops from `at` on outwards whose threads share memory of a scope: values computed there
    are visible to all of them."""
    lanes = ("threadIdx.x",)
    shared = {"shared": ("threadIdx.", "vthread"), "warp": lanes, "wmma": lanes}
    tags = shared.get(scope.split(".")[0])
    loops = [at, *at.loops()] if tags is not None else []
    bound = [(r, r.stmt.thread_binding) for r in loops if not r.is_block]
    return [r for r, b in bound if b is not None and b.thread_tag.startswith(tags)]


def relaxed_region(
    state: ScheduleState,
    block: Ref,
    above: Ref,
    buffer: Buffer,
    *,
    write: bool,
    more: Sequence[Ref] = (),
) -> Box | None:
    """The box of `buffer` that a block reads or writes while the loops below `above` (and the loops
    `more`) run, in terms of the others from `above` on outwards; None where it does not access the
    buffer."""
    regions = [r for r in (block.stmt.writes if write else block.stmt.reads) if r.buffer is buffer]
    if not regions:
        return None
    values = axis_values(block)
    ana = state.analyzer(block)
    evaluator = Evaluator(ana, loop_domain([*loops_between(block, above), *more]))
    total: Box | None = None
    for region in regions:
        ranges = substituted(region.region, values)
        box = [interval(evaluator, r, dim) for r, dim in zip(ranges, buffer.shape, strict=True)]
        total = union_box(ana, total, box)
    return total


def interval(evaluator: Evaluator, rng: Range, dim: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """The least and greatest index of a range; those of the dimension without a bound."""
    ctx = evaluator.ctx
    dtype = evaluator.dtype = rng.min.dtype
    first, last = ring(ctx, rng.min), P.shift(ring(ctx, rng.extent), -1)
    low, high = evaluator.ends(first)
    if evaluator.involved(last):
        high = evaluator.ends(P.add(first, last))[1]
    elif high is not None:
        high = P.add(high, last)
    least = const(0, dim.dtype) if low is None else _built(ctx, low, dtype, const(0, dim.dtype))
    if high is None:
        return least, subtract(dim, 1)
    if high == low:
        return least, least
    return least, _built(ctx, high, dtype, subtract(dim, 1))


def _built(ctx: Context, p: Any, dtype: DataType, otherwise: PrimExpr) -> PrimExpr:
    # A bound that comes from the type, or that the type cannot hold, is not a bound.
    value = P.constant_value(p)
    if value is not None and abs(value) >= 1 << 30:
        return otherwise
    try:
        return build(ctx, p, dtype)
    except ValueError:
        return otherwise


def relax(
    ana: Analyzer, ranges: Sequence[Range], domain: dict[Var, Range], shape: Sequence[PrimExpr]
) -> Box:
    """The box that ranges, in a buffer of `shape`, cover while the variables of `domain` run."""
    evaluator = Evaluator(ana, domain)
    return [interval(evaluator, r, dim) for r, dim in zip(ranges, shape, strict=True)]


def union_box(ana: Analyzer, a: Box | None, b: Box) -> Box:
    """The least box that contains both."""
    if a is None:
        return b
    return [hull(ana, one, two) for one, two in zip(a, b, strict=True)]


def union_boxes(ana: Analyzer, boxes: Iterable[Box | None]) -> Box:
    """The least box that contains all those that are not None (one at least)."""
    total, *others = (box for box in boxes if box is not None)
    for box in others:
        total = union_box(ana, total, box)
    return total


def region_covers(
    ana: Analyzer, provided: Box | None, needed: Box | None, shape: Sequence[PrimExpr] | None = None
) -> bool:
    """Whether the box `provided` is proven to contain `needed`."""
    if needed is None:
        return True
    if provided is None:
        return False
    for n, ((p0, p1), (n0, n1)) in enumerate(zip(provided, needed, strict=True)):
        if not _at_most(ana, p0, n0) and (shape is None or not ana.can_prove(p0 <= 0)):
            return False
        if not _at_most(ana, n1, p1):
            if shape is None or not ana.can_prove(p1 >= shape[n] - 1):
                return False
    return True


def _at_most(ana: Analyzer, a: PrimExpr, b: PrimExpr) -> bool:
    return a is b or ana.nonneg(P.add(ana.ring(b), ana.ring(a), -1))


def whole(box: Box, ana: Analyzer) -> list[tuple[PrimExpr, PrimExpr]]:
    """A box as (begin, extent) pairs."""
    return [(low, ana.simplify(high - low + 1)) for low, high in box]
