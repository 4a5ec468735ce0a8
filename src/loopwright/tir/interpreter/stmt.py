"""Translation of statements: one Python function for a PrimFunc."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import numpy_dtype
from ...ir.functor import any_node, nodes_of
from ...ir.op import Op
from ...ir.prim_expr import Call, IntImm, IterVar, Let, PrimExpr, Range, Var
from ...ir.prim_op import const
from .. import stmt as st
from ..buffer import Buffer
from ..function import PrimFunc
from . import lanes, meaning, threads
from .calls import CallTranslator
from .expr import NEVER, ViewInfo, int_of

_LOOPS_PER_FUNCTION = 15  # CPython allows 20 nested loops in one function


class StmtTranslator(CallTranslator):
    """Emits the lines of the Python function; nested lists are filled in later."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Any] = []
        self.indent = " "
        self.returns = False
        self.shared: set[Var] = set()  # memory shared between threads

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def slot(self) -> list[Any]:
        """A placeholder for lines emitted later."""
        checks: list[Any] = []
        self.lines.append(checks)
        return checks

    def body(self, stmt: st.Stmt) -> None:
        """A nested suite."""
        outer, before = self.indent, len(self.lines)
        self.indent += " "
        self.stmt(stmt)
        if not any(isinstance(line, str) for line in self.lines[before:]):
            self.line("pass")
        self.indent = outer

    def stmt(self, stmt: st.Stmt) -> None:
        rule = _RULES.get(type(stmt))
        if rule is None:
            what = "the interpreter cannot run this statement"
            raise LoopwrightError(explain(what, got=type(stmt).__name__, span=stmt.span))
        rule(self, stmt)

    # -- loops ---------------------------------------------------------------------------------

    def loop(self, header: str, var: str | None, inner: Callable[[], None]) -> None:
        """A loop and its body; the body may hoist lines before the header."""
        if self.depth and self.depth % _LOOPS_PER_FUNCTION == 0:
            name = self.fresh("part")
            self.line(f"def {name}():")
            outer = self.indent
            self.indent += " "
            self.open_loop(header, inner)
            self.indent = outer
            self.line(f"{name}()")
            return
        self.open_loop(header, inner)

    def open_loop(self, header: str, inner: Callable[[], None]) -> None:
        self.hoists.append((self.slot(), self.indent, {}))
        self.line(header)
        self.depth += 1
        outer, before = self.indent, len(self.lines)
        self.indent += " "
        inner()
        if not any(isinstance(line, str) for line in self.lines[before:]):
            self.line("pass")
        self.indent = outer
        self.depth -= 1
        self.hoists.pop()

    def iterate(self, var: Var, low: PrimExpr, size: PrimExpr, body: st.Stmt) -> None:
        if int_of(size) == 1:
            self.define(var, low)
            self.stmt(body)
            return
        name = self.fresh(var.name)
        if int_of(low) == 0:
            header = f"for {name} in range({self.scalar(size)}):"
        else:
            first = self.scalar(low)
            header = f"for {name} in range({first}, {first} + {self.scalar(size)}):"
        self.analyzer.bind(var, Range.from_min_extent(low, size))
        self.ranges[var] = (low, size)

        def inner() -> None:
            self.vars[var] = (name, self.depth)
            self.stmt(body)

        self.loop(header, name, inner)

    def for_loop(self, node: st.For) -> None:
        self.iterate(node.loop_var, node.min, node.extent, node.body)

    def while_loop(self, node: st.While) -> None:
        # The condition is evaluated in each iteration, so no part of it may be hoisted.
        def inner() -> None:
            self.line(f"if not {self.scalar(node.condition)}: break")
            self.stmt(node.body)

        self.loop("while True:", None, inner)

    # -- definitions ---------------------------------------------------------------------------

    def define(self, var: Var, value: PrimExpr) -> None:
        """`var = value`, without a Python variable if the value is a name or a literal."""
        text = self.value(value)
        if value.dtype.is_handle:
            self.define_pointer(var, text)
            return
        simple = text.isidentifier() or text.isdigit()
        if self.is_index(value):
            self.analyzer.bind(var, value)
            if isinstance(value, Var) and value in self.ranges:
                self.ranges[var] = self.ranges[value]
        if simple:
            self.vars[var] = (text, self.depth_of(value) if self.is_index(value) else self.depth)
            return
        name = self.fresh(var.name)
        self.line(f"{name} = {text}")
        self.vars[var] = (name, self.depth)

    def define_pointer(self, var: Var, text: str) -> None:
        name = self.fresh(f"p_{var.name}")
        self.line(f"{name} = {text}")
        self.pointers[var] = (name, self.slot(), self.indent)

    def let(self, node: Let | st.LetStmt) -> Any:
        if not isinstance(node, st.LetStmt):
            return super().let(node)
        self.define(node.var, node.value)
        self.stmt(node.body)
        return None

    def alloc(self, var: Var, dtype: str, extents: Sequence[PrimExpr], lanes: int = 1) -> None:
        sizes = [self.scalar(e) for e in extents] + ([str(lanes)] if lanes > 1 else [])
        size = " * ".join(sizes) or "1"
        self.define_pointer(var, f"{self.helper(meaning.allocate)}({str(dtype)!r}, {size})")

    def allocate(self, node: st.Allocate) -> None:
        if node.buffer_var not in self.shared:
            self.alloc(node.buffer_var, node.dtype.element, node.extents, node.dtype.lanes)
        self.stmt(node.body)

    def allocate_const(self, node: st.AllocateConst) -> None:
        values = node.data.numpy().astype(numpy_dtype(node.dtype), copy=False)
        data = meaning.np.ascontiguousarray(values).reshape(-1)
        self.names[key := self.fresh("_data")] = data
        self.define_pointer(node.buffer_var, key)
        self.stmt(node.body)

    def alloc_buffer(self, buffer: Buffer) -> None:
        """The memory of a block's buffer."""
        extents: tuple[PrimExpr, ...] = buffer.shape
        if buffer.strides:
            sizes = zip(buffer.shape, buffer.strides, strict=True)
            span = " + ".join(f"({self.scalar(n)} - 1) * {self.scalar(s)}" for n, s in sizes)
            text = f"{self.helper(meaning.allocate)}({str(buffer.dtype.element)!r}, 1 + {span})"
            self.define_pointer(buffer.data, text)
        else:
            self.alloc(buffer.data, buffer.dtype.element, extents, buffer.dtype.lanes)
        if isinstance(buffer.elem_offset, Var) and buffer.elem_offset not in self.vars:
            self.vars[buffer.elem_offset] = ("0", 0)

    def declare(self, node: st.DeclBuffer) -> None:
        if node.buffer.data not in self.pointers:
            self.alloc_buffer(node.buffer)
        self.stmt(node.body)

    def realize(self, node: st.BufferRealize) -> None:
        """A buffer realized within bounds: memory of that size, indexed from their start."""
        buffer = node.buffer
        self.alloc(buffer.data, buffer.dtype.element, [r.extent for r in node.bounds])
        strides: list[tuple[str, int]] = []
        text = "1"
        for r in reversed(node.bounds):
            strides.append((text, self.depth))
            text = f"{text} * ({self.scalar(r.extent)})"
        strides.reverse()
        starts = zip(node.bounds, strides, strict=True)
        offset = " + ".join(f"({self.scalar(r.min)}) * ({s})" for r, (s, _) in starts)
        self.views[buffer] = ViewInfo(
            [(f"({s})", d) for s, d in strides], (f"-({offset or '0'})", self.depth)
        )
        self.stmt(node.body)

    # -- blocks --------------------------------------------------------------------------------

    def block_realize(self, node: st.BlockRealize) -> None:
        block = node.block
        predicate = int_of(node.predicate)
        if predicate is None:
            self.line(f"if {self.scalar(node.predicate)}:")
            outer, before = self.indent, len(self.lines)
            self.indent += " "
            self.block(block, node.iter_values)
            if not any(isinstance(line, str) for line in self.lines[before:]):
                self.line("pass")
            self.indent = outer
        elif predicate:
            self.block(block, node.iter_values)

    def block(self, block: st.Block, values: Sequence[PrimExpr]) -> None:
        for axis, value in zip(block.iter_vars, values, strict=True):
            self.define(axis.var, value)
        for buffer in block.alloc_buffers:
            self.alloc_buffer(buffer)
        for match in block.match_buffers:
            self.match(match)
        if block.init is not None:
            self.init(block)
        self.stmt(block.body)

    def init(self, block: st.Block) -> None:
        """The init runs when all reduction axes are at their first value."""
        assert block.init is not None
        tests = []
        for axis in block.iter_vars:
            if axis.iter_type == IterVar.CommReduce:
                now, first = self.scalar(axis.var), self.scalar(axis.dom.min)
                if now != first:
                    tests.append(f"{now} == {first}")
        if not tests:
            self.stmt(block.init)
            return
        self.line(f"if {' and '.join(tests)}:")
        self.body(block.init)

    def match(self, match: st.MatchBufferRegion) -> None:
        """The buffer aliases the memory of its source; strides and offset are derived from it."""
        buffer, source = match.buffer, match.source
        strides, offset = self.layout(source.buffer)
        parts = [] if offset is None else [offset[0]]
        for r, (stride, _) in zip(source.region, strides, strict=True):
            start = self.scalar(r.min)
            if start != "0":
                parts.append(start if stride == "1" else f"({start}) * {stride}")
        name = self.fresh("offset")
        self.line(f"{name} = {' + '.join(parts) or '0'}")
        own = strides[len(strides) - len(buffer.shape) :]
        self.views[buffer] = ViewInfo(own, (name, self.depth))
        self.pointers[buffer.data] = self.pointers[source.buffer.data]
        self.bind_part(buffer.elem_offset, name)
        for stride, (text, _) in zip(buffer.strides, own, strict=False):
            self.bind_part(stride, text)
        ranges = source.region[len(source.region) - len(buffer.shape) :]
        for extent, r in zip(buffer.shape, ranges, strict=True):
            self.bind_part(extent, self.scalar(r.extent))

    def bind_part(self, part: PrimExpr | None, text: str) -> None:
        if isinstance(part, Var) and part not in self.vars:
            name = self.fresh(part.name)
            self.line(f"{name} = {text}")
            self.vars[part] = (name, self.depth)

    # -- the rest ------------------------------------------------------------------------------

    def sequence(self, node: st.SeqStmt) -> None:
        for part in node.seq:
            self.stmt(part)

    def store(self, node: st.BufferStore) -> None:
        buffer = node.buffer
        lanes = node.indices[-1].dtype.lanes if node.indices else 1
        if lanes * buffer.dtype.lanes > 1:
            self.vector_store(node)
            return
        value = self.scalar(node.value)
        at = self.flat(buffer, node.indices, node.span)
        target = f"{self.view(buffer, 'b')}[{at}]"
        if node.predicate is not None:
            target = f"if {self.scalar(node.predicate)}: {target}"
        self.line(f"{target} = {value}")

    def vector_store(self, node: st.BufferStore) -> None:
        buffer = node.buffer
        mask = None if node.predicate is None else self.value(node.predicate)
        if mask is not None:
            name = self.fresh("m")
            self.line(f"{name} = {mask}")
            mask = name
        value = self.value(node.value)
        inside = mask if node.indices and node.indices[-1].dtype.lanes > 1 else None
        at = self.flat(buffer, node.indices, node.span, inside)
        if buffer.dtype.lanes > 1:
            at = f"{self.helper(lanes.element_lanes)}({at}, {buffer.dtype.lanes})"
        array = self.view(buffer, "n")
        if mask is None:
            self.line(f"{array}[{at}] = {value}")
        else:
            self.line(f"{self.helper(lanes.masked_store)}({array}, {at}, {value}, {mask})")

    def if_then_else(self, node: st.IfThenElse) -> None:
        self.line(f"if {self.scalar(node.condition)}:")
        self.body(node.then_case)
        if node.else_case is not None:
            self.line("else:")
            self.body(node.else_case)

    def evaluate(self, node: st.Evaluate) -> None:
        value = node.value
        if isinstance(value, IntImm):
            return
        if isinstance(value, Call) and isinstance(value.op, Op):
            if value.op.name in ("tir.ret", "tir.thread_return"):
                self.returns = True
                result = self.value(value.args[0]) if value.args else "None"
                self.line(f"raise _Return({result})")
                return
        self.line(self.value(value))

    def attribute(self, node: st.AttrStmt) -> None:
        if node.attr_key in ("thread_extent", "virtual_thread") and isinstance(node.node, IterVar):
            var = node.node.var
            if var not in self.vars:
                if node.node.thread_tag.startswith("threadIdx") and has_call(node.body, *_MEETINGS):
                    self.together(node)
                    return
                low = const(0, var.dtype)
                self.iterate(var, low, node.value, node.body)
                return
        self.stmt(node.body)

    def together(self, node: st.AttrStmt) -> None:
        """Threads with barriers or shuffles: one Python thread each. Shared memory is allocated
        before they start."""
        launched, body = [], node
        while isinstance(body, st.AttrStmt) and body.attr_key == "thread_extent":
            tag = body.node.thread_tag
            if not tag.startswith("threadIdx") or body.node.var in self.vars:
                break
            launched.append((tag, body.node.var, body.value))
            body = body.body
        launched.sort(key=lambda axis: axis[0])  # threads are numbered along x first
        axes = [(var, extent) for _, var, extent in launched]
        for inner in _shared_memory(body):
            self.alloc(inner.buffer_var, inner.dtype.element, inner.extents, inner.dtype.lanes)
            self.shared.add(inner.buffer_var)
        names = [self.fresh(var.name) for var, _ in axes]
        extents = [self.scalar(extent) for _, extent in axes]
        for var, extent in axes:
            low = const(0, var.dtype)
            self.analyzer.bind(var, Range.from_min_extent(low, extent))
            self.ranges[var] = (low, extent)

        def inside() -> None:
            for (var, _), name in zip(axes, names, strict=True):
                self.vars[var] = (name, self.depth)
            self.stmt(body)

        thread = self.fresh("thread")
        self.loop(f"def {thread}({', '.join(names)}):", None, inside)
        self.line(f"{self.helper(threads.run_threads)}({thread}, [{', '.join(extents)}])")

    def assertion(self, node: st.AssertStmt) -> None:
        text, value = node.text_and_value
        message = repr(text)
        if value is not None:
            message = f"{message}.replace('{{value}}', str({self.scalar(value)}))"
        self.line(f"if not {self.scalar(node.condition)}: raise AssertionError({message})")
        self.stmt(node.body)

    # -- parameters ----------------------------------------------------------------------------

    def function(self, func: PrimFunc) -> None:
        """The prologue: parameters bound, shapes solved and checked; then the body."""
        shapes: list[tuple[Buffer, str]] = []
        for number, param in enumerate(func.params):
            buffer = func.buffer_map.get(param)
            if buffer is not None:
                shapes.append((buffer, self.array_param(param, buffer, number)))
            elif param.dtype.is_handle:
                opened = self.helper(meaning.open_pointer)
                pointed = param.type_annotation[0] if param.type_annotation else "void"
                args = f"_args[{number}], {param.name!r}, {str(pointed)!r}, _later"
                self.define_pointer(param, f"{opened}({args})")
            else:
                name = self.fresh(param.name)
                convert = "float" if param.dtype.is_float else "int"
                convert = "bool" if param.dtype.is_bool else convert
                if param.dtype == "float32":
                    convert = self.helper(meaning.round32)
                self.line(f"{name} = {convert}(_args[{number}])")
                self.vars[param] = (name, 0)
        self.solve(shapes)
        self.stmt(func.body)

    def array_param(self, param: Var, buffer: Buffer, number: int) -> str:
        name = self.fresh(f"p_{buffer.name}")
        shape, steps = f"{name}_shape", f"{name}_strides"
        rank, dtype = len(buffer.shape), str(buffer.dtype)
        args = (
            f"_args[{number}], {buffer.name!r}, {rank}, {dtype!r}, {bool(buffer.strides)}, _later"
        )
        self.line(f"{name}, {shape}, {steps} = {self.helper(meaning.open_array)}({args})")
        pointer = (name, self.slot(), self.indent)
        self.pointers[param] = self.pointers[buffer.data] = pointer
        if buffer.strides:
            extents = [(f"{steps}[{n}]", 0) for n in range(rank)]
            for n, stride in enumerate(buffer.strides):
                self.bind_part(stride, f"{steps}[{n}]")
        else:
            extents = []
        if isinstance(buffer.elem_offset, Var):
            self.bind_part(buffer.elem_offset, "0")
        if extents or buffer.elem_offset is not None:
            self.views[buffer] = ViewInfo(extents or self.compact(shape, rank), None)
        return shape

    def compact(self, shape: str, rank: int) -> list[tuple[str, int]]:
        strides = []
        for n in range(rank):
            inner = " * ".join(f"{shape}[{k}]" for k in range(n + 1, rank))
            strides.append((f"({inner})" if inner else "1", 0))
        return strides

    def solve(self, shapes: list[tuple[Buffer, str]]) -> None:
        """Bind the variables of the shapes, then check every dimension."""
        for buffer, shape in shapes:
            for n, extent in enumerate(buffer.shape):
                self.bind_part(extent, f"{shape}[{n}]")
        for buffer, shape in shapes:
            for n, extent in enumerate(buffer.shape):
                self.solve_one(buffer, n, extent, f"{shape}[{n}]")
        for buffer, shape in shapes:
            for n, extent in enumerate(buffer.shape):
                self.check_dimension(buffer, n, extent, f"{shape}[{n}]")

    def check_dimension(self, buffer: Buffer, axis: int, extent: PrimExpr, actual: str) -> None:
        expected = self.scalar(extent)
        text = expected if isinstance(extent, IntImm) else str(getattr(extent, "name", extent))
        call = f"{self.helper(meaning.wrong_shape)}({buffer.name!r}, {axis}, {actual}, {expected}"
        self.line(f"if {actual} != {expected}: {call}, {text!r})")

    def solve_one(self, buffer: Buffer, axis: int, extent: PrimExpr, actual: str) -> None:
        """Solve an extent such as n * 2 + 1 for n, if n is not otherwise known."""
        unknown = dict.fromkeys(v for v in nodes_of(extent, Var) if v not in self.vars)
        if not unknown:
            return
        linear = _linear_in(extent, next(iter(unknown))) if len(unknown) == 1 else None
        if linear is None:
            what = f"buffer {buffer.name}: the shape does not determine its variables"
            hint = "give a buffer whose dimension is the variable, or pass it as a parameter"
            raise ValueError(explain(what, got=str(extent), instead=hint))
        (var,) = unknown
        factor, rest = linear
        name = self.fresh(var.name)
        self.line(f"{name} = ({actual} - {rest}) // {factor}")
        self.vars[var] = (name, 0)


