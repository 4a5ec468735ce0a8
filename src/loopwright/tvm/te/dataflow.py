"""What changes the operations of a schedule: read and write caches, factored reductions, inlined
stages. The stages after a changed one read its new tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from ...arith import Analyzer
from ...base.errors import CallValueError, explain
from ...ir.functor import rewrite
from ...ir.node import Node
from ...ir.prim_expr import IterVar, PrimExpr, Range, Var
from ...ir.prim_op import const, logical_and
from ...ir.variables import substitute, uses_any
from ...te.tensor import ComputeOp, Operation, Tensor
from ...tir.expr import ProducerLoad, Reduce
from ...tir.op import if_then_else
from .relations import (
    Values,
    bound_checks,
    is_const,
    or_down,
    or_up,
    pass_down_ranges,
    pass_down_values,
    pass_up_values,
)
from .stage import GROUP_ROOT, INLINE, INLINED, Stage, Stages
from .tensor_compute import TensorComputeOp


def new_op(s: Stages, stage: Stage, op: Operation) -> None:
    """Compute an operation in place of a stage's; the stages after it read its results."""
    table = {stage.op.output(n): op.output(n) for n in range(stage.op.num_outputs)}
    stage.op = op
    spread(s, table)


def spread(s: Stages, table: dict[Tensor, Tensor]) -> None:
    """Replace the tensors that the stages read."""
    for stage in s.stages:
        if stage.op in {t.op for t in table.values()}:
            continue
        op = stage.op.replace_inputs(table)
        if op is not stage.op:
            table.update((stage.op.output(n), op.output(n)) for n in range(stage.op.num_outputs))
            stage.op = op


# -- read caches ----------------------------------------------------------------------------------


def cache_read(s: Stages, tensor: Tensor, scope: str, readers: Sequence[Any]) -> Tensor:
    """A copy of a tensor in memory `scope`, which the readers use. Returns the copy."""
    stage = s[tensor.op]
    source = stage.op.output(tensor.value_index)
    name = tensor.op.name + (f".v{tensor.value_index}" if tensor.op.num_outputs > 1 else "")
    while any(other.op.name == f"{name}.{scope}" for other in s.stages):
        name += ".d"
    axes = [IterVar(Range(0, e), Var(f"ax{n}", e.dtype)) for n, e in enumerate(source.shape)]
    load = ProducerLoad(source, [a.var for a in axes])
    copy = ComputeOp(f"{name}.{scope}", "", {}, axes, [load])
    changed: list[Stage] = []
    for reader in readers:
        own = s[reader]
        if source not in own.op.input_tensors:
            what = f"cache_read: {own.origin_op.name} does not read {tensor.op.name}"
            names = ", ".join(t.op.name for t in own.op.input_tensors)
            raise CallValueError(explain(what, instead=f"it reads {names or 'nothing'}"))
        changed.append(own)
    for own in changed:
        new_op(s, own, own.op.replace_inputs({source: copy.output(0)}))
    cached = s.insert(copy, s.stages.index(stage) + 1, stage.group)
    cached.set_scope(scope)
    return copy.output(0)


# -- write caches ---------------------------------------------------------------------------------


