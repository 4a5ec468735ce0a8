"""A schedule is a list of instructions: it can be read, kept as JSON and done again elsewhere."""

import json

import tvm
from tvm import te, tir


def product(n):
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return tvm.IRModule({"main": te.create_prim_func([A, B, C])})


small = product(32)
sch = tir.Schedule(small, seed=1)
block = sch.get_block("C")
i, j, k = sch.get_loops(block)
tile = sch.sample_perfect_tile(j, n=2, max_innermost_factor=16, decision=[4, 8])
j0, j1 = sch.split(j, factors=tile)
sch.reorder(i, j0, k, j1)
sch.vectorize(j1)
written = sch.cache_write(block, 0, "local")
sch.reverse_compute_at(written, j0)
sch.decompose_reduction(block, k)
sch.trace.show()

again = tir.Schedule(product(32))
sch.trace.apply_to_schedule(again, remove_postproc=False)
tvm.ir.assert_structural_equal(again.mod, sch.mod)

kept = json.dumps(sch.trace.as_json())
from_json = tir.Schedule(product(32))
tir.schedule.Trace.apply_json_to_schedule(json.loads(kept), from_json)
tvm.ir.assert_structural_equal(from_json.mod, sch.mod)

large = tir.Schedule(product(64))
sch.trace.apply_to_schedule(large, remove_postproc=False)
print([str(large.get(loop).extent) for loop in large.get_loops(large.get_block("C_update"))])


def wider(inst, inputs, attrs, decision):
    return [4, 16] if inst.kind.name == "SamplePerfectTile" else decision


decided = tir.Schedule(product(64))
sch.trace.apply_to_schedule(decided, remove_postproc=False, decision_provider=wider)
decided.mod.show()

programs = [(small, sch), (product(64), decided)]
