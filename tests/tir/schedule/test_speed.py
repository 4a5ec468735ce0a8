"""What a step costs does not depend on the blocks that it has nothing to do with, beyond looking
over them once. Calls of Python functions are counted: they are the same on every machine."""

from __future__ import annotations

import pytest

from benchmarks.schedule_speed import hundred_steps, kernel, many_blocks, matmul, steps
from loopwright import tir
from tests.counting import calls

pytestmark = pytest.mark.no_roundtrip
STEPS = steps()
FUNCS = {count: many_blocks(count) for count in (32, 64, 128)}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", STEPS)
def test_unrelated_blocks(name: str) -> None:
    step = STEPS[name]
    few, some, many = (calls(step(tir.Schedule(func))) for func in FUNCS.values())
    assert some < 20_000
    assert (many - some) / 64 < 250, "calls for each block more"
    # Twice the blocks, twice the work at most.
    assert many - some <= 2.2 * max(some - few, 0) + 1500


def test_chains() -> None:
    """The steps of a chain cost the same at its end as at its start."""
    sch = tir.Schedule(matmul())
    assert calls(lambda: hundred_steps(sch)) < 60_000
    assert len(sch.trace.insts) == 101
    sch = tir.Schedule(matmul())
    assert calls(lambda: kernel(sch)) < 30_000
