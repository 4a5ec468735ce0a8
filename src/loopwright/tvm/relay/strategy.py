"""Op strategies: the kernels that an operator may become, and which of them is taken.

A strategy is the fact "FTVMStrategy" of an operator: `fn(attrs, inputs, out_type, target) -> OpStrategy`,
mostly a `target.generic_func`. An implementation is a tensor expression with a te schedule, or a
function that returns a TensorIR PrimFunc (its buffers the arguments, then the results). The one of
the highest `plevel` whose condition holds is used; a scheduled function is not scheduled again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import te
from ...base.errors import LoopwrightError, explain
from ...ir import trace
from ...ir.expr import Attrs
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.prim_expr import IntImm, PrimExpr
from ...ir.target import Target
from ...ops.core import OPERATORS, Operator
from ...relax import BlockBuilder
from ...relax import Var as RelaxVar
from ...relax import expr as rx
from ...relax.op import call_tir
from ...relax.struct_info import TensorStructInfo
from ...te.tensor import Tensor
from ...tir.function import PrimFunc
from ..te.specialize import SpecializedCondition
from .expr import Call
from .operators.core import Row, row_of
from .relax_types import Extents
from .types import TensorType, TupleType, Type

STRATEGY = "FTVMStrategy"
DEFAULT_LEVEL = (
    10  # TVM's default `plevel`; implementations below it do not replace an operator's row
)
# Kernels of strategies have it: the rules for default schedules leave them as they are.
SCHEDULED = "tir.is_scheduled"


class OpImplementation:
    """One kernel of an operator: `compute(attrs, inputs, out_type)` and `schedule(attrs, outs,
    target)`."""

    def __init__(
        self,
        compute: PrimFunc | Callable[..., Any],
        schedule: Callable[..., Any] | None,
        name: str,
        plevel: int,
    ) -> None:
        self._compute, self._schedule = compute, schedule
        self.name, self.plevel = name, plevel
        self.is_row = False  # it is what every operator has: its row

    def __repr__(self) -> str:
        return f"OpImplementation({self.name!r}, plevel={self.plevel})"

    def compute(
        self, attrs: Attrs | None, inputs: Sequence[te.Tensor], out_type: Type | None
    ) -> Any:
        """The results as te tensors; of an implementation in TensorIR, the PrimFunc."""
        if isinstance(self._compute, PrimFunc):
            return self._compute
        outputs = self._compute(attrs, list(inputs), out_type)
        return [outputs] if isinstance(outputs, te.Tensor) else outputs

    def schedule(self, attrs: Attrs | None, outs: Sequence[Tensor], target: Target | str) -> Any:
        """The schedule of the results; None where the default rules are to make it."""
        if self._schedule is None:
            return None
        with Target(target):
            return self._schedule(attrs, outs, Target(target))


class OpSpecialization:
    """Implementations under a condition, or always."""

    def __init__(self, condition: SpecializedCondition | None) -> None:
        self.condition = condition
        self.implementations: list[OpImplementation] = []


class OpStrategy:
    """The implementations of an operator for some arguments and a target."""

    def __init__(self) -> None:
        self.specializations: list[OpSpecialization] = []

    def add_implementation(
        self,
        compute: PrimFunc | int | Callable[..., Any],
        schedule: Callable[..., Any] | None = None,
        name: str = "default",
        plevel: int = 10,
    ) -> None:
        """Add a kernel, under the open `te.SpecializedCondition` if there is one.

        compute: f(attrs, inputs, out_type) -> te tensors, or -> PrimFunc; or the PrimFunc itself.
        schedule: f(attrs, outs, target) -> te.Schedule; None: the default rules schedule it."""
        if not (callable(compute) or isinstance(compute, PrimFunc)):
            what = "an implementation computes by a function or is a PrimFunc"
            raise TypeError(explain(what, got=repr(compute)))
        condition = SpecializedCondition.current()
        specialization = next((s for s in self.specializations if s.condition is condition), None)
        if specialization is None:
            specialization = OpSpecialization(condition)
            self.specializations.append(specialization)
        specialization.implementations.append(
            OpImplementation(compute, schedule, name, int(plevel))
        )


# ---------------------------------------------------------------------- the default


def row_compute(row: Row) -> Callable[..., Any]:
    """The tensor expression of an operator: those of the Relax operators in its body."""

    def compute(attrs: Attrs | None, inputs: Sequence[te.Tensor], out_type: Type) -> Any:
        bb = BlockBuilder()
        params = [
            RelaxVar(t.op.name, TensorStructInfo([_wide(d) for d in t.shape], t.dtype))
            for t in inputs
        ]
        values: dict[Any, Any] = {v.vid: t for v, t in zip(params, inputs, strict=True)}
        values_by_name = dict(attrs.items()) if isinstance(attrs, Attrs) else {}
        with bb.testing_scope(def_vars=[]):
            args = _as_arguments(row, params)
            call = row.apply(
                args, {n: values_by_name.get(n, row.defaults.get(n)) for n in row.attr_names}, bb
            )
            out = bb.emit(call)
            for binding in bb._frame().bindings:
                values[binding.var.vid] = _te_value(binding.value, values, bb)
        result = values[out.vid]
        return [*map(_te_tensor, result if isinstance(result, (list, tuple)) else [result])]

    return compute


def _wide(dim: PrimExpr) -> Any:
    return IntImm("int64", dim.value) if isinstance(dim, IntImm) else dim


def _as_arguments(row: Row, args: list[Any]) -> list[Any]:
    """The tensors as the call's arguments: a parameter `Inputs` takes all that the others leave."""
    kinds = list(row.inputs.values())
    for i, kind in enumerate(kinds):
        if kind.startswith("Inputs"):
            rest = len(args) - len(kinds) + 1
            return [*args[:i], rx.Tuple(args[i : i + rest]), *args[i + rest :]]
    return args


