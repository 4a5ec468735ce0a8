"""The gesture model of examples/bare_metal on boards that qemu has, without a C library."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from tests.codegen.c_programs import tool
from tests.house.source import ROOT

FOLDER = ROOT / "examples" / "bare_metal"
# What compilers call by themselves, and the model, `main.c` and `startup.c` define.
OWN = re.compile(r"_?_(aeabi_\w+|\w+[sd]f\w*|\w+[sd]i\w*)|gesture_\w+(\.\w+)*|(bss|data|stack)_\w+")
OWN_NAMES = {"main", "output", "sample", "print", "finish", "fault", "reset", "vectors"}
LIBRARY = {"memcpy", "memset"}


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """build.py, where its tools are."""
    for name in ("arm-none-eabi-gcc", "qemu-system-arm", "arm-none-eabi-nm"):
        tool(name)
    sys.path.insert(0, str(FOLDER))
    try:
        import build
    finally:
        sys.path.remove(str(FOLDER))
    return build


@pytest.fixture(scope="module")
def models(example: ModuleType) -> dict[str, tuple[Any, np.ndarray, np.ndarray]]:
    """By kind: a model, an input, and its output on this machine."""
    gestures = example.gestures
    real = gestures.fitted()
    models = {"float32": real, "int8": gestures.quantized(real)}
    scale = gestures.scale_of(models["int8"], "x")
    moved = gestures.motions(20, seed=7)
    cases = {}
    for kind, model in models.items():
        run, right = lw.compile(model)["main"], 0
        for gesture, x in moved:
            x = np.rint(x / scale).clip(-128, 127).astype("int8") if kind == "int8" else x
            here = run(x).numpy()
            right += int(here.argmax() == gesture)
        assert right > 74  # of 80
        cases[kind] = model, x, here
    return cases


@pytest.mark.sample(3)
@pytest.mark.budget(15)
@pytest.mark.parametrize("board", ["mps2-an385", "mps2-an500", "mps3-an547"])
@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_the_board_computes_what_this_machine_does(
    example: ModuleType,
    models: dict[str, tuple[Any, np.ndarray, np.ndarray]],
    kind: str,
    board: str,
    tmp_path: Path,
) -> None:
    model, x, here = models[kind]
    exported = lw.compile(model, target=f"c -mcpu={example.BOARDS[board]}")
    program = example.built(exported, x, here.nbytes, tmp_path)
    said, stack = example.run(program, board)
    there = np.frombuffer(said, here.dtype).reshape(here.shape)
    if kind == "int8":
        np.testing.assert_array_equal(there, here)
    else:
        np.testing.assert_allclose(there, here, atol=1e-5)
    listed = subprocess.run(
        ["arm-none-eabi-nm", program], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    foreign = {n for n in names if not OWN.fullmatch(n)} - OWN_NAMES
    assert foreign <= LIBRARY and "malloc" not in names
    # What the README says is what the board used, up to helper functions of the compiler's.
    figure = re.search(r"RAM: stack \| (\d+)", (tmp_path / "README.md").read_text())
    assert figure is not None and int(figure[1]) - 16 <= stack <= int(figure[1]) + 64
