"""Accesses out of bounds, racy parallel loops, host access: each caught with its line."""

from __future__ import annotations

from textwrap import indent

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.module import IRModule
from loopwright.ir.transform import PassContext
from loopwright.script import from_source
from loopwright.target import Target
from loopwright.tir import analysis as ta
from loopwright.tir import transform as tt
from loopwright.tir.analysis.memory import host_access_errors
from loopwright.tir.interpreter import run

CHECKED = {"tir.instrument_bound_checkers": True}
SHIFTED = """
@T.prim_func
def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32"), k: T.int32):
    T.func_attr({"global_symbol": "main"})
    for i in T.parallel(8):
        for j in T.vectorized(16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi + k, vj] + T.float32(1)
"""
PADDED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), P: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.reads(A[0:8], P[v])
            T.writes(B[v])
            B[v] = T.if_then_else(v < 7, A[v + 1], T.float32(0)) + A[P[v]]
"""


def lowered(text):
    with PassContext(config=CHECKED):
        return tt.lower_to_loops()(IRModule({"main": from_source(text)}))["main"]


def test_compiled_access_outside_is_an_error():
    with PassContext(config=CHECKED):
        exe = lw.compile(from_source(SHIFTED))
    a = np.random.default_rng(0).random((8, 16), "float32")
    b = np.zeros_like(a)
    exe["main"](a, b, 0)
    np.testing.assert_array_equal(b, a + 1)
    with pytest.raises(
        ValueError, match=r"A: index i \+ k = (8|9|10) is outside of axis 0 \(8 elements\)"
    ) as e:
        exe["main"](a, b, 3)
    assert "B[vi, vj] = A[vi + k, vj] + T.float32(1)" in str(e.value)
    assert "^^^^^^^^^^^^^" in str(e.value)


def test_guarded_and_gathered_accesses():
    func = lowered(PADDED)
    a = np.arange(8, dtype="float32")
    index = np.array([3, 0, 7, 1, 2, 2, 5, 6], "int32")
    b = np.zeros(8, "float32")
    run(func, [a, index, b])
    np.testing.assert_array_equal(b, np.append(a[1:], 0) + a[index])
    index[4] = 8
    with pytest.raises(AssertionError, match=r"A: index P\[i\] = 8 is outside of axis 0"):
        run(func, [a, index, b])


def test_nothing_is_checked_that_is_proven():
    text = SHIFTED.replace("vi + k", "vi")
    assert "assert" not in lowered(text).script()


def test_static_out_of_bounds():
    func = from_source(SHIFTED.replace("vi + k", "vi + 1"))
    assert not ta.verify_in_bounds(func, assert_mode=False)
    with pytest.raises(IndexError) as e:
        ta.OOBChecker()(IRModule({"main": func}))
    text = str(e.value)
    assert "buffer A is read outside of its bounds" in text
    assert "index 8 on axis 0, which has 8 elements, where i = 7, j = 0" in text
    assert "A[vi + 1, vj]" in text
    assert ta.verify_in_bounds(from_source(SHIFTED))
    inside = IRModule({"main": from_source(SHIFTED)})
    assert ta.OOBChecker()(inside) is inside
    assert ta.verify_in_bounds(from_source(PADDED))


RACES = {
    "reduction": ("C[j] = C[j] + A[i, j]", "C[0], which i = 1 writes and i = 0 writes"),
    "halved": ("C[i // 2] = A[i, j]", "C[0], which i = 1 writes and i = 0 writes"),
    "neighbour": ("C[i] = C[i + 1] + A[i, j]", "C[1], which i = 0 reads and i = 1 writes"),
    "wrapped": ("C[i % 4] = A[i, j]", "C[0], which i = 4 writes and i = 0 writes"),
    "own": ("C[i] = C[i] + A[i, j]", None),
    "scattered": ("C[P[i]] = A[i, j]", None),
    "guarded": ("if i == 3:\n                C[0] = A[i, j]", None),
}


@pytest.mark.parametrize("case", RACES)
def test_races(case):
    statement, got = RACES[case]
    func = from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((5, 4), "float32"), C: T.Buffer((6,), "float32"), P: T.Buffer((5,), "int32")):
    for i in T.parallel(5):
        for j in range(4):
            {statement}
"""
    )
    assert ta.verify_parallel(func, assert_mode=False) is (got is None)
    if got is not None:
        with pytest.raises(ValueError) as e:
            tt.lower_to_loops()(IRModule({"main": func}))
        assert got in str(e.value)
        assert "for i in T.parallel(5):" in str(e.value)
        assert statement in str(e.value)


