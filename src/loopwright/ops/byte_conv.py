"""Convolutions of bytes, added in int32: four channels of a pixel are adjacent.

The lanes of a vector are pixels of the image, its rows output channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.literals import int_value
from ..ir.prim_expr import Broadcast, IntImm, PrimExpr, Ramp, Shuffle
from ..ir.prim_op import add, cast, const
from ..relax.struct_info import TensorStructInfo
from ..relax.transform.legalize_ops.common import register_legalize
from .common import compute
from .core import case, op
from .extents import extents_of, shorter, simplify, text
from .integer import (
    HALVES,
    LANES,
    ROWS,
    TAIL,
    VECTORS,
    as_bytes,
    begun,
    buffers_of,
    bytes_of,
    check_dtypes,
    check_extent,
    dots_for,
    finished,
    joined,
    open_shape,
    part,
    ramp,
    random_bytes,
    sums_of_tile,
    tail_and_out,
)
from .params import Ints, Tensor
from .statements import long, prim_func

if TYPE_CHECKING:
    from ..relax.expr import Call
    from ..tir.ir_builder import IRBuilder

_BYTES = ("uint8", "int8")
_AGAIN = 4 + ROWS * 4  # bytes of a step that is done again
_FEW, _PARTS = 16, 4  # tasks; parts of their weights where tiles are fewer


@op("relax.nn.byte_places", alone=True)
def byte_places(
    data: Tensor,
    zero: Tensor,
    before: Ints,
    stride: int,
    height: int,
    width: int,
    signed: bool = False,
):
    """uint8 (batch, channels, h, w) as `byte_conv2d` reads it: (batch, channels / 4, stride * stride, height
    * width * 4), with channel 4 * c + v of pixel (stride * i + a, stride * j + b) at [c, stride * a + b,
    (width * i + j) * 4 + v]; `before`: the padding before h and w. Pixels outside are `zero`; the padding
    of the channels has any value. signed: int8, all 128 less."""
    batch, channels, h, w = extents_of(data, "data", None, None, None, None)
    fill = zero() if isinstance(zero, te.Tensor) else zero
    dims = [batch, (channels + 3) // 4, long(stride * stride), long(height * width * 4)]
    _, as_kind = _kinds(signed)

    def cell(n, c, phase, k):
        row = k // (4 * width) * stride + phase // stride - before[0]
        column = k // 4 % width * stride + phase % stride - before[1]
        inside = tir.all(row >= 0, row < h, column >= 0, column < w)
        channel = tir.min(c * 4 + k % 4, channels - 1)
        return as_kind(tir.if_then_else(inside, data(n, channel, row, column), fill))

    return compute(dims, cell, "byte_places")


def _centered(value: PrimExpr) -> Any:
    """uint8 as int8, 128 less."""
    flip = const(128, "uint8")
    lanes = value.dtype.lanes
    flipped = tir.bitwise_xor(value, flip if lanes == 1 else Broadcast(flip, lanes))
    return tir.reinterpret("int8" if lanes == 1 else f"int8x{lanes}", flipped)


@byte_places.numpy
def _(data, zero, before, stride, height, width, signed):
    batch, channels, h, w = data.shape
    fours = -(-channels // 4)
    data = np.concatenate([data, np.repeat(data[:, -1:], fours * 4 - channels, 1)], 1)
    out = np.full((batch, fours * 4, height * stride, width * stride), zero, np.uint8)
    rows, columns = min(h, height * stride - before[0]), min(w, width * stride - before[1])
    inner = out[:, :, before[0] : before[0] + rows, before[1] : before[1] + columns]
    inner[...] = data[:, :, :rows, :columns]
    split = out.reshape(batch, fours, 4, height, stride, width, stride)
    split = split.transpose(0, 1, 4, 6, 3, 5, 2)
    split = split.reshape(batch, fours, stride * stride, height * width * 4)
    return (split ^ 128).view(np.int8) if signed else split.copy()


def _kinds(signed: bool) -> tuple[str, Any]:
    """The dtype of pixels or blocks, and the function that converts an element of the data to it."""
    return ("int8", _centered) if signed else ("uint8", lambda value: value)


def _vector_places(call: Call) -> Any:
    """A kernel of whole vectors; None where an extent is not known or a row too short."""
    data, attrs = open_shape(call.args[0].struct_info.get_shape()), call.attrs
    if call.args[1].struct_info.ndim or not all(isinstance(d, IntImm) for d in data[1:]):
        return None
    channels, h, w = (d.value for d in data[1:])
    top, left = (int(b) for b in attrs.before)
    stride, height, width = int(attrs.stride), int(attrs.height), int(attrs.width)
    # Of each phase of the columns the first one inside and their count.
    spans = [(max(-(-(left - b) // stride), 0), b) for b in range(stride)]
    spans = [(j, min((w - 1 + left - b) // stride + 1, width) - j, b) for j, b in spans]
    lanes = min([LANES, *(1 << count.bit_length() - 1 for _, count, _ in spans if count > 0)])
    if lanes < 2 or any(count <= 0 for _, count, _ in spans):
        return None
    fours, size = -(-channels // 4), height * width * 4
    dims = (data, (), (data[0], long(fours), long(stride * stride), long(size)))
    kind, as_kind = _kinds(attrs.signed)
    names = {"data": "uint8", "zero": "uint8", "out": kind}
    buffers = [tir.decl_buffer(s, k, n) for s, (n, k) in zip(dims, names.items(), strict=True)]
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
            outside = ib.let("outside", as_kind(zero[()]))
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
                            target = ramp(start + (first + j) * 4, 4 * lanes)
                            out[n, c, phase, target] = as_kind(Shuffle(parts, order))

    return prim_func(buffers, write)


@op("relax.nn.byte_blocks", alone=True)
def byte_blocks(data: Tensor, block: int, signed: bool = False):
    """uint8 (batch, channels, pixels) in blocks of pixels, as `byte_conv2d` reads them for windows of one pixel:
    (batch, pixels / block, channels / 4, block * 4), with channel 4 * c + v of pixel block * b + p at [b, c, 4 * p +
    v]. The padding of channels and pixels has any value. signed: int8, all 128 less."""
    batch, channels, pixels = extents_of(data, "data", None, None, None)
    if block < 1:
        raise ValueError(explain("block must be 1 or more", got=str(block)))
    _, as_kind = _kinds(signed)

    def cell(n, b, c, k):
        channel = tir.min(c * 4 + k % 4, channels - 1)
        return as_kind(data(n, channel, tir.min(b * block + k // 4, pixels - 1)))

    count = simplify((pixels + block - 1) // block)
    return compute(
        [batch, count, simplify((channels + 3) // 4), long(block * 4)], cell, "byte_blocks"
    )


@byte_blocks.numpy
def _(data, block, signed):
    fill = [(0, 0), (0, -data.shape[1] % 4), (0, -data.shape[2] % block)]
    data = np.pad(data, fill, "edge")
    batch, channels, pixels = data.shape
    split = data.reshape(batch, channels // 4, 4, pixels // block, block).transpose(0, 3, 1, 4, 2)
    split = split.reshape(batch, pixels // block, channels // 4, block * 4)
    return (split ^ 128).view(np.int8) if signed else split.copy()


def _vector_blocks(call: Call) -> Any:
    """A kernel of whole vectors; None where an extent is not known or there are few pixels."""
    data, block = open_shape(call.args[0].struct_info.get_shape()), int(call.attrs.block)
    channels, pixels = int_value(data[1]), int_value(data[2])
    if not channels or not pixels or pixels < block:
        return None
    fours, count = -(-channels // 4), -(-pixels // block)
    out_shape = (data[0], long(count), long(fours), long(block * 4))
    kind, as_kind = _kinds(call.attrs.signed)
    buffers = [tir.decl_buffer(data, "uint8", "data"), tir.decl_buffer(out_shape, kind, "out")]

    def write(ib, x, out):
        with ib.for_range(long(0), data[0] * fours, "task", "int64", "parallel") as task:
            n, c = ib.let("n", task // fours), ib.let("c", task % fours)
            own = [ib.let(f"channel{v}", tir.min(c * 4 + v, channels - 1)) for v in range(4)]

            def move(b, have):
                parts = [x[n, channel, ramp(b * block, have)] for channel in own]
                order = [v * have + min(k, have - 1) for k in range(block) for v in range(4)]
                out[n, b, c, ramp(long(0), block * 4)] = as_kind(Shuffle(parts, order))

            with ib.for_range(long(0), long(pixels // block), "b", "int64") as b:
                move(b, block)
            if pixels % block:
                move(long(pixels // block), pixels % block)

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
    """data: the result of `byte_places`; weight int8 (outputs / 8, channels / 4 * window * 8 * 4):
    of eight outputs their bytes for four adjacent channels, in the order in which a tile reads them; in
    int16 in the order `HALVES`. int32 (batch, outputs, places): the pixels of the image, whose rows of
    `width` follow one another. narrow: two products fit 16 bits: no weight is -128 if data are int8, and if they are
    uint8, of each pair of int8 weights those of one sign add up to at most 128. Where they would not, the rest follows: steps that are done again, for
    each its number in 4 bytes (the last one for any greater), and 32 weights more. block: data is the result of `byte_blocks`,
    of which a window reads one pixel."""
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


def _again(
    inputs: PrimExpr | int, weight: Sequence[PrimExpr | int], dtype: str, kernel: Sequence[int]
) -> tuple[int, int]:
    """The number of repeated steps, and where they begin in the weights. Raises ValueError where these do not
    end with one."""
    fours, size = int_value(inputs), int_value(weight[1])
    if fours is None or size is None or dtype != "int8":
        return 0, 0
    behind = fours * kernel[0] * kernel[1] * (ROWS * 4)
    if size < behind or (size - behind) % _AGAIN:
        what = f"axis 1 of weight must be {behind}, or that and a multiple of {_AGAIN}"
        raise ValueError(explain(what, got=str(size)))
    return (size - behind) // _AGAIN, behind


def _tap(kh, kw, stride, dilation, width):
    """The phase that a tap of the window reads, and its distance from the pixel."""
    row, column = kh * dilation, kw * dilation
    phase = (row % stride) * stride + column % stride
    return phase, (row // stride) * width + column // stride


@byte_conv2d.infer
def _conv_info(data, weight, kernel, stride, dilation, width, places, narrow, block):
    check_dtypes(data=(data, *_BYTES), weight=(weight, "int8", "int16"))
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
            raise ValueError(explain("blocks are for windows of one pixel", got=str([*kernel])))
        return TensorStructInfo([a[0], simplify(b[0] * ROWS), places], "int32")
    phase, shift = zip(*(_tap(i, j, stride, dilation, width) for i, j in np.ndindex(*kernel)))
    _check_axes(a, {2: max(phase) + 1, 3: (max(shift) + places) * 4}, min(*shift, places))
    return TensorStructInfo([a[0], simplify(b[0] * ROWS), places], "int32")


def _check_axes(shape: Sequence[PrimExpr], least: dict[int, int], lowest: int) -> None:
    """Check that the elements read of each axis are within it."""
    if lowest < 0:
        raise ValueError(explain("extents and places must be 0 or more", got=str(lowest)))
    for axis, size in least.items():
        if shorter(shape[axis], size):
            what = f"axis {axis} of data must be of at least {size}"
            raise ValueError(explain(what, got=text(shape[axis])))


@byte_conv2d.numpy
def _conv_numpy(data, weight, kernel, stride, dilation, width, places, narrow, block):
    if block:
        data = data.reshape(*data.shape[:3], block, 4).transpose(0, 2, 1, 3, 4)
        data = data.reshape(*data.shape[:2], 1, data.shape[2] * block * 4)
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


byte_conv2d_bytes = as_bytes(byte_conv2d)


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
    """The image (batch, channels, height, columns) as `byte_conv2d` computes it, in rows of `width` pixels,
    or as `byte_winograd` does: first the rows that are the first of `tile` ones, then, `apart` pixels after
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
    pixels = rows[:, None] + np.arange(columns)
    return np.ascontiguousarray(data[:, :channels, pixels])


