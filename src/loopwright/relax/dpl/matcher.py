"""The matcher: a backtracking search over goals, with an explicit stack.

A goal is (rule, pattern, value, next goals); a rule returns the remaining goals, or FAIL.
A rule with several alternatives pushes the others as choice points. Deep patterns need no
Python stack.

The match of a subpattern depends on its value and on those of its inner patterns that also occur
elsewhere (its "open" patterns), if these are already bound. Its solutions are memoized
by these; two solutions are equivalent if their bindings of the open patterns are equal. If all open patterns
were bound, or there are none, all solutions are equivalent and the other choices are dropped. This
avoids exponential search in nested alternatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...base.errors import explain
from ...ir.expr import BaseExpr, GlobalVar
from ...ir.node import Node, plain_attr
from ...ir.op import Op
from ...ir.prim_expr import PrimExpr
from ...ir.structural import structural_equal
from .. import expr as rx
from ..analysis.variables import get_var2val
from ..relations import BaseCheckResult, can_prove_equal, match_struct_info, tir_vars_in_struct_info
from ..struct_info import TensorStructInfo
from . import nodes as nd
from .plan import Plan, plan_of

Rule = Callable[["Matcher", Any, Any, Any], Any]
FAIL: Any = object()


# ---------------------------------------------------------------------- the search


class Answer:
    """A solution of a subpattern.

    shown: its bindings of the open patterns. items: all its bindings, as (key, binding) or
    Answer.
    """

    __slots__ = ("items", "shown")

    def __init__(self, shown: list[tuple[Any, Any]], items: list[Any]) -> None:
        self.shown = shown
        self.items = items


class _Mark:
    """A trail entry: everything from `start` to here is this answer; `replayed`: only what it
    shows has been bound."""

    __slots__ = ("answer", "replayed", "start")

    def __init__(self, answer: Answer, start: int, replayed: bool) -> None:
        self.answer = answer
        self.start = start
        self.replayed = replayed


class _Attempt:
    """A subpattern being matched against a value."""

    __slots__ = ("answers", "free", "height", "key", "mark", "seen")

    def __init__(self, key: Any, free: list[Any], height: int, mark: int) -> None:
        self.key = key
        self.free = free  # the open patterns unbound at the start
        self.height = height
        self.mark = mark
        self.answers: list[Answer] = []
        self.seen: set[Any] = set()


class Matcher:
    """Matches the patterns of one plan against expressions with known bindings.

    bindings: the values of variables; entries may be added between searches, but not changed.
    env: the match of each pattern, (its value, the original expression), and the value of each
    symbolic variable, (expression, None).
    """

    def __init__(self, plan: Plan, bindings: Mapping[Any, Any]) -> None:
        self.plan = plan
        self.bindings = bindings
        self.inner: dict[rx.Var, Any] = {}  # the bindings of local functions entered so far
        self.env: dict[Any, Any] = {}
        self.trail: list[Any] = []
        self.choices: list[tuple[Any, int, _Attempt | None]] = []
        # All solutions, by (pattern, id of its value, bound open patterns). `alive` keeps the
        # values alive, so that ids are not reused.
        self.table: dict[Any, list[Answer]] = {}
        self.alive: dict[int, Any] = {}

    def solve(self, goals: Sequence[Any]) -> dict[Any, Any] | None:
        """The bindings of the first solution of `goals`, or None."""
        return self._all() if self._run(goals, len(self.choices)) else None

    def solutions(
        self, goals: Sequence[int | Callable[..., Any] | None]
    ) -> Iterator[dict[Any, Any]]:
        """The bindings of each solution of `goals`."""
        base = len(self.choices)
        solved = self._run(goals, base)
        while solved:
            yield self._all()
            goals = self._back(base)
            solved = goals is not FAIL and self._run(goals, base)

    def _all(self) -> dict[Any, Any]:
        """The bindings, including those of replayed answers."""
        bound = dict(self.env)
        work = [m.answer for m in self.trail if type(m) is _Mark and m.replayed]
        while work:
            for item in work.pop().items:
                if type(item) is Answer:
                    work.append(item)
                else:
                    bound.setdefault(item[0], item[1])
        return bound

    def reset(self) -> None:
        """Forget the bindings but keep the memoized solutions."""
        self.env.clear()
        self.trail.clear()
        self.choices.clear()

    def _run(self, goals: Sequence[Any], base: int) -> bool:
        while goals is not None:
            rule, what, value, rest = goals
            goals = rule(self, what, value, rest)
            if goals is FAIL:
                goals = self._back(base)
                if goals is FAIL:
                    return False
        return True

    def _back(self, base: int) -> Any:
        while len(self.choices) > base:
            goals, mark, attempt = self.choices.pop()
            self.undo(mark)
            if attempt is None:
                return goals
            self.table[attempt.key] = attempt.answers  # the list is complete
        return FAIL

    def undo(self, mark: int) -> None:
        """Undo the bindings made since the trail had length `mark`."""
        while len(self.trail) > mark:
            key = self.trail.pop()
            if type(key) is not _Mark:
                del self.env[key]

    def bind(self, key: Any, value: Any) -> None:
        """Bind a key until backtracking undoes it."""
        self.env[key] = value
        self.trail.append(key)

    def choose(self, goals: Sequence[Any]) -> None:
        """Push an alternative, tried if the current one fails."""
        self.choices.append((goals, len(self.trail), None))

    def unwrap(self, expr: Op | rx.Expr) -> Any:
        """The value behind variables, as far as known."""
        while True:
            if isinstance(expr, rx.Var):
                value = self.bindings.get(expr)
                if value is None:
                    value = self.inner.get(expr)
                if value is None:
                    return expr
                expr = value
            elif isinstance(expr, rx.SeqExpr) and not expr.blocks:
                expr = expr.body
            else:
                return expr

    def answer(self, attempt: _Attempt) -> Answer:
        """The bindings made since an attempt began."""
        items: list[Any] = []
        at = len(self.trail) - 1
        while at >= attempt.mark:
            entry = self.trail[at]
            if type(entry) is _Mark:
                items.append(entry.answer)
                at = entry.start - 1
            else:
                items.append((entry, self.env[entry]))
                at -= 1
        return Answer([(q, self.env[q]) for q in attempt.free if q in self.env], items)


def match_goal(
    m: Matcher, pattern: nd.DFPattern, expr: Op | rx.Expr, rest: Sequence[Any] | None
) -> Any:
    """The rule of the goal "`pattern` matches `expr`"."""
    value = m.unwrap(expr)
    bound = m.env.get(pattern)
    if bound is not None:
        return rest if bound[0] is value else FAIL
    m.bind(pattern, (value, expr))
    inner = m.plan.open.get(pattern)
    if inner is None:  # a leaf
        return _RULES[type(pattern)](m, pattern, value, rest)
    assigned = [(q, m.env[q][0]) for q in inner if q in m.env]
    key = (pattern, id(value), tuple((q, id(v)) for q, v in assigned))
    answers = m.table.get(key)
    if answers is not None:
        return _replay_any(m, answers, rest)
    m.alive[id(value)] = value
    m.alive.update((id(v), v) for _, v in assigned)
    free = [q for q in inner if q not in m.env] if inner else []
    attempt = _Attempt(key, free, len(m.choices), len(m.trail))
    m.choices.append((None, len(m.trail), attempt))
    return _RULES[type(pattern)](m, pattern, value, (_exit, attempt, None, rest))


def _exit(m: Matcher, attempt: _Attempt, _: Any, rest: Sequence[Any] | None) -> Any:
    """The end of a subpattern's match."""
    answer = m.answer(attempt)
    if not attempt.free:
        del m.choices[attempt.height :]
        m.table[attempt.key] = [answer]
    else:
        shown = tuple((q, id(binding[0])) for q, binding in answer.shown)
        if shown in attempt.seen:
            return FAIL  # the continuation failed with the same bindings
        attempt.seen.add(shown)
        attempt.answers.append(answer)
    m.trail.append(_Mark(answer, attempt.mark, False))
    return rest


