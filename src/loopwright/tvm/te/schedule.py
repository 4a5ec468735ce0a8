"""The classic schedule API: `create_schedule`, stages, `lower`, `build`.

How a schedule becomes loops:

| file | what it does |
|---|---|
| `stage.py` | records splits, fusions and so on as relations between loops, and where to compute |
| `dataflow.py` | changes the operations: `cache_read`, `cache_write`, `rfactor`, inlined stages |
| `bounds.py` | finds the ranges of all loops, from the results to the inputs (`InferBound`) |
| `nest.py` | makes the loops, with tensors (`ScheduleOps`) |
| `memory.py` | replaces tensors by buffers: a PrimFunc (`schedule_to_module`) |

`lower` then turns it into plain loops over flat memory. A stage whose part is not known to divide
the tensor computes with a test of each element's index; nothing is computed beyond a tensor's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...base.errors import CallTypeError, CallValueError, explain
from ...driver.front import compile as compile_model
from ...ir.module import IRModule
from ...ir.node import Node
from ...ir.pass_context import PassContext
from ...ir.prim_expr import IterVar, Var
from ...te.prim_func import create_prim_func
from ...te.tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor
from ...tir.buffer import Buffer as Buffer
from ...tir.function import PrimFunc
from ...tir.transform import (
    ConvertBlocksToOpaque,
    FlattenBuffer,
    HoistIfThenElse,
    LowerInitBlock,
    LowerMatchBuffer,
    LowerOpaqueBlock,
    RemoveNoOp,
    Simplify,
)
from . import dataflow
from .bounds import infer_bound as InferBound
from .graph import create_attach_path as CreateAttachPath  # noqa: F401
from .graph import create_read_graph, post_dfs_order, sub_graph
from .graph import create_read_graph as CreateReadGraph  # noqa: F401
from .graph import post_dfs_order as PostDFSOrder  # noqa: F401
from .graph import scan_fix_points as ScanFixPointAnalysis  # noqa: F401
from .graph import scan_get_body as ScanGetBody  # noqa: F401
from .memory import prim_func
from .nest import schedule_ops as ScheduleOps
from .relations import Fuse, Rebase, Relation, Singleton, Split, Transform  # noqa: F401
from .scan import ScanOp
from .stage import INLINED, SCAN_UPDATE, SCOPE, Stage, Stages


class Schedule(Stages):
    """Stages of the operations behind some tensors; `s[C]` is the stage of a tensor or operation
    C. `stages` has all of them, each after its inputs; `groups` those of `create_group`.

    >>> A = te.placeholder((4, 8), "float32", "A")
    >>> B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, "B")
    >>> s = te.create_schedule(B.op)
    >>> outer, inner = s[B].split(s[B].op.axis[1], factor=4)
    >>> s[B].vectorize(inner)
    >>> s.stages
    [stage(A), stage(B)]
    """

    def __init__(self, ops: Sequence[Operation]) -> None:
        super().__init__(list(ops))
        self.keeps = bool(PassContext.current().option("te.keep_schedule_record"))
        for op in post_dfs_order(self.outputs, create_read_graph(self.outputs)):
            stage = Stage(op, self)
            stage.is_output = op in self.outputs
            self.stages.append(stage)
            self.stage_map[op] = stage
        for stage in [*self.stages]:
            if isinstance(stage.op, ScanOp):
                self.scan_group(stage, stage.op)
        self.record("vanilla")

    def scan_group(self, stage: Stage, op: ScanOp) -> None:
        """The operations between a scan's state and its update are computed row by row."""
        group = self._group(op.update, [*op.state_placeholder, *op.inputs], False)
        group.attach_type, group.attach_stage = SCAN_UPDATE, stage
        group.attach_ivar = op.scan_axis

    def normalize(self, legacy: bool = False) -> Schedule:
        """A copy in which inlined stages are inlined, all loops start at 0, and stages computed at
        a loop that was split or fused since are computed at the loop that replaced it."""
        new = self.copy()
        dataflow.inline(new)
        moved = _rebase(new)
        for stage in (*new.stages, *new.groups):
            if stage.attach_type == SCOPE:
                assert stage.attach_ivar is not None and stage.attach_stage is not None
                axis = moved.get(stage.attach_ivar, stage.attach_ivar)
                stage.attach_ivar = _successor(stage.attach_stage, axis)
        return new

    def create_group(
        self,
        outputs: Tensor | Sequence[Tensor],
        inputs: Tensor | list[Tensor],
        include_inputs: bool = False,
    ) -> Stage:
        """A stage for the operations from `inputs` to `outputs`, which are then computed together:
        `g.compute_at(s[D], loop)`. `include_inputs`: those of the inputs too."""
        group = self._group(_list(outputs), _list(inputs), include_inputs)
        self.record("create_group")
        return group

    def _group(
        self, outputs: Iterable[Tensor], inputs: Iterable[Tensor], include_inputs: bool
    ) -> Stage:
        heads = [self[t].op.output(t.value_index) for t in outputs]
        ends = [self[t].op.output(t.value_index) for t in inputs]
        stages = [self[op] for op in sub_graph(heads, ends, include_inputs)]
        if not stages:
            what = "no operation leads from the inputs of the group to its outputs"
            got = ", ".join(t.op.name for t in heads)
            raise CallValueError(explain(what, got=got))
        chains = [[*reversed(stage.groups_around())] for stage in stages]
        common: Stage | None = None
        for level in zip(*chains, strict=False):
            if any(g is not level[0] for g in level):
                break
            common = level[0]
        group = Stage(Operation("group"), self)
        group.group = common
        members: list[Stage] = []
        for stage, chain in zip(stages, chains, strict=True):
            depth = 0 if common is None else chain.index(common) + 1
            top = chain[depth] if depth < len(chain) else stage
            if top not in members:
                members.append(top)
        for member in members:
            member.group = group
            group.num_child_stages += 1
        if common is not None:
            common.num_child_stages += 1 - len(members)
        self.groups.append(group)
        return group

    def cache_read(self, tensor: Tensor, scope: str, readers: list[Node]) -> Tensor:
        """A copy of a tensor in memory `scope`, which the readers use. Returns the copy."""
        reader_list = _list(readers)
        if not reader_list:
            what = f"cache_read of {tensor.op.name} needs its readers"
            raise CallValueError(explain(what, got="none", instead="the stages that use the copy"))
        copy = dataflow.cache_read(self, tensor, scope, reader_list)
        self.record("cache_read")
        return copy

    def cache_write(self, tensor: Tensor | list[Tensor], scope: str) -> Any:
        """Compute a tensor in memory `scope`, in the order of the stage's loops, and copy it from
        there. Returns the computed tensor, or for a list (the results of one operation) a list."""
        results = dataflow.cache_write(self, _list(tensor), scope)
        self.record("cache_write")
        return results if isinstance(tensor, (list, tuple)) else results[0]

    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Any:
        """Reduce each iteration of `axis`, a loop of the reduction of `tensor`, separately into a
        tensor with one more dimension, at `factor_axis`, then reduce that. Returns the first step's
        tensor (a list for several results); the stage of `tensor` becomes the second."""
        results = dataflow.rfactor(self, tensor, axis, factor_axis)
        return results[0] if len(results) == 1 else results


