"""The rule for the greatest values of windows in plain layout on CPUs: see `ops.pool`.

    for images, channels (parallel):
        for rows: line[...] = the greatest of the window's rows, or outside the least value
        for rows: out[...] = the greatest of adjacent ones of a line

A line is cut where the image begins and ends, and into vectors, of which the last ones are shorter: none has a
condition, for which AVX2 has no instructions where elements are bytes.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from ..ir.target import Target
from ..ops.pool import LINES
from ..tir.function import PrimFunc
from ..tir.schedule import Schedule
from .analysis import blocks_of, constant, elementwise_on
from .apply import register_schedule_rule
from .loops import parallel, parallel_tiles
from .machine import RuleSchedule

FEW = 8  # images that threads share


@register_schedule_rule("pool", "cpu")
def pool(func: PrimFunc, target: Target) -> Schedule | None:
    """Kernels of lines and of windows of adjacent ones of them, and what follows of their results one by one."""
    blocks = blocks_of(func) or []
    at = next((k for k, b in enumerate(blocks) if LINES in b.block.annotations), None)
    if at is None or not all(b.is_spatial and len(b.writes) == 1 for b in blocks):
        return None
    lines, *after = blocks[at:]
    if not after or any(not elementwise_on(b, a.writes[0]) for a, b in pairwise(after)):
        return None
    sch = RuleSchedule(func, target)
    for b in (*blocks[:at], *after[:-1]):
        sch.compute_inline(sch.get_block(b.name))
    line, last = sch.get_block(lines.name), sch.get_block(after[-1].name)
    sch.set_scope(line, 0, "local")
    *outer, pixels = sch.get_loops(last)
    length = constant(lines.spatial[-1].dom.extent) or 0
    *images, rows = (constant(sch.get(loop).extent) or 1 for loop in outer)
    size = rows * length * lines.writes[0].dtype.lane_bytes
    # All lines of an image first: what was just stored in other vectors cannot be read yet (3 x 3 of bytes,
    # 64 x 112 x 112: 38 to 24 us).
    whole = size <= sch.machine.cached_stream and math.prod(images) >= FEW
    sch.compute_at(line, outer[-2 if whole else -1], preserve_unit_loops=True)
    lanes = target.vector_lanes(lines.writes[0].dtype)
    first, count = (int(v) for v in lines.block.annotations[LINES])
    _in_vectors(sch, sch.get_loops(line)[-1], [first, count, length - first - count], lanes)
    _in_vectors(sch, pixels, [constant(sch.get(pixels).extent) or 0], lanes)
    if whole:
        parallel(sch, outer[:-1], 2 * length * rows)
    else:
        parallel_tiles(sch, outer, 2 * length)
    return sch


def _in_vectors(sch: RuleSchedule, loop: Any, parts: list[int], lanes: int) -> None:
    """Cut a loop into parts of given extents, and these into vectors."""
    lengths: list[int] = []
    for count in parts:
        rest = count % lanes
        shorter = (1 << k for k in reversed(range(lanes.bit_length())) if rest >> k & 1)
        lengths += [n for n in (count - rest, *shorter) if n]
    pieces = sch.loop_partition(loop, lengths) if len(lengths) > 1 else [loop]
    for piece, length in zip(pieces, lengths, strict=True):
        if length > lanes:
            _, piece = sch.split(piece, [None, lanes])
        if length > 1:
            sch.vectorize(piece)
