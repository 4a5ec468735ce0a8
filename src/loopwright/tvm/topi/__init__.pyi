"""Tensor expressions of the operators, under TVM's names: `topi.add(a, b)`, `topi.nn.relu(x)`.

Made by `python -m tools.make_stubs`.
"""

from collections.abc import Sequence as _Sequence
from loopwright import te as te
from loopwright.ir.dtype import DataType as _DataType
from loopwright.ir.prim_expr import PrimExpr as _PrimExpr
from loopwright.relax.expr import Expr as _Expr
from loopwright.te.tensor import Tensor as Tensor
from loopwright.tvm.topi import (
    image as image, nn as nn, tag as tag, testing as testing, utils as utils, vision as vision,
)
from loopwright.tvm.topi.fast import (
    fast_erf as fast_erf, fast_exp as fast_exp, fast_tanh as fast_tanh,
)
from loopwright.tvm.topi.indexing import (
    adv_index as adv_index, expand_like as expand_like, matrix_set_diag as matrix_set_diag,
    sliding_window as sliding_window, strided_set as strided_set,
)
from loopwright.tvm.topi.more import (
    all as all, any as any, ceil_log2 as ceil_log2, elemwise_sum as elemwise_sum,
    expand_dims as expand_dims, fixed_point_multiply as fixed_point_multiply,
    fixed_point_multiply_per_axis as fixed_point_multiply_per_axis, identity as identity,
    log10 as log10, log2 as log2, meshgrid as meshgrid, ndarray_size as ndarray_size,
    reinterpret as reinterpret, reverse_sequence as reverse_sequence,
    sequence_mask as sequence_mask, shape as shape, stack as stack, tensordot as tensordot,
    unravel_index as unravel_index,
)
from loopwright.tvm.topi.search import (
    argwhere as argwhere, binary_search as binary_search, searchsorted as searchsorted,
    sparse_reshape as sparse_reshape, sparse_to_dense as sparse_to_dense, unique as unique,
)
from loopwright.tvm.topi.signal import dft as dft, stft as stft
from loopwright.tvm.topi.signatures import (
    arange as arange, argmax as argmax, argmin as argmin, collapse_sum as collapse_sum,
    cumprod as cumprod, cumsum as cumsum, einsum as einsum, gather_nd as gather_nd,
    matmul as matmul, max as max, min as min, one_hot as one_hot, prod as prod,
    scatter_nd as scatter_nd, squeeze as squeeze, strided_slice as strided_slice, sum as sum,
)
from typing import Any as _Any

