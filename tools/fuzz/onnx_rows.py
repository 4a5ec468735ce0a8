"""Nodes like those that the tests of the importer compare with onnxruntime, varied."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from tests.frontend.onnx import test_contrib, test_ml, test_operators, test_tensor_operators
from tests.frontend.onnx.test_ml import ALL, trees

from .build import NotHere
from .onnx_build import OnnxBuilder
from .onnx_ops import maker
from .varied import TRIES, Variation

# What a row says beside attributes.
OPTIONS = {"symbolic", "own", "compared", "fed", "opset", "outputs", "domain"}
FIXED = {"post_transform"}  # of one score onnxruntime has its own
FINAL = {"NonMaxSuppression", "DynamicQuantizeLinear"}
ROWS: dict[str, list[tuple[list[Any], dict[str, Any]]]] = defaultdict(list)
_TABLES = {
    "com.microsoft": test_contrib.CASES,
    "ai.onnx.ml": test_ml.CASES,
    "": [*test_operators.CASES, *(row.values[:3] for row in test_tensor_operators.CASES)],
}
for _domain, _rows in _TABLES.items():
    for _op, _inputs, _options in _rows:
        _space = _options.get("domain", _domain)
        ROWS[f"{_space}::{_op}" if _space else _op].append((list(_inputs), _options))


def varied(g: OnnxBuilder, op: str) -> None:
    """A node like one of an operator's rows; at last the row's own."""
    before = len(g.case.nodes), len(g.values)
    for share in TRIES:
        try:
            _Varied(g, op, share).add()
        except NotHere:
            del g.case.nodes[before[0] :], g.values[before[1] :]
        else:
            return
    raise NotHere


class _Varied(Variation):
    def __init__(self, g: OnnxBuilder, op: str, share: float) -> None:
        super().__init__(g, share)
        self.op, self.builder = op, g
        self.inputs, self.options = g.rng.choice(ROWS[op])

    def add(self) -> None:
        fed = self.options.get("fed")
        fed = len(self.inputs) if fed is None else fed
        inputs = [self.input(a, k < fed) for k, a in enumerate(self.inputs)]
        attrs = _attributes(self.options)
        for name in attrs:
            if self.changes() and isinstance(attrs[name], list) and len(attrs[name]) > 3:
                if isinstance(attrs[name][0], float):  # weights of trees and lines
                    attrs[name] = self.g.rng.sample(attrs[name], len(attrs[name]))
            elif name not in FIXED and self.changes():
                rows = (_attributes(options) for _, options in ROWS[self.op])
                attrs[name] = self.g.rng.choice([row[name] for row in rows if name in row])
        outs = self.options.get("compared") or self.options.get("outputs", 1)
        plain = {name: _plain(value) for name, value in attrs.items()}
        # Of other domains: rounded sums and quotients decide what whole numbers come out.
        final, checked = "::" in self.op or self.op in FINAL, self.share > 0
        self.builder.add(self.op, inputs, outs=outs, final=final, checked=checked, **plain)

    def input(self, given: Any, fed: bool) -> Any:
        if given is None:
            return ""
        array, known = np.asarray(given), not self.options.get("symbolic", True)
        taken = self.taken(array.shape, str(array.dtype)) if fed and not known else None
        made = taken or self.array(array, known or not fed)
        name, case = getattr(made, "name", made), self.g.case
        if not fed and name in case.inputs:
            case.weights[name] = case.inputs.pop(name)
        return made


def _attributes(options: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in options.items() if k not in OPTIONS} | options.get("own", {})


def _plain(value: Any) -> Any:
    """An attribute as a case stores it."""
    if isinstance(value, TensorProto):
        array = numpy_helper.to_array(value)
        return {"tensor": [str(array.dtype), array.tolist()]}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


@maker("ai.onnx.ml::TreeEnsembleRegressor", "ai.onnx.ml::TreeEnsembleClassifier")
def ensembles(g, op):
    """Random trees. onnxruntime forgets classes, and bases of targets, that no leaf adds to, and of two
    classes that both have scores it has 0 or 1, not their labels."""
    leaves = "class" if op.endswith("Classifier") else "target"
    targets, count = g.rng.choice([1, 3] if leaves == "class" else [1, 2, 3]), g.rng.randint(1, 4)
    seed, modes = g.rng.randrange(10**6), g.rng.sample(ALL, g.rng.randint(1, 6))
    made = trees(count, targets, seed, modes, g.rng.random() < 0.3, leaves, whole=True)
    if leaves == "class":
        posts = ["NONE", "LOGISTIC", *["SOFTMAX", "SOFTMAX_ZERO"] * (targets > 1)]
        labels = g.rng.sample(range(-9, 30), max(2, targets))
        made |= {"classlabels_int64s": labels, "post_transform": g.rng.choice(posts)}
    else:
        how = g.rng.choice(["SUM", "AVERAGE", "MIN", "MAX"])
        made |= {"n_targets": targets, "aggregate_function": how}
        base = [round(g.rng.uniform(-1, 1), 3) for _ in range(targets)]
        made |= g.rng.choice([{}, {"base_values": base}])
    x = g.new("float32", [g.dim(), g.const(4)])
    g.add(op, [x], outs=1 + (leaves == "class"), final=True, **made)
