"""Losses, as graph functions for given types.

loss = CrossEntropyLoss(reduction="sum")
function = loss(TensorStructInfo((8, 10), "float32"), TensorStructInfo((8,), "int64"))
"""

from __future__ import annotations

from typing import Any

from ...base.errors import explain
from ...relax import op as R
from ...relax.block_builder import BlockBuilder
from ...relax.expr import Expr, Function, Var
from ...relax.struct_info import StructInfo

REDUCTIONS = ("mean", "sum", "none")


class Loss:
    """Base of losses; a subclass has `value`.

    loss_name: the name of the function. num_backbone_outputs: the number of its first parameters that are
    results of the model. reduction: "mean", "sum" or "none".
    """

    def __init__(self, loss_name: str, num_backbone_outputs: int, reduction: str = "mean") -> None:
        if reduction not in REDUCTIONS:
            hint = f"one of {', '.join(REDUCTIONS)}"
            raise ValueError(explain("unknown reduction of a loss", got=reduction, instead=hint))
        self.loss_name = loss_name
        self.reduction = reduction
        self._num_backbone_outputs = num_backbone_outputs

    @property
    def num_backbone_outputs(self) -> int:
        """The number of the first parameters that are results of the model."""
        return self._num_backbone_outputs

    def value(self, predictions: Var, targets: Var) -> Expr:
        """The loss of predictions."""
        raise NotImplementedError

    def __call__(self, *args: StructInfo) -> Function:
        """The function for parameters of these types: predictions, targets, and weights where the
        loss takes them."""
        names = ("predictions", "targets", "weights")
        if not 2 <= len(args) <= len(names):
            what = f"{self.loss_name} takes the types of {', '.join(names)}"
            raise ValueError(explain(what, got=f"{len(args)} types"))
        params = [Var(name, info) for name, info in zip(names, args, strict=False)]
        builder = BlockBuilder()
        with builder.function(self.loss_name, params):
            with builder.dataflow():
                out = builder.emit_output(self.value(*params))
            gvar = builder.emit_func_output(out)
        return builder.get()[gvar]

    def reduced(self, value: Expr) -> Any:
        """A value reduced over all its axes."""
        return value if self.reduction == "none" else getattr(R, self.reduction)(value)


class L1Loss(Loss):
    """abs(predictions - targets)"""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__("l1_loss", 1, reduction)

    def value(self, predictions: Var, targets: Var) -> Expr:
        return self.reduced(R.abs(R.subtract(predictions, targets)))


class MSELoss(Loss):
    """(predictions - targets) ** 2"""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__("mse_loss", 1, reduction)

    def value(self, predictions: Var, targets: Var) -> Expr:
        error = R.subtract(predictions, targets)
        return self.reduced(R.multiply(error, error))


class CrossEntropyLoss(Loss):
    """The negative logarithm of softmax(predictions) at the classes `targets`, weighted by class.

    ignore_index: targets of this class do not count.
    """

    def __init__(self, reduction: str = "mean", ignore_index: int = -100) -> None:
        super().__init__("cross_entropy_loss", 1, reduction)
        self.ignore_index = ignore_index

    def value(self, predictions: Var, targets: Expr, weights: Var | None = None) -> Expr:
        logits = R.nn.log_softmax(predictions)
        return R.nn.nll_loss(logits, targets, weights, self.reduction, self.ignore_index)


class CategoricalCrossEntropyLoss(CrossEntropyLoss):
    """CrossEntropyLoss whose targets are one-hot, or probabilities of the classes.

    ignore_index: if it is not negative, targets count by their greatest class only, and those of
        this class do not count.
    """

    def __init__(self, reduction: str = "mean", ignore_index: int = -100) -> None:
        super().__init__(reduction, ignore_index)
        self.loss_name = "categorical_cross_entropy_loss"

    def value(self, predictions: Var, targets: Expr, weights: Var | None = None) -> Expr:
        if self.ignore_index >= 0:
            logits = R.nn.log_softmax(predictions)
            classes = R.reshape(R.argmax(targets, axis=1), targets.struct_info.get_shape()[:1])
            return R.nn.nll_loss(logits, classes, weights, self.reduction, self.ignore_index)
        dtype = predictions.struct_info.dtype
        value = -R.nn.log_softmax(predictions) * R.astype(targets, dtype)
        return self.reduced(value if weights is None else value * weights)
