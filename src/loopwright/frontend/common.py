"""What the importers of models share."""

from __future__ import annotations

from typing import Any

from ..ir.module import IRModule
from ..ir.prim_expr import IntImm, PrimExpr
from ..relax import op
from ..runtime.tensor import Tensor


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[Tensor]]]:
    """(the module without the functions' "params" attributes, {function name: those params}).

    Importers leave the weights there when they are asked to keep them as inputs.
    """
    params: dict[str, list[Tensor]] = {}
    functions: dict[Any, Any] = {}
    for gvar, func in mod.functions.items():
        given = getattr(func, "attrs", {}).get("params")
        if given is not None:
            params[gvar.name_hint] = list(given)
            func = func.without_attr("params")
        functions[gvar] = func
    return (mod.with_functions(functions) if params else mod), params


def same_padding(
    extent: int, kernel: int, stride: int, dilation: int, upper: bool = True
) -> tuple[int, int]:
    """(before, after) that let a sliding window give ceil(extent / stride) results; the odd
    element goes behind where `upper`, else in front."""
    reach = (kernel - 1) * dilation + 1
    total = max((-(-extent // stride) - 1) * stride + reach - extent, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)


def same_padding_transposed(
    kernel: int, stride: int, dilation: int, upper: bool = True
) -> tuple[int, int]:
    """(before, after) cut from a transposed convolution so that it gives extent * stride."""
    total = max((kernel - 1) * dilation + 1 - stride, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)


def autopad(
    bb: Any,
    data: Any,
    strides: list[int],
    kernel_shape: list[int],
    dilations: tuple[int, ...] | list[int] = (1, 1),
    pad_type: str = "constant",
    deconv: bool = False,
    mode: str = "SAME_UPPER",
    pad_value: float = 0.0,
) -> Any:
    """`data` [N, C, spatial...] padded as ONNX's auto_pad SAME_UPPER or SAME_LOWER says.

    Raises ValueError where a strided axis has a symbolic extent: its padding is not known.
    """
    shape = data.struct_info.get_shape()
    upper = mode == "SAME_UPPER"
    width = [0, 0, 0, 0]
    for extent, k, s, d in zip(shape[2:], kernel_shape, strides, dilations, strict=True):
        if deconv:
            width += same_padding_transposed(k, s, d, upper)
        else:
            width += same_padding(static_extent(extent, s), k, s, d, upper)
    return bb.emit(op.nn.pad(data, width, pad_type, pad_value))


def static_extent(extent: PrimExpr, stride: int) -> int:
    """An extent as a number; any will do where the stride is 1. Raises ValueError otherwise."""
    if isinstance(extent, IntImm):
        return extent.value
    if stride == 1:
        return 1 << 20
    raise ValueError(
        f"the padding of a strided window over a symbolic extent is not known: {extent}\n"
        "  instead: give the extent by shape_dict, or export the model with explicit pads"
    )


__all__ = ["autopad", "detach_params"]
