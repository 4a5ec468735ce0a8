"""Statements of lowered TensorIR as LLVM text.

Input (see `tir.transform`): parameters are data pointers and scalars, buffers are flat, loops are
serial or parallel, vectors are explicit (Ramp and Broadcast). Output: one `define` per function and
one per parallel loop, with explicit vectors: LLVM's loop and SLP vectorizers are not needed, and
the result does not depend on its optimization level.

A kernel `f` is `i32 @lw.f(ptr..., scalars...)`; it returns 0, or -1 after raising an error. One
that returns a value (T.ret) stores it through a pointer, its last parameter. Lines that begin with
`;` name the loop, statement or model node that the following lines implement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType
from ...ir.prim_expr import Call, IntImm, Not, PrimExpr
from ...ir.prim_op import cast
from ...tir import stmt as st
from ...tir.buffer import ALIGNMENT
from ...tir.byte_size import fits, product
from ...tir.expr import reads_memory
from ...tir.function import PrimFunc
from ...tir.transform.lower.lower_scalar_ops import MACHINE, lowered
from ..context import STATEMENTS as COMMON
from ..context import refuse_thread_loop
from .calls import CALLS, INSTEAD
from .convert import I64, convert
from .expr import EXPRESSIONS
from .function_text import ERROR, EXTENT, LOW, FunctionText
from .memory import store, to_memory
from .module_text import ModuleText
from .types import llvm_type, memory_type, symbol

STACK_BYTES = 1 << 16  # larger or variable allocations come from the workspace
STACK_TOTAL = 1 << 18  # per function
_LONGEST = 200  # letters of a name that code shows; LLVM cuts names at 1,024


def run(ctx: FunctionText) -> None:
    """Emit the function."""
    noalias = " noalias" if ctx.func.attrs.get("tir.noalias") else ""
    params = []
    for p in ctx.func.params:
        name = f"%{_clean(p.name)}.{next(ctx.numbers)}"
        ctx.env[p] = name
        kind = llvm_type(p.dtype)
        params.append(f"{kind}{noalias if kind == 'ptr' else ''} {name}")
    ctx.returned = ctx.module.returned(ctx.symbol)
    if ctx.returned is not None:
        params.append("ptr %result")
    ctx.note(ctx.func)
    ctx.stmt(ctx.func.body)
    ctx.emit("ret i32 0")
    ctx.finish(f"define i32 @{symbol(ctx.symbol)}({', '.join(params)}) nounwind")


def evaluate(ctx: FunctionText, node: st.Evaluate) -> None:
    value = node.value
    if isinstance(value, IntImm):
        return
    ctx.note(node)
    ctx.expr(value)


def ret(ctx: FunctionText, call: Call) -> str:
    """T.ret: store the value at the address that the caller passed."""
    if ctx.outer is not None:
        what = "T.ret inside a parallel loop"
        hint = "make the loop serial, or store the value in a buffer"
        raise LoopwrightError(explain(what, instead=hint, span=call.span))
    if ctx.returned is not None and call.args:
        result = call.args[0]
        value = convert(ctx, ctx.expr(result), result.dtype, ctx.returned)
        value = to_memory(ctx, value, ctx.returned)
        ctx.emit(f"store {memory_type(ctx.returned)} {value}, ptr %result, align 8")
    ctx.release_all()
    ctx.emit("ret i32 0")
    ctx.start_block(ctx.label("unreachable"))
    return "0"


def let(ctx: FunctionText, node: st.LetStmt) -> None:
    dtype = node.value.dtype
    plain = dtype.is_int and dtype.bits >= 32 and not reads_memory(node.value)
    ctx.env[node.var] = (ctx.index if plain else ctx.expr)(node.value)
    ctx.stmt(node.body)


def allocate(ctx: FunctionText, node: st.Allocate) -> None:
    dtype = DataType(node.dtype)
    count: int | None = dtype.lanes
    for extent in node.extents:
        if not isinstance(extent, IntImm):
            count = None
            break
        count *= extent.value
    size = None if count is None else count * dtype.lane_bytes
    if size is not None:
        size += node.alignment - ALIGNMENT  # the frame's own is that of the others
    if size is None or size > STACK_BYTES or ctx.stack_bytes + size > STACK_TOTAL:
        workspace(ctx, node, dtype)
        return
    ctx.stack_bytes += size
    kind = f"[{max(count, 1)} x {memory_type(dtype)}]"
    ctx.env[node.buffer_var] = ctx.slot(kind, node.alignment)
    ctx.stmt(node.body)


def workspace(ctx: FunctionText, node: st.Allocate, dtype: DataType) -> None:
    """Memory from the thread's arena, released on every path out."""
    each = dtype.lanes * dtype.lane_bytes
    large = ctx.expr(Not(fits(node.extents, product(node.extents, each))))
    fail_if(ctx, large, "MemoryError", f"buffer {node.buffer_var.name} is too large")
    size: str = str(each)
    for extent in node.extents:
        value = ctx.to_i64(ctx.expr(extent), extent.dtype)
        size = ctx.value(f"mul i64 {size}, {value}")
    more = node.alignment - ALIGNMENT  # than that of the arena
    if more:
        size = ctx.value(f"add i64 {size}, {more}")
    pointer = ctx.fresh(ctx.calling("ptr", "lw_workspace_alloc", ("i64", size)))
    failed = ctx.fresh(f"icmp eq ptr {pointer}, null")
    text = f"no memory for buffer {node.buffer_var.name}: {{value}} bytes"
    fail_if(ctx, failed, "MemoryError", text, size)
    ctx.env[node.buffer_var] = pointer
    if more:
        at = ctx.value(f"ptrtoint ptr {pointer} to i64")
        before = ctx.value(f"and i64 {ctx.value(f'sub i64 0, {at}')}, {node.alignment - 1}")
        ctx.env[node.buffer_var] = ctx.fresh(f"getelementptr i8, ptr {pointer}, i64 {before}")
    ctx.workspaces.append(pointer)
    ctx.stmt(node.body)
    ctx.workspaces.pop()
    ctx.emit(ctx.calling("void", "lw_workspace_free", ("ptr", pointer)))


