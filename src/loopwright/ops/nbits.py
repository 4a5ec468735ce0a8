"""Products with weights of 2, 4 or 8 bits, of which `block` rows share a scale and a zero point.

A step of a language model reads all its weights for one row: its time is the number of their bytes.
So they are stored packed, and unpacked in registers, where several rows may use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.literals import int_value
from ..ir.prim_expr import Broadcast, PrimExpr
from ..ir.prim_op import cast, const
from ..ir.target import Target
from ..relax.expr import Call
from ..relax.struct_info import TensorStructInfo
from ..relax.transform.legalize_ops.common import register_legalize
from ..tir.tensor_intrin.instructions import PAIRS_FIT, DotProduct, dot_product, value_of
from .common import compute
from .core import case, op
from .extents import check_multiple, extents_of, simplify
from .integer import check_extent, open_shape, ramp
from .params import Tensor
from .statements import long, prim_func

WIDE = 64  # columns of a panel
LANES = 16  # of the longest vector
_WORD = 32  # bits loaded at once
_ROWS = 8  # of a tile of two vectors
_MOST = 1 << 16  # rows of a block whose sum of products of bytes int32 holds


@op("relax.nn.matmul_nbits", alone=True)
def matmul_nbits(data: Tensor, weight: Tensor, scale: Tensor, zero: Tensor, bits: int, block: int):
    """data float32 (rows, depth) by the matrix (weight - zero) * scale. weight uint32 (panels, depth * bits / 32
    * 64), of 64 columns side by side: a word holds the numbers of 32 / bits rows, the first four in its bytes
    from their lowest bit on, the next four above them, and so on; scale and zero, float32 (depth / block, panels
    * 64), hold for `block` rows of a column. float32 (rows, panels * 64)."""
    k = te.reduce_axis((const(0, "int64"), data.shape[1]), name="k")

    def cell(i, j):
        return te.sum(data(i, k) * _real(weight, scale, zero, k, j, bits, block), axis=k)

    return _compute(data, weight, cell)


def _compute(data, weight, cell):
    rows, _ = extents_of(data, "data", None, None)
    panels, _ = extents_of(weight, "weight", None, None)
    return compute([rows, simplify(panels * WIDE)], cell, "matmul_nbits")


def _real(weight, scale, zero, k, j, bits, block):
    """The dequantized weight in row k and column j."""
    per = _WORD // bits
    word = weight(j // WIDE, k // per * WIDE + j % WIDE)
    number = _number(word, cast("uint32", _shift(k % per, bits)), bits)
    return (number - zero(k // block, j)) * scale(k // block, j)


def _shift(k: PrimExpr | int, bits: int) -> Any:
    """Where the number of a word's row k begins."""
    return k % 4 * 8 + k // 4 * bits


def _number(word: PrimExpr, shift: PrimExpr, bits: int) -> Any:
    """The float32 of the bits of a word, or vector of words, from `shift` on."""
    lanes = word.dtype.lanes
    wide = lambda v: v if lanes == 1 else Broadcast(v, lanes)  # noqa: E731
    short = tir.shift_right(word, wide(shift)) & wide(const((1 << bits) - 1, "uint32"))
    kind = "" if lanes == 1 else f"x{lanes}"
    return cast(f"float32{kind}", cast(f"int32{kind}", short))


