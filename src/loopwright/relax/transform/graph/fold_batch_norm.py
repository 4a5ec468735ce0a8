"""FoldBatchnormToConv2D: folds a batch norm with constant statistics.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor((1, 2, 3, 3), dtype="float32")) -> R.Tensor((1, 2, 3, 3), dtype="float32"):
              with R.dataflow():
    -             lv = R.nn.batch_norm(x, R.const([1.0, 1.0], "float32"), R.const([0.0, 1.0], "float32"), R.const([0.0, 0.0], "float32"), R.const([1.0, 1.0], "float32"), axis=1, epsilon=0.0, training=False)
    -             gv: R.Tensor((1, 2, 3, 3), dtype="float32") = lv[0]
    +             lv1: R.Tensor((1, 2, 3, 3), dtype="float32") = R.multiply(x, R.const([[[[1.0]], [[1.0]]]], "float32"))
    +             gv: R.Tensor((1, 2, 3, 3), dtype="float32") = R.add(lv1, R.const([[[[0.0]], [[1.0]]]], "float32"))
                  R.output(gv)
              return gv

After a convolution with a constant weight the scale is folded into the weight; elsewhere the batch norm
becomes one multiplication and one addition per channel. Both are constants in float32: with `wide`,
those of a shorter type are casts of these, which need not be rounded where the cast can be left out.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any

import numpy as np

from ....ir.functor import pre_order_visit
from ....ir.node import Node
from ....ir.transform import IRModule, ModulePass, PassContext
from ... import op as relax_op
from ...expr import Call, Constant, Expr, Function, TupleGetItem, Var, const
from ...weights import computed
from ..products import is_call
from ..queries import is_outlined
from ..rewriting import SweepingRewriter


class FoldBatchnormToConv2D(ModulePass):
    """Folds batch norms with constant statistics.

    keep_training: leave batch norms whose `training` is set; otherwise they too are folded by their
        moving mean and variance.
    wide: give constants in float16 and bfloat16 as casts of float32.
    """

    keep_training: bool = False
    wide: bool = False

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite every function."""
        return _Folder(mod, self.keep_training, self.wide).run()


class _Folder(SweepingRewriter):
    def __init__(self, mod: IRModule, keep_training: bool, wide: bool) -> None:
        super().__init__(mod)
        self.wide = wide
        self.keep_training = keep_training
        self.functions = list(mod.functions.values())

    def function(self, func: Function) -> Function:
        return func if is_outlined(func) else super().function(func)

    @cached_property
    def uses(self) -> Counter[Var]:
        """The number of uses of each variable as an argument of calls."""
        uses: Counter[Var] = Counter()

        def count(node: Node) -> None:
            if isinstance(node, Call):
                uses.update(a for a in node.args if isinstance(a, Var))

        for func in self.functions:
            pre_order_visit(func, count)
        return uses

    def tuple_get_item(self, node: TupleGetItem) -> Any:
        norm = self.definition(node.tuple_value)
        if node.index != 0 or not is_call(norm, "relax.nn.batch_norm"):
            return node
        if norm.attrs.training and self.keep_training:
            return node
        data = norm.args[0]
        if not all(isinstance(a, Constant) for a in norm.args[1:]) or data.struct_info.ndim < 0:
            return node
        if any(a.is_weight for a in norm.args[1:]):
            return self.of_weights(norm) or node
        scale, shift = _affine(norm)
        conv = self.folded_into(data, norm)
        if conv is not None:
            weight = conv.args[1].data.numpy()
            folded = self.rounded(weight * scale.reshape(-1, 1, 1, 1), weight.dtype)
            data = _scaled(conv, data, folded)
        else:
            data = relax_op.multiply(data, self.per_channel(scale, data, norm))
        return relax_op.add(data, self.per_channel(shift, norm.args[0], norm))

    def of_weights(self, norm: Call) -> Any:
        """The same where the values are not known yet, by recipes; None where only some are not."""
        data, attrs, dtype = norm.args[0], norm.attrs, str(norm.args[1].struct_info.dtype)
        short = self.wide and dtype in ("float16", "bfloat16")

        def run(op: Any, *args: Any) -> Any:
            return computed(self.builder.normalize(op(*args)))

        def rounded(value: Any) -> Any:
            value = run(relax_op.astype, value, "float32" if short else dtype)
            return relax_op.astype(value, dtype) if short else value

        if not (norm.args[3].is_weight and norm.args[4].is_weight):
            return None
        gamma, beta, mean, var = (
            run(relax_op.astype, a, "float64") if a.is_weight else const(a.data.numpy(), "float64")
            for a in norm.args[1:]
        )
        root = run(relax_op.sqrt, run(relax_op.add, var, const(attrs.epsilon, "float64")))
        scale = run(relax_op.divide, gamma if attrs.scale else const(1.0, "float64"), root)
        shift = run(relax_op.negative, run(relax_op.multiply, mean, scale))
        shift = run(relax_op.add, shift, beta) if attrs.center else shift
        shape = [1] * data.struct_info.ndim
        shape[attrs.axis] = scale.data.size
        conv = self.folded_into(data, norm)
        if conv is not None:
            weight = run(relax_op.astype, conv.args[1], "float64")
            factor = run(relax_op.reshape, scale, (-1, 1, 1, 1))
            folded = rounded(run(relax_op.multiply, weight, factor))
            data = _scaled(conv, data, folded)
        else:
            data = relax_op.multiply(data, rounded(run(relax_op.reshape, scale, shape)))
        return relax_op.add(data, rounded(run(relax_op.reshape, shift, shape)))

    def folded_into(self, data: Expr, norm: Call) -> Any:
        """The convolution whose weight takes the scale of a batch norm, or None."""
        conv = self.definition(data)
        alone = isinstance(data, Var) and self.uses[data] == 1
        if not (is_call(conv, "relax.nn.conv2d") and alone):
            return None
        plain = conv.attrs.data_layout == "NCHW" and conv.attrs.kernel_layout == "OIHW"
        weight = conv.args[1]
        constant = isinstance(weight, Constant) and weight.is_weight == norm.args[4].is_weight
        return conv if plain and constant and norm.attrs.axis in (1, -3) else None

    def per_channel(self, values: np.ndarray, data: Expr, norm: Call) -> Any:
        rank = data.struct_info.ndim
        shape = [1] * rank
        shape[norm.attrs.axis] = -1
        return self.rounded(values.reshape(shape), norm.args[1].data.numpy().dtype)

    def rounded(self, values: np.ndarray, dtype: np.dtype) -> Any:
        """A constant of a dtype."""
        if self.wide and str(dtype) in ("float16", "bfloat16"):
            return relax_op.astype(const(values.astype(np.float32)), str(dtype))
        return const(values.astype(dtype))


def _scaled(conv: Call, data: Expr, weight: Expr) -> Call:
    """The convolution `data` with another weight. It stays the convolution's node; the batch norm's is the
    addition."""
    return conv.replace(args=(conv.args[0], weight)).with_span(conv.span or data.span)


def _affine(norm: Call) -> tuple[np.ndarray, np.ndarray]:
    """(scale, shift) of a batch norm, per channel."""
    gamma, beta, mean, var = (a.data.numpy().astype(np.float64) for a in norm.args[1:])
    scale = 1.0 / np.sqrt(var + norm.attrs.epsilon)
    scale = scale * gamma if norm.attrs.scale else scale
    shift = -mean * scale + (beta if norm.attrs.center else 0.0)
    return scale, shift
