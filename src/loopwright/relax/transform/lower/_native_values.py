"""What values of a graph function are in the native one that `GraphToTIR` makes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ....ir.dtype import DataType
from ....ir.prim_expr import Call, FloatImm, IntImm, PrimExpr, StringImm, Var
from ....ir.prim_op import cast, const, minimum
from ....tir import stmt as st
from ....tir.byte_size import fits, known_bytes, product


class NotNative(Exception):
    """Why a function stays with the virtual machine."""


@dataclass
class TensorAt:
    """A tensor at run time: its pointer, shape and dtype."""

    pointer: PrimExpr
    dims: tuple[PrimExpr, ...]
    dtype: str
    root: Any = None  # the variable whose binding owns the memory


@dataclass
class StorageAt:
    pointer: PrimExpr


@dataclass
class Nothing:
    """The result of a packed call that fills its last arguments."""

    symbol: str


@dataclass
class Steps:
    """Statements in order; each is a function from the rest to a statement."""

    steps: list[Any] = field(default_factory=list)

    def let(self, var: Var, value: PrimExpr) -> None:
        self.steps.append(lambda rest: st.LetStmt(var, value, rest))

    def do(self, stmt: st.Stmt) -> None:
        self.steps.append(lambda rest: st.seq(stmt, rest))

    def wrap(self, make: Any) -> None:
        self.steps.append(make)

    def build(self) -> st.Stmt:
        body: Any = None
        for step in reversed(self.steps):
            body = step(st.Evaluate(const(0, "int32")) if body is None else body)
        return st.Evaluate(const(0, "int32")) if body is None else body


@dataclass
class Sizes:
    """The tensors whose sizes are known only at run time; of those that differ by a factor, the
    largest."""

    largest: dict[tuple[str, ...], tuple[int, tuple[PrimExpr, ...], str]] = field(
        default_factory=dict
    )

    def add(self, dims: tuple[PrimExpr, ...], dtype: str, name: str) -> None:
        """A tensor and its name in messages."""
        fixed = known_bytes(dims, DataType(dtype))
        key = tuple(sorted(str(d) for d in dims if not isinstance(d, IntImm)))
        if key and (key not in self.largest or fixed > self.largest[key][0]):
            self.largest[key] = fixed, dims, name

    def checked(self, function: str, body: st.Stmt) -> st.Stmt:
        """The body of a function, run only if no size wraps in int64."""
        for fixed, dims, name in reversed(self.largest.values()):
            size = product((d for d in dims if not isinstance(d, IntImm)), fixed)
            shape = ", ".join(map(plain, dims))
            text = f"{function}: {name}: a tensor of shape ({shape}) would take {{value}} bytes"
            shown = cast("int64", minimum(size, FloatImm("float64", float(1 << 62))))
            message = Call("handle", "tir.tvm_tuple", [StringImm(text), shown])
            body = st.AssertStmt(fits(dims, size), message, body)
        return body


def plain(dim: Any) -> str:
    """A dimension in a message, literals as bare numbers."""
    return re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(dim))
