"""Structural equality and hash: same meaning, whatever the variables are called.

Read from the field table: a `def` field binds the variables in it (one to one, both ways), a
`use` field compares, an `ignore` field does not count. Classes may define:

- `bound_by_identity`: variables, buffers. Two are equal when a definition bound one to the other.
- `compare_when_free`: without a definition, such a one is bound where it is first met.
- `opens_scope`: functions, index maps. Bindings inside are dropped at the end.
- `structural_compare(other, comparer, path, defining)`, `structural_hash(hasher, defining)`:
  instead of the fields.

A first difference is named by its path.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import explain
from .dtype import DataType
from .node import DEF, IGNORE, Node, plain_attr
from .object_path import ObjectPath, ObjectPathPair
from .serialize import encoded

if TYPE_CHECKING:
    from .prim_expr import PointerType


class _Mismatch(Exception):
    def __init__(self, path: str, lhs: Any, rhs: Any, why: str, missing: str = "") -> None:
        self.path, self.lhs, self.rhs, self.why = path, lhs, rhs, why
        self.missing = missing  # the side that has nothing there


def _node_of(value: object) -> Any:
    """The node for which a value is a shorthand: `R.Tensor((2,), "int8")`."""
    as_object = None if type(value) in Node.__kinds__ else getattr(value, "asobject", None)
    return value if as_object is None else as_object()


class ByStructure:
    """Mixin of nodes for which `==` compares the structure, also with a shorthand of a node."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        other = _node_of(other)
        return self is other or (isinstance(other, ByStructure) and structural_equal(self, other))

    def __hash__(self) -> int:
        return structural_hash(self)


_PLAIN = {str, int, bool, type(None), DataType}  # equal values are all there is to compare


