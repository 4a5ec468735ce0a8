"""What the tests of engines share: rows with numbers, a slow enough model, and a killed worker."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..serve.models import WIDTH, mlp

ROWS, BATCH = 10_000, 100
MOMENTS = int(os.environ.get("MOMENTS", "2"))  # workers that are killed, each in a run of its own


def rows() -> np.ndarray:
    return np.random.default_rng(7).standard_normal((ROWS, WIDTH)).astype("float32")


def right() -> np.ndarray:
    """The results, batch by batch, in this process."""
    x = rows()
    parts = range(0, ROWS, BATCH)
    return np.concatenate([np.asarray(mlp(threads=1)["main"](x[k : k + BATCH])) for k in parts])


def check(ids: Any, results: Any) -> None:
    """No row is lost, none is there twice, and all are equal bit by bit."""
    ids, results = np.asarray(ids), np.asarray(results)
    assert np.array_equal(np.sort(ids), np.arange(ROWS))
    assert np.array_equal(results[np.argsort(ids)], right())


class Slow:
    """A function of batches that takes its time, so that a run has a middle."""

    def __init__(self, predict: Callable[..., Any], seconds: float = 0.02) -> None:
        self.predict, self.seconds = predict, seconds

    def __call__(self, batch: Any) -> Any:
        time.sleep(self.seconds)
        return self.predict(batch)


@contextmanager
def killed(workers: Callable[[], Iterable[int]], seed: int, within: float) -> Iterator[list[int]]:
    """While the context is open, one of the workers is killed (-9) at a random moment."""
    draw, dead = random.Random(seed), []

    def kill() -> None:
        time.sleep(draw.uniform(0.05, within))
        dead.append(draw.choice(sorted(workers())))
        os.kill(dead[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    yield dead
    thread.join()
