"""Translation of expressions to Python source.

A scalar is a Python bool, int or float; a vector is a numpy array. Signed 32 and 64 bit index
arithmetic is assumed not to overflow; integers computed from data are wrapped to their type before
any operation except +, -, *. Chains of +, -, * and / on floats are computed in double
precision, as `contraction` allows; what uses their value rounds it first (types below 32 bits: after
each operation), so that a comparison, a floor or the domain of a function decides as in compiled
code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...arith import Analyzer
from ...base.errors import LoopwrightError, explain
from ...ir import prim_expr as pe
from ...ir.dtype import DataType, numpy_dtype
from ...ir.prim_expr import Call, FloatImm, IntImm, PrimExpr, Var
from ...ir.structural import structural_equal
from ..buffer import Buffer
from ..contraction import stays
from ..expr import BufferLoad
from . import meaning

if TYPE_CHECKING:
    from ...base.span import Span

NEVER = 1 << 30  # the depth of expressions that must not be hoisted
DEEPEST = 24  # operations in each other; one writes up to four pairs of parentheses

INFIX = {
    pe.Add: "+",
    pe.Sub: "-",
    pe.Mul: "*",
    pe.FloorDiv: "//",
    pe.FloorMod: "%",
    pe.EQ: "==",
    pe.NE: "!=",
    pe.LT: "<",
    pe.LE: "<=",
    pe.GT: ">",
    pe.GE: ">=",
}


class ViewInfo:
    """The strides and offset of a buffer's memory, if they differ from the buffer's own, as source
    text with the depth at which they are known."""

    __slots__ = ("offset", "strides")

    def __init__(self, strides: list[tuple[str, int]], offset: tuple[str, int] | None) -> None:
        self.strides = strides
        self.offset = offset


class ExprTranslator:
    """Translates expressions to source text; `names` maps the names in it to objects."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.count = 0
        self.depth = 0
        self.hoists: list[tuple[list[Any], str, dict[str, str]]] = []
        self.vars: dict[Var, tuple[str, int]] = {}
        self.ranges: dict[Var, tuple[PrimExpr, PrimExpr]] = {}
        self.pointers: dict[Var, tuple[str, list[Any], str]] = {}
        self.views: dict[Buffer, ViewInfo] = {}
        self.opened: dict[tuple[Buffer, str], str] = {}
        self.analyzer = Analyzer()
        self.mask: str | None = None
        self.height = 0  # of the texts of the value so far, in operations
        self.early: list[str] | None = (
            None  # deep parts that are computed before the value around them
        )

    # -- names ---------------------------------------------------------------------------------

    def fresh(self, stem: str) -> str:
        """A new Python name."""
        self.count += 1
        return f"{re.sub(r'[^A-Za-z0-9_]', '_', stem) or 'x'}_{self.count}"

    def use(self, stem: str, value: Any) -> str:
        """A name for a Python object."""
        for name, bound in self.names.items():
            if bound is value:
                return name
        name = "_" + re.sub(r"[^A-Za-z0-9_]", "_", stem)
        if name in self.names:
            name = self.fresh(name)
        self.names[name] = value
        return name

    def helper(self, fn: Callable[..., Any]) -> str:
        """A name for a function of `meaning`."""
        return self.use(fn.__name__, fn)

    def hoisted(self, text: str, depth: int) -> str:
        """A name for `text`, computed outside the loops that it does not depend on."""
        if text.isalnum() or text.isidentifier():
            return text
        lines, indent, hoisted = self.hoists[depth]
        name = hoisted.get(text)
        if name is None:
            name = hoisted[text] = self.fresh("h")
            lines.append(f"{indent}{name} = {text}")
        return name

    def depth_of(self, expr: PrimExpr) -> int:
        """The depth of the outermost loop body in which `expr` can be computed."""
        depth = 0
        while isinstance(expr, (pe.Add, pe.Sub, pe.Mul)) and depth != NEVER:
            depth, expr = max(depth, self.depth_of(expr.b)), expr.a
        return depth if depth == NEVER else max(depth, self.depth_of_term(expr))

    def depth_of_term(self, expr: PrimExpr) -> int:
        if isinstance(expr, Var):
            depth = self.vars.get(expr)
            return NEVER if depth is None else depth[1]
        if isinstance(expr, (IntImm, FloatImm)):
            return 0
        if isinstance(expr, (pe.FloorDiv, pe.FloorMod, pe.Div, pe.Mod)):
            return self.depth_of(expr.a) if isinstance(expr.b, IntImm) else NEVER
        if isinstance(expr, pe.BinaryOpExpr):
            return max(self.depth_of(expr.a), self.depth_of(expr.b))
        if isinstance(expr, pe.Cast) and expr.dtype.is_int:
            return self.depth_of(expr.value)
        return NEVER

    # -- scalars -------------------------------------------------------------------------------

    def scalar(self, expr: PrimExpr) -> str:
        """The source text of a scalar value."""
        text, loose = self.raw(expr)
        return self.wrap(text, expr.dtype) if loose else text

    def exact(self, expr: PrimExpr) -> str:
        """The source text of a scalar value, after a chain of float32 rounded to its type."""
        text = self.scalar(expr)
        rounded = isinstance(expr, (Var, FloatImm, BufferLoad, pe.Cast))
        return (
            text
            if rounded or expr.dtype != "float32"
            else self.rounded(text, expr.dtype, expr.dtype)
        )

    def wrap(self, text: str, dtype: DataType) -> str:
        mask, half = (1 << dtype.bits) - 1, 1 << (dtype.bits - 1)
        if dtype.is_bool:
            return f"bool({text})"
        if dtype.is_int:
            return f"(({text} + {half} & {mask}) - {half})"
        return f"({text} & {mask})"

    def raw(self, expr: PrimExpr) -> tuple[str, bool]:
        """(text, whether an integer may be outside its type's range)"""
        rule = _RULES.get(type(expr))
        if rule is None:
            what = "the interpreter cannot evaluate this"
            raise LoopwrightError(explain(what, got=type(expr).__name__, span=expr.span))
        if self.early is None:
            return self.in_steps(expr)
        before, self.height = self.height, 0
        text, loose = rule(self, expr)
        if self.height >= DEEPEST and expr.dtype.is_float:
            name = self.fresh("t")
            self.early.append(f"({name} := {text})")
            text, self.height = name, 0
        self.height = max(before, self.height + 1)
        return text, loose

    def in_steps(self, expr: PrimExpr) -> tuple[str, bool]:
        """As `raw`, after the deep parts of the value: Python reads 200 parentheses in each other at most.
        For values that are computed as a whole or not at all."""
        outer, self.early = self.early, []
        text, loose = self.raw(expr)
        if self.early:
            text = f"({', '.join([*self.early, text])})[-1]"
        self.early = outer
        return text, loose

    def var(self, node: Var) -> tuple[str, bool]:
        text = self.vars.get(node)
        if text is not None:
            return text[0], False
        pointer = self.pointers.get(node)
        if pointer is not None:
            return pointer[0], False
        what = f"variable {node.name} is used before it is defined"
        raise ValueError(explain(what, got=str(node.dtype), span=node.span))

    def int_imm(self, node: IntImm) -> tuple[str, bool]:
        if node.dtype.is_bool:
            return ("True" if node.value else "False"), False
        return (str(node.value) if node.value >= 0 else f"({node.value})"), False

    def float_imm(self, node: FloatImm) -> tuple[str, bool]:
        value = self.rounded_literal(node)
        if math.isfinite(value):
            return (repr(value) if math.copysign(1.0, value) > 0 else f"({value!r})"), False
        if math.isnan(value):
            return self.use("nan", math.nan), False
        return self.use("inf", math.inf) if value > 0 else f"(-{self.use('inf', math.inf)})", False

    def rounded_literal(self, node: FloatImm) -> float:
        if node.dtype.bits == 64:
            return node.value
        if node.dtype.base == "float32":
            return meaning.round32(node.value)
        return meaning.rounder(node.dtype)(node.value)

    def string_imm(self, node: pe.StringImm) -> tuple[str, bool]:
        return repr(str(node.value)), False

    def low_precision(self, text: str, dtype: DataType) -> str:
        if dtype.is_float and dtype.bits < 32:
            return f"{self.round_fn(dtype)}({text})"
        return text

    def round_fn(self, dtype: DataType) -> str:
        key = f"_round_{dtype.base}"
        if key not in self.names:
            self.names[key] = meaning.rounder(dtype)
        return key

    def arithmetic(self, node: pe.BinaryOpExpr) -> tuple[str, bool]:
        kind = node.dtype
        family = (pe.Mul,) if isinstance(node, pe.Mul) else (pe.Add, pe.Sub)
        chain: list[Any] = [node]  # a + b - c + ..., without recursion: it may be long
        while type(chain[-1].a) in family:
            chain.append(chain[-1].a)
        text, loose = self.raw(chain[-1].a)
        small = kind.is_float and kind.bits < 32
        for part in reversed(chain):
            other, also = self.raw(part.b)
            text, loose = f"{text} {INFIX[type(part)]} {other}", loose or also
            if small or (kind.is_float and stays(part)):
                text = self.rounded(text, kind, kind)
        if kind.is_float:
            return f"({text})", False
        if kind.is_int and kind.bits >= 32:
            return f"({text})", loose or not self.is_index(node)
        return f"({text})", True

    def is_index(self, node: PrimExpr) -> bool:
        """Whether an integer depends on loop variables, shapes and literals only."""
        return self.depth_of(node) != NEVER

    def floor(self, node: pe.BinaryOpExpr) -> tuple[str, bool]:
        a, b = self.exact(node.a), self.exact(node.b)
        quotient = type(node) is pe.FloorDiv
        if node.dtype.is_float:
            fn = self.helper(meaning.divide if quotient else meaning.real_floor_mod)
            text = f"{fn}({a}, {b})"
            if quotient:  # small floats are divided as float32
                near = DataType("float32") if is_small(node.dtype) else node.dtype
                text = self.library("floor", self.rounded(text, near, near))
            return self.rounded(text, node.dtype, node.dtype), False
        if int_of(node.b):
            text = f"({a} {INFIX[type(node)]} {b})"
        else:
            fn = meaning.floor_div if quotient else meaning.floor_mod
            text = f"{self.helper(fn)}({a}, {b})"
        # Only the least value divided by -1 wraps around; indices do not reach it.
        return text, type(node) is pe.FloorDiv and node.dtype.is_int and not self.is_index(node)

    def div(self, node: pe.Div) -> tuple[str, bool]:
        a, b = self.scalar(node.a), self.scalar(node.b)
        if node.dtype.is_float:
            if isinstance(node.b, FloatImm) and node.b.value:
                return self.low_precision(f"({a} / {b})", node.dtype), False
            t = self.fresh("t")
            slow = f"{self.helper(meaning.divide)}({a}, {t})"
            return self.low_precision(f"({a} / {t} if ({t} := {b}) else {slow})", node.dtype), False
        if node.dtype.is_uint or node.dtype.is_bool:
            return f"{self.helper(meaning.floor_div)}({a}, {b})", False
        return f"{self.helper(meaning.trunc_div)}({a}, {b})", True

    def mod(self, node: pe.Mod) -> tuple[str, bool]:
        a, b = self.exact(node.a), self.exact(node.b)
        if node.dtype.is_float:
            return self.low_precision(self.library("fmod", a, b), node.dtype), False
        return f"{self.helper(meaning.trunc_mod)}({a}, {b})", False

    def extreme(self, node: pe.BinaryOpExpr) -> tuple[str, bool]:
        """Min and max; of floats, NaN wins. If both are equal (zeros) the result is the first."""
        sign = "<" if isinstance(node, pe.Min) else ">"
        parts, names = [], []
        first, second = node.a, node.b
        if isinstance(first, FloatImm) and first.value == first.value:
            first, second = second, first  # as in compiled code: saves a NaN test
        for side in (second, first):
            text = self.scalar(side)
            if text.isidentifier() or text.isdigit():
                parts.append(text)
                names.append(text)
            else:
                names.append(self.fresh("t"))
                parts.append(f"({names[-1]} := {text})")
        test = f"{parts[0]} {sign} {parts[1]}"
        nan = f" or {names[0]} != {names[0]}" if node.dtype.is_float else ""
        return f"({names[0]} if {test}{nan} else {names[1]})", False

    def compare(self, node: pe.CmpExpr) -> tuple[str, bool]:
        if node.a.dtype.is_handle:
            where = (f"{self.helper(meaning.address)}({self.value(x)})" for x in (node.a, node.b))
            return f" {INFIX[type(node)]} ".join(where).join("()"), False
        return f"({self.exact(node.a)} {INFIX[type(node)]} {self.exact(node.b)})", False

    def both(self, node: pe.BinaryOpExpr) -> tuple[str, bool]:
        word = "and" if isinstance(node, pe.And) else "or"
        right, loose = self.in_steps(node.b)
        right = self.wrap(right, node.b.dtype) if loose else right
        return f"({self.scalar(node.a)} {word} {right})", False

    def negation(self, node: pe.Not) -> tuple[str, bool]:
        return f"(not {self.scalar(node.a)})", False

    def choice(self, cond: PrimExpr, yes: PrimExpr, no: PrimExpr) -> tuple[str, bool]:
        t, loose_t = self.in_steps(yes)
        f, loose_f = self.in_steps(no)
        return f"({t} if {self.scalar(cond)} else {f})", loose_t or loose_f

    def select(self, node: pe.Select) -> tuple[str, bool]:
        return self.choice(node.condition, node.true_value, node.false_value)

    def let(self, node: pe.Let) -> tuple[str, bool]:
        name = self.fresh(node.var.name)
        value = self.value(node.value)
        self.vars[node.var] = (name, NEVER)
        if node.dtype.lanes == 1:
            body, loose = self.in_steps(node.body)
        else:
            outer, self.early = self.early, None
            body, loose = self.value(node.body), False
            self.early = outer
        return f"(({name} := {value}), {body})[1]", loose

    def cast(self, node: pe.Cast) -> tuple[str, bool]:
        return self.cast_text(node.value, node.value.dtype, node.dtype)

    def cast_text(self, value: PrimExpr, old: DataType, new: DataType) -> tuple[str, bool]:
        if new.is_handle or old.is_handle:
            return self.scalar(value), False
        if new.is_bool:
            return f"({self.exact(value)} != 0)", False
        if new.is_float:
            text = self.exact(value)
            if old.is_float and old.bits <= new.bits and old.code == new.code:
                return text, False
            return self.rounded(text, old, new), False
        if old.is_float:
            convert = meaning.float_to_int(new.bits, new.is_int)
            key = f"_to_{new}"
            self.names.setdefault(key, convert)
            return f"{key}({self.exact(value)})", False
        if old.is_bool:
            return f"int({self.scalar(value)})", False
        text, loose = self.raw(value)
        fits = new.is_int and (new.bits > old.bits or (old.is_int and new.bits == old.bits))
        fits = fits or (new.is_uint and old.is_uint and new.bits >= old.bits)
        if fits:  # wrap to the old type first: widening extends the sign
            return (self.wrap(text, old) if loose else text), False
        if new.is_int and new.bits >= 32 and not loose and self.is_index(value):
            return text, False
        return text, True

    def rounded(self, text: str, old: DataType, new: DataType) -> str:
        if new.bits == 64:
            return f"float({text})"
        if new.base == "float32":
            small = old.is_integer and old.bits <= 16
            return f"float({text})" if small else f"{self.helper(meaning.round32)}({text})"
        return f"{self.round_fn(new)}({text})"

    # -- memory --------------------------------------------------------------------------------

    def view(self, buffer: Buffer, kind: str) -> str:
        """A name for the memory of a buffer: kind "b" for scalar access, "n" for a numpy array."""
        name = self.opened.get((buffer, kind))
        if name is not None:
            return name
        pointer = self.pointers.get(buffer.data)
        if pointer is None:
            what = f"buffer {buffer.name} is used outside the scope of its memory"
            hint = "allocate or declare the buffer around its use"
            raise ValueError(explain(what, got=buffer.data.name, instead=hint))
        base, lines, indent = pointer
        if kind == "n":
            name = self.fresh(f"n_{buffer.name}")
            text = f"{self.helper(meaning.view_bytes)}({base}, {str(buffer.dtype.element)!r})"
        else:
            array = self.view(buffer, "n")
            name = self.fresh(buffer.name)
            text = f"{self.helper(meaning.scalar_view)}({array})"
        lines.append(f"{indent}{name} = {text}")
        self.opened[buffer, kind] = name
        return name

    def layout(self, buffer: Buffer) -> tuple[list[tuple[str, int]], tuple[str, int] | None]:
        """(strides, offset) of a buffer, each as text and depth."""
        info = self.views.get(buffer)
        if info is not None:
            return info.strides, info.offset
        offset = None
        if buffer.elem_offset is not None and int_of(buffer.elem_offset) != 0:
            offset = (self.scalar(buffer.elem_offset), self.depth_of(buffer.elem_offset))
        if buffer.strides:
            return [(self.scalar(s), self.depth_of(s)) for s in buffer.strides], offset
        strides: list[tuple[str, int]] = []
        size, text, depth = 1, "", 0
        for extent in reversed(buffer.shape):
            strides.append((_product(text, size), depth))
            if isinstance(extent, IntImm):
                size *= extent.value
            else:
                dim = self.scalar(extent)
                text = f"{text} * {dim}" if text else dim
                depth = max(depth, self.depth_of(extent))
        return strides[::-1], offset

    def inside(self, index: PrimExpr, extent: PrimExpr) -> bool:
        """Whether an index is known to be in [0, extent)."""
        if isinstance(index, IntImm) and isinstance(extent, IntImm):
            return 0 <= index.value < extent.value
        if isinstance(index, Var) and index in self.ranges:
            low, size = self.ranges[index]
            if isinstance(low, IntImm) and low.value >= 0:
                if isinstance(size, IntImm) and isinstance(extent, IntImm):
                    return low.value + size.value <= extent.value
                if low.value == 0 and structural_equal(size, extent):
                    return True
        if not self.is_index(index) or not self.is_index(extent):
            return False
        prove = self.analyzer.can_prove
        return bool(prove(index >= 0) and prove(index < extent))

    def flat(
        self,
        buffer: Buffer,
        indices: Sequence[PrimExpr],
        span: Span | None,
        mask: str | None = None,
    ) -> str:
        """The flat element index of an access as text, with the necessary bounds checks."""
        strides, offset = self.layout(buffer)
        parts: list[tuple[int, str]] = [] if offset is None else [(offset[1], offset[0])]
        for axis, (index, stride) in enumerate(zip(indices, strides, strict=True)):
            text = self.checked_index(buffer, axis, index, span, mask)
            if text == "0":
                continue
            at = self.depth_of(index) if index.dtype.lanes == 1 else NEVER
            if text.startswith("(_i"):  # bounds checks are not hoisted
                at = NEVER
            if stride[0] != "1":
                text = f"{text} * {stride[0]}"
            parts.append((max(at, stride[1]), text))
        if not parts:
            return "0"
        return self.summed(sorted(parts, key=lambda part: part[0]))

    def summed(self, parts: list[tuple[int, str]]) -> str:
        """The sum of the parts, each computed outside the loops that it does not depend on."""
        total, at = parts[0][1], parts[0][0]
        for depth, text in parts[1:]:
            if depth > at and at < self.depth:
                total = self.hoisted(total, at)
            total, at = f"{total} + {text}", depth
        return self.hoisted(total, at) if at < self.depth else total

    def checked_index(
        self, buffer: Buffer, axis: int, index: PrimExpr, span: Span | None, mask: str | None
    ) -> str:
        extent = buffer.shape[axis]
        where = repr("" if span is None else str(span))
        label = f"{buffer.name!r}, {axis}"
        if index.dtype.lanes > 1:
            text, size = self.value(index), self.scalar(extent)
            if isinstance(index, pe.Ramp) and index.base.dtype.lanes == 1:
                last = index.base + index.stride * (index.lanes - 1)
                if self.inside(index.base, extent) and self.inside(last, extent):
                    return text
            if mask is not None:
                check = self.helper(meaning.checked_masked)
                return f"{check}({text}, {mask}, {size}, {label}, {where})"
            return f"{self.helper(meaning.checked)}({text}, {size}, {label}, {where})"
        text = self.scalar(index)
        if self.inside(index, extent):
            return text
        size = self.scalar(extent)
        name = self.fresh("_i")
        bad = f"{self.helper(meaning.out_of_bounds)}({label}, {name}, {size}, {where})"
        return f"({name} if 0 <= ({name} := {text}) < {size} else {bad})"

    def load(self, node: BufferLoad) -> tuple[str, bool]:
        buffer = node.buffer
        at = self.flat(buffer, node.indices, node.span)
        name = self.view(buffer, "b")
        text = f"{name}[{at}]"
        if self.needs_float(buffer.dtype):
            text = f"float({text})"
        return text, False

    def needs_float(self, dtype: DataType) -> bool:
        return dtype.is_float and dtype.base not in ("float32", "float64")

    # -- vectors and calls: in subclasses -----------------------------------------------------

    def value(self, expr: PrimExpr) -> str:
        """The source text of a scalar or vector value."""
        return self.exact(expr) if expr.dtype.lanes == 1 else self.vector(expr)

    def kind(self, dtype: DataType) -> str:
        """A name for a numpy dtype."""
        key = f"_dtype_{dtype.base}"
        self.names.setdefault(key, numpy_dtype(dtype.element))
        return key

    def vector(self, expr: PrimExpr) -> str:
        """The source text of a vector expression, a numpy array."""
        raise NotImplementedError

    def shuffle(self, node: pe.Shuffle) -> str:
        """The source text of a shuffle."""
        raise NotImplementedError

    def shuffle_scalar(self, node: pe.Shuffle) -> tuple[str, bool]:
        return f"{self.shuffle(node)}[0].item()", False

    def call(self, node: Call) -> tuple[str, bool]:
        """The source text of a call's value."""
        raise NotImplementedError


