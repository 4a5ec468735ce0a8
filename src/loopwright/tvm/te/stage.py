"""A stage: how one operation of a schedule is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from ...base.errors import CallTypeError, CallValueError, explain
from ...ir.dtype import DataType
from ...ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ...ir.prim_op import cast, ceildiv, const, convert, multiply
from ...te.operation import thread_axis
from ...te.tensor import Operation, Tensor
from ...tir.index_map import IndexMap
from .relations import Fuse, Relation, Singleton, Split, Transform
from .tensor_intrin import TensorIntrin

# Where a stage is computed (`Stage.attach_type`).
GROUP_ROOT, INLINE, INLINED, SCOPE, SCAN_UPDATE = range(1, 6)


@dataclass
class LoopAttrs:
    """How one loop runs. `kind` is one of IterVar's types."""

    kind: int = IterVar.DataPar
    thread: IterVar | None = None
    pragmas: list[tuple[str, Any]] = field(default_factory=list)
    prefetches: list[tuple[Tensor, Any]] = field(default_factory=list)
    intrin: TensorIntrin | None = None
    align: tuple[Any, Any] | None = None

    @property
    def has_steps(self) -> bool:
        """Whether more than an alignment is said."""
        bound = self.thread is not None or self.intrin is not None
        return bool(bound or self.kind or self.pragmas or self.prefetches)


class Stages:
    """The stages of the operations behind `outputs`, each after its inputs, and its groups."""

    def __init__(self, outputs: list[Operation]) -> None:
        self.outputs = outputs
        self.stages: list[Stage] = []
        self.groups: list[Stage] = []
        self.stage_map: dict[Operation, Stage] = {}
        self.schedule_record: list[Stages] = []
        self.primitive_record: list[str] = []
        self.keeps = False

    def __getitem__(self, k: Tensor | Operation) -> Stage:
        op = k.op if isinstance(k, Tensor) else k
        stage = self.stage_map.get(op)
        if stage is None:
            stage = next((s for s in self.stages if s.op is op), None)
        if stage is None:
            names = ", ".join(o.name for o in self.stage_map)
            what = "the schedule has no stage of this"
            raise CallValueError(explain(what, got=str(k), instead=f"it has {names}"))
        return stage

    def record(self, primitive: str) -> None:
        """Keep a copy of the schedule, where the option `te.keep_schedule_record` says so."""
        if self.keeps:
            self.primitive_record.append(primitive)
            self.schedule_record.append(self.copy())

    def copy(self) -> Self:
        """A schedule with stages of its own; the records stay here."""
        new = type(self).__new__(type(self))
        new.outputs, new.keeps = self.outputs, False
        new.schedule_record, new.primitive_record = [], []
        old = [*self.stages, *self.groups]
        copies = {id(stage): stage.copied(new) for stage in old}
        for stage in copies.values():
            if stage.attach_stage is not None:
                stage.attach_stage = copies[id(stage.attach_stage)]
            if stage.group is not None:
                stage.group = copies[id(stage.group)]
        new.stages = [copies[id(s)] for s in self.stages]
        new.groups = [copies[id(s)] for s in self.groups]
        new.stage_map = {op: copies[id(s)] for op, s in self.stage_map.items()}
        return new

    def insert(self, op: Operation, at: int, group: Stage | None) -> Stage:
        """A new stage before the one at `at`."""
        stage = Stage(op, self)
        self.stages.insert(at, stage)
        self.stage_map[op] = stage
        stage.group = group
        if group is not None:
            group.num_child_stages += 1
        return stage


