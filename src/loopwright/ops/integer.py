"""Products of bytes, added in int32: what quantized convolutions and matrix products do.

Four products at a time: with VNNI an instruction does that for 16 lanes; AVX2 and AVX-512 add pairs of
products of 16 bits. The lanes are places of the image for a convolution, columns for a matrix product.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.literals import int_value
from ..ir.prim_expr import Broadcast, IntImm, Ramp, Shuffle
from ..ir.prim_op import add, cast, const, max_value, min_value
from ..ir.target import Target
from ..relax.struct_info import TensorStructInfo
from ..relax.transform.legalize_ops.common import register_legalize
from ..tir.function import PrimFunc
from .common import compute
from .core import case, op
from .extents import check_multiple, differ, extents_of, shorter, simplify, text
from .params import DType, Ints, Tensor
from .statements import long, prim_func

LANES, ROWS, VECTORS = 16, 8, 3  # a tile: rows x vectors of lanes
# Four numbers as AVX2 multiplies them in 16 bits: the first of each pair, the others.
HALVES = [0, 2, 1, 3]
_WIDE = LANES * VECTORS
_AGAIN = 4 + ROWS * 4  # bytes of a convolution's step that is done again
_FEW, _PARTS = 16, 4  # tasks; parts of their weights where tiles are fewer


def _dots(a, b, k):
    """The sum of the four products a[k, v] * b[k, v]."""
    v = te.reduce_axis((const(0, "int64"), const(4, "int64")), name="v")
    return te.sum(cast("int32", a(k, v)) * cast("int32", b(k, v)), axis=[k, v])


# ---------------------------------------------------------------- sums as bytes again


def bytes_again(total, axis, offset, factor, zero, dtype):
    """round((total + offset) * factor) + zero within `dtype`; offset (int32) and factor (float32) for each
    index of the axis."""
    low, high = (cast("float32", bound(dtype)) for bound in (min_value, max_value))
    floor = zero() if isinstance(zero, te.Tensor) else zero

    def cell(*i):
        value = cast("float32", total(*i) + offset(i[axis])) * factor(i[axis])
        value = tir.round(value) + cast("float32", floor)
        return cast(dtype, tir.max(tir.min(value, high), low))

    return compute(total.shape, cell, "bytes_again", axes="i")


def bytes_again_numpy(total, axis, offset, factor, zero, dtype):
    """The same of arrays."""
    along = [-1 if k == axis else 1 for k in range(total.ndim)]
    value = (total + offset.reshape(along)).astype(np.float32) * factor.reshape(along)
    bounds = np.iinfo(dtype)
    return np.clip(np.rint(value) + np.float32(zero), bounds.min, bounds.max).astype(dtype)


def bytes_again_info(total, axis, offset, factor, zero, dtype):
    """The type of that. Raises TypeError, ValueError."""
    check_dtypes(offset=(offset, "int32"), factor=(factor, "float32"))
    for name, info in (("offset", offset), ("factor", factor)):
        dims, own = info.get_shape(), total.get_shape()
        if dims is not None and own is not None:
            check_extent(name, 0, dims[0], own[axis])
    if str(dtype) not in ("uint8", "int8") or str(zero.dtype) != str(dtype):
        raise TypeError(explain("out_dtype must be int8 or uint8, and zero's", got=str(dtype)))
    return TensorStructInfo(total.shape, str(dtype), ndim=total.ndim)


def shrunk(total: Any, factor: Any, zero: Any, dtype: str) -> Any:
    """`bytes_again` of a vector of sums with their offset; factor: a vector."""
    lanes = total.dtype.lanes
    wide = lambda v, kind="int32": Broadcast(cast(kind, v), lanes)  # noqa: E731
    value = cast(f"float32x{lanes}", total) * factor
    # What is beyond int32 is the least one there, which an unsigned zero leaves below all bytes.
    value = tir.min(value, wide(1 << 16, "float32"))
    if dtype == "int8":
        value = tir.max(value, wide(-1 << 16, "float32"))
    whole = cast(f"int32x{lanes}", tir.round(value)) + wide(zero)
    whole = tir.max(tir.min(whole, wide(max_value(dtype))), wide(min_value(dtype)))
    return cast(f"{dtype}x{lanes}", whole)


# ---------------------------------------------------------------- matrix products


@op("relax.nn.byte_matmul", alone=True)
def byte_matmul(data: Tensor, weight: Tensor):
    """data uint8 (rows, depth), depth a multiple of 4, by weight int8 (panels, depth * width): a matrix of
    depth rows in panels of `width` columns, of four rows their elements side by side. int32 (rows, panels *
    width)."""
    rows, depth = extents_of(data, "data", None, None)
    panels, wide = extents_of(weight, "weight", None, None)
    width = simplify(wide // depth)
    k = te.reduce_axis((const(0, "int64"), simplify(depth // 4)), name="k")
    v = te.reduce_axis((const(0, "int64"), const(4, "int64")), name="v")

    def cell(i, j):
        four = weight(j // width, (k * width + j % width) * 4 + v)
        return te.sum(cast("int32", data(i, k * 4 + v)) * cast("int32", four), axis=[k, v])

    return compute([rows, simplify(panels * width)], cell, "byte_matmul")


@op("relax.nn.byte_matmul_bytes", alone=True)
def byte_matmul_bytes(
    data: Tensor, weight: Tensor, offset: Tensor, factor: Tensor, zero: Tensor, out_dtype: DType
):
    """round((`byte_matmul` + offset) * factor) + zero in `out_dtype`, int8 or uint8, saturated; offset
    (int32) and factor (float32): one for each column."""
    return bytes_again(byte_matmul.body(data, weight), 1, offset, factor, zero, out_dtype)


@byte_matmul_bytes.infer
def _(data, weight, offset, factor, zero, out_dtype):
    return bytes_again_info(_matmul_info(data, weight), 1, offset, factor, zero, out_dtype)


@byte_matmul.infer
def _matmul_info(data, weight):
    check_dtypes(data=(data, "uint8"), weight=(weight, "int8"))
    a, b = data.get_shape(), weight.get_shape()
    if a is None or b is None:
        return TensorStructInfo(dtype="int32", ndim=2)
    check_multiple(a[1], long(4), "axis 1 of data")
    check_multiple(b[1], a[1], "axis 1 of weight")
    return TensorStructInfo([a[0], simplify(b[0] * (b[1] // a[1]))], "int32")


def check_dtypes(**tensors: Any) -> None:
    """Check the dtypes of tensors: name=(struct info, one dtype or several)."""
    for name, (info, *some) in tensors.items():
        if str(info.dtype) not in some:
            what = f"{name} must hold {' or '.join(some)}"
            raise TypeError(explain(what, got=str(info.dtype)))


def check_extent(name, axis, got, wanted):
    if differ(got, wanted := simplify(wanted)):
        raise ValueError(explain(f"axis {axis} of {name} must be {text(wanted)}", got=text(got)))


@byte_matmul.numpy
def _matmul_numpy(data, weight):
    depth, (panels, wide) = data.shape[1], weight.shape
    panel = weight.reshape(panels, depth // 4, wide // depth, 4).transpose(1, 3, 0, 2)
    matrix = panel.reshape(depth, panels * (wide // depth))
    return data.astype(np.int32) @ matrix.astype(np.int32)


@byte_matmul_bytes.numpy
def _(data, weight, offset, factor, zero, out_dtype):
    return bytes_again_numpy(_matmul_numpy(data, weight), 1, offset, factor, zero, out_dtype)


def open_shape(shape: Any) -> list[Any]:
    """A shape with variables of its own for what is not known."""
    return [d if isinstance(d, IntImm) else tir.Var(f"d{k}", "int64") for k, d in enumerate(shape)]


class Dots(NamedTuple):
    """How a processor adds four products of bytes; a tile's sums stay in registers."""

    in_one: bool  # instruction
    lanes: int  # of a vector
    rows: int  # of a tile's sums that are computed together
    vectors: int  # of 16 lanes, in each of these rows; more where rows are fewer
    narrow: bool = False  # pairs of products fit 16 bits

    def __call__(self, total: Any, a: Any, *b: Any) -> Any:
        """total + sums of four products of a (unsigned) and b, vectors of 4, 8 or 16 int32; b: of the bytes,
        or of the first and the second of their pairs in 16 bits (`HALVES`)."""
        count = total.dtype.lanes
        if self.in_one:
            name = f"llvm.x86.avx512.vpdpbusd.{32 * count}"
            return tir.call_llvm_pure_intrin(f"int32x{count}", name, total, a, *b)
        if count > self.lanes:
            return self._in_parts(Dots.__call__, total, a, *b)
        number = lambda v: Broadcast(const(v, "int16"), 2 * count)  # noqa: E731
        of_bytes, of_words = _PAIRS[count]
        if self.narrow:
            a, b = (tir.reinterpret(f"int8x{4 * count}", v) for v in (a, *b))
            pairs = tir.call_llvm_pure_intrin(f"int16x{2 * count}", of_bytes, a, b)
            return total + tir.call_llvm_pure_intrin(f"int32x{count}", of_words, pairs, number(1))
        a, *b = (tir.reinterpret(f"int16x{2 * count}", v) for v in (a, *b))
        if len(b) == 1:
            b = [(b[0] << number(8)) >> number(8), b[0] >> number(8)]
        a = [tir.bitwise_and(v, number(255)) for v in (a, a >> number(8))]
        for pair in zip(a, b, strict=True):
            total = self.of_words(total, *pair)
        return total

    def of_words(self, total: Any, a: Any, b: Any) -> Any:
        """total + sums of two products of 16 bits; a and b: vectors of int32, as these or in int16."""
        count = total.dtype.lanes
        if count > self.lanes:
            return self._in_parts(Dots.of_words, total, a, b)
        pair = [tir.reinterpret(f"int16x{2 * count}", v) for v in (a, b)]
        return total + tir.call_llvm_pure_intrin(f"int32x{count}", _PAIRS[count][1], *pair)

    def _in_parts(self, add: Any, total: Any, *others: Any) -> Any:
        """`add`, of vectors of more lanes than the processor's."""
        starts, given = range(0, total.dtype.lanes, self.lanes), (total, *others)
        parts = [add(self, *(part(v, k, self.lanes) for v in given)) for k in starts]
        return joined(parts)


