"""ByteTails: rescales sums of bytes to bytes by one factor, in the kernels that add them.

Pass::

    ByteTails()

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2, 4), dtype="uint8"), w: R.Tensor((4, 2), dtype="int8")) -> R.Tensor((2, 2), dtype="uint8"):
          with R.dataflow():
              lv: R.Tensor((2, 2), dtype="int32") = R.nn.byte_matmul(x, w)
    -         lv1: R.Tensor((2, 2), dtype="int32") = R.subtract(lv, R.const([5, 6], "int32"))
    -         lv2: R.Tensor((2, 2), dtype="float32") = R.astype(lv1, dtype="float32")
    -         lv3: R.Tensor((2, 2), dtype="float32") = R.multiply(lv2, R.const([0.5, 0.25], "float32"))
    -         gv: R.Tensor((2, 2), dtype="uint8") = R.quantize(lv3, R.const(2.0, "float32"), R.const(3, "uint8"), axis=0, out_dtype="uint8")
    +         lv1: R.Tensor((2,), dtype="int32") = R.negative(R.const([5, 6], "int32"))
    +         lv2: R.Tensor((2, 2), dtype="int32") = R.add(lv, lv1)
    +         lv3: R.Tensor((2, 2), dtype="float32") = R.astype(lv2, dtype="float32")
    +         lv4: R.Tensor((2,), dtype="float32") = R.divide(R.const([0.5, 0.25], "float32"), R.const(2.0, "float32"))
    +         lv5: R.Tensor((2, 2), dtype="float32") = R.multiply(lv3, lv4)
    +         lv6: R.Tensor((2, 2), dtype="float32") = R.clip(lv5, R.prim_value(T.float32(-3.0)), R.prim_value(T.float32(252.0)))
    +         lv7: R.Tensor((2, 2), dtype="float32") = R.round(lv6)
    +         lv8: R.Tensor((2, 2), dtype="int32") = R.astype(lv7, dtype="int32")
    +         lv9: R.Tensor((2, 2), dtype="int32") = R.add(lv8, R.const(3, "int32"))
    +         gv: R.Tensor((2, 2), dtype="uint8") = R.astype(lv9, dtype="uint8")
              R.output(gv)
          return gv

The sums, shifted, times a factor that is the scales' quotient: the definition of QLinearConv in the standard. A bias
in float32 that is a number of int32 times the same scale becomes that number. Operators that only move quantized
numbers, or take the greatest, are applied to their bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ....ir.op import Op
from ....ir.prim_expr import IntImm
from ....ir.transform import PassContext
from ... import op as relax_op
from ...analysis.variables import udchain, used_vars
from ...expr import Call, Constant, Expr, Function, ShapeExpr, Var, const
from ...relations import can_prove_shape_equal
from ..decorators import FunctionPass
from ..products import is_call, shape_of
from ..rewriting import SweepingRewriter

if TYPE_CHECKING:
    from ....ir.module import IRModule

_SUMS = ("relax.nn.byte_matmul", *(f"relax.nn.byte_conv{rank}d" for rank in (1, 2, 3)))
_MOVES = ("relax.reshape", "relax.strided_slice")
_KEEP = ("relax.nn.max_pool2d", "relax.reshape", "relax.permute_dims")
_FOLDED = {"relax.multiply": np.multiply, "relax.divide": np.divide}


class ByteTails(FunctionPass):
    """Rescales sums of bytes to bytes in the kernel that adds them."""

    def run_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Any:
        """Rewrite a function."""
        return _Tails(mod).function(func)


class _Tails(SweepingRewriter):
    def function(self, func: Function) -> Function:
        self.users = udchain(func)
        for var in used_vars(func.body.body):
            self.users.setdefault(var, []).append(var)
        return super().function(func)

    def call(self, call: Call) -> Any:
        if is_call(call, "relax.quantize"):
            return self.quantized(call)
        source: Any = self.definition(call.args[0]) if call.args else None
        if (
            isinstance(call.op, Op)
            and call.op.name in _KEEP
            and is_call(source, "relax.dequantize")
        ):
            if self.number(source.args[1]) is not None:
                moved = Call(call.op, [source.args[0], *call.args[1:]], call.attrs)
                return Call(source.op, [moved, *source.args[1:]], source.attrs)
        return call

    def quantized(self, call: Call) -> Any:
        data, scale, zero = call.args
        dtype = str(call.struct_info.dtype)
        source = self.definition(data)
        if is_call(source, "relax.dequantize") and str(source.args[0].struct_info.dtype) == dtype:
            same = [self.number(v) for v in (*source.args[1:], scale, zero)]
            if None not in same and same[:2] == same[2:]:
                return source.args[0]
        fits = dtype in ("uint8", "int8") and not (scale.struct_info.ndim or zero.struct_info.ndim)
        return (self.tail(data, scale, zero, dtype) if fits else None) or call

    # -- constants -----------------------------------------------------------------------------

    def constant(self, expr: Expr) -> np.ndarray | None:
        """The value of a constant, or of a product or quotient of constants."""
        bound = self.definition(expr)
        if isinstance(bound, Constant):
            return None if bound.is_weight else bound.data.numpy()
        if is_call(bound, "relax.reshape"):
            part, dims = self.constant(bound.args[0]), _numbers(bound)
            return part.reshape(dims) if part is not None and dims else None
        fold = _FOLDED.get(bound.op.name) if isinstance(getattr(bound, "op", None), Op) else None
        if fold is None:
            return None
        parts = [self.constant(a) for a in bound.args]
        return None if any(p is None for p in parts) else fold(*parts)

    def number(self, expr: Expr) -> float | None:
        value = self.constant(expr)
        return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None

    def only(self, expr: Expr) -> Any:
        """The definition of a variable with one user; None for others."""
        if isinstance(expr, Var) and len(self.users.get(expr, [expr])) != 1:
            return None
        return self.definition(expr)

    def vector(self, expr: Expr, axis: int, rank: int, count: int) -> Any:
        """One number for each channel, as a vector; None for other shapes. axis: of `rank`, the channels'."""
        dims = _numbers(expr)
        if dims is None:
            return None
        at = axis - (rank - len(dims))
        if any(d != 1 for k, d in enumerate(dims) if k != at):
            return None
        own = dims[at] if at >= 0 else 1
        if own != count:
            flat = expr if not dims else relax_op.reshape(expr, ShapeExpr([]))
            return relax_op.broadcast_to(flat, ShapeExpr([count])) if own == 1 else None
        return expr if len(dims) == 1 else relax_op.reshape(expr, ShapeExpr([count]))

    # -- tails ---------------------------------------------------------------------------------

    def tail(self, data: Expr, scale: Expr, zero: Expr, dtype: str) -> Any:
        """The bytes of sums in float32; None for anything else."""
        rank = data.struct_info.ndim
        node, bias = self.only(data), None
        if is_call(node, "relax.add"):
            bias, node = node.args[1], self.only(node.args[0])
        if not is_call(node, "relax.multiply"):
            return None
        factor, node = node.args[1], self.only(node.args[0])
        if not is_call(node, "relax.astype"):
            return None
        terms: list[tuple[str, Any]] = []
        if bias is not None:
            whole = self.whole(bias, factor)
            if whole is None:
                return None
            terms.append(("relax.add", whole))
        node = self.only(node.args[0])
        while is_call(node, "relax.add") or is_call(node, "relax.subtract"):
            terms.append((node.op.name, node.args[1]))
            node = self.only(node.args[0])
        added = node
        while isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in _MOVES:
            node = self.only(node.args[0])
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            return None
        if node.op.name not in _SUMS:
            return None
        axis = rank - 1 if node.op.name == "relax.nn.byte_matmul" else 1
        dims, own = shape_of(data), shape_of(added)
        if dims is None or own is None or not isinstance(dims[axis], IntImm):
            return None
        if not can_prove_shape_equal(dims, own):  # the sums are broadcast
            return None
        count = dims[axis].value
        offset: Any = None
        for name, term in terms:
            part = self.vector(term, axis, rank, count)
            if part is None:
                return None
            if name == "relax.subtract":
                part = relax_op.negative(part)
            offset = part if offset is None else relax_op.add(offset, part)
        factors = self.vector(factor, axis, rank, count)
        if factors is None or offset is None:
            return None
        parts = [offset, relax_op.divide(factors, scale)]
        if axis == 1 and rank > 2:  # an image's numbers are of its rank, which layouts need
            of_image = ShapeExpr([1, count, *[1] * (rank - 2)])
            parts = [relax_op.reshape(v, of_image) for v in parts]
        return self.rescaled(added, *parts, zero, dtype)

    def rescaled(self, total: Expr, offset: Expr, factor: Expr, zero: Expr, dtype: str) -> Any:
        """round((total + offset) * factor) + zero within the numbers of a dtype."""
        real = relax_op.astype(relax_op.add(total, offset), "float32")
        real, bounds = relax_op.multiply(real, factor), np.iinfo(dtype)
        at = self.number(zero)
        if at is None:
            value = relax_op.add(relax_op.round(real), relax_op.astype(zero, "float32"))
            return relax_op.astype(relax_op.clip(value, bounds.min, bounds.max), dtype)
        # Limited first, rounding and the conversion to int32 are one instruction.
        value = relax_op.round(relax_op.clip(real, bounds.min - at, bounds.max - at))
        value = relax_op.add(relax_op.astype(value, "int32"), const(np.int32(at)))
        return relax_op.astype(value, dtype)

    def whole(self, bias: Expr, factor: Expr) -> Any:
        """The int32 numbers that a bias is, times the factor; None where it is not."""
        source, dims = self.definition(bias), _numbers(bias)
        if is_call(source, "relax.reshape"):
            source = self.definition(source.args[0])
        if dims is None or not is_call(source, "relax.dequantize"):
            return None
        values, step, zero = (self.constant(a) for a in source.args)
        unit = self.constant(factor)
        if values is None or step is None or unit is None or values.dtype != np.int32:
            return None
        if zero is None or zero.any() or step.size not in (1, values.size):
            return None
        if unit.size not in (1, values.size):
            return None
        if not np.allclose(step.reshape(-1), unit.reshape(-1), 1e-5, 0):
            return None
        return const(values.reshape(dims))


def _numbers(expr: Expr) -> list[int] | None:
    """The dimensions, where all are numbers."""
    dims = shape_of(expr)
    if dims is None or not all(isinstance(d, IntImm) for d in dims):
        return None
    return [d.value for d in dims]
