"""Calls in lowered TensorIR as LLVM text: intrinsics, C functions, other functions, packed calls."""

from __future__ import annotations

from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType
from ...ir.expr import GlobalVar
from ...ir.op import Op
from ...ir.prim_expr import BinaryOpExpr, Broadcast, Call, IntImm, PrimExpr, Ramp, StringImm
from ...runtime.dtype import dl_dtype
from ...tir.expr import BufferLoad
from .convert import F32, F64, I32, I64
from .memory import ZEROS_BYTES, MemoryEmitter, flat_index, is_dense
from .types import (
    flag_type,
    is_packed,
    is_soft,
    literal,
    llvm_type,
    mangle,
    memory_type,
    scalar_type,
    symbol,
    vector_of,
)

_INTRINSICS = {
    "sqrt": "sqrt",
    "fabs": "fabs",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "rint",
    "nearbyint": "nearbyint",
    "copysign": "copysign",
    "fma": "fma",
}
_BITS = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
# Fields of tvm_struct_get: of a DLTensor (offset in bytes), and of a 16-byte TVMFFIAny.
_TENSOR_BYTES = 48
_TENSOR_FIELDS = {
    0: 0,
    1: 0,
    2: 24,
    3: 32,
    4: 16,
    5: 20,
    6: 21,
    7: 22,
    8: 40,
    9: 12,
    10: 8,
}
_ANY_VALUE = 15
_ANY_FIELDS = {13: 0, 14: 4, _ANY_VALUE: 8}
# Type indices of packed arguments.
_INT, _BOOL, _FLOAT, _POINTER, _TENSOR, _STRING = 1, 2, 3, 4, 7, 8


def _reads_memory(expr: PrimExpr) -> bool:
    if isinstance(expr, (BufferLoad, Call)):
        return True
    if isinstance(expr, BinaryOpExpr):
        return _reads_memory(expr.a) or _reads_memory(expr.b)
    return any(_reads_memory(c) for c in expr.children() if isinstance(c, PrimExpr))


