"""A schedule rule of one's own: how a kernel's loops are cut, vectorized and run in parallel.

python examples/own_schedule_rule.py
"""

from __future__ import annotations

import math

import numpy as np

import loopwright as lw
from loopwright import tir
from loopwright.sched import register_schedule_rule
from loopwright.script import ir as I
from loopwright.script import relax as R

VECTORS = 4


@register_schedule_rule("four vectors at a time", "cpu", first=True)
def four_vectors(func: tir.PrimFunc, target: lw.Target) -> tir.Schedule | None:
    """Elementwise blocks of known size: one loop, four whole vectors in each of its turns.

    Everything else is not ours; the next rule, here the default one, is asked.
    """
    sch = tir.Schedule(func)
    *before, last = sch.get_child_blocks(sch.get_block("root"))
    kinds = {v.iter_type for b in (*before, last) for v in sch.get(b).iter_vars}
    extents = [sch.get(loop).extent for loop in sch.get_loops(last)]
    if kinds != {tir.IterVar.DataPar} or not all(isinstance(e, tir.IntImm) for e in extents):
        return None
    lanes = target.vector_lanes(sch.get(last).writes[0].buffer.dtype)
    if math.prod(e.value for e in extents) % (VECTORS * lanes):
        return None
    for block in before:
        sch.compute_inline(block)
    _, vectors, lane = sch.split(sch.fuse(*sch.get_loops(last)), [None, VECTORS, lanes])
    sch.unroll(vectors)
    sch.vectorize(lane)
    return sch


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((32, 256), "float32"), y: R.Tensor((32, 256), "float32")):
        with R.dataflow():
            z = R.nn.relu(R.add(x, y))
            R.output(z)
        return z


def main() -> None:
    trace = lw.lower(Module)
    for note in trace.explain("fused_add_relu", "schedule"):
        print("rule:", note.facts["rule"])
    print(trace["ApplyDefaultSchedule"].after["fused_add_relu"].script())

    exe = lw.compile(Module)
    x, y = np.random.default_rng(0).standard_normal((2, 32, 256), "float32")
    print("right:", np.array_equal(exe["main"](x, y).numpy(), np.maximum(x + y, 0)))


if __name__ == "__main__":
    main()
