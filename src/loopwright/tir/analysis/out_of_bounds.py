"""Accesses outside of their buffers, detected without running the function."""

from __future__ import annotations

from typing import Any

from ...base.errors import explain
from ...ir.transform import IRModule, Pass, PassContext
from ..function import PrimFunc
from .element_accesses import ElementAccess, accesses_of
from .query import free_of
from .value import iterations, lanes_at, value_at

_FEW, _MOST = 2, 256


def out_of_bounds_errors(func: PrimFunc) -> list[str]:
    """A text for each access that an iteration of its loops makes outside of its buffer.

    Each is real: the text names the iteration. Accesses whose indices depend on data, or on
    symbolic sizes, are not checked; `InstrumentBoundCheckers` checks those at run time.
    """
    return [text for access in accesses_of(func).accesses if (text := _leaves(access)) is not None]


def _leaves(access: ElementAccess) -> str | None:
    extents = access.buffer.shape
    for at in iterations(access.loops, {}, _FEW, _MOST):
        if not all(g is not None and value_at(g, at) for g in access.guards):
            continue
        for axis, (index, extent) in enumerate(zip(access.indices, extents, strict=True)):
            values, size = lanes_at(index, at), value_at(extent, {})
            for value in values or ():
                if value < 0 or (size is not None and value >= size):
                    return _text(access, axis, value, at)
    return None


def _text(access: ElementAccess, axis: int, value: int, at: dict[Any, int]) -> str:
    does = "is written" if access.is_write else "is read"
    where = ", ".join(f"{v.name} = {n}" for v, n in at.items())
    what = f"buffer {access.buffer.name} {does} outside of its bounds"
    got = f"index {value} on axis {axis}, which has {access.buffer.shape[axis]} elements"
    got += f", where {where}" if where else ""
    hint = "guard the access with a condition, or shorten the loop"
    return explain(what, got=got, instead=hint, span=access.span)


def verify_in_bounds(obj: IRModule | PrimFunc, assert_mode: bool = True) -> bool:
    """Whether no access of a PrimFunc (or of a module's) is known to be outside of its buffer.

    Raises IndexError naming the first that does, unless `assert_mode` is false.
    """
    return free_of(out_of_bounds_errors, obj, IndexError if assert_mode else None)


class OOBChecker(Pass):
    """A pass that changes nothing and raises IndexError for an access outside of its buffer."""

    name = "tir.analysis.OOBChecker"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        verify_in_bounds(mod)
        return mod
