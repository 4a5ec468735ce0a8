"""A new device: its own lowering, beside the default ones and beside a pattern that is offloaded."""

import numpy as np

import loopwright as lw
from loopwright.relax.byoc import Backend, register_backend
from loopwright.relax.dpl import is_op, wildcard
from loopwright.script import relax as R
from loopwright.script import tir as T


def packed(call, last=lambda value: value):
    """x @ w with w in panels of 16 columns, then `last` of each element."""
    depth, width = call.args[1].struct_info.shape
    if width.value % 16:
        return None  # not mine

    @T.prim_func
    def packed_matmul(x: T.handle, w: T.Buffer((depth, width)), y: T.handle):
        n = T.int64()
        X, Y = T.match_buffer(x, (n, depth)), T.match_buffer(y, (n, width))
        product = T.alloc_buffer((n, width))
        for i, j, k in T.grid(n, width, depth):
            with T.block("product"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    product[vi, vj] = 0.0
                product[vi, vj] += X[vi, vk] * w[vk, vj]
        for i, j in T.grid(n, width):
            with T.block("last"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = last(product[vi, vj])

    schedule = lw.tir.Schedule(packed_matmul)
    panels = schedule.cache_read("product", 1, "global")
    schedule.transform_layout(panels, ("write", 0), lambda k, j: (j // 16, k, j % 16))
    return schedule.mod["main"]


def packed_relu(call):
    return packed(call, lambda value: T.max(value, 0.0))


dense_relu = is_op("relax.nn.relu")(is_op("relax.matmul")(wildcard(), wildcard()))
lw.target.register_target_kind("mynpu", parent="llvm")  # LLVM compiles its kernels
lw.register_legalize("relax.matmul", tir=packed, target="mynpu")
lw.register_legalize("mynpu.dense_relu", tir=packed_relu, target="mynpu")
register_backend(Backend("mynpu", [("mynpu.dense_relu", dense_relu)], target="mynpu"))
args = [np.random.rand(*s).astype("float32") for s in [(5, 20), (20, 32), (32, 16), (16, 10)]]
x, w, u, v = (
    lw.relax.Var(n, R.Tensor(a.shape, "float32")) for n, a in zip("xwuv", args, strict=True)
)
bb = lw.relax.BlockBuilder()
with bb.function("main", [x, w, u, v]):
    with bb.dataflow():
        y = bb.emit_output(R.nn.softmax(R.matmul(R.matmul(R.nn.relu(R.matmul(x, w)), u), v)))
    bb.emit_func_output(y)
print(lw.lower(bb.get(), "mynpu", backends=["mynpu"]).explain("relax.matmul"))
got = lw.compile(bb.get(), "mynpu", backends=["mynpu"])["main"](*args).numpy()
print("numbers equal:", np.allclose(got, lw.compile(bb.get())["main"](*args).numpy()))