class _Comparer:
    """with_path: whether the path to a difference is computed, which takes as long as the rest."""

    def __init__(self, map_free_vars: bool, with_path: bool = True) -> None:
        self.map_free_vars = map_free_vars
        self.with_path = with_path
        self.forward: dict[int, Any] = {}
        self.backward: dict[int, Any] = {}
        self.keep: list[Any] = []

    def fail(self, path: str, a: Any, b: Any, why: str, missing: str = "") -> None:
        raise _Mismatch(path, a, b, why, missing)

    def compare(self, a: Any, b: Any, path: str, defining: bool) -> None:
        kind, other = type(a), type(b)
        if kind is other and kind in _PLAIN and a == b:
            return
        if not (kind in Node.__kinds__ and other in Node.__kinds__):
            a, b = _node_of(a), _node_of(b)
        if type(a) in Node.__kinds__ and type(b) in Node.__kinds__:
            if a.bound_by_identity:
                self.bound(a, b, path, defining)
            elif type(a) is not type(b):
                self.fail(path, a, b, "different kinds of node")
            elif a is b and not self.forward:
                return  # one object, and no variable in it is bound
            elif a.structural_compare is not None:
                a.structural_compare(b, self, path, defining)
            elif a.opens_scope:
                self.scope(a, b, path, defining)
            else:
                self.fields(a, b, path, defining)
            return
        self.plain(a, b, path, defining)

    def scope(self, a: Node, b: Node, path: str, defining: bool) -> None:
        """The same variable object may be bound in another function again."""
        forward, backward = dict(self.forward), dict(self.backward)
        self.fields(a, b, path, defining)
        self.forward, self.backward = forward, backward

    def fields(self, a: Node, b: Node, path: str, defining: bool) -> None:
        for f, va, vb in zip(a.__fields__, a.field_values(), b.field_values(), strict=True):
            if f.role is not IGNORE:
                sub = path + f".{f.name}" if self.with_path else path
                self.compare(va, vb, sub, defining or f.role is DEF)

    def bound(self, a: Any, b: Any, path: str, defining: bool) -> None:
        partner = self.forward.get(id(a))
        if partner is not None or id(b) in self.backward:
            if partner is not b:
                self.fail(path, a, b, "bound to another variable")
            return
        if a is b and not defining and not self.map_free_vars:
            return
        if type(a) is not type(b):
            self.fail(path, a, b, "different kinds of variable")
        if not (defining or self.map_free_vars or a.compare_when_free):
            self.fail(path, a, b, "free variables that are not the same object")
        self.fields(a, b, path, defining)
        self.forward[id(a)] = b
        self.backward[id(b)] = a
        self.keep += [a, b]

    def plain(self, a: object, b: object, path: str, defining: bool) -> None:
        if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
            self.items(a, b, path, defining)
        elif isinstance(a, dict) and isinstance(b, dict):
            self.dicts(a, b, path, defining)
        elif isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
                self.fail(path, a, b, "different arrays")
        elif encoded(a) is not a and type(a) is type(b):
            self.compare(encoded(a), encoded(b), path, defining)
        else:
            x, y = plain_attr(a), plain_attr(b)
            both_nan = isinstance(x, float) and isinstance(y, float) and x != x and y != y
            if isinstance(x, Node) or isinstance(y, Node):
                self.fail(path, a, b, "different kinds of value")
            if isinstance(x, float) != isinstance(y, float):
                self.fail(path, a, b, "different kinds of value")
            if not both_nan and x != y:
                self.fail(path, a, b, "different values")
            if isinstance(x, float) and isinstance(y, float) and not both_nan:
                if math.copysign(1.0, x) != math.copysign(1.0, y):
                    self.fail(path, a, b, "different values")

    def items(
        self,
        a: PointerType | Sequence[Any],
        b: PointerType | Sequence[Any],
        path: str,
        defining: bool,
    ) -> None:
        if len(a) == len(b):
            for i, (x, y) in enumerate(zip(a, b, strict=True)):
                self.compare(x, y, path + f"[{i}]" if self.with_path else path, defining)
            return
        try:  # the first that differs says more than the counts
            for i, (x, y) in enumerate(zip(a, b, strict=False)):
                self.compare(x, y, path + f"[{i}]", defining)
        except _Mismatch as mismatch:
            mismatch.why += f", in {path} of {len(a)} items against {len(b)}"
            raise
        end, missing = min(len(a), len(b)), "left" if len(a) < len(b) else "right"
        more = (None, b[end]) if missing == "left" else (a[end], None)
        self.fail(path + f"[{end}]", *more, f"{len(a)} items against {len(b)}", missing)

    def dicts(self, a: dict[Any, Any], b: dict[Any, Any], path: str, defining: bool) -> None:
        if all(isinstance(k, Node) for k in (*a, *b)):
            self.node_keyed(a, b, path, defining)
            return
        for key in (*a, *(k for k in b if k not in a)):
            sub = path + (f'["{key}"]' if isinstance(key, str) else f"[{key!r}]")
            if key not in a or key not in b:
                side = "left" if key not in a else "right"
                self.fail(sub, a.get(key), b.get(key), f"missing on the {side}", side)
            self.compare(a[key], b[key], sub, defining)

    def node_keyed(self, a: dict[Any, Any], b: dict[Any, Any], path: str, defining: bool) -> None:
        """Keys are variables that are already bound (a buffer map), or compare in order."""
        if len(a) != len(b):
            self.fail(path, a, b, f"{len(a)} entries against {len(b)}")
        rest = dict(b)
        for key, value in a.items():
            other = self.forward.get(id(key), key)
            if other not in rest:
                other = next(iter(rest))
                self.compare(key, other, path + ".key", defining)
            name = getattr(key, "name", key)
            self.compare(value, rest.pop(other), path + f"[{name}]", defining)


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two nodes (or lists, dicts of them) have the same structure.

    map_free_vars: let variables that neither side defines be matched one to one.
    """
    try:
        _Comparer(map_free_vars, with_path=False).compare(lhs, rhs, "", map_free_vars)
    except _Mismatch:
        return False
    return True


def first_mismatch(
    lhs: Node | Sequence[Node], rhs: Node | Sequence[Node], map_free_vars: bool = False
) -> tuple[str, Any, Any] | None:
    """(path, left, right) of the first difference, or None."""
    try:
        _Comparer(map_free_vars).compare(lhs, rhs, "<root>", map_free_vars)
    except _Mismatch as mismatch:
        return (mismatch.path, mismatch.lhs, mismatch.rhs)
    return None


def get_first_structural_mismatch(
    lhs: Sequence[int] | Mapping[str, int],
    rhs: Sequence[int] | Mapping[str, int],
    map_free_vars: bool = False,
) -> ObjectPathPair | None:
    """Where two nodes differ first, as a path in each, or None."""
    try:
        _Comparer(map_free_vars).compare(lhs, rhs, "<root>", map_free_vars)
    except _Mismatch as mismatch:
        path = ObjectPath.parse(mismatch.path)
        sides = (path.missing() if mismatch.missing == s else path for s in ("left", "right"))
        return ObjectPathPair(*sides)
    return None


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise ValueError naming the path of the first difference and both sides there."""
    try:
        _Comparer(map_free_vars).compare(lhs, rhs, "<root>", map_free_vars)
    except _Mismatch as mismatch:
        text = f"left:  {_short(mismatch.lhs)}\n       right: {_short(mismatch.rhs)}"
        what = f"StructuralEqual check failed at {mismatch.path}: {mismatch.why}"
        raise ValueError(explain(what, got=text)) from None


