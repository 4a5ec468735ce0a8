"""`rfactor` on a tensor expression: a reduction in two steps, the first of which keeps one loop
as a dimension, so that its iterations are independent."""

from __future__ import annotations

from typing import Any

from ..base.errors import explain
from ..ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ..ir.prim_op import add, const, floordiv, floormod, less, logical_and, multiply
from ..ir.variables import substitute
from ..tir.expr import ProducerLoad, Reduce
from ..tir.op import if_then_else
from .stage import Stage
from .tensor import ComputeOp


def rfactor_op(stage: Stage, axis: IterVar, factor_axis: int) -> tuple[ComputeOp, ComputeOp]:
    """(partial results with one more dimension, at `factor_axis`; their reduction).

    With k split into `ko` and `ki`, B[i] = sum of A[i, k] becomes for the axis ki:

        BF[ki, i] = sum over ko of A[i, ko * factor + ki]
        B[i] = sum over ki of BF[ki, i]
    """
    op = stage.op
    name = stage.origin_op.name
    if not isinstance(op, ComputeOp) or not op.reduce_axis:
        what = f"rfactor: {name} is not a reduction"
        raise ValueError(explain(what, got=str(op), instead="a compute of te.sum and the like"))
    stage.position(axis)
    if axis.iter_type != IterVar.CommReduce:
        known = [v.var.name for v in stage.leaf_iter_vars if v.iter_type == IterVar.CommReduce]
        what = f"rfactor of {name} takes a loop of its reduction"
        raise ValueError(explain(what, got=axis.var.name, instead=f"one of {', '.join(known)}"))
    place = factor_axis + len(op.axis) + 1 if factor_axis < 0 else factor_axis
    least = int(stage.in_scan)  # dimension 0 remains the scan's row
    if not least <= place <= len(op.axis):
        what = f"rfactor of {name}: factor_axis is {least} to {len(op.axis)}, or negative"
        raise ValueError(explain(what, got=str(factor_axis)))
    leaves = [v for v in stage.leaf_iter_vars if v.iter_type == IterVar.CommReduce]
    rest = {v: _copy(v, IterVar.CommReduce) for v in leaves if v is not axis}
    zero = const(0, axis.var.dtype)
    domain = Range.from_min_extent(zero, axis.dom.extent)  # dimensions begin at 0
    kept = IterVar(domain, axis.var.copy_with_suffix(""), IterVar.DataPar)
    at: dict[IterVar, PrimExpr] = {v: axis.var for v, axis in rest.items()}
    at[axis] = add(kept.var, axis.dom.min)
    conditions = _roots(stage, at)
    own = [IterVar(a.dom, a.var.copy_with_suffix(""), a.iter_type) for a in op.axis]
    moved: dict[Var, PrimExpr] = {old.var: new.var for old, new in zip(op.axis, own, strict=True)}
    moved.update({root.var: at[root] for root in op.reduce_axis})
    partial = _partial(op, moved, list(rest.values()), conditions)
    axes = [*own[:place], kept, *own[place:]]
    first = ComputeOp(f"{op.name}.rf", op.tag, op.attrs, axes, partial)
    return first, _combined(op, first, axis, place)


def _copy(axis: IterVar, kind: int) -> IterVar:
    return IterVar(axis.dom, axis.var.copy_with_suffix(""), kind)


def _roots(stage: Stage, at: dict[IterVar, PrimExpr]) -> list[PrimExpr]:
    """Add to `at` the values of the loops that the current ones were split and fused from; return
    the conditions under which the values are in the loops' domains."""
    conditions: list[PrimExpr] = []
    for step, args in reversed(stage.steps):
        if step == "split" and args[0].iter_type == IterVar.CommReduce:
            parent, outer, inner, *_ = args
            low, size = parent.dom.min, parent.dom.extent
            value = add(multiply(at[outer], inner.dom.extent), at[inner])
            if not _exact(size, outer.dom.extent, inner.dom.extent):
                conditions.append(less(value, size))
            at[parent] = add(value, low)
        elif step == "fuse" and args[1].iter_type == IterVar.CommReduce:
            parts, fused = args
            value = at[fused]
            for part in reversed(parts[1:]):
                at[part] = add(floormod(value, part.dom.extent), part.dom.min)
                value = floordiv(value, part.dom.extent)
            at[parts[0]] = add(value, parts[0].dom.min)
    return conditions


def _exact(size: Any, outer: Any, inner: Any) -> bool:
    """Whether outer * inner == size for literals."""
    return all(isinstance(e, IntImm) for e in (size, outer, inner)) and (
        outer.value * inner.value == size.value
    )


def _partial(
    op: ComputeOp, moved: dict[Var, PrimExpr], rest: list[IterVar], conditions: list[PrimExpr]
) -> list[PrimExpr]:
    first: Any = op.body[0]
    source = tuple(substitute(e, moved) for e in first.source)
    condition = substitute(first.condition, moved)
    for part in conditions:
        condition = logical_and(condition, part)
    if rest:
        axes = tuple(rest)
        return [Reduce(first.combiner, source, axes, condition, n, ()) for n in range(len(source))]
    neutral = first.combiner.identity_element
    return [if_then_else(condition, s, e) for s, e in zip(source, neutral, strict=True)]


def _combined(op: ComputeOp, first: ComputeOp, axis: IterVar, place: int) -> ComputeOp:
    whole: Any = op.body[0]
    again = IterVar(
        Range.from_min_extent(const(0, axis.var.dtype), axis.dom.extent),
        Var(f"{axis.var.name}_v", axis.var.dtype),
        IterVar.CommReduce,
    )
    points: list[PrimExpr] = [a.var for a in op.axis]
    points.insert(place, again.var)
    source = tuple(ProducerLoad(first.output(n), points) for n in range(first.num_outputs))
    count = range(len(source))
    body = [Reduce(whole.combiner, source, (again,), const(True), n, whole.init) for n in count]
    return ComputeOp(op.name, op.tag, op.attrs, op.axis, body)


__all__ = ["rfactor_op"]
