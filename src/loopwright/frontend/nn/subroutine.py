"""Subroutines: a module of a class with `define_subroutine = True` is exported as a private function,
and each call of the module as a call of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import relax
from ...ir.expr import GlobalVar
from ...ir.prim_expr import Var as TirVar
from ...relax.analysis import definable_tir_vars_in_struct_info, free_symbolic_vars
from ...relax.relations import substitute
from ...relax.struct_info import TensorStructInfo
from . import core
from .exporter import Exporter, returned


class SubroutineMixin:
    """TVM's base class of modules with `define_subroutine`, which `core.Module` implements itself.

    >>> nn.SubroutineMixin.define_subroutine
    False
    """

    define_subroutine = False


def call_subroutine(
    module: core.Module,
    forward: Callable[..., Any],
    args: Sequence[core.Tensor | float],
    kwargs: Mapping[str, Any],
) -> Any:
    """Call `forward` as a function of the exported module.

    Its body is inlined instead where that function could not be typed or would have effects: for an
    argument that is not a tensor, a cache, or a dimension that is not defined by an argument's shape.
    """
    arguments = dict(inspect.signature(forward).bind(module, *args, **kwargs).arguments)
    arguments.pop(next(iter(arguments)))  # self
    exporter = Exporter.current()
    tensors = {n: v for n, v in arguments.items() if isinstance(v, core.Tensor)}
    has_effect = any(True for _ in module.named_effects())
    params = list(module.named_parameters())
    actual = [*(t._expr for t in tensors.values()), *(p._expr for _, p in params)]
    fresh = _fresh_symbols(actual)
    if len(tensors) != len(arguments) or has_effect or fresh is None:
        return forward(module, *args, **kwargs)
    gvar = _define_function(exporter, module, forward, tensors, params, actual, fresh)
    name = _snake_case(type(module).__name__)
    return core.wrap_nested(relax.Call(gvar, actual), f"{name}_output")


def _fresh_symbols(exprs: list[Any]) -> dict[TirVar, TirVar] | None:
    """A new variable for each symbolic variable of the arguments; None where one is not defined by
    an argument's shape."""
    infos = [e.struct_info for e in exprs]
    if not all(isinstance(i, TensorStructInfo) for i in infos):
        return None
    defined = [v for i in infos for v in definable_tir_vars_in_struct_info(i)]
    if any(v not in defined for i in infos for v in free_symbolic_vars(i)):
        return None
    return {v: TirVar(v.name, v.dtype) for v in defined}


def _define_function(
    exporter: Exporter,
    module: core.Module,
    forward: Callable[..., Any],
    tensors: dict[str, core.Tensor],
    params: list[tuple[str, core.Parameter]],
    actual: list[Any],
    fresh: dict[TirVar, TirVar],
) -> GlobalVar:
    """Add the function whose parameters are `tensors` and `params`, of the types of the arguments
    `actual` with `fresh` symbolic variables."""
    builder = exporter.builder
    names = [*tensors, *(e.name_hint for e in actual[len(tensors) :])]
    formal = [
        relax.Var(name, _with_symbols(e.struct_info, fresh))
        for name, e in zip(names, actual, strict=True)
    ]
    scope = core.Scope(builder)
    for (_, param), var in zip(params, formal[len(tensors) :], strict=True):
        scope.define(param._value, var)
    name = _snake_case(type(module).__name__)
    with builder.function(name, formal, private=True), scope, exporter.without_effect():
        with builder.dataflow():
            inputs = {n: core.Tensor(_expr=v) for n, v in zip(tensors, formal)}
            out = builder.emit_output(returned(forward(module, **inputs), name))
        return builder.emit_func_output(out)


def _with_symbols(info: TensorStructInfo, fresh: dict[TirVar, TirVar]) -> TensorStructInfo:
    dims = [substitute(d, fresh) for d in info.get_shape() or ()]
    return TensorStructInfo(dims, info.dtype)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
