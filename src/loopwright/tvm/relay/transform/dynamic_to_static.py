"""DynamicToStatic: operators whose shapes are values become those of known shapes, where they are known.

before: dyn.reshape(%x, shape_of(%y))      # %y: Tensor[(8, 3), float32]
after:  reshape(%x, newshape=[8, 3])
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import BaseExpr
from ....ir.module import IRModule
from ..expr import Call, Constant, Expr, Function, If, TupleWrapper
from ..infer import infer_function, types_so_far
from ..operators.core import ROWS, VIEWS
from ..walk import name_of, post_order, rewrite
from .base import RelayPass
from .fold_constant import folded


def numbers(value: Expr) -> list[int] | None:
    """The numbers of a constant, None of anything else."""
    if not isinstance(value, Constant):
        return None
    return [v.item() for v in value.data.numpy().reshape(-1)]


def _static(call: Call) -> Any:
    """The call of the static operator; None where a value is not known.

    Its builder is that of both: it makes the static call of numbers. Its parameters have the names
    of the dynamic operator's arguments and attributes."""
    row = ROWS[call.op.name]
    values_by_name = dict(zip(row.inputs, call.args, strict=False))
    builder = VIEWS[call.op.name.removeprefix("dyn.")]
    attrs = row.values_of(call)
    shared = VALUES.get(call.op.name, ("shape",))
    for name in shared:
        values = numbers(values_by_name[name])
        if values is None:
            return None
        one = isinstance(values_by_name[name], Constant) and values_by_name[name].data.shape == ()
        values_by_name[name] = values[0] if one else values
    if call.op.name == "dyn.strided_slice":
        attrs.pop("axes", None)
    if call.op.name in ("dyn.zeros", "dyn.ones", "dyn.broadcast_to"):
        attrs = {"dtype": attrs["dtype"]} if call.op.name != "dyn.broadcast_to" else {}
    if call.op.name == "dyn.nn.pad" and isinstance(values_by_name["pad_width"], list):
        flat = values_by_name["pad_width"]
        values_by_name["pad_width"] = [flat[i : i + 2] for i in range(0, len(flat), 2)]
    return builder(**values_by_name, **attrs)


# Operator -> the arguments that have to be known.
VALUES: dict[str, tuple[str, ...]] = {
    "dyn.reshape": ("newshape",),
    "dyn.squeeze": ("axis",),
    "dyn.expand_dims": ("axis",),
    "dyn.tile": ("reps",),
    "dyn.topk": ("k",),
    "dyn.one_hot": ("depth",),
    "dyn.image.resize2d": ("size", "roi"),
    "dyn.nn.upsampling": ("scale_h", "scale_w"),
    "dyn.nn.upsampling3d": ("scale_d", "scale_h", "scale_w"),
    "dyn.nn.pad": ("pad_width", "pad_value"),
    "dyn.strided_slice": ("begin", "end", "strides"),
    "dyn.sparse_to_dense": ("output_shape",),
}


class DynamicToStatic(RelayPass):
    """Operators whose shapes are values become those of known shapes, where they are known."""

    opt_level = 2
    typed = False  # what has no type yet may have one when a shape is known

    def run_function(self, func: Function, mod: IRModule) -> Function:
        while any(map(_may_change, post_order(func))):
            typed = types_so_far(folded(types_so_far(func, mod)), mod)
            new = rewrite(typed, lambda old, call: _replaced(call))
            func = new.replace(ret_type=None)  # which may say more now
            if new is typed:
                break
        return infer_function(func, mod)


def _is_dynamic(node: BaseExpr) -> bool:
    return name_of(node).startswith("dyn.")


def _may_change(node: BaseExpr) -> bool:
    return _is_dynamic(node) or (isinstance(node, If) and isinstance(node.cond, Constant))


def _replaced(call: Any) -> Any:
    if not _is_dynamic(call) or call.op.name not in ROWS:
        return None
    static = _static(call)
    return static.tuple_value if isinstance(static, TupleWrapper) else static
