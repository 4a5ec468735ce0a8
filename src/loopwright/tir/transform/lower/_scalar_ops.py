"""What the rules of `LowerScalarOps` share: the rewriting of one operation, and builders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from ....ir.dtype import DataType, numpy_dtype
from ....ir.op import Op
from ....ir.prim_expr import (
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    CmpExpr,
    FloatImm,
    FloorDiv,
    IntImm,
    Let,
    Mul,
    Or,
    PrimExpr,
    Sub,
    Var,
)
from ....ir.prim_op import const

BOOL, U32, F32, I32, I64 = (DataType(t) for t in ("bool", "uint32", "float32", "int32", "int64"))
CONVERTED = "converted"  # the rule of a conversion that no machine has
_OF_OPERAND = ("tir.isnan", "tir.isinf", "tir.popcount", "tir.clz")
_FLAGS: dict[Any, Any] = {Add: Or, Sub: NE, Mul: And}
_FLAGS |= {"tir.bitwise_or": Or, "tir.bitwise_xor": NE, "tir.bitwise_and": And}
Rule = Callable[["Scalars", Any], PrimExpr]


class Scalars:
    """Rewrites one operation whose operands are rewritten already.

    A rule builds what it stands for from the bottom up; those operations in it that not every
    emitter has go through here as well.
    """

    table: ClassVar[Mapping[Any, Rule | None]]

    def __init__(self, native: frozenset[str]) -> None:
        self.native = native
        self.index = False
        self.lets: list[tuple[Var, PrimExpr]] = []
        self.rules: dict[Any, Rule | None] = {}

    def __call__(self, node: PrimExpr) -> PrimExpr:
        kind = operation(node)
        if kind not in self.table:
            return node
        dtype = operand_type(node)
        key = (kind, dtype.base)
        if key not in self.rules:
            self.rules[key] = self.rule(kind, dtype)
        rule = self.rules[key]
        return node if rule is None else self.apply(rule, node)

    def rule(self, kind: Any, dtype: DataType) -> Rule | None:
        """What rewrites an operation on a type; None where it stays."""
        rule = self.table[kind]
        if kind is Cast:
            return rule
        if self.has(name_of(kind), kind_of(dtype)) or (rule is on_flags and not dtype.is_bool):
            rule = None
        if not dtype.is_float or dtype.base in self.native:
            return rule
        half = dtype.base == "float16" and kind is FloorDiv  # the quotient is rounded, too
        return rule if half or kind == "tir.nextafter" else in_float32

    def has(self, name: str, kind: str) -> bool:
        """Whether the emitter has an operation, on a type."""
        return name in self.native or f"{name}:{kind}" in self.native

    def apply(self, rule: Rule, node: PrimExpr) -> PrimExpr:
        """What a rule makes of an operation, below the values that it names."""
        outer, self.lets = self.lets, []
        result = rule(self, node)
        for var, value in reversed(self.lets):
            result = Let._make(var, value, result)
        self.lets = outer
        return result.with_span(node.span)

    def named(self, value: PrimExpr, hint: str) -> PrimExpr:
        """A value that is used several times."""
        part = value.value if isinstance(value, Broadcast) else value
        if isinstance(part, (Var, IntImm, FloatImm)):
            return value
        var = Var(hint, value.dtype)
        self.lets.append((var, value))
        return var

    def meaning(self, node: PrimExpr) -> tuple[list[Var], PrimExpr]:
        """An operation as a function, for an emitter that prints it as one: its parameters and
        its value, in which divisions, shifts and this conversion are the machine's."""
        kind, values = operation(node), operands_of(node)
        params = [Var("abcdefgh"[k], v.dtype) for k, v in enumerate(values)]
        if isinstance(node, Call):
            inner: PrimExpr = Call._make(node.dtype, node.op, tuple(params))
        else:
            inner = Cast._make(node.dtype, *params) if kind is Cast else kind._make(*params)
        rule = self.table[CONVERTED if kind is Cast else kind]
        return params, inner if rule is None else self.apply(rule, inner)


def operation(node: PrimExpr) -> Any:
    """The class of a node, the name of what is called."""
    return getattr(node.op, "name", "") if isinstance(node, Call) else type(node)


def name_of(kind: Any) -> str:
    return kind.removeprefix("tir.") if isinstance(kind, str) else kind.__name__


def operands_of(node: Any) -> list[PrimExpr]:
    if isinstance(node, Call):
        return list(node.args)
    return [node.value] if isinstance(node, Cast) else [node.a, node.b]


def operand_type(node: Any) -> DataType:
    """The type that an operation is on."""
    if isinstance(node, Call):
        return node.args[0].dtype if node.op.name in _OF_OPERAND else node.dtype
    return node.a.dtype if isinstance(node, CmpExpr) else node.dtype


def kind_of(dtype: DataType) -> str:
    """The types that an operation is alike on."""
    if dtype.is_float:
        return dtype.base if dtype.bits > 8 else "float8"
    return "bool" if dtype.is_bool else "int" if dtype.is_int else "uint"


def call(name: str, dtype: DataType, *args: PrimExpr) -> PrimExpr:
    return Call._make(dtype, Op.get(f"tir.{name}"), args)


def like(dtype: DataType, value: PrimExpr) -> DataType:
    """A type with as many lanes as a value."""
    return dtype.with_lanes(value.dtype.lanes)


def bits_as(value: PrimExpr, dtype: DataType) -> PrimExpr:
    """A value's bits as another type."""
    dtype = like(dtype, value)
    if isinstance(value, Let):
        return Let._make(value.var, value.value, bits_as(value.body, dtype))
    if isinstance(value, Call) and operation(value) == "tir.reinterpret":
        value = value.args[0]
    return value if value.dtype == dtype else call("reinterpret", dtype, value)


def number_of(node: PrimExpr) -> Any:
    """The number that a literal is in every lane; None for others."""
    part = node.value if isinstance(node, Broadcast) else node
    return part.value if isinstance(part, (IntImm, FloatImm)) else None


def shifted(value: PrimExpr, by: int) -> PrimExpr:
    """value >> by, or << -by."""
    name = "shift_right" if by > 0 else "shift_left"
    return call(name, value.dtype, value, const(abs(by), value.dtype))


def in_float32(ops: Scalars, node: Any) -> PrimExpr:
    """Operands that the emitter does not compute with are widened, the result is rounded."""
    base = operand_type(node).base

    def wide(value: PrimExpr) -> PrimExpr:
        return ops(Cast._make(like(F32, value), value)) if value.dtype.base == base else value

    dtype = like(F32, node) if node.dtype.base == base else node.dtype
    values = [wide(v) for v in operands_of(node)]
    if isinstance(node, Call):
        result: PrimExpr = Call._make(dtype, node.op, tuple(values))
    else:
        result = type(node)._make(*values)
    result = ops(result)
    return result if dtype is node.dtype else ops(Cast._make(node.dtype, result))


def on_flags(ops: Scalars, node: Any) -> PrimExpr:
    """Arithmetic on bool."""
    return _FLAGS[operation(node)]._make(*operands_of(node))


def code_of(value: float, dtype: DataType) -> int:
    """The bits of a float."""
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.asarray(value, np.float64).astype(numpy_dtype(dtype.element))
    return int(array.view(f"u{array.itemsize}"))


ON_FLAGS: dict[Any, Rule | None] = dict.fromkeys(_FLAGS, on_flags)
