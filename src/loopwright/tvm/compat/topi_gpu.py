"""`topi.cuda`, `topi.gpu`, `topi.hls` and others of TVM 0.18: see `machines`."""

from __future__ import annotations

from .machines import names

__getattr__ = names(schedules=False, spelled={})
