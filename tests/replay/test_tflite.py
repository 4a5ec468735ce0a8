"""TFLite models of one operator, imported: of real numbers, of bytes of one scale, and of bytes of many."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the package tflite, TFLite's schema, is not installed")

from loopwright.frontend.tflite import from_tflite

from ..frontend.tflite import test_quantized as quantized
from ..frontend.tflite.cases import CASES, Case
from ..frontend.tflite.support import model
from .stages import graph_text, said

BY_KIND: dict[str, list[Case]] = defaultdict(list)
for _case in CASES:
    BY_KIND[_case.kind].append(_case)


def text(data: bytes) -> str:
    return said(lambda: graph_text(from_tflite(data)))


def in_bytes(case: Case, dtype: str, step: float) -> bytes:
    """The model with bytes for its real numbers; the scale of each tensor is `step` more than the one
    before's."""
    graph = case.drawn()
    for k, tensor in enumerate(t for t in graph.tensors if t.dtype == "float32"):
        tensor.dtype, tensor.scale, tensor.zero = dtype, 0.05 + step * k, 3 if step else 0
        if tensor.data is not None:
            info, steps = np.iinfo(dtype), np.rint(tensor.data / tensor.scale) + tensor.zero
            tensor.data = np.clip(steps, info.min, info.max).astype(dtype)
    return model(graph)


@pytest.mark.no_roundtrip
def test_operators(replay: Any) -> None:
    rows = {}
    for cases in BY_KIND.values():
        for case in cases:
            rows[case.id] = {
                "real": text(case.graph()),
                "one": text(in_bytes(case, "int8", 0.0)),
                "many": text(in_bytes(case, "uint8", 0.01)),
            }
    for number, case in enumerate(quantized.CASES):
        rows[f"{case.id}-{number}"] = {"": text(case.made()[0])}
    replay("tflite", rows)
