"""The tensor intrinsics that are known by name: in the interpreter, and in LLVM where the machine
has the instructions."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import te, tir
from loopwright.base.host import host
from loopwright.codegen.llvm.compiler import CompileError
from loopwright.ir.structural import assert_structural_equal
from loopwright.script import from_source
from loopwright.script import tir as T
from loopwright.tir import tensor_intrin
from loopwright.tir.interpreter import run
from loopwright.tir.tensor_intrin import hexagon, rocm

KNOWN = tensor_intrin.KNOWN
ROWS = [name for name, spec in KNOWN.items() if spec[0] > 1]
SINGLE = [name for name, spec in KNOWN.items() if spec[0] == 1]


def matmul(spec: tuple[int, str, str, str, Any], packed: bool) -> tir.PrimFunc:
    """A matrix product whose weights are (n, k), or packed in tiles of the intrinsic's."""
    rows, a, b, c, _ = spec
    m, n, k = 3, 2 * max(rows, 4), 16
    x = te.placeholder((m, k), a, "A")
    r = te.reduce_axis((0, k), "k")
    if packed:
        w = te.placeholder((n // rows, k // 4, rows, 4), b, "B")
        weight = lambda j: w[j // rows, r // 4, j % rows, r % 4]  # noqa: E731
    else:
        w = te.placeholder((n, k), b, "B")
        weight = lambda j: w[j, r]  # noqa: E731
    y = te.compute(
        (m, n),
        lambda i, j: te.sum(x[i, r].astype(c) * weight(j).astype(c), axis=r),
        name="C",
    )
    return te.create_prim_func([x, w, y])


def tensorized(name: str, func: tir.PrimFunc) -> tir.Schedule:
    sch = tir.Schedule(func, debug_mask="all")
    block = sch.get_block("C")
    tile = tir.schedule.transform.tile_with_tensor_intrin(sch, block, name)
    sch.decompose_reduction(block, sch.get_loops(block)[2])
    sch.tensorize(tile, name)
    return sch


def arguments(name: str, func: tir.PrimFunc) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    # AVX-512 adds pairs of products in int16: small numbers, as its users quantize to 7 bits.
    most = 64 if name == tensor_intrin.AVX512_DOT_16x4_INTRIN else 127
    made = []
    for buffer in func.buffers:
        shape = tuple(int(e) for e in buffer.shape)
        low = 0 if buffer.dtype.is_uint else -most
        made.append(rng.integers(low, most, shape).astype(str(buffer.dtype)))
    made[-1][:] = 0
    return made


def check(name: str, func: tir.PrimFunc) -> tir.Schedule:
    sch = tensorized(name, func)
    wanted, got = arguments(name, func), arguments(name, func)
    run(func, wanted)
    run(sch.mod["main"], got)
    np.testing.assert_array_equal(got[-1], wanted[-1])
    return sch


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str, packed: bool) -> None:
    func = matmul(KNOWN[name], packed)
    sch = check(name, func)
    native = compiled(name, sch)
    if native is not None:
        wanted, got = arguments(name, func), arguments(name, func)
        run(func, wanted)
        native["main"](*got)
        np.testing.assert_array_equal(got[-1], wanted[-1])


def compiled(name: str, sch: tir.Schedule) -> Any:
    """The program in LLVM; None, after it was refused, where the machine lacks the instruction."""
    arm, here = name.startswith("dot_4x4"), platform.machine() in ("aarch64", "arm64")
    feature = "avx512vnni" if name == tensor_intrin.VNNI_DOT_16x4_INTRIN else "avx512bw"
    if arm == here and (arm or feature in host().record.features):
        return lw.compile(sch.mod["main"])
    with pytest.raises(CompileError, match="the target has no instruction for llvm"):
        lw.compile(sch.mod["main"])
    return None


@pytest.mark.parametrize("name", SINGLE)
def test_one_row(name: str) -> None:
    _, a, b, c, _ = KNOWN[name]
    x, w = te.placeholder((5, 8), a, "A"), te.placeholder((8,), b, "B")
    r = te.reduce_axis((0, 8), "k")
    y = te.compute((5,), lambda i: te.sum(x[i, r].astype(c) * w[r].astype(c), axis=r), name="C")
    func = te.create_prim_func([x, w, y])
    sch = tir.Schedule(func)
    block = sch.get_block("C")
    k0, k1 = sch.split(sch.get_loops(block)[1], [None, 4])
    sch.decompose_reduction(block, k0)
    sch.tensorize(k1, name)
    wanted, got, native = (arguments(name, func) for _ in range(3))
    run(func, wanted)
    run(sch.mod["main"], got)
    lw.compile(sch.mod["main"])["main"](*native)
    np.testing.assert_array_equal(got[-1], wanted[-1])
    np.testing.assert_array_equal(native[-1], wanted[-1])


def test_the_registry() -> None:
    first = tir.TensorIntrin.get("dot_16x4_vnni")
    assert first is tir.TensorIntrin.get(tensor_intrin.VNNI_DOT_16x4_INTRIN)
    assert tir.TensorIntrin.get("no such", allow_missing=True) is None
    with pytest.raises(ValueError, match="did you mean dot_16x4_vnni"):
        tir.TensorIntrin.get("dot_16x4_vni")
    with pytest.raises(ValueError, match="tensor intrinsic exists"):
        tir.TensorIntrin.register("dot_16x4_avx512", first.desc, first.impl)


def test_tvm_paths() -> None:
    from loopwright.tir.tensor_intrin.x86 import VNNI_DOT_16x4_INTRIN

    assert VNNI_DOT_16x4_INTRIN == "dot_16x4_vnni"


@pytest.mark.parametrize("target", ["llvm -mcpu=core2", "llvm -mcpu=skylake"])
def test_a_processor_without_the_instruction(target):
    """LLVM would end the process."""

    @T.prim_func
    def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "f"})
        A[T.Ramp(0, 1, 16)] = T.call_llvm_pure_intrin(
            "int32x16",
            "llvm.x86.avx512.vpdpbusd.512",
            A[T.Ramp(0, 1, 16)],
            B[T.Ramp(0, 1, 16)],
            B[T.Ramp(0, 1, 16)],
        )

    with pytest.raises(CompileError, match="no instruction for llvm.x86.avx512.vpdpbusd.512"):
        lw.build(f, target=target)