def _replay_any(m: Matcher, answers: list[Answer], rest: Sequence[Any] | None) -> Any:
    if not answers:
        return FAIL
    for answer in answers[:0:-1]:
        m.choose((_replay, answer, None, rest))
    return _replay(m, answers[0], None, rest)


def _replay(m: Matcher, answer: Answer, _: Any, rest: Sequence[Any] | None) -> Any:
    start = len(m.trail)
    for key, binding in answer.shown:
        m.bind(key, binding)
    m.trail.append(_Mark(answer, start, True))
    return rest


# ---------------------------------------------------------------------- a rule per pattern


def _goals(pairs: Any, rest: Sequence[Any]) -> Any:
    for pattern, expr in reversed(list(pairs)):
        rest = (match_goal, pattern, expr, rest)
    return rest


def _expr(m: Matcher, p: nd.ExprPattern, value: Op, rest: Sequence[Any]) -> Any:
    if p.expr is value:
        return rest
    if isinstance(p.expr, Op) or type(p.expr) is not type(value):
        return FAIL
    return rest if structural_equal(p.expr, value) else FAIL


def _var(m: Matcher, p: nd.VarPattern, value: rx.Expr, rest: Sequence[Any] | None) -> Any:
    kind = rx.DataflowVar if isinstance(p, nd.DataflowVarPattern) else rx.Var
    return rest if isinstance(value, kind) and p.name_hint in ("", value.name_hint) else FAIL


