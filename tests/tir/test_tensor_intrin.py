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
from loopwright.testing import workloads
from loopwright.tir import tensor_intrin
from loopwright.tir.interpreter import run
from loopwright.tir.tensor_intrin.dot import Dot
from loopwright.tir.tensor_intrin.instructions import INSTRUCTIONS
from loopwright.tvm.tensor_intrin import cuda, hexagon, rocm

KNOWN = tensor_intrin.DOT_SPECS
ROWS = [name for name, spec in KNOWN.items() if spec.lanes > 1]
SINGLE = [name for name, spec in KNOWN.items() if spec.lanes == 1]
RECORDS = {c.rule.intrin: c.rule for c in INSTRUCTIONS.at("llvm")}


def matmul(spec: Dot, packed: bool) -> tir.PrimFunc:
    """A matrix product whose weights are (n, k), or packed in tiles of the intrinsic's."""
    rows, depth, a, b, c = spec.lanes, spec.depth, spec.a, spec.b, spec.c
    m, n, k = 3, 2 * max(rows, 4), 16
    x = te.placeholder((m, k), a, "A")
    r = te.reduce_axis((0, k), "k")
    if packed:
        w = te.placeholder((n // rows, k // depth, rows, depth), b, "B")
        weight = lambda j: w[j // rows, r // depth, j % rows, r % depth]  # noqa: E731
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
    # Pairs of products that are added in int16: small numbers, as their users quantize to 7 bits.
    most = 64 if name in RECORDS and RECORDS[name].requires else 127
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


@pytest.mark.sample(3)
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
    have = set(host().record.features)
    if {"avx512vnni", "avx512vl"} <= have:  # the same instruction
        have.add("avxvnni")
    if arm == here and (arm or RECORDS[name].features <= have):
        return lw.compile(sch.mod["main"])
    with pytest.raises(CompileError, match="the target has no instruction for llvm"):
        lw.compile(sch.mod["main"])
    return None


@pytest.mark.parametrize("name", SINGLE)
def test_one_row(name: str) -> None:
    a, b, c = KNOWN[name].a, KNOWN[name].b, KNOWN[name].c
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


# The tensor cores of NVIDIA's GPUs, which have no code here: descriptions run in the interpreter, and
# what implementations call is done by numpy as NVIDIA's PTX ISA says (ldmatrix, and "Matrix
# Fragments for mma.m16n8k16 with floating point type" and "for mma.m16n8k32").


def functions(name: str) -> tir.TensorIntrin:
    made = tir.TensorIntrin.get(name)
    assert made is not None
    return made


def fragment(matrix: np.ndarray, kind: str) -> np.ndarray:
    """(thread, register) of a matrix that `mma` takes: rows by eight, or, of B, columns."""
    per = 2 if kind == "C" or matrix.shape[kind == "A"] == 16 else 4  # elements in 32 bits
    lanes, made = np.arange(32), []
    for register in range(matrix.size // 32):
        part, low = divmod(register, per)
        along = lanes % 4 * per + low
        if kind == "B":
            made.append(matrix[along + 4 * per * part, lanes // 4])
        else:
            made.append(matrix[lanes // 4 + 8 * (part % 2), along + 4 * per * (part // 2)])
    return np.stack(made, axis=1)


def calls(func: tir.PrimFunc, stride: int) -> list[tuple[str, list[list[Any]]]]:
    """The intrinsics that are called, and the arguments of each thread; rows are `stride` apart."""
    found: list[tuple[str, list[list[Any]]]] = []
    lane = next(a.node.var for a in nodes(func, tir.AttrStmt) if a.attr_key == "thread_extent")
    known: dict[Any, Any] = {b.elem_offset: 0 for b in func.buffers}
    known |= {b.strides[0]: stride for b in func.buffers if b.strides}
    for call in nodes(func, tir.Call):
        if call.op.name.startswith(("tir.ptx_", "tir.mma_")):
            simplify = lw.arith.Analyzer().simplify
            at = [
                {**{k: lw.tir.const(v) for k, v in known.items()}, lane: lw.tir.const(n)}
                for n in range(32)
            ]
            args = [[simplify(tir.stmt_functor.substitute(a, m)) for a in call.args] for m in at]
            found.append((call.op.name.removeprefix("tir."), args))
    return found


def nodes(func: tir.PrimFunc, kind: type) -> list[Any]:
    found: list[Any] = []
    tir.stmt_functor.pre_order_visit(
        func.body, lambda x: found.append(x) if isinstance(x, kind) else None
    )
    return found


def loaded(name: str, matrix: np.ndarray) -> np.ndarray:
    """Registers after the implementation `name` has loaded a matrix out of wider rows."""
    impl = functions(name).impl
    registers = np.zeros((32, matrix.size // 32), matrix.dtype)
    if not nodes(impl, tir.Call):  # each thread by itself
        run(impl, [matrix, registers])
        return registers
    wide = np.zeros((matrix.shape[0], matrix.shape[1] + 8), matrix.dtype)
    wide[:, : matrix.shape[1]] = matrix
    ((_, lanes),) = calls(impl, wide.shape[1])
    pairs = wide.view("uint16") if matrix.itemsize == 1 else wide
    per, flat = 2 // matrix.itemsize, pairs.ravel()
    for part in range(4):
        rows = [int(a[6]) // per for a in lanes[8 * part : 8 * part + 8]]
        eight = np.stack([flat[r : r + 8] for r in rows])
        eight = eight.T if int(lanes[0][0]) else eight
        for n, args in enumerate(lanes):
            own = np.ascontiguousarray(eight[n // 4, n % 4 * 2 : n % 4 * 2 + 2])
            start = int(args[4]) - registers.shape[1] * n + 2 * per * part
            registers[n, start : start + 2 * per] = own.view(matrix.dtype)
    return registers


@pytest.mark.parametrize("a_turned", [False, True])
@pytest.mark.parametrize("b_turned", [False, True])
@pytest.mark.parametrize(("kind", "k", "out"), [("float16", 16, "float32"), ("int8", 32, "int32")])
def test_mma(
    kind: str, k: int, out: str, a_turned: bool, b_turned: bool, rng: np.random.Generator
) -> None:
    a, b = (rng.integers(-4, 5, s).astype(kind) for s in ((16, k), (k, 16)))
    wanted = a.astype(out) @ b.astype(out)
    group = cuda.get_mma_intrin_group("shared", "global", kind, out, a_turned, b_turned)
    stored = [np.ascontiguousarray(x.T) if t else x for x, t in ((a, a_turned), (b, b_turned))]
    # descriptions
    registers = [np.zeros((32, k // 2), kind) for _ in range(2)]
    for name, matrix, there in zip(("load_a", "load_b"), stored, registers, strict=True):
        run(functions(group[name]).desc, [matrix, there])
    total, got = np.full((32, 8), 7, out), np.zeros((16, 16), out)
    run(functions(group["init"]).desc, [total])
    run(functions(group["compute"]).desc, [*registers, total])
    run(functions(group["store"]).desc, [total, got])
    np.testing.assert_array_equal(got, wanted)
    # implementations
    left, right = (loaded(group[n], x) for n, x in zip(("load_a", "load_b"), stored, strict=True))
    np.testing.assert_array_equal(left, fragment(a, "A"))
    halves = np.concatenate([fragment(b[:, :8], "B"), fragment(b[:, 8:], "B")], axis=1)
    np.testing.assert_array_equal(right, halves)
    total = np.zeros((32, 8), out)
    for _, lanes in calls(functions(group["compute"]).impl, 16):
        spots = [[int(args[n]) for n in (7, 9, 11)] for args in lanes]
        steps = [np.subtract(s, spots[0]).tolist() for s in spots]
        assert steps == [[k // 2 * n, k // 2 * n, 8 * n] for n in range(32)]
        half, place = spots[0][1] // (k // 4), spots[0][2]
        assert spots[0][0] == 0 and place == 4 * half
        total[:, place : place + 4] = fragment(wanted[:, 8 * half : 8 * half + 8], "C")
    got[:] = 0
    run(functions(group["store"]).impl, [total, got])
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("b_turned", [False, True])
def test_wmma(b_turned: bool, rng: np.random.Generator) -> None:
    a, b = (rng.integers(-4, 5, (16, 16)).astype("float16") for _ in range(2))
    group = cuda.get_wmma_intrin_group("shared", "global", "float16", "float32", b_turned)
    one, two, got = np.zeros_like(a), np.zeros_like(b), np.ones((16, 16), "float32")
    run(functions(group["load_a"]).desc, [a, one])
    run(functions(group["load_b"]).desc, [b, two])
    run(functions(group["init"]).desc, [got])
    run(functions(group["compute"]).desc, [one, two, got])
    right = b.T if b_turned else b
    np.testing.assert_array_equal(got, a.astype("float32") @ right.astype("float32"))
    (call,) = (
        x for x in nodes(functions(group["load_b"]).impl, tir.Call) if "load_matrix" in x.op.name
    )
    assert call.args[7].value == ("col_major" if b_turned else "row_major")


def test_matmul_on_tensor_cores() -> None:
    def layout(i: tir.Var, j: tir.Var) -> tuple[Any, ...]:
        return (i // 16, j // 16, *cuda.shared_16x16_to_ldmatrix_32x8_layout(i % 16, j % 16))

    x, y = (te.placeholder((128, 128), "float16", name) for name in "AB")
    k = te.reduce_axis((0, 128), "k")
    z = te.compute(
        (128, 128),
        lambda i, j: te.sum(x[i, k].astype("float32") * y[k, j].astype("float32"), axis=k),
        name="C",
    )
    group = cuda.get_mma_intrin_group(
        "shared.dyn", "global", "float16", "float32", False, False, False
    )
    names = [group[n] for n in ("load_a", "load_b", "compute", "init", "store")]
    factors = [1, 2, 1, 2, 2], [2, 1, 2, 1, 2], [4, 2, 1]
    sch = workloads.mma_schedule(
        te.create_prim_func([x, y, z]),
        16,
        "float16",
        False,
        *factors,
        *[layout] * 3,
        *names,
        "shared.dyn",
    )
    seen = [call.op.name for call in nodes(sch.mod["main"], tir.Call)]
    assert [seen.count(f"tir.{n}") for n in ("ptx_ldmatrix", "ptx_mma", "mma_store")] == [2, 2, 1]
    assert sch.get(sch.get_loops(sch.get_block("C_o_update"))[3]).extent == 4
