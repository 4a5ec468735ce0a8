"""Statements of lowered TensorIR as LLVM text.

What comes in (see `tir.transform`): parameters are data pointers and scalars, buffers are flat,
loops are serial or parallel, vectors are written out as Ramp and Broadcast. What comes out is one
`define` per function, one more for each parallel loop, vectors explicit: LLVM's loop and SLP
vectorizers are not needed, and the result does not depend on its optimization level.

A kernel is `i32 @name(ptr..., scalars...)`; it returns 0, or -1 after `lw_raise`.
"""

from __future__ import annotations

import itertools
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType
from ...ir.functor import pre_order_visit
from ...ir.prim_expr import IntImm, PrimExpr, StringImm, Var
from ...tir import stmt as st
from ...tir.buffer import Buffer
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc
from .abi import c_string
from .expr import ExprEmitter
from .types import llvm_type, memory_type
from .vecmath import VecMath

STACK_BYTES = 1 << 16  # larger or variable allocations come from the workspace


class ModuleText:
    """The text of one LLVM module: definitions, constants and what they refer to."""

    def __init__(self) -> None:
        self.definitions: list[str] = []
        self.globals: list[str] = []
        self.declared: dict[str, str] = {}
        self.defined: set[str] = set()
        self.vecmath = VecMath()
        self.constants: dict[str, Any] = {}
        self._strings: dict[str, str] = {}
        self._numbers = itertools.count()

    def declare(self, name: str, line: str) -> None:
        """Declare an external function once."""
        self.declared.setdefault(name, line)

    def unique(self, hint: str) -> str:
        """A fresh global name."""
        return f"{hint}.{next(self._numbers)}"

    def string(self, value: str) -> str:
        """The name of a constant C string."""
        found = self._strings.get(value)
        if found is None:
            found = self._strings[value] = self.unique("str")
            self.globals.append(c_string(found, value).rstrip("\n"))
        return found

    def add_function(self, name: str, func: PrimFunc) -> None:
        """Emit `func` as `@name`."""
        self.defined.add(name)
        FunctionEmitter(self, name, func).run()

    def text(self) -> str:
        """The module."""
        known = {**self.vecmath.declarations(), **self.declared}
        lines = [line for name, line in known.items() if name not in self.defined]
        parts = [*self.globals, *lines, self.vecmath.definitions(), *self.definitions]
        return "\n".join(p for p in parts if p) + "\n"