class CallEmitter(MemoryEmitter):
    """Emits calls."""

    def call(self, node: Call) -> str:
        """A call; whatever it is, its arguments are data, not indices."""
        before, self.indexing = self.indexing, False
        value = self.call_any(node)
        self.indexing = before
        return value

    def call_any(self, node: Call) -> str:
        if isinstance(node.op, GlobalVar):
            return self.call_function(node, node.op.name_hint, node.args)
        if not isinstance(node.op, Op):
            raise LoopwrightError(explain("this cannot be called", got=str(node.op)))
        name = node.op.name.removeprefix("tir.")
        handler = _CALLS.get(name)
        if handler is not None:
            return handler(self, node)
        if name in _INTRINSICS:
            return self.float_intrinsic(_INTRINSICS[name], node)
        if name in _BITS:
            return self.op(_BITS[name], node.dtype, *map(self.expr, node.args))
        if not node.op.has_attr("numpy"):
            hint = _INSTEAD.get(name, "it is for other targets; use what the CPU has")
            what = f"the intrinsic {node.op.name} has no LLVM code"
            raise LoopwrightError(explain(what, instead=hint, span=node.span))
        return self.math(name, node)

    # -- functions of numbers ------------------------------------------------------------------

    def float_intrinsic(self, name: str, node: Call) -> str:
        """An intrinsic of LLVM on floats (and fabs of integers)."""
        dtype, args = node.dtype, [self.expr(a) for a in node.args]
        if not dtype.is_float:
            return self.integer_rounding(name, dtype, args)
        if is_soft(dtype):
            return self.in_float32(dtype, args, lambda f, *xs: self.intrinsic(name, f, *xs))
        return self.intrinsic(name, dtype, *args)

    def integer_rounding(self, name: str, dtype: DataType, args: list[str]) -> str:
        """fabs of an integer; an integer is rounded already."""
        if name != "fabs" or not dtype.is_int:
            return args[0]
        kind, full = llvm_type(dtype), f"llvm.abs.{mangle(dtype)}"
        self.module.declare(full, f"declare {kind} @{full}({kind}, i1 immarg)")
        return self.value(f"call {kind} @{full}({kind} {args[0]}, i1 false)")

    def math(self, name: str, node: Call) -> str:
        """A function of the vector math library; half and soft floats compute in float32."""
        dtype = node.dtype
        args = [self.convert(self.expr(a), a.dtype, dtype) for a in node.args]
        if dtype.is_float and dtype.base not in ("float32", "float64"):
            wide = F32.with_lanes(dtype.lanes)
            args = [self.convert(a, dtype, wide) for a in args]
            return self.convert(self.call_math(name, wide, args, node), wide, dtype)
        return self.call_math(name, dtype, args, node)

    def call_math(self, name: str, dtype: DataType, args: list[str], node: Call) -> str:
        try:
            found = self.module.vecmath.require(name, dtype.base, dtype.lanes)
        except ValueError as err:
            what = f"the intrinsic {node.op.name} has no LLVM code for {dtype}"
            hint = "call a C function with T.call_extern"
            raise LoopwrightError(explain(what, instead=hint, span=node.span)) from err
        kind = llvm_type(dtype)
        return self.value(f"call {kind} @{found}({', '.join(f'{kind} {a}' for a in args)})")

    def power(self, node: Call) -> str:
        """Integers by repeated squaring, floats by the math library."""
        dtype = node.dtype
        if not dtype.is_integer:
            return self.math("pow", node)
        name = self.module.integer_power(dtype)
        kind = llvm_type(dtype)
        args = ", ".join(f"{kind} {self.expr(a)}" for a in node.args)
        return self.value(f"call {kind} @{name}({args})")

    def shift(self, node: Call) -> str:
        """Shifts; by the type's width or more every bit moves out."""
        dtype = node.dtype
        left = node.op.name.endswith("left")
        name = "shl" if left else "ashr" if dtype.is_int else "lshr"
        a, b = map(self.expr, node.args)
        by = node.args[1].value if isinstance(node.args[1], Broadcast) else node.args[1]
        if isinstance(by, IntImm) and 0 <= by.value < dtype.bits:
            return self.op(name, dtype, a, b)
        if name == "ashr":
            kind, full = llvm_type(dtype), f"llvm.umin.{mangle(dtype)}"
            self.module.declare(full, f"declare {kind} @{full}({kind}, {kind})")
            most = self.splat(str(dtype.bits - 1), dtype)
            return self.op(name, dtype, a, self.intrinsic("umin", dtype, b, most))
        inside = self.test("icmp ult", dtype, b, self.splat(str(dtype.bits), dtype))
        zero = self.splat("0", dtype)
        safe = self.choose(inside, b, zero, dtype)
        return self.choose(inside, self.op(name, dtype, a, safe), zero, dtype)

    def bitwise_not(self, node: Call) -> str:
        ones = self.splat("true" if node.dtype.is_bool else "-1", node.dtype)
        return self.op("xor", node.dtype, self.expr(node.args[0]), ones)

    def as_real(self, node: PrimExpr) -> tuple[str, DataType]:
        """A float, soft ones widened."""
        value, dtype = self.expr(node), node.dtype
        if is_soft(dtype):
            return self.widen(value, dtype), F32.with_lanes(dtype.lanes)
        return value, dtype

    def is_nan(self, node: Call) -> str:
        value, dtype = self.as_real(node.args[0])
        return self.test("fcmp uno", dtype, value, value)

    def is_inf(self, node: Call) -> str:
        value, dtype = self.as_real(node.args[0])
        infinity = self.splat(literal(float("inf"), dtype.element), dtype)
        return self.test("fcmp oeq", dtype, self.intrinsic("fabs", dtype, value), infinity)

    def is_null(self, node: Call) -> str:
        return self.value(f"icmp eq ptr {self.expr(node.args[0])}, null")

    def rsqrt(self, node: Call) -> str:
        def compute(dtype: DataType, x: str) -> str:
            one = self.splat(literal(1.0, dtype.element), dtype)
            return self.op("fdiv", dtype, one, self.intrinsic("sqrt", dtype, x))

        value = self.expr(node.args[0])
        if is_soft(node.dtype):
            return self.in_float32(node.dtype, [value], compute)
        return compute(node.dtype, value)

    def fmod(self, node: Call) -> str:
        args = [self.expr(a) for a in node.args]
        if is_soft(node.dtype):
            return self.in_float32(node.dtype, args, lambda f, x, y: self.op("frem", f, x, y))
        return self.op("frem", node.dtype, *args)

    def ldexp(self, node: Call) -> str:
        """x * 2**e, e of any type."""
        dtype, power = node.dtype, node.args[1]
        value, real = self.as_real(node.args[0])
        if real.bits == 16:  # LLVM 22 gets vectors of them wrong
            wide = F32.with_lanes(dtype.lanes)
            value, real = self.convert(value, real, wide), wide
        steps = I32.with_lanes(dtype.lanes)
        by = self.convert(self.expr(power), power.dtype, steps)
        if power.dtype.is_integer and power.dtype.bits == 64:
            most = self.splat("5000", power.dtype)
            least = self.splat("-5000", power.dtype)
            capped = self.intrinsic("smin", power.dtype, self.expr(power), most)
            capped = self.intrinsic("smax", power.dtype, capped, least)
            by = self.convert(capped, power.dtype, steps)
        kind, ints = llvm_type(real), llvm_type(steps)
        name = f"llvm.ldexp.{mangle(real)}.{mangle(steps)}"
        self.module.declare(name, f"declare {kind} @{name}({kind}, {ints})")
        made = self.value(f"call {kind} @{name}({kind} {value}, {ints} {by})")
        return self.convert(made, real, dtype)

    def nextafter(self, node: Call) -> str:
        """The neighbour of x toward y, by its bits."""
        dtype = node.dtype
        if dtype.code not in ("float", "bfloat"):
            what = f"nextafter has no LLVM code for {dtype}"
            raise LoopwrightError(explain(what, instead="cast to float32", span=node.span))
        bits = DataType(f"int{dtype.bits}").with_lanes(dtype.lanes)
        held, kind = llvm_type(dtype), llvm_type(bits)
        x, y = map(self.expr, node.args)
        if held != kind:
            xi, yi = (self.value(f"bitcast {held} {v} to {kind}") for v in (x, y))
        else:
            xi, yi = x, y
        (xr, real), (yr, _) = map(self.as_real, node.args)
        zero, one = self.splat(literal(0.0, real.element), real), self.splat("1", bits)
        flags = DataType("bool").with_lanes(dtype.lanes)
        upward = self.test("fcmp olt", real, xr, yr)
        positive = self.test("fcmp ogt", real, xr, zero)
        away = self.op("xor", flags, upward, positive)
        step = self.choose(away, self.splat("-1", bits), one, bits)
        sign = self.splat(str(-(1 << (dtype.bits - 1))), bits)
        least = self.op("or", bits, self.op("and", bits, yi, sign), one)
        at_zero = self.test("fcmp oeq", real, xr, zero)
        found = self.choose(at_zero, least, self.op("add", bits, xi, step), bits)
        found = self.choose(self.test("fcmp oeq", real, xr, yr), yi, found, bits)
        nan = self.splat(_bits_text(float("nan"), dtype.element), bits)
        found = self.choose(self.test("fcmp uno", real, xr, yr), nan, found, bits)
        return found if held == kind else self.value(f"bitcast {kind} {found} to {held}")

    def popcount(self, node: Call) -> str:
        source = node.args[0].dtype
        return self.convert(
            self.intrinsic("ctpop", source, self.expr(node.args[0])), source, node.dtype
        )

    def clz(self, node: Call) -> str:
        source = node.args[0].dtype
        kind, full = llvm_type(source), f"llvm.ctlz.{mangle(source)}"
        self.module.declare(full, f"declare {kind} @{full}({kind}, i1 immarg)")
        found = self.value(f"call {kind} @{full}({kind} {self.expr(node.args[0])}, i1 false)")
        return self.convert(found, source, node.dtype)

    def q_multiply(self, node: Call) -> str:
        """x * y as numbers with q fraction bits, shifted right by s, rounded half up."""
        wide = I64.with_lanes(node.dtype.lanes)
        x, y, *rest = (self.convert(self.expr(a), a.dtype, wide) for a in node.args)
        if node.op.name.endswith("per_axis"):
            flags = [self.test("icmp ne", wide, f, self.splat("0", wide)) for f in rest[3:5]]
            x = self.choose(flags[0], self.op("shl", wide, x, rest[0]), x, wide)
            more = self.op("add", wide, rest[2], rest[1])
            total = self.choose(flags[1], more, rest[2], wide)
        else:
            total = self.op("add", wide, *rest[:2])
        one = self.splat("1", wide)
        product = self.op("mul", wide, x, y)
        half = self.op("shl", wide, one, self.op("sub", wide, total, one))
        right = self.op("ashr", wide, self.op("add", wide, product, half), total)
        zero = self.splat("0", wide)
        left = self.op("shl", wide, product, self.op("sub", wide, zero, total))
        positive = self.test("icmp sgt", wide, total, zero)
        return self.convert(self.choose(positive, right, left, wide), wide, node.dtype)

    def large_uint(self, node: Call) -> str:
        low, high = (a.value for a in node.args)
        return str((high << 32 | low & 0xFFFFFFFF) & (1 << node.dtype.bits) - 1)

    def reinterpret(self, node: Call) -> str:
        value, old = self.expr(node.args[0]), node.args[0].dtype
        a, b = llvm_type(old), llvm_type(node.dtype)
        if a == b:
            return value
        name = "ptrtoint" if a == "ptr" else "inttoptr" if b == "ptr" else "bitcast"
        if node.dtype.is_bool or old.is_bool:
            name = "trunc" if node.dtype.is_bool else "zext"
        return self.value(f"{name} {a} {value} to {b}")

    def first(self, node: Call) -> str:
        return self.expr(node.args[0])

    def half(self, node: Call) -> str:
        source, lanes = node.args[0].dtype, node.dtype.lanes
        start = lanes if node.op.name.endswith("high") else 0
        value = self.expr(node.args[0])
        return self.shuffled(llvm_type(source), value, "poison", range(start, start + lanes))

    def combine(self, node: Call) -> str:
        a, b = map(self.expr, node.args)
        return self.shuffled(llvm_type(node.args[0].dtype), a, b, range(node.dtype.lanes))

    def lane_mask(self, node: Call) -> str:
        """Lanes k with base + k < limit."""
        base, limit = node.args
        wide = base.dtype.with_lanes(node.dtype.lanes)
        low, high = (self.spread(self.expr(a), wide) for a in (base, limit))
        steps = ", ".join(f"{scalar_type(wide)} {k}" for k in range(wide.lanes))
        return self.test("icmp slt", wide, self.op("add", wide, low, f"<{steps}>"), high)

    # -- choices -------------------------------------------------------------------------------

    def if_then_else(self, node: Call) -> str:
        return self.choice(*node.args, node.dtype)

    def choice(self, cond: PrimExpr, yes: PrimExpr, no: PrimExpr, dtype: DataType) -> str:
        """`yes` where `cond` holds, else `no`."""
        raise NotImplementedError

    @staticmethod
    def can_redirect(load: BufferLoad) -> bool:
        """Whether a load may read zeros instead: computing its address is safe anywhere."""
        index = flat_index(load.buffer, load.indices)
        dense = load.dtype.lanes == 1 or (is_dense(index) and load.buffer.dtype.lanes == 1)
        small = load.dtype.itemsize * load.dtype.lanes <= ZEROS_BYTES
        return load.predicate is None and dense and small and not _reads_memory(index)

    def guarded_load(self, cond: str, load: BufferLoad, value: PrimExpr) -> str:
        """`if_then_else(cond, A[i], 0)`: load through a pointer chosen between A and zeros."""
        index = flat_index(load.buffer, load.indices)
        pointer = self.address(load.buffer, index.base if isinstance(index, Ramp) else index)
        pointer = self.or_zeros(cond, pointer)
        lanes = load.dtype.lanes
        mask = None if self.mask is None else self.with_outer_mask(None, lanes)
        if mask is not None and lanes > 1:
            raw = self.masked_load("load", f"ptr {pointer}", load.buffer.dtype, lanes, mask)
            return self.from_memory(raw, load.buffer.dtype, load.dtype)
        if mask is not None:
            pointer = self.or_zeros(mask, pointer)
        kind = vector_of(memory_type(load.buffer.dtype), lanes)
        raw = self.fresh(f"load {kind}, ptr {pointer}, align {load.buffer.dtype.itemsize}")
        found = self.from_memory(raw, load.buffer.dtype, load.dtype)
        return self.spread(found, value.dtype) if isinstance(value, Broadcast) else found

    # -- pointers ------------------------------------------------------------------------------

    def access_ptr(self, node: Call) -> str:
        tag, data, offset = node.args[:3]
        at = self.to_i64(self.index(offset), offset.dtype)
        kind = memory_type(tag.dtype.element)
        return self.value(f"getelementptr {kind}, ptr {self.expr(data)}, i64 {at}")

    def address_of(self, node: Call) -> str:
        load = node.args[0]
        if not isinstance(load, BufferLoad):
            return self.expr(load)
        index = flat_index(load.buffer, load.indices)
        return self.address(load.buffer, index.base if isinstance(index, Ramp) else index)

    def byte_offset(self, node: Call) -> str:
        at = self.to_i64(self.index(node.args[1]), node.args[1].dtype)
        return self.value(f"getelementptr i8, ptr {self.expr(node.args[0])}, i64 {at}")

    def atomic_add(self, node: Call) -> str:
        """Adds where a pointer points to; gives the old value."""
        pointer, value = node.args[:2]
        dtype = value.dtype
        kind, name = llvm_type(dtype), "fadd" if dtype.is_float else "add"
        at, by = self.expr(pointer), self.expr(value)
        return self.fresh(f"atomicrmw {name} ptr {at}, {kind} {by} monotonic")

    def struct_field(self, node: Call) -> tuple[str, str]:
        """(pointer, LLVM type in memory) of a field of an array of structs."""
        array, index, code = node.args[:3]
        number = code.value
        size, table = (
            (16, _ANY_FIELDS) if number in _ANY_FIELDS else (_TENSOR_BYTES, _TENSOR_FIELDS)
        )
        if number not in table:
            what = f"{node.op.name}: unknown field"
            raise LoopwrightError(explain(what, got=number, span=node.span))
        at = self.op("mul", I64, self.to_i64(self.expr(index), index.dtype), str(size))
        at = self.op("add", I64, at, str(table[number]))
        return self.value(f"getelementptr i8, ptr {self.expr(array)}, i64 {at}"), ""

    def struct_get(self, node: Call) -> str:
        pointer, _ = self.struct_field(node)
        if node.args[2].value == 0:  # the struct's own address
            return pointer
        kind, align = memory_type(node.dtype), node.dtype.itemsize
        raw = self.fresh(f"load {kind}, ptr {pointer}, align {align}")
        return self.from_memory(raw, node.dtype, node.dtype)

    def struct_set(self, node: Call) -> str:
        pointer, _ = self.struct_field(node)
        given = node.args[3]
        value, dtype = self.expr(given), given.dtype
        if node.args[2].value == _ANY_VALUE and not dtype.is_handle:  # 8 bytes, whatever it is
            wide = F64 if dtype.is_float else I64
            value, dtype = self.convert(value, dtype, wide), wide
        value = self.to_memory(value, dtype)
        kind, align = memory_type(dtype), dtype.itemsize
        self.emit(f"store {kind} {value}, ptr {pointer}, align {align}")
        return "0"

    # -- C functions and LLVM's ----------------------------------------------------------------

    def call_extern(self, node: Call) -> str:
        """A C function by name, or a function of the program."""
        name, args = node.args[0].value, node.args[1:]
        own = self.module.is_function(name)
        if own and (node.dtype in ("void", "int32") or self.module.returned(name) is not None):
            return self.call_function(node, name, args)
        pure = node.op.name == "tir.call_pure_extern"
        lanes = max((a.dtype.lanes for a in args), default=1)
        if lanes > 1 and node.dtype.lanes == lanes:
            return self.lane_by_lane(name, node.dtype, args)
        return self.call_symbol(name, node.dtype, args, pure)

    def call_symbol(self, name: str, dtype: DataType, args: Any, pure: bool) -> str:
        values = ", ".join(f"{llvm_type(a.dtype)} {self.expr(a)}" for a in args)
        kinds = ", ".join(llvm_type(a.dtype) for a in args)
        result = llvm_type(dtype)
        self.module.declare(name, f"declare {result} @{name}({kinds})")
        if result == "void":
            self.emit(f"call void @{name}({values})")
            return ""
        text = f"call {result} @{name}({values})"
        return self.value(text) if pure else self.fresh(text)

    def lane_by_lane(self, name: str, dtype: DataType, args: Any) -> str:
        """A C function of scalars on vectors."""
        values, kinds = [self.expr(a) for a in args], [scalar_type(a.dtype) for a in args]
        element, whole, result = scalar_type(dtype), llvm_type(dtype), "poison"
        self.module.declare(name, f"declare {element} @{name}({', '.join(kinds)})")
        for k in range(dtype.lanes):
            items = [
                v if a.dtype.lanes == 1 else self.value(f"extractelement {llvm_type(a.dtype)} {v}, i64 {k}")
                for a, v in zip(args, values, strict=True)
            ]  # fmt: skip
            given = ", ".join(f"{kind} {i}" for kind, i in zip(kinds, items, strict=True))
            item = self.fresh(f"call {element} @{name}({given})")
            result = self.fresh(f"insertelement {whole} {result}, {element} {item}, i64 {k}")
        return result

    def call_llvm(self, node: Call) -> str:
        """An LLVM intrinsic by its full name, or by the name that its types are added to."""
        first = node.args[0]
        name, args = getattr(first, "value", None), list(node.args[1:])
        if not isinstance(name, str):
            what = "call_llvm_intrin takes the intrinsic's name"
            raise LoopwrightError(explain(what, got=str(first), instead='"llvm.fma"'))
        if len(args) > 1 and isinstance(args[0], IntImm) and args[0].dtype.is_uint:
            args = args[1:]  # the number of types that overload it, as older scripts give it
        if name.count(".") == 1:
            overload = args[0].dtype if node.dtype.is_void and args else node.dtype
            name = f"{name}.{mangle(overload)}"
        pure = node.op.name == "tir.call_llvm_pure_intrin"
        return self.call_symbol(name, node.dtype, args, pure)

    def dot_of_bytes(self, node: Call) -> str:
        """dp4a: the dot product of four bytes and four bytes, added to a number."""
        total = self.expr(node.args[2])
        wide = node.dtype.with_lanes(4)
        a, b = (self.convert(self.expr(x), x.dtype, wide) for x in node.args[:2])
        product, kind = self.op("mul", wide, a, b), llvm_type(wide)
        name = f"llvm.vector.reduce.add.{mangle(wide)}"
        self.module.declare(name, f"declare {llvm_type(node.dtype)} @{name}({kind})")
        dot = self.value(f"call {llvm_type(node.dtype)} @{name}({kind} {product})")
        return self.op("add", node.dtype, dot, total)

    def alloc_workspace(self, node: Call) -> str:
        """Memory by its size in bytes; free_workspace gives it back."""
        self.module.declare("lw_workspace_alloc", "declare ptr @lw_workspace_alloc(i64)")
        size = node.args[2]
        count = self.to_i64(self.expr(size), size.dtype)
        return self.fresh(f"call ptr @lw_workspace_alloc(i64 {count})")

    def free_workspace(self, node: Call) -> str:
        self.module.declare("lw_workspace_free", "declare void @lw_workspace_free(ptr)")
        self.emit(f"call void @lw_workspace_free(ptr {self.expr(node.args[2])})")
        return "0"

    def throw(self, node: Call) -> str:
        """Leave with the error that was raised before."""
        self.leave_failed()
        self.place(self.label("unreachable"))
        return self.nothing(node)

    def stack_alloca(self, node: Call) -> str:
        """Room on the stack for so many values of a kind."""
        kind, count = getattr(node.args[0], "value", ""), getattr(node.args[1], "value", None)
        if count is None or kind not in _STACK_BYTES:
            what = "tvm_stack_alloca takes a kind and a number"
            hint = " or ".join(_STACK_BYTES)
            raise LoopwrightError(explain(what, got=str(node), instead=hint, span=node.span))
        return self.slot(f"[{max(count, 1) * _STACK_BYTES[kind]} x i8]")

    def call_packed_lowered(self, node: Call) -> str:
        """A registered function on values begin..end of a stack of 16-byte values; what it returns
        is put at `end`."""
        name, stack, begin, end = node.args[:4]
        if not (isinstance(begin, IntImm) and isinstance(end, IntImm)):
            what = f"{node.op.name} takes literal positions"
            raise LoopwrightError(explain(what, got=f"{begin} and {end}", span=node.span))
        base, count = self.expr(stack), end.value - begin.value
        values = self.slot(f"[{count + 1} x {{ i64, i64 }}]")
        self.emit(f"store i64 {_STRING}, ptr {values}, align 8")
        first = self.fresh(f"getelementptr i8, ptr {values}, i64 8")
        self.emit(f"store ptr {self.expr(name)}, ptr {first}, align 8")
        for k in range(count):
            source = self.fresh(f"getelementptr i8, ptr {base}, i64 {16 * (begin.value + k)}")
            place = self.fresh(f"getelementptr i8, ptr {values}, i64 {16 * (k + 1)}")
            item = self.fresh(f"load <2 x i64>, ptr {source}, align 8")
            self.emit(f"store <2 x i64> {item}, ptr {place}, align 8")
        result = self.fresh(f"getelementptr i8, ptr {base}, i64 {16 * end.value}")
        line = "declare i32 @lw_call_packed(ptr, ptr, i32, ptr)"
        self.module.declare("lw_call_packed", line)
        text = f"{self.expr(name)}, ptr {values}, i32 {count + 1}, ptr {result}"
        self.check(self.fresh(f"call i32 @lw_call_packed(ptr {text})"))
        return self.packed_result(node.dtype, result)

    # -- functions of the program, packed functions --------------------------------------------

    def call_function(self, node: Call, name: str, args: Any) -> str:
        """Another function of the program; its failure is ours, its T.ret the value."""
        given = [f"{llvm_type(a.dtype)} {self.expr(a)}" for a in args]
        kinds = [llvm_type(a.dtype) for a in args]
        returned, slot = self.module.returned(name), ""
        if returned is not None:
            slot = self.slot("i64")
            given.append(f"ptr {slot}")
            kinds.append("ptr")
        full = symbol(name)
        self.module.declare(full, f"declare i32 @{full}({', '.join(kinds)})")
        self.check(self.fresh(f"call i32 @{full}({', '.join(given)})"))
        if returned is None:
            return "0"
        raw = self.fresh(f"load {memory_type(returned)}, ptr {slot}, align 8")
        value = self.from_memory(raw, returned, returned)
        return value if node.dtype.is_void else self.convert(value, returned, node.dtype)

    def check(self, code: str) -> None:
        """Leave with -1 where a call that raised returned another number than 0."""
        bad, good = self.label("fail"), self.label("ok")
        self.jump_if(self.fresh(f"icmp ne i32 {code}, 0"), bad, good)
        self.place(bad)
        self.leave_failed()
        self.place(good)

    def leave_failed(self) -> None:
        """Return from the function after an error was raised."""
        raise NotImplementedError

    def call_packed(self, node: Call) -> str:
        """A registered function by name; its result is what the call's type says."""
        name = node.args[0]
        if not isinstance(name, StringImm):
            what = "call_packed takes the function's name first"
            raise LoopwrightError(explain(what, got=str(name), span=node.span))
        count = len(node.args)
        values, result = self.slot(f"[{count} x {{ i64, i64 }}]"), self.slot("{ i64, i64 }")
        looked_up = f"@{self.module.packed_name(name.value)}"
        for k, arg in enumerate(node.args):
            code, kind, value = self.packed_value(arg) if k else (_STRING, "ptr", looked_up)
            at = self.fresh(f"getelementptr {{ i64, i64 }}, ptr {values}, i64 {k}")
            self.emit(f"store i64 {code}, ptr {at}, align 8")
            payload = self.fresh(f"getelementptr i8, ptr {at}, i64 8")
            self.emit(f"store {kind} {value}, ptr {payload}, align 8")
        line = "declare i32 @lw_call_packed(ptr, ptr, i32, ptr)"
        self.module.declare("lw_call_packed", line)
        text = f"{looked_up}, ptr {values}, i32 {count}, ptr {result}"
        self.check(self.fresh(f"call i32 @lw_call_packed(ptr {text})"))
        return self.packed_result(node.dtype, result)

    def packed_value(self, arg: PrimExpr) -> tuple[int, str, str]:
        """(type index, LLVM type, value) of a packed argument."""
        if isinstance(arg, StringImm):
            return _STRING, "ptr", self.expr(arg)
        value, dtype = self.expr(arg), arg.dtype
        if dtype.is_handle:
            tensor = isinstance(arg, Call) and arg.op is _MAKE_ARRAY
            return (_TENSOR if tensor else _POINTER), "ptr", value
        if dtype.lanes > 1:
            what = "a packed function takes no vectors"
            raise LoopwrightError(explain(what, got=str(dtype), span=arg.span))
        if dtype.is_float:
            return _FLOAT, "double", self.convert(value, dtype, F64)
        return _BOOL if dtype.is_bool else _INT, "i64", self.convert(value, dtype, I64)

    def packed_result(self, dtype: DataType, result: str) -> str:
        """A number that a packed function returned."""
        if dtype.is_handle:
            return "null"
        at = self.fresh(f"getelementptr i8, ptr {result}, i64 8")
        whole = self.fresh(f"load i64, ptr {at}, align 8")
        code = self.fresh(f"load i32, ptr {result}, align 8")
        is_real = self.fresh(f"icmp eq i32 {code}, {_FLOAT}")
        real = self.fresh(f"bitcast i64 {whole} to double")
        if dtype.is_float:
            other = self.fresh(f"sitofp i64 {whole} to double")
            picked = self.choose(is_real, real, other, F64)
            return self.convert(picked, F64, dtype)
        cut = self.convert(real, F64, I64)
        return self.convert(self.choose(is_real, cut, whole, I64), I64, dtype)

    def make_shape(self, node: Call) -> str:
        """An int64 array on the stack."""
        array = self.slot(f"[{max(len(node.args), 1)} x i64]")
        for k, dim in enumerate(node.args):
            at = self.fresh(f"getelementptr i64, ptr {array}, i64 {k}")
            self.emit(f"store i64 {self.to_i64(self.expr(dim), dim.dtype)}, ptr {at}, align 8")
        return array

    def make_array(self, node: Call) -> str:
        """A DLTensor on the stack that views a buffer."""
        data, shape, strides, rank, kind, offset = node.args
        tensor = self.slot(f"[{_TENSOR_BYTES} x i8]")
        code, bits, lanes = dl_dtype(str(kind.dtype))
        steps = "null" if isinstance(strides, IntImm) else self.expr(strides)
        begin = self.to_i64(self.index(offset), offset.dtype)
        if is_packed(kind.dtype):  # whole bytes: Int4StorageLegalize saw to it
            begin = self.op("lshr", I64, begin, str((8 // kind.dtype.bits).bit_length() - 1))
        else:
            begin = self.op("mul", I64, begin, str(kind.dtype.itemsize * kind.dtype.lanes))
        fields = (
            (0, "ptr", self.expr(data)),
            (8, "i64", "1"),  # the CPU, number 0
            (16, "i32", self.convert(self.expr(rank), rank.dtype, I32)),
            (20, "i32", str(code | bits << 8 | lanes << 16)),
            (24, "ptr", self.expr(shape)),
            (32, "ptr", steps),
            (40, "i64", begin),
        )
        for at, field, value in fields:
            place = self.fresh(f"getelementptr i8, ptr {tensor}, i64 {at}")
            self.emit(f"store {field} {value}, ptr {place}, align {4 if field == 'i32' else 8}")
        return tensor

    def nothing(self, node: Call) -> str:
        return "" if node.dtype.is_void else "null" if node.dtype.is_handle else "0"


def _bits_text(value: float, dtype: DataType) -> str:
    """A float's bits as an integer literal."""
    text = literal(value, dtype)
    if dtype.base == "float64":
        return str(int(text, 16))
    if dtype.base == "float32":
        return str(0x7FC00000) if value != value else text
    return str(int(text[3:], 16)) if text.startswith("0xH") else text


_STACK_BYTES = {"arg_value": 16, "tvm_ffi_any": 16, "arg_tcode": 4, "shape": 8, "array": 48}
# What to do instead of an intrinsic without code.
_INSTEAD = {
    "vscale": "vectors here have a fixed number of lanes; write that number",
    "lookup_param": "bind the parameter (relax.transform.BindParams), or T.allocate_const",
    "tvm_context_id": "the CPU is device 0",
    "tvm_tuple": "pass its parts as arguments",
    "tvm_static_handle": "keep the value in a buffer",
    "trace": "call a registered function with T.call_packed",
    "tvm_call_trace_packed": "call a registered function with T.call_packed",
    "anylist_getitem": "pass the values as arguments",
    "anylist_resetitem": "pass the values as arguments",
    "anylist_setitem_call_packed": "use T.call_packed",
    "anylist_setitem_call_cpacked": "use T.call_cpacked",
}
_MAKE_ARRAY = Op.get("tir.tvm_stack_make_array")
_C = CallEmitter
_CALLS: dict[str, Any] = {
    "if_then_else": _C.if_then_else,
    **dict.fromkeys(("likely", "tvm_thread_invariant", "ignore_loop_partition"), _C.first),
    **dict.fromkeys(("shift_left", "shift_right"), _C.shift),
    "pow": _C.power,
    "bitwise_not": _C.bitwise_not,
    "isnan": _C.is_nan,
    "isinf": _C.is_inf,
    "isnullptr": _C.is_null,
    "rsqrt": _C.rsqrt,
    "fmod": _C.fmod,
    "ldexp": _C.ldexp,
    "nextafter": _C.nextafter,
    "popcount": _C.popcount,
    "clz": _C.clz,
    **dict.fromkeys(("q_multiply_shift", "q_multiply_shift_per_axis"), _C.q_multiply),
    "large_uint_imm": _C.large_uint,
    "reinterpret": _C.reinterpret,
    **dict.fromkeys(("vectorlow", "vectorhigh"), _C.half),
    "vectorcombine": _C.combine,
    "get_active_lane_mask": _C.lane_mask,
    **dict.fromkeys(("call_extern", "call_pure_extern"), _C.call_extern),
    **dict.fromkeys(("call_llvm_intrin", "call_llvm_pure_intrin"), _C.call_llvm),
    **dict.fromkeys(("call_packed", "call_cpacked"), _C.call_packed),
    "tvm_stack_make_shape": _C.make_shape,
    "tvm_stack_make_array": _C.make_array,
    "dp4a": _C.dot_of_bytes,
    "TVMBackendAllocWorkspace": _C.alloc_workspace,
    "TVMBackendFreeWorkspace": _C.free_workspace,
    "tvm_throw_last_error": _C.throw,
    "tvm_stack_alloca": _C.stack_alloca,
    **dict.fromkeys(("call_packed_lowered", "call_cpacked_lowered"), _C.call_packed_lowered),
    "tvm_struct_get": _C.struct_get,
    "tvm_struct_set": _C.struct_set,
    "tvm_access_ptr": _C.access_ptr,
    "address_of": _C.address_of,
    "handle_add_byte_offset": _C.byte_offset,
    "atomic_add": _C.atomic_add,
    **dict.fromkeys(
        (
            "assume",
            "undef",
            "prefetch",
            "tvm_storage_sync",
            "start_profile_intrinsic",
            "end_profile_intrinsic",
            "type_annotation",
        ),
        _C.nothing,
    ),
}
__all__ = ["CallEmitter", "flag_type"]
