"""From a module of Relay to a compiled model: passes, the translation to Relax, the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....backend.pipeline import get_default_pipeline
from ....base.errors import CallValueError, explain
from ....driver.front import compile as compile_model
from ....ir.target import Target
from ....ir.transform import IRModule, Sequential
from ....runtime.tensor import Tensor
from ....tir.function import PrimFunc
from .. import transform as steps
from ..expr import Constant, Expr, Function, Var, bind, const
from ..external import generated, lifted
from ..infer import Mismatch, Unifier, infer_function
from ..strategy import StrategyChoice
from ..translate import to_relax
from .kernels import NameKernels

SCHEDULED = "ApplyDefaultSchedule"  # after it kernels have their last names

# The compiler is in a higher layer.


def as_relay_module(model: IRModule | Expr | int) -> IRModule:
    """A module from a module, a function or an expression."""
    if isinstance(model, IRModule):
        return model
    if isinstance(model, Expr):
        return IRModule.from_expr(model)
    what = "this is not a module of Relay"
    hint = "an IRModule, or a relay.Function"
    raise ValueError(explain(what, got=type(model).__name__, instead=hint))


def one_target(target: Any) -> Target:
    """The target of a build: of a list or a dict of targets, the only one."""
    targets = Target.current() if target is None else target
    if isinstance(targets, Mapping):
        targets = list(targets.values())
    if isinstance(targets, (list, tuple)):
        if len(targets) != 1:
            what = "a module is built for one target"
            raise ValueError(explain(what, got=f"{len(targets)}", instead="relax.build"))
        targets = targets[0]
    if targets is None:
        raise ValueError(explain("Target is not set in env or passed as argument."))
    return targets if isinstance(targets, Target) else Target(targets)


def bind_params_by_name(func: Function, params: Mapping[str, Any]) -> Function:
    """The function with parameters of these names replaced by constants. Raises ValueError where
    two parameters have one of the names."""
    binds: dict[Any, Any] = {}
    for name, value in params.items():
        same_name = [p for p in func.params if p.name_hint == name]
        if len(same_name) > 1:
            what = f"Multiple args in the function have name {name}"
            raise CallValueError(explain(what, instead="give them names of their own"))
        if same_name:
            bound = value if isinstance(value, Expr) else const(value, _dtype(value))
            _check_type(same_name[0], bound)
            binds[same_name[0]] = bound
    return bind(func, binds) if binds else func


def _check_type(param: Var, value: Expr) -> None:
    """Refuse a constant for a parameter of another type."""
    if param.type_annotation is None or not isinstance(value, Constant):
        return
    try:
        Unifier().unify(param.type_annotation, value.checked_type)
    except Mismatch:
        what = f"the parameter %{param.name_hint} has the type {param.type_annotation}"
        raise CallValueError(explain(what, got=f"an array of {value.checked_type}")) from None


def _dtype(value: Tensor | np.ndarray[Any, Any]) -> Any:
    return str(value.dtype) if hasattr(value, "dtype") else None


def optimized(mod: IRModule, target: Any, params: Mapping[str, Any] | None = None) -> IRModule:
    """The module after the passes of a build, with its parameters as constants."""
    changed = {}
    for gvar, func in mod.functions.items():
        if isinstance(func, Function):
            bound = bind_params_by_name(func, params or {}) if gvar.name_hint == "main" else func
            changed[gvar] = infer_function(bound, mod)
    with Target(target):
        return build_prefix()(mod.with_functions(changed))


def build_prefix() -> Sequential:
    """The passes of a build before the translation, each at its level: those above the
    context's level are left out."""
    return Sequential(
        [
            steps.RemoveUnusedFunctions(),
            steps.Legalize(),
            steps.SimplifyInference(),
            steps.DynamicToStatic(),
            steps.EliminateCommonSubexpr(),
            steps.CombineParallelConv2D(3),
            steps.CombineParallelDense(3),
            steps.CombineParallelBatchMatmul(3),
            steps.FoldConstant(),
            steps.FoldScaleAxis(),
            steps.SimplifyExpr(),
            steps.CanonicalizeCast(),
            steps.CanonicalizeOps(),
            steps.FlattenAtrousConv(),
            steps.AlterOpLayout(),
            steps.FoldConstant(),
            steps.FastMath(),
            steps.Inline(),
            steps.InferType(),
        ],
        name="relay.build_prefix",
    )


def _in_relax(mod: IRModule, target: Target) -> IRModule:
    """The module in Relax, with the code of regions whose compilers are given functions of Relay."""
    mod = lifted(mod)
    return generated(mod, to_relax(mod, StrategyChoice(target)))


def compiled(mod: IRModule | None, target: Any, mod_name: str = "default") -> tuple[Any, str]:
    """The compiled model of a module, and the graph of its kernels as text."""
    if mod is None:
        raise ValueError(explain("no module to compile yet", instead="lower(mod) first"))
    chosen, naming = one_target(target), NameKernels(mod_name)
    pipeline: Any = get_default_pipeline(chosen)
    model = compile_model(
        _in_relax(mod, chosen), chosen, relax_pipeline=pipeline.insert_after(SCHEDULED, naming)
    )
    return model, naming.graph.get("json", "{}")


def lowered(mod: IRModule, target: Any, mod_name: str = "default") -> tuple[IRModule, str]:
    """The scheduled kernels of a module, and the graph that calls them as text."""
    chosen, naming = one_target(target), NameKernels(mod_name)
    whole: Any = get_default_pipeline(chosen)
    names = [step.info.name for step in whole.passes]
    with chosen:
        steps_there = [*whole.passes[: names.index(SCHEDULED) + 1], naming]
        result = Sequential(steps_there)(_in_relax(mod, chosen))
    rest = [g for g, f in result.functions.items() if not isinstance(f, PrimFunc)]
    return result.with_functions(remove=rest), naming.graph.get("json", "{}")