def _global_var(
    m: Matcher, p: nd.GlobalVarPattern, value: GlobalVar | rx.Var, rest: Sequence[Any] | None
) -> Any:
    return rest if isinstance(value, GlobalVar) and p.name_hint in ("", value.name_hint) else FAIL


def _extern(m: Matcher, p: nd.ExternFuncPattern, value: rx.ExternFunc, rest: Sequence[Any]) -> Any:
    fits = isinstance(value, rx.ExternFunc) and p.global_symbol in ("", value.global_symbol)
    return rest if fits else FAIL


def _constant(m: Matcher, p: nd.ConstantPattern, value: rx.Expr, rest: Sequence[Any] | None) -> Any:
    return rest if isinstance(value, rx.Constant) else FAIL


def _wildcard(m: Matcher, p: nd.WildcardPattern, value: rx.Expr, rest: Sequence[Any]) -> Any:
    return rest


def _shape_literal(
    m: Matcher, p: nd.PrimArrPattern, value: rx.ShapeExpr, rest: Sequence[Any] | None
) -> Any:
    return rest if isinstance(value, rx.ShapeExpr) and _same_dims(p.fields, value.values) else FAIL


def _same_dims(expected: tuple[Any, ...], dims: Sequence[PrimExpr] | None) -> bool:
    if dims is None or len(expected) != len(dims):
        return False
    return all(w is None or can_prove_equal(w, d) for w, d in zip(expected, dims, strict=True))


def _call(m: Matcher, p: nd.CallPattern, value: rx.Expr, rest: Sequence[Any]) -> Any:
    if not isinstance(value, rx.Call):
        return FAIL
    if type(p.op) is nd.ExprPattern and p.op.expr is not value.op and isinstance(p.op.expr, Op):
        return FAIL
    if p.args is None:
        return (match_goal, p.op, value.op, rest)
    args = value.args
    count = len(p.args)
    if len(args) != count and not (p.varg_default_wildcard and len(args) > count):
        return FAIL
    if count == len(args) == 2 and isinstance(value.op, Op) and value.op.get_attr("commutes"):
        swapped = zip((p.op, *p.args), (value.op, args[1], args[0]), strict=True)
        m.choose(_goals(swapped, rest))
    return _goals(zip((p.op, *p.args), (value.op, *args[:count]), strict=True), rest)


def _function(
    m: Matcher,
    p: nd.FunctionPattern,
    value: rx.Expr,
    rest: Sequence[_Attempt | Callable[..., Any] | None],
) -> Any:
    if not isinstance(value, rx.Function):
        return FAIL
    params = () if p.params is None else p.params
    if p.params is not None and len(params) != len(value.params):
        return FAIL
    m.inner.update(get_var2val(value))
    pairs = [*zip(params, value.params if params else (), strict=True), (p.body, value.body.body)]
    return _goals(pairs, rest)


