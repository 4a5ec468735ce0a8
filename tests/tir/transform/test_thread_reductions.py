"""Reductions across threads: lowered to shared memory and run by threads that wait for each other."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from loopwright.ir.module import IRModule
from loopwright.ir.structural import assert_structural_equal
from loopwright.ir.target import Target
from loopwright.script import from_source
from loopwright.tir import analysis as ta
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

LOWERING = [
    tt.LowerCrossThreadReduction(),
    tt.LowerInitBlock(),
    tt.PlanAndUpdateBufferAllocationLocation(),
    tt.ConvertBlocksToOpaque(),
    tt.CompactBufferAllocation(),
    tt.UnifyThreadBinding(),
    tt.LowerOpaqueBlock(),
    tt.FlattenBuffer(),
    tt.LowerThreadAllreduce(),
    tt.Simplify(),
]


def lowered(text):
    mod = IRModule({"main": from_source(text)})
    for item in LOWERING:
        mod = item(mod)
        ta.verify_well_formed(mod)
    return mod


SUM = """
@T.prim_func
def main(A: T.Buffer((3, {n}), "float32"), B: T.Buffer((3,), "float32")):
    for i in T.thread_binding(3, thread="blockIdx.x"):
        for ko in range({outer}):
            for ki in T.thread_binding({threads}, thread="threadIdx.x"):
                with T.block("B"):
                    vi = T.axis.spatial(3, i)
                    vk = T.axis.reduce({n}, ko * {threads} + ki)
                    T.where(ko * {threads} + ki < {n})
                    T.reads(A[vi, vk])
                    T.writes(B[vi])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]
"""


@pytest.mark.parametrize(("n", "threads"), [(32, 8), (30, 8), (12, 6), (7, 7), (5, 1)])
def test_sums(n, threads):
    outer = -(-n // threads)
    mod = lowered(SUM.format(n=n, threads=threads, outer=outer))
    assert "tvm_thread_allreduce" not in mod.script()
    a = np.random.default_rng(0).standard_normal((3, n)).astype("float32")
    b = np.zeros(3, "float32")
    run(mod["main"], [a, b])
    np.testing.assert_allclose(b, a.sum(1), rtol=1e-5)


def test_groups_of_threads():
    """Threads along y hold rows; those along x reduce each of them."""
    mod = lowered("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.thread_binding(4, thread="threadIdx.y"):
        for k in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk])
                T.writes(B[vi])
                with T.init():
                    B[vi] = T.min_value("float32")
                B[vi] = T.max(B[vi], A[vi, vk])
""")
    assert "T.allocate([32]" in mod.script()
    a = np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
    b = np.zeros(4, "float32")
    run(mod["main"], [a, b])
    np.testing.assert_array_equal(b, a.max(1))


def test_several_values():
    mod = lowered("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), I: T.Buffer((4,), "int32"), V: T.Buffer((4,), "float32")):
    for i in range(4):
        for k in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("argmax"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk])
                T.writes(I[vi], V[vi])
                with T.init():
                    I[vi] = -1
                    V[vi] = T.min_value("float32")
                v_i: T.int32 = T.Select(V[vi] >= A[vi, vk], I[vi], vk)
                v_v: T.float32 = T.Select(V[vi] >= A[vi, vk], V[vi], A[vi, vk])
                I[vi] = v_i
                V[vi] = v_v
""")
    a = np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
    i, v = np.zeros(4, "int32"), np.zeros(4, "float32")
    run(mod["main"], [a, i, v])
    np.testing.assert_array_equal(i, a.argmax(1))
    np.testing.assert_array_equal(v, a.max(1))


def test_what_cannot_be_reduced():
    text = SUM.format(n=32, threads=8, outer=4)
    with pytest.raises(ValueError, match="the reduction of block 'B' is not recognized"):
        lowered(text.replace("B[vi] + A[vi, vk]", "A[vi, vk] - B[vi]"))
    text = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for k in T.thread_binding(8, thread="threadIdx.x"):
        for i in range(8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
"""
    with pytest.raises(ValueError, match="loop i inside its reduction's loops"):
        lowered(text)


