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


def relative_error(got: np.ndarray, expected: np.ndarray) -> float:
    """max |got - expected| / max |expected|."""
    assert got.shape == expected.shape, f"shape {got.shape} for {expected.shape}"
    assert got.dtype == expected.dtype, f"dtype {got.dtype} for {expected.dtype}"
    return float(np.abs(got - expected).max() / np.abs(expected).max())


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
