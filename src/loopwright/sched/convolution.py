"""Copies of padded images, which convolutions read without checks."""

from __future__ import annotations

import math
from typing import Any

from ..ir.prim_expr import IterVar
from ..ir.variables import uses_any
from ..ops.common import NO_INLINE
from ..tir.op import is_call_to
from .analysis import BlockInfo, as_product, constant, loads_in
from .loops import parallel_tiles
from .machine import RuleSchedule

# A padded image is copied if each element is read this often: the checks of a tile at the border then
# cost more than the copy (resnet50's first layer: 2014 to 1827 us, docs/notebook.md).
LEAST_USES = 9
LEAST_COPIED = 1 << 12  # elements: smaller images are read with checks
# 64 bytes of a block of 16 channels in bytes; a depthwise layer of 32 x 112 x 112 took 92 us with one pixel, 78 with 4.
PIXELS = 4


def is_padded_for_lanes(padding: BlockInfo, reduction: BlockInfo) -> bool:
    """Whether a copy of the padded image pays: a tile's pixels are adjacent in memory, so that
    otherwise each load of a tile at the border has a check of its own, and each element is used
    often."""
    product, store = as_product(reduction), padding.store
    if product is None or product.depthwise or store is None or reduction.store is None:
        return False
    sizes = [constant(d) for d in store.buffer.shape]
    few = None not in sizes and math.prod(d or 0 for d in sizes) < LEAST_COPIED
    if few or not is_call_to(store.value, "if_then_else"):
        return False
    pixels = [v.var for v in reduction.spatial]
    uses = 1
    for load in loads_in(reduction.store.value):
        if load.buffer is store.buffer:
            if not uses_any(load.indices[-1:], pixels):
                return False
            shared = [
                i for i in load.indices if uses_any(i, pixels)
            ]  # an element is of many windows
            for axis in (*reduction.spatial, *reduction.reduce):
                is_pixel = axis.iter_type == IterVar.DataPar
                if uses_any(tuple(shared), (axis.var,)) != is_pixel:
                    uses *= constant(axis.dom.extent) or LEAST_USES
    return uses >= LEAST_USES


def copy_padded(sch: RuleSchedule, block: Any) -> bool:
    """Schedule a copy of an image in blocks of channels with something around it; False for other blocks. Of a few
    pixels together, those inside need no checks."""
    node, loops = sch.get(block), list(sch.get_loops(block))
    is_copy = NO_INLINE in node.annotations and is_call_to(node.body.value, "if_then_else")
    if not is_copy or len(loops) < 3 or constant(sch.get(loops[-1]).extent) is None:
        return False
    *outer, pixels, channels = loops
    pixels, some = sch.split(pixels, [None, PIXELS])
    sch.unroll(some)
    sch.vectorize(channels)
    parallel_tiles(sch, [*outer, pixels], PIXELS * (constant(sch.get(channels).extent) or 1))
    return True