def _short(value: object, limit: int = 1000) -> str:
    text = str(value)
    return text if len(text) <= limit else f"{text[:limit]} ... ({len(text)} characters)"


class _Hasher:
    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.index: dict[int, int] = {}
        self.keep: list[Any] = []

    def hash(self, value: Any, defining: bool) -> int:
        value = _node_of(value)
        if type(value) in Node.__kinds__:
            if value.bound_by_identity:
                return self.bound(value, defining)
            if value.attr_literal is not None:
                return self.hash(value.attr_literal, defining)
            if value.structural_hash is not None:
                return value.structural_hash(self, defining)
            if value.opens_scope:
                return self.scope(value, defining)
            return self.fields(value, defining)
        if isinstance(value, (tuple, list)):
            return hash((len(value), *[self.hash(item, defining) for item in value]))
        if isinstance(value, dict):
            if value and all(isinstance(k, Node) for k in value):
                # In the order in which the keys were bound, which two equal dicts share.
                last = len(self.index)
                pairs = sorted(value.items(), key=lambda kv: self.index.get(id(kv[0]), last))
                return hash(
                    tuple((self.hash(k, defining), self.hash(v, defining)) for k, v in pairs)
                )
            items = [(str(k), self.hash(v, defining)) for k, v in value.items()]
            return hash(tuple(sorted(items)))
        if isinstance(value, np.ndarray):
            return hash((str(value.dtype), value.shape, value.tobytes()))
        if encoded(value) is not value:
            return self.hash(encoded(value), defining)
        value = plain_attr(value)
        return hash("nan") if value != value else hash(value)

    def scope(self, node: Node, defining: bool) -> int:
        index = dict(self.index)
        key = self.fields(node, defining)
        self.index = index
        return key

    def fields(self, node: Node, defining: bool) -> int:
        parts: list[Any] = [type(node).node_key]
        for f in node.__fields__:
            if f.role is not IGNORE:
                parts.append(self.hash(getattr(node, f.name), defining or f.role is DEF))
        return hash(tuple(parts))

    def bound(self, var: Any, defining: bool) -> int:
        number = self.index.get(id(var))
        if number is not None:
            return hash(("var", number))
        if defining or self.map_free_vars or var.compare_when_free:
            value = self.fields(var, defining)
            self.index[id(var)] = len(self.index)
            self.keep.append(var)
            return value
        return hash(("free", id(var)))


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A hash that is equal for structurally equal nodes, within one process."""
    return _Hasher(map_free_vars).hash(node, map_free_vars)


class StructuralKey:
    """Wraps a node so that dicts compare it structurally."""

    __slots__ = ("_hash", "node")

    def __init__(self, node: Any, map_free_vars: bool = True) -> None:
        self.node = node
        self._hash = structural_hash(node, map_free_vars)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StructuralKey)
            and self._hash == other._hash
            and structural_equal(self.node, other.node, map_free_vars=True)
        )