def _tuple(m: Matcher, p: nd.TuplePattern, value: rx.Expr, rest: Sequence[Any]) -> Any:
    if not isinstance(value, rx.Tuple) or len(p.fields) != len(value.fields):
        return FAIL
    return _goals(zip(p.fields, value.fields, strict=True), rest)


def _unordered(m: Matcher, p: nd.UnorderedTuplePattern, value: rx.Expr, rest: Sequence[Any]) -> Any:
    if not isinstance(value, rx.Tuple) or len(p.fields) != len(value.fields):
        return FAIL
    fields = tuple(enumerate(value.fields))
    fits = [{n for n, expr in fields if _matches_alone(m, part, expr)} for part in p.fields]
    if not _all_fit(fits):
        return FAIL
    return (_assign, tuple(zip(p.fields, fits, strict=True)), fields, rest)


def _assign(
    m: Matcher, patterns: tuple[Any, ...], fields: tuple[Any, ...], rest: Sequence[Any]
) -> Any:
    """Match the first pattern with one of the fields, the rest with the others, if possible:
    patterns that fail on their own are not tried in all orders."""
    if not patterns:
        return rest
    (pattern, own), *others = patterns
    choices = []
    for at, (n, expr) in enumerate(fields):
        if n in own and _all_fit([fit - {n} for _, fit in others]):
            left = fields[:at] + fields[at + 1 :]
            others_left = tuple((p, fit - {n}) for p, fit in others)
            choices.append((match_goal, pattern, expr, (_assign, others_left, left, rest)))
    for choice in reversed(choices[1:]):
        m.choose(choice)
    return choices[0]


def _all_fit(fits: list[set[int]]) -> bool:
    """Whether there is a matching that assigns each a distinct field (Kuhn's algorithm)."""
    owner: dict[int, int] = {}

    def assign(one: int, seen: set[int]) -> bool:
        for n in fits[one] - seen:
            seen.add(n)
            if n not in owner or assign(owner[n], seen):
                owner[n] = one
                return True
        return False

    return all(assign(one, set()) for one in range(len(fits)))


def _matches_alone(m: Matcher, pattern: nd.DFPattern, expr: rx.Expr) -> bool:
    """Whether a pattern matches under the current bindings; leaves no bindings."""
    mark, height = len(m.trail), len(m.choices)
    solution = m._run((match_goal, pattern, expr, None), height)
    del m.choices[height:]
    m.undo(mark)
    return solution


def _tuple_get_item(
    m: Matcher, p: nd.TupleGetItemPattern, value: rx.Expr, rest: Sequence[Any]
) -> Any:
    if not isinstance(value, rx.TupleGetItem) or p.index not in (None, value.index):
        return FAIL
    return (match_goal, p.tuple, value.tuple_value, rest)


def _or(m: Matcher, p: nd.OrPattern, value: rx.Expr, rest: Sequence[Any]) -> Any:
    m.choose((match_goal, p.right, value, rest))
    return (match_goal, p.left, value, rest)


def _and(m: Matcher, p: nd.AndPattern, value: rx.Expr, rest: Sequence[Any]) -> Any:
    return (match_goal, p.left, value, (match_goal, p.right, value, rest))


def _not(m: Matcher, p: nd.NotPattern, value: rx.Expr, rest: Sequence[Any]) -> Any:
    return FAIL if _matches_alone(m, p.reject, value) else rest


def _attrs(m: Matcher, p: nd.AttrPattern, value: Op | rx.Expr, rest: Sequence[Any]) -> Any:
    attrs = value if isinstance(value, Op) else getattr(value, "attrs", None)
    if attrs is None:
        return FAIL
    for name, expected in p.attrs.items():
        present = attrs.has_attr(name) if isinstance(attrs, Op) else name in attrs
        if not present:
            return FAIL
        attribute = attrs.get_attr(name) if isinstance(attrs, Op) else attrs.get(name)
        if not same_attr(expected, attribute):
            return FAIL
    return (match_goal, p.pattern, value, rest)


def same_attr(a: object, b: object) -> bool:
    a, b = plain_attr(a), plain_attr(b)
    a, b = getattr(a, "value", a), getattr(b, "value", b)  # compare literals by value
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same_attr, a, b))
    if isinstance(a, BaseExpr) or isinstance(b, BaseExpr):
        return structural_equal(a, b)
    return bool(a == b)