def cache_write(s: Stages, tensors: Sequence[Tensor], scope: str) -> list[Tensor]:
    """Compute the results of an operation in memory `scope`, in the order of the stage's loops, and
    copy them from there. Returns the computed tensors."""
    stage = s[tensors[0]]
    op, origin = stage.op, tensors[0].op
    if not isinstance(op, (ComputeOp, TensorComputeOp)) or any(t.op is not origin for t in tensors):
        what = "cache_write takes the results of one compute"
        raise CallValueError(explain(what, got=", ".join(str(t.op) for t in tensors)))
    spatial = op.axis if isinstance(op, ComputeOp) else op.axis[: op.schedulable_ndim]
    reduced = {*op.reduce_axis}
    leaves = [v for v in stage.leaf_iter_vars if v not in reduced]
    for v in leaves:
        if v.iter_type != IterVar.DataPar:
            what = f"cache_write of {stage.origin_op.name}: its loops of the reduction are split"
            raise CallValueError(explain(what, got=v.var.name, instead="cache_write before"))
    doms = {a: a.dom for a in spatial}
    ana = Analyzer()
    for a in spatial:
        ana.bind(a.var, a.dom)
    pass_down_ranges(stage, doms, ana, some=True)
    axes = [IterVar(doms[v], Var(f"{v.var.name}_c", v.var.dtype), v.iter_type) for v in leaves]
    moved: Values = {v: a.var for v, a in zip(leaves, axes, strict=True)}
    pass_up_values(stage, doms, moved, some=True)
    ranges = {**doms, **{a: a.dom for a in axes}}
    tests = bound_checks(stage, ranges, moved, True, op.reduce_axis)
    points: Values = {a: a.var for a in spatial}
    pass_down_values(stage, doms, points)
    indices = [points[v] for v in leaves]
    values = {a.var: moved[a] for a in spatial}
    name = f"{op.name}.{scope}"
    computed: Operation
    if isinstance(op, TensorComputeOp):
        if tests:
            what = f"cache_write of {op.name}: its intrinsic would run beyond the result"
            raise CallValueError(explain(what, got=str(tests[0]), instead="exact factors"))
        computed, rest = op.moved(name, axes, values)
        indices += [a.var for a in rest]
        op_axes = (*spatial, *rest)
    else:
        body = _guarded(_renewed(op, values), tests)
        computed = ComputeOp(name, op.tag, op.attrs, axes, body)
        op_axes = op.axis
    copies = [ProducerLoad(computed.output(n), indices) for n in range(op.num_outputs)]
    at = s.stages.index(stage)
    new_op(s, stage, ComputeOp(op.name, op.tag, op.attrs, op_axes, copies))
    align = {v: a for v, a in stage.iter_var_attrs.items() if a.align and v in op_axes}
    stage.reset_loops()
    stage.iter_var_attrs = align
    s.insert(computed, at, stage.group).set_scope(scope)
    return [computed.output(t.value_index) for t in tensors]


def _renewed(op: ComputeOp, values: dict[Var, PrimExpr]) -> list[PrimExpr]:
    """The elements with the axes replaced, and new axes of the reduction."""
    first = op.body[0]
    if not isinstance(first, Reduce):
        return [substitute(e, values) for e in op.body]
    return _reduction(first, first.axis, values)


def _reduction(first: Reduce, axis: Sequence[IterVar], values: Mapping[Var, Any]) -> list[PrimExpr]:
    source = tuple(substitute(e, values) for e in first.source)
    where = substitute(first.condition, values)
    init = tuple(substitute(e, values) for e in first.init)
    old = first.combiner
    combiner = old.replace(
        result=tuple(substitute(e, values) for e in old.result),
        identity_element=tuple(substitute(e, values) for e in old.identity_element),
    )
    moved = {*values}
    axes = tuple(_with_domain(a, values) if uses_any(a.dom, moved) else a for a in axis)
    return [Reduce(combiner, source, axes, where, n, init) for n in range(len(source))]


def _with_domain(axis: IterVar, values: Mapping[Var, Any]) -> IterVar:
    ends = (substitute(e, values) for e in (axis.dom.min, axis.dom.extent))
    return axis.replace(dom=Range.from_min_extent(*ends))


def _guarded(body: list[PrimExpr], tests: list[PrimExpr]) -> list[PrimExpr]:
    if not tests:
        return body
    test = reduce(logical_and, tests)
    first = body[0]
    if isinstance(first, Reduce):
        where = logical_and(first.condition, test)
        return [first.replace(condition=where, value_index=n) for n in range(len(body))]
    return [if_then_else(test, e, const(0, e.dtype)) for e in body]


# -- reductions in two steps ----------------------------------------------------------------------


