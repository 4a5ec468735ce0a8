"""ConvolutionsAsProducts: convolutions whose weight is computed become products of matrices.

Pass::

    ConvolutionsAsProducts(least=0)

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2, 4, 3), dtype="float32"), w: R.Tensor((6, 4, 2), dtype="float32")) -> R.Tensor((2, 6, 2), dtype="float32"):
          with R.dataflow():
    -         gv: R.Tensor((2, 6, 2), dtype="float32") = R.nn.conv1d(x, w)
    +         lv: R.Tensor((6, 8), dtype="float32") = R.reshape(w, R.shape([6, 8]))
    +         lv1: R.Tensor((4, 2, 2, 2), dtype="float32") = R.image.im2col(x, R.shape([2]), strides=[1], dilation=[1])
    +         lv2: R.Tensor((8, 4), dtype="float32") = R.reshape(lv1, R.shape([8, 4]))
    +         lv3: R.Tensor((6, 4), dtype="float32") = R.matmul(lv, lv2, out_dtype="void")
    +         lv4: R.Tensor((6, 2, 2), dtype="float32") = R.reshape(lv3, R.shape([6, 2, 2]))
    +         gv: R.Tensor((2, 6, 2), dtype="float32") = R.permute_dims(lv4, axes=[1, 0, 2])
              R.output(gv)
          return gv

A weight that is computed cannot be packed in blocks of channels, and rows of few pixels do not fill vectors. So it is with
the gradients of convolutions, by which networks are trained: that of the weight is a convolution whose windows are
whole images. A transposed convolution is the product of the pixels by the weight: the windows of the result, which
are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Any

from ....ir.prim_expr import IntImm
from ....ir.target import Target
from ....ir.transform import IRModule, ModulePass, PassContext
from ... import op
from ...expr import Call, Constant, Expr, ShapeExpr
from ...layout import PLAIN_CONVOLUTIONS
from ..legalize_ops.common import may_be_taken
from ..products import is_call, keeps_dtype, shape_of
from ..queries import device_of
from ..rewriting import SweepingRewriter
from .merge_layout_changes import MergeLayoutChanges

_ROW = 8  # pixels that fill a vector: the kernels of windows read whole ones of rows that are multiples
_MOST = 1 << 25  # elements of the columns: beyond that, memory costs more than vectors gain
_WINDOWS = [f"relax.nn.conv{rank}d" for rank in (1, 2, 3)]
_TRANSPOSED = ["relax.nn.conv1d_transpose", "relax.nn.conv2d_transpose"]


class ConvolutionsAsProducts(ModulePass):
    """Replaces convolutions by products of matrices where that pays. least: multiplications from which it does."""

    least: int = 1 << 20

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite every function."""
        new = _Rewriter(mod, self.least).run()
        return mod if new is mod else MergeLayoutChanges()(new)


class _Rewriter(SweepingRewriter):
    def __init__(self, mod: IRModule, least: int) -> None:
        super().__init__(mod)
        self.least = least

    def call(self, call: Call) -> Any:
        if any(is_call(call, name) for name in _WINDOWS):
            return _by_windows(call) if _is_narrow(call) and self._fits(call, call) else call
        if any(is_call(call, name) for name in _TRANSPOSED):
            return _by_columns(call) if _is_apart(call) and self._fits(call, call.args[0]) else call
        return call

    def _fits(self, call: Call, image: Expr) -> bool:
        """Whether a convolution is one of plain tensors by a weight that is computed, with enough work and not too
        many columns: one for each pixel of an image."""
        attrs, shapes = call.attrs, [shape_of(v) for v in (image, call.args[1])]
        if None in shapes or attrs.groups != 1 or not keeps_dtype(call):
            return False
        layouts = attrs.data_layout, attrs.kernel_layout.replace("IO", "OI"), attrs.out_layout
        plain = any(layouts == (data, kernel, data) for data, kernel in PLAIN_CONVOLUTIONS)
        if not plain or isinstance(self.definition(call.args[1]), Constant):
            return False
        (batch, _, *sides), (channels, *weight) = ([*map(_number, s or ())] for s in shapes)
        columns = batch * prod(sides) * prod(weight)
        if columns > _MOST or columns * channels < self.least:
            return False
        device = device_of(call.args)
        target = Target.current(allow_none=True) if device is None else device.target
        return call.struct_info.dtype.bits >= 32 and not may_be_taken(call, target)


def _number(dim: Any) -> int:
    """An extent; 1 for a symbolic one."""
    return dim.value if isinstance(dim, IntImm) else 1


def _is_narrow(call: Call) -> bool:
    """Whether the rows of a convolution's result do not fill vectors, or its windows are apart."""
    shape = shape_of(call)
    if shape is None or not isinstance(shape[-1], IntImm):
        return False
    return shape[-1].value % _ROW > 0 or call.attrs.strides[-1] > 1


def _is_apart(call: Call) -> bool:
    """Whether the result of a transposed convolution has one window for each pixel of its data."""
    pairs = zip(call.attrs.output_padding, call.attrs.strides, strict=True)
    return all(more < stride for more, stride in pairs)


def _shape(x: Expr) -> Sequence[Any]:
    """The extents of a tensor, which are known."""
    return x.struct_info.get_shape()


def _by_windows(call: Call) -> Expr:
    """The weight, a row for each channel of the result, by the windows of the data as columns."""
    (data, weight), attrs = call.args, call.attrs
    (outputs, *row), (batch, _, *positions) = _shape(weight), _shape(call)
    rank, padding = len(positions), attrs.padding
    if any(padding):
        sides = zip(padding[:rank], padding[rank:], strict=True)
        data = op.nn.pad(data, [0, 0, 0, 0, *chain(*sides)])
    columns = op.image.im2col(data, row[1:], attrs.strides, attrs.dilation)
    columns = op.reshape(columns, [prod(row), batch * prod(positions)])
    out = op.matmul(op.reshape(weight, [outputs, prod(row)]), columns)
    return op.permute_dims(
        op.reshape(out, [outputs, batch, *positions]), [1, 0, *range(2, rank + 2)]
    )


def _by_columns(call: Call) -> Expr:
    """The pixels of the data by the weight, which is read as it is stored: the windows of the result, a row for each,
    which are added up."""
    (data, weight), attrs = call.args, call.attrs
    (inputs, *row), (batch, _, *positions) = _shape(weight), _shape(data)
    count, size = prod(positions), ShapeExpr(_shape(call)[2:])
    pixels = op.permute_dims(op.reshape(data, [batch, inputs, count]), [0, 2, 1])
    out = op.matmul(
        op.reshape(pixels, [batch * count, inputs]), op.reshape(weight, [inputs, prod(row)])
    )
    columns = op.permute_dims(op.reshape(out, [batch, count, prod(row)]), [0, 2, 1])
    windows = ShapeExpr(row[1:]), attrs.strides, attrs.padding, attrs.dilation
    return op.image.col2im(columns, size, *windows)
