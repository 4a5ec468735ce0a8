"""Expressions of lowered TensorIR as LLVM text.

Values are numbered by their text: an instruction that was emitted before in a block that
dominates this one is not emitted again (`value`), which keeps unrolled index arithmetic short.
"""

from __future__ import annotations

import itertools
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir import prim_expr as pe
from ...ir.dtype import DataType
from ...ir.expr import GlobalVar
from ...ir.op import Op
from ...ir.prim_expr import Broadcast, Call, FloatImm, IntImm, PrimExpr, Ramp, Var
from ...tir.buffer import Buffer
from ...tir.expr import BufferLoad
from .types import literal, llvm_type, mangle, memory_type, scalar_type, vector_of

_BINARY = {
    pe.Add: ("add nsw", "add", "fadd contract"),
    pe.Sub: ("sub nsw", "sub", "fsub contract"),
    pe.Mul: ("mul nsw", "mul", "fmul contract"),
    pe.Div: ("sdiv", "udiv", "fdiv"),
    pe.Mod: ("srem", "urem", "frem"),
}
_COMPARE = {
    pe.EQ: ("eq", "eq", "oeq"),
    pe.NE: ("ne", "ne", "une"),
    pe.LT: ("slt", "ult", "olt"),
    pe.LE: ("sle", "ule", "ole"),
    pe.GT: ("sgt", "ugt", "ogt"),
    pe.GE: ("sge", "uge", "oge"),
}
_INTRINSICS = {
    "sqrt": "sqrt",
    "fabs": "fabs",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "rint",
    "nearbyint": "nearbyint",
    "copysign": "copysign",
    "popcount": "ctpop",
}
_BITS = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "shift_left": "shl"}
_HALVES = ("float16", "bfloat16")


def _flavour(dtype: DataType) -> int:
    """0 signed integers, 1 unsigned and pointers, 2 floats."""
    return 2 if dtype.is_float else 0 if dtype.is_int else 1