def test_threads_that_do_not_meet():
    """A barrier that one thread does not reach is an error, not a hang."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    tx = T.launch_thread("threadIdx.x", 4)
    A[tx] = A[9 - tx]
    T.tvm_storage_sync("shared")
""")
    with pytest.raises(IndexError, match="out of bounds"):
        run(func, [np.zeros(4, "float32")])


def test_values_between_threads():
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    tx = T.launch_thread("threadIdx.x", 8)
    B[tx] = T.tvm_warp_shuffle(T.tvm_warp_activemask(), A[tx], 3 - tx % 4, 4, 32)
    C[tx] = T.tvm_warp_shuffle_down(T.tvm_warp_activemask(), A[tx], 1, 4, 32)
""")
    a = np.arange(8, dtype="float32")
    b, c = np.zeros(8, "float32"), np.zeros(8, "float32")
    run(func, [a, b, c])
    np.testing.assert_array_equal(b, [3, 2, 1, 0, 7, 6, 5, 4])
    np.testing.assert_array_equal(c, [1, 2, 3, 3, 5, 6, 7, 7])


WARP = """
@T.prim_func
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    tx = T.launch_thread("threadIdx.x", 8)
    w = T.allocate([32], "float32", "{scope}")
    W = T.Buffer((32,), data=w, scope="{scope}")
    for o, i in T.grid(2, 2):
        W[o * 16 + tx * 2 + i] = A[o * 16 + tx * 2 + i] * T.float32(3)
    {sync}
    for o, i in T.grid(2, 2):
        B[o * 16 + tx * 2 + i] = W[o * 16 + (7 - tx) * 2 + i] + W[o * 16 + tx * 2 + i]
"""


def test_warp_memory():
    """As memory that all threads share, with a barrier; as registers, with shuffles."""
    shared = from_source(WARP.format(scope="shared", sync='T.tvm_storage_sync("shared")'))
    warp = IRModule({"main": from_source(WARP.format(scope="warp", sync="T.evaluate(0)"))})
    after = tt.LowerWarpMemory(8)(warp)
    text = after.script()
    assert "T.allocate([4]" in text and text.count("tvm_warp_shuffle(") == 1
    ta.verify_well_formed(after)
    a = np.arange(32, dtype="float32")
    want, got = np.zeros(32, "float32"), np.zeros(32, "float32")
    run(shared, [a, want])
    run(after["main"], [a, got])
    np.testing.assert_array_equal(got, want)
    assert want[0] == 3 * (a[14] + a[0])


def test_what_is_no_warp_memory():
    def lower(text):
        return tt.LowerWarpMemory(8)(IRModule({"main": from_source(text)}))

    text = WARP.format(scope="warp", sync="T.evaluate(0)")
    with pytest.raises(ValueError, match=r"store at tx \* m"):
        lower(text.replace("W[o * 16 + tx * 2 + i] = ", "W[o * 16 + i] = "))
    with pytest.raises(ValueError, match="put the warps along threadIdx.y"):
        lower(text.replace('"threadIdx.x", 8', '"threadIdx.x", 16'))
    with pytest.raises(ValueError, match="a thread stores to what another lane holds"):
        lower(text.replace("W[o * 16 + tx * 2 + i] = ", "W[o * 16 + tx * 2 + i + 2] = "))


def test_a_thread_that_ends_early_is_found_without_waiting(monkeypatch):
    """The others do not wait for a time: a slow thread is no missing one, a missing one is found
    at once."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    tx = T.launch_thread("threadIdx.x", 4)
    if tx < 3:
        T.tvm_storage_sync("shared")
    A[tx] = T.float32(1)
