"""How many threads compiled code uses, and the pool's life over forks.

The pool is native code, loaded by the code generator or with a compiled library; whoever loads one
binds it here by its functions' addresses. The number of threads is `LOOPWRIGHT_NUM_THREADS`, else the
CPUs this process may use (its affinity mask and its cgroup's quota), and can be changed at any time.
`LOOPWRIGHT_PIN_THREADS=0` leaves the workers unpinned.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Mapping
from pathlib import Path

from loopwright.base.config import knob

_pools: list[dict[str, int]] = []
_chosen: int | None = None


def _quota() -> float:
    """CPUs the cgroup (v2, then v1) grants, or infinity."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return math.inf if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    try:
        base = Path("/sys/fs/cgroup/cpu")
        limit = int((base / "cpu.cfs_quota_us").read_text())
        return limit / int((base / "cpu.cfs_period_us").read_text()) if limit > 0 else math.inf
    except (OSError, ValueError):
        return math.inf


def _physical_cores(cpus: set[int]) -> int:
    """How many of the CPUs are on different cores: two threads of one core share its units."""
    cores = set()
    for cpu in cpus:
        try:
            path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
            cores.add(Path(path).read_text())
        except OSError:
            return len(cpus)
    return len(cores)


def default_num_threads() -> int:
    """What the environment asks for, else the physical cores this process may use."""
    given = knob("LOOPWRIGHT_NUM_THREADS")
    if given < 0:
        raise ValueError(f"LOOPWRIGHT_NUM_THREADS must be a positive number, got {given}")
    if given:
        return given
    if hasattr(os, "sched_getaffinity"):
        cores = _physical_cores(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min(cores, math.ceil(_quota()) if _quota() < math.inf else cores))


def _call(address: int, *args: int) -> int:
    kinds = [ctypes.c_int32] * len(args)
    return ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(address)(*args)


def num_threads() -> int:
    """The threads a parallel loop uses, the calling one included."""
    if _pools:
        return _call(_pools[0]["lw_num_threads"])
    return _chosen or default_num_threads()


def set_num_threads(n: int) -> None:
    """Use `n` threads from the next parallel loop on; 1 runs everything in the calling thread."""
    global _chosen
    if n < 1:
        raise ValueError(f"the number of threads must be positive, got {n}")
    _chosen = int(n)
    for pool in _pools:
        _call(pool["lw_set_num_threads"], _chosen)


def bind_pool(addresses: Mapping[str, int]) -> None:
    """Let a loaded pool follow this module: its size now, later changes, and forks.

    `addresses` has `lw_set_num_threads`, `lw_num_threads`, `lw_pool_reset`, `lw_pool_set_pinning`;
    their code must never be unloaded.
    """
    pool = dict(addresses)
    _call(pool["lw_pool_set_pinning"], int(knob("LOOPWRIGHT_PIN_THREADS")))
    _call(pool["lw_set_num_threads"], _chosen or default_num_threads())
    _pools.append(pool)


def _after_fork() -> None:
    for pool in _pools:
        _call(pool["lw_pool_reset"])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
