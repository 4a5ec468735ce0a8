"""Matches of a pattern that do not overlap, as functions (`partition`) or rewritten (`rewrite`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....base.errors import explain
from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.structural import structural_equal
from ..dominators import Flow
from ..expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from ..infer import infer_function
from ..walk import post_order
from ..walk import rewrite as rebuilt_graph
from . import nodes as nd
from .matcher import Matcher, checked
from .nodes import DFPattern

PARTITIONED = "PartitionedFromPattern"
_GLOBAL = (Op, Function, Constant)  # not computed in one place: several matches may have them
_MOST_ROUNDS = 100  # a callback whose result matches again would never end


@dataclass(eq=False)
class Group:
    """A match: its last expression, what each pattern matched, and the match as a function of the
    arguments `args`. inside: the identities of the expressions computed in it."""

    root: Any
    matches: dict[nd.DFPattern, list[Any]]
    args: list[Any]
    params: dict[int, Var]
    inside: dict[int, Any]

    def name(self) -> str:
        """What it computes, in order."""
        return "".join(_step(node) for node in self.inside.values())

    def function(self, attrs: Mapping[str, Any]) -> Function:
        """The match as a function."""
        body = rebuilt_graph(self.root, pre=lambda node: self.params.get(id(node)))
        function = Function([*self.params.values()], body)
        return function.with_attrs({PARTITIONED: self.name(), **attrs})


def _step(node: Op | Expr) -> str:
    if isinstance(node, Call):
        return f"{node.op.name}_" if isinstance(node.op, Op) else "Call_"
    if isinstance(node, TupleGetItem):
        return f"TupleGetItem{node.index}_"
    names = {Tuple: "Tuple_", Function: "Function", Let: "Let_", If: "If_"}
    return names.get(type(node), "")


def groups_of(pattern: nd.DFPattern, root: Expr) -> dict[int, Group]:
    """The matches of a pattern in a graph, from its end, by the identity of their last expression:
    none shares what it computes with another, and a value used outside leads back into it."""
    matcher = Matcher(root)
    order = list(post_order(pattern, parts=_parts))
    used: set[int] = set()
    closed: set[int] = set()  # in functions that are matches already
    groups: dict[int, Group] = {}
    count = 0
    for flow_node in reversed(matcher.flow.nodes):
        expr = flow_node.expr
        if id(expr) in used:
            continue
        if isinstance(expr, Function) and PARTITIONED in expr.attrs:
            closed |= {id(node) for node in post_order(expr)}
        if id(expr) in closed or not matcher.match(pattern, expr):
            continue
        group = _group(expr, order, matcher.matches, count)
        count += 1
        if _is_apart(group, matcher.flow, used):
            used |= set(group.inside)
            groups[id(expr)] = group
    return groups


def _parts(pattern: nd.DFPattern) -> tuple[Any, ...]:
    target = pattern.pattern if isinstance(pattern, nd.WildcardPattern) else None
    return pattern.parts() if target is None else (target,)


def _group(
    root: Any, order: list[nd.DFPattern], matches: dict[nd.DFPattern, list[Any]], number: int
) -> Group:
    """The match that ends in an expression. Its arguments are what patterns without parts matched, but
    for constants that such a pattern requires."""
    fuzzy = _passed_through(order, matches)
    args: list[Any] = []
    params: dict[int, Var] = {}
    for pattern in order:
        for expr in _ends(pattern, matches.get(pattern, ())):
            is_input = id(expr) in fuzzy or id(expr) in params
            if is_input or isinstance(expr, (Op, Function)) or _embedded(pattern, expr):
                continue
            params[id(expr)] = Var(f"FunctionVar_{number}_{len(args)}")
            args.append(expr)
    inside = [n for n in post_order(root, lambda n: id(n) not in params) if id(n) not in params]
    return Group(root, dict(matches), args, params, {id(n): n for n in inside})


def _passed_through(order: list[nd.DFPattern], matches: dict[nd.DFPattern, list[Any]]) -> set[int]:
    """The expressions inside a match that a pattern without parts matched: those on the path to a
    dominator, and the bodies of functions."""
    inside: set[int] = set()
    for pattern in order:
        if isinstance(pattern, nd.DominatorPattern):
            inside |= {
                id(e) for part in (pattern.parent, pattern.path) for e in matches.get(part, ())
            }
        elif isinstance(pattern, nd.FunctionPattern):
            inside |= {id(n) for e in matches.get(pattern, ()) for n in post_order(e.body)}
    return inside


def _ends(pattern: nd.DFPattern, exprs: Sequence[Op | Expr]) -> list[Any]:
    """Where the match of a pattern ends: at what leaves matched, and at parts that are not said."""
    if isinstance(pattern, nd.TuplePattern) and pattern.fields is None:
        return [field for expr in exprs for field in expr.fields]
    if isinstance(pattern, nd.CallPattern) and pattern.args is None:
        return [arg for expr in exprs for arg in expr.args]
    return [] if _parts(pattern) else list(exprs)


def _embedded(pattern: DFPattern, expr: Expr) -> bool:
    """Whether a constant stays in the match: where the pattern says that it is one."""
    constant = isinstance(pattern, nd.ExprPattern) and isinstance(pattern.expr, Constant)
    return isinstance(expr, Constant) and (constant or isinstance(pattern, nd.ConstantPattern))


def _is_apart(group: Group, flow: Flow, used: set[int]) -> bool:
    end = flow.of(group.root)
    for key, node in group.inside.items():
        if isinstance(node, _GLOBAL):
            continue
        if key in used:
            return False
        if node is not group.root:
            outside = [u for u in flow.of(node).users if id(u.expr) not in group.inside]
            if not all(flow.dominates(end.expr, user) for user in outside):
                return False  # it would need its own result
    return True


def partition(
    pattern: nd.DFPattern,
    expr: Expr,
    attrs: Mapping[str, Any] | None = None,
    check: Callable[[Any], bool] = lambda x: True,
) -> Any:
    """The expression with each match that `check` accepts as a call of a function, which has the
    attribute `PartitionedFromPattern` and `attrs`.

    before: nn.relu(nn.conv2d(%x, %w))
    after:  fn (%a, %b, PartitionedFromPattern="nn.conv2d_nn.relu_") { ... }(%x, %w)
    """
    if isinstance(checked(pattern, "partition"), nd.FunctionPattern):
        return expr  # a function that is not called
    groups = groups_of(pattern, expr)
    if not groups:
        return expr
    new: dict[int, Any] = {}

    def post(old: Op | Expr, copy: Op | Expr) -> Any:
        group = groups.get(id(old))
        if group is not None and check(old):
            copy = Call(group.function(attrs or {}), [new[id(a)] for a in group.args])
        new[id(old)] = copy
        return copy

    return rebuilt_graph(expr, post)


class DFPatternCallback:
    """Replaces the matches of `pattern`: a subclass sets it, and defines
    `callback(pre, post, node_map)`.

    require_type: infer types before. rewrite_once: not again after it changed something.
    """

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.pattern: Any = None
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def rewrite(self, expr: Expr) -> Any:
        """An expression with all matches rewritten."""
        return rewrite(self, expr)

    def callback(
        self,
        pre: Callable[[Any], Any] | Op | Expr | None,
        post: Any,
        node_map: dict[Any, list[Any]],
    ) -> Any:
        """The replacement of a match. pre: its last expression; post: the same with rewritten
        inputs; node_map: the expressions that each pattern matched."""
        raise NotImplementedError(f"{type(self).__name__} has no method callback")


def rewrite(callbacks: DFPatternCallback, expr: Expr, mod: IRModule | None = None) -> Any:
    """An expression rewritten by one callback, or by several in turn, until nothing changes.

    Raises ValueError where that takes more than 100 rounds.
    """
    listed = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
    for callback in listed:
        checked(callback.pattern, "rewrite")
    done: set[int] = set()
    rounds = 0
    while True:
        last = expr
        for callback in listed:
            if id(callback) in done:
                continue
            before = expr
            expr = _rewritten(callback, expr, mod)
            rounds += 1
            if callback.rewrite_once and not _equal(before, expr):
                done.add(id(callback))
        if _equal(last, expr):
            return expr
        if rounds >= _MOST_ROUNDS:
            what = f"the graph still changes after {rounds} rewrites"
            hint = "two callbacks undo each other, or one's result matches again: rewrite_once=True"
            raise ValueError(explain(what, instead=hint))


def _equal(a: Expr, b: Expr) -> bool:
    return a is b or structural_equal(a, b)


def _rewritten(callback: DFPatternCallback, expr: Expr, mod: IRModule | None) -> Any:
    if callback.require_type:
        expr = infer_function(expr, mod)
    groups = groups_of(callback.pattern, expr)
    if not groups:
        return expr
    new: dict[int, Any] = {}

    def post(old: Op | Expr, copy: Op | Expr) -> Any:
        group = groups.get(id(old))
        if group is not None:
            matches = {
                p: [new.get(id(e), e) if e is not old else copy for e in exprs]
                for p, exprs in group.matches.items()
            }
            copy = callback.callback(old, copy, matches)
        new[id(old)] = copy
        return copy

    return rebuilt_graph(expr, post)


nd.DFPattern._partition = partition
