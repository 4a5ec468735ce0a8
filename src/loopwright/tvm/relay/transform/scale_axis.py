"""Shared parts of the passes that move a factor along an axis into weights.

A demand says along which axes a factor can be taken in; an edit replaces a call: by one of its
arguments, or by the same call with arguments multiplied or divided by a factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....ir.op import Op
from ....ir.prim_expr import IntImm
from ....tir import Layout
from ....tir import layout as layout_of
from ..expr import Call, Constant, Expr, Function
from ..infer import with_types
from ..operators.core import VIEWS
from ..types import TensorType
from ..walk import name_of, rewrite
from .simplify_inference import spread

KEEPING = ("nn.relu", "nn.leaky_relu")  # f(x * s) = f(x) * s for s > 0
ADDING = ("add", "subtract")
CONVOLUTIONS = ("nn.conv2d", "nn.conv3d")
_VIEWS = ("expand_dims", "squeeze", "reshape", "transpose", "layout_transform")


@dataclass(frozen=True)
class Demand:
    """A factor along these axes can be taken in. positive: if no element is 0 or less; nonzero: if
    none is 0. Both are known of constants alone."""

    axes: tuple[int, ...]
    positive: bool = False
    nonzero: bool = False

    def allows(self, scale: Expr) -> bool:
        """Whether a factor may be taken in."""
        if not self.positive and not self.nonzero:
            return True
        values = _constant(scale)
        return values is not None and bool(np.all(values > 0 if self.positive else values != 0))


def _constant(expr: Expr) -> Any:
    """The elements of a constant that may be reshaped."""
    while name_of(expr) in _VIEWS:
        expr = expr.args[0]
    return expr.data.numpy() if isinstance(expr, Constant) else None


def both(a: Demand | None, b: Demand | None) -> Demand | None:
    """What two users of one value can take in."""
    if a is None or b is None or a.axes != b.axes:
        return None
    return Demand(a.axes, a.positive or b.positive, a.nonzero or b.nonzero)


@dataclass
class Edit:
    """The replacement of a call. argument: the number of the one that replaces it; factors: by
    argument, the operator and the other operand."""

    argument: int | None = None
    factors: dict[int, tuple[str, Any]] = field(default_factory=dict)


def edited(func: Function, edits: dict[int, Edit]) -> Any:
    """The function with its calls edited, by identity."""
    if not edits:
        return func

    def post(old: Op | Expr, new: Op | Expr) -> Any:
        edit = edits.get(id(old))
        if edit is None:
            return None
        if edit.argument is not None:
            return new.args[edit.argument]
        args = list(new.args)
        for position, (name, factor) in edit.factors.items():
            args[position] = VIEWS[name](args[position], factor)
        return Call(new.op, args, new.attrs, span=new.span)

    return rewrite(func, post)


# ---------------------------------------------------------------------- calls


def shape_of(node: Expr) -> list[int] | None:
    """The extents of an expression of floating numbers, None where one is not known."""
    type_ = node.checked_type
    if not isinstance(type_, TensorType) or not type_.dtype.is_float:
        return None
    return [d.value for d in type_.shape if isinstance(d, IntImm)] if _static(type_) else None


def _static(type_: TensorType) -> bool:
    return all(isinstance(d, IntImm) for d in type_.shape)


def _axis_positions(plan: Layout, letter: str) -> tuple[int, ...] | None:
    """The positions of an axis and its block; None where they are not in that order."""
    axes = tuple(n for n, c in enumerate(plan) if c.upper() == letter)
    ordered = len(axes) in (1, 2) and plan[axes[0]] == letter
    return axes if ordered else None


def consumer(call: Call, of_result: bool) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Of a product by weights: the axes of its data (or of its result) along which a factor can be
    taken in, and the axes of the weight for it. None for any other call."""
    name = name_of(call)
    if name not in (*CONVOLUTIONS, "nn.dense") or None in map(shape_of, (call, *call.args)):
        return None
    rank = len(call.args[0].checked_type.shape)
    if name == "nn.dense":
        return (rank - 1,), (0 if of_result else 1,)
    attrs = call.attrs
    data = attrs["out_layout"] if of_result and attrs["out_layout"] else attrs["data_layout"]
    kernel = layout_of(attrs["kernel_layout"])
    filters = _extent(kernel, call.args[1], "O")
    depthwise = filters == int(attrs["groups"]) and _extent(kernel, call.args[1], "I") == 1
    if int(attrs["groups"]) != 1 and not depthwise:
        return None
    each = of_result or (depthwise and int(attrs["groups"]) != 1)
    axes, weights = (
        _axis_positions(layout_of(data), "C"),
        _axis_positions(kernel, "O" if each else "I"),
    )
    return None if axes is None or weights is None else (axes, weights)


def _extent(plan: Layout, node: Expr, letter: str) -> int:
    sizes = zip(plan, shape_of(node) or (), strict=True)
    return int(np.prod([size for c, size in sizes if c.upper() == letter]))


# ---------------------------------------------------------------------- factors


def factor_along(large: Expr, small: Expr, axes: tuple[int, ...]) -> Any:
    """The elements of `small`, which `large` is combined with, along axes of `large` alone: `small`
    without its other axes. None where it has other elements."""
    whole, part = shape_of(large), shape_of(small)
    if whole is None or part is None or len(part) > len(whole):
        return None
    if not part:
        return small
    lead = len(whole) - len(part)
    squeezed = [n for n in range(len(part)) if n + lead not in axes]
    fits = all(n >= lead and part[n - lead] == whole[n] for n in axes)
    if not fits or any(part[n] != 1 for n in squeezed):
        return None
    return VIEWS["squeeze"](small, squeezed) if squeezed else small


def is_along(large: Expr, small: Expr, axes: tuple[int, ...]) -> bool:
    """Whether `small` has elements along axes of `large` alone."""
    return factor_along(large, small, axes) is not None


def fitted(scale: Expr, shape: list[int], axes: tuple[int, ...]) -> Any:
    """A factor so that it is broadcast along axes of a tensor of that shape."""
    if not with_types(scale).checked_type.shape:
        return scale
    if len(axes) == 1 and len(with_types(scale).checked_type.shape) == 1:
        return spread(scale, len(shape), axes[0])
    return VIEWS["reshape"](scale, [d if n in axes else 1 for n, d in enumerate(shape)])
