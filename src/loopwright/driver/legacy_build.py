"""`build` and `lower` as older TVM scripts call them, including on a `te.Schedule`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..base.late import Slot
from .front import compile

if TYPE_CHECKING:
    from ..ir.target import Target
    from ..tir.buffer import DataProducer

LOWER: Slot[Callable[..., Any]] = Slot("driver.lower_model")
TE_SCHEDULES: Slot[Any] = Slot("driver.te_schedules")


def _is_te_schedule(model: object) -> bool:
    return hasattr(model, "stage_map")  # avoids importing `te` for other models


def build(model: Any, *args: str | list[DataProducer], **options: Any) -> Any:
    """`compile(model, target, ...)`; for a schedule `te.build(s, args, target, name)`. options: of these.

    >>> B = te.compute((3,), lambda i: i + 1, "B")
    >>> lw.build(te.create_prim_func([B]))
    <Executable for llvm ...: main(B int32[3])>
    """
    make = TE_SCHEDULES.get().build if _is_te_schedule(model) else compile
    return make(model, *args, **options)


def lower(model: Any, *args: Target | str | Sequence[DataProducer], **options: Any) -> Any:
    """`driver.lower(model, target, ...)`; for a schedule `te.lower(s, args, name, simple_mode)`. options: of these.

    >>> B = te.compute((3,), lambda i: i + 1, "B")
    >>> trace = lw.lower(te.create_prim_func([B]))
    >>> trace["ApplyDefaultSchedule"].after["main"].params
    (...B...,)
    """
    make = TE_SCHEDULES.get().lower if _is_te_schedule(model) else LOWER.get()
    return make(model, *args, **options)
