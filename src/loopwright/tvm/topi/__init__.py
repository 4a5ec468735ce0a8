"""Tensor expressions of the operators, under TVM's names: `topi.add(a, b)`, `topi.nn.relu(x)`.

A view of `ops/`: every operator's body is available under its name as a tensor expression. If
topi's signature differs from the graph operator's, a short function here reorders the arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import te
from ...base.errors import explain
from ...base.late import late_names as _late_names
from ...base.late import public_names as _public_names
from ...ops import OPERATORS
from ...ops.create import full as _full
from ...ops.manipulate import transpose as transpose
from ...te.tensor import Tensor
from . import image as image
from . import nn as nn
from . import tag as tag
from . import utils as utils
from . import vision as vision
from .fast import fast_erf as fast_erf
from .fast import fast_exp as fast_exp
from .fast import fast_tanh as fast_tanh
from .indexing import adv_index as adv_index
from .indexing import expand_like as expand_like
from .indexing import matrix_set_diag as matrix_set_diag
from .indexing import sliding_window as sliding_window
from .indexing import strided_set as strided_set
from .more import all as all
from .more import any as any
from .more import ceil_log2 as ceil_log2
from .more import elemwise_sum as elemwise_sum
from .more import expand_dims as expand_dims
from .more import fixed_point_multiply as fixed_point_multiply
from .more import fixed_point_multiply_per_axis as fixed_point_multiply_per_axis
from .more import identity as identity
from .more import log2 as log2
from .more import log10 as log10
from .more import meshgrid as meshgrid
from .more import ndarray_size as ndarray_size
from .more import reinterpret as reinterpret
from .more import reverse_sequence as reverse_sequence
from .more import sequence_mask as sequence_mask
from .more import shape as shape
from .more import stack as stack
from .more import tensordot as tensordot
from .more import unravel_index as unravel_index
from .search import argwhere as argwhere
from .search import binary_search as binary_search
from .search import searchsorted as searchsorted
from .search import sparse_reshape as sparse_reshape
from .search import sparse_to_dense as sparse_to_dense
from .search import unique as unique
from .signal import dft as dft
from .signal import stft as stft
from .signatures import arange as arange
from .signatures import argmax as argmax
from .signatures import argmin as argmin
from .signatures import collapse_sum as collapse_sum
from .signatures import cumprod as cumprod
from .signatures import cumsum as cumsum
from .signatures import einsum as einsum
from .signatures import gather_nd as gather_nd
from .signatures import matmul as matmul
from .signatures import max as max
from .signatures import min as min
from .signatures import one_hot as one_hot
from .signatures import prod as prod
from .signatures import scatter_nd as scatter_nd
from .signatures import squeeze as squeeze
from .signatures import strided_slice as strided_slice
from .signatures import sum as sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...ir.dtype import DataType
    from ...ir.prim_expr import PrimExpr

for _operator in OPERATORS.values():
    if _operator.name.count(".") == 1:
        globals().setdefault(_operator.te_name.removeprefix("tir_"), _operator)
        globals().setdefault(_operator.name.removeprefix("relax."), _operator)


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """The elements at `indices` along `axis`; other positions are those of the result."""
    return OPERATORS["relax.gather_elements"](data, indices, axis=axis)


def full(
    shape: Sequence[PrimExpr | int], dtype: DataType | str, fill_value: PrimExpr | float
) -> Tensor:
    """A tensor of `shape` whose elements are all `fill_value`."""
    return _full(shape, te.const(fill_value, dtype), dtype)


def full_like(x: Tensor, fill_value: float) -> Tensor:
    """A tensor of x's shape and dtype whose elements are all `fill_value`."""
    return full(x.shape, x.dtype, fill_value)


def trilu(data: Tensor, k: int, upper: bool) -> Tensor:
    """The upper (or lower) triangle from diagonal `k` on; the rest is 0."""
    return OPERATORS["relax.triu" if upper else "relax.tril"](data, k)


def sort(data: Tensor, axis: int = -1, is_ascend: bool = True) -> Tensor:
    """The values along `axis` in order, NaN as the greatest."""
    return OPERATORS["relax.sort"](data, axis=axis, descending=not is_ascend)


def argsort(
    data: Tensor, valid_count: None = None, axis: int = -1, is_ascend: bool = True,
    dtype: str = "float32",
) -> Tensor:  # fmt: skip
    """The indices that sort `data` along `axis`; equal values keep their order."""
    if valid_count is not None:
        what = "topi.argsort sorts whole rows"
        raise ValueError(explain(what, got="valid_count", instead="slice the rows before"))
    order = OPERATORS["relax.argsort"]
    return order(data, axis=axis, descending=not is_ascend, dtype=dtype)


def topk(
    data: Tensor, k: int = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False,
    dtype: str = "int64",
) -> Any:  # fmt: skip
    """The first k values along `axis` in order (the greatest, unless `is_ascend`), and their
    indices; `ret_type` "values" or "indices" returns one of them."""
    return OPERATORS["relax.topk"](
        data, k=k, axis=axis, ret_type=ret_type, largest=not is_ascend, dtype=dtype
    )


__getattr__ = _late_names(__name__)
__dir__ = _public_names(__name__)
