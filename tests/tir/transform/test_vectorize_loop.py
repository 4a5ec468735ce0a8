"""`VectorizeLoop` with conditions, by default and as the pipelines of this package use it."""

import numpy as np
import pytest

from loopwright.base.errors import InternalError
from loopwright.ir.module import IRModule
from loopwright.ir.target import Target
from loopwright.ir.transform import PassContext
from loopwright.script import from_source
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

SVE = "llvm -mtriple=aarch64-linux-gnu -mattr=+v8.2a,+sve"
TAIL = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(4):
        for j in T.vectorized(4):
            if {condition}:
                B[i * 4 + j] = A[{read}] + T.float32(1)
"""


def lowered(condition="i * 4 + j < 14", read="i * 4 + j", masks=None, **options):
    mod = IRModule({"main": from_source(TAIL.format(condition=condition, read=read))})
    config = {} if masks is None else {"tir.enable_buffer_level_predication": masks}
    with PassContext(config=config):
        func = tt.VectorizeLoop(**options)(mod)["main"]
    a, got, wanted = np.arange(16, dtype="float32"), *np.zeros((2, 16), "float32")
    run(mod["main"], [a, wanted])
    run(func, [a, got])
    np.testing.assert_array_equal(got, wanted)
    return func.script()


def test_masks_are_asked_for():
    assert "vstore" not in lowered()
    text = lowered(masks=True)
    assert text.count("T.get_active_lane_mask") == 2  # of the load and of the store
    with Target(SVE):
        assert "T.get_active_lane_mask" in lowered()
        assert "vstore" not in lowered(masks=False)


@pytest.mark.parametrize(
    ("condition", "read"),
    [("i * 4 + j < 14", "i"), ("i * 4 + j > 5", "i * 4 + j"), ("i * 4 + j < i * 2 + j * 3", "j")],
)
def test_other_masks_are_native_only(condition, read):
    assert "vstore" not in lowered(condition, read, masks=True)
    assert "vstore" in lowered(condition, read, native=True)
    assert "vstore" not in lowered(condition, read, masks=False, native=True)


def test_statements_with_elements_of_their_own_are_separate_loops():
    mod = IRModule(
        {
            "main": from_source(
                """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), n: T.int32):
    for j in T.vectorized(4):
        if j > n:
            A[j] = T.float32(1)
        A[j] = A[j] * T.float32(3)
"""
            )
        }
    )
    func = tt.VectorizeLoop()(mod)["main"]
    assert len(func.body.seq) == 2 and "T.Broadcast(T.float32(3.0), 4)" in func.script()
    got = np.full(4, 2, "float32")
    run(func, [got, 1])
    np.testing.assert_array_equal(got, [6, 6, 3, 3])


def test_memory_of_the_body_needs_no_declaration():
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    for j in T.vectorized(4):
        t = T.allocate([2], "float32", "local")
        B = T.Buffer((2,), data=t, scope="local")
        B[1] = A[j]
        A[j] = B[1] * T.float32(2)
"""
    func = tt.VectorizeLoop()(IRModule({"main": from_source(text)}))["main"]
    assert "for" not in func.script()
    got = np.arange(4, dtype="float32")
    run(func, [got])
    np.testing.assert_array_equal(got, [0, 2, 4, 6])


@pytest.mark.no_verify
@pytest.mark.parametrize(
    ("extent", "dtype", "value", "got"),
    [
        ("T.vscale() * 4", "float32x4", "T.Broadcast(T.float32(1), 4)", "Creating scalable"),
        ("4", "float32xvscalex4", "T.Broadcast(T.float32(1), T.vscale() * 4)", "scalable buffer"),
    ],
)
def test_vectors_of_scalable_vectors(extent, dtype, value, got):
    text = f"""
@T.prim_func
def main(A: T.Buffer((25,), "{dtype}")):
    for j in T.vectorized({extent}):
        A[j] = {value}
"""
    with Target(SVE), pytest.raises(InternalError, match=got):
        tt.VectorizeLoop()(IRModule({"main": from_source(text)}))


@pytest.mark.parametrize(("name", "vector"), [("llvm.sqrt", True), ("llvm.lround", False)])
def test_intrinsics_of_llvm_with_overloads_for_vectors(name, vector):
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for j in T.vectorized(8):
        B[j] = T.call_llvm_pure_intrin("float32", "{name}", T.uint32(1), A[j])
""")
    text = tt.VectorizeLoop()(IRModule({"main": func}))["main"].script()
    call = f'T.call_llvm_pure_intrin("float32x8", "{name}", T.uint32(1), A[0:8])'
    assert (call in text) == vector and ("for j" in text) != vector
