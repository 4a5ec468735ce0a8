"""Models beside other threads that want the processors: python -m benchmarks.contention [MODEL ...]

Loopwright and onnxruntime, whose threads spin after a call: alone; taking turns in one process; beside a
busy process on one processor and on each; with twice as many threads as processors; under a quota of one and a
half processors (a cgroup, which needs the right to make one). Mean milliseconds of a call, and their ratio; the
last lines are geometric means over the models.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .models import load
from .worker import ENGINES, burst

MODELS = ("centerface", "ppocr-cls", "ppocr-rec", "magika")
PEER = "onnxruntime"
ROUNDS, SECONDS = 5, 0.4
BUSY = "while True: pass"
QUOTA = Path("/sys/fs/cgroup/cpu/loopwright-benchmark")


@contextlib.contextmanager
def _busy(cpus: list[int]) -> Iterator[None]:
    """A process on each of these CPUs that never sleeps."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in cpus]
    for other, cpu in zip(others, cpus, strict=True):
        os.sched_setaffinity(other.pid, [cpu])
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


@contextlib.contextmanager
def _quota(share: float) -> Iterator[None]:
    """This process and its children have no more time than that of `share` CPUs. Raises OSError."""
    QUOTA.mkdir(exist_ok=True)
    try:
        (QUOTA / "cpu.cfs_quota_us").write_text(f"{int(share * 100_000)}")
        (QUOTA / "tasks").write_text(str(os.getpid()))
        yield
    finally:
        (QUOTA.parent / "tasks").write_text(str(os.getpid()))
        QUOTA.rmdir()


def _child(path: str, feeds_path: str, threads: str, turns: str) -> None:
    """Print the mean milliseconds of a call of both engines, in this process."""
    feeds = dict(np.load(feeds_path))
    calls = [ENGINES[e](e, path, feeds, int(threads))[1] for e in ("loopwright", PEER)]
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        if turns == "turns":
            end = time.perf_counter() + 2 * SECONDS
            while time.perf_counter() < end:
                for call, own in zip(calls, times, strict=True):
                    start = time.perf_counter()
                    call()
                    own.append((time.perf_counter() - start) * 1e3)
        else:
            for call, own in zip(calls, times, strict=True):
                time.sleep(0.2)  # until the other's threads sleep
                own += burst(call, SECONDS)
    print(json.dumps([float(np.mean(own)) for own in times]))


def _measure(case: tuple[str, str], threads: int, turns: str = "apart") -> list[float]:
    command = [sys.executable, "-m", "benchmarks.contention", "--child", *case, str(threads), turns]
    environment = os.environ | {"LOOPWRIGHT_NUM_THREADS": str(threads)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure each model in each surrounding."""
    if sys.argv[1:2] == ["--child"]:
        _child(*sys.argv[2:])
        return
    cpus = sorted(os.sched_getaffinity(0))
    here = contextlib.nullcontext
    surroundings = {
        "alone": (here, len(cpus), "apart"),
        "taking turns": (here, len(cpus), "turns"),
        "one processor is busy": (lambda: _busy(cpus[-1:]), len(cpus), "apart"),
        "each processor is busy": (lambda: _busy(cpus), len(cpus), "apart"),
        "twice as many threads": (here, 2 * len(cpus), "apart"),
        "a quota of three quarters": (lambda: _quota(0.75 * len(cpus)), len(cpus), "apart"),
    }
    ratios: dict[str, list[float]] = {name: [] for name in surroundings}
    for name in sys.argv[1:] or MODELS:
        case = load(name)
        feeds = Path(case.path).with_suffix(".feeds.npz")
        np.savez(feeds, **case.feeds)
        for where, (surround, threads, turns) in surroundings.items():
            try:
                with surround():
                    ours, peer = _measure((str(case.path), str(feeds)), threads, turns)
            except OSError as error:
                print(f"{name:16} {where:28} not measured: {error}")
                continue
            ratios[where].append(math.log(ours / peer))
            print(
                f"{name:16} {where:28} {ours:8.3f} {peer:8.3f} ms  {ours / peer:5.2f}", flush=True
            )
    for where, logs in ratios.items():
        if logs:
            print(f"{where:45} {math.exp(sum(logs) / len(logs)):5.2f} x {PEER}")


if __name__ == "__main__":
    main()
