"""Operators with a data-dependent result size: they call functions at run time."""

from __future__ import annotations

import numpy as np

from .. import relax
from ..base.errors import explain
from ..ir.prim_expr import IntImm
from ..relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from ..runtime.vm import dynamic_sizes
from .common import normalize_axis
from .core import case, op
from .params import Prim, Tensor


@op("relax.unique")
def unique(
    x: Tensor,
    sorted: Prim = True,
    return_index: Prim = False,
    return_inverse: Prim = False,
    return_counts: Prim = False,
    axis: Prim = None,
):
    """The distinct values of x, in order (None: of the flattened tensor; else the distinct
    slices along `axis`). Optional further results: the index of each one's first occurrence,
    the index of each element's distinct value, and the counts. Without `sorted`, the distinct values
    are in the order of their first occurrence."""


@unique.infer
def _(x: TensorStructInfo, sorted, return_index, return_inverse, return_counts, axis=None):
    which = _literal(axis)
    if which is not None and x.ndim != -1:
        normalize_axis(which, x.ndim)
    if x.ndim == 0:  # one value
        flags = (return_index, return_inverse, return_counts)
        infos = [TensorStructInfo([1], x.dtype)]
        infos += [TensorStructInfo([1], "int64") for f in flags if _literal(f)]
        return infos[0] if len(infos) == 1 else TupleStructInfo(infos)
    infos = [TensorStructInfo(dtype=x.dtype, ndim=1 if axis is None else x.ndim)]
    for flag in (return_index, return_inverse, return_counts):
        if _literal(flag):
            infos.append(TensorStructInfo(dtype="int64", ndim=1))
    return infos[0] if len(infos) == 1 else TupleStructInfo(infos)


def _literal(info: PrimStructInfo | None) -> int | None:
    value = None if info is None else info.value
    return value.value if isinstance(value, IntImm) else None


unique.numpy(dynamic_sizes.unique)


@unique.legalize
def _(bb, call):
    return relax.op.call_pure_packed("relax.run.unique", *call.args, sinfo_args=call.struct_info)


_REPEATED = np.array([[3, 1, 3], [1, 3, 1], [3, 1, 3]], np.int64)
unique.samples(
    case(_REPEATED),
    case(_REPEATED, True, True, True, True),
    case(_REPEATED, True, False, True, False, 0),
    case(np.array([0.5, -1, 0.5], np.float32), False, False, False, True),
)


@op("relax.nonzero")
def nonzero(x: Tensor):
    """Where x is not zero: [rank of x, count], a column of indices for each such element."""


nonzero.infer(lambda x: TensorStructInfo(dtype="int64", ndim=2))
nonzero.numpy(dynamic_sizes.nonzero)


@nonzero.legalize
def _(bb, call):
    return relax.op.call_pure_packed("relax.run.nonzero", *call.args, sinfo_args=call.struct_info)


nonzero.samples(
    case(np.array([[0, 2, 0], [1, 0, 3]], np.float32)),
    case(np.array([False, True, True])),
    case(np.zeros((2, 2), np.int32)),
)


@op("relax.dynamic_strided_slice")
def dynamic_strided_slice(x: Tensor, begin: Tensor, end: Tensor, strides: Tensor):
    """x[begin[a]:end[a]:strides[a]] on each axis a, with Python's rule for negative and large
    bounds: vectors that are known at run time only."""


@dynamic_strided_slice.infer
def _(x: TensorStructInfo, begin, end, strides):
    for name, info in (("begin", begin), ("end", end), ("strides", strides)):
        if not (info.dtype.is_void or str(info.dtype) == "int64"):
            raise TypeError(explain(f"{name} must hold int64", got=str(info.dtype)))
        dims = info.get_shape()
        if info.ndim != 1 or dims is None:
            raise ValueError(explain(f"{name} must be a vector of known length", got=str(info)))
        if x.ndim != -1 and not (isinstance(dims[0], IntImm) and dims[0].value == x.ndim):
            what = f"{name} must have one number for each axis"
            raise ValueError(explain(what, got=f"{dims[0]} for rank {x.ndim}"))
    return TensorStructInfo(dtype=x.dtype, ndim=x.ndim)


dynamic_strided_slice.numpy(dynamic_sizes.dynamic_strided_slice)


@dynamic_strided_slice.legalize
def _(bb, call):
    return relax.op.call_pure_packed(
        "relax.run.dynamic_strided_slice", *call.args, sinfo_args=call.struct_info
    )


dynamic_strided_slice.samples(case((6, 5), np.array([1, -1]), np.array([6, -9]), np.array([2, -1])))