class Stage:
    """How one operation is computed: its loops in order, `leaf_iter_vars`, and its placement.

    `op` is the operation as currently computed; `origin_op` is the original one, from which
    `cache_write` and `rfactor` have split off parts. `relations` record how the loops came from the
    axes, `iter_var_attrs` how they run. A stage of a group has no operation of its own.

    >>> B = te.compute((4, 8), lambda i, j: i + j, "B")
    >>> s = te.create_schedule(B.op)
    >>> outer, inner = s[B].split(s[B].op.axis[1], factor=4)
    >>> [axis.var.name for axis in s[B].leaf_iter_vars]
    ['i', 'j_outer', 'j_inner']
    """

    def __init__(self, op: Operation, schedule: Stages, name: str = "") -> None:
        self.origin_op = op
        self.op = op
        self.schedule = schedule
        self.all_iter_vars: list[IterVar] = []
        self.leaf_iter_vars: list[IterVar] = []
        self.relations: list[Relation] = []
        self.iter_var_attrs: dict[IterVar, LoopAttrs] = {}
        self.attach_type = GROUP_ROOT
        self.attach_stage: Stage | None = None
        self.attach_ivar: IterVar | None = None
        self.group: Stage | None = None
        self.num_child_stages = 0
        self.is_output = False
        self.scope = ""
        self.store_predicate: PrimExpr | None = None
        self.doubled = False
        self.rolls = False
        self.threads: list[IterVar] = []
        self.layout: IndexMap | None = None
        self.separators: list[int] = []
        self.reset_loops()

    def __repr__(self) -> str:
        return f"stage({self.origin_op.name})"

    def reset_loops(self) -> None:
        """The loops before any step."""
        self.all_iter_vars = list(self.op.root_iter_vars)
        self.leaf_iter_vars = [v for v in self.all_iter_vars if v.iter_type != IterVar.Opaque]
        self.relations = []
        self.iter_var_attrs = {}

    def copied(self, schedule: Stages) -> Stage:
        """A copy for another schedule, still attached to this one's stages."""
        new = Stage.__new__(Stage)
        vars(new).update(vars(self))
        new.schedule = schedule
        new.all_iter_vars, new.leaf_iter_vars = [*self.all_iter_vars], [*self.leaf_iter_vars]
        new.relations, new.threads = [*self.relations], [*self.threads]
        new.iter_var_attrs = {
            v: replace(a, pragmas=[*a.pragmas], prefetches=[*a.prefetches])
            for v, a in self.iter_var_attrs.items()
        }
        return new

    @property
    def is_scheduled(self) -> bool:
        """Whether anything says how the operation is computed."""
        moved = self.attach_type != GROUP_ROOT or self.doubled or self.rolls or bool(self.scope)
        changed = bool(self.relations or self.iter_var_attrs or self.threads or self.layout)
        order = [id(v) for v in self.all_iter_vars if v.iter_type != IterVar.Opaque]
        reordered = [id(v) for v in self.leaf_iter_vars] != order
        return moved or changed or reordered or self.store_predicate is not None

    @property
    def binds(self) -> dict[IterVar, IterVar]:
        """The threads of the loops that are bound to some."""
        return {v: a.thread for v, a in self.iter_var_attrs.items() if a.thread is not None}

    @property
    def attach_spec(self) -> Stage:
        """The stage that says where this one is computed: itself, or a group."""
        stage = self
        while stage.attach_type == GROUP_ROOT and stage.group is not None:
            stage = stage.group
        return stage

    # -- loops -----------------------------------------------------------------------------------

    def split(
        self,
        parent: IterVar,
        factor: int | None = None,
        nparts: int | None = None,
        disable_predication: bool = False,
    ) -> tuple[IterVar, IterVar]:
        """(outer, inner) loops: inner with `factor` iterations, or outer with `nparts`.

        `disable_predication`: the factor is known to divide the extent, so nothing is tested.
        """
        if (factor is None) == (nparts is None):
            what = "split takes the inner extent or the number of parts"
            raise CallValueError(explain(what, got=f"factor={factor}, nparts={nparts}"))
        number = factor if nparts is None else nparts
        if isinstance(number, (int, IntImm)) and int(number) < 1:
            what = f"split of {parent.var.name}: the factor is 1 or more"
            raise CallValueError(explain(what, got=str(number)))
        at = self.position(parent)
        kind = parent.var.dtype
        part = cast(kind, convert(number)) if isinstance(number, PrimExpr) else const(number, kind)
        rest = None if parent.dom is None else ceildiv(parent.dom.extent, part)
        extents = (rest, part) if nparts is None else (part, rest)
        outer, inner = (
            _loop(f"{parent.var.name}_{what}", parent, extent)
            for what, extent in zip(("outer", "inner"), extents, strict=True)
        )
        self.replace(at, 1, outer, inner)
        sizes = (part, None) if nparts is None else (None, part)
        self.relations.append(Split(parent, outer, inner, *sizes, bool(disable_predication)))
        self.schedule.record("split")
        return outer, inner

    def fuse(self, *args: IterVar) -> IterVar:
        """One loop for several adjacent ones; without any, a loop of one iteration."""
        if not args:
            one = IterVar(Range(0, 1), Var("singleton", "int32"), IterVar.DataPar)
            self.all_iter_vars.append(one)
            self.leaf_iter_vars.insert(0, one)
            self.relations.append(Singleton(one))
            self.schedule.record("fuse")
            return one
        at = self.position(args[0])
        if [id(v) for v in self.leaf_iter_vars[at : at + len(args)]] != [id(v) for v in args]:
            what = f"fuse takes loops of {self.origin_op.name} that follow each other"
            got = ", ".join(v.var.name for v in args)
            raise CallValueError(explain(what, got=got, instead="reorder them before"))
        fused, name = args[0], args[0].var.name
        for v in args[1:]:
            name += f"_{v.var.name}"
            has_extents = fused.dom is not None and v.dom is not None
            size = multiply(fused.dom.extent, v.dom.extent) if has_extents else None
            like = max(fused, v, key=lambda x: x.iter_type)
            both = _loop(f"{name}_fused", like, size)
            self.replace(at, 2, both)
            self.relations.append(Fuse(fused, v, both))
            fused = both
            self.schedule.record("fuse")
        return fused

    def reorder(self, *args: IterVar) -> None:
        """Permute the given loops into this order."""
        positions = sorted({self.position(v) for v in args})
        if len(positions) != len(args):
            what = f"reorder in {self.origin_op.name} names each loop once"
            raise CallValueError(explain(what, got=", ".join(v.var.name for v in args)))
        for position, var in zip(positions, args, strict=True):
            self.leaf_iter_vars[position] = var
        self.schedule.record("reorder")

    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: int, y_factor: int
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """(x outer, y outer, x inner, y inner)."""
        xo, xi = self.split(x_parent, x_factor)
        yo, yi = self.split(y_parent, y_factor)
        self.reorder(xo, yo, xi, yi)
        return xo, yo, xi, yi

    def transform_layout(self, mapping_function: Callable[..., Any]) -> list[IterVar]:
        """Store and compute the result in the order given by `mapping_function(*axes)`.

        Returns the loops of the new dimensions; `te.AXIS_SEPARATOR` among them groups the
        dimensions of memory. An argument of `lower` gets the new shape. Must precede the stage's
        other steps, and every element of the new layout must be one of the old.
        """
        if self.relations or any(a.has_steps for a in self.iter_var_attrs.values()):
            what = f"transform_layout of {self.origin_op.name} comes before its other steps"
            raise CallValueError(explain(what, got=", ".join(v.var.name for v in self.leaves())))
        axes = list(self.op.axis)
        shape = self.op.output(0).shape
        kind = str(shape[0].dtype) if shape else "int32"
        index_map, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim=len(shape), index_dtype=kind
        )
        try:
            inverse = index_map.inverse(list(shape))
        except ValueError as err:
            what = f"transform_layout of {self.origin_op.name} keeps all elements, and adds none"
            raise CallValueError(explain(what, got=str(err).splitlines()[0])) from None
        self.layout, self.separators = index_map, separators
        loops: list[IterVar] = []
        if axes:
            extents = index_map.map_shape([a.dom.extent for a in axes])
            loops = [_loop(f"axis{n}", axes[0], e) for n, e in enumerate(extents)]
            self.replace(0, len(axes), *loops)
            self.relations.append(Transform(tuple(axes), tuple(loops), index_map, inverse))
        self.schedule.record("transform_layout")
        return loops

    # -- how loops run ---------------------------------------------------------------------------

    def vectorize(self, var: IterVar) -> None:
        """Vectorize a loop."""
        self.run_as("vectorize", var, IterVar.Vectorized)

    def parallel(self, var: IterVar) -> None:
        """Run a loop's iterations in parallel."""
        self.run_as("parallel", var, IterVar.Parallelized)

    def unroll(self, var: IterVar) -> None:
        """Unroll a loop."""
        self.attrs(var).kind = IterVar.Unrolled
        self.schedule.record("unroll")

    def bind(self, ivar: IterVar, thread_ivar: IterVar | str) -> None:
        """Bind a loop to threads."""
        thread = thread_axis(thread_ivar) if isinstance(thread_ivar, str) else thread_ivar
        self.attrs(ivar).thread = thread
        self.schedule.record("bind")

    def pragma(self, var: IterVar, pragma_type: str, pragma_value: int | None = None) -> None:
        """Annotate a loop for the passes."""
        value = 1 if pragma_value is None else pragma_value
        if pragma_type == "unroll":
            self.unroll(var)
        elif pragma_type == "vectorize":
            self.vectorize(var)
        else:
            self.attrs(var).pragmas.append((pragma_type, convert(value)))
            self.schedule.record("pragma")

    def prefetch(self, tensor: Tensor, var: IterVar, offset: PrimExpr | int) -> None:
        """A hint that what iteration `var + offset` reads of `tensor` is needed soon. It is kept as
        an annotation of the loop; no code is generated, because processors prefetch by
        themselves."""
        if not isinstance(tensor, Tensor):
            what = f"prefetch in {self.origin_op.name} takes a tensor"
            raise CallTypeError(explain(what, got=type(tensor).__name__))
        self.attrs(var).prefetches.append((tensor, convert(offset)))
        self.schedule.record("prefetch")

    def tensorize(self, var: IterVar, tensor_intrin: TensorIntrin) -> None:
        """Replace the loops from `var` inwards by a `te.decl_tensor_intrin`."""
        if not isinstance(tensor_intrin, TensorIntrin):
            what = f"tensorize in {self.origin_op.name} takes an intrinsic"
            hint = "te.decl_tensor_intrin; those of tir are for tir.Schedule.tensorize"
            raise CallTypeError(explain(what, got=type(tensor_intrin).__name__, instead=hint))
        attrs = self.attrs(var)
        attrs.kind, attrs.intrin = IterVar.Tensorized, tensor_intrin
        self.schedule.record("tensorize")

    # -- where it is computed --------------------------------------------------------------------

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute within a consumer's loop what one iteration needs."""
        if not isinstance(parent, Stage):
            what = "compute_at takes a stage"
            raise CallTypeError(explain(what, got=type(parent).__name__, instead="s[C]"))
        if parent is self:
            what = f"compute_at: {self.origin_op.name} cannot be computed inside of itself"
            raise CallValueError(explain(what, instead="a stage that reads it"))
        parent.position(scope)
        group = self.group
        of = group.attach_stage if group and group.attach_type == SCAN_UPDATE else None
        if group not in (None, *parent.groups_around()) and of is not parent:
            what = f"compute_at: {self.origin_op.name} is in a group that is computed as a whole"
            hint = "a stage of the same group, or compute_at of the group"
            raise CallValueError(explain(what, got=str(parent), instead=hint))
        self.attach_type, self.attach_stage, self.attach_ivar = SCOPE, parent, scope
        self.schedule.record("compute_at")

    def compute_inline(self) -> None:
        """Compute each element at its uses."""
        if self.op.reduce_axis:
            what = f"compute_inline: {self.origin_op.name} is a reduction"
            raise CallValueError(
                explain(what, got="an element that takes a loop", instead="compute_at")
            )
        self.attach_type, self.attach_stage, self.attach_ivar = INLINE, None, None
        self.schedule.record("compute_inline")

    def compute_root(self) -> None:
        """Compute everything before its consumers (the default)."""
        self.attach_type, self.attach_stage, self.attach_ivar = GROUP_ROOT, None, None
        self.schedule.record("compute_root")

    # -- its memory ------------------------------------------------------------------------------

    def set_scope(self, scope: str) -> None:
        """Store the result in another memory scope."""
        self.scope = scope
        self.schedule.record("set_scope")

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Set the stride of dimension `axis` of the result to k * factor + offset."""
        if any(own is axis for own in self.op.axis):
            self.iter_var_attrs.setdefault(axis, LoopAttrs()).align = (factor, offset)
            self.schedule.record("storage_align")
            return
        what = f"storage_align takes an axis of the result of {self.origin_op.name}"
        names = ", ".join(v.var.name for v in self.op.axis)
        got = axis.var.name if isinstance(axis, IterVar) else type(axis).__name__
        raise CallValueError(explain(what, got=got, instead=f"one of {names}"))

    def double_buffer(self) -> None:
        """Compute the next iteration's part of the result while the current one is used: two
        buffers alternate. For a stage that is computed at a loop of its consumer."""
        self.doubled = True
        self.schedule.record("double_buffer")

    def rolling_buffer(self) -> None:
        """Keep the data shared by adjacent iterations of the consumer's loop. After
        `compute_at`."""
        self.rolls = True
        self.schedule.record("rolling_buffer")

    def set_store_predicate(self, predicate: PrimExpr | int) -> None:
        """Store only if `predicate`, over the variables of the stage's loops, holds. Other elements
        keep their value."""
        self.store_predicate = convert(predicate)
        self.schedule.record("set_store_predicate")

    def env_threads(self, threads: Sequence[IterVar] | IterVar) -> None:
        """Launch threads around the whole of a scan or group; their extents are those of their
        domains."""
        thread_list = [threads] if isinstance(threads, IterVar) else list(threads)
        for thread in thread_list:
            if thread.dom is None:
                what = f"env_threads around {self.origin_op.name} need extents"
                hint = f'te.thread_axis((0, n), "{thread.thread_tag}")'
                raise CallValueError(explain(what, got=thread.thread_tag, instead=hint))
        self.threads, self.leaf_iter_vars = thread_list, [*thread_list, *self.leaf_iter_vars]
        self.all_iter_vars = [*thread_list, *self.all_iter_vars]
        self.schedule.record("env_threads")

    # -- bookkeeping -----------------------------------------------------------------------------

    def groups_around(self) -> list[Stage]:
        """The groups that it is in, from the innermost one."""
        groups, group = [], self.group
        while group is not None:
            groups.append(group)
            group = group.group
        return groups

    def leaves(self) -> list[IterVar]:
        """The loops."""
        return list(self.leaf_iter_vars)

    def position(self, var: IterVar | int) -> int:
        """The position of a loop. Raises ValueError if it is not a loop of this stage."""
        for n, leaf in enumerate(self.leaf_iter_vars):
            if leaf is var:
                return n
        names = ", ".join(v.var.name for v in self.leaf_iter_vars)
        hint = f"its loops are {names}" if names else "it has no loops"
        if not isinstance(var, IterVar):
            what = f"a step on stage {self.origin_op.name} takes one of its loops"
            raise CallTypeError(explain(what, got=type(var).__name__, instead=hint))
        was_replaced = any(v is var for v in self.all_iter_vars)
        what = f"no loop of stage {self.origin_op.name}" + (
            " any more: it was split or fused" if was_replaced else ""
        )
        raise CallValueError(explain(what, got=var.var.name, instead=hint))

    def replace(self, at: int, count: int, *loops: IterVar) -> None:
        """Replace loops by new ones. Raises ValueError if a loop kind has already been set."""
        for v in self.leaf_iter_vars[at : at + count]:
            attrs = self.iter_var_attrs.get(v)
            if attrs is not None and attrs.has_steps:
                kind = _STEPS.get(attrs.kind, "bind" if attrs.thread is not None else "pragma")
                what = f"loop {v.var.name} of {self.origin_op.name} has its {kind} already"
                hint = f"split, fuse and transform before {kind}"
                raise CallValueError(explain(what, instead=hint))
        self.leaf_iter_vars[at : at + count] = loops
        self.all_iter_vars += loops

    def attrs(self, var: IterVar) -> LoopAttrs:
        """How a loop runs, to be changed."""
        self.position(var)
        return self.iter_var_attrs.setdefault(var, LoopAttrs())

    def run_as(self, step: str, var: IterVar, kind: int) -> None:
        """Set the kind of a loop whose iterations are to be independent."""
        attrs = self.attrs(var)
        if var.iter_type == IterVar.CommReduce:
            what = f"{step} of {var.var.name}: its iterations write the same elements"
            hint = "rfactor it, then the new axis can be"
            raise CallValueError(explain(what, got=f"a reduction of {self.op.name}", instead=hint))
        attrs.kind = kind
        self.schedule.record(step)


_STEPS = {
    IterVar.Vectorized: "vectorize",
    IterVar.Parallelized: "parallel",
    IterVar.Unrolled: "unroll",
    IterVar.Tensorized: "tensorize",
}


def _loop(name: str, like: IterVar, extent: PrimExpr | None) -> IterVar:
    kind: DataType = like.var.dtype
    domain = None if extent is None else Range.from_min_extent(const(0, kind), extent)
    return IterVar(domain, Var(name, kind), like.iter_type)
