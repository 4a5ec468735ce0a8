"""How much a kernel computes and moves, by its loops."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..ir.prim_op import const
from ..ir.variables import substitute
from ..tir.analysis import estimate_tir_flops
from ..tir.transform.lower.unpack_signatures import symbolic_dims


def work_of(func: Any, sizes: Mapping[str, int]) -> dict[str, float]:
    """ "flops" and "bytes" of a call of a kernel that is not lowered yet, with these symbolic sizes (1
    where they are not given), as far as the loops tell."""
    known = {v: const(sizes.get(v.name, 1), v.dtype) for v in symbolic_dims(func)}
    fixed = substitute(func, known) if known else func
    moved = 0
    for buffer in fixed.buffer_map.values():
        extents = [getattr(d, "value", None) for d in buffer.shape]
        if None in extents:
            return {}
        moved += math.prod(extents) * buffer.dtype.bits * buffer.dtype.lanes // 8
    try:
        return {"flops": float(estimate_tir_flops(fixed.body)), "bytes": moved}
    except ValueError:  # loops whose extent only data tell have no rate
        return {"bytes": moved}


__all__ = ["work_of"]
