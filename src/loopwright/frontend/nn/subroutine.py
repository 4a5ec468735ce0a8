"""Subroutines: a module of a class with `define_subroutine = True` is exported as one private
function, called wherever the module is."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import relax
from ...ir.prim_expr import Var as TirVar
from ...relax.analysis import definable_tir_vars_in_struct_info, free_symbolic_vars
from ...relax.relations import substitute
from ...relax.struct_info import TensorStructInfo
from . import core
from .exporter import Exporter, returned


class SubroutineMixin:
    """TVM's name for what `core.Module` brings with it."""

    define_subroutine = False


def call_subroutine(
    module: core.Module,
    forward: Callable[..., Any],
    args: Sequence[core.Tensor | float],
    kwargs: Mapping[str, Any],
) -> Any:
    """Call `forward` as a function of the exported module.

    Where a function cannot say what forward takes (an argument that is not a tensor, a cache, a
    dimension that no argument's shape defines) its body is inlined at the call.
    """
    arguments = dict(inspect.signature(forward).bind(module, *args, **kwargs).arguments)
    arguments.pop(next(iter(arguments)))  # self
    exporter = Exporter.current()
    tensors = {n: v for n, v in arguments.items() if isinstance(v, core.Tensor)}
    has_effect = any(True for _ in module.named_effects())
    params = list(module.named_parameters())
    outside = [*(t._expr for t in tensors.values()), *(p._expr for _, p in params)]
    renamed = _fresh_symbols(outside)
    if len(tensors) != len(arguments) or has_effect or renamed is None:
        return forward(module, *args, **kwargs)
    gvar = _build(exporter, module, forward, tensors, params, outside, renamed)
    name = _snake_case(type(module).__name__)
    return core.wrap_nested(relax.Call(gvar, outside), f"{name}_output")


def _fresh_symbols(exprs: list[Any]) -> dict[TirVar, TirVar] | None:
    """A new symbolic variable for each one of the arguments; None where one is not defined by an
    argument's shape."""
    infos = [e.struct_info for e in exprs]
    if not all(isinstance(i, TensorStructInfo) for i in infos):
        return None
    defined = [v for i in infos for v in definable_tir_vars_in_struct_info(i)]
    if any(v not in defined for i in infos for v in free_symbolic_vars(i)):
        return None
    return {v: TirVar(v.name, v.dtype) for v in defined}


def _build(
    exporter: Exporter,
    module: core.Module,
    forward: Callable[..., Any],
    tensors: dict[str, core.Tensor],
    params: list[tuple[str, core.Parameter]],
    outside: list[Any],
    renamed: dict[TirVar, TirVar],
) -> Any:
    builder = exporter.builder
    names = [*tensors, *(e.name_hint for e in outside[len(tensors) :])]
    inside = [
        relax.Var(name, _with_symbols(e.struct_info, renamed))
        for name, e in zip(names, outside, strict=True)
    ]
    scope = core.Scope(builder)
    for (_, param), var in zip(params, inside[len(tensors) :], strict=True):
        scope.define(param._value, var)
    name = _snake_case(type(module).__name__)
    with builder.function(name, inside, private=True), scope, exporter.without_effect():
        with builder.dataflow():
            formal = {n: core.Tensor(_expr=v) for n, v in zip(tensors, inside)}
            out = builder.emit_output(returned(forward(module, **formal), name))
        return builder.emit_func_output(out)


def _with_symbols(info: TensorStructInfo, renamed: dict[TirVar, TirVar]) -> TensorStructInfo:
    dims = [substitute(d, renamed) for d in info.get_shape() or ()]
    return TensorStructInfo(dims, info.dtype)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
