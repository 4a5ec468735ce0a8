"""topi's Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

from ... import te, tir
from ...ir.prim_expr import PrimExpr
from ...ops import OPERATORS
from ...ops.common import accumulator
from ...te.tensor import Tensor


def _turn(position: PrimExpr, extent: PrimExpr | int, dtype: str) -> tuple[Any, Any]:
    """(cos, sin) of 2 pi place / extent; the place is reduced first, so that it stays exact."""
    angle = (position % extent).astype(dtype) * (te.const(2 * pi, dtype) / te.const(extent, dtype))
    return tir.cos(angle), tir.sin(angle)


def dft(re_data: Tensor, im_data: Tensor, inverse: bool) -> list[Tensor]:
    """[real, imaginary] part of the discrete Fourier transform along the last axis, or of its
    inverse."""
    both = OPERATORS["relax.stack"]([re_data, im_data], -1)
    out = OPERATORS["relax.signal.dft"](both, re_data.shape[-1:], -2, bool(inverse))
    shape = re_data.shape
    return [te.compute(shape, lambda *i, k=k: out(*i, k), name="dft") for k in (0, 1)]


def stft(
    data: Tensor, n_fft: int, hop_length: int, win_length: int, window: Tensor, normalized: bool,
    onesided: bool, output_shape: Sequence[int],
) -> Tensor:  # fmt: skip
    """The Fourier transforms of windows of `win_length`, `hop_length` apart: (batch, frequency, window,
    real and imaginary part). `normalized` divides by the root of `n_fft`; which frequencies there are
    (`onesided`: no conjugates) says `output_shape`."""
    wide = accumulator(data.dtype)
    k = te.reduce_axis((0, win_length), name="k")
    scale = te.const(n_fft**-0.5 if normalized else 1, wide)

    def total(b: PrimExpr, row: PrimExpr, column: PrimExpr, part: PrimExpr) -> Any:
        cos, sin = _turn(row * k, win_length, wide)
        value = (window(k) * data(b, column * hop_length + k)).astype(wide) * scale
        return te.sum(value * tir.Select(part.equal(0), cos, -sin), axis=k)

    summed = te.compute(output_shape, total, name="stft_sum")
    return te.compute(output_shape, lambda *i: summed(*i).astype(data.dtype), name="stft")
