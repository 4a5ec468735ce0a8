"""Statements of lowered TensorIR as C99.

What comes in (see `tir.transform`): parameters are data pointers and scalars, buffers are flat, loops
serial (a parallel one runs serially), no vectors. A kernel becomes `static void f(...)`, or
`static int32_t f(...)` where it can fail: it returns 0, or -1 after an assertion that did not hold.

Allocations larger than `stack_bytes` are cut from the scratch memory that the caller hands over:
nested ones one after the other, those that are never live together at the same place.
"""

from __future__ import annotations

import re
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType
from ...ir.expr import GlobalVar
from ...ir.functor import post_order_visit
from ...ir.op import Op
from ...ir.prim_expr import Call, IntImm, StringImm, Var
from ...tir import stmt as st
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc
from .calls import CallEmitter
from .types import bare, c_type, memory_type

ALIGNMENT = 64
_NARROW = 1 << 31
_LARGEST = 1 << 40  # of an extent that an allocation can have
_RETURN_OK, _RETURN_BAD = "\0ok", "\0bad"


class FunctionEmitter(CallEmitter):
    """One function."""

    def __init__(self, module: Any, name: str, func: PrimFunc, stack_bytes: int) -> None:
        super().__init__(module.helpers)
        self.module = module
        self.symbol = name
        self.func = func
        self.stack_bytes = stack_bytes
        self.lines: list[str] = []
        self.depth = 1
        self.can_fail = False
        self.scratch_at = 0  # bytes in use here
        self.scratch_bytes = 0  # most bytes in use anywhere
        self.taken = {*module.reserved, name, "scratch"}
        self.params: list[tuple[Var, str]] = []

    # -- functions -----------------------------------------------------------------------------

    def run(self, written: set[Var]) -> None:
        """Emit the function; `written`: the parameters through which it writes."""
        restrict = "restrict " if self.func.attrs.get("tir.noalias") else ""
        declared = []
        for p in self.func.params:
            made = self.env[p] = self.name(p.name)
            if p.dtype.is_handle:
                const = "" if p in written else "const "
                self.pointees[p] = kind = f"{const}{pointee(p)}"
                declared.append(f"{kind}* {restrict}{made}")
                self.params.append((p, f"{kind}*"))
            else:
                declared.append(f"{c_type(p.dtype)} {made}")
                if p.name in self.module.bounds:
                    self.ranges[p] = (0, self.module.bounds[p.name])
                self.params.append((p, c_type(p.dtype)))
        self.stmt(self.func.body)
        if self.scratch_bytes:
            declared.append("uint8_t* scratch")
        result = "int32_t" if self.can_fail else "void"
        self.header = f"{self.module.macro}_NOINLINE\nstatic {result} {self.symbol}({', '.join(declared) or 'void'})"
        unused = [f"  (void){self.env[p]};" for p, _ in self.params if p not in self.used]
        self.lines = [*unused, *(line for line in self.lines if line)]
        if self.can_fail:
            self.lines.append(f"  {_RETURN_OK}")

    def text(self) -> str:
        """The whole definition."""
        ok, bad = ("return 0;", "return -1;") if self.can_fail else ("return;", "")
        body = "\n".join(self.lines).replace(_RETURN_OK, ok).replace(_RETURN_BAD, bad)
        span = "" if self.func.span is None else str(self.func.span).splitlines()[0]
        comment = span.replace("*/", "* /").replace("/*", "/ *")
        return f"{f'/* {comment} */' if comment else ''}\n{self.header} {{\n{body}\n}}".lstrip()

    def emit(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def block(self, header: str, body: Any) -> None:
        """`header { body }`; names of the body are free after it."""
        self.emit(f"{header} {{")
        self.depth += 1
        before = set(self.taken)
        self.stmt(body)
        self.taken = before
        self.depth -= 1
        self.emit("}")

    # -- statements ----------------------------------------------------------------------------

    def stmt(self, node: Any) -> None:
        """Emit one statement."""
        handler = _STATEMENTS.get(type(node))
        if handler is None:
            what = f"{type(node).__name__} is not lowered"
            hint = "run the passes of backend.c first"
            raise LoopwrightError(explain(what, instead=hint, span=node.span))
        handler(self, node)

    def seq(self, node: st.SeqStmt) -> None:
        for item in node.seq:
            self.stmt(item)

    def inner(self, node: Any) -> None:
        """A statement that says nothing to the machine."""
        self.stmt(node.body)

    def evaluate(self, node: st.Evaluate) -> None:
        value = node.value
        if not isinstance(value, Call):
            return
        name = getattr(value.op, "name", "")
        if isinstance(value.op, GlobalVar):
            self.call_function(value)
        elif name in ("tir.ret", "tir.thread_return"):
            self.ret(value)
        elif name.startswith("tir.call_") and value.args and self.module.has(value.args[0]):
            target = GlobalVar(value.args[0].value)
            self.call_function(Call("void", target, list(value.args[1:]), value.span))
        elif isinstance(value.op, Op) and name in _SILENT:
            return
        else:
            text = bare(self.expr(value))
            self.emit(f"{text};" if name == "tir.call_extern" else f"(void)({text});")

    def ret(self, call: Call) -> None:
        """T.ret() ends the function; T.ret(0) as well."""
        if call.args and not (isinstance(call.args[0], IntImm) and call.args[0].value == 0):
            what = "a function that returns a value has no C code"
            hint = "store the value in a buffer that the function is given"
            raise LoopwrightError(explain(what, instead=hint, span=call.span))
        self.emit(_RETURN_OK)

    def call_function(self, call: Call) -> None:
        """Another function of the program; its failure is ours."""
        callee = self.module.require(call.op.name_hint, call.span)
        pairs = zip(call.args, callee.params, strict=True)
        given = [self.argument(a, kind) for a, (_, kind) in pairs]
        for arg, (p, _) in zip(call.args, callee.params, strict=True):
            limit = callee.ranges.get(p)
            if limit is not None and self.interval(arg)[1] > limit[1]:
                what = f"{p.name} of {callee.symbol} may be more than {limit[1]}"
                hint = 'its upper bound ("tir_var_upper_bound"): raise it, or rename the variable'
                raise LoopwrightError(explain(what, got=str(arg), instead=hint, span=call.span))
        if callee.scratch_bytes:
            self.take(callee.scratch_bytes)
            at = self.scratch_at
            given.append(f"scratch + {at}" if at else "scratch")
        text = f"{callee.symbol}({', '.join(given)})"
        if callee.can_fail:
            self.fail_unless(f"{text} == 0")
        else:
            self.emit(f"{text};")

    def let(self, node: st.LetStmt) -> None:
        """A constant local; where it is not used only what its value does remains."""
        var, dtype = node.var, node.value.dtype
        made = self.env[var] = self.name(var.name)
        if dtype.is_handle:
            self.pointees[var] = f"{self.constness(node.value)}{pointee(var)}"
        elif dtype.is_int:
            self.ranges[var] = self.interval(node.value)
        narrow = dtype.is_int and dtype.bits == 64 and self.fits_narrow(node.value)
        if narrow:
            self.narrow_vars.add(var)
        at = len(self.lines)
        self.lines.append("")
        self.stmt(node.body)
        if var in self.used:
            plain = dtype.is_int and dtype.bits >= 32 and not loads(node.value)
            kind = (
                f"{self.pointees[var]}* const"
                if dtype.is_handle
                else f"const {'ptrdiff_t' if narrow else c_type(dtype)}"
            )
            if dtype.is_handle:
                value = self.argument(node.value, f"{self.pointees[var]}*")
            else:
                value = self.index(node.value) if plain else self.bare(node.value)
            self.lines[at] = f"{'  ' * self.depth}{kind} {made} = {value};"
        elif calls(node.value):
            self.lines[at] = f"{'  ' * self.depth}(void)({self.bare(node.value)});"

    def constness(self, value: Any) -> str:
        """ "const " where a pointer comes from what must not be written."""
        roots = pointers_in(value)
        return "const " if any(self.const_of(v) for v in roots) else ""

    def store(self, node: st.BufferStore) -> None:
        target = self.element(node.buffer, node.indices)
        value = self.bare(node.value)
        if node.buffer.dtype.is_bool:
            value = f"(uint8_t)({value})"
        if node.predicate is not None:
            self.emit(f"if ({self.bare(node.predicate)}) {target} = {value};")
        else:
            self.emit(f"{target} = {value};")

    def branch(self, node: st.IfThenElse) -> None:
        self.block(f"if ({self.bare(node.condition)})", node.then_case)
        if node.else_case is not None:
            self.block("else", node.else_case)

    def for_loop(self, node: st.For) -> None:
        if node.kind in (st.ForKind.THREAD_BINDING, st.ForKind.VECTORIZED):
            kind = (
                "bound to a GPU thread" if node.kind == st.ForKind.THREAD_BINDING else "vectorized"
            )
            what = f"loop {node.loop_var.name} is {kind}"
            hint = "C loops are serial: compile with the passes of backend.c"
            raise LoopwrightError(explain(what, instead=hint, span=node.span))
        var, kind = node.loop_var, c_type(node.loop_var.dtype)
        low, end = self.index(node.min), self.index(node.extent)
        (first, _), (_, count) = self.interval(node.min), self.interval(node.extent)
        last = self.interval(node.min)[1] + count - 1
        if low != "0":
            end = (
                str(node.min.value + count)
                if _literals(node)
                else f"{self.operand(node.min)} + {self.operand(node.extent)}"
            )
        if loads(node.extent) or loads(node.min):  # what the body does must not move the end
            limit = self.name(f"{var.name}_end")
            self.emit(f"const {kind} {limit} = {end};")
            end = limit
        if var.dtype == "int64" and first > -_NARROW and last + 1 < _NARROW:
            kind = "ptrdiff_t"  # 32 bits where the machine has no more
            self.narrow_vars.add(var)
        before = set(self.taken)
        made = self.env[var] = self.name(var.name)
        self.ranges[var] = (first, last)
        self.block(f"for ({kind} {made} = {low}; {made} < {end}; ++{made})", node.body)
        self.taken = before

    def operand(self, node: Any) -> str:
        text = self.index(node)
        return text if text.isidentifier() or text.isdigit() else f"({text})"

    def while_loop(self, node: st.While) -> None:
        self.block(f"while ({self.bare(node.condition)})", node.body)

    def assertion(self, node: st.AssertStmt) -> None:
        message = node.message
        if isinstance(message, Call) and message.args:  # a text, and the values it shows
            message = message.args[0]
        if not isinstance(message, StringImm):
            message = StringImm(str(message))
        self.fail_unless(self.bare(node.condition), message)
        self.stmt(node.body)

    def fail_unless(self, condition: str, message: StringImm | None = None) -> None:
        """Leave with an error where a condition does not hold."""
        self.can_fail = True
        if message is None:
            self.emit(f"if (!({condition})) {_RETURN_BAD}")
            return
        self.emit(f"if (!({condition})) {{")
        self.emit(f"  {self.module.macro}_ERROR({self.string(message)});")
        self.emit(f"  {_RETURN_BAD}")
        self.emit("}")

    # -- memory --------------------------------------------------------------------------------

    def allocate(self, node: st.Allocate) -> None:
        var, dtype = node.buffer_var, DataType(node.dtype)
        count = dtype.lanes
        for extent in node.extents:
            most = self.interval(extent)[1]
            if most > _LARGEST:
                shown = re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(extent))
                what = f"the size of {var.name} in {self.symbol} depends on {shown}"
                hint = (
                    "C code has one static workspace: give symbolic sizes an upper bound (the graph"
                    ' function\'s attribute "tir_var_upper_bound") or numbers (BindSymbolicVars)'
                )
                raise LoopwrightError(explain(what, instead=hint, span=self.func.span))
            count *= max(most, 0)
        size = count * dtype.itemsize
        kind = memory_type(dtype.element)
        self.pointees[var] = kind
        made = self.env[var] = self.name(var.name)
        at, before = len(self.lines), self.scratch_at
        self.lines.append("")
        if size <= self.stack_bytes:
            self.stmt(node.body)
            # Compilers cannot tell that the first iteration fills what later ones read.
            start = " = {0}" if stores_on_condition(node.body, var) else ""
            text = f"{kind} {made}[{max(count, 1)}]{start};"
        else:
            offset = before
            self.take(size)
            self.scratch_at = before + rounded(size)
            self.stmt(node.body)
            self.scratch_at = before
            place = f"scratch + {offset}" if offset else "scratch"
            cast = "" if kind == "uint8_t" else f"({kind}*)"
            text = f"{kind}* const {made} = {cast}{f'({place})' if cast and offset else place};"
        if var in self.used:
            self.lines[at] = "  " * self.depth + text

    def take(self, size: int) -> None:
        """So many more bytes of scratch memory than are in use are wanted here."""
        self.scratch_bytes = max(self.scratch_bytes, self.scratch_at + rounded(size))

    def allocate_const(self, node: st.AllocateConst) -> None:
        text, kind = self.module.constant(node.data, node.buffer_var.name)
        self.env[node.buffer_var], self.pointees[node.buffer_var] = text, kind
        self.stmt(node.body)


