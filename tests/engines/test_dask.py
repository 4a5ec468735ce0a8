"""Dask: batches on its workers, where one is killed, and what a batch costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from loopwright.serve import Predictor

from ..serve.models import batch, mlp
from .killing import BATCH, MOMENTS, ROWS, Slow, check, killed, rows

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Iterator[Any]:
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "host": "127.0.0.1"}
    folder = str(tmp_path_factory.mktemp("dask"))
    with (
        distributed.LocalCluster(**settings, dashboard_address=None, local_directory=folder) as c,
        distributed.Client(c) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Any:
    path = tmp_path_factory.mktemp("library") / "model.so"
    mlp(threads=1).export_library(path)
    return path


def _pids(client: Any) -> list[int]:
    return [n.process.pid for n in client.cluster.workers.values() if n.process]


@pytest.mark.budget(120)
@pytest.mark.parametrize("form", ["path", "executable"])
def test_a_killed_worker_loses_nothing(client, path, form):
    slow = Slow(Predictor(path if form == "path" else mlp(), outputs=["id", "out"]))
    x, ids = rows(), np.arange(ROWS)
    for moment in range(MOMENTS):
        client.wait_for_workers(2, timeout=60)
        predict = client.scatter(slow, broadcast=True)
        with killed(lambda: _pids(client), moment, 0.8) as dead:
            parts = [{"x": x[k : k + BATCH], "id": ids[k : k + BATCH]} for k in range(0, ROWS, BATCH)]
            futures = [client.submit(_call, predict, p, pure=False) for p in parts]
            results = client.gather(futures)
        assert len(dead) == 1
        check(
            np.concatenate([r["id"] for r in results]), np.concatenate([r["out"] for r in results])
        )


def _call(predict: Any, part: Any) -> Any:
    return predict(part)


def _empty(predict: Any, part: Any) -> Any:
    return part


@pytest.mark.budget(60)
def test_a_batch_costs_little_more_than_an_empty_task(client, path):
    client.wait_for_workers(2, timeout=60)
    predict = client.scatter(Predictor(path), broadcast=True)
    part = batch(10)

    def seconds(function: Any) -> float:
        begin = time.perf_counter()
        client.gather([client.submit(function, predict, part, pure=False) for _ in range(500)])
        return (time.perf_counter() - begin) / 500

    times = {f: [seconds(f) for _ in range(5)] for f in (_call, _empty)}
    more = min(times[_call]) - min(times[_empty])
    print(f"ms a batch: {min(times[_call]) * 1e3:.3f}, empty {min(times[_empty]) * 1e3:.3f}")
    assert more < 0.5e-3  # 0.1 ms where nothing else runs
