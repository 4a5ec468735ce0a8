"""Axes, masks and options of operators that move elements, by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the package tflite, TFLite's schema, is not installed")

from ...drawing import drawn
from .cases import Case, ints, real
from .support import interpreted
from .test_operators import compare, run

TABLE = drawn("test_axes")

X, Y = real(TABLE, 2, 3, 4), real(TABLE, 2, 3, 4)
MASKS = ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask")


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def one(value: Any, dtype: str = "int32") -> np.ndarray:
    return np.array(value, dtype)


def cut(name: str, meaning: Any, begin: Any, end: Any, steps: Any, **masks: Any) -> Case:
    values = {**dict.fromkeys(MASKS, 0), **masks}
    return Case(
        "STRIDED_SLICE", [X], lambda x, *_: meaning(x), [i32(*v) for v in (begin, end, steps)],
        "StridedSlice", values, name=name,
    )  # fmt: skip


def turned(lengths: Any, x: np.ndarray) -> np.ndarray:
    """x with the first elements of each row along the last axis turned around."""
    out = x.copy()
    for k, n in enumerate(lengths):
        out[k, :, :n] = x[k, :, :n][:, ::-1]
    return out


MORE = [
    cut("back", lambda x: x[1, ::-1, 3:0:-2], (1, 9, 3), (0, -9, 0), (1, -1, -2), ShrinkAxisMask=1, EndMask=2),
    cut("from the end", lambda x: x[-2:, -3:-1, -1:], (-2, -3, -1), (9, -1, 9), (1, 1, 1)),
    cut("masks", lambda x: x[:1, 1:, ::-1], (5, 1, 1), (1, 1, 1), (1, 1, -1), BeginMask=5, EndMask=6),
    cut("ellipsis between", lambda x: x[0, ..., 1:3], (0, 7, 1), (1, 7, 3), (1, 1, 1), EllipsisMask=2, ShrinkAxisMask=1),
    cut("ellipsis of nothing", lambda x: x[:, 1:, ..., 2], (0, 1, 0, 2), (2, 3, 0, 3), (1, 1, 1, 1), EllipsisMask=4, ShrinkAxisMask=8),
    cut("new at the end", lambda x: x[..., None], (0, 0), (0, 0), (1, 1), EllipsisMask=1, NewAxisMask=2),
    cut("two new", lambda x: x[None, 1:, None], (0, 1, 0), (0, 2, 0), (1, 1, 1), NewAxisMask=5),
    cut("last", lambda x: x[:, -1], (0, -1), (2, 0), (1, 1), ShrinkAxisMask=2),
    Case("SLICE", [X], lambda x, *_: x[1:, :, 3:], [i32(1, 0, 3), i32(-1, 3, 1)], name="rest"),
    Case("SPLIT", [X], lambda x, _: np.split(x, 3, 1), [one(-2)], "Split", {"NumSplits": 3}, order=[1, 0]),
    Case("SPLIT", [X], lambda x, _: x, [one(0)], "Split", {"NumSplits": 1}, order=[1, 0], name="whole"),
    Case("SPLIT_V", [X], lambda x, *_: np.split(x, [1, 3], -1), [i32(1, 2, 1), one(-1)], "SplitV", {"NumSplits": 3}),
    Case("SPLIT_V", [X], lambda x, *_: np.split(x, [2], 2), [i32(-1, 2), one(2)], "SplitV", {"NumSplits": 2}, name="first"),
    Case("PACK", [X, Y], lambda a, b: np.stack([a, b], -1), [], "Pack", {"Axis": -1, "ValuesCount": 2}),
    Case("PACK", [X], lambda a: a[None], [], "Pack", {"Axis": 0, "ValuesCount": 1}, name="one"),
    Case("UNPACK", [X], lambda x: [x[..., k] for k in range(4)], [], "Unpack", {"Axis": -1, "Num": 4}),
    Case("UNPACK", [real(TABLE, 1, 3)], lambda x: x[0], [], "Unpack", {"Axis": 0, "Num": 1}, name="one"),
    Case("CONCATENATION", [X, Y, X], lambda *a: np.concatenate(a, 0), [], "Concatenation", {"Axis": 0}),
    Case("GATHER", [X, ints(TABLE, 3, 2)], lambda x, i: np.take(x, i, 1), [], "Gather", {"Axis": -2}),
    Case("GATHER", [X, ints(TABLE, 3, 2, 2)], lambda x, i: np.take(x, i, 1), [], "Gather", {"Axis": 1}, name="rank two"),
    Case("GATHER", [real(TABLE, 2, 3, 4, 5, 2), ints(TABLE, 4, 2, 6)],
         lambda x, i: np.stack([np.take(a, k, 1) for a, k in zip(x, i)]), [], "Gather",
         {"Axis": 2, "BatchDims": 1}, name="axes on both sides"),
    Case("GATHER", [X, ints(TABLE, 3, 2, 5)], lambda x, i: np.stack([a[k] for a, k in zip(x, i)]), [], "Gather",
         {"Axis": 1, "BatchDims": 1}, name="batch"),
    Case("GATHER", [X, ints(TABLE, 3, 2)], lambda x, i: np.stack([a[k] for a, k in zip(x, i)]), [], "Gather",
         {"Axis": 1, "BatchDims": 1}, name="batch of numbers"),
    Case("ONE_HOT", [ints(TABLE, 4, 3)], lambda i, *_: np.where(np.arange(4)[:, None] == i, 1.0, 0.0).astype("f4"),
         [one(4), one(1, "float32"), one(0, "float32")], "OneHot", {"Axis": 0}),
    Case("CUMSUM", [X], lambda x, _: np.cumsum(x[..., ::-1], -1)[..., ::-1], [one(-1)], "Cumsum",
         {"Exclusive": False, "Reverse": True}),
    Case("CUMSUM", [X], lambda x, _: np.cumsum(x[::-1], 0)[::-1] - x, [one(0)], "Cumsum",
         {"Exclusive": True, "Reverse": True}, name="both"),
    Case("ARG_MAX", [X], lambda x, _: x.argmax(0), [one(0)], "ArgMax", {"OutputType": 4}),
    Case("ARG_MIN", [X], lambda x, _: x.argmin(1).astype(np.int32), [one(1)], "ArgMin", {"OutputType": 2}),
    Case("REVERSE_V2", [X], lambda x, _: x[:, :, ::-1], [i32(-1)]),
    Case("REVERSE_SEQUENCE", [X], lambda x, n: turned(n, x), [i32(3, 1)], "ReverseSequence",
         {"SeqDim": 2, "BatchDim": 0}),
    Case("REVERSE_SEQUENCE", [real(TABLE, 3, 2)], lambda x, n: np.stack(
        [np.concatenate([c[:k][::-1], c[k:]]) for c, k in zip(x.T, n)]).T, [i32(3, 2)], "ReverseSequence",
         {"SeqDim": 0, "BatchDim": 1}, name="columns"),
    Case("TOPK_V2", [X], lambda x, _: [x.max(-1, keepdims=True), x.argmax(-1)[..., None].astype(np.int32)], [one(1)]),
    Case("EXPAND_DIMS", [X], lambda x, _: x[..., None], [one(-1)]),
    Case("SUM", [X], lambda x, _: x.sum((0, 2), keepdims=True), [i32(0, -1)], "Reducer", {"KeepDims": True}),
    Case("MEAN", [X], lambda x, _: x.mean(1), [one(1)], "Reducer", {"KeepDims": False}),
    Case("SOFTMAX", [X], lambda x: np.exp(2 * x) / np.exp(2 * x).sum(-1, keepdims=True), [], "Softmax", {"Beta": 2.0}),
]  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", MORE, ids=lambda case: case.id)
def test_against_numpy(case: Case) -> None:
    compare(run(case.graph(), case.inputs), case.expected())


# After an ellipsis of nothing the interpreter keeps the axis that TensorFlow drops.
REFERENCED = [case for case in MORE if case.name != "ellipsis of nothing"]


@pytest.mark.parametrize("case", REFERENCED, ids=lambda case: case.id)
def test_numpy_against_the_interpreter(case: Case) -> None:
    pytest.importorskip("ai_edge_litert", reason="the package ai-edge-litert is not installed")
    compare(interpreted(case.graph(), case.inputs), case.expected(), 1e-5)