def rounded(size: int) -> int:
    """A size in bytes as a multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def pointee(var: Var) -> str:
    """What a pointer variable points to, in C."""
    found = var.type_annotation
    if not found:
        return "void"
    dtype = DataType(found[0])
    return "void" if dtype.is_handle else memory_type(dtype.element)


def loads(value: Any) -> bool:
    """Whether an expression reads memory or calls something."""
    found: list[Any] = []
    post_order_visit(
        value, lambda n: found.append(n) if isinstance(n, (BufferLoad, Call)) else None
    )
    return bool(found)


def calls(value: Any) -> bool:
    """Whether an expression calls a C function."""
    found: list[Any] = []
    name = lambda n: getattr(n.op, "name", "") if isinstance(n, Call) else ""  # noqa: E731
    post_order_visit(value, lambda n: found.append(n) if name(n) == "tir.call_extern" else None)
    return bool(found)


def stores_on_condition(body: Any, var: Var) -> bool:
    """Whether a store to a buffer stands under a condition."""
    found: list[Any] = []

    def inside(node: Any) -> None:
        if isinstance(node, st.BufferStore) and node.buffer.data is var:
            found.append(node)

    def visit(node: Any) -> None:
        if isinstance(node, st.IfThenElse):
            post_order_visit(node, inside)

    post_order_visit(body, visit)
    return bool(found)


def pointers_in(value: Any) -> list[Var]:
    """The pointer variables of an expression."""
    found: list[Var] = []

    def visit(node: Any) -> None:
        if isinstance(node, Var) and node.dtype.is_handle:
            found.append(node)
        buffer = getattr(node, "buffer", None)
        if buffer is not None:
            found.append(buffer.data)

    post_order_visit(value, visit)
    return found


def written_pointers(func: PrimFunc, written_args: Any) -> set[Var]:
    """The parameters through which a function may write. `written_args(call)`: the arguments of a
    call through which the called function may."""
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
    found: set[Var] = set()
    while roots:
        var = roots.pop()
        if var not in found:
            found.add(var)
            roots.extend(aliases.get(var, ()))
    return found & set(func.params)


def _literals(node: st.For) -> bool:
    return isinstance(node.min, IntImm) and isinstance(node.extent, IntImm)


_SILENT = ("tir.assume", "tir.prefetch", "tir.tvm_storage_sync", "tir.undef")
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
