"""Signals: Fourier transforms, frames, windows and mel filters."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

import numpy as np

from .. import relax, te, tir
from ..base.errors import explain
from ..ir.dtype import numpy_dtype
from ..ir.prim_expr import IntImm, PrimExpr
from ..ir.prim_op import cast, const, floordiv, floormod
from ..relax.expr import ShapeExpr
from ..relax.struct_info import TensorStructInfo
from ..runtime.vm import dynamic_sizes
from .common import compute, normalize_axis, rounded, widened
from .core import case, op
from .extents import shorter, simplify, text
from .params import DType, Shape, Tensor

_MOST_TURNS = 1 << 21  # elements of a matrix by which a transform is a product


def _length(length: Sequence[PrimExpr]) -> Any:
    (extent,) = length
    return extent


def _bins(length: PrimExpr, onesided: bool) -> Any:
    """The number of frequencies."""
    return simplify(floordiv(length, 2) + 1) if onesided else length


def _checked(data: Any, axis: int, inverse: bool, onesided: bool) -> int:
    parts = getattr(data.shape[-1], "value", None)
    if data.ndim < 2 or parts not in (1, 2):
        what = "the last axis holds real parts, or real and imaginary ones"
        raise ValueError(explain(what, got=f"an extent of {data.shape[-1]}"))
    which = normalize_axis(axis, data.ndim)
    if which == data.ndim - 1:
        raise ValueError(explain("the transform is not along the last axis", got=axis))
    if onesided and inverse != (parts == 2):
        what = "onesided is for real data, or with inverse for complex ones"
        raise ValueError(explain(what, got=f"{parts} parts"))
    return which


@op("relax.signal.dft")
def dft(data: Tensor, length: Shape, axis: int = -2, inverse: bool = False, onesided: bool = False):
    """The discrete Fourier transform along `axis` of data that are cut or filled with zeros to `length`;
    the last axis holds the real part, or it and the imaginary one. onesided: of real data the first
    length // 2 + 1 frequencies; with `inverse`, the real data of such."""
    which = _checked(data, axis, inverse, onesided)
    n, have, wide = _length(length), data.shape[which], "float64"  # large terms cancel
    parts = data.shape[-1].value
    real = onesided and inverse

    def turn(i):
        angle = cast("float64", i) * const(2 * pi, "float64") / cast("float64", n)
        return tir.cos(angle), tir.sin(angle)

    cosines = te.compute((n,), lambda i: turn(i)[0], name="cosines")
    sines = te.compute((n,), lambda i: turn(i)[1], name="sines")
    terms = simplify(tir.min(have, _bins(n, real)))
    k = te.reduce_axis((const(0, "int64"), terms), name="k")

    def total(*i):
        phase = floormod(i[which] * k, n)
        read = lambda part: cast(wide, data(*i[:which], k, *i[which + 1 : -1], part))  # noqa: E731
        cos, sin = cosines(phase), sines(phase) if inverse else -sines(phase)
        value, imaginary = read(0) * cos, read(0) * sin
        if parts == 2:
            value, imaginary = value - read(1) * sin, imaginary + read(1) * cos
        if real:  # the other half are conjugates
            single = tir.Or(k.var.equal(0), (k.var * 2).equal(n))
            value = tir.Select(single, value, value * 2)
        return te.sum(tir.Select(i[-1].equal(0), value, imaginary), axis=k)

    shape = list(data.shape)
    shape[which] = n if inverse else _bins(n, onesided)
    shape[-1] = const(1 if real else 2, "int64")
    summed = compute(shape, total, "dft_sum")
    if inverse:
        whole = cast(wide, n)
        summed = compute(shape, lambda *i: summed(*i) / whole, "dft", tag="elemwise")
    return rounded(summed, data.dtype)


