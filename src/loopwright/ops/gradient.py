"""Gradients: the hook `grad` of an operator, and the helpers of its rules.

    @log.grad
    def _(cx, x):
        return cx.grad / x

A rule gets a `Backward` and the call's graph arguments by name (omitted ones are None), then its
attributes. It returns the gradient for the first argument, or a list with one for each argument of
the call: an expression, or None for an argument that has none (indices, conditions, shapes). Those
at the end may be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import TYPE_CHECKING, Any

from .. import relax
from ..base.errors import explain
from ..ir.prim_expr import IntImm, PrimExpr
from ..relax.expr import Call, Expr, Var
from ..relax.relations import can_prove_shape_equal

if TYPE_CHECKING:
    from ..ir.dtype import DataType
    from ..relax.block_builder import BlockBuilder
    from .core import Operator

Rule = Callable[..., Any]
# (the variable that holds the result, the call, the gradient of the result, a block builder)
FGradient = Callable[[Var, Call, Var, Any], list[Any]]


class Backward:
    """The call that is differentiated.

    out: its result. grad: the gradient of the result, of the result's type. call: the call.
    """

    def __init__(self, out: Var, call: Call, grad: Expr, bb: BlockBuilder) -> None:
        self.out, self.call, self.grad, self.bb = out, call, grad, bb

    def shape(self, value: Expr) -> Any:
        """The shape of a tensor, which must be known."""
        return value.struct_info.shape

    def number(self, value: float, like: Any = None) -> Any:
        """A constant of the dtype of `like` (None: of the result)."""
        return relax.const(value, str((self.out if like is None else like).struct_info.dtype))

    @property
    def kind(self) -> str:
        """The dtype of the result."""
        return str(self.out.struct_info.dtype)

    def fit(self, value: Expr, x: Expr) -> Any:
        """A gradient of the result's shape, summed where the argument `x` was broadcast."""
        shape = self.shape(x)
        if can_prove_shape_equal(self.shape(self.out), shape):
            return value
        return relax.op.collapse_sum_to(value, shape)

    def spread(self, value: Expr, x: Expr, axis: Sequence[int] | None, keepdims: bool) -> Any:
        """The result of a reduction of `x` over `axis`, in a form that can be broadcast to `x`: with the
        reduced axes put back, a scalar if all are reduced."""
        if keepdims or axis is None:
            return value
        rank = x.struct_info.ndim
        return relax.op.expand_dims(value, sorted(a % rank for a in axis)) if axis else value

    def count(self, x: Expr, axis: Sequence[int] | None) -> Any:
        """The number of elements over `axis` (None: all), of the result's dtype."""
        dims = x.struct_info.get_shape()
        over = [dims[a] for a in (range(len(dims)) if axis is None else axis)]
        literals = [int(d) for d in over if isinstance(d, IntImm)]
        total = self.number(prod(literals))
        for d in over:
            if not isinstance(d, IntImm):
                total = total * relax.op.sum(relax.op.ones([d], self.kind))
        return total

    def literal(self, dim: PrimExpr) -> int:
        """A literal extent. Raises NotImplementedError for a symbolic one."""
        if isinstance(dim, int | IntImm):
            return int(dim)
        raise self.refusal("symbolic extents", dim)

    def refusal(self, what: str, got: Any) -> NotImplementedError:
        """The error of a rule that does not cover a call."""
        text = f"{self.call.op.name} has no gradient for {what}"
        return NotImplementedError(explain(text, got=got, span=self.call.span))


def gradient_of(operator: Operator, rule: Rule) -> FGradient:
    """The fact "FPrimalGradient" for a rule."""

    @wraps(rule)
    def gradient(out: Var, call: Call, grad: Expr, bb: BlockBuilder) -> list[Any]:
        args = operator.args_of(call)
        result = rule(Backward(out, call, grad, bb), **args, **operator.attrs_of(call))
        inputs = [value for value in args.values() if value is not None]
        listed = result if isinstance(result, list) else [result]
        assert len(listed) <= len(inputs), operator.name
        return [
            relax.op.grad.no_grad(arg) if one is None else one
            for one, arg in zip(listed, inputs, strict=False)
        ]

    return gradient


def no_gradient(cx: Backward, *args: dict[str, Any], **values: DataType | Expr | int) -> list[None]:
    """The rule of operators whose result does not change with their arguments."""
    return [None] * len(cx.call.args)
