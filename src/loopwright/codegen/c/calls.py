"""Calls in lowered TensorIR as C: intrinsics, C functions, other functions of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...base.errors import LoopwrightError, explain
from ...ir import prim_expr as pe
from ...ir.dtype import DataType
from ...ir.expr import GlobalVar
from ...ir.op import Op
from ...ir.prim_expr import Call, IntImm, PrimExpr, StringImm
from ...tir.expr import BufferLoad
from .expr import ExprEmitter
from .helpers import F32
from .types import (
    MATH_H,
    STRING_H,
    bare,
    c_type,
    identifier,
    is_small,
    literal,
    memory_type,
    unsigned,
)

if TYPE_CHECKING:
    from .program import ProgramText

I32, I64 = DataType("int32"), DataType("int64")
_BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
_ROUNDING = ("floor", "ceil", "trunc", "round", "nearbyint")


class CallEmitter(ExprEmitter):
    """Emits calls; whatever it is, its arguments are data, not indices."""

    module: ProgramText

    def call(self, node: Call) -> str:
        before = self.indexing, self.narrow
        self.indexing = self.narrow = False
        text = self.call_any(node)
        self.indexing, self.narrow = before
        return text

    def call_any(self, node: Call) -> str:
        if isinstance(node.op, GlobalVar):
            what = f"the value of a call of {node.op.name_hint} is used"
            hint = "store the value in a buffer that the function is given"
            raise LoopwrightError(explain(what, instead=hint, span=node.span))
        if not isinstance(node.op, Op):
            raise LoopwrightError(explain("this cannot be called", got=str(node.op)))
        name = node.op.name.removeprefix("tir.")
        handler = _CALLS.get(name)
        if handler is not None:
            return handler(self, node)
        if name in MATH_H or name == "round":
            return self.math(name, node)
        what = f"the intrinsic {node.op.name} has no C code"
        hint = _INSTEAD.get(name, "call a C function with T.call_extern")
        raise LoopwrightError(explain(what, instead=hint, span=node.span))

    # -- functions of numbers ------------------------------------------------------------------

    def math(self, name: str, node: Call) -> str:
        """A function of math.h; integers are rounded already."""
        dtype, args = node.dtype, [self.expr(a) for a in node.args]
        if not dtype.is_float:
            if name in _ROUNDING:
                return args[0]
            what = f"the intrinsic {node.op.name} has no C code for {dtype}"
            raise LoopwrightError(explain(what, instead="cast to float32", span=node.span))
        args = [self.convert(t, a.dtype, dtype) for t, a in zip(args, node.args, strict=True)]
        end = "" if dtype.base == "float64" else "f"

        def compute(*values: str) -> str:
            called = "rint" if name == "round" else name  # half goes to even
            return f"{called}{end}({', '.join(map(bare, values))})"

        return self.in_float(dtype, args, compute)

    def power(self, node: Call) -> str:
        if not node.dtype.is_integer:
            return self.math("pow", node)
        a, b = map(self.bare, node.args)
        return f"{self.helpers.power(node.dtype)}({a}, {b})"

    def absolute(self, node: Call) -> str:
        dtype, text = node.dtype, self.expr(node.args[0])
        if dtype.is_float:
            end = "" if dtype.base == "float64" else "f"
            return self.in_float(dtype, [text], lambda x: f"fabs{end}({bare(x)})")
        if not dtype.is_int:
            return text
        negative = self.helpers.wrapped(f"(0u - ({unsigned(dtype)}){text})", dtype)
        return f"({text} < 0 ? {negative} : {text})"

    def as_real(self, node: PrimExpr) -> str:
        text = self.bare(node)
        return f"{self.helpers.widen(node.dtype)}({text})" if is_small(node.dtype) else text

    def is_nan(self, node: Call) -> str:
        return f"(isnan({self.as_real(node.args[0])}) != 0)"

    def is_inf(self, node: Call) -> str:
        return f"(isinf({self.as_real(node.args[0])}) != 0)"

    def is_null(self, node: Call) -> str:
        return f"({self.expr(node.args[0])} == NULL)"

    def rsqrt(self, node: Call) -> str:
        double = node.dtype.base == "float64"
        one, root = ("1.0", "sqrt") if double else ("1.0f", "sqrtf")
        text = self.expr(node.args[0])
        return self.in_float(node.dtype, [text], lambda x: f"({one} / {root}({bare(x)}))")

    def exp10(self, node: Call) -> str:
        double = node.dtype.base == "float64"
        ten = "pow(10.0, " if double else "powf(10.0f, "
        return self.in_float(node.dtype, [self.expr(node.args[0])], lambda x: f"{ten}{bare(x)})")

    def sigmoid(self, node: Call) -> str:
        of = F32 if is_small(node.dtype) else node.dtype
        name = self.helpers.sigmoid(of)
        return self.in_float(node.dtype, [self.expr(node.args[0])], lambda x: f"{name}({bare(x)})")

    def ldexp(self, node: Call) -> str:
        """x * 2**e, e of any type."""
        text, power = self.expr(node.args[0]), node.args[1]
        by = self.expr(power)
        if power.dtype.is_integer and power.dtype.bits == 64:
            lowest = self.helpers.extremum(True, power.dtype)
            by = f"{lowest}({by}, {literal(-5000, power.dtype)})" if power.dtype.is_int else by
            by = f"{self.helpers.extremum(False, power.dtype)}({by}, 5000)"
        by = bare(self.convert(by, power.dtype, I32))
        end = "" if node.dtype.base == "float64" else "f"
        return self.in_float(node.dtype, [text], lambda x: f"ldexp{end}({bare(x)}, {by})")

    def next_after(self, node: Call) -> str:
        dtype, (a, b) = node.dtype, map(self.bare, node.args)
        if dtype.base in ("float32", "float64"):
            return f"nextafter{'f' if dtype.base == 'float32' else ''}({a}, {b})"
        if dtype.base not in ("float16", "bfloat16"):
            what = f"nextafter has no C code for {dtype}"
            raise LoopwrightError(explain(what, instead="cast to float32", span=node.span))
        return f"{self.helpers.next_after(dtype)}({a}, {b})"

    def shift(self, node: Call) -> str:
        """Shifts; by the type's width or more every bit moves out."""
        dtype, left = node.dtype, node.op.name.endswith("left")
        a, b = map(self.expr, node.args)
        by = node.args[1]
        if isinstance(by, IntImm) and 0 <= by.value < dtype.bits:
            if left:
                return f"({self.helpers.wrapped(f'(({unsigned(dtype)}){a} << {by.value})', dtype)})"
            return f"({a} >> {by.value})"
        return f"{self.helpers.shift(left, dtype)}({bare(a)}, {bare(b)})"

    def bits(self, node: Call) -> str:
        sign = _BITS[node.op.name.removeprefix("tir.")]
        a, b = map(self.expr, node.args)
        if node.dtype.is_bool:
            return f"({a} {'!=' if sign == '^' else sign * 2} {b})"
        return f"({a} {sign} {b})"

    def bitwise_not(self, node: Call) -> str:
        text = self.expr(node.args[0])
        if node.dtype.is_bool:
            return f"!{text}"
        return f"({self.helpers.wrapped(f'(~({unsigned(node.dtype)}){text})', node.dtype)})"

    def count_bits(self, node: Call) -> str:
        source = node.args[0].dtype
        name = self.helpers.count_bits(node.op.name.removeprefix("tir."), source)
        return self.convert(f"{name}({self.bare(node.args[0])})", I32, node.dtype)

    def q_multiply(self, node: Call) -> str:
        """x * y as numbers with q fraction bits, shifted right by s, rounded half up."""
        x, y, *rest = (self.convert(self.expr(a), a.dtype, I64) for a in node.args)
        if node.op.name.endswith("per_axis"):
            left, right = map(self.expr, node.args[5:7])
            x = f"({left} ? (int64_t)((uint64_t){x} << {rest[0]}) : {x})"
            total = f"({right} ? {rest[2]} + {rest[1]} : {rest[2]})"
        else:
            total = f"({rest[0]} + {rest[1]})"
        made = f"{self.helpers.multiply_shift()}({bare(x)}, {bare(y)}, {bare(total)})"
        return self.convert(made, I64, node.dtype)

    def large_uint(self, node: Call) -> str:
        low, high = (a.value for a in node.args)
        return literal(high << 32 | low & 0xFFFFFFFF, node.dtype)

    def reinterpret(self, node: Call) -> str:
        old, new = node.args[0].dtype, node.dtype
        text = self.expr(node.args[0])
        a, b = c_type(old), c_type(new)
        if a == b:
            return text
        if new.is_bool:
            return f"(({text} & 1) != 0)"
        whole = ("float", "double", "void*")
        if a not in whole and b not in whole:
            return f"({self.helpers.wrapped(text, new)})" if new.is_integer else f"(({b}){text})"
        return f"{self.helpers.bits(a, b)}({bare(text)})"

    def first(self, node: Call) -> str:
        return self.expr(node.args[0])

    def if_then_else(self, node: Call) -> str:
        return self.choice(*node.args)

    # -- pointers ------------------------------------------------------------------------------

    def access_ptr(self, node: Call) -> str:
        tag, data, offset = node.args[:3]
        kind = memory_type(tag.dtype.element)
        return f"(({self.const_of(data)}{kind}*){self.expr(data)} + {self.index_operand(offset)})"

    def address_of(self, node: Call) -> str:
        load = node.args[0]
        if not isinstance(load, BufferLoad):
            return self.expr(load)
        return f"&{self.element(load.buffer, load.indices)}"

    def byte_offset(self, node: Call) -> str:
        base, offset = node.args
        text = self.expr(base)
        const = self.const_of(base)
        if self.pointees.get(base, "void").removeprefix("const ") != "uint8_t":
            text = f"({const}uint8_t*){text}"
        if isinstance(offset, IntImm) and offset.value == 0:
            return text if text.isidentifier() else f"({text})"
        return f"({text} + {self.index_operand(offset)})"

    def index_operand(self, node: PrimExpr) -> str:
        text = self.index(node)
        return text if text.isidentifier() or text.isdigit() else f"({text})"

    def const_of(self, node: Any) -> str:
        """ "const " for a pointer to what must not be written."""
        return "const " if self.pointees.get(node, "").startswith("const ") else ""

    def atomic_add(self, node: Call) -> str:
        """Adds where a pointer points to; gives the old value. Loops are serial here."""
        pointer, value = node.args[:2]
        dtype = value.dtype
        name, kind = f"lw_add_{c_type(dtype)}", memory_type(dtype)
        total = self.combined(pe.Add, dtype, "old", "by")
        text = (
            f"static inline {kind} {name}({kind}* at, {kind} by) {{\n"
            f"  const {kind} old = *at;\n  *at = {bare(total)};\n  return old;\n}}"
        )
        self.helpers.add(name, text)
        return f"{name}(({kind}*){self.expr(pointer)}, {self.bare(value)})"

    # -- functions -----------------------------------------------------------------------------

    def call_extern(self, node: Call) -> str:
        """A C function by name."""
        first = node.args[0]
        if not isinstance(first, StringImm):
            what = f"{node.op.name} takes the function's name first"
            raise LoopwrightError(explain(what, got=str(first), span=node.span))
        name, args = first.value, node.args[1:]
        params = self.module.extern(name, node)
        given = [self.argument(a, p) for a, p in zip(args, params, strict=True)]
        return f"{name}({', '.join(given)})"

    def argument(self, node: PrimExpr, kind: str) -> str:
        """An argument for a parameter of a C type; pointers are cast to it."""
        text = self.bare(node)
        if isinstance(node, StringImm):
            return text
        if not kind.endswith("*") or kind in ("void*", "const void*"):
            return text
        held = self.pointees.get(node)
        if isinstance(node, Call) and getattr(node.op, "name", "") == "tir.handle_add_byte_offset":
            held = f"{self.const_of(node.args[0])}uint8_t"
        if kind in (f"{held}*", f"const {held}*"):
            return text
        plain = text.isidentifier() or (text[0] == "&" and "[" in text)
        return f"({kind}){text}" if plain else f"({kind})({text})"

    def string(self, node: StringImm) -> str:
        escaped = "".join(
            c
            if 32 <= ord(c) < 127 and c not in '"\\?'
            else "".join(f"\\{b:03o}" for b in c.encode())
            for c in node.value
        )
        return f'"{escaped}"'

    def nothing(self, node: Call) -> str:
        return "((void)0)" if node.dtype.is_void else "NULL" if node.dtype.is_handle else "0"


