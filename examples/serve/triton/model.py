"""A compiled model in Triton's Python backend: this file as MODELS/mlp/1/model.py, `model.so` next to it.

Triton batches requests by itself (`dynamic_batching` in config.pbtxt); this class runs them one by one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import triton_python_backend_utils as triton

from loopwright.serve import Predictor


class TritonPythonModel:
    """What the backend looks for."""

    def initialize(self, args: dict[str, str]) -> None:
        folder = Path(args["model_repository"], args["model_version"])
        self.predict = Predictor(folder / "model.so")

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        try:
            tensors = {t.name(): t.as_numpy() for t in request.inputs()}
            results = self.predict(tensors)
        except (ValueError, TypeError) as error:
            return triton.InferenceResponse(error=triton.TritonError(str(error)))
        return triton.InferenceResponse([triton.Tensor(n, r) for n, r in results.items()])
