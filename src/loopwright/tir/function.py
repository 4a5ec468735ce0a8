"""Primitive functions: loops over buffers, with how parameters are seen as buffers."""

from __future__ import annotations

from typing import Any

from ..base.errors import explain
from ..ir.expr import DictAttrs
from ..ir.function import BaseFunc, as_attrs
from ..ir.node import define, field
from ..ir.prim_expr import Var
from .buffer import Buffer
from .stmt import Stmt


class PrimFunc(BaseFunc):
    """A function of scalars and buffers. A parameter in `buffer_map` is the handle of a buffer,
    whose shape may define variables (`n` in `(n, 128)`)."""

    params: tuple[Var, ...] = define()
    buffer_map: dict[Var, Buffer] = define()
    body: Stmt
    ret_type: Any = field(None)
    attrs: DictAttrs = field(default_factory=DictAttrs)

    def __init__(
        self,
        params: Any,
        body: Stmt,
        ret_type: Any = None,
        buffer_map: dict[Var, Buffer] | None = None,
        attrs: Any = None,
        span: Any = None,
    ) -> None:
        made: list[Var] = []
        views = dict(buffer_map or {})
        for param in params:
            if isinstance(param, Buffer):
                var = Var(param.name, "handle")
                views[var] = param
                made.append(var)
            elif isinstance(param, Var):
                made.append(param)
            else:
                what = "a PrimFunc's parameter is a Var or a Buffer"
                raise TypeError(explain(what, got=type(param).__name__))
        self._set(tuple(made), views, body, ret_type, as_attrs(attrs), span)

    def with_body(self, new_body: Stmt, span: Any = None) -> PrimFunc:
        """The same signature with another body."""
        return self.replace(body=new_body, span=span or self.span)

    @property
    def buffers(self) -> list[Buffer]:
        """The parameters' buffers in the order of the parameters."""
        return [self.buffer_map[p] for p in self.params if p in self.buffer_map]

    @property
    def is_private(self) -> bool:
        """Whether other modules cannot call it (no `global_symbol`)."""
        return "global_symbol" not in self.attrs


__all__ = ["PrimFunc"]
