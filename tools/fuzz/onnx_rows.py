"""Nodes like those that the tests of the importer compare with onnxruntime, varied."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from tests.frontend.onnx import test_contrib, test_ml, test_operators, test_tensor_operators
from tests.frontend.onnx.support import floats, integers, ints
from tests.frontend.onnx.test_contrib import i8, u8

from .build import FLOATS
from .onnx_build import OnnxBuilder
from .varied import Variation, varied

# What a row says beside attributes.
OPTIONS = {"symbolic", "own", "compared", "fed", "opset", "outputs", "domain"}
# Of one score onnxruntime has its own transforms; a power is a whole number.
FIXED = {"post_transform", "kernel_params"}
FINAL = {"NonMaxSuppression", "DynamicQuantizeLinear"}
ROWS: dict[str, list[tuple[list[Any], dict[str, Any]]]] = defaultdict(list)


def _row(op: str, *inputs: Any, **options: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    return op, inputs, options


X, WIDE, IMAGE = floats(2, 3, 4), floats(2, 3, 8), floats(2, 5, 6, 4)
SCALE, ZERO = np.asarray([0.007], np.float32), np.asarray([128], np.uint8)
TABLES_OF_BYTES = [u8(*shape) for shape in ((5, 8), (3, 8), (2, 8), (8,), (8,))]
KERNEL: dict[str, Any] = {"pads": [1] * 4, "kernel_shape": [3, 3]}
STEPS = np.asarray(0.1, np.float32), np.asarray(7), floats(3, 5), floats(3, 5, seed=1)
SQUARES = floats(3, 5, low=0, high=2)
# onnxruntime has some of these not at all, or on other devices only.
MORE = [
    _row("TransposeMatMul", floats(2, 4, 3), floats(2, 4, 5), transA=1, alpha=0.5),
    _row("TransposeMatMul", floats(3, 4), floats(5, 4), transB=1),
    *[_row("FusedMatMulActivation", floats(2, 3, 4), floats(2, 4, 5), alpha=0.5, activation=a) for a in ("Relu", "Tanh", "Sigmoid")],
    _row("FusedMatMulActivation", floats(2, 4, 3), floats(2, 5, 4), transA=1, transB=1, activation="Relu"),
    *[_row("FusedConv", floats(2, 4, 5, 6), floats(3, 4, 3, 3), floats(3), fed=1, activation=a, **KERNEL) for a in ("Sigmoid", "Tanh")],
    _row("NhwcFusedConv", IMAGE, floats(3, 3, 3, 4), fed=1, activation="Clip", activation_params=[-0.5, 0.5], **KERNEL),
    _row("NhwcConv", IMAGE, floats(3, 3, 3, 4), floats(3), fed=1, **KERNEL),
    *[_row("NhwcFusedConv", IMAGE, floats(3, 3, 3, 4), floats(3), *z, fed=1, activation=a, **KERNEL) for a in ("Relu", "Tanh", "Sigmoid") for z in ([], [floats(2, 5, 6, 3)])],
    *[_row("NhwcMaxPool", make(2, 4, 6, 5), kernel_shape=[2, 2]) for make in (u8, i8)],
    *[_row(n, WIDE, floats(8), WIDE) for n in ("BiasAdd", "BiasDropout")],
    _row("BiasSplitGelu", WIDE, floats(8)),
    _row("QEmbedLayerNormalization", integers(2, 3, low=0, high=5, dtype=np.int32), integers(2, 3, low=0, high=2, dtype=np.int32), *TABLES_OF_BYTES, None, *[np.float32(0.021)] * 5, *[np.uint8(120)] * 5, fed=2, outputs=2, epsilon=1e-3),
    *[_row("QLinearReduceMean", make(2, 4, 6, 5), np.float32(0.0213), zero, np.float32(0.0331), zero, fed=1, axes=[3], keepdims=1) for make, zero in ((u8, np.uint8(100)), (i8, np.int8(3)))],
    _row("MatMulInteger16", integers(3, 4, low=-900, high=900, dtype=np.int16), integers(4, 5, low=-900, high=900, dtype=np.int16)),
    _row("DynamicQuantizeLSTM", floats(3, 1, 4), u8(1, 4, 12), u8(1, 3, 12), floats(1, 24), None, None, None, None, *[SCALE, ZERO] * 2, fed=1, outputs=3, hidden_size=3),
    *[_row("GridSample", floats(2, 3, 5, 6), floats(2, 4, 7, 2, low=-1.6, high=1.6), mode=m) for m in ("bilinear", "nearest", "bicubic")],
    _row("WordConvEmbedding", integers(3, 5, low=1, high=9, dtype=np.int32), floats(2, 1, 3, 4), floats(2), floats(9, 4), fed=1),
    _row("BiasGelu", X, floats(4)),
    _row("SimplifiedLayerNormalization", X, floats(4), epsilon=1e-3),
    _row("QuickGelu", X),
]  # fmt: skip
TRAINING = [
    _row("Adagrad", *STEPS, SQUARES, outputs=2, norm_coefficient=0.1),
    _row("Adam", *STEPS, SQUARES, SQUARES, outputs=3, norm_coefficient=0.1),
    *[_row("Momentum", *STEPS, SQUARES, outputs=2, norm_coefficient=0.1, alpha=0.9, beta=0.5, mode=m) for m in ("standard", "nesterov")],
]  # fmt: skip
LATER = [
    _row("CenterCropPad", X, ints(1, 5, 3), opset=18),
    *[_row("RotaryEmbedding", floats(2, 4, 3, 6), floats(2, 3, 3), floats(2, 3, 3, seed=1), interleaved=i, opset=23) for i in (0, 1)],
    _row("BitwiseXor", integers(2, 3), integers(2, 3), opset=18),
    _row("InstanceNormalization", floats(2, 3, 4), floats(3), floats(3), epsilon=1e-3),
    _row("GroupNormalization", floats(2, 4, 3), floats(4), floats(4), num_groups=2, epsilon=1e-3, opset=21),
    *[_row(n, floats(5, 3, *more), integers(5, *more, low=0, high=3), *w, reduction=r) for n in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss") for r in ("none", "mean", "sum") for more in ([], [4]) for w in ([], [floats(3, low=0.5)])],
]  # fmt: skip
_TABLES = {
    "com.microsoft": [*test_contrib.CASES, *MORE],
    "ai.onnx.preview.training": TRAINING,
    "ai.onnx.ml": test_ml.CASES,
    "": [*LATER, *test_operators.CASES, *(row.values[:3] for row in test_tensor_operators.CASES)],
}
for _domain, _rows in _TABLES.items():
    for _op, _inputs, _options in _rows:
        _space = _options.get("domain", _domain)
        ROWS[f"{_space}::{_op}" if _space else _op].append((list(_inputs), _options))


def like_a_row(g: OnnxBuilder, op: str) -> None:
    """A node like one of an operator's rows."""
    varied(g, lambda share: _Varied(g, op, share).add())


