"""The form of a graph function's values in the native one that `GraphToTIR` builds, and who
calls kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ....ir.expr import GlobalVar
from ....ir.functor import post_order_visit
from ....ir.literals import broadcast_parts, is_zero
from ....ir.module import IRModule
from ....ir.prim_expr import FloorMod, Min, PrimExpr, Select, Var
from ....ir.prim_op import const
from ....ir.structural import structural_equal
from ....tir import stmt as st
from ....tir.byte_size import plain
from ....tir.function import PrimFunc
from ... import expr as rx
from ...functor import GraphRewriter


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

    def wrap(self, make: Callable[..., Any]) -> None:
        self.steps.append(make)

    def build(self) -> st.Stmt:
        body: Any = None
        for step in reversed(self.steps):
            body = step(st.Evaluate(const(0, "int32")) if body is None else body)
        return st.Evaluate(const(0, "int32")) if body is None else body


def callers(mod: IRModule) -> dict[GlobalVar, list[Any]]:
    """The spans of the calls of kernels that have no span themselves."""
    spans: dict[GlobalVar, list[Any]] = {}
    for func in mod.functions.values():
        for block in func.body.blocks if isinstance(func, rx.Function) else ():
            for binding in block.bindings:
                span = binding.span or binding.value.span
                for gvar in kernels_of(binding.value) if span else ():
                    kernel = mod.functions.get(gvar)
                    if isinstance(kernel, PrimFunc) and kernel.span is None:
                        spans.setdefault(gvar, []).append(span)
    return spans


def kernels_of(value: rx.Expr) -> list[GlobalVar]:
    """The functions of the module that a bound value names."""
    if isinstance(value, rx.Call):
        return [n for n in (value.op, *value.args) if isinstance(n, GlobalVar)]
    called: list[GlobalVar] = []
    post_order_visit(value, lambda n: called.append(n) if isinstance(n, GlobalVar) else None)
    return called


class ByName(GraphRewriter):
    """Calls of native functions, which take results and sizes too, as calls by name."""

    def __init__(self, native: set[GlobalVar]) -> None:
        super().__init__()
        self.native = native

    def call(self, call: rx.Call) -> Any:
        if call.op not in self.native:
            return call
        named = rx.ExternFunc(call.op.name_hint)
        return call.replace(op=named, sinfo_args=(call.struct_info,))


def expectation(have: PrimExpr, want: PrimExpr, where: str) -> str:
    """The message for an extent that differs from another one, which may be how an operator requires a
    least extent or a multiple."""
    if isinstance(have, Min):
        for part, other in ((have.a, have.b), (have.b, have.a)):
            if structural_equal(part, want):
                return f"{plain(other)} must be at least {plain(want)} {where}"
    if isinstance(have, FloorMod) and is_zero(want):
        return f"{plain(have.a)} must be a multiple of {plain(have.b)} {where}"
    both = f"({plain(have)} against {_required(have, want)})"
    return f"another extent than expected {where} {both}; give inputs whose shapes agree"


def _required(have: PrimExpr, want: PrimExpr) -> str:
    """The required extent, in a message: "m or 1" where it broadcasts with m."""
    if not (isinstance(want, Select) and structural_equal(want.true_value, have)):
        return plain(want)
    others = (p for p in broadcast_parts(want.false_value) if not structural_equal(p, have))
    return " or ".join([*map(plain, others), "1"])