def _list(items: Any) -> list[Any]:
    return [items] if isinstance(items, (Tensor, Operation)) else list(items)


def _rebase(s: Schedule) -> dict[IterVar, IterVar]:
    """Let loops that are axes of operations start at 0; {axis: loop}."""
    moved: dict[IterVar, IterVar] = {}
    for stage in s.stages:
        roots = {*stage.op.root_iter_vars} if stage.attach_type != INLINED else set()
        for n, v in enumerate(stage.leaf_iter_vars):
            if v not in roots or v in stage.binds:
                continue
            rebased = IterVar(None, v.var.copy_with_suffix(""), v.iter_type)
            stage.relations.append(Rebase(v, rebased))
            stage.leaf_iter_vars[n] = moved[v] = rebased
            stage.all_iter_vars.append(rebased)
            attrs = stage.iter_var_attrs.get(v)
            if attrs is not None:
                stage.iter_var_attrs[rebased] = attrs
    return moved


def _successor(stage: Stage, axis: IterVar) -> IterVar:
    """The loop that is now where `axis` was: the inner one of a split, the fused one."""
    for relation in stage.relations:  # in the order of the steps
        if isinstance(relation, (Split, Rebase)) and relation.parent is axis:
            axis = relation.results[-1]
        elif isinstance(relation, Fuse) and relation.inner is axis:
            axis = relation.fused
    return axis


def create_schedule(ops: Operation | list[Operation | int]) -> Schedule:
    """A schedule of operations (or tensors) and all their inputs. Raises TypeError for others.

    >>> B = te.compute((4, 8), lambda i, j: i + j, "B")
    >>> te.create_schedule(B.op)[B]
    stage(B)
    """
    items = _list(ops)
    for item in items:
        if not isinstance(item, (Operation, Tensor)):
            what = "create_schedule takes operations"
            got = type(item).__name__
            raise CallTypeError(explain(what, got=got, instead="C.op of a tensor C"))
    return Schedule([item.op if isinstance(item, Tensor) else item for item in items])


