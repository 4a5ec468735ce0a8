"""Signals: Fourier transforms, windows, mel filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base.errors import explain
from ....relax import op
from ....relax.expr import PrimValue, ShapeExpr
from ...graph.run_time_axes import known_numbers, sizes, view
from ...graph.values import Value
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter, register_converter
from ..tensors import dtype_of


@converter("DFT", 17)
def dft_by_attribute(cx: Context, node: Node, x: Value, length: Value | None = None) -> Any:
    return _dft(cx, node, x, length, node.integer("axis", 1))


@converter("DFT", 20)
def dft(
    cx: Context, node: Node, x: Value, length: Value | None = None, axis: Value | None = None
) -> Any:
    which = [-2] if axis is None else known_numbers(axis)
    if which is not None:
        return _dft(cx, node, x, length, which[0])
    assert axis is not None
    before, extent, after = sizes(cx, "sizes_around", 3, x, axis)
    parts = x.shape[-1]
    opened = view(cx, x, [before, extent, cx.simplify(after // parts), parts])
    spectrum = cx.value(_dft(cx, node, opened, length, 1))
    ends = [PrimValue(spectrum.shape[k]) for k in (1, 3)]
    return view(cx, spectrum, sizes(cx, "sizes_with", x.ndim, x, axis, *ends))


def _dft(cx: Context, node: Node, x: Value, length: Value | None, axis: int) -> Any:
    inverse, onesided = node.flag("inverse"), node.flag("onesided")
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(explain("the axis is out of range", got=f"{axis} for rank {x.ndim}"))
    extent = x.shape[axis]
    if length is not None:
        (size,) = cx.integers(length, "dft_length", dims=True)
    else:
        size = cx.simplify((extent - 1) * 2) if inverse and onesided else extent
    return op.signal.dft(x.expr, ShapeExpr([size]), axis, inverse, onesided)


@converter("STFT", 17)
def stft(
    cx: Context,
    node: Node,
    x: Value,
    step: Value,
    window: Value | None = None,
    length: Value | None = None,
) -> Any:
    if length is not None:
        (size,) = cx.integers(length, "frame_length", dims=True)
    elif window is not None:
        size = window.shape[0]
    else:
        raise ValueError(explain("STFT needs a window or a frame_length"))
    (apart,) = cx.integers(step, "frame_step", dims=True)
    signal = x.expr if x.ndim == 3 else cx.emit(op.expand_dims(x.expr, [2]))
    frames = cx.emit(op.signal.frame(signal, ShapeExpr([size, apart])))
    if window is not None:
        factors = op.reshape(window.expr, ShapeExpr([1, 1, size, 1]))
        frames = cx.emit(op.multiply(frames, cx.emit(factors)))
    onesided = node.flag("onesided", True) and not (x.ndim == 3 and cx.equal(x.shape[2], 2))
    return op.signal.dft(frames, ShapeExpr([size]), 2, False, onesided)


def _window(name: str, *coefficients: float) -> None:
    def convert(cx: Context, node: Node, size: Value) -> Any:
        (extent,) = cx.integers(size, "size", dims=True)
        dtype, periodic = dtype_of(node.integer("output_datatype", 1)), node.flag("periodic", True)
        return op.signal.cosine_window(ShapeExpr([extent]), coefficients, periodic, dtype)

    register_converter(name, 17, convert)


_TABLE: dict[str, Sequence[float]] = {
    "HannWindow": (0.5, 0.5),
    "HammingWindow": (25 / 46, 21 / 46),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}
for _name, _coefficients in _TABLE.items():
    _window(_name, *_coefficients)


@converter("MelWeightMatrix", 17)
def mel_weight_matrix(
    cx: Context, node: Node, bins: Value, length: Value, rate: Value, low: Value, high: Value
) -> Any:
    dtype = dtype_of(node.integer("output_datatype", 1))
    args = [v.expr for v in (bins, length, rate, low, high)]
    matrix = cx.emit(op.signal.mel_weight_matrix(*args, dtype))
    sizes = [v.elements is not None and v.elements.reshape(-1)[0] for v in (length, bins)]
    fixed = all(isinstance(n, int) and not isinstance(n, bool) for n in sizes)
    return cx.of_shape(matrix, *((sizes[0] // 2 + 1, sizes[1]) if fixed else (None, None)))
