"""An image is computed in parts, each with all its channels:

    for n, part, block of channels, rows of the part, ... (parallel):

Threads take contiguous ranges of such loops in order, so a thread computes the same part in one
kernel after the other and finds it in its own cache. Where processors are far apart (a round trip
of 400 ns), what another one wrote costs more than many kernels compute.
"""

from __future__ import annotations

import math
from typing import Any

from ..ir.variables import uses_any
from .analysis import BlockInfo, constant, loads_in
from .decisions import decide
from .machine import RuleSchedule


def parts_first(sch: RuleSchedule, reduction: BlockInfo, order: list[Any]) -> tuple[list[Any], int]:
    """The loops over the tiles of a reduction in blocked layouts, parts of the image before the blocks of
    channels, and how many these are. One where its weights are more than the image: threads then share
    these instead. `order`: a loop for each axis, maybe without the last."""
    extents = [constant(sch.get(loop).extent) for loop in order]
    at = next((k for k in range(2, len(reduction.spatial) - 1) if extents[k] != 1), None)
    tiles = None if at is None else extents[at]
    if at is None or tiles is None or extents[1] == 1 or _mostly_weights(reduction):
        return order, 1
    choices = [p for p in sch.machine.image_parts if tiles % p == 0]
    parts = decide(sch, "parts", [1, *choices], choices[0] if choices else 1)
    if parts == 1:
        return order, 1
    part, rest = sch.split(order[at], [parts, None])
    return [order[0], part, *order[1:at], rest, *order[at + 1 :]], parts


def _mostly_weights(reduction: BlockInfo) -> bool:
    """Whether what all pixels read is more than the image and the result."""
    assert reduction.store is not None
    pixels = [v.var for v in reduction.spatial[2:-1]]
    weights = image = 0
    for load in loads_in(reduction.store.value):
        size = math.prod(constant(d) or 1 for d in load.buffer.shape)
        if uses_any(tuple(load.indices), pixels):
            image += size
        else:
            weights += size
    return weights > image
