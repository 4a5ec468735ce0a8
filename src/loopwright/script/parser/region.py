"""`A[0:4]` is a region of a buffer in `T.reads`, and a vector in an expression."""

from __future__ import annotations

from typing import Any

from ...base.errors import explain
from ...ir.prim_expr import IntImm, PrimExpr, Ramp
from ...ir.prim_op import const
from ...tir.buffer import BufferRegion
from ...tir.expr import BufferLoad


def as_operand(value: Any) -> Any:
    """A region as the vector load it stands for; anything else as it is."""
    return region_load(value) if type(value) is BufferRegion else value


def region_load(region: BufferRegion) -> PrimExpr:
    """The vector load of a region of constant size."""
    indices: list[PrimExpr] = []
    for axis in region.region:
        extent = axis.extent
        if not isinstance(extent, IntImm):
            what = "a vector is loaded from a slice of constant length"
            raise ValueError(explain(what, got=str(extent), instead="use T.Ramp, or a loop"))
        one = const(1, axis.min.dtype)
        indices.append(axis.min if extent.value == 1 else Ramp(axis.min, one, extent.value))
    return BufferLoad(region.buffer, indices)
