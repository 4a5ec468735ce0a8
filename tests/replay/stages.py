"""The texts of a module on its way down, for targets that are the same on every machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.codegen.llvm.emit import add_function
from loopwright.codegen.llvm.module_text import ModuleText, text_of, without_comments
from loopwright.ir.module import IRModule
from loopwright.ir.target import Target
from loopwright.ir.trace import Trace
from loopwright.relax.analysis import post_order_visit
from loopwright.relax.expr import Constant
from loopwright.tir.function import PrimFunc

CPU = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=2"
ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=2"
C = "c -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=1"


def said(question: Callable[..., Any], *args: Any, **options: Any) -> str:
    """An answer, or our words of why there is none, but for lists of what is known, which other tests
    lengthen; of Python's words, which differ between its versions, the kind and the place."""
    try:
        return str(question(*args, **options))
    except Exception as error:
        text = re.sub(
            " at 0x[0-9a-f]+| from '[^']*'|(one of|did you mean|it has|known:) .*", "", str(error)
        )
        if type(error) is LoopwrightError or "\n  got: " in text or "\n  instead: " in text:
            return text
        return type(error).__name__ + text.partition("\n --> ")[2]


def graph_text(mod: IRModule) -> str:
    """A module's text, and its constants: of floats the first ones, to four bits, as processors
    round differently."""
    lines = [mod.script()]

    def visit(node: Any) -> None:
        if isinstance(node, Constant):
            array = node.data.numpy().reshape(-1)
            if array.dtype.kind in "biu":
                shown = array.tolist()
            else:
                parts, powers = np.frexp(array[:8].astype("float64"))
                shown = [f"{p} 2**{k}" for p, k in zip(np.rint(parts * 16), powers, strict=True)]
            lines.append(f"{node.struct_info}: {shown}")

    for function in mod.functions.values():
        post_order_visit(function, visit)
    return "\n".join(lines)


def stages(trace: Trace, target: str = CPU) -> dict[str, str]:
    """The loops, their schedules, the lowered ones, LLVM's text, and what was chosen."""
    lowered = trace[len(trace) - 1].after
    return {
        "loops": trace["LegalizeOps"].after.script(),
        "schedules": trace["ApplyDefaultSchedule"].after.script(),
        "lowered": lowered.script(),
        "llvm": llvm_text(lowered, target),
        "choices": choices(trace),
    }


def passes(trace: Trace) -> dict[str, str]:
    """The text after each pass that changed it."""
    made, known = {}, trace[0].before.script()
    for record in trace:
        text = known if record.group else record.after.script()
        if text != known:
            made[f"{record.name}{'.' * sum(k.startswith(record.name) for k in made)}"] = known = (
                text
            )
    return made


LEFT_OUT = {"target", "refused", "losers", "not_asked"}  # a new rule would be in all of them


def choices(trace: Trace) -> str:
    """What was decided, and why."""
    lines = []
    for note in trace.notes:
        if note.kind != "import":  # which says how long it took
            facts = (f"{k} {v}" for k, v in note.facts.items() if v and k not in LEFT_OUT)
            lines.append(f"{note.kind} {note.subject}: {', '.join(facts)}")
    return "\n".join(lines)


def llvm_text(mod: IRModule, target: str = CPU) -> str:
    """All loops of a lowered module as LLVM's text."""
    functions = {g.name_hint: f for g, f in mod.functions.items() if isinstance(f, PrimFunc)}
    module = ModuleText("snapshot", functions, target=Target(target))
    for name, func in functions.items():
        add_function(module, name, func)
    return text_of(without_comments(module.code()))


def c_text(mod: IRModule) -> str:
    """The C source of a module, or why there is none."""
    return said(lambda: lw.compile(mod, C).source)
