"""Expressions of lowered TensorIR as C.

They mean what `codegen.llvm.expr` says: integers wrap around (arithmetic whose range is not known
to fit is done in unsigned types), indices do not overflow, division by 0 gives 0, NaN wins in min
and max, `if_then_else` and `Select` evaluate only the chosen side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir import prim_expr as pe
from ...ir.dtype import DataType
from ...ir.prim_expr import Call, FloatImm, IntImm, PrimExpr, Var
from ...tir.buffer import Buffer
from ...tir.expr import BufferLoad
from .helpers import F32, F64, Helpers
from .types import (
    bare,
    c_type,
    identifier,
    is_odd,
    is_small,
    literal,
    memory_type,
    unsigned,
)

_SIGNS = {pe.Add: "+", pe.Sub: "-", pe.Mul: "*"}
_ON_FLAGS = {pe.Add: "||", pe.Sub: "!=", pe.Mul: "&&"}
_COMPARE = {pe.EQ: "==", pe.NE: "!=", pe.LT: "<", pe.LE: "<=", pe.GT: ">", pe.GE: ">="}
_DIVIDE = {pe.Div: "div", pe.Mod: "mod", pe.FloorDiv: "floordiv", pe.FloorMod: "floormod"}
_INTEGER_OPS = (*_SIGNS, *_DIVIDE, pe.Min, pe.Max)
_INT32, _NARROW = DataType("int32"), 1 << 31
_NO_RANGE = (-(1 << 70), 1 << 70)


class ExprEmitter:
    """Emits the expressions of one function; calls are in `calls.py`.

    An expression is one C expression without side effects but for those of calls; where it is not
    a single operand it stands in parentheses.
    """

    def __init__(self, helpers: Helpers) -> None:
        self.helpers = helpers
        self.env: dict[Var, str] = {}
        self.pointees: dict[Any, str] = {}  # what pointers point to, with const
        self.used: set[Var] = set()
        self.ranges: dict[Var, tuple[int, int]] = {}
        self.taken: set[str] = set()
        self.indexing = False
        self.narrow = False  # whether int64 arithmetic is known to fit 32 bits
        self.narrow_vars: set[Var] = set()  # int64 variables that are held in a ptrdiff_t

    # -- names ---------------------------------------------------------------------------------

    def name(self, hint: str) -> str:
        """A name of the function that is not taken."""
        made = base = identifier(hint)
        k = 0
        while made in self.taken:
            k += 1
            made = f"{base}_{k}"
        self.taken.add(made)
        return made

    def var(self, node: Var) -> str:
        found = self.env.get(node)
        if found is None:
            what = f"variable {node.name} is not defined here"
            raise LoopwrightError(explain(what, span=node.span))
        self.used.add(node)
        wide = node in self.narrow_vars and not self.narrow
        return f"((int64_t){found})" if wide else found

    # -- expressions ---------------------------------------------------------------------------

    def expr(self, node: Any) -> str:
        """The value of an expression, in parentheses where it needs them."""
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            what = f"{type(node).__name__} has no C code"
            hint = "compile with the passes of backend.c, which make vector loops serial"
            raise LoopwrightError(explain(what, got=str(node), instead=hint, span=node.span))
        return handler(self, node)

    def bare(self, node: Any) -> str:
        """The value without parentheses around it."""
        return bare(self.expr(node))

    def index(self, node: PrimExpr) -> str:
        """An index: it does not overflow. Where all of it fits, it is computed in 32 bits."""
        before = self.indexing, self.narrow
        self.indexing, self.narrow = True, self.fits_narrow(node)
        text = self.bare(node)
        self.indexing, self.narrow = before
        return text

    def data(self, node: PrimExpr) -> str:
        """The value of a condition or datum inside an index."""
        before = self.indexing, self.narrow
        self.indexing = self.narrow = False
        text = self.expr(node)
        self.indexing, self.narrow = before
        return text

    def number(self, node: IntImm | FloatImm) -> str:
        return literal(node.value, _INT32 if self.narrow else node.dtype)

    # -- arithmetic ----------------------------------------------------------------------------

    def binary(self, node: pe.BinaryOpExpr) -> str:
        a, b = self.expr(node.a), self.expr(node.b)
        return self.combined(type(node), node.dtype, a, b, self.indexing or self.fits(node))

    def combined(self, kind: type, dtype: DataType, a: str, b: str, plain: bool = False) -> str:
        """a + b, a - b or a * b. `plain`: known not to overflow."""
        sign = _SIGNS[kind]
        if dtype.is_float:
            return self.in_float(dtype, (a, b), lambda x, y: f"({x} {sign} {y})")
        if dtype.is_bool:
            return f"({a} {_ON_FLAGS[kind]} {b})"
        wide = unsigned(dtype)
        exact = c_type(dtype) == wide and not is_odd(dtype)
        if exact or (plain and dtype.is_int and dtype.bits >= 32):
            return f"({a} {sign} {b})"
        return f"({self.helpers.wrapped(f'(({wide}){a} {sign} ({wide}){b})', dtype)})"

    def in_float(self, dtype: DataType, args: Any, compute: Callable[..., str]) -> str:
        """`compute(*values)`; floats without a C type are computed with as float."""
        if not is_small(dtype):
            return compute(*args)
        widen = self.helpers.widen(dtype)
        made = compute(*(f"{widen}({bare(a)})" for a in args))
        return f"{self.helpers.narrow(dtype)}({bare(made)})"

    def divide(self, node: Any) -> str:
        """Div, Mod, FloorDiv and FloorMod."""
        a, b, kind = self.expr(node.a), self.expr(node.b), type(node)
        dtype = _INT32 if self.narrow else node.dtype
        if dtype.is_float:
            of = F32 if is_small(dtype) else dtype
            if kind is pe.FloorDiv and dtype.base == "float16":  # the quotient is a float16, too
                a = self.in_float(dtype, (a, b), lambda x, y: f"({x} / {y})")
                return self.in_float(dtype, [a], lambda x: f"floorf({bare(x)})")
            return self.in_float(dtype, (a, b), lambda x, y: self.real_divide(kind, of, x, y))
        floors = kind is pe.FloorDiv or kind is pe.FloorMod
        known = node.b.value if isinstance(node.b, IntImm) else 0
        if known > 0 and dtype.bits >= 32:
            if floors and dtype.is_int and known & (known - 1) == 0:
                part = kind is pe.FloorMod
                return f"({a} & {known - 1})" if part else f"({a} >> {known.bit_length() - 1})"
            if not floors or not dtype.is_int or self.interval(node.a)[0] >= 0:
                return f"({a} {'%' if kind in (pe.Mod, pe.FloorMod) else '/'} {b})"
        return f"{self.helpers.divide(_DIVIDE[kind], dtype)}({bare(a)}, {bare(b)})"

    def real_divide(self, kind: type, dtype: DataType, a: str, b: str) -> str:
        """Division of floats; floor division and its remainder are Python's."""
        end = "f" if dtype.base == "float32" else ""
        if kind is pe.Div:
            return f"({a} / {b})"
        if kind is pe.FloorDiv:
            return f"floor{end}({a} / {b})"
        if kind is pe.Mod:
            return f"fmod{end}({bare(a)}, {bare(b)})"
        return f"{self.helpers.floor_mod(dtype)}({bare(a)}, {bare(b)})"

    def extremum(self, node: pe.Min | pe.Max) -> str:
        largest, dtype = isinstance(node, pe.Max), _INT32 if self.narrow else node.dtype
        sides = [node.a, node.b]
        if isinstance(node.a, FloatImm):  # the side that is not looked at for NaN last
            sides.reverse()
        a, b = map(self.expr, sides)
        if dtype.is_bool:
            return f"({a} {'||' if largest else '&&'} {b})"
        of = F32 if is_small(dtype) else dtype
        name = self.helpers.extremum(largest, of)
        return self.in_float(dtype, (a, b), lambda x, y: f"{name}({bare(x)}, {bare(y)})")

    # -- conditions ----------------------------------------------------------------------------

    def compare(self, node: pe.CmpExpr) -> str:
        if self.fits_narrow(node.a) and self.fits_narrow(node.b):
            a, b = (f"({t})" if " " in t else t for t in map(self.index, (node.a, node.b)))
        else:
            a, b = self.data(node.a), self.data(node.b)
        if is_small(node.a.dtype):
            widen = self.helpers.widen(node.a.dtype)
            a, b = f"{widen}({bare(a)})", f"{widen}({bare(b)})"
        return f"({a} {_COMPARE[type(node)]} {b})"

    def logical(self, node: pe.And | pe.Or) -> str:
        sign = "&&" if isinstance(node, pe.And) else "||"
        sides = (self.expr(node.a), self.expr(node.b))
        # a && b && c needs no parentheses inside; compilers want them around && in ||.
        a, b = (
            bare(text) if type(side) is type(node) else text
            for side, text in zip((node.a, node.b), sides, strict=True)
        )
        return f"({a} {sign} {b})"

    def invert(self, node: pe.Not) -> str:
        return f"!{self.expr(node.a)}"

    def choice(self, cond: PrimExpr, yes: PrimExpr, no: PrimExpr) -> str:
        """`yes` where `cond` holds, else `no`; the other side is not evaluated."""
        given = (self.data(cond), self.expr(yes), self.expr(no))
        made = f"({given[0]} ? {given[1]} : {given[2]})"
        kind = c_type(yes.dtype)
        # The two sides of ?: are promoted to int.
        return f"(({kind}){made})" if kind in ("int8_t", "int16_t", "uint8_t", "uint16_t") else made

    def select(self, node: pe.Select) -> str:
        return self.choice(node.condition, node.true_value, node.false_value)

    def let(self, node: pe.Let) -> str:
        """The value stands where the variable was: C has no variables inside expressions."""
        self.env[node.var] = self.expr(node.value)
        return self.expr(node.body)

    # -- conversions ---------------------------------------------------------------------------

    def cast(self, node: pe.Cast) -> str:
        if self.narrow:
            return self.expr(node.value)
        inner = self.data if node.value.dtype.is_float else self.expr
        return self.convert(inner(node.value), node.value.dtype, node.dtype)

    def convert(self, text: str, old: DataType, new: DataType) -> str:
        """A value as another type."""
        if old.base == new.base:
            return text
        kind = c_type(new)
        if is_small(old):
            return self.convert(f"{self.helpers.widen(old)}({bare(text)})", F32, new)
        if new.is_bool:
            zero = "NULL" if old.is_handle else literal(0, old)
            return f"({text} != {zero})"
        if is_small(new):
            if old.base == "float64" and new.base == "float16":
                return f"{self.helpers.narrow(new, F64)}({bare(text)})"
            if old.base != "float32":
                text = self.convert(text, old, F32)
            return f"{self.helpers.narrow(new)}({bare(text)})"
        if old.is_float and new.is_integer:
            wide = new.bits == 64 or (new.bits == 32 and new.is_uint)
            to = "u64" if new.bits == 64 and new.is_uint else "i64" if wide else "i32"
            cut = f"{self.helpers.to_integer(old, to)}({bare(text)})"
            exact = {"u64": "uint64", "i64": "int64", "i32": "int32"}[to] == new.base
            return cut if exact else f"({self.helpers.wrapped(cut, new)})"
        if old.is_handle or new.is_handle:
            return f"(({kind})(uintptr_t){text})"
        if is_odd(new) and not (
            old.is_integer and old.bits < new.bits and old.is_int == new.is_int
        ):
            return f"({self.helpers.wrapped(text, new)})"
        return f"(({kind}){text})"

    # -- memory --------------------------------------------------------------------------------

    def element(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> str:
        """The element of a flat buffer, as C names it."""
        if len(indices) > 1:
            what = f"buffer {buffer.name} is not flat"
            raise LoopwrightError(explain(what, instead="run FlattenBuffer first"))
        if buffer.dtype.is_integer and not buffer.dtype.is_bool and buffer.dtype.bits < 8:
            what = f"buffer {buffer.name} of {buffer.dtype} is not yet made of bytes"
            raise LoopwrightError(explain(what, instead="run Int4StorageLegalize first"))
        base, kind = self.var(buffer.data), memory_type(buffer.dtype)
        at = self.index(indices[0]) if indices else "0"
        held = self.pointees.get(buffer.data, "void")
        const = "const " if held.startswith("const ") else ""
        if held.removeprefix("const ") != kind:
            base = f"(({const}{kind}*){base})"
        return f"{base}[{at}]"

    def load(self, node: BufferLoad) -> str:
        text = self.element(node.buffer, node.indices)
        if node.buffer.dtype.is_bool:
            text = f"({text} != 0)"
        if node.predicate is not None:
            return f"({self.data(node.predicate)} ? {text} : {literal(0, node.dtype)})"
        return text

    # -- ranges --------------------------------------------------------------------------------

    def fits(self, node: pe.BinaryOpExpr) -> bool:
        """Whether integer arithmetic is known not to leave its type."""
        dtype = node.dtype
        if not dtype.is_int or dtype.bits < 32:
            return False
        low, high = self.interval(node)
        return -(1 << (dtype.bits - 1)) <= low and high < 1 << (dtype.bits - 1)

    def fits_narrow(self, node: PrimExpr) -> bool:
        """Whether an expression of integers, every part of it, is known to fit 32 bits."""
        if not node.dtype.is_int or node.dtype.bits < 32:
            return False
        low, high = self.interval(node)
        if low < -_NARROW or high >= _NARROW:
            return False
        if isinstance(node, IntImm):
            return True
        if isinstance(node, Var):
            return node.dtype.bits == 32 or node in self.narrow_vars
        if isinstance(node, pe.Cast):
            return self.fits_narrow(node.value)
        if isinstance(node, _INTEGER_OPS):
            return self.fits_narrow(node.a) and self.fits_narrow(node.b)
        return False

    def interval(self, node: PrimExpr) -> tuple[int, int]:
        """The least and the greatest value of an integer expression, as far as it is known."""
        if isinstance(node, IntImm):
            return node.value, node.value
        if isinstance(node, Var):
            found = self.ranges.get(node)
            return _of_type(node.dtype) if found is None else found
        if isinstance(node, pe.Cast) and node.value.dtype.is_integer:
            return _within(self.interval(node.value), node.dtype)
        if not isinstance(node, pe.BinaryOpExpr):
            return _of_type(node.dtype)
        (a, b), (c, d) = self.interval(node.a), self.interval(node.b)
        kind = type(node)
        if kind is pe.Add:
            return a + c, b + d
        if kind is pe.Sub:
            return a - d, b - c
        if kind is pe.Mul:
            ends = (a * c, a * d, b * c, b * d)
            return min(ends), max(ends)
        if kind is pe.Min:
            return min(a, c), min(b, d)
        if kind is pe.Max:
            return max(a, c), max(b, d)
        if c == d and c > 0:
            if kind is pe.FloorDiv:
                return a // c, b // c
            if kind is pe.Div and a >= 0:
                return a // c, b // c
            if kind is pe.FloorMod or (kind is pe.Mod and a >= 0):
                return 0, c - 1
        return _of_type(node.dtype)

    def call(self, node: Call) -> str:
        """A call: see `calls.py`."""
        raise NotImplementedError


def _of_type(dtype: DataType) -> tuple[int, int]:
    if dtype.is_int:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return (0, (1 << dtype.bits) - 1) if dtype.is_integer else _NO_RANGE


def _within(given: tuple[int, int], dtype: DataType) -> tuple[int, int]:
    whole = _of_type(dtype)
    return given if whole[0] <= given[0] and given[1] <= whole[1] else whole


_E = ExprEmitter
_EXPRESSIONS: dict[type, Any] = {
    Var: _E.var,
    pe.SizeVar: _E.var,
    IntImm: _E.number,
    FloatImm: _E.number,
    **dict.fromkeys(_SIGNS, _E.binary),
    **dict.fromkeys(_DIVIDE, _E.divide),
    **dict.fromkeys(_COMPARE, _E.compare),
    pe.Min: _E.extremum,
    pe.Max: _E.extremum,
    pe.And: _E.logical,
    pe.Or: _E.logical,
    pe.Not: _E.invert,
    pe.Select: _E.select,
    pe.Let: _E.let,
    pe.Cast: _E.cast,
    BufferLoad: _E.load,
    Call: lambda emitter, node: emitter.call(node),
    pe.StringImm: lambda emitter, node: emitter.string(node),
}
