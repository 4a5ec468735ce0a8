"""Rewrite rules written as a module: a function `pattern`, and a function `replacement`.

@R.rewriter
class AddToMultiply:
    @R.function
    def pattern(a: R.Tensor):
        return R.add(a, a)

    @R.function
    def replacement(a: R.Tensor):
        return R.multiply(a, R.const(2, "float32"))
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ...base.errors import UnknownName, explain
from ...base.names import free_name
from ...ir.expr import GlobalVar
from ...ir.module import IRModule, called_global_vars
from ...ir.structural import structural_equal
from .. import expr as rx
from ..analysis.variables import bindings_of
from ..block_builder import BlockBuilder
from ..relations import Substitute, match_struct_info
from ..struct_info import FuncStructInfo, ObjectStructInfo
from . import pattern as pt


@dataclass
class ScriptRule:
    """A rule read from a module; called as a rewriter's callback.

    params: the replacement's parameters and the patterns that bind their values.
    replacement: its result with its bindings inlined. functions: the functions it calls; renamed:
    their names in the module that is rewritten.
    """

    pattern: pt.DFPattern
    params: dict[rx.Var, pt.DFPattern]
    replacement: Any
    functions: dict[GlobalVar, Any] = field(default_factory=dict)
    renamed: dict[Any, Any] = field(default_factory=dict)

    def __call__(self, value: rx.Expr, matches: dict[pt.DFPattern, Any]) -> Any:
        """The replacement for a match."""
        table: dict[Any, Any] = {}
        for param, pattern in self.params.items():
            match_struct_info(param.struct_info, matches[pattern].struct_info, table)
        table.update({param: matches[pattern] for param, pattern in self.params.items()})
        return _Instance({**table, **self.renamed}).visit(self.replacement)


class _Instance(Substitute):
    """Also replaces graph variables; shared subexpressions stay shared."""

    def __init__(self, table: dict[Any, Any]) -> None:
        super().__init__(table)
        self.memo: dict[int, Any] = {}

    def visit_Call(self, call: rx.Call) -> Any:
        pattern = self.memo.get(id(call))
        if pattern is None:
            pattern = self.memo[id(call)] = self.visit_default(call)
        return pattern

    def visit_GlobalVar(self, var: GlobalVar) -> Any:
        return self.table.get(var, var)


def read_rule(mod: IRModule) -> ScriptRule:
    """The rule that a module describes. Raises ValueError or TypeError if it describes none."""
    if not isinstance(mod, IRModule):
        what = "a rewriter is read from a module"
        hint = "decorate a class with @R.rewriter"
        raise TypeError(explain(what, got=type(mod).__name__, instead=hint))
    parts = [mod.get(name) for name in ("pattern", "replacement")]
    for name, func in zip(("pattern", "replacement"), parts, strict=True):
        if not isinstance(func, rx.Function):
            what = f"a rewriter needs a graph function `{name}`"
            names = ", ".join(g.name_hint for g in mod.functions) or "no function"
            hint = f"add @R.function def {name}(...)"
            if func is None:
                raise UnknownName(explain(what, got=names, instead=hint))
            raise TypeError(explain(what, got=type(func).__name__, instead=hint))
    before, after = parts
    a, b = (FuncStructInfo([p.struct_info for p in f.params], ObjectStructInfo()) for f in parts)
    if not structural_equal(a, b):
        what = "`pattern` and `replacement` must have the same signature"
        raise ValueError(explain(what, got=f"{a} and {b}", span=after.span))
    pattern, params = _pattern_of(before)
    for old, new in zip(before.params, after.params, strict=True):
        if old not in params and _is_used(after, new):
            what = f"`replacement` uses the parameter {new.name_hint}, which `pattern` does not"
            hint = "every value of the replacement must come from the pattern"
            raise ValueError(explain(what, got=new.name_hint, instead=hint, span=after.span))
    pairs = zip(after.params, before.params, strict=True)
    pattern_of = {new: params[old] for new, old in pairs if old in params}
    functions = {}
    work = [after]
    while work:
        for gvar in called_global_vars(work.pop()):
            if gvar in mod.functions and gvar not in functions:
                if "global_symbol" in mod[gvar].attrs:
                    what = f"`replacement` calls {gvar.name_hint}, which is publicly exposed"
                    hint = "private=True in its decorator: each use of the rule adds the function"
                    raise ValueError(explain(what, instead=hint, span=mod[gvar].span))
                functions[gvar] = mod[gvar]
                work.append(mod[gvar])
    return ScriptRule(pattern, pattern_of, _written_out(after), functions)


def _is_used(func: rx.Function, param: rx.Var) -> bool:
    table = {param: param.replace(name_hint=param.name_hint + "_")}
    return _Instance(table).visit(func.body) is not func.body


def _written_out(func: rx.Function) -> Any:
    """The result of a function with its bindings inlined."""
    instance = _Instance({})
    for binding in bindings_of(func):
        _plain(binding, "replacement")
        instance.table[binding.var] = instance.visit(binding.value)
    return instance.visit(func.body.body)


def _plain(binding: rx.Binding, name: str) -> None:
    if isinstance(binding, rx.MatchCast) or isinstance(
        binding.value, (rx.If, rx.Function, rx.SeqExpr)
    ):
        what = f"`{name}` of a rewriter holds calls, tuples and literals only"
        got = f"{type(binding.value).__name__} bound to {binding.var.name_hint}"
        if isinstance(binding, rx.MatchCast):
            got = f"a match_cast of {binding.var.name_hint}"
        raise ValueError(explain(what, got=got, span=binding.span))


def _pattern_of(func: rx.Function) -> tuple[pt.DFPattern, dict[rx.Var, pt.DFPattern]]:
    """The pattern that a function computes, and those of its used parameters."""
    patterns: dict[rx.Var, pt.DFPattern] = {}
    params: dict[rx.Var, pt.DFPattern] = {}

    def of(expr: Any) -> pt.DFPattern:
        if isinstance(expr, rx.Var):
            if expr in patterns:
                return patterns[expr]
            if expr not in params:
                params[expr] = pt.StructInfoPattern(pt.WildcardPattern(), expr.struct_info)
            return params[expr]
        if isinstance(expr, rx.Call):
            args = [of(arg) for arg in expr.args]
            pattern: pt.DFPattern = pt.CallPattern(of(expr.op), args, False, False)
            if expr.attrs is not None and len(expr.attrs):
                pattern = pt.AttrPattern(pattern, expr.attrs)
            for info in expr.sinfo_args:
                pattern = pt.StructInfoPattern(pattern, info)
            return pattern
        if isinstance(expr, rx.Tuple):
            return pt.TuplePattern([of(f) for f in expr.fields])
        if isinstance(expr, rx.TupleGetItem):
            return pt.TupleGetItemPattern(of(expr.tuple_value), expr.index)
        if isinstance(expr, GlobalVar):
            return pt.GlobalVarPattern(expr.name_hint)
        if isinstance(expr, rx.ExternFunc):
            return pt.ExternFuncPattern(expr.global_symbol)
        if isinstance(expr, (rx.ShapeExpr, rx.PrimValue)):
            return pt.StructInfoPattern(pt.WildcardPattern(), expr.struct_info)
        return pt.ExprPattern(expr)

    for binding in bindings_of(func):
        _plain(binding, "pattern")
        patterns[binding.var] = of(binding.value)
    result = of(func.body.body)
    fields = result.fields if isinstance(result, pt.TuplePattern) else (result,)
    if any(f in params.values() for f in fields):
        what = "`pattern` of a rewriter must compute its result"
        raise ValueError(explain(what, got="a parameter itself", span=func.span))
    return result, params


def add_functions(mod: IRModule, script: ScriptRule) -> tuple[IRModule, ScriptRule]:
    """The module with the functions that a rule's replacement calls, renamed if necessary,
    and the rule that calls them by their new names."""
    if not script.functions:
        return mod, script
    builder = BlockBuilder(mod)
    table: dict[Any, Any] = {}
    names = {g.name_hint for g in mod.functions}
    for gvar, func in script.functions.items():
        name = free_name(gvar.name_hint, names)
        names.add(name)
        table[gvar] = builder.add_func(func, name)
    return builder.get(), replace(script, renamed=table)
