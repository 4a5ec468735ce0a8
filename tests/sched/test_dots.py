"""Products by instructions that add several terms: which one a target has, and that the numbers stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, te, tir
from loopwright.ir.target import Target
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.sched.apply import ApplyDefaultSchedule
from loopwright.script import tir as T
from loopwright.tir.interpreter import run
from loopwright.tir.tensor_intrin.instructions import (
    INSTRUCTIONS,
    PAIRS_FIT,
    SEVEN_BITS,
    dot_product,
    register_instruction,
)

X86 = "llvm -mtriple=x86_64-linux-gnu -mcpu="
ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu="
CPUS = [X86 + "haswell", X86 + "skylake-avx512", X86 + "cascadelake", ARM + "neoverse-v1"]
UNSIGNED, SIGNED = ("uint8", "int8", "int32"), ("int8", "int8", "int32")
WEIGHTS = ("int8", "uint8", "int32")
BFLOAT16 = ("bfloat16", "bfloat16", "float32")


@pytest.mark.parametrize(
    ("cpu", "dtypes", "lanes", "facts", "expected"),
    [
        ("haswell", UNSIGNED, 8, (), "dot_8x4_words_avx2"),
        ("haswell", UNSIGNED, 8, (PAIRS_FIT,), "dot_8x4_avx2"),
        ("haswell", SIGNED, 8, (), "dot_8x4_i8i8s32_words_avx2"),
        ("haswell", BFLOAT16, 8, (), None),
        ("alderlake", UNSIGNED, 8, (), "dot_8x4_avxvnni"),
        ("skylake-avx512", UNSIGNED, 16, (), "dot_16x4_words_avx512"),
        ("skylake-avx512", UNSIGNED, 16, (PAIRS_FIT,), "dot_16x4_avx512"),
        ("cascadelake", UNSIGNED, 16, (), "dot_16x4_vnni"),
        ("cooperlake", BFLOAT16, 16, (), "dot_16x2_bf16"),
        ("cooperlake", ("int16", "int16", "int32"), 16, (), "dot_16x2_i16_vnni"),
        ("skylake-avx512", ("int16", "int16", "int32"), 16, (), "dot_16x2_i16"),
        ("neoverse-v1", ("int16", "int16", "int32"), 4, (), None),
        ("nehalem", UNSIGNED, 4, (), None),
        ("neoverse-v1", UNSIGNED, 4, (), "dot_4x4_u8i8s32_usdot"),
        ("neoverse-v1", BFLOAT16, 4, (), "dot_4x2_bf16_bfdot"),
        ("cortex-a76", SIGNED, 4, (), "dot_4x4_i8i8s32_sdot"),
        ("cortex-a76", UNSIGNED, 4, (), None),
        ("cortex-a72", SIGNED, 4, (), "dot_4x4_i8i8s32_neon"),
        ("cascadelake", WEIGHTS, 16, (), "dot_16x4_vnni_i8u8s32"),
        ("haswell", WEIGHTS, 8, (PAIRS_FIT,), "dot_8x4_avx2_i8u8s32"),
        ("neoverse-v1", WEIGHTS, 4, (), "dot_4x4_i8u8s32_usdot"),
        ("cortex-a76", WEIGHTS, 4, (SEVEN_BITS,), "dot_4x4_i8i8s32_sdot_of_seven_bits"),
        ("cortex-a76", WEIGHTS, 4, (), None),
    ],
)
def test_the_cheapest_instruction_of_a_processor(
    cpu: str, dtypes: Any, lanes: int, facts: Any, expected: str | None
) -> None:
    arch = ARM if cpu.startswith(("neoverse", "cortex")) else X86
    dot = dot_product(Target(arch + cpu), dtypes, lanes, facts)
    assert (dot and dot.intrin) == expected
    each = dot_product(Target(arch + cpu), dtypes, lanes, facts, each=True)
    assert (each and each.intrin) == (expected and f"{expected}_each")


def product(rows: Any, depth: int, columns: int, dtype: str, narrow: bool = False) -> Any:
    """The module of data times constant bytes, the data and the expected sums."""
    rng = np.random.default_rng(depth)
    weight = rng.integers(-127, 128, (depth, columns)).astype("int8") // (2 if narrow else 1)
    dim = tir.Var("n", "int64") if rows == "n" else rows
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo([dim, depth], dtype))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(op.nn.byte_matmul(x, relax.const(weight), narrow))
        bb.emit_func_output(out)
    info = np.iinfo(dtype)
    data = rng.integers(info.min, info.max + 1, (19 if rows == "n" else rows, depth)).astype(dtype)
    return bb.get(), data, data.astype("int32") @ weight.astype("int32")


def scheduled(mod: Any, target: str) -> str:
    return lw.lower(mod, target)["ApplyDefaultSchedule"].after.script()


@pytest.mark.sample(4)
@pytest.mark.parametrize(("dtype", "narrow"), [("uint8", False), ("uint8", True), ("int8", False)])
@pytest.mark.parametrize("rows", [1, 5, 40, "n"])
@pytest.mark.parametrize(("depth", "columns"), [(64, 48), (36, 50), (4, 33), (37, 64)])
def test_sums_are_exact(rows: Any, depth: int, columns: int, dtype: str, narrow: bool) -> None:
    mod, data, expected = product(rows, depth, columns, dtype, narrow)
    np.testing.assert_array_equal(lw.compile(mod)(data).numpy(), expected)


@pytest.mark.parametrize("cpu", CPUS)
def test_the_scheduled_loops_mean_the_same(cpu: str) -> None:
    """Of processors that this one may not be: by the interpreter, with whole tiles and parts of them."""
    mod, data, expected = product(9, 8, 50, "uint8", narrow=True)
    after = lw.lower(mod, cpu)["ApplyDefaultSchedule"].after
    assert "call_llvm_pure_intrin" in after.script()
    np.testing.assert_array_equal(Interpreter(after)["main"](data).numpy(), expected)


def test_only_where_the_terms_are_whole() -> None:
    """A depth that the instruction does not divide, and a right side that comes with the run."""
    assert "vpdpbusd" in scheduled(product(8, 64, 64, "uint8")[0], X86 + "cascadelake")
    assert "vpdpbusd" not in scheduled(product(8, 62, 64, "uint8")[0], X86 + "cascadelake")


@pytest.fixture
def own_instruction() -> Iterator[str]:
    """One of a user's own: eight products of two bytes, on any CPU with AVX2."""

    @T.prim_func
    def meaning(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (2,), "uint8", offset_factor=1)
        B = T.match_buffer(b, (8, 2), "int8", offset_factor=1)
        C = T.match_buffer(c, (8,), "int32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:8], A[0:2], B[0:8, 0:2])
            T.writes(C[0:8])
            for i, k in T.grid(8, 2):
                with T.block("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.Cast("int32", A[vk]) * T.Cast("int32", B[vi, vk])

    @T.prim_func
    def code(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (2,), "uint8", offset_factor=1)
        B = T.match_buffer(b, (8, 2), "int8", offset_factor=1)
        C = T.match_buffer(c, (8,), "int32", offset_factor=1)
        with T.block("root"):
            T.reads(C[0:8], A[0:2], B[0:8, 0:2])
            T.writes(C[0:8])
            for i in T.unroll(8):
                C[i] += T.call_extern("int32", "my_dot", T.address_of(A[0]), T.address_of(B[i, 0]))

    name = "test.my_dot"
    tir.TensorIntrin.register(name, meaning, code, override=True)
    register_instruction(name, features=["avx2"], cost=0.5)
    yield name
    entry = next(e for e, c in INSTRUCTIONS.registry.items() if c.name == name)
    INSTRUCTIONS.registry.remove(entry)


def test_a_factor_that_is_computed_in_place_is_no_element() -> None:
    """Of a kernel whose left side is clipped where it is read: plain vectors, not an instruction that fails."""
    x, w = te.placeholder((9, 8), "int8", "x"), te.placeholder((8, 48), "int8", "w")
    clipped = te.compute(
        (9, 8), lambda i, k: tir.max(x[i, k], tir.const(0, "int8")), name="clipped"
    )
    k = te.reduce_axis((0, 8), "k")
    term = lambda i, j: clipped[i, k].astype("int32") * w[k, j].astype("int32")  # noqa: E731
    out = te.compute((9, 48), lambda i, j: te.sum(term(i, j), axis=k), name="out")
    func = te.create_prim_func([x, w, out]).with_attr("layout_free_buffers", [1])
    with Target(X86 + "cascadelake"):
        scheduled = ApplyDefaultSchedule()(lw.IRModule({"main": func}))["main"]
    assert "dot_product" not in scheduled.script()
    rng = np.random.default_rng(0)
    data, weight = (rng.integers(-128, 128, s).astype("int8") for s in ((9, 8), (8, 48)))
    got = np.zeros((9, 48), "int32")
    run(scheduled, [data, weight, got])
    np.testing.assert_array_equal(got, data.clip(0).astype("int32") @ weight.astype("int32"))


def test_an_instruction_needs_its_intrinsic() -> None:
    with pytest.raises(ValueError, match="did you mean dot_16x4_vnni"):
        register_instruction("dot_16x4_vni", features=["avx512vnni"])


def test_default_rules_use_an_instruction_of_a_user(own_instruction: str) -> None:
    mod = product(8, 64, 64, "uint8")[0]
    assert dot_product(Target(X86 + "haswell"), UNSIGNED, 8).intrin == own_instruction
    assert "my_dot" in scheduled(mod, X86 + "haswell")
    assert "my_dot" not in scheduled(mod, X86 + "cascadelake"), "its vectors are longer"


@pytest.mark.sample(2)
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("window", [1, 3])
def test_convolutions_in_blocks_whose_weights_are_interleaved(cpu: str, window: int) -> None:
    """Channels in blocks of 16, of weights four inputs of each output side by side (OIHW4i16o4i)."""
    target, rng = Target(cpu), np.random.default_rng(window)
    lanes, size = target.vector_lanes("int32"), 5
    data = rng.integers(0, 256, (1, 2, size, size, 16)).astype("uint8")
    weight = rng.integers(-128, 128, (2, 2, window, window, 4, lanes, 4)).astype("int8")
    x, w = (te.placeholder(a.shape, str(a.dtype), n) for a, n in ((data, "x"), (weight, "w")))
    axes = [te.reduce_axis((0, n)) for n in (2, window, window, 16)]
    out = size - window + 1

    def cell(n: Any, block: Any, i: Any, j: Any, lane: Any) -> Any:
        c, kh, kw, k = axes
        term = w[block, c, kh, kw, k // 4, lane, k % 4].astype("int32")
        return te.sum(x[n, c, i + kh, j + kw, k].astype("int32") * term, axis=axes)

    func = te.create_prim_func([x, w, te.compute((1, 2, out, out, lanes), cell, name="conv")])
    with target:
        scheduled = ApplyDefaultSchedule()(lw.IRModule({"main": func}))["main"]
    assert "call_llvm_pure_intrin" in scheduled.script()
    got = np.zeros((1, 2, out, out, lanes), "int32")
    run(scheduled, [data, weight, got])
    windows = np.lib.stride_tricks.sliding_window_view(data, (window, window), (2, 3)).astype(int)
    windows = windows.reshape(*windows.shape[:4], 4, 4, window, window)
    expected = np.einsum("ncijgkhw,ochwglk->noijl", windows, weight.astype(int))
    np.testing.assert_array_equal(got, expected)
