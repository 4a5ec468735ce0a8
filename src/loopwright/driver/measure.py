"""Times composite functions with and without a back end: `relax.byoc.partition(cost="measured")`.

Each one is measured as a separate model, so an offloaded one includes converting its tensors to the
back end's layout and back. In a chain of offloaded functions these conversions disappear: the
measurement is an upper bound.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..ir.module import IRModule
from ..ir.prim_expr import IntImm
from ..relax.byoc import Backend, Cost, partition
from ..relax.struct_info import TensorStructInfo
from ..relax.transform import RunCodegen
from .steps import compile_steps

ROUNDS, SECONDS = 9, 0.002


def measure(mod: IRModule, backend: Backend) -> Cost | None:
    """Seconds of a call of `main`: the minimum over alternating bursts; None if a shape is not
    constant."""
    (gvar,) = mod.functions
    main = mod[gvar].without_attr("Composite")
    inputs = [_random(p.struct_info) for p in main.params]
    if any(i is None for i in inputs):
        return None
    mod = IRModule({"main": main})
    offloaded = partition(mod, backend, cost=None)
    variants = (RunCodegen(backends=[backend])(offloaded), mod)
    programs: list[Any] = [compile_steps(m)[0] for m in variants]
    calls = [program["main"] for program in programs]
    turns = []
    for call in calls:
        call(*inputs)
        start = time.perf_counter()
        call(*inputs)
        turns.append(max(1, int(SECONDS / (time.perf_counter() - start))))
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for call, count, seconds in zip(calls, turns, times, strict=True):
            start = time.perf_counter()
            for _ in range(count):
                call(*inputs)
            seconds.append((time.perf_counter() - start) / count)
    return Cost(*(min(seconds) for seconds in times))


def _random(info: TensorStructInfo) -> np.ndarray | None:
    shape = info.get_shape() if isinstance(info, TensorStructInfo) else None
    if shape is None or not all(isinstance(d, IntImm) for d in shape):
        return None
    values = np.random.default_rng(0).uniform(0.5, 1.5, [d.value for d in shape])
    return values.astype(str(info.dtype))
