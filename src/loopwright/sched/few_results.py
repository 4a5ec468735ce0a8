"""Splits long reductions with few results into parts, which threads share:

    for part (parallel):
        partial[part, ...] = reduction of the part's elements
    result[...] = reduction of partial[:, ...]

The number of parts depends on shapes alone, so results do not change with the number of threads.
"""

from __future__ import annotations

import math

from .analysis import REDUCE, BlockInfo, as_product, blocks_of, constant, is_fold, vectors_fit
from .decisions import decide
from .machine import Machine, RuleSchedule

LEAST_GRAINS = 32  # of a reduction that is split, in tasks of the least work
FEW_ROWS = 8  # with more, each thread has rows of its own
FEW_COLUMNS = 2048  # adjacent results, of which threads would take strips too narrow to read fast


def reduce_in_parts(sch: RuleSchedule) -> None:
    """Split each reduction of constant extents that has too few results for all threads."""
    for info in blocks_of(sch.func) or []:
        axis = _axis_of_parts(info, sch.machine)
        if axis is None:
            continue
        loop = list(sch.get_loops(sch.get_block(info.name)))[axis]
        extent = constant(sch.get(loop).extent) or 1
        choices = (n for n in (1, 2, 4, 8, 16, 32) if extent % n == 0)
        parts = decide(sch, "reduction_parts", choices, sch.machine.reduction_parts)
        if parts > 1:
            part, _ = sch.split(loop, [parts, None])
            sch.rfactor(part, 0)


def _axis_of_parts(info: BlockInfo, machine: Machine) -> int | None:
    """The loop that is split into parts, or None. Products have tiles, which threads share."""
    product = as_product(info)
    if not info.is_reduction or not is_fold(info) or (product and not product.depthwise):
        return None
    extents = [constant(v.dom.extent) for v in info.block.iter_vars]
    kinds = [v.iter_type for v in info.block.iter_vars]
    sizes = [e for e in extents if e is not None]
    if len(sizes) != len(extents) or math.prod(sizes) < LEAST_GRAINS * machine.grain:
        return None
    results = math.prod(constant(v.dom.extent) or 1 for v in info.spatial)
    if results > (FEW_COLUMNS if vectors_fit(info) else FEW_ROWS):
        return None
    axes = [
        k for k, e in enumerate(sizes) if kinds[k] == REDUCE and e % machine.reduction_parts == 0
    ]
    return axes[0] if axes else None
