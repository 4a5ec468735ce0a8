"""`topi.generic`, `topi.x86` and `topi.arm_cpu` of TVM 0.18: see `machines`."""

from __future__ import annotations

from .machines import names

__getattr__ = names(schedules=True, spelled={})