def allocate_const(ctx: FunctionText, node: st.AllocateConst) -> None:
    ctx.env[node.buffer_var] = f"@{ctx.module.constant(node.data)}"
    ctx.stmt(node.body)


def branch(ctx: FunctionText, node: st.IfThenElse) -> None:
    ctx.note(node)
    cond = ctx.expr(node.condition)
    then, done = ctx.label("then"), ctx.label("endif")
    other = ctx.label("else") if node.else_case is not None else done
    ctx.jump_if(cond, then, other)
    for label, body in ((then, node.then_case), (other, node.else_case)):
        if body is not None:
            ctx.start_block(label)
            ctx.scoped(lambda b=body: ctx.stmt(b))
            ctx.jump(done)
    ctx.start_block(done)


def assertion(ctx: FunctionText, node: st.AssertStmt) -> None:
    ctx.note(node)
    cond = ctx.expr(node.condition)
    failed = ctx.fresh(f"xor i1 {cond}, true")
    text, value = node.text_and_value
    fail_if(ctx, failed, "ValueError", text, value)
    ctx.stmt(node.body)


def fail_if(
    ctx: FunctionText, failed: str, kind: str, message: str, value: PrimExpr | str | None = None
) -> None:
    """Leave with an error if `failed` holds; `value`, an expression or an emitted i64, replaces
    "{value}" in its text."""

    def raise_error() -> None:
        text = message if value is None else message.replace("%", "%%").replace("{value}", "%lld")
        texts = [("ptr", f"@{ctx.module.string(t)}") for t in (kind, text)]
        if value is None:
            ctx.emit(ctx.calling("void", "lw_raise", *texts))
        else:
            number = value if isinstance(value, str) else ctx.expr(cast("int64", value))
            ctx.emit(ctx.calling("void", "lw_raise_value", *texts, ("i64", number)))

    ctx.leave_if(failed, raise_error)


def for_loop(ctx: FunctionText, node: st.For) -> None:
    ctx.note(node)
    if node.kind == st.ForKind.PARALLEL and ctx.outer is None:
        parallel(ctx, node)
        return
    if node.kind == st.ForKind.THREAD_BINDING:
        raise refuse_thread_loop(node, "compile it for a GPU target, or schedule it for the CPU")
    kind = llvm_type(node.loop_var.dtype)
    low, extent = ctx.expr(node.min), ctx.expr(node.extent)
    end = extent if low == "0" else ctx.value(f"add {kind} {low}, {extent}")
    nonempty = isinstance(node.extent, IntImm) and node.extent.value > 0
    counted_loop(ctx, kind, low, end, nonempty, lambda i: loop_body(ctx, node, i))


