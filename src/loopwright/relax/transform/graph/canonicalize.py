"""CanonicalizeBindings: removes aliases of values.

A variable bound to another one is replaced by it, a field of a known tuple by that field, a tuple
of all the fields of another tuple by that one, a dataflow variable that is a constant by the
constant, and a match_cast that always succeeds and defines
nothing by its value. If the output of a dataflow block is an alias, the original value gets the
output's name.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
          with R.dataflow():
              lv = R.add(x, x)
              lv1 = (lv, x)
    -         lv2 = lv1[0]
    -         lv3 = R.exp(lv2)
    -         gv = lv3
    +         gv = R.exp(lv)
              R.output(gv)
          return gv
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....ir.module import IRModule
from ....ir.structural import structural_equal
from ....ir.transform import FunctionPass, PassContext
from ... import expr as rx
from ...analysis import BaseCheckResult, struct_info_base_check, tir_vars_in_struct_info
from ...functor import GraphRewriter
from .._graph import shape_vars


@dataclass(frozen=True, repr=False)
class CanonicalizeBindings(FunctionPass):
    """Replace aliases by the original variable."""

    name = "CanonicalizeBindings"
    opt_level = 1
    function_type = rx.Function

    def run_function(self, func: Any, mod: IRModule, ctx: PassContext) -> Any:
        return canonicalize(func, mod)


def canonicalize(func: rx.Function, mod: IRModule) -> rx.Function:
    """A function without aliases."""
    return _Canonicalizer(mod).function(func)


class _Canonicalizer(GraphRewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.known: dict[rx.Expr, Any] = {}

    def block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        self.var_map.update(_promoted(block))
        return super().block(block)

    def binding(self, binding: Any) -> None:
        var = binding.var
        promoted = self.var_map.get(var)
        if isinstance(promoted, rx.Var) and not isinstance(promoted, rx.DataflowVar):
            # `var` is the value that the output `promoted` aliases: bind the output here.
            if type(binding) is rx.VarBinding and not isinstance(binding.value, rx.Var):
                value = self.builder.normalize(self.value(binding.value))
                self.builder.emit_normalized(
                    rx.VarBinding._make(promoted, value, span=binding.span)
                )
                self.known[promoted] = value
                return
        value = self.value(binding.value)
        if isinstance(binding, rx.MatchCast):
            if not _needed(binding, value):
                self.var_map[var] = value
                return
        elif isinstance(value, rx.Constant) and isinstance(var, rx.DataflowVar):
            self.var_map[var] = value
            return
        elif isinstance(value, rx.Var):
            if value is var:  # the output is bound in place of its alias
                return
            shown = isinstance(value, rx.DataflowVar) and not isinstance(var, rx.DataflowVar)
            if not shown and _same_info(var, value):
                self.var_map[var] = value
                return
        self.emit(binding, value)
        self.known[var] = value

    def tuple_get_item(self, node: rx.TupleGetItem) -> Any:
        bound = self.known.get(node.tuple_value)
        source = node.tuple_value if isinstance(node.tuple_value, rx.Tuple) else bound
        return source.fields[node.index] if isinstance(source, rx.Tuple) else node

    def value(self, expr: Any) -> Any:
        new = super().value(expr)
        return self.whole_tuple(new) if type(new) is rx.Tuple else new

    def whole_tuple(self, fields: rx.Tuple) -> Any:
        """The tuple whose fields these are, all and in order; else `fields`."""
        source = None
        for i, field in enumerate(fields.fields):
            value = self.known.get(field)
            if not isinstance(value, rx.TupleGetItem) or value.index != i:
                return fields
            if source is not None and value.tuple_value is not source:
                return fields
            source = value.tuple_value
        if isinstance(source, rx.DataflowVar) and not self.builder.current_block_is_dataflow():
            return fields  # not visible outside its block
        whole = source is not None and len(source.struct_info.fields) == len(fields.fields)
        return source if whole else fields


def _promoted(block: rx.BindingBlock) -> dict[rx.Var, rx.Var]:
    """Dataflow variables with a single output alias, whose name they get: variable -> output."""
    if not isinstance(block, rx.DataflowBlock):
        return {}
    bound = {b.var for b in block.bindings if type(b) is rx.VarBinding}
    inner = {b.var: b.value for b in block.bindings}
    promoted: dict[rx.Var, rx.Var] = {}
    for binding in block.bindings:
        var, value = binding.var, binding.value
        if type(binding) is not rx.VarBinding or isinstance(var, rx.DataflowVar):
            continue
        while isinstance(value, rx.DataflowVar) and isinstance(inner.get(value), rx.Var):
            value = inner[value]
        if isinstance(value, rx.DataflowVar) and value in bound and value not in promoted:
            if _same_info(var, value):
                promoted[value] = var
    return promoted


def _same_info(a: rx.Var, b: rx.Var) -> bool:
    return a.struct_info is b.struct_info or structural_equal(a.struct_info, b.struct_info)


def _needed(binding: rx.MatchCast, value: Any) -> bool:
    """Whether a cast checks or defines anything."""
    info = binding.struct_info
    if any(True for _ in shape_vars(info)) or not isinstance(value, rx.Var):
        return True
    known = set(tir_vars_in_struct_info(value.struct_info))
    if not known.issuperset(tir_vars_in_struct_info(info)):
        return True
    passes = struct_info_base_check(info, value.struct_info) is BaseCheckResult.PASS
    return not (passes and structural_equal(info, value.struct_info))


__all__ = ["CanonicalizeBindings", "canonicalize"]
