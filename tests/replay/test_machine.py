"""Random graphs as programs of the virtual machine: each step of the way down, the program, and the
programs as TIR."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import loopwright as lw
from benchmarks.machine_steps import Model
from loopwright import relax
from loopwright.driver.vm_build import _vmcodegen
from loopwright.frontend.onnx import from_onnx
from loopwright.ir.module import IRModule
from loopwright.relax import transform as rt
from loopwright.runtime.vm.translate import Translated
from loopwright.script import from_source
from tools.fuzz.onnx_graphs import onnx_case
from tools.fuzz.onnx_model import to_onnx
from tools.fuzz.relax_graphs import relax_case
from tools.fuzz.relax_module import to_module

from .stages import CPU

ROOT = Path(__file__).resolve().parents[2]

STEPS = (
    *(rt.LegalizeOps, rt.ToNonDataflow, rt.RemovePurityChecking, rt.CallTIRRewrite),
    *(rt.StaticPlanBlockMemory, rt.LowerAllocTensor, rt.KillAfterLastUse, rt.LowerRuntimeBuiltin),
    rt.VMShapeLower,
)
SOURCES = {
    "own": lambda seed: to_module(relax_case(seed)),
    "imported": lambda seed: from_onnx(to_onnx(onnx_case(seed))),
}


def texts(mod: IRModule) -> dict[str, str]:
    made = {}
    for step in STEPS:
        mod = step()(mod)
        made[step.__name__] = graphs(mod)
        if step is rt.ToNonDataflow:
            made["parts"] = graphs(rt.OutlineNative()(mod))
    return {**made, **programs(mod)}


def programs(mod: IRModule) -> dict[str, str]:
    """The program of a lowered module, as the machine's and as TIR."""
    made = {}
    for mode in ("bytecode", "compiled"):
        builder = relax.ExecBuilder()
        rest = _vmcodegen(builder, mod, mode)
        program = builder.get()
        codes = [Translated(program, f).source for f in program.own() if f.code]
        text = f"{program.stats()}\n{program.as_text()}\n{program.as_python()}\n{codes}"
        made[mode] = text.replace(f"{ROOT}/", "")  # each side of a comparison has its own folder
        written = [
            f.script() for g, f in rest.functions.items() if g.name_hint.startswith("__vmtir")
        ]
        made[f"{mode} rest"] = str(written)
    return made


def graphs(mod):
    return "\n".join(f.script() for f in mod.functions.values() if isinstance(f, relax.Function))


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
@pytest.mark.parametrize("source", SOURCES)
def test_programs(source: str, replay: Any) -> None:
    rows = {str(seed): texts(SOURCES[source](seed)) for seed in range(60)}
    replay(f"machine/{source}", rows)


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
def test_branches_and_loops(replay: Any) -> None:
    steered = (
        {n[0] for n in onnx_case(seed).nodes} & {"Loop", "Scan", "If"} for seed in range(1200)
    )
    seeds = [seed for seed, kinds in enumerate(steered) if kinds]
    models = {str(seed): SOURCES["imported"](seed) for seed in seeds}
    rows = {name: texts(mod) for name, mod in models.items()}
    for name, mod in {"loops": Model, **dict([*models.items()][:12])}.items():
        trace = lw.lower(mod, CPU)
        rows[f"{name}, compiled"] = programs(trace[len(trace) - 1].after)
    replay("machine/steered", rows)


FOUR, ANY = 'R.Tensor((4,), "float32")', 'R.Tensor("float32", ndim=1)'
GIVEN = {  # what a function that calls itself takes, and what it gives itself
    "known": (FOUR, FOUR),
    "symbolic": ('R.Tensor(("m",), "float32")', 'R.Tensor((m,), "float32")'),
    "rank": (ANY, ANY),
    "cast": (FOUR, ANY),
    "unknown": ("R.Object", FOUR),
    "two": (f"R.Tuple({FOUR}, {FOUR})", f"R.Tuple({FOUR}, {ANY})"),
}
CALLS_ITSELF = """
@I.ir_module
class Module:
    @R.function
    def loop(i: R.Tensor((), "int64"), s: R.Tensor((), "int64"), v: {takes}) -> R.Object:
        again = R.less(i, s)
        if again:
            following = R.add(i, R.const(1, "int64"))
            given = R.call_pure_packed("test.given", v, sinfo_args=({gives},))
            result = Module.loop({first}, given)
        else:
            result = v
        return result
"""


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
def test_functions_that_call_themselves(replay: Any) -> None:
    rows = {}
    for name, (takes, gives) in GIVEN.items():
        for first in ("following, s", "s, following", "following, following"):
            text = CALLS_ITSELF.format(takes=takes, gives=gives, first=first)
            rows[f"{name}: {first}"] = texts(from_source(text))
    replay("machine/themselves", rows)
