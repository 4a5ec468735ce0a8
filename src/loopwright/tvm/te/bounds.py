"""`infer_bound`: the ranges of all loops of a schedule, from the results to the inputs. A stage
computes what its consumers read within the loop that it is computed at; of the loops that are
bound to threads, those that share its memory count as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...arith import Analyzer, IntervalSet, eval_ranges, is_neg_inf, is_pos_inf
from ...arith.int_set import union_interval
from ...base.errors import CallValueError, explain
from ...ir.functor import pre_order_visit
from ...ir.node import Node
from ...ir.prim_expr import IterVar, PrimExpr, Range, Var
from ...ir.prim_op import cast, const, maximum, subtract
from ...te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from ...tir.expr import ProducerLoad
from .graph import attach_path, consumers_of
from .relations import Ranges, Sets, is_const, pass_down_ranges, pass_up_sets, point, whole
from .scan import ScanOp
from .stage import GROUP_ROOT, INLINE, INLINED, Stage, Stages
from .tensor_compute import TensorComputeOp

# Which threads share what: memory of rank r is shared by threads of rank r and more.
_SCOPES = {"global": 0, "shared": 1, "warp": 2, "local": 3}
_DEFAULT = (0, 1, 3)  # by the highest rank of the threads around: none, blocks, threads
Read = dict[Tensor, list[list[IntervalSet]]]


def thread_rank(tag: str) -> int:
    """0 for blocks, 1 for threads."""
    return 0 if tag.startswith("blockIdx") else 1


def scope_rank(scope: str) -> int:
    """The rank of a memory scope; others than the usual ones are a processor's own."""
    return _SCOPES.get(scope.split(".")[0].split(":")[0], 3)


class BoundInference:
    """The ranges of a schedule's loops."""

    def __init__(self, s: Stages) -> None:
        self.s = s
        self.ranges: Ranges = {}
        self.ana = Analyzer()
        self.consumers = consumers_of(s)
        self.stage_of = {stage.op: stage for stage in s.stages}
        self.binds = {v: t for stage in s.stages for v, t in stage.binds.items()}
        self.paths: dict[Operation, list[IterVar]] = {
            stage.op: attach_path(stage) for stage in s.stages
        }

    def run(self) -> Ranges:
        """The ranges of all loops, and of the threads that they are bound to."""
        for stage in reversed(self.s.stages):
            for thread in stage.threads:
                self.ranges[thread] = thread.dom
            self.root_ranges(stage)
            if stage.attach_type != INLINED:
                for v in stage.op.root_iter_vars:
                    self.ana.bind(v.var, self.ranges[v])
                pass_down_ranges(stage, self.ranges, self.ana)
                self.bind_threads(stage)
        return {v: self.simplified(v, r) for v, r in self.ranges.items()}

    def simplified(self, v: IterVar, rng: Range) -> Range:
        ends = (self.ana.simplify(cast(v.var.dtype, e)) for e in (rng.min, rng.extent))
        return Range.from_min_extent(*ends)

    def bind_threads(self, stage: Stage) -> None:
        for v, thread in stage.binds.items():
            rng = self.ranges[v]
            current = self.ranges.get(thread)
            if current is None:
                self.ranges[thread] = rng
                self.ana.bind(thread.var, rng)
            elif not self.ana.can_prove_equal(cast(rng.extent.dtype, current.extent), rng.extent):
                what = f"{thread.var.name} has one extent in all stages"
                got = f"{current.extent}, and {rng.extent} for {v.var.name} of {stage.op.name}"
                hint = "split the loop by the number of threads"
                raise CallValueError(explain(what, got=got, instead=hint))

    def root_ranges(self, stage: Stage) -> None:
        """The ranges of the axes of a stage's operation."""
        if stage.attach_type == INLINE:
            raise CallValueError(explain(f"{stage.op.name} is inlined", instead="s.normalize()"))
        if stage.attach_type == INLINED:
            return
        if stage.is_output and stage.attach_spec.attach_type != GROUP_ROOT:
            what = f"{stage.op.name} is a result of the schedule"
            raise CallValueError(explain(what, got="compute_at", instead="compute_root"))
        if stage.is_output or isinstance(stage.op, PlaceholderOp):
            self.ranges.update((v, v.dom) for v in stage.op.root_iter_vars)
            return
        results = [stage.op.output(n) for n in range(stage.op.num_outputs)]
        read: Read = {t: [[] for _ in t.shape] for t in results}
        rank = self.memory_rank(stage)
        users = [op for t in results for op in self.consumers.get(t, ())]
        for user in dict.fromkeys(users):
            self.read_by(user, stage, rank, read)
        self.gather(stage.op, read)

    def memory_rank(self, stage: Stage) -> int:
        """The rank of the memory that the results are in."""
        if stage.scope:
            return scope_rank(stage.scope)
        most = -1
        for v in self.paths[stage.op]:
            tag = self.tag(v)
            if tag and tag != "pipeline":
                most = max(most, thread_rank(tag))
        return _DEFAULT[most + 1]

    def tag(self, v: IterVar) -> str:
        return self.binds.get(v, v).thread_tag

    def relaxed(self, v: IterVar, outside: bool, rank: int) -> bool:
        """Whether all iterations of a consumer's loop count, not only the current one."""
        tag = self.tag(v)
        if not tag or tag == "pipeline":
            return not outside
        if rank == _SCOPES["warp"] and tag == "threadIdx.x":
            return True
        return rank <= thread_rank(tag)

    def read_by(self, user: Operation, stage: Stage, rank: int, read: Read) -> None:
        """Add the region that one consumer reads, at the stage's attach points."""
        reader = self.stage_of[user]
        path = self.paths[stage.op]
        outside = False
        up: Sets = {}
        for v in reversed(reader.leaf_iter_vars):
            outside = outside or (bool(path) and v is path[0])
            rng = self.ranges[v]
            if is_const(rng.extent, 1):
                up[v] = point(rng.min)
            elif self.relaxed(v, outside, rank):
                up[v] = whole(rng)
            else:
                up[v] = point(cast(v.var.dtype, self.binds.get(v, v).var))
        relax: dict[Var, Range] = {}
        for v in self.paths[user]:
            outside = outside or (bool(path) and v is path[0])
            if self.relaxed(v, outside, rank):
                rng = self.ranges[v]
                relax.update({v.var: rng, self.binds.get(v, v).var: rng})
        if path and not outside:
            parent = stage.attach_spec.attach_stage
            assert parent is not None
            what = f"compute_at: {parent.origin_op.name} does not use {stage.origin_op.name}"
            hint = f"a loop of {reader.origin_op.name}"
            raise CallValueError(explain(what, got=path[0].var.name, instead=hint))
        pass_up_sets(reader, self.ranges, up)
        ana = Analyzer()
        for v, rng in self.ranges.items():
            ana.bind(v.var, rng)
        inside: dict[Var, Any] = {}
        for v in user.root_iter_vars:
            covered = up[v].cover_range(v.dom) if v in up else v.dom
            (inside[v.var],) = eval_ranges([covered], relax, ana) if relax else (whole(covered),)
            ana.bind(v.var, covered)
        _reads(user, ana, inside, read)

    def gather(self, op: Operation, read: Read) -> None:
        """The ranges of an operation's axes from the regions read of its results."""
        if isinstance(op, ScanOp):
            self.gather_scan(op, read)
            return
        dims = read[op.output(0)] if op.axis else []
        for n in range(1, op.num_outputs if op.axis else 0):
            dims = [[*a, *b] for a, b in zip(dims, read[op.output(n)], strict=True)]
        for v, sets in zip(op.axis, dims, strict=False):
            self.ranges[v] = _cover(sets, v.dom)
        self.ranges.update((v, v.dom) for v in op.root_iter_vars if v not in self.ranges)

    def gather_scan(self, op: ScanOp, read: Read) -> None:
        """All rows up to the last one that is read; of a row everything."""
        rows = [s for n in range(op.num_outputs) for s in read[op.output(n)][0]]
        dom = op.scan_axis.dom
        everything = Range.from_min_extent(const(0, dom.min.dtype), dom.min + dom.extent)
        covered = _cover(rows, everything)
        last = covered.min + covered.extent
        extent = self.ana.simplify(subtract(last, dom.min))
        if not is_const(self.ana.simplify(subtract(extent, dom.extent)), 0):
            extent = maximum(extent, const(0, extent.dtype))
        self.ranges[op.scan_axis] = Range.from_min_extent(dom.min, extent)
        self.ranges.update((v, v.dom) for v in op.spatial_axis_)


