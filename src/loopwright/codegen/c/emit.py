"""Statements of lowered TensorIR as C99.

Input (see `tir.transform`): parameters are data pointers and scalars, buffers are flat, loops are
serial (parallel loops run serially) and all is scalar. A kernel becomes `static void
f(...)`, or `static int32_t f(...)` if it can fail: it returns 0, or -1 after a failed assertion.

Allocations larger than `stack_bytes` are placed in the scratch memory that the caller passes:
nested ones one after the other, ones with disjoint live ranges at the same offset.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType
from ...ir.expr import GlobalVar
from ...ir.functor import nodes_of, post_order_visit
from ...ir.op import Op
from ...ir.prim_expr import LE, And, Call, IntImm, PrimExpr, StringImm, Var
from ...tir import stmt as st
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc
from ...tir.transform.lower.convert_for_loops_to_serial import TILE_KIND
from ...tir.transform.lower.lower_scalar_ops import ScalarOps, lowered
from ..context import STATEMENTS as COMMON
from ..context import refuse_thread_loop
from .calls import CALLS, INSTEAD, SILENT, argument, bad_index_message, const_of, index_operand
from .expr import EXPRESSIONS, element
from .function_text import RETURN_BAD, RETURN_OK, FunctionText, Program
from .functions import NATIVE
from .instructions import is_dot, store_dot
from .ranges import NARROW_LIMIT
from .types import bare, c_type, memory_type

if TYPE_CHECKING:
    from ...ir.node import Node

ALIGNMENT = 64  # bytes of a cache line, and of the widest vector (AVX-512)
LOOSER = ("&", "|", "^", "?", "==", "!=")  # operators that bind less than "<"
_LARGEST = 1 << 40  # the largest extent of an allocation


def evaluate(ctx: FunctionText, node: st.Evaluate) -> None:
    value = node.value
    if not isinstance(value, Call):
        return
    name = getattr(value.op, "name", "")
    if isinstance(value.op, GlobalVar):
        call_function(ctx, value)
    elif name in ("tir.ret", "tir.thread_return"):
        ret(ctx, value)
    elif name.startswith("tir.call_") and value.args and ctx.module.has(value.args[0]):
        target = GlobalVar(value.args[0].value)
        call_function(ctx, Call("void", target, list(value.args[1:]), value.span))
    elif isinstance(value.op, Op) and name.removeprefix("tir.") in SILENT:
        return
    else:
        text = bare(ctx.expr(value))
        ctx.emit(f"{text};" if name == "tir.call_extern" else f"(void)({text});")


def ret(ctx: FunctionText, call: Call) -> None:
    """T.ret() or T.ret(0): return from the function."""
    if call.args and not (isinstance(call.args[0], IntImm) and call.args[0].value == 0):
        what = "a function that returns a value has no C code"
        hint = "store the value in a buffer that the function is given"
        raise LoopwrightError(explain(what, instead=hint, span=call.span))
    ctx.emit(RETURN_OK)


def call_function(ctx: FunctionText, call: Call) -> None:
    """A call of another function of the program; the caller fails if it does."""
    callee = ctx.module.require(call.op.name_hint, call.span)
    pairs = zip(call.args, callee.params, strict=True)
    written = [argument(ctx, a, kind) for a, (_, kind) in pairs]
    for arg, (p, _) in zip(call.args, callee.params, strict=True):
        limit = callee.ranges.bounds.get(p)
        if limit is not None and ctx.ranges.interval(arg)[1] > limit[1]:
            what = f"{p.name} of {callee.symbol} may be more than {limit[1]}"
            hint = 'its upper bound ("tir_var_upper_bound"): raise it, or rename the variable'
            raise LoopwrightError(explain(what, got=str(arg), instead=hint, span=call.span))
    if callee.scratch_bytes:
        take(ctx, callee.scratch_bytes)
        at = ctx.scratch_at
        written.append(f"scratch + {at}" if at else "scratch")
    text = f"{callee.symbol}({', '.join(written)})"
    if callee.can_fail:
        fail_unless(ctx, f"{text} == 0")
    else:
        ctx.emit(f"{text};")


def let(ctx: FunctionText, node: st.LetStmt) -> None:
    """A constant local; if it is unused, only the side effects of its value remain."""
    var, dtype = node.var, node.value.dtype
    label = ctx.env[var] = ctx.name(var.name)
    if dtype.is_handle:
        ctx.pointees[var] = f"{constness(ctx, node.value)}{pointee(var)}"
    elif dtype.is_int:
        ctx.ranges.bounds[var] = ctx.ranges.interval(node.value)
    narrow = dtype.is_int and dtype.bits == 64 and ctx.ranges.fits_narrow(node.value)
    if narrow:
        ctx.ranges.narrow.add(var)
    at = len(ctx.lines)
    ctx.lines.append("")
    ctx.stmt(node.body)
    if var in ctx.used:
        plain = dtype.is_int and dtype.bits >= 32 and not loads(node.value)
        kind = (
            f"{ctx.pointees[var]}* const"
            if dtype.is_handle
            else f"const {'ptrdiff_t' if narrow else c_type(dtype)}"
        )
        if dtype.is_handle:
            value = argument(ctx, node.value, f"{ctx.pointees[var]}*")
        else:
            value = ctx.index(node.value) if plain else ctx.bare(node.value)
        ctx.lines[at] = f"{'  ' * ctx.depth}{kind} {label} = {value};"
    elif calls(node.value):
        ctx.lines[at] = f"{'  ' * ctx.depth}(void)({ctx.bare(node.value)});"


def constness(ctx: FunctionText, value: PrimExpr) -> str:
    """ "const " if a pointer is derived from memory that must not be written."""
    roots = pointers_in(value)
    return "const " if any(const_of(ctx, v) for v in roots) else ""


def store(ctx: FunctionText, node: st.BufferStore) -> None:
    if is_dot(node.value):
        store_dot(ctx, node)
        return
    target = element(ctx, node.buffer, node.indices)
    value = ctx.bare(node.value)
    if node.buffer.dtype.is_bool:
        value = f"(uint8_t)({value})"
    if node.predicate is not None:
        ctx.emit(f"if ({ctx.bare(node.predicate)}) {target} = {value};")
    else:
        ctx.emit(f"{target} = {value};")


def branch(ctx: FunctionText, node: st.IfThenElse) -> None:
    ctx.block(f"if ({ctx.bare(node.condition)})", node.then_case)
    if node.else_case is not None:
        ctx.block("else", node.else_case)


def for_loop(ctx: FunctionText, node: st.For) -> None:
    if node.kind in (st.ForKind.THREAD_BINDING, st.ForKind.VECTORIZED):
        raise refuse_thread_loop(node, "C loops are serial: compile with the passes of backend.c")
    var, kind = node.loop_var, c_type(node.loop_var.dtype)
    low, end = ctx.index(node.min), ctx.index(node.extent)
    (first, _), (_, count) = ctx.ranges.interval(node.min), ctx.ranges.interval(node.extent)
    last = ctx.ranges.interval(node.min)[1] + count - 1
    if low != "0":
        end = (
            str(node.min.value + count)
            if _literals(node)
            else f"{index_operand(ctx, node.min)} + {index_operand(ctx, node.extent)}"
        )
    if any(operator in end for operator in LOOSER):
        end = f"({end})"
    if loads(node.extent) or loads(node.min):  # the body must not change the bound
        limit = ctx.name(f"{var.name}_end")
        ctx.emit(f"const {kind} {limit} = {end};")
        end = limit
    if var.dtype == "int64" and first > -NARROW_LIMIT and last + 1 < NARROW_LIMIT:
        kind = "ptrdiff_t"  # 32 bits wide on a 32-bit machine
        ctx.ranges.narrow.add(var)
    before = set(ctx.used_names)
    label = ctx.env[var] = ctx.name(var.name)
    ctx.ranges.bounds[var] = (first, last)
    was = node.annotations.get(TILE_KIND)
    if was is not None:
        how = "VECTOR" if was == "vectorized" else f"UNROLL({count})"
        ctx.emit(f"{ctx.module.macro}_{how}")
    ctx.block(f"for ({kind} {label} = {low}; {label} < {end}; ++{label})", node.body)
    ctx.used_names = before


def while_loop(ctx: FunctionText, node: st.While) -> None:
    ctx.block(f"while ({ctx.bare(node.condition)})", node.body)


def assertion(ctx: FunctionText, node: st.AssertStmt) -> None:
    holds, message = node.condition, node.message
    if _is_proven(ctx, holds):  # as of a bounded size, which the entry checks
        ctx.stmt(node.body)
        return
    if isinstance(message, Call) and message.args:  # a format string and its values
        message = message.args[0]
    if not isinstance(message, StringImm):
        message = StringImm(str(message))
    fail_unless(ctx, ctx.bare(holds), message)
    ctx.stmt(node.body)


def _is_proven(ctx: FunctionText, condition: PrimExpr) -> bool:
    """Whether comparisons hold for all values in the known ranges."""
    if isinstance(condition, And):
        return _is_proven(ctx, condition.a) and _is_proven(ctx, condition.b)
    interval = ctx.ranges.interval
    return isinstance(condition, LE) and interval(condition.a)[1] <= interval(condition.b)[0]


def fail_unless(ctx: FunctionText, condition: str, message: StringImm | None = None) -> None:
    """Return with an error unless a condition holds."""
    ctx.can_fail = True
    if message is None:
        ctx.emit(f"if (!({condition})) {RETURN_BAD}")
        return
    ctx.emit(f"if (!({condition})) {{")
    ctx.emit(f"  {ctx.module.macro}_ERROR({ctx.expr(message)});")
    ctx.emit(f"  {RETURN_BAD}")
    ctx.emit("}")


def allocate(ctx: FunctionText, node: st.Allocate) -> None:
    var, dtype = node.buffer_var, DataType(node.dtype)
    count = dtype.lanes
    for extent in node.extents:
        most = ctx.ranges.interval(extent)[1]
        if most > _LARGEST:
            shown = re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(extent))
            what = f"the size of {var.name} in {ctx.symbol} depends on {shown}"
            hint = (
                "C code has one static workspace: give symbolic sizes numbers (--dims n=1, BindSymbolicVars)"
                " or an upper bound (--dims 'n<=8', the graph function's attribute"
                ' "tir_var_upper_bound")'
            )
            raise LoopwrightError(explain(what, instead=hint, span=ctx.func.span))
        count *= max(most, 0)
    size = count * dtype.lane_bytes
    kind = memory_type(dtype.element)
    ctx.pointees[var] = kind
    label = ctx.env[var] = ctx.name(var.name)
    at, before = len(ctx.lines), ctx.scratch_at
    ctx.lines.append("")
    more = node.alignment - ALIGNMENT  # than the scratch memory has
    if size <= ctx.stack_bytes and not more:
        ctx.stmt(node.body)
        # Compilers cannot prove that the first iteration initializes what later ones read.
        start = " = {0}" if stores_on_condition(node.body, var) else ""
        text = f"{kind} {label}[{max(count, 1)}]{start};"
    else:
        offset = before
        take(ctx, size + more)
        ctx.scratch_at = before + rounded(size + more)
        ctx.stmt(node.body)
        ctx.scratch_at = before
        address = f"scratch + {offset}" if offset else "scratch"
        if more:
            mask = node.alignment - 1
            address = f"(((uintptr_t)({address}) + {mask}) & ~(uintptr_t){mask})"
        cast = "" if kind == "uint8_t" and not more else f"({kind}*)"
        text = f"{kind}* const {label} = {cast}{f'({address})' if cast and offset and not more else address};"
    if var in ctx.used:
        ctx.lines[at] = "  " * ctx.depth + text
        if not any(var is p for n in nodes_of(node.body, BufferLoad, Call) for p in pointers_in(n)):
            ctx.emit(f"(void){label};")  # written, never read


def take(ctx: FunctionText, size: int) -> None:
    """Reserve `size` more bytes of scratch memory beyond those in use."""
    ctx.scratch_bytes = max(ctx.scratch_bytes, ctx.scratch_at + rounded(size))


def allocate_const(ctx: FunctionText, node: st.AllocateConst) -> None:
    text, kind = ctx.module.constant(node.data, node.buffer_var.name)
    ctx.env[node.buffer_var], ctx.pointees[node.buffer_var] = text, kind
    ctx.stmt(node.body)


def run(ctx: FunctionText, written: set[Var]) -> None:
    """Emit the function; `written` are the parameters that it writes through."""
    restrict = "restrict " if ctx.func.attrs.get("tir.noalias") else ""
    declared = []
    for p in ctx.func.params:
        label = ctx.env[p] = ctx.name(p.name)
        if p.dtype.is_handle:
            const = "" if p in written else "const "
            ctx.pointees[p] = kind = f"{const}{pointee(p)}"
            declared.append(f"{kind}* {restrict}{label}")
            ctx.params.append((p, f"{kind}*"))
        else:
            declared.append(f"{c_type(p.dtype)} {label}")
            if p.name in ctx.module.bounds:
                ctx.ranges.bounds[p] = (0, ctx.module.bounds[p.name])
            ctx.params.append((p, c_type(p.dtype)))
    ctx.stmt(ctx.func.body)
    if ctx.bad_index:
        message = bad_index_message(
            ctx, str(ctx.index_span or ctx.func.span or ctx.symbol).splitlines()[0]
        )
        failed = f"{message} {ctx.module.macro}_ERROR(text); return -1;"
        ctx.check_index = f"if ({ctx.bad_index}[0] != 0) {{ {failed} }}\n  "
        ctx.lines.insert(0, f"  int64_t {ctx.bad_index}[3] = {{0}};")
    if ctx.scratch_bytes:
        declared.append("uint8_t* scratch")
    result = "int32_t" if ctx.can_fail else "void"
    ctx.header = f"{ctx.module.macro}_NOINLINE\nstatic {result} {ctx.symbol}({', '.join(declared) or 'void'})"
    unused = [f"  (void){ctx.env[p]};" for p, _ in ctx.params if p not in ctx.used]
    ctx.lines = [*unused, *(line for line in ctx.lines if line)]
    if ctx.can_fail:
        ctx.lines.append(f"  {RETURN_OK}")


def rounded(size: int) -> int:
    """A size in bytes rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def pointee(var: Var) -> str:
    """The C type that a pointer variable points to."""
    annotation = var.type_annotation
    dtype = DataType(annotation[0]) if annotation else None
    return "void" if dtype is None or dtype.is_handle else memory_type(dtype.element)


