"""`schedule_ops`: the statements of a schedule whose loops' ranges are known. A stage is stored where
it is computed: the loops of its consumer are around both. Tensors stay tensors (`ProducerStore`,
`ProducerLoad`, `ProducerRealize`); `memory.py` replaces them by buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ...arith import Analyzer
from ...base.errors import CallValueError, explain
from ...ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ...ir.prim_op import cast, const, logical_or
from ...ir.variables import uses_any
from ...te.tensor import ComputeOp, ExternOp, Operation, Tensor
from ...tir import stmt as st
from ...tir.expr import ProducerLoad, Reduce
from ...tir.op import likely
from ...tir.stmt_functor import substitute
from .bounds import scope_rank, thread_rank
from .hybrid_op import HybridOp
from .producer import BindBuffer, ProducerRealize, ProducerStore
from .relations import Values, bound_checks, is_const, or_down, pass_up_values
from .scan import ScanOp
from .stage import GROUP_ROOT, INLINED, SCAN_UPDATE, SCOPE, Stage, Stages
from .tensor_compute import TensorComputeOp
from .tensor_intrin import TensorIntrin
from .tensorize import Tensorized

Wrap = Callable[[st.Stmt], st.Stmt]
_KINDS = {
    IterVar.Unrolled: st.ForKind.UNROLLED,
    IterVar.Vectorized: st.ForKind.VECTORIZED,
    IterVar.Parallelized: st.ForKind.PARALLEL,
}


class Roll(NamedTuple):
    """Each iteration of `loop` needs `size` elements of a dimension, `step` of them new."""

    dim: int
    step: int
    size: int
    loop: IterVar


class Nest:
    """Loops of a stage, from the outermost one, and the values of all its loops."""

    def __init__(self, emitter: Emitter, stage: Stage, values: Values) -> None:
        self.emitter = emitter
        self.stage = stage
        self.values = values
        self.wraps: list[tuple[IterVar, Wrap]] = []

    def add(self, v: IterVar, first: bool = False) -> None:
        """A loop inside of the others; `first` for one that sets the first value of a reduction."""
        wrap, self.values[v] = self.emitter.loop(self.stage, v, first, self)
        self.wraps.append((v, wrap))

    def table(self) -> dict[Var, PrimExpr]:
        """The values of the variables of all loops."""
        return {v.var: value for v, value in self.values.items() if value is not v.var}

    def done(self, ranges: Mapping[IterVar, Range]) -> None:
        """Values of the operation's axes, when all leaves are known."""
        pass_up_values(self.stage, ranges, self.values)

    def tests(self, whole: bool = False, skip: Iterable[IterVar] = ()) -> list[PrimExpr]:
        """What must hold for an element to be computed."""
        doms = dict(self.emitter.doms)
        for v, value in self.values.items():  # new loops have the old one's ranges
            if isinstance(value, Var) and value is not v.var and v in doms:
                doms[IterVar(doms[v], value, v.iter_type)] = doms[v]
        return [likely(e) for e in bound_checks(self.stage, doms, self.values, whole, skip)]

    def around(self, body: st.Stmt, start: int = 0, stop: int | None = None) -> st.Stmt:
        """The loops, with the stages computed in them, around a statement."""
        for v, wrap in reversed(self.wraps[start:stop]):
            body = wrap(self.emitter.attached(self.stage, v, body))
            body = self.emitter.with_rolling(v, body)
        return body


def guarded(tests: Iterable[PrimExpr], body: st.Stmt) -> st.Stmt:
    """A statement that runs where all tests hold."""
    for test in reversed(list(tests)):
        body = st.IfThenElse(test, body)
    return body


