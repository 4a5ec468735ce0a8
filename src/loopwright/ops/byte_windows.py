"""Windows over the rows of one channel, of bytes: depthwise convolutions, pooling.

for each row of results:                                # `_Rows.rolling`
    read the rows that no window has seen; add their products to the sums of all windows that see them
    store the sums of the first window, which is whole; keep the others

A row is read as a vector of 64 bytes at most, of which a shuffle takes for each lane what its window
needs: four adjacent bytes, which are multiplied and added in one instruction, or every other byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.prim_expr import Broadcast, IntImm, PrimExpr, Shuffle
from ..ir.prim_op import cast, const, min_value
from ..ir.target import Target
from ..relax.struct_info import TensorStructInfo
from ..relax.transform.legalize_ops.common import register_legalize
from .common import compute
from .core import case, op
from .extents import extents_of
from .integer import (
    LANES,
    Dots,
    as_bytes,
    begun,
    buffers_of,
    bytes_of,
    check_dtypes,
    check_extent,
    dots_of,
    finished,
    open_shape,
    part,
    ramp,
    random_bytes,
    tail_and_out,
)
from .params import Ints, Tensor
from .statements import long, prim_func

if TYPE_CHECKING:
    from ..relax.expr import Call
    from ..tir.expr import BufferLoad
    from ..tir.ir_builder import BufferVar, IRBuilder

READ = 64  # bytes of a vector
_MOST = 1 << 20  # bytes of a channel within its frame


@op("relax.nn.byte_depthwise", alone=True)
def byte_depthwise(
    data: Tensor,
    zero: Tensor,
    weight: Tensor,
    before: Ints,
    kernel: Ints,
    stride: int,
    height: int,
    width: int,
):
    """The convolution of each channel of data, uint8 (batch, channels, h, w), with a window of its own.
    Pixels outside are `zero`; `before`: the padding before h and w. weight int8 (channels,
    kernel rows * row): the rows of the window, each filled up with 0 to a multiple of 4. int32 (batch,
    channels, height, width)."""
    batch, channels, h, w = extents_of(data, "data", None, None, None, None)
    fill = zero() if isinstance(zero, te.Tensor) else zero
    kh, kw = (
        te.reduce_axis((const(0, "int64"), long(k)), name=n)
        for k, n in zip(kernel, ("kh", "kw"), strict=True)
    )

    def cell(n, c, i, j):
        row, column = i * stride + kh - before[0], j * stride + kw - before[1]
        inside = tir.all(row >= 0, row < h, column >= 0, column < w)
        byte = tir.if_then_else(inside, data(n, c, row, column), fill)
        tap = cast("int32", weight(c, kh * _filled(kernel) + kw))
        return te.sum(cast("int32", byte) * tap, axis=[kh, kw])

    return compute([batch, channels, long(height), long(width)], cell, "byte_depthwise")


def _filled(kernel: Sequence[int]) -> int:
    """The row of a window filled up to a multiple of 4."""
    return -(-int(kernel[1]) // 4) * 4


@byte_depthwise.infer
def _info(data, zero, weight, before, kernel, stride, height, width):
    check_dtypes(data=(data, "uint8"), weight=(weight, "int8"))
    shape, taps = data.get_shape(), weight.get_shape()
    if min(kernel) < 1 or stride < 1:
        raise ValueError(explain("kernel and stride must be 1 or more", got=f"{kernel}, {stride}"))
    if shape is None or taps is None:
        return TensorStructInfo(dtype="int32", ndim=4)
    check_extent("weight", 0, taps[0], shape[1])
    check_extent("weight", 1, taps[1], long(int(kernel[0]) * _filled(kernel)))
    return TensorStructInfo([*shape[:2], height, width], "int32")


@byte_depthwise.numpy
def _numpy(data, zero, weight, before, kernel, stride, height, width):
    batch, channels, h, w = data.shape
    taps = weight.reshape(channels, kernel[0], -1).astype(np.int32)
    size = [(n - 1) * stride + k for n, k in zip((height, width), kernel, strict=True)]
    size = [max(s, b + d) for s, b, d in zip(size, before, (h, w), strict=True)]
    framed = np.full((batch, channels, *size), zero, np.int32)
    framed[:, :, before[0] : before[0] + h, before[1] : before[1] + w] = data
    out = np.zeros((batch, channels, height, width), np.int32)
    for i, j in np.ndindex(*kernel):
        rows = slice(i, i + (height - 1) * stride + 1, stride)
        columns = slice(j, j + (width - 1) * stride + 1, stride)
        out += framed[:, :, rows, columns] * taps[:, i, j, None, None]
    return out


byte_depthwise_bytes = as_bytes(byte_depthwise)


def pieces(count: int, lanes: int) -> list[int]:
    """The starts of vectors of `lanes` that cover `count` pixels; the last may overlap the one before."""
    return list(dict.fromkeys([*range(0, count - lanes, lanes), count - lanes]))


def largest_power(most: int) -> int:
    """The largest power of 2 up to a number of 1 or more."""
    return 1 << most.bit_length() - 1


def framed(
    ib: IRBuilder,
    frame: BufferVar,
    size: int,
    pitch: int,
    row: Callable[..., Any],
    outside: BufferLoad,
    sides: tuple[int, int],
    before: tuple[int, int],
) -> None:
    """Fill a frame of `size` bytes, whose rows are of `pitch`, with a channel, whose pixels are
    `row(i, columns)`, and with `outside` around it."""
    (h, w), (top, left) = sides, before
    with ib.for_range(long(0), long(size // READ), "k", "int64") as k:
        frame[ramp(k * READ, READ)] = Broadcast(outside, READ)
    whole = min(READ, largest_power(w))
    with ib.for_range(long(0), long(h), "i", "int64") as i:
        first = ib.let("first", (i + top) * pitch + left)
        for j in pieces(w, whole):
            frame[ramp(first + j, whole)] = row(i, ramp(long(j), whole))


def _vector_depthwise(call: Call) -> Any:
    """The kernel for x86: a channel is copied into a frame. None where rows are too short."""
    attrs = call.attrs
    data = open_shape(call.args[0].struct_info.get_shape())
    weight = call.args[2].struct_info.get_shape()
    scalar = not call.args[1].struct_info.ndim
    dots = dots_of(Target.current(allow_none=True))
    if not (dots and scalar):
        return None
    if not all(isinstance(d, IntImm) and d.value for d in data[1:]):
        return None
    h, w = (d.value for d in data[2:])
    (top, left), kernel = ([int(v) for v in a] for a in (attrs.before, attrs.kernel))
    stride, height, width = int(attrs.stride), int(attrs.height), int(attrs.width)
    pitch = max(left + w, (width - 1) * stride + kernel[1])
    rows = max(top + h, (height - 1) * stride + kernel[0])
    size = -(-(rows * pitch + 2 * READ) // READ) * READ
    span = (LANES - 1) * stride + 4
    if width < 4 or span > READ or min(top, left) < 0 or size > _MOST:
        return None
    inputs = {"data": (data, "uint8"), "zero": ((), "uint8"), "weight": (weight, "int8")}
    buffers = buffers_of(bytes_of(call, 3), inputs, (*data[:2], long(height), long(width)), data[1])
    lanes = min(LANES, largest_power(width)) if dots.in_one else LANES
    starts = pieces(width, lanes) if width >= lanes else [0]
    # All rows one after another, including the gaps between them, where those are far fewer vectors.
    flat = -(-((height - 1) * pitch + width) // LANES)
    flat = flat if stride == 1 and 0 < flat * 5 < height * len(starts) * 4 else 0

    def write(ib, x, zero, weights, *others):
        tail, out = tail_and_out(ib, others)
        with ib.for_range(long(0), data[0] * data[1], "channel", "int64", "parallel") as item:
            n, c = ib.let("n", item // data[1]), ib.let("c", item % data[1])
            frame = ib.allocate("uint8", size, "frame", scope="local")
            framed(
                ib, frame, size, pitch, lambda i, at: x[n, c, i, at], zero[()], (h, w), (top, left)
            )
            make = _fours if dots.in_one else _pairs
            rows = make(ib, dots, LANES if flat else lanes, stride, kernel, lambda k: weights[c, k])
            first = [begun(tail, c, rows.lanes)] * rows.parts

            def store(i, j, value):
                have = value.dtype.lanes
                some = min(have, largest_power(width))
                for k in pieces(min(have, width), some):
                    out[n, c, i, ramp(long(j + k), some)] = part(value, k, some)

            if not flat:
                for j in starts:
                    start = long(j * stride)
                    with rows.rolling(frame, pitch, start, height, first) as (i, sums):
                        store(i, j, finished(sums, tail, c, out))
                return
            line = ib.allocate(str(out.dtype), flat * LANES, "line", scope="local")
            with ib.for_range(long(0), long(flat), "v", "int64") as v:
                start, total = ib.let("start", v * LANES), first
                for a in range(kernel[0]):
                    total = rows.added(total, rows.seen(frame, start + a * pitch), a)
                line[ramp(start, LANES)] = finished(rows.joined(total), tail, c, out)
            with ib.for_range(long(0), long(height), "i", "int64") as i:
                some = min(READ, largest_power(width))
                for j in pieces(width, some):
                    store(i, j, line[ramp(i * pitch + j, some)])

    return prim_func(buffers, write)


class _Rows(NamedTuple):
    """How the rows of a window are multiplied with those of a channel, and added in `parts` vectors of `lanes`
    sums."""

    ib: Any
    parts: int
    lanes: int
    stride: int
    taps: list[list[Any]]  # of each row of the window, by groups of columns
    seen: Any  # (frame, start) -> of these groups the bytes or words for each part
    dot: Any  # (sums, bytes or words, tap) -> sums
    joined: Any  # (parts) -> the sums in their order

    def added(self, total: list[Any], seen: list[list[Any]], a: int) -> list[Any]:
        """The sums, and those of the window's row `a`."""
        for group, tap in zip(seen, self.taps[a], strict=True):
            total = [
                self.dot(t, v, Broadcast(tap, self.lanes))
                for t, v in zip(total, group, strict=True)
            ]
        return total

    @contextmanager
    def rolling(
        self, frame: BufferVar, pitch: int, start: PrimExpr, height: int, first: Sequence[PrimExpr]
    ) -> Iterator[Any]:
        """A loop over rows of results, whose body gets (number, sums). A row of the channel is read once, for all
        windows that see it, whose partial sums are kept. first: the initial sums."""
        high, stride = len(self.taps), self.stride
        ahead = -(-(high - stride) // stride) if high > stride else 0
        sums = self.ib.allocate(
            "int32", max(ahead, 1) * self.parts * self.lanes, "kept", scope="local"
        )
        at = lambda q, k: ramp(long((q * self.parts + k) * self.lanes), self.lanes)  # noqa: E731

        def read(totals: list[Any], row: PrimExpr | int, own: int) -> None:
            """Add row `row`, which is row `own` of the first of these windows."""
            seen = self.seen(frame, start + row * pitch)
            for q in range(len(totals)):
                if 0 <= own - q * stride < high:
                    totals[q] = self.added(totals[q], seen, own - q * stride)

        def keep(totals: list[Any]) -> None:
            for q, total in enumerate(totals):
                for k, value in enumerate(total):
                    sums[at(q, k)] = value

        before: list[Any] = [first] * ahead
        for row in range(max(high - stride, 0)):
            read(before, row, row)
        keep(before)
        with self.ib.for_range(long(0), long(height), "i", "int64") as i:
            totals = [[sums[at(q, k)] for k in range(self.parts)] for q in range(ahead)] + [first]
            for own in range(max(high - stride, 0), high):
                read(totals, i * stride + own, own)
            totals = [[self.ib.let("sums", v) for v in total] for total in totals]
            keep(totals[1:])
            yield i, self.joined(totals[0])


def _fours(
    ib: IRBuilder,
    dots: Dots,
    lanes: int,
    stride: int,
    kernel: list[int],
    weight: Callable[..., Any],
) -> _Rows:
    """Four products in one instruction."""
    read = largest_power(2 * ((lanes - 1) * stride + 4) - 1)
    order = [k * stride + v for k in range(lanes) for v in range(4)]
    groups = range(0, _filled(kernel), 4)

    def tap(k: int) -> Any:
        return ib.let("tap", tir.reinterpret("int32", weight(ramp(long(k), 4))))

    def seen(frame: BufferVar, start: PrimExpr) -> list[Any]:
        rows = [Shuffle([frame[ramp(start + j, read)]], order) for j in groups]
        return [[ib.let("fours", tir.reinterpret(f"int32x{lanes}", row))] for row in rows]

    taps = [[tap(i * _filled(kernel) + j) for j in groups] for i in range(kernel[0])]
    return _Rows(ib, 1, lanes, stride, taps, seen, dots, lambda parts: parts[0])


def _pairs(
    ib: IRBuilder,
    dots: Dots,
    lanes: int,
    stride: int,
    kernel: list[int],
    weight: Callable[..., Any],
) -> _Rows:
    """Products of 16 bits, of two columns at a time: those of lanes 0 to 3 and 8 to 11, and the others, as
    processors unpack vectors of 32 bytes."""
    groups = [range(j, min(j + 2, kernel[1])) for j in range(0, kernel[1], 2)]
    quarters = [range(k, k + 4) for k in (0, 8, 4, 12)]
    halves = [[v + b for q in quarters[k : k + 2] for v in q for b in (0, lanes)] for k in (0, 2)]
    order_out = [v for q in quarters for v in q]

    def tap(row: int, columns: range) -> Any:
        low, *high = [cast("int32", weight(row * _filled(kernel) + j)) for j in columns]
        low = tir.bitwise_and(low, const(0xFFFF, "int32"))
        return ib.let("taps", tir.bitwise_or(low, high[0] << const(16, "int32")) if high else low)

    def words(frame: BufferVar, first: PrimExpr) -> Any:
        if stride == 2:  # the others are the high bytes
            both = tir.reinterpret(f"int16x{lanes}", frame[ramp(first, 2 * lanes)])
            return tir.bitwise_and(both, Broadcast(const(0xFF, "int16"), lanes))
        read = largest_power(2 * ((lanes - 1) * stride + 1) - 1)
        row = frame[ramp(first, read)]
        if stride > 1:
            row = Shuffle([row], [k * stride for k in range(lanes)])
        return cast(f"int16x{lanes}", row)

    def seen(frame: BufferVar, start: PrimExpr) -> list[Any]:
        out = []
        for columns in groups:
            values = [ib.let("words", words(frame, start + j)) for j in columns]
            both = [Shuffle([values[0], values[-1]], order) for order in halves]
            out.append([ib.let("pairs", tir.reinterpret(f"int32x{lanes // 2}", v)) for v in both])
        return out

    def joined(parts: list[Any]) -> Any:
        return Shuffle(parts, [order_out.index(v) for v in range(lanes)])

    taps = [[tap(i, columns) for columns in groups] for i in range(kernel[0])]
    return _Rows(ib, 2, lanes // 2, stride, taps, seen, dots.of_words, joined)


def _vector_max_pool(call: Call) -> Any:
    """Max pooling of bytes, first over rows. A row outside is replaced by the nearest one inside,
    which the window has, too. None for other layouts, dtypes and sizes."""
    attrs, info = call.attrs, call.args[0].struct_info
    data, out = open_shape(info.get_shape() or ()), call.struct_info.get_shape()
    dtype = str(info.dtype)
    layouts = {str(v) for v in (attrs.layout, attrs.out_layout) if v}
    if dtype not in ("uint8", "int8") or layouts != {"NCHW"} or not data or out is None:
        return None
    if not all(isinstance(d, IntImm) and d.value for d in (*data[1:], *out[1:])):
        return None
    lists = (attrs.pool_size, attrs.strides, attrs.dilation, attrs.padding)
    pool, strides, dilation, (top, left, *_) = ([int(v) for v in a] for a in lists)
    h, w = (d.value for d in data[2:])
    height, width = (d.value for d in out[2:])
    lanes = min(READ // 2, largest_power(width))
    while lanes > 1 and (lanes - 1) * strides[1] >= READ:
        lanes //= 2
    read = largest_power(2 * ((lanes - 1) * strides[1] + 1) - 1)
    span = (width - 1) * strides[1] + (pool[1] - 1) * dilation[1]
    # Every window must have a pixel inside: then the nearest one belongs to it.
    last = [(n - 1) * s - b for n, s, b in zip((height, width), strides, (top, left), strict=True)]
    inside = all(a < d for a, d in zip(last, (h, w), strict=True))
    inside = inside and all(
        (p - 1) * d >= b and d == 1 for p, d, b in zip(pool, dilation, (top, left), strict=True)
    )
    if lanes < 4 or not inside or read > READ:
        return None
    size = -(-(max(left + w, span + 1) + 2 * READ) // READ) * READ
    whole = min(READ, largest_power(w))
    order = [k * strides[1] for k in range(lanes)]
    dims = {"data": data, "out": (*data[:2], *out[2:])}
    buffers = [tir.decl_buffer(s, dtype, n) for n, s in dims.items()]

    def write(ib, x, y):
        with ib.for_range(long(0), data[0] * data[1], "channel", "int64", "parallel") as item:
            n, c = ib.let("n", item // data[1]), ib.let("c", item % data[1])
            line = ib.allocate(dtype, size, "line", scope="local")
            for k in range(0, size, READ):
                line[ramp(long(k), READ)] = Broadcast(min_value(dtype), READ)
            with ib.for_range(long(0), long(height), "i", "int64") as i:
                rows = [
                    ib.let(f"row{a}", tir.max(tir.min(i * strides[0] + a - top, h - 1), long(0)))
                    for a in range(pool[0])
                ]
                for j in pieces(w, whole):
                    at = ramp(long(j), whole)
                    most = x[n, c, rows[0], at]
                    for row in rows[1:]:
                        most = tir.max(most, x[n, c, row, at])
                    line[ramp(long(left + j), whole)] = most
                for j in pieces(width, lanes):
                    parts = [
                        Shuffle([line[ramp(long(j * strides[1] + b), read)]], order)
                        for b in range(pool[1])
                    ]
                    most = parts[0]
                    for part in parts[1:]:
                        most = tir.max(most, part)
                    y[n, c, i, ramp(long(j), lanes)] = most

    return prim_func(buffers, write)


for _operator in (byte_depthwise, byte_depthwise_bytes):
    register_legalize(_operator.name, tir=_vector_depthwise, target="llvm")
register_legalize("relax.nn.max_pool2d", tir=_vector_max_pool, target="llvm")


def _taps(channels: int, rows: int, columns: int) -> np.ndarray:
    taps = random_bytes(channels, rows, columns, dtype="int8")
    return np.pad(taps, [(0, 0), (0, 0), (0, -columns % 4)]).reshape(channels, -1)


_WINDOW = {"before": [1, 1], "kernel": [3, 3], "stride": 1, "height": 6, "width": 9}
_STRIDED = {"before": [0, 1], "kernel": [5, 5], "stride": 2, "height": 4, "width": 19}
byte_depthwise.samples(
    case(random_bytes(2, 3, 6, 9), np.uint8(7), _taps(3, 3, 3), **_WINDOW),
    case(random_bytes(1, 2, 11, 40), np.uint8(7), _taps(2, 5, 5), **_STRIDED),
)
byte_depthwise_bytes.samples(
    case(
        random_bytes(1, 2, 11, 40), np.uint8(7), _taps(2, 5, 5),
        np.array([30, -900], np.int32), np.array([0.00104719, 0.0193649], np.float32), np.int8(-5),
        **_STRIDED, out_dtype="int8",
    ),
)  # fmt: skip
