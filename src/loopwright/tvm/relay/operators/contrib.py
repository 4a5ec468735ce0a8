"""Convolutions and products by prepared operands: in blocks, of planes of bits, sparse, deformed."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from ....base.errors import explain
from ....ir.dtype import DataType
from ....ir.prim_expr import IntImm
from ....ops.core import FUSABLE
from ....relax import expr as rx
from ...topi import bits as topi_bits
from ...topi import nn as topi_nn
from ..expr import Expr
from ..types import TensorType
from . import layouts
from .common import extents, windows
from .conv import as_plain, conv_by, conv_macs, conv_options, wide
from .core import Input, R, builder, kernel, op, view
from .transform import dims_of

# ---------------------------------------------------------------------- blocks of channels


def _blocked(name: str) -> None:
    depthwise = "depthwise" in name

    blocks_of_8 = {**conv_options(2), "data_layout": "NCHW8c"}

    @op(f"nn.{name}_NCHWc", attrs="Conv2DAttrs", view=False, options=blocks_of_8, kind=FUSABLE,
        layout=layouts.conv)  # fmt: skip
    def conv(data: Input, kernel: Input, **options: Any) -> Any:
        """A convolution of data in blocks of channels by a kernel in blocks."""
        dtype = options["out_dtype"] or str(data.struct_info.dtype)
        if depthwise:
            steps = (list(options[name]) for name in ("strides", "padding", "dilation"))
            layouts = (options["data_layout"], options["out_layout"] or options["data_layout"])
            fn = topi_nn.depthwise_conv2d_NCHWc
            return builder().emit(builder().call_te(fn, data, kernel, *steps, *layouts, dtype))
        data, kernel = wide(data, kernel, dtype)
        layout = options["kernel_layout"]
        if layout == "OIHW" and kernel.struct_info.ndim == 6:
            blocks = [int(d) for d in dims_of(kernel)[4:]]
            layout = f"OIHW{blocks[0]}i{blocks[1]}o"
        return conv_by(2, data, kernel, options, layout, dtype)

    conv.build(lambda **attrs: windows(attrs, 2, "strides", "dilation", "kernel_size"))
    conv.macs(conv_macs)
    view(f"nn.{name.lower()}_nchwc")(conv.builder)


_blocked("contrib_conv2d")
_blocked("contrib_depthwise_conv2d")

# ---------------------------------------------------------------------- deformed, gradients


@op(
    "nn.deformable_conv2d",
    attrs="DeformableConv2DAttrs",
    options=conv_options(2, steps={"deformable_groups": 1}),
    kind=FUSABLE,
    layout=layouts.fixed(("data_layout", "data_layout", "kernel_layout")),
)
def deformable_conv2d(data: Input, offset: Input, weight: Input, **options: Any) -> Any:
    """A convolution whose taps are moved by offsets and read between pixels."""
    layout, kernel_layout = options["data_layout"], options["kernel_layout"]
    fitting = {"NCHW": "OIHW", "NHWC": "HWIO"}
    if fitting.get(layout) != kernel_layout:
        what = "deformable_conv2d takes data NCHW with a kernel OIHW, or NHWC with HWIO"
        raise ValueError(explain(what, got=f"{layout} and {kernel_layout}"))
    fn = getattr(topi_nn, f"deformable_conv2d_{layout.lower()}")
    steps = (list(options[name]) for name in ("strides", "padding", "dilation"))
    groups = (options["deformable_groups"], options["groups"])
    dtype = options["out_dtype"] or str(data.struct_info.dtype)
    return kernel(fn, data, offset, weight, *steps, *groups, dtype)


deformable_conv2d.build(lambda **attrs: windows(attrs, 2, "strides", "dilation", "kernel_size"))


@deformable_conv2d.arguments
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    data, window = types[0], attrs["kernel_size"]
    if not isinstance(data, TensorType) or attrs["channels"] is None or window is None:
        return None
    sizes = extents(data, attrs["data_layout"])
    named = dict(zip("HW", window, strict=True), O=attrs["channels"])
    named["I"] = sizes["C"] if attrs["groups"] == 1 else sizes["C"] // attrs["groups"]
    weight = TensorType([named[n] for n in attrs["kernel_layout"]], data.dtype)
    return None, _offsets(data, sizes, attrs), weight


def _offsets(data: TensorType, sizes: dict[str, Any], attrs: dict[str, Any]) -> Any:
    """The type of the offsets: two numbers for each tap and place. None of extents not known."""
    if not all(isinstance(sizes[s], IntImm) for s in "HW"):
        return None
    count = 2 * attrs["deformable_groups"]
    out_sizes = {"N": sizes["N"]}
    for n, letter in enumerate("HW"):
        window, step, dilation = (
            int(attrs[name][n]) for name in ("kernel_size", "strides", "dilation")
        )
        pads = int(attrs["padding"][n]) + int(attrs["padding"][n + 2])
        extent = dilation * (window - 1) + 1
        out_sizes[letter] = (int(sizes[letter]) + pads - extent) // step + 1
        count *= window
    return TensorType([{**out_sizes, "C": count}[n] for n in attrs["data_layout"]], data.dtype)


@op("nn.conv2d_backward_weight", attrs="Conv2DAttrs",
    layout=layouts.fixed(("grad_layout", "data_layout"), "kernel_layout"))  # fmt: skip
def conv2d_backward_weight(
    grad: Input, data: Input, strides: Any = (1, 1), padding: Any = (0, 0), dilation: Any = (1, 1),
    groups: int = 1, channels: Any = None, kernel_size: Any = None, grad_layout: str = "NCHW",
    data_layout: str = "NCHW", kernel_layout: str = "OIHW", out_dtype: str = "",
) -> Any:  # fmt: skip
    """The gradient of conv2d with respect to its weight: a convolution of the data by the gradient,
    images for channels, strides for dilations."""
    if groups != 1 or kernel_size is None:
        what = "conv2d_backward_weight takes one group, and the kernel_size"
        raise ValueError(explain(what, got=f"groups={groups}, kernel_size={kernel_size}"))
    transposed = (as_plain(data, data_layout, "CNHW"), as_plain(grad, grad_layout, "CNHW"))
    options = (list(dilation), list(padding), list(strides))
    full = builder().emit(R.nn.conv2d(*transposed, *options, out_dtype=out_dtype or None))
    cut = builder().emit(R.strided_slice(full, [2, 3], [0, 0], list(kernel_size)))
    return as_plain(cut, "IOHW", kernel_layout)


conv2d_backward_weight.build(
    lambda **attrs: windows(attrs, 2, "strides", "dilation", "kernel_size")
)

# ---------------------------------------------------------------------- planes of bits


@op("nn.bitpack", attrs="BitPackAttrs")
def bitpack(
    data: Input, bits: int = 1, pack_axis: int = 1, bit_axis: int = 2, pack_type: str = "uint32",
    name: str = "BitPack",
) -> Any:  # fmt: skip
    """The lowest bits of each element as planes of words."""
    return kernel(topi_bits.bitpack, data, bits, pack_axis, bit_axis, pack_type, name)


@bitpack.infer
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    shape = list(types[0].shape)
    axis = attrs["pack_axis"]
    shape[axis] = shape[axis] // DataType(attrs["pack_type"]).bits
    shape.insert(attrs["bit_axis"], attrs["bits"])
    return TensorType(shape, attrs["pack_type"])


def _weights(weight: Input, bits: int, dtype: str, unipolar: bool, packed: tuple[int, int]) -> Any:
    """The numbers of a weight of bits: 0 and 1, or with `unipolar` -1 and 1 for each. packed: the axes
    of words and of planes, if it is packed, which is one more than its rank."""
    if weight.struct_info.ndim in (3, 5):
        low = kernel(topi_bits.bitunpack, weight, *packed, dtype)
    else:
        low = kernel(topi_bits.masked, weight, bits, dtype)
    if not unipolar:
        return low
    number = lambda v: rx.const(v, dtype)  # noqa: E731
    return builder().emit(R.subtract(R.multiply(low, number(2)), number((1 << bits) - 1)))


@op("nn.bitserial_dense", attrs="BinaryDenseAttrs")
def bitserial_dense(
    data: Input, weight: Input, units: Any = None, data_bits: int = 1, weight_bits: int = 1,
    pack_dtype: str = "uint32", out_dtype: str = "int16", unipolar: bool = True,
) -> Any:  # fmt: skip
    """data @ weight.T of numbers of few bits."""
    a = kernel(topi_bits.masked, data, data_bits, out_dtype)
    b = _weights(weight, weight_bits, out_dtype, unipolar, (1, 1))
    return R.matmul(a, R.permute_dims(b), out_dtype)


@bitserial_dense.infer
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    data, weight = types
    units = weight.shape[0] if attrs["units"] is None else attrs["units"]
    return TensorType((*data.shape[:-1], units), attrs["out_dtype"] or data.dtype)


@op("nn.bitserial_conv2d", attrs="BinaryConv2DAttrs", layout=layouts.conv)
def bitserial_conv2d(
    data: Input, weight: Input, strides: Any = (1, 1), padding: Any = (0, 0), channels: Any = None,
    kernel_size: Any = (3, 3), activation_bits: int = 1, weight_bits: int = 1,
    data_layout: str = "NCHW", kernel_layout: str = "OIHW", pack_dtype: str = "uint32",
    out_dtype: str = "int16", unipolar: bool = True,
) -> Any:  # fmt: skip
    """A convolution of numbers of few bits."""
    plan = {"NCHW": ("OIHW", (1, 4)), "NHWC": ("HWIO", (2, 4))}
    if data_layout not in plan:
        raise ValueError(explain("the layout is NCHW or NHWC", got=data_layout))
    layout, packed = plan[data_layout]
    a = kernel(topi_bits.masked, data, activation_bits, out_dtype)
    b = _weights(weight, weight_bits, out_dtype, unipolar, packed)
    options = (list(strides), list(padding), [1, 1], 1, data_layout, layout, data_layout)
    return R.nn.conv2d(a, b, *options, out_dtype)


bitserial_conv2d.build(lambda **attrs: windows(attrs, 2, "strides", "kernel_size"))

# ---------------------------------------------------------------------- sparse matrices


@op("nn.sparse_dense", attrs="SparseDenseAttrs", view=False)
def sparse_dense(
    dense_data: Input, sparse_data: Input, sparse_indices: Input, sparse_indptr: Input,
    sparse_lhs: bool = False,
) -> Any:  # fmt: skip
    """dense @ sparse.T, or sparse @ dense.T."""
    parts = (sparse_data, sparse_indices, sparse_indptr)
    return kernel(topi_nn.sparse_dense, dense_data, *parts, bool(sparse_lhs))


@op("nn.sparse_transpose", results=3, attrs="SparseTransposeAttrs", view=False)
def sparse_transpose(sparse_data: Input, sparse_indices: Input, sparse_indptr: Input) -> Any:
    """The transposed matrix of a square one."""
    return kernel(topi_nn.sparse_transpose, sparse_data, sparse_indices, sparse_indptr)


@op("nn.sparse_add", view=False)
def sparse_add(
    dense_data: Input, sparse_data: Input, sparse_indices: Input, sparse_indptr: Input
) -> Any:
    """dense + sparse."""
    return kernel(topi_nn.sparse_add, dense_data, sparse_data, sparse_indices, sparse_indptr)


@op("nn.sparse_conv2d", attrs="SparseConv2DAttrs", view=False)
def sparse_conv2d(
    dense_data: Input,
    sparse_data: Input,
    sparse_indices: Input,
    sparse_indptr: Input,
    layout: str = "NHWC",
    kernel_size: Any = (1, 1),
) -> Any:
    """The convolution by a matrix (channels of the result, channels) for a kernel of one element."""
    if layout not in ("NHWC", "NCHW") or list(kernel_size) != [1, 1]:
        what = "sparse_conv2d takes kernels of 1 x 1, in NHWC or NCHW"
        hint = "nn.conv2d with dense weights"
        raise ValueError(explain(what, got=f"{kernel_size} in {layout}", instead=hint))
    last = R.permute_dims(dense_data, [0, 2, 3, 1]) if layout == "NCHW" else dense_data
    *outer, channels = last.struct_info.get_shape()
    flat = R.reshape(last, [-1, channels])
    product = kernel(topi_nn.sparse_dense, flat, sparse_data, sparse_indices, sparse_indptr, False)
    result = R.reshape(product, [*outer, product.struct_info.get_shape()[1]])
    return R.permute_dims(result, [0, 3, 1, 2]) if layout == "NCHW" else result


def _parts(matrix: Any) -> tuple[Any, Any, Any]:
    """Values, columns and beginnings of rows, of scipy's matrices or as a tuple."""
    if hasattr(matrix, "indices"):
        return matrix.data, matrix.indices, matrix.indptr
    values, columns, begin = matrix
    return values, columns, begin


