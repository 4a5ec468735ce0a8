"""Shared by the rules of `LowerScalarOps`: the rewriting of one operation, and builders."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from ....base.errors import LoopwrightError, explain, suggest
from ....ir import prim_expr as pe
from ....ir.dtype import DataType, numpy_dtype
from ....ir.op import Op
from ....ir.prim_op import const

BOOL, U32, F32, I32, I64 = (DataType(t) for t in ("bool", "uint32", "float32", "int32", "int64"))
CONVERTED = "converted"  # the rule of a conversion that no machine has
_OF_OPERAND = ("tir.isnan", "tir.isinf", "tir.popcount", "tir.clz")
_FLAGS: dict[Any, Any] = {pe.Add: pe.Or, pe.Sub: pe.NE, pe.Mul: pe.And}
_FLAGS |= {"tir.bitwise_or": pe.Or, "tir.bitwise_xor": pe.NE, "tir.bitwise_and": pe.And}
_FLOAT = re.compile(r"b?float16|float32|float64|float[468]_\w+")
_KIND = re.compile(rf"{_FLOAT.pattern}|float8|bool|u?int(8|16|32|64)?")
Rule = Callable[["Scalars", Any], pe.PrimExpr]


class Scalars:
    """Rewrites one operation whose operands are already rewritten.

    A rule builds its result bottom-up; operations in it that not every emitter has are rewritten
    here as well.
    """

    table: ClassVar[Mapping[Any, Rule | None]]

    def __init__(self, native: frozenset[str]) -> None:
        self.native = native
        self.index = False
        self.lets: list[tuple[pe.Var, pe.PrimExpr]] = []
        self.rules: dict[Any, Rule | None] = {}

    def __call__(self, node: pe.PrimExpr) -> pe.PrimExpr:
        kind = operation(node)
        if kind not in self.table:
            return node
        dtype = operand_type(node)
        key = (kind, dtype.base)
        if key not in self.rules:
            self.rules[key] = self.rule(kind, dtype)
        rule = self.rules[key]
        return node if rule is None else self.apply(rule, node)

    def rule(self, kind: str | type[pe.PrimExpr], dtype: DataType) -> Rule | None:
        """The rule for an operation on a type; None if it is kept."""
        rule = self.table[kind]
        if kind is pe.Cast:
            return rule
        self.need(dtype)
        if self.has(name_of(kind), kind_of(dtype)) or (rule is on_flags and not dtype.is_bool):
            rule = None
        if not dtype.is_float or dtype.base in self.native:
            return rule
        half = dtype.base == "float16" and kind is pe.FloorDiv  # the quotient is rounded as well
        return rule if half or kind == "tir.nextafter" else in_float32

    def need(self, dtype: DataType) -> None:
        """Raise LoopwrightError for a type that is computed with but has no rule."""
        if dtype.base in ("float32", "float64") and dtype.base not in self.native:
            what = f"the program computes with {dtype.base}, which the emitter does not have"
            got = f"native={sorted(self.native)}"
            raise LoopwrightError(explain(what, got=got, instead=f'add "{dtype.base}" to native'))

    def has(self, name: str, kind: str) -> bool:
        """Whether the emitter has an operation on a type."""
        return name in self.native or f"{name}:{kind}" in self.native

    def apply(self, rule: Rule, node: pe.PrimExpr) -> pe.PrimExpr:
        """The result of a rule, inside the let bindings of its named values."""
        outer, self.lets = self.lets, []
        result = rule(self, node)
        for var, value in reversed(self.lets):
            result = pe.Let._make(var, value, result)
        self.lets = outer
        return result.with_span(node.span)

    def named(self, value: pe.PrimExpr, hint: str) -> pe.PrimExpr:
        """A let variable for a value used several times."""
        part = value.value if isinstance(value, pe.Broadcast) else value
        if isinstance(part, (pe.Var, pe.IntImm, pe.FloatImm)):
            return value
        var = pe.Var(hint, value.dtype)
        self.lets.append((var, value))
        return var

    def meaning(self, node: pe.PrimExpr) -> tuple[list[pe.Var], pe.PrimExpr]:
        """An operation as a function, for an emitter that prints it as one: its parameters and
        its value, with native divisions, shifts and this conversion."""
        kind, values = operation(node), operands_of(node)
        params = [pe.Var("abcdefgh"[k], v.dtype) for k, v in enumerate(values)]
        if isinstance(node, pe.Call):
            inner: pe.PrimExpr = pe.Call._make(node.dtype, node.op, tuple(params))
        else:
            inner = pe.Cast._make(node.dtype, *params) if kind is pe.Cast else kind._make(*params)
        rule = self.table[CONVERTED if kind is pe.Cast else kind]
        return params, inner if rule is None else self.apply(rule, inner)


def check_native(native: frozenset[str], table: Mapping[Any, Any]) -> None:
    """Raise ValueError for a name in `native` that no rule uses."""
    names = [name_of(kind) for kind in table if kind != CONVERTED]
    for name in native:
        head, *kinds = name.split(":")
        unknown = [kind for kind in kinds if not _KIND.fullmatch(kind)]
        if unknown or not (head in names or _FLOAT.fullmatch(name)):
            hint = suggest(head, [*names, "float16", "float32", "float64", "bfloat16"])
            hint = f"{hint} A type may follow: Min:int" if head in names else hint
            raise ValueError(
                explain("no operation that an emitter may have", got=name, instead=hint)
            )


def operation(node: pe.PrimExpr) -> Any:
    """The key of an operation: the class of a node, or the name of its callee."""
    kind = type(node)
    return getattr(node.op, "name", "") if kind is pe.Call else kind


def name_of(kind: str | type[pe.PrimExpr]) -> str:
    return kind.removeprefix("tir.") if isinstance(kind, str) else kind.__name__


def operands_of(node: pe.PrimExpr) -> list[pe.PrimExpr]:
    if isinstance(node, pe.Call):
        return list(node.args)
    return [node.value] if isinstance(node, pe.Cast) else [node.a, node.b]


def operand_type(node: pe.PrimExpr) -> DataType:
    """The type of an operation's operands."""
    if type(node) is pe.Call:
        return node.args[0].dtype if node.op.name in _OF_OPERAND else node.dtype
    return node.a.dtype if type(node) in pe.CmpExpr.__kinds__ else node.dtype


