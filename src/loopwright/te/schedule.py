"""The older way of schedules: `create_schedule`, stages, `lower`, `build`.

A stage's steps are kept, and `lower` plays them on a `tir.Schedule` of the arguments' PrimFunc:

| here | on the tir.Schedule |
|---|---|
| `s[C]` | the block that computes C |
| `C.op.axis`, `C.op.reduce_axis` | `sch.get_loops(block)` |
| `split(x, factor=n)`, `split(x, nparts=n)` | `split(x, [None, n])`, `split(x, [n, None])` |
| `tile(x, y, a, b)` | two splits and a reorder |
| `fuse`, `reorder`, `parallel`, `vectorize`, `unroll`, `bind`, `tensorize` | the same |
| `pragma(x, "kind", v)` | `annotate(x, "pragma_kind", v)` |
| `s[B].compute_at(s[C], x)`, `compute_inline` | `compute_at(B, x)`, `compute_inline(B)` |
| `s.cache_write(C, scope)` | `cache_write`: the new stage computes, C's copies |
| `s.cache_read(A, scope, readers)` | `cache_read` |
| a reduction | `decompose_reduction` at its outermost reduction loop |

Stages are placed from the last to the first, whatever the order of the calls; how loops run is set
when all are placed. What is not here (`rfactor`, layouts) is done on `tir.Schedule` itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import explain
from ..ir.module import IRModule
from ..ir.prim_expr import IterVar, Range, Var
from ..tir import Schedule as TirSchedule
from ..tir import ScheduleError
from ..tir.buffer import Buffer
from ..tir.expr import ProducerLoad
from .prim_func import Builder, in_order
from .tensor import ComputeOp, Operation, Tensor

_MOVES = ("split", "fuse", "reorder")


class Stage:
    """How one operation is computed: its loops in order, `leaf_iter_vars`, and where it is placed."""

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.leaf_iter_vars: list[IterVar] = [*op.axis, *op.reduce_axis]
        self.all_iter_vars: list[IterVar] = list(self.leaf_iter_vars)
        self.attach: tuple[Stage, IterVar] | None = None
        self.is_inline = False
        self.scope = ""
        self.steps: list[tuple[str, tuple[Any, ...]]] = []

    def __repr__(self) -> str:
        return f"stage({self.op.name})"

    def split(
        self, parent: IterVar, factor: int | None = None, nparts: int | None = None
    ) -> tuple[IterVar, IterVar]:
        """(outer, inner) loops for one: inner of `factor` iterations, or outer of `nparts`."""
        if (factor is None) == (nparts is None):
            what = "split takes the inner extent or the number of parts"
            raise ValueError(explain(what, got=f"factor={factor}, nparts={nparts}"))
        at = self.position(parent)
        outer, inner = _like("outer", parent), _like("inner", parent)
        self.replace(at, 1, outer, inner)
        self.steps.append(("split", (parent, outer, inner, factor, nparts)))
        return outer, inner

    def fuse(self, *args: IterVar) -> IterVar:
        """One loop for several that follow each other."""
        if not args:
            raise ValueError(explain("fuse takes loops", got="none"))
        at = self.position(args[0])
        if [id(v) for v in self.leaf_iter_vars[at : at + len(args)]] != [id(v) for v in args]:
            what = f"fuse takes loops of {self.op.name} that follow each other"
            got = ", ".join(v.var.name for v in args)
            raise ValueError(explain(what, got=got, instead="reorder them before"))
        reduces = any(v.iter_type == IterVar.CommReduce for v in args)
        name = "_".join(v.var.name for v in args) + "_fused"
        kind = IterVar.CommReduce if reduces else IterVar.DataPar
        fused = IterVar(None, Var(name, args[0].var.dtype), kind)
        self.replace(at, len(args), fused)
        self.steps.append(("fuse", (args, fused)))
        return fused

    def reorder(self, *args: IterVar) -> None:
        """The given loops take each other's places, in this order."""
        places = sorted(self.position(v) for v in args)
        for place, var in zip(places, args, strict=True):
            self.leaf_iter_vars[place] = var
        self.steps.append(("reorder", args))

    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: int, y_factor: int
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """(x outer, y outer, x inner, y inner)."""
        xo, xi = self.split(x_parent, x_factor)
        yo, yi = self.split(y_parent, y_factor)
        self.reorder(xo, yo, xi, yi)
        return xo, yo, xi, yi

    def vectorize(self, var: IterVar) -> None:
        """Run a loop as one vector operation."""
        self.mark("vectorize", var)

    def parallel(self, var: IterVar) -> None:
        """Run a loop's iterations on several threads."""
        self.mark("parallel", var)

    def unroll(self, var: IterVar) -> None:
        """Repeat a loop's body in the code."""
        self.mark("unroll", var)

    def bind(self, ivar: IterVar, thread_ivar: IterVar | str) -> None:
        """Give a loop's iterations to threads."""
        self.mark("bind", ivar, thread_ivar)

    def pragma(self, var: IterVar, pragma_type: str, pragma_value: Any = None) -> None:
        """A note on a loop for the passes."""
        self.mark(
            "annotate", var, f"pragma_{pragma_type}", 1 if pragma_value is None else pragma_value
        )

    def tensorize(self, var: IterVar, tensor_intrin: Any) -> None:
        """Replace the loops from `var` inwards by a `tir.TensorIntrin`, or one's name."""
        self.mark("tensorize", var, tensor_intrin)

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute what one iteration of a consumer's loop needs, within it."""
        if not isinstance(parent, Stage):
            what = "compute_at takes a stage"
            raise TypeError(explain(what, got=type(parent).__name__, instead="s[C]"))
        parent.position(scope)
        self.attach, self.is_inline = (parent, scope), False

    def compute_inline(self) -> None:
        """Compute each element where it is used."""
        self.is_inline, self.attach = True, None

    def compute_root(self) -> None:
        """Compute all of it before its consumers; how stages begin."""
        self.is_inline, self.attach = False, None

    def set_scope(self, scope: str) -> None:
        """Keep the result in another memory."""
        self.scope = scope

    # -- bookkeeping -----------------------------------------------------------------------------

    def position(self, var: Any) -> int:
        """Where a loop stands. Raises ValueError for one that is no loop of this stage."""
        for n, leaf in enumerate(self.leaf_iter_vars):
            if leaf is var:
                return n
        what = f"no loop of stage {self.op.name}, or one that was split or fused"
        got = var.var.name if isinstance(var, IterVar) else type(var).__name__
        known = ", ".join(v.var.name for v in self.leaf_iter_vars)
        raise ValueError(explain(what, got=got, instead=f"its loops are {known}"))

    def replace(self, at: int, count: int, *made: IterVar) -> None:
        """New loops in the place of some."""
        self.leaf_iter_vars[at : at + count] = made
        self.all_iter_vars += made

    def mark(self, step: str, var: IterVar, *rest: Any) -> None:
        """A step on how a loop runs."""
        self.position(var)
        self.steps.append((step, (var, *rest)))


