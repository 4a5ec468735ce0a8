"""The steps of every default schedule replay, and its decisions keep the numbers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from benchmarks.operators import OPERATORS, operator
from loopwright import relax
from loopwright.base.foreign import RuleError
from loopwright.relax import op
from loopwright.sched.machine import MACHINES, Machine, register_machine

from .kernels import FAMILIES, check_replays, few_rows, module, random_case, random_decisions


def check_decided(seed: int) -> None:
    """A random case of other decisions gives the numbers of the default ones."""
    case = random_case(seed)
    trace = lw.lower(case.mod)
    check_replays(trace)
    decisions = random_decisions(trace.schedules, random.Random(seed))
    want = np.asarray(lw.compile(case.mod)(*case.inputs), "float64")
    got = np.asarray(lw.compile(case.mod, decisions=decisions)(*case.inputs), "float64")
    message = f"{case.name}, seed {seed}: {decisions}"
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * scale, err_msg=message)


@pytest.mark.sample(24)
@pytest.mark.parametrize("name", OPERATORS)
def test_schedules_of_single_operators_replay(name: str) -> None:
    check_replays(lw.lower(operator(name)[0]))


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(len(FAMILIES)))
def test_decisions_keep_the_numbers(seed: int) -> None:
    check_decided(seed)


@pytest.mark.parametrize(
    ("sizes", "depth"),
    [((1, 256, 1024), 8), ((7, 264, 1100), 12), ((40, 279, 1025), 9), ((3, 257, 1024), 0)],
)
def test_few_rows_read_a_large_right_side_in_blocks_of_its_rows(sizes: Any, depth: int) -> None:
    """Of as many steps as divide the sum; 0: none does."""
    case = few_rows(random.Random(0), *sizes)
    (schedule,) = lw.lower(case.mod).schedules.values()
    taken = {str(i.attrs[0]): v for i, v in schedule.decisions.items() if i.kind.name == "Decide"}
    assert taken.get("depth", 0) == depth
    want = np.asarray(relax.interpreter.Interpreter(case.mod)["main"](*case.inputs))
    got = np.asarray(lw.compile(case.mod)(*case.inputs))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_machine_of_ones_own() -> None:
    """Where a thread needs more work, small kernels run on one."""
    case = module("exponentials", [(64, 512)], lambda bb, x: op.exp(x), random.Random(0))
    parallel = lambda: "T.parallel" in lw.lower(case.mod)["ApplyDefaultSchedule"].after.script()  # noqa: E731
    assert parallel()
    with MACHINES.registry.snapshot():
        register_machine(Machine(grain=1 << 20))
        assert not parallel()
    assert parallel()


@pytest.mark.parametrize(
    ("decisions", "told"),
    [
        ({"tir_exp": {"lanes": 7}}, "the decision has no such candidate\n  got: lanes = 7\n  instead: one of ["),
        ({"tir_exp": {"lane": 16}}, "of kernel tir_exp has no decision of this name\n  got: lane\n  instead: did you mean lanes?"),
        ({"tir_ex": {"lanes": 16}}, "no kernel of this name was scheduled by a rule\n  got: tir_ex\n  instead: did you mean tir_exp?"),
    ],
)  # fmt: skip
def test_wrong_decisions(decisions: Any, told: str) -> None:
    case = module("exponentials", [(64, 512)], lambda bb, x: op.exp(x), random.Random(0))
    with pytest.raises((ValueError, RuleError)) as error:
        lw.compile(case.mod, decisions=decisions)
    assert told in str(error.value)
