"""Default schedules: how kernels are scheduled without tuning.

A rule takes a PrimFunc and a target and returns the scheduled PrimFunc, or None for "not mine".
Rules are looked up like everything chosen per target: target kind, target keys in order, default;
within each, the first that returns a function wins. The trace records the winner.
"""

from __future__ import annotations

from . import attention, winograd

# isort: split
from . import cpu  # its last rule takes what others decline
from .apply import ApplyDefaultSchedule, give_reason, register_schedule_rule

__all__ = [
    "ApplyDefaultSchedule",
    "attention",
    "cpu",
    "give_reason",
    "register_schedule_rule",
    "winograd",
]
