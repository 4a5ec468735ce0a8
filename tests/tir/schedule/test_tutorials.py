"""The moves of TensorIR's tutorials: scripts that run under TVM's package name and under ours.

Each script checks its numbers itself, in machine code, and names what it began with and its schedules;
here these run in the interpreter, too, and are replayed. What a script prints is in tests/golden.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from benchmarks import attention_schedule, conv_schedule, matmul_schedule
from loopwright import tir
from loopwright.ir.structural import assert_structural_equal
from loopwright.tir.interpreter import run

from .util import arguments, check, outcome

ROOT = Path(__file__).parents[3]
FOLDER = Path(__file__).parent / "tutorials"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_tutorial(name, tmp_path, capsys, golden):
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    script = tmp_path / f"{name}.py"
    script.write_text(re.sub(r"\btvm\b", "loopwright", text), encoding="utf-8")
    np.random.seed(0)  # which the scripts draw from, as TVM's do
    made = runpy.run_path(str(script))
    golden(f"tutorials/{name}.txt", capsys.readouterr().out)
    for before, sch, *packed in made["programs"]:
        func = before["main"]
        args = arguments(func)
        args = packed[0](*args) if packed else args
        run(sch.mod["main"], args, mod=sch.mod)
        np.testing.assert_allclose(args[-1], outcome(func)[-1], rtol=1e-4, atol=1e-4)
        again = tir.Schedule(before)
        sch.trace.apply_to_schedule(again)
        assert_structural_equal(again.mod, sch.mod)


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", NAMES)
def test_tutorial_under_the_other_name(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "loopwright.compat", str(FOLDER / f"{name}.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    kept = (ROOT / "tests" / "golden" / "tutorials" / f"{name}.txt").read_text(encoding="utf-8")
    kept = kept.replace("from loopwright", "from tvm")  # texts name the package as the script does
    assert done.stdout.strip() == kept.strip()


def test_stages_of_the_benchmark_compute_the_same():
    func, target = matmul_schedule.matmul(32), lw.Target("llvm -mcpu=native")
    a, b, _ = arguments(func)
    names = []
    for name, sch in matmul_schedule.stages(func, rows=4, width=16):
        names.append(name)
        check(sch, func)
        c = np.zeros((32, 32), np.float32)
        matmul_schedule.compiled(sch.mod["main"], target)(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    assert names[0] == "naive" and names[-1] == "parallel"
    assert matmul_schedule.steps(sch) <= 15


def test_stages_of_attention_compute_the_same():
    func, target = attention_schedule.attention(2, 64, 32), lw.Target("llvm -mcpu=native")
    *given, out = arguments(func)
    names = []
    for name, sch in attention_schedule.stages(func):
        names.append(name)
        if name in ("blocks of rows", "parallel"):  # what the interpreter takes long for
            check(sch, func)
        matmul_schedule.compiled(sch.mod["main"], target)(*given, out)
        np.testing.assert_allclose(out, attention_schedule.reference(*given), rtol=1e-5, atol=1e-5)
    assert names[0] == "naive" and names[-1] == "parallel"
    lowered = lw.lower(sch.mod["main"].with_attr("tir.is_scheduled", True), target)
    text = lowered[len(lowered) - 1].after["main"].script()
    assert "scores = T.decl_buffer((512,))" in text, "8 of 64 rows"


def test_a_convolution_by_hand():
    x, w, want = conv_schedule.convolution_data(32, 14)
    out, target = np.empty_like(want), lw.Target("llvm -mcpu=native")
    for name, sch in conv_schedule.stages(conv_schedule.convolution(32, 14), pixels=7):
        matmul_schedule.compiled(sch.mod["main"], target)(x, w, out)
        np.testing.assert_allclose(out, want, rtol=1e-3, atol=1e-3, err_msg=name)


def test_a_product_by_a_vector_by_hand():
    x, w, want = conv_schedule.product_data(256)
    out, target = np.empty_like(want), lw.Target("llvm -mcpu=native")
    for name, sch in conv_schedule.product_stages(conv_schedule.product(256)):
        func = sch.mod["main"]
        given = conv_schedule.packed(w, func.buffer_map[func.params[1]].shape)
        matmul_schedule.compiled(func, target)(x, given, out)
        np.testing.assert_allclose(out, want, rtol=1e-3, atol=1e-3, err_msg=name)


def test_sums_of_the_benchmark_stay_in_registers():
    func, target = matmul_schedule.matmul(256), lw.Target("llvm -mcpu=skylake-avx512")
    *_, (_, sch) = matmul_schedule.stages(func)
    made = lw.compile(sch.mod["main"].with_attr("tir.is_scheduled", True), target)
    inner = loop_of(made.program.assembly("main"), "vfmadd")
    assert sum("vfmadd" in line for line in inner) == 16
    assert not any("%rsp" in line for line in inner), "a register is spilled"
    assert not any(line.startswith("vmov") and line.endswith(")") for line in inner), "a store"


def loop_of(assembly: str, instruction: str) -> list[str]:
    """The lines between the label before the first such instruction and the jump after the last."""
    lines = [line.strip() for line in assembly.splitlines()]
    at = [n for n, line in enumerate(lines) if line.startswith(instruction)]
    start = max(n for n in range(at[0]) if lines[n].endswith(":"))
    end = min(n for n in range(at[-1], len(lines)) if lines[n].startswith("j"))
    return lines[start:end]


def test_a_program_prints_as_text_though_only_its_parts_were_imported():
    program = "import loopwright as lw; print(lw.tir.PrimFunc([], lw.tir.Evaluate(0)).script())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "@T.prim_func" in done.stdout, done.stderr
