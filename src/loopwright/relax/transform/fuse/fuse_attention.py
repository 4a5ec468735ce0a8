"""FuseAttention: outlines attention as one function, whose kernel does not store all scores.

Before (-) and after (+)::

      @I.ir_module
      class Module:
    +     @R.function(private=True)
    +     def attention(q: R.Tensor((1, 8, 16), dtype="float32"), k: R.Tensor((1, 16, 32), dtype="float32"), v: R.Tensor((1, 32, 16), dtype="float32")) -> R.Tensor((1, 8, 16), dtype="float32"):
    +         R.func_attr({"Primitive": True})
    +         with R.dataflow():
    +             lv: R.Tensor((1, 8, 32), dtype="float32") = R.matmul(q, k)
    +             lv1: R.Tensor((1, 8, 32), dtype="float32") = R.multiply(lv, R.const(0.25, "float32"))
    +             top: R.Tensor((1, 8, 1), dtype="float32") = R.max(lv1, axis=[-1], keepdims=True)
    +             below: R.Tensor((1, 8, 32), dtype="float32") = R.subtract(lv1, top)
    +             power: R.Tensor((1, 8, 32), dtype="float32") = R.exp(below)
    +             total: R.Tensor((1, 8, 1), dtype="float32") = R.sum(power, axis=[-1], keepdims=True)
    +             mixed: R.Tensor((1, 8, 16), dtype="float32") = R.matmul(power, v)
    +             gv: R.Tensor((1, 8, 16), dtype="float32") = R.divide(mixed, total)
    +             R.output(gv)
    +         return gv
    +
          @R.function
          def main(q: R.Tensor((1, 8, 16), dtype="float32"), k: R.Tensor((1, 16, 32), dtype="float32"), v: R.Tensor((1, 32, 16), dtype="float32")) -> R.Tensor((1, 8, 16), dtype="float32"):
    +         cls = Module
              with R.dataflow():
    -             lv: R.Tensor((1, 8, 32), dtype="float32") = R.matmul(q, k)
    -             lv1: R.Tensor((1, 8, 32), dtype="float32") = R.multiply(lv, R.const(0.25, "float32"))
    -             lv2: R.Tensor((1, 8, 32), dtype="float32") = R.nn.softmax(lv1)
    -             gv: R.Tensor((1, 8, 16), dtype="float32") = R.matmul(lv2, v)
    +             gv: R.Tensor((1, 8, 16), dtype="float32") = cls.attention(q, k, v)
                  R.output(gv)
              return gv

A product, elementwise operators (a scale, a mask), softmax along its rows, and the product by a matrix:
the values between have no other users. The division comes last, of the elements of the result only.
FuseTIR makes one kernel of the function, which the schedule rule `attention` computes in blocks of rows.
A transposition of the queries or keys belongs to it. `disabled_pass=["FuseAttention"]` of a PassContext
leaves the operators apart, and so does a rule of the user that may lower one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....base.span import Span
from ....ir.literals import int_value
from ....ir.prim_expr import PrimExpr
from ....ir.target import Target
from ....ir.transform import IRModule, ModulePass, PassContext
from ... import expr as rx
from ... import op as relax_op
from ...relations import can_prove_shape_equal
from ..legalize_ops.common import may_be_taken
from ..products import is_call, keeps_dtype, shape_of
from ..queries import functions_of, used_vars
from ._grouping import Group, GroupedRewriter

_LEAST = (8, 32, 16)  # queries, keys, size of a value: of fewer the scores are small
_ELEMENTWISE = ("add", "subtract", "multiply", "divide", "where")


class FuseAttention(ModulePass):
    """Outlines each chain of product, softmax and product as one function."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Outline the attentions of every function."""
        work = _Attentions(mod)
        changed = {
            gvar: work.function(func)
            for gvar, func in functions_of(mod)
            if not func.attrs.get("Primitive", False)
        }
        return work.builder.get().with_functions({**changed, **work.placed()})