def loads(value: PrimExpr) -> bool:
    """Whether an expression reads memory or calls something."""
    return bool(nodes_of(value, BufferLoad, Call))


def calls(value: PrimExpr) -> bool:
    """Whether an expression calls a C function."""
    return any(getattr(c.op, "name", "") == "tir.call_extern" for c in nodes_of(value, Call))


def stores_on_condition(body: st.Stmt, var: Var) -> bool:
    """Whether a buffer is stored to under a condition."""
    inside = (s for b in nodes_of(body, st.IfThenElse) for s in nodes_of(b, st.BufferStore))
    return any(store.buffer.data is var for store in inside)


def pointers_in(value: PrimExpr) -> list[Var]:
    """The pointer variables of an expression."""
    pointers: list[Var] = []

    def visit(node: Node) -> None:
        if isinstance(node, Var) and node.dtype.is_handle:
            pointers.append(node)
        buffer = getattr(node, "buffer", None)
        if buffer is not None:
            pointers.append(buffer.data)

    post_order_visit(value, visit)
    return pointers


def written_pointers(func: PrimFunc, written_args: Callable[..., Any]) -> set[Var]:
    """The parameters that a function may write through. `written_args(call)` returns the arguments
    of a call that the callee may write through."""
    aliases: dict[Var, list[Var]] = {}
    roots: list[Var] = []

    def visit(node: Any) -> None:
        if isinstance(node, st.LetStmt) and node.value.dtype.is_handle:
            aliases[node.var] = pointers_in(node.value)
        elif isinstance(node, st.BufferStore):
            roots.append(node.buffer.data)
        elif isinstance(node, Call):
            for arg in written_args(node):
                roots.extend(pointers_in(arg))

    post_order_visit(func.body, visit)
    written: set[Var] = set()
    while roots:
        var = roots.pop()
        if var not in written:
            written.add(var)
            roots.extend(aliases.get(var, ()))
    return written & set(func.params)


def _literals(node: st.For) -> bool:
    return isinstance(node.min, IntImm) and isinstance(node.extent, IntImm)


class _Function(FunctionText):
    """The text of a function, with the handlers for its nodes."""

    expressions = EXPRESSIONS
    calls = CALLS
    instead = INSTEAD
    scalars = ScalarOps(NATIVE)
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


def function_text(
    program: Program, name: str, func: PrimFunc, stack_bytes: int, written: set[Var]
) -> FunctionText:
    """The text of a function; `written` are the parameters that it writes through."""
    ctx = _Function(program, name, lowered(func, NATIVE), stack_bytes)
    run(ctx, written)
    return ctx
