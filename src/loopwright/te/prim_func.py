"""Converts tensor expressions to TensorIR: one block per operation, in order of use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..base.errors import CallValueError, explain
from ..base.names import free_name
from ..ir.functor import rewrite
from ..ir.prim_expr import ConstExpr, IterVar, PrimExpr, Range, Var
from ..ir.prim_op import cast, const, multiply
from ..ir.variables import uses_any
from ..tir import stmt as st
from ..tir.analysis.access import get_block_read_write_region
from ..tir.buffer import Buffer, decl_buffer
from ..tir.expr import BufferLoad, ProducerLoad, Reduce
from ..tir.function import PrimFunc
from ..tir.index_dtype import with_index_dtype
from ..tir.op import if_then_else
from ..tir.stmt_functor import substitute, substitute_buffers
from .tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor
from .tidy import Tidy

if TYPE_CHECKING:
    from ..ir.node import Node


def in_order(tensors: Iterable[Tensor]) -> list[Operation]:
    """The operations behind `tensors`, each after its inputs."""
    return ordered([t.op for t in tensors], lambda op: op.computed_before)


def ordered(
    ops: Sequence[Operation], before: Callable[[Operation], Sequence[Tensor]]
) -> list[Operation]:
    """The operations behind some, each after those of the tensors `before` it. Raises ValueError for a
    cycle."""
    done: dict[Operation, None] = {}
    begun: set[Operation] = set()
    stack: list[tuple[Operation, bool]] = [(op, False) for op in reversed(ops)]
    while stack:
        op, inputs_done = stack.pop()
        if op in done:
            continue
        if inputs_done:
            done[op] = None
            continue
        if op in begun:
            what = f"{op.name} is computed from itself"
            raise CallValueError(explain(what, got="a cycle of operations", instead="te.scan"))
        begun.add(op)
        stack.append((op, True))
        stack.extend((t.op, False) for t in reversed(before(op)) if t.op not in done)
    return list(done)


class _Names:
    """Unique block names: the operation's, with _1, _2, ... appended if it is in use."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def fresh(self, name: str) -> str:
        unique = free_name(name, self.used)
        self.used.add(unique)
        return unique