def _like(what: str, parent: IterVar) -> IterVar:
    return IterVar(None, Var(f"{parent.var.name}_{what}", parent.var.dtype), parent.iter_type)


class Schedule:
    """Stages of the operations behind some tensors; `s[C]` is the one of tensor or operation C."""

    def __init__(self, ops: Sequence[Operation]) -> None:
        self.outputs = list(ops)
        tensors = [op.output(0) for op in ops]
        self.stage_map: dict[Operation, Stage] = {op: Stage(op) for op in in_order(tensors)}
        self.caches: list[tuple[Any, ...]] = []

    @property
    def stages(self) -> list[Stage]:
        """All stages, each after those it reads."""
        return list(self.stage_map.values())

    def __getitem__(self, k: Tensor | Operation) -> Stage:
        op = k.op if isinstance(k, Tensor) else k
        if op not in self.stage_map:
            known = ", ".join(o.name for o in self.stage_map)
            what = "the schedule has no stage of this"
            raise ValueError(explain(what, got=str(k), instead=f"it has {known}"))
        return self.stage_map[op]

    def normalize(self) -> Schedule:
        """The schedule; its loops always begin at 0."""
        return self

    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """A copy of a tensor in memory `scope`, which the readers use. Gives the copy."""
        ops = [readers] if isinstance(readers, (Tensor, Operation)) else list(readers)
        made = _copy_of(tensor, f"{tensor.op.name}.{scope}")
        self.stage_map[made.op] = Stage(made.op)
        self.caches.append(("read", tensor, scope, [self[r] for r in ops], self[made]))
        return made

    def cache_write(self, tensor: Tensor, scope: str) -> Tensor:
        """Compute a tensor in memory `scope` and copy it from there. Gives what is computed."""
        stage = self[tensor]
        if stage.steps or not isinstance(stage.op, ComputeOp) or stage.op.num_outputs != 1:
            what = f"cache_write of {tensor.op.name} comes before its other steps"
            raise ValueError(explain(what, instead="a compute of one result, cached first"))
        made = _computed_again(stage.op, f"{stage.op.name}.{scope}")
        stage.leaf_iter_vars = list(stage.op.axis)
        self.stage_map[made.op] = Stage(made.op)
        self.caches.append(("write", scope, stage, self[made]))
        return made


