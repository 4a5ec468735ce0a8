"""Default schedules: how kernels are scheduled without tuning.

A rule takes a PrimFunc and a target and returns a `tir.Schedule`, or None for "not mine". Rules are
looked up like everything chosen per target: target kind, target keys in order, default; within each,
the first that returns a schedule wins. The trace records the winner and keeps its steps
(`trace.schedules`). A rule chooses among several values by `decide`, under a name by which
`compile(..., decisions=...)` chooses otherwise.
"""

from __future__ import annotations

from . import attention, packed, pools, winograd

# isort: split
from . import cpu  # its last rule takes what others decline
from .apply import ApplyDefaultSchedule, give_reason, register_schedule_rule
from .decisions import decide, deciding
from .machine import Machine, register_machine

__all__ = [
    "ApplyDefaultSchedule",
    "Machine",
    "attention",
    "cpu",
    "decide",
    "deciding",
    "give_reason",
    "packed",
    "pools",
    "register_machine",
    "register_schedule_rule",
    "winograd",
]
