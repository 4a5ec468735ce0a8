"""Calls of operators beside their samples: numpy's meaning, inference, the graph and the loops agree."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax, tir
from loopwright.ops import signal
from loopwright.ops.core import OPERATORS, case
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import LegalizeOps

from .matrix import make
from .test_matrix import agree

NAN = {"mode": "nan"}
BACK = {"inverse": True, "onesided": True}
CALLS = {
    "concat": [case([(2, 3), (4,)], axis=None), case([("n", 2)], axis=0)],
    "split": [case((2, 6), indices_or_sections=1, axis=1)],
    "stack": [case([(2,), (2,), (2,)], axis=0)],
    "meshgrid": [case([(2,), (3,), (4,)], indexing="xy"), case([(2,)], indexing="xy")],
    "sum": [case((2, 3), axis=[]), case((2, 3), axis=[], keepdims=True)],
    "max": [case((2, 3), axis=[])],
    "mean": [case((2, 3), axis=[]), case((2, 0), axis=[1], dtype="int32")],
    "argmax": [case((0, 3), axis=0), case((0, 3), axis=0, keepdims=True), case((2, 3))],
    "arange": [case(2.5, 9.75, 1.5, dtype="float32"), case(5, 0, -2, dtype="int32"), case(3, 3, dtype="int32")],
    "take": [
        case((4,), np.array([3, 4, -1, 0]), **NAN),
        case((4, 2), np.array([[3, 4], [-1, 0]]), axis=0, **NAN),
        case((4, 2), np.array([1, 2, -1]), axis=1, **NAN),
        case((3, 4), np.array([1, 4, -1, 0]), axis=-1, **NAN),
        case((4,), np.array([3, 4, -1, 0]), mode="clip"),
    ],
    "repeat": [case((2, 3), repeats=2), case((2, 3), repeats=0, axis=1)],
    "nn.conv1d": [case(np.full((1, 1, 1), np.inf, np.float32), np.array([[[0]], [[1]]], np.float32))],
    "nn.conv1d_transpose": [
        case(np.full((1, 1, 2), np.inf, np.float32), np.array([[[0]]], np.float32))
    ],
    "matmul": [case((3,), (3,)), case((3,), (2, 3, 4)), case((2, 4, 3), (3,))],
    "einsum": [case([(2, 1), (3, 4)], subscripts="ij,jk->ik"), case([(3, 3)], subscripts="ii->i")],
    "quantize": [
        case((2, 3), np.float32([0.5]), np.int8([1]), axis=0, out_dtype="float8_e4m3fn", low=-900, high=900)
    ],
    "reinterpret": [case((2, 3), dtype="float32")],
    "signal.dft": [case((2, 5, 2), [9], axis=1, **BACK), case((1, 6, 1), [5], axis=1, onesided=True)],
    "eye": [case(3), case(2, 4, -1)],
    "vision.roi_align": [
        case((1, 2, 6, 8), np.float32([[0, 0, 0, 7, 9]]), pooled_size=(2, 3), spatial_scale=0.5, sample_ratio=r)
        for r in (0, 1)
    ],
    "topk": [case((2, 4)), case((2, 4), k=2, ret_type="indices", largest=False)],
    "nn.max_pool1d": [case((2, 8, 6), pool_size=2, out_layout="NCW4c"), case((2, 8, 6))],
    "nn.avg_pool1d": [
        case((1, 2, 9), pool_size=3, strides=2, padding=(2, 1), dilation=d, count_include_pad=c)
        for d in (1, 2)
        for c in (False, True)
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given"),
    [(name, c) for name, some in CALLS.items() for c in some],
    ids=[f"{name}-{k}" for name, some in CALLS.items() for k in range(len(some))],
)
def test_call(name, given):
    sample = make(OPERATORS[f"relax.{name}"], given)
    expected = sample.expected()
    sample.check_type(expected)
    agree(Interpreter(sample.module)["main"](*sample.inputs), expected)
    agree(Interpreter(LegalizeOps()(sample.module))["main"](*sample.inputs), expected)


@pytest.mark.parametrize(
    ("bounds", "dtype"),
    [
        ((lambda n: (1, n, 2)), "int64"),
        ((lambda n: (n, 0, -2)), "float32"),
        ((lambda n: (n,)), "int32"),
        ((lambda n: (0, n, 1.5)), "float32"),
        ((lambda n: (9, 0, 2 - n)), "int64"),
    ],
)
def test_numbers_up_to_a_size_of_the_run(bounds, dtype):
    n = tir.Var("n", "int64")
    x, bb = relax.Var("x", relax.TensorStructInfo((n,), "float32")), relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.arange(*bounds(n), dtype=dtype)))
    for mod in (bb.get(), LegalizeOps()(bb.get())):
        for size in (5, 1, 0) if dtype != "int64" else (5, 4):
            want = np.arange(*bounds(size)).astype(dtype)
            np.testing.assert_array_equal(
                Interpreter(mod)["main"](np.zeros(size, "float32")).numpy(), want
            )


@pytest.mark.parametrize(
    ("given", "size"),
    [
        (case((2, 6, 1), [5]), 5 * 5 * 1 * 2),
        (case((2, 6, 2), [8], **BACK), 5 * 8 * 2 * 2),
        (case((2, 3, 2), [8], inverse=True), 3 * 8 * 2 * 2),
    ],
)
def test_a_transform_is_a_product_up_to_a_size(given, size, monkeypatch):
    sample = make(OPERATORS["relax.signal.dft"], given)
    for most, product in ((size, True), (size - 1, False)):
        monkeypatch.setattr(signal, "_MOST_TURNS", most)
        lowered = LegalizeOps()(sample.module)
        assert ("matmul" in lowered.script()) == product
        agree(Interpreter(lowered)["main"](*sample.inputs), sample.expected())


def test_views_of_several_operators(rng):
    x, w, b = (rng.normal(size=s).astype("float32") for s in ((2, 3), (4, 3), (4,)))
    params = [relax.Var("x", relax.TensorStructInfo(a.shape, "float32")) for a in (x, w, b)]
    for made, want in (
        (lambda x, w, b: relax.op.linear(x, w), x @ w.T),
        (lambda x, w, b: relax.op.linear(x, w, b), x @ w.T + b),
        (lambda x, w, b: relax.op.masked_fill(w, relax.op.isnan(w), 1.5), w),
        (lambda x, w, b: relax.op.masked_fill(w, relax.op.isfinite(w), 1.5), w * 0 + 1.5),
    ):
        bb = relax.BlockBuilder()
        with bb.function("main", params):
            bb.emit_func_output(bb.emit(made(*params)))
        agree(Interpreter(bb.get())["main"](x, w, b), want)


def test_an_operator_shows_its_signature():
    assert repr(OPERATORS["relax.nn.softmax"]).startswith("<operator relax.nn.softmax(data: 'Expr'")
