"""The classic schedule API: `create_schedule`, stages, `lower`, `build`.

A stage's steps are recorded, and `lower` replays them on a `tir.Schedule` of the arguments'
PrimFunc:

| here | on the tir.Schedule |
|---|---|
| `s[C]` | the block that computes C |
| `C.op.axis`, `C.op.reduce_axis` | `sch.get_loops(block)` |
| `split(x, factor=n)`, `split(x, nparts=n)` | `split(x, [None, n])`, `split(x, [n, None])` |
| `tile(x, y, a, b)` | two splits and a reorder |
| `fuse`, `reorder`, `parallel`, `vectorize`, `unroll`, `bind` | the same |
| `tensorize(x, intrin)` | `tensorize`; if the reduction continues outside, in two steps |
| `pragma(x, "kind", v)` | `annotate(x, "pragma_kind", v)` |
| `storage_align(axis, f, o)`, `rolling_buffer()`, `set_scope(scope)` | the same, of the block |
| `transform_layout(f)` | `transform_layout` and `transform_block_layout` |
| `double_buffer()`, `set_store_predicate(p)` | an attribute for `InjectDoubleBuffer`, a predicate |
| `s[B].compute_at(s[C], x)`, `compute_inline` | `compute_at(B, x)`, `compute_inline(B)` |
| `s.cache_read(A, scope, readers)` | `cache_read` |
| a reduction | `decompose_reduction` at its outermost reduction loop |

`s.cache_write` and `s.rfactor` change the expressions before they become TensorIR. Stages are
placed from the last to the first, whatever the order of the calls; loop kinds are set after
that. The operations of a scan are stages too, whose loops are those within one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import explain
from ..base.late import Slot
from ..ir.module import IRModule
from ..ir.prim_expr import IterVar, Range, Var
from ..ir.variables import substitute
from ..tir.expr import ProducerLoad, Reduce
from ..tir.function import PrimFunc
from ..tir.transform import (
    CompactBufferAllocation,
    ConvertBlocksToOpaque,
    LowerInitBlock,
    LowerMatchBuffer,
    LowerOpaqueBlock,
    PlanAndUpdateBufferAllocationLocation,
    Simplify,
)
from .player import Player
from .prim_func import create_prim_func, in_order
from .rfactor import rfactor_op
from .scan import ScanOp
from .stage import Stage
from .tensor import ComputeOp, Operation, PlaceholderOp, Tensor

COMPILE: Slot[Callable[..., Any]] = Slot("te.compile")


class Schedule:
    """Stages of the operations behind some tensors; `s[C]` is the stage of a tensor or operation
    C."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.outputs = list(ops)
        self.stage_map: dict[Operation, Stage] = {}
        for op in in_order(op.output(0) for op in ops):
            chain = op.chain if isinstance(op, ScanOp) else ()
            for one in (*chain, op):
                self.stage_map[one] = Stage(one, in_scan=one in chain)
        # The stages in place of an operation, the last of which computes its result.
        self.parts: dict[Operation, list[Stage]] = {}
        self.reads: list[tuple[Tensor, str, list[Stage], Stage]] = []

    @property
    def stages(self) -> list[Stage]:
        """All stages, each after its inputs."""
        return list(self.stage_map.values())

    def __getitem__(self, k: Tensor | Operation) -> Stage:
        op = k.op if isinstance(k, Tensor) else k
        if op not in self.stage_map:
            known = ", ".join(o.name for o in self.stage_map)
            what = "the schedule has no stage of this"
            raise ValueError(explain(what, got=str(k), instead=f"it has {known}"))
        return self.stage_map[op]

    def normalize(self, legacy: bool = False) -> Schedule:
        """The schedule unchanged; its loops always start at 0."""
        return self

    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """A copy of a tensor in memory `scope`, which the readers use. Returns the copy."""
        ops = [readers] if isinstance(readers, (Tensor, Operation)) else list(readers)
        if not ops:
            what = f"cache_read of {tensor.op.name} needs its readers"
            raise ValueError(explain(what, got="none", instead="the stages that use the copy"))
        copy = _copy_of(tensor, f"{tensor.op.name}.{scope}")
        self.stage_map[copy.op] = Stage(copy.op, self[tensor].in_scan)
        self.reads.append((tensor, scope, [self[r] for r in ops], self[copy]))
        return copy

    def cache_write(self, tensor: Any, scope: str) -> Any:
        """Compute a tensor in memory `scope` and copy it from there. Returns the computed tensor,
        or for a list (the results of one operation) a list."""
        several = list(tensor) if isinstance(tensor, (list, tuple)) else [tensor]
        stage = self[several[0]]
        op, origin = stage.op, stage.origin_op
        if any(stage is computed for *_, computed in self.reads):
            what = f"cache_write: {op.name} is a copy already"
            raise ValueError(explain(what, got="a cache_read", instead="cache_read it again"))
        if stage.steps:
            steps = ", ".join(name for name, _ in stage.steps)
            what = f"cache_write of {origin.name} comes before its other steps"
            raise ValueError(explain(what, got=steps))
        if not isinstance(op, ComputeOp) or any(t.op is not origin for t in several):
            what = "cache_write takes the results of one compute"
            raise ValueError(explain(what, got=", ".join(str(t.op) for t in several)))
        computed = _computed_again(op, f"{op.name}.{scope}")
        points = [a.var for a in op.axis]
        count = range(computed.num_outputs)
        copies = [ProducerLoad(computed.output(n), points) for n in count]
        cached = Stage(computed, stage.in_scan)
        cached.scope = scope
        self.put_before(stage, cached)
        stage.computes(ComputeOp(op.name, op.tag, op.attrs, op.axis, copies))
        results = [computed.output(t.value_index) for t in several]
        return results if isinstance(tensor, (list, tuple)) else results[0]

    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Any:
        """Reduce each iteration of `axis`, a loop of the reduction of `tensor`, separately into a
        tensor with one more dimension, at `factor_axis`, then reduce that. Returns the first step's
        tensor (a list for several results); the stage of `tensor` becomes the second."""
        stage = self[tensor]
        first, second = rfactor_op(stage, axis, factor_axis)
        part = Stage(first, stage.in_scan)
        part.scope = stage.scope
        self.put_before(stage, part)
        stage.steps = _spatial_steps(stage)
        stage.computes(second)
        results = [first.output(n) for n in range(first.num_outputs)]
        return results[0] if len(results) == 1 else results

    def put_before(self, stage: Stage, new: Stage) -> None:
        """Compute the operation of a new stage before that of another one."""
        for parts in self.parts.values():
            if stage in parts:
                parts.insert(parts.index(stage), new)
                break
        else:
            self.parts[stage.origin_op] = [new, stage]
        order = list(self.stage_map.items())
        at = order.index((stage.origin_op, stage))
        self.stage_map = dict([*order[:at], (new.origin_op, new), *order[at:]])