@view("nn.sparse_dense")
def _sparse_dense(dense_mat: Expr, sparse_mat: SimpleNamespace, sparse_lhs: bool = False) -> Any:
    """dense @ sparse.T, or sparse @ dense.T; the sparse one as (values, columns, beginnings)."""
    return sparse_dense.builder(dense_mat, *_parts(sparse_mat), sparse_lhs)


@view("nn.sparse_conv2d")
def _sparse_conv2d(
    dense_mat: Expr,
    sparse_mat: Sequence[Expr],
    layout: str = "NHWC",
    kernel_size: Sequence[int] = (1, 1),
) -> Any:
    """A convolution by a sparse matrix, given as (values, columns, beginnings)."""
    return sparse_conv2d.builder(dense_mat, *_parts(sparse_mat), layout, kernel_size)


@view("nn.sparse_transpose")
def _sparse_transpose(x: Any) -> Any:
    """The transposed matrix of a square one, as (values, columns, beginnings)."""
    return sparse_transpose.builder(*_parts(x))


@view("nn.sparse_add")
def _sparse_add(dense_mat: Any, sparse_mat: Any) -> Any:
    """dense + sparse, the sparse one as (values, columns, beginnings)."""
    return sparse_add.builder(dense_mat, *_parts(sparse_mat))
