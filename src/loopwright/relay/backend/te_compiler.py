"""What a function of Relay becomes: its kernel."""

from __future__ import annotations

from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.module import IRModule
from ...relax.transform import AnnotateTIROpPattern, LegalizeOps
from ...relax.transform.fuse.fuse_tir import fuse
from ...tir.function import PrimFunc
from ..expr import Function
from ..translate import to_relax
from .compiling import one_target


def get_shape(shape: Any) -> list[Any]:
    """A shape with numbers where extents are known."""
    return [getattr(dim, "value", dim) for dim in shape]


def lower_to_primfunc(relay_func: Function, target: Any) -> PrimFunc:
    """One kernel that computes a function: its operators' loops in sequence, as they are before
    schedules. Raises LoopwrightError for a function that is not made of kernels alone."""
    with one_target(target):
        plain = relay_func.without_attr("Primitive")
        mod = LegalizeOps()(to_relax(IRModule({"main": plain})))
        mod = AnnotateTIROpPattern()(mod)
        kernel = fuse(mod["main"].with_attr("Primitive", True), mod)
    if kernel is None:
        what = "this function cannot be one kernel"
        hint = "relay.lower(mod, target) gives the kernels of a module"
        raise LoopwrightError(explain(what, got=str(relay_func), instead=hint))
    return kernel.func


__all__ = ["get_shape", "lower_to_primfunc"]
