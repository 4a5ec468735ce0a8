"""Random sequences of primitives keep what the programs compute."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.ir.structural import assert_structural_equal

from .families import FAMILIES, random_program
from .long_run import STEPS, check_texts, check_values, run_many, run_seeds, sequence
from .programs import PROGRAMS
from .util import check
from .walk import MOVES, random_schedule


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
@settings(max_examples=4)
@given(seed=st.integers(0, 10**6))
def test_random_sequences(name: str, seed: int) -> None:
    func, sizes = PROGRAMS[name]
    sch, done = random_schedule(func, seed, steps=8, limit=8000)
    assert done
    check(sch, func, *sizes)


@pytest.mark.no_roundtrip
@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_random_programs(seed: int) -> None:
    """In the interpreter; the trace, its JSON and its Python give the same text."""
    program, walk = sequence(seed)
    assert len(walk.done) >= STEPS
    check_values(program, walk.sch)
    check_texts(program, walk.sch)


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
def test_random_programs_in_llvm() -> None:
    tally = run_seeds(range(777_000, 777_020))
    assert not tally.failures, tally.failures[0]
    assert tally.sequences == 20


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.no_roundtrip
@pytest.mark.no_verify
def test_two_thousand_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    tally = run_many(seed=0, sequences=2000)
    with capsys.disabled():
        print(f"\n{tally.table(reasons=20)}")
    assert not tally.failures, tally.failures[0]
    assert tally.sequences == 2000 and tally.steps >= 2000 * STEPS
    done = {name for name in MOVES if tally.tried[name] > tally.refused[name]}
    assert done == set(MOVES), f"never done: {sorted(set(MOVES) - done)}"
    assert len(tally.families) >= len(FAMILIES)


def test_the_same_seed_gives_the_same_program() -> None:
    func, _ = PROGRAMS["matmul"]
    first, _ = random_schedule(func, 3, 8)
    second, _ = random_schedule(func, 3, 8)
    assert_structural_equal(first.mod, second.mod)
    assert random_program(random.Random(5)).text == random_program(random.Random(5)).text
