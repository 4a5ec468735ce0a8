"""What operators make of known integers: the arithmetic of shapes, done while importing.

A rule gets the known elements of all inputs as object arrays and gives those of the output. It
answers None for "not mine": then the operator's converter emits it as tensor computation.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...base.registry import Registry
from ...ir import prim_op
from ...ir.prim_expr import PrimExpr
from ..graph.context import Context
from ..graph.values import MOST_ELEMENTS, Value, literal, object_array
from .reader import Node

Rule = Callable[..., Any]
# numpy's: the converter says it in the words of the operator.
_MISFITS = (IndexError, OverflowError, ValueError)
RULES: Registry[str, Rule] = Registry("integer rule", compiles=True)


def apply_rule(cx: Context, node: Node, inputs: list[Value | None]) -> Any:
    """The known outputs of a node, or None where the converter is to emit it."""
    rule = find_rule(node, inputs)
    try:
        return None if rule is None else rule(cx, node, *inputs)
    except _MISFITS:
        return None


def find_rule(node: Node, inputs: list[Value | None]) -> Rule | None:
    """The rule of a node whose inputs are known integers, or that asks for a shape."""
    if node.domain or any(v is not None and not v.is_tensor for v in inputs):
        return None
    if node.op_type in ("Shape", "Size"):
        return RULES[node.op_type]
    rule = RULES.get(node.op_type)
    if rule is None or not inputs or all(v is None for v in inputs):
        return None
    known = all(v is None or v.elements is not None for v in inputs)
    return rule if known else None


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def define(rule: Rule) -> Rule:
        for name in names:
            RULES.register(name, rule)
        return rule

    return define


def _numbers(elements: np.ndarray) -> list[int] | None:
    """Elements as literal integers, or None when one is symbolic."""
    numbers = [literal(e) for e in elements.flat]
    return None if any(isinstance(e, PrimExpr) for e in numbers) else [int(e) for e in numbers]


def _same(cx: Context, elements: Any, source: Value) -> Value:
    return cx.known(np.asarray(elements, object), str(source.dtype))


# ---------------------------------------------------------------- where they come from


@_rule("Shape")
def _shape(cx: Context, node: Node, data: Value) -> Any:
    if data.info.get_shape() is None:
        return None
    dims = list(data.shape)[node.integer("start", 0) : node.integer("end", None)]
    return cx.known(dims, "int64")


@_rule("Size")
def _size(cx: Context, node: Node, data: Value) -> Any:
    if data.info.get_shape() is None:
        return None
    count: Any = 1
    for dim in data.shape:
        count = count * literal(dim)
    return cx.known(object_array([cx.simplify(count)], ()), "int64")


# ---------------------------------------------------------------- moving


@_rule("Identity")
def _identity(cx: Context, node: Node, x: Value) -> Any:
    return x


@_rule("Cast")
def _cast(cx: Context, node: Node, x: Value) -> Any:
    to = node.integer("to")
    names = {6: "int32", 7: "int64", 9: "bool"}
    if to not in names or (to == 9) != x.dtype.is_bool:
        return None
    node.skip("saturate", "round_mode")
    return cx.known(x.known, names[to])


@_rule("Gather")
def _gather(cx: Context, node: Node, data: Value, indices: Value) -> Any:
    axis = node.integer("axis", 0)
    where = _numbers(indices.known)
    if where is None:
        return None
    at = np.asarray(where, int).reshape(indices.known.shape)
    if at.size * data.known.size > MOST_ELEMENTS * max(data.known.shape[axis], 1):
        return None
    return _same(cx, np.take(data.known, at, axis), data)


@_rule("Slice")
def _slice(
    cx: Context,
    node: Node,
    data: Value,
    starts: Value | None = None,
    ends: Value | None = None,
    axes: Value | None = None,
    steps: Value | None = None,
) -> Any:
    if starts is None or ends is None:
        begin, end = node.integers("starts"), node.integers("ends")
        which: list[int] | None = node.integers("axes", list(range(len(begin))))
        by: list[int] | None = [1] * len(begin)
    else:
        begin, end = _numbers(starts.known), _numbers(ends.known)
        if begin is None or end is None:
            return None
        which = list(range(len(begin))) if axes is None else _numbers(axes.known)
        by = [1] * len(begin) if steps is None else _numbers(steps.known)
    if which is None or by is None:
        return None
    at: list[Any] = [slice(None)] * data.known.ndim
    for a, b, e, s in zip(which, begin, end, by, strict=True):
        extent = data.known.shape[a]
        if s < 0:  # backwards ONNX starts within the axis; Python's rule is that it is empty
            b, e = max(b, -extent), None if e < -extent else e
        at[a] = slice(b, e, s)
    return _same(cx, data.known[tuple(at)], data)


@_rule("Concat")
def _concat(cx: Context, node: Node, *inputs: Value) -> Any:
    axis = node.integer("axis", 1)
    if sum(v.known.size for v in inputs) > MOST_ELEMENTS:
        return None
    return _same(cx, np.concatenate([v.known for v in inputs], axis), inputs[0])


@_rule("Split")
def _split(cx: Context, node: Node, data: Value, sizes: Value | None = None) -> Any:
    axis = node.integer("axis", 0)
    node.skip("num_outputs")
    extent = data.known.shape[axis]
    count = len(node.outputs)
    each = -(-extent // count)
    plain = [min(each, extent - each * k) for k in range(count)]
    given = node.integers("split", plain) if sizes is None else _numbers(sizes.known)
    if given is None or len(given) != count or sum(given) != extent:
        return None
    return [_same(cx, p, data) for p in np.split(data.known, np.cumsum(given)[:-1], axis)]


@_rule("Unsqueeze")
def _unsqueeze(cx: Context, node: Node, data: Value, axes: Value | None = None) -> Any:
    where = node.integers("axes", []) if axes is None else _numbers(axes.known)
    if where is None:
        return None
    return _same(cx, np.expand_dims(data.known, tuple(where)), data)


@_rule("Squeeze")
def _squeeze(cx: Context, node: Node, data: Value, axes: Value | None = None) -> Any:
    where = node.integers("axes", None) if axes is None else _numbers(axes.known)
    return _same(cx, np.squeeze(data.known, None if where is None else tuple(where)), data)


@_rule("Reshape")
def _reshape(cx: Context, node: Node, data: Value, shape: Value) -> Any:
    target = _numbers(shape.known)
    if target is None:
        return None
    if not node.integer("allowzero", 0):
        target = [data.known.shape[k] if d == 0 else d for k, d in enumerate(target)]
    return _same(cx, data.known.reshape(target), data)


@_rule("Transpose")
def _transpose(cx: Context, node: Node, data: Value) -> Any:
    return _same(cx, np.transpose(data.known, node.integers("perm", None)), data)


@_rule("Expand")
def _expand(cx: Context, node: Node, data: Value, shape: Value) -> Any:
    target = _numbers(shape.known)
    if target is None or np.prod(target, dtype=object) > MOST_ELEMENTS:
        return None
    full = np.broadcast_shapes(data.known.shape, tuple(target))
    return _same(cx, np.broadcast_to(data.known, full), data)


@_rule("Tile")
def _tile(cx: Context, node: Node, data: Value, repeats: Value) -> Any:
    counts = _numbers(repeats.known)
    if counts is None or np.prod(counts, dtype=object) * data.known.size > MOST_ELEMENTS:
        return None
    return _same(cx, np.tile(data.known, counts), data)


@_rule("ConstantOfShape")
def _constant_of_shape(cx: Context, node: Node, shape: Value) -> Any:
    target = _numbers(shape.known)
    fill = node.tensor("value", np.zeros(1, np.float32))
    if target is None or fill.dtype.kind not in "ib":
        return None
    if np.prod(target, dtype=object) > MOST_ELEMENTS:
        return None
    return cx.known(np.full(target, fill.item(), object), fill.dtype.name)


@_rule("Range")
def _range(cx: Context, node: Node, start: Value, limit: Value, delta: Value) -> Any:
    bounds = [_numbers(v.known) for v in (start, limit, delta)]
    known = [b[0] for b in bounds if b is not None]
    if len(known) < 3:
        return None
    first, last, step = known
    if step == 0 or len(range(first, last, step)) > MOST_ELEMENTS:
        return None
    return _same(cx, object_array(range(first, last, step)), start)


# ---------------------------------------------------------------- arithmetic


def _each(cx: Context, fn: Callable[..., Any], *inputs: Value) -> np.ndarray | None:
    """`fn` of each element; None where it answers None for one."""
    if prod(np.broadcast_shapes(*[v.known.shape for v in inputs])) > MOST_ELEMENTS:
        return None
    arrays = np.broadcast_arrays(*[v.known for v in inputs])
    results = [
        fn(*[literal(e) for e in row]) for row in zip(*[a.flat for a in arrays], strict=True)
    ]
    if any(m is None or (isinstance(m, int) and abs(m) >= 1 << 63) for m in results):
        return None
    return object_array([cx.simplify(m) for m in results], arrays[0].shape)


def _arithmetic(name: str, numbers: Callable[..., Any], symbols: Callable[..., Any] | None) -> None:
    """A rule of two inputs: `numbers` on literals, `symbols` where one side is symbolic."""

    def fn(a: Any, b: Any) -> Any:
        if isinstance(a, PrimExpr) or isinstance(b, PrimExpr):
            return None if symbols is None else symbols(a, b)
        return numbers(a, b)

    @_rule(name)
    def rule(cx: Context, node: Node, a: Value, b: Value) -> Any:
        if a.dtype not in ("int32", "int64") or "broadcast" in node.attributes:
            return None
        out = _each(cx, fn, a, b)
        return None if out is None else _same(cx, out, a)


def _divide(a: int, b: int) -> int | None:
    """Integer division toward zero."""
    if b == 0:
        return None
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_arithmetic("Add", operator.add, operator.add)
_arithmetic("Sub", operator.sub, operator.sub)
_arithmetic("Mul", operator.mul, operator.mul)
_arithmetic("Div", _divide, prim_op.truncdiv)


@_rule("Mod")
def _mod(cx: Context, node: Node, a: Value, b: Value) -> Any:
    if node.integer("fmod", 0):
        return None

    def fn(x: Any, y: Any) -> Any:
        if isinstance(y, int) and y == 0:
            return None
        symbolic = isinstance(x, PrimExpr) or isinstance(y, PrimExpr)
        return prim_op.floormod(x, y) if symbolic else x % y

    out = _each(cx, fn, a, b)
    return None if out is None else _same(cx, out, a)


def _extreme(name: str, numbers: Callable[..., Any], symbols: Callable[..., Any]) -> None:
    def fn(*values: Any) -> Any:
        out = values[0]
        for v in values[1:]:
            symbolic = isinstance(out, PrimExpr) or isinstance(v, PrimExpr)
            out = symbols(out, v) if symbolic else numbers(out, v)
        return out

    @_rule(name)
    def rule(cx: Context, node: Node, *inputs: Value) -> Any:
        out = _each(cx, fn, *inputs)
        return None if out is None else _same(cx, out, inputs[0])


_extreme("Max", max, prim_op.maximum)
_extreme("Min", min, prim_op.minimum)


@_rule("Neg")
def _negate(cx: Context, node: Node, x: Value) -> Any:
    out = _each(cx, lambda a: 0 - a, x)
    return None if out is None else _same(cx, out, x)


@_rule("ReduceProd", "ReduceSum")
def _reduce(cx: Context, node: Node, data: Value, axes: Value | None = None) -> Any:
    given = node.integers("axes", None) if axes is None else _numbers(axes.known)
    keep = node.flag("keepdims", True)
    if node.integer("noop_with_empty_axes", 0) and not given:
        return None
    which = tuple(given) if given else None
    fold: Any = np.multiply if node.op_type == "ReduceProd" else np.add
    out = fold.reduce(data.known, which, keepdims=keep)
    out = out if isinstance(out, np.ndarray) else object_array([out], ())
    flat = [cx.simplify(literal(e)) for e in out.flat]
    return _same(cx, object_array(flat, out.shape), data)


# ---------------------------------------------------------------- conditions


def _comparison(name: str, build: Callable[..., Any], opposite: Callable[..., Any]) -> None:
    """A rule that decides a comparison where it can be proven or refuted."""

    @_rule(name)
    def rule(cx: Context, node: Node, a: Value, b: Value) -> Any:
        if a.dtype.is_bool or "broadcast" in node.attributes:
            return None

        def decide(x: Any, y: Any) -> Any:
            symbolic = isinstance(x, PrimExpr) or isinstance(y, PrimExpr)
            if not symbolic:
                return bool(build(x, y))
            x, y = prim_op.convert_pair(x, y)
            if cx.proven(build(x, y)):
                return True
            return False if cx.proven(opposite(x, y)) else None

        out = _each(cx, decide, a, b)
        return None if out is None else cx.known(out, "bool")


def _plain_or(build: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: build(x, y) if isinstance(x, PrimExpr) else plain(x, y)


_EQ, _NE = _plain_or(prim_op.equal, operator.eq), _plain_or(prim_op.not_equal, operator.ne)
_LT, _GE = _plain_or(prim_op.less, operator.lt), _plain_or(prim_op.greater_equal, operator.ge)
_GT, _LE = _plain_or(prim_op.greater, operator.gt), _plain_or(prim_op.less_equal, operator.le)
for _name, _yes, _no in (
    ("Equal", _EQ, _NE),
    ("Less", _LT, _GE),
    ("Greater", _GT, _LE),
    ("LessOrEqual", _LE, _GT),
    ("GreaterOrEqual", _GE, _LT),
):
    _comparison(_name, _yes, _no)


@_rule("Not")
def _not(cx: Context, node: Node, x: Value) -> Any:
    return cx.known(object_array([not e for e in x.known.flat], x.known.shape), "bool")


@_rule("Where")
def _where(cx: Context, node: Node, condition: Value, x: Value, y: Value) -> Any:
    out = _each(cx, lambda c, a, b: a if c else b, condition, x, y)
    return None if out is None else _same(cx, out, x)
