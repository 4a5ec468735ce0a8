"""How the operations of a schedule read each other, and which loops are around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...base.errors import CallValueError, explain
from ...ir.functor import pre_order_visit
from ...ir.prim_expr import IterVar, PrimExpr, Var
from ...ir.prim_op import const
from ...te.prim_func import ordered
from ...te.tensor import ComputeOp, Operation, Tensor
from ...tir.expr import ProducerLoad
from .scan import ScanOp
from .stage import SCAN_UPDATE, SCOPE, Stage, Stages

ReadGraph = dict[Operation, tuple[Tensor, ...]]


def create_read_graph(ops: Iterable[Operation]) -> ReadGraph:
    """The tensors that each operation behind `ops` reads."""
    graph: ReadGraph = {}
    waiting = list(ops)
    while waiting:
        op = waiting.pop()
        if op not in graph:
            graph[op] = tuple(op.input_tensors)
            waiting += [t.op for t in graph[op]]
    return graph


def post_dfs_order(ops: Iterable[Operation], graph: ReadGraph) -> list[Operation]:
    """The operations, each after those that it reads. Raises ValueError for a cycle."""
    return ordered(list(ops), graph.__getitem__)


def sub_graph(
    outputs: Iterable[Tensor], inputs: Iterable[Tensor], include_inputs: bool
) -> list[Operation]:
    """The operations from `inputs` to `outputs`, each after those that it reads."""
    ends = {t.op for t in inputs}
    inside_of: dict[Operation, bool] = {}
    order: list[Operation] = []

    def visit(op: Operation) -> bool:
        if op not in inside_of:
            at_end = op in ends
            inside = at_end
            inside_of[op] = inside
            for tensor in () if at_end else op.input_tensors:
                inside = visit(tensor.op) or inside
            inside_of[op] = inside
            if inside and (include_inputs or not at_end):
                order.append(op)
        return inside_of[op]

    for tensor in outputs:
        visit(tensor.op)
    return order


def consumers_of(s: Stages) -> dict[Tensor, list[Operation]]:
    """The operations that read each tensor."""
    consumers: dict[Tensor, list[Operation]] = {}
    graph = create_read_graph(s.stage_map[op].op for op in s.outputs)
    for op, tensors in graph.items():
        for tensor in dict.fromkeys(tensors):
            consumers.setdefault(tensor, []).append(op)
    return consumers


def attach_path(stage: Stage) -> list[IterVar]:
    """The loops around a stage, from the innermost one."""
    path: list[IterVar] = []
    seen: set[int] = set()
    spec = stage.attach_spec
    while spec.attach_type in (SCOPE, SCAN_UPDATE):
        if id(spec) in seen:
            what = f"{stage.origin_op.name} is computed inside of itself"
            raise CallValueError(explain(what, got="compute_at in a circle"))
        seen.add(id(spec))
        parent = spec.attach_stage
        assert parent is not None
        leaves = parent.leaf_iter_vars
        at = len(leaves) - 1 if spec.attach_type == SCAN_UPDATE else _attach_position(spec, parent)
        path += reversed(leaves[: at + 1])
        spec = parent.attach_spec
    return path


def _attach_position(stage: Stage, parent: Stage) -> int:
    """The position of the loop that a stage is computed at."""
    axis = stage.attach_ivar
    assert axis is not None
    for n, v in enumerate(parent.leaf_iter_vars):
        if v is axis:
            return n
    name, at = stage.origin_op.name, parent.origin_op.name
    names = ", ".join(v.var.name for v in parent.leaf_iter_vars)
    what = f"{name} is computed at a loop of {at} that is gone"
    raise CallValueError(explain(what, got=axis.var.name, instead=f"one of {names}"))


def create_attach_path(s: Stages) -> dict[Operation, list[IterVar]]:
    """The loops around each operation, from the innermost one."""
    return {stage.op: attach_path(stage) for stage in s.stages}


# -- scans ----------------------------------------------------------------------------------------


def scan_get_body(scan: ScanOp) -> list[Operation]:
    """The operations that run in each step of a scan: the scan and those from the state to its
    update."""
    inputs = [*scan.state_placeholder, *scan.inputs]
    return [*sub_graph(scan.update, inputs, False), scan]


def scan_fix_points(scan: ScanOp) -> dict[IterVar, PrimExpr]:
    """For each axis of a scan's results within a row, 1 if an element depends only on elements of
    previous rows at the same index, else 0: then a part of the row can be computed separately."""
    body = scan_get_body(scan)
    moves: dict[Any, bool] = {}  # whether what depends on a dimension is at other indices
    joined = _Union()
    for n, (state, update) in enumerate(zip(scan.state_placeholder, scan.update, strict=True)):
        for k, axis in enumerate(scan.spatial_axes(n), 1):
            joined.union((state, k), ("axis", axis))
            joined.union((update, k), ("axis", axis))
    for op in body:
        if isinstance(op, ComputeOp):
            _join_reads(op, scan, joined, moves, body)
    bad = {joined.find(key) for key, moved in moves.items() if moved}
    fixed: dict[IterVar, PrimExpr] = {}
    for n in range(scan.num_outputs):
        classes = [joined.find(("axis", axis)) for axis in scan.spatial_axes(n)]
        for axis, own in zip(scan.spatial_axes(n), classes, strict=True):
            fixed[axis] = const(int(own not in bad and classes.count(own) == 1), "int32")
    return fixed


class _Union:
    """Classes of dimensions that have the same index."""

    def __init__(self) -> None:
        self.parent: dict[Any, Any] = {}

    def find(self, key: Sequence[Any]) -> Any:
        self.parent.setdefault(key, key)
        while self.parent[key] != key:
            key = self.parent[key]
        return key

    def union(self, a: Sequence[Tensor | int], b: Sequence[Any]) -> None:
        self.parent[self.find(a)] = self.find(b)


def _join_reads(
    op: ComputeOp, scan: ScanOp, joined: _Union, moves: dict[Any, bool], body: list[Operation]
) -> None:
    dims: Mapping[Var, int] = {a.var: n for n, a in enumerate(op.axis)}
    inside = {op.output(n) for op in body for n in range(op.num_outputs)}
    inside |= {*scan.state_placeholder}

    def visit(node: PrimExpr | Tensor) -> None:
        if not isinstance(node, ProducerLoad) or node.producer not in inside:
            return
        tensor: Any = node.producer
        for k, index in enumerate(node.indices[1:], 1):
            at = dims.get(index) if isinstance(index, Var) else None
            if at is None:
                moves[tensor, k] = True
                continue
            for n in range(op.num_outputs):
                joined.union((tensor, k), (op.output(n), at))

    for expr in op.body:
        pre_order_visit(expr, visit)