class Emitter:
    """The statements of a schedule; `keep`: loops of one iteration are loops."""

    def __init__(self, s: Stages, doms: Mapping[IterVar, Range], keep: bool) -> None:
        self.s = s
        self.doms = doms
        self.keep = keep
        self.makers: dict[type[Operation], Callable[[Stage], st.Stmt]] = {
            ComputeOp: self.compute,
            TensorComputeOp: self.tensor_compute,
            ExternOp: self.extern,
            HybridOp: self.hybrid,
            ScanOp: self.scan,
        }
        self.firsts = self.first_rows()
        self.rolling: dict[IterVar, list[tuple[Stage, Roll]]] = {}  # rolling buffers, by their loop

    def run(self) -> st.Stmt:
        """The whole program."""
        body: st.Stmt | None = None
        for stage in reversed(self.s.stages):
            if stage.attach_spec.attach_type == GROUP_ROOT and stage.op not in self.firsts:
                body = self.pipeline(stage, body)
        if body is None:
            raise CallValueError(explain("the schedule computes nothing", got="placeholders only"))
        return body

    def first_rows(self) -> dict[Operation, Stage]:
        """Computes that write the first rows of a scan directly: nothing else reads them."""
        users: dict[Operation, list[Stage]] = {}
        for stage in self.s.stages:
            for op in dict.fromkeys(t.op for t in stage.op.input_tensors):
                users.setdefault(op, []).append(stage)
        stages: dict[Operation, Stage] = {}
        for stage in self.s.stages:
            for tensor in stage.op.init if isinstance(stage.op, ScanOp) else ():
                own = next((s for s in self.s.stages if s.op is tensor.op), None)
                alone = users.get(tensor.op) == [stage] and isinstance(tensor.op, ComputeOp)
                if own is None or own.is_output or not alone or own.attach_type == INLINED:
                    continue
                if own.attach_spec.attach_type == GROUP_ROOT:
                    stages[tensor.op] = own
        return stages

    def pipeline(self, stage: Stage, consumer: st.Stmt | None) -> st.Stmt | None:
        """A stage, then what reads it."""
        make = self.makers.get(type(stage.op))
        if stage.attach_type == INLINED or make is None:
            return consumer
        body = make(stage)
        if stage.doubled:
            if stage.attach_spec.attach_type == GROUP_ROOT:
                what = f"double_buffer: {stage.origin_op.name} is computed once, for all"
                hint = "compute_at a loop of its consumer first"
                raise CallValueError(explain(what, instead=hint))
            body = st.AttrStmt(stage.op.output(0), "double_buffer_scope", const(1), body)
        body = st.seq(body, consumer)
        roll = self.roll(stage)
        if roll is not None:
            self.rolling.setdefault(roll.loop, []).append((stage, roll))
            return body
        return self.realized(stage, body)

    def with_rolling(self, v: IterVar, body: st.Stmt) -> st.Stmt:
        """The memory that is kept from one iteration of a loop to the next, around the loop."""
        for stage, roll in self.rolling.pop(v, ()):
            body = self.realized(stage, body, roll)
        return body

    def roll(self, stage: Stage) -> Roll | None:
        """How the parts of a rolling buffer overlap; None if they do not."""
        spec = stage.attach_spec
        v = spec.attach_ivar
        if not stage.rolls or spec.attach_type != SCOPE or v is None:
            return None
        ana, roll = Analyzer(), None
        for dim, axis in enumerate(stage.op.axis):
            dom = self.doms[axis]
            after = substitute(dom.min, {v.var: v.var + 1})
            step, size = ana.simplify(after - dom.min), ana.simplify(dom.extent)
            if is_const(step, 0):
                continue
            is_static = isinstance(step, IntImm) and isinstance(size, IntImm)
            if roll or not is_static or not 0 < int(step) < int(size):
                return None
            roll = Roll(dim, int(step), int(size), v)
        return roll

    def realized(self, stage: Stage, body: st.Stmt, roll: Roll | None = None) -> st.Stmt:
        """The memory of a stage's results around a statement; a scan has that of its updates."""
        op = stage.op
        if any(
            isinstance(s.op, ScanOp) and op in {t.op for t in s.op.update} for s in self.s.stages
        ):
            return body
        for n in reversed(range(op.num_outputs)):
            tensor = op.output(n)
            bounds = tuple(self.bounds(op, n))
            aligns = [
                (k, *attrs.align)
                for k, attrs in enumerate(map(stage.iter_var_attrs.get, op.axis))
                if attrs is not None and attrs.align is not None
            ]
            if roll is not None:
                rows = Range.upto(const(roll.size, bounds[roll.dim].extent.dtype))
                bounds = (*bounds[: roll.dim], rows, *bounds[roll.dim + 1 :])
            dim, true = -1 if roll is None else roll.dim, const(True, "bool")
            body = ProducerRealize(tensor, bounds, true, body, stage.scope, tuple(aligns), dim)
        return body

    def bounds(self, op: Operation, n: int) -> Iterable[Range]:
        """The part of a result that is computed."""
        if isinstance(op, ScanOp):
            dom = self.doms[op.scan_axis]
            rows = Range.from_min_extent(const(0, dom.min.dtype), dom.min + dom.extent)
            return (rows, *(self.doms[v] for v in op.spatial_axes(n)))
        if isinstance(op, (ComputeOp, TensorComputeOp)):
            return tuple(self.doms.get(a, a.dom) for a in op.axis)
        return tuple(Range.upto(e) for e in op.output(n).shape)

    def attached(self, stage: Stage, v: IterVar, body: st.Stmt) -> st.Stmt:
        """The stages computed at a loop, before its body."""
        for other in reversed(self.s.stages):
            spec = other.attach_spec
            at = spec.attach_type == SCOPE and spec.attach_ivar is v
            if at and spec.attach_stage is stage:
                body = self.pipeline(other, body) or body
        return body

    # -- loops ------------------------------------------------------------------------------------

    def loop(self, stage: Stage, v: IterVar, first: bool, nest: Nest) -> tuple[Wrap, PrimExpr]:
        """(what puts a loop around a statement, the value of its variable)"""
        attrs = stage.iter_var_attrs.get(v)
        thread = v if v.thread_tag else attrs.thread if attrs is not None else None
        if thread is not None and thread.thread_tag != "pipeline":
            return self.thread(stage, v, thread)
        dom = self.doms[v]
        low, kind = dom.min, st.ForKind.SERIAL
        notes: dict[str, Any] = {}
        if attrs is not None:
            kind = _KINDS.get(attrs.kind, kind)
        if attrs is not None and not first:
            notes = {f"pragma_{key}": value for key, value in attrs.pragmas}
            notes.update((f"prefetch_{t.op.name}", offset) for t, offset in attrs.prefetches)
        if is_const(dom.extent, 1) and not self.keep:

            def note(body: st.Stmt) -> st.Stmt:
                for key, value in notes.items():
                    body = st.AttrStmt(const(0, "int32"), key, value, body)
                return body

            return note, low
        name = f"{v.var.name}_init" if first else v.var.name
        var = Var(name, v.var.dtype) if first or not is_const(low, 0) else v.var

        def loop(body: st.Stmt) -> st.Stmt:
            size = substitute(dom.extent, nest.table())
            zero = const(0, var.dtype)
            return st.For(var, zero, size, kind, body, annotations=notes)

        return loop, var if is_const(low, 0) else low + var

    def thread(self, stage: Stage, v: IterVar, thread: IterVar) -> tuple[Wrap, PrimExpr]:
        dom, tag = self.doms[v], thread.thread_tag
        virtual = tag.startswith(("vthread", "cthread"))
        key = "virtual_thread" if virtual else "thread_extent"
        size = cast(thread.var.dtype, dom.extent)
        own = thread if thread.dom is not None else thread.replace(dom=Range.upto(size))
        own = own if own.var is thread.var else own.replace(var=thread.var)

        def wrap(body: st.Stmt) -> st.Stmt:
            return st.AttrStmt(own, key, size, body)

        var = cast(v.var.dtype, thread.var)
        shared = not stage.scope or scope_rank(stage.scope) <= thread_rank(tag)
        if virtual and not shared:
            what = f"{stage.op.name} has memory of its own in each virtual thread"
            hint = "compute_at a loop inside of the virtual thread"
            raise CallValueError(explain(what, got=f"scope {stage.scope}", instead=hint))
        warp = stage.scope == "warp" and tag == "threadIdx.x"
        alone = is_const(dom.extent, 1) and not self.keep
        return wrap, var if (shared or warp) and not alone else dom.min

    # -- operations -------------------------------------------------------------------------------

    def compute(self, stage: Stage) -> st.Stmt:
        op: Any = stage.op
        nest = Nest(self, stage, {})
        intrin = next(
            (n for n, v in enumerate(stage.leaf_iter_vars) if _tensorized(stage, v)), None
        )
        if intrin is not None:
            return self.tensorized(stage, nest, intrin)
        _no_thread_reduction(stage)
        for v in stage.leaf_iter_vars:
            nest.add(v)
        nest.done(self.doms)
        results = [op.output(n) for n in range(op.num_outputs)]
        at = tuple(a.var for a in op.axis)
        table = nest.table()
        tests = [*nest.tests(), *self.new_elements(stage)]
        if stage.store_predicate is not None:
            tests.append(cast("bool", stage.store_predicate))
        if not isinstance(op.body[0], Reduce):
            body = st.seq(*(ProducerStore(t, e, at) for t, e in zip(results, op.body, strict=True)))
            return nest.around(substitute(guarded(tests, body), table))
        first, update = _reduction(op.body[0], results, at)
        body = substitute(guarded(tests, update), table)
        begin, skip = self.reduction_starts(stage)
        start = self.first_values(nest, begin, skip, first)
        body = nest.around(body, begin)
        return nest.around(st.seq(start, body), 0, begin)

    def new_elements(self, stage: Stage) -> list[PrimExpr]:
        """What holds for the elements of a rolling buffer that are not there yet."""
        roll = self.roll(stage)
        if roll is None:
            return []
        axis, var = stage.op.axis[roll.dim], roll.loop.var
        past = const(roll.size - roll.step, axis.var.dtype)
        later = axis.var - self.doms[axis].min >= past
        return [logical_or(var < const(1, var.dtype), later)]

    def reduction_starts(self, stage: Stage) -> tuple[int, set[IterVar]]:
        """(the first loop of the reduction, the loops of nothing else)"""
        flags = {**dict.fromkeys(stage.op.axis, 1), **dict.fromkeys(stage.op.reduce_axis, 2)}
        or_down(stage, flags)
        leaves = stage.leaf_iter_vars
        begin = next((n for n, v in enumerate(leaves) if flags.get(v, 0) & 2), len(leaves))
        return begin, {v for v, flag in flags.items() if flag == 2}

    def first_values(
        self, nest: Nest, begin: int, skip: set[IterVar], body: st.Stmt, stop: int | None = None
    ) -> st.Stmt:
        """The first value of a reduction, in its own loops over the result from `begin` on."""
        stage = nest.stage
        leaves = stage.leaf_iter_vars
        init = Nest(self, stage, {v: nest.values[v] for v in leaves[:begin]})
        for v in leaves[begin:stop]:
            if v in skip:
                init.values[v] = v.var
            else:
                init.add(v, first=True)
        for v in leaves[stop:] if stop is not None else ():
            init.values[v] = nest.values[v]
        init.done(self.doms)
        tests = [*init.tests(whole=not stage.rolls, skip=skip), *self.new_elements(stage)]
        body = substitute(guarded(tests, body), init.table())
        for _, wrap in reversed(init.wraps):
            body = wrap(body)
        return body

    def tensor_compute(self, stage: Stage) -> st.Stmt:
        op: Any = stage.op
        nest = Nest(self, stage, {})
        for v in stage.leaf_iter_vars:
            nest.add(v)
        for v in op.axis[op.schedulable_ndim :]:
            nest.values[v] = v.var
        nest.done(self.doms)
        views = op.intrin.buffers
        regions = [*op.input_regions, op.region]
        binds = list(zip(views, (*op.inputs, op.output(0)), regions, strict=True))
        return self.in_steps(nest, op.intrin, binds, None, nest.tests())

    def tensorized(self, stage: Stage, nest: Nest, at: int) -> st.Stmt:
        """An intrinsic in place of the loops from `at` on."""
        leaves = stage.leaf_iter_vars
        for v in leaves[:at]:
            nest.add(v)
        for v in leaves[at:]:
            nest.values[v] = v.var
        part = Tensorized(stage, self.doms, at, nest.values)
        nest.done(self.doms)
        tests = nest.tests(skip=())
        inside = {v.var for v in leaves[at:]}
        for test in tests:
            if uses_any(test, inside):
                what = (
                    f"tensorize of {stage.origin_op.name}: the intrinsic would run beyond the end"
                )
                hint = "split by a factor of the extent"
                raise CallValueError(explain(what, got=f"where not {test}", instead=hint))
        attrs = stage.iter_var_attrs[leaves[at]]
        assert attrs.intrin is not None
        return self.in_steps(nest, attrs.intrin, part.binds(attrs.intrin), at, tests)

    def in_steps(
        self,
        nest: Nest,
        intrin: TensorIntrin,
        binds: list[Any],
        stop: int | None,
        tests: list[PrimExpr],
    ) -> st.Stmt:
        """An intrinsic on parts of tensors; a reduction around it begins with its reset, or with
        its body in place of the first update."""
        stage, table = nest.stage, nest.table()
        loops = stage.leaf_iter_vars[:stop]
        around = [v for v in loops if v.iter_type == IterVar.CommReduce]

        def bound(body: st.Stmt, views: list[Any]) -> st.Stmt:
            for view, tensor, region in reversed(views):
                body = BindBuffer(view, tensor, tuple(region), body)
            return body

        if not around:
            return nest.around(substitute(guarded(tests, bound(intrin.body, binds)), table))
        if intrin.update is None:
            what = f"{intrin.name} is used inside of a reduction, of which it does a part"
            hint = "fcompute returns (body, reset, update), or tensorize the whole reduction"
            got = "an intrinsic without reset or update"
            raise CallValueError(explain(what, got=got, instead=hint))
        update = bound(intrin.update, binds)
        if intrin.reset is None:
            later = const(False, "bool")
            for v in around:
                later = logical_or(later, likely(v.var > self.doms[v].min))
            update = st.IfThenElse(later, update, bound(intrin.body, binds))
            return nest.around(substitute(guarded(tests, update), table))
        begin, skip = self.reduction_starts(stage)
        reset = bound(intrin.reset, binds[-1:])
        start = self.first_values(nest, begin, skip, reset, len(loops))
        body = nest.around(substitute(guarded(tests, update), table), begin)
        return nest.around(st.seq(start, body), 0, begin)

    def extern(self, stage: Stage) -> st.Stmt:
        op: Any = stage.op
        body = op.body
        results = [op.output(n) for n in range(op.num_outputs)]
        pairs = [*zip(op.input_placeholders, op.inputs, strict=True)]
        pairs += zip(op.output_placeholders, results, strict=True)
        for view, tensor in reversed(pairs):
            region = tuple(Range.upto(e) for e in tensor.shape)
            body = BindBuffer(view, tensor, region, body)
        return body

    def hybrid(self, stage: Stage) -> st.Stmt:
        op: Any = stage.op
        return op.on_results()

    def scan(self, stage: Stage) -> st.Stmt:
        """The first rows; then the steps of the chain, row by row."""
        op: Any = stage.op
        nest = Nest(self, stage, {v: v.var for v in op.spatial_axis_})
        for v in stage.leaf_iter_vars:
            nest.add(v)
        nest.done(self.doms)
        at = next(n for n, v in enumerate(stage.leaf_iter_vars) if not v.thread_tag)
        rows, wrap = nest.wraps[at]
        steps: st.Stmt | None = None
        for other in reversed(self.s.stages):
            spec = other.attach_spec
            here = spec.attach_type == SCAN_UPDATE or spec.attach_ivar is rows
            if spec.attach_stage is stage and here:
                steps = self.pipeline(other, steps)
        assert steps is not None
        firsts = [self.first(op, n) for n in range(op.num_outputs)]
        body = self.with_rolling(rows, wrap(steps))
        return nest.around(st.seq(*firsts, body), 0, at)

    def first(self, op: ScanOp, n: int) -> st.Stmt:
        """The first rows of a result: computed there, or copied."""
        tensor, out = op.init[n], op.output(n)
        if tensor.op in self.firsts:
            return self.compute(self.firsts[tensor.op])
        axes = [Var(f"i{k}", e.dtype) for k, e in enumerate(tensor.shape)]
        body: st.Stmt = ProducerStore(out, ProducerLoad(tensor, axes), axes)
        for var, extent in zip(reversed(axes), reversed(tensor.shape), strict=True):
            body = st.For(var, const(0, var.dtype), extent, st.ForKind.SERIAL, body)
        return body


