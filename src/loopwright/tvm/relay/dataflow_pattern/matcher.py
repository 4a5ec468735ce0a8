"""The matcher: compares a pattern with a graph of Relay, greedily and without recursion.

Each pattern is compared once with one expression, and is bound to it from then on. The inside of
the path of a `DominatorPattern`, and behind a wildcard that was redirected, may match again
elsewhere: hence a list of expressions for each pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....base.errors import explain
from ....ir.op import Op
from ....ir.structural import structural_equal
from ....relax.dpl.matcher import same_attr
from .. import expr as rl
from ..dominators import Flow
from ..infer import Typer
from ..stackless import Step, run
from ..types import TensorType
from . import nodes as nd
from .nodes import DFPattern

_COMMUTE = ("add", "multiply")


class Matcher:
    """Matches patterns with the expressions of one graph.

    found: what each pattern matched in the last match.
    """

    def __init__(self, root: rl.Expr) -> None:
        self.flow = Flow(root)
        self.matches: dict[nd.DFPattern, list[Any]] = {}
        self._order: list[nd.DFPattern] = []  # in which the patterns of `found` matched
        self._once = True  # whether a pattern is bound to its match
        self._typer = Typer()

    def match(self, pattern: nd.DFPattern, expr: Op | rl.Expr) -> bool:
        """Whether an expression of the graph matches."""
        self.matches, self._order, self._once = {}, [], True
        return run(self.compare(pattern, expr))

    def compare(self, pattern: Any, expr: Any) -> Step:
        """Whether a pattern matches; if not, what matched inside it is forgotten."""
        if self._once and pattern in self.matches:
            return any(expr is match for match in self.matches[pattern])
        before = len(self._order)
        good = yield _RULES[type(pattern)](self, pattern, expr)
        if good:
            self.matches.setdefault(pattern, []).append(expr)
            self._order.append(pattern)
        else:
            self._forget(before)
        return good

    def compare_all(self, pairs: Any) -> Step:
        """Whether all pairs of a pattern and an expression match."""
        before = len(self._order)
        for pattern, expr in pairs:
            if not (yield self.compare(pattern, expr)):
                self._forget(before)
                return False
        return True

    def _forget(self, before: int) -> None:
        while len(self._order) > before:
            pattern = self._order.pop()
            self.matches[pattern].pop()
            if not self.matches[pattern]:
                del self.matches[pattern]

    def again(self, pattern: nd.DFPattern, expr: Any) -> Step:
        """Whether a pattern matches, regardless of its binding."""
        once, self._once = self._once, False
        good = yield self.compare(pattern, expr)
        self._once = once
        return good

    def type_of(self, expr: rl.Expr) -> Any:
        """The type of an expression, inferred where it is not known."""
        type_ = getattr(expr, "checked_type_", None)
        return self._typer.run(expr) if type_ is None and isinstance(expr, rl.Expr) else type_


Rule = Callable[[Matcher, Any, Any], Step]


def _leaf(test: Callable[[Any, Any], bool]) -> Rule:
    """The rule of a pattern without parts."""

    def rule(m: Matcher, p: DFPattern, e: Op | rl.Expr) -> Step:
        return test(p, e)
        yield

    return rule


def _structure(kind: type, *names: str) -> Rule:
    """The rule of a pattern whose parts have the names of the node's."""

    def rule(m: Matcher, p: DFPattern, e: rl.Expr) -> Step:
        if not isinstance(e, kind):
            return False
        return (yield m.compare_all((getattr(p, name), getattr(e, name)) for name in names))

    return rule


def _typed(test: Callable[[Any, Any], bool]) -> Rule:
    """The rule of a pattern that checks a type first."""

    def rule(m: Matcher, p: DFPattern, e: rl.Expr) -> Step:
        type_ = m.type_of(e)
        return type_ is not None and test(p, type_) and (yield m.compare(p.pattern, e))

    return rule


def _expr(p: nd.ExprPattern, e: Op | rl.Expr) -> bool:
    if p.expr is e or isinstance(e, Op):
        return p.expr is e
    return type(p.expr) is type(e) and structural_equal(p.expr, e)


def _wildcard(m: Matcher, p: nd.WildcardPattern, e: Op | rl.Expr) -> Step:
    return p.pattern is None or (yield m.again(p.pattern, e))


def _alt(m: Matcher, p: nd.AltPattern, e: rl.Expr) -> Step:
    return (yield m.compare(p.left, e)) or (yield m.compare(p.right, e))


def _attr(m: Matcher, p: nd.AttrPattern, e: Op | rl.Expr) -> Step:
    if not (yield m.compare(p.pattern, e)):
        return False
    if isinstance(e, Op):
        return all(e.has_attr(k) and same_attr(v, e.get_attr(k)) for k, v in p.attrs.items())
    if not isinstance(e, (rl.Call, rl.Function)):
        return False
    attrs = {} if e.attrs is None else dict(e.attrs.items())
    return all(k in attrs and same_attr(v, attrs[k]) for k, v in p.attrs.items())


def _paired(
    patterns: Sequence[DFPattern] | None, exprs: Sequence[rl.Expr]
) -> list[tuple[Any, Any]] | None:
    """The pairs to compare; None where the numbers differ."""
    if patterns is None:
        return []
    same = len(patterns) == len(exprs)
    return list(zip(patterns, exprs, strict=True)) if same else None


def _several(m: Matcher, patterns: tuple[Any, ...] | None, exprs: Sequence[rl.Expr]) -> Step:
    pairs = _paired(patterns, exprs)
    return pairs is not None and (yield m.compare_all(pairs))


def _tuple(m: Matcher, p: nd.TuplePattern, e: rl.Tuple) -> Step:
    return isinstance(e, rl.Tuple) and (yield _several(m, p.fields, e.fields))