def _te_argument(arg: rx.Expr, values: dict[Any, Any], bb: BlockBuilder, operator: Operator) -> Any:
    """The te value of an argument: a number is a tensor for an operator that takes only these."""
    value = None if arg is None else _te_value(arg, values, bb)
    number = isinstance(arg, rx.Constant) and not operator.takes_scalars
    return _te_tensor(value) if number else value


def _te_tensor(value: Any) -> te.Tensor:
    """A tensor of a number, or of itself."""
    return value if isinstance(value, te.Tensor) else te.compute((), lambda: value, "number")


def _te_value(value: rx.Expr, values: dict[Any, Any], bb: BlockBuilder) -> Any:
    """The te value of an expression of Relax."""
    if isinstance(value, rx.Var):
        return values[value.vid]
    if isinstance(value, rx.Tuple):
        return [_te_value(f, values, bb) for f in value.fields]
    if isinstance(value, rx.TupleGetItem):
        return _te_value(value.tuple_value, values, bb)[value.index]
    if isinstance(value, rx.ShapeExpr):
        return list(value.values)
    if isinstance(value, rx.PrimValue):
        return value.value
    if isinstance(value, rx.Constant) and not value.data.shape:
        return te.const(value.data.numpy().item(), str(value.data.dtype))
    if isinstance(value, rx.Call) and isinstance(value.op, Op) and value.op.name in OPERATORS:
        operator = OPERATORS[value.op.name]
        args = [_te_argument(a, values, bb, operator) for a in operator.args_of(value).values()]
        result = operator.body(*args, **operator.attrs_of(value))
        if result is not None:
            return result
    if isinstance(value, rx.Call) and value.op is Op.get("relax.call_tir"):
        func = bb.get()[value.args[0]]
        return te.extern_primfunc([_te_value(f, values, bb) for f in value.args[1].fields], func)
    what = "this operator is not a tensor expression of its arguments alone"
    raise LoopwrightError(explain(what, got=str(value), instead="use relax.build"))


def default_strategy(row: Row) -> OpStrategy:
    """The one implementation that every operator has: its row, scheduled by the default rules."""
    strategy = OpStrategy()
    name = f"{row.name.rpartition('.')[2]}.loopwright"
    strategy.add_implementation(row_compute(row), None, name, DEFAULT_LEVEL)
    strategy.specializations[0].implementations[0].is_row = True
    return strategy


# ---------------------------------------------------------------------- the choice


def strategy_of(
    op: Op, attrs: Attrs | None, inputs: Sequence[Tensor], out_type: Type, target: Target | str
) -> OpStrategy | None:
    """The strategy of an operator, None where it has none or leaves this call alone."""
    rule = op.get_attr(STRATEGY)
    if rule is None:
        return None
    where = Target(target)
    with where:
        strategy = rule(attrs, list(inputs), out_type, where)
    if strategy is not None and not isinstance(strategy, OpStrategy):
        what = f"the strategy of {op.name} must return an OpStrategy or None"
        raise TypeError(explain(what, got=repr(strategy)))
    return strategy


