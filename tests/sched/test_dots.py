"""Products by instructions that add several terms: which one a target has, and that the numbers stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, tir
from loopwright.ir.target import Target
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.script import tir as T
from loopwright.tir.tensor_intrin.instructions import (
    INSTRUCTIONS,
    PAIRS_FIT,
    dot_product,
    register_instruction,
)

X86 = "llvm -mtriple=x86_64-linux-gnu -mcpu="
UNSIGNED, SIGNED = ("uint8", "int8", "int32"), ("int8", "int8", "int32")
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
        ("cooperlake", ("int16", "int16", "int32"), 16, (), None),
        ("nehalem", UNSIGNED, 4, (), None),
    ],
)
def test_the_cheapest_instruction_of_a_processor(
    cpu: str, dtypes: Any, lanes: int, facts: Any, expected: str | None
) -> None:
    found = dot_product(Target(X86 + cpu), dtypes, lanes, facts)
    assert (found and found.intrin) == expected


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


@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512", "cascadelake"])
def test_the_scheduled_loops_mean_the_same(cpu: str) -> None:
    """Of processors that this one may not be: by the interpreter, with whole tiles and parts of them."""
    mod, data, expected = product(9, 8, 50, "uint8", narrow=True)
    after = lw.lower(mod, X86 + cpu)["ApplyDefaultSchedule"].after
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


def test_default_rules_use_an_instruction_of_a_user(own_instruction: str) -> None:
    mod = product(8, 64, 64, "uint8")[0]
    assert dot_product(Target(X86 + "haswell"), UNSIGNED, 8).intrin == own_instruction
    assert "my_dot" in scheduled(mod, X86 + "haswell")
    assert "my_dot" not in scheduled(mod, X86 + "cascadelake"), "its vectors are longer"
