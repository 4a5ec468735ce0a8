"""Iteration maps divided into outer and inner iterators, and sums of splits that need not be compact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...arith.analyzer import Analyzer
from ...arith.iter_affine_map import detect_iter_map, extent_of, iter_sum_terms
from ...arith.iter_map_detect import Detector, NotAffine, Split
from ...arith.iter_map_node import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr
from ...ir import prim_op as po
from ...ir.literals import conjunction, conjuncts
from ...ir.node import Node
from ...ir.prim_expr import PrimExpr, Range, ScalarLike, Var
from ...ir.variables import vars_in


def normalize_to_iter_sum(index: PrimExpr, input_iters: Mapping[Var, Range]) -> IterSumExpr:
    """One index as a sum of splits, largest scale first; the splits need not be compact. Other
    terms are part of the base.

    Raises ValueError if the index does not have that form.
    """
    worker = Detector(input_iters, True, index.dtype, loose=True)
    try:
        splits, base = worker.sum_of(worker.ana.ring(index), partly=True)
    except NotAffine as why:
        raise ValueError(f"{index} is not a sum of splits: {why}") from None
    ordered: list[Split] = []
    while splits:
        ordered.append(worker.least(splits, lambda s: s.scale))
        splits.remove(ordered[-1])
    return worker.node(ordered, base)


def subspace_divide(
    bindings: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    sub_iters: Sequence[Var],
    predicate: ScalarLike = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[list[IterMark]]:
    """Each binding as outer * inner.extent + inner, inner over `sub_iters` only: [outer, inner]
    marks, then two whose extents are the predicate's parts about either. Empty if a binding or a part
    of the predicate cannot be divided."""
    result = detect_iter_map(
        bindings, input_iters, predicate, check_level, simplify_trivial_iterators
    )
    if not result.indices and bindings:
        return []
    inside = set(sub_iters)
    limits: tuple[list[PrimExpr], list[PrimExpr]] = ([], [])  # of the outer, the inner iterators
    for part in conjuncts(po.convert(predicate)):
        sides = {v in inside for v in vars_in(part) if v in input_iters}
        if len(sides) > 1:
            return []
        limits[sides.pop() if sides else False].append(part)
    ana = Analyzer()
    divided: list[list[IterMark]] = []
    for sum_expr in result.indices:
        outer: list[IterSplitExpr] = []
        inner: list[IterSplitExpr] = []
        for arg in iter_sum_terms(ana, sum_expr):
            where = _side(arg, inside)
            if where is None or (where is False and inner):
                return []
            (inner if where else outer).append(arg)
        zero = po.const(0, sum_expr.dtype)
        extent = extent_of(ana, inner, sum_expr.dtype)
        scaled = [a.replace(scale=ana.simplify(po.floordiv(a.scale, extent))) for a in outer]
        divided.append(
            [
                IterMark(IterSumExpr(scaled, zero), extent_of(ana, scaled, zero.dtype)),
                IterMark(IterSumExpr(inner, sum_expr.base), extent),
            ]
        )
    always = po.const(True, "bool")
    divided.append([IterMark(always, conjunction(side)) for side in limits])
    return divided


def _side(split: IterSplitExpr, inside: set[Var]) -> bool | None:
    """Whether a split iterates over the inner iterators (True), the others (False), or both
    (None)."""
    sides: set[bool] = set()

    def visit(node: IterMark | PrimExpr) -> None:
        if isinstance(node, Var):
            sides.add(node in inside)
        elif isinstance(node, Node):
            for child in node.children():
                visit(child)

    visit(split.source.source)
    return sides.pop() if len(sides) == 1 else None
