"""Tensor expressions of the operators of neural networks: `topi.nn.softmax(x)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..base.errors import explain
from ..base.late import public_names as _public_names
from ..ops import OPERATORS
from ..ops.conv import expand_per_axis
from ..ops.linear import matmul as _matmul
from ..ops.manipulate import transpose as _transpose
from .fast import fast_softmax as fast_softmax
from .utils import get_const_int

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
    product = _matmul(data, _transpose(weight), out_dtype)
    return product if bias is None else OPERATORS["relax.add"](product, bias)


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


def matmul(
    tensor_a: te.Tensor,
    tensor_b: te.Tensor,
    bias: te.Tensor | None = None,
    out_dtype: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> te.Tensor:
    """The product of matrices, each optionally transposed, plus `bias`."""
    a, b = (
        _transpose(t) if turned else t
        for t, turned in ((tensor_a, transpose_a), (tensor_b, transpose_b))
    )
    product = _matmul(a, b, out_dtype)
    return product if bias is None else OPERATORS["relax.add"](product, bias)


def batch_matmul(
    tensor_a: te.Tensor,
    tensor_b: te.Tensor,
    oshape: Any = None,
    out_dtype: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> te.Tensor:
    """Products of matrices, one per batch element. `oshape` is ignored: it is inferred."""
    a, b = (
        _transpose(t, [0, 2, 1]) if turned else t
        for t, turned in ((tensor_a, transpose_a), (tensor_b, transpose_b))
    )
    return _matmul(a, b, out_dtype)


def flatten(data: te.Tensor) -> te.Tensor:
    """A matrix: the first dimension, and all others fused."""
    size = te.const(1, "int32")
    for extent in data.shape[1:]:
        size = size * extent
    return OPERATORS["relax.reshape"](data, [data.shape[0], size])


def _conv(operator: str, data: str, kernel: str) -> Callable[..., te.Tensor]:
    rank = len(data) - 2

    def conv(
        Input: te.Tensor,
        Filter: te.Tensor,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int = 1,
        out_dtype: Any = None,
    ) -> te.Tensor:
        steps = expand_per_axis(_listed(stride), rank, "stride")
        holes = expand_per_axis(_listed(dilation), rank, "dilation")
        pads = _listed(padding)
        return OPERATORS[f"relax.nn.{operator}"](
            Input, Filter, steps, pads, holes, groups, data, kernel, data, out_dtype
        )

    conv.__name__ = conv.__qualname__ = f"{operator}_{data.lower()}"
    conv.__doc__ = f"Convolution of data {data} by a kernel {kernel}."
    return conv


group_conv2d_nchw = _conv("conv2d", "NCHW", "OIHW")
group_conv2d_nhwc = _conv("conv2d", "NHWC", "HWIO")
conv3d_ncdhw = _conv("conv3d", "NCDHW", "OIDHW")


def _ungrouped(conv: Callable[..., te.Tensor]) -> Callable[..., te.Tensor]:
    """A convolution without the parameter `groups`."""

    def plain(
        Input: te.Tensor,
        Filter: te.Tensor,
        stride: Any,
        padding: Any,
        dilation: Any,
        out_dtype: Any = None,
    ) -> te.Tensor:
        return conv(Input, Filter, stride, padding, dilation, 1, out_dtype)

    plain.__name__ = plain.__qualname__ = conv.__name__.removeprefix("group_")
    plain.__doc__ = conv.__doc__
    return plain


conv2d_nchw = _ungrouped(group_conv2d_nchw)
conv2d_nhwc = _ungrouped(group_conv2d_nhwc)


def scale_shift_nchw(Input: te.Tensor, Scale: te.Tensor, Shift: te.Tensor) -> te.Tensor:
    """Each channel times its scale plus its shift."""
    return te.compute(
        Input.shape, lambda b, c, i, j: Input[b, c, i, j] * Scale[c] + Shift[c], name="ScaleShift"
    )


def scale_shift_nhwc(Input: te.Tensor, Scale: te.Tensor, Shift: te.Tensor) -> te.Tensor:
    """Each channel times its scale plus its shift."""
    return te.compute(
        Input.shape, lambda b, i, j, c: Input[b, i, j, c] * Scale[c] + Shift[c], name="ScaleShift"
    )


def pad(
    data: te.Tensor, pad_before: Any, pad_after: Any = None, pad_value: float = 0.0
) -> te.Tensor:
    """Padding with `pad_value`: the numbers of elements before and after each dimension."""
    after = pad_before if pad_after is None else pad_after
    widths = [get_const_int(w) for pair in zip(pad_before, after, strict=True) for w in pair]
    return OPERATORS["relax.nn.pad"](data, widths, "constant", pad_value)


def conv1d(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: Any = None,
) -> te.Tensor:
    """1-D convolution; padding is "VALID" (none), "SAME", or a number of elements (left, right)."""
    layout = kernel_layout or ("OIW" if data_layout == "NCW" else "WIO")
    holes = _listed(dilation)
    if padding == "VALID":
        pads = [0]
    elif padding == "SAME":
        whole = (get_const_int(kernel.shape[layout.index("W")]) - 1) * holes[0]
        pads = [whole - whole // 2, whole // 2]  # of an odd number, more to the left, as in TVM
    elif isinstance(padding, str):
        what = 'conv1d: padding is "VALID", "SAME", a number, or (left, right)'
        raise ValueError(explain(what, got=repr(padding)))
    else:
        pads = _listed(padding)
    return OPERATORS["relax.nn.conv1d"](
        data, kernel, _listed(strides), pads, holes, groups, data_layout, layout, data_layout,
        out_dtype,
    )  # fmt: skip


__dir__ = _public_names(__name__)
