"""ByteProducts: convolutions and matrix products of quantized numbers add their products in integers.

Pass::

    ByteProducts(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake"))

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
constants in int8 after their zero point; activations have one scale and zero point. Data are multiplied in uint8
or int8, as the cheapest instruction of the target for these weights needs them (`tir.tensor_intrin.instructions`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....ir.literals import int_value, is_zero
from ....ir.prim_expr import IntImm
from ....ir.target import Target
from ....ir.transform import IRModule, ModulePass, PassContext
from ....runtime.tensor import Tensor
from ....tir.tensor_intrin.instructions import PAIRS_FIT, DotProduct, dot_product
from ... import op as relax_op
from ...expr import Call, Constant, Expr, ShapeExpr, const
from ...layout import PLAIN_CONVOLUTIONS
from ..products import is_call, keeps_dtype, shape_of, transposes
from ..rewriting import SweepingRewriter
from .winograd_convolutions import byte_form, takes_tiles

_BYTES = ("uint8", "int8")
_CONVOLUTIONS = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
_FEW = 4  # lanes for each output, if more are filled up a product does not pay


class ByteProducts(ModulePass):
    """Computes products of quantized data as sums of bytes. Only for a `target` (default: the current one) that
    adds several products of bytes in one instruction."""

    target: Target | None = None

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite every function."""
        target = self.target or Target.current(allow_none=True)
        if target is None or not any(_dot(target, kind) for kind in _BYTES):
            return mod
        return _Products(mod, target).run()


def _dot(target: Target, data: str, fits: bool = False) -> DotProduct | None:
    """The instruction for data of a dtype by weights in int8. fits: whether pairs of products fit 16 bits."""
    types = (data, "int8", "int32")
    return dot_product(target, types, target.vector_lanes("int32"), [PAIRS_FIT] * fits)


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


def _pairs_fit(weights: np.ndarray, data: str) -> bool:
    """Whether data times pairs of adjacent weights always add up to 16 bits; weights: (..., inputs)."""
    if data == "int8":  # 2 * 128 * 127 does
        return bool(weights.min(initial=0) > -128)
    pairs = weights.astype(np.int16).reshape(-1, 2)
    # 255 * 128 fits in int16 and 255 * 129 does not; `vpmaddubsw` would saturate such a sum.
    above, below = pairs.clip(0).sum(1), -pairs.clip(max=0).sum(1)
    return bool(max(above.max(initial=0), below.max(initial=0)) <= 128)


