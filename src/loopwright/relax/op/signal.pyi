"""Builders of the operators `signal.*`.

Made by `python -m tools.make_stubs`.
"""

from loopwright.ir.dtype import DataType as _DataType
from loopwright.relax.expr import Call as _Call, ShapeLike as _ShapeLike, TensorLike as _TensorLike
from typing import Any as _Any

def cosine_window(size: _ShapeLike, coefficients: _Any, periodic: bool = True, dtype: str | _DataType | None = 'float32') -> _Call: """The sum of coefficients[k] * (-1)**k * cos(2 pi k i / n) for each of `size` elements i; n is the size, or without `periodic` one less. Hann: (0.5, 0.5); Blackman: (0.42, 0.5, 0.08)."""
def dft(data: _TensorLike, length: _ShapeLike, axis: int = -2, inverse: bool = False, onesided: bool = False) -> _Call: """The discrete Fourier transform along `axis` of data that are cut or filled with zeros to `length`; the last axis holds the real part, or it and the imaginary one. onesided: of real data the first length // 2 + 1 frequencies; with `inverse`, the real data of such."""
def frame(data: _TensorLike, size: _ShapeLike) -> _Call: """Pieces of data (batch, length, parts) that may overlap: (batch, pieces, size[0], parts), the first elements of adjacent pieces size[1] apart."""
def mel_weight_matrix(bins: _TensorLike, length: _TensorLike, rate: _TensorLike, low: _TensorLike, high: _TensorLike, dtype: str | _DataType | None = 'float32') -> _Call: """The matrix (length // 2 + 1, bins) that makes of a spectrum of transforms of `length` the energies of triangular filters evenly spaced on the mel scale between the frequencies low and high (Hz). All are scalars; rate: samples per second."""
