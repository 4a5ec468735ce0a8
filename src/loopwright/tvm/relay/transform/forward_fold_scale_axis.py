"""ForwardFoldScaleAxis: a factor along the channels moves into the weights that come after it.

before: %0 = nn.relu(multiply(%x, %scale))           # %scale is a positive constant
        nn.conv2d(add(%0, %bias), %w)
after:  %0 = add(nn.relu(%x), divide(%bias, %scale))
        nn.conv2d(%0, multiply(%w, %scale))

Only where all that use the product can take the factor in.
"""

from __future__ import annotations

from typing import Any

from ....ir.module import IRModule
from ..expr import Call, Function
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


class ForwardFoldScaleAxis(RelayPass):
    """A factor along the channels moves into the weights that come after it."""

    opt_level = 3

    def run_function(self, func: Function, mod: IRModule) -> Function:
        order = list(post_order(func))
        return edited(func, _edits(order, _demands(order)))


def _demands(order: list[Any]) -> dict[int, Demand | None]:
    """For each value what all of its users can take in."""
    demands: dict[int, Demand | None] = {id(order[-1]): None}
    for node in reversed(order):
        own = demands.get(id(node))
        wants = _argument_demands(node, own) if isinstance(node, Call) else {}
        args = list(node.args) if isinstance(node, Call) else list(children(node))
        for position, arg in enumerate(args):
            want = wants.get(position)
            demands[id(arg)] = both(demands[id(arg)], want) if id(arg) in demands else want
    return demands


def _argument_demands(call: Call, own: Demand | None) -> dict[int, Demand]:
    """The demands of a call, by argument."""
    name = name_of(call)
    if name in KEEPING and own is not None:
        return {0: Demand(own.axes, True, own.nonzero)}
    if name in ADDING and own is not None:
        for position, (large, small) in enumerate((call.args, call.args[::-1])):
            if is_along(large, small, own.axes):
                return {position: Demand(own.axes, own.positive, True)}
    roles = consumer(call, of_result=False)
    return {} if roles is None else {0: Demand(roles[0])}


def _edits(order: list[Any], demands: dict[int, Demand | None]) -> dict[int, Edit]:
    edits: dict[int, Edit] = {}
    scales: dict[int, tuple[Any, Demand]] = {}  # of values that lack a factor
    for node in order:
        name, demand = name_of(node), demands.get(id(node))
        if name == "multiply" and demand is not None:
            for position, (large, small) in enumerate((node.args, node.args[::-1])):
                scale = factor_along(large, small, demand.axes)
                if scale is not None and shape_of(large) == shape_of(node) and demand.allows(scale):
                    edits[id(node)] = Edit(argument=position)
                    scales[id(node)] = (scale, demand)
                    break
        elif name in (*KEEPING, *ADDING) and demand is not None:
            lacking = [n for n, a in enumerate(node.args) if id(a) in scales]
            for position in lacking:
                scale, passed = scales[id(node.args[position])]
                scales[id(node)] = (scale, demand)
                if name in ADDING:
                    shape = shape_of(node.args[position]) or []
                    factor = fitted(scale, shape, passed.axes)
                    edits[id(node)] = Edit(factors={1 - position: ("divide", factor)})
        elif name and id(node.args[0] if node.args else None) in scales:
            scale, _ = scales[id(node.args[0])]
            axes = (consumer(node, of_result=False) or ((), ()))[1]
            factor = fitted(scale, shape_of(node.args[1]) or [], axes)
            edits[id(node)] = Edit(factors={1: ("multiply", factor)})
    return edits
