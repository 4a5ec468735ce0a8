"""TVM's `relax.backend.DispatchSortScan`. Here LegalizeOps does all of it; the pass alone is for
scripts that run it separately."""

from __future__ import annotations

from typing import Any

from ...backend.utils import BackendDispatcher
from ...ir import Op
from ...ir.transform import IRModule, PassContext, module_pass
from ...ops import OPERATORS, running, sort
from ...relax import Function
from ...relax.expr import Call
from ...relax.expr_functor import mutator


@mutator
class _Dispatcher(BackendDispatcher):
    def visit_call_(self, call: Call) -> Any:
        operator = OPERATORS.get(call.op.name) if isinstance(call.op, Op) else None
        if operator is None or not any(
            operator is member for module in (running, sort) for member in vars(module).values()
        ):
            return super().visit_call_(call)
        with self._get_target(call.struct_info):
            return operator._legalize(self.builder_, self.visit_expr_post_order(call))


@module_pass(opt_level=0, name="DispatchSortScan")
class DispatchSortScan:
    """Writes sorts and running sums as loops.

    Raises ValueError for one that has no virtual device outside of a target.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with calls of kernels."""
        dispatcher = _Dispatcher(mod)
        for var, func in mod.functions_items():
            if isinstance(func, Function):
                dispatcher.builder_.update_func(var, dispatcher.visit_expr(func))
        return dispatcher.builder_.finalize()
