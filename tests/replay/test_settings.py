"""Passes over loops with other options than their defaults, over the modules that the docstrings of passes start
from and programs on their way down."""

from __future__ import annotations

import functools
from itertools import product
from typing import Any

import pytest

from loopwright.ir.module import IRModule
from loopwright.ir.transform import PassContext
from loopwright.script import from_source
from loopwright.tir import transform as tt
from loopwright.tir.transform.pipeline import lower_to_loops
from tools.make_passes import level

from ..tir.schedule.programs import PROGRAMS as SCHEDULED
from ..tir.transform.test_bodies import bodies, passes, program
from ..tir.transform.test_every_stage import PROGRAMS
from .stages import said
from .test_passes import documented


def options(name: str, **values: tuple[Any, ...]) -> list[dict[str, Any]]:
    """The values of an option's fields, all together."""
    return [{name: dict(zip(values, some, strict=True))} for some in product(*values.values())]


BOTH = (False, True)
SETTINGS: dict[str, list[tuple[Any, dict[str, Any]]]] = {
    "unroll": [
        *((tt.UnrollLoop(), o) for o in options(
            "tir.UnrollLoop", auto_max_step=(0, 1, 12, 40), auto_max_depth=(0, 1, 8), explicit_unroll=BOTH
        )),
        *((tt.UnrollLoop(), o) for o in options(
            "tir.UnrollLoop", auto_max_extent=(1, 2, 4), unroll_local_access=BOTH, explicit_unroll=BOTH
        )),
    ],
    "partition": [
        (tt.LoopPartition(), o) for o in options(
            "tir.LoopPartition", partition_const_loop=BOTH, no_unroll_loop_with_extent_one=BOTH,
            unroll_loop_with_partition_hint_no_interval=BOTH,
        )
    ],
    "double": [(tt.InjectDoubleBuffer(), o) for o in options("tir.InjectDoubleBuffer", split_loop=(0, 1, 2, 3))],
    "hoist": [
        (tt.HoistExpression(), o) for o in options(
            "tir.HoistExpression", hoisted_conditionals=(0, 1, 2, 4, 8, 15, True), hoisted_let_bindings=(0, 1, 2, True)
        )
    ],
    "simplify": [
        (tt.Simplify(), o) for o in options(
            "tir.Simplify", propagate_knowns_to_prove_conditional=BOTH,
            propagate_knowns_to_simplify_expressions=BOTH, convert_boolean_to_and_of_ors=BOTH,
        )
    ],
    "no-op": [
        (tt.RemoveNoOp(), o) for o in options("tir.RemoveNoOp", use_dataflow_analysis=BOTH, max_simplification_steps=(0, 5))
    ],
    "vectors": [
        (tt.VectorizeLoop(), {"tir.enable_buffer_level_predication": True}),
        (tt.VectorizeLoop(), {"tir.enable_buffer_level_predication": False}),
        (tt.VectorizeLoop(False), {}),
        (tt.VectorizeLoop(native=True), {}),
    ],
    "terms": [(tt.CommonSubexprElimTIR(a, b), {}) for a, b in product(BOTH, BOTH)],
    "storage": [
        (tt.CompactBufferAllocation(False), {}),
        (tt.StorageRewrite(), {}),
        (tt.MergeSharedMemoryAllocations(), {}),
        *((tt.LowerTVMBuiltin(most), {}) for most in (0, 8, 32)),
        *((tt.VerifyVTCMLimit(most), {}) for most in (0, 64)),
        *((tt.LowerWarpMemory(size), {}) for size in (4, 8, 32)),
    ],
    "types": [(tt.NarrowDataType(bits), {}) for bits in (8, 16, 64)],
    "checks": [(tt.InstrumentBoundCheckers(), {"tir.instrument_bound_checkers": True})],
}  # fmt: skip


@functools.cache
def modules() -> dict[str, IRModule]:
    made = {p.stem: mod for p, (_, mod) in documented().items() if level(p) == "tir"}
    for name, (text, _) in PROGRAMS.items():
        made[f"loops of {name}"] = lower_to_loops()(IRModule({"main": from_source(text)}))
    for name, (func, _) in SCHEDULED.items():
        made[f"program {name}"] = IRModule({"main": func})
    return made


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
@pytest.mark.parametrize("name", SETTINGS)
def test_options(name: str, replay: Any) -> None:
    rows: dict[str, dict[str, str]] = {}
    for step, config in SETTINGS[name]:

        def result(mod: IRModule, step: Any = step, config: Any = config) -> str:
            with PassContext(config=config):
                return step(mod).script()

        texts = {}
        for title, mod in modules().items():
            text = said(result, mod)
            if text != mod.script():
                texts[title] = text
        rows[f"{step} {config}"] = texts
    replay(f"settings/{name}", rows)


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
@pytest.mark.parametrize("kind", bodies())
def test_bodies(kind: str, replay: Any) -> None:
    """The same of small functions, of which another test sees that they compute the same then."""
    rows: dict[str, dict[str, str]] = {}
    mods = [program(body) for body in bodies()[kind]]
    for step, config in passes(kind):
        with PassContext(config=config):
            texts = [step(mod).script() for mod in mods]
        changed = {str(k): t for k, t in enumerate(texts) if t != mods[k].script()}
        rows[f"{step} {config}"] = changed
    replay(f"settings/bodies-{kind}", rows)
