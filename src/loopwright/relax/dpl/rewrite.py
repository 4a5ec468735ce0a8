"""Rewriting by patterns: of single values, of several values together, of whole modules.

    x = wildcard()
    twice = is_op("relax.add")(x, x)

    def by_multiply(value, matches):
        return R.multiply(matches[x], R.const(2, "float32"))

    func = rewrite_call(twice, by_multiply, func)
    mod = PatternMatchingRewriter.from_pattern(twice, by_multiply)(mod)

Replacements are matched again until nothing matches; then aliases, duplicate
computations and unused values are removed. A function without a match is returned as the same
object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...base.errors import explain
from ...ir.functor import allow_deep_programs
from ...ir.module import IRModule, called_global_vars
from ...ir.structural import structural_equal
from ...ir.transform import ModulePass, PassContext
from ..analysis.variables import remove_all_unused
from ..expr import Function
from ..transform.graph.canonicalize import canonicalize
from ..transform.graph.eliminate_common_subexpr import EliminateCommonSubexpr
from .constraints import ConstraintGraph
from .pattern import DFPattern, OrPattern, TuplePattern
from .rules import (
    DEEPEST,
    BindingsRewriting,
    Callback,
    ExprRewriting,
    ExprRule,
    TupleRewriting,
    TupleRule,
)
from .script_rules import ScriptRule, add_functions, read_rule

Rule = ExprRule | TupleRule


class PatternMatchingRewriter(ModulePass, abstract=True):
    """Rewrites functions and modules; it is a pass, so it can be part of a `Sequential`.

    `a | b` applies both, `a` first if both match.
    """

    rules: list[Rule]

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = list(rules)

    @staticmethod
    def from_pattern(
        pattern: DFPattern, func: Callback, *, new_struct_info: bool = False
    ) -> PatternMatchingRewriter:
        """Replace the matches of `pattern` by `func(value, matches)`.

        func: called with the value and the matches; returns the replacement, or the value
        itself (or None) to change nothing. For a tuple pattern the value is a tuple, and
        its fields may be any distinct variables of one block.
        new_struct_info: allow replacements whose struct info contradicts the old one.
        """
        if isinstance(pattern, TuplePattern):
            return TupleRewriter(pattern.fields, func, new_struct_info=new_struct_info)
        if isinstance(pattern, OrPattern) and _has_tuple(pattern):
            make = PatternMatchingRewriter.from_pattern
            sides = [make(p, func, new_struct_info=new_struct_info) for p in pattern.parts()]
            return OrRewriter(*sides)
        return ExprPatternRewriter(pattern, func, new_struct_info=new_struct_info)

    @staticmethod
    def from_module(mod: IRModule) -> PatternMatchingRewriter:
        """Replace the computation of the function `pattern` of a module by that of its function
        `replacement`; both have the same parameters, which match any values of
        their struct infos. A pattern that returns a tuple replaces several values together."""
        script = read_rule(mod)
        rule: Rule
        if isinstance(script.pattern, TuplePattern):
            rule = TupleRule(script.pattern.fields, script)
        else:
            rule = ExprRule(script.pattern, script)
        return PatternMatchingRewriter([rule])

    def __or__(self, other: PatternMatchingRewriter) -> PatternMatchingRewriter:
        return OrRewriter(self, other)

    def __call__(self, obj: IRModule | Function | int) -> Any:
        """A module or a function, rewritten."""
        if isinstance(obj, IRModule):
            return super().__call__(obj)
        if isinstance(obj, Function):
            return _rewritten(obj, self.rules, None)
        what = "a rewriter is applied to a function or a module"
        hint = "wrap the expression in a function: relax.Function(params, expr)"
        raise TypeError(explain(what, got=type(obj).__name__, instead=hint))

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        extended, rules = mod, []
        for rule in self.rules:  # add the functions that scripts' replacements call
            if isinstance(rule.callback, ScriptRule):
                extended, script = add_functions(extended, rule.callback)
                rule = rule.calling(script)
            rules.append(rule)
        changed = {}
        for gvar, func in mod.functions.items():
            if isinstance(func, Function):
                rewritten = _rewritten(func, rules, extended)
                if rewritten is not func:
                    changed[gvar] = rewritten
        if not changed:
            return mod
        rewritten = extended.with_functions(changed)
        called = set().union(*map(called_global_vars, rewritten.functions.values()))
        return rewritten.with_functions(
            remove=[g for g in rewritten.functions if g not in mod.functions and g not in called]
        )


class ExprPatternRewriter(PatternMatchingRewriter, abstract=True):
    """Rewrites single values."""

    def __init__(
        self, pattern: DFPattern, func: Callback, *, new_struct_info: bool = False
    ) -> None:
        super().__init__([ExprRule(_checked(pattern), func, new_struct_info)])


class TupleRewriter(PatternMatchingRewriter, abstract=True):
    """Rewrites several values of one block together: `func(tuple of values, matches)` returns a
    tuple."""

    def __init__(
        self, patterns: Iterable[DFPattern], func: Callback, *, new_struct_info: bool = False
    ) -> None:
        super().__init__([TupleRule(map(_checked, patterns), func, new_struct_info)])


class OrRewriter(PatternMatchingRewriter, abstract=True):
    """Applies two rewriters."""

    def __init__(self, lhs: PatternMatchingRewriter, rhs: PatternMatchingRewriter) -> None:
        for side in (lhs, rhs):
            if not isinstance(side, PatternMatchingRewriter):
                what = "rewriters are combined with rewriters"
                hint = "make one with PatternMatchingRewriter.from_pattern(pattern, func)"
                raise TypeError(explain(what, got=type(side).__name__, instead=hint))
        super().__init__([*lhs.rules, *rhs.rules])


def _rewritten(func: Function, rules: list[Rule], mod: IRModule | None) -> Function:
    """A function rewritten until nothing matches. Raises ValueError if this does not terminate."""
    allow_deep_programs()
    for _ in range(DEEPEST):
        rewritten = _once(func, rules, mod)
        if rewritten is func:
            return func
        rewritten = tidy(rewritten)
        if structural_equal(rewritten, func):
            return func
        func = rewritten
    what = "a rewrite does not terminate: its replacement matches again"
    hint = "return the original expression if it is already in its new form"
    raise ValueError(explain(what, got=f"{DEEPEST} rounds", instead=hint, span=func.span))


def _once(func: Function, rules: list[Rule], mod: IRModule | None) -> Function:
    single = [rule for rule in rules if isinstance(rule, ExprRule)]
    if single:
        func = ExprRewriting(mod, single).function(func)
    for rule in rules:
        if isinstance(rule, TupleRule):
            func = TupleRewriting(mod, rule).function(func)
    return func


def _has_tuple(pattern: DFPattern) -> bool:
    if isinstance(pattern, OrPattern):
        return any(map(_has_tuple, pattern.parts()))
    return isinstance(pattern, TuplePattern)


def _checked(pattern: DFPattern | str) -> DFPattern:
    if not isinstance(pattern, DFPattern):
        what = "a rewriter needs a pattern"
        raise TypeError(explain(what, got=f"{type(pattern).__name__}: {pattern!r}"))
    return pattern


def tidy(func: Function) -> Function:
    """Remove aliases, duplicate computations and unused values."""
    reuse, owner = EliminateCommonSubexpr(), IRModule()
    while True:
        tidied = canonicalize(func, owner)
        tidied = canonicalize(reuse.run_function(tidied, owner, PassContext.current()), owner)
        tidied = remove_all_unused(tidied)
        if tidied is func or structural_equal(tidied, func):
            return tidied
        func = tidied


def rewrite_call(
    pattern: DFPattern,
    rewriter: Callable[[Any, dict[DFPattern, Any]], Any],
    func: Function,
    *,
    new_struct_info: bool = False,
) -> Function:
    """A function with each value that `pattern` matches replaced by `rewriter(value, matches)`.

    See `PatternMatchingRewriter.from_pattern`. Raises TypeError if the rewriter does not return an
    expression, ValueError if the replacement does not fit.
    """
    _checked_function("rewrite_call", func)
    make = PatternMatchingRewriter.from_pattern
    return make(pattern, rewriter, new_struct_info=new_struct_info)(func)


def rewrite_bindings(
    ctx: ConstraintGraph,
    rewriter: Callable[[dict[DFPattern, Any], dict[Any, Any]], dict[Any, Any]],
    func: Function,
    *,
    new_struct_info: bool = False,
) -> Function:
    """A function in which, for each match of the patterns of `ctx` in a dataflow block, some of the
    matched variables get new values.

    rewriter: called with the variable of each pattern and the values of the block's variables;
    returns {variable: new value}. A variable is replaced at most once.
    Raises ValueError if the replacements depend on each other or do not fit.
    """
    _checked_function("rewrite_bindings", func)
    allow_deep_programs()
    rewritten = BindingsRewriting(None, ctx, rewriter, new_struct_info).function(func)
    return func if rewritten is func else tidy(rewritten)


def _checked_function(who: str, func: IRModule | Function) -> None:
    if not isinstance(func, Function):
        what = f"{who} rewrites a relax.Function"
        hint = 'give mod["main"], or apply a PatternMatchingRewriter to the module'
        raise TypeError(explain(what, got=type(func).__name__, instead=hint))
