"""Ray: actors of Ray Data, where one is killed, what a batch costs, and weights in its object store."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopwright.serve import Predictor

from ..serve.models import batch, mlp
from .killing import BATCH, MOMENTS, ROWS, Slow, check, killed, rows

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # which lets it listen on loopback alone
ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    ray.init(
        num_cpus=2,
        _node_ip_address="127.0.0.1",
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=1 << 30,
        runtime_env={"env_vars": paths},
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Any:
    path = tmp_path_factory.mktemp("library") / "model.so"
    mlp(threads=1).export_library(path)
    return path


class SlowPredictor(Slow):
    """Ray makes one in each actor."""

    def __init__(self, path: str, folder: str) -> None:
        super().__init__(Predictor(path, outputs=["id", "out"]))
        Path(folder, str(os.getpid())).touch()


def _living(folder: Path) -> list[int]:
    return [int(f.name) for f in folder.iterdir() if Path("/proc", f.name).exists()]


@pytest.mark.budget(120)
def test_a_killed_actor_loses_nothing(path, tmp_path):
    x, ids = rows(), np.arange(ROWS)
    for moment in range(MOMENTS):
        folder = tmp_path / str(moment)
        folder.mkdir()

        def started(folder: Path = folder) -> list[int]:
            while not _living(folder):
                time.sleep(0.01)
            time.sleep(0.3 * np.random.default_rng(int(folder.name)).random())
            return _living(folder)

        data = ray.data.from_numpy_refs(
            [ray.put(ids[k : k + BATCH]) for k in range(0, ROWS, BATCH)]
        )
        data = data.map_batches(lambda b: {"id": b["data"], "x": x[b["data"]]}, batch_size=BATCH)
        with killed(started, moment, 0.06) as dead:
            results = data.map_batches(
                SlowPredictor,
                fn_constructor_args=(str(path), str(folder)),
                batch_size=BATCH,
                concurrency=2,
                num_cpus=0.5,
                max_restarts=-1,
                max_task_retries=-1,
            ).take_all()
        assert len(dead) == 1
        check([r["id"] for r in results], [r["out"] for r in results])


@ray.remote(num_cpus=1)
class Actor:
    def __init__(self, predict: Any) -> None:
        self.predict = predict

    def call(self, part: Any) -> Any:
        return self.predict(part)

    def empty(self, part: Any) -> Any:
        return part

    def weights(self) -> list[int]:
        """How many weights there are, and of them how many code reads where they arrived."""
        arrays = {a.ctypes.data for a in self.predict._pickle[2]}
        constants = self.predict.model.program.constants.values()
        large = [a.ctypes.data for a in constants if a.nbytes >= 4096]
        return [len(large), sum(a in arrays for a in large)]


@pytest.mark.budget(60)
def test_a_batch_costs_little_more_than_an_empty_call(path):
    actor, part = Actor.remote(Predictor(path)), batch(10)

    def seconds(method: Any) -> float:
        begin = time.perf_counter()
        for _ in range(300):
            ray.get(method.remote(part))
        return (time.perf_counter() - begin) / 300

    # In turn, since other load comes and goes.
    rounds = [(seconds(actor.call), seconds(actor.empty)) for _ in range(5)]
    call, empty = (min(times) * 1e3 for times in zip(*rounds, strict=True))
    print(f"ms a batch: {call:.3f}, empty {empty:.3f}")
    assert call < 2 * empty + 0.1  # call - empty < 0.1 where nothing else runs


@pytest.mark.budget(60)
def test_weights_are_read_in_the_object_store():
    import loopwright as lw

    from ..serve.models import module

    predict = Predictor(lw.compile(module(width=16, hidden=2048)))
    stored = ray.put(predict)
    actors = [Actor.remote(stored) for _ in range(2)]
    assert [ray.get(a.weights.remote()) for a in actors] == [[3, 3]] * 2
    x = batch(5)
    for actor in actors:
        assert np.array_equal(ray.get(actor.call.remote(x)), predict(x))
