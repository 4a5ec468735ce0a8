"""Lines of TensorIR in LLVM text, assembly and objects."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import loopwright as lw
from loopwright.backend.kernel import run_kernel
from loopwright.codegen.llvm import compiler
from loopwright.codegen.llvm.located import located, located_text
from loopwright.codegen.llvm.machine import resolve
from loopwright.codegen.llvm.module_text import text_of, without_comments
from loopwright.codegen.llvm.program import GRAPH
from loopwright.codegen.objects import ElfObject
from loopwright.driver.steps import compile_steps
from loopwright.script import tir as T
from tools.zoo import RegistryError, fetch

DIGITS = "src/loopwright/driver/data/digits.onnx"


def sections(data):
    elf = ElfObject(data)
    return {elf.section_name(s).decode(): elf.content(s) for s in elf.sections}


@pytest.fixture(scope="module")
def exe():
    return compile_steps(DIGITS)[0]


@pytest.mark.no_roundtrip  # whole models
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("digits", 7),
        pytest.param("minilm-l3", 10, marks=pytest.mark.slow),
        pytest.param("centerface", 20, marks=pytest.mark.slow),
    ],
)
def test_code_is_the_same_with_lines(exe, name, count):
    if name != "digits":
        try:
            exe = compile_steps(fetch(name))[0]
        except RegistryError as error:
            pytest.skip(f"{name}: {error}")
    kernels = [kernel for kernel in exe.program.texts if kernel != GRAPH]
    assert len(kernels) >= count
    for kernel in kernels:
        plain = text_of(without_comments(exe.program.text(kernel).splitlines()))
        before = sections(compiler.compile_object(plain, *resolve()))
        lines = located_text(exe, kernel)[0]
        after = sections(compiler.compile_object(lines, *resolve(), verify=True))
        assert before[".text"] == after[".text"] and before[".text"]
        assert after[".debug_line"] and ".debug_line" not in before


def test_instructions_have_the_line_of_their_statement(exe):
    found = located(exe, "fused_matmul_add")
    for code, word in ((found.llvm, "fadd"), (found.assembly, "addps")):
        rows = [n for t, n in zip(code.texts, code.lines, strict=True) if word in t and n]
        sums = re.compile(r"intermediate(_\d)?(\[|\.vstore\()")
        assert rows and all(sums.search(found.source.texts[n - 1]) for n in rows)
    code = zip(found.llvm.texts, found.llvm.lines, strict=True)
    assert all(line for text, line in code if text.startswith("  "))
    assert not any("!dbg" in text for text in found.llvm.texts)
    assert not any(".loc" in text or ".cfi" in text for text in found.assembly.texts)


def test_graph_functions_have_lines(exe):
    found = located(exe, "main")
    calls = [
        found.source.texts[n - 1]
        for t, n in zip(found.llvm.texts, found.llvm.lines, strict=True)
        if "@lw.softmax" in t
    ]
    assert calls and all("softmax(" in text for text in calls)


def test_objects_have_lines_if_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_DEBUG_INFO", str(tmp_path / "lines"))
    monkeypatch.setenv("LOOPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    exe = lw.compile(DIGITS)
    files = {path.stem.rsplit("-", 1)[0]: path for path in (tmp_path / "lines").iterdir()}
    assert set(files) >= {"softmax", "main", "fused_matmul_add"}
    assert "def softmax(" in files["softmax"].read_text()
    lines = sections(exe.program.objects["softmax"])[".debug_line"]
    assert files["softmax"].name.encode() in lines or lines
    assert str(tmp_path).encode() in b"".join(sections(exe.program.objects["softmax"]).values())


def test_kernels_that_only_fold_constants_have_none(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_DEBUG_INFO", str(tmp_path / "lines"))
    monkeypatch.setenv("LOOPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))

    @T.prim_func
    def doubled(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            b[i] = a[i] * T.float32(2)

    arrays = [np.arange(4, dtype="float32"), np.zeros(4, "float32")]
    run_kernel(doubled, arrays)
    assert list(arrays[1]) == [0, 2, 4, 6]
    assert not (tmp_path / "lines").exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_gdb_shows_the_loops(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_DEBUG_INFO", str(tmp_path / "lines"))
    monkeypatch.setenv("LOOPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    script = (
        f"import numpy, loopwright as lw; exe = lw.compile({DIGITS!r}); "
        "exe(numpy.zeros((1, 1, 16, 16), 'float32'))"
    )
    asks = ["set breakpoint pending on", "set debuginfod enabled off", "break lw.softmax", "run"]
    asks += ["list", "info source"]
    args = [part for ask in asks for part in ("-ex", ask)]
    command = ["gdb", "-q", "-nx", "-batch", *args, "--args", sys.executable, "-c", script]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert re.search(r"hit Breakpoint 1, .* at .*softmax-\w+\.py:\d+", shown.stdout)
    assert re.search(r"\d+\s+def softmax\(lv8: T\.handle", shown.stdout), shown.stdout
