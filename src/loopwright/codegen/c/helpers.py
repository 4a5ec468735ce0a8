"""Small C functions that expressions use, each written into the file where something needs it.

They say what C leaves open the same way as the other code generators: division by zero gives 0,
shifts by too much move every bit out, floats out of an integer's range become its least value, NaN
wins in min and max, floats without a C type round to nearest even.
"""

from __future__ import annotations

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType, numpy_dtype
from .types import bits_of, c_type, held_bits, is_odd, is_small, real, tag, unsigned

F32, F64 = DataType("float32"), DataType("float64")


class Helpers:
    """The helper functions of one file, in an order in which each is defined before its use."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(self, name: str, text: str) -> str:
        """Remember a function's text; gives its name."""
        self.texts.setdefault(name, text)
        return name

    # -- integers ------------------------------------------------------------------------------

    def wrapped(self, text: str, dtype: DataType) -> str:
        """A value of a wider integer type cut to `dtype`."""
        if dtype.is_bool:
            return text
        if not is_odd(dtype):
            return f"({c_type(dtype)}){text}"
        held, mask = c_type(dtype), (1 << dtype.bits) - 1
        if not dtype.is_int:
            return f"({held})({text} & {mask}u)"
        name, sign = f"lw_cut_{tag(dtype)}", 1 << (dtype.bits - 1)
        body = f"return ({held})((int64_t)((x & {mask}u) ^ {sign}u) - {sign});"
        return f"{self.add(name, _function(held, name, 'uint64_t x', body))}((uint64_t){text})"

    def extremum(self, largest: bool, dtype: DataType) -> str:
        """Min or max. Of floats NaN wins, whichever side it is on."""
        name, kind = f"lw_{'max' if largest else 'min'}_{tag(dtype)}", c_type(dtype)
        wins = f"b {'>' if largest else '<'} a"
        test = f"{wins} || b != b" if dtype.is_float else wins
        return self.add(
            name, _function(kind, name, f"{kind} a, {kind} b", f"return {test} ? b : a;")
        )

    def divide(self, what: str, dtype: DataType) -> str:
        """div, mod, floordiv or floormod of integers; by 0 they are 0, by -1 they wrap around."""
        name, kind = f"lw_{what}_{tag(dtype)}", c_type(dtype)
        lines = ["if (b == 0) return 0;"]
        quotient = what in ("div", "floordiv")
        if dtype.is_int:
            negated = self.wrapped(f"(0u - ({unsigned(dtype)})a)", dtype)
            lines.append(f"if (b == -1) return {negated if quotient else '0'};")
        if what in ("div", "mod") or not dtype.is_int:
            lines.append(f"return ({kind})(a {'/' if quotient else '%'} b);")
        else:
            lines.append(f"const {kind} r = ({kind})(a % b);")
            moved = "r != 0 && (r < 0) != (b < 0)"
            value = f"a / b - ({moved})" if quotient else f"{moved} ? r + b : r"
            lines.append(f"return ({kind})({value});")
        return self.add(name, _function(kind, name, f"{kind} a, {kind} b", *lines))

    def shift(self, left: bool, dtype: DataType) -> str:
        """A shift by any number of bits."""
        name, kind = f"lw_sh{'l' if left else 'r'}_{tag(dtype)}", c_type(dtype)
        wide, most = unsigned(dtype), dtype.bits - 1
        if left:
            moved = self.wrapped(f"(({wide})a << b)", dtype)
            lines = [f"return (uint64_t)b > {most} ? ({kind})0 : {moved};"]
        elif dtype.is_int:
            lines = [f"return ({kind})(a >> ((uint64_t)b > {most} ? {most} : b));"]
        else:
            lines = [f"return ({kind})((uint64_t)b > {most} ? 0 : a >> b);"]
        return self.add(name, _function(kind, name, f"{kind} a, {kind} b", *lines))

    def power(self, dtype: DataType) -> str:
        """x ** n of integers, wrapping around; 1 for a negative n."""
        name, kind, wide = f"lw_pow_{tag(dtype)}", c_type(dtype), unsigned(dtype)
        lines = [
            f"{wide} r = 1, b = ({wide})x;",
            f"for ({kind} e = n; e > 0; e = ({kind})(e >> 1)) {{",
            "  if (e & 1) r *= b;",
            "  b *= b;",
            "}",
            f"return {self.wrapped('r', dtype)};",
        ]
        return self.add(name, _function(kind, name, f"{kind} x, {kind} n", *lines))

    def count_bits(self, what: str, dtype: DataType) -> str:
        """popcount or clz of an integer's bits."""
        name = f"lw_{what}_{tag(dtype)}"
        lines = [f"uint64_t bits = (uint64_t)x & UINT64_C({(1 << dtype.bits) - 1});"]
        if what == "popcount":
            lines += ["int32_t n = 0;", "for (; bits != 0; bits &= bits - 1) ++n;"]
        else:
            lines += [f"int32_t n = {dtype.bits};", "for (; bits != 0; bits >>= 1) --n;"]
        return self.add(name, _function("int32_t", name, f"{c_type(dtype)} x", *lines, "return n;"))

    def multiply_shift(self) -> str:
        """x * y, numbers with fraction bits, shifted right and rounded half up."""
        name = "lw_q_multiply"
        lines = [
            "const int64_t p = (int64_t)((uint64_t)x * (uint64_t)y);",
            "if (s <= 0) return (int64_t)((uint64_t)p << -s);",
            "return (p + ((int64_t)1 << (s - 1))) >> s;",
        ]
        return self.add(name, _function("int64_t", name, "int64_t x, int64_t y, int64_t s", *lines))

    # -- conversions ---------------------------------------------------------------------------

    def to_integer(self, old: DataType, new: str) -> str:
        """float or double cut to int32, int64 or uint64; what does not fit is the least int."""
        name, kind = f"lw_{tag(old)}_to_{new}", c_type(old)
        end = "f" if old.base == "float32" else ""
        if new == "i32":
            low = "x >= -2147483648.0f" if end else "x > -2147483649.0"
            lines = [f"return {low} && x < 2147483648.0{end} ? (int32_t)x : INT32_MIN;"]
            return self.add(name, _function("int32_t", name, f"{kind} x", *lines))
        inside = f"x >= -9223372036854775808.0{end} && x < 9223372036854775808.0{end}"
        if new == "i64":
            lines = [f"return {inside} ? (int64_t)x : INT64_MIN;"]
            return self.add(name, _function("int64_t", name, f"{kind} x", *lines))
        above = f"x >= 9223372036854775808.0{end} && x < 18446744073709551616.0{end}"
        lines = [
            f"if ({above}) return (uint64_t)x;",
            f"return (uint64_t)({inside} ? (int64_t)x : INT64_MIN);",
        ]
        return self.add(name, _function("uint64_t", name, f"{kind} x", *lines))

    def bits(self, old: str, new: str) -> str:
        """The bits of a value of one C type as another of the same size."""
        clean = lambda t: t.removesuffix("_t").replace("*", "p")  # noqa: E731
        name = f"lw_bits_{clean(old)}_{clean(new)}"
        lines = [f"{new} y;", "memcpy(&y, &x, sizeof y);", "return y;"]
        return self.add(name, _function(new, name, f"{old} x", *lines))

    def widen(self, old: DataType) -> str:
        """A float without a C type as float."""
        name = f"lw_{tag(old)}_to_f32"
        if name in self.texts:
            return name
        if old.itemsize == 1:
            codes = np.arange(1 << 8, dtype=np.uint8)
            with np.errstate(invalid="ignore"):
                values = codes.view(numpy_dtype(old.element)).astype(np.float32)
            items = ", ".join(map(real, values))
            table = f"static const float {name}_table[256] = {{{items}}};"
            return self.add(
                name,
                f"{table}\n\n{_function('float', name, 'uint8_t x', f'return {name}_table[x];')}",
            )
        to = self.bits("uint32_t", "float")
        if old.base == "bfloat16":
            lines = [f"return {to}((uint32_t)x << 16);"]
            return self.add(name, _function("float", name, "uint16_t x", *lines))
        back = self.bits("float", "uint32_t")
        lines = [
            "const uint32_t sign = (uint32_t)(x & 0x8000u) << 16, frac = x & 0x3FFu;",
            "const uint32_t exponent = (x >> 10) & 0x1Fu;",
            f"if (exponent == 0) return {to}(sign | {back}((float)frac * 5.9604644775390625e-8f));",
            "const uint32_t high = exponent == 0x1Fu ? 0xFFu : exponent + 112u;",
            f"return {to}(sign | high << 23 | frac << 13);",
        ]
        return self.add(name, _function("float", name, "uint16_t x", *lines))

    def narrow(self, new: DataType, old: DataType = F32) -> str:
        """A float as one without a C type, rounded to nearest even; double for float16 only."""
        if old.base == "float64":
            return self._double_to_half(new)
        name, held = f"lw_f32_to_{tag(new)}", c_type(new)
        if name in self.texts:
            return name
        if new.base == "float8_e8m0fnu":
            what = "this type has no rounding in C code"
            raise LoopwrightError(explain(what, got=str(new), instead="compute in float32"))
        back = self.bits("float", "uint32_t")
        if new.base == "bfloat16":
            lines = [
                f"const uint32_t bits = {back}(x);",
                "if (x != x) return (uint16_t)(bits >> 16 | 64u);",
                "return (uint16_t)((bits + 32767u + (bits >> 16 & 1u)) >> 16);",
            ]
            return self.add(name, _function(held, name, "float x", *lines))
        return self.add(name, _function(held, name, "float x", *self._narrowing(new, held, back)))

    def _narrowing(self, new: DataType, held: str, back: str) -> list[str]:
        """Normal numbers round in their bits; subnormal ones by adding the power of two whose last
        place is the smallest subnormal. Beyond the largest comes what ml_dtypes has there."""
        import ml_dtypes

        info, mantissa = ml_dtypes.finfo(numpy_dtype(new.element)), 0
        mantissa = int(info.nmant)
        lowest = int(np.log2(float(info.smallest_normal)))
        largest = bits_of(float(info.max), new)
        over, under = bits_of(np.inf, new), bits_of(-np.inf, new)
        nan, minus_nan = bits_of(np.nan, new), bits_of(-np.nan, new)
        sign = bits_of(-float(info.max), new) ^ largest
        shift, magic = 23 - mantissa, np.float32(2.0 ** (lowest - mantissa + 23))
        limit = int(np.float32(2.0**lowest).view(np.uint32))
        zero = "" if bits_of(-0.0, new) else " && found != 0"
        to = self.bits("uint32_t", "float")
        return [
            f"const uint32_t bits = {back}(x), size = bits & 0x7FFFFFFFu;",
            "const bool negative = bits >> 31 != 0;",
            "uint32_t found;",
            f"if (x != x) return ({held})(negative ? {minus_nan}u : {nan}u);",
            f"if (size < {limit}u) {{",
            f"  found = {back}({to}(size) + {real(magic)}) - {int(magic.view(np.uint32))}u;",
            "} else {",
            f"  found = (size + {(1 << (shift - 1)) - 1}u + (size >> {shift} & 1u)) >> {shift};",
            f"  found -= {(127 + lowest - 1) << mantissa}u;",
            "}",
            f"if (found > {largest}u) return ({held})(negative ? {under}u : {over}u);",
            f"return ({held})(negative{zero} ? found | {sign}u : found);",
        ]

    def _double_to_half(self, new: DataType) -> str:
        """By a float rounded to odd, which makes the second rounding exact."""
        name, narrow = f"lw_f64_to_{tag(new)}", self.narrow(new)
        to, back = self.bits("uint32_t", "float"), self.bits("float", "uint32_t")
        lines = [
            "const float near = (float)x;",
            f"uint32_t bits = {back}(near);",
            "if (near == near && (double)near != x) {",
            "  if (fabs((double)near) > fabs(x)) --bits;",
            "  bits |= 1u;",
            "}",
            f"return {narrow}({to}(bits));",
        ]
        return self.add(name, _function(c_type(new), name, "double x", *lines))

    # -- floats --------------------------------------------------------------------------------

    def floor_mod(self, dtype: DataType) -> str:
        """The remainder with the divisor's sign."""
        name, kind = f"lw_floormod_{tag(dtype)}", c_type(dtype)
        end = "f" if dtype.base == "float32" else ""
        lines = [
            f"const {kind} r = fmod{end}(a, b);",
            f"return r != 0 && (r < 0) != (b < 0) ? r + b : r;",  # noqa: F541
        ]
        return self.add(name, _function(kind, name, f"{kind} a, {kind} b", *lines))

    def sigmoid(self, dtype: DataType) -> str:
        """1 / (1 + exp(-x))."""
        name, kind = f"lw_sigmoid_{tag(dtype)}", c_type(dtype)
        end = "f" if dtype.base == "float32" else ""
        line = f"return 1.0{end} / (1.0{end} + exp{end}(-x));"
        return self.add(name, _function(kind, name, f"{kind} x", line))

    def next_after(self, dtype: DataType) -> str:
        """The neighbour of a float16 or bfloat16 toward another, by its bits."""
        name, wide = f"lw_nextafter_{tag(dtype)}", self.widen(dtype)
        lines = [
            f"const float x = {wide}(a), y = {wide}(b);",
            f"if (x != x || y != y) return {bits_of(np.nan, dtype)}u;",
            "if (x == y) return b;",
            "if (x == 0.0f) return (uint16_t)((b & 0x8000u) | 1u);",
            "return (uint16_t)((x < y) != (x > 0.0f) ? a - 1 : a + 1);",
        ]
        return self.add(name, _function("uint16_t", name, "uint16_t a, uint16_t b", *lines))


def _function(result: str, name: str, params: str, *lines: str) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"static inline {result} {name}({params}) {{\n{body}\n}}"


__all__ = ["F32", "F64", "Helpers", "held_bits", "is_small"]
