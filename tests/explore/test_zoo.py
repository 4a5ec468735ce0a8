"""On real models: the time measured lies on instructions that reach nodes of the file, and each node
reaches an instruction, or says what removed it.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from loopwright.explore.explored import Explored
from loopwright.explore.timing import timed
from tests.codegen.perf import counted, report
from tools.zoo import MODELS, RegistryError, fetch

NAMES = ["magika", "minilm-l3", "centerface"]


def fetched(name: str) -> str:
    try:
        return fetch(name)
    except RegistryError as error:
        pytest.skip(f"{name}: {error}")


@pytest.mark.slow
@pytest.mark.no_roundtrip  # whole models
@pytest.mark.parametrize("name", NAMES)
def test_time_and_nodes(name):
    model = fetched(name)
    found = Explored.compiled(model)
    times = timed(found.exe, MODELS[name].feeds(), 2).medians()
    assert set(times) <= set(found.kernels) | {"memcpy"}
    total = reached = 0.0
    for kernel, (us, _) in times.items():
        total += us
        if kernel in found.kernels:
            reached += us * share(found, kernel)
    print(f"{name}: {reached / total:.4f} of {total:.0f} us")
    assert reached >= 0.95 * total
    for node in found.nodes:
        origin = found.origin(node)
        known = sum(origin.instructions.values()) > 0
        assert known != bool(origin.removed_by), str(origin)


RUN = """
import time, numpy, loopwright
feeds = list(numpy.load({feeds!r}).values())
run = loopwright.runtime.load_module({library!r})["main"]
end = time.time() + 3
while time.time() < end:
    run(*feeds)
"""


@pytest.mark.slow
@pytest.mark.no_roundtrip
@pytest.mark.parametrize("name", NAMES)
def test_sampled_time_lies_on_lines_of_nodes(name, tmp_path, monkeypatch):
    """By perf's samples and the lines in the machine code, helpers such as exp included."""
    monkeypatch.setenv("LOOPWRIGHT_DEBUG_INFO", str(tmp_path / "lines"))
    found = Explored.compiled(fetched(name))
    feeds, library = str(tmp_path / "feeds.npz"), str(tmp_path / "model.so")
    np.savez(feeds, **{key: MODELS[name].feeds()[key] for key in found.exe.input_names()})
    found.exe.export_library(library)
    run = RUN.format(feeds=feeds, library=library)
    counted(tmp_path / "samples", run, LOOPWRIGHT_NUM_THREADS="1")
    text = report(tmp_path / "samples", "-F", "sample,srcline", "--sort=srcline", "--dso=model.so")
    total = reached = 0
    for count, place in re.findall(r"^ +(\d+) +(\S+)", text, re.MULTILINE):
        total += int(count)
        kernel, _, line = place.replace(".py:", ":").rpartition(":")
        kernel = kernel.rpartition("-")[0]
        if kernel in found.kernels and int(line):
            reached += int(count) * bool(found.where(kernel, int(line)).nodes)
    print(f"{name}: {reached} of {total} samples")
    assert total > 100 and reached >= 0.95 * total


def share(found: Explored, kernel: str) -> float:
    """The part of a kernel's instructions whose line came from a node of the file."""
    _, origins = found.lines(kernel, found.final[kernel])
    code = found.code(kernel).assembly
    rows = [n for t, n in zip(code.texts, code.lines, strict=True) if is_instruction(t)]
    return sum(1 for n in rows if n and origins[n - 1]) / len(rows)


def is_instruction(text: str) -> bool:
    return text[0].isspace() and not text.lstrip().startswith(".")
