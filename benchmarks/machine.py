"""What the figures were measured on, and how busy it was."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def describe() -> dict[str, object]:
    """The processor, its usable cores, the load of other work, the system, the interpreter."""
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    processor = facts.get("model name", platform.processor())
    if "cpu family" in facts:
        processor += f", family {facts['cpu family']} model {facts['model']}"
    return {
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
    }
