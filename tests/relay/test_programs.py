"""Passes compute what the program did before: also where they leave it for a reason."""

from __future__ import annotations

import pytest

from .programs import PROGRAMS
from .test_passes import agree

ROWS = [(step, name) for step, (_, rows) in PROGRAMS.items() for name in rows]


@pytest.mark.sample(28)
@pytest.mark.no_roundtrip
@pytest.mark.parametrize(("step", "name"), ROWS)
def test_results_stay(rng: np.random.Generator, step: str, name: str) -> None:
    made, rows = PROGRAMS[step]
    agree(rng, rows[name], made)
