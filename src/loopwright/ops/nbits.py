"""Products with weights of 2, 4 or 8 bits, of which so many rows share a scale and a zero point.

A step of a language model reads all its weights for one row: what counts is how many bytes they are.
So they stay as they are, and become numbers in registers, where several rows may use them.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.literals import int_value
from ..ir.prim_expr import Broadcast
from ..ir.prim_op import cast, const
from ..ir.target import Target
from ..relax.struct_info import TensorStructInfo
from ..relax.transform.legalize_ops.common import register_legalize
from .common import compute
from .core import case, op
from .extents import check_multiple, extents_of, simplify
from .integer import check_extent, open_shape, ramp
from .params import Tensor
from .statements import long, prim_func

WIDE = 64  # columns of a panel
_WORD = 32  # bits of what is read at once
_ROWS, _VECTORS, _ALONE = 8, 2, 4  # a tile; vectors of a row alone. Half the rows for 16 registers


@op("relax.nn.matmul_nbits", alone=True)
def matmul_nbits(data: Tensor, weight: Tensor, scale: Tensor, zero: Tensor, bits: int, block: int):
    """data float32 (rows, depth) by the matrix (weight - zero) * scale. weight uint32 (panels, depth * bits / 32
    * 64): numbers of so many bits, the rows of a column one after the other from the lowest bit on, 64 columns
    side by side; scale and zero, float32 (depth / block, panels * 64), hold for `block` rows of a column.
    float32 (rows, panels * 64)."""
    rows, depth = extents_of(data, "data", None, None)
    panels, _ = extents_of(weight, "weight", None, None)
    per, k = _WORD // bits, te.reduce_axis((const(0, "int64"), depth), name="k")

    def cell(i, j):
        word = weight(j // WIDE, k // per * WIDE + j % WIDE)
        number = _number(word, cast("uint32", k % per * bits), bits)
        return te.sum(data(i, k) * ((number - zero(k // block, j)) * scale(k // block, j)), axis=k)

    return compute([rows, simplify(panels * WIDE)], cell, "matmul_nbits")


def _number(word: Any, shift: Any, bits: int) -> Any:
    """The float32 of the bits of a word, or vector of words, from `shift` on."""
    lanes = word.dtype.lanes
    wide = lambda v: v if lanes == 1 else Broadcast(v, lanes)  # noqa: E731
    short = tir.shift_right(word, wide(shift)) & wide(const((1 << bits) - 1, "uint32"))
    kind = "" if lanes == 1 else f"x{lanes}"
    return cast(f"float32{kind}", cast(f"int32{kind}", short))


@matmul_nbits.infer
def _(data, weight, scale, zero, bits, block):
    kinds = (("data", data), ("scale", scale), ("zero", zero))
    for name, info, kind in (*((n, i, "float32") for n, i in kinds), ("weight", weight, "uint32")):
        if str(info.dtype) != kind:
            raise TypeError(explain(f"{name} must hold {kind}", got=str(info.dtype)))
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
def _(data, weight, scale, zero, bits, block):
    per, (panels, wide) = _WORD // bits, weight.shape
    shifts = np.arange(per, dtype=np.uint32) * np.uint32(bits)
    words = weight.reshape(panels, wide // WIDE, 1, WIDE) >> shifts[:, None]
    numbers = (words & np.uint32((1 << bits) - 1)).astype(np.float32)
    matrix = numbers.reshape(panels, -1, WIDE).transpose(1, 0, 2).reshape(-1, panels * WIDE)
    each = lambda v: np.repeat(v, block, 0)  # noqa: E731
    return data @ ((matrix - each(zero)) * each(scale))


def packed(columns: np.ndarray) -> np.ndarray:
    """The weight of `matmul_nbits` of a matrix's columns, uint8 (columns, bytes): of each its numbers from the
    lowest bit of the first byte on. What fills up the last panel is 0."""
    words = np.ascontiguousarray(columns).view("<u4")
    filled = np.pad(words, [(0, -len(words) % WIDE), (0, 0)])
    panels = filled.reshape(-1, WIDE, words.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(panels, np.uint32).reshape(len(panels), -1)


def _vector_matmul(call: Any) -> Any:
    """The kernel for vectors: a row alone, or tiles of rows that use each number. None where an extent
    of the weight is not known."""
    shapes = [a.struct_info.get_shape() for a in call.args]
    if any(int_value(d) is None for d in (shapes[0][1], *shapes[1], *shapes[2])):
        return None
    (rows, depth), bits, block = shapes[0], int(call.attrs.bits), int(call.attrs.block)
    rows, panels = open_shape([rows])[0], int_value(shapes[1][0])
    target = Target.current(allow_none=True) or Target("llvm")
    lanes = min(target.vector_lanes("float32"), WIDE // _ALONE)
    many = _ROWS if target.num_vector_registers >= 32 else _ROWS // 2
    per = _WORD // bits
    dims = [(rows, depth), *shapes[1:], (rows, long(panels * WIDE))]
    kinds = ("float32", "uint32", "float32", "float32", "float32")
    names = ("data", "weight", "scale", "zero", "out")
    given = zip(dims, kinds, names, strict=True)
    buffers = [tir.decl_buffer(s, k, n) for s, k, n in given]
    tiles = (rows + many - 1) // many

    def write(ib, x, words, scale, zero, out):
        def tile(own, vectors, panel, column):
            """The sums of some rows over so many vectors of a panel from a column on."""
            sums = ib.allocate("float32", len(own) * vectors * lanes, "sums", scope="local")
            at = lambda r, n: ramp(long((r * vectors + n) * lanes), lanes)  # noqa: E731
            places = [ib.let(f"place{n}", column + n * lanes) for n in range(vectors)]
            for r in range(len(own)):
                for n in range(vectors):
                    sums[at(r, n)] = Broadcast(const(0, "float32"), lanes)
            with (
                ib.for_range(long(0), depth // block, "b", "int64") as b,
                ib.for_range(long(0), long(block // per), "k", "int64") as k,
            ):
                line = ib.let("line", (b * (block // per) + k) * WIDE)
                whole = [panel * WIDE + p for p in places]
                each = [[v[b, ramp(p, lanes)] for p in whole] for v in (scale, zero)]
                read = [words[panel, ramp(line + p, lanes)] for p in places]
                for j in range(per):
                    row = (b * (block // per) + k) * per + j
                    for n in range(vectors):
                        number = _number(read[n], const(j * bits, "uint32"), bits)
                        value = ib.let("value", (number - each[1][n]) * each[0][n])
                        for r, i in enumerate(own):
                            factor = Broadcast(x[i, row], lanes)
                            sums[at(r, n)] = sums[at(r, n)] + factor * value
            for r, i in enumerate(own):
                for n, p in enumerate(places):
                    out[i, ramp(panel * WIDE + p, lanes)] = sums[at(r, n)]

        with ExitStack() as stack:
            item = ib.for_range(long(0), tiles * panels, "item", "int64", "parallel")
            item = stack.enter_context(item)
            panel = ib.let("panel", item // tiles)
            first = ib.let("first", item % tiles * many)

            def tiles_of(own, vectors):
                wide = vectors * lanes
                with ib.for_range(long(0), long(WIDE // wide), "c", "int64") as c:
                    tile(own, vectors, panel, c * wide)

            with ib.if_scope(rows < many), ib.for_range(long(0), rows, "i", "int64") as i:
                tiles_of([i], _ALONE)
            with ib.else_scope():
                own = [ib.let(f"row{r}", tir.min(first + r, rows - 1)) for r in range(many)]
                tiles_of(own, _VECTORS)

    return prim_func(buffers, write)


register_legalize(matmul_nbits.name, tir=_vector_matmul, target="llvm")

_RNG = np.random.default_rng(0)


def _sample(rows: Any, depth: int, columns: int, bits: int, block: int) -> Any:
    weight = packed(_RNG.integers(0, 256, (columns, depth * bits // 8)).astype(np.uint8))
    shape = (depth // block, columns + -columns % WIDE)
    scale = _RNG.uniform(0.01, 0.1, shape).astype(np.float32)
    zero = _RNG.integers(0, 1 << bits, shape).astype(np.float32)
    return case((rows, depth), weight, scale, zero, bits=bits, block=block)


matmul_nbits.samples(
    _sample(1, 64, 64, 4, 16),
    _sample("n", 32, 128, 8, 32),
    _sample(13, 64, 64, 2, 32),
)
