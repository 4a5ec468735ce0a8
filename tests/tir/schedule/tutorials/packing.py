"""Packing, which the last thread of the seeds does not know how to express by a schedule: the weights
of a layer, stored in the order in which the loops read them."""

import numpy as np
import tvm
from tvm import te, tir

N, K, M = 4, 24, 40
LANES = 16

X = te.placeholder((N, K), name="X")
W = te.placeholder((M, K), name="W")
k = te.reduce_axis((0, K), name="k")
Y = te.compute((N, M), lambda i, j: te.sum(X[i, k] * W[j, k], axis=k), name="Y")
layer = tvm.IRModule({"main": te.create_prim_func([X, W, Y])})

x, w = np.random.rand(N, K).astype("float32"), np.random.rand(M, K).astype("float32")


def check(sch, weights):
    y = tvm.nd.empty((N, M))
    tvm.build(sch.mod, target="llvm")["main"](tvm.nd.array(x), tvm.nd.array(weights), y)
    np.testing.assert_allclose(y.numpy(), x @ w.T, rtol=1e-5)
    print("right")


def panels(j, k):
    """Sixteen rows of the weights beside each other, for each k; 40 rows are two panels and a half."""
    return j // LANES, k, j % LANES


print("# Packed each time that the layer runs")
inside = tir.Schedule(layer)
block = inside.get_block("Y")
packed = inside.cache_read(block, 1, "global")
inside.transform_layout(packed, ("write", 0), panels, pad_value=0.0)
inside.mod.show()
check(inside, w)

print("# The layer takes packed weights")
before = tir.Schedule(layer)
block = before.get_block("Y")
before.transform_layout(block, ("read", 1), panels, pad_value=0.0)
i, j, k = before.get_loops(block)
j0, j1 = before.split(j, factors=[None, LANES])
before.reorder(i, j0, k, j1)
before.decompose_reduction(block, k)
before.mod.show()


def pack(weights):
    padded = np.pad(weights, ((0, -M % LANES), (0, 0)))
    return np.ascontiguousarray(padded.reshape(-1, LANES, K).transpose(0, 2, 1))


check(before, pack(w))

programs = [(layer, inside), (layer, before, lambda x, w, y: [x, pack(w), y])]
