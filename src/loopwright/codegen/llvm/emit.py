"""Statements of lowered TensorIR as LLVM text.

What comes in (see `tir.transform`): parameters are data pointers and scalars, buffers are flat,
loops are serial or parallel, vectors are written out as Ramp and Broadcast. What comes out is one
`define` per function, one more for each parallel loop, vectors explicit: LLVM's loop and SLP
vectorizers are not needed, and the result does not depend on its optimization level.

A kernel `f` is `i32 @lw.f(ptr..., scalars...)`; it returns 0, or -1 after an error was raised. One
that returns a value (T.ret) takes a pointer to put it as its last parameter. Lines that begin with
`;` say which loop, statement or model node the next ones come from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType
from ...ir.prim_expr import Call, IntImm, PrimExpr, Var
from ...ir.prim_op import cast
from ...tir import stmt as st
from ...tir.function import PrimFunc
from .expr import ExprEmitter, reads_memory
from .module_text import ModuleText
from .types import llvm_type, memory_type, symbol

STACK_BYTES = 1 << 16  # larger or variable allocations come from the workspace
STACK_TOTAL = 1 << 18  # of one function
# What a task gets: the place for its error, the loop's range, then the captured variables.
_ERROR, _LOW, _EXTENT, _CAPTURED = 0, 8, 16, 24


class FunctionEmitter(ExprEmitter):
    """One function: its statements; expressions are in `expr.py`."""

    def __init__(self, module: ModuleText, name: str, func: PrimFunc) -> None:
        super().__init__(module)
        self.name = name
        self.func = func
        self.in_task = False
        self.outer: dict[Var, str] = {}  # of the function around a task
        self.captured: list[tuple[int, Var]] = []
        self.record_bytes = _CAPTURED
        self.can_fail = False
        self.stack_bytes = 0
        self.workspaces: list[str] = []  # what a return must give back
        self.noted: Any = None

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
        self.returned = self.module.returned(self.name)
        if self.returned is not None:
            params.append("ptr %result")
        self.note(self.func)
        self.stmt(self.func.body)
        self.emit("ret i32 0")
        self.finish(f"define i32 @{symbol(self.name)}({', '.join(params)}) nounwind")

    def finish(self, header: str) -> None:
        """Close the body and hand the definition to the module."""
        self.module.definitions.append([f"{header} {{", "entry:", *self.allocas, *self.lines, "}"])

    def note(self, node: Any) -> None:
        """Say where the next lines come from."""
        span = node.span
        if span is not None and span is not self.noted:
            self.noted = span
            self.lines.append("  ; " + str(span).replace("\n", " "))

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
        value = node.value
        if isinstance(value, IntImm):
            return
        self.note(node)
        leaves = ("tir.ret", "tir.thread_return")
        if isinstance(value, Call) and getattr(value.op, "name", "") in leaves:
            self.ret(value)
        else:
            self.expr(value)

    def ret(self, call: Call) -> None:
        """T.ret: the value goes where the caller said."""
        if self.in_task:
            what = "T.ret inside a parallel loop"
            hint = "make the loop serial, or store the value in a buffer"
            raise LoopwrightError(explain(what, instead=hint, span=call.span))
        if self.returned is not None and call.args:
            given = call.args[0]
            value = self.convert(self.expr(given), given.dtype, self.returned)
            value = self.to_memory(value, self.returned)
            self.emit(f"store {memory_type(self.returned)} {value}, ptr %result, align 8")
        self.release_all()
        self.emit("ret i32 0")
        self.place(self.label("unreachable"))

    def let(self, node: st.LetStmt) -> None:
        dtype = node.value.dtype
        plain = dtype.is_int and dtype.bits >= 32 and not reads_memory(node.value)
        self.env[node.var] = (self.index if plain else self.expr)(node.value)
        self.stmt(node.body)

    def inner(self, node: Any) -> None:
        """A statement that says nothing to the machine."""
        self.stmt(node.body)

    def store(self, node: st.BufferStore) -> None:
        self.note(node)
        value = self.expr(node.value)
        mask = None if node.predicate is None else self.expr(node.predicate)
        self.store_value(node.buffer, node.indices, value, node.value.dtype, mask)

    def allocate(self, node: st.Allocate) -> None:
        dtype = DataType(node.dtype)
        count: int | None = dtype.lanes
        for extent in node.extents:
            if not isinstance(extent, IntImm):
                count = None
                break
            count *= extent.value
        size = None if count is None else count * dtype.itemsize
        if size is None or size > STACK_BYTES or self.stack_bytes + size > STACK_TOTAL:
            self.workspace(node, dtype)
            return
        self.stack_bytes += size
        self.env[node.buffer_var] = self.slot(f"[{max(count, 1)} x {memory_type(dtype)}]", 64)
        self.stmt(node.body)

    def workspace(self, node: st.Allocate, dtype: DataType) -> None:
        """Memory of the thread's arena, given back on every way out."""
        self.module.declare("lw_workspace_alloc", "declare ptr @lw_workspace_alloc(i64)")
        self.module.declare("lw_workspace_free", "declare void @lw_workspace_free(ptr)")
        size: str = str(dtype.lanes * dtype.itemsize)
        for extent in node.extents:
            value = self.to_i64(self.expr(extent), extent.dtype)
            size = self.value(f"mul i64 {size}, {value}")
        pointer = self.fresh(f"call ptr @lw_workspace_alloc(i64 {size})")
        failed = self.fresh(f"icmp eq ptr {pointer}, null")
        self.fail_if(failed, "MemoryError", f"no memory for buffer {node.buffer_var.name}")
        self.env[node.buffer_var] = pointer
        self.workspaces.append(pointer)
        self.stmt(node.body)
        self.workspaces.pop()
        self.emit(f"call void @lw_workspace_free(ptr {pointer})")

    def release_all(self) -> None:
        """Give back the workspaces that are live here."""
        for pointer in reversed(self.workspaces):
            self.emit(f"call void @lw_workspace_free(ptr {pointer})")

    def allocate_const(self, node: st.AllocateConst) -> None:
        self.env[node.buffer_var] = f"@{self.module.constant(node.data)}"
        self.stmt(node.body)

    def branch(self, node: st.IfThenElse) -> None:
        self.note(node)
        cond = self.expr(node.condition)
        then, done = self.label("then"), self.label("endif")
        other = self.label("else") if node.else_case is not None else done
        self.jump_if(cond, then, other)
        for label, body in ((then, node.then_case), (other, node.else_case)):
            if body is not None:
                self.place(label)
                self.scoped(lambda b=body: self.stmt(b))
                self.jump(done)
        self.place(done)

    def scoped(self, emit: Callable[[], None]) -> None:
        """Lines whose values are not seen after them."""
        mark = len(self.trail)
        emit()
        self.forget(mark)

    # -- errors --------------------------------------------------------------------------------

    def assertion(self, node: st.AssertStmt) -> None:
        self.note(node)
        cond = self.expr(node.condition)
        failed = self.fresh(f"xor i1 {cond}, true")
        text, value = node.text_and_value
        self.fail_if(failed, "ValueError", text, value)
        self.stmt(node.body)

    def fail_if(self, failed: str, kind: str, message: str, value: Any = None) -> None:
        """Leave with an error where `failed` holds; `value` stands for "{value}" in its text."""
        bad, good = self.label("fail"), self.label("ok")
        self.jump_if(failed, bad, good)
        self.place(bad)
        if value is None:
            self.module.declare("lw_raise", "declare void @lw_raise(ptr, ptr)")
            texts = f"ptr @{self.module.string(kind)}, ptr @{self.module.string(message)}"
            self.emit(f"call void @lw_raise({texts})")
        else:
            self.module.declare("lw_raise_value", "declare void @lw_raise_value(ptr, ptr, i64)")
            form = message.replace("%", "%%").replace("{value}", "%lld")
            texts = f"ptr @{self.module.string(kind)}, ptr @{self.module.string(form)}"
            number = self.expr(cast("int64", value))
            self.emit(f"call void @lw_raise_value({texts}, i64 {number})")
        self.leave_failed()
        self.place(good)

    def leave_failed(self) -> None:
        """Return after an error was raised; a task hands it to the thread that launched it."""
        self.release_all()
        self.can_fail = True
        if not self.in_task:
            self.emit("ret i32 -1")
            return
        self.module.declare("lw_task_failed", "declare void @lw_task_failed(ptr)")
        self.emit("call void @lw_task_failed(ptr %data)")
        self.emit("ret void")

    # -- loops ---------------------------------------------------------------------------------

    def for_loop(self, node: st.For) -> None:
        self.note(node)
        if node.kind == st.ForKind.PARALLEL and not self.in_task:
            self.parallel(node)
            return
        if node.kind == st.ForKind.THREAD_BINDING:
            what = f"loop {node.loop_var.name} is bound to a GPU thread"
            hint = "compile it for a GPU target, or schedule it for the CPU"
            raise LoopwrightError(explain(what, instead=hint, span=node.span))
        kind = llvm_type(node.loop_var.dtype)
        low, extent = self.expr(node.min), self.expr(node.extent)
        end = extent if low == "0" else self.value(f"add {kind} {low}, {extent}")
        known = isinstance(node.extent, IntImm) and node.extent.value > 0
        self.counted_loop(kind, low, end, known, lambda i: self.loop_body(node, i))

    def loop_body(self, node: st.For, index: str) -> None:
        self.env[node.loop_var] = index
        self.stmt(node.body)

    def counted_loop(self, kind: str, low: str, end: str, runs: bool, body: Any) -> None:
        """`for i in [low, end)`, tested at its end; `runs`: at least once."""
        head, done = self.label("loop"), self.label("done")
        if runs:
            self.jump(head)
        else:
            self.jump_if(self.fresh(f"icmp slt {kind} {low}, {end}"), head, done)
        before = self.block
        self.place(head)
        index, following = f"%i.{next(self.numbers)}", f"%i.{next(self.numbers)}"
        at = len(self.lines)
        self.lines.append("")
        self.scoped(lambda: body(index))
        self.emit(f"{following} = add nsw {kind} {index}, 1")
        more = self.fresh(f"icmp slt {kind} {following}, {end}")
        back = f"[ {following}, %{self.block} ]"
        self.lines[at] = f"  {index} = phi {kind} [ {low}, %{before} ], {back}"
        self.jump_if(more, head, done)
        self.place(done)

    def while_loop(self, node: st.While) -> None:
        self.note(node)
        head, body, done = self.label("while"), self.label("body"), self.label("done")
        self.jump(head)
        self.place(head)
        mark = len(self.trail)
        self.jump_if(self.expr(node.condition), body, done)
        self.place(body)
        self.stmt(node.body)
        self.jump(head)
        self.forget(mark)
        self.place(done)

    # -- parallel loops ------------------------------------------------------------------------

    def parallel(self, node: st.For) -> None:
        """The loop's body becomes a function of its own, run by the pool in chunks."""
        low = self.to_i64(self.expr(node.min), node.min.dtype)
        extent = self.to_i64(self.expr(node.extent), node.extent.dtype)
        tasks = self.task_count(node, extent)
        task = self.module.unique(symbol(f"{self.name}.{_clean(node.loop_var.name)}").strip('"'))
        worker = FunctionEmitter(self.module, self.name, self.func)
        worker.outer = self.env
        worker.run_task(task, node)
        data = self.slot(f"[{worker.record_bytes} x i8]", 64)
        fields = [(_ERROR, "ptr", "null"), (_LOW, "i64", low), (_EXTENT, "i64", extent)]
        for at, var in worker.captured:
            fields.append((at, llvm_type(var.dtype), self.env[var]))
        for at, kind, value in fields:
            place = self.fresh(f"getelementptr i8, ptr {data}, i64 {at}")
            self.emit(f"store {kind} {value}, ptr {place}, align 8")
        line = "declare i32 @lw_parallel_launch(ptr, ptr, i32)"
        self.module.declare("lw_parallel_launch", line)
        self.emit(f'call i32 @lw_parallel_launch(ptr @"{task}", ptr {data}, i32 {tasks})')
        if worker.can_fail:
            error = self.fresh(f"load ptr, ptr {data}, align 8")
            bad, good = self.label("fail"), self.label("ok")
            self.jump_if(self.fresh(f"icmp ne ptr {error}, null"), bad, good)
            self.place(bad)
            self.module.declare("lw_task_raise", "declare void @lw_task_raise(ptr)")
            self.emit(f"call void @lw_task_raise(ptr {error})")
            self.leave_failed()
            self.place(good)

    def task_count(self, node: st.For, extent: str) -> str:
        """How many tasks: at most four a thread, each of at least `grain` iterations."""
        self.module.declare("lw_num_threads", "declare i32 @lw_num_threads()")
        threads = self.fresh("call i32 @lw_num_threads()")
        wide = self.fresh(f"sext i32 {threads} to i64")
        grain = node.annotations.get("grain", 1)
        wanted = extent
        if isinstance(grain, PrimExpr):
            wanted = self.fresh(f"sdiv i64 {extent}, {self.to_i64(self.expr(grain), grain.dtype)}")
        elif grain != 1:
            wanted = self.fresh(f"sdiv i64 {extent}, {grain}")
        self.module.declare("llvm.smin.i64", "declare i64 @llvm.smin.i64(i64, i64)")
        self.module.declare("llvm.smax.i64", "declare i64 @llvm.smax.i64(i64, i64)")
        single = self.fresh(f"icmp eq i32 {threads}, 1")
        four = self.fresh(f"mul i64 {wide}, 4")
        most = self.fresh(f"select i1 {single}, i64 1, i64 {four}")
        capped = self.fresh(f"call i64 @llvm.smin.i64(i64 {wanted}, i64 {most})")
        tasks = self.fresh(f"call i64 @llvm.smax.i64(i64 {capped}, i64 1)")
        return self.fresh(f"trunc i64 {tasks} to i32")

    def run_task(self, task: str, node: st.For) -> None:
        """Emit the function of one chunk of a parallel loop."""
        self.in_task = True
        low, extent = (self.field(at, "i64") for at in (_LOW, _EXTENT))
        index = self.fresh("sext i32 %task to i64")
        count = self.fresh("sext i32 %tasks to i64")
        begin = self.chunk_bound(index, extent, count)
        end = self.chunk_bound(self.fresh(f"add i64 {index}, 1"), extent, count)
        first, last = self.fresh(f"add i64 {low}, {begin}"), self.fresh(f"add i64 {low}, {end}")

        def body(i: str) -> None:
            kind = llvm_type(node.loop_var.dtype)
            self.loop_body(node, i if kind == "i64" else self.value(f"trunc nsw i64 {i} to {kind}"))

        self.counted_loop("i64", first, last, False, body)
        self.emit("ret void")
        params = "ptr noalias %data, i32 %task, i32 %tasks"
        self.finish(f'define internal void @"{task}"({params}) nounwind')

    def field(self, at: int, kind: str) -> str:
        """A field of what the launching thread hands over, read when the task begins."""
        name = f"%field.{at}"
        self.allocas.append(f"  {name}.at = getelementptr i8, ptr %data, i64 {at}")
        self.allocas.append(f"  {name} = load {kind}, ptr {name}.at, align 8")
        return name

    def undefined(self, node: Var) -> str:
        """A variable from around a parallel loop is handed over to its tasks."""
        found = self.outer.get(node)
        if found is None:
            return super().undefined(node)
        if found[0] == "%":
            at = self.record_bytes
            self.captured.append((at, node))
            self.record_bytes += max(8, -(-node.dtype.itemsize * node.dtype.lanes // 8) * 8)
            found = self.field(at, llvm_type(node.dtype))
        self.env[node] = found
        return found

    def chunk_bound(self, index: str, extent: str, count: str) -> str:
        """Where chunk `index` begins."""
        return self.fresh(f"sdiv i64 {self.fresh(f'mul i64 {index}, {extent}')}, {count}")


def _clean(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in name) or "v"


def add_function(module: ModuleText, name: str, func: PrimFunc) -> None:
    """Emit `func` into a module."""
    module.defined.add(symbol(name))
    FunctionEmitter(module, name, func).run()


_F = FunctionEmitter
_STATEMENTS = {
    st.SeqStmt: _F.seq,
    st.Evaluate: _F.evaluate,
    st.LetStmt: _F.let,
    st.AttrStmt: _F.inner,
    st.DeclBuffer: _F.inner,
    st.BufferStore: _F.store,
    st.Allocate: _F.allocate,
    st.AllocateConst: _F.allocate_const,
    st.IfThenElse: _F.branch,
    st.AssertStmt: _F.assertion,
    st.For: _F.for_loop,
    st.While: _F.while_loop,
}