def _spread(pixels: int, lanes: int) -> tuple[int, int, int]:
    """Pixels over tiles: (vectors of a tile, number of tiles, number of pixels left over, rounded up to a
    multiple of the processor's lanes).

    A tile of one vector loads 9 or 10 times for 8 products, where the processor does two of each in a
    cycle: it takes 5 / 4 of the time of a wider tile for each vector.
    """
    cost = lambda some: some * (1.25 if some == 1 else 1)  # noqa: E731
    options = []
    for count in range(VECTORS, 0, -1):
        full = pixels // (count * LANES)
        rest = -(-(pixels - full * count * LANES) // lanes) * lanes
        if full:
            whole = full * cost(count) + cost(rest / LANES)
            options.append((whole, -count, (count, full, rest)))
    return min(options)[2]


def tiles_of_tasks(
    ib: IRBuilder, stack: ExitStack, batch: PrimExpr, blocks: int, tiles: int, heavy: bool
) -> tuple[Any, Any, Any]:
    """Loops over images, blocks of weights and tiles of the image: (n, block, tile). A task is a tile with all
    weights, or, where these are more than the image (heavy), some weights with all tiles: the greater of
    the two is read once."""
    own, parts = (tiles, _FEW) if heavy else (1, _PARTS if tiles < _FEW else 1)
    parts = min(parts, blocks)
    tasks = tiles // own * parts
    loop = lambda *args: stack.enter_context(ib.for_range(long(0), *args))  # noqa: E731
    item = loop(batch * tasks, "task", "int64", "parallel")
    n, part = ib.let("n", item // tasks), item % parts
    begin = ib.let("begin", part * blocks // parts)
    end = ib.let("end", (part + 1) * blocks // parts)
    block = ib.let("block", begin + loop(end - begin, "k", "int64"))
    return n, block, item % tasks // parts * own + loop(long(own), "j", "int64")


def _vector_conv(call: Call) -> Any:
    """The kernel for x86; None where the extents do not fill tiles."""
    data, weight = (open_shape(a.struct_info.get_shape()) for a in call.args[:2])
    attrs = call.attrs
    kernel = [int(k) for k in attrs.kernel]
    stride, dilation = int(attrs.stride), int(attrs.dilation)
    width, pixels = int(attrs.width), int(attrs.places)
    blocks = int_value(weight[0])
    of_data, dtype = (str(a.struct_info.dtype) for a in call.args[:2])
    some = 4 if dtype == "int8" else 2  # numbers in the bits of an int32
    dots = dots_for(of_data, bool(attrs.narrow) and some == 4)
    if not (dots and blocks and pixels >= LANES) or (dots.in_one and some == 2):
        return None
    outputs = long(blocks * ROWS)
    buffers = buffers_of(
        bytes_of(call, 2),
        {"data": (data, of_data), "weight": (weight, dtype)},
        (data[0], outputs, long(pixels)),
        outputs,
    )
    block_size = int(attrs.block)
    count, tiles, rest = _spread(pixels, block_size or dots.lanes)
    taps, phases = kernel[0] * kernel[1], stride * stride
    fours = data[2] if block_size else data[1]
    again, behind = _again(fours, weight, dtype, kernel)
    heavy = blocks * ROWS * taps > pixels * phases

    def write(ib, x, w, *others):
        tail, out = tail_and_out(ib, others)
        with ExitStack() as stack:
            n, block, tile = tiles_of_tasks(ib, stack, data[0], blocks, tiles, heavy)

            def sums(start, vectors, lanes=LANES, used=LANES):
                def bytes_at(k, j):
                    if not block_size:
                        return x[n, k[0], k[1], ramp(k[2] + j * 4 * LANES, 4 * lanes)]
                    first = (start + j * LANES) // block_size
                    line = ramp(long(0), 4 * block_size)
                    return joined([x[n, first + b, k[0], line] for b in range(lanes // block_size)])

                def one(body, c, kh, kw, line):
                    phase, shift = _tap(kh, kw, stride, dilation, width)
                    first = ib.let("first", (start + shift) * 4)
                    tap = ((c * kernel[0] + kh) * kernel[1] + kw) * (ROWS * 4)
                    tap = ib.let("tap", tap)
                    if heavy and line:  # the part of the next block that this step reads of its own
                        ahead = tir.address_of(w[tir.min(block + 1, blocks - 1), tap])
                        ib.emit(tir.call_intrin("void", "tir.prefetch", ahead, 0, 2, 1))
                    body((c, ib.let("phase", phase), first, tap))

                def steps(body):
                    depth = int_value(fours) if taps == 1 else None
                    if depth:  # two at a time
                        with ib.for_range(long(0), long(depth // 2), "c", "int64") as c:
                            for k in range(2):
                                one(body, c * 2 + k, 0, 0, k == 0 or some == 2)
                        if depth % 2:
                            one(body, long(depth - 1), 0, 0, True)
                    else:
                        with (
                            ib.for_range(long(0), fours, "c", "int64") as c,
                            ib.for_range(long(0), long(kernel[0]), "kh", "int64") as kh,
                            ib.for_range(long(0), long(kernel[1]), "kw", "int64") as kw,
                        ):
                            one(body, c, kh, kw, True)
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

                sums_of_tile(
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
                    first = tiles * count * LANES if block_size else pixels - rest
                    last = rest % LANES  # lanes of a vector that is not whole, or not all used
                    if first + rest > pixels:
                        last = last or LANES
                    if whole := (rest - last) // LANES:
                        sums(long(first), whole)
                    if last:
                        first += whole * LANES
                        sums(long(first), 1, last, min(last, pixels - first))

    return prim_func(buffers, write)


_KERNELS = {
    byte_places: _vector_places,
    byte_blocks: _vector_blocks,
    byte_conv2d: _vector_conv,
    byte_conv2d_bytes: _vector_conv,
}
for _operator, _kernel in _KERNELS.items():
    register_legalize(_operator.name, tir=_kernel, target="llvm")

byte_places.samples(
    case(random_bytes(2, 3, 4, 5), np.uint8(7), before=[1, 1], stride=1, height=7, width=7),
    case(random_bytes(1, 5, 6, 5), np.uint8(7), before=[1, 0], stride=2, height=4, width=3),
    case(
        random_bytes(1, 3, 5, 9),
        np.uint8(9),
        before=[1, 0],
        stride=1,
        height=6,
        width=9,
        signed=True,
    ),
)


def _with_steps(weight: np.ndarray, *numbers: list[int]) -> np.ndarray:
    """Weights of blocks, and random ones for steps that are done again."""
    steps = np.array(numbers, "<i4")[..., None].view(np.int8)
    more = np.concatenate([steps, random_bytes(*steps.shape[:2], 32, dtype="int8")], 2)
    return np.concatenate([weight, more.reshape(len(weight), -1)], 1)


byte_blocks.samples(
    case(random_bytes(2, 5, 25), block=8),
    case(random_bytes(1, 8, 32), block=16),
    case(random_bytes(1, 7, 18), block=8, signed=True),
)
byte_image.samples(
    case((2, 3, 20), channels=2, height=3, columns=4, width=6),
    case((2, 3, 38), channels=3, height=5, columns=4, width=6, tile=3, apart=14),
)
byte_conv2d.samples(
    case(
        random_bytes(2, 2, 1, 80 * 4), random_bytes(1, 2 * 9 * 32, dtype="int8"),
        kernel=[3, 3], stride=1, dilation=1, width=7, places=48,
    ),
    case(
        random_bytes(1, 1, 4, 80 * 4), random_bytes(3, 9 * 32, dtype="int8"),
        kernel=[3, 3], stride=2, dilation=1, width=5, places=20,
    ),
    case(
        random_bytes(1, 2, 1, 30 * 4), random_bytes(2, 2 * 3 * 32, dtype="int8").astype(np.int16),
        kernel=[1, 3], stride=1, dilation=2, width=26, places=26, narrow=True,
    ),
    case(
        random_bytes(2, 5, 3, 32), _with_steps(random_bytes(2, 3 * 32, dtype="int8"), [1], [2]),
        kernel=[1, 1], stride=1, dilation=1, width=5, places=35, narrow=False, block=8,
    ),
    case(
        random_bytes(1, 5, 3, 32, dtype="int8"), random_bytes(2, 3 * 32, dtype="int8").clip(-127),
        kernel=[1, 1], stride=1, dilation=1, width=5, places=35, narrow=True, block=8,
    ),
    case(
        random_bytes(1, 2, 4, 80 * 4), _with_steps(random_bytes(2, 2 * 9 * 32, dtype="int8"), [0, 17, 5], [9, 9, 99]),
        kernel=[3, 3], stride=2, dilation=1, width=7, places=48, narrow=False,
    ),
)  # fmt: skip

byte_conv2d_bytes.samples(
    case(
        random_bytes(2, 2, 1, 80 * 4), random_bytes(1, 2 * 9 * 32, dtype="int8"),
        *(t[:8] for t in TAIL), np.int8(-3),
        kernel=[3, 3], stride=1, dilation=1, width=7, places=50, out_dtype="int8",
    ),
)  # fmt: skip