""")
    times, wait = [], threading.Condition.wait
    monkeypatch.setattr(
        threading.Condition, "wait", lambda own, time=None: times.append(time) or wait(own, time)
    )
    with pytest.raises(RuntimeError, match="did not come to this barrier"):
        run(func, [np.zeros(4, "float32")])
    assert set(times) <= {None}


def test_an_allreduce_runs_before_it_is_lowered():
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((3, 8), "float32"), B: T.Buffer((3,), "float32")):
    bx = T.launch_thread("blockIdx.x", 3)
    tx = T.launch_thread("threadIdx.x", 8)
    r = T.allocate([1], "float32", "local")
    R = T.Buffer((1,), data=r, scope="local")
    with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
        T.tvm_thread_allreduce(T.uint32(1), A[bx, tx], T.bool(True), R[0], tx)
    if tx == 0:
        B[bx] = R[0]
""")
    a = np.random.default_rng(0).random((3, 8), "float32")
    b = np.zeros(3, "float32")
    run(func, [a, b])
    np.testing.assert_allclose(b, a.sum(1), rtol=1e-6)


def test_one_element_for_each_thread_is_combined_as_it_is():
    text = """
@T.prim_func
def main(A: T.Buffer((3, 8), "float32"), B: T.Buffer((3,), "float32")):
    for i in range(3):
        for k in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
"""
    after = lowered(text)["main"]
    assert "in_thread" not in after.script()
    values, sums = np.arange(24, dtype="float32").reshape(3, 8), np.zeros(3, "float32")
    run(after, [values, sums])
    np.testing.assert_array_equal(sums, values.sum(axis=1))
    blocks = from_source(text.replace("threadIdx.x", "blockIdx.x"))
    with pytest.raises(ValueError, match="reduces over blockIdx.x"):
        tt.LowerCrossThreadReduction()(IRModule({"main": blocks}))


WARPS = """
@T.prim_func
def main(A: T.Buffer(({groups}, {n}), "float32"), B: T.Buffer(({groups},), "float32")):
    T.func_attr({{"target": T.target("{target}")}})
    y = T.launch_thread("threadIdx.y", {groups})
    x = T.launch_thread("threadIdx.x", {n})
    r = T.allocate([1], "float32", "local")
    R = T.Buffer((1,), data=r, scope="local")
    with T.attr(T.comm_reducer(lambda a, b: T.max(a, b), [T.float32(-100)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
        T.tvm_thread_allreduce(T.uint32(1), A[y, x], {condition}, R[0], x)
    if x == {reader}:
        B[y] = R[0]
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("target", ["cuda", "metal -thread_warp_size=32"])
@pytest.mark.parametrize(
    ("groups", "n", "warps"),
    [(1, 32, 1), (4, 8, 1), (1, 12, 1), (2, 12, 0), (1, 64, 2), (2, 96, 2)],
)
def test_warps(groups, n, warps, target):
    a = np.random.default_rng(0).standard_normal((groups, n)).astype("float32") - 3
    for condition, rows in (("T.bool(True)", a), ("x % 2 == 0", a[:, ::2])):
        text = WARPS.format(groups=groups, n=n, target=target, condition=condition, reader=n - 1)
        func = tt.LowerThreadAllreduce()(IRModule({"main": from_source(text)}))["main"]
        ta.verify_well_formed(func)
        script = func.script()
        assert ("tvm_warp_shuffle_down" in script) == (warps > 0)
        assert ('"shared") as red_result' in script or "red_result = T.allocate" in script) == (
            warps > 1
        )
        assert ("tvm_warp_activemask" in script) == (warps > 0 and target == "cuda")
        b = np.zeros(groups, "float32")
        run(func, [a, b])
        np.testing.assert_array_equal(b, rows.max(axis=1))


def test_warps_reduce_several_values_at_once():
    """The greatest value and its place; the result goes to memory of others."""
    text = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32"), C: T.Buffer((1,), "int32")):
    T.func_attr({"target": T.target("cuda")})
    x = T.launch_thread("threadIdx.x", 64)
    with T.attr(T.comm_reducer(lambda a, i, b, j: (T.Select(a >= b, a, b), T.Select(a >= b, i, j)), [T.float32(-100), -1]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
        T.tvm_thread_allreduce(T.uint32(2), A[x], x, T.bool(True), B[0], C[0], x)
"""
    func = tt.LowerThreadAllreduce()(IRModule({"main": from_source(text)}))["main"]
    ta.verify_well_formed(func)
    a = np.random.default_rng(1).standard_normal(64).astype("float32")
    b, c = np.zeros(1, "float32"), np.zeros(1, "int32")
    run(func, [a, b, c])
    assert (b[0], c[0]) == (a.max(), a.argmax()) and "shuffle_down" in func.script()