def AutoInlineElemWise(s: Schedule) -> None:
    """Inline the stages that read each input at their own index only."""
    _inline_where(s, _is_elementwise)


def AutoInlineBroadcast(s: Schedule) -> None:
    """Inline the stages that are tagged as broadcasts."""
    _inline_where(s, lambda op: op.tag == "broadcast")


def AutoInlineInjective(s: Schedule) -> None:
    """Inline the stages that compute each element separately, without a reduction."""
    _inline_where(s, lambda op: not op.reduce_axis)


def _inline_where(s: Schedule, chosen: Callable[[ComputeOp], bool]) -> None:
    for stage in s.stages:
        op = stage.op
        free = not (op.reduce_axis or stage.is_scheduled or stage.is_output)
        if free and isinstance(op, ComputeOp) and chosen(op):
            stage.compute_inline()


def _is_elementwise(op: ComputeOp) -> bool:
    own = [a.var for a in op.axis]
    return all(
        len(load.indices) == len(own)
        and all(i is v for i, v in zip(load.indices, own, strict=True))
        for load in op.loads()
    )


def schedule_to_module(
    s: Schedule,
    args: Sequence[Any],
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
    debug: bool = False,
) -> IRModule:
    """The module of a scheduled computation before it is lowered: one PrimFunc `name` of `args`.
    `binds` has the buffers of some tensors; `debug` keeps loops of one iteration."""
    arguments = _arguments(s, args)
    normal = s.normalize()
    body = ScheduleOps(normal, InferBound(normal), debug)
    return _module(prim_func(normal, arguments, body, dict(binds or {})), name)


_TO_LOOPS = (
    LowerInitBlock(),
    ConvertBlocksToOpaque(),
    LowerMatchBuffer(),
    LowerOpaqueBlock(),
    Simplify(),
)
_TO_FLAT = (FlattenBuffer(), Simplify(), HoistIfThenElse(), RemoveNoOp())


def lower(
    s: Schedule,
    args: Sequence[Any],
    name: str = "main",
    simple_mode: bool = False,
    binds: Mapping[Tensor, Buffer] | None = None,
) -> IRModule:
    """The module of a scheduled computation: one PrimFunc `name` of `args` (tensors, variables).

    The function has plain loops over flat memory; with `simple_mode`, to read, tensors keep their
    dimensions. Raises ValueError for stages that are computed where their consumers are not.

    >>> B = te.compute((3,), lambda i: i * i, "B")
    >>> te.lower(te.create_schedule(B.op), [B])["main"].body
    for i in range(3): ...
    """
    mod = schedule_to_module(s, args, name, binds)
    for step in (*_TO_LOOPS, *(() if simple_mode else _TO_FLAT)):
        mod = step(mod)
    return mod


def _arguments(s: Schedule, args: Sequence[Any]) -> list[Any]:
    """The arguments as a list. Raises ValueError where a result that no other stage reads is missing,
    or one is not of the schedule; inputs that nothing reads may be."""
    arguments = [args] if isinstance(args, (Tensor, Var)) else list(args)
    there = {a.op for a in arguments if isinstance(a, Tensor)}
    there |= {t.op for stage in s.stages for t in stage.op.input_tensors}
    missing = [op.name for op in s.outputs if not {op, s.stage_map[op].op} & there]
    if missing:
        what = "the results of a schedule are among its arguments"
        raise CallValueError(explain(what, got=f"{', '.join(missing)} missing"))
    return arguments


def _module(func: PrimFunc, name: str) -> IRModule:
    return IRModule({name: func.with_attr("global_symbol", name)})


def build(
    s: Schedule, args: Sequence[Any], target: Any = None, name: str = "main", binds: Any = None
) -> Any:
    """Compile a scheduled computation; `f[name](*arrays)` runs it. One whose stages have no steps
    is scheduled by the target's rules. binds: as for `lower`, buffers of tensors.

    >>> B = te.compute((3,), lambda i: i * i, "B")
    >>> f = te.build(te.create_schedule(B.op), [B], name="squares")
    >>> out = lw.runtime.empty((3,), "int32")
    >>> f["squares"](out); out.numpy()
    array([0, 1, 4], dtype=int32)
    """
    classes = (PlaceholderOp, ComputeOp, ExternOp, ScanOp)
    free = all(isinstance(stage.op, classes) and not stage.is_scheduled for stage in s.stages)
    if free and all(group.attach_type == SCAN_UPDATE for group in s.groups):
        mod = _module(create_prim_func(_arguments(s, args)), name)
    else:
        mod = lower(s, args, name, binds=binds)
    return compile_model(mod, target)
