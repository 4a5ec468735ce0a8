"""The graph operators' builders: `relax.op.add(x, y)`, `relax.op.nn.relu(x)`.

Made by `python -m tools.make_stubs`.
"""

from collections.abc import Callable as _Callable, Sequence as _Sequence
from loopwright.ir.dtype import DataType as _DataType
from loopwright.ir.op import Op as _Op
from loopwright.ops.index import masked_fill as masked_fill
from loopwright.ops.linear import linear as linear
from loopwright.relax.expr import (
    Call as _Call, Expr as _Expr, PrimLike as _PrimLike, ShapeLike as _ShapeLike,
    TensorLike as _TensorLike,
)
from loopwright.relax.op import (
    base as base, builtin as builtin, ccl as ccl, grad as grad, image as image,
    inspect as inspect, linalg as linalg, memory as memory, ml as ml, nn as nn,
    random as random, signal as signal, special as special, vision as vision, vm as vm,
)
from loopwright.relax.op.base import (
    assert_op as assert_op, call_builtin_with_ctx as call_builtin_with_ctx,
    call_dps_packed as call_dps_packed, call_inplace_packed as call_inplace_packed,
    call_packed as call_packed, call_pure_packed as call_pure_packed, call_tir as call_tir,
    call_tir_inplace as call_tir_inplace, call_tir_with_grad as call_tir_with_grad,
    hint_on_device as hint_on_device, invoke_closure as invoke_closure,
    invoke_pure_closure as invoke_pure_closure, make_closure as make_closure,
    null_value as null_value, register_gradient as register_gradient,
    relax_print as relax_print, shape_of as shape_of, shape_to_tensor as shape_to_tensor,
    tensor_to_shape as tensor_to_shape, to_vdevice as to_vdevice,
)
from typing import Any as _Any

