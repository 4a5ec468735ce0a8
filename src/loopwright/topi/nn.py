"""Tensor expressions of the operators of neural networks: `topi.nn.softmax(x)`."""

from __future__ import annotations

from typing import Any

from .. import te
from ..ops import OPERATORS
from ..ops.conv import expand_per_axis
from ..ops.linear import matmul as _matmul
from ..ops.manipulate import transpose as _transpose

_PREFIX = "relax.nn."
for _operator in OPERATORS.values():
    if _operator.name.startswith(_PREFIX):
        globals().setdefault(_operator.te_name, _operator)
        globals().setdefault(_operator.name.removeprefix(_PREFIX), _operator)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def conv2d(
    input: te.Tensor,
    filter: te.Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: Any = None,
) -> te.Tensor:
    """2-D convolution; the kernel's layout follows the data's unless it is given."""
    kernel = kernel_layout or ("OIHW" if data_layout.startswith("NC") else "HWIO")
    steps = expand_per_axis(_listed(strides), 2, "strides")
    holes = expand_per_axis(_listed(dilation), 2, "dilation")
    return OPERATORS["relax.nn.conv2d"](
        input,
        filter,
        steps,
        _listed(padding),
        holes,
        1,
        data_layout,
        kernel,
        data_layout,
        out_dtype,
    )


def dense(
    data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: Any = None
) -> te.Tensor:
    """data @ weight transposed, plus `bias`."""
    made = _matmul(data, _transpose(weight), out_dtype)
    return made if bias is None else OPERATORS["relax.add"](made, bias)


def pool2d(
    data: te.Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> te.Tensor:
    """The "max" or "avg" of a window that slides over the image; padding is top, left, bottom,
    right."""
    operator = OPERATORS[f"relax.nn.{pool_type}_pool2d"]
    return operator(
        data, kernel, stride, padding, dilation, ceil_mode, count_include_pad, layout, layout
    )