@dft.infer
def _(data: TensorStructInfo, length, axis=-2, inverse=False, onesided=False):
    shape = data.get_shape()
    if shape is None or length.values is None:
        return TensorStructInfo(dtype=data.dtype, ndim=data.ndim)
    which = _checked(data, axis, inverse, onesided)
    dims: list[Any] = list(shape)
    (n,) = length.values
    dims[which] = n if inverse else _bins(n, onesided)
    dims[-1] = 1 if inverse and onesided else 2
    return TensorStructInfo(dims, data.dtype)


def _matrix(rows: int, n: int, parts: int, inverse: bool, onesided: bool) -> np.ndarray:
    """The transform of `rows` elements as a matrix: (rows * parts, frequencies * parts of them)."""
    bins, real = n // 2 + 1 if onesided and not inverse else n, onesided and inverse
    phases = np.outer(np.arange(rows), np.arange(bins)) % n
    angle = phases * (2 * pi / n) * (1 if inverse else -1)
    cos, sin = np.cos(angle), np.sin(angle)
    whole = np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], 1)[:, :parts]
    if real:
        single = [k == 0 or 2 * k == n for k in range(rows)]
        whole = whole[..., :1] * np.where(single, 1, 2)[:, None, None, None]
    whole = whole / n if inverse else whole
    return whole.reshape(rows * parts, -1)