LANES = {
    "neighbour": ("B[i + 1] = B[i] * T.float32(2)", "B[1], which i = 1 reads and i = 0 writes"),
    "reversed": ("B[i] = B[7 - i]", "B[0], which i = 7 reads and i = 0 writes"),
    "two": ("B[i] = A[i]\n        B[i + 1] = A[i]", "B[1], which i = 0 writes and i = 1 writes"),
    "two zeros": ("B[i] = T.float32(0)\n        B[i + 1] = T.float32(0)", None),
    "ahead": ("B[i] = B[i + 1]", None),
    "halved": ("B[i // 2] = A[i]", None),
    "sum": ("B[0] = B[0] + A[i]", None),
    "own": ("B[i] = A[i]\n        B[i] = B[i] + B[i]", None),
    "overlapping": (
        "for j in range(3):\n            B[i * 2 + j] = A[i + j]",
        "B[2], which i = 1 writes and i = 0 writes",
    ),
    "inner": ("for j in range(2):\n            B[i * 2 + j] = A[i + j]", None),
}


@pytest.mark.parametrize("case", LANES)
def test_lanes_keep_the_order(case):
    """A vectorized loop runs each statement for all lanes: refused where that is another order,
    else compiled to what the serial loop gives."""
    statement, got = LANES[case]
    source = f"""
@T.prim_func
def main(A: T.Buffer((17,), "float32"), B: T.Buffer((17,), "float32")):
    T.func_attr({{"tir.is_scheduled": True}})
    for i in T.vectorized(8):
        {statement}
"""
    if got is not None:
        with pytest.raises(ValueError) as e:
            lw.compile(from_source(source))
        assert got in str(e.value)
        assert "for i in T.vectorized(8):" in str(e.value)
        return
    a, made, wanted = (np.arange(n, n + 17, dtype="float32") for n in (1, 90, 90))
    lw.compile(from_source(source))["main"](a, made)
    run(from_source(source.replace("T.vectorized", "range")), [a, wanted])
    np.testing.assert_array_equal(made, wanted)


def test_virtual_threads_that_race():
    source = """
@T.prim_func
def main(B: T.Buffer((9,), "float32")):
    for i in T.thread_binding(8, thread="vthread.x"):
        B[i + 1] = B[i]
"""
    with pytest.raises(ValueError, match=r"B\[1\], which i = 1 reads and i = 0 writes"):
        lw.compile(from_source(source))


@pytest.mark.parametrize("inside", [True, False])
def test_memory_of_one_iteration(inside):
    """A block's buffer that only the loop uses is each iteration's own."""
    after = "" if inside else "    for j in range(4):\n            C[0, j] = acc[j]"
    func = from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((5, 4), "float32"), C: T.Buffer((5, 4), "float32")):
    with T.block("root"):
        acc = T.alloc_buffer((4,), "float32")
        for i in T.parallel(5):
            for j in range(4):
                acc[j] = A[i, j]
            for j in range(4):
                C[i, j] = acc[3 - j]
    {after}
"""
    )
    assert ta.verify_parallel(func, assert_mode=False) is inside


def test_host_access():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    T.func_attr({{"target": T.target("{target}")}})
    for i in {loop}:
        A[i] = T.float32(0)
"""
    bound = 'T.thread_binding(8, thread="threadIdx.x")'
    assert ta.verify_memory(from_source(text.format(target="cuda", loop=bound)))
    assert ta.verify_memory(from_source(text.format(target="llvm", loop="range(8)")))
    bad = from_source(text.format(target="cuda", loop="range(8)"))
    assert not ta.verify_memory(bad)
    with pytest.raises(RuntimeError, match="the host writes A, which is memory of the device"):
        tt.VerifyMemory()(IRModule({"main": bad}))


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("T.attr(x, 'thread_extent', 8)\nA[x] = T.float32(0)", ""),
        ("T.attr(x, 'pragma', 8)\nA[x] = T.float32(0)", "writes A"),
        ("T.evaluate(T.exp(A[0]))", "reads A"),
        ("y: T.float32 = A[0]\nT.evaluate(y)", "reads A"),
        ("L = T.decl_buffer((4,))\nL[0] = L[1]", ""),
        ("L = T.decl_buffer((4,), scope='shared')\nL[0] = L[1]", "reads L, writes L"),
        ("L = T.decl_buffer((4,))\nL[T.Cast('int32', A[1])] = L[T.Cast('int32', A[2])]", "reads A, reads A"),
        ("L = T.decl_buffer((4,))\nL[0] = A[1]", "reads A"),
        ("for i in T.thread_binding(8, thread='threadIdx.x'):\n    A[i] = T.float32(0)\nA[0] = T.float32(1)", "writes A"),
        ("T.func_attr({'calling_conv': 2})\nA[0] = T.float32(1)", ""),
        ("T.func_attr({'calling_conv': 1})\nA[0] = T.float32(1)", "writes A"),
    ],
)  # fmt: skip
def test_memory_of_the_device(body: str, wanted: str) -> None:
    text = '@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), x: T.int32):\n' + indent(
        body, "    "
    )
    func = from_source(text)
    assert host_access_errors(func) == []
    for kind in ("cuda", "opencl", "metal"):
        found = host_access_errors(func.with_attr("target", Target(kind)))
        said = [e.split(",")[0].removeprefix("the host ") for e in found]
        assert sorted(said) == sorted(wanted.split(", ") if wanted else [])


