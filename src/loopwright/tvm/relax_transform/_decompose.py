"""What DecomposeOpsForInference and DecomposeOpsForTraining share: the rules and how they are applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ...base.errors import explain
from ...ir.op import Op
from ...ir.prim_expr import IntImm
from ...ir.prim_expr import Var as TirVar
from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax import op as relax_op
from ...relax.block_builder import BlockBuilder
from ...relax.functor import GraphRewriter
from ...relax.struct_info import ShapeStructInfo
from ...relax.transform.products import shape_of

Rule = Callable[[BlockBuilder, rx.Call], Any]  # the replacement; None: the call stays


@dataclass(frozen=True)
class DecomposePass(ModulePass, abstract=True):
    """func_name: the function to rewrite; None: all of them."""

    rules: ClassVar[Mapping[str, Rule]]
    func_name: str | None = None

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        rewriter = _Decomposer(mod, self.rules)
        if self.func_name is None:
            return rewriter.run()
        if self.func_name not in mod:
            what = f"{self.name}: no function of this name"
            names = ", ".join(sorted(g.name_hint for g in mod.functions))
            raise ValueError(explain(what, got=repr(self.func_name), instead=f"one of {names}"))
        gvar = mod.get_global_var(self.func_name)
        return mod.with_functions({gvar: rewriter.function(mod[gvar])})


class _Decomposer(GraphRewriter):
    def __init__(self, mod: IRModule, rules: Mapping[str, Rule]) -> None:
        super().__init__(mod)
        self.rules = rules

    def call(self, call: rx.Call) -> Any:
        rule = self.rules.get(call.op.name) if isinstance(call.op, Op) else None
        new = rule(self.builder, call) if rule is not None else None
        return call if new is None else new


def batch_norm_for_inference(builder: BlockBuilder, call: rx.Call) -> Any:
    """By the moving mean and variance, which do not change."""
    if not _plain(call):
        return None
    *_, mean, variance = call.args
    return rx.Tuple([_normalized(call, mean, variance), mean, variance])


def batch_norm_for_training(builder: BlockBuilder, call: rx.Call) -> Any:
    """By the mean and the variance of the batch, which move the others."""
    if not _plain(call):
        return None
    data, *_, moving_mean, moving_variance = call.args
    axes, momentum = _other_axes(call), float(call.attrs.momentum)
    mean = builder.emit(relax_op.mean(data, axes))
    variance = builder.emit(relax_op.variance(data, axes))
    outputs = builder.emit(rx.Tuple([_normalized(call, mean, variance), mean, variance]))
    result = builder.emit(rx.TupleGetItem(outputs, 0))

    def moved(old: rx.Expr, new: Any) -> Any:
        old_share, new_share = (_scalar(c, old) for c in (1 - momentum, momentum))
        return relax_op.add(relax_op.multiply(old_share, old), relax_op.multiply(new_share, new))

    return rx.Tuple([result, moved(moving_mean, mean), moved(moving_variance, variance)])


def layer_norm(builder: BlockBuilder, call: rx.Call) -> Any:
    """Over the last axes; where others are normalized, the call stays."""
    data, gamma, beta = call.args
    ndim, attrs = data.struct_info.ndim, call.attrs
    axes = [int(a) % ndim for a in attrs.axes] if _plain(call) else []
    if not axes or axes != [*range(ndim - len(axes), ndim)]:
        return None
    mean = relax_op.mean(data, attrs.axes, keepdims=True)
    variance = relax_op.variance(data, attrs.axes, keepdims=True)
    value = _standardized(data, mean, variance, attrs.epsilon)
    value = relax_op.multiply(value, gamma) if attrs.scale else value
    return relax_op.add(value, beta) if attrs.center else value


def tensor_to_shape(builder: BlockBuilder, call: rx.Call) -> Any:
    """By the function of the run time; the dimensions get names."""
    dims = shape_of(call.args[0])
    if dims is None or not isinstance(dims[0], IntImm):
        return None
    count = dims[0].value
    called = relax_op.call_pure_packed(
        "vm.builtin.tensor_to_shape", call.args[0], sinfo_args=[ShapeStructInfo(ndim=count)]
    )
    names = [TirVar("x" if k == 0 else f"x_{k}", "int64") for k in range(count)]
    builder.match_cast(builder.emit(called), ShapeStructInfo(names))
    return rx.ShapeExpr(names)


def _normalized(call: rx.Call, mean: rx.Expr, variance: rx.Var) -> Any:
    """The result of a batch norm with this mean and variance for each channel."""
    data, gamma, beta = call.args[:3]
    spread = lambda v: relax_op.expand_dims(v, _other_axes(call))  # noqa: E731
    value = _standardized(data, spread(mean), spread(variance), call.attrs.epsilon)
    value = relax_op.multiply(value, spread(gamma)) if call.attrs.scale else value
    return relax_op.add(value, spread(beta)) if call.attrs.center else value


def _standardized(data: rx.Expr, mean: rx.Expr, variance: rx.Expr, epsilon: float) -> Any:
    root = relax_op.sqrt(relax_op.add(variance, _scalar(epsilon, data)))
    return relax_op.divide(relax_op.subtract(data, mean), root)


def _scalar(value: float, like: rx.Expr) -> rx.Constant:
    return rx.const(value, str(like.struct_info.dtype))


def _plain(call: rx.Call) -> bool:
    """Whether rank and types are known, and all arguments are of the same type."""
    infos = [a.struct_info for a in call.args]
    return infos[0].ndim >= 0 and len({str(i.dtype) for i in infos} | {"void"}) == 2


def _other_axes(call: rx.Call) -> list[int]:
    ndim = call.args[0].struct_info.ndim
    return [a for a in range(ndim) if a != int(call.attrs.axis) % ndim]