def _field(m: Matcher, p: nd.TupleGetItemPattern, e: rl.Expr) -> Step:
    good = isinstance(e, rl.TupleGetItem) and p.index in (None, -1, e.index)
    return good and (yield m.compare(p.tuple, e.tuple_value))


def _function(m: Matcher, p: nd.FunctionPattern, e: rl.Function) -> Step:
    good = isinstance(e, rl.Function) and (yield _several(m, p.params, e.params))
    return good and (yield m.compare(p.body, e.body))


# ---------------------------------------------------------------------- calls


def _name(node: rl.Expr | DFPattern) -> str:
    """The operator that a call, or a pattern of calls, is of; "" for any other."""
    op = getattr(node, "op", None)
    return getattr(op.expr if isinstance(op, nd.ExprPattern) else op, "name", "")


def _call(m: Matcher, p: nd.CallPattern, e: Op | rl.Expr) -> Step:
    if not isinstance(e, rl.Call):
        return False
    if isinstance(p.op, nd.ExprPattern) and isinstance(p.op.expr, Op) and p.op.expr is not e.op:
        return (yield _regrouped(m, p, e))
    if not (yield m.compare(p.op, e.op)):
        return False
    if (yield _several(m, p.args, e.args)):
        return True
    return p.args is not None and _name(p) in _COMMUTE and (yield _several(m, p.args[::-1], e.args))


def _regrouped(m: Matcher, p: nd.CallPattern, e: rl.Call) -> Step:
    """`a * b / c` also matches `a * (b / c)`, and the other way round."""
    names = {_name(arg) for arg in e.args}
    if (_name(p), _name(e)) in (("divide", "multiply"), ("multiply", "divide")) and _name(
        p
    ) in names:
        for other in _other_groups(p):
            if (yield m.compare(other, e)):
                return True
    return False


def _other_groups(p: nd.CallPattern) -> Iterator[nd.CallPattern]:
    args: Any = p.args or ()
    if _name(p) == "divide" and len(args) == 2 and _name(args[0]) == "multiply":
        times = args[0]
        for a, b in (times.args, times.args[::-1]):
            yield nd.CallPattern(times.op, (b, nd.CallPattern(p.op, (a, args[1]))))
    elif _name(p) == "multiply" and len(args) == 2:
        for over, factor in (args, args[::-1]):
            if _name(over) == "divide":
                times = nd.CallPattern(p.op, (over.args[0], factor))
                yield nd.CallPattern(over.op, (times, over.args[1]))


# ---------------------------------------------------------------------- dominators


def _dominator(m: Matcher, p: nd.DominatorPattern, e: rl.Expr) -> Step:
    if not (yield m.compare(p.child, e)) or not (yield _path(m, p, e, set())):
        return False
    return any(m.flow.dominates(e, m.flow.of(parent)) for parent in m.matches.get(p.parent, ()))


def _path(m: Matcher, p: nd.DominatorPattern, e: Any, seen: set[int]) -> Step:
    """Whether all ways up from an expression lead through the path to the parent."""
    inputs = [node.expr for node in m.flow.of(e).inputs]
    if isinstance(e, rl.Call):
        leaf = (rl.Constant, rl.Var)
        inputs = [i for i in inputs if i is not e.op and not isinstance(i, leaf)]
    for above in inputs:
        if (yield m.compare(p.parent, above)) or id(above) in seen:
            continue
        if not (yield m.again(p.path, above)) or not (yield _path(m, p, above, seen)):
            return False
        seen.add(id(above))
    return bool(inputs)


_RULES: dict[type, Rule] = {
    nd.AltPattern: _alt,
    nd.AttrPattern: _attr,
    nd.CallPattern: _call,
    nd.ConstantPattern: _leaf(lambda p, e: isinstance(e, rl.Constant)),
    nd.DataTypePattern: _typed(lambda p, t: isinstance(t, TensorType) and t.dtype == p.dtype),
    nd.DominatorPattern: _dominator,
    nd.ExprPattern: _leaf(_expr),
    nd.FunctionPattern: _function,
    nd.IfPattern: _structure(rl.If, "cond", "true_branch", "false_branch"),
    nd.LetPattern: _structure(rl.Let, "var", "value", "body"),
    nd.ShapePattern: _typed(
        lambda p, t: isinstance(t, TensorType) and structural_equal(p.shape, t.shape)
    ),
    nd.TupleGetItemPattern: _field,
    nd.TuplePattern: _tuple,
    nd.TypePattern: _typed(lambda p, t: structural_equal(p.type, t)),
    nd.VarPattern: _leaf(lambda p, e: isinstance(e, rl.Var) and p.name_hint in ("", e.name_hint)),
    nd.WildcardPattern: _wildcard,
}


def checked(pattern: Any, who: str) -> nd.DFPattern:
    """A pattern of Relay. Raises TypeError for anything else."""
    if type(pattern) in _RULES:
        return pattern
    what = f"{who} takes a pattern of relay.dataflow_pattern"
    hint = "patterns of relax.dpl match Relax"
    raise TypeError(explain(what, got=f"{type(pattern).__name__}: {pattern!r}", instead=hint))


def matched(pattern: nd.DFPattern, expr: rl.Expr) -> dict[nd.DFPattern, list[Any]] | None:
    """What each pattern inside one matched in an expression, or None."""
    matcher = Matcher(expr)
    return matcher.matches if matcher.match(checked(pattern, "match"), expr) else None


def match(pattern: nd.DFPattern, expr: rl.Expr) -> bool:
    """Whether an expression matches."""
    return matched(pattern, expr) is not None


nd.DFPattern._match = matched