def rfactor(s: Stages, tensor: Tensor, axis: IterVar, factor_axis: int) -> list[Tensor]:
    """Reduce each iteration of `axis` separately into a tensor with one more dimension, then reduce
    that. With k split into `ko` and `ki`, B[i] = sum of A[i, k] becomes for the axis ki:

        BF[ki, i] = sum over ko of A[i, ko * factor + ki]
        B[i] = sum over ki of BF[ki, i]
    """
    stage = s[tensor]
    op = stage.op
    position = _check_rfactor(stage, axis, factor_axis)
    assert isinstance(op, ComputeOp)
    touched = {axis: 1}
    or_up(stage, touched)
    or_down(stage, touched)
    if any(a in touched for a in op.axis):
        what = f"rfactor of {stage.origin_op.name}: the loop was fused with loops of the result"
        raise CallValueError(explain(what, got=axis.var.name, instead="fuse the reduction's only"))
    doms = {a: a.dom for a in op.reduce_axis if a in touched}
    ana = Analyzer()
    for a in op.reduce_axis:
        ana.bind(a.var, a.dom)
    pass_down_ranges(stage, doms, ana, some=True)
    values: Values = {}
    fresh: dict[IterVar, IterVar] = {}
    for v in stage.leaf_iter_vars:
        if v in touched:
            kind = IterVar.DataPar if v is axis else IterVar.CommReduce
            fresh[v] = IterVar(doms[v], v.var.copy_with_suffix(""), kind)
            values[v] = fresh[v].var
    if not is_const(doms[axis].min, 0):
        factored = IterVar(Range.upto(doms[axis].extent), fresh[axis].var, IterVar.DataPar)
        values[axis] = factored.var + doms[axis].min
        fresh[axis] = factored
    pass_up_values(stage, doms, values, some=True)
    ranges = {**doms, **{v: v.dom for v in fresh.values()}}
    skip = [*op.axis, *(a for a in op.reduce_axis if a not in touched)]
    tests = bound_checks(stage, ranges, values, True, skip)
    leaves = [fresh[v] for v in stage.leaf_iter_vars if v in fresh and v is not axis]
    first = _partial(op, position, fresh[axis], leaves, values, tests)
    second, again = _combined(op, first, axis, fresh[axis], position)
    at = s.stages.index(stage)
    _drop_reduction(stage, op, again)
    new_op(s, stage, second)
    part = s.insert(first, at, stage.group)
    part.scope = stage.scope
    s.record("rfactor")
    return [first.output(n) for n in range(first.num_outputs)]


def _check_rfactor(stage: Stage, axis: IterVar, factor_axis: int) -> int:
    """The place of the new dimension."""
    op, name = stage.op, stage.origin_op.name
    if not isinstance(op, ComputeOp) or not op.reduce_axis:
        what = f"rfactor: {name} is not a reduction"
        raise CallValueError(
            explain(what, got=str(op), instead="a compute of te.sum or a similar reduction")
        )
    stage.position(axis)
    if axis.iter_type != IterVar.CommReduce:
        names = [v.var.name for v in stage.leaf_iter_vars if v.iter_type == IterVar.CommReduce]
        what = f"rfactor of {name} takes a loop of its reduction"
        raise CallValueError(explain(what, got=axis.var.name, instead=f"one of {', '.join(names)}"))
    position = factor_axis + len(op.axis) + 1 if factor_axis < 0 else factor_axis
    if not 0 <= position <= len(op.axis):
        what = f"rfactor of {name}: factor_axis is 0 to {len(op.axis)}, or negative"
        raise CallValueError(explain(what, got=str(factor_axis)))
    return position


