"""Dask: batches on its workers, where one is killed, and what a batch costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from loopwright.serve import Predictor

from ..serve.models import batch, mlp
from .killing import BATCH, MOMENTS, ROWS, Slow, check, killed, rows

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.slow


@contextmanager
def cluster(folder: Any) -> Iterator[Any]:
    """A client of two workers, which listen on loopback alone."""
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "host": "127.0.0.1"}
    more = {"dashboard_address": "127.0.0.1:0", "local_directory": str(folder)}
    with (
        distributed.LocalCluster(**settings, **more) as workers,
        distributed.Client(workers) as client,
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
def test_a_killed_worker_loses_nothing(path, form, tmp_path):
    slow = Slow(Predictor(path if form == "path" else mlp(), outputs=["id", "out"]))
    x, ids = rows(), np.arange(ROWS)
    parts = [{"x": x[k : k + BATCH], "id": ids[k : k + BATCH]} for k in range(0, ROWS, BATCH)]
    for moment in range(MOMENTS):
        with cluster(tmp_path / str(moment)) as client:
            predict = client.scatter(slow, broadcast=True)
            with killed(lambda: _pids(client), moment, 0.8) as dead:
                futures = [client.submit(_call, predict, p, pure=False) for p in parts]
                results = client.gather(futures)
        assert len(dead) == 1
        found = ([r[name] for r in results] for name in ("id", "out"))
        check(*map(np.concatenate, found))


def _call(predict: Any, part: Any) -> Any:
    return predict(part)


def _empty(predict: Any, part: Any) -> Any:
    return part


@pytest.mark.budget(60)
def test_a_batch_costs_little_more_than_an_empty_task(path, tmp_path):
    with cluster(tmp_path) as client:
        _compare(client, path)


def _compare(client, path):
    predict = client.scatter(Predictor(path), broadcast=True)
    part = batch(10)

    def seconds(function: Any) -> float:
        begin = time.perf_counter()
        client.gather([client.submit(function, predict, part, pure=False) for _ in range(500)])
        return (time.perf_counter() - begin) / 500

    # In turn, since other load comes and goes.
    rounds = [(seconds(_call), seconds(_empty)) for _ in range(5)]
    call, empty = (min(times) * 1e3 for times in zip(*rounds, strict=True))
    print(f"ms a batch: {call:.3f}, empty {empty:.3f}")
    assert call < 2 * empty + 0.1  # call - empty < 0.1 where nothing else runs