# Barriers and exchanges between threads.
_MEETINGS = ("tir.tvm_storage_sync", "tir.tvm_warp_shuffle")


def has_call(body: st.Stmt, *names: str) -> bool:
    """Whether an operator is called whose name starts with one of `names`."""
    return any_node(
        body, lambda n: isinstance(n, Call) and isinstance(n.op, Op) and n.op.name.startswith(names)
    )


def _shared_memory(body: st.Stmt) -> list[st.Allocate]:
    kinds = ((node, node.buffer_var.type_annotation) for node in nodes_of(body, st.Allocate))
    return [node for node, kind in kinds if kind and (kind[1] or "").startswith("shared")]


def _linear_in(expr: PrimExpr, var: Var) -> tuple[int, int] | None:
    """(a, b) with expr = a * var + b and a not 0; None if it has another form."""

    def walk(e: PrimExpr) -> tuple[int, int] | None:
        if e is var:
            return 1, 0
        if isinstance(e, IntImm):
            return 0, e.value
        kind = type(e).__name__
        if kind not in ("Add", "Sub", "Mul"):
            return None
        left, right = walk(e.a), walk(e.b)
        if left is None or right is None:
            return None
        (a, b), (c, d) = left, right
        if kind == "Mul":
            return (a * d + b * c, b * d) if not a * c else None
        sign = 1 if kind == "Add" else -1
        return a + sign * c, b + sign * d

    linear = walk(expr)
    return linear if linear is not None and linear[0] else None


