"""Helpers for back ends' passes and patterns, under TVM's names."""

from __future__ import annotations

from typing import Any

from ..base.errors import explain
from ..ir.target import Target
from ..relax.expr import DataflowVar, Expr
from ..relax.expr_functor import PyExprMutator
from ..relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from ..relax.transform import PatternCheckContext


def has_leaking_intermediate_variables(context: PatternCheckContext) -> bool:
    """Whether a value inside a match, other than its result, is used outside of it."""
    root = context.value_to_bound_var[context.matched_expr]
    inside = set(context.matched_bindings)
    for var in inside - {root}:
        # A variable that is not a DataflowVar is visible outside its block.
        if not isinstance(var, DataflowVar) or not inside.issuperset(context.var_usages[var]):
            return True
    return False


class BackendDispatcher(PyExprMutator):
    """Base class of passes that choose an implementation by target. Decorate subclasses
    with `relax.expr_functor.mutator`."""

    @staticmethod
    def is_gpu_target(target: Target) -> bool:
        """Whether the target is a GPU."""
        return "gpu" in target.keys

    @staticmethod
    def get_shape_dtype(expr: Expr) -> tuple[Any, Any]:
        """A tensor's shape and dtype. Raises ValueError for other values and unknown shapes."""
        info = expr.struct_info
        shape = info.shape if isinstance(info, TensorStructInfo) else None
        if shape is None:
            what = "a tensor with a known shape is needed here"
            raise ValueError(explain(what, got=str(info), span=expr.span))
        return shape, info.dtype

    def _get_target(self, info: StructInfo) -> Target:
        """The target of a value: that of its virtual device, else the current one."""
        if isinstance(info, TupleStructInfo):
            targets = {str(t): t for t in map(self._get_target, info.fields)}
            if len(targets) != 1:
                what = "the fields of a tuple are on different targets"
                raise ValueError(explain(what, got=", ".join(targets) or "no field"))
            return next(iter(targets.values()))
        device = info.vdevice if isinstance(info, TensorStructInfo) else None
        target = device.target if device is not None else Target.current(allow_none=True)
        if target is None:
            what = "the target to choose an implementation for is not known"
            raise ValueError(explain(what, instead="with Target(...): ..., or a vdevice"))
        return target
