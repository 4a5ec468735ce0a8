"""The files of examples/serve: FastAPI, and Triton's Python backend."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ..serve.models import batch, expected, mlp

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "serve"


@pytest.fixture
def folder(tmp_path) -> Any:
    (tmp_path / "1").mkdir()
    mlp(threads=1).export_library(tmp_path / "1" / "model.so")
    return tmp_path


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_fastapi(folder, monkeypatch):
    pytest.importorskip("httpx")  # of its client
    client_of = pytest.importorskip("fastapi.testclient", exc_type=ImportError)
    monkeypatch.setenv("MODEL", str(folder / "1" / "model.so"))
    client, x = client_of.TestClient(load(EXAMPLES / "fastapi_app.py").app), batch(3)
    assert client.get("/inputs").json() == ["x float32[n, 16]"]
    answer = client.post("/predict", json={"x": x.tolist()})
    np.testing.assert_allclose(answer.json()["out"], expected(x), rtol=1e-5, atol=1e-5)
    answer = client.post("/predict", json={"y": [1]})
    assert answer.status_code == 422 and "x float32[n, 16]" in answer.json()["detail"]


class Tensor:
    """A tensor as Triton's backend passes one."""

    def __init__(self, name: str, array: np.ndarray) -> None:
        self._name, self._array = name, array

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> np.ndarray:
        return self._array


class Request:
    def __init__(self, *tensors: Tensor) -> None:
        self._tensors = tensors

    def inputs(self) -> Any:
        return self._tensors


class Response:
    def __init__(self, output_tensors: Any = (), error: Any = None) -> None:
        self.tensors, self.error = output_tensors, error


def test_triton(folder, monkeypatch):
    """The backend's module is inside of Triton's server only: here is what it calls and passes."""
    module: Any = ModuleType("triton_python_backend_utils")
    module.Tensor, module.InferenceResponse, module.TritonError = Tensor, Response, RuntimeError
    monkeypatch.setitem(sys.modules, module.__name__, module)
    model = load(EXAMPLES / "triton" / "model.py").TritonPythonModel()
    model.initialize({"model_repository": str(folder), "model_version": "1"})
    x = batch(3)
    good, bad = model.execute([Request(Tensor("x", x)), Request(Tensor("x", x[:, :2]))])
    (out,) = good.tensors
    assert out.name() == "out"
    np.testing.assert_allclose(out.as_numpy(), expected(x), rtol=1e-5, atol=1e-5)
    assert "expected 16" in str(bad.error)