def _holding(strategy: OpStrategy | None) -> list[OpImplementation]:
    """The implementations whose condition holds."""
    return [
        implementation
        for special in (strategy.specializations if strategy is not None else ())
        if special.condition is None or special.condition.holds()
        for implementation in special.implementations
    ]


def get_valid_implementations(
    op: Op, attrs: Attrs | None, inputs: Sequence[Tensor], out_type: Type, target: str
) -> list[OpImplementation]:
    """The implementations of the operator's strategy whose condition holds; the default one where
    it has none. Raises if that is missing, too."""
    row = row_of(op)
    implementations = _holding(strategy_of(op, attrs, inputs, out_type, target))
    if not implementations and row is not None:
        implementations = _holding(default_strategy(row))
    if not implementations:
        what = f"no implementation of {op.name} fits"
        raise LoopwrightError(explain(what, got=str(out_type), instead="add one to its strategy"))
    return implementations


def select_implementation(
    op: Op,
    attrs: Attrs | None,
    inputs: Sequence[Tensor],
    out_type: Type,
    target: str,
    use_autotvm: bool = True,
) -> tuple[OpImplementation, list[te.Tensor]]:
    """The implementation of the highest level, the first of these, and its results."""
    valid = get_valid_implementations(op, attrs, inputs, out_type, target)
    best = max(valid, key=lambda i: i.plevel)
    return best, best.compute(attrs, inputs, out_type)


class StrategyChoice:
    """Called by the translation for each call: the kernel of the operator's strategy.

    None, so that the row is used, without a strategy or where its best is below the default."""

    def __init__(self, target: Any) -> None:
        self.target = Target(target)

    def __call__(self, call: Call, args: list[Any], bb: BlockBuilder) -> Any:
        op = call.op
        if not isinstance(op, Op) or op.get_attr(STRATEGY) is None:
            return None
        types = [a.checked_type for a in call.args]
        inputs = [p for t in types for p in placeholders(t)]
        out_type = call.checked_type
        strategy = strategy_of(op, call.attrs, inputs, out_type, self.target)
        valid = _holding(strategy)
        best = max(valid, key=lambda i: i.plevel, default=None)
        losers = [f"{i.name} ({i.plevel})" for i in valid if i is not best]
        is_chosen = best is not None and best.plevel >= DEFAULT_LEVEL and not best.is_row
        reason = (
            f"plevel {best.plevel}" if best is not None else "the strategy left this call alone"
        )
        trace.note(
            "legalize",
            op.name,
            winner=best.name if best is not None and is_chosen else "the default",
            reason=reason,
            others=losers,
            target=str(self.target),
        )
        if best is None or not is_chosen:
            return None
        func = self._kernel(best, call, inputs, out_type)
        gvar = bb.add_func(func, op.name.replace(".", "_"))
        info = Extents().info(out_type)
        tensors = [f for a in args for f in (a.fields if isinstance(a, rx.Tuple) else [a])]
        return call_tir(gvar, tensors, info)

    def _kernel(
        self, best: OpImplementation, call: Call, inputs: Sequence[Tensor], out_type: Type
    ) -> PrimFunc:
        outs = best.compute(call.attrs, inputs, out_type)
        if isinstance(outs, PrimFunc):
            return outs.with_attr({SCHEDULED: True, "global_symbol": None}).without_attr(
                "global_symbol"
            )
        schedule = best.schedule(call.attrs, outs, self.target)
        if isinstance(schedule, te.Schedule):
            mod = te.lower(schedule, [*inputs, *outs], name="kernel", simple_mode=False)
            func: Any = mod["kernel"] if isinstance(mod, IRModule) else mod
            return func.with_attr(SCHEDULED, True).without_attr("global_symbol")
        return te.create_prim_func([*inputs, *outs]).without_attr("global_symbol")


def placeholders(type_: Type) -> list[te.Tensor]:
    """A te placeholder for each tensor of a type."""
    if isinstance(type_, TupleType):
        return [p for f in type_.fields for p in placeholders(f)]
    if not isinstance(type_, TensorType):
        what = "a kernel takes tensors"
        raise TypeError(explain(what, got=str(type_)))
    dims = [d.value if isinstance(d, IntImm) else te.size_var("any") for d in type_.shape]
    return [te.placeholder(dims, str(type_.dtype), "placeholder")]
