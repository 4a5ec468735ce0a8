"""What scripts that do not tune take from TVM 0.18's `autotvm`.

Kernels are scheduled by rules here (`sched`), so there are no records of tuned schedules: a context
of records changes nothing, and what tunes, or reads a template's choices, raises an error.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import wraps
from typing import Any

from ..base.errors import explain


class FallbackContext(nullcontext[None]):
    """The context where no record is known, which is so everywhere here."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: dict[Any, Any] = {}


class FallbackConfigEntity:
    """The choices of a template without a record; there are no templates here to read them."""

    is_fallback = True


def context(target: Any, extra_files: Any = None) -> FallbackContext:
    """`tophub.context`: the context of a target's tuned schedules."""
    return FallbackContext()


def untuned(*args: Any, **options: Any) -> Any:
    """Where AutoTVM or the auto-scheduler would be asked. Raises NotImplementedError."""
    what = "there are no templates of AutoTVM here, and no auto-scheduler"
    hint = "relay.build, which schedules by the target's rules, or a schedule with tir.Schedule"
    raise NotImplementedError(explain(what, got="a call that reads or tunes one", instead=hint))


def _template(name: str, func: Any = None) -> Any:
    """`autotvm.register_topi_compute` and `register_topi_schedule`: a function without its first
    parameter, the choices of a template, which there are none of here."""

    def decorate(fn: Any) -> Any:
        @wraps(fn)
        def plain(*args: Any, **options: Any) -> Any:
            return fn(FallbackConfigEntity(), *args, **options)

        return plain

    return decorate if func is None else decorate(func)


register_topi_compute = register_topi_schedule = _template
get_config = task_create = untuned
extract_from_program = extract_from_multiple_program = extract_tasks = untuned
apply_history_best = apply_graph_best = ApplyHistoryBest = untuned
measure_option = LocalBuilder = LocalRunner = RPCRunner = untuned
GATuner = GridSearchTuner = RandomTuner = TaskScheduler = TuningOptions = XGBTuner = untuned

__all__ = [
    "FallbackConfigEntity",
    "FallbackContext",
    "context",
    "get_config",
    "register_topi_compute",
    "register_topi_schedule",
    "untuned",
]
