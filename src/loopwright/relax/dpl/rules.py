"""The rewriting engine: applies rules to every value of a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...base.errors import explain
from ...ir.structural import structural_equal
from ...ir.transform import IRModule, code_span
from .. import expr as rx
from ..analysis.variables import contains_impure_call, used_vars
from ..functor import GraphRewriter, with_span_of
from .constraints import ConstraintGraph
from .context import GraphSearch
from .graft import Graft, check_struct_info, checked_result
from .matcher import matcher_of
from .pattern import DFPattern
from .script_rules import ScriptRule

# The longest chain of replacements of replacements; a longer one means that a rule feeds itself.
DEEPEST = 200

Callback = Callable[[Any, dict[DFPattern, Any]], Any]


class ExprRule:
    """If `pattern` matches a value, `callback(value, matches)` returns its replacement."""

    def __init__(
        self, pattern: DFPattern, callback: Callback, new_struct_info: bool = False
    ) -> None:
        self.pattern = pattern
        self.callback = callback
        self.new_struct_info = new_struct_info

    def calling(self, callback: Callback) -> ExprRule:
        """The same rule with another callback."""
        return ExprRule(self.pattern, callback, self.new_struct_info)


class TupleRule:
    """If `patterns` match distinct variables of a block, `callback(tuple of their values,
    matches)` returns the tuple of replacements."""

    def __init__(
        self, patterns: Iterable[DFPattern], callback: Callback, new_struct_info: bool = False
    ) -> None:
        self.patterns = list(patterns)
        self.callback = callback
        self.new_struct_info = new_struct_info

    def calling(self, callback: Callback) -> TupleRule:
        """The same rule with another callback."""
        return TupleRule(self.patterns, callback, self.new_struct_info)


# ---------------------------------------------------------------------- one value at a time


class ExprRewriting(GraphRewriter):
    """Applies rules to each bound value, in program order; results are rewritten
    again."""

    def __init__(self, mod: IRModule | None, rules: list[ExprRule]) -> None:
        super().__init__(mod)
        self.rules = rules
        self.bound: dict[rx.Var, Any] = {}  # bindings that patterns look through
        self.searches = [matcher_of(rule.pattern, self.bound) for rule in rules]
        self.graft = Graft(self.builder, self.improve)
        self.depth = 0

    def function(self, func: rx.Function) -> rx.Function:
        mark = len(self.graft.scope)
        for param in func.params:
            self.graft.define(param)
        new = super().function(func)
        self.graft.forget(mark)
        return new

    def seq(self, seq: rx.SeqExpr, in_dataflow: bool = False) -> rx.SeqExpr:
        mark = len(self.graft.scope)
        new = super().seq(seq, in_dataflow)
        self.graft.forget(mark)
        return new

    def block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        mark = len(self.graft.scope)
        new = super().block(block)
        if isinstance(block, rx.DataflowBlock):
            # Its own variables leave the scope, and with them the values computed from them.
            removed = self.graft.forget(mark)
            outputs = [v for v in removed if not isinstance(v, rx.DataflowVar)]
            for var in outputs:
                self.graft.define(var)
                value = self.bound.get(var)
                if value is not None and any(v not in self.graft.scope for v in used_vars(value)):
                    del self.bound[var]
        return new

    def binding(self, binding: rx.VarBinding) -> None:
        value = self.value(binding.value)
        var = binding.var
        if isinstance(binding, rx.MatchCast):
            self.emit(binding, value)
            self.graft.define(self.var_map.get(var, var))
            return
        if value.struct_info is None:
            value = self.builder.normalize(value)
        improved = self.improve(value, var.name_hint)
        if (
            isinstance(improved, rx.Var)
            and improved is not value
            and isinstance(var, rx.DataflowVar)
        ):
            self.var_map[var] = improved
            return
        self.emit(binding, improved)
        var = self.var_map.get(var, var)
        if contains_impure_call(improved):
            self.bound.clear()  # a match must be on one side of this binding, not across it
        self.note(var, improved)

    def note(self, var: rx.Var, value: rx.Expr) -> None:
        """Record a binding that patterns look through."""
        self.graft.define(var, value)
        self.bound[var] = value

    def improve(self, value: rx.Expr, name: str = "a value") -> Any:
        """`value` rewritten by the rules."""
        outer = self.depth
        try:
            while True:
                improved = self._once(value, name)
                if improved is value or structural_equal(improved, value):
                    return value
                value = improved
                if isinstance(value, rx.Var):
                    return value
        finally:
            self.depth = outer

    def _once(self, value: rx.Expr, name: str) -> Any:
        for rule, search in zip(self.rules, self.searches, strict=True):
            self._catch_up()
            matches = search(value)
            if matches is None:
                continue
            result = rule.callback(value, matches)
            if result is None or result is value:
                continue
            self.depth += 1
            if self.depth > DEEPEST:
                what = "a rewrite does not terminate: its replacement matches again"
                hint = "return the original expression if it is already in its new form"
                got = f"{DEEPEST} replacements in a row, by {rule.pattern}"
                raise ValueError(explain(what, got=got, instead=hint, span=value.span))
            result = self.graft.root(checked_result(result, rule.callback, value))
            if result.span is None:
                result = with_span_of(result, value.span)
            self._catch_up()
            if not rule.new_struct_info:
                old, new = value.struct_info, result.struct_info
                check_struct_info(new, old, name, rule.callback, value)
            return result
        return value

    def _catch_up(self) -> None:
        """Record the bindings that the graft added since the last call."""
        bindings = self.builder._frame().bindings
        for binding in reversed(bindings):
            var = binding.var
            if var in self.bound or isinstance(binding, rx.MatchCast):
                break
            self.bound[var] = binding.value


# ---------------------------------------------------------------------- several values at once


class BlockRewriting(GraphRewriter):
    """Replaces several values of a block together; subclasses implement `rewrite_block`."""

    def __init__(self, mod: IRModule | None) -> None:
        super().__init__(mod)
        self.visible: dict[rx.Var, None] = {}

    def rewrite_block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        """The block with its replacements; the same object without any."""
        raise NotImplementedError

    def function(self, func: rx.Function) -> rx.Function:
        outer = dict(self.visible)
        self.visible.update(dict.fromkeys(func.params))
        new = super().function(func)
        self.visible = outer
        return new

    def seq(self, seq: rx.SeqExpr, in_dataflow: bool = False) -> rx.SeqExpr:
        outer = dict(self.visible)
        new = super().seq(seq, in_dataflow)
        self.visible = outer
        return new

    def block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        new = super().block(block)
        while (changed := self.rewrite_block(new)) is not new:
            new = super().block(changed)  # with its variables renamed
        for binding in new.bindings:
            var = binding.var
            if not (isinstance(new, rx.DataflowBlock) and isinstance(var, rx.DataflowVar)):
                self.visible[var] = None
        return new

    def replaced(
        self,
        block: rx.BindingBlock,
        news: dict[rx.Var, Any],
        callback: ScriptRule | Callable[..., Any],
        new_struct_info: bool,
    ) -> rx.BindingBlock | list[rx.Var]:
        """The block with new values for some of its variables, its bindings reordered as needed;
        or the variables of a cycle if the new values would create one."""
        builder = self.builder
        builder._begin(isinstance(block, rx.DataflowBlock))
        graft = Graft(builder)
        graft.scope.update(self.visible)
        for binding in block.bindings:
            value = None if isinstance(binding, rx.MatchCast) else binding.value
            graft.define(binding.var, value)
        results: dict[rx.Var, Any] = {}
        extra: dict[rx.Var, list[rx.Binding]] = {}  # bindings that each new value needs
        emitted = builder._frame().bindings
        for var, expr in news.items():
            start = len(emitted)
            value = graft.root(expr)
            extra[var] = emitted[start:]
            if not new_struct_info:
                check_struct_info(value.struct_info, var.struct_info, var.name_hint, callback, var)
            results[var] = value
        builder._end_block()
        bindings: list[rx.Binding] = []
        for binding in block.bindings:
            var = binding.var
            if var not in results:
                bindings.append(binding)
                continue
            bindings += extra[var]
            value = results[var]
            new = var
            if not structural_equal(value.struct_info, var.struct_info):
                new = self.var_map[var] = type(var)(var.vid, value.struct_info, var.span)
            bindings.append(rx.VarBinding._make(new, value, span=binding.span))
        ordered, cycle = in_order(bindings, self.var_map)
        return cycle or type(block)(ordered, block.span)


def in_order(
    bindings: list[rx.Binding], renamed: dict[rx.Var, Any]
) -> tuple[list[rx.Binding], list[rx.Var]]:
    """The bindings, each after those it needs, otherwise in the given order; and the variables of a
    cycle if there is one."""
    by_var = {b.var: b for b in bindings}
    done: dict[rx.Var, rx.Binding] = {}
    busy: dict[rx.Var, None] = {}  # the current path, each needed by its predecessor
    for first in bindings:
        work = [(first, False)]
        while work:
            binding, left = work.pop()
            var = binding.var
            if left:
                del busy[var]
                done[var] = binding
                continue
            if var in done:
                continue
            if var in busy:
                path = list(busy)
                return [], path[path.index(var) :]
            busy[var] = None
            work.append((binding, True))
            needs = [renamed.get(u, u) for u in used_vars(binding.value)]
            work += [(by_var[u], False) for u in reversed(needs) if u in by_var and u not in done]
    return list(done.values()), []


class TupleRewriting(BlockRewriting):
    """Applies a rule for several values to the blocks of a function."""

    def __init__(self, mod: IRModule | None, rule: TupleRule) -> None:
        super().__init__(mod)
        self.rule = rule
        self.refused: set[tuple[rx.Var, ...]] = set()

    def rewrite_block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        if not isinstance(block, rx.DataflowBlock):
            if any(contains_impure_call(b.value) for b in block.bindings):
                return block
        rule = self.rule
        graph = ConstraintGraph()
        graph.nodes.update(dict.fromkeys(rule.patterns))
        values = {b.var: b.value for b in block.bindings if not isinstance(b, rx.MatchCast)}
        search = GraphSearch(graph, values)
        for env in search.placements():
            matched = [env[p][1] for p in rule.patterns]
            key = tuple(matched)
            if key in self.refused or not all(v in values for v in matched):
                continue
            self.refused.add(key)
            matches = {k: v[0] for k, v in env.items() if isinstance(k, DFPattern)}
            whole = rx.Tuple([values[v] for v in matched])
            result = rule.callback(whole, matches)
            if result is None or result is whole:
                continue
            result = checked_result(result, rule.callback, whole)
            if isinstance(result, rx.Tuple):
                fields = list(result.fields)
            else:
                fields = [rx.TupleGetItem(result, i) for i in range(len(matched))]
            if len(fields) != len(matched):
                what = "the replacement of a tuple has another number of fields"
                got = f"{len(fields)} for {len(matched)}"
                raise ValueError(explain(what, got=got, instead="give one for each pattern"))
            pairs = zip(matched, fields, strict=True)
            news = {v: f for v, f in pairs if f is not values[v] and f is not v}
            if not news:
                continue
            changed = self.replaced(block, news, rule.callback, rule.new_struct_info)
            if isinstance(changed, rx.BindingBlock):
                return changed
        return block


class BindingsRewriting(BlockRewriting):
    """Applies the callback of `rewrite_bindings` to the dataflow blocks of a function."""

    def __init__(
        self,
        mod: IRModule | None,
        graph: ConstraintGraph,
        callback: Callable[..., Any],
        new_struct_info: bool,
    ) -> None:
        super().__init__(mod)
        self.graph = graph
        self.callback = callback
        self.new_struct_info = new_struct_info
        self.done: set[rx.Var] = set()  # already replaced: patterns do not look through them

    def rewrite_block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        if not isinstance(block, rx.DataflowBlock):
            return block
        values = {
            b.var: b.value
            for b in block.bindings
            if not isinstance(b, rx.MatchCast) and b.var not in self.done
        }
        search = GraphSearch(self.graph, values)
        news: dict[rx.Var, Any] = {}
        for matches in search.matches():
            more = self._replacements(matches, values)
            for var in more:
                del values[var]
            search.done.update(more)
            news.update(more)
        if not news:
            return block
        changed = self.replaced(block, news, self.callback, self.new_struct_info)
        if isinstance(changed, list):
            what = "a replacement would create a cycle"
            got = " needs ".join(v.name_hint for v in (*changed, changed[0]))
            hint = "one of the values matched together is needed to compute another: leave it out"
            span = changed[0].span or code_span(self.callback)
            raise ValueError(explain(what, got=got, instead=hint, span=span))
        self.done.update(news)
        self.done.update(self.var_map[v] for v in news if v in self.var_map)
        return changed

    def _replacements(
        self, matches: dict[DFPattern, Any], values: dict[rx.Var, Any]
    ) -> dict[rx.Var, Any]:
        news = self.callback(matches, dict(values))
        if news is None:
            return {}
        if not isinstance(news, dict):
            what = "the rewriter must return a dict from variables to expressions"
            hint = "return {matchings[pattern]: expression}, or {} if nothing should change"
            span = code_span(self.callback)
            got = f"{type(news).__name__}: {news!r}"
            raise TypeError(explain(what, got=got, instead=hint, span=span))
        for var, expr in news.items():
            if var not in values:
                what = "the rewriter replaces a variable that is not bound in the block, or was replaced"
                hint = "use the variables that patterns of calls matched: matchings[pattern]"
                span = code_span(self.callback)
                raise ValueError(explain(what, got=repr(var), instead=hint, span=span))
            checked_result(expr, self.callback, var)
        return {v: e for v, e in news.items() if e is not values[v] and e is not v}
