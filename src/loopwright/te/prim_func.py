"""From tensor expressions to TensorIR: one block for each operation, in the order of use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..base.errors import explain
from ..ir.functor import rewrite
from ..ir.prim_expr import ConstExpr, IterVar, PrimExpr, Range, Var
from ..ir.prim_op import const, subtract
from ..tir.analysis.access import get_block_read_write_region
from ..tir.analysis.bounds import mentions
from ..tir.buffer import Buffer, decl_buffer
from ..tir.expr import BufferLoad, ProducerLoad, Reduce
from ..tir.function import PrimFunc
from ..tir.index_dtype import with_index_dtype
from ..tir.op import if_then_else
from ..tir.stmt import Block, BlockRealize, BufferStore, For, ForKind, LetStmt, Stmt, seq
from ..tir.stmt_functor import substitute, substitute_buffers
from .scan import ScanOp
from .tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor
from .tidy import Tidy


def in_order(tensors: Iterable[Tensor]) -> list[Operation]:
    """The operations behind `tensors`, each after those it reads."""
    done: dict[Operation, None] = {}
    stack: list[tuple[Operation, bool]] = [(t.op, False) for t in reversed(list(tensors))]
    while stack:
        op, inputs_done = stack.pop()
        if op in done:
            continue
        if inputs_done:
            done[op] = None
            continue
        stack.append((op, True))
        inputs = op.input_tensors
        stack.extend((t.op, False) for t in reversed(inputs) if t.op not in done)
    return list(done)


class _Names:
    """Block names: the operation's, with _1, _2, ... where it was taken."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def fresh(self, name: str) -> str:
        made, n = name, 0
        while made in self.taken:
            n += 1
            made = f"{name}_{n}"
        self.taken.add(made)
        return made


