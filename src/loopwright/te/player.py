"""Replays the steps of stages on a `tir.Schedule`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import explain
from ..ir.functor import Rewriter
from ..ir.prim_expr import IterVar, Var
from ..ir.prim_op import cast, const, logical_and
from ..ir.variables import substitute
from ..tir import Schedule as TirSchedule
from ..tir import ScheduleError
from ..tir.buffer import Buffer
from ..tir.function import PrimFunc
from ..tir.index_map import IndexMap
from ..tir.stmt import AttrStmt, BlockRealize
from .prim_func import Builder
from .scan import ScanOp
from .stage import MOVES, Stage
from .tensor import ComputeOp, Tensor
from .tensor_intrin import TensorIntrin


class Player:
    """Replays the steps of a schedule on the PrimFunc of its arguments."""

    def __init__(self, s: Any, args: list[Any]) -> None:
        self.s = s
        self.stages: list[Stage] = s.stages
        parts = {op: [(p.op, p.origin_op) for p in own] for op, own in s.parts.items()}
        scopes = {
            p.origin_op.output(n): p.scope
            for own in s.parts.values()
            for p in own[:-1]
            for n in range(p.origin_op.num_outputs)
        }
        inlined = {stage.op for stage in self.stages if stage.is_inline}
        builder = Builder(args, parts, scopes, joint=lambda op: op not in inlined)
        func = builder.build({"global_symbol": "main", "tir.noalias": True})
        self.made_with_scope = set(scopes)
        self.buffers: dict[Tensor, Buffer] = builder.buffers
        self.sch = TirSchedule(func)
        self.root = self.sch.get_block(func.body.block.name_hint)
        self.blocks: dict[Stage, Any] = {}
        self.blocks_of: dict[Stage, list[Any]] = {}  # of inlined stages, one per result
        self.loops: dict[IterVar, Any] = {}
        self.names: dict[Var, str] = {}  # of loops that are not stage's own
        self.edits: list[Callable[[], tuple[Any, Callable[[Any], Any]]]] = []
        by_buffer: dict[Buffer, list[Any]] = {}
        for block in self.program():
            for region in self.sch.get(block).writes:
                by_buffer.setdefault(region.buffer, []).append(block)
        for stage in self.stages:
            results = [stage.op.output(n) for n in range(stage.op.num_outputs)]
            buffers = [self.buffers[t] for t in results if t in self.buffers]
            writers = [b for buffer in buffers for b in by_buffer.get(buffer, ())]
            if writers and isinstance(stage.op, ComputeOp):
                (self.blocks[stage], *_) = self.blocks_of[stage] = list(dict.fromkeys(writers))
            if isinstance(stage.op, ScanOp):
                name = f"{stage.op.name}_step"
                (step,) = [b for b in self.program(True) if self.sch.get(b).name_hint == name]
                (self.loops[stage.op.scan_axis],) = self.sch.get_loops(step)

    def program(self, steps: bool = False) -> list[Any]:
        """The blocks in order; those inside a scan's step in place of it."""
        blocks = []
        for block in self.sch.get_child_blocks(self.root):
            node = self.sch.get(block)
            scans = any(a.iter_type == IterVar.Ordered for a in node.iter_vars)
            if scans:
                blocks += self.sch.get_child_blocks(block)
            if steps or not scans:
                blocks.append(block)
        return blocks

    def play(self) -> PrimFunc:
        """Return the scheduled function."""
        for read in self.s.reads:
            self.cache_read(*read)
        for stage in self.stages:
            self.check(stage)
        for stage in self.stages:
            if stage.is_inline:
                self.blocks.pop(stage)
                for block in self.blocks_of[stage]:
                    self.sch.compute_inline(block)
        stages = self.last_first()
        for stage in stages:
            self.place(stage)
        for stage in stages:
            for name, args in stage.notes:
                getattr(self.sch, name)(self.blocks[stage], *args)
            wanted = (*MOVES, "tensorize")
            self.run_as(stage, [step for step in stage.steps if step[0] not in wanted])
            self.edit(stage)
            tensorized = [step for step in stage.steps if step[0] == "tensorize"]
            own = any(isinstance(args[1], TensorIntrin) for _, args in tensorized)
            if not own and not stage.doubled:  # a double buffer fetches a single statement
                self.decompose(stage)
            self.run_as(stage, tensorized)
        return self.edited(self.sch.mod["main"])

    # -- before the steps ------------------------------------------------------------------------

    def cache_read(self, tensor: Tensor, scope: str, readers: list[Stage], copy: Stage) -> None:
        blocks = [self.block_of(r) for r in readers]
        buffer = self.buffers[tensor]
        if copy.in_scan and len(buffer.shape) == tensor.ndim:
            what = f"cache_read: the scan keeps all rows of {tensor.op.name}"
            raise ValueError(explain(what, instead="read it as it is"))
        for reader, block in zip(readers, blocks, strict=True):
            if not any(r.buffer is buffer for r in self.sch.get(block).reads):
                what = f"cache_read: {reader.origin_op.name} does not read {tensor.op.name}"
                known = ", ".join(r.buffer.name for r in self.sch.get(block).reads)
                raise ValueError(explain(what, instead=f"it reads {known or 'nothing'}"))
        copied = self.sch.cache_read(blocks[0], buffer, scope, blocks)
        self.blocks[copy], self.blocks_of[copy] = copied, [copied]
        self.buffers[copy.op.output(0)] = self.sch.get(copied).writes[0].buffer

    def block_of(self, stage: Stage) -> Any:
        """The block of a stage. Raises ValueError if it has none of its own."""
        if stage not in self.blocks:
            what = f"stage {stage.origin_op.name} has no steps: it is not a compute"
            hint = "schedule the operations that it reads and that read it"
            raise ValueError(explain(what, got=str(stage.op), instead=hint))
        return self.blocks[stage]

    def check(self, stage: Stage) -> None:
        """Reject invalid steps before anything is replayed."""
        name = stage.origin_op.name
        kept = stage.scope and stage.op.output(0) not in self.made_with_scope
        if stage.steps or stage.notes or stage.attach or stage.is_inline or kept:
            self.block_of(stage)
        if stage.attach is None:
            return
        parent, axis = stage.attach
        if not any(v is axis for v in parent.leaf_iter_vars):
            what = f"{name} is computed at a loop of {parent.origin_op.name} that is gone"
            known = ", ".join(v.var.name for v in parent.leaf_iter_vars)
            raise ValueError(explain(what, got=axis.var.name, instead=f"one of {known}"))
        if parent.is_inline:
            what = f"{name} is computed at a loop of {parent.origin_op.name}, which is inlined"
            raise ValueError(explain(what, instead="a stage with loops"))
        if not isinstance(parent.op, ScanOp) and not self.feeds(stage, parent):
            what = f"compute_at: {parent.origin_op.name} does not use {name}"
            users = [s.origin_op.name for s in self.stages if self.feeds(stage, s)]
            hint = f"a loop of {', '.join(users)}" if users else "compute_root: nothing uses it"
            raise ValueError(explain(what, got=axis.var.name, instead=hint))

    def feeds(self, stage: Stage, user: Stage) -> bool:
        """Whether `user` depends on a stage's result, directly or indirectly."""
        start, goal = self.blocks.get(stage), self.blocks.get(user)
        if start is None or goal is None or stage is user:
            return False
        touched = {r.buffer for r in self.sch.get(start).writes}
        for block in self.program():
            node = self.sch.get(block)
            if any(r.buffer in touched for r in node.reads):
                if node is self.sch.get(goal):
                    return True
                touched |= {r.buffer for r in node.writes}
        return False

    def last_first(self) -> list[Stage]:
        """The stages from the last block of the program to the first."""
        order = {id(self.sch.get(b)): n for n, b in enumerate(self.program())}
        placed = [(order[id(self.sch.get(b))], stage) for stage, b in self.blocks.items()]
        return [stage for _, stage in sorted(placed, key=lambda pair: -pair[0])]

    # -- placement --------------------------------------------------------------------------------

    def place(self, stage: Stage) -> None:
        """Place a stage where it is computed, then split, fuse and reorder its loops."""
        sch, block = self.sch, self.blocks[stage]
        if stage.scope and stage.origin_op.output(0) not in self.made_with_scope:
            sch.set_scope(block, 0, stage.scope)
        steps = [step for step in stage.steps if step[0] in MOVES]
        if steps and steps[0][0] == "transform_layout":
            self.lay_out(stage, *steps.pop(0)[1])
        if stage.attach is not None and not isinstance(stage.attach[0].op, ScanOp):
            sch.compute_at(block, self.loops[stage.attach[1]], preserve_unit_loops=True)
        axes = self.first_axes(stage)
        loops = sch.get_loops(block)
        self.loops.update(zip(axes, loops[len(loops) - len(axes) :], strict=True))
        for name, args in steps:
            if name == "split":
                parent, outer, inner, factor, nparts = args
                factors = [None, factor] if nparts is None else [nparts, None]
                self.loops[outer], self.loops[inner] = sch.split(self.loops[parent], factors)
            elif name == "fuse":
                self.loops[args[1]] = sch.fuse(*(self.loops[v] for v in args[0]))
            elif name == "reorder":
                sch.reorder(*(self.loops[v] for v in args))

    def first_axes(self, stage: Stage) -> list[IterVar]:
        """The loops of a stage before it is split, fused and reordered."""
        axes: list[IterVar] = list(stage.op.axis)
        for name, args in stage.steps:
            if name == "transform_layout":
                axes = list(args[2])
        if stage.in_scan:
            axes = axes[1:]
        return [*axes, *stage.op.reduce_axis]

    def lay_out(self, stage: Stage, mapping: Callable[..., Any], ndim: int, _: Any) -> None:
        block = self.blocks[stage]
        self.sch.transform_layout(block, ("write", 0), mapping)

        kinds = [a.dom.extent.dtype for a in (*stage.op.axis, *stage.op.reduce_axis)]
        axes = [Var(f"a{n}", kind) for n, kind in enumerate(kinds)]
        mapped = [e for e in mapping(*axes[:ndim]) if not isinstance(e, str)]
        self.sch.transform_block_layout(block, IndexMap(axes, [*mapped, *axes[ndim:]]))

    # -- loop kinds -------------------------------------------------------------------------------

    def run_as(self, stage: Stage, steps: list[tuple[str, tuple[Any, ...]]]) -> None:
        """Set how loops run."""
        for name, args in steps:
            if name == "tensorize" and isinstance(args[1], TensorIntrin):
                self.tensorize(stage, *args)
            else:
                getattr(self.sch, name)(self.loops[args[0]], *args[1:])

    def decompose(self, stage: Stage) -> Any:
        """Separate the initialization of a reduction from its updates."""
        reduction = [v for v in stage.leaf_iter_vars if v.iter_type == IterVar.CommReduce]
        if not reduction:
            return None
        try:
            init = self.sch.decompose_reduction(self.blocks[stage], self.loops[reduction[0]])
        except ScheduleError:  # the init stays inside, guarded by the first iteration
            return None
        at = stage.position(reduction[0])
        inside = [v for v in stage.leaf_iter_vars[at:] if v.iter_type != IterVar.CommReduce]
        loops = self.sch.get_loops(init)
        for axis, loop in zip(reversed(inside), reversed(loops), strict=False):
            self.names[self.sch.get(loop).loop_var] = f"{axis.var.name}_init"
        return init

    def tensorize(self, stage: Stage, var: IterVar, intrin: TensorIntrin) -> None:
        """Use a `te.decl_tensor_intrin`; if the reduction continues outside it, reset the result
        before and update it within."""
        at = stage.position(var)
        leaves = stage.leaf_iter_vars
        around = [v for v in leaves[:at] if v.iter_type == IterVar.CommReduce]
        if not stage.op.reduce_axis or not around:
            self.sch.tensorize(self.loops[var], intrin.whole())
            return
        reset, update = intrin.in_steps()
        init = self.sch.decompose_reduction(self.blocks[stage], self.loops[around[0]])
        self.sch.tensorize(self.loops[var], update)
        inside = [v for v in leaves[at:] if v.iter_type != IterVar.CommReduce]
        loops = self.sch.get_loops(init)
        self.sch.tensorize(loops[len(loops) - len(inside)] if inside else init, reset)

    # -- edits without a TensorIR primitive -------------------------------------------------------

    def edit(self, stage: Stage) -> None:
        """Record the edits to make after all steps, when their loops are known."""
        if stage.predicate is not None:
            self.edits.append(lambda: (self.realize_of(stage), self.guarded(stage)))
        if stage.doubled:
            if stage.attach is None:
                what = f"double_buffer: {stage.origin_op.name} is computed once, for all"
                raise ValueError(explain(what, instead="compute_at a loop of its consumer first"))
            outer = self.first_loop_inside(stage)
            buffer = self.sch.get(self.blocks[stage]).writes[0].buffer
            self.edits.append(
                lambda: (
                    self.sch.get(outer),
                    lambda node: AttrStmt(buffer, "double_buffer_scope", const(1), node),
                )
            )

    def first_loop_inside(self, stage: Stage) -> Any:
        """The outermost loop of a stage inside the loop it is computed at."""
        loops = self.sch.get_loops(self.blocks[stage])
        nodes = [self.sch.get(loop) for loop in loops]
        assert stage.attach is not None
        where = self.sch.get(self.loops[stage.attach[1]])
        return loops[next(n for n, node in enumerate(nodes) if node is where) + 1]

    def realize_of(self, stage: Stage) -> Any:
        return self.sch.get_sref(self.blocks[stage]).realize

    def guarded(self, stage: Stage) -> Callable[[Any], Any]:
        """A block that runs only if the stage's predicate holds."""
        values = {axis.var: var for axis, var in self.loop_vars().items()}
        test = substitute(stage.predicate, values)

        def guard(node: BlockRealize) -> BlockRealize:
            return node.replace(predicate=logical_and(node.predicate, cast("bool", test)))

        return guard

    def loop_vars(self) -> dict[IterVar, Var]:
        """The variables of the stages' loops."""
        variables: dict[IterVar, Var] = {}
        for stage in self.stages:
            for axis in stage.leaf_iter_vars:
                try:
                    variables[axis] = self.sch.get(self.loops[axis]).loop_var
                except (KeyError, ScheduleError):  # inlined, tensorized
                    continue
        return variables

    def edited(self, func: PrimFunc) -> PrimFunc:
        """The function with the recorded edits, and loops renamed as in the stages."""
        changes: dict[int, list[Callable[[Any], Any]]] = {}
        for find in self.edits:
            node, change = find()
            changes.setdefault(id(node), []).append(change)
        body = _Edit(changes).visit(func.body) if changes else func.body
        wanted = {var: axis.var.name for axis, var in self.loop_vars().items()}
        wanted.update(self.names)
        named = {var: Var(n, var.dtype) for var, n in wanted.items() if var.name != n}
        return func.replace(body=substitute(body, named))


class _Edit(Rewriter):
    """Edits loops and blocks identified by object."""

    def __init__(self, changes: dict[int, list[Callable[[Any], Any]]]) -> None:
        self.changes = changes

    def visit_PrimExpr(self, node: Any) -> Any:
        return node

    def visit_Buffer(self, node: Any) -> Any:
        return node

    def visit_Stmt(self, node: Any) -> Any:
        changed = self.visit_default(node)
        for change in self.changes.get(id(node), ()):
            changed = change(changed)
        return changed


__all__ = ["Player"]
