"""Walks of Relay's graphs without recursion, for a model is a chain of many calls.

Each node is met once, what it uses first. Structural equality takes an expression as a graph: what
two calls share on one side, they share on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...base.errors import explain
from ...ir.expr import BaseExpr
from ...ir.op import Op
from .expr import Call, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from .types import FuncType, IncompleteType

# Kinds of which one object is one value: equal graphs share the same ones.
_SHARED = (Call, Tuple, Let, If, Function)


def children(node: Any) -> tuple[Any, ...]:
    """The expressions directly inside one, in the order in which they are defined and used."""
    kind = type(node)
    if kind is Call:
        return (node.op, *node.args)
    if kind is Tuple:
        return node.fields
    if kind is TupleGetItem:
        return (node.tuple_value,)
    if kind is Function:
        return (*node.params, node.body)
    if kind is Let:
        return (node.var, node.value, node.body)
    if kind is If:
        return (node.cond, node.true_branch, node.false_branch)
    return () if kind is Var or not isinstance(node, Expr) else _other_children(node)


def _other_children(node: Expr) -> tuple[Any, ...]:
    """Those of a class made by a user of the house: its fields that are expressions."""
    values: list[Any] = []
    for value in node.field_values():
        values += value if isinstance(value, (tuple, list)) else [value]
    return tuple(value for value in values if isinstance(value, Expr))


def name_of(node: Any) -> str:
    """The name of the operator that is called, "" of anything else."""
    return node.op.name if type(node) is Call and isinstance(node.op, Op) else ""


def values_first(node: Op | Expr) -> tuple[Any, ...]:
    """As `children`, but a variable that is bound comes after its value."""
    return (node.value, node.var, node.body) if type(node) is Let else children(node)


def post_order(
    root: Any,
    enter: Callable[[Any], bool] | None = None,
    seen: set[int] | None = None,
    parts: Callable[[Any], tuple[Any, ...]] = children,
) -> Iterator[Any]:
    """The nodes of a graph, each once, operands first. enter: whether the parts of a node
    count too (by default all of it). seen: identities of nodes to leave out. parts: the
    direct parts of a node, in order."""
    seen = set() if seen is None else seen
    stack: list[tuple[Any, Iterator[Any]]] = []

    def push(node: BaseExpr) -> None:
        seen.add(id(node))
        inside = parts(node) if enter is None or enter(node) else ()
        stack.append((node, iter(inside)))

    if id(root) not in seen:
        push(root)
    while stack:
        node, rest = stack[-1]
        for child in rest:
            if id(child) not in seen:
                push(child)
                break
        else:
            stack.pop()
            yield node


def rebuilt(node: Any, new: dict[int, Any]) -> Any:
    """A node with its children replaced by those of the table (by identity); the same one if all
    are the same."""
    kind = type(node)
    if kind is Call:
        op = new.get(id(node.op), node.op)
        args = tuple([new.get(id(a), a) for a in node.args])
        if op is node.op and all(a is b for a, b in zip(args, node.args, strict=True)):
            return node
        return Call._make(op, args, node.attrs, node.type_args, span=node.span)
    if kind is Tuple:
        fields = tuple([new.get(id(f), f) for f in node.fields])
        same = all(a is b for a, b in zip(fields, node.fields, strict=True))
        return node if same else Tuple._make(fields, span=node.span)
    if kind is Function:
        params = tuple(new.get(id(p), p) for p in node.params)
        if not all(isinstance(p, Var) for p in params):
            what = "a parameter of a function can only be replaced by a variable"
            raise TypeError(explain(what, got=str(params)))
        same = all(a is b for a, b in zip(params, node.params, strict=True))
        body = new.get(id(node.body), node.body)
        return node.replace(params=node.params if same else params, body=body)
    names = [f.name for f in node.__fields__ if id(getattr(node, f.name)) in new]
    return node.replace(**{name: new[id(getattr(node, name))] for name in names})


def rewrite(
    root: Expr,
    post: Callable[[Any, Any], Any] | None = None,
    pre: Callable[[Any], Any] | None = None,
    enter: Callable[[Any], bool] | None = None,
) -> Any:
    """Rebuild a graph, operands first: `post(old, new)` gets each node and its copy with
    replaced children, and returns the replacement (None: the copy). pre: its result
    (not None) replaces a node, whose parts are not visited. enter: see `post_order`."""
    new: dict[int, Any] = {}

    def inside(node: BaseExpr) -> bool:
        if pre is not None and (replaced := pre(node)) is not None:
            new[id(node)] = replaced
            return False
        return enter is None or enter(node)

    for node in list(post_order(root, inside)):
        if id(node) in new:
            continue
        copy = rebuilt(node, new)
        result = post(node, copy) if post is not None else None
        new[id(node)] = copy if result is None else result
    return new[id(root)]


# ---------------------------------------------------------------------- variables


def all_vars(expr: Expr) -> list[Var]:
    """All variables, in the order in which they are bound or first used."""
    return [node for node in post_order(expr) if isinstance(node, Var)]


def _vars(expr: Expr, are_bound: bool) -> list[Var]:
    bound: set[int] = set()
    for node in post_order(expr):
        if type(node) is Function:
            bound |= {id(p) for p in node.params}
        elif type(node) is Let:
            bound.add(id(node.var))
    return [var for var in all_vars(expr) if (id(var) in bound) is are_bound]


def free_vars(expr: Expr) -> list[Var]:
    """The variables that are used and not bound, in the order of their first use."""
    return _vars(expr, False)


def bound_vars(expr: Expr) -> list[Var]:
    """The variables that a function or a `let` binds."""
    return _vars(expr, True)


def bind(expr: Expr, binds: dict[Var, Any]) -> Any:
    """The expression with variables replaced; a function loses the parameters that are, and gets
    as parameters the variables that come in."""
    table = {id(var): value for var, value in binds.items()}

    def replaced(node: Op | Expr) -> Any:
        return table.get(id(node)) if isinstance(node, Var) else None

    if type(expr) is not Function:
        return rewrite(expr, pre=replaced)
    body = rewrite(expr.body, pre=replaced)
    params = [p for p in expr.params if id(p) not in table]
    if body is expr.body and len(params) == len(expr.params):
        return expr
    bound = {id(p) for p in params}
    for value in binds.values():
        for var in free_vars(value):
            if id(var) not in bound:
                bound.add(id(var))
                params.append(var)
    return Function(params, body, expr.ret_type, expr.type_params, expr.attrs, expr.span)


def annotated_type(func: Function) -> FuncType:
    """The type of a function as its annotations say."""
    args = [p.type_annotation or p.checked_type_ or IncompleteType() for p in func.params]
    return FuncType(args, func.ret_type or IncompleteType(), func.type_params)


# ---------------------------------------------------------------------- equality and hash


class _Path:
    """Where a pair of nodes was met; its text is only made for an error."""

    __slots__ = ("above", "step")

    def __init__(self, above: _Path | str, step: str) -> None:
        self.above, self.step = above, step

    def __str__(self) -> str:
        steps: list[str] = []
        at: Any = self
        while isinstance(at, _Path):
            steps.append(at.step)
            at = at.above
        return str(at) + "".join(reversed(steps))

    def __add__(self, step: str) -> _Path:
        return _Path(self, step)


def compare(a: Expr, b: Expr, comparer: Any, path: str) -> None:
    """Compare two graphs for a comparer of `ir.structural`."""
    stack: list[tuple[str, Any, Any, Any]] = [("", a, b, path)]
    while stack:
        step, a, b, path = stack.pop()
        if step:  # not an expression: attributes, types, operators, bound variables
            comparer.compare(a, b, path, step == "def")
            continue
        if isinstance(a, Var) or type(a) not in _FIELDS or type(a) is not type(b):
            comparer.compare(a, b, path, False)
            continue
        shared = isinstance(a, _SHARED) and not (type(a) is Tuple and not a.fields)
        if shared:
            match = comparer.forward.get(id(a))
            if match is not None or id(b) in comparer.backward:
                if match is not b:
                    comparer.fail(path, a, b, "shared on one side only")
                continue
            comparer.forward[id(a)], comparer.backward[id(b)] = b, a
            comparer.keep += [a, b]
        stack.extend(reversed(list(_pairs(a, b, comparer, path))))


# Fields in the order in which they are compared: definitions first. "def": binds variables;
# "plain": no expression; "": an expression, or several.
_FIELDS: dict[type, tuple[tuple[str, str], ...]] = {
    Call: (("op", ""), ("attrs", "plain"), ("args", ""), ("type_args", "plain")),
    Tuple: (("fields", ""),),
    TupleGetItem: (("index", "plain"), ("tuple_value", "")),
    Function: (
        ("type_params", "def"), ("params", "def"), ("ret_type", "plain"), ("attrs", "plain"),
        ("body", ""),
    ),
    Let: (("var", "def"), ("value", ""), ("body", "")),  # a function may call itself
    If: (("cond", ""), ("true_branch", ""), ("false_branch", "")),
}  # fmt: skip


def _fields(node: Expr) -> tuple[tuple[str, str], ...]:
    """The fields that count: an operator's type arguments follow from the others."""
    fields = _FIELDS[type(node)]
    return fields[:-1] if type(node) is Call and isinstance(node.op, Op) else fields


