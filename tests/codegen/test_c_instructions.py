"""Instructions in C: their functions compute what the records say, by intrinsics and without; kernels use them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.base.host import host
from loopwright.codegen.c.instructions import function_of
from loopwright.relax.interpreter import Interpreter
from loopwright.tir.tensor_intrin import (
    Dot,
    c_text,
    lanes,
    left_of,
    register_dot,
    rows_of,
    store,
)
from loopwright.tir.tensor_intrin.instructions import INSTRUCTIONS
from tests.examples.test_bare_metal import FOLDER
from tests.sched.test_dots import product

from .c_programs import C_FLAGS, run, tool

pytestmark = pytest.mark.no_roundtrip
ROWS = {c.rule.intrin.removeprefix("c."): c.rule for c in INSTRUCTIONS.at("c")}
CASES = 5  # of random operands
X86 = {"plain": ["-DM_PLAIN"], "x86-64": [], "haswell": [], "skylake-avx512": [], "cascadelake": []}
NEEDS = {
    "plain": (),
    "x86-64": (),
    "haswell": ("avx2",),
    "skylake-avx512": ("avx512bw",),
    "cascadelake": ("avx512vnni",),
}
ARM = ["armv8-a", "armv8.2-a+dotprod", "armv8.2-a+dotprod+i8mm"]


def operands(name: str, rng: np.random.Generator) -> list[np.ndarray]:
    """C, A and the rows of B of a record, with the ends of their types as far as its conditions allow."""
    dot, row = ROWS[name].spec, ROWS[name]
    ends = {t: (np.iinfo(t).min, np.iinfo(t).max) for t in (dot.a, dot.b)}
    low, high = ends[dot.b]
    if "pairs_fit" in row.requires:
        low, high = (0, 64) if dot.b == "uint8" else (-64, 64)
    high = 127 if "seven_bits" in row.requires else high
    drawn = [
        rng.integers(-1000, 1000, dot.lanes),
        rng.integers(*ends[dot.a], dot.depth, endpoint=True),
    ]
    drawn.append(rng.integers(low, high, dot.lanes * dot.depth, endpoint=True))
    arrays = [v.astype(t) for v, t in zip(drawn, (dot.c, dot.a, dot.b), strict=True)]
    arrays[2][:3] = (low, high, high)
    arrays[1][:2] = ends[dot.a]
    return arrays


def program(names: list[str]) -> str:
    """A C file whose `check` calls each function `CASES` times and returns which was wrong first, or 0.
    The arrays are in memory: a compiler does not compute with them."""
    module = SimpleNamespace(helpers={}, macro="M")
    body, rng = [], np.random.default_rng(0)
    for number, name in enumerate(names, 1):
        called, dot = function_of(module, name), ROWS[name].spec
        for _ in range(CASES):
            c, a, b = operands(name, rng)
            sums = c + b.astype("int64").reshape(dot.lanes, dot.depth) @ a.astype("int64")
            values = [", ".join(map(str, v)) for v in (c, a, b, sums)]
            body.append(
                f"  {{ static int32_t c[] = {{{values[0]}}}; static {dot.a}_t a[] = {{{values[1]}}};\n"
                f"    static {dot.b}_t b[] = {{{values[2]}}}; static int32_t r[] = {{{values[3]}}};\n"
                f"    {called}(c, a, b); if (memcmp(c, r, sizeof c) != 0) return {number}; }}"
            )
    head = "#include <stdint.h>\n#include <string.h>\n"
    check = "\n".join(["int check(void);", "int check(void) {", *body, "  return 0;", "}"])
    return "\n\n".join([head, *module.helpers.values(), check])


def names_of(wide: bool) -> list[str]:
    """Records of x86, or of Arm."""
    return [n for n, row in ROWS.items() if (row.spec.lanes > 4) == wide]


@pytest.mark.sample(2)
@pytest.mark.parametrize("cpu", X86)
def test_on_x86(cpu: str, tmp_path: Path) -> None:
    """Each function has the intrinsics of all that compute the same, so that any processor is of use."""
    if not set(NEEDS[cpu]) <= set(host().record.features):
        pytest.skip(f"needs {', '.join(NEEDS[cpu])}")
    source = tmp_path / "check.c"
    source.write_text(program(names_of(wide=True)) + "\nint main(void) { return check(); }\n")
    flags = X86[cpu] or [f"-march={cpu}"]
    run(tool("gcc"), *C_FLAGS, "-O2", *flags, source, "-o", tmp_path / "check")
    run(tmp_path / "check")
    if cpu == "x86-64":
        assert "pmaddwd" in run("objdump", "-d", tmp_path / "check")


@pytest.mark.sample(3)
@pytest.mark.parametrize("arch", ARM)
def test_on_aarch64(arch: str, tmp_path: Path) -> None:
    source = tmp_path / "check.c"
    source.write_text(program(names_of(wide=False)) + "\nint main(void) { return check(); }\n")
    compiler = tool("aarch64-linux-gnu-gcc")
    run(compiler, *C_FLAGS, "-O2", "-static", f"-march={arch}", source, "-o", tmp_path / "check")
    run(tool("qemu-aarch64"), "-cpu", "max", tmp_path / "check")
    text = run("aarch64-linux-gnu-objdump", "-d", tmp_path / "check")
    seen = [re.search(rf"\s{i}\s", text) is not None for i in ("smull", "sdot", "usdot")]
    assert seen == [arch == ARM[0], "dotprod" in arch, "i8mm" in arch]


@pytest.mark.parametrize("cpu", ["cortex-m3", "cortex-m7"])
def test_on_microcontrollers(cpu: str, tmp_path: Path) -> None:
    qemu, compiler = tool("qemu-system-arm"), tool("arm-none-eabi-gcc")
    source = tmp_path / "check.c"
    source.write_text(program(names_of(wide=False)) + "\nint main(void) { return check(); }\n")
    flags = [f"-mcpu={cpu}", "-mthumb", "-O2", "-fno-builtin", "-fno-tree-loop-distribute-patterns"]
    parts = [source, FOLDER / "startup.c", tmp_path / "compare.c"]
    parts[2].write_text(
        "#include <stddef.h>\nint memcmp(const void* a, const void* b, size_t n) {\n"
        "  const char *x = a, *y = b;\n  for (; n > 0; --n) if (*x++ != *y++) return 1;\n  return 0;\n}\n"
    )
    linked = ["-nostdlib", "-T", FOLDER / "memory.ld", "-lgcc", "-o", tmp_path / "check"]
    run(compiler, *flags, *parts, *linked)
    board = {"cortex-m3": "mps2-an385", "cortex-m7": "mps2-an500"}[cpu]
    options = ["-nographic", "-monitor", "none", "-serial", "none", "-semihosting"]
    run(qemu, "-M", board, *options, "-kernel", tmp_path / "check")
    text = run("arm-none-eabi-objdump", "-d", tmp_path / "check")
    assert ("smlad" in text) == (cpu == "cortex-m7")


TARGETS = ["c -mcpu=cascadelake", "c -mcpu=haswell", "c -mcpu=cortex-m7", "c -mcpu=cortex-m3",
           "c -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod,+i8mm"]  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_kernels_call_them(target: str, dtype: str) -> None:
    """By the interpreter, too; compiled for this machine, of which the text asks what it has."""
    mod, data, expected = product(9, 36, 50, dtype)
    model = lw.compile(mod, target=target)
    assert len(re.findall(r"^ +lw_dot_\w+\(&", model.source, re.M)) >= 1
    np.testing.assert_array_equal(model.build(flags=["-O1"])(data), expected)
    scheduled = lw.lower(mod, target)["ApplyDefaultSchedule"].after
    np.testing.assert_array_equal(Interpreter(scheduled)["main"](data).numpy(), expected)


def test_a_quantized_product_takes_the_instruction_of_the_machine(tmp_path: Path) -> None:
    if "avx512vnni" not in host().record.features:
        pytest.skip("needs avx512vnni")
    mod, data, expected = product(40, 64, 64, "uint8")
    model = lw.compile(mod, target="c")
    built = model.build(tmp_path)
    np.testing.assert_array_equal(built(data), expected)
    text = run(tool("objdump"), "-d", built.path)
    assert "vpdpbusd" in text
    plain = model.build(tmp_path / "plain", flags=["-O2", "-DMODEL_PLAIN", host().c_flag])
    np.testing.assert_array_equal(plain(data), expected)
    assert "vpdpbusd" not in run(tool("objdump"), "-d", plain.path)


@pytest.fixture
def own() -> Iterator[str]:
    """A user's instruction of both targets."""

    def update(a: tir.Buffer, b: tir.Buffer, c: tir.Buffer) -> tir.Stmt:
        args = lanes(c), left_of(a, range(8)), rows_of(b, range(8))
        name = "llvm.x86.avx512.vpdpbusd.256"
        return store(c, tir.call_llvm_pure_intrin("int32x8", name, *args))

    text = c_text.x86(["avx2"], lambda mm, dot: f"my_dot({mm}_setzero_si256(), x, y, z)")
    dot, name = Dot(8, "uint8", "int8", "int32", update), "my.dot"
    register_dot(name, dot, features=["avx2"], cost=0.5, c=text)
    yield name
    for row in [
        e for e in INSTRUCTIONS.registry if INSTRUCTIONS.registry[e].name in (name, f"c.{name}")
    ]:
        INSTRUCTIONS.registry.remove(row)


def test_a_record_of_the_users_has_c(own: str) -> None:
    mod, _, _ = product(9, 36, 50, "uint8")
    text = lw.compile(mod, target="c -mcpu=haswell").source
    assert "lw_my_dot(&" in text and "my_dot(_mm256_setzero_si256(), x, y, z)" in text
