"""Real models for tests: `zoo("magika")` gives the file, its inputs, onnxruntime's outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tools.zoo import MODELS, Feeds, RegistryError, fetch

if TYPE_CHECKING:
    import onnxruntime


@dataclass(frozen=True)
class Case:
    """One input of a model and what onnxruntime makes of it, its graph optimizations off."""

    feeds: Feeds
    expected: dict[str, np.ndarray]


@dataclass(frozen=True)
class ZooModel:
    """A fetched model: `cases[1]`, where there is one, has other shapes than `cases[0]`."""

    path: Path
    cases: list[Case]


FIELDS, SAMPLES = (
    128,
    64,
)  # at most so many fields of an output, and at least so many values of each


def relative_error(got: np.ndarray, expected: np.ndarray) -> float:
    """max |got - expected| / max |expected|, of the output and of each of its fields.

    A detector's output is rows of boxes in pixels and scores below 1, [..., 5] or [batch, 5, ...]: by the
    scale of the whole a score is wrong by its full size before it is noticed. So each entry of the last axis,
    and of the axis behind the batch, has its own scale where it is a field: there are few of them, with
    many values each. The scores of a classifier, [batch, classes], are one value each and share the scale of
    the vector: the relative error of a probability of 1e-9 says nothing. So does a field of zeros.
    """
    assert got.shape == expected.shape, f"shape {got.shape} for {expected.shape}"
    assert got.dtype == expected.dtype, f"dtype {got.dtype} for {expected.dtype}"
    error, size = np.abs(got - expected), np.abs(expected)
    found = [error.max() / size.max()]
    for axis in {1, expected.ndim - 1} if expected.ndim > 1 else ():
        count = expected.shape[axis]
        if 1 < count <= FIELDS and expected.size >= SAMPLES * count:
            others = tuple(k for k in range(expected.ndim) if k != axis)
            own = size.max(axis=others)
            found.append((error.max(axis=others) / np.where(own > 0, own, size.max())).max())
    return float(np.max(found))


def quiet_session(path: Path) -> onnxruntime.InferenceSession:
    """onnxruntime's, its graph optimizations off; without it the test is skipped."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@cache
def _load(name: str) -> ZooModel | RegistryError:
    try:
        path = fetch(name)
    except RegistryError as error:
        return error  # kept, so that a registry out of reach is waited for only once
    session = quiet_session(path)
    names = [output.name for output in session.get_outputs()]
    cases = [
        Case(feeds, dict(zip(names, session.run(names, feeds)))) for feeds in MODELS[name].cases()
    ]
    return ZooModel(path, cases)


@pytest.fixture
def zoo() -> Callable[[str], ZooModel]:
    """`zoo(name)`; the test is skipped when the package registry is out of reach."""

    def load(name: str) -> ZooModel:
        model = _load(name)
        if isinstance(model, RegistryError):
            pytest.skip(f"the package registry is out of reach, so no {name}: {model}")
        return model

    return load