def _copy_of(tensor: Tensor, name: str) -> Tensor:
    axes = [IterVar(Range(0, e), Var(f"ax{n}", e.dtype)) for n, e in enumerate(tensor.shape)]
    return ComputeOp(name, "", {}, axes, [ProducerLoad(tensor, [a.var for a in axes])]).output(0)


def _computed_again(op: ComputeOp, name: str) -> ComputeOp:
    """The same computation with new axes."""

    def renewed(axes: Any) -> list[IterVar]:
        return [IterVar(a.dom, Var(f"{a.var.name}_c", a.var.dtype), a.iter_type) for a in axes]

    axes = renewed(op.axis)
    moved = {a.var: b.var for a, b in zip(op.axis, axes, strict=True)}
    first = op.body[0]
    if isinstance(first, Reduce):
        reduced = renewed(first.axis)
        moved.update({a.var: b.var for a, b in zip(first.axis, reduced, strict=True)})
        source = tuple(substitute(e, moved) for e in first.source)
        where = substitute(first.condition, moved)
        init = tuple(substitute(e, moved) for e in first.init)
        body = [
            Reduce(first.combiner, source, tuple(reduced), where, n, init)
            for n in range(len(op.body))
        ]
    else:
        body = [substitute(e, moved) for e in op.body]
    return ComputeOp(name, op.tag, op.attrs, axes, body)


