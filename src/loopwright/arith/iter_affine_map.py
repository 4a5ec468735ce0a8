"""Iteration maps: index expressions as splits and fusions of the loops they run over.

A *mark* is an iterator 0 .. extent: a loop variable (less its start), or a fusion of splits. A
*split* is `scale * ((mark // lower_factor) % extent)`; an index is a sum of splits and a base.
`detect_iter_map` finds that form for all indices together, and checks that no part of a mark is
used twice, so that different indices are independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..ir import prim_expr as pe
from ..ir import prim_op as po
from ..ir.prim_expr import PrimExpr, Range, ScalarLike, Var
from . import poly as P
from .analyzer import Analyzer
from .atoms import VAR
from .iter_map_detect import Detector, NotAffine, bind_iterator
from .iter_map_node import IterMapLevel, IterMapResult, IterMark, IterSplitExpr, IterSumExpr

if TYPE_CHECKING:
    from ..ir.dtype import DataType


def _dtype(indices: Sequence[PrimExpr], iters: Mapping[Var, Range]) -> Any:
    for e in (*indices, *iters):
        return e.dtype
    return po.INT32


def detect_iter_map(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: ScalarLike = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> IterMapResult:
    """The indices as sums of splits of the iterators. Returns errors instead if they are not
    such sums, or `check_level` is not satisfied."""
    level = IterMapLevel.from_str(check_level) if isinstance(check_level, str) else check_level
    indices = [po.convert(i) for i in indices]
    dtype = _dtype(indices, input_iters)
    why = ""
    for as_written in (False, True):
        try:
            worker = Detector(
                input_iters,
                predicate,
                dtype,
                loose=level == IterMapLevel.Surjective,
                as_written=as_written,
                units=not simplify_trivial_iterators,
            )
            sums = [worker.index(index) for index in indices]
            if not all(bound.used for bound in worker.bounds):
                raise NotAffine("the predicate does not bound an iterator or a fusion of them")
            if level != IterMapLevel.NoCheck:
                worker.check([splits for splits, _ in sums], IterMapLevel(level))
            return IterMapResult([worker.node(*one) for one in sums], [])
        except NotAffine as error:
            why = why or str(error)
        if not any(map(_divides_sum, (*indices, po.convert(predicate)))):
            break  # both ways are the same
    return IterMapResult([], [why])


def _divides_sum(expr: PrimExpr) -> bool:
    """Whether a sum is divided somewhere in an expression."""
    if isinstance(expr, (pe.FloorDiv, pe.FloorMod)) and not isinstance(expr.a, Var):
        return True
    return any(isinstance(c, PrimExpr) and _divides_sum(c) for c in expr.children())


def normalize_iter_map_to_expr(expr: IterMark | PrimExpr) -> PrimExpr:
    """The plain expression of a sum, split or mark."""
    if isinstance(expr, IterSumExpr):
        total: PrimExpr = po.const(0, expr.dtype)
        for arg in expr.args:
            total = po.add(total, normalize_iter_map_to_expr(arg))
        return po.add(total, expr.base)
    if isinstance(expr, IterMark):
        return normalize_iter_map_to_expr(expr.source)
    if isinstance(expr, IterSplitExpr):
        value = normalize_iter_map_to_expr(expr.source.source)
        period = po.multiply(expr.lower_factor, expr.extent)
        if not Analyzer().can_prove_greater_equal(period, expr.source.extent):
            value = po.floormod(value, period)
        return po.multiply(po.floordiv(value, expr.lower_factor), expr.scale)
    return expr


def iter_map_simplify(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: bool = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[PrimExpr]:
    """The indices rewritten by their iteration map; only simplified if they have none."""
    ana = Analyzer()
    for var, dom in input_iters.items():
        bind_iterator(ana, var, dom, not simplify_trivial_iterators)
    result = detect_iter_map(
        indices, input_iters, predicate, check_level, simplify_trivial_iterators
    )
    if not result.indices:
        return [ana.simplify(i) for i in indices]
    return [ana.simplify(normalize_iter_map_to_expr(e)) for e in result.indices]


def inverse_affine_iter_map(
    iter_map: Sequence[IterSumExpr], outputs: Sequence[PrimExpr]
) -> dict[Var, PrimExpr]:
    """The iterators' variables in terms of the indices' values `outputs`, for a bijective map."""
    ana = Analyzer()
    values: dict[int, PrimExpr] = {}
    uses: Counter[int] = Counter()  # of each mark, by the splits not yet seen
    ready: list[IterMark] = []

    def count(sum_expr: IterSumExpr) -> None:
        for arg in sum_expr.args:
            uses[id(arg.source)] += 1
            if uses[id(arg.source)] == 1 and isinstance(arg.source.source, IterSumExpr):
                count(arg.source.source)

    def spread(sum_expr: IterSumExpr, value: PrimExpr) -> None:
        rest = po.subtract(value, sum_expr.base)
        for k, arg in enumerate(sum_expr.args):
            part = po.floordiv(rest, arg.scale)
            if k > 0:
                part = po.floormod(part, arg.extent)
            part = po.multiply(part, arg.lower_factor)
            mark = arg.source
            earlier = values.get(id(mark))
            values[id(mark)] = part if earlier is None else po.add(part, earlier)
            uses[id(mark)] -= 1
            if not uses[id(mark)]:
                ready.append(mark)

    for sum_expr in iter_map:
        count(sum_expr)
    for sum_expr, value in zip(iter_map, outputs, strict=True):
        spread(sum_expr, po.convert(value))
    inverse: dict[Var, PrimExpr] = {}
    for mark in ready:  # grows while fusions are split
        value = ana.simplify(values[id(mark)])
        if isinstance(mark.source, IterSumExpr):
            spread(mark.source, value)
            continue
        p = ana.ring(mark.source)
        for m, f in p.items():
            atom = ana.atoms.all[m[0]] if len(m) == 1 else None
            if atom is not None and atom.kind == VAR and f == 1 and atom.expr not in inverse:
                start = P.scaled({n: c for n, c in p.items() if n != m}, -1)
                inverse[atom.expr] = ana.simplify(po.add(value, ana.build(start, value.dtype)))
                break
    return inverse


def iter_sum_terms(ana: Analyzer, sum_expr: IterSumExpr) -> Sequence[IterSplitExpr]:
    """The terms of the fusion that an index is, where no predicate cuts it; else those of the index."""
    whole = sum_expr.args[0] if len(sum_expr.args) == 1 else None
    parts = None if whole is None else whole.source.source
    if (
        whole is None
        or not isinstance(parts, IterSumExpr)
        or not ana.can_prove_equal(extent_of(ana, parts.args, parts.dtype), whole.extent)
    ):
        return sum_expr.args
    return [p.replace(scale=ana.simplify(po.multiply(p.scale, whole.scale))) for p in parts.args]


def extent_of(ana: Analyzer, splits: Sequence[IterSplitExpr], dtype: DataType) -> PrimExpr:
    """The extent of a compact fusion of splits, largest scale first."""
    if not splits:
        return po.const(1, dtype)
    return ana.simplify(po.multiply(splits[0].scale, splits[0].extent))
