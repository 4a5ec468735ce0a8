"""CanonicalizeBindings: removes aliases of values.

A variable bound to another one is replaced by it, a field of a known tuple by that field, a tuple
of all the fields of another tuple by that one, a variable that is a constant by the
constant. A symbol that a match_cast defines is replaced by the dimension of its value, where that is known,
and a match_cast that always succeeds and defines nothing by its value. If the output of a dataflow
block is an alias, the original value gets the output's name; a variable used in its block only is not an output.

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

from collections.abc import Iterable
from typing import Any

from ....base.errors import explain
from ....ir.expr import BaseExpr
from ....ir.prim_expr import PrimExpr
from ....ir.prim_expr import Var as TirVar
from ....ir.structural import structural_equal
from ....ir.transform import FunctionPass, IRModule, PassContext
from ... import expr as rx
from ...analysis import (
    BaseCheckResult,
    definable_tir_vars_in_struct_info,
    struct_info_base_check,
    tir_vars_in_struct_info,
)
from ...analysis.variables import bindings_of
from ...expr_functor import PyExprMutator
from ...functor import GraphRewriter
from ...relations import match_struct_info, substitute
from ...struct_info import StructInfo
from ..queries import shape_vars, used_vars


class CanonicalizeBindings(FunctionPass):
    """Replace aliases by the original variable."""

    opt_level = 1
    function_type = rx.Function

    def run_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> Any:
        return canonicalize(func, mod)


def canonicalize(func: rx.Function, mod: IRModule) -> rx.Function:
    """A function without aliases."""
    if _may_know_symbols(func):
        func = _Symbols(mod).visit_expr(func)
    return _Canonicalizer(mod, func).function(func)


def _may_know_symbols(func: rx.Function) -> bool:
    """Whether `_Symbols` may find anything to replace, as far as is seen without a look inside branches
    and functions."""
    defined = {s for p in func.params for s in definable_tir_vars_in_struct_info(p.struct_info)}
    casts = inner = False
    for binding in bindings_of(func):
        inner = inner or type(binding.value) in (rx.If, rx.Function, rx.SeqExpr)
        if isinstance(binding, rx.MatchCast):
            casts = True
            value = binding.value
            if value.struct_info is None or _solved(binding, binding.struct_info, value, defined):
                return True
    return casts and inner


def _solved(
    binding: rx.MatchCast, info: StructInfo, value: rx.Expr, defined: set[TirVar]
) -> dict[TirVar, PrimExpr]:
    """The symbols that a match_cast defines whose value is known; all of them are `defined` now."""
    table: dict[Any, Any] = {}
    if match_struct_info(info, value.struct_info, table) is BaseCheckResult.FAIL_L0:
        what = "MatchCast statements must be consistent: this one cannot succeed"
        got = f"{value.struct_info} is to be {info}"
        raise ValueError(explain(what, got=got, span=binding.span))
    symbols = definable_tir_vars_in_struct_info(info)
    new = [s for s in symbols if s not in defined]
    defined.update(symbols)
    return {s: table[s] for s in new if isinstance(table.get(s), PrimExpr) and table[s] is not s}


class _Symbols(PyExprMutator):
    """Replaces the symbols that a match_cast defines where its value's dimensions are known."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.solved: dict[TirVar, PrimExpr] = {}
        self.defined: set[TirVar] = set()

    def visit_function_(self, op: rx.Function) -> Any:
        outer = dict(self.solved), set(self.defined)
        for param in op.params:
            self.defined.update(definable_tir_vars_in_struct_info(param.struct_info))
        new = super().visit_function_(op)
        self.solved, self.defined = outer
        return new

    def visit_with_inner_scope(self, expr: rx.SeqExpr) -> Any:
        outer = dict(self.solved), set(self.defined)
        new = super().visit_with_inner_scope(expr)
        self.solved, self.defined = outer
        return new

    def visit_match_cast_(self, binding: rx.MatchCast) -> None:
        info, value = self.visit_struct_info(binding.struct_info), self.visit_expr(binding.value)
        self.solved |= _solved(binding, info, value, self.defined)
        super().visit_match_cast_(binding)

    def visit_prim_expr(self, expr: PrimExpr) -> Any:
        new = substitute(expr, self.solved)
        return expr if new is expr else self.builder_.analyzer.simplify(new)


