"""Operators that make tensors, and sums along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.core import ELEMENTWISE, INJECTIVE
from ....relax import expr as rx
from ..expr import Constant, Expr, const
from ..types import Any as AnyDim
from ..types import TensorType, TupleType
from .core import VIEWS, Input, InputInt32, Numbers, R, op, same, view
from .tensor import shape_of_tensor
from .transform import dims_of


@op("full", attrs="InitOpAttrs", kind=INJECTIVE, mixed="follow")
def full(fill_value: Input, shape: Numbers = (), dtype: str = "") -> Any:
    """A tensor of one value."""
    return R.full(list(shape), fill_value, dtype or None)


@op("dyn.full", attrs="InitOpAttrs", static=full, mixed="follow")
def dyn_full(fill_value: Input, shape: Input, dtype: str = "") -> Any:
    """A tensor of one value whose shape is a value."""
    return R.full(shape_of_tensor(shape), fill_value, dtype or None)


same("full_like", params="data fill_value", kind=ELEMENTWISE)


@op("arange", attrs="ArangeAttrs", view=False, kind=INJECTIVE, mixed="never")
def arange(start: Input, stop: Input, step: Input, dtype: str = "float32") -> Any:
    """The numbers from `start` to before `stop` in steps of `step`."""
    values = [_number(v) for v in (start, stop, step)]
    if None not in values:
        low, high, by = values
        return rx.const(np.arange(low, high, by), dtype)
    wide = [R.astype(v, "float64") for v in (start, stop, step)]
    count = R.ceil(R.divide(R.subtract(wide[1], wide[0]), wide[2]))
    count = R.maximum(R.astype(count, "int64"), rx.const(0, "int64"))
    ones = R.ones(R.tensor_to_shape(R.reshape(count, [1])), "int64")
    number = R.subtract(R.cumsum(ones, 0), rx.const(1, "int64"))
    low, by = R.astype(start, dtype), R.astype(step, dtype)
    return R.add(low, R.multiply(R.astype(number, dtype), by))


def _number(value: object) -> Any:
    return value.data.numpy().item() if isinstance(value, (rx.Constant, Constant)) else None


@arange.infer
def _(types: list[Any], attrs: dict[str, Any], args: Sequence[Expr] | None = None) -> Any:
    values = [_number(a) for a in args or (None,)]
    if None in values:
        return TensorType((AnyDim(),), attrs["dtype"])
    return TensorType((len(np.arange(*values)),), attrs["dtype"])


@view("arange")
def _arange(
    start: Any, stop: Expr | None = None, step: Expr | None = None, dtype: str = "float32"
) -> Any:
    """The numbers from `start` to before `stop`; with one number, from 0 to before it."""
    if stop is None:
        start, stop = 0, start
    bounds = [
        v if isinstance(v, Expr) else const(v, dtype)
        for v in (start, stop, 1 if step is None else step)
    ]
    return arange.builder(*bounds, dtype)


def _running(name: str, relax_name: str) -> None:
    def body(data: Input, axis: Any = None, dtype: Any = None, exclusive: Any = None) -> Any:
        if data.struct_info.dtype == "bool":
            data = R.astype(data, "int32")
        return getattr(R, relax_name)(data, axis, dtype or None, bool(exclusive))

    body.__doc__ = f"{relax_name} along an axis; None: of all elements in a row."
    op(name, attrs="ScanopAttrs")(body)


_running("cumsum", "cumsum")
_running("cumprod", "cumprod")


@op("trilu", attrs="TriluAttrs", kind=INJECTIVE)
def trilu(data: Input, k: InputInt32, upper: bool = True) -> Any:
    """The upper or lower triangle of matrices, from the k-th diagonal on; zeros elsewhere."""
    dims = dims_of(data)
    row = R.expand_dims(R.arange(0, dims[-2], 1, "int64"), 1)
    col = R.arange(0, dims[-1], 1, "int64")
    edge = R.add(row, R.astype(R.reshape(k, []), "int64"))
    keep = R.greater_equal(col, edge) if upper else R.less_equal(col, edge)
    return R.where(keep, data, R.zeros_like(data))


@op("unique", attrs="UniqueAttrs", results=lambda attrs, args: 5 if attrs["return_counts"] else 4,
    view=False)  # fmt: skip
def unique(data: Input, sorted: bool = True, return_counts: bool = False) -> Any:
    """The values that occur, the index of the first of each, the place of each element among them,
    the number of values, and the count of each; each as long as `data`, or valid up to the
    number."""
    results = R.unique(data, sorted, True, True, True)
    values, index, inverse, counts = (rx.TupleGetItem(results, i) for i in range(4))
    number = R.shape_to_tensor(R.shape_of(values))
    index, inverse, counts = (R.astype(v, "int32") for v in (index, inverse, counts))
    parts = [values, index, inverse, R.astype(number, "int32")]
    return rx.Tuple([*parts, counts] if return_counts else parts)


@unique.infer
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    data = types[0]
    some = TensorType((AnyDim(),), "int32")
    parts = [TensorType((AnyDim(),), data.dtype), some, TensorType(data.shape, "int32"),
             TensorType((1,), "int32")]  # fmt: skip
    return TupleType([*parts, some] if attrs["return_counts"] else parts)


@view("unique")
def _unique(data: Expr, is_sorted: bool = True, return_counts: bool = False) -> Any:
    """The values that occur: see the operator."""
    return unique.builder(data, is_sorted, return_counts)


@op("dft", results=2)
def dft(re_data: Input, im_data: Input, inverse: bool = False) -> Any:
    """The discrete Fourier transform along the last axis: real and imaginary parts."""
    size = dims_of(re_data)[-1].value
    turns = np.outer(np.arange(size), np.arange(size)) * (2 * np.pi / size)
    dtype = str(re_data.struct_info.dtype)
    cos = rx.const(np.cos(turns) / (size if inverse else 1), dtype)
    sin = rx.const(np.sin(turns) / (size if inverse else 1) * (1 if inverse else -1), dtype)
    real = R.subtract(R.matmul(re_data, cos), R.matmul(im_data, sin))
    imag = R.add(R.matmul(re_data, sin), R.matmul(im_data, cos))
    return rx.Tuple([real, imag])


@op("stft", attrs="StftAttrs", view=False)
def stft(
    data: Input, window: Input, n_fft: int, hop_length: int, win_length: int, normalized: bool = False,
    onesided: bool = True,
) -> Any:  # fmt: skip
    """The Fourier transforms of windows of a signal: (batch, frequency, frame, real and imaginary)."""
    dims = dims_of(data)
    frames = (dims[1] - n_fft) // hop_length + 1
    starts = R.multiply(R.arange(0, frames, 1, "int64"), rx.const(np.array(hop_length, "int64")))
    index = R.add(R.reshape(starts, [frames, 1]), rx.const(np.arange(n_fft)))
    parts = R.take(data, R.reshape(index, [frames * n_fft]), 1)
    dtype = str(data.struct_info.dtype)
    left = (n_fft - win_length) // 2
    window = R.astype(window, dtype)
    if win_length < n_fft:
        window = R.nn.pad(window, [left, n_fft - win_length - left])
    parts = R.multiply(R.reshape(parts, [dims[0], frames, n_fft]), window)
    count = n_fft // 2 + 1 if onesided else n_fft
    turns = np.outer(np.arange(n_fft), np.arange(count)) * (2 * np.pi / n_fft)
    scale = 1 / np.sqrt(n_fft) if normalized else 1.0
    real = R.matmul(parts, rx.const(np.cos(turns) * scale, dtype))
    imag = R.matmul(parts, rx.const(-np.sin(turns) * scale, dtype))
    return R.permute_dims(R.stack([real, imag], -1), [0, 2, 1, 3])


@view("stft")
def _stft(
    data: Expr, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Expr | None = None,
    normalized: bool = False, onesided: bool = True,
) -> Any:  # fmt: skip
    """The Fourier transforms of windows of a signal."""
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    window = VIEWS["ones"]([length], "int32") if window is None else window
    return stft.builder(data, window, n_fft, hop, length, normalized, onesided)
