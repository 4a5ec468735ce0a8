"""LabelOps: functions say by a hash what they compute, and which layouts they compute it in.

before: fn (%p, Primitive=1) { nn.conv2d(%p, ..., data_layout="NCHW", ...) }
after:  fn (%p, Primitive=1, hash="1f0c...", data_layout="NCHW", ...) { nn.conv2d(%p, ..., data_layout="NCHW", ...) }
"""

from __future__ import annotations

import hashlib
from typing import Any

from ....ir.op import Op
from ..expr import Call, Expr, Function, Var
from ..walk import post_order, rewrite
from .base import RelayPass


class LabelOps(RelayPass):
    """Functions say by a hash what they compute, and which layouts they compute it in. Equal
    functions have equal hashes; one that has a hash keeps it."""

    opt_level = 1

    def replaced(self, old: Any, new: Any) -> Any:
        if not isinstance(new, Function) or "hash" in new.attrs:
            return None
        return new.with_attrs({"hash": _hash(new), **_layouts(new)})


def _hash(func: Function) -> str:
    """The hash of a function's text, in which variables have no names of their own."""
    names: dict[int, Var] = {}

    def unnamed(node: Op | Expr) -> Var | None:
        if not isinstance(node, Var):
            return None
        return names.setdefault(id(node), Var(f"v{len(names)}", node.type_annotation))

    text = rewrite(func, pre=unnamed).astext()
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _layouts(func: Function) -> dict[str, Any]:
    """The layouts that calls of a function's own say."""
    layouts: dict[str, Any] = {}
    for node in post_order(func.body, lambda n: not isinstance(n, Function)):
        if isinstance(node, Call) and node.attrs is not None:
            layouts.update({k: v for k, v in node.attrs.items() if "layout" in k})
    return layouts
