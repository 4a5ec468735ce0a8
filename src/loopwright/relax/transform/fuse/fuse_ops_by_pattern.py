"""FuseOpsByPattern: outlines the matches of a pattern into composite functions.

Pass::

    FuseOpsByPattern([("mine.exp_relu", dpl.is_op("relax.nn.relu")(dpl.is_op("relax.exp")(dpl.wildcard())))])

Before (-) and after (+)::

      @I.ir_module
      class Module:
    -     @R.function
    -     def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    +     @R.function(private=True)
    +     def fused_relax_exp_relax_nn_relu(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    +         R.func_attr({"Composite": "mine.exp_relu", "Primitive": True})
              with R.dataflow():
                  lv: R.Tensor((4,), dtype="float32") = R.exp(x)
                  gv: R.Tensor((4,), dtype="float32") = R.nn.relu(lv)
                  R.output(gv)
              return gv
    +
    +     @R.function
    +     def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    +         cls = Module
    +         with R.dataflow():
    +             gv: R.Tensor((4,), dtype="float32") = cls.fused_relax_exp_relax_nn_relu(x)
    +             R.output(gv)
    +         return gv

Patterns are tried in order; matched bindings are not available to later patterns. Of overlapping
matches of one pattern the largest wins. Values used outside become results of the function. The
trace has a note "pattern" for every binding at which a pattern matched or was refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....base.errors import LoopwrightError, explain, suggest
from ....base.foreign import named_errors
from ....ir import trace
from ....ir.expr import GlobalVar
from ....ir.op import Op
from ....ir.transform import IRModule, ModulePass, PassContext
from ... import expr as rx
from ...analysis.variables import udchain
from ...dpl import pattern as dpl
from ...dpl.matcher import matcher_of
from ...dpl.nodes import DFPattern
from ..queries import functions_of, is_outlined, used_vars
from ._grouping import GroupedRewriter, name_of

COMPOSITE, CODEGEN = "Composite", "Codegen"


@dataclass(frozen=True)
class PatternCheckContext:
    """The arguments of a pattern's check.

    matched_expr: the value at the root of the match.
    annotated_expr: the values of the annotated patterns, by name.
    matched_bindings: variable -> value, for everything matched.
    var_usages: variable -> the variables whose values use it.
    value_to_bound_var: value -> the variable it is bound to, of the block up to the match.
    """

    matched_expr: Any
    annotated_expr: Mapping[str, Any]
    matched_bindings: Mapping[rx.Var, Any]
    var_usages: Mapping[rx.Var, Sequence[rx.Var]]
    value_to_bound_var: Mapping[Any, rx.Var]
    reasons: list[str] = field(default_factory=list)

    def refuse(self, reason: str) -> bool:
        """False, with a reason for the trace and the partition's report."""
        self.reasons.append(reason)
        return False


Check = Callable[[PatternCheckContext], bool]


@dataclass(frozen=True)
class FusionPattern:
    """A pattern with the name of the composite functions created from its matches.

    annotation_patterns: named subpatterns for the check.
    check: whether a match is accepted.
    attrs_getter: returns further attributes of the function, given the annotated values.
    """

    name: str
    pattern: dpl.DFPattern
    annotation_patterns: Mapping[str, dpl.DFPattern] = field(default_factory=dict)
    check: Check | None = None
    attrs_getter: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None

    @staticmethod
    def of(value: FusionPattern | tuple[Any, ...]) -> FusionPattern:
        """From a FusionPattern, or a tuple (name, pattern[, annotations][, check])."""
        if isinstance(value, FusionPattern):
            return value
        what = "a pattern is a FusionPattern or a tuple (name, pattern[, annotations][, check])"
        if not isinstance(value, (tuple, list)) or not 2 <= len(value) <= 5:
            raise TypeError(explain(what, got=repr(value)))
        name, pattern, *rest = value
        if not isinstance(name, str) or not isinstance(pattern, dpl.DFPattern):
            raise TypeError(explain(what, got=repr(value)))
        annotations = rest.pop(0) if rest and isinstance(rest[0], Mapping) else {}
        if len(rest) > 2 or not all(r is None or callable(r) for r in rest):
            raise TypeError(explain(what, got=repr(value)))
        return FusionPattern(name, pattern, dict(annotations), *rest)