def extern_header(name: str) -> str | None:
    """The header of the C library that declares a function."""
    return "math.h" if name in MATH_H else "string.h" if name in STRING_H else None


_INSTEAD = {
    "call_packed": "C code knows no registered functions; call a C function with T.call_extern",
    "call_cpacked": "C code knows no registered functions; call a C function with T.call_extern",
    "call_llvm_intrin": "write it with the operators of tir, or call a C function",
    "call_llvm_pure_intrin": "write it with the operators of tir, or call a C function",
    "TVMBackendAllocWorkspace": "allocate a buffer of a size that is known",
}
_C = CallEmitter
_CALLS: dict[str, Any] = {
    "if_then_else": _C.if_then_else,
    **dict.fromkeys(("likely", "tvm_thread_invariant", "ignore_loop_partition"), _C.first),
    **dict.fromkeys(("shift_left", "shift_right"), _C.shift),
    **dict.fromkeys(_BITS, _C.bits),
    "bitwise_not": _C.bitwise_not,
    "pow": _C.power,
    "fabs": _C.absolute,
    "isnan": _C.is_nan,
    "isinf": _C.is_inf,
    "isnullptr": _C.is_null,
    "rsqrt": _C.rsqrt,
    "exp10": _C.exp10,
    "sigmoid": _C.sigmoid,
    "ldexp": _C.ldexp,
    "nextafter": _C.next_after,
    **dict.fromkeys(("popcount", "clz"), _C.count_bits),
    **dict.fromkeys(("q_multiply_shift", "q_multiply_shift_per_axis"), _C.q_multiply),
    "large_uint_imm": _C.large_uint,
    "reinterpret": _C.reinterpret,
    "tvm_access_ptr": _C.access_ptr,
    "address_of": _C.address_of,
    "handle_add_byte_offset": _C.byte_offset,
    "atomic_add": _C.atomic_add,
    **dict.fromkeys(("call_extern", "call_pure_extern"), _C.call_extern),
    **dict.fromkeys(
        ("assume", "undef", "prefetch", "tvm_storage_sync", "type_annotation"), _C.nothing
    ),
}
__all__ = ["CallEmitter", "extern_header", "identifier"]