def _partial(
    op: ComputeOp,
    position: int,
    factored: IterVar,
    leaves: list[IterVar],
    values: Values,
    tests: list[PrimExpr],
) -> ComputeOp:
    """The reduction of each iteration of the axis."""
    own = [IterVar(a.dom, a.var.copy_with_suffix(""), a.iter_type) for a in op.axis]
    moved: dict[Var, Any] = {a.var: b.var for a, b in zip(op.axis, own, strict=True)}
    moved.update({a.var: values[a] for a in op.reduce_axis if a in values})
    rest = [a for a in op.reduce_axis if a not in values]
    renewed = [IterVar(a.dom, a.var.copy_with_suffix(""), a.iter_type) for a in rest]
    moved.update({a.var: b.var for a, b in zip(rest, renewed, strict=True)})
    whole: Any = op.body[0]
    body = _reduction(whole, [*renewed, *leaves], moved)
    name = f"{op.name}.rf"
    axes = [*own[:position], factored, *own[position:]]
    first: Any = body[0]
    for test in tests:
        first = first.replace(condition=logical_and(first.condition, test))
    if not first.axis:  # nothing is left to reduce
        neutral = first.init or first.combiner.identity_element
        pairs = zip(first.source, neutral, strict=True)
        return ComputeOp(name, op.tag, op.attrs, axes,
                         [if_then_else(first.condition, e, zero) for e, zero in pairs])  # fmt: skip
    body = [first.replace(value_index=n, init=()) for n in range(len(body))]
    return ComputeOp(name, op.tag, op.attrs, axes, body)


def _combined(
    op: ComputeOp, first: ComputeOp, axis: IterVar, factored: IterVar, position: int
) -> tuple[ComputeOp, IterVar]:
    """The reduction of the parts, and its axis."""
    whole: Any = op.body[0]
    kind = axis.var.dtype
    again = IterVar(factored.dom, Var(f"{axis.var.name}_v", kind), IterVar.CommReduce)
    points: list[PrimExpr] = [a.var for a in op.axis]
    points.insert(position, again.var)
    source = tuple(ProducerLoad(first.output(n), points) for n in range(first.num_outputs))
    true = const(True, "bool")
    body = [
        Reduce(whole.combiner, source, (again,), true, n, whole.init) for n in range(len(source))
    ]
    return ComputeOp(op.name, op.tag, op.attrs, op.axis, body), again


def _drop_reduction(stage: Stage, op: ComputeOp, again: IterVar) -> None:
    """Leave out the loops of the old reduction: those of the parts' are before the result's."""
    flags = {**dict.fromkeys(op.axis, 1), **dict.fromkeys(op.reduce_axis, 2)}
    or_down(stage, flags)
    removed = {v for v, flag in flags.items() if flag & 2}
    stage.relations = [
        r for r in stage.relations if not any(v in removed for v in (*r.sources, *r.results))
    ]
    stage.all_iter_vars = [v for v in stage.all_iter_vars if v not in removed] + [again]
    stage.leaf_iter_vars = [v for v in stage.leaf_iter_vars if v not in removed] + [again]
    for v in removed:
        stage.iter_var_attrs.pop(v, None)


# -- inlining -------------------------------------------------------------------------------------


def inline(s: Stages) -> None:
    """Put the elements of inlined stages where they are read."""
    read_ops = {t.op for stage in s.stages if not stage.op.inlines for t in stage.op.input_tensors}
    for stage in reversed(s.stages):
        if stage.attach_type != INLINE:
            continue
        if stage.op in read_ops:
            stage.attach_type = GROUP_ROOT
            continue
        op = stage.op
        if not isinstance(op, ComputeOp) or op.reduce_axis or stage.is_output:
            what = f"compute_inline: {op.name} is not an elementwise result"
            got = "a result of the schedule" if stage.is_output else str(op)
            raise CallValueError(explain(what, got=got, instead="compute_at, or compute_root"))
        stage.attach_type = INLINED
        _inline_one(s, op)


def _inline_one(s: Stages, op: ComputeOp) -> None:
    results: dict[Any, PrimExpr] = {op.output(n): e for n, e in enumerate(op.body)}

    def post(node: Node) -> Any:
        if isinstance(node, ProducerLoad) and node.producer in results:
            at = {a.var: i for a, i in zip(op.axis, node.indices, strict=True)}
            return substitute(results[node.producer], at)
        return None

    for stage in s.stages:
        user = stage.op
        if any(t in results for t in user.input_tensors) and stage.attach_type != INLINED:
            new_op(s, stage, user.with_body(lambda e: rewrite(e, post)))