def abs(x: Tensor) -> _Any: """The absolute value."""
def acos(x: Tensor) -> _Any: """The arc cosine, in radians."""
def acosh(x: Tensor) -> _Any: """The inverse hyperbolic cosine."""
def add(x1: _Expr, x2: _Expr) -> _Any: """x1 + x2"""
def argsort(data: Tensor, valid_count: None = None, axis: int = -1, is_ascend: bool = True, dtype: str = 'float32') -> Tensor: """The indices that sort `data` along `axis`; equal values keep their order."""
def asin(x: Tensor) -> _Any: """The arc sine, in radians."""
def asinh(x: Tensor) -> _Any: """The inverse hyperbolic sine."""
def astype(x: Tensor, dtype: str | _DataType | None) -> _Any: """x converted to `dtype`; float to int truncates toward zero."""
def atan(x: Tensor) -> _Any: """The arc tangent, in radians."""
def atan2(x1: _Expr, x2: _Expr) -> _Any: """The angle of the point (x2, x1)."""
def atanh(x: Tensor) -> _Any: """The inverse hyperbolic tangent."""
def bitwise_and(x1: _Expr, x2: _Expr) -> _Any: """x1 & x2"""
def bitwise_not(x: Tensor) -> _Any: """All bits inverted."""
def bitwise_or(x1: _Expr, x2: _Expr) -> _Any: """x1 | x2"""
def bitwise_xor(x1: _Expr, x2: _Expr) -> _Any: """x1 ^ x2"""
def broadcast_to(x: Tensor, shape: _Sequence[int | _PrimExpr]) -> _Any: """Repeat along dims of extent 1 (and in front) until the shape is `shape`."""
def bucketize(input_tensor: Tensor, boundaries: Tensor, out_int32: bool = False, right: bool = False) -> _Any: """For each element the number of `boundaries` (in ascending order) below it; with `right`, not above it."""
def byte_lookup(data: Tensor, table: Tensor) -> _Any: """table[q - least] for each byte q of data (int8 or uint8), of which `least` is the least: a function of a quantized number. table: 256 elements of any dtype."""
cast = astype
def ceil(x: Tensor) -> _Any: """Rounded up to an integer."""
def clip(x: Tensor, min: _PrimExpr | float, max: _PrimExpr | float) -> _Any: """x limited to [min, max]."""
def collapse_sum_like(data: Tensor, collapse_target: Tensor) -> _Any: """data summed until its shape is that of `collapse_target`."""
def collapse_sum_to(data: Tensor, shape: _Sequence[int | _PrimExpr]) -> _Any: """data summed until its shape is `shape`: the reverse of broadcast_to."""
def concat(tensors: _Sequence[Tensor], axis: int | None = 0) -> _Any: """Join tensors along `axis`; with None, flatten them first."""
concatenate = concat
def cos(x: Tensor) -> _Any: """The cosine of an angle in radians."""
def cosh(x: Tensor) -> _Any: """The hyperbolic cosine."""
def dequantize(data: Tensor, scale: Tensor, zero_point: Tensor, axis: int | None = -1, out_dtype: str | _DataType | None = 'float32') -> _Any: """(data - zero_point) * scale in `out_dtype`. scale and zero_point: scalars, or vectors with one number for each index of `axis`."""
def divide(x1: _Expr, x2: _Expr) -> _Any: """x1 / x2; integers round toward zero, by 0 to 0."""
def dynamic_strided_slice(x: Tensor, begin: Tensor, end: Tensor, strides: Tensor) -> _Any: """x[begin[a]:end[a]:strides[a]] on each axis a, with Python's rule for negative and large bounds: vectors that are known at run time only."""
def equal(x1: _Expr, x2: _Expr) -> _Any: """x1 == x2"""
def erf(x: Tensor) -> _Any: """The error function."""
def ewise_fma(x1: Tensor, x2: Tensor, x3: Tensor) -> _Any: """x1 * x2 + x3, element by element."""
def exp(x: Tensor) -> _Any: """e to the power x."""
def expm1(x: Tensor) -> _Any: """exp(x) - 1, also near 0."""
def eye(n: _PrimExpr | float, m: _PrimExpr | float | None = None, k: _PrimExpr | float = 0, dtype: str | _DataType | None = 'float32') -> _Any: """n x m (None: n x n): 1 on the diagonal number k, 0 elsewhere."""
def eye_like(x: Tensor, k: _PrimExpr | float = 0, dtype: str | _DataType | None = None) -> _Any: """`eye` of the shape of the matrix x."""
def flatten(x: Tensor) -> _Any: """All elements in one dimension."""
def flip(data: Tensor, axis: int | None) -> _Any: """The tensor with `axis` reversed."""
def floor(x: Tensor) -> _Any: """Rounded down to an integer."""
def floor_divide(x1: _Expr, x2: _Expr) -> _Any: """x1 / x2 rounded down; integers by 0: 0."""
def floor_mod(x1: _Expr, x2: _Expr) -> _Any: """Remainder with the sign of x2."""
def full(shape: _Sequence[_PrimExpr | int], dtype: _DataType | str, fill_value: _PrimExpr | float) -> Tensor: """A tensor of `shape` whose elements are all `fill_value`."""
def full_like(x: Tensor, fill_value: float) -> Tensor: """A tensor of x's shape and dtype whose elements are all `fill_value`."""
def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor: """The elements at `indices` along `axis`; other positions are those of the result."""
def gather_elements(data: Tensor, indices: Tensor, axis: int | None = 0) -> _Any: """data[i0, ..., indices[i0, i1, ...], ...], the index on `axis`; negative ones count from the end."""
def greater(x1: _Expr, x2: _Expr) -> _Any: """x1 > x2"""
def greater_equal(x1: _Expr, x2: _Expr) -> _Any: """x1 >= x2"""
def hamming_window(window_size: _PrimExpr | float, periodic: _PrimExpr | float, alpha: _PrimExpr | float, beta: _PrimExpr | float, dtype: str | _DataType | None) -> _Any: """alpha - beta * cos(2 pi i / m) for i below window_size, where m is window_size, or one less if it is not `periodic`."""
def index_put(data: Tensor, indices: _Sequence[Tensor], values: Tensor, accumulate: bool = False) -> _Any: """data with `values` (which broadcast) at numpy's data[indices[0], indices[1], ...]; `accumulate` adds them."""
def index_tensor(data: Tensor, indices: _Sequence[Tensor]) -> _Any: """numpy's data[indices[0], indices[1], ...]: tensors of integers that broadcast, one for each of the first axes; negative ones count from the end."""
def isfinite(x: Tensor) -> _Any: """Whether x is finite."""
def isinf(x: Tensor) -> _Any: """Whether x is an infinity."""
def isnan(x: Tensor) -> _Any: """Whether x is not a number."""
def layout_transform(x: Tensor, index_map: _Any, pad_value: _Any = None, axis_separators: int | _Sequence[int] | None = None, input_axis_separators: int | _Sequence[int] | None = None) -> _Any: """The elements rearranged by `index_map` (an IndexMap, or a function from the old indices to the new ones). If the new shape is larger, it is padded with `pad_value` (default 0)."""
def left_shift(x1: _Expr, x2: _Expr) -> _Any: """x1 << x2"""
def less(x1: _Expr, x2: _Expr) -> _Any: """x1 < x2"""
def less_equal(x1: _Expr, x2: _Expr) -> _Any: """x1 <= x2"""
def log(x: Tensor) -> _Any: """The natural logarithm."""
def log_add_exp(x1: _Expr, x2: _Expr) -> _Any: """log(exp(x1) + exp(x2))"""
def logcumsumexp(data: Tensor, axis: int | None = None, dtype: str | _DataType | None = None, exclusive: bool = False) -> _Any: """The logarithms of the running sums of exponentials along `axis` (None: of the flattened tensor) in `dtype` (None: data's); `exclusive` leaves the element itself out."""
def logical_and(x1: _Expr, x2: _Expr) -> _Any: """x1 and x2"""
def logical_not(x: Tensor) -> _Any: """Whether x is false."""
def logical_or(x1: _Expr, x2: _Expr) -> _Any: """x1 or x2"""
def logical_xor(x1: _Expr, x2: _Expr) -> _Any: """Whether exactly one of x1 and x2 holds."""
def maximum(x1: _Expr, x2: _Expr) -> _Any: """The larger of x1 and x2."""
def mean(x: Tensor, axis: int | _Sequence[int] | None = None, keepdims: bool = False) -> _Any: """The mean over `axis` (None: all)."""
def minimum(x1: _Expr, x2: _Expr) -> _Any: """The smaller of x1 and x2."""
def mod(x1: _Expr, x2: _Expr) -> _Any: """Remainder with the sign of x1."""
def multinomial_from_uniform(prob: Tensor, uniform_sample: Tensor, sample_indices: Tensor, dtype: str | _DataType | None = 'int64') -> _Any: """For each row n the first class whose cumulated probability in prob[sample_indices[n]] reaches uniform_sample[n], else the last one; [rows, 1]."""
def multiply(x1: _Expr, x2: _Expr) -> _Any: """x1 * x2"""
def negative(x: Tensor) -> _Any: """Minus x."""
def nonzero(x: Tensor) -> _Any: """Where x is not zero: [rank of x, count], a column of indices for each such element."""
def not_equal(x1: _Expr, x2: _Expr) -> _Any: """x1 != x2"""
def ones(shape: _Sequence[int | _PrimExpr], dtype: str | _DataType | None) -> _Any: """A tensor of ones."""
def ones_like(x: Tensor, dtype: str | _DataType | None = None) -> _Any: """A tensor of ones of x's shape."""
def outer(x1: Tensor, x2: Tensor) -> _Any: """x1[i] * x2[j] of two vectors."""
def permute_dims(x: Tensor, axes: int | _Sequence[int] | None = None) -> _Any: """Reorder the axes; without `axes`, reverse them."""
def power(x1: _Expr, x2: _Expr) -> _Any: """x1 to the power x2; of integers a negative one rounds toward zero, of 0 to 0."""
def quantize(data: Tensor, scale: Tensor, zero_point: Tensor, axis: int | None = -1, out_dtype: str | _DataType | None = 'int8') -> _Any: """round(data / scale) + zero_point, limited to the numbers of `out_dtype`. scale and zero_point: scalars, or vectors with one number for each index of `axis`."""
def quantize_range(data: Tensor) -> _Any: """The range of the data to quantize: the greatest of -data, and of data. The last axis is reduced second, so that the others are reduced in vectors along it."""
def quantize_scale(ends: Tensor) -> _Any: """The scale with which uint8 represents zero and the range between the ends of `quantize_range`; 1 where that is zero alone, for which any would do."""
def quantize_zero_point(ends: Tensor, scale: Tensor) -> _Any: """The number in uint8 that represents zero, where 0 represents the lower end or zero."""
def repeat(data: Tensor, repeats: int, axis: int | None = None) -> _Any: """Each element `repeats` times along `axis` (None: of the flattened tensor)."""
def requantize(data: Tensor, multiplier: Tensor, shift: Tensor, axis: int | None = -1, zero_point: int = 0, low: int = -2147483648, high: int = 2147483647, out_dtype: str | _DataType | None = 'int32', once: bool = False) -> _Any: """data (int32) * multiplier / 2**31 * 2**shift + zero_point, within [low, high], in `out_dtype`. It is rounded as TFLite does: the product to the nearest, then the shift to the right away from zero; `once`: both in one, to the nearest. int64 data are scaled by the upper 16 bits of the multiplier and rounded once. multiplier and shift (int32): scalars, or vectors with one number for each index of `axis`."""
def reshape(x: Tensor, shape: _Sequence[int | _PrimExpr]) -> _Any: """The same elements in row-major order, in another shape; one dim may be -1, and a dim of 0 is copied from the input."""
def right_shift(x1: _Expr, x2: _Expr) -> _Any: """x1 >> x2"""
def round(x: Tensor) -> _Any: """Rounded to the nearest integer, ties to even."""
def rsqrt(x: Tensor) -> _Any: """One over the square root."""
def scatter_elements(data: Tensor, indices: Tensor, updates: Tensor, axis: int | None = 0, reduction: str = 'update') -> _Any: """data with updates[i0, i1, ...] at [i0, ..., indices[i0, i1, ...], ...], the index on `axis`; negative ones count from the end. `reduction`: "update", or what an element and its update become: "add", "mul", "mean" (of the two), "min", "max"."""
def sigmoid(x: Tensor) -> _Any: """1 / (1 + exp(-x))."""
def sign(x: Tensor) -> _Any: """-1, 0 or 1, by the sign of x; NaN of NaN."""
def sin(x: Tensor) -> _Any: """The sine of an angle in radians."""
def sinh(x: Tensor) -> _Any: """The hyperbolic sine."""
def slice_scatter(input_tensor: Tensor, src: Tensor, start: _PrimExpr | float, end: _PrimExpr | float, step: _PrimExpr | float, axis: int | None = 0) -> _Any: """input_tensor with `src` in place of its slice start:end:step on `axis`."""
def sort(data: Tensor, axis: int = -1, is_ascend: bool = True) -> Tensor: """The values along `axis` in order, NaN as the greatest."""
def split(x: Tensor, indices_or_sections: int | _Sequence[int], axis: int | None = 0) -> _Any: """A tuple of pieces of `axis`: `indices_or_sections` is a number of equal pieces (the last may be shorter) or the list of the indices at which new pieces start. One piece is the tensor itself, in no tuple."""
def sqrt(x: Tensor) -> _Any: """The square root."""
def square(x: Tensor) -> _Any: """x times x."""
def std(x: Tensor, axis: int | _Sequence[int] | None = None, keepdims: bool = False) -> _Any: """The square root of the variance over `axis`."""
def subtract(x1: _Expr, x2: _Expr) -> _Any: """x1 - x2"""
def take(x: Tensor, indices: _Expr, axis: int | None = None, mode: str = 'fast') -> _Any: """x at `indices` along `axis`. `mode`, for an index out of range: "fast" fails (negative ones count from the end), "wrap" takes it modulo the extent, "clip" clamps it, "nan" returns NaN."""
def tan(x: Tensor) -> _Any: """The tangent of an angle in radians."""
def tanh(x: Tensor) -> _Any: """The hyperbolic tangent."""
te_layout_transform = layout_transform
def tensor_scatter(data: Tensor, updates: Tensor, start: Tensor, axis: int | None = -2, circular: bool = False) -> _Any: """The data with updates written along `axis` from start[b] on, for each index b of axis 0; after the end at the beginning again if `circular`. Otherwise updates outside are not written."""
def tile(data: Tensor, repeats: int | _Sequence[int] | None) -> _Any: """The tensor repeated `repeats` times along each axis."""
def topk(data: Tensor, k: int = 1, axis: int = -1, ret_type: str = 'both', is_ascend: bool = False, dtype: str = 'int64') -> _Any: """The first k values along `axis` in order (the greatest, unless `is_ascend`), and their indices; `ret_type` "values" or "indices" returns one of them."""
transpose = permute_dims
def tril(x: Tensor, k: _PrimExpr | float = 0) -> _Any: """The elements of `np.tril(x, k)`; the rest is 0."""
def trilu(data: Tensor, k: int, upper: bool) -> Tensor: """The upper (or lower) triangle from diagonal `k` on; the rest is 0."""
def triu(x: Tensor, k: _PrimExpr | float = 0) -> _Any: """The elements of `np.triu(x, k)`; the rest is 0."""
def trunc(x: Tensor) -> _Any: """Rounded toward zero."""
def variance(x: Tensor, axis: int | _Sequence[int] | None = None, keepdims: bool = False) -> _Any: """The mean squared distance from the mean over `axis` (divided by the count)."""
def where(condition: Tensor, x1: Tensor, x2: Tensor) -> _Any: """x1 where `condition` (bool) holds, else x2; the three broadcast."""
def wrap_param(data: Tensor, dtype: str | _DataType | None = 'float32') -> _Any: """A parameter of the model in `dtype`."""
def zeros(shape: _Sequence[int | _PrimExpr], dtype: str | _DataType | None) -> _Any: """A tensor of zeros."""
def zeros_like(x: Tensor, dtype: str | _DataType | None = None) -> _Any: """A tensor of zeros of x's shape."""
