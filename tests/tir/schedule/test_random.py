"""Random sequences of primitives keep what the programs compute."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.ir.structural import assert_structural_equal

from .programs import PROGRAMS
from .util import check
from .walk import random_schedule


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@settings(max_examples=6)
@given(seed=st.integers(0, 10**6))
def test_random_sequences(name: str, seed: int) -> None:
    func, sizes = PROGRAMS[name]
    sch, done = random_schedule(func, seed, steps=8, limit=8000)
    assert done
    check(sch, func, *sizes)


def test_the_same_seed_gives_the_same_program() -> None:
    func, _ = PROGRAMS["matmul"]
    first, _ = random_schedule(func, 3, 8)
    second, _ = random_schedule(func, 3, 8)
    assert_structural_equal(first.mod, second.mod)