class _Varied(Variation):
    def __init__(self, g: OnnxBuilder, op: str, share: float) -> None:
        super().__init__(g, share)
        self.op, self.builder = op, g
        self.inputs, self.options = g.rng.choice(ROWS[op])
        if "::" not in op and self.changes():
            self.dtypes["float32"] = g.rng.choice(FLOATS)

    def add(self) -> None:
        fed = self.options.get("fed")
        fed = len(self.inputs) if fed is None else fed
        inputs = [self.input(a, k < fed) for k, a in enumerate(self.inputs)]
        attrs = _attributes(self.options)
        for name in attrs:
            if name not in FIXED and self.changes():
                rows = (_attributes(options) for _, options in ROWS[self.op])
                attrs[name] = self.number(attrs[name], [r[name] for r in rows if name in r])
        outs = self.options.get("compared") or self.options.get("outputs", 1)
        plain = {name: _plain(value) for name, value in attrs.items()}
        # Of other domains: rounded sums and quotients decide what whole numbers come out.
        final, checked = "::" in self.op or self.op in FINAL, self.share > 0
        self.builder.add(self.op, inputs, outs=outs, final=final, checked=checked, **plain)

    def number(self, value: Any, said: list[Any]) -> Any:
        """Another value of an attribute: of one of the rows, or other weights of trees and lines."""
        rng = self.g.rng
        if not self.op.startswith("ai.onnx.ml") or not isinstance(value, list):
            return rng.choice(said)
        if isinstance(value[0], float):
            return [round(v * rng.uniform(0.5, 1.5), 3) for v in value]
        return rng.sample(value, len(value)) if len({*value}) == len(value) else value  # labels

    def input(self, given: Any, fed: bool) -> Any:
        if given is None:
            return ""
        array, known = np.asarray(given), not self.options.get("symbolic", True)
        positive = (
            array.dtype.kind == "i" and array.size and array.min() > 0
        )  # a 0 is none of these
        free = fed and not known and not positive
        taken = self.taken(array.shape, self.dtype_of(array)) if free else None
        made = taken or self.array(array, not free)
        name, case = str(getattr(made, "name", made)), self.g.case
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
