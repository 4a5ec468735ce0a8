"""Shared parts of the importers of models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ..arith import Analyzer
from ..base.errors import explain
from ..ir.module import IRModule
from ..ir.prim_expr import IntImm, PrimExpr
from ..ir.prim_op import const, maximum
from ..relax import op
from ..relax.block_builder import BlockBuilder
from ..relax.expr import Expr
from ..runtime.tensor import Tensor


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[Tensor]]]:
    """(the module without the functions' "params" attributes, {function name: those params}).

    Importers leave the weights there with the option to keep them as inputs.

    >>> from loopwright.frontend import detach_params, onnx
    >>> path = "model.onnx"
    >>> mod, params = detach_params(onnx.from_onnx(path, keep_params_in_input=True))
    >>> len(params["main"])
    4
    """
    params: dict[str, list[Tensor]] = {}
    functions: dict[Any, Any] = {}
    for gvar, func in mod.functions.items():
        attached = getattr(func, "attrs", {}).get("params")
        if attached is not None:
            params[gvar.name_hint] = list(attached)
            func = func.without_attr("params")
        functions[gvar] = func
    return (mod.with_functions(functions) if params else mod), params


# Kinds of a size without a number: its typical value, and words of its name.
_KINDS = (
    ("batch", 1, r"batch|(n|b|bs)$"),
    ("sequence", 128, r"seq|len|token|time|frame|word|(t|s|l)$"),
    ("image", 224, r"height|width|row|col|(h|w)$"),
)


def typical_sizes(inputs: Iterable[tuple[str, str, Sequence[Any]]]) -> dict[str, tuple[str, int]]:
    """{symbolic size: (its kind, its typical value)} of inputs (name, dtype, shape), by its name, else by
    its position in the shape.

    >>> typical_sizes([("image", "float32", ("N", 3, "d0", "d1"))])
    {'N': ('batch', 1), 'd0': ('image', 224), 'd1': ('image', 224)}
    """
    sizes: dict[str, tuple[str, int]] = {}
    for _, _, shape in inputs:
        first, others = (
            "batch" if len(shape) > 1 else "sequence",
            "image" if len(shape) > 3 else "sequence",
        )
        for axis, size in enumerate(shape):
            if isinstance(size, str):
                if len(shape) == 3 and axis == 1 and isinstance(shape[0], int) and shape[0] > 1:
                    others = "batch"  # (layers, batch, hidden): the state of a recurrent network
                said = (
                    kind for kind, _, words in _KINDS if re.match(rf"(.*_)?({words})", size.lower())
                )
                kind = next(said, others if axis else first)
                sizes.setdefault(size, next((k, n) for k, n, _ in _KINDS if k == kind))
    return sizes


def same_padding(
    extent: Any, kernel: int, stride: int, dilation: int, upper: bool = True
) -> tuple[Any, Any]:
    """(before, after) that let a sliding window give ceil(extent / stride) results; the odd
    element is appended where `upper`, else in front. Expressions of a symbolic extent where the
    stride is more than 1."""
    window = (kernel - 1) * dilation + 1
    if isinstance(extent, IntImm):
        extent = extent.value
    if window == 1:
        return 0, 0
    total = ((extent + (stride - 1)) // stride - 1) * stride + (window - extent)
    if window < stride:  # else it is never negative
        total = _number(maximum(total, const(0, "int64")))
    small = _number(total // 2)
    large = _number(total - small)
    return (small, large) if upper else (large, small)


def _number(value: PrimExpr | int) -> Any:
    """An integer expression simplified, a number where it is one."""
    value = Analyzer().simplify(value) if isinstance(value, PrimExpr) else value
    return value.value if isinstance(value, IntImm) else value


def same_padding_transposed(
    kernel: int, stride: int, dilation: int, upper: bool = True
) -> tuple[int, int]:
    """(before, after) cut from a transposed convolution so that its extent is extent * stride."""
    total = max((kernel - 1) * dilation + 1 - stride, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)


def autopad(
    bb: BlockBuilder, data: Expr, strides: list[int], kernel_shape: list[int],
    dilations: tuple[int, ...] | list[int] = (1, 1), pad_type: str = "constant",
    deconv: bool = False, mode: str = "SAME_UPPER", pad_value: float = 0.0,
) -> Any:  # fmt: skip
    """`data` [N, C, spatial...] padded as ONNX's auto_pad SAME_UPPER or SAME_LOWER says.

    Raises ValueError where the amount is known only at run time, and `pad_type` is not "constant".
    """
    shape = data.struct_info.get_shape()
    upper = mode == "SAME_UPPER"
    width: list[Any] = [0, 0, 0, 0]
    for extent, k, s, d in zip(shape[2:], kernel_shape, strides, dilations, strict=True):
        if deconv:
            width += same_padding_transposed(k, s, d, upper)
        else:
            width += same_padding(extent, k, s, d, upper)
    return bb.emit(padded(data, width[0::2], width[1::2], pad_type, pad_value))


def padded(
    data: Expr, before: list[Any], after: list[Any], mode: str = "constant", fill: float = 0.0
) -> Any:
    """`data` grown along each axis by numbers, or by expressions: those for the mode "constant"
    only, else a ValueError is raised."""
    if not any(isinstance(w, PrimExpr) for w in (*before, *after)):
        pairs = zip(before, after, strict=True)
        return op.nn.pad(data, [w for pair in pairs for w in pair], mode, fill)
    if mode != "constant":
        what = f"widths of a padding of mode {mode} must be numbers"
        hint = "give the extents by shape_dict, or make the widths constants of the model"
        raise ValueError(explain(what, got=f"{before} and {after}", instead=hint))
    return op.nn.pad_by(data, before, after, fill)