class Builder:
    """Makes the PrimFunc of arguments; `buffers` says which buffer each tensor became."""

    def __init__(self, args: list[Any]) -> None:
        self.args = args
        self.ops = in_order(a for a in args if isinstance(a, Tensor))
        self.given = {a for a in args if isinstance(a, Tensor)}
        self.buffers: dict[Tensor, Buffer] = {}
        self.allocated: list[Buffer] = []
        self.names = _Names()
        self.names.fresh("root")
        self.attrs: dict[str, Any] = {}
        self.tidy = Tidy()

    def build(self, attrs: dict[str, Any]) -> PrimFunc:
        """The function."""
        self.bind_buffers()
        stmts = [s for s in (self.stmt(op) for op in self.ops) if s is not None]
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

    def root(self, stmts: list[Stmt]) -> Stmt:
        only = stmts[0] if len(stmts) == 1 else None
        if isinstance(only, BlockRealize) and not only.block.iter_vars:
            # As the outermost block it says nothing of its accesses.
            return only.replace(block=only.block.replace(reads=(), writes=()))
        block = Block((), (), (), "root", seq(*stmts), alloc_buffers=self.allocated)
        return BlockRealize((), const(True), block)

    def bind_buffers(self) -> None:
        """The buffer of each tensor: an extern's own view where it is a parameter, else new."""
        for op in self.ops:
            if isinstance(op, ExternOp):
                for tensor, view in zip(op.inputs, op.input_placeholders, strict=True):
                    if tensor in self.given and tensor not in self.buffers:
                        self.buffers[tensor] = view
                for n, view in enumerate(op.output_placeholders):
                    tensor = op.output(n)
                    if tensor in self.given or view.elem_offset is None:
                        self.buffers.setdefault(tensor, view)
        for op in self.ops:
            for n in range(op.num_outputs):
                tensor = op.output(n)
                if tensor not in self.buffers:
                    self.buffers[tensor] = decl_buffer(tensor.shape, tensor.dtype, tensor.name)
                if tensor in self.given:
                    continue
                if isinstance(op, PlaceholderOp):
                    what = f"the placeholder {op.name} is read but is no argument"
                    hint = "list every input among the arguments of create_prim_func"
                    raise ValueError(explain(what, got=self.args, instead=hint))
                self.allocated.append(self.buffers[tensor])

    def stmt(self, op: Operation) -> Stmt | None:
        if isinstance(op, PlaceholderOp):
            return None
        if isinstance(op, ComputeOp):
            return self.compute(op)
        if isinstance(op, ExternOp):
            return self.extern(op)
        if isinstance(op, ScanOp):
            return self.scan(op)
        what = "create_prim_func knows placeholder, compute, scan and extern"
        raise TypeError(explain(what, got=type(op).__name__))

    def extern(self, op: ExternOp) -> Stmt:
        views = zip(op.input_placeholders, op.inputs, strict=True)
        outs = zip(op.output_placeholders, (op.output(n) for n in range(op.num_outputs)))
        bmap = {view: self.buffers[t] for view, t in (*views, *outs)}
        bmap = {view: made for view, made in bmap.items() if view is not made}
        body = op.body
        if bmap:
            moved = {
                v.elem_offset: const(0, v.elem_offset.dtype)
                for v, b in bmap.items()
                if isinstance(v.elem_offset, Var) and b.elem_offset is None
            }
            body = substitute_buffers(body, bmap, moved)
        notes = {k: v for k, v in op.attrs.items() if k != "layout_free_placeholders"}
        block = Block((), (), (), self.names.fresh(op.name), body, annotations=notes)
        own = {b.data: b for b in (self.buffers[t] for t in self.buffers)}
        return BlockRealize((), const(True), _with_regions(block, own))

    def scan(self, op: ScanOp) -> Stmt:
        """The first rows are copied; then every operation of the chain computes a row."""
        results = [self.buffers[op.output(n)] for n in range(op.num_outputs)]
        rows = Var("t", op.state_placeholder[0].shape[0].dtype)
        stmts = []
        for first, result in zip(op.init, results, strict=True):
            axes = [IterVar(Range(0, e), Var(f"i{n}", e.dtype)) for n, e in enumerate(first.shape)]
            read = ProducerLoad(first, [a.var for a in axes])
            copy = ComputeOp(f"{op.name}_init", "", {}, axes, [read])
            self.buffers[copy.output(0)] = result
            stmts.append(self.nest(copy, axes, {}, {}, copy.name))
        for state, update, result in zip(op.state_placeholder, op.update, results, strict=True):
            self.buffers[state] = self.buffers[update] = result
        body = seq(*(self.row(step, rows) for step in op.chain))
        start, end = op.init[0].shape[0], op.state_placeholder[0].shape[0]
        loop = For(rows, start, subtract(end, start), ForKind.SERIAL, body)
        return seq(*stmts, loop)

    def row(self, op: ComputeOp, rows: Var) -> Stmt:
        """One row of an operation that a scan runs step by step."""
        for n in range(op.num_outputs):
            tensor = op.output(n)
            if tensor not in self.buffers:
                self.buffers[tensor] = decl_buffer(tensor.shape, tensor.dtype, tensor.name)
                self.allocated.append(self.buffers[tensor])
        head, *rest = (*op.axis, *op.reduce_axis)
        time = IterVar(self.dom(head, {}), _named(head), IterVar.Ordered)
        loops, axes, values = self.axes(rest, {head.var: time.var})
        bindings = [rows, *loops]
        body = self.realize(op, [time, *axes], bindings, values, dict(op.attrs), op.name)
        return self.loops(loops, rest, {}, body)

    def elements(self, expr: PrimExpr, values: dict[Var, PrimExpr]) -> PrimExpr:
        """Tensor reads as buffer reads, the operation's axes as the block's."""
        if isinstance(expr, ConstExpr):
            return expr
        if isinstance(expr, Var):
            return values.get(expr, expr)

        def post(node: Any) -> Any:
            if isinstance(node, ProducerLoad):
                producer: Any = node.producer  # a te.Tensor
                return BufferLoad._make(self.buffers[producer], node.indices, None)
            return values.get(node) if isinstance(node, Var) else None

        return self.tidy(rewrite(expr, post))

    def compute(self, op: ComputeOp) -> Stmt:
        notes = dict(op.attrs)
        free = notes.pop("layout_free_placeholders", None)
        if free:
            positions = [n for n, a in enumerate(self.args) if any(a is t for t in free)]
            self.attrs["layout_free_buffers"] = positions
        axes = (*op.axis, *op.reduce_axis)
        own = {a.var for a in axes}
        outer = [a for a in axes if not _depends(a, own)]
        inner = [a for a in axes if _depends(a, own)]
        if not inner:
            return self.nest(op, list(axes), {}, notes, op.name)
        return self.nested(op, outer, inner, notes)

    def nested(
        self, op: ComputeOp, outer: list[IterVar], inner: list[IterVar], notes: dict[str, Any]
    ) -> Stmt:
        """Axes whose extent depends on other axes run in a block inside that of the others."""
        loops, axes, values = self.axes(outer, {})
        points = [
            IterVar(Range.from_min_extent(a.var, const(1, a.var.dtype)), _named(b), b.iter_type)
            for a, b in zip(axes, outer, strict=True)
        ]
        where: dict[Var, PrimExpr] = {b.var: p.var for b, p in zip(outer, points, strict=True)}
        name = self.names.fresh(f"{op.name}_l1")
        inner_loops, made, _ = self.axes(inner, values)
        where.update({b.var: m.var for b, m in zip(inner, made, strict=True)})
        body = self.realize(
            op, [*points, *made], [*(a.var for a in axes), *inner_loops], where, notes, op.name
        )
        body = self.loops(inner_loops, inner, values, body)
        block = _with_regions(Block(axes, (), (), name, body), {})
        return self.loops(loops, outer, {}, BlockRealize(loops, const(True), block))

    def nest(
        self, op: ComputeOp, axes: list[IterVar], values: Any, notes: dict[str, Any], name: str
    ) -> Stmt:
        if not axes:  # a 0-d result still has an axis, bound to 0
            axis = IterVar(Range(0, 1), Var("vi", "int32"), IterVar.DataPar)
            return self.realize(op, [axis], [const(0, "int32")], {}, notes, name)
        loops, made, values = self.axes(axes, {})
        body = self.realize(op, made, loops, values, notes, name)
        return self.loops(loops, axes, {}, body)

    def axes(
        self, axes: list[IterVar], values: dict[Var, Any]
    ) -> tuple[list[Var], list[IterVar], dict[Var, PrimExpr]]:
        """(loop variables, block axes, what each te axis is within the block)"""
        loops = [Var(a.var.name, a.var.dtype) for a in axes]
        made = [IterVar(self.dom(a, values), _named(a), a.iter_type) for a in axes]
        inside = {a.var: m.var for a, m in zip(axes, made, strict=True)}
        return loops, made, {**values, **inside}

    def dom(self, axis: IterVar, values: dict[Var, Any]) -> Range:
        low, size = axis.dom.min, axis.dom.extent
        return Range.from_min_extent(self.elements(low, values), self.elements(size, values))

    def loops(self, loops: list[Var], axes: list[IterVar], values: Any, body: Stmt) -> Stmt:
        for var, axis in zip(reversed(loops), reversed(axes), strict=True):
            dom = self.dom(axis, values)
            body = For(var, dom.min, dom.extent, ForKind.SERIAL, body)
        return body

    def realize(
        self,
        op: ComputeOp,
        axes: list[IterVar],
        bindings: list[Any],
        values: dict[Var, PrimExpr],
        notes: dict[str, Any],
        name: str,
    ) -> Stmt:
        at = [values[a.var] for a in op.axis]
        if isinstance(op.body[0], Reduce):
            init, body = self.reduction(op, op.body[0], at, values)
            block = Block(axes, (), (), self.names.fresh(name), body, init, annotations=notes)
            return BlockRealize(bindings, const(True), _with_regions(block, {}))
        made = []
        for n, expr in enumerate(op.body):
            tensor = op.output(n)
            if n:  # each result's block has axes of its own
                renewed = [IterVar(a.dom, _copy(a.var), a.iter_type) for a in axes]
                pairs = zip(axes, renewed, strict=True)
                fresh: dict[PrimExpr, PrimExpr] = {a.var: r.var for a, r in pairs}
                mine = {te: fresh.get(v, v) for te, v in values.items()}
            else:
                renewed, mine = axes, values
            at = [mine[a.var] for a in op.axis]
            store = BufferStore(self.buffers[tensor], self.elements(expr, mine), at)
            label = self.names.fresh(name if len(op.body) == 1 else tensor.name)
            block = Block(renewed, (), (), label, store, annotations=notes)
            made.append(BlockRealize(bindings, const(True), _with_regions(block, {})))
        return seq(*made)

    def reduction(
        self, op: ComputeOp, first: Reduce, at: list[PrimExpr], values: dict[Var, PrimExpr]
    ) -> tuple[Stmt, Stmt]:
        """(init, update) of a reduction block."""
        combiner = first.combiner
        outs = [self.buffers[op.output(n)] for n in range(op.num_outputs)]
        start = first.init or combiner.identity_element
        init = seq(
            *(
                BufferStore(b, self.elements(e, values), at)
                for b, e in zip(outs, start, strict=True)
            )
        )
        current = [BufferLoad(b, at) for b in outs]
        terms = [self.elements(e, values) for e in first.source]
        condition = self.elements(first.condition, values)
        neutral = combiner.identity_element
        terms = [if_then_else(condition, t, e) for t, e in zip(terms, neutral, strict=True)]
        known: dict[Any, Any] = dict(zip(combiner.lhs, current, strict=True))
        known.update(zip(combiner.rhs, terms, strict=True))
        results = [substitute(r, known) for r in combiner.result]
        if len(outs) == 1:
            return init, BufferStore(outs[0], results[0], at)
        # All results are computed before the first is stored.
        held = [Var(f"v_{b.name}", r.dtype) for b, r in zip(outs, results, strict=True)]
        body = seq(*(BufferStore(b, v, at) for b, v in zip(outs, held, strict=True)))
        for var, value in zip(reversed(held), reversed(results), strict=True):
            body = LetStmt(var, value, body)
        return init, body


