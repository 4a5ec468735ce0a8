"""Eight workers of one model with 300 MB of weights share them."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright.serve import Predictor

from .models import module

WORKERS, WIDTH, HIDDEN = 8, 1024, 71_680
ROWS = np.ones((4, WIDTH), "float32")

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="Linux counts the pages of a process"
)


def megabytes(what: str, pid: int | str = "self") -> float:
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(r.split()[1]) for r in rows if r.startswith(what)) / 1024


def _work(model: Any, ready: Any, go: Any) -> None:
    predict = Predictor(model) if isinstance(model, str) else model
    before = np.asarray(predict(ROWS)).sum()
    ready.put(before)
    go.wait()


def _measured(model: Any, method: str, count: int) -> tuple[float, float]:
    """The memory of the workers, in which pages that n share count 1/n, and that which is a worker's own."""
    context = multiprocessing.get_context(method)
    ready, go = context.Queue(), context.Event()
    workers = [context.Process(target=_work, args=(model, ready, go)) for _ in range(count)]
    for worker in workers:
        worker.start()
    assert len({ready.get(timeout=60) for _ in workers}) == 1
    pids: list[Any] = [w.pid for w in workers] + (["self"] if method == "fork" else [])
    total, own = (sum(megabytes(what, p) for p in pids) for what in ("Pss:", "Private_"))
    go.set()
    for worker in workers:
        worker.join()
    return total, own / count


@pytest.mark.slow
@pytest.mark.budget(120)
@pytest.mark.no_roundtrip
def test_weights_are_shared(tmp_path):
    exe = lw.compile(module(width=WIDTH, hidden=HIDDEN), threads=1)
    path = str(tmp_path / "model.so")
    exe.export_library(path)
    del exe
    one, _ = _measured(path, "spawn", 1)
    many, own = _measured(path, "spawn", WORKERS)
    assert one > 290
    assert many - WORKERS * own < 1.2 * one  # the rest is each interpreter's own
    assert own < 60
    print(
        f"one {one:.0f} MB, {WORKERS} spawned {many:.0f} MB, of these {own:.0f} MB each their own"
    )
