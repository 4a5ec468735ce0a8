"""The map of functions for perf."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from loopwright.codegen.llvm.perf_map import functions_of

from .perf import counted, report

DIGITS = "src/loopwright/driver/data/digits.onnx"


@pytest.fixture
def rows(monkeypatch):
    """(start, size) by name, as a program that is loaded now writes them; and the program."""
    file = Path(f"/tmp/perf-{os.getpid()}.map")
    monkeypatch.setenv("LOOPWRIGHT_PERF_MAP", "1")
    exe = lw.compile(lw.lower(DIGITS)[0].before)  # no kept executable
    exe(np.zeros((1, 1, 16, 16), "float32"))
    try:
        lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
    finally:
        file.unlink(missing_ok=True)
    return {name: (int(start, 16), int(size, 16)) for start, size, name in lines}, exe.program


def test_every_function_has_a_place_of_its_own(rows):
    places, program = rows
    assert {"lw.fused_conv2d_relu", "lw.fused_matmul_add", "lw.softmax"} <= set(places)
    hidden = {n for o in program.objects.values() for n, *_, seen in functions_of(o) if not seen}
    assert hidden and hidden <= set(places)  # parallel parts
    ends = sorted((start, start + size) for start, size in places.values())
    assert all(a[1] <= b[0] for a, b in pairwise(ends) if a != b)


def test_places_are_those_of_the_code(rows):
    places, program = rows
    start, _ = places["__tvm_ffi_main"]
    assert program.library["__tvm_ffi_main"] == start


def test_nothing_is_written_unasked(monkeypatch):
    monkeypatch.delenv("LOOPWRIGHT_PERF_MAP", raising=False)
    lw.compile(lw.lower(DIGITS)[0].before)(np.zeros((1, 1, 16, 16), "float32"))
    assert not Path(f"/tmp/perf-{os.getpid()}.map").exists()


LOOP = (
    "import time, numpy; x = numpy.ones((64, 1, 16, 16), 'float32'); end = time.time() + 0.7\n"
    "while time.time() < end: run(x)"
)


@pytest.mark.slow
def test_perf_names_kernels_and_lines_of_their_loops(tmp_path, monkeypatch):
    run = f"import loopwright as lw; run = lw.compile({DIGITS!r})\n{LOOP}"
    counted(tmp_path / "a", run, LOOPWRIGHT_PERF_MAP="1")
    assert "lw.fused_conv2d1_relu1" in report(tmp_path / "a", "--sort=symbol")
    # In a file, the lines are there, too.
    monkeypatch.setenv("LOOPWRIGHT_DEBUG_INFO", str(tmp_path))
    lw.compile(lw.lower(DIGITS)[0].before).export_library(tmp_path / "digits.so")
    load = f"run = lw.runtime.load_module('{tmp_path}/digits.so')['main']"
    counted(tmp_path / "b", f"import loopwright as lw\n{load}\n{LOOP}")
    lines = report(tmp_path / "b", "--sort=srcline", "--dso=digits.so")
    assert re.search(r"fused_conv2d\w+-\w+\.py:\d+", lines)
