"""Gradients of kernels: te functions, named by `call_tir_with_grad`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.registry import Registry
from ...relax import expr as rx
from ...relax.block_builder import BlockBuilder
from ...relax.op.base import CALL_TIR_WITH_GRAD
from ...relax.struct_info import TensorStructInfo

TE_GRADIENTS: Registry[str, Callable[..., Any]] = Registry(
    "te gradient", add="register_te_gradient"
)


def register_te_gradient(te_grad_name: str, te_grad_func: Callable[..., Any] | None = None) -> Any:
    """Register the gradient of kernels that are called with this name; a decorator without
    `te_grad_func`.

        @register_te_gradient("square_grad")
        def square_grad(output_grad, x):
            return [te.compute(x.shape, lambda *i: 2.0 * x[i] * output_grad[i])]

    The function gets the gradient of the result (a list of them where there are several), the
    arguments of the call, and its `te_grad_kwargs` by name. It returns a tensor for each argument.
    """
    if te_grad_func is not None:
        return TE_GRADIENTS.register(te_grad_name, te_grad_func)
    return lambda func: TE_GRADIENTS.register(te_grad_name, func)


def _gradient(out: rx.Var, call: rx.Call, grad: rx.Var, bb: BlockBuilder) -> list[Any]:
    """The call of the kernel that the registered function returns."""
    name, values = call.attrs.te_grad_name, dict(call.attrs.te_grad_kwargs or {})
    function, args = TE_GRADIENTS.lookup(name), call.args[1].fields
    result = bb.emit(bb.call_te(function, grad, *args, primfunc_name_hint=name, **values))
    single = isinstance(result.struct_info, TensorStructInfo)
    of_args = rx.Tuple([result]) if single else result
    return [None, of_args, *(None for _ in call.args[2:])]


CALL_TIR_WITH_GRAD.set_attr("FPrimalGradient", _gradient, origin=__name__)
