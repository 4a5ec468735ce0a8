"""How many threads compiled code uses, and the pool's life over forks.

The pool is native code, loaded by the code generator or with a compiled library; whoever loads one
binds it here by its functions' addresses. The number of threads is `LOOPWRIGHT_NUM_THREADS`, else the
CPUs this process may use (its affinity mask and its cgroup's quota), and can be changed at any time.
A model compiled with `threads=N`, or a library loaded so, has a pool of that size which stays.
`LOOPWRIGHT_PIN_THREADS=0` leaves the workers unpinned.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loopwright.base.config import knob

_pools: list[_Pool] = []
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
    """The environment's setting, else the number of physical cores this process may use."""
    setting = knob("LOOPWRIGHT_NUM_THREADS")
    if setting < 0:
        raise ValueError(f"LOOPWRIGHT_NUM_THREADS must be a positive number, got {setting}")
    if setting:
        return setting
    if hasattr(os, "sched_getaffinity"):
        cores = _physical_cores(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min(cores, math.ceil(_quota()) if _quota() < math.inf else cores))


@dataclass(frozen=True)
class _Pool:
    """A loaded pool: its functions' addresses, and whether its size follows `set_num_threads`."""

    addresses: Mapping[str, int]
    follows: bool

    def call(self, name: str, *args: int) -> int:
        return _call(self.addresses[name], *args)


def checked(n: int) -> int:
    """A number of threads. Raises ValueError for one that is not positive."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"the number of threads must be positive, got {n}")
    return n


def _call(address: int, *args: int) -> int:
    kinds = [ctypes.c_int32] * len(args)
    return ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(address)(*args)


def num_threads() -> int:
    """The threads a parallel loop uses, the calling one included."""
    following = next((pool for pool in _pools if pool.follows), None)
    if following is not None:
        return following.call("lw_num_threads")
    return _chosen or default_num_threads()


def set_num_threads(n: int) -> None:
    """Use `n` threads from the next parallel loop on; 1 runs everything in the calling thread."""
    global _chosen
    _chosen = checked(n)
    for pool in _pools:
        if pool.follows:
            pool.call("lw_set_num_threads", _chosen)


def bind_pool(addresses: Mapping[str, int], size: int | None = None) -> None:
    """Let a loaded pool follow this module: its size now, later changes, and forks. With a `size` it
    has that one for good.

    `addresses` has `lw_set_num_threads`, `lw_num_threads`, `lw_pool_reset`, `lw_pool_set_pinning`;
    their code must never be unloaded.
    """
    pool = _Pool(dict(addresses), size is None)
    pool.call("lw_pool_set_pinning", int(knob("LOOPWRIGHT_PIN_THREADS")))
    pool.call("lw_set_num_threads", size or _chosen or default_num_threads())
    _pools.append(pool)


def _after_fork() -> None:
    for pool in _pools:
        pool.call("lw_pool_reset")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