class _Products(SweepingRewriter):
    def __init__(self, mod: IRModule, target: Target) -> None:
        super().__init__(mod)
        self.target = target
        self.lanes = target.vector_lanes("int32")

    def call(self, call: Call) -> Any:
        is_product = is_call(call, "relax.matmul")
        if not is_product and not any(is_call(call, name) for name in _CONVOLUTIONS):
            return call
        call = self.builder.normalize(call)
        if not keeps_dtype(call):
            return call
        return self.matmul(call) if is_product else self.conv(call)

    def kind(self, weights: np.ndarray, own: str, only: bool = False) -> tuple[str, bool]:
        """The dtype of data that takes the fewest instructions with weights (..., inputs), of equal ones their own, and
        whether pairs of their products fit 16 bits."""
        options = []
        for data in (own, *(d for d in _BYTES if d != own and not only)):
            fits = _pairs_fit(weights, data)
            dot = _dot(self.target, data, fits)
            if dot is not None:
                options.append((dot.cost, data, fits and dot != _dot(self.target, data)))
        _, data, fits = min(options, key=lambda option: option[0])
        return data, fits

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

    def activation(self, operand: _Operand, kind: str) -> tuple[Any, Any] | None:
        """(data as bytes of a kind, their zero point in int32); None where that is not a scalar."""
        number, zero = self.constant(operand.zero), operand.zero
        if number is not None and number.size == 1:
            zero = const(number.astype(np.int32).reshape(()))
        if zero.struct_info.ndim or (operand.scale is not None and operand.scale.struct_info.ndim):
            return None
        if str(zero.struct_info.dtype) != "int32":
            zero = relax_op.astype(zero, "int32")
        if str(operand.data.struct_info.dtype) == kind:
            return operand.data, zero
        half = const(np.int32(128 if kind == "uint8" else -128))
        wide = relax_op.add(relax_op.astype(operand.data, "int32"), half)
        return relax_op.astype(wide, kind), relax_op.add(zero, half)

    def real(
        self, total: Expr, at: int, zero: Expr, operand: _Operand, weight: _Weight, axis: int
    ) -> Any:
        """The real values of sums of bytes; the outputs are on the total's axis `at`, the weight's axis
        `axis`."""
        ones = [1] * (weight.values.ndim - 2) if axis == 0 else []
        lead = [1] if ones else []  # of the rank of an image, which layouts need
        count = weight.values.shape[axis]
        others = tuple(k for k in range(weight.values.ndim) if k != axis)
        sums = weight.values.sum(others, dtype=np.int32)
        sums += np.int32(weight.shift * (weight.values.size // count))
        if weight.shift:  # the last output has the sums of the data
            own = relax_op.strided_slice(total, [at], [count], [count + 1], assume_inbound=True)
            total = relax_op.strided_slice(total, [at], [0], [count], assume_inbound=True)
            total = relax_op.add(total, relax_op.multiply(own, const(np.int32(weight.shift))))
        out = relax_op.subtract(
            total, relax_op.multiply(zero, const(sums.reshape(*lead, -1, *ones)))
        )
        if operand.scale is None:
            return out
        assert weight.factor is not None
        factor = weight.factor
        factor = factor.reshape(*lead, -1, *ones) if factor.size > 1 else factor
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
        depth = len(matrix)
        matrix = _padded(matrix, [-depth % 4, 0])
        kind, narrow = self.kind(matrix.T, str(operand.data.struct_info.dtype))
        activation = self.activation(operand, kind)
        if activation is None:
            return call
        data, zero = activation
        rows: Any = 1
        for d in shape[:-1]:
            rows = rows * d
        flat = data if len(shape) == 2 else relax_op.reshape(data, ShapeExpr([rows, depth]))
        if depth % 4:
            flat = relax_op.nn.pad(flat, [0, 0, 0, -depth % 4])
        weights = const(Tensor(np.ascontiguousarray(matrix)))
        total: Any = relax_op.nn.byte_matmul(flat, weights, narrow)
        if len(shape) > 2:
            total = relax_op.reshape(total, ShapeExpr([*shape[:-1], matrix.shape[1]]))
        return self.real(total, len(shape) - 1, zero, operand, weight, 1)

    def conv(self, call: Call) -> Any:
        attrs, shape, out = call.attrs, shape_of(call.args[0]), shape_of(call)
        operand, weight = self.operand(call.args[0]), self.weight(call.args[1], 0)
        layouts = attrs.data_layout, attrs.kernel_layout
        if operand is None or weight is None or layouts not in PLAIN_CONVOLUTIONS:
            return call
        if shape is None or out is None or any(map(is_zero, (*shape, *out))):
            return call
        values, depthwise = weight.with_ones(0), attrs.groups != 1
        if depthwise and (weight.shift or not _is_depthwise(call, shape[1], values)):
            return call
        along = -1 if depthwise else 1  # what an instruction adds: pixels or channels
        more = [0] * values.ndim
        more[along] = -values.shape[along] % 4
        rows = np.moveaxis(_padded(values, more), along, -1)
        own = str(operand.data.struct_info.dtype)
        by_tiles = self.takes_tiles(call, values, own, rows)
        kind, narrow = self.kind(rows, own, by_tiles)
        activation = self.activation(operand, kind)
        if activation is None or (len(values) * _FEW < self.lanes and not depthwise):
            return call
        data, zero = activation
        windows = [attrs[k] for k in ("strides", "padding", "dilation")]
        make = getattr(relax_op.nn, f"byte_conv{values.ndim - 2}d")
        total = make(
            data, const(Tensor(values)), relax_op.astype(zero, kind), *windows, attrs.groups,
            narrow=narrow,
        )  # fmt: skip
        return self.real(total, 1, zero, operand, weight, 0)

    def takes_tiles(self, call: Call, values: np.ndarray, own: str, rows: np.ndarray) -> bool:
        """Whether `WinogradConvolutions` will compute a convolution of data of a dtype: by words, as which any bytes do.
        rows: the weights, whose pairs an instruction adds."""
        sizes: list[Any] = [int_value(d) for d in (shape_of(call) or ())]
        if None in sizes[1:] or len(sizes) != 4 or not takes_tiles(call, values.shape):
            return False
        if _dot(self.target, own) is None:
            return False
        form = byte_form(self.target, values, own, self.kind(rows, own, True)[1])
        outputs, inputs, *_ = values.shape
        return form is not None and form.best(sizes[0] or 1, inputs, outputs, sizes[2:])[1] <= 1


def _is_depthwise(call: Call, channels: Any, values: np.ndarray) -> bool:
    """Whether each channel has a window of its own, of adjacent pixels."""
    attrs = call.attrs
    own = attrs.groups == len(values) and values.shape[1] == 1 and attrs.dilation[-1] == 1
    return own and isinstance(channels, IntImm) and channels.value == len(values)