def _struct_info(m: Matcher, p: nd.StructInfoPattern, value: rx.Expr, rest: Sequence[Any]) -> Any:
    info = getattr(value, "struct_info", None)
    if info is None:
        return FAIL
    symbols = tir_vars_in_struct_info(p.struct_info)
    table = {s: m.env[s][0] for s in symbols if s in m.env}
    bound = set(table)
    if match_struct_info(p.struct_info, info, table) is not BaseCheckResult.PASS:
        return FAIL
    for symbol in table.keys() - bound:
        m.bind(symbol, (table[symbol], None))
    return (match_goal, p.pattern, value, rest)


def _dtype(m: Matcher, p: nd.DataTypePattern, value: rx.Expr, rest: Sequence[Any]) -> Any:
    dtype = getattr(getattr(value, "struct_info", None), "dtype", None)
    return (match_goal, p.pattern, value, rest) if dtype == p.dtype else FAIL


def _shape(m: Matcher, p: nd.ShapePattern, value: rx.Expr, rest: Sequence[Any]) -> Any:
    info = getattr(value, "struct_info", None)
    dims = info.get_shape() if isinstance(info, TensorStructInfo) else None
    return (match_goal, p.pattern, value, rest) if _same_dims(p.shape, dims) else FAIL


def _target(
    m: Matcher,
    p: nd.TargetPattern,
    value: rx.Expr,
    rest: Sequence[_Attempt | Callable[..., Any] | None],
) -> Any:
    device = getattr(getattr(value, "struct_info", None), "vdevice", None)
    target = getattr(device, "target", None)
    if target is None:
        return FAIL
    kind = target.kind_name if isinstance(p.target, str) else target
    return (match_goal, p.pattern, value, rest) if kind == p.target else FAIL


_RULES: dict[type, Rule] = {
    nd.AndPattern: _and,
    nd.AttrPattern: _attrs,
    nd.CallPattern: _call,
    nd.ConstantPattern: _constant,
    nd.DataTypePattern: _dtype,
    nd.DataflowVarPattern: _var,
    nd.ExprPattern: _expr,
    nd.ExternFuncPattern: _extern,
    nd.FunctionPattern: _function,
    nd.GlobalVarPattern: _global_var,
    nd.NotPattern: _not,
    nd.OrPattern: _or,
    nd.PrimArrPattern: _shape_literal,
    nd.ShapePattern: _shape,
    nd.StructInfoPattern: _struct_info,
    nd.TargetPattern: _target,
    nd.TupleGetItemPattern: _tuple_get_item,
    nd.TuplePattern: _tuple,
    nd.UnorderedTuplePattern: _unordered,
    nd.VarPattern: _var,
    nd.WildcardPattern: _wildcard,
}


# ---------------------------------------------------------------------- for others


def match(
    pattern: nd.DFPattern, expr: Node, bindings: Mapping[Any, Any] | None = None
) -> dict[nd.DFPattern, Any] | None:
    """The match of each pattern inside `pattern` if it matches `expr`, else None.

    bindings: the values of variables (`analysis.get_var2val(func)`); the matcher looks through
    variables and returns values, not the variables bound to them.
    """
    if not isinstance(pattern, nd.DFPattern):
        what = "match takes a pattern first"
        raise TypeError(explain(what, got=f"{type(pattern).__name__}: {pattern!r}"))
    return matcher_of(pattern, bindings)(expr)


def matcher_of(
    pattern: nd.DFPattern, bindings: Mapping[Any, Any] | None = None
) -> Callable[[Any], dict[nd.DFPattern, Any] | None]:
    """A matcher for many expressions with the same (or growing) bindings; memoized solutions are
    shared between searches."""
    matcher = Matcher(plan_of(pattern), {} if bindings is None else bindings)

    def run(expr: rx.Expr) -> dict[nd.DFPattern, Any] | None:
        matcher.reset()
        env = matcher.solve((match_goal, pattern, expr, None))
        if env is None:
            return None
        return {k: v[0] for k, v in env.items() if isinstance(k, nd.DFPattern)}

    return run


nd.DFPattern._match = match