@dataclass
class MatchLog:
    """The matches that FuseOpsByPattern outlined: the variables of the matches -> their pattern's name.

    accepts: given the variables of a match, whether to outline it; by default all are.
    """

    matched: dict[rx.Var, str] = field(default_factory=dict)
    accepts: Callable[[set[rx.Var]], bool] | None = None


class FuseOpsByPattern(ModulePass):
    """Outlines each match of `patterns` as a function.

    patterns: FusionPatterns or tuples; earlier ones have priority.
    bind_constants: whether matched constants stay inside the functions or become parameters.
    annotate_codegen: wrap each composite function into a public one with the attribute `Codegen`:
        the text before the first dot of the pattern's name.
    entry_functions: the functions to rewrite; by default all.
    refused: is filled with (operator, reason) for the operators of each rejected match.
    log: is filled.

    Raises LoopwrightError if the call of a match would depend on its own result; ValueError for an
    unknown entry function, and if two functions define the same variable.
    """

    def __init__(
        self,
        patterns: Sequence[Any],
        bind_constants: bool = True,
        annotate_codegen: bool = False,
        entry_functions: Sequence[str] | None = None,
        refused: list[tuple[str, str]] | None = None,
        log: MatchLog | None = None,
    ) -> None:
        super().__init__()
        self.refused = [] if refused is None else refused
        self.log = MatchLog() if log is None else log
        self.patterns = [FusionPattern.of(p) for p in patterns]
        self.bind_constants = bind_constants
        self.annotate_codegen = annotate_codegen
        self.entry_functions = None if entry_functions is None else list(entry_functions)

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        check_entries(mod, self.entry_functions)
        check_definitions(mod)
        for pattern in self.patterns:
            work = _Matcher(mod, pattern, not self.bind_constants, self.refused, self.log)
            changed = {
                gvar: work.function(func)
                for gvar, func in functions_of(mod)
                if not is_outlined(func) and self._selects(gvar.name_hint)
            }
            mod = work.builder.get().with_functions({**changed, **work.placed()})
        return annotate(mod) if self.annotate_codegen else mod

    def _selects(self, name: str) -> bool:
        return self.entry_functions is None or name in self.entry_functions


def check_entries(mod: IRModule, names: Sequence[str] | None) -> None:
    """Raise ValueError for a name that is not a function of the module."""
    defined = [g.name_hint for g, _ in functions_of(mod)]
    for name in names or ():
        if name not in defined:
            what = "entry_functions names a function that is not in the module"
            raise ValueError(explain(what, got=name, instead=suggest(name, defined, "one of")))


def check_definitions(mod: IRModule) -> None:
    """Raise ValueError if a variable is defined twice in the module's functions."""
    owner: dict[rx.Var, str] = {}
    for gvar, func in functions_of(mod):
        defined = [b.var for block in func.body.blocks for b in block.bindings]
        for var in (*func.params, *defined):
            other = owner.setdefault(var, gvar.name_hint)
            if other != gvar.name_hint:
                what = f"the variable {var.name_hint} is defined in two functions"
                got = f"{other} and {gvar.name_hint}"
                hint = "copy a function with relax.utils.copy_with_new_vars"
                raise ValueError(explain(what, got=got, instead=hint))


