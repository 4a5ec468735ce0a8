"""Operators on known integers: the arithmetic of shapes, done while importing.

A rule's inputs are Values whose elements are all known, and it returns the results. None: not one that
is known; then the operator is emitted as tensor computation.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ....base.registry import Registry
from ....ir import prim_op
from ....ir.prim_expr import PrimExpr
from ..context import Context
from ..values import MOST_ELEMENTS, Value, literal, object_array

Rule = Callable[..., Any]
# numpy's: the operator says it in its own words.
_MISFITS = (IndexError, OverflowError, ValueError)
RULES: Registry[str, Rule] = Registry("integer rule", compiles=True)


def evaluated(cx: Context, name: str, inputs: Sequence[Value | None], **attributes: Any) -> Any:
    """The known results of an operator, or None where it is to be emitted."""
    rule = RULES.get(name)
    if rule is None or any(v is not None and not v.is_tensor for v in inputs):
        return None
    if name not in _OF_SHAPES:
        values = [v for v in inputs if v is not None]
        if not values or any(v.elements is None for v in values):
            return None
    try:
        return rule(cx, *inputs, **attributes)
    except _MISFITS:
        return None


_OF_SHAPES = ("shape_of", "size")  # whose elements need not be known


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def define(rule: Rule) -> Rule:
        for name in names:
            RULES.register(name, rule)
        return rule

    return define


def numbers(value: Value | None) -> list[int] | None:
    """Elements as literal integers, or None when one is symbolic."""
    if value is None:
        return None
    elements = [literal(e) for e in value.integers.flat]
    return None if any(isinstance(e, PrimExpr) for e in elements) else [int(e) for e in elements]


def _same(cx: Context, elements: Any, source: Value) -> Value:
    return cx.from_elements(np.asarray(elements, object), str(source.dtype))


# ---------------------------------------------------------------- where they come from


@_rule("shape_of")
def _shape_of(cx: Context, data: Value, start: int = 0, end: int | None = None) -> Any:
    if data.info.get_shape() is None:
        return None
    return cx.from_elements(list(data.shape)[start:end], "int64")


@_rule("size")
def _size(cx: Context, data: Value) -> Any:
    if data.info.get_shape() is None:
        return None
    count: Any = 1
    for dim in data.shape:
        count = count * literal(dim)
    return cx.from_elements(object_array([cx.simplify(count)], ()), "int64")


# ---------------------------------------------------------------- moving


@_rule("identity")
def _identity(cx: Context, x: Value) -> Any:
    return x


@_rule("astype")
def _astype(cx: Context, x: Value, dtype: str) -> Any:
    if dtype not in ("int32", "int64", "bool") or (dtype == "bool") != x.dtype.is_bool:
        return None
    return cx.from_elements(x.integers, dtype)


@_rule("take")
def _take(cx: Context, data: Value, indices: Value, axis: int = 0) -> Any:
    at = numbers(indices)
    if at is None:
        return None
    at = np.asarray(at, int).reshape(indices.integers.shape)
    if at.size * data.integers.size > MOST_ELEMENTS * max(data.integers.shape[axis], 1):
        return None
    return _same(cx, np.take(data.integers, at, axis), data)


@_rule("strided_slice")
def _strided_slice(
    cx: Context,
    data: Value,
    starts: Value,
    ends: Value,
    axes: Value | None = None,
    steps: Value | None = None,
) -> Any:
    begin, end = numbers(starts), numbers(ends)
    if begin is None or end is None:
        return None
    which = list(range(len(begin))) if axes is None else numbers(axes)
    by = [1] * len(begin) if steps is None else numbers(steps)
    if which is None or by is None:
        return None
    at: list[Any] = [slice(None)] * data.integers.ndim
    for a, b, e, s in zip(which, begin, end, by, strict=True):
        extent = data.integers.shape[a]
        if s < 0:  # backwards a slice starts within the axis; Python's rule is that it is empty
            b, e = max(b, -extent), None if e < -extent else e
        at[a] = slice(b, e, s)
    return _same(cx, data.integers[tuple(at)], data)


@_rule("concat")
def _concat(cx: Context, *inputs: Value, axis: int) -> Any:
    if sum(v.integers.size for v in inputs) > MOST_ELEMENTS:
        return None
    return _same(cx, np.concatenate([v.integers for v in inputs], axis), inputs[0])


@_rule("split")
def _split(
    cx: Context, data: Value, sizes: Value | None = None, *, axis: int = 0, count: int
) -> Any:
    extent = data.integers.shape[axis]
    each = -(-extent // count)
    plain = [min(each, extent - each * k) for k in range(count)]
    parts = plain if sizes is None else numbers(sizes)
    if parts is None or len(parts) != count or sum(parts) != extent:
        return None
    return [_same(cx, p, data) for p in np.split(data.integers, np.cumsum(parts)[:-1], axis)]


@_rule("expand_dims")
def _expand_dims(cx: Context, data: Value, axes: Value) -> Any:
    which = numbers(axes)
    return None if which is None else _same(cx, np.expand_dims(data.integers, tuple(which)), data)


@_rule("squeeze")
def _squeeze(cx: Context, data: Value, axes: Value | None = None) -> Any:
    which = numbers(axes)
    return _same(cx, np.squeeze(data.integers, None if which is None else tuple(which)), data)


@_rule("reshape")
def _reshape(cx: Context, data: Value, shape: Value, allow_zero: bool = True) -> Any:
    target = numbers(shape)
    if target is None:
        return None
    if not allow_zero:
        target = [data.integers.shape[k] if d == 0 else d for k, d in enumerate(target)]
    return _same(cx, data.integers.reshape(target), data)


@_rule("permute_dims")
def _permute_dims(cx: Context, data: Value, axes: Sequence[int] | None = None) -> Any:
    return _same(cx, np.transpose(data.integers, axes), data)


@_rule("broadcast_to")
def _broadcast_to(cx: Context, data: Value, shape: Value) -> Any:
    target = numbers(shape)
    if target is None or np.prod(target, dtype=object) > MOST_ELEMENTS:
        return None
    full = np.broadcast_shapes(data.integers.shape, tuple(target))
    return _same(cx, np.broadcast_to(data.integers, full), data)


@_rule("tile")
def _tile(cx: Context, data: Value, repeats: Value) -> Any:
    counts = numbers(repeats)
    if counts is None or np.prod(counts, dtype=object) * data.integers.size > MOST_ELEMENTS:
        return None
    return _same(cx, np.tile(data.integers, counts), data)


@_rule("full")
def _full(cx: Context, shape: Value, fill: np.ndarray) -> Any:
    target = numbers(shape)
    if target is None or fill.dtype.kind not in "ib":
        return None
    if np.prod(target, dtype=object) > MOST_ELEMENTS:
        return None
    return cx.from_elements(np.full(target, fill.item(), object), fill.dtype.name)


@_rule("arange")
def _arange(cx: Context, start: Value, limit: Value, delta: Value) -> Any:
    bounds = [numbers(v) for v in (start, limit, delta)]
    literals = [b[0] for b in bounds if b is not None]
    if len(literals) < 3:
        return None
    first, last, step = literals
    if step == 0 or len(range(first, last, step)) > MOST_ELEMENTS:
        return None
    return _same(cx, object_array(range(first, last, step)), start)


# ---------------------------------------------------------------- arithmetic


def _each(cx: Context, fn: Callable[..., Any], *inputs: Value) -> np.ndarray | None:
    """`fn` of each element; None where it answers None for one."""
    if prod(np.broadcast_shapes(*[v.integers.shape for v in inputs])) > MOST_ELEMENTS:
        return None
    arrays = np.broadcast_arrays(*[v.integers for v in inputs])
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
    def rule(cx: Context, a: Value, b: Value) -> Any:
        if a.dtype not in ("int32", "int64"):
            return None
        out = _each(cx, fn, a, b)
        return None if out is None else _same(cx, out, a)


def _divide(a: int, b: int) -> int | None:
    """Integer division toward zero."""
    if b == 0:
        return None
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_arithmetic("add", operator.add, operator.add)
_arithmetic("subtract", operator.sub, operator.sub)
_arithmetic("multiply", operator.mul, operator.mul)
_arithmetic("divide", _divide, prim_op.truncdiv)


@_rule("floor_mod")
def _mod(cx: Context, a: Value, b: Value) -> Any:
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
    def rule(cx: Context, *inputs: Value) -> Any:
        out = _each(cx, fn, *inputs)
        return None if out is None else _same(cx, out, inputs[0])


_extreme("maximum", max, prim_op.maximum)
_extreme("minimum", min, prim_op.minimum)


@_rule("negative")
def _negate(cx: Context, x: Value) -> Any:
    out = _each(cx, lambda a: 0 - a, x)
    return None if out is None else _same(cx, out, x)


def _reduction(name: str, fold: Any) -> None:
    @_rule(name)
    def rule(cx: Context, data: Value, axes: Value | None = None, keepdims: bool = False) -> Any:
        which = None if axes is None else numbers(axes)
        if axes is not None and which is None:
            return None
        out = fold.reduce(data.integers, None if which is None else tuple(which), keepdims=keepdims)
        out = out if isinstance(out, np.ndarray) else object_array([out], ())
        flat = [cx.simplify(literal(e)) for e in out.flat]
        return _same(cx, object_array(flat, out.shape), data)


_reduction("prod", np.multiply)
_reduction("sum", np.add)


# ---------------------------------------------------------------- conditions


def _comparison(name: str, build: Callable[..., Any], opposite: Callable[..., Any]) -> None:
    """A rule that decides a comparison where it can be proven or refuted."""

    @_rule(name)
    def rule(cx: Context, a: Value, b: Value) -> Any:
        if a.dtype.is_bool:
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
        return None if out is None else cx.from_elements(out, "bool")


def _plain_or(build: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: build(x, y) if isinstance(x, PrimExpr) else plain(x, y)


_EQ, _NE = _plain_or(prim_op.equal, operator.eq), _plain_or(prim_op.not_equal, operator.ne)
_LT, _GE = _plain_or(prim_op.less, operator.lt), _plain_or(prim_op.greater_equal, operator.ge)
_GT, _LE = _plain_or(prim_op.greater, operator.gt), _plain_or(prim_op.less_equal, operator.le)
for _name, _yes, _no in (
    ("equal", _EQ, _NE),
    ("less", _LT, _GE),
    ("greater", _GT, _LE),
    ("less_equal", _LE, _GT),
    ("greater_equal", _GE, _LT),
):
    _comparison(_name, _yes, _no)


@_rule("logical_not")
def _not(cx: Context, x: Value) -> Any:
    return cx.from_elements(
        object_array([not e for e in x.integers.flat], x.integers.shape), "bool"
    )


@_rule("where")
def _where(cx: Context, condition: Value, x: Value, y: Value) -> Any:
    out = _each(cx, lambda c, a, b: a if c else b, condition, x, y)
    return None if out is None else _same(cx, out, x)