def _depends(axis: IterVar, own: set[Var]) -> bool:
    return mentions(axis.dom.min, own) or mentions(axis.dom.extent, own)


def _named(axis: IterVar) -> Var:
    return Var(f"v_{axis.var.name}", axis.var.dtype)


def _copy(var: Var) -> Var:
    return Var(var.name, var.dtype)


def _with_regions(block: Block, pointers: dict[Var, Buffer]) -> Block:
    reads, writes = get_block_read_write_region(block, pointers)
    return block.replace(reads=tuple(reads), writes=tuple(writes))


def _arguments(ops: Any) -> list[Any]:
    args = [ops] if isinstance(ops, (Tensor, Var)) else list(ops)
    for arg in args:
        if not isinstance(arg, (Tensor, Var)):
            what = "create_prim_func takes tensors and variables"
            raise TypeError(explain(what, got=type(arg).__name__))
    return args


def create_prim_func(ops: Any, index_dtype_override: str | None = None) -> PrimFunc:
    """The PrimFunc of `ops`, its parameters: all inputs and results, and variables.

    Every operation becomes a block inside its loops; what is no parameter is allocated. With
    `index_dtype_override` ("int64") the function counts in that type.
    """
    attrs = {"global_symbol": "main", "tir.noalias": True}
    func = Builder(_arguments(ops)).build(attrs)
    return func if index_dtype_override is None else with_index_dtype(func, index_dtype_override)


def create_relax_prim_func(
    inputs_outputs: Any,
    tir_var_list: Iterable[Var] | None = None,
    index_dtype_override: str | None = "int64",
) -> PrimFunc:
    """The private PrimFunc of a call from a graph: counts in int64, takes `tir_var_list` as
    parameters after the buffers."""
    args = [*_arguments(inputs_outputs), *(tir_var_list or ())]
    func = Builder(args).build({"tir.noalias": True})
    return func if index_dtype_override is None else with_index_dtype(func, index_dtype_override)


__all__ = ["create_prim_func", "create_relax_prim_func", "in_order"]