class _Matcher(GroupedRewriter):
    """Outlines the matches of one pattern into functions."""

    lift_shapes = True

    def __init__(
        self,
        mod: IRModule,
        pattern: FusionPattern,
        lift_constants: bool,
        refused: list[tuple[str, str]],
        log: MatchLog,
    ) -> None:
        super().__init__(mod)
        self.refused = refused
        self.log = log
        self.pattern = pattern
        self.lift_constants = lift_constants

    def block(self, block: Any) -> Any:
        if not isinstance(block, rx.DataflowBlock):
            return self.super_block(block)
        matches = self.find(block)
        self.attrs_of = {n: attrs for n, (_, attrs) in enumerate(matches.values())}
        self.group_of = {v: n for n, (members, _) in enumerate(matches.values()) for v in members}
        if not matches:
            return self.super_block(block)
        check_acyclic(block, self.group_of, self.pattern.name)
        return self.regroup(block)

    def find(self, block: rx.DataflowBlock) -> dict[int, tuple[set[rx.Var], dict[str, Any]]]:
        """The non-overlapping matches in a block: their variables and attributes."""
        bindings = [b for b in block.bindings if type(b) is rx.VarBinding]
        values = {
            b.var: b.value
            for b in bindings
            if isinstance(b.value, (rx.Call, rx.TupleGetItem, rx.Constant))
        }
        variable = {id(value): var for var, value in values.items()}
        bound: dict[Any, rx.Var] = {}
        users = udchain(block)
        match = matcher_of(self.pattern.pattern, values)
        matches: dict[int, tuple[set[rx.Var], dict[str, Any]]] = {}
        owner: dict[rx.Var, int] = {}
        for n, binding in enumerate(bindings):
            value = binding.value
            bound[value] = binding.var
            if not isinstance(value, (rx.Call, rx.TupleGetItem)):
                continue
            parts = match(value)
            if parts is None:
                continue
            inner = {binding.var} | {
                variable[id(v)]
                for p, v in parts.items()
                if isinstance(p, (dpl.CallPattern, dpl.TupleGetItemPattern)) and id(v) in variable
            }
            before = {owner[v] for v in inner if v in owner}
            refused = self.refusal(binding, parts, inner, values, bound, users)
            if not refused and not all(matches[k][0] <= inner for k in before):
                refused = "it overlaps an earlier match"
            self.note(binding, inner, values, refused)
            if refused:
                self.refused.extend((name, refused) for name in _operators(inner, values))
                continue
            for k in before:
                del matches[k]
            matches[n] = (inner, self.attributes(parts))
            owner.update(dict.fromkeys(inner, n))
        accepts = self.log.accepts
        if accepts is not None:
            matches = {n: match for n, match in matches.items() if accepts(match[0])}
        for inner, _ in matches.values():
            self.log.matched.update(dict.fromkeys(inner, self.pattern.name))
        return matches

    def refusal(
        self,
        binding: rx.VarBinding,
        parts: Mapping[DFPattern, Op | rx.Expr],
        inner: set[rx.Var],
        values: Any,
        bound: Any,
        users: Any,
    ) -> str:
        """Why the pattern's check rejects a match; "" if it accepts it."""
        if self.pattern.check is None:
            return ""
        context = PatternCheckContext(
            binding.value,
            self.annotated(parts),
            {v: values[v] for v in values if v in inner},
            users,
            dict(bound),
        )
        name, span = self.pattern.name, lambda: binding.value.span
        with named_errors(f"the check of the pattern {name}", self.pattern.check, span):
            accepted = self.pattern.check(context)
        if accepted:
            return ""
        return "; ".join(context.reasons) or "the pattern's check said no"

    def annotated(self, parts: Mapping[dpl.DFPattern, Any]) -> dict[str, Any]:
        named = self.pattern.annotation_patterns.items()
        return {name: parts[p] for name, p in named if p in parts}

    def attributes(self, parts: Mapping[dpl.DFPattern, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {COMPOSITE: self.pattern.name}
        if self.pattern.attrs_getter is not None:
            getter = self.pattern.attrs_getter
            with named_errors(f"the function for attributes of {self.pattern.name}", getter):
                values.update(getter(self.annotated(parts)))
        return values

    def note(self, binding: rx.VarBinding, inner: set[rx.Var], values: Any, refused: str) -> None:
        if trace.active() is None:
            return
        called = name_of(binding) or binding.var.name_hint
        names = sorted(v.name_hint for v in inner)
        trace.note(
            "pattern",
            called,
            pattern=self.pattern.name,
            matched=names,
            of=_operators(inner, values),
            refused=refused,
        )


def _operators(inner: set[rx.Var], values: Mapping[rx.Var, Any]) -> list[str]:
    """The names of the operators in a match."""
    callees = (getattr(getattr(values.get(v), "op", None), "name", "") for v in inner)
    return sorted({name for name in callees if name})


def check_acyclic(block: rx.DataflowBlock, group_of: Mapping[rx.Var, int], pattern: str) -> None:
    """Raise LoopwrightError if calls of the groups would need each other's results."""
    needs: dict[Any, dict[Any, None]] = {}
    names: dict[Any, list[str]] = {}
    for binding in block.bindings:
        unit = group_of.get(binding.var, binding.var)
        names.setdefault(unit, []).append(binding.var.name_hint)
        sources = needs.setdefault(unit, {})
        for var in used_vars(binding.value):
            source = group_of.get(var, var)
            if source is not unit and source != unit:
                sources.setdefault(source)
    state: dict[Any, int] = {}
    for start in needs:
        stack = [(start, iter(needs[start]))] if start not in state else []
        state.setdefault(start, 1)
        while stack:
            unit, rest = stack[-1]
            for source in rest:
                if state.get(source) == 1:
                    _raise_cycle(block, names, unit, source, pattern)
                if source in needs and source not in state:
                    state[source] = 1
                    stack.append((source, iter(needs[source])))
                    break
            else:
                state[unit] = 2
                stack.pop()


def _raise_cycle(
    block: rx.DataflowBlock,
    names: Mapping[rx.Expr | int, Sequence[str]],
    unit: rx.Expr,
    source: int,
    pattern: str,
) -> None:
    group = next(u for u in (unit, source) if isinstance(u, int))
    other = source if group == unit else unit
    what = f"A cyclic dependency detected: a match of pattern {pattern} would need its own result"
    got = f"the match {', '.join(names[group])} and {', '.join(names[other])} need each other"
    hint = "the values between the parts must be in the pattern, or refused by its check"
    raise LoopwrightError(explain(what, got=got, instead=hint, span=block.span))


# ---------------------------------------------------------------------- annotate_codegen


def backend_of(composite: str) -> str:
    """The back end in a composite function's name: "dnnl" of "dnnl.conv2d_relu".

    Raises LoopwrightError if the name has none.
    """
    backend, dot, _ = composite.partition(".")
    if not backend or not dot:
        what = "the name of a composite function begins with its back end's, before a dot"
        raise LoopwrightError(explain(what, got=repr(composite), instead='such as "dnnl.conv2d"'))
    return backend


def annotate(mod: IRModule) -> IRModule:
    """Wrap each composite function as a local function of a public one with the attribute
    `Codegen`."""
    work = _Annotator(mod)
    changed = {
        gvar: work.function(func)
        for gvar, func in functions_of(mod)
        if COMPOSITE not in func.attrs and CODEGEN not in func.attrs
    }
    annotated = work.builder.get().with_functions(changed)
    return annotated.with_functions(remove=work.wrapped)


class _Annotator(GroupedRewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.wrapped: dict[Any, Any] = {}

    def call(self, call: rx.Call) -> Any:
        assert self.mod is not None
        func = self.mod.get(call.op) if isinstance(call.op, GlobalVar) else None
        if not isinstance(func, rx.Function) or COMPOSITE not in func.attrs:
            return call
        outer = self.wrapped.get(call.op)
        if outer is None:
            outer = self.wrapped[call.op] = self.wrap(call.op.name_hint, func)
        return rx.Call(outer, call.args, call.attrs, call.sinfo_args, call.span)

    def wrap(self, name: str, func: rx.Function) -> Any:
        backend = backend_of(str(func.attrs[COMPOSITE]))
        full = f"{name}_{backend}"
        inner = func.without_attr("Primitive").without_attr("global_symbol")
        params = [rx.Var(p.name_hint, p.struct_info, p.span) for p in func.params]
        builder = self.builder
        with builder.scope(params):
            local = rx.Var("local_func", inner.struct_info)
            called = builder.normalize(rx.Call(local, params))
            output = rx.Var("output", called.struct_info)
            block = rx.BindingBlock(
                [rx.VarBinding._make(local, inner), rx.VarBinding._make(output, called)]
            )
            seq = builder.normalize(rx.SeqExpr([block], output))
        attrs = {CODEGEN: backend, "global_symbol": full}
        outer = rx.Function(params, seq, None, True, attrs, func.span)
        return builder.add_func(outer, full)
