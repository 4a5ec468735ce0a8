"""Weights of 2, 4 or 8 bits, of which blocks of rows share a scale: they stay so in products.

onnxruntime writes them as MatMulNBits, and as MatMul of DequantizeLinear's result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ops.packed import MOST, WIDE, Columns, pack
from ....relax import op
from ....relax.expr import Expr, ShapeExpr, Tuple, TupleGetItem
from ...graph.values import Value
from ..context import OnnxContext as Context

_KINDS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (2, 4, 8)}


def unpacked(cx: Context, data: Value, bits: int) -> Value:
    """[..., bytes] as [..., bytes * 8 / bits] numbers of `bits` bits, the low ones first."""
    per = 8 // bits
    if per == 1:
        return data
    o, dims = cx.onnx, data.shape
    shifts = np.arange(per, dtype=np.uint8) * np.uint8(bits)
    parts = o.BitShift(o.Unsqueeze(data, [-1]), shifts, direction="RIGHT")
    parts = o.BitwiseAnd(parts, np.uint8((1 << bits) - 1))
    return cx.value(op.reshape(parts.expr, ShapeExpr([*dims[:-1], cx.simplify(dims[-1] * per)])))


@dataclass(frozen=True)
class Weight:
    """A known matrix, (number - zero) * scale: numbers of `bits` bits, uint8 (columns, bytes) from the lowest bit
    of the first byte on; zero and scale, (columns, blocks), hold for `size` rows of a column. The last block
    may be longer than the matrix."""

    numbers: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    bits: int
    size: int
    rows: int

    def columns(self) -> tuple[Columns, int]:
        """Its columns, and the zero of all of them; different ones are least values, whole ones as numbers of
        their scales."""
        shifts = np.arange(0, 8, self.bits, dtype=np.uint8)
        numbers = self.numbers[:, :, None] >> shifts & np.uint8((1 << self.bits) - 1)
        numbers, zeros = numbers.reshape(len(numbers), -1), np.unique(self.zero)
        if len(zeros) == 1 and zeros[0] == int(zeros[0]):
            return Columns(numbers, self.scale), int(zeros[0])
        least = (-self.zero.astype(np.int16)).astype(np.int16)
        if not np.array_equal(-least, self.zero):
            least = (-self.zero * self.scale).astype(np.float32)
        return Columns(numbers, self.scale, least), 0


def dequantized(x: Value, scale: Value, zero: Value | None, axis: int, block: int) -> Weight | None:
    """What DequantizeLinear makes of known numbers, if that is such a matrix."""
    bits = _KINDS.get(str(x.dtype), 0)
    constants: list[Any] = [None if v is None else v.constant for v in (x, scale, zero)]
    if x.ndim != 2 or axis % 2 or not bits or block < 16 or block % (32 // bits):
        return None
    if (
        scale.dtype != "float32"
        or any(g is None for g in constants[:2])
        or (zero and constants[2] is None)
    ):
        return None
    data, factor, middle = constants
    (rows, _), lowest = data.shape, 0 if str(x.dtype).startswith("u") else -(1 << (bits - 1))
    whole = np.pad(data.T.astype(np.int16) - lowest, [(0, 0), (0, -rows % block)])
    parts = whole.astype(np.uint8).reshape(len(whole), -1, 8 // bits)
    parts = parts << np.arange(0, 8, bits, dtype=np.uint8)
    middle = np.zeros(factor.shape) if middle is None else middle.astype(np.float32)
    numbers = np.bitwise_or.reduce(parts, 2)
    return Weight(numbers, factor.T, middle.T - lowest, bits, block, rows)


def product(cx: Context, a: Value, weight: Weight, in_bytes: bool = False) -> Value:
    """a by that matrix; `in_bytes`: each block of a row of `a` is rounded to int8, to 127 of its largest
    magnitude."""
    o, rows, size = cx.onnx, weight.rows, weight.size
    columns, blocks = weight.scale.shape
    whole, zero = weight.columns()
    planes, *scales = ([*map(cx.constant, part)] for part in pack(whole, (weight.bits,)))
    flat = o.Reshape(a, [-1, rows])
    if rows % size:
        flat = o.Pad(flat, np.array([0, 0, 0, blocks * size - rows]))
    if in_bytes and size <= MOST:
        short = cx.emit(op.nn.quantize_blocks(flat.expr, size))
        data: list[Expr] = [cx.emit(TupleGetItem(short, n)) for n in range(3)]
    else:
        sums = o.ReduceSum(o.Reshape(flat, [-1, blocks, size]), [2], keepdims=0)
        data = [flat.expr, sums.expr] if zero or scales[1] else [flat.expr]
    parts = map(Tuple, (data, planes, *scales))
    out = cx.emit(op.nn.matmul_packed(*parts, None, (weight.bits,), size, zero))
    out = cx.value(op.reshape(out, ShapeExpr([flat.shape[0], -(-columns // WIDE) * WIDE])))
    if columns % WIDE:
        out = o.Slice(out, [0], [columns], [1])
    return cx.value(op.reshape(out.expr, ShapeExpr([*a.shape[:-1], columns])))