_T = StmtTranslator
_RULES: dict[type, Callable[[StmtTranslator, Any], Any]] = {
    st.For: _T.for_loop,
    st.While: _T.while_loop,
    st.LetStmt: _T.let,
    st.Allocate: _T.allocate,
    st.AllocateConst: _T.allocate_const,
    st.DeclBuffer: _T.declare,
    st.BufferRealize: _T.realize,
    st.BlockRealize: _T.block_realize,
    st.SeqStmt: _T.sequence,
    st.BufferStore: _T.store,
    st.IfThenElse: _T.if_then_else,
    st.Evaluate: _T.evaluate,
    st.AttrStmt: _T.attribute,
    st.AssertStmt: _T.assertion,
}


def flatten(lines: list[Any], out: list[str]) -> list[str]:
    """The lines with nested lists flattened."""
    for item in lines:
        if isinstance(item, str):
            out.append(item)
        else:
            flatten(item, out)
    return out


def translate(func: PrimFunc) -> tuple[str, dict[str, Any]]:
    """(source of `def run(_args, _later, _call)`, the names it refers to)"""
    translator = StmtTranslator()
    translator.function(func)
    lines = flatten(translator.lines, ["def run(_args, _later, _call):"])
    return "\n".join([*lines, " return None"]), translator.names


__all__ = ["NEVER", "StmtTranslator", "has_call", "translate"]
