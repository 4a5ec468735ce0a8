"""Every knob in one table: environment variables and `PassContext` options.

A knob is read through `knob(name)`. `docs/knobs.md` is made from this table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import explain
from .registry import Registry


@dataclass(frozen=True)
class Knob:
    """A documented option: its type, its default, and what it does.

    fields: a dict's entries and their defaults. refused: (reason, what to use instead) where an
    option of TVM's that means nothing here is an error unless its value is 0, False or empty.
    """

    name: str
    kind: type
    default: Any
    doc: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    refused: tuple[str, str] | None = None


def _flag(text: str) -> bool:
    return text.strip().lower() not in ("", "0", "false", "no", "off")


_PARSERS: dict[type, Callable[[str], Any]] = {bool: _flag, int: int, float: float, str: str}

ENVIRONMENT: dict[str, Knob] = {
    k.name: k
    for k in (
        Knob("LOOPWRIGHT_NUM_THREADS", int, 0, "Threads of the worker pool; 0 = one per core."),
        Knob("LOOPWRIGHT_PIN_THREADS", bool, True, "Keep each worker of the pool on one core."),
        Knob("LOOPWRIGHT_CACHE", bool, True, "Keep compiled code in the cache folder."),
        Knob(
            "LOOPWRIGHT_CACHE_DIR",
            str,
            "",
            "Cache folder; empty = ~/.cache/loopwright; unused where others can write.",
        ),
        Knob(
            "LOOPWRIGHT_CACHE_MB",
            int,
            5120,
            "Most MiB in it; the least recently used are removed first.",
        ),
        Knob("LOOPWRIGHT_JOBS", int, 0, "Processes that compile objects; 0 = one per core."),
        Knob(
            "LOOPWRIGHT_BUDGET_NODES",
            int,
            10_000,
            "Most nodes of a model file once its functions are expanded, and one more for each "
            "4 KiB of the file; inputs and outputs count as five. 0 = no bound.",
        ),
        Knob(
            "LOOPWRIGHT_BUDGET_MB",
            int,
            256,
            "Most constants, in MiB, that importing and folding make of a model file, and 16 times "
            "the file's size more; 0 = no bound.",
        ),
        Knob(
            "LOOPWRIGHT_BUDGET_SECONDS",
            float,
            4.0,
            "Most seconds that importing a model file computes, and 5 ms more for each node, 50 ms "
            "for each MiB; later steps have half a second for each node. 0 = no bound.",
        ),
        Knob(
            "LOOPWRIGHT_DEBUG_INFO",
            str,
            "",
            "Folder for the TensorIR of kernels, whose lines gdb and perf show; empty = no lines.",
        ),
        Knob(
            "LOOPWRIGHT_PERF_MAP",
            bool,
            False,
            "Write the kernels of each loaded model to /tmp/perf-PID.map, which perf report reads.",
        ),
        Knob(
            "LOOPWRIGHT_JITDUMP",
            str,
            "",
            "Folder for jit-PID.dump, the code of each loaded model with the lines of "
            "LOOPWRIGHT_DEBUG_INFO, which perf inject --jit reads; empty = none.",
        ),
        Knob(
            "LOOPWRIGHT_HOST_CPU",
            str,
            "",
            "The CPU to compile for in place of this machine's, by LLVM's name (haswell, znver4, ...): schedules and "
            "code are those that it would get; empty = the CPU that is there.",
        ),
        Knob("LOOPWRIGHT_RPC_SECRET", str, "", "What both sides of `loopwright.rpc` must know."),
        Knob(
            "LOOPWRIGHT_TRACEBACK",
            str,
            "",
            "full: tracebacks of errors keep Loopwright's own frames, which are hidden otherwise.",
        ),
        Knob("LOOPWRIGHT_DUMP", str, "", "Folder into which every pass's result is written."),
    )
}

PASS_OPTIONS: Registry[str, Knob] = Registry("pass option")


def declare_pass_option(
    name: str,
    kind: type,
    default: str | float | None,
    doc: str,
    fields: Mapping[str, Any] | None = None,
    refused: tuple[str, str] | None = None,
) -> None:
    """Add an option of `PassContext(config={name: value})` to the table."""
    knob = Knob(name, kind, default, doc, fields or {}, refused)
    PASS_OPTIONS.register(name, knob, override=True)


def knob(name: str) -> Any:
    """The value of an environment knob, parsed to its type.

    Raises ValueError when the variable's text does not fit the knob's type.
    """
    entry = ENVIRONMENT[name]
    text = os.environ.get(name)
    if text is None or (text == "" and entry.kind is not str):
        return entry.default
    try:
        return _PARSERS[entry.kind](text)
    except ValueError:
        what = f"environment variable {name} needs a value of type {entry.kind.__name__}"
        raise ValueError(explain(what, got=repr(text), instead=entry.doc)) from None