def _spatial_steps(stage: Stage) -> list[tuple[str, tuple[Any, ...]]]:
    """The steps on loops of the result; those on the reduction are part of the expression now."""
    kept: list[tuple[str, tuple[Any, ...]]] = []
    for name, args in stage.steps:
        if name == "reorder":
            args = tuple(v for v in args if v.iter_type != IterVar.CommReduce)
        elif name == "fuse":
            args = args if args[1].iter_type != IterVar.CommReduce else ()
        elif name != "transform_layout" and args[0].iter_type == IterVar.CommReduce:
            if name != "split":
                what = f"rfactor of {stage.origin_op.name} comes before how its loops run"
                raise ValueError(explain(what, got=f"{name} of {args[0].var.name}"))
            args = ()
        if args:
            kept.append((name, args))
    return kept


def create_schedule(ops: Any) -> Schedule:
    """A schedule of operations (or tensors) and all their inputs."""
    items = [ops] if isinstance(ops, (Operation, Tensor)) else list(ops)
    for item in items:
        if not isinstance(item, (Operation, Tensor)):
            what = "create_schedule takes operations"
            raise TypeError(explain(what, got=type(item).__name__, instead="C.op of a tensor C"))
    return Schedule([item.op if isinstance(item, Tensor) else item for item in items])


def lower(
    s: Schedule, args: Sequence[Any], name: str = "main", simple_mode: bool = False
) -> IRModule:
    """The module of a scheduled computation: one PrimFunc `name` of `args` (tensors, variables).

    The module is TensorIR after the schedule, to read, schedule further and compile; with
    `simple_mode` only the loops, without blocks. Raises ScheduleError if a step would change
    the result.
    """
    mod = _module(Player(s, _arguments(s, args)).play(), name)
    if simple_mode:
        for step in _LOOPS:
            mod = step(mod)
    return mod


def _arguments(s: Schedule, args: Any) -> list[Any]:
    """The arguments as a list. Raises ValueError where a result is missing, or one is not of the
    schedule; inputs that nothing reads may be."""
    given = [args] if isinstance(args, (Tensor, Var)) else list(args)
    missing = [
        op.name for op in s.outputs if not any(isinstance(a, Tensor) and a.op is op for a in given)
    ]
    if missing:
        what = "the results of a schedule are among its arguments"
        raise ValueError(explain(what, got=f"{', '.join(missing)} missing"))
    for arg in given:
        if isinstance(arg, Tensor) and not isinstance(arg.op, PlaceholderOp):
            s[arg]
    return given


def _module(func: PrimFunc, name: str) -> IRModule:
    return IRModule({name: func.with_attr("global_symbol", name)})


# The passes that turn blocks into loops; buffers keep their dimensions.
_LOOPS = (
    LowerInitBlock(),
    PlanAndUpdateBufferAllocationLocation(),
    ConvertBlocksToOpaque(),
    LowerMatchBuffer(),
    CompactBufferAllocation(),
    LowerOpaqueBlock(),
    Simplify(),
)


def build(s: Schedule, args: Sequence[Any], target: Any = None, name: str = "main") -> Any:
    """Compile a scheduled computation; `f[name](*arrays)` runs it. One whose stages have no steps
    is scheduled by the target's rules."""
    free = not s.parts and not s.reads and not any(stage.is_scheduled for stage in s.stages)
    if free:
        mod = _module(create_prim_func(_arguments(s, args)), name)
    else:
        mod = lower(s, args, name)
    return COMPILE.get()(mod, target)


__all__ = ["Schedule", "Stage", "build", "create_schedule", "lower"]
