"""Checks for tests of schedules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ...ir.structural import assert_structural_equal
from ...tir.function import PrimFunc
from ...tir.schedule.machinery.trace import Trace
from ...tir.schedule.schedule import Schedule

if TYPE_CHECKING:
    from ...ir.module import IRModule


def assert_structural_equal_ignore_global_symbol(
    func1: IRModule | PrimFunc, func2: IRModule | PrimFunc, *args: Any, **kwargs: dict[str, Any]
) -> None:
    """Raise ValueError where two functions (or modules) differ in more than their names."""
    assert_structural_equal(_nameless(func1), _nameless(func2), *args, **kwargs)


def _nameless(value: IRModule | PrimFunc) -> Any:
    if isinstance(value, PrimFunc):
        return value.without_attr("global_symbol")
    nameless = value.clone()
    for gvar, func in value.functions.items():
        if isinstance(func, PrimFunc):
            nameless.functions[gvar] = func.without_attr("global_symbol")
    return nameless


def verify_trace_roundtrip(
    sch: Schedule,
    mod: PrimFunc,
    *,
    debug_mask: str | int = "all",
    text_format: str | list[str] | tuple[str, ...] = ("python", "json"),
) -> Schedule:
    """Replay a schedule's trace on `mod`, from its instructions and from JSON; raise ValueError
    where the resulting program differs. Returns the last schedule."""
    formats = [text_format] if isinstance(text_format, str) else list(text_format)
    replayed = Schedule(mod, debug_mask=debug_mask)
    for name in formats:
        replayed = Schedule(mod, debug_mask=debug_mask)
        if name == "json":
            Trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), replayed)
        else:
            sch.trace.apply_to_schedule(replayed)
        assert_structural_equal(replayed.mod, sch.mod)
    return replayed
