"""SinkReshapes: moves reshapes below the operators that use them, until they cancel.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor((1, 4, 6), dtype="float32"), w: R.Tensor((6, 8), dtype="float32"), b: R.Tensor((8,), dtype="float32")) -> R.Tensor((1, 4, 8), dtype="float32"):
              with R.dataflow():
    -             lv: R.Tensor((4, 6), dtype="float32") = R.reshape(x, R.shape([4, 6]))
    -             lv1: R.Tensor((4, 8), dtype="float32") = R.matmul(lv, w)
    -             lv2: R.Tensor((4, 8), dtype="float32") = R.add(lv1, b)
    -             gv: R.Tensor((1, 4, 8), dtype="float32") = R.reshape(lv2, R.shape([1, 4, 8]))
    +             lv1: R.Tensor((1, 4, 8), dtype="float32") = R.matmul(x, w)
    +             lv2: R.Tensor((1, 4, 8), dtype="float32") = R.add(lv1, b)
    +             gv: R.Tensor((1, 4, 8), dtype="float32") = lv2
                  R.output(gv)
              return gv

A reshape moves below the elementwise operators and the products by a matrix that use it, until it
meets one that undoes it, with which it vanishes, or an operator that needs the original shape.
Between a product and the operators fused into it no reshape is left. The rows of a product are one axis:
several are reshaped into one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from ....ir.literals import is_one
from ....ir.prim_expr import PrimExpr
from ....ir.prim_op import multiply
from ....ir.transform import IRModule, ModulePass, PassContext
from ... import op as relax_op
from ...expr import Call, Expr, Var, VarBinding
from ...layout import LayoutPlan, LayoutQuery, LayoutRewriter, plain, tensor_arguments, with_tensors
from ...relations import can_prove_shape_equal
from ..products import is_call, shape_of


class SinkReshapes(ModulePass):
    """Moves reshapes below elementwise operators and products."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite every function."""
        return _Sinker(mod).run()


@dataclass(frozen=True)
class _View:
    """A tensor that is another one, reshaped, from `span` in the model; whether that is a product."""

    source: Any
    shape: tuple[Any, ...]
    span: Any
    product: bool = False


class _Sinker(LayoutRewriter):
    def laid_out(self, binding: VarBinding) -> Any:
        call, shape = binding.value, shape_of(binding.var)
        if not isinstance(call, Call) or not shape:
            return None
        if is_call(call, "relax.reshape"):
            source = self.source(call.args[0])
            before = shape_of(source)
            if before is None:
                return None
            return (
                source
                if can_prove_shape_equal(before, shape)
                else _View(source, shape, binding.span)
            )
        tensors = tensor_arguments(call)
        views = [self.laid.get(t) if isinstance(t, Var) else None for t in tensors]
        if is_call(call, "relax.matmul"):
            return self.product(call, views, shape, binding)
        if not any(views) or not self.is_elementwise(call, views, shape):
            return None
        first = next(v for v in views if v is not None)
        before = shape_of(first.source)
        sources = [
            self.reshaped(t, shape, before) if v is None else v.source
            for t, v in zip(tensors, views, strict=True)
        ]
        return self.view(call, sources, shape, binding, first.product)

    def product(
        self, call: Call, views: list[Any], shape: Sequence[PrimExpr], binding: VarBinding
    ) -> Any:
        """A product by a matrix, of rows that are one axis."""
        rows, right = (self.source(t) for t in call.args)
        before, plain_rows = shape_of(rows), shape_of(call.args[0])
        if views[1] is not None or not before or not plain_rows or len(before) < 2:
            return None
        if len(shape_of(right) or ()) != 2 or not can_prove_shape_equal(
            before[-1:], plain_rows[-1:]
        ):
            return None
        if sum(not is_one(d) for d in before[:-1]) > 1:
            flat = (reduce(multiply, before[:-1]), before[-1])
            rows = self.builder.emit(relax_op.reshape(rows, flat).with_span(binding.span))
        elif views[0] is None:
            return None
        return self.view(call, [rows, right], shape, binding, True)

    def view(
        self, call: Call, sources: list[Any], shape: Any, binding: VarBinding, product: bool
    ) -> _View:
        """The result of a call as a view of the same call on the sources of its arguments."""
        moved = with_tensors(call, sources, _AS_BEFORE).with_span(call.span)
        emitted = self.builder.emit(moved, binding.var.name_hint)
        return _View(emitted, shape, binding.span, product)

    def reshaped(self, tensor: Expr, shape: Sequence[PrimExpr], before: Any) -> Any:
        """Another operand of a view, in the shape of the view's source if it has the view's."""
        value, dims = self.value(tensor), shape_of(tensor) or ()
        if len(dims) < 2 or not can_prove_shape_equal(dims, shape):
            return value
        return self.builder.emit(relax_op.reshape(value, before))

    def restore(self, laid: _View) -> Any:
        return relax_op.reshape(laid.source, laid.shape).with_span(laid.span)

    def plain_name(self, name: str) -> str:
        return name

    def source(self, tensor: Expr) -> Any:
        """The source of a tensor that is a view, or the tensor."""
        laid = self.laid.get(tensor) if isinstance(tensor, Var) else None
        return self.value(tensor) if laid is None else laid.source

    def is_elementwise(self, call: Call, views: list[_View | None], shape: tuple[Any, ...]) -> bool:
        """Whether a call works on each element of the tensors that its views, of one shape and one
        source shape, represent; others are scalars, extend along the last axis of both, or, with a
        product, are of the view's shape."""
        hook, present = self.hook(call), [v for v in views if v is not None]
        before = shape_of(present[0].source)
        same = all(
            can_prove_shape_equal(v.shape, shape)
            and can_prove_shape_equal(shape_of(v.source) or (), before)
            for v in present
        )
        if hook is None or not before or not same:
            return False
        last = can_prove_shape_equal(shape[-1:], before[-1:])
        for tensor, view in zip(tensor_arguments(call), views, strict=True):
            dims = shape_of(tensor) if view is None else ()
            if dims and present[0].product and can_prove_shape_equal(dims, shape):
                continue
            if dims is None or not (all(map(is_one, dims)) or (len(dims) == 1 and last)):
                return False
            if len(dims) > min(len(shape), len(before)):
                return False
        plan = hook(call, LayoutQuery((plain(len(shape)),) * len(views)))
        return (
            plan is not None
            and plan.outputs == (plain(len(shape)),)
            and not (plan.attrs or plan.args or plan.moves_nothing)
        )


_AS_BEFORE = LayoutPlan((), ())
