"""Shared by the passes on matrix products: how products and transpositions are recognised and built."""

from __future__ import annotations

from typing import Any

from ...ir.op import Op
from .. import expr as rx
from .. import op as relax_op
from ..struct_info import TensorStructInfo


def product(a: rx.Expr, b: rx.Expr) -> rx.Call:
    """The call of `matmul`."""
    return relax_op.matmul(a, b)


def transposed(x: rx.Expr) -> rx.Call:
    """`x` with its last two axes exchanged."""
    rank = x.struct_info.ndim
    if rank == 2:
        return relax_op.permute_dims(x)
    return relax_op.permute_dims(x, [*range(rank - 2), rank - 1, rank - 2])


def is_call(value: rx.Expr | None, name: str) -> bool:
    """Whether this is a call of the operator of this name."""
    return type(value) is rx.Call and isinstance(value.op, Op) and value.op.name == name


def permuted_axes(call: rx.Call) -> list[int] | None:
    """The axes of a `permute_dims`, each >= 0; None if the rank is unknown."""
    ndim = call.args[0].struct_info.ndim
    if ndim < 0:
        return None
    axes = call.attrs.axes
    return [*reversed(range(ndim))] if axes is None else [int(a) % ndim for a in axes]


def transposes(call: rx.Call) -> bool:
    """Whether a `permute_dims` exchanges the last two axes and no others."""
    axes = permuted_axes(call)
    if axes is None or len(axes) < 2:
        return False
    rank = len(axes)
    return axes == [*range(rank - 2), rank - 1, rank - 2]


def keeps_dtype(call: rx.Call) -> bool:
    """Whether a product has the dtype of its operands, so that it may be computed in other parts."""
    dtypes = {str(x.struct_info.dtype) for x in (*call.args, call)}
    return len(dtypes) == 1


def shape_of(value: rx.Expr) -> tuple[Any, ...] | None:
    """The dimensions of a tensor, if known."""
    info = value.struct_info
    return info.get_shape() if isinstance(info, TensorStructInfo) else None