def _copy_of(tensor: Tensor, name: str) -> Tensor:
    axes = [IterVar(Range(0, e), Var(f"ax{n}", e.dtype)) for n, e in enumerate(tensor.shape)]
    return ComputeOp(name, "", {}, axes, [ProducerLoad(tensor, [a.var for a in axes])]).output(0)


def _computed_again(op: ComputeOp, name: str) -> Tensor:
    """The same computation with axes of its own."""
    axes = [IterVar(a.dom, Var(f"{a.var.name}_c", a.var.dtype), a.iter_type) for a in op.axis]
    return ComputeOp(name, op.tag, op.attrs, axes, op.body).output(0)


def create_schedule(ops: Any) -> Schedule:
    """A schedule of operations (or tensors) and all that they read."""
    items = [ops] if isinstance(ops, (Operation, Tensor)) else list(ops)
    return Schedule([item.op if isinstance(item, Tensor) else item for item in items])


class _Player:
    """Plays the steps on the PrimFunc of some arguments."""

    def __init__(self, s: Schedule, args: list[Any]) -> None:
        self.s = s
        builder = Builder(args)
        func = builder.build({"global_symbol": "main", "tir.noalias": True})
        self.buffers: dict[Tensor, Buffer] = builder.buffers
        self.sch = TirSchedule(func)
        self.blocks: dict[Stage, Any] = {}
        self.loops: dict[IterVar, Any] = {}
        by_buffer: dict[Buffer, list[Any]] = {}
        for block in self.sch.get_child_blocks(self.sch.get_block("root")):
            for region in self.sch.get(block).writes:
                by_buffer.setdefault(region.buffer, []).append(block)
        for op, stage in s.stage_map.items():
            found = by_buffer.get(self.buffers.get(op.output(0)), ())  # type: ignore[call-overload]
            if len(found) == 1 and isinstance(op, ComputeOp) and op.num_outputs == 1:
                self.blocks[stage] = found[0]

    def play(self) -> TirSchedule:
        for cache in self.s.caches:
            (self.cache_read if cache[0] == "read" else self.cache_write)(*cache[1:])
        for stage in self.s.stages:
            touched = stage.steps or stage.attach or stage.is_inline or stage.scope
            if touched and stage not in self.blocks:
                what = f"stage {stage.op.name} has no steps: it is no compute of one result"
                raise ValueError(explain(what, got=str(stage.op)))
            if stage.is_inline:
                self.sch.compute_inline(self.blocks.pop(stage))
        stages = self.last_first()
        for stage in stages:
            self.place(stage)
        for stage in stages:
            self.run_as(stage, lambda name: name not in (*_MOVES, "tensorize"))
            self.decompose(stage)
            self.run_as(stage, lambda name: name == "tensorize")
        return self.sch

    def run_as(self, stage: Stage, wanted: Callable[[str], bool]) -> None:
        """Set how loops run."""
        for name, args in stage.steps:
            if wanted(name):
                getattr(self.sch, name)(self.loops[args[0]], *args[1:])

    def cache_read(self, tensor: Tensor, scope: str, readers: list[Stage], made: Stage) -> None:
        blocks = [self.blocks[r] for r in readers]
        args = (blocks[0], self.buffers[tensor], scope, blocks)
        self.blocks[made] = self.sch.cache_read(*args)

    def cache_write(self, scope: str, stage: Stage, made: Stage) -> None:
        block = self.blocks[stage]
        self.blocks[made], self.blocks[stage] = block, self.sch.cache_write(block, 0, scope)

    def last_first(self) -> list[Stage]:
        """The stages from the last block of the program to the first."""
        program = self.sch.get_child_blocks(self.sch.get_block("root"))
        order = {id(self.sch.get(b)): n for n, b in enumerate(program)}
        placed = [(order[id(self.sch.get(b))], stage) for stage, b in self.blocks.items()]
        return [stage for _, stage in sorted(placed, key=lambda pair: -pair[0])]

    def place(self, stage: Stage) -> None:
        """Put a stage where it is computed, then split, fuse and reorder its loops."""
        sch, block = self.sch, self.blocks[stage]
        if stage.scope:
            sch.set_scope(block, 0, stage.scope)
        if stage.attach is not None:
            sch.compute_at(block, self.loops[stage.attach[1]], preserve_unit_loops=True)
        axes = (*stage.op.axis, *(stage.op.reduce_axis if self.computes(stage) else ()))
        loops = sch.get_loops(block)
        self.loops.update(zip(axes, loops[len(loops) - len(axes) :], strict=True))
        for name, args in stage.steps:
            if name == "split":
                parent, outer, inner, factor, nparts = args
                factors = [None, factor] if nparts is None else [nparts, None]
                self.loops[outer], self.loops[inner] = sch.split(self.loops[parent], factors)
            elif name == "fuse":
                self.loops[args[1]] = sch.fuse(*(self.loops[v] for v in args[0]))
            elif name == "reorder":
                sch.reorder(*(self.loops[v] for v in args))

    def computes(self, stage: Stage) -> bool:
        """Whether a stage's block is the computation, not a copy of what a cache computed."""
        return all(cache[0] != "write" or cache[2] is not stage for cache in self.s.caches)

    def decompose(self, stage: Stage) -> None:
        """Set results to the neutral element before the reduction, not inside of it."""
        reduction = [v for v in stage.leaf_iter_vars if v.iter_type == IterVar.CommReduce]
        if not reduction:
            return
        try:
            self.sch.decompose_reduction(self.blocks[stage], self.loops[reduction[0]])
        except ScheduleError:  # it stays inside, guarded by the first iteration: the same values
            return


def lower(
    s: Schedule, args: Sequence[Any], name: str = "main", simple_mode: bool = False
) -> IRModule:
    """The module of a scheduled computation: one PrimFunc `name` of `args` (tensors, variables).

    It is TensorIR after the schedule, to read, to schedule further and to compile; `simple_mode` is
    TVM's and changes nothing. Raises ScheduleError where a step would change what is computed.
    """
    missing = [
        op.name for op in s.outputs if not any(isinstance(a, Tensor) and a.op is op for a in args)
    ]
    if missing:
        what = "the results of a schedule are among its arguments"
        raise ValueError(explain(what, got=f"{', '.join(missing)} missing"))
    sch = _Player(s, list(args)).play()
    return IRModule({name: sch.mod["main"].with_attr("global_symbol", name)})


def build(s: Schedule, args: Sequence[Any], target: Any = None, name: str = "main") -> Any:
    """Compile a scheduled computation; `f[name](*arrays)` runs it."""
    front_door = sys.modules[__name__.partition(".")[0]]  # te lies below the driver
    return front_door.build(lower(s, args, name), target)


__all__ = ["Schedule", "Stage", "build", "create_schedule", "lower"]