@dft.legalize
def _(bb, call):
    """As a product with a matrix, where it is not too large; else by the body."""
    data, length = call.args
    attrs = dft.attrs_of(call)
    shape, sizes = data.struct_info.get_shape(), length.struct_info.values
    which = normalize_axis(attrs["axis"], data.struct_info.ndim)
    if shape is None or sizes is None or not isinstance(sizes[0], IntImm):
        return dft._legalize(bb, call)
    n, have, parts = sizes[0].value, shape[which], shape[-1].value
    real = attrs["onesided"] and attrs["inverse"]
    rows = min(have.value, n // 2 + 1 if real else n) if isinstance(have, IntImm) else None
    if not rows or rows * n * parts * 2 > _MOST_TURNS:
        return dft._legalize(bb, call)
    rank = len(shape)
    order = [a for a in range(rank) if a not in (which, rank - 1)] + [which, rank - 1]
    x = data
    if rows < have.value:
        x = bb.emit(relax.op.strided_slice(x, [which], [0], [rows], assume_inbound=True))
    x = x if order == list(range(rank)) else bb.emit(relax.op.permute_dims(x, order))
    lead = [shape[a] for a in order[:-2]]
    x = bb.emit(relax.op.reshape(x, ShapeExpr([*lead, rows * parts])))
    x = bb.emit(relax.op.astype(x, "float64"))
    matrix = _matrix(rows, n, parts, attrs["inverse"], attrs["onesided"])
    out = bb.emit(relax.op.matmul(x, relax.const(matrix, "float64")))
    out = bb.emit(relax.op.astype(out, str(data.struct_info.dtype)))
    result = call.struct_info.get_shape()
    out = bb.emit(relax.op.reshape(out, ShapeExpr([*lead, result[which], result[-1]])))
    if order == list(range(rank)):
        return out
    return relax.op.permute_dims(out, [order.index(a) for a in range(rank)])


@dft.numpy
def _(data, length, axis=-2, inverse=False, onesided=False):
    (n,), which = length, normalize_axis(axis, data.ndim)
    x = widened(data).astype(np.float64)
    x = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    if onesided and inverse:
        out = np.fft.irfft(x, n, which)[..., None]
    elif onesided:
        spectrum = np.fft.rfft(x.real, n, which)
        out = np.stack([spectrum.real, spectrum.imag], -1)
    else:
        spectrum = (np.fft.ifft if inverse else np.fft.fft)(x, n, which)
        out = np.stack([spectrum.real, spectrum.imag], -1)
    return out.astype(data.dtype)


dft.samples(
    case((2, 5, 1), [5]),
    case((2, 6, 3, 2), [8], axis=1),
    case((2, 6, 3, 2), [4], axis=1, inverse=True),
    case((2, 7, 1), [7], onesided=True),
    case((2, 4, 2), [6], inverse=True, onesided=True),
    case((2, 4, 2), [7], inverse=True, onesided=True),
    case(("n", "m", 2), ["m"]),
    case(("n", "m", 1), ["m"], onesided=True, dtype="float64"),
)


@op("relax.signal.frame")
def frame(data: Tensor, size: Shape):
    """Pieces of data (batch, length, parts) that may overlap: (batch, pieces, size[0], parts), the first
    elements of adjacent pieces size[1] apart."""
    length, step = size
    if shorter(data.shape[1], simplify(length - step)):  # then the number of pieces is negative
        what = "the data must be as long as a piece, less its distance to the next"
        raise ValueError(
            explain(what, got=f"{text(data.shape[1])} for {text(length)} and {text(step)}")
        )

    def cell(b, f, i, part):
        return data(b, f * step + i, part)

    count = simplify(floordiv(data.shape[1] - length, step) + 1)
    shape = (data.shape[0], count, length, data.shape[2])
    return compute(shape, cell, "frame", tag="injective")


@frame.numpy
def _(data, size):
    length, step = size
    starts = np.arange(0, data.shape[1] - length + 1, step)
    return data[:, starts[:, None] + np.arange(length)]


frame.samples(case((2, 9, 1), [4, 2]), case(("n", "m", 2), [3, 1]))


@op("relax.signal.cosine_window")
def cosine_window(size: Shape, coefficients: Any, periodic: bool = True, dtype: DType = "float32"):
    """The sum of coefficients[k] * (-1)**k * cos(2 pi k i / n) for each of `size` elements i; n is the
    size, or without `periodic` one less. Hann: (0.5, 0.5); Blackman: (0.42, 0.5, 0.08)."""
    (n,) = size
    last = tir.max(n if periodic else n - 1, const(1, "int64"))

    def element(i):
        step = cast("float64", i) * const(2 * pi, "float64") / cast("float64", last)
        total: Any = const(float(coefficients[0]), "float64")
        for k, factor in enumerate(coefficients[1:], 1):
            factor = const(float(factor) * (-1) ** k, "float64")
            total = total + factor * tir.cos(step * const(float(k), "float64"))
        return cast(dtype, total)

    return compute((n,), element, "cosine_window", tag="injective")


@cosine_window.numpy
def _(size, coefficients, periodic=True, dtype="float32"):
    (n,) = size
    step = np.arange(n) * (2 * pi / max(n if periodic else n - 1, 1))
    terms = [float(c) * (-1) ** k * np.cos(k * step) for k, c in enumerate(coefficients)]
    return np.sum(terms, 0).astype(numpy_dtype(dtype))


cosine_window.samples(
    case([9], coefficients=[0.5, 0.5]),
    case([8], coefficients=[0.42, 0.5, 0.08], periodic=False, dtype="float64"),
)


@op("relax.signal.mel_weight_matrix")
def mel_weight_matrix(
    bins: Tensor, length: Tensor, rate: Tensor, low: Tensor, high: Tensor, dtype: DType = "float32"
):
    """The matrix (length // 2 + 1, bins) that makes of a spectrum of transforms of `length` the energies
    of triangular filters evenly spaced on the mel scale between the frequencies low and high (Hz).
    All are scalars; rate: samples per second."""


@mel_weight_matrix.infer
def _(bins, length, rate, low, high, dtype="float32"):
    return TensorStructInfo(dtype=dtype, ndim=2)


mel_weight_matrix.numpy(dynamic_sizes.mel_weight_matrix)


@mel_weight_matrix.legalize
def _(bb, call):
    kind = relax.StringImm(str(call.struct_info.dtype))
    arguments = (*call.args, kind)
    name = "relax.run.mel_weight_matrix"
    return relax.op.call_pure_packed(name, *arguments, sinfo_args=call.struct_info)


mel_weight_matrix.samples(
    case(np.int64(8), np.int64(16), np.int64(8192), np.float32(0), np.float32(4096))
)
