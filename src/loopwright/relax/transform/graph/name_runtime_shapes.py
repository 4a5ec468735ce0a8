"""NameRuntimeShapes: names dimensions that are known only at run time.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((6,), dtype="float32")) -> R.Tensor(dtype="float32", ndim=1):
          y: R.Tensor(dtype="float32", ndim=1) = R.unique(x, R.prim_value(1), R.prim_value(0), R.prim_value(0), R.prim_value(0))
    -     z: R.Tensor(dtype="float32", ndim=1) = R.add(y, y)
    +     y_0 = T.int64()
    +     y_1: R.Tensor((y_0,), dtype="float32") = R.match_cast(y, R.Tensor((y_0,), dtype="float32"))
    +     z: R.Tensor((y_0,), dtype="float32") = R.add(y_1, y_1)
          return z

The operators after it then have symbolic shapes, so that they can be lowered to kernels. A value is
named where an operator that has kernels takes it; its rank and data type must be known. So is a shape
that is a value: `R.ones(shape, dtype="float32")`.
"""

from __future__ import annotations

from typing import Any

from ....ir.functor import post_order_visit
from ....ir.node import Node
from ....ir.op import Op
from ....ir.prim_expr import Var as TirVar
from ... import expr as rx
from ...functor import GraphRewriter
from ...struct_info import ShapeStructInfo, StructInfo, TensorStructInfo
from ..decorators import RewriterPass


class _Namer(GraphRewriter):
    def function(self, func: rx.Function) -> rx.Function:
        self.operands = _operands(func)
        self.casts: dict[rx.MatchCast, rx.Var] = {}  # created here -> the variable it renames
        if not self.operands:
            return func
        first = [self.named(p, p) for p in func.params if self.is_open(p, p)]
        if first:
            blocks = [rx.BindingBlock(first), *func.body.blocks]
            func = func.replace(body=rx.SeqExpr(blocks, func.body.body, func.body.span))
        return super().function(func)

    def is_open(self, old: rx.Var, new: rx.Var) -> bool:
        """Whether a value's shape is to be named."""
        return old in self.operands and _is_unknown(new.struct_info)

    def binding(self, binding: Any) -> None:
        old = binding.var
        if binding in self.casts:
            self.builder.emit_normalized(binding)
            info = old.struct_info
            is_shape = isinstance(info, ShapeStructInfo)  # its dimensions are used instead
            self.var_map[self.casts[binding]] = rx.ShapeExpr(info.values) if is_shape else old
            return
        super().binding(binding)
        new = self.var_map.get(old, old)
        if self.is_open(old, new):
            self.binding(self.named(new, old))

    def named(self, var: rx.Var, old: rx.Var) -> rx.MatchCast:
        """The match_cast of a value, for the uses of a variable after it."""
        info = var.struct_info
        dims = [TirVar(f"{var.name_hint}_{k}", "int64") for k in range(info.ndim)]
        named: Any = ShapeStructInfo(dims)
        if isinstance(info, TensorStructInfo):
            named = TensorStructInfo(rx.ShapeExpr(dims), info.dtype)
        kind = rx.DataflowVar if isinstance(old, rx.DataflowVar) else rx.Var
        cast = rx.MatchCast(kind(var.name_hint, named), var, named, var.span)
        self.casts[cast] = old
        return cast


def _is_unknown(info: StructInfo) -> bool:
    if isinstance(info, ShapeStructInfo):
        return info.values is None and info.ndim >= 0
    tensor = isinstance(info, TensorStructInfo) and info.get_shape() is None
    return tensor and info.ndim >= 0 and not info.dtype.is_void


def _operands(func: rx.Function) -> set[rx.Var]:
    """The variables that operators with kernels take."""
    variables: set[rx.Var] = set()

    def visit(node: Node | None) -> None:
        if isinstance(node, rx.Call) and isinstance(node.op, Op) and _has_kernel(node.op):
            for arg in node.args:
                fields = arg.fields if isinstance(arg, rx.Tuple) else [arg]
                variables.update(f for f in fields if isinstance(f, rx.Var))

    post_order_visit(func, visit)
    return variables


def _has_kernel(op: Op) -> bool:
    return op.get_attr("FLegalize") is not None


class NameRuntimeShapes(RewriterPass):
    """Binds unknown shapes of operators' arguments to new symbolic variables."""

    rewriter = _Namer
