"""Copies of functions: with fresh variables, with parameters or symbolic dimensions bound, with
other functions inlined. They are also methods of `relax.Function`."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ..arith import Analyzer
from ..base.errors import CallValueError, explain, suggest
from ..base.names import as_identifier, free_name
from ..ir.expr import Attrs, GlobalVar
from ..ir.prim_expr import PrimExpr
from ..ir.prim_expr import Var as TirVar
from ..ir.prim_op import convert
from ..runtime.tensor import Tensor
from .analysis.variables import (
    defined_symbolic_vars,
    free_symbolic_vars,
    overwritten_vars,
    used_vars,
)
from .block_builder import BlockBuilder
from .expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowVar,
    Expr,
    Function,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    const,
)
from .functor import GraphRewriter
from .relations import BaseCheckResult, Substitute, match_struct_info
from .struct_info import StructInfo


class ReplaceVars(Substitute):
    """Replaces graph and symbolic variables. A variable whose struct info changes is
    replaced by one of the same name; with `fresh`, so is every variable defined inside."""

    def __init__(self, table: dict[Any, Any], fresh: bool = False) -> None:
        super().__init__(table)
        self.fresh = fresh

    def visit_Var(self, var: TirVar | Var) -> Any:
        if isinstance(var, TirVar):
            return super().visit_Var(var)
        new = self.table.get(var)
        if new is None:
            info = self.visit(var.struct_info)
            new = var if info is var.struct_info else type(var)(var.vid, info, var.span)
            self.table[var] = new
        return new

    def define(self, var: Var) -> None:
        if self.fresh and var not in self.table:
            info = self.visit(var.struct_info)
            self.table[var] = type(var)(var.name_hint, info, var.span)

    def visit_Function(self, func: Function) -> Any:
        for param in func.params:
            self.define(param)
        return self.visit_default(func)

    def visit_VarBinding(self, binding: VarBinding) -> Any:
        self.define(binding.var)
        return self.visit_default(binding)

    def visit_MatchCast(self, binding: MatchCast) -> Any:
        self.define(binding.var)
        return self.visit_default(binding)

    def visit_TupleGetItem(self, node: TupleGetItem) -> Any:
        new = self.visit_default(node)
        return new.tuple_value.fields[new.index] if isinstance(new.tuple_value, Tuple) else new

    def visit_Attrs(self, attrs: Attrs) -> Any:
        return attrs

    def visit_GlobalVar(self, var: GlobalVar) -> Any:
        return var


def _renormalized(func: Function) -> Function:
    return BlockBuilder().normalize(func)


def copy_with_new_vars(func: Function) -> Function:
    """A copy with new variables of the same names, including symbolic ones, which get names that
    differ."""
    table: dict[Any, Any] = {}
    names: set[str] = set()
    for var in defined_symbolic_vars(func):
        name = free_name(var.name, names)
        names.add(name)
        table[var] = TirVar._make(name, var.dtype, var.type_annotation)
    return _renormalized(ReplaceVars(table, fresh=True).visit(func))


def with_distinct_symbols(func: Function) -> Function:
    """The function, or where two symbolic variables have one name, a copy where they have two."""
    names = [v.name for v in defined_symbolic_vars(func)]
    return func if len(set(names)) == len(names) else copy_with_new_vars(func)


def _symbol(func: Function, key: TirVar | str, candidates: list[TirVar]) -> TirVar:
    if isinstance(key, TirVar):
        matching = [v for v in candidates if v is key]
    else:
        matching = [v for v in candidates if v.name == key]
    if len(matching) != 1:
        name = key.name if isinstance(key, TirVar) else key
        what = f"the function has {'no' if not matching else 'several'} symbolic variable {name!r}"
        names = ", ".join(v.name for v in candidates) or "none"
        raise CallValueError(explain(what, instead=f"its symbolic variables are: {names}"))
    return matching[0]


def bind_symbolic_vars(func: Function, binding_map: Mapping[Any, Any]) -> Function:
    """The function with symbolic variables (by name or variable) replaced by values."""
    symbols = list(dict.fromkeys([*defined_symbolic_vars(func), *free_symbolic_vars(func)]))
    table: dict[Any, Any] = {}
    for key, value in binding_map.items():
        var = _symbol(func, key, symbols)
        if var in table:
            what = f"symbolic variable {var.name!r} is bound twice"
            raise CallValueError(explain(what, instead="give it by name or by variable, not both"))
        extent = convert(value)
        if not isinstance(extent, PrimExpr):
            what = f"symbolic variable {var.name!r} needs an integer or an expression"
            raise TypeError(explain(what, got=repr(value)))
        table[var] = extent
    new = _renormalized(_Specialize(table).visit(func)) if table else func
    before = free_symbolic_vars(func)
    undefined = [v.name for v in free_symbolic_vars(new) if v not in before]
    if undefined:
        what = "bind_symbolic_vars leaves symbolic variables that no parameter defines"
        hint = "let some dimension be the variable itself"
        raise CallValueError(explain(what, got=", ".join(undefined), instead=hint))
    return new


class _Specialize(ReplaceVars):
    """Simplifies the dimensions that change."""

    def visit_ShapeExpr(self, node: ShapeExpr) -> Any:
        return self._simplified(node, "values")

    visit_ShapeStructInfo = visit_ShapeExpr

    def visit_PrimValue(self, node: PrimValue) -> Any:
        return self._simplified(node, "value")

    visit_PrimStructInfo = visit_PrimValue

    def _simplified(self, node: Expr, name: str) -> Any:
        old, new = getattr(node, name), self.visit(getattr(node, name))
        if new is old:
            return node
        simplify = Analyzer().simplify
        many = isinstance(new, tuple)
        return node.replace(**{name: tuple(map(simplify, new)) if many else simplify(new)})


def _as_value(value: Expr | Tensor | np.ndarray[Any, Any]) -> Any:
    if isinstance(value, (Tensor, np.ndarray)):
        return Constant(value)
    return value if isinstance(value, Expr) else const(value)


def bind_params(func: Function, binding_map: Mapping[Any, Any]) -> Function:
    """The function with parameters (by name or variable) fixed to tensors or expressions.

    Symbolic dimensions of a bound parameter take the value's. Raises ValueError for an unknown
    or ambiguous name, or a value that does not fit.
    """
    table: dict[Any, Any] = {}
    symbols: dict[Any, Any] = {}
    for key, value in binding_map.items():
        param = _param(func, key)
        constant = _as_value(value)
        if param in overwritten_vars(func) and isinstance(constant, Constant):
            what = f"parameter {param.name_hint} is written over by an in-place call"
            raise CallValueError(explain(what, instead="do not bind it to a constant"))
        _bind(f"parameter {param.name_hint}", param.struct_info, constant.struct_info, symbols)
        table[param] = constant
    if not table:
        return func
    replace = ReplaceVars(symbols)
    params = tuple(replace.visit(p) for p in func.params)
    body, ret = replace.visit(func.body), replace.visit(func.ret_struct_info)
    rewriter = GraphRewriter()
    pairs = list(zip(func.params, params, strict=True))
    rewriter.var_map.update((new, table[old]) for old, new in pairs if old in table)
    left = tuple(new for old, new in pairs if old not in table)
    with rewriter.builder.scope(left):  # facts about the values hold for the rest, too
        new_body = rewriter.seq(rewriter.builder.normalize(body))
    keep = ret is not None and new_body.struct_info.is_base_of(ret)
    return Function(left, new_body, ret if keep else None, func.is_pure, func.attrs, func.span)


def _param(func: Function, key: Var | str) -> Var:
    matching = [p for p in func.params if p is key or p.name_hint == key]
    if not matching and isinstance(key, str):  # the name in the model: fc1.weight
        matching = [p for p in func.params if p.name_hint == as_identifier(key)]
    if len(matching) != 1:
        name = key.name_hint if isinstance(key, Var) else key
        what = f"the function has {'no' if not matching else 'several'} parameter {name!r}"
        names = [p.name_hint for p in func.params] or ["none"]
        raise CallValueError(explain(what, instead=suggest(name, names, "its parameters are:")))
    return matching[0]


def _bind(what: str, pattern: StructInfo, info: StructInfo, table: dict[Any, Any]) -> None:
    result = match_struct_info(pattern, info, table)
    if result is BaseCheckResult.FAIL_L0:
        raise CallValueError(explain(f"{what} cannot be this value", got=f"{info} for {pattern}"))


class _Inliner(GraphRewriter):
    def __init__(self, functions: dict[GlobalVar, Function]) -> None:
        super().__init__()
        self.functions = functions
        self.open: list[GlobalVar] = []

    def seq(self, seq: SeqExpr, in_dataflow: bool = False) -> SeqExpr:
        return super().seq(self.expanded(seq), in_dataflow)

    def expanded(self, seq: SeqExpr) -> SeqExpr:
        """A body with the blocks of other functions instead of their calls. The results
        of the calls are in `var_map`."""
        blocks = [part for block in seq.blocks for part in self.parts(block)]
        if len(blocks) == len(seq.blocks) and all(map(operator.is_, blocks, seq.blocks)):
            return seq
        return BlockBuilder().normalize(SeqExpr._make(tuple(blocks), seq.body, span=seq.span))

    def parts(self, block: BindingBlock) -> list[BindingBlock]:
        """The blocks that a block becomes. A block of the other kind ends a dataflow block."""
        parts: list[BindingBlock] = []
        current: list[Any] = []
        inlined = False
        for binding in block.bindings:
            func, call = self.callee(binding), cast(Call, binding.value)
            if func is None:
                current.append(binding)
                continue
            inlined = True
            body, last = self.with_result(self.body(func, call), binding)
            for inner in body.blocks:
                if type(inner) is type(block):
                    current += inner.bindings
                else:
                    parts += [type(block)(current), inner]
                    current = []
            current += last
        if not inlined:
            return [block]
        parts = [part for part in (*parts, type(block)(current)) if part.bindings]
        return self.with_visible_vars(parts)

    def callee(self, binding: Binding) -> Function | None:
        """The function whose body replaces a binding's value."""
        value = binding.value
        is_call = isinstance(binding, VarBinding) and isinstance(value, Call)
        func = self.functions.get(value.op) if is_call and type(value.op) is GlobalVar else None
        if func is not None and value.op in self.open:
            names = " -> ".join(g.name_hint for g in [*self.open, value.op])
            what = "a recursive function cannot be inlined"
            raise CallValueError(explain(what, got=names, instead="leave it out of the map"))
        return func

    def body(self, func: Function, call: Call) -> SeqExpr:
        func = copy_with_new_vars(func)
        table: dict[Any, Any] = {}
        for param, passed in zip(func.params, call.args, strict=True):
            arg = self.var_map.get(passed, passed) if isinstance(passed, Var) else passed
            _bind(f"parameter {param.name_hint}", param.struct_info, arg.struct_info, table)
            table[param] = arg
        self.open.append(call.op)
        body = self.expanded(ReplaceVars(table).visit(func.body))
        self.open.pop()
        return body

    def with_result(self, body: SeqExpr, binding: Binding) -> tuple[SeqExpr, list[Any]]:
        """A body whose result has the name of the call's, and the binding of a result that is not
        bound in it."""
        result, var = self.value(body.body), binding.var
        if result not in [b.var for block in body.blocks for b in block.bindings]:
            return body, [binding.replace(value=result)]
        own = type(var)(var.name_hint, result.struct_info, var.span)
        self.var_map[var] = own
        return ReplaceVars({result: own}).visit(body), []

    def with_visible_vars(self, blocks: list[BindingBlock]) -> list[BindingBlock]:
        """The parts of one block; variables used in more than one of them can be seen outside."""
        table: dict[Any, Any] = {}
        now = self.var_map
        used = [{now.get(v, v) for b in part.bindings for v in used_vars(b)} for part in blocks]
        for index, block in enumerate(blocks):
            for var in (b.var for b in block.bindings):
                elsewhere = any(var in other for i, other in enumerate(used) if i != index)
                if isinstance(var, DataflowVar) and (elsewhere or type(block) is BindingBlock):
                    table[var] = Var(var.name_hint, var.struct_info, var.span)
        self.var_map = {old: table.get(new, new) for old, new in now.items()}
        return [ReplaceVars(table).visit(block) for block in blocks] if table else blocks


def inline_functions(func: Function, function_map: Mapping[Any, Function]) -> Function:
    """The function with calls of the given functions (by name or GlobalVar) replaced by their
    bodies. Raises ValueError if one of them is recursive, or is given twice."""
    functions: dict[GlobalVar, Function] = {}
    for key, value in function_map.items():
        gvar = GlobalVar(key) if isinstance(key, str) else key
        if gvar in functions:
            what = f"two functions are given for {gvar.name_hint!r}"
            raise CallValueError(explain(what, instead="give it by name or by GlobalVar, not both"))
        functions[gvar] = value
    return _Inliner(functions).function(func)


for _method in (bind_params, bind_symbolic_vars, inline_functions):
    setattr(Function, _method.__name__, _method)