class Builder:
    """Builds the PrimFunc of arguments; `buffers` maps tensors to buffers."""

    def __init__(self, args: list[Any]) -> None:
        self.args = args
        self.rows: dict[Tensor, Var] = {}
        self.ops = in_order(a for a in args if isinstance(a, Tensor))
        self.arguments = {a for a in args if isinstance(a, Tensor)}
        self.buffers: dict[Tensor, Buffer] = {}
        self.allocated: list[Buffer] = []
        self.names = _Names()
        self.names.fresh("root")
        self.attrs: dict[str, Any] = {}
        self.tidy = Tidy()

    def build(self, attrs: dict[str, Any]) -> PrimFunc:
        """The function."""
        self.bind_buffers()
        stmts = [s for op in self.ops for s in self.stmts(op)]
        if not stmts:
            raise ValueError(explain("create_prim_func got no tensor to compute", got=self.args))
        params, buffer_map = [], {}
        for arg in self.args:
            if isinstance(arg, Var):
                params.append(arg)
                continue
            buffer = self.buffers[arg]
            param = Var(f"var_{buffer.name}", "handle")
            params.append(param)
            buffer_map[param] = buffer
        return PrimFunc(params, self.root(stmts), None, buffer_map, {**attrs, **self.attrs})

    def root(self, stmts: list[st.Stmt]) -> st.Stmt:
        only = stmts[0] if len(stmts) == 1 else None
        if isinstance(only, st.BlockRealize) and not only.block.iter_vars:
            # As the outermost block it declares no accesses.
            return only.replace(block=only.block.replace(reads=(), writes=()))
        block = st.Block((), (), (), "root", st.seq(*stmts), alloc_buffers=self.allocated)
        return st.BlockRealize((), const(True), block)

    def bind_buffers(self) -> None:
        """The buffer of each tensor: an extern's own view if it is a parameter, else a new one; a
        view that several externs share is that of one tensor."""
        bound: set[Buffer] = set()

        def take(tensor: Tensor, view: Buffer) -> None:
            if tensor not in self.buffers and view not in bound:
                self.buffers[tensor] = view
                bound.add(view)

        for op in self.ops:
            if isinstance(op, ExternOp):
                for tensor, view in zip(op.inputs, op.input_placeholders, strict=True):
                    if tensor in self.arguments:
                        take(tensor, view)
                for n, view in enumerate(op.output_placeholders):
                    tensor = op.output(n)
                    if tensor in self.arguments or view.elem_offset is None:
                        take(tensor, view)
        for op in self.ops:
            for n in range(op.num_outputs):
                tensor = op.output(n)
                if tensor not in self.buffers:
                    self.buffers[tensor] = self.declare(tensor)
                if tensor in self.arguments:
                    continue
                if isinstance(op, PlaceholderOp):
                    what = f"the placeholder {op.name} is read but is not an argument"
                    hint = "list every input among the arguments of create_prim_func"
                    raise ValueError(explain(what, got=self.args, instead=hint))
                self.allocated.append(self.buffers[tensor])

    def declare(self, tensor: Tensor) -> Buffer:
        shape = tensor.shape[1:] or (1,) if tensor in self.rows else tensor.shape
        name = tensor.name.replace(".", "_")
        return decl_buffer(shape, tensor.dtype, name, scope="global")

    def stmts(self, op: Operation) -> list[st.Stmt]:
        if isinstance(op, PlaceholderOp):
            return []
        if isinstance(op, ComputeOp):
            return [self.compute(op)]
        if isinstance(op, ExternOp):
            return [self.extern(op)]
        return [op.blocks(self)]

    def extern(self, op: ExternOp) -> st.Stmt:
        views = zip(op.input_placeholders, op.inputs, strict=True)
        outs = zip(op.output_placeholders, (op.output(n) for n in range(op.num_outputs)))
        bmap = {view: self.buffers[t] for view, t in (*views, *outs)}
        bmap = {view: buffer for view, buffer in bmap.items() if view is not buffer}
        body = op.body
        if bmap:
            moved = {var: value for v, b in bmap.items() for var, value in _layout(v, b)}
            body = substitute_buffers(body, bmap, moved)
        notes = {k: v for k, v in op.attrs.items() if k != "layout_free_placeholders"}
        block = st.Block((), (), (), self.names.fresh(op.name), body, annotations=notes)
        own = {b.data: b for b in (self.buffers[t] for t in self.buffers)}
        return st.BlockRealize((), const(True), with_regions(block, own))

    def elements(self, expr: PrimExpr, values: dict[Var, PrimExpr]) -> PrimExpr:
        """Tensor reads as buffer loads, the operation's axes as the block's."""
        if isinstance(expr, ConstExpr):
            return expr
        if isinstance(expr, Var):
            return values.get(expr, expr)

        def post(node: Node) -> Any:
            if isinstance(node, ProducerLoad):
                producer: Any = node.producer  # a te.Tensor
                at = self.element(producer, node.indices)
                return BufferLoad._make(self.buffers[producer], at, None)
            return values.get(node) if isinstance(node, Var) else None

        return self.tidy(rewrite(expr, post))

    def element(self, tensor: Tensor, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        """The indices of an element; a tensor that a scan computes row by row has no row
        dimension."""
        time = self.rows.get(tensor)
        if time is None:
            return tuple(indices)
        if indices[0] is not time:
            what = f"a scan reads another row of {tensor.op.name} than the one it computes"
            hint = "read rows before from the state"
            raise ValueError(explain(what, got=f"row {indices[0]}", instead=hint))
        return tuple(indices[1:]) or (const(0, time.dtype),)

    def compute(self, op: ComputeOp) -> st.Stmt:
        notes = dict(op.attrs)
        free = notes.pop("layout_free_placeholders", None)
        if free:
            positions = [n for n, a in enumerate(self.args) if any(a is t for t in free)]
            free_buffers = self.attrs.setdefault("layout_free_buffers", [])
            free_buffers += [n for n in positions if n not in free_buffers]
            inner = [self.buffers[t] for t in free if t not in self.arguments]
            if inner:
                notes["layout_free_placeholders"] = inner
        axes = (*op.axis, *op.reduce_axis)
        own = {a.var for a in axes}
        outer = [a for a in axes if not _depends(a, own)]
        inner = [a for a in axes if _depends(a, own)]
        if not inner:
            return self.nest(op, list(axes), {}, notes, op.name)
        return self.nested(op, outer, inner, notes)

    def nested(
        self, op: ComputeOp, outer: list[IterVar], inner: list[IterVar], notes: dict[str, Any]
    ) -> st.Stmt:
        """Axes whose extent depends on other axes run in a block inside the others' block."""
        loops, axes, values = self.axes(outer, {})
        points = [
            IterVar(Range.from_min_extent(a.var, const(1, a.var.dtype)), _named(b), b.iter_type)
            for a, b in zip(axes, outer, strict=True)
        ]
        where: dict[Var, PrimExpr] = {b.var: p.var for b, p in zip(outer, points, strict=True)}
        name = self.names.fresh(f"{op.name}_l1")
        inner_loops, inner_axes, _ = self.axes(inner, values)
        where.update({b.var: m.var for b, m in zip(inner, inner_axes, strict=True)})
        body = self.realize(
            op,
            [*points, *inner_axes],
            [*(a.var for a in axes), *inner_loops],
            where,
            notes,
            op.name,
        )
        body = self.loops(inner_loops, inner, values, body)
        block = with_regions(st.Block(axes, (), (), name, body), {})
        return self.loops(loops, outer, {}, st.BlockRealize(loops, const(True), block))

    def nest(
        self,
        op: ComputeOp,
        axes: list[IterVar],
        values: dict[Any, Any],
        notes: dict[str, Any],
        name: str,
    ) -> st.Stmt:
        if not axes:  # a 0-d result still has an axis, bound to 0
            axis = IterVar(Range(0, 1), Var("vi", "int32"), IterVar.DataPar)
            return self.realize(op, [axis], [const(0, "int32")], values, notes, name)
        loops, bound, inside = self.axes(axes, values)
        body = self.realize(op, bound, loops, inside, notes, name)
        return self.loops(loops, axes, values, body)

    def axes(
        self, axes: list[IterVar], values: dict[Var, Any]
    ) -> tuple[list[Var], list[IterVar], dict[Var, PrimExpr]]:
        """(loop variables, block axes, the value of each te axis within the block)"""
        loops = [Var(a.var.name, a.var.dtype) for a in axes]
        block_axes = [IterVar(self.dom(a, values), _named(a), a.iter_type) for a in axes]
        inside = {a.var: m.var for a, m in zip(axes, block_axes, strict=True)}
        return loops, block_axes, {**values, **inside}

    def dom(self, axis: IterVar, values: dict[Var, Any]) -> Range:
        low, size = axis.dom.min, axis.dom.extent
        return Range.from_min_extent(self.elements(low, values), self.elements(size, values))

    def loops(
        self, loops: list[Var], axes: list[IterVar], values: dict[Any, Any], body: st.Stmt
    ) -> st.Stmt:
        for var, axis in zip(reversed(loops), reversed(axes), strict=True):
            dom = self.dom(axis, values)
            body = st.For(var, dom.min, dom.extent, st.ForKind.SERIAL, body)
        return body

    def realize(
        self,
        op: ComputeOp,
        axes: list[IterVar],
        bindings: list[Any],
        values: dict[Var, PrimExpr],
        notes: dict[str, Any],
        name: str,
    ) -> st.Stmt:
        name = name.replace(".", "_")
        at = self.element(op.output(0), [values[a.var] for a in op.axis])
        if isinstance(op.body[0], Reduce):
            init, body = self.reduction(op, op.body[0], at, values)
            block = st.Block(axes, (), (), self.names.fresh(name), body, init, annotations=notes)
            return st.BlockRealize(bindings, const(True), with_regions(block, {}))
        blocks = []
        for n, expr in enumerate(op.body):
            tensor = op.output(n)
            if n:  # each result's block has its own axes
                renewed = [IterVar(a.dom, _copy(a.var), a.iter_type) for a in axes]
                pairs = zip(axes, renewed, strict=True)
                fresh: dict[PrimExpr, PrimExpr] = {a.var: r.var for a, r in pairs}
                fresh_values = {te: fresh.get(v, v) for te, v in values.items()}
            else:
                renewed, fresh_values = axes, values
            at = self.element(tensor, [fresh_values[a.var] for a in op.axis])
            store = st.BufferStore(self.buffers[tensor], self.elements(expr, fresh_values), at)
            label = self.names.fresh(name if len(op.body) == 1 else tensor.name)
            block = st.Block(renewed, (), (), label, store, annotations=notes)
            blocks.append(st.BlockRealize(bindings, const(True), with_regions(block, {})))
        return st.seq(*blocks)

    def reduction(
        self, op: ComputeOp, first: Reduce, at: tuple[PrimExpr, ...], values: dict[Var, PrimExpr]
    ) -> tuple[st.Stmt, st.Stmt]:
        """(init, update) of a reduction block."""
        combiner = first.combiner
        outs = [self.buffers[op.output(n)] for n in range(op.num_outputs)]
        start = first.init or combiner.identity_element
        init = st.seq(
            *(
                st.BufferStore(b, self.elements(e, values), at)
                for b, e in zip(outs, start, strict=True)
            )
        )
        current = [BufferLoad(b, at) for b in outs]
        terms = [self.elements(e, values) for e in first.source]
        condition = self.elements(first.condition, values)
        neutral = combiner.identity_element
        terms = [if_then_else(condition, t, e) for t, e in zip(terms, neutral, strict=True)]
        operands: dict[Any, Any] = dict(zip(combiner.lhs, current, strict=True))
        operands.update(zip(combiner.rhs, terms, strict=True))
        results = [substitute(r, operands) for r in combiner.result]
        if len(outs) == 1:
            return init, st.BufferStore(outs[0], results[0], at)
        # All results are computed before the first is stored.
        bound_results = [Var(f"v_{b.name}", r.dtype) for b, r in zip(outs, results, strict=True)]
        body = st.seq(*(st.BufferStore(b, v, at) for b, v in zip(outs, bound_results, strict=True)))
        for var, value in zip(reversed(bound_results), reversed(results), strict=True):
            body = st.LetStmt(var, value, body)
        return init, body


def _layout(view: Buffer, buffer: Buffer) -> Iterator[tuple[Var, PrimExpr]]:
    """The values of a view's offset and strides, if it is a whole compact buffer."""
    if isinstance(view.elem_offset, Var) and buffer.elem_offset is None:
        yield view.elem_offset, const(0, view.elem_offset.dtype)
    if buffer.strides:
        return
    step: PrimExpr = const(1, "int32")
    for stride, extent in reversed(list(zip(view.strides, buffer.shape, strict=False))):
        if isinstance(stride, Var):
            yield stride, cast(stride.dtype, step)
        step = multiply(step, extent)


def _depends(axis: IterVar, own: set[Var]) -> bool:
    return uses_any(axis.dom, own)


def _named(axis: IterVar) -> Var:
    return Var(f"v_{axis.var.name}", axis.var.dtype)


def _copy(var: Var) -> Var:
    return Var(var.name, var.dtype)


def with_regions(block: st.Block, pointers: dict[Var, Buffer]) -> st.Block:
    """The block with the regions that its body accesses. pointers: the buffers of data variables."""
    reads, writes = get_block_read_write_region(block, pointers)
    return block.replace(reads=tuple(reads), writes=tuple(writes))


def _arguments(ops: Sequence[PrimExpr | Tensor]) -> list[Any]:
    args = [ops] if isinstance(ops, (Tensor, Var)) else list(ops)
    for arg in args:
        if not isinstance(arg, (Tensor, Var)):
            what = "create_prim_func takes tensors and variables"
            raise TypeError(explain(what, got=type(arg).__name__))
    return args


def create_prim_func(
    ops: Sequence[PrimExpr | Tensor], index_dtype_override: str | None = None
) -> PrimFunc:
    """The PrimFunc of `ops`, its parameters: all inputs and results, and variables.

    Every operation becomes a block inside its loops; tensors that are not parameters are allocated.
    With `index_dtype_override` ("int64") indices have that type.
    """
    attrs = {"global_symbol": "main", "tir.noalias": True}
    func = Builder(_arguments(ops)).build(attrs)
    return func if index_dtype_override is None else with_index_dtype(func, index_dtype_override)


def create_relax_prim_func(
    inputs_outputs: Sequence[Tensor],
    tir_var_list: Iterable[Var] | None = None,
    index_dtype_override: str | None = "int64",
) -> PrimFunc:
    """The private PrimFunc of a call from a graph: with int64 indices and `tir_var_list` as
    parameters after the buffers."""
    args = [*_arguments(inputs_outputs), *(tir_var_list or ())]
    func = Builder(args).build({"tir.noalias": True})
    return func if index_dtype_override is None else with_index_dtype(func, index_dtype_override)
