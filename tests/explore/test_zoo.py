"""On real models: the time measured lies on instructions that reach nodes of the file, and each node
reaches an instruction, or says what removed it.
"""

from __future__ import annotations

import pytest

from loopwright.explore.explored import Explored
from loopwright.explore.page import timed
from tools.zoo import MODELS, RegistryError, fetch


@pytest.mark.slow
@pytest.mark.no_roundtrip  # whole models
@pytest.mark.parametrize("name", ["magika", "minilm-l3", "centerface"])
def test_time_and_nodes(name):
    try:
        model = fetch(name)
    except RegistryError as error:
        pytest.skip(f"{name}: {error}")
    found = Explored.compiled(model)
    times, _ = timed(found.exe, MODELS[name].feeds(), 2)
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


def share(found: Explored, kernel: str) -> float:
    """The part of a kernel's instructions whose line came from a node of the file."""
    _, origins = found.lines(kernel, found.final[kernel])
    code = found.code(kernel).assembly
    rows = [n for t, n in zip(code.texts, code.lines, strict=True) if is_instruction(t)]
    return sum(1 for n in rows if n and origins[n - 1]) / len(rows)


def is_instruction(text: str) -> bool:
    return text[0].isspace() and not text.lstrip().startswith(".")
