"""Builds statements line by line, mostly for the body of a `te.extern`.

ib = tir.ir_builder.create()
out = ib.buffer_ptr(outs[0])
with ib.for_range(0, n, "i", kind="parallel") as i:
    with ib.if_scope(i > 0):
        out[i] = out[i] * 2.0
stmt = ib.get()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import explain
from ..ir.dtype import DataType
from ..ir.prim_expr import PrimExpr, ScalarLike, Var
from ..ir.prim_op import const, convert, floordiv, floormod, match_types
from . import stmt as st
from .buffer import Buffer, decl_buffer
from .expr import BufferLoad
from .op import likely

_KINDS = {
    "serial": st.ForKind.SERIAL,
    "parallel": st.ForKind.PARALLEL,
    "vectorize": st.ForKind.VECTORIZED,
    "vectorized": st.ForKind.VECTORIZED,
    "unroll": st.ForKind.UNROLLED,
    "unrolled": st.ForKind.UNROLLED,
}


class WithScope:
    """`with scope as value:`; the statements emitted inside are wrapped at the end of the scope."""

    def __init__(self, enter_value: PrimExpr | None, exit_cb: Callable[[], None]) -> None:
        self._value = enter_value
        self._exit = exit_cb

    def __enter__(self) -> Any:
        return self._value

    def __exit__(self, kind: type | None, *_: Any) -> None:
        if kind is None:
            self._exit()


class BufferVar:
    """A buffer accessed like an array: `p[i] = p[i] + 1`. A flat index into a
    buffer of several dimensions counts elements in row-major order."""

    def __init__(self, builder: IRBuilder, buffer: Buffer, content_type: str) -> None:
        self._builder = builder
        self._buffer = buffer
        self._content_type = DataType(content_type)

    @property
    def dtype(self) -> DataType:
        """Type of an element."""
        return self._content_type

    def asobject(self) -> Buffer:
        """The buffer."""
        return self._buffer

    def _indices(self, index: Any) -> list[PrimExpr]:
        points = [convert(i) for i in (index if isinstance(index, tuple) else (index,))]
        shape = self._buffer.shape
        if len(points) == 1 and len(shape) > 1:
            flat = points[0]
            points = []
            for extent in reversed(shape[1:]):
                left, right = match_types(flat, extent)
                points.insert(0, floormod(left, right))
                flat = floordiv(left, right)
            points.insert(0, flat)
        return points

    def __getitem__(self, index: PrimExpr | int | Sequence[ScalarLike]) -> PrimExpr:
        return BufferLoad(self._buffer, self._indices(index) if self._buffer.shape else [])

    def __setitem__(self, index: Any, value: ScalarLike) -> None:
        if isinstance(value, PrimExpr) and value.dtype.element != self._buffer.dtype.element:
            what = f"buffer {self._buffer.name} holds {self._buffer.dtype}"
            raise ValueError(explain(what, got=f"a value of {value.dtype}", instead="cast it"))
        indices = self._indices(index) if self._buffer.shape else []
        self._builder.emit(st.BufferStore(self._buffer, value, indices))


class IRBuilder:
    """Collects statements; scopes are `with` blocks."""

    def __init__(self) -> None:
        self._scopes: list[list[Any]] = [[]]
        self._counts: dict[str, int] = {}

    def emit(self, stmt: st.Stmt | Callable[..., Any]) -> None:
        """Append a statement, an expression to evaluate, or a function from the rest of
        the scope to a statement."""
        if isinstance(stmt, PrimExpr):
            stmt = st.Evaluate(stmt)
        if not isinstance(stmt, st.Stmt) and not callable(stmt):
            raise TypeError(explain("emit takes a statement", got=type(stmt).__name__))
        self._scopes[-1].append(stmt)

    def _pop(self) -> st.Stmt:
        items = self._scopes.pop()
        body: st.Stmt | None = None
        for item in reversed(items):
            if isinstance(item, st.Stmt):
                body = item if body is None else st.seq(item, body)
            else:
                body = item(st.Evaluate(0) if body is None else body)
        return st.Evaluate(0) if body is None else body

    def _scope(self, value: PrimExpr | None, wrap: Callable[[st.Stmt], st.Stmt]) -> WithScope:
        self._scopes.append([])
        return WithScope(value, lambda: self.emit(wrap(self._pop())))

    def scope_attr(self, node: PrimExpr, attr_key: str, value: int) -> None:
        """An annotation of `node` for the rest of the scope."""
        node_value = convert(value)
        self.emit(lambda rest: st.AttrStmt(node, attr_key, node_value, rest))

    def for_range(
        self,
        begin: ScalarLike,
        end: ScalarLike,
        name: str = "i",
        dtype: str | None = None,
        kind: str = "serial",
    ) -> WithScope:
        """A loop over [begin, end); its value is the loop variable."""
        if kind not in _KINDS:
            raise ValueError(explain("unknown kind of loop", got=kind, instead=", ".join(_KINDS)))
        count = self._counts[name] = self._counts.get(name, 0) + 1
        if dtype is None:
            low, high = match_types(begin, end)
            dtype = low.dtype if not low.dtype.is_bool else "int32"
        else:
            low, high = convert(begin).astype(dtype), convert(end).astype(dtype)
        var = Var(name if count == 1 else f"{name}_{count - 1}", dtype)
        extent = high - low
        return self._scope(var, lambda body: st.For(var, low, extent, _KINDS[kind], body))

    def while_loop(self, condition: PrimExpr) -> WithScope:
        """A loop while `condition` holds."""
        return self._scope(None, lambda body: st.While(condition, body))

    def if_scope(self, cond: PrimExpr) -> WithScope:
        """Statements that run if `cond` holds."""
        return self._scope(None, lambda body: st.IfThenElse(cond, body))

    def else_scope(self) -> WithScope:
        """The else branch of the preceding `if_scope`."""
        last = self._scopes[-1][-1] if self._scopes[-1] else None
        if not isinstance(last, st.IfThenElse) or last.else_case is not None:
            raise RuntimeError(explain("else_scope follows an if_scope"))
        self._scopes[-1].pop()
        return self._scope(None, lambda body: last.replace(else_case=body))

    def new_scope(self) -> WithScope:
        """A new scope, for allocations and annotations."""
        return self._scope(None, lambda body: body)

    def let(self, var_name: str, value: ScalarLike) -> Var:
        """A variable for the rest of the scope."""
        bound = convert(value)
        var = Var(var_name, bound.dtype)
        self.emit(lambda rest: st.LetStmt(var, bound, rest))
        return var

    def allocate(
        self,
        dtype: Any,
        shape: PrimExpr | int | Sequence[ScalarLike],
        name: str = "buf",
        axis_separators: Any = None,
        scope: str = "",
    ) -> BufferVar:
        """Memory for the rest of the scope."""
        element = DataType(dtype)
        pointer = Var(name, "handle", type_annotation=(str(element), scope or "global"))
        dims = shape if isinstance(shape, (list, tuple)) else [shape]
        buffer = decl_buffer(dims, element, name, pointer, axis_separators=axis_separators)

        self.emit(lambda rest: st.Allocate(pointer, element, buffer.shape, const(True), rest))
        return BufferVar(self, buffer, element)

    def pointer(self, content_type: str, name: str = "ptr", scope: str = "") -> BufferVar:
        """A pointer from outside, accessed as a flat array."""
        element = DataType(content_type)
        data = Var(name, "handle", type_annotation=(str(element), scope or "global"))
        return BufferVar(self, decl_buffer((1,), element, name, data), element)

    def buffer_ptr(self, buf: Buffer) -> BufferVar:
        """A buffer as an array."""
        return BufferVar(self, buf, buf.dtype)

    def likely(self, expr: PrimExpr) -> PrimExpr:
        """A hint that `expr` is nearly always true."""
        return likely(expr)

    def get(self) -> st.Stmt:
        """The finished statement."""
        if len(self._scopes) != 1:
            raise RuntimeError(explain("a scope is still open", got=f"{len(self._scopes) - 1}"))
        body = self._pop()
        self._scopes = [[]]
        return body


def create() -> IRBuilder:
    """A new builder."""
    return IRBuilder()
