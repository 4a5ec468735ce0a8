"""Conversions between types, as LLVM text.

* float to integer truncates. What does not fit becomes what the machine makes of it in int32
  (int64 for uint32 and wider types), cut to the type; on x86 that is the least value. NaN too.
* int to float, float64 to float32 round to nearest even; float64 to float16 goes through a
  float32 rounded to odd, which is exact and needs no library call.
* Soft floats (bfloat16, float8, float6, float4) are widened to float32 through their bits or a
  table, and rounded to nearest even with overflow and NaN as in ml_dtypes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType, numpy_dtype
from .lines import Lines
from .types import bits_of, flag_type, is_soft, literal, llvm_type, mangle, scalar_type, vector_of

F32, F64, I32, I64 = (DataType(t) for t in ("float32", "float64", "int32", "int64"))
_NO_NARROWING = ("float8_e8m0fnu",)


class ConversionEmitter(Lines):
    """Emits conversions."""

    def convert(self, value: str, old: DataType, new: DataType) -> str:
        """A value converted between types of the same number of lanes."""
        if old.base == new.base:
            return value
        if new.is_bool:
            return self.nonzero(value, old)
        if is_soft(old):
            return self.convert(self.widen(value, old), F32.with_lanes(old.lanes), new)
        if is_soft(new):
            wide = F32.with_lanes(old.lanes)
            return self.narrow(self.convert(value, old, wide), new)
        if old.is_float:
            if not new.is_float:
                return self.to_integer(value, old, new)
            if old.bits == 64 and new.bits == 16:
                value, old = self.round_to_odd(value, old), F32.with_lanes(old.lanes)
            return self.convert_by("fpext" if new.bits > old.bits else "fptrunc", value, old, new)
        if new.is_float:
            return self.convert_by("sitofp" if old.is_int else "uitofp", value, old, new)
        if old.is_handle or new.is_handle:
            return self.handle(value, old, new)
        if scalar_type(old) == scalar_type(new):
            return value
        if not old.is_bool and new.bits < old.bits:
            return self.convert_by("trunc", value, old, new)
        return self.convert_by("sext" if old.is_int else "zext", value, old, new)

    def convert_by(self, name: str, value: str, old: DataType, new: DataType) -> str:
        """One conversion instruction."""
        return self.value(f"{name} {llvm_type(old)} {value} to {llvm_type(new)}")

    def handle(self, value: str, old: DataType, new: DataType) -> str:
        """Between pointers and integers."""
        if scalar_type(old) == scalar_type(new):
            return value
        if value == "null":
            return "0"
        return self.convert_by("ptrtoint" if old.is_handle else "inttoptr", value, old, new)

    def nonzero(self, value: str, old: DataType) -> str:
        """Whether a value is not 0."""
        if is_soft(old):
            value, old = self.widen(value, old), F32.with_lanes(old.lanes)
        if old.is_handle:
            return self.test("icmp ne", old, value, "null")
        zero = self.splat(literal(0, old.element), old)
        return self.test("fcmp une" if old.is_float else "icmp ne", old, value, zero)

    def to_integer(self, value: str, old: DataType, new: DataType) -> str:
        """A float cut to an integer; `freeze` makes what does not fit some value."""
        if new.is_uint and new.bits == 64:
            return self.to_uint64(value, old, new)
        wide = I64 if new.bits > 32 or (new.bits == 32 and new.is_uint) else I32
        wide = wide.with_lanes(old.lanes)
        kind = llvm_type(wide)
        cut = self.value(f"freeze {kind} {self.convert_by('fptosi', value, old, wide)}")
        return self.convert(cut, wide, new)

    def to_uint64(self, value: str, old: DataType, new: DataType) -> str:
        kind = llvm_type(new)
        signed = self.value(f"freeze {kind} {self.convert_by('fptosi', value, old, new)}")
        if old.bits == 16:  # 2**63 is no float16
            return signed
        low, high = (self.splat(literal(2.0**k, old.element), old) for k in (63, 64))
        moved = self.convert_by("fptosi", self.op("fsub", old, value, low), old, new)
        moved = self.value(f"freeze {kind} {moved}")
        moved = self.op("xor", new, moved, self.splat(str(1 << 63), new))
        flags = DataType("bool").with_lanes(old.lanes)
        above = self.test("fcmp oge", old, value, low)
        large = self.op("and", flags, above, self.test("fcmp olt", old, value, high))
        return self.choose(large, moved, signed, new)

    def round_to_odd(self, value: str, old: DataType) -> str:
        """float64 as float32 such that rounding it once more is as good as rounding once."""
        f32, i32 = F32.with_lanes(old.lanes), I32.with_lanes(old.lanes)
        near = self.convert_by("fptrunc", value, old, f32)
        back = self.convert_by("fpext", near, f32, old)
        bits = self.value(f"bitcast {llvm_type(f32)} {near} to {llvm_type(i32)}")
        size, exact = (self.intrinsic("fabs", old, v) for v in (back, value))
        above = self.test("fcmp ogt", old, size, exact)
        inexact = self.test("fcmp one", old, back, value)
        down = self.value(f"zext {flag_type(old)} {above} to {llvm_type(i32)}")
        odd = self.value(f"zext {flag_type(old)} {inexact} to {llvm_type(i32)}")
        bits = self.op("or", i32, self.op("sub", i32, bits, down), odd)
        return self.value(f"bitcast {llvm_type(i32)} {bits} to {llvm_type(f32)}")

    # -- soft floats ---------------------------------------------------------------------------

    def widen(self, value: str, old: DataType) -> str:
        """A soft float as float32."""
        lanes, f32, i32 = old.lanes, F32.with_lanes(old.lanes), I32.with_lanes(old.lanes)
        if old.base == "bfloat16":
            bits = self.value(f"zext {llvm_type(old)} {value} to {llvm_type(i32)}")
            high = self.op("shl", i32, bits, self.splat("16", i32))
            return self.value(f"bitcast {llvm_type(i32)} {high} to {llvm_type(f32)}")
        table = self.module.float_table(old.element)
        at = self.value(f"zext {llvm_type(old)} {value} to {vector_of('i64', lanes)}")
        gep = f"getelementptr float, ptr @{table}, {vector_of('i64', lanes)} {at}"
        pointers = self.value(gep)
        if lanes == 1:
            return self.value(f"load float, ptr {pointers}, align 4")
        name = f"llvm.masked.gather.v{lanes}f32.v{lanes}p0"
        kinds = f"<{lanes} x ptr>, i32 immarg, <{lanes} x i1>, {llvm_type(f32)}"
        self.module.declare(name, f"declare {llvm_type(f32)} @{name}({kinds})")
        args = f"<{lanes} x ptr> {pointers}, i32 4, <{lanes} x i1> splat (i1 true)"
        return self.value(
            f"call {llvm_type(f32)} @{name}({args}, {llvm_type(f32)} zeroinitializer)"
        )

    def narrow(self, value: str, new: DataType) -> str:
        """A float32 as a soft float."""
        if new.base != "bfloat16":
            name = self.module.narrowing(new)
            kind = llvm_type(F32.with_lanes(new.lanes))
            return self.value(f"call {llvm_type(new)} @{name}({kind} {value})")
        f32, i32 = F32.with_lanes(new.lanes), I32.with_lanes(new.lanes)
        bits = self.value(f"bitcast {llvm_type(f32)} {value} to {llvm_type(i32)}")
        high = self.op("lshr", i32, bits, self.splat("16", i32))
        last = self.op("and", i32, high, self.splat("1", i32))
        up = self.op("add", i32, last, self.splat("32767", i32))
        whole = self.op("lshr", i32, self.op("add", i32, bits, up), self.splat("16", i32))
        quiet = self.op("or", i32, high, self.splat("64", i32))
        broken = self.test("fcmp uno", f32, value, value)
        chosen = self.choose(broken, quiet, whole, i32)
        return self.value(f"trunc {llvm_type(i32)} {chosen} to {llvm_type(new)}")

    def in_float32(self, dtype: DataType, args: Any, compute: Any) -> str:
        """`compute(float32 type, *values)` on soft floats, rounded back."""
        wide = F32.with_lanes(dtype.lanes)
        return self.narrow(compute(wide, *(self.widen(a, dtype) for a in args)), dtype)


def table_text(name: str, dtype: DataType) -> str:
    """The constant `@name`: float32 values of all 256 bytes of an 8-bit (or smaller) float."""
    codes = np.arange(256, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        values = codes.view(numpy_dtype(dtype)).astype(np.float32)
    items = ", ".join(f"float {literal(float(v), F32)}" for v in values)
    return f"@{name} = private unnamed_addr constant [256 x float] [{items}], align 64"


def narrowing_text(name: str, new: DataType) -> str:
    """`@name`: float32 to a float of at most 8 bits, rounded to nearest even.

    Normal numbers round in their bits; subnormal ones by adding the power of two whose last place
    is the smallest subnormal. Beyond the largest finite number comes what ml_dtypes has there.
    """
    if new.base in _NO_NARROWING:
        what = "this type has no rounding in LLVM code"
        raise LoopwrightError(explain(what, got=str(new), instead="compute in float32"))
    import ml_dtypes

    info = ml_dtypes.finfo(numpy_dtype(new.element))
    element, mantissa = new.element, info.nmant
    lowest = int(np.log2(float(info.smallest_normal)))
    largest = bits_of(float(info.max), element)
    over, under = bits_of(np.inf, element), bits_of(-np.inf, element)
    nan, minus_nan = bits_of(np.nan, element), bits_of(-np.nan, element)
    sign_bit = bits_of(-float(info.max), element) ^ largest
    signed_zero = bits_of(-0.0, element) != 0
    code = Lines(None)
    f32, i32 = F32.with_lanes(new.lanes), I32.with_lanes(new.lanes)
    fk, ik, shift = llvm_type(f32), llvm_type(i32), 23 - mantissa
    n = lambda v: code.splat(str(v), i32)  # noqa: E731
    bits = code.fresh(f"bitcast {fk} %x to {ik}")
    size = code.op("and", i32, bits, n(0x7FFFFFFF))
    last = code.op("and", i32, code.op("lshr", i32, size, n(shift)), n(1))
    up = code.op("add", i32, last, n((1 << (shift - 1)) - 1))
    rounded = code.op("lshr", i32, code.op("add", i32, size, up), n(shift))
    normal = code.op("sub", i32, rounded, n((127 + lowest - 1) << mantissa))
    magic = 2.0 ** (lowest - mantissa + 23)
    number = code.splat(literal(magic, F32), f32)
    real = code.value(f"bitcast {ik} {size} to {fk}")
    moved = code.op("fadd", f32, real, number)
    small = code.value(f"bitcast {fk} {moved} to {ik}")
    base = int(np.float32(magic).view(np.int32))
    tiny = code.op("sub", i32, small, n(base))
    limit = n(int(np.float32(2.0**lowest).view(np.int32)))
    below = code.test("icmp slt", i32, size, limit)
    found = code.choose(below, tiny, normal, i32)
    negative = code.test("icmp slt", i32, bits, n(0))
    beyond = code.test("icmp sgt", i32, found, n(largest))
    sign = code.choose(negative, n(sign_bit), n(0), i32)
    if not signed_zero:
        sign = code.choose(code.test("icmp eq", i32, found, n(0)), n(0), sign, i32)
    result = code.op("or", i32, found, sign)
    result = code.choose(beyond, code.choose(negative, n(under), n(over), i32), result, i32)
    broken = code.test("fcmp uno", f32, "%x", "%x")
    result = code.choose(broken, code.choose(negative, n(minus_nan), n(nan), i32), result, i32)
    held = llvm_type(new)
    code.emit(f"ret {held} {code.fresh(f'trunc {ik} {result} to {held}')}")
    header = f"define internal {held} @{name}({fk} %x) nounwind {{"
    return "\n".join([header, *code.lines, "}"])


def narrowing_name(dtype: DataType) -> str:
    """The name of the rounding function of a type."""
    return f"lw_to_{dtype.base}_x{dtype.lanes}"


__all__ = ["ConversionEmitter", "mangle", "narrowing_name", "narrowing_text", "table_text"]
