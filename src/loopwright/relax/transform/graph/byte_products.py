"""ByteProducts: convolutions and matrix products of quantized numbers add their products in integers.

Pass::

    ByteProducts(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake"), lanes=1)

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2, 4), dtype="uint8")) -> R.Tensor((2, 2), dtype="float32"):
          with R.dataflow():
    -         lv: R.Tensor((2, 4), dtype="float32") = R.dequantize(x, R.const(0.5, "float32"), R.const(3, "uint8"), axis=0)
    -         lv1: R.Tensor((4, 2), dtype="float32") = R.dequantize(R.const([[1, -2], [3, 4], [5, 6], [7, 8]], "int8"), R.const(0.25, "float32"), R.const(0, "int8"), axis=0)
    -         gv: R.Tensor((2, 2), dtype="float32") = R.matmul(lv, lv1)
    +         lv: R.Tensor((2, 2), dtype="int32") = R.nn.byte_matmul(x, R.const([[1, -2], [3, 4], [5, 6], [7, 8]], "int8"))
    +         lv1: R.Tensor((2,), dtype="int32") = R.multiply(R.const(3, "int32"), R.const([16, 16], "int32"))
    +         lv2: R.Tensor((2, 2), dtype="int32") = R.subtract(lv, lv1)
    +         lv3: R.Tensor((2, 2), dtype="float32") = R.astype(lv2, dtype="float32")
    +         lv4: R.Tensor((), dtype="float32") = R.multiply(R.const(0.5, "float32"), R.const(0.25, "float32"))
    +         gv: R.Tensor((2, 2), dtype="float32") = R.multiply(lv3, lv4)
              R.output(gv)
          return gv

The sum of (q - zero) * w is that of q * w without zero times the sum of w, which is known. Weights are
constants in int8 after their zero point; activations have one scale and zero point, int8 ones become
uint8. A convolution reads its image as `relax.nn.byte_places` arranges it, a depthwise one as it is, one
of an unknown size or over one side as `relax.nn.byte_rows` does.

Processors without VNNI multiply 16 bits exactly, so weights are widened to int16, unless bytes do: where no
pair of weights is too large, or, of a convolution, few: the excess of these is added after. On
AVX2 convolutions multiply signed bytes by their signs, so their data become int8 where no weight is -128. Windows of
3 x 3 are added by Winograd's algorithm where that takes fewer instructions; windows of one pixel read
blocks of pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from ....ir.literals import is_zero
from ....ir.prim_expr import IntImm
from ....ir.prim_op import multiply
from ....ir.target import Target
from ....ir.transform import IRModule, ModulePass, PassContext
from ....runtime.tensor import Tensor
from ... import op as relax_op
from ...expr import Call, Constant, Expr, ShapeExpr, const
from ..products import is_call, keeps_dtype, shape_of, transposes
from ..rewriting import SweepingRewriter

_BYTES = ("uint8", "int8")
_PRODUCTS = ("relax.matmul", "relax.nn.conv1d", "relax.nn.conv2d")
_PLAIN = {("NCW", "OIW"), ("NCHW", "OIHW")}
# Tiles or pixels of a block; the fewest pixels of an image that is read in blocks.
_BLOCK, _LEAST = 8, 16
_FEW = 4  # lanes for each output, if more are filled up a product does not pay


class ByteProducts(ModulePass):
    """Computes products of quantized data as sums of bytes. Only for a `target` (default: the current one) that
    adds four products of bytes in few instructions: one with the feature avx512vnni, four with avx2.

    rows, lanes: outputs of convolutions are filled up to a multiple of `rows`, columns of products to one of
        `lanes`, of which images have at least one vector of pixels: the tiles of `ops.integer`.
    """

    target: Target | None = None
    rows: int = 8
    lanes: int = 48

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite every function."""
        target = self.target or Target.current(allow_none=True)
        if target is None or not {"avx512vnni", "avx2"}.intersection(target.features):
            return mod
        in_bytes = "avx512vnni" in target.features
        signed = not in_bytes and "avx512bw" not in target.features
        return _Products(mod, self.rows, self.lanes, in_bytes, signed).run()


