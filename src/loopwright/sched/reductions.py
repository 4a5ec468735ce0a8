"""Reductions before they are scheduled: loops in the order of their axes, independent ones apart, adjacent
axes as one.

The mean of an image of 7 x 7 is a sum over 49 adjacent elements, which fill vectors; the 7 of a
line do not. The sum and the sum of squares of a layer norm are two nests, each with vectors, that
read the input twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..ir.prim_expr import IterVar
from ..ir.target import Target
from ..ir.variables import uses_any
from ..tir.expr import BufferLoad
from ..tir.schedule import Schedule
from ..tir.schedule.primitives.fuse_reduction_axes import reduction_axes_in_order
from ..tir.schedule.primitives.separate_reductions import independent_reductions
from ..tir.stmt import Block
from .analysis import blocks_in, blocks_of, constant, loads_in


def prepare_reductions(sch: Schedule, target: Target) -> None:
    """Put loops of reductions in the order of their axes, separate independent reductions, and fuse the last
    axes of those whose innermost is too short for vectors."""
    for info in blocks_of(sch.func) or []:
        if info.is_reduction and not info.is_in_order and (own := info.own_loops):
            loops = dict(zip(map(id, info.loops), sch.get_loops(info.name), strict=True))
            sch.reorder(*(loops[id(f)] for f in own))
    for block in blocks_in(sch.func):
        if independent_reductions(block):
            sch.separate_reductions(block.name_hint)
    for block in blocks_in(sch.func):
        count = 0 if block.init is None else _axes_to_fuse(sch, block, target)
        if count > 1:
            sch.fuse_reduction_axes(block.name_hint, count)


def _axes_to_fuse(sch: Schedule, block: Block, target: Target) -> int:
    """How many of a reduction's last axes all loads have as their last indices, over whole dimensions;
    0 if vectors fit without fusing them, or do not even so."""
    axes = reduction_axes_in_order(sch.get_sref(block))
    loads = loads_in(block.body)
    while len(axes) > 1 and not all(_ends_in(load, axes) for load in loads):
        axes = axes[1:]
    sizes = [constant(axis.dom.extent) or 0 for axis in axes]
    lanes = target.vector_lanes(block.writes[0].buffer.dtype)
    fills = len(axes) > 1 and sizes[-1] < 2 * lanes <= math.prod(sizes)
    return len(axes) if fills else 0


def _ends_in(load: BufferLoad, axes: Sequence[IterVar]) -> bool:
    """Whether the last indices of a load are these axes, all but the first over their whole dimensions,
    and no others use them; or none uses them."""
    count = len(axes)
    own = tuple(axis.var for axis in axes)
    if not uses_any(load.indices, own):
        return True
    last = load.indices[-count:]
    if len(last) < count or uses_any(load.indices[:-count], own):
        return False
    whole = zip(load.buffer.shape[-count:], axes, strict=True)
    return all(i is v for i, v in zip(last, own, strict=True)) and all(
        constant(d) == constant(axis.dom.extent) for d, axis in list(whole)[1:]
    )