def _cover(sets: list[IntervalSet], dom: Range) -> Range:
    if not sets:
        return dom
    ana = Analyzer()
    total = sets[0]
    for one in sets[1:]:
        total = union_interval(ana, total, one)
    return total.cover_range(dom)


def _reads(user: Operation, ana: Analyzer, inside: Mapping[Var, Any], read: Read) -> None:
    """Add the parts of tensors that an operation reads, with its axes in sets."""
    if isinstance(user, ComputeOp):
        _reads_of_elements(user, ana, inside, read)
    elif isinstance(user, TensorComputeOp):
        for tensor, region in zip(user.inputs, user.input_regions, strict=True):
            if tensor in read:
                parts = eval_ranges(region, inside, ana)
                for dim, part in zip(read[tensor], parts, strict=True):
                    dim.append(part)
    elif isinstance(user, ScanOp):
        _reads_of_scan(user, inside, read)
    else:
        for tensor in user.input_tensors:
            for dim, extent in zip(read.get(tensor, ()), tensor.shape, strict=False):
                dim.append(whole(Range.upto(extent)))


def _reads_of_elements(
    user: ComputeOp, ana: Analyzer, inside: Mapping[Var, Any], read: Read
) -> None:
    def visit(node: Node) -> None:
        if not isinstance(node, ProducerLoad) or node.producer not in read:
            return
        tensor: Any = node.producer
        for dim, index, extent in zip(read[tensor], node.indices, tensor.shape, strict=True):
            dim.append(_within(ana, ana.int_set(index, inside), extent))

    for expr in user.body:
        pre_order_visit(expr, visit)


def _within(ana: Analyzer, part: IntervalSet, extent: PrimExpr) -> IntervalSet:
    """A set, or the whole dimension if that is known to be inside of it."""
    low, high = part.min_value, part.max_value
    last = subtract(extent, const(1, extent.dtype))
    begins = is_neg_inf(low) or ana.can_prove(low <= 0)
    ends = is_pos_inf(high) or ana.can_prove(last <= high)
    return IntervalSet(const(0, extent.dtype), last) if begins and ends else part


def _reads_of_scan(user: ScanOp, inside: Mapping[Var, Any], read: Read) -> None:
    for n, (init, update) in enumerate(zip(user.init, user.update, strict=True)):
        row = [whole(v.dom) for v in user.spatial_axes(n)]
        rows = {init: whole(Range.upto(init.shape[0])), update: inside[user.scan_axis.var]}
        for tensor, steps in rows.items():
            for dim, part in zip(read.get(tensor, ()), (steps, *row), strict=False):
                dim.append(part)


def infer_bound(s: Stages) -> Ranges:
    """The ranges of the loops of all stages. Raises ValueError for a stage that is computed where
    its consumers are not."""
    return BoundInference(s).run()
