"""What values of a graph function are in the native one that `GraphToTIR` makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ....ir.prim_expr import PrimExpr, Var
from ....ir.prim_op import const
from ....tir import stmt as st


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
