"""Random schedules of tensor programs: the stages, what was refused, and the loops."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from loopwright import te

from ..te import test_random as programs
from .stages import said

PART = 60  # programs of a test
# hypothesis' strategies, of an own source of random numbers: its differ between versions
STRATEGIES = SimpleNamespace(
    integers=lambda low, high: lambda rng: rng.randint(low, high),
    sampled_from=lambda items: lambda rng: rng.choice(items),
    permutations=lambda items: lambda rng: rng.sample(items, len(items)),
)


def assume(condition: Any) -> None:
    if not condition:
        raise ValueError("nothing to choose from")


def _texts(rng: random.Random) -> dict[str, str]:
    def draw(strategy: Any) -> Any:
        return strategy(rng)

    kind = rng.choice(
        [programs.elementwise, programs.matmul, programs.conv, programs.rows, programs.recurrent]
    )
    inputs, middle, out, _ = kind(draw)
    s = te.create_schedule(out.op)
    steps, log = programs.Steps(draw, s, inputs, middle, out), []
    for name in rng.choices(programs._STEPS, k=rng.randint(1, 10)):
        log.append(f"{name}: {said(getattr(steps, name))}")
    made = {"program": str(te.create_prim_func([*inputs, out]).script()), "steps": "\n".join(log)}
    stages = (f"{t.op.name}: {s[t].leaf_iter_vars} {s[t].iter_var_attrs}" for t in steps.tensors)
    made["stages"] = "\n".join(stages)
    made["loops"] = said(lambda: te.lower(s, [*inputs, out]).script())
    return made


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("part", range(5))
def test_schedules(part: int, snapshot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "st", STRATEGIES)
    monkeypatch.setattr(programs, "assume", assume)
    seeds = range(part * PART, (part + 1) * PART)
    snapshot(f"te/schedules-{part}", {str(s): _texts(random.Random(s)) for s in seeds})