@dataclass
class _Operand:
    """(data - zero) * scale; zero and scale are scalars, the scale of a weight one for each output.
    scale: None for 1, in int32."""

    data: Any
    zero: Any
    scale: Any


@dataclass
class _Weight:
    """(values + shift) * factor; factor: for all outputs or for each, None for 1 in int32."""

    values: np.ndarray
    factor: np.ndarray | None
    shift: int

    def with_ones(self, axis: int) -> np.ndarray:
        """The values, and where they are shifted one more output, the sum of the data."""
        if not self.shift:
            return self.values
        ones = np.ones_like(np.take(self.values, [0], axis))
        return np.concatenate([self.values, ones], axis)


def _padded(array: np.ndarray, more: list[int]) -> np.ndarray:
    """The array padded with zeros at the end of each axis."""
    return np.pad(array, [(0, k) for k in more]) if any(more) else array


def _over(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Where bytes times two weights would not add up to 16 bits."""
    first, second = first.astype(np.int16), second.astype(np.int16)
    # 255 * 128 fits in int16 and 255 * 129 does not; `vpmaddubsw` would saturate such a sum.
    above = np.maximum(first, 0) + np.maximum(second, 0) > 128
    return above | (np.minimum(first, 0) + np.minimum(second, 0) < -128)


def _narrow(weights: np.ndarray, least: int) -> np.ndarray | None:
    """Weights (blocks, steps, rows, 4) as `byte_conv2d` reads them if bytes times each pair must add up to 16
    bits: 255 * 128 does, 255 * 129 does not. The excess of a pair is added in a repeated step; None where
    more than one of `least` steps would be repeated."""
    blocks, steps = weights.shape[:2]
    pairs = weights.reshape(blocks, steps, -1, 2).astype(np.int16)
    over = _over(pairs[..., 0], pairs[..., 1])
    done = np.where(over[..., None], pairs.clip(-64, 64), pairs)
    rest, again = pairs - done, over.any(2)
    count = int(again.sum(1).max())
    if count * least > steps:
        return None
    own = np.argsort(~again, 1, kind="stable")[:, :count]  # and some that have no rest
    numbers = own.astype("<i4")[..., None].view(np.int8)
    rest = np.take_along_axis(rest.reshape(blocks, steps, -1), own[..., None], 1).astype(np.int8)
    more = np.concatenate([numbers, rest], 2).reshape(blocks, -1)
    return np.concatenate([done.astype(np.int8).reshape(blocks, -1), more], 1)


# Vector instructions for 8 products of a convolution in 16 bits, in bytes (signed, narrow), and of Winograd's
# algorithm, counted in their kernels: 46 for 256 products in 16 bits, 22 for 128 of tiles (docs/performance.md).
_COST, _COST_SIGNED, _COST_NARROW, _COST_OF_TILES = 1.4, 1.2, 0.95, 1.4
_AGAIN, _AGAIN_SIGNED = 3, 4  # one step in this number may be repeated, at most
_OF_TILE = 10  # the same for an element of a tile, read or written, for all 8 tiles of a vector
_BYTES_OF_TILES = 1 << 24  # of what one image becomes, at most: not measured beyond
# Bits of the results of byte_winograd by tile; see there.
_BITS = {4: 25, 2: 29}


def _tile(weights: np.ndarray, high: int, wide: int, cost: float) -> int:
    """The tile for which Winograd's algorithm takes the fewest instructions; 0 where `cost`, of the products of
    each input with each output, is less."""
    outputs, inputs, *_ = weights.shape
    sums = weights.reshape(outputs, -1).astype(np.int64)
    most = 255 * int(max(sums.clip(0).sum(1).max(), -sums.clip(max=0).sum(1).min()))
    best, choice = cost * outputs * inputs, 0
    for tile, bits in _BITS.items():
        tiles = [-(-d // tile) for d in (high, wide)]
        count = tiles[0] * tiles[1]
        if count < 16 or tiles[1] < 2 or most >= 1 << bits:
            continue
        if (tile + 2) ** 2 * count * inputs * 2 > _BYTES_OF_TILES:
            continue
        each = _COST_OF_TILES * outputs * inputs + _OF_TILE * (outputs + inputs)
        if (own := (tile + 2) ** 2 * -(-count // 8) * 8 * each) < best:
            best, choice = own, tile
    return choice


class _Products(SweepingRewriter):
    def __init__(self, mod: IRModule, rows: int, lanes: int, in_bytes: bool, signed: bool) -> None:
        super().__init__(mod)
        self.rows, self.lanes, self.in_bytes, self.signed = rows, lanes, in_bytes, signed

    def call(self, call: Call) -> Any:
        if not any(is_call(call, name) for name in _PRODUCTS):
            return call
        call = self.builder.normalize(call)
        if not keeps_dtype(call):
            return call
        if is_call(call, "relax.matmul"):
            return self.matmul(call)
        product = self.conv(call) if is_call(call, "relax.nn.conv2d") else call
        return self.conv_in_rows(call) if product is call else product

    # -- operands ------------------------------------------------------------------------------

    def operand(self, expr: Expr) -> _Operand | None:
        """A value as bytes less a zero point, times a scale."""
        value = self.definition(expr)
        if is_call(value, "relax.dequantize"):
            data, scale, zero = value.args
            if str(data.struct_info.dtype) in _BYTES and value.struct_info.dtype == "float32":
                return _Operand(data, zero, scale)
            return None
        zero: Any = const(np.int32(0))
        if is_call(value, "relax.subtract"):
            zero, value = value.args[1], self.definition(value.args[0])
        wide = is_call(value, "relax.astype") and str(value.struct_info.dtype) == "int32"
        if not wide or str(value.args[0].struct_info.dtype) not in _BYTES:
            return None
        return _Operand(value.args[0], zero, None)

    def constant(self, expr: Expr) -> np.ndarray | None:
        """A constant, of another dtype, shape or order of axes perhaps, as an array."""
        bound = self.definition(expr)
        if isinstance(bound, Constant):
            return None if bound.is_weight else bound.data.numpy()
        if is_call(bound, "relax.permute_dims"):
            value = self.constant(bound.args[0])
            return None if value is None else value.transpose(bound.attrs.axes)
        if not (is_call(bound, "relax.astype") or is_call(bound, "relax.reshape")):
            return None
        value, shape = self.constant(bound.args[0]), shape_of(bound)
        if value is None or shape is None or not all(isinstance(d, IntImm) for d in shape):
            return None
        value = value.reshape([d.value for d in shape])
        return value.astype(str(bound.struct_info.dtype))

    def weight(self, expr: Expr, axis: int) -> _Weight | None:
        """A constant weight, its outputs on `axis`."""
        bound = self.definition(expr)
        if is_call(bound, "relax.permute_dims") and transposes(bound) and axis == 1:
            other = self.weight(bound.args[0], 0)
            return None if other is None else replace(other, values=other.values.T)
        operand = self.operand(expr)
        if operand is None:
            return None
        data, zero = self.constant(operand.data), self.constant(operand.zero)
        scale = None if operand.scale is None else self.constant(operand.scale)
        if data is None or zero is None or (operand.scale is not None and scale is None):
            return None
        if not data.size:  # a sum of nothing
            return None
        if zero.ndim == 1 or (scale is not None and scale.ndim == 1):
            own = self.definition(expr)
            if not is_call(own, "relax.dequantize") or own.attrs.axis % data.ndim != axis:
                return None
            zero = zero.reshape([-1 if k == axis else 1 for k in range(data.ndim)])
        if zero.any() or data.dtype != np.int8:
            data = data.astype(np.int32) - zero.astype(np.int32)
        shift = 0
        if data.min() < -128 or data.max() > 127:
            shift = -int(zero.reshape(-1)[0]) + 128
            data = data - shift
            if len(np.unique(zero)) > 1 or data.min() < -128 or data.max() > 127:
                return None
        factor = None if scale is None else scale.reshape(-1 if scale.size > 1 else ())
        return _Weight(data.astype(np.int8, copy=False), factor, shift)

    # -- products of operands ------------------------------------------------------------------

    def activation(self, operand: _Operand) -> tuple[Any, Any] | None:
        """(data in uint8, its zero point in int32); None where that is not a scalar."""
        number, zero = self.constant(operand.zero), operand.zero
        if number is not None and number.size == 1:
            zero = const(number.astype(np.int32).reshape(()))
        if zero.struct_info.ndim or (operand.scale is not None and operand.scale.struct_info.ndim):
            return None
        if str(zero.struct_info.dtype) != "int32":
            zero = relax_op.astype(zero, "int32")
        if str(operand.data.struct_info.dtype) == "uint8":
            return operand.data, zero
        wide = relax_op.add(relax_op.astype(operand.data, "int32"), const(np.int32(128)))
        return relax_op.astype(wide, "uint8"), relax_op.add(zero, const(np.int32(128)))

    def real(
        self, total: Expr, at: int, zero: Expr, operand: _Operand, weight: _Weight, axis: int
    ) -> Any:
        """The real values of sums of bytes; the outputs are on the total's axis `at`, the weight's axis
        `axis`."""
        rest = weight.values.ndim - 2 if axis == 0 else 0
        ones = [1] * rest
        count = weight.values.shape[axis]
        others = tuple(k for k in range(weight.values.ndim) if k != axis)
        sums = weight.values.sum(others, dtype=np.int32)
        sums += np.int32(weight.shift * (weight.values.size // count))
        if weight.shift:  # the last output has the sums of the data
            own = relax_op.strided_slice(total, [at], [count], [count + 1], assume_inbound=True)
            total = relax_op.strided_slice(total, [at], [0], [count], assume_inbound=True)
            total = relax_op.add(total, relax_op.multiply(own, const(np.int32(weight.shift))))
        out = relax_op.subtract(total, relax_op.multiply(zero, const(sums.reshape(-1, *ones))))
        if operand.scale is None:
            return out
        assert weight.factor is not None
        factor = weight.factor
        factor = factor.reshape(-1, *ones) if factor.size > 1 else factor
        scale = relax_op.multiply(operand.scale, const(factor))
        return relax_op.multiply(relax_op.astype(out, "float32"), scale)

    def matmul(self, call: Call) -> Any:
        operand, weight = self.operand(call.args[0]), self.weight(call.args[1], 1)
        shape = shape_of(call.args[0])
        if operand is None or weight is None or shape is None or len(shape) < 2:
            return call
        if weight.values.ndim != 2:
            return call
        matrix = weight.with_ones(1)
        activation = self.activation(operand)
        if activation is None:
            return call
        data, zero = activation
        depth, columns = matrix.shape
        rows: Any = 1
        for d in shape[:-1]:
            rows = rows * d
        flat = data if len(shape) == 2 else relax_op.reshape(data, ShapeExpr([rows, depth]))
        if depth % 4:
            flat = relax_op.nn.pad(flat, [0, 0, 0, -depth % 4])
            matrix = _padded(matrix, [-depth % 4, 0])
        total = self.product(flat, matrix)
        if len(shape) > 2:
            total = relax_op.reshape(total, ShapeExpr([*shape[:-1], columns]))
        return self.real(total, len(shape) - 1, zero, operand, weight, 1)

    def product(self, data: Expr, matrix: np.ndarray) -> Any:
        """The product of rows of bytes, a multiple of 4, with a matrix."""
        narrow = not (self.in_bytes or _over(matrix[::2], matrix[1::2]).any())
        return relax_op.nn.byte_matmul(data, const(Tensor(np.ascontiguousarray(matrix))), narrow)

    def conv_in_rows(self, call: Call) -> Any:
        """A convolution over an image whose size is not known as a product of its windows."""
        attrs = call.attrs
        operand, weight = self.operand(call.args[0]), self.weight(call.args[1], 0)
        out, layouts = shape_of(call), (attrs.data_layout, attrs.kernel_layout)
        if operand is None or weight is None or out is None or attrs.groups != 1:
            return call
        if any(map(is_zero, (*out, *(shape_of(call.args[0]) or ())))):
            return call
        if layouts not in _PLAIN:
            return call
        activation, values = self.activation(operand), weight.with_ones(0)
        outputs, channels, *kernel = values.shape
        if activation is None or outputs * _FEW < self.lanes:
            return call
        (data, zero), rank = activation, values.ndim
        data = relax_op.permute_dims(data, [0, *range(2, rank), 1])
        windows = [[int(v) for v in a] for a in (attrs.strides, attrs.dilation, attrs.padding)]
        seen = relax_op.nn.byte_rows(data, relax_op.astype(zero, "uint8"), kernel, *windows)
        matrix = _padded(values, [0, -channels % 4, *[0] * len(kernel)])
        matrix = matrix.transpose(*range(2, rank), 1, 0).reshape(-1, outputs)
        rows = reduce(multiply, [out[0], *out[2:]])
        flat = relax_op.reshape(seen, ShapeExpr([rows, len(matrix)]))
        total = self.product(flat, matrix)
        total = relax_op.reshape(total, ShapeExpr([out[0], *out[2:], outputs]))
        total = relax_op.permute_dims(total, [0, rank - 1, *range(1, rank - 1)])
        return self.real(total, 1, zero, operand, weight, 0)

    def conv(self, call: Call) -> Any:
        attrs = call.attrs
        shape, out = shape_of(call.args[0]), shape_of(call)
        if shape is None or out is None:
            return call
        static = all(isinstance(d, IntImm) and d.value for d in (*shape[1:], *out[1:]))
        plain = (attrs.data_layout, attrs.kernel_layout) == ("NCHW", "OIHW")
        strides, dilations = [[int(v) for v in a] for a in (attrs.strides, attrs.dilation)]
        square = len(set(strides)) == len(set(dilations)) == 1
        if not (static and plain and square):
            return call
        operand, weight = self.operand(call.args[0]), self.weight(call.args[1], 0)
        if operand is None or weight is None:
            return call
        activation = self.activation(operand)
        if activation is None:
            return call
        data, zero = activation
        values = weight.with_ones(0)
        outputs, channels, *kernel = values.shape
        stride, dilation = strides[0], dilations[0]
        top, left = [int(v) for v in attrs.padding][:2]
        high, wide = (d.value for d in out[2:])
        filled = relax_op.astype(zero, "uint8")
        if attrs.groups != 1:
            each = attrs.groups == outputs == shape[1].value and channels == dilation == 1
            if not each or weight.shift:
                return call
            taps = _padded(values[:, 0], [0, 0, -kernel[1] % 4])
            taps = const(np.ascontiguousarray(taps.reshape(outputs, -1)))
            total = relax_op.nn.byte_depthwise(
                data, filled, taps, [top, left], kernel, stride, high, wide
            )
            return self.real(total, 1, zero, operand, weight, 0)
        pointwise = kernel == [1, 1] and not any(map(int, attrs.padding))
        if stride > 1 and pointwise:  # the other phases are not read
            data = relax_op.strided_slice(data, [2, 3], [0, 0], list(shape[2:]), strides)
            stride = 1
        image = [shape[0], outputs, high, wide]
        if pointwise and not self.in_bytes and high * wide >= _LEAST:
            total, less = self.conv_of_one(data, values, image)
        else:
            activation = filled, values, [top, left], stride, dilation, image
            total, less = self.windows(data, *activation)
        if less:
            zero = relax_op.subtract(zero, const(np.int32(less)))
        return self.real(total, 1, zero, operand, weight, 0)

    def conv_of_one(self, data: Any, values: np.ndarray, image: list[Any]) -> tuple[Any, int]:
        """The sums of windows of one pixel, and the offset subtracted from their data."""
        batch, outputs, high, wide = image
        packed, narrow, signed = self.packed(values)
        pixels = high * wide
        flat = relax_op.reshape(data, ShapeExpr([batch, values.shape[1], pixels]))
        blocks = relax_op.nn.byte_blocks(flat, _BLOCK, signed)
        options = [1, 1], 1, 1, wide, pixels, narrow, _BLOCK
        total = relax_op.nn.byte_conv2d(blocks, const(Tensor(packed)), *options)
        if outputs % self.rows:
            total = relax_op.strided_slice(total, [1], [0], [outputs], assume_inbound=True)
        return relax_op.reshape(total, ShapeExpr(image)), 128 * signed

    def windows(
        self, data: Expr, zero: Expr, values: np.ndarray, before: list[int], stride: int,
        dilation: int, image: list[Any],
    ) -> tuple[Any, int]:  # fmt: skip
        """The sums of windows, and the offset subtracted from their data; before: the padding before the
        data, which is `zero`."""
        _, outputs, high, wide = image
        kernel = list(values.shape[2:])
        halo = [(k - 1) * dilation // stride for k in kernel]
        width = wide + halo[1]
        pixels = max((high - 1) * width + wide, self.lanes)
        packed, narrow, signed = self.packed(values)
        if not self.in_bytes and kernel == [3, 3] and stride == dilation == 1:
            cost = _COST_NARROW * packed.size / values.size if narrow else _COST
            cost = _COST_SIGNED if signed else cost
            if tile := _tile(values, high, wide, 9 * pixels * cost):
                return _of_tiles(data, zero, values, before, tile, high, wide), 0
        rows = -(-pixels // width)
        height = rows + -(-(halo[0] * width + halo[1]) // width)
        blocks = relax_op.nn.byte_places(data, zero, before, stride, height, width, signed)
        options = kernel, stride, dilation, width, pixels, narrow
        total = relax_op.nn.byte_conv2d(blocks, const(Tensor(packed)), *options)
        if outputs % self.rows == 0 and pixels == high * wide:
            return relax_op.reshape(total, ShapeExpr(image)), 128 * signed
        return relax_op.nn.byte_image(total, outputs, high, wide, width), 128 * signed

    def packed(self, values: np.ndarray) -> tuple[np.ndarray, bool, bool]:
        """Weights as `byte_conv2d` reads them, whether they are narrow, and whether that is for signed data."""
        outputs, channels, *kernel = values.shape
        filled = _padded(values, [-outputs % self.rows, -channels % 4, 0, 0])
        fours = filled.reshape(-1, self.rows, filled.shape[1] // 4, 4, *kernel)
        fours = fours.transpose(0, 2, 4, 5, 1, 3).reshape(len(fours), -1, self.rows, 4)
        if self.in_bytes:
            return _joined(fours), False, False
        signed = self.signed and bool(values.min(initial=0) > -128)
        narrow = _narrow(fours, _AGAIN_SIGNED if signed else _AGAIN)
        if narrow is not None:
            return narrow, True, False
        if not signed:  # `ops.integer.HALVES`
            fours = fours[..., [0, 2, 1, 3]].astype(np.int16)
        return _joined(fours), signed, signed


def _joined(blocks: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(blocks).reshape(len(blocks), -1)


def _of_tiles(
    data: Expr, zero: Expr, values: np.ndarray, before: list[int], tile: int, high: int, wide: int
) -> Any:
    """The convolution with windows of 3 x 3 by Winograd's algorithm."""
    rows, columns = (-(-d // tile) for d in (high, wide))
    tiles = relax_op.nn.byte_winograd_tiles(data, zero, before, tile, rows, columns)
    weight = relax_op.nn.byte_winograd_weight(const(Tensor(values)), tile)
    total = relax_op.nn.byte_winograd(tiles, weight, tile, rows, columns)
    apart = -(-rows * columns // _BLOCK) * _BLOCK * tile
    return relax_op.nn.byte_image(total, len(values), high, wide, columns * tile, tile, apart)
