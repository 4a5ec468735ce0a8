"""The ONNX models of one operator that the tests of the importer have, imported: as they are, of symbolic
sizes, with all inputs fed, and with an attribute, a version, an input or its type changed."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime", reason="the tests of the importer compare with it")

from onnx import AttributeProto, ModelProto

from loopwright.frontend.onnx import from_onnx

from ..frontend.onnx import (
    test_complex,
    test_contrib,
    test_ml,
    test_operators,
    test_recurrent,
    test_run_time_axes,
    test_tensor_operators,
)
from ..frontend.onnx.support import operator
from .stages import graph_text, said

CHANGES = 5  # of each model
VERSIONS = (1, 6, 8, 10, 11, 12, 13, 15, 18, 21, 24)


def of_rows(rows: Any, **more: Any) -> Iterator[tuple[str, list[ModelProto]]]:
    """The models of rows of (operator, inputs, options), for known and symbolic sizes and fed as a whole."""
    for op_type, given, options, *_ in rows:
        inputs = [None if v is None else np.asarray(v) for v in given]
        symbolic = options.get("symbolic", True)
        options = {**more, **{k: v for k, v in options.items() if k not in LEFT_OUT}}
        ways = [{}, {"fed": None}, *([{"symbolic": True}] if symbolic else [])]
        yield op_type, [operator(op_type, *inputs, **{**options, **way})[0] for way in ways]


LEFT_OUT = ("symbolic", "own", "compared")  # of the tables of tests
TABLES = {
    "operators": lambda: of_rows(test_operators.CASES),
    "tensors": lambda: of_rows(row.values for row in test_tensor_operators.CASES),
    "contrib": lambda: of_rows(test_contrib.CASES, domain=test_contrib.DOMAIN),
    "complex": lambda: of_rows(test_complex.CASES),
    "ml": lambda: ((r[0], [test_ml.model(r[0], *r[1], **r[2])[0]]) for r in test_ml.CASES),
    "recurrent": lambda: (
        (kind, [test_recurrent.model(kind, symbolic=s, **options)[0] for s in (False, True)])
        for kind, options in test_recurrent.CASES
    ),
    "steered": lambda: (
        (c[0], [test_run_time_axes.made(c[0], c[1], [v if v is None else np.asarray(v) for v in c[2]])])
        for c in test_run_time_axes.CASES
    ),
}


def changed(rng: random.Random, given: ModelProto) -> ModelProto:
    """A model that differs in one fact that converters ask for."""
    model = copy.deepcopy(given)
    rng.choice(list(_ways(rng, model)))()
    return model


def _ways(rng: random.Random, model: ModelProto) -> Iterator[Any]:
    node = model.graph.node[0]
    yield lambda: setattr(model.opset_import[0], "version", rng.choice(VERSIONS))
    for k, attribute in enumerate(node.attribute):
        yield lambda k=k: node.attribute.pop(k)
        if attribute.type == AttributeProto.INT:
            yield lambda a=attribute: setattr(a, "i", rng.choice([-2, -1, 0, 1, 2, 3]))
        elif attribute.type == AttributeProto.FLOAT:
            yield lambda a=attribute: setattr(a, "f", rng.choice([-1.0, 0.0, 1.0, 0.5]))
        elif attribute.type == AttributeProto.INTS and attribute.ints:
            yield lambda a=attribute: a.ints.pop()
            place = rng.randrange(len(attribute.ints))
            yield lambda a=attribute, p=place: a.ints.__setitem__(p, rng.choice([-1, 0, 1, 2, 3]))
    for k in range(len(node.input)):
        yield lambda k=k: node.input.__setitem__(k, "")
    yield lambda: node.input.pop()
    for port in model.graph.input:
        tensor = port.type.tensor_type
        yield lambda t=tensor: t.ClearField("shape")
        yield lambda t=tensor: setattr(t, "elem_type", rng.choice([1, 2, 3, 6, 7, 9, 10, 11, 16]))
        yield lambda t=tensor: setattr(t.shape.dim.add(), "dim_value", rng.choice([1, 2]))
        if tensor.shape.dim:
            dim = rng.choice(tensor.shape.dim)
            yield lambda d=dim: setattr(d, "dim_value", rng.choice([0, 1, 2, 6]))
            yield lambda d=dim: setattr(d, "dim_param", "n")
            yield lambda d=dim: d.Clear()


def imported(model: ModelProto) -> str:
    return said(lambda: graph_text(from_onnx(model)))


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("table", TABLES)
def test_models(table: str, replay: Any) -> None:
    rows = {}
    for k, (op_type, models) in enumerate(TABLES[table]()):
        rng = random.Random(f"{op_type} {k}")
        more = [changed(rng, rng.choice(models)) for _ in range(CHANGES)]
        rows[f"{op_type}-{k}"] = {
            "": "\n".join(map(imported, models)),
            "changed": "\n".join(map(imported, more)),
        }
    replay(f"converters/{table}", rows)
