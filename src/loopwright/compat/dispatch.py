"""TVM's `relax.backend.DispatchSortScan`. Here LegalizeOps does all of it; the pass alone is for
scripts that run it by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import topi
from ..backend.utils import BackendDispatcher
from ..ir import Op
from ..ir.module import IRModule
from ..ir.transform import PassContext, module_pass
from ..relax import Call, Function
from ..relax.expr_functor import mutator


def _scan(fn: Callable[..., Any]) -> Callable[[Call], tuple[Any, ...]]:
    return lambda call: (fn, call.args[0], call.attrs.axis, call.attrs.dtype, call.attrs.exclusive)


# Operator -> what `call_te` takes for a call of it.
_KERNELS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "relax.sort": lambda call: (
        topi.sort,
        call.args[0],
        call.attrs.axis,
        not call.attrs.descending,
    ),
    "relax.argsort": lambda call: (
        *(topi.argsort, call.args[0], None, call.attrs.axis),
        *(not call.attrs.descending, call.attrs.dtype),
    ),
    "relax.topk": lambda call: (
        *(topi.topk, call.args[0], call.attrs.k, call.attrs.axis, call.attrs.ret_type),
        *(not call.attrs.largest, call.attrs.dtype),
    ),
    "relax.cumsum": _scan(topi.cumsum),
    "relax.cumprod": _scan(topi.cumprod),
    "relax.bucketize": lambda call: (
        *(topi.searchsorted, call.args[1], call.args[0], call.attrs.right),
        call.struct_info.dtype,
    ),
}


@mutator
class _Dispatcher(BackendDispatcher):
    def visit_call_(self, call: Any) -> Any:
        kernel = _KERNELS.get(call.op.name) if isinstance(call.op, Op) else None
        if kernel is None:
            return super().visit_call_(call)
        with self._get_target(call.struct_info):
            return self.builder_.call_te(*kernel(self.visit_expr_post_order(call)))


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


__all__ = ["DispatchSortScan"]