class FunctionEmitter(ExprEmitter):
    """One function: its statements; expressions are in `expr.py`."""

    def __init__(self, module: ModuleText, name: str, func: PrimFunc) -> None:
        super().__init__(module)
        self.name = name
        self.func = func
        self.in_parallel = False
        self.error_slot: str | None = None

    # -- functions -----------------------------------------------------------------------------

    def run(self) -> None:
        """Emit the function."""
        noalias = " noalias" if self.func.attrs.get("tir.noalias") else ""
        params = []
        for p in self.func.params:
            name = f"%{_clean(p.name)}.{next(self.numbers)}"
            self.env[p] = name
            kind = llvm_type(p.dtype)
            params.append(f"{kind}{noalias if kind == 'ptr' else ''} {name}")
        self.begin()
        self.stmt(self.func.body)
        self.emit("ret i32 0")
        self.finish(f"define i32 @{self.name}({', '.join(params)}) nounwind")

    def begin(self) -> None:
        """Start a body."""
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.block = "entry"
        self.values = [{}]

    def finish(self, header: str) -> None:
        """Close the body and hand the definition to the module."""
        body = ["entry:", *self.allocas, *self.lines]
        self.module.definitions.append("\n".join([f"{header} {{", *body, "}"]))

    # -- statements ----------------------------------------------------------------------------

    def stmt(self, node: Any) -> None:
        """Emit one statement."""
        handler = _STATEMENTS.get(type(node))
        if handler is None:
            what = f"{type(node).__name__} is not lowered"
            hint = "run the passes of tir.transform.default_tir_pipeline() first"
            raise LoopwrightError(explain(what, instead=hint, span=node.span))
        handler(self, node)

    def seq(self, node: st.SeqStmt) -> None:
        for item in node.seq:
            self.stmt(item)

    def evaluate(self, node: st.Evaluate) -> None:
        if not isinstance(node.value, IntImm):
            self.expr(node.value)

    def let(self, node: st.LetStmt) -> None:
        self.env[node.var] = self.expr(node.value)
        self.stmt(node.body)

    def attr(self, node: st.AttrStmt) -> None:
        self.stmt(node.body)

    def decl_buffer(self, node: st.DeclBuffer) -> None:
        self.stmt(node.body)

    def store(self, node: st.BufferStore) -> None:
        value = self.expr(node.value)
        mask = None if node.predicate is None else self.expr(node.predicate)
        self.store_value(node.buffer, node.indices, value, node.value.dtype, mask)

    def allocate(self, node: st.Allocate) -> None:
        dtype = DataType(node.dtype)
        count = 1
        for extent in node.extents:
            if not isinstance(extent, IntImm):
                count = None
                break
            count *= extent.value
        size = None if count is None else count * dtype.lanes * dtype.itemsize
        if size is not None and size <= STACK_BYTES:
            self.env[node.buffer_var] = self.stack(dtype, max(count * dtype.lanes, 1))
            self.stmt(node.body)
            return
        self.workspace(node, dtype)

    def stack(self, dtype: DataType, count: int) -> str:
        """Room on the stack, made in the entry block."""
        name = f"%stack.{next(self.numbers)}"
        self.allocas.append(f"  {name} = alloca [{count} x {memory_type(dtype)}], align 64")
        return name

    def workspace(self, node: st.Allocate, dtype: DataType) -> None:
        self.module.declare("lw_workspace_alloc", "declare ptr @lw_workspace_alloc(i64)")
        self.module.declare("lw_workspace_free", "declare void @lw_workspace_free(ptr)")
        size: str = str(dtype.lanes * dtype.itemsize)
        for extent in node.extents:
            value = self.to_i64(self.expr(extent), extent.dtype)
            size = self.value("i64", f"mul i64 {size}, {value}")
        pointer = self.fresh(f"call ptr @lw_workspace_alloc(i64 {size})")
        failed = self.fresh(f"icmp eq ptr {pointer}, null")
        self.fail_if(failed, "MemoryError", f"no memory for buffer {node.buffer_var.name}")
        self.env[node.buffer_var] = pointer
        self.stmt(node.body)
        self.emit(f"call void @lw_workspace_free(ptr {pointer})")

    def allocate_const(self, node: st.AllocateConst) -> None:
        name = self.module.unique("const")
        self.module.constants[name] = node.data
        self.module.globals.append(f"@{name} = external global i8")
        self.env[node.buffer_var] = f"@{name}"
        self.stmt(node.body)

    def branch(self, node: st.IfThenElse) -> None:
        cond = self.expr(node.condition)
        then, done = self.label("then"), self.label("endif")
        other = self.label("else") if node.else_case is not None else done
        self.jump_if(cond, then, other)
        for label, body in ((then, node.then_case), (other, node.else_case)):
            if body is not None:
                self.place(label)
                self.scoped(body)
                self.emit(f"br label %{done}")
        self.place(done)

    def scoped(self, body: st.Stmt) -> None:
        """A statement whose values are not seen after it."""
        self.values.append({})
        self.stmt(body)
        self.values.pop()

    def assertion(self, node: st.AssertStmt) -> None:
        cond = self.expr(node.condition)
        failed = self.fresh(f"xor i1 {cond}, true")
        message = node.message.value if isinstance(node.message, StringImm) else str(node.message)
        self.fail_if(failed, "ValueError", message)
        self.stmt(node.body)

    def fail_if(self, failed: str, kind: str, message: str) -> None:
        """Leave with an error where `failed` holds."""
        bad, good = self.label("fail"), self.label("ok")
        self.jump_if(failed, bad, good)
        self.place(bad)
        text = self.module.string(message)
        if self.error_slot is not None:
            self.emit(f"store atomic ptr @{text}, ptr {self.error_slot} monotonic, align 8")
            self.emit("ret void")
        else:
            self.raise_error(kind, f"@{text}")
        self.place(good)

    def raise_error(self, kind: str, text: str) -> None:
        """Raise and return -1."""
        self.module.declare("lw_raise", "declare void @lw_raise(ptr, ptr)")
        self.emit(f"call void @lw_raise(ptr @{self.module.string(kind)}, ptr {text})")
        self.emit("ret i32 -1")

    # -- loops ---------------------------------------------------------------------------------

    def for_loop(self, node: st.For) -> None:
        if node.kind == st.ForKind.PARALLEL and not self.in_parallel:
            self.parallel(node)
            return
        if node.kind not in (st.ForKind.SERIAL, st.ForKind.PARALLEL):
            what = f"loop {node.loop_var.name} is still {node.kind.name.lower()}"
            hint = "run UnrollLoop and VectorizeLoop first"
            raise LoopwrightError(explain(what, instead=hint, span=node.span))
        kind = llvm_type(node.loop_var.dtype)
        low, extent = self.expr(node.min), self.expr(node.extent)
        if isinstance(node.min, IntImm) and node.min.value == 0:
            end = extent
        else:
            end = self.value(kind, f"add nsw {kind} {low}, {extent}")
        known = isinstance(node.extent, IntImm) and node.extent.value > 0
        self.counted_loop(kind, low, end, known, lambda i: self.loop_body(node, i))

    def loop_body(self, node: st.For, index: str) -> None:
        self.env[node.loop_var] = index
        self.stmt(node.body)

    def counted_loop(self, kind: str, low: str, end: str, runs: bool, body: Any) -> None:
        """`for i in [low, end)`, tested at its end; `runs`: at least once."""
        head, done = self.label("loop"), self.label("done")
        if runs:
            self.emit(f"br label %{head}")
        else:
            enter = self.fresh(f"icmp slt {kind} {low}, {end}")
            self.jump_if(enter, head, done)
        before = self.block
        self.place(head)
        index, following = f"%i.{next(self.numbers)}", f"%i.{next(self.numbers)}"
        at = len(self.lines)
        self.values.append({})
        body(index)
        self.values.pop()
        self.emit(f"{following} = add nsw {kind} {index}, 1")
        more = self.fresh(f"icmp slt {kind} {following}, {end}")
        phi = f"  {index} = phi {kind} [ {low}, %{before} ], [ {following}, %{self.block} ]"
        self.lines.insert(at, phi)
        self.jump_if(more, head, done)
        self.place(done)

    def while_loop(self, node: st.While) -> None:
        head, body, done = self.label("while"), self.label("body"), self.label("done")
        self.emit(f"br label %{head}")
        self.place(head)
        self.values.append({})
        self.jump_if(self.expr(node.condition), body, done)
        self.place(body)
        self.stmt(node.body)
        self.emit(f"br label %{head}")
        self.values.pop()
        self.place(done)

    def parallel(self, node: st.For) -> None:
        """The loop's body becomes a function of its own, run by the pool in chunks."""
        captured = [v for v in _free_vars(node) if v in self.env]
        low = self.to_i64(self.expr(node.min), node.min.dtype)
        extent = self.to_i64(self.expr(node.extent), node.extent.dtype)
        tasks = self.task_count(node, extent)
        types = ["ptr", "i64", "i64", *[llvm_type(v.dtype) for v in captured]]
        values = ["null", low, extent, *[self.env[v] for v in captured]]
        record = "{ " + ", ".join(types) + " }"
        data = f"%data.{next(self.numbers)}"
        self.allocas.append(f"  {data} = alloca {record}, align 8")
        for k, (kind, value) in enumerate(zip(types, values, strict=True)):
            slot = self.fresh(f"getelementptr {record}, ptr {data}, i32 0, i32 {k}")
            self.emit(f"store {kind} {value}, ptr {slot}")
        task = self.module.unique(f"{self.name}.{_clean(node.loop_var.name)}")
        line = "declare i32 @lw_parallel_launch(ptr, ptr, i32)"
        self.module.declare("lw_parallel_launch", line)
        self.emit(f"call i32 @lw_parallel_launch(ptr @{task}, ptr {data}, i32 {tasks})")
        worker = FunctionEmitter(self.module, self.name, self.func)
        worker.run_task(task, node, record, captured)
        if worker.can_fail:
            message = self.fresh(f"load ptr, ptr {data}, align 8")
            bad, good = self.label("fail"), self.label("ok")
            self.jump_if(self.fresh(f"icmp ne ptr {message}, null"), bad, good)
            self.place(bad)
            self.raise_error("ValueError", message)
            self.place(good)

    def task_count(self, node: st.For, extent: str) -> str:
        """How many tasks: at most four a thread, each of at least `grain` iterations."""
        self.module.declare("lw_num_threads", "declare i32 @lw_num_threads()")
        threads = self.to_i64(self.fresh("call i32 @lw_num_threads()"), DataType("int32"))
        most = self.value("i64", f"mul i64 {threads}, 4")
        grain = node.annotations.get("grain", 1)
        wanted = extent
        if grain != 1:
            text = (
                self.to_i64(self.expr(grain), grain.dtype) if isinstance(grain, PrimExpr) else grain
            )
            wanted = self.value("i64", f"sdiv i64 {extent}, {text}")
        self.module.declare("llvm.smin.i64", "declare i64 @llvm.smin.i64(i64, i64)")
        self.module.declare("llvm.smax.i64", "declare i64 @llvm.smax.i64(i64, i64)")
        single = self.fresh(f"icmp eq i64 {threads}, 1")
        most = self.fresh(f"select i1 {single}, i64 1, i64 {most}")
        capped = self.fresh(f"call i64 @llvm.smin.i64(i64 {wanted}, i64 {most})")
        tasks = self.fresh(f"call i64 @llvm.smax.i64(i64 {capped}, i64 1)")
        return self.fresh(f"trunc i64 {tasks} to i32")

    def run_task(self, task: str, node: st.For, record: str, captured: list[Var]) -> None:
        """Emit the function of one chunk of a parallel loop."""
        self.in_parallel = True
        self.begin()
        self.error_slot = "%data"
        low, extent = (self.field(record, k, "i64") for k in (1, 2))
        for k, var in enumerate(captured):
            self.env[var] = self.field(record, 3 + k, llvm_type(var.dtype))
        index = self.fresh("sext i32 %task to i64")
        count = self.fresh("sext i32 %tasks to i64")
        begin = self.chunk_bound(index, extent, count)
        end = self.chunk_bound(self.fresh(f"add i64 {index}, 1"), extent, count)
        first, last = self.fresh(f"add i64 {low}, {begin}"), self.fresh(f"add i64 {low}, {end}")

        def body(i: str) -> None:
            kind = llvm_type(node.loop_var.dtype)
            value = i if kind == "i64" else self.fresh(f"trunc i64 {i} to {kind}")
            self.loop_body(node, value)

        self.counted_loop("i64", first, last, False, body)
        self.emit("ret void")
        header = f"define internal void @{task}(ptr noalias %data, i32 %task, i32 %tasks) nounwind"
        self.can_fail = any("store atomic ptr" in line for line in self.lines)
        self.finish(header)

    def field(self, record: str, k: int, kind: str) -> str:
        """A field of the captured variables."""
        slot = self.fresh(f"getelementptr {record}, ptr %data, i32 0, i32 {k}")
        return self.fresh(f"load {kind}, ptr {slot}")

    def chunk_bound(self, index: str, extent: str, count: str) -> str:
        """Where chunk `index` begins."""
        return self.fresh(f"sdiv i64 {self.fresh(f'mul i64 {index}, {extent}')}, {count}")


def _clean(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_." else "_" for c in name) or "v"


def _free_vars(node: Any) -> list[Var]:
    """Variables used in a statement, in order of first use (those it binds included)."""
    found: dict[Var, None] = {}

    def visit(item: Any) -> None:
        if isinstance(item, (BufferLoad, st.BufferStore)):
            found.setdefault(item.buffer.data)
        elif isinstance(item, Var):
            found.setdefault(item)
        elif isinstance(item, Buffer):
            return

    pre_order_visit(node, visit)
    return list(found)


_STATEMENTS = {
    st.SeqStmt: FunctionEmitter.seq,
    st.Evaluate: FunctionEmitter.evaluate,
    st.LetStmt: FunctionEmitter.let,
    st.AttrStmt: FunctionEmitter.attr,
    st.DeclBuffer: FunctionEmitter.decl_buffer,
    st.BufferStore: FunctionEmitter.store,
    st.Allocate: FunctionEmitter.allocate,
    st.AllocateConst: FunctionEmitter.allocate_const,
    st.IfThenElse: FunctionEmitter.branch,
    st.AssertStmt: FunctionEmitter.assertion,
    st.For: FunctionEmitter.for_loop,
    st.While: FunctionEmitter.while_loop,
}
