"""A small language for the tests of the machinery: functions of scalar statements."""

from __future__ import annotations

from typing import Any

from loopwright.ir.expr import DictAttrs
from loopwright.ir.function import BaseFunc, as_attrs
from loopwright.ir.node import Node, define, field, ignore
from loopwright.ir.prim_expr import PrimExpr, Var


class Loop(Node):
    """Binds `var` in `body`; `comment` does not count."""

    var: Var = define()
    extent: PrimExpr
    body: Any
    comment: str = ignore(default="")


class Func(BaseFunc):
    """Binds its parameters in its body."""

    params: tuple[Var, ...] = define()
    body: Any
    attrs: DictAttrs = field(default_factory=DictAttrs)

    def __init__(self, params: Any = (), body: Any = 0, attrs: Any = None, span: Any = None):
        self._set(tuple(params), body, as_attrs(attrs), span)