MEMORY_VIEW: _Op
def abs(x: _TensorLike) -> _Call: """The absolute value."""
def acos(x: _TensorLike) -> _Call: """The arc cosine, in radians."""
def acosh(x: _TensorLike) -> _Call: """The inverse hyperbolic cosine."""
def add(x1: _Expr, x2: _Expr) -> _Call: """x1 + x2"""
def arange(start: _PrimLike, end: _PrimLike | None = None, step: _PrimLike = 1, dtype: str | _DataType | None = None) -> _Call: """start, start + step, ... below `end`; with one bound only, from 0 up to it. The dtype is int64 for whole numbers and float32 for others, unless it is given."""
def argmax(x: _TensorLike, axis: int | None = None, keepdims: bool = False) -> _Call: """Index of the greatest value."""
def argmin(x: _TensorLike, axis: int | None = None, keepdims: bool = False) -> _Call: """Index of the least value."""
def argsort(data: _TensorLike, axis: int = -1, descending: bool = False, dtype: str | _DataType | None = 'int32') -> _Call: """The indices that sort `data` along `axis`; equal values keep their order."""
def asin(x: _TensorLike) -> _Call: """The arc sine, in radians."""
def asinh(x: _TensorLike) -> _Call: """The inverse hyperbolic sine."""
def astype(x: _TensorLike, dtype: str | _DataType | None) -> _Call: """x converted to `dtype`; float to int truncates toward zero."""
def atan(x: _TensorLike) -> _Call: """The arc tangent, in radians."""
def atan2(x1: _Expr, x2: _Expr) -> _Call: """The angle of the point (x2, x1)."""
def atanh(x: _TensorLike) -> _Call: """The inverse hyperbolic tangent."""
def bitwise_and(x1: _Expr, x2: _Expr) -> _Call: """x1 & x2"""
def bitwise_not(x: _TensorLike) -> _Call: """All bits inverted."""
def bitwise_or(x1: _Expr, x2: _Expr) -> _Call: """x1 | x2"""
def bitwise_xor(x1: _Expr, x2: _Expr) -> _Call: """x1 ^ x2"""
def broadcast_to(x: _TensorLike, shape: _ShapeLike) -> _Call: """Repeat along dims of extent 1 (and in front) until the shape is `shape`."""
def bucketize(input_tensor: _TensorLike, boundaries: _TensorLike, out_int32: bool = False, right: bool = False) -> _Call: """For each element the number of `boundaries` (in ascending order) below it; with `right`, not above it."""
def byte_lookup(data: _TensorLike, table: _TensorLike) -> _Call: """table[q - least] for each byte q of data (int8 or uint8), of which `least` is the least: a function of a quantized number. table: 256 elements of any dtype."""
def ceil(x: _TensorLike) -> _Call: """Rounded up to an integer."""
def clip(x: _TensorLike, min: _PrimLike, max: _PrimLike) -> _Call: """x limited to [min, max]."""
def collapse_sum_like(data: _TensorLike, collapse_target: _TensorLike) -> _Call: """data summed until its shape is that of `collapse_target`."""
def collapse_sum_to(data: _TensorLike, shape: _ShapeLike) -> _Call: """data summed until its shape is `shape`: the reverse of broadcast_to."""
def concat(tensors: _Expr | _Sequence[_Expr], axis: int | None = 0) -> _Call: """Join tensors along `axis`; with None, flatten them first."""
def cos(x: _TensorLike) -> _Call: """The cosine of an angle in radians."""
def cosh(x: _TensorLike) -> _Call: """The hyperbolic cosine."""
def cumprod(data: _TensorLike, axis: int | None = None, dtype: str | _DataType | None = None, exclusive: bool = False) -> _Call: """`np.cumprod` along `axis` (None: of the flattened tensor) in `dtype` (None: data's); `exclusive` leaves the element itself out."""
def cumsum(data: _TensorLike, axis: int | None = None, dtype: str | _DataType | None = None, exclusive: bool = False) -> _Call: """`np.cumsum` along `axis` (None: of the flattened tensor) in `dtype` (None: data's); `exclusive` leaves the element itself out."""
def dequantize(data: _TensorLike, scale: _TensorLike, zero_point: _TensorLike, axis: int | None = -1, out_dtype: str | _DataType | None = 'float32') -> _Call: """(data - zero_point) * scale in `out_dtype`. scale and zero_point: scalars, or vectors with one number for each index of `axis`."""
def divide(x1: _Expr, x2: _Expr) -> _Call: """x1 / x2; integers round toward zero, by 0 to 0."""
def dynamic_strided_slice(x: _TensorLike, begin: _TensorLike, end: _TensorLike, strides: _TensorLike) -> _Call: """x[begin[a]:end[a]:strides[a]] on each axis a, with Python's rule for negative and large bounds: vectors that are known at run time only."""
def einsum(operands: _Expr | _Sequence[_Expr], subscripts: str) -> _Call: """The sum of products that `subscripts` ("ij,jk->ik") describes, as `np.einsum`."""
def equal(x1: _Expr, x2: _Expr) -> _Call: """x1 == x2"""
def erf(x: _TensorLike) -> _Call: """The error function."""
def ewise_fma(x1: _TensorLike, x2: _TensorLike, x3: _TensorLike) -> _Call: """x1 * x2 + x3, element by element."""
def exp(x: _TensorLike) -> _Call: """e to the power x."""
def expand_dims(x: _TensorLike, axis: int | _Sequence[int] | None) -> _Call: """Insert dimensions of extent 1 at `axis` of the result."""
def expm1(x: _TensorLike) -> _Call: """exp(x) - 1, also near 0."""
def eye(n: _PrimLike, m: _PrimLike | None = None, k: _PrimLike = 0, dtype: str | _DataType | None = 'float32') -> _Call: """n x m (None: n x n): 1 on the diagonal number k, 0 elsewhere."""
def eye_like(x: _TensorLike, k: _PrimLike = 0, dtype: str | _DataType | None = None) -> _Call: """`eye` of the shape of the matrix x."""
def flatten(x: _TensorLike) -> _Call: """All elements in one dimension."""
def flip(data: _TensorLike, axis: int | None) -> _Call: """The tensor with `axis` reversed."""
def floor(x: _TensorLike) -> _Call: """Rounded down to an integer."""
def floor_divide(x1: _Expr, x2: _Expr) -> _Call: """x1 / x2 rounded down; integers by 0: 0."""
def floor_mod(x1: _Expr, x2: _Expr) -> _Call: """Remainder with the sign of x2."""
def full(shape: _ShapeLike, fill_value: _TensorLike, dtype: str | _DataType | None = None) -> _Call: """A tensor of `shape` whose elements are all `fill_value` (a 0-d tensor)."""
def full_like(x: _TensorLike, fill_value: _TensorLike, dtype: str | _DataType | None = None) -> _Call: """A tensor of x's shape whose elements are all `fill_value`."""
def gather_elements(data: _TensorLike, indices: _TensorLike, axis: int | None = 0) -> _Call: """data[i0, ..., indices[i0, i1, ...], ...], the index on `axis`; negative ones count from the end."""
def gather_nd(data: _TensorLike, indices: _TensorLike, batch_dims: int = 0) -> _Call: """Slices of `data` at the index vectors in the last axis of `indices`; the first `batch_dims` axes are shared."""
def greater(x1: _Expr, x2: _Expr) -> _Call: """x1 > x2"""
def greater_equal(x1: _Expr, x2: _Expr) -> _Call: """x1 >= x2"""
def hamming_window(window_size: _PrimLike, periodic: _PrimLike, alpha: _PrimLike, beta: _PrimLike, dtype: str | _DataType | None) -> _Call: """alpha - beta * cos(2 pi i / m) for i below window_size, where m is window_size, or one less if it is not `periodic`."""
def index_put(data: _TensorLike, indices: _Expr | _Sequence[_Expr], values: _TensorLike, accumulate: bool = False) -> _Call: """data with `values` (which broadcast) at numpy's data[indices[0], indices[1], ...]; `accumulate` adds them."""
def index_tensor(data: _TensorLike, indices: _Expr | _Sequence[_Expr]) -> _Call: """numpy's data[indices[0], indices[1], ...]: tensors of integers that broadcast, one for each of the first axes; negative ones count from the end."""
def isfinite(x: _TensorLike) -> _Call: """Whether x is finite."""
def isinf(x: _TensorLike) -> _Call: """Whether x is an infinity."""
def isnan(x: _TensorLike) -> _Call: """Whether x is not a number."""
def layout_transform(x: _TensorLike, index_map: _Any, pad_value: _Any = None, axis_separators: int | _Sequence[int] | None = None, input_axis_separators: int | _Sequence[int] | None = None) -> _Call: """The elements rearranged by `index_map` (an IndexMap, or a function from the old indices to the new ones). If the new shape is larger, it is padded with `pad_value` (default 0)."""
def left_shift(x1: _Expr, x2: _Expr) -> _Call: """x1 << x2"""
def less(x1: _Expr, x2: _Expr) -> _Call: """x1 < x2"""
def less_equal(x1: _Expr, x2: _Expr) -> _Call: """x1 <= x2"""
def log(x: _TensorLike) -> _Call: """The natural logarithm."""
def log_add_exp(x1: _Expr, x2: _Expr) -> _Call: """log(exp(x1) + exp(x2))"""
def logcumsumexp(data: _TensorLike, axis: int | None = None, dtype: str | _DataType | None = None, exclusive: bool = False) -> _Call: """The logarithms of the running sums of exponentials along `axis` (None: of the flattened tensor) in `dtype` (None: data's); `exclusive` leaves the element itself out."""
def logical_and(x1: _Expr, x2: _Expr) -> _Call: """x1 and x2"""
def logical_not(x: _TensorLike) -> _Call: """Whether x is false."""
def logical_or(x1: _Expr, x2: _Expr) -> _Call: """x1 or x2"""
def logical_xor(x1: _Expr, x2: _Expr) -> _Call: """Whether exactly one of x1 and x2 holds."""
def matmul(x1: _TensorLike, x2: _TensorLike, out_dtype: str | _DataType | None = None) -> _Call: """numpy's matmul: the last axis of x1 with the last but one of x2, the rest broadcast."""
def max(x: _TensorLike, axis: int | _Sequence[int] | None = None, keepdims: bool = False) -> _Call: """The greatest value over `axis`."""
def maximum(x1: _Expr, x2: _Expr) -> _Call: """The larger of x1 and x2."""
def mean(x: _TensorLike, axis: int | _Sequence[int] | None = None, keepdims: bool = False) -> _Call: """The mean over `axis` (None: all)."""
def meshgrid(tensors: _Expr | _Sequence[_Expr], indexing: str | None = 'ij') -> _Call: """Each of the vectors spread over the grid of all of them, as `np.meshgrid`: with "xy" the first two axes are exchanged."""
def min(x: _TensorLike, axis: int | _Sequence[int] | None = None, keepdims: bool = False) -> _Call: """The least value over `axis`."""
def minimum(x1: _Expr, x2: _Expr) -> _Call: """The smaller of x1 and x2."""
def mod(x1: _Expr, x2: _Expr) -> _Call: """Remainder with the sign of x1."""
def multinomial_from_uniform(prob: _TensorLike, uniform_sample: _TensorLike, sample_indices: _TensorLike, dtype: str | _DataType | None = 'int64') -> _Call: """For each row n the first class whose cumulated probability in prob[sample_indices[n]] reaches uniform_sample[n], else the last one; [rows, 1]."""
def multiply(x1: _Expr, x2: _Expr) -> _Call: """x1 * x2"""
def negative(x: _TensorLike) -> _Call: """Minus x."""
def nonzero(x: _TensorLike) -> _Call: """Where x is not zero: [rank of x, count], a column of indices for each such element."""
def not_equal(x1: _Expr, x2: _Expr) -> _Call: """x1 != x2"""
def one_hot(indices: _TensorLike, on_value: _PrimLike, off_value: _PrimLike, depth: int, axis: int | None = -1) -> _Call: """A new axis of extent `depth` at `axis`: on_value at the index, off_value elsewhere."""
def ones(shape: _ShapeLike, dtype: str | _DataType | None) -> _Call: """A tensor of ones."""
def ones_like(x: _TensorLike, dtype: str | _DataType | None = None) -> _Call: """A tensor of ones of x's shape."""
def outer(x1: _TensorLike, x2: _TensorLike) -> _Call: """x1[i] * x2[j] of two vectors."""
def permute_dims(x: _TensorLike, axes: int | _Sequence[int] | None = None) -> _Call: """Reorder the axes; without `axes`, reverse them."""
def power(x1: _Expr, x2: _Expr) -> _Call: """x1 to the power x2; of integers a negative one rounds toward zero, of 0 to 0."""
print = relax_print
def prod(x: _TensorLike, axis: int | _Sequence[int] | None = None, keepdims: bool = False) -> _Call: """The product over `axis`."""
def quantize(data: _TensorLike, scale: _TensorLike, zero_point: _TensorLike, axis: int | None = -1, out_dtype: str | _DataType | None = 'int8') -> _Call: """round(data / scale) + zero_point, limited to the numbers of `out_dtype`. scale and zero_point: scalars, or vectors with one number for each index of `axis`."""
def quantize_range(data: _TensorLike) -> _Call: """The range of the data to quantize: the greatest of -data, and of data. The last axis is reduced second, so that the others are reduced in vectors along it."""
def quantize_scale(ends: _TensorLike) -> _Call: """The scale with which uint8 represents zero and the range between the ends of `quantize_range`; 1 where that is zero alone, for which any would do."""
def quantize_zero_point(ends: _TensorLike, scale: _TensorLike) -> _Call: """The number in uint8 that represents zero, where 0 represents the lower end or zero."""
def register_view(dotted_name: str, fn: _Callable[..., _Any]) -> _Callable[..., _Any]: """Make `fn` the builder `relax.op.<dotted_name>`: "add", "nn.relu", "image.resize2d"."""
def reinterpret(x: _TensorLike, dtype: str | _DataType | None) -> _Call: """The bits of each element read as another dtype of the same width."""
def repeat(data: _TensorLike, repeats: int, axis: int | None = None) -> _Call: """Each element `repeats` times along `axis` (None: of the flattened tensor)."""
def requantize(data: _TensorLike, multiplier: _TensorLike, shift: _TensorLike, axis: int | None = -1, zero_point: int = 0, low: int = -2147483648, high: int = 2147483647, out_dtype: str | _DataType | None = 'int32', once: bool = False) -> _Call: """data (int32) * multiplier / 2**31 * 2**shift + zero_point, within [low, high], in `out_dtype`. It is rounded as TFLite does: the product to the nearest, then the shift to the right away from zero; `once`: both in one, to the nearest. int64 data are scaled by the upper 16 bits of the multiplier and rounded once. multiplier and shift (int32): scalars, or vectors with one number for each index of `axis`."""
def reshape(x: _TensorLike, shape: _ShapeLike) -> _Call: """The same elements in row-major order, in another shape; one dim may be -1, and a dim of 0 is copied from the input."""
def right_shift(x1: _Expr, x2: _Expr) -> _Call: """x1 >> x2"""
def round(x: _TensorLike) -> _Call: """Rounded to the nearest integer, ties to even."""
def rsqrt(x: _TensorLike) -> _Call: """One over the square root."""
def scatter_elements(data: _TensorLike, indices: _TensorLike, updates: _TensorLike, axis: int | None = 0, reduction: str = 'update') -> _Call: """data with updates[i0, i1, ...] at [i0, ..., indices[i0, i1, ...], ...], the index on `axis`; negative ones count from the end. `reduction`: "update", or what an element and its update become: "add", "mul", "mean" (of the two), "min", "max"."""
def scatter_nd(data: _TensorLike, indices: _TensorLike, updates: _TensorLike, reduction: str = 'update') -> _Call: """data with updates[i] at the index vector indices[i] (the last axis of `indices`), an element or a slice. `reduction` as for scatter_elements."""
def sigmoid(x: _TensorLike) -> _Call: """1 / (1 + exp(-x))."""
def sign(x: _TensorLike) -> _Call: """-1, 0 or 1, by the sign of x; NaN of NaN."""
def sin(x: _TensorLike) -> _Call: """The sine of an angle in radians."""
def sinh(x: _TensorLike) -> _Call: """The hyperbolic sine."""
def slice_scatter(input_tensor: _TensorLike, src: _TensorLike, start: _PrimLike, end: _PrimLike, step: _PrimLike, axis: int | None = 0) -> _Call: """input_tensor with `src` in place of its slice start:end:step on `axis`."""
def sort(x: _TensorLike, axis: int = -1, descending: bool = False) -> _Call: """The values along `axis` in order, NaN as the greatest."""
def split(x: _TensorLike, indices_or_sections: int | _Sequence[int], axis: int | None = 0) -> _Call: """A tuple of pieces of `axis`: `indices_or_sections` is a number of equal pieces (the last may be shorter) or the list of the indices at which new pieces start. One piece is the tensor itself, in no tuple."""
def sqrt(x: _TensorLike) -> _Call: """The square root."""
def square(x: _TensorLike) -> _Call: """x times x."""
def squeeze(x: _TensorLike, axis: int | _Sequence[int] | None = None) -> _Call: """Drop dimensions of extent 1: those of `axis`, or all."""
def stack(tensors: _Expr | _Sequence[_Expr], axis: int | None = 0) -> _Call: """Tensors of one shape along a new axis `axis` of the result."""
def std(x: _TensorLike, axis: int | _Sequence[int] | None = None, keepdims: bool = False) -> _Call: """The square root of the variance over `axis`."""
def strided_slice(x: _TensorLike, axes: _Expr | _Sequence[_PrimLike], begin: _Expr | _Sequence[_PrimLike], end: _Expr | _Sequence[_PrimLike], strides: _Expr | _Sequence[_PrimLike] | None = None, assume_inbound: bool = False) -> _Call: """x[begin:end:stride] on each of `axes`, with Python's rule for negative and large bounds (`assume_inbound`: the bounds are used unchanged)."""
def subtract(x1: _Expr, x2: _Expr) -> _Call: """x1 - x2"""
def sum(x: _TensorLike, axis: int | _Sequence[int] | None = None, keepdims: bool = False) -> _Call: """The sum over `axis`."""
def take(x: _TensorLike, indices: _Expr, axis: int | None = None, mode: str = 'fast') -> _Call: """x at `indices` along `axis`. `mode`, for an index out of range: "fast" fails (negative ones count from the end), "wrap" takes it modulo the extent, "clip" clamps it, "nan" returns NaN."""
def tan(x: _TensorLike) -> _Call: """The tangent of an angle in radians."""
def tanh(x: _TensorLike) -> _Call: """The hyperbolic tangent."""
def tensor_scatter(data: _TensorLike, updates: _TensorLike, start: _TensorLike, axis: int | None = -2, circular: bool = False) -> _Call: """The data with updates written along `axis` from start[b] on, for each index b of axis 0; after the end at the beginning again if `circular`. Otherwise updates outside are not written."""
def tile(data: _TensorLike, repeats: int | _Sequence[int] | None) -> _Call: """The tensor repeated `repeats` times along each axis."""
def topk(data: _TensorLike, k: int = 1, axis: int = -1, ret_type: str = 'both', largest: bool = True, dtype: str | _DataType | None = 'int32') -> _Call: """The k greatest (`largest` False: least) values along `axis`, in order, and their indices: `ret_type` "both" a tuple, "values" or "indices" one of them. k below 1 means all."""
def tril(x: _TensorLike, k: _PrimLike = 0) -> _Call: """The elements of `np.tril(x, k)`; the rest is 0."""
def triu(x: _TensorLike, k: _PrimLike = 0) -> _Call: """The elements of `np.triu(x, k)`; the rest is 0."""
def trunc(x: _TensorLike) -> _Call: """Rounded toward zero."""
def unique(x: _TensorLike, sorted: _PrimLike = True, return_index: _PrimLike = False, return_inverse: _PrimLike = False, return_counts: _PrimLike = False, axis: _PrimLike | None = None) -> _Call: """The distinct values of x, in order (None: of the flattened tensor; else the distinct slices along `axis`). Optional further results: the index of each one's first occurrence, the index of each element's distinct value, and the counts. Without `sorted`, the distinct values are in the order of their first occurrence."""
def variance(x: _TensorLike, axis: int | _Sequence[int] | None = None, keepdims: bool = False) -> _Call: """The mean squared distance from the mean over `axis` (divided by the count)."""
def where(condition: _TensorLike, x1: _TensorLike, x2: _TensorLike) -> _Call: """x1 where `condition` (bool) holds, else x2; the three broadcast."""
def wrap_param(data: _TensorLike, dtype: str | _DataType | None = 'float32') -> _Call: """A parameter of the model in `dtype`."""
def zeros(shape: _ShapeLike, dtype: str | _DataType | None) -> _Call: """A tensor of zeros."""
def zeros_like(x: _TensorLike, dtype: str | _DataType | None = None) -> _Call: """A tensor of zeros of x's shape."""
