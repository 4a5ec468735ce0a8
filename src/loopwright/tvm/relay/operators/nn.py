"""Operators of neural networks: products of matrices, activations, losses."""

from __future__ import annotations

from math import prod
from typing import Any

from ....base.errors import explain
from ....ir.prim_expr import IntImm
from ....ops.core import BROADCAST, ELEMENTWISE, FUSABLE, INJECTIVE
from ....relax.expr import Var
from ...topi import nn as topi_nn
from ..types import TensorType, is_dynamic
from . import layouts
from .common import vectors
from .conv import wide
from .core import REQUIRED, Input, R, builder, kernel, op, same
from .tensor import scalar
from .transform import dims_of

same("nn.relu", kind=ELEMENTWISE, mixed="follow")
same("nn.leaky_relu", "nn.leakyrelu", attrs="LeakyReluAttrs", kind=ELEMENTWISE, mixed="follow")
prelu = same("nn.prelu", attrs="PReluAttrs", kind=BROADCAST, mixed="follow", layout=layouts.prelu)


@op("nn.bias_add", attrs="BiasAddAttrs", kind=BROADCAST, mixed="follow")
def bias_add(data: Input, bias: Input, axis: int = 1) -> Any:
    """data plus a vector along an axis."""
    last = data.struct_info.ndim - 1
    size, want = dims_of(bias)[0], dims_of(data)[axis]
    if isinstance(size, IntImm) and isinstance(want, IntImm) and size != want:
        what = f"takes a vector of the extent of axis {axis}"
        raise ValueError(explain(what, got=f"{size} for {want}"))
    lifted = [n + 1 for n in range(last - axis % (last + 1))]
    return R.add(data, R.expand_dims(bias, lifted) if lifted else bias)


@bias_add.infer
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    return types[0] if is_dynamic(types[0]) else None  # the bias takes unknown extents


for _row in (prelu, bias_add):
    _row.arguments(vectors("axis", 1, count=2))


@op("nn.batch_flatten", kind=INJECTIVE, mixed="follow")
def batch_flatten(data: Input) -> Any:
    """A matrix: the first axis, and all others as one."""
    first, *others = dims_of(data)
    size: Any = 1
    for extent in others:
        size = extent * size
    return R.reshape(data, [first, size])


# ---------------------------------------------------------------------- products


def _transposed(matrix: Var | Input, transpose: bool) -> Any:
    rank = matrix.struct_info.ndim
    if not transpose or rank < 2:
        return matrix
    return builder().emit(R.permute_dims(matrix, [*range(rank - 2), rank - 1, rank - 2]))


def _product(a: Any, b: Any, out_dtype: str, turn_a: bool, turn_b: bool) -> Any:
    a, b = wide(a, b, out_dtype)
    a, b = builder().emit(a), builder().emit(b)
    return R.matmul(_transposed(a, turn_a), _transposed(b, turn_b), out_dtype or None)


@op("nn.matmul", attrs="MatmulAttrs", kind=FUSABLE)
def matmul(
    tensor_a: Input, tensor_b: Input, units: Any = None, out_dtype: str = "",
    transpose_a: bool = False, transpose_b: bool = False,
) -> Any:  # fmt: skip
    """The product of the matrices of a tensor and a matrix, each transposed on request."""
    return _product(tensor_a, tensor_b, out_dtype, transpose_a, transpose_b)


@op("nn.dense", attrs="DenseAttrs", kind=FUSABLE, mixed="always", layout=layouts.dense)
def dense(data: Input, weight: Input, units: Any = None, out_dtype: str = "") -> Any:
    """data @ weight.T, of the last axis of each."""
    return _product(data, weight, out_dtype, False, True)


def _weight(types: list[Any], attrs: dict[str, Any]) -> Any:
    data, units = types[0], attrs["units"]
    if units is None or not isinstance(data, TensorType):
        return None
    inner = data.shape[-2 if attrs.get("transpose_a") else -1]
    transposed = attrs.get("transpose_b", True)
    return None, TensorType((units, inner) if transposed else (inner, units), data.dtype)


