"""What the system tells of the processor."""

from __future__ import annotations

import pytest

from loopwright.ir import cpu_info


def test_usable_cores_without_affinities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(cpu_info.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(cpu_info.os, "cpu_count", lambda: 3)
    assert cpu_info.usable_cores() == 3
    monkeypatch.setattr(cpu_info.os, "cpu_count", lambda: None)
    assert cpu_info.usable_cores() == 1
