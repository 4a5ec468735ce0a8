"""Extents that must fit and cannot be compared before the run: checks in front of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.literals import is_one
from ..ir.prim_expr import IntImm, Or, PrimExpr, Select
from ..ir.prim_op import equal
from ..relax.expr import Call, ShapeExpr
from ..relax.struct_info import TensorStructInfo
from .common import broadcast_shape, dims_equal, simplify

Shape = Sequence[PrimExpr]


def fit(bb: Any, value: Any, dims: Shape) -> None:
    """Check at run time that a tensor has the shape `dims`, if that is not known."""
    info = value.struct_info
    if not all(dims_equal(a, b) for a, b in zip(info.get_shape(), dims, strict=True)):
        bb.match_cast(value, TensorStructInfo(ShapeExpr(dims), info.dtype))


def beside(shape: Shape, other: Shape, both: bool = True) -> list[PrimExpr]:
    """What `shape` must be to broadcast with another: each extent equal to the other's, or 1.
    both: the other's may be 1 as well."""
    skipped = max(len(shape) - len(other), 0)
    front = other[max(len(other) - len(shape), 0) :]
    pairs = zip(shape[skipped:], front, strict=True)
    return [*shape[:skipped], *(_beside(d, have, both) for d, have in pairs)]


def _beside(dim: PrimExpr, have: PrimExpr, both: bool) -> PrimExpr:
    if is_one(dim) or (both and is_one(have)) or dims_equal(dim, have):
        return dim
    kept = equal(dim, 1)
    if both and not isinstance(have, IntImm):
        kept = Or(kept, equal(have, 1))
    return simplify(Select(kept, dim, have))


def operands_broadcast(bb: Any, call: Call) -> None:
    """Check that all arguments of a call broadcast."""
    dims: list[PrimExpr] = []
    for value in call.args:
        if isinstance(value.struct_info, TensorStructInfo):
            shape = list(value.struct_info.get_shape() or ())
            fit(bb, value, beside(shape, dims))
            dims = broadcast_shape(dims, shape)


__all__ = ["beside", "fit", "operands_broadcast"]