def test_limits_of_a_gpu():
    func = from_source(
        """
@T.prim_func
def main(A: T.Buffer((64, 32), "float32")):
    bx = T.launch_thread("blockIdx.x", 64)
    tx = T.launch_thread("threadIdx.x", 8)
    ty = T.launch_thread("threadIdx.y", 4)
    s = T.allocate([256], "float32", "shared")
    S = T.Buffer((256,), data=s, scope="shared")
    S[tx * 4:tx * 4 + 4] = T.Broadcast(T.float32(1), 4)
    A[bx, tx * 4 + ty] = S[tx * 4 + ty]
"""
    )
    used = {
        "max_threads_per_block": 32,
        "max_thread_x": 8,
        "max_thread_y": 4,
        "max_shared_memory_per_block": 1024,
        "max_vector_bytes": 16,
        "max_kernels": 1,
    }
    assert ta.verify_gpu_code(func, used)
    for name, most in used.items():
        assert not ta.verify_gpu_code(func, {**used, name: most - 1})
    (text,) = ta.gpu_code_errors(func, {"max_threads_per_block": 16})
    assert text == "at most 16 threads in a block\n  got: 32"
    with pytest.raises(ValueError, match="unknown limits of GPU code"):
        ta.verify_gpu_code(func, {"max_warps": 1})


def test_limits_of_kernels_of_a_function():
    """Each kernel has threads and memory of its own; a size that is not known counts once."""
    func = from_source(
        """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), n: T.int32):
    with T.launch_thread("threadIdx.x", 8) as tx:
        with T.launch_thread("threadIdx.z", n) as tz:
            with T.allocate([3, n], "float64", "shared.dyn") as s:
                with T.allocate([6], "int8x2", "local") as t:
                    with T.allocate([7], "int8", "local") as u:
                        A[tx] = T.float32(0)
    with T.launch_thread("threadIdx.y", 3) as ty:
        with T.launch_thread("vthread", 5) as v:
            with T.launch_thread("cthread", 4) as c:
                with T.allocate([5], "int8", "shared") as s:
                    with T.allocate([99], "float64", "global") as t:
                        T.evaluate(A[ty * 8:ty * 8 + 8])
"""
    )
    used = {
        "max_threads_per_block": 8, "max_thread_x": 8, "max_thread_y": 3, "max_thread_z": 1,
        "max_shared_memory_per_block": 24, "max_local_memory_per_block": 19, "max_vthread": 5,
        "max_vector_bytes": 32, "max_kernels": 2,
    }  # fmt: skip
    assert ta.verify_gpu_code(func, used)
    for name, most in used.items():
        (text,) = ta.gpu_code_errors(func, {name: most - 1})
        assert text.endswith(f"got: {most}")


def test_a_tile_computed_beyond_a_small_axis_is_in_bounds_of_its_own_buffer():
    """A kernel for tiles of 8 rows, run on one row."""

    text = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("a", "b", 64), "float32"), w: R.Tensor((64, 64), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            R.output(y)
        return y
"""
    with PassContext(config=CHECKED):
        exe = lw.compile(from_source(text))
    for b in (1, 9):
        x, w = np.ones((3, b, 64), "float32"), np.ones((64, 64), "float32")
        np.testing.assert_array_equal(exe["main"](x, w).numpy(), x @ w)