def loop_body(ctx: FunctionText, node: st.For, index: str) -> None:
    ctx.env[node.loop_var] = index
    ctx.stmt(node.body)


def counted_loop(
    ctx: FunctionText, kind: str, low: str, end: str, runs: bool, body: Callable[[str], None]
) -> None:
    """A bottom-tested loop over [low, end); `runs`: it runs at least once."""
    head, done = ctx.label("loop"), ctx.label("done")
    if runs:
        ctx.jump(head)
    else:
        ctx.jump_if(ctx.fresh(f"icmp slt {kind} {low}, {end}"), head, done)
    before = ctx.block
    ctx.start_block(head)
    index, following = f"%i.{next(ctx.numbers)}", f"%i.{next(ctx.numbers)}"
    at = len(ctx.lines)
    ctx.lines.append("")
    ctx.scoped(lambda: body(index))
    ctx.emit(f"{following} = add nsw {kind} {index}, 1")
    more = ctx.fresh(f"icmp slt {kind} {following}, {end}")
    back = f"[ {following}, %{ctx.block} ]"
    ctx.lines[at] = f"  {index} = phi {kind} [ {low}, %{before} ], {back}"
    ctx.jump_if(more, head, done)
    ctx.start_block(done)


def while_loop(ctx: FunctionText, node: st.While) -> None:
    ctx.note(node)
    head, body, done = ctx.label("while"), ctx.label("body"), ctx.label("done")
    ctx.jump(head)
    ctx.start_block(head)
    mark = len(ctx.trail)
    ctx.jump_if(ctx.expr(node.condition), body, done)
    ctx.start_block(body)
    ctx.stmt(node.body)
    ctx.jump(head)
    ctx.forget(mark)
    ctx.start_block(done)


def parallel(ctx: FunctionText, node: st.For) -> None:
    """The loop's body becomes a separate function, run by the thread pool in chunks."""
    low = ctx.to_i64(ctx.expr(node.min), node.min.dtype)
    extent = ctx.to_i64(ctx.expr(node.extent), node.extent.dtype)
    tasks = task_count(ctx, node, extent)
    task = ctx.module.unique(symbol(f"{ctx.symbol}.{_clean(node.loop_var.name)}").strip('"'))
    worker = type(ctx)(ctx.module, ctx.symbol, ctx.func, outer=ctx.env)
    run_task(worker, task, node)
    data = ctx.slot(f"[{worker.record_bytes} x i8]", 64)
    fields = [(ERROR, "ptr", "null"), (LOW, "i64", low), (EXTENT, "i64", extent)]
    for at, var in worker.captured:
        fields.append((at, llvm_type(var.dtype), ctx.env[var]))
    for at, kind, value in fields:
        address = ctx.fresh(f"getelementptr i8, ptr {data}, i64 {at}")
        ctx.emit(f"store {kind} {value}, ptr {address}, align 8")
    launched = (("ptr", f'@"{task}"'), ("ptr", data), ("i32", tasks))
    ctx.emit(ctx.calling("i32", "lw_parallel_launch", *launched))
    if worker.can_fail:
        error = ctx.fresh(f"load ptr, ptr {data}, align 8")
        raise_again = ctx.calling("void", "lw_task_raise", ("ptr", error))
        ctx.leave_if(ctx.fresh(f"icmp ne ptr {error}, null"), lambda: ctx.emit(raise_again))