def _tensorized(stage: Stage, v: IterVar) -> bool:
    attrs = stage.iter_var_attrs.get(v)
    return attrs is not None and attrs.intrin is not None


def _no_thread_reduction(stage: Stage) -> None:
    bound = [v for v in stage.binds if v.iter_type == IterVar.CommReduce]
    if bound:
        what = f"a reduction of {stage.origin_op.name} over threads"
        hint = "rfactor it, and bind the axis of the parts"
        raise CallValueError(explain(what, got=bound[0].var.name, instead=hint))


def _reduction(first: Reduce, results: list[Tensor], at: tuple[Var, ...]) -> tuple[Any, st.Stmt]:
    """(the first values, the update) of a reduction."""
    combiner = first.combiner
    start = first.init or combiner.identity_element
    init = st.seq(*(ProducerStore(t, e, at) for t, e in zip(results, start, strict=True)))
    substitutions: dict[Any, Any] = dict(zip(combiner.lhs, (ProducerLoad(t, at) for t in results)))
    substitutions.update(zip(combiner.rhs, first.source, strict=True))
    values = [substitute(r, substitutions) for r in combiner.result]
    variables = [Var(f"v_{t.op.name}{n}", e.dtype) for n, (t, e) in enumerate(zip(results, values))]
    if len(results) == 1:
        update: st.Stmt = ProducerStore(results[0], values[0], at)
    else:  # all are computed before the first is stored
        update = st.seq(*(ProducerStore(t, v, at) for t, v in zip(results, variables, strict=True)))
        for var, value in zip(reversed(variables), reversed(values), strict=True):
            update = st.LetStmt(var, value, update)
    true = is_const(first.condition, 1)
    return init, update if true else st.IfThenElse(first.condition, update)


def schedule_ops(
    s: Stages, bounds: Mapping[IterVar, Range], debug_keep_trivial_loop: bool = False
) -> st.Stmt:
    """The statements of a schedule with the ranges that `infer_bound` found;
    `debug_keep_trivial_loop` keeps loops of one iteration."""
    return Emitter(s, bounds, debug_keep_trivial_loop).run()
