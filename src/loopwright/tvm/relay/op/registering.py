"""What users say of operators: `relay.op.register_legalize("nn.dense", rule)` and kin.

Each stores a fact under the key that a pass reads; without a value, it is a decorator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....base.errors import LoopwrightError, explain
from ....ir.expr import Attrs
from ....ir.op import Op, register_op, register_op_attr
from ....ir.target import Target
from ....te.tensor import Tensor
from ...generic_func import GenericFunc
from ..operators.core import ROWS
from ..strategy import STRATEGY, OpStrategy, row_compute
from ..types import Type


def _registering(name: str, key: str, called: str) -> Callable[..., Any]:
    def register(
        op_name: str,
        value: GenericFunc | Callable[..., Any] | None = None,
        level: int = 10,
        **named: Callable[..., Any],
    ) -> Any:
        if set(named) - {called}:
            raise TypeError(explain(f"{name} takes op_name, {called} and level", got=str(named)))
        return register_op_attr(op_name, key, named.get(called, value), level)

    register.__name__ = register.__qualname__ = name
    register.__doc__ = f"Store the fact {key!r} of an operator; without {called}, a decorator."
    return register


register_alter_op_layout = _registering(
    "register_alter_op_layout", "FTVMAlterOpLayout", "alter_layout"
)
register_convert_op_layout = _registering(
    "register_convert_op_layout", "FTVMConvertOpLayout", "convert_layout"
)
register_infer_correct_layout = _registering(
    "register_infer_correct_layout", "FInferCorrectLayout", "infer_layout"
)
register_legalize = _registering("register_legalize", "FTVMLegalize", "legal_op")
register_mixed_precision_conversion = _registering(
    "register_mixed_precision_conversion", "FTVMMixedPrecisionConversionType", "func"
)
register_pattern = _registering("register_pattern", "TOpPattern", "pattern")
register_strategy = _registering("register_strategy", STRATEGY, "fstrategy")


def register(op_name: str, describe: str = "") -> Op:
    """Make an operator of a name; its other facts are set by the functions of this file. Raises
    LoopwrightError when there is one of this name."""
    if Op.find(op_name) is not None:
        what = f"Operator {op_name} is registered before"
        raise LoopwrightError(explain(what, instead=f"relay.op.get({op_name!r})"))
    op = register_op(op_name)
    op.set_attr("description", describe)
    return op


def register_stateful(op_name: str, stateful: bool, level: int = 10) -> None:
    """Say whether a call of an operator depends on more than its arguments."""
    register_op(op_name).set_attr("TOpIsStateful", bool(stateful), level)


def register_compute(
    op_name: str, compute: Callable[..., Any] | None = None, level: int = 10
) -> Any:
    """The tensor expression of an operator, `f(attrs, inputs, out_type) -> te tensors`."""

    def store(fn: Callable[..., Any]) -> Any:
        op = register_op(op_name)
        op.set_attr("FTVMCompute", fn, level)
        return fn

    return store if compute is None else store(compute)


def _compute_of(op_name: str) -> Any:
    own = register_op(op_name).get_attr("FTVMCompute")
    if own is not None:
        return own
    if op_name not in ROWS:
        what = f"the operator {op_name} has no tensor expression"
        raise ValueError(explain(what, instead="give it one: register_compute"))
    return row_compute(ROWS[op_name])


def register_schedule(op_name: str, schedule: Callable[..., Any] | None, level: int = 10) -> Any:
    """How the tensor expression of an operator is scheduled: `f(attrs, outs, target) ->
    te.Schedule`, or a generic function of these."""

    def strategy(
        attrs: Attrs, inputs: Sequence[Tensor], out_type: Type | None, target: Target | None
    ) -> OpStrategy:
        result = OpStrategy()
        name = f"{op_name.rpartition('.')[2]}.generic"
        result.add_implementation(_compute_of(op_name), schedule, name, level)
        return result

    register_op(op_name).set_attr(STRATEGY, strategy, level)
    return schedule


def _by_default_rules(op_name: str, level: int = 10) -> None:
    """Let the default rules schedule an operator, which is what they do."""
    strategy = register_op(op_name)
    if strategy.get_attr("FTVMCompute") is not None:
        register_schedule(op_name, None, level)


register_injective_schedule = register_broadcast_schedule = _by_default_rules
register_reduce_schedule = _by_default_rules


def register_shape_func(
    op_name: str,
    data_dependent: bool,
    shape_func: Callable[..., Any] | None = None,
    level: int = 10,
) -> Any:
    """The shape of an operator's results as values; Relax's inference says it here, and the function
    is stored for `get_attr`."""
    register_op_attr(op_name, "TShapeDataDependent", data_dependent, level)
    return register_op_attr(op_name, "FShapeFunc", shape_func, level)


def register_external_compiler(
    op_name: str, fexternal: Callable[..., Any] | None = None, level: int = 10
) -> Any:
    """The function that an external code generator is, by the fact "FTVMExternalCompiler"."""
    return register_op_attr(op_name, "FTVMExternalCompiler", fexternal, level)


def register_gradient(op_name: str, fgradient: Any = None, level: int = 10) -> Any:
    """Gradients of Relay are left out: an error that says so."""
    what = "gradients of Relay's operators are not supported"
    hint = "differentiate in Relax: relax.transform.Gradient"
    raise NotImplementedError(explain(what, got=op_name, instead=hint))


class OpPattern:
    """How an operator takes part in fusion."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8
