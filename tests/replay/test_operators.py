"""The samples of every operator: their loops, schedules and code."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

import loopwright as lw
from loopwright.ops.core import OPERATORS, Operator

from ..ops.matrix import make
from .stages import CPU, c_text, stages

FAMILIES: dict[str, list[Operator]] = defaultdict(list)
for _operator in OPERATORS.values():
    if _operator.cases and _operator.op.has_attr("FLegalize"):
        FAMILIES[_operator.body.__module__.rpartition(".")[2]].append(_operator)


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("family", FAMILIES)
def test_operators(family: str, replay: Any) -> None:
    rows = {}
    for operator in FAMILIES[family]:
        for n, case in enumerate(operator.cases[:2]):
            mod = make(operator, case).module
            rows[f"{operator.name}-{n}"] = stages(lw.lower(mod, CPU))
            if not n:
                rows[f"{operator.name}-{n}"]["c"] = c_text(mod)
    replay(f"operators/{family}", rows)