def kind_of(dtype: DataType) -> str:
    """The class of types that an operation treats in the same manner."""
    if dtype.is_float:
        return dtype.base if dtype.bits > 8 else "float8"
    return "bool" if dtype.is_bool else "int" if dtype.is_int else "uint"


def call(name: str, dtype: DataType, *args: pe.PrimExpr) -> pe.PrimExpr:
    return pe.Call._make(dtype, Op.get(f"tir.{name}"), args)


def like(dtype: DataType, value: pe.PrimExpr) -> DataType:
    """A type with the number of lanes of a value."""
    return dtype.with_lanes(value.dtype.lanes)


def bits_as(value: pe.PrimExpr, dtype: DataType) -> pe.PrimExpr:
    """A value's bits reinterpreted as another type."""
    dtype = like(dtype, value)
    if isinstance(value, pe.Let):
        return pe.Let._make(value.var, value.value, bits_as(value.body, dtype))
    if isinstance(value, pe.Call) and operation(value) == "tir.reinterpret":
        value = value.args[0]
    return value if value.dtype == dtype else call("reinterpret", dtype, value)


def number_of(node: pe.PrimExpr) -> Any:
    """The value of a literal, equal in all lanes; None for other nodes."""
    part = node.value if isinstance(node, pe.Broadcast) else node
    return part.value if isinstance(part, (pe.IntImm, pe.FloatImm)) else None


def shifted(value: pe.PrimExpr, by: int) -> pe.PrimExpr:
    """value >> by, or value << -by."""
    name = "shift_right" if by > 0 else "shift_left"
    return call(name, value.dtype, value, const(abs(by), value.dtype))


def in_float32(ops: Scalars, node: pe.PrimExpr) -> pe.PrimExpr:
    """Widens operands that the emitter does not compute with, and rounds the result."""
    base = operand_type(node).base

    def wide(value: pe.PrimExpr) -> pe.PrimExpr:
        return ops(pe.Cast._make(like(F32, value), value)) if value.dtype.base == base else value

    dtype = like(F32, node) if node.dtype.base == base else node.dtype
    values = [wide(v) for v in operands_of(node)]
    if isinstance(node, pe.Call):
        result: pe.PrimExpr = pe.Call._make(dtype, node.op, tuple(values))
    else:
        result = type(node)._make(*values)
    result = ops(result)
    return result if dtype is node.dtype else ops(pe.Cast._make(node.dtype, result))


def on_flags(ops: Scalars, node: pe.PrimExpr) -> pe.PrimExpr:
    """Arithmetic on bool."""
    return _FLAGS[operation(node)]._make(*operands_of(node))


def code_of(value: float, dtype: DataType) -> int:
    """The bits of a float."""
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.asarray(value, np.float64).astype(numpy_dtype(dtype.element))
    return int(array.view(f"u{array.itemsize}"))


ON_FLAGS: dict[Any, Rule | None] = dict.fromkeys(_FLAGS, on_flags)