class _Canonicalizer(GraphRewriter):
    def __init__(self, mod: IRModule, func: rx.Function) -> None:
        super().__init__(mod)
        self.bound: dict[rx.Expr, Any] = {}
        self.shown = _used_outside(func)
        self.names: dict[rx.Var, rx.Var] = {}  # the variable bound instead of another

    def block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        if isinstance(block, rx.DataflowBlock):
            for var in (b.var for b in block.bindings):
                if not isinstance(var, rx.DataflowVar) and var not in self.shown:
                    self.names[var] = rx.DataflowVar(var.name_hint, var.struct_info, var.span)
            self.names.update(_promoted(block, self.shown))
        return super().block(block)

    def binding(self, binding: rx.Binding) -> None:
        var, value = binding.var, self.value(binding.value)
        if isinstance(binding, rx.MatchCast) and not _needed(binding, value):
            binding = rx.VarBinding._make(var, binding.value, span=binding.span)
        if type(binding) is rx.VarBinding:
            if isinstance(value, rx.Constant):
                if isinstance(self.names.get(var, var), rx.DataflowVar):
                    self.var_map[var] = value
                    return
            elif isinstance(value, rx.Var):
                if value is self.var_map.get(var, var):  # the output is bound instead of its alias
                    return
                inner = isinstance(value, rx.DataflowVar) and var in self.shown
                if not inner and _same_info(var, value):
                    self.var_map[var] = value
                    return
        name: Any = self.names.get(var, var)
        self.emit(binding if name is var else binding.replace(var=name), value)
        bound = self.var_map.get(name, name)
        self.bound[bound] = value
        if isinstance(value, rx.Constant) and name is var and not isinstance(binding.value, rx.Var):
            self.var_map[var] = value
        elif bound is not var:
            self.var_map[var] = bound

    def tuple_get_item(self, node: rx.TupleGetItem) -> Any:
        bound = self.bound.get(node.tuple_value)
        source = node.tuple_value if isinstance(node.tuple_value, rx.Tuple) else bound
        return source.fields[node.index] if isinstance(source, rx.Tuple) else node

    def value(self, expr: BaseExpr) -> Any:
        new = super().value(expr)
        return self.whole_tuple(new) if type(new) is rx.Tuple else new

    def whole_tuple(self, fields: rx.Tuple) -> Any:
        """The tuple whose fields these are, all and in order; else `fields`."""
        source = None
        for i, field in enumerate(fields.fields):
            value = self.bound.get(field)
            if not isinstance(value, rx.TupleGetItem) or value.index != i:
                return fields
            if source is not None and value.tuple_value is not source:
                return fields
            source = value.tuple_value
        if isinstance(source, rx.DataflowVar) and not self.builder.current_block_is_dataflow():
            return fields  # not visible outside its block
        whole = source is not None and len(source.struct_info.fields) == len(fields.fields)
        return source if whole else fields


def _used_outside(func: rx.Function) -> set[rx.Var]:
    """The variables that are used outside the dataflow block that binds them."""
    shown: set[rx.Var] = set()
    home: dict[rx.Var, int] = {}  # the block's id

    def look(expr: rx.Expr, block: int | None) -> None:
        kind = type(expr)
        if kind is rx.Function:
            look(expr.body, None)
        elif kind is rx.If:
            look(expr.cond, block)
            look(expr.true_branch, None)
            look(expr.false_branch, None)
        elif kind is rx.SeqExpr:
            for inner in expr.blocks:
                for binding in inner.bindings:
                    look(binding.value, id(inner))
                    if type(binding) is rx.MatchCast:
                        see(shape_vars(binding.struct_info), id(inner))
                    home[binding.var] = id(inner)
            look(expr.body, None)
        else:
            see(used_vars(expr), block)

    def see(variables: Iterable[rx.Var], block: int | None) -> None:
        shown.update(v for v in variables if block is None or home.get(v) != block)

    look(func, None)
    return shown


def _promoted(block: rx.DataflowBlock, shown: set[rx.Var]) -> dict[rx.Var, rx.Var]:
    """Dataflow variables with a single output alias, whose name they get: variable -> output."""
    bound = {b.var for b in block.bindings if type(b) is rx.VarBinding}
    inner = {b.var: b.value for b in block.bindings}
    promoted: dict[rx.Var, rx.Var] = {}
    value: Any
    for binding in block.bindings:
        var, value = binding.var, binding.value
        if type(binding) is not rx.VarBinding or var not in shown:
            continue
        while _is_inner(value, shown) and isinstance(inner.get(value), rx.Var):
            value = inner[value]
        if _is_inner(value, shown) and value in bound and value not in promoted:
            if _same_info(var, value):
                promoted[value] = var
    return promoted


def _is_inner(value: rx.Expr, shown: set[rx.Var]) -> bool:
    """Whether a value is a variable of one dataflow block, declared so or not."""
    return isinstance(value, rx.DataflowVar) or (isinstance(value, rx.Var) and value not in shown)


def _same_info(a: rx.Var, b: rx.Var) -> bool:
    return a.struct_info is b.struct_info or structural_equal(a.struct_info, b.struct_info)


def _needed(binding: rx.MatchCast, value: rx.Expr) -> bool:
    """Whether a cast checks or defines anything."""
    info = binding.struct_info
    if any(True for _ in shape_vars(info)) or not isinstance(value, (rx.Var, rx.Constant)):
        return True
    symbols = set(tir_vars_in_struct_info(value.struct_info))
    if not symbols.issuperset(tir_vars_in_struct_info(info)):
        return True
    passes = struct_info_base_check(info, value.struct_info) is BaseCheckResult.PASS
    return not (passes and structural_equal(info, value.struct_info))