class ExprEmitter:
    """Emits expressions into `self.lines`; `self.env` maps variables to their values."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.env: dict[Var, str] = {}
        self.numbers = itertools.count()
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.values: list[dict[str, str]] = [{}]
        self.block = "entry"
        self.mask: tuple[str, int] | None = None  # the lanes in which a value is wanted

    # -- lines ---------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        """One instruction."""
        self.lines.append(f"  {line}")

    def fresh(self, instruction: str) -> str:
        """The result of an instruction, always emitted."""
        name = f"%v{next(self.numbers)}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def value(self, kind: str, instruction: str) -> str:
        """The result of a pure instruction, emitted once."""
        for scope in reversed(self.values):
            found = scope.get(instruction)
            if found is not None:
                return found
        name = self.fresh(instruction)
        self.values[-1][instruction] = name
        return name

    def label(self, hint: str) -> str:
        """A fresh label."""
        return f"{hint}.{next(self.numbers)}"

    def place(self, label: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump_if(self, cond: str, yes: str, no: str) -> None:
        """A conditional branch."""
        self.emit(f"br i1 {cond}, label %{yes}, label %{no}")

    def intrinsic(self, name: str, dtype: DataType, *args: str) -> str:
        """Call the overloaded intrinsic `llvm.<name>` on values of one type."""
        kind = llvm_type(dtype)
        full = f"llvm.{name}.{mangle(dtype)}"
        self.module.declare(full, f"declare {kind} @{full}({', '.join([kind] * len(args))})")
        return self.value(kind, f"call {kind} @{full}({', '.join(f'{kind} {a}' for a in args)})")

    # -- expressions ---------------------------------------------------------------------------

    def expr(self, node: Any) -> str:
        """The value of an expression."""
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            what = f"{type(node).__name__} has no LLVM code"
            hint = "lower it first"
            raise LoopwrightError(explain(what, got=str(node), instead=hint, span=node.span))
        return handler(self, node)

    def var(self, node: Var) -> str:
        found = self.env.get(node)
        if found is None:
            what = f"variable {node.name} is not defined here"
            raise LoopwrightError(explain(what, span=node.span))
        return found

    def number(self, node: IntImm | FloatImm) -> str:
        return literal(node.value, node.dtype)

    def string(self, node: pe.StringImm) -> str:
        return f"@{self.module.string(node.value)}"

    def binary(self, node: pe.BinaryOpExpr) -> str:
        kind = llvm_type(node.dtype)
        a, b = self.expr(node.a), self.expr(node.b)
        name = _BINARY[type(node)][_flavour(node.dtype)]
        return self.value(kind, f"{name} {kind} {a}, {b}")

    def floor_divide(self, node: pe.FloorDiv) -> str:
        kind, dtype = llvm_type(node.dtype), node.dtype
        a, b = self.expr(node.a), self.expr(node.b)
        power = _power_of_two(node.b)
        if power is not None:
            shift = "ashr" if dtype.is_int else "lshr"
            return self.value(kind, f"{shift} {kind} {a}, {self.splat(str(power), dtype)}")
        if not dtype.is_int:
            return self.value(kind, f"udiv {kind} {a}, {b}")
        quotient = self.value(kind, f"sdiv {kind} {a}, {b}")
        low = self.value(kind, f"sub {kind} {quotient}, {self.splat('1', dtype)}")
        inexact = self.rounds_down(node, a, b)
        flag = vector_of("i1", dtype.lanes)
        return self.value(kind, f"select {flag} {inexact}, {kind} {low}, {kind} {quotient}")

    def rounds_down(self, node: Any, a: str, b: str) -> str:
        """Whether the quotient toward zero is above the floor: the rest has the other sign."""
        kind = llvm_type(node.dtype)
        zero = self.splat("0", node.dtype)
        flag = vector_of("i1", node.dtype.lanes)
        rest = self.value(kind, f"srem {kind} {a}, {b}")
        some = self.value(flag, f"icmp ne {kind} {rest}, {zero}")
        mixed = self.value(kind, f"xor {kind} {rest}, {b}")
        negative = self.value(flag, f"icmp slt {kind} {mixed}, {zero}")
        return self.value(flag, f"and {flag} {some}, {negative}")

    def floor_mod(self, node: pe.FloorMod) -> str:
        kind, dtype = llvm_type(node.dtype), node.dtype
        a, b = self.expr(node.a), self.expr(node.b)
        power = _power_of_two(node.b)
        if power is not None:
            return self.value(kind, f"and {kind} {a}, {self.splat(str((1 << power) - 1), dtype)}")
        if not dtype.is_int:
            return self.value(kind, f"urem {kind} {a}, {b}")
        rest = self.value(kind, f"srem {kind} {a}, {b}")
        high = self.value(kind, f"add {kind} {rest}, {b}")
        flag = vector_of("i1", dtype.lanes)
        moved = self.rounds_down(node, a, b)
        return self.value(kind, f"select {flag} {moved}, {kind} {high}, {kind} {rest}")

    def extremum(self, node: pe.Min | pe.Max) -> str:
        """Min and max. On floats NaN wins: a NaN on either side is the result."""
        a, b = self.expr(node.a), self.expr(node.b)
        dtype, largest = node.dtype, isinstance(node, pe.Max)
        if not dtype.is_float:
            name = ("s" if dtype.is_int else "u") + ("max" if largest else "min")
            return self.intrinsic(name, dtype, a, b)
        if _is_number(node.a):
            a, b = b, a
        kind, flag = llvm_type(dtype), vector_of("i1", dtype.lanes)
        test = "ogt" if largest else "olt"
        # x86's max(b, a) gives a when either is NaN: a's NaN passes, b's needs a look.
        wins = self.value(flag, f"fcmp {test} {kind} {b}, {a}")
        chosen = self.value(kind, f"select {flag} {wins}, {kind} {b}, {kind} {a}")
        if _is_number(node.a) or _is_number(node.b):
            return chosen
        broken = self.value(flag, f"fcmp uno {kind} {b}, {b}")
        return self.value(kind, f"select {flag} {broken}, {kind} {b}, {kind} {chosen}")

    def compare(self, node: pe.CmpExpr) -> str:
        dtype = node.a.dtype
        kind, flag = llvm_type(dtype), llvm_type(node.dtype)
        a, b = self.expr(node.a), self.expr(node.b)
        test = _COMPARE[type(node)][_flavour(dtype)]
        name = "fcmp" if dtype.is_float else "icmp"
        return self.value(flag, f"{name} {test} {kind} {a}, {b}")

    def logical(self, node: pe.And | pe.Or) -> str:
        kind = llvm_type(node.dtype)
        name = "and" if isinstance(node, pe.And) else "or"
        return self.value(kind, f"{name} {kind} {self.expr(node.a)}, {self.expr(node.b)}")

    def invert(self, node: pe.Not) -> str:
        kind = llvm_type(node.dtype)
        true = self.splat("true", node.dtype)
        return self.value(kind, f"xor {kind} {self.expr(node.a)}, {true}")

    def select(self, node: pe.Select) -> str:
        cond = self.expr(node.condition)
        yes, no = self.expr(node.true_value), self.expr(node.false_value)
        return self.choose(cond, node.condition.dtype, yes, no, node.dtype)

    def choose(self, cond: str, cond_dtype: DataType, yes: str, no: str, dtype: DataType) -> str:
        """LLVM's select."""
        kind, flag = llvm_type(dtype), llvm_type(cond_dtype)
        return self.value(kind, f"select {flag} {cond}, {kind} {yes}, {kind} {no}")

    def let(self, node: pe.Let) -> str:
        self.env[node.var] = self.expr(node.value)
        return self.expr(node.body)

    def cast(self, node: pe.Cast) -> str:
        return self.convert(self.expr(node.value), node.value.dtype, node.dtype)

    def convert(self, value: str, old: DataType, new: DataType) -> str:
        """A value converted between types of the same length."""
        name = _conversion(old, new)
        if name is None:
            return value
        a, b = llvm_type(old), llvm_type(new)
        if name == "nonzero":
            zero = "zeroinitializer" if old.lanes > 1 else "0.0" if old.is_float else "0"
            test = "fcmp une" if old.is_float else "icmp ne"
            return self.value(b, f"{test} {a} {value}, {zero}")
        return self.value(b, f"{name} {a} {value} to {b}")

    def to_i64(self, value: str, dtype: DataType) -> str:
        """An integer as i64."""
        return self.convert(value, dtype, DataType("int64"))

    def splat(self, text: str, dtype: DataType) -> str:
        """A literal as a vector of equal lanes."""
        return text if dtype.lanes == 1 else f"splat ({scalar_type(dtype)} {text})"

    def broadcast(self, node: Broadcast) -> str:
        if isinstance(node.value, (IntImm, FloatImm)):
            return self.splat(literal(node.value.value, node.value.dtype), node.dtype)
        return self.spread(self.expr(node.value), node.dtype)

    def spread(self, value: str, dtype: DataType) -> str:
        """A scalar value in every lane."""
        base, kind = scalar_type(dtype), llvm_type(dtype)
        one = self.value(kind, f"insertelement {kind} poison, {base} {value}, i64 0")
        zeros = f"<{dtype.lanes} x i32> zeroinitializer"
        return self.value(kind, f"shufflevector {kind} {one}, {kind} poison, {zeros}")

    def ramp(self, node: Ramp) -> str:
        element = node.base.dtype
        kind = llvm_type(node.dtype)
        base = self.spread(self.expr(node.base), node.dtype)
        if isinstance(node.stride, IntImm):
            steps = [literal(k * node.stride.value, element) for k in range(node.lanes)]
            offsets = "<" + ", ".join(f"{scalar_type(element)} {s}" for s in steps) + ">"
        else:
            stride = self.spread(self.expr(node.stride), node.dtype)
            count = ", ".join(f"{scalar_type(element)} {k}" for k in range(node.lanes))
            offsets = self.value(kind, f"mul {kind} {stride}, <{count}>")
        return self.value(kind, f"add {kind} {base}, {offsets}")

    def shuffle(self, node: pe.Shuffle) -> str:
        dtype = node.dtype
        lanes: list[tuple[PrimExpr, int]] = []
        for v in node.vectors:
            lanes += [(v, k) for k in range(v.dtype.lanes)]
        base, result = scalar_type(dtype), "poison"
        for place, index in enumerate(node.indices):
            if not isinstance(index, IntImm):
                what = "Shuffle needs literal lanes"
                raise LoopwrightError(explain(what, got=str(index), span=node.span))
            vector, k = lanes[index.value]
            item = self.expr(vector)
            if vector.dtype.lanes > 1:
                item = self.value(base, f"extractelement {llvm_type(vector.dtype)} {item}, i64 {k}")
            if dtype.lanes == 1:
                return item
            kind = llvm_type(dtype)
            result = self.value(kind, f"insertelement {kind} {result}, {base} {item}, i64 {place}")
        return result

    # -- memory --------------------------------------------------------------------------------

    def address(self, buffer: Buffer, index: PrimExpr) -> str:
        """The address of a scalar index."""
        base = self.var(buffer.data)
        if isinstance(index, IntImm) and index.value == 0:
            return base
        at = self.to_i64(self.expr(index), index.dtype)
        return self.value("ptr", f"getelementptr {memory_type(buffer.dtype)}, ptr {base}, i64 {at}")

    def load(self, node: BufferLoad) -> str:
        index = node.indices[-1] if node.indices else IntImm("int32", 0)
        self.check_flat(node.buffer, node.indices)
        mask = None if node.predicate is None else self.expr(node.predicate)
        if mask is None and self.mask is not None:
            mask = self.mask_for(node.dtype.lanes)
        return self.load_value(node.buffer, index, node.dtype, mask)

    def mask_for(self, lanes: int) -> str | None:
        """The mask of the surrounding if_then_else for a value of `lanes` lanes."""
        mask, width = self.mask  # type: ignore[misc]
        if lanes == width:
            return mask
        kind = f"<{width} x i1>"
        name = f"llvm.vector.reduce.or.v{width}i1"
        self.module.declare(name, f"declare i1 @{name}({kind})")
        return self.value("i1", f"call i1 @{name}({kind} {mask})") if lanes == 1 else None

    def check_flat(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> None:
        if len(indices) > 1:
            what = f"buffer {buffer.name} is not flat"
            raise LoopwrightError(explain(what, instead="run FlattenBuffer first"))

    def load_value(self, buffer: Buffer, index: PrimExpr, dtype: DataType, mask: str | None) -> str:
        """Load from a flat index; where `mask` does not hold the result is 0."""
        if isinstance(index, Broadcast):
            scalar = self.load_value(buffer, index.value, buffer.dtype, self.any_lane(mask, dtype))
            return self.spread(scalar, dtype)
        memory, lanes = memory_type(buffer.dtype), dtype.lanes
        kind, align = vector_of(memory, lanes), DataType(buffer.dtype).itemsize
        if lanes == 1 or _is_dense(index):
            pointer = self.address(buffer, index.base if isinstance(index, Ramp) else index)
            if mask is None:
                raw = self.fresh(f"load {kind}, ptr {pointer}, align {align}")
            elif lanes == 1:
                pointer = self.or_zeros(mask, pointer)
                raw = self.fresh(f"load {kind}, ptr {pointer}, align {align}")
            else:
                raw = self.masked("load", kind, pointer, mask, lanes, align)
        else:
            pointers = self.addresses(buffer, index)
            flags = mask or "splat (i1 true)"
            raw = self.masked("gather", kind, pointers, flags, lanes, align)
        return self.from_memory(raw, buffer.dtype, dtype)

    def any_lane(self, mask: str | None, dtype: DataType) -> str | None:
        if mask is None:
            return None
        kind, name = f"<{dtype.lanes} x i1>", f"llvm.vector.reduce.or.v{dtype.lanes}i1"
        self.module.declare(name, f"declare i1 @{name}({kind})")
        return self.value("i1", f"call i1 @{name}({kind} {mask})")

    def or_zeros(self, cond: str, pointer: str) -> str:
        """The pointer where `cond` holds, else one to zeros: a guarded load without a branch."""
        name = "lw.zeros"
        line = f"@{name} = internal constant [128 x i8] zeroinitializer, align 64"
        if line not in self.module.globals:
            self.module.globals.append(line)
        return self.value("ptr", f"select i1 {cond}, ptr {pointer}, ptr @{name}")

    def masked(self, what: str, kind: str, at: str, mask: str, lanes: int, align: int) -> str:
        """A masked load or gather."""
        scalar = kind[kind.index("x ") + 2 : -1]
        tag = {"half": "f16", "float": "f32", "double": "f64", "bfloat": "bf16"}.get(scalar, scalar)
        pointer = "ptr" if what == "load" else f"<{lanes} x ptr>"
        suffix = "p0" if what == "load" else f"v{lanes}p0"
        name = f"llvm.masked.{what}.v{lanes}{tag}.{suffix}"
        flags = f"<{lanes} x i1>"
        line = f"declare {kind} @{name}({pointer}, i32 immarg, {flags}, {kind})"
        self.module.declare(name, line)
        args = f"{pointer} {at}, i32 {align}, {flags} {mask}, {kind} zeroinitializer"
        return self.fresh(f"call {kind} @{name}({args})")

    def addresses(self, buffer: Buffer, index: PrimExpr) -> str:
        """The addresses of a vector of indices."""
        lanes = index.dtype.lanes
        wide = DataType("int64").with_lanes(lanes)
        at = self.convert(self.expr(index), index.dtype, wide)
        memory, base = memory_type(buffer.dtype), self.var(buffer.data)
        kind = f"<{lanes} x ptr>"
        return self.value(kind, f"getelementptr {memory}, ptr {base}, <{lanes} x i64> {at}")

    def from_memory(self, raw: str, stored: DataType, dtype: DataType) -> str:
        """A loaded value as it is held in registers."""
        if memory_type(stored) == scalar_type(stored):
            return raw
        kind, held = vector_of("i8", dtype.lanes), llvm_type(dtype)
        if stored.is_bool:
            zero = "zeroinitializer" if dtype.lanes > 1 else "0"
            return self.value(held, f"icmp ne {kind} {raw}, {zero}")
        return self.value(held, f"trunc {kind} {raw} to {held}")

    def to_memory(self, value: str, dtype: DataType) -> str:
        """A value as it is stored."""
        if memory_type(dtype) == scalar_type(dtype):
            return value
        held, kind = llvm_type(dtype), vector_of("i8", dtype.lanes)
        name = "sext" if dtype.is_int else "zext"
        return self.value(kind, f"{name} {held} {value} to {kind}")

    def store_value(
        self, buffer: Buffer, indices: tuple[PrimExpr, ...], value: str, dtype: DataType, mask: Any
    ) -> None:
        """Store to a flat index, in the lanes of `mask`."""
        self.check_flat(buffer, indices)
        index = indices[-1] if indices else IntImm("int32", 0)
        lanes, align = dtype.lanes, DataType(buffer.dtype).itemsize
        kind = vector_of(memory_type(buffer.dtype), lanes)
        value = self.to_memory(value, dtype)
        if lanes == 1 or _is_dense(index):
            pointer = self.address(buffer, index.base if isinstance(index, Ramp) else index)
            if mask is None:
                self.emit(f"store {kind} {value}, ptr {pointer}, align {align}")
                return
            what, target = "store", f"ptr {pointer}"
        else:
            what, target = "scatter", f"<{lanes} x ptr> {self.addresses(buffer, index)}"
        if lanes == 1:
            then, done = f"store.{next(self.numbers)}", f"stored.{next(self.numbers)}"
            self.jump_if(mask, then, done)
            self.place(then)
            self.emit(f"store {kind} {value}, {target}, align {align}")
            self.emit(f"br label %{done}")
            self.place(done)
            return
        scalar = kind[kind.index("x ") + 2 : -1]
        tag = {"half": "f16", "float": "f32", "double": "f64", "bfloat": "bf16"}.get(scalar, scalar)
        suffix = "p0" if what == "store" else f"v{lanes}p0"
        name, flags = f"llvm.masked.{what}.v{lanes}{tag}.{suffix}", f"<{lanes} x i1>"
        pointer = target.rsplit(" ", 1)[0]
        self.module.declare(name, f"declare void @{name}({kind}, {pointer}, i32 immarg, {flags})")
        mask = mask or "splat (i1 true)"
        self.emit(f"call void @{name}({kind} {value}, {target}, i32 {align}, {flags} {mask})")

    # -- calls ---------------------------------------------------------------------------------

    def call(self, node: Call) -> str:
        if isinstance(node.op, GlobalVar):
            return self.call_function(node)
        if not isinstance(node.op, Op):
            raise LoopwrightError(explain("this cannot be called", got=str(node.op)))
        name = node.op.name.removeprefix("tir.")
        handler = _CALLS.get(name)
        if handler is not None:
            return handler(self, node)
        if name in _INTRINSICS:
            return self.intrinsic(_INTRINSICS[name], node.dtype, *map(self.expr, node.args))
        if name in _BITS:
            kind = llvm_type(node.dtype)
            a, b = map(self.expr, node.args)
            return self.value(kind, f"{_BITS[name]} {kind} {a}, {b}")
        return self.math(name, node)

    def math(self, name: str, node: Call) -> str:
        """A function of the vector math library."""
        dtype = node.dtype
        args = [self.expr(a) for a in node.args]
        if dtype.base in _HALVES:
            wide = DataType("float32").with_lanes(dtype.lanes)
            args = [self.convert(a, dtype, wide) for a in args]
            return self.convert(self.call_math(name, wide, args, node), wide, dtype)
        return self.call_math(name, dtype, args, node)

    def call_math(self, name: str, dtype: DataType, args: list[str], node: Call) -> str:
        try:
            symbol = self.module.vecmath.require(name, dtype.base, dtype.lanes)
        except (KeyError, ValueError) as err:
            what = f"the intrinsic {node.op.name} has no LLVM code for {dtype}"
            hint = "call a C function with T.call_extern"
            raise LoopwrightError(explain(what, instead=hint, span=node.span)) from err
        kind = llvm_type(dtype)
        return self.value(kind, f"call {kind} @{symbol}({', '.join(f'{kind} {a}' for a in args)})")

    def call_function(self, node: Call) -> str:
        """Another function of the program; its failure is ours."""
        name = node.op.name_hint
        args = ", ".join(f"{llvm_type(a.dtype)} {self.expr(a)}" for a in node.args)
        kinds = ", ".join(llvm_type(a.dtype) for a in node.args)
        self.module.declare(name, f"declare i32 @{name}({kinds})")
        code = self.fresh(f"call i32 @{name}({args})")
        bad, good = self.label("fail"), self.label("ok")
        self.jump_if(self.fresh(f"icmp ne i32 {code}, 0"), bad, good)
        self.place(bad)
        self.emit("ret i32 -1")
        self.place(good)
        return code

    def call_extern(self, node: Call) -> str:
        """A C function by name."""
        name, args = node.args[0].value, node.args[1:]
        return self.call_symbol(name, node.dtype, args)

    def call_symbol(self, name: str, dtype: DataType, args: Any) -> str:
        values = ", ".join(f"{llvm_type(a.dtype)} {self.expr(a)}" for a in args)
        kinds = ", ".join(llvm_type(a.dtype) for a in args)
        result = llvm_type(dtype)
        self.module.declare(name, f"declare {result} @{name}({kinds})")
        if result == "void":
            self.emit(f"call void @{name}({values})")
            return ""
        return self.fresh(f"call {result} @{name}({values})")

    def call_llvm(self, node: Call) -> str:
        """An LLVM intrinsic by its full or its overloaded name."""
        first = node.args[0]
        name, args = getattr(first, "value", None), list(node.args[1:])
        if not isinstance(name, str):
            what = "call_llvm_intrin takes the intrinsic's name"
            raise LoopwrightError(explain(what, got=str(first), instead='"llvm.fma"'))
        if args and isinstance(args[0], IntImm) and name.count(".") == 1 and len(args) > 1:
            args = args[1:] if args[0].dtype.is_uint else args
        overloaded = name.count(".") == 1 or name.rsplit(".", 1)[1][0] not in "vifp"
        full = f"{name}.{mangle(node.dtype)}" if overloaded else name
        return self.call_symbol(full, node.dtype, args)

    def if_then_else(self, node: Call) -> str:
        cond, yes, no = node.args
        if cond.dtype.lanes > 1:
            return self.masked_choice(node)
        guarded = isinstance(yes, (BufferLoad, Broadcast)) and _is_zero(no)
        load = yes.value if isinstance(yes, Broadcast) else yes
        if guarded and isinstance(load, BufferLoad) and load.predicate is None:
            if load.dtype.bits * load.dtype.lanes <= 1024 and self.plain_index(load):
                return self.guarded_load(self.expr(cond), load, yes)
        return self.branching_choice(node)

    def plain_index(self, load: BufferLoad) -> bool:
        """Whether computing the address is safe anywhere, and dense."""
        index = load.indices[-1] if load.indices else IntImm("int32", 0)
        return (load.dtype.lanes == 1 or _is_dense(index)) and not _reads_memory(index)

    def guarded_load(self, cond: str, load: BufferLoad, value: PrimExpr) -> str:
        """`if_then_else(cond, A[i], 0)`: load through a pointer chosen between A and zeros."""
        index = load.indices[-1] if load.indices else IntImm("int32", 0)
        pointer = self.address(load.buffer, index.base if isinstance(index, Ramp) else index)
        pointer = self.or_zeros(cond, pointer)
        kind = vector_of(memory_type(load.buffer.dtype), load.dtype.lanes)
        align = DataType(load.buffer.dtype).itemsize
        raw = self.fresh(f"load {kind}, ptr {pointer}, align {align}")
        found = self.from_memory(raw, load.buffer.dtype, load.dtype)
        return self.spread(found, value.dtype) if isinstance(value, Broadcast) else found

    def branching_choice(self, node: Call) -> str:
        cond, yes, no = node.args
        kind = llvm_type(node.dtype)
        labels = self.label("yes"), self.label("no"), self.label("chosen")
        self.jump_if(self.expr(cond), labels[0], labels[1])
        arms = []
        for label, value in ((labels[0], yes), (labels[1], no)):
            self.place(label)
            self.values.append({})
            arms.append((self.expr(value), self.block))
            self.values.pop()
            self.emit(f"br label %{labels[2]}")
        self.place(labels[2])
        sources = ", ".join(f"[ {v}, %{b} ]" for v, b in arms)
        return self.fresh(f"phi {kind} {sources}")

    def masked_choice(self, node: Call) -> str:
        """A choice lane by lane: each side is evaluated with its loads masked."""
        cond, yes, no = node.args
        flag = self.expr(cond)
        lanes, kind = cond.dtype.lanes, llvm_type(cond.dtype)
        inverse = self.value(kind, f"xor {kind} {flag}, splat (i1 true)")
        outer, arms = self.mask, []
        for mask, value in ((flag, yes), (inverse, no)):
            if outer is not None and outer[1] == lanes:
                mask = self.value(kind, f"and {kind} {mask}, {outer[0]}")
            self.mask = (mask, lanes)
            self.values.append({})
            arms.append(self.expr(value))
            self.values.pop()
        self.mask = outer
        return self.choose(flag, cond.dtype, arms[0], arms[1], node.dtype)

    def fma(self, node: Call) -> str:
        return self.intrinsic("fma", node.dtype, *map(self.expr, node.args))

    def first(self, node: Call) -> str:
        return self.expr(node.args[0])

    def shift_right(self, node: Call) -> str:
        kind = llvm_type(node.dtype)
        name = "ashr" if node.dtype.is_int else "lshr"
        a, b = map(self.expr, node.args)
        return self.value(kind, f"{name} {kind} {a}, {b}")

    def bitwise_not(self, node: Call) -> str:
        kind = llvm_type(node.dtype)
        ones = self.splat("true" if node.dtype.is_bool else "-1", node.dtype)
        return self.value(kind, f"xor {kind} {self.expr(node.args[0])}, {ones}")

    def is_nan(self, node: Call) -> str:
        value, kind = self.expr(node.args[0]), llvm_type(node.args[0].dtype)
        return self.value(llvm_type(node.dtype), f"fcmp uno {kind} {value}, {value}")

    def is_inf(self, node: Call) -> str:
        dtype = node.args[0].dtype
        size = self.intrinsic("fabs", dtype, self.expr(node.args[0]))
        infinity = self.splat(literal(float("inf"), dtype.element), dtype)
        return self.value(llvm_type(node.dtype), f"fcmp oeq {llvm_type(dtype)} {size}, {infinity}")

    def is_null(self, node: Call) -> str:
        return self.value("i1", f"icmp eq ptr {self.expr(node.args[0])}, null")

    def rsqrt(self, node: Call) -> str:
        root = self.intrinsic("sqrt", node.dtype, self.expr(node.args[0]))
        one = self.splat(literal(1.0, node.dtype.element), node.dtype)
        kind = llvm_type(node.dtype)
        return self.value(kind, f"fdiv {kind} {one}, {root}")

    def fmod(self, node: Call) -> str:
        kind = llvm_type(node.dtype)
        a, b = map(self.expr, node.args)
        return self.value(kind, f"frem {kind} {a}, {b}")

    def clz(self, node: Call) -> str:
        source = node.args[0].dtype
        kind, full = llvm_type(source), f"llvm.ctlz.{mangle(source)}"
        self.module.declare(full, f"declare {kind} @{full}({kind}, i1 immarg)")
        found = self.value(kind, f"call {kind} @{full}({kind} {self.expr(node.args[0])}, i1 false)")
        return self.convert(found, source, node.dtype)

    def reinterpret(self, node: Call) -> str:
        value, old = self.expr(node.args[0]), node.args[0].dtype
        a, b = llvm_type(old), llvm_type(node.dtype)
        if a == b:
            return value
        name = "ptrtoint" if a == "ptr" else "inttoptr" if b == "ptr" else "bitcast"
        return self.value(b, f"{name} {a} {value} to {b}")

    def half(self, node: Call) -> str:
        source, lanes = node.args[0].dtype, node.dtype.lanes
        start = lanes if node.op.name.endswith("high") else 0
        kind = llvm_type(source)
        places = ", ".join(f"i32 {start + k}" for k in range(lanes))
        value = self.expr(node.args[0])
        return self.value(
            llvm_type(node.dtype),
            f"shufflevector {kind} {value}, {kind} poison, <{lanes} x i32> <{places}>",
        )

    def combine(self, node: Call) -> str:
        kind, lanes = llvm_type(node.args[0].dtype), node.dtype.lanes
        a, b = map(self.expr, node.args)
        places = ", ".join(f"i32 {k}" for k in range(lanes))
        return self.value(
            llvm_type(node.dtype),
            f"shufflevector {kind} {a}, {kind} {b}, <{lanes} x i32> <{places}>",
        )

    def access_ptr(self, node: Call) -> str:
        tag, data, offset = node.args[:3]
        at = self.to_i64(self.expr(offset), offset.dtype)
        base, memory = self.expr(data), memory_type(tag.dtype.element)
        return self.value("ptr", f"getelementptr {memory}, ptr {base}, i64 {at}")

    def address_of(self, node: Call) -> str:
        load = node.args[0]
        return self.address(load.buffer, load.indices[-1])

    def byte_offset(self, node: Call) -> str:
        at = self.to_i64(self.expr(node.args[1]), node.args[1].dtype)
        return self.value("ptr", f"getelementptr i8, ptr {self.expr(node.args[0])}, i64 {at}")

    def ret(self, node: Call) -> str:
        self.emit(f"ret i32 {self.expr(node.args[0])}")
        self.place(self.label("unreachable"))
        return ""

    def nothing(self, node: Call) -> str:
        return ""


def _power_of_two(expr: PrimExpr) -> int | None:
    """k where the divisor is the literal 2**k (in every lane)."""
    if isinstance(expr, Broadcast):
        expr = expr.value
    if isinstance(expr, IntImm) and expr.value > 0 and expr.value & (expr.value - 1) == 0:
        return expr.value.bit_length() - 1
    return None


def _is_number(expr: PrimExpr) -> bool:
    """A float literal that is not NaN."""
    if isinstance(expr, Broadcast):
        expr = expr.value
    return isinstance(expr, FloatImm) and expr.value == expr.value


def _is_zero(expr: PrimExpr) -> bool:
    if isinstance(expr, Broadcast):
        expr = expr.value
    return isinstance(expr, (IntImm, FloatImm)) and expr.value == 0


def _is_dense(index: PrimExpr) -> bool:
    stride = index.stride if isinstance(index, Ramp) else None
    return isinstance(stride, IntImm) and stride.value == 1 and index.base.dtype.lanes == 1


def _reads_memory(expr: PrimExpr) -> bool:
    if isinstance(expr, (BufferLoad, Call)):
        return True
    return any(_reads_memory(c) for c in expr.children() if isinstance(c, PrimExpr))


def _conversion(old: DataType, new: DataType) -> str | None:
    """The LLVM instruction that converts; None when the register type stays."""
    if llvm_type(old) == llvm_type(new):
        return None
    if new.is_bool:
        return "nonzero"
    if old.is_float and new.is_float:
        if {old.base, new.base} == set(_HALVES):
            raise LoopwrightError(explain("cast float16 <-> bfloat16 through float32"))
        return "fpext" if new.bits > old.bits else "fptrunc"
    if old.is_float:
        return "fptosi" if new.is_int else "fptoui"
    if new.is_float:
        return "sitofp" if old.is_int else "uitofp"
    if old.is_handle or new.is_handle:
        return "ptrtoint" if old.is_handle else "inttoptr"
    if new.bits < old.bits:
        return "trunc"
    return "sext" if old.is_int else "zext"


_EXPRESSIONS: dict[type, Any] = {
    Var: ExprEmitter.var,
    pe.SizeVar: ExprEmitter.var,
    IntImm: ExprEmitter.number,
    FloatImm: ExprEmitter.number,
    pe.StringImm: ExprEmitter.string,
    **dict.fromkeys(_BINARY, ExprEmitter.binary),
    **dict.fromkeys(_COMPARE, ExprEmitter.compare),
    pe.FloorDiv: ExprEmitter.floor_divide,
    pe.FloorMod: ExprEmitter.floor_mod,
    pe.Min: ExprEmitter.extremum,
    pe.Max: ExprEmitter.extremum,
    pe.And: ExprEmitter.logical,
    pe.Or: ExprEmitter.logical,
    pe.Not: ExprEmitter.invert,
    pe.Select: ExprEmitter.select,
    pe.Let: ExprEmitter.let,
    pe.Cast: ExprEmitter.cast,
    Broadcast: ExprEmitter.broadcast,
    Ramp: ExprEmitter.ramp,
    pe.Shuffle: ExprEmitter.shuffle,
    BufferLoad: ExprEmitter.load,
    Call: ExprEmitter.call,
}
_CALLS: dict[str, Any] = {
    "if_then_else": ExprEmitter.if_then_else,
    "likely": ExprEmitter.first,
    "fma": ExprEmitter.fma,
    "shift_right": ExprEmitter.shift_right,
    "bitwise_not": ExprEmitter.bitwise_not,
    "isnan": ExprEmitter.is_nan,
    "isinf": ExprEmitter.is_inf,
    "isnullptr": ExprEmitter.is_null,
    "rsqrt": ExprEmitter.rsqrt,
    "fmod": ExprEmitter.fmod,
    "clz": ExprEmitter.clz,
    "reinterpret": ExprEmitter.reinterpret,
    "vectorlow": ExprEmitter.half,
    "vectorhigh": ExprEmitter.half,
    "vectorcombine": ExprEmitter.combine,
    "call_extern": ExprEmitter.call_extern,
    "call_pure_extern": ExprEmitter.call_extern,
    "call_llvm_intrin": ExprEmitter.call_llvm,
    "call_llvm_pure_intrin": ExprEmitter.call_llvm,
    "tvm_access_ptr": ExprEmitter.access_ptr,
    "address_of": ExprEmitter.address_of,
    "handle_add_byte_offset": ExprEmitter.byte_offset,
    "ret": ExprEmitter.ret,
    "assume": ExprEmitter.nothing,
}
