"""Default schedules: what a kernel looks like when nobody has tuned it.

A rule takes a PrimFunc and a target and returns the scheduled PrimFunc, or None for "not mine".
Rules are looked up as everything chosen per target is: target kind, target keys in order, default;
within a place the first that answers wins. The winner goes into the trace.
"""

from __future__ import annotations

from . import cpu
from .apply import ApplyDefaultSchedule, register_schedule_rule

__all__ = ["ApplyDefaultSchedule", "cpu", "register_schedule_rule"]
