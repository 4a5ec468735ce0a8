"""Products of bytes, added in int32: what quantized convolutions and matrix products do.

Four products at a time: with VNNI an instruction does that for 16 lanes. The lanes are places of the
image for a convolution, columns for a matrix product.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.prim_expr import Broadcast, IntImm, Ramp, Shuffle
from ..ir.prim_op import cast, const
from ..ir.target import Target
from ..relax.struct_info import TensorStructInfo
from ..relax.transform.legalize_ops.common import register_legalize
from .common import compute
from .core import case, op
from .extents import check_multiple, differ, extents_of, shorter, simplify, text
from .params import Ints, Tensor
from .statements import long, prim_func

LANES, ROWS, VECTORS = 16, 8, 3  # a tile: rows x vectors of lanes
_WIDE = LANES * VECTORS


def _dots(a, b, k):
    """The sum of the four products a[k, v] * b[k, v]."""
    v = te.reduce_axis((const(0, "int64"), const(4, "int64")), name="v")
    return te.sum(cast("int32", a(k, v)) * cast("int32", b(k, v)), axis=[k, v])


@op("relax.nn.byte_matmul", alone=True)
def byte_matmul(data: Tensor, weight: Tensor):
    """data uint8 (rows, depth), depth a multiple of 4, by weight int8 (depth / 4, columns * 4): of four
    rows of the matrix their elements side by side. int32 (rows, columns)."""
    rows, _ = extents_of(data, "data", None, None)
    fours, wide = extents_of(weight, "weight", None, None)
    k = te.reduce_axis((const(0, "int64"), fours), name="k")
    v = te.reduce_axis((const(0, "int64"), const(4, "int64")), name="v")

    def cell(i, j):
        product = cast("int32", data(i, k * 4 + v)) * cast("int32", weight(k, j * 4 + v))
        return te.sum(product, axis=[k, v])

    return compute([rows, wide // 4], cell, "byte_matmul")


@byte_matmul.infer
def _(data, weight):
    _check_bytes(data, weight)
    a, b = data.get_shape(), weight.get_shape()
    if a is None or b is None:
        return TensorStructInfo(dtype="int32", ndim=2)
    _check_extent("data", 1, a[1], b[0] * 4)
    check_multiple(b[1], long(4), "axis 1 of weight")
    return TensorStructInfo([a[0], b[1] // 4], "int32")


def _check_bytes(data, weight):
    for name, info, dtype in (("data", data, "uint8"), ("weight", weight, "int8")):
        if str(info.dtype) != dtype:
            raise TypeError(explain(f"{name} must hold {dtype}", got=str(info.dtype)))


def _check_extent(name, axis, got, wanted):
    if differ(got, wanted := simplify(wanted)):
        raise ValueError(explain(f"axis {axis} of {name} must be {text(wanted)}", got=text(got)))


@byte_matmul.numpy
def _(data, weight):
    fours, wide = weight.shape
    matrix = weight.reshape(fours, wide // 4, 4).transpose(0, 2, 1).reshape(fours * 4, wide // 4)
    return data.astype(np.int32) @ matrix.astype(np.int32)


def _bound(shape: Any) -> list[Any]:
    """A shape with variables of its own for what is not known."""
    return [d if isinstance(d, IntImm) else tir.Var(f"d{k}", "int64") for k, d in enumerate(shape)]


def _has_dots(target: Target | None) -> bool:
    return target is not None and "avx512vnni" in target.features


def _dot(total: Any, a: Any, b: Any) -> Any:
    """total + 16 sums of four products of a (unsigned) and b, both int32x16."""
    return tir.call_llvm_pure_intrin("int32x16", "llvm.x86.avx512.vpdpbusd.512", total, a, b)


def _ramp(start: Any, lanes: int) -> Ramp:
    return Ramp(start, long(1), lanes)


def _tile(
    ib: Any, steps: Any, vectors: Any, fours: Any, signed_lanes: bool, out: Any, place: Any
) -> None:
    """ROWS x VECTORS sums. steps(body) makes the loops around `body(k)`; vectors(k, n): the bytes of
    16 lanes; fours(k, r): four bytes of a row, as int32; the sums go to out[place(r, n)]."""
    total = ib.allocate("int32", ROWS * _WIDE, "total", scope="local")
    places = [(r, n) for r in range(ROWS) for n in range(VECTORS)]
    at = lambda r, n: _ramp(long((r * VECTORS + n) * LANES), LANES)  # noqa: E731
    for r, n in places:
        total[at(r, n)] = Broadcast(const(0, "int32"), LANES)

    def step(k: Any) -> None:
        lanes = [tir.reinterpret("int32x16", vectors(k, n)) for n in range(VECTORS)]
        for r, n in places:
            row = Broadcast(fours(k, r), LANES)
            pair = (row, lanes[n]) if signed_lanes else (lanes[n], row)
            total[at(r, n)] = _dot(total[at(r, n)], *pair)

    steps(step)
    for r, n in places:
        out[place(r, n)] = total[at(r, n)]


def _vector_matmul(call: Any) -> Any:
    """The kernel for VNNI; None where the extents do not fill tiles of columns."""
    data, weight = (a.struct_info.get_shape() for a in call.args)
    if not _has_dots(Target.current(allow_none=True)):
        return None
    rows, depth = _bound(data)
    wide = weight[1]
    if not isinstance(wide, IntImm) or wide.value % (4 * _WIDE):
        return None
    blocks = (rows + ROWS - 1) // ROWS
    dims = ((rows, depth), weight, (rows, wide // 4))
    kinds = ("uint8", "int8", "int32")
    names = ("data", "weight", "out")
    buffers = [tir.decl_buffer(s, k, n) for s, k, n in zip(dims, kinds, names, strict=True)]

    def write(ib, a, b, out):
        with ib.for_range(long(0), blocks, "block", "int64", "parallel") as block:
            first = ib.let("first", block * ROWS)
            own = [ib.let(f"row{r}", tir.min(first + r, rows - 1)) for r in range(ROWS)]
            with ib.for_range(long(0), wide // (4 * _WIDE), "column", "int64") as column:

                def steps(body):
                    with ib.for_range(long(0), depth // 4, "k", "int64") as k:
                        body(k)

                _tile(
                    ib,
                    steps,
                    lambda k, n: b[k, _ramp((column * VECTORS + n) * (4 * LANES), 4 * LANES)],
                    lambda k, r: tir.reinterpret("int32", a[own[r], _ramp(k * 4, 4)]),
                    True,
                    out,
                    lambda r, n: (own[r], _ramp((column * VECTORS + n) * LANES, LANES)),
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
    data, given = _bound(call.args[0].struct_info.get_shape()), call.attrs
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

    def write(ib, x, zero, out):
        with ib.for_range(long(0), data[0] * fours, "block", "int64", "parallel") as block:
            n, c = ib.let("n", block // fours), ib.let("c", block % fours)
            own = [ib.let(f"channel{v}", tir.min(c * 4 + v, channels - 1)) for v in range(4)]
            outside = ib.let("outside", zero[()])
            for phase in range(stride * stride):
                a, (first, count, b) = phase // stride, spans[phase % stride]
                with ib.for_range(long(0), long(height), "i", "int64") as i:
                    row = ib.let("row", i * stride + a - top)
                    start = ib.let("start", i * (width * 4))
                    for k in range(0, width * 4, 64):
                        some = min(64, width * 4 - k)
                        out[n, c, phase, _ramp(start + k, some)] = Broadcast(outside, some)
                    with ib.if_scope(tir.all(row >= 0, row < h)):
                        for j in dict.fromkeys([*range(0, count - lanes, lanes), count - lanes]):
                            column = long((first + j) * stride + b - left)
                            at = Ramp(column, long(stride), lanes)
                            parts = [x[n, own[v], row, at] for v in range(4)]
                            place = _ramp(start + (first + j) * 4, 4 * lanes)
                            out[n, c, phase, place] = Shuffle(parts, order)

    return prim_func(buffers, write)


@op("relax.nn.byte_conv2d", alone=True)
def byte_conv2d(
    data: Tensor, weight: Tensor, kernel: Ints, stride: int, dilation: int, width: int, places: int
):
    """data: what `byte_places` makes of the image; weight int8 (outputs,
    channels / 4 * window * 4). int32 (batch, outputs, places): each place is one of the image's rows of
    `width` one after another."""
    batch, fours, _, _ = extents_of(data, "data", None, None, None, None)
    outputs, _ = extents_of(weight, "weight", None, None)
    axes = [te.reduce_axis((const(0, "int64"), d), name=n) for d, n in (
        (fours, "c"), (long(kernel[0]), "kh"), (long(kernel[1]), "kw"), (long(4), "v"))]  # fmt: skip

    def cell(n, o, p):
        c, kh, kw, v = axes
        phase, shift = _tap(kh, kw, stride, dilation, width)
        byte = data(n, c, phase, (p + shift) * 4 + v)
        tap = ((c * kernel[0] + kh) * kernel[1] + kw) * 4 + v
        return te.sum(cast("int32", byte) * cast("int32", weight(o, tap)), axis=axes)

    return compute([batch, outputs, long(places)], cell, "byte_conv2d")


def _tap(kh, kw, stride, dilation, width):
    """Which of the phases a tap of the window reads, and how far from the place."""
    row, column = kh * dilation, kw * dilation
    phase = (row % stride) * stride + column % stride
    return phase, (row // stride) * width + column // stride


@byte_conv2d.infer
def _(data, weight, kernel, stride, dilation, width, places):
    _check_bytes(data, weight)
    a, b = data.get_shape(), weight.get_shape()
    if a is None or b is None:
        return TensorStructInfo(dtype="int32", ndim=3)
    phase, shift = zip(*(_tap(i, j, stride, dilation, width) for i, j in np.ndindex(*kernel)))
    _check_extent("weight", 1, b[1], a[1] * (kernel[0] * kernel[1] * 4))
    for axis, least in ((2, max(phase) + 1), (3, (max(shift) + places) * 4)):
        if shorter(a[axis], least):
            what = f"axis {axis} of data must be of at least {least}"
            raise ValueError(explain(what, got=text(a[axis])))
    return TensorStructInfo([a[0], b[0], places], "int32")


@byte_conv2d.numpy
def _(data, weight, kernel, stride, dilation, width, places):
    batch, fours, _, _ = data.shape
    out = np.zeros((batch, len(weight), places), np.int32)
    taps = weight.astype(np.int32).reshape(len(weight), fours, *kernel, 4)
    for kh in range(kernel[0]):
        for kw in range(kernel[1]):
            phase, shift = _tap(kh, kw, stride, dilation, width)
            part = data[:, :, phase, shift * 4 : (shift + places) * 4].astype(np.int32)
            part = part.reshape(batch, fours, places, 4)
            out += np.einsum("ncpv,ocv->nop", part, taps[:, :, kh, kw])
    return out


@op("relax.nn.byte_image")
def byte_image(data: Tensor, channels: int, height: int, columns: int, width: int):
    """The image (batch, channels, height, columns) in the places of `byte_conv2d`, whose rows are of
    `width`."""
    (batch, *_) = extents_of(data, "data", None, None, None)
    dims = [batch, long(channels), long(height), long(columns)]
    return compute(
        dims, lambda n, c, i, j: data(n, c, i * width + j), "byte_image", tag="injective"
    )


@byte_image.numpy
def _(data, channels, height, columns, width):
    places = np.arange(height)[:, None] * width + np.arange(columns)
    return np.ascontiguousarray(data[:, :channels, places])


def _vector_conv(call: Any) -> Any:
    """The kernel for VNNI; None where the extents do not fill tiles."""
    data, weight = (_bound(a.struct_info.get_shape()) for a in call.args)
    given = call.attrs
    kernel, stride, dilation = (
        [int(k) for k in given.kernel],
        int(given.stride),
        int(given.dilation),
    )
    width, places = int(given.width), int(given.places)
    outputs = weight[0]
    known = isinstance(outputs, IntImm) and outputs.value % ROWS == 0
    if not (_has_dots(Target.current(allow_none=True)) and known and places % _WIDE == 0):
        return None
    dims = (data, weight, (data[0], outputs, long(places)))
    kinds, names = ("uint8", "int8", "int32"), ("data", "weight", "out")
    buffers = [tir.decl_buffer(s, k, n) for s, k, n in zip(dims, kinds, names, strict=True)]
    tiles = places // _WIDE

    def write(ib, x, w, out):
        with ib.for_range(long(0), data[0] * tiles, "tile", "int64", "parallel") as tile:
            n = ib.let("n", tile // tiles)
            start = ib.let("start", (tile % tiles) * _WIDE)
            with ib.for_range(long(0), outputs // ROWS, "block", "int64") as block:

                def steps(body):
                    with (
                        ib.for_range(long(0), data[1], "c", "int64") as c,
                        ib.for_range(long(0), long(kernel[0]), "kh", "int64") as kh,
                        ib.for_range(long(0), long(kernel[1]), "kw", "int64") as kw,
                    ):
                        phase, shift = _tap(kh, kw, stride, dilation, width)
                        first = ib.let("first", (start + shift) * 4)
                        tap = ib.let("tap", ((c * kernel[0] + kh) * kernel[1] + kw) * 4)
                        body((c, ib.let("phase", phase), first, tap))

                _tile(
                    ib,
                    steps,
                    lambda k, j: x[n, k[0], k[1], _ramp(k[2] + j * 4 * LANES, 4 * LANES)],
                    lambda k, r: tir.reinterpret("int32", w[block * ROWS + r, _ramp(k[3], 4)]),
                    False,
                    out,
                    lambda r, j: (n, block * ROWS + r, _ramp(start + j * LANES, LANES)),
                )

    return prim_func(buffers, write)


_KERNELS = {byte_matmul: _vector_matmul, byte_places: _vector_places, byte_conv2d: _vector_conv}
for _operator, _kernel in _KERNELS.items():
    register_legalize(_operator.name, tir=_kernel, target="llvm")

_RNG = np.random.default_rng(0)


def _bytes(*shape: int, dtype: str = "uint8") -> np.ndarray:
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    return _RNG.integers(low, high, shape).astype(dtype)


byte_matmul.samples(
    case(_bytes(3, 8), _bytes(2, 4 * _WIDE, dtype="int8")),
    case(("n", 4), _bytes(1, 12, dtype="int8"), dtype="uint8", low=0, high=255),
)
byte_places.samples(
    case(_bytes(2, 3, 4, 5), np.uint8(7), before=[1, 1], stride=1, height=7, width=7),
    case(_bytes(1, 5, 6, 5), np.uint8(7), before=[1, 0], stride=2, height=4, width=3),
)
byte_image.samples(case((2, 3, 20), channels=2, height=3, columns=4, width=6))
byte_conv2d.samples(
    case(
        _bytes(2, 2, 1, 80 * 4), _bytes(8, 2 * 9 * 4, dtype="int8"),
        kernel=[3, 3], stride=1, dilation=1, width=7, places=48,
    ),
    case(
        _bytes(1, 1, 4, 80 * 4), _bytes(3, 9 * 4, dtype="int8"),
        kernel=[3, 3], stride=2, dilation=1, width=5, places=20,
    ),
)  # fmt: skip