class _Attentions(GroupedRewriter):
    lift_scalars = False

    def group_name(self, group: Group) -> str:
        return "attention"

    def block(self, block: Any) -> Any:
        if not isinstance(block, rx.DataflowBlock):
            return self.super_block(block)
        values: dict[rx.Var, Any] = {
            b.var: b.value for b in block.bindings if type(b) is rx.VarBinding
        }
        uses: dict[rx.Var, int] = {}
        for binding in block.bindings:
            for var in used_vars(binding.value):
                uses[var] = uses.get(var, 0) + 1
        target = Target.current(allow_none=True)
        alone: set[rx.Var] = {
            v for v in values if isinstance(v, rx.DataflowVar) and uses.get(v) == 1
        }
        self.group_of = {}
        moved: dict[rx.Var, rx.Var] = {}  # softmax -> the product that replaces it
        for n, binding in enumerate(block.bindings):
            path = _scores(binding.value, values, alone)
            if path is not None and not any(
                may_be_taken(value, target) for value in (binding.value, *map(values.get, path))
            ):
                self.group_of |= dict.fromkeys((*path, binding.var), n)
                moved[binding.value.args[0]] = binding.var
        if not moved:
            return self.super_block(block)
        bindings = []
        for binding in block.bindings:
            if binding.var in moved:
                continue
            if binding.var in moved.values():
                for part in self._parts(binding, values[binding.value.args[0]]):
                    self.group_of[part.var] = self.group_of[binding.var]
                    bindings.append(part)
            else:
                bindings.append(binding)
        return self.regroup(block.replace(bindings=tuple(bindings)))

    def _parts(self, binding: rx.Binding, softmax: rx.Call) -> list[rx.VarBinding]:
        """The bindings of a product by a softmax that divides last."""
        scores, value, bindings = softmax.args[0], binding.value.args[1], []

        def bind(call: rx.Call, name: str, span: Span | None) -> rx.Var:
            call = self.builder.normalize(call.with_span(span))
            bindings.append(rx.VarBinding(rx.DataflowVar(name, call.struct_info), call, span))
            return bindings[-1].var

        span = softmax.span or binding.span
        top = bind(relax_op.max(scores, -1, True), "top", span)
        below = bind(relax_op.subtract(scores, top), "below", span)
        power = bind(relax_op.exp(below), "power", span)
        total = bind(relax_op.sum(power, -1, True), "total", span)
        dims: Any = shape_of(scores)
        if int_value(dims[-1]) is None:  # without keys a sum is 0, and so is the result
            total = bind(relax_op.maximum(total, rx.const(1, "float32")), "total", span)
        mixed = bind(relax_op.matmul(power, value), "mixed", binding.value.span or binding.span)
        last = self.builder.normalize(relax_op.divide(mixed, total).with_span(span))
        return [*bindings, binding.replace(value=last)]


def _scores(call: Any, values: Mapping[rx.Var, Any], alone: set[rx.Var]) -> list[rx.Var] | None:
    """The variables from the product that makes the scores on, if `call` multiplies their softmax."""
    if not is_call(call, "relax.matmul") or call.args[0] not in alone or not keeps_dtype(call):
        return None
    var, path = call.args[0], [call.args[0]]
    softmax, shape, out = values[var], shape_of(var), shape_of(call)
    if not is_call(softmax, "relax.nn.softmax") or str(var.struct_info.dtype) != "float32":
        return None
    if (
        shape is None
        or out is None
        or len(shape) < 3
        or softmax.attrs.axis % len(shape) != len(shape) - 1
    ):
        return None
    sizes = (shape[-2], shape[-1], out[-1])
    if any(0 < (int_value(size) or 0) < least for size, least in zip(sizes, _LEAST, strict=True)):
        return None
    at = softmax.args[0]
    while at in alone:
        path.append(at)
        value = values[at]
        if is_call(value, "relax.matmul"):
            if not keeps_dtype(value) or value.args[0] is value.args[1]:
                return None
            moved = [
                a for a in value.args if a in alone and is_call(values[a], "relax.permute_dims")
            ]
            return [*path, *moved]
        if not any(is_call(value, f"relax.{name}") for name in _ELEMENTWISE):
            return None
        inner = [a for a in value.args if a in alone and _same_shape(a, shape)]
        if len(inner) != 1:
            return None
        at = inner[0]
    return None


def _same_shape(var: rx.Var, shape: Sequence[PrimExpr]) -> bool:
    own = shape_of(var)
    return own is not None and can_prove_shape_equal(own, shape)