@pytest.mark.parametrize(
    ("dtype", "targets"),
    [
        ("float32", "cuda rocm"),
        ("int32", "cuda rocm"),
        ("float64", "cuda"),
        ("float16x2", "cuda rocm"),
        ("float32x2", ""),
        ("float16", ""),
        ("int8", ""),
    ],
)
def test_types_that_warps_exchange(dtype, targets):
    """Those of 32 bits and, but for rocm, of 64."""
    text = WARPS.replace('"float32"', f'"{dtype}"').replace("(1,), data", f'(1,), "{dtype}", data')
    zero = f"T.{dtype}(0)" if "x" not in dtype else f"T.Broadcast(T.{dtype.split('x')[0]}(0), 2)"
    text = text.replace("T.float32(-100)", zero).replace("T.max(a, b)", "a + b")
    found = []
    for target in ("cuda", "rocm"):
        size = int(Target(target).thread_warp_size)
        given = text.format(
            groups=1, n=size, target=target, condition="T.bool(True)", reader=size - 1
        )
        after = tt.LowerThreadAllreduce()(IRModule({"main": from_source(given)}))
        found += [target] if "tvm_warp_shuffle" in after.script() else []
    assert found == targets.split()


@pytest.mark.parametrize("where", ["i < 2", "i < 2 and ki < 6", "ki < 6"])
def test_rows_that_a_predicate_leaves_out(where):
    """What the predicate says of the rows holds for what is written, too."""
    text = SUM.format(n=8, threads=8, outer=1).replace("ko * 8 + ki < 8", where)
    mod = lowered(text)
    a = np.arange(24, dtype="float32").reshape(3, 8)
    b = np.full(3, -1, "float32")
    run(mod["main"], [a, b])
    sums = a[:, : 6 if "ki" in where else 8].sum(1)
    np.testing.assert_array_equal(b, [*sums[:2], -1 if "i < 2" in where else sums[2]])


def test_the_warps_of_a_target():
    text = WARP.format(scope="warp", sync="T.evaluate(0)")
    wide = text.replace('"threadIdx.x", 8', '"threadIdx.x", 32').replace("7 - tx", "31 - tx")
    for old, new in (("[32]", "[128]"), ("(32,)", "(128,)"), ("o * 16", "o * 64")):
        wide = wide.replace(old, new)
    mod = IRModule({"main": from_source(wide)})
    want = tt.LowerWarpMemory(32)(mod)
    assert_structural_equal(tt.LowerWarpMemory()(mod), want)
    with Target("cuda"):
        assert_structural_equal(tt.LowerWarpMemory()(mod), want)
    for old, new, message in (
        ("T.allocate([32]", "T.allocate([36]", "a multiple of the elements that its lanes hold"),
        ('"threadIdx.x", 8', '"threadIdx.x", 12', "must be in a launch of threadIdx.x"),
    ):
        with pytest.raises(ValueError, match=message):
            tt.LowerWarpMemory(8)(IRModule({"main": from_source(text.replace(old, new))}))