@matmul_nbits.infer
def _info(data, weight, scale, zero, bits, block, kind="float32"):
    kinds = {"data": (data, kind), "weight": (weight, "uint32")}
    kinds |= {"scale": (scale, "float32"), "zero": (zero, "float32")}
    for name, (info, dtype) in kinds.items():
        if str(info.dtype) != dtype:
            raise TypeError(explain(f"{name} must hold {dtype}", got=str(info.dtype)))
    if bits not in (2, 4, 8) or block < 1 or block % (_WORD // bits):
        what = "bits must be 2, 4 or 8, and block a multiple of 32 / bits"
        raise ValueError(explain(what, got=f"{bits} and {block}"))
    shapes = [info.get_shape() for info in (data, weight, scale, zero)]
    if None in shapes:
        return TensorStructInfo(dtype="float32", ndim=2)
    (rows, depth), (panels, wide), *others = shapes
    check_multiple(depth, long(block), "axis 1 of data")
    check_extent("weight", 1, wide, depth // (_WORD // bits) * WIDE)
    for name, (blocks, columns) in zip(("scale", "zero"), others, strict=True):
        check_extent(name, 0, blocks, depth // block)
        check_extent(name, 1, columns, panels * WIDE)
    return TensorStructInfo([rows, simplify(panels * WIDE)], "float32")


@matmul_nbits.numpy
def _meaning(data, weight, scale, zero, bits, block):
    per, (panels, wide) = _WORD // bits, weight.shape
    shifts = np.array([_shift(k, bits) for k in range(per)], np.uint32)
    words = weight.reshape(panels, wide // WIDE, 1, WIDE) >> shifts[:, None]
    numbers = (words & np.uint32((1 << bits) - 1)).astype(np.float32)
    shape = (wide // WIDE * per, panels * WIDE)
    matrix = numbers.reshape(panels, shape[0], WIDE).transpose(1, 0, 2).reshape(shape)
    each = lambda v: np.repeat(v, block, 0)  # noqa: E731
    return data @ ((matrix - each(zero)) * each(scale))


@op("relax.nn.byte_matmul_nbits", alone=True)
def byte_matmul_nbits(
    data: Tensor, factor: Tensor, weight: Tensor, scale: Tensor, zero: Tensor, bits: int, block: int
):
    """`matmul_nbits` of data * factor: data int8 (rows, depth), factor float32 (rows, depth / block)."""
    k = te.reduce_axis((const(0, "int64"), data.shape[1]), name="k")

    def cell(i, j):
        row = cast("float32", data(i, k)) * factor(i, k // block)
        return te.sum(row * _real(weight, scale, zero, k, j, bits, block), axis=k)

    return _compute(data, weight, cell)


@byte_matmul_nbits.infer
def _(data, factor, weight, scale, zero, bits, block):
    info = _info(data, weight, scale, zero, bits, block, "int8")
    if str(factor.dtype) != "float32":
        raise TypeError(explain("factor must hold float32", got=str(factor.dtype)))
    shape, own = data.get_shape(), factor.get_shape()
    if shape is not None and own is not None:
        check_extent("factor", 0, own[0], shape[0])
        check_extent("factor", 1, own[1], shape[1] // block)
    return info


@byte_matmul_nbits.numpy
def _(data, factor, weight, scale, zero, bits, block):
    real = data.astype(np.float32) * np.repeat(factor, block, 1)
    return _meaning(real, weight, scale, zero, bits, block)


def packed(columns: np.ndarray, bits: int) -> np.ndarray:
    """The weight of `matmul_nbits` of a matrix's columns, uint8 (columns, bytes): of each its numbers from the
    lowest bit of the first byte on. What fills up the last panel is 0."""
    rows, mask = np.ascontiguousarray(columns).view("<u4"), np.uint32((1 << bits) - 1)
    words = np.zeros((len(rows) + -len(rows) % WIDE, rows.shape[1]), np.uint32)
    for k in range(_WORD // bits):
        words[: len(rows)] |= (rows >> np.uint32(k * bits) & mask) << np.uint32(_shift(k, bits))
    panels = words.reshape(-1, WIDE, words.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(panels).reshape(len(panels), -1)


def _kernel(
    call: Call, inputs: dict[str, str], many: int, lanes: int, vectors: Sequence[int], tile: Any
) -> Any:
    """A kernel for vectors: tiles of many rows that use each number, or, where there are fewer, of one row, with
    a number of vectors each. inputs: name and dtype of each; tile(ib, buffers, rows, vectors, panel, column) computes
    one. None where an extent of the weight is not known, or where the target has no vectors."""
    *before, weight, scale, zero = [a.struct_info.get_shape() for a in call.args]
    unknown = any(int_value(d) is None for d in (before[0][1], *weight, *scale))
    if unknown or int_value(before[0][0]) == 0:
        return None
    rows = open_shape([before[0][0]])[0]
    panels: Any = int_value(weight[0])
    dims = [*((rows, d[1]) for d in before), weight, scale, zero, (rows, long(panels * WIDE))]
    kinds = inputs | {"out": "float32"}
    parts = zip(dims, kinds.items(), strict=True)
    buffers = [tir.decl_buffer(shape, dtype, name) for shape, (name, dtype) in parts]
    tiles = (rows + many - 1) // many

    def write(ib, *pointers):
        with ib.for_range(long(0), tiles * panels, "item", "int64", "parallel") as item:
            panel = ib.let("panel", item // tiles)
            first = ib.let("first", item % tiles * many)

            def across(own, count):
                wide = count * lanes
                with ib.for_range(long(0), long(WIDE // wide), "c", "int64") as c:
                    tile(ib, pointers, own, count, panel, c * wide)

            with ib.if_scope(rows < many), ib.for_range(long(0), rows, "i", "int64") as i:
                across([i], vectors[0])
            with ib.else_scope():
                across(
                    [ib.let(f"row{r}", tir.min(first + r, rows - 1)) for r in range(many)],
                    vectors[1],
                )

    return prim_func(buffers, write)


def _sizes(call: Call) -> tuple[int, int, Any]:
    """The bits of a number, the rows of a block, the number of blocks."""
    block = int(call.attrs.block)
    return int(call.attrs.bits), block, call.args[0].struct_info.get_shape()[1] // block


class _Sums:
    """rows x count vectors of sums, 0 at first."""

    def __init__(self, ib: Any, name: str, dtype: str, rows: int, count: int, lanes: int) -> None:
        self.count, self.lanes, self.dtype = count, lanes, dtype
        self.keys = [(r, n) for r in range(rows) for n in range(count)]
        self.buffer = ib.allocate(dtype, rows * count * lanes, name, scope="local")
        self.clear()

    def clear(self) -> None:
        for key in self.keys:
            self[key] = Broadcast(const(0, self.dtype), self.lanes)

    def _at(self, key: tuple[int, int]) -> Any:
        return ramp(long((key[0] * self.count + key[1]) * self.lanes), self.lanes)

    def __getitem__(self, key: tuple[int, int]) -> Any:
        return self.buffer[self._at(key)]

    def __setitem__(self, key: tuple[int, int], value: PrimExpr) -> None:
        self.buffer[self._at(key)] = value


_WEIGHT = {"weight": "uint32", "scale": "float32", "zero": "float32"}


def _vector_matmul(call: Call) -> Any:
    """The kernel of `matmul_nbits` for vectors of any length."""
    bits, block, blocks = _sizes(call)
    target = Target.current(allow_none=True) or Target("llvm")
    lanes, per = min(target.vector_lanes("float32"), LANES), _WORD // bits
    if lanes == 1:
        return None

    def tile(ib, buffers, own, count, panel, column):
        x, words, scale, zero, out = buffers
        sums = _Sums(ib, "sums", "float32", len(own), count, lanes)
        starts = [ib.let(f"place{n}", column + n * lanes) for n in range(count)]
        whole = [ramp(panel * WIDE + p, lanes) for p in starts]
        with (
            ib.for_range(long(0), blocks, "b", "int64") as b,
            ib.for_range(long(0), long(block // per), "k", "int64") as k,
        ):
            word = ib.let("word", b * (block // per) + k)
            read = [words[panel, ramp(word * WIDE + p, lanes)] for p in starts]
            for j in range(per):
                for n in range(count):
                    number = _number(read[n], const(_shift(j, bits), "uint32"), bits)
                    real = ib.let("real", (number - zero[b, whole[n]]) * scale[b, whole[n]])
                    for r, i in enumerate(own):
                        factor = Broadcast(x[i, word * per + j], lanes)
                        sums[r, n] = sums[r, n] + factor * real
        for r, n in sums.keys:
            out[own[r], whole[n]] = sums[r, n]

    many = _ROWS if target.num_vector_registers >= 32 else _ROWS // 2
    return _kernel(call, {"data": "float32", **_WEIGHT}, many, lanes, (4, 2), tile)


def _dot_of(target: Target, bits: int) -> DotProduct | None:
    """The cheapest instruction for numbers of these bits by bytes, which fit int8 if they are shorter than
    that; then two products fit int16, too: 127 * 128 * 2."""
    facts, kinds = ([PAIRS_FIT], ("uint8", "int8")) if bits < 8 else ([], ("uint8",))
    lanes = min(target.vector_lanes("int32"), LANES)
    dots = [
        dot_product(target, (kind, "int8", "int32"), lanes, facts, of_vectors=True)
        for kind in kinds
    ]
    return min((dot for dot in dots if dot is not None), key=lambda dot: dot.cost, default=None)


def _vector_byte_matmul(call: Call) -> Any:
    """The kernel of `byte_matmul_nbits` for an instruction that adds four products: sums of a block in int32,
    less its zero point."""
    bits, block, blocks = _sizes(call)
    target = Target.current(allow_none=True)
    product = None if target is None else _dot_of(target, bits)
    if target is None or product is None or block > _MOST:
        return None
    lanes, dot = product.lanes, partial(value_of, product)
    per, mask = _WORD // bits, const(0x01010101 * ((1 << bits) - 1), "uint32")
    wide = lambda v: Broadcast(v, lanes)  # noqa: E731
    signed = lambda v: tir.reinterpret(f"int32x{lanes}", v)  # noqa: E731

    def tile(ib, buffers, own, count, panel, column):
        x, factor, words, scale, zero, out = buffers
        sums = _Sums(ib, "sums", "float32", len(own), count, lanes)
        products = _Sums(ib, "products", "int32", len(own), count, lanes)
        data = _Sums(ib, "data_sums", "int32", len(own), 1, lanes)
        starts = [ib.let(f"place{n}", column + n * lanes) for n in range(count)]
        whole = [ramp(panel * WIDE + p, lanes) for p in starts]
        with ib.for_range(long(0), blocks, "b", "int64") as b:
            products.clear()
            data.clear()
            with ib.for_range(long(0), long(block // per), "k", "int64") as k:
                word = ib.let("word", b * (block // per) + k)
                read = [words[panel, ramp(word * WIDE + p, lanes)] for p in starts]
                for j in range(per // 4):
                    fours = [x[i, ramp(word * per + j * 4, 4)] for i in own]
                    fours = [wide(tir.reinterpret("int32", v)) for v in fours]
                    shift = wide(const(j * bits, "uint32"))
                    for n in range(count):
                        numbers = ib.let("numbers", tir.shift_right(read[n], shift) & wide(mask))
                        for r, four in enumerate(fours):
                            products[r, n] = dot(products[r, n], signed(numbers), four)
                    for r, four in enumerate(fours):
                        data[r, 0] = dot(data[r, 0], wide(const(0x01010101, "int32")), four)
            for r, i in enumerate(own):
                own_sum = ib.let("own", cast(f"float32x{lanes}", data[r, 0]))
                for n in range(count):
                    total = cast(f"float32x{lanes}", products[r, n]) - own_sum * zero[b, whole[n]]
                    sums[r, n] = sums[r, n] + total * (scale[b, whole[n]] * wide(factor[i, b]))
        for r, n in sums.keys:
            out[own[r], whole[n]] = sums[r, n]

    inputs = {"data": "int8", "factor": "float32", **_WEIGHT}
    wide_file = target.num_vector_registers >= 32
    many, vectors = (_ROWS // 2, (4, 4)) if wide_file else (_ROWS // 4, (2, 2))
    return _kernel(call, inputs, many, lanes, vectors, tile)


register_legalize(matmul_nbits.name, tir=_vector_matmul, target="llvm")
register_legalize(byte_matmul_nbits.name, tir=_vector_byte_matmul, target="llvm")


def _sample(
    rows: str | int, depth: int, columns: int, bits: int, block: int, *own: np.ndarray[Any, Any]
) -> Any:
    """own: data in bytes and its factors, if it is not of floats."""
    rng = np.random.default_rng((depth, columns, bits))
    weight = packed(rng.integers(0, 256, (columns, depth * bits // 8)).astype(np.uint8), bits)
    shape = (depth // block, columns + -columns % WIDE)
    scale = rng.uniform(0.01, 0.1, shape).astype(np.float32)
    zero = rng.integers(0, 1 << bits, shape).astype(np.float32)
    return case(*(own or [(rows, depth)]), weight, scale, zero, bits=bits, block=block)


def _bytes(rows: int, depth: int, block: int) -> list[np.ndarray]:
    rng = np.random.default_rng((rows, depth))
    factor = rng.uniform(0.01, 0.1, (rows, depth // block)).astype(np.float32)
    return [rng.integers(-128, 128, (rows, depth)).astype(np.int8), factor]


matmul_nbits.samples(
    _sample(1, 64, 64, 4, 16), _sample("n", 32, 128, 8, 32), _sample(13, 64, 64, 2, 32)
)
byte_matmul_nbits.samples(
    _sample(1, 64, 64, 4, 16, *_bytes(1, 64, 16)),
    _sample(6, 32, 128, 8, 32, *_bytes(6, 32, 32)),
    _sample(3, 64, 64, 2, 32, *_bytes(3, 64, 32)),
)