def _pairs(
    a: Expr, b: Expr, comparer: Any, path: _Path | str
) -> Iterator[tuple[str, Any, Any, Any]]:
    for name, role in _fields(a):
        below = _Path(path, f".{name}")
        x, y = getattr(a, name), getattr(b, name)
        if role or not isinstance(x, tuple):
            yield role, x, y, below
        elif len(x) != len(y):
            comparer.fail(below, x, y, f"{len(x)} items against {len(y)}")
        else:
            for i, (p, q) in enumerate(zip(x, y, strict=True)):
                yield "", p, q, _Path(below, f"[{i}]")


def graph_hash(root: Function, hasher: Any) -> int:
    """The hash that agrees with `compare`."""
    stack: list[tuple[str, Any]] = [("", root)]
    seen: set[int] = set()
    defined: list[int] = []
    while stack:  # bind the variables in the order of `compare`
        role, node = stack.pop()
        if role == "def":
            defined.append(hasher.hash(node, True))
        elif isinstance(node, tuple):
            stack.extend(("", item) for item in reversed(node))
        elif isinstance(node, Var):
            defined.append(hasher.hash(node, False))
        elif type(node) in _FIELDS and id(node) not in seen:
            seen.add(id(node))
            fields = [(r, getattr(node, name)) for name, r in _fields(node) if r != "plain"]
            stack.extend(reversed(fields))
    hashes: dict[int, int] = {}
    shared = 0
    for node in post_order(root):
        if type(node) not in _FIELDS:
            hashes[id(node)] = hasher.hash(node, False)
            continue
        shared += type(node) in _SHARED
        parts: list[Any] = [type(node).__name__]
        for name, role in _fields(node):
            value = getattr(node, name)
            if role == "":
                items = value if isinstance(value, tuple) else (value,)
                parts.append(tuple(hashes[id(item)] for item in items))
            else:
                parts.append(hasher.hash(value, False))  # variables are bound above
        hashes[id(node)] = hash(tuple(parts))
    return hash((tuple(defined), shared, hashes[id(root)]))