def _check_product(types: list[Any], attrs: dict[str, Any]) -> None:
    """Raise ValueError if the matrix has the wrong number of rows, or units."""
    data, weight = types
    if len(weight.shape) != 2 or not data.shape:
        raise ValueError(explain("takes a tensor and a matrix", got=f"{data} and {weight}"))
    transposed = attrs.get("transpose_b", True)
    units, inner = weight.shape if transposed else reversed(weight.shape)
    checks = (units, attrs["units"]), (inner, data.shape[-2 if attrs.get("transpose_a") else -1])
    for have, want in checks:
        if isinstance(have, IntImm) and isinstance(want, (int, IntImm)) and have.value != int(want):
            what = f"the matrix must have an extent of {want} here"
            raise ValueError(explain(what, got=f"{weight} for {data}"))


for _row in (matmul, dense):
    _row.arguments(_weight)
    _row.infer(_check_product)


@op("nn.batch_matmul", attrs="BatchMatmulAttrs", kind=FUSABLE, mixed="always")
def batch_matmul(
    tensor_a: Input, tensor_b: Input, out_dtype: str = "", transpose_a: bool = False,
    transpose_b: bool = True,
) -> Any:  # fmt: skip
    """The products of the matrices of two batches, each transposed on request."""
    return _product(tensor_a, tensor_b, out_dtype, transpose_a, transpose_b)


@matmul.macs
@dense.macs
@batch_matmul.macs
def _(types: list[Any], attrs: dict[str, Any], result: TensorType) -> int:
    """Each element of the result takes a row of the first operand, or a column."""
    inner = types[0].concrete_shape[-2 if attrs.get("transpose_a") else -1]
    return prod(result.concrete_shape) * inner


@op("nn.contrib_dense_pack", attrs="DensePackAttrs", kind=FUSABLE, layout=layouts.dense)
def contrib_dense_pack(
    data: Input, weight: Input, weight_layout: str = "NC", units: Any = None, out_dtype: str = ""
) -> Any:
    """`dense` by a weight in blocks of outputs: (blocks, inputs, outputs in a block)."""
    return kernel(topi_nn.dense_pack, data, weight, None, out_dtype or None)


@op("nn.fifo_buffer", attrs="FIFOBufferAttrs")
def fifo_buffer(data: Input, buffer: Input, axis: int) -> Any:
    """The buffer without its first elements along an axis, and the data after the remaining
    ones."""
    which = axis % buffer.struct_info.ndim
    shift = dims_of(data)[which]
    end = dims_of(buffer)[which] + shift
    return R.strided_slice(R.concat([buffer, data], which), [which], [shift], [end])


# ---------------------------------------------------------------------- losses


def _mean_loss(predictions: Any, targets: Any) -> Any:
    total = R.sum(R.multiply(predictions, targets))
    batch = dims_of(targets)[0]
    if not isinstance(batch, IntImm):
        raise ValueError(explain("the number of rows must be known", got=str(batch)))
    return R.divide(total, scalar(-batch.value, targets))


@op("nn.cross_entropy", kind=FUSABLE, mixed="never")
def cross_entropy(predictions: Input, targets: Input) -> Any:
    """-sum(targets * log(predictions)) / rows"""
    return _mean_loss(R.log(predictions), targets)


@op("nn.cross_entropy_with_logits", mixed="never")
def cross_entropy_with_logits(predictions: Input, targets: Input) -> Any:
    """-sum(targets * predictions) / rows"""
    return _mean_loss(predictions, targets)


nll_loss = same("nn.nll_loss", attrs="NLLLossAttrs", weights=("Input", REQUIRED), kind=FUSABLE)


@nll_loss.arguments
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    data = types[0]
    if not isinstance(data, TensorType):
        return None
    return None, None, TensorType((data.shape[1],), data.dtype)
