"""Random schedules of random programs: the steps, the loops, and the code."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.tir import transform as tt

from ..tir.schedule.long_run import sequence
from .stages import llvm_text


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("part", range(12))
def test_sequences(part: int, replay: Any) -> None:
    rows = {}
    for seed in range(part * 5, part * 5 + 5):
        program, walk = sequence(seed)
        lowered = tt.default_tir_pipeline()(walk.sch.mod)
        rows[str(seed)] = {
            "program": program.text,
            "steps": str(walk.sch.trace),
            "refused": str(sorted(walk.reasons)),
            "loops": walk.sch.mod.script(),
            "lowered": lowered.script(),
            "code": llvm_text(lowered),
        }
    replay(f"schedules/{part}", rows)