def task_count(ctx: FunctionText, node: st.For, extent: str) -> str:
    """The number of tasks: at most four per thread, each of at least `grain` iterations, and the
    same number per thread where they are enough: of five tasks two threads would do three and two."""
    threads = ctx.fresh(ctx.calling("i32", "lw_num_threads"))
    wide = ctx.fresh(f"sext i32 {threads} to i64")
    grain = int(node.annotations.get("grain", 1))
    chunks = extent if grain == 1 else ctx.fresh(f"sdiv i64 {extent}, {grain}")
    single = ctx.fresh(f"icmp eq i32 {threads}, 1")
    four = ctx.fresh(f"mul i64 {wide}, 4")
    most = ctx.fresh(f"select i1 {single}, i64 1, i64 {four}")
    capped = ctx.intrinsic("smin", I64, chunks, most)
    tasks = ctx.intrinsic("smax", I64, capped, "1")
    rest = ctx.fresh(f"srem i64 {tasks}, {wide}")
    even = ctx.fresh(f"sub i64 {tasks}, {rest}")
    enough = ctx.fresh(f"icmp sge i64 {tasks}, {wide}")
    tasks = ctx.fresh(f"select i1 {enough}, i64 {even}, i64 {tasks}")
    return ctx.fresh(f"trunc i64 {tasks} to i32")


def run_task(ctx: FunctionText, task: str, node: st.For) -> None:
    """Emit the function that runs one chunk of a parallel loop."""
    low, extent = (ctx.field(at, "i64") for at in (LOW, EXTENT))
    index = ctx.fresh("sext i32 %task to i64")
    count = ctx.fresh("sext i32 %tasks to i64")
    begin = chunk_bound(ctx, index, extent, count)
    end = chunk_bound(ctx, ctx.fresh(f"add i64 {index}, 1"), extent, count)
    first, last = ctx.fresh(f"add i64 {low}, {begin}"), ctx.fresh(f"add i64 {low}, {end}")

    def body(i: str) -> None:
        kind = llvm_type(node.loop_var.dtype)
        loop_body(ctx, node, i if kind == "i64" else ctx.value(f"trunc nsw i64 {i} to {kind}"))

    counted_loop(ctx, "i64", first, last, False, body)
    ctx.emit("ret void")
    params = "ptr noalias %data, i32 %task, i32 %tasks"
    ctx.finish(f'define internal void @"{task}"({params}) nounwind')


def chunk_bound(ctx: FunctionText, index: str, extent: str, count: str) -> str:
    """The first iteration of chunk `index`."""
    return ctx.fresh(f"sdiv i64 {ctx.fresh(f'mul i64 {index}, {extent}')}, {count}")


def _clean(name: str) -> str:
    """A name's start as LLVM allows it; LLVM itself would cut the number off that follows."""
    short = name[:_LONGEST]
    return "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in short) or "v"


class _Function(FunctionText):
    """The text of a function, with the handlers for its nodes."""

    expressions = EXPRESSIONS
    calls = {**CALLS, "ret": ret, "thread_return": ret}
    instead = INSTEAD
    statements = {
        **COMMON,
        st.Evaluate: evaluate,
        st.LetStmt: let,
        st.BufferStore: store,
        st.Allocate: allocate,
        st.AllocateConst: allocate_const,
        st.IfThenElse: branch,
        st.AssertStmt: assertion,
        st.For: for_loop,
        st.While: while_loop,
    }


class _Located(_Function):
    """The same text, each instruction with the line of the statement that it implements."""

    def __init__(self, module: ModuleText, *args: Any, **options: Mapping[PrimExpr, str]) -> None:
        super().__init__(module, *args, **options)
        assert module.debug is not None
        self.debug = module.debug
        self.marks = [(0, self.debug.line)]  # from which instruction on which line

    def stmt(self, node: st.Stmt) -> None:
        around, line = self.debug.line, self.debug.numbers.get(id(node))
        if line is None:
            super().stmt(node)
            return
        for at, inside in ((line, True), (around, False)):
            self.debug.line = at
            self.marks.append((len(self.lines), at))
            if inside:
                super().stmt(node)

    def finish(self, header: str) -> None:
        self.emit_exits()
        scope = self.debug.function(header.split("@", 1)[1].split("(", 1)[0].strip('"'))
        self.allocas = self.debug.placed(self.allocas, [(0, self.marks[0][1])], scope)
        self.lines = self.debug.placed(self.lines, self.marks, scope)
        super().finish(f"{header} !dbg !{scope}")


def add_function(module: ModuleText, name: str, func: PrimFunc) -> None:
    """Emit `func` into a module."""
    module.defined.add(symbol(name))
    func = lowered(func, MACHINE)
    if module.debug is not None:
        module.debug.begin(name, func)
    run((_Function if module.debug is None else _Located)(module, name, func))