@pytest.mark.parametrize("name", ["llvm.nvvm.barrier0", "llvm.amdgcn.s.barrier"])
def test_an_instruction_of_another_machine(name):
    @T.prim_func
    def f(A: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "f"})
        T.evaluate(T.call_llvm_intrin("void", name))
        A[0] = 1

    with pytest.raises(CompileError, match=f"no instruction for {name}"):
        lw.build(f, target="llvm")


@pytest.mark.parametrize(
    ("name", "shapes", "scope"),
    [
        (hexagon.VRMPY_u8u8i32_INTRIN, [(4,), (32, 4), (32,)], "global"),
        (hexagon.VDMPY_i16i16i32_INTRIN, [(2,), (32, 2), (32,)], "global"),
        (hexagon.VRMPY_u8i8i32_VTCM_INTRIN, [(4,), (32, 4), (32,)], "global.vtcm"),
        (rocm.AMDGPU_SDOT4_INTRIN, [(4,), (4,), (1,)], "shared"),
    ],
)
def test_intrinsics_of_other_machines(name, shapes, scope):
    intrin = tir.TensorIntrin.get(name)
    for func in (intrin.desc, intrin.impl):
        buffers = [func.buffer_map[p] for p in func.params]
        assert [tuple(map(int, b.shape)) for b in buffers] == shapes
        assert buffers[0].scope() == scope
        named = func.with_attr("global_symbol", "main")
        assert_structural_equal(from_source(named.script()), named)
    assert "call_llvm_pure_intrin" in intrin.impl.script()
