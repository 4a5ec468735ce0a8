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


THREADS = ("threadIdx.x", "threadIdx.y", "blockIdx.x", "vthread", "cthread")
PRAGMAS = ("auto_unroll_max_step", "import_c", "parallel_launch_point")


class Steps(programs.Steps):
    """Steps that only some targets can run, too."""

    def bind(self) -> None:
        stage = self.stage()
        extent = self.one([None, 1, 4])
        loop = self.one(stage.leaf_iter_vars)
        stage.bind(loop, te.thread_axis(extent, self.one(THREADS)))

    def prefetch(self) -> None:
        stage = self.stage()
        stage.prefetch(self.one(self.inputs), self.one(stage.leaf_iter_vars), self.one([1, 2]))

    def pragma(self) -> None:
        stage = self.stage()
        stage.pragma(self.one(stage.leaf_iter_vars), self.one(PRAGMAS), 8)

    def scope(self) -> None:
        self.stage().set_scope(self.one(["shared", "local", "warp", "global"]))

    def double_buffer(self) -> None:
        self.stage().double_buffer()

    def compute_root(self) -> None:
        self.stage().compute_root()


MORE = ("bind", "bind", "prefetch", "pragma", "scope", "double_buffer", "compute_root")


def assume(condition: Any) -> None:
    if not condition:
        raise ValueError("nothing to choose from")


def _texts(rng: random.Random, more: bool) -> dict[str, str]:
    def draw(strategy: Any) -> Any:
        return strategy(rng)

    kind = rng.choice(
        [programs.elementwise, programs.matmul, programs.conv, programs.rows, programs.recurrent]
    )
    inputs, middle, out, _ = kind(draw)
    s = te.create_schedule(out.op)
    steps, log = Steps(draw, s, inputs, middle, out), []
    names = programs._STEPS + MORE * 2 if more else programs._STEPS
    for name in rng.choices(names, k=rng.randint(1, 10)):
        log.append(f"{name}: {said(getattr(steps, name))}")
    made = {"program": str(te.create_prim_func([*inputs, out]).script()), "steps": "\n".join(log)}
    stages = (f"{t.op.name}: {s[t].leaf_iter_vars} {s[t].iter_var_attrs}" for t in steps.tensors)
    made["stages"] = "\n".join(stages)
    made["loops"] = said(lambda: te.lower(s, [*inputs, out]).script())
    return made


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("part", range(9))
def test_schedules(part: int, replay: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "st", STRATEGIES)
    monkeypatch.setattr(programs, "assume", assume)
    seeds = range(part * PART, (part + 1) * PART)
    replay(f"te/schedules-{part}", {str(s): _texts(random.Random(s), part > 4) for s in seeds})
