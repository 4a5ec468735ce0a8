"""recast: some operators compute in another dtype, between casts.

before: nn.conv2d(%x, %w, out_dtype="float32")
after:  cast(nn.conv2d(cast(%x, "int8"), cast(%w, "int8"), out_dtype="int32"), "float32")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir.expr import Attrs
from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Expr, Tuple
from ..infer import with_types
from ..operators.core import VIEWS
from ..walk import children, post_order, rewrite


def _layers(expr: Expr, counted: set[Any]) -> dict[int, int]:
    """How many of the operators are on the longest path to each node, it included."""
    depth: dict[int, int] = {}
    for node in post_order(expr):
        below = max((depth[id(child)] for child in children(node)), default=0)
        depth[id(node)] = below + (isinstance(node, Call) and node.op in counted)
    return depth


def _cast(value: Expr, dtype: str) -> Any:
    if isinstance(value, Tuple):
        return Tuple([_cast(field, dtype) for field in value.fields])
    return VIEWS["cast"](value, dtype)


def recast(
    expr: IRModule | Expr,
    dtype: str,
    out_dtype: str,
    ops: Sequence[str] | None = None,
    skip_layers: Sequence[int] | None = None,
) -> Any:
    """An expression, or a module by its `main`, in which operators take arguments cast to a dtype.

    out_dtype: of the results where the operator has such an attribute; results are cast back. ops: the
    operators by name, by default "nn.conv2d". skip_layers: the numbers of those that stay, counted
    along the path from the inputs from 0; negative ones from the last.
    """
    if isinstance(expr, IRModule):
        changed = recast(expr["main"], dtype, out_dtype, ops, skip_layers)
        return expr.with_functions({expr.get_global_var("main"): changed})
    counted = {Op.get(name) for name in (["nn.conv2d"] if ops is None else ops)}
    depth = _layers(expr, counted)
    total = max(depth.values())
    skipped = {n + total if n < 0 else n for n in skip_layers or ()}

    def post(old: Op | Expr, new: Op | Expr) -> Any:
        if not isinstance(old, Call) or old.op not in counted or depth[id(old)] - 1 in skipped:
            return None
        attrs, back = new.attrs, None
        if attrs is not None and "out_dtype" in attrs:
            back = attrs["out_dtype"] or None
            attrs = Attrs(attrs.key, {**dict(attrs.items()), "out_dtype": out_dtype})
        back = back or str(with_types(old).checked_type.dtype)
        args = [_cast(arg, dtype) for arg in new.args]
        return _cast(Call(new.op, args, attrs, span=new.span), back)

    return rewrite(expr, post)