_PAIRS = {
    4: ("llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.sse2.pmadd.wd"),
    8: ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"),
    16: ("llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"),
}


def joined(vectors: list[Any]) -> Any:
    """Vectors, one behind the other."""
    return Shuffle(vectors, list(range(sum(v.dtype.lanes for v in vectors))))


def part(vector: Any, first: int, lanes: int) -> Any:
    """Some lanes of a vector, or of a number in all of them."""
    if lanes == vector.dtype.lanes:
        return vector
    if isinstance(vector, Broadcast):
        return Broadcast(vector.value, lanes)
    return Shuffle([vector], list(range(first, first + lanes)))


def dots_of(target: Target | None) -> Dots | None:
    """How a target does it, if its processor can."""
    features = target.features if target is not None else ()
    if "avx512vnni" in features:
        return Dots(True, LANES, ROWS, VECTORS)
    if "avx512bw" in features:
        return Dots(False, LANES, ROWS, 2)
    return Dots(False, LANES // 2, ROWS // 2, 1) if "avx2" in features else None


def ramp(start: Any, lanes: int) -> Ramp:
    return Ramp(start, long(1), lanes)


def _tile(
    ib: Any,
    dots: Dots,
    size: tuple[int, int],
    steps: Any,
    vectors: Any,
    fours: Any,
    signed_lanes: bool,
    begin: Any,
    store: Any,
    lanes: int = LANES,
) -> None:
    """dots: also how much of the tile is computed at a time. size: so many rows, each of so many vectors of
    sums. steps(body) makes the loops around `body(k)`; vectors(k, n): the bytes of `lanes` lanes; fours(k, r):
    four bytes of a row, in one int32, or in two (`HALVES`); begin(r, n): what the sums begin with; store(r, n,
    sums) puts them away."""
    rows, count = size
    tall = min(rows, dots.rows)
    wide = min(count, dots.rows * dots.vectors // tall)
    total = ib.allocate("int32", tall * wide * lanes, "total", scope="local")
    at = lambda r, n: ramp(long((r * wide + n) * lanes), lanes)  # noqa: E731

    def together(row: int, some: int, vector: Any, many: int) -> None:
        places = [*itertools.product(range(some), range(many))]
        for r, n in places:
            total[at(r, n)] = begin(row + r, vector + n)

        def step(k: Any) -> None:
            own = [vectors(k, vector + n) for n in range(many)]
            own = [tir.reinterpret(f"int32x{lanes}", v) for v in own]
            for r, n in places:
                four = [Broadcast(part, lanes) for part in fours(k, row + r)]
                pair = (*four, own[n]) if signed_lanes else (own[n], *four)
                total[at(r, n)] = dots(total[at(r, n)], *pair)

        steps(step)
        for r, n in places:
            store(row + r, vector + n, total[at(r, n)])

    for row in range(0, rows, tall):
        some = min(tall, rows - row)
        if count == wide or count % wide:
            for n in range(0, count, wide):
                together(row, some, n, min(wide, count - n))
        else:
            with ib.for_range(long(0), long(count // wide), "part", "int64") as part:
                together(row, some, part * wide, wide)


def bytes_of(call: Any, inputs: int) -> str | None:
    """The dtype of the bytes that the sums become, None where they stay as they are."""
    return str(call.attrs.out_dtype) if len(call.args) > inputs else None


def buffers_of(dtype: str | None, given: dict[str, Any], shape: Any, count: Any) -> list[Any]:
    """Buffers of the inputs (name: shape and dtype), of what `finished` needs, if the sums become bytes
    of `dtype`, and of the output."""
    if dtype is None:
        dtype = "int32"
    else:
        given = given | {"offset": ((count,), "int32"), "factor": ((count,), "float32")}
        given |= {"zero_out": ((), dtype)}
    return [tir.decl_buffer(s, k, n) for n, (s, k) in {**given, "out": (shape, dtype)}.items()]


def begun(tail: Any, at: Any, lanes: int) -> Any:
    """What a vector of sums begins with; at: the channel, or a vector of them."""
    return _of_channel(tail[0], at, lanes) if tail else Broadcast(const(0, "int32"), lanes)


def finished(sums: Any, tail: Any, at: Any, out: Any) -> Any:
    """A vector of sums, begun so, as the output has them."""
    if not tail:
        return sums
    _, factor, zero = tail
    return shrunk(sums, _of_channel(factor, at, sums.dtype.lanes), zero[()], str(out.dtype))


def _of_channel(numbers: Any, at: Any, lanes: int) -> Any:
    return numbers[at] if isinstance(at, Ramp) else Broadcast(numbers[at], lanes)


def _vector_matmul(call: Any) -> Any:
    """The kernel for x86; None where panels are no tiles."""
    data, weight = (a.struct_info.get_shape() for a in call.args[:2])
    rows, depth, panels, wide = map(int_value, (*data, *weight))
    if depth is None or panels is None or wide != depth * _WIDE:
        return None
    dots = dots_of(Target.current(allow_none=True))
    return dots and _matmul_kernel(dots, rows, depth, panels, bytes_of(call, 2))


@lru_cache(maxsize=64)  # models have many products of the same extents
def _matmul_kernel(
    dots: Dots, given: int | None, depth: int, panels: int, dtype: str | None
) -> PrimFunc:
    rows, columns = open_shape([given if given is None else long(given)])[0], long(panels * _WIDE)
    height = min(ROWS, given or ROWS)
    blocks = (rows + height - 1) // height
    inputs = {
        "data": ((rows, long(depth)), "uint8"),
        "weight": ((long(panels), long(depth * _WIDE)), "int8"),
    }
    buffers = buffers_of(dtype, inputs, (rows, columns), columns)
    order = [("block", blocks), ("panel", panels)]
    if given is not None and -(-given // height) <= panels:  # weights are read once, by more tasks
        order.reverse()

    def write(ib, a, b, *rest):
        *tail, out = rest
        with ExitStack() as stack:
            at = {}
            for (name, extent), kind in zip(order, ("parallel", "serial"), strict=True):
                at[name] = stack.enter_context(ib.for_range(long(0), extent, name, "int64", kind))
            first, panel = ib.let("first", at["block"] * height), at["panel"]
            own = [ib.let(f"row{r}", tir.min(first + r, rows - 1)) for r in range(height)]

            def steps(body):
                with ib.for_range(long(0), depth // 4, "k", "int64") as k:
                    body(k)

            def column(n):
                return ramp((panel * VECTORS + n) * LANES, LANES)

            def store(r, n, sums):
                out[own[r], column(n)] = finished(sums, tail, column(n), out)

            _tile(
                ib,
                dots,
                (height, VECTORS),
                steps,
                lambda k, n: b[panel, ramp((k * VECTORS + n) * (4 * LANES), 4 * LANES)],
                lambda k, r: [tir.reinterpret("int32", a[own[r], ramp(k * 4, 4)])],
                True,
                lambda _, n: begun(tail, column(n), LANES),
                store,
            )

    return prim_func(buffers, write)


# ---------------------------------------------------------------- convolutions


@op("relax.nn.byte_places", alone=True)
def byte_places(data: Tensor, zero: Tensor, before: Ints, stride: int, height: int, width: int):
    """uint8 (batch, channels, h, w) as `byte_conv2d` reads it: (batch, channels / 4, stride * stride, height
    * width * 4), with channel 4 * c + v of place (stride * i + a, stride * j + b) at [c, stride * a + b,
    (width * i + j) * 4 + v]; `before`: how much is put before h and w. What lies outside is `zero`, and what
    is of no channel anything."""
    batch, channels, h, w = extents_of(data, "data", None, None, None, None)
    fill = zero() if isinstance(zero, te.Tensor) else zero
    dims = [batch, (channels + 3) // 4, long(stride * stride), long(height * width * 4)]

    def cell(n, c, phase, k):
        row = k // (4 * width) * stride + phase // stride - before[0]
        column = k // 4 % width * stride + phase % stride - before[1]
        inside = tir.all(row >= 0, row < h, column >= 0, column < w)
        channel = tir.min(c * 4 + k % 4, channels - 1)
        return tir.if_then_else(inside, data(n, channel, row, column), fill)

    return compute(dims, cell, "byte_places")


@byte_places.numpy
def _(data, zero, before, stride, height, width):
    batch, channels, h, w = data.shape
    fours = -(-channels // 4)
    data = np.concatenate([data, np.repeat(data[:, -1:], fours * 4 - channels, 1)], 1)
    out = np.full((batch, fours * 4, height * stride, width * stride), zero, np.uint8)
    rows, columns = min(h, height * stride - before[0]), min(w, width * stride - before[1])
    place = out[:, :, before[0] : before[0] + rows, before[1] : before[1] + columns]
    place[...] = data[:, :, :rows, :columns]
    split = out.reshape(batch, fours, 4, height, stride, width, stride)
    split = split.transpose(0, 1, 4, 6, 3, 5, 2)
    return split.reshape(batch, fours, stride * stride, height * width * 4).copy()


def _vector_places(call: Any) -> Any:
    """A kernel of whole vectors; None where an extent is not known or a row too short."""
    data, given = open_shape(call.args[0].struct_info.get_shape()), call.attrs
    if call.args[1].struct_info.ndim or not all(isinstance(d, IntImm) for d in data[1:]):
        return None
    channels, h, w = (d.value for d in data[1:])
    top, left = (int(b) for b in given.before)
    stride, height, width = int(given.stride), int(given.height), int(given.width)
    # Of each phase of the columns the first place and the count of those inside.
    spans = [(max(-(-(left - b) // stride), 0), b) for b in range(stride)]
    spans = [(j, min((w - 1 + left - b) // stride + 1, width) - j, b) for j, b in spans]
    lanes = min([LANES, *(1 << count.bit_length() - 1 for _, count, _ in spans if count > 0)])
    if lanes < 2 or any(count <= 0 for _, count, _ in spans):
        return None
    fours, size = -(-channels // 4), height * width * 4
    dims = (data, (), (data[0], long(fours), long(stride * stride), long(size)))
    names = ("data", "zero", "out")
    buffers = [tir.decl_buffer(s, "uint8", n) for s, n in zip(dims, names, strict=True)]
    order = [v * lanes + k for k in range(lanes) for v in range(4)]
    # As in convolutions, a thread does the same part of each image; see sched/parts.py.
    bands = 1 << min(max(height // 4, 1).bit_length() - 1, 3)

    def write(ib, x, zero, out):
        with ib.for_range(long(0), data[0] * (bands * fours), "task", "int64", "parallel") as task:
            n, c = ib.let("n", task // (bands * fours)), ib.let("c", task % fours)
            band = ib.let("band", task // fours % bands)
            begin = ib.let("begin", band * height // bands)
            end = ib.let("end", (band + 1) * height // bands)
            own = [ib.let(f"channel{v}", tir.min(c * 4 + v, channels - 1)) for v in range(4)]
            outside = ib.let("outside", zero[()])
            for phase in range(stride * stride):
                a, (first, count, b) = phase // stride, spans[phase % stride]
                with ib.for_range(begin, end, "i", "int64") as i:
                    row = ib.let("row", i * stride + a - top)
                    start = ib.let("start", i * (width * 4))
                    for k in range(0, width * 4, 64):
                        some = min(64, width * 4 - k)
                        out[n, c, phase, ramp(start + k, some)] = Broadcast(outside, some)
                    with ib.if_scope(tir.all(row >= 0, row < h)):
                        for j in dict.fromkeys([*range(0, count - lanes, lanes), count - lanes]):
                            column = long((first + j) * stride + b - left)
                            at = Ramp(column, long(stride), lanes)
                            parts = [x[n, own[v], row, at] for v in range(4)]
                            place = ramp(start + (first + j) * 4, 4 * lanes)
                            out[n, c, phase, place] = Shuffle(parts, order)

    return prim_func(buffers, write)


@op("relax.nn.byte_blocks", alone=True)
def byte_blocks(data: Tensor, block: int):
    """uint8 (batch, channels, places) in blocks of places, as `byte_conv2d` reads them for windows of one place:
    (batch, places / block, channels / 4, block * 4), with channel 4 * c + v of place block * b + p at [b, c, 4 * p +
    v]. What is of no channel or place anything."""
    batch, channels, places = extents_of(data, "data", None, None, None)
    if block < 1:
        raise ValueError(explain("block must be 1 or more", got=str(block)))

    def cell(n, b, c, k):
        channel = tir.min(c * 4 + k % 4, channels - 1)
        return data(n, channel, tir.min(b * block + k // 4, places - 1))

    count = simplify((places + block - 1) // block)
    return compute(
        [batch, count, simplify((channels + 3) // 4), long(block * 4)], cell, "byte_blocks"
    )


@byte_blocks.numpy
def _(data, block):
    fill = [(0, 0), (0, -data.shape[1] % 4), (0, -data.shape[2] % block)]
    data = np.pad(data, fill, "edge")
    batch, channels, places = data.shape
    split = data.reshape(batch, channels // 4, 4, places // block, block).transpose(0, 3, 1, 4, 2)
    return split.reshape(batch, places // block, channels // 4, block * 4).copy()


def _vector_blocks(call: Any) -> Any:
    """A kernel of whole vectors; None where an extent is not known or places are few."""
    data, block = open_shape(call.args[0].struct_info.get_shape()), int(call.attrs.block)
    channels, places = int_value(data[1]), int_value(data[2])
    if not channels or not places or places < block:
        return None
    fours, count = -(-channels // 4), -(-places // block)
    out_shape = (data[0], long(count), long(fours), long(block * 4))
    buffers = [tir.decl_buffer(s, "uint8", n) for s, n in ((data, "data"), (out_shape, "out"))]

    def write(ib, x, out):
        with ib.for_range(long(0), data[0] * fours, "task", "int64", "parallel") as task:
            n, c = ib.let("n", task // fours), ib.let("c", task % fours)
            own = [ib.let(f"channel{v}", tir.min(c * 4 + v, channels - 1)) for v in range(4)]

            def move(b, have):
                parts = [x[n, channel, ramp(b * block, have)] for channel in own]
                order = [v * have + min(k, have - 1) for k in range(block) for v in range(4)]
                out[n, b, c, ramp(long(0), block * 4)] = Shuffle(parts, order)

            with ib.for_range(long(0), long(places // block), "b", "int64") as b:
                move(b, block)
            if places % block:
                move(long(places // block), places % block)

    return prim_func(buffers, write)


@op("relax.nn.byte_conv2d", alone=True)
def byte_conv2d(
    data: Tensor,
    weight: Tensor,
    kernel: Ints,
    stride: int,
    dilation: int,
    width: int,
    places: int,
    narrow: bool = False,
    block: int = 0,
):
    """data: what `byte_places` makes of the image; weight int8 (outputs / 8, channels / 4 * window * 8 * 4):
    of eight outputs their bytes for four channels side by side, in the order in which a tile reads them; in
    int16 in the order `HALVES`. int32 (batch, outputs, places): each place is one of the image's rows of
    `width` one after another. narrow: of each pair of int8 weights those of one sign add up to at most 128,
    so that two products fit 16 bits. Where they would not, the rest follows: steps that are done again, for
    each its number in 4 bytes (the last one for any greater), and 32 weights more. block: data is what `byte_blocks` makes of the image,
    of which a window sees one place."""
    batch, first, second, _ = extents_of(data, "data", None, None, None, None)
    fours = second if block else first
    blocks, _ = extents_of(weight, "weight", None, None)
    again, behind = _again(fours, weight.shape, weight.dtype, kernel)

    def byte_at(n, c, phase, p, v):
        if block:
            return data(n, p // block, c, p % block * 4 + v)
        return data(n, c, phase, p * 4 + v)

    axes = [te.reduce_axis((const(0, "int64"), d), name=n) for d, n in (
        (fours, "c"), (long(kernel[0]), "kh"), (long(kernel[1]), "kw"), (long(4), "v"))]  # fmt: skip

    def cell(n, o, p):
        c, kh, kw, v = axes
        phase, shift = _tap(kh, kw, stride, dilation, width)
        byte = byte_at(n, c, phase, p + shift, v)
        tap = (((c * kernel[0] + kh) * kernel[1] + kw) * ROWS + o % ROWS) * 4
        tap += v if weight.dtype == "int8" else v % 2 * 2 + v // 2
        return te.sum(cast("int32", byte) * cast("int32", weight(o // ROWS, tap)), axis=axes)

    shape = [batch, simplify(blocks * ROWS), long(places)]
    total = compute(shape, cell, "byte_conv2d")
    if not again:
        return total
    axes = [
        te.reduce_axis((const(0, "int64"), long(d)), name=n) for d, n in ((again, "e"), (4, "v"))
    ]

    def step(block, e):
        parts = [cast("uint8", weight(block, behind + e * _AGAIN + k)) for k in range(4)]
        number = reduce(add, [cast("int64", p) << long(8 * k) for k, p in enumerate(parts)])
        return tir.min(number, fours * (kernel[0] * kernel[1]) - 1)

    steps = compute([blocks, long(again)], step, "byte_conv2d_steps")

    def more(n, o, p):
        e, v = axes
        at = steps(o // ROWS, e)
        c, kh, kw = at // (kernel[0] * kernel[1]), at // kernel[1] % kernel[0], at % kernel[1]
        phase, shift = _tap(kh, kw, stride, dilation, width)
        tap = weight(o // ROWS, behind + e * _AGAIN + 4 + o % ROWS * 4 + v)
        byte = byte_at(n, c, phase, p + shift, v)
        return te.sum(cast("int32", byte) * cast("int32", tap), axis=axes)

    rest = compute(shape, more, "byte_conv2d_again")
    return compute(shape, lambda *i: total(*i) + rest(*i), "byte_conv2d_sum")


def _again(inputs: Any, weight: Any, dtype: str, kernel: Any) -> tuple[int, int]:
    """How many steps are done again, and where they begin in the weights. Raises ValueError where these do not
    end with one."""
    fours, size = int_value(inputs), int_value(weight[1])
    if fours is None or size is None or dtype != "int8":
        return 0, 0
    behind = fours * kernel[0] * kernel[1] * (ROWS * 4)
    if size < behind or (size - behind) % _AGAIN:
        what = f"axis 1 of weight must be {behind}, or that and a multiple of {_AGAIN}"
        raise ValueError(explain(what, got=str(size)))
    return (size - behind) // _AGAIN, behind


@op("relax.nn.byte_conv2d_bytes", alone=True)
def byte_conv2d_bytes(
    data: Tensor,
    weight: Tensor,
    offset: Tensor,
    factor: Tensor,
    zero: Tensor,
    kernel: Ints,
    stride: int,
    dilation: int,
    width: int,
    places: int,
    out_dtype: DType,
    narrow: bool = False,
    block: int = 0,
):
    """round((`byte_conv2d` + offset) * factor) + zero in `out_dtype`, int8 or uint8, saturated; offset
    (int32) and factor (float32): one for each output channel."""
    total = byte_conv2d.body(data, weight, kernel, stride, dilation, width, places, narrow, block)
    return bytes_again(total, 1, offset, factor, zero, out_dtype)


@byte_conv2d_bytes.infer
def _(
    data,
    weight,
    offset,
    factor,
    zero,
    kernel,
    stride,
    dilation,
    width,
    places,
    out_dtype,
    narrow,
    block,
):
    total = _conv_info(data, weight, kernel, stride, dilation, width, places, narrow, block)
    return bytes_again_info(total, 1, offset, factor, zero, out_dtype)


@byte_conv2d_bytes.numpy
def _(
    data,
    weight,
    offset,
    factor,
    zero,
    kernel,
    stride,
    dilation,
    width,
    places,
    out_dtype,
    narrow,
    block,
):
    total = _conv_numpy(data, weight, kernel, stride, dilation, width, places, narrow, block)
    return bytes_again_numpy(total, 1, offset, factor, zero, out_dtype)


def _tap(kh, kw, stride, dilation, width):
    """Which of the phases a tap of the window reads, and how far from the place."""
    row, column = kh * dilation, kw * dilation
    phase = (row % stride) * stride + column % stride
    return phase, (row // stride) * width + column // stride


@byte_conv2d.infer
def _conv_info(data, weight, kernel, stride, dilation, width, places, narrow, block):
    check_dtypes(data=(data, "uint8"), weight=(weight, "int8", "int16"))
    a, b = data.get_shape(), weight.get_shape()
    if a is None or b is None:
        return TensorStructInfo(dtype="int32", ndim=3)
    fours = a[2] if block else a[1]
    if not any(_again(fours, b, weight.dtype, kernel)):
        check_extent("weight", 1, b[1], fours * (kernel[0] * kernel[1] * ROWS * 4))
    if block:
        check_extent("data", 3, a[3], long(block * 4))
        _check_axes(a, {1: -(-places // block)}, min(block, places))
        if [*kernel, stride] != [1, 1, 1]:
            raise ValueError(explain("blocks are for windows of one place", got=str([*kernel])))
        return TensorStructInfo([a[0], simplify(b[0] * ROWS), places], "int32")
    phase, shift = zip(*(_tap(i, j, stride, dilation, width) for i, j in np.ndindex(*kernel)))
    _check_axes(a, {2: max(phase) + 1, 3: (max(shift) + places) * 4}, min(*shift, places))
    return TensorStructInfo([a[0], simplify(b[0] * ROWS), places], "int32")


def _check_axes(shape: Any, least: dict[int, int], lowest: int) -> None:
    """Check that what is read of axes is within them."""
    if lowest < 0:
        raise ValueError(explain("extents and places are no less than 0", got=str(lowest)))
    for axis, size in least.items():
        if shorter(shape[axis], size):
            what = f"axis {axis} of data must be of at least {size}"
            raise ValueError(explain(what, got=text(shape[axis])))


@byte_conv2d.numpy
def _conv_numpy(data, weight, kernel, stride, dilation, width, places, narrow, block):
    if block:
        data = data.reshape(*data.shape[:3], block, 4).transpose(0, 2, 1, 3, 4)
        data = data.reshape(len(data), data.shape[1], 1, -1)
    batch, fours, _, _ = data.shape
    out = np.zeros((batch, len(weight) * ROWS, places), np.int32)
    again, behind = _again(fours, weight.shape, weight.dtype, kernel)
    for block, e in np.ndindex(len(weight), again):
        own = weight[block, behind + e * _AGAIN :][:_AGAIN]
        number = min(own[:4].copy().view("<u4")[0], fours * kernel[0] * kernel[1] - 1)
        c, kh, kw = np.unravel_index(number, (fours, *kernel))
        phase, shift = _tap(kh, kw, stride, dilation, width)
        part = data[:, c, phase, shift * 4 : (shift + places) * 4].astype(np.int32)
        rows = np.einsum("npv,ov->nop", part.reshape(batch, places, 4), own[4:].reshape(ROWS, 4))
        out[:, block * ROWS : (block + 1) * ROWS] += rows
    weight = weight[:, : behind or None]
    taps = weight.astype(np.int32).reshape(len(weight), fours, *kernel, ROWS, 4)
    taps = np.moveaxis(taps, 4, 1).reshape(-1, fours, *kernel, 4)
    if weight.dtype == np.int16:
        taps = taps[..., HALVES]
    for kh in range(kernel[0]):
        for kw in range(kernel[1]):
            phase, shift = _tap(kh, kw, stride, dilation, width)
            part = data[:, :, phase, shift * 4 : (shift + places) * 4].astype(np.int32)
            part = part.reshape(batch, fours, places, 4)
            out += np.einsum("ncpv,ocv->nop", part, taps[:, :, kh, kw])
    return out


@op("relax.nn.byte_image")
def byte_image(
    data: Tensor,
    channels: int,
    height: int,
    columns: int,
    width: int,
    tile: int = 1,
    apart: int = 0,
):
    """The image (batch, channels, height, columns) in the places of `byte_conv2d`, whose rows are of `width`,
    or in those of `byte_winograd`: first those rows that are the first of `tile` ones, then, `apart` places from
    them, the second ones, ..."""
    (batch, *_) = extents_of(data, "data", None, None, None)
    dims = [batch, long(channels), long(height), long(columns)]

    def cell(n, c, i, j):
        return data(n, c, i % tile * apart + i // tile * width + j)

    return compute(dims, cell, "byte_image", tag="injective")


@byte_image.infer
def _(data, channels, height, columns, width, tile, apart):
    shape, dims = data.get_shape(), [channels, height, columns]
    if tile < 1:
        raise ValueError(explain("tile must be 1 or more", got=str(tile)))
    if shape is None:
        return TensorStructInfo(dtype=data.dtype, ndim=4)
    size = (min(height, tile) - 1) * apart + (-(-height // tile) - 1) * width + columns
    _check_axes(shape, {1: channels, 2: size}, min(*dims, width, apart))
    return TensorStructInfo([shape[0], *map(long, dims)], data.dtype)


@byte_image.numpy
def _(data, channels, height, columns, width, tile, apart):
    rows = np.arange(height)
    rows = rows % tile * apart + rows // tile * width
    places = rows[:, None] + np.arange(columns)
    return np.ascontiguousarray(data[:, :channels, places])


def _spread(places: int, lanes: int) -> tuple[int, int, int]:
    """Places over tiles: (vectors of a tile, how many tiles, how many places are left over, filled up to a
    multiple of the processor's lanes).

    A tile of one vector loads 9 or 10 times for 8 products, where the processor does two of each in a
    cycle: it takes 5 / 4 of the time of a wider tile for each vector.
    """
    cost = lambda some: some * (1.25 if some == 1 else 1)  # noqa: E731
    options = []
    for count in range(VECTORS, 0, -1):
        full = places // (count * LANES)
        rest = -(-(places - full * count * LANES) // lanes) * lanes
        if full:
            whole = full * cost(count) + cost(rest / LANES)
            options.append((whole, -count, (count, full, rest)))
    return min(options)[2]


def tiles_of_tasks(
    ib: Any, stack: ExitStack, batch: Any, blocks: int, tiles: int, heavy: bool
) -> tuple[Any, Any, Any]:
    """Loops over images, blocks of weights and tiles of the image: (n, block, tile). A task is a tile with all
    weights, or, where these are more than the image (heavy), some weights with all tiles: the greater of
    the two is read once."""
    own, parts = (tiles, _FEW) if heavy else (1, _PARTS if tiles < _FEW else 1)
    parts = min(parts, blocks)
    tasks = tiles // own * parts
    loop = lambda *given: stack.enter_context(ib.for_range(long(0), *given))  # noqa: E731
    item = loop(batch * tasks, "task", "int64", "parallel")
    n, part = ib.let("n", item // tasks), item % parts
    begin = ib.let("begin", part * blocks // parts)
    end = ib.let("end", (part + 1) * blocks // parts)
    block = ib.let("block", begin + loop(end - begin, "k", "int64"))
    return n, block, item % tasks // parts * own + loop(long(own), "j", "int64")


def _vector_conv(call: Any) -> Any:
    """The kernel for x86; None where the extents do not fill tiles."""
    data, weight = (open_shape(a.struct_info.get_shape()) for a in call.args[:2])
    given = call.attrs
    kernel = [int(k) for k in given.kernel]
    stride, dilation = int(given.stride), int(given.dilation)
    width, places = int(given.width), int(given.places)
    blocks = int_value(weight[0])
    dtype = str(call.args[1].struct_info.dtype)
    some = 4 if dtype == "int8" else 2  # numbers in the bits of an int32
    dots = dots_of(Target.current(allow_none=True))
    if not (dots and blocks and places >= LANES) or (dots.in_one and some == 2):
        return None
    dots = dots._replace(narrow=bool(given.narrow) and some == 4)
    outputs = long(blocks * ROWS)
    buffers = buffers_of(
        bytes_of(call, 2),
        {"data": (data, "uint8"), "weight": (weight, dtype)},
        (data[0], outputs, long(places)),
        outputs,
    )
    block_size = int(given.block)
    count, tiles, rest = _spread(places, block_size or dots.lanes)
    taps, phases = kernel[0] * kernel[1], stride * stride
    fours = data[2] if block_size else data[1]
    again, behind = _again(fours, weight, dtype, kernel)
    heavy = blocks * ROWS * taps > places * phases

    def write(ib, x, w, *others):
        *tail, out = others
        with ExitStack() as stack:
            n, block, tile = tiles_of_tasks(ib, stack, data[0], blocks, tiles, heavy)

            def sums(start, vectors, lanes=LANES, used=LANES):
                def bytes_at(k, j):
                    if not block_size:
                        return x[n, k[0], k[1], ramp(k[2] + j * 4 * LANES, 4 * lanes)]
                    first = (start + j * LANES) // block_size
                    line = ramp(long(0), 4 * block_size)
                    return joined([x[n, first + b, k[0], line] for b in range(lanes // block_size)])

                def steps(body):
                    with (
                        ib.for_range(long(0), fours, "c", "int64") as c,
                        ib.for_range(long(0), long(kernel[0]), "kh", "int64") as kh,
                        ib.for_range(long(0), long(kernel[1]), "kw", "int64") as kw,
                    ):
                        phase, shift = _tap(kh, kw, stride, dilation, width)
                        first = ib.let("first", (start + shift) * 4)
                        tap = ((c * kernel[0] + kh) * kernel[1] + kw) * (ROWS * 4)
                        tap = ib.let("tap", tap)
                        if heavy:  # of the next block what this step reads of its own
                            ahead = tir.address_of(w[tir.min(block + 1, blocks - 1), tap])
                            ib.emit(tir.call_intrin("void", "tir.prefetch", ahead, 0, 2, 1))
                        body((c, ib.let("phase", phase), first, tap))
                    if not again:
                        return
                    with ib.for_range(long(0), long(again), "e", "int64") as e:
                        own = ib.let("own", e * _AGAIN + behind)
                        step = cast("int64", tir.reinterpret("uint32", w[block, ramp(own, 4)]))
                        step = ib.let("step", tir.min(step, fours * taps - 1))
                        kh, kw = step // kernel[1] % kernel[0], step % kernel[1]
                        phase, shift = _tap(kh, kw, stride, dilation, width)
                        first = ib.let("first", (start + shift) * 4)
                        body((step // taps, ib.let("phase", phase), first, own + 4))

                def store(r, j, sums):
                    row = block * ROWS + r
                    value = part(finished(sums, tail, row, out), 0, used)
                    out[n, row, ramp(start + j * LANES, used)] = value

                _tile(
                    ib,
                    dots,
                    (ROWS, vectors),
                    steps,
                    bytes_at,
                    lambda k, r: [
                        tir.reinterpret("int32", w[block, ramp(k[3] + r * 4 + v, some)])
                        for v in range(0, 4, some)
                    ],
                    False,
                    lambda r, _: begun(tail, block * ROWS + r, lanes),
                    store,
                    lanes,
                )

            sums(ib.let("start", tile * (count * LANES)), count)
            if rest:  # the last tile does them, as they may overlap it
                with ib.if_scope(tile.equal(tiles - 1)):
                    first = tiles * count * LANES if block_size else places - rest
                    last = rest % LANES  # lanes of a vector that is not whole, or not all used
                    if first + rest > places:
                        last = last or LANES
                    if whole := (rest - last) // LANES:
                        sums(long(first), whole)
                    if last:
                        first += whole * LANES
                        sums(long(first), 1, last, min(last, places - first))

    return prim_func(buffers, write)


_KERNELS = {
    byte_blocks: _vector_blocks,
    byte_matmul: _vector_matmul,
    byte_matmul_bytes: _vector_matmul,
    byte_places: _vector_places,
    byte_conv2d: _vector_conv,
    byte_conv2d_bytes: _vector_conv,
}
for _operator, _kernel in _KERNELS.items():
    register_legalize(_operator.name, tir=_kernel, target="llvm")

_RNG = np.random.default_rng(0)


def _bytes(*shape: int, dtype: str = "uint8") -> np.ndarray:
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    return _RNG.integers(low, high, shape).astype(dtype)


byte_matmul.samples(
    case(_bytes(3, 8), _bytes(2, 8 * _WIDE, dtype="int8")),
    case(_bytes(60, 8), _bytes(1, 8 * _WIDE, dtype="int8")),
    case(("n", 4), _bytes(3, 4, dtype="int8"), dtype="uint8", low=0, high=255),
)
byte_places.samples(
    case(_bytes(2, 3, 4, 5), np.uint8(7), before=[1, 1], stride=1, height=7, width=7),
    case(_bytes(1, 5, 6, 5), np.uint8(7), before=[1, 0], stride=2, height=4, width=3),
)


def _with_steps(weight: np.ndarray, *numbers: list[int]) -> np.ndarray:
    """Weights of blocks, and random ones for steps that are done again."""
    steps = np.array(numbers, "<i4")[..., None].view(np.int8)
    more = np.concatenate([steps, _bytes(*steps.shape[:2], 32, dtype="int8")], 2)
    return np.concatenate([weight, more.reshape(len(weight), -1)], 1)


byte_blocks.samples(
    case(_bytes(2, 5, 25), block=8),
    case(_bytes(1, 8, 32), block=16),
)
byte_image.samples(
    case((2, 3, 20), channels=2, height=3, columns=4, width=6),
    case((2, 3, 38), channels=3, height=5, columns=4, width=6, tile=3, apart=14),
)
byte_conv2d.samples(
    case(
        _bytes(2, 2, 1, 80 * 4), _bytes(1, 2 * 9 * 32, dtype="int8"),
        kernel=[3, 3], stride=1, dilation=1, width=7, places=48,
    ),
    case(
        _bytes(1, 1, 4, 80 * 4), _bytes(3, 9 * 32, dtype="int8"),
        kernel=[3, 3], stride=2, dilation=1, width=5, places=20,
    ),
    case(
        _bytes(1, 2, 1, 30 * 4), _bytes(2, 2 * 3 * 32, dtype="int8").astype(np.int16),
        kernel=[1, 3], stride=1, dilation=2, width=26, places=26, narrow=True,
    ),
    case(
        _bytes(2, 5, 3, 32), _with_steps(_bytes(2, 3 * 32, dtype="int8"), [1], [2]),
        kernel=[1, 1], stride=1, dilation=1, width=5, places=35, narrow=False, block=8,
    ),
    case(
        _bytes(1, 2, 4, 80 * 4), _with_steps(_bytes(2, 2 * 9 * 32, dtype="int8"), [0, 17, 5], [9, 9, 99]),
        kernel=[3, 3], stride=2, dilation=1, width=7, places=48, narrow=False,
    ),
)  # fmt: skip

_TAIL = [np.array([5, -3, 0, 9] * 12, np.int32), _RNG.uniform(0.001, 0.1, 48).astype(np.float32)]
byte_matmul_bytes.samples(
    case(_bytes(3, 8), _bytes(1, 8 * _WIDE, dtype="int8"), *_TAIL, np.uint8(3), out_dtype="uint8"),
)
byte_conv2d_bytes.samples(
    case(
        _bytes(2, 2, 1, 80 * 4), _bytes(1, 2 * 9 * 32, dtype="int8"),
        *(t[:8] for t in _TAIL), np.int8(-3),
        kernel=[3, 3], stride=1, dilation=1, width=7, places=50, out_dtype="int8",
    ),
)  # fmt: skip