def is_small(dtype: DataType) -> bool:
    """Whether a float is computed in float32: bfloat16 and types of at most 8 bits."""
    return dtype.is_float and dtype.base not in ("float16", "float32", "float64")


def int_of(expr: PrimExpr) -> int | None:
    """The value of a literal."""
    return expr.value if isinstance(expr, IntImm) else None


def _product(text: str, size: int) -> str:
    if not text:
        return str(size)
    return f"({text})" if size == 1 else f"({text} * {size})"


_T = ExprTranslator
_RULES: dict[type, Callable[[ExprTranslator, Any], tuple[str, bool]]] = {
    Var: _T.var,
    pe.SizeVar: _T.var,
    IntImm: _T.int_imm,
    FloatImm: _T.float_imm,
    pe.StringImm: _T.string_imm,
    pe.Add: _T.arithmetic,
    pe.Sub: _T.arithmetic,
    pe.Mul: _T.arithmetic,
    pe.Div: _T.div,
    pe.Mod: _T.mod,
    pe.FloorDiv: _T.floor,
    pe.FloorMod: _T.floor,
    pe.Min: _T.extreme,
    pe.Max: _T.extreme,
    **dict.fromkeys((pe.EQ, pe.NE, pe.LT, pe.LE, pe.GT, pe.GE), _T.compare),
    pe.And: _T.both,
    pe.Or: _T.both,
    pe.Not: _T.negation,
    pe.Select: _T.select,
    pe.Cast: _T.cast,
    pe.Let: lambda self, node: self.let(node),
    pe.Shuffle: _T.shuffle_scalar,
    BufferLoad: _T.load,
    Call: lambda self, node: self.call(node),
}
