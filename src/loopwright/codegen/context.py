"""Shared parts of the emitters: the context of the function being written, and tables of handlers
`f(ctx, node)`, one for each kind of node and intrinsic.

An emitter derives a context class, which defines how lines are written, and sets its tables.
Handlers do not know their callers: they get the text of a subexpression from the context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from ..base.errors import LoopwrightError, explain
from ..ir.dtype import DataType
from ..ir.expr import GlobalVar
from ..ir.prim_expr import Call, IntImm, IterVar, PrimExpr, StringImm, Var
from ..tir import stmt as st
from ..tir.buffer import Buffer
from ..tir.transform.lower.lower_scalar_ops import ScalarOps

# The use of a value. An index does not overflow; a narrow one fits 32 bits.
DATA, INDEX, NARROW = 0, 1, 2
_ZERO = IntImm("int32", 0)


class Context:
    """State while a function is written: the texts of variables, the use of the current value."""

    language: ClassVar[str]  # for messages
    passes: ClassVar[str]
    expressions: ClassVar[Mapping[type, Callable[..., str]]]
    statements: ClassVar[Mapping[type, Callable[..., None]]]
    calls: ClassVar[Mapping[str, Callable[..., str]]]
    instead: ClassVar[Mapping[str, str]]  # of intrinsics without code
    scalars: ClassVar[ScalarOps]

    def __init__(self) -> None:
        self.env: dict[Var, str] = {}
        self.mode = DATA

    def stmt(self, node: st.Stmt) -> None:
        """Write one statement."""
        handler = self.statements.get(type(node))
        if handler is None:
            what = f"{type(node).__name__} is not lowered"
            hint = f"run the passes of {self.passes} first"
            raise LoopwrightError(explain(what, instead=hint, span=node.span))
        handler(self, node)

    def expr(self, node: PrimExpr) -> str:
        """The value of an expression."""
        handler = self.expressions.get(type(node))
        if handler is None and (late := self.scalars(node)) is not node:
            return self.expr(late)  # introduced by a pass after LowerScalarOps
        if handler is None:
            what = f"{type(node).__name__} has no {self.language} code"
            hint = f"run the passes of {self.passes} first"
            raise LoopwrightError(explain(what, got=str(node), instead=hint, span=node.span))
        return handler(self, node)

    def used_as(self, mode: int, node: PrimExpr) -> str:
        """The value of an expression that is used as data or index."""
        before, self.mode = self.mode, mode
        value = self.expr(node)
        self.mode = before
        return value

    def index(self, node: PrimExpr) -> str:
        """The value of an index."""
        return self.used_as(INDEX, node)

    def data(self, node: PrimExpr) -> str:
        """The value of a condition or a datum inside an index."""
        return self.used_as(DATA, node)

    def undefined(self, node: Var) -> LoopwrightError:
        """The error for a variable that has no text."""
        what = f"variable {node.name} is not defined here"
        return LoopwrightError(explain(what, span=node.span))


def call(ctx: Context, node: Call) -> str:
    """A call; its arguments are data, not indices, whatever the callee."""
    name = "" if isinstance(node.op, GlobalVar) else getattr(node.op, "name", None)
    if name is None:
        raise LoopwrightError(explain("this cannot be called", got=str(node.op)))
    name = name.removeprefix("tir.")
    handler = ctx.calls.get(name)
    if handler is None and (late := ctx.scalars(node)) is not node:
        return ctx.expr(late)
    if handler is None:
        raise no_code(ctx, node, ctx.instead.get(name, ctx.instead[""]))
    before, ctx.mode = ctx.mode, DATA
    value = handler(ctx, node)
    ctx.mode = before
    return value


def no_code(ctx: Context, node: Call, hint: str, of: str = "") -> LoopwrightError:
    """The error for an intrinsic that has no code (for a type)."""
    what = f"the intrinsic {node.op.name} has no {ctx.language} code{of and f' for {of}'}"
    return LoopwrightError(explain(what, instead=hint, span=node.span))


def first(ctx: Context, node: Call) -> str:
    """A hint evaluates to its operand."""
    return ctx.expr(node.args[0])


def not_of_type(ctx: Context, node: Call) -> str:
    """A function on a float type without a rule."""
    raise no_code(ctx, node, "cast to float32", str(node.dtype))


def seq(ctx: Context, node: st.SeqStmt) -> None:
    """A sequence of statements."""
    for item in node.seq:
        ctx.stmt(item)


def inner(ctx: Context, node: st.Stmt) -> None:
    """A statement that only annotates its body."""
    ctx.stmt(node.body)


def flat_index(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    """The only index of a flat buffer's access."""
    if is_packed(buffer.dtype):
        what = f"buffer {buffer.name} of {buffer.dtype} is not stored as bytes yet"
        raise LoopwrightError(explain(what, instead="run Int4StorageLegalize first"))
    if len(indices) > 1:
        what = f"buffer {buffer.name} is not flat"
        raise LoopwrightError(explain(what, instead="run FlattenBuffer first"))
    return indices[0] if indices else _ZERO


def is_packed(dtype: DataType) -> bool:
    """Whether elements of this type are packed several to a byte."""
    return (dtype.is_int or dtype.is_uint) and dtype.bits < 8


def called_name(node: Call) -> str:
    """The name of the C or registered function that a call refers to."""
    name = node.args[0]
    if not isinstance(name, StringImm):
        what = f"{node.op.name} takes the function's name as its first argument"
        raise LoopwrightError(explain(what, got=str(name), span=node.span))
    return name.value


def attribute(ctx: Context, node: st.AttrStmt) -> None:
    """The body of an attribute; a CPU does not launch threads."""
    if node.attr_key == "thread_extent" and isinstance(node.node, IterVar):
        raise refuse_thread_loop(node, "compile it for a GPU target, or schedule it for the CPU")
    inner(ctx, node)


def refuse_thread_loop(node: st.For | st.AttrStmt, hint: str) -> LoopwrightError:
    """The error for a loop that code for CPUs does not have."""
    launched = isinstance(node, st.AttrStmt)
    bound = launched or node.kind == st.ForKind.THREAD_BINDING
    var = node.node.var if isinstance(node, st.AttrStmt) else node.loop_var
    what = f"loop {var.name} is {'bound to a GPU thread' if bound else 'vectorized'}"
    return LoopwrightError(explain(what, instead=hint, span=node.span))


# Handlers shared by all emitters.
STATEMENTS: dict[type, Callable[..., None]] = {
    st.SeqStmt: seq,
    st.AttrStmt: attribute,
    st.DeclBuffer: inner,
}
CALLS: dict[str, Callable[..., str]] = {
    **dict.fromkeys(("likely", "tvm_thread_invariant", "ignore_loop_partition"), first),
    "nextafter": not_of_type,
}
