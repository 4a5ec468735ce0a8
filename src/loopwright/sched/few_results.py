"""Splits long reductions with few results into parts, which threads share:

    for part (parallel):
        partial[part, ...] = reduction of the part's elements
    result[...] = reduction of partial[:, ...]

The number of parts depends on shapes alone, so results do not change with the number of threads.
"""

from __future__ import annotations

import math

from ..tir.function import PrimFunc
from ..tir.schedule import Schedule
from .analysis import REDUCE, BlockInfo, as_product, blocks_of, constant, is_fold, vectors_fit
from .loops import GRAIN

PARTS = 8
# Elements of a reduction that is split: a processor adds up 1 M in 44 us, and waking another thread
# takes about 2 us.
LEAST_ELEMENTS = 32 * GRAIN
FEW_ROWS = 8  # with more, each thread has rows of its own
FEW_COLUMNS = 2048  # adjacent results, of which threads would take strips too narrow to read fast


def reduce_in_parts(func: PrimFunc) -> PrimFunc:
    """Split each reduction of constant extents that has too few results for all threads."""
    splits = [(b, axis) for b in blocks_of(func) or [] if (axis := _axis_of_parts(b)) is not None]
    if not splits:
        return func
    sch = Schedule(func, enable_check=False)
    for info, axis in splits:
        loop = list(sch.get_loops(sch.get_block(info.name)))[axis]
        part, _ = sch.split(loop, [PARTS, None])
        sch.rfactor(part, 0)
    return sch.func


def _axis_of_parts(info: BlockInfo) -> int | None:
    """The loop that is split into parts, or None. Products have tiles, which threads share."""
    product = as_product(info)
    if not info.is_reduction or not is_fold(info) or (product and not product.depthwise):
        return None
    extents = [constant(v.dom.extent) for v in info.block.iter_vars]
    kinds = [v.iter_type for v in info.block.iter_vars]
    sizes = [e for e in extents if e is not None]
    if len(sizes) != len(extents) or math.prod(sizes) < LEAST_ELEMENTS:
        return None
    results = math.prod(constant(v.dom.extent) or 1 for v in info.spatial)
    if results > (FEW_COLUMNS if vectors_fit(info) else FEW_ROWS):
        return None
    axes = [k for k, e in enumerate(sizes) if kinds[k] == REDUCE and e % PARTS == 0]
    return axes[0] if axes else None
