"""BackwardFoldScaleAxis: a factor along the channels moves into the weights that come before it.

before: %0 = nn.relu(add(nn.conv2d(%x, %w), %bias))
        multiply(%0, %scale)                         # %scale is a positive constant
after:  %0 = nn.conv2d(%x, multiply(%w, %scale))
        nn.relu(add(%0, multiply(%bias, %scale)))

Only through values that are used once.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ....ir.module import IRModule
from ..expr import Call, Expr, Function
from ..walk import children, name_of, post_order
from .base import RelayPass
from .scale_axis import (
    ADDING,
    KEEPING,
    Demand,
    Edit,
    both,
    consumer,
    edited,
    factor_along,
    fitted,
    is_along,
    shape_of,
)


class BackwardFoldScaleAxis(RelayPass):
    """A factor along the channels moves into the weights that come before it."""

    opt_level = 3

    def run_function(self, func: Function, mod: IRModule) -> Function:
        order = list(post_order(func))
        uses = Counter(id(c) for node in order for c in children(node))
        demands: dict[int, tuple[Demand, tuple[int, ...]]] = {}
        for node in order:
            demand = _demand(node, demands) if isinstance(node, Call) else None
            if demand is not None and uses[id(node)] == 1:
                demands[id(node)] = demand
        return edited(func, _edits(order, demands))


def _demand(call: Call, demands: dict[int, Any]) -> tuple[Demand, tuple[int, ...]] | None:
    """The demand of a call for a factor on its result, and the arguments that it is passed to."""
    name = name_of(call)
    have = [demands[id(a)][0] if id(a) in demands else None for a in call.args]
    if name in KEEPING and have[0] is not None:
        return Demand(have[0].axes, True), (0,)
    if name == "nn.bias_add" and have[0] is not None:
        axis = int(call.attrs.axis) % len(shape_of(call) or [0])
        return (have[0], (0,)) if have[0].axes == (axis,) else None
    if name in ADDING:
        for position, (large, small) in enumerate((call.args, call.args[::-1])):
            one = have[position]
            if one is not None and is_along(large, small, one.axes):
                return one, (position,)
        same = both(have[0], have[1])
        if same is not None and shape_of(call.args[0]) == shape_of(call.args[1]):
            return same, (0, 1)
    roles = consumer(call, of_result=True)
    return None if roles is None else (Demand(roles[0]), ())


def _edits(order: list[Any], demands: dict[int, Any]) -> dict[int, Edit]:
    edits: dict[int, Edit] = {}
    scales: dict[int, Any] = {}  # of values that get a factor
    for node in reversed(order):
        if id(node) in scales:
            demand, positions = demands[id(node)]
            scale = scales[id(node)]
            scales.update((id(node.args[n]), scale) for n in positions)
            edits[id(node)] = _with_factor(node, scale, demand.axes, positions)
        elif name_of(node) == "multiply":
            for position, (large, small) in enumerate((node.args, node.args[::-1])):
                demand = demands[id(large)][0] if id(large) in demands else None
                if demand is None or shape_of(large) != shape_of(node):
                    continue
                scale = factor_along(large, small, demand.axes)
                if scale is not None and demand.allows(scale):
                    edits[id(node)] = Edit(argument=position)
                    scales[id(large)] = scale
                    break
    return edits


def _with_factor(
    call: Call, scale: Expr, axes: tuple[int, ...], positions: tuple[int, ...]
) -> Edit:
    """A call whose result gets a factor: it is passed to the arguments at `positions`, the other
    one is multiplied by it; of a product, the weight."""
    roles = consumer(call, of_result=True)
    if roles is not None:
        factor = fitted(scale, shape_of(call.args[1]) or [], roles[1])
        return Edit(factors={1: ("multiply", factor)})
    if len(positions) == len(call.args):
        return Edit()
    (position,) = positions
    vector = name_of(call) == "nn.bias_add"
    factor = scale if vector else fitted(scale, shape_of(call.args[position]) or [], axes)
    return Edit(factors={1 - position: ("multiply", factor)})
