"""Quantized operators: within one step of real numbers, and equal to TFLite's reference kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the package tflite, TFLite's schema, is not installed")

from loopwright.frontend.tflite import from_tflite
from loopwright.relax.interpreter import Interpreter

from ...drawing import drawn, seeded
from .cases import bilinear, convolved, pooled, sigmoid, softmax
from .support import Graph, interpreted, model
from .test_operators import run

TABLE = drawn("test_quantized")

F = np.float32


def codes(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


@dataclass
class Q:
    """A quantized tensor: its shape, or its numbers where it is a constant."""

    value: Any
    dtype: str
    scale: Any = 0.05
    zero: int = 0
    axis: int = 0

    def real(self, array: np.ndarray) -> np.ndarray:
        dims = [1] * array.ndim
        if np.size(self.scale) > 1:
            dims[self.axis] = -1
        return (array.astype(np.float64) - self.zero) * np.reshape(np.asarray(self.scale, F), dims)

    def add(self, g: Graph, call: Callable[..., int], dtype: str = "") -> int:
        return call(self.value, scale=self.scale, zero=self.zero, axis=self.axis)


@dataclass
class Case:
    """meaning: of the real numbers of all inputs; steps: how far TFLite's kernels may be."""

    kind: str
    inputs: list[Q]
    out: Q
    meaning: Callable[..., Any]
    options: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    steps: int = 0
    name: str = ""

    @property
    def id(self) -> str:
        return f"{self.kind}-{self.out.dtype}{self.name and '-'}{self.name}"

    def made(self) -> tuple[bytes, list[np.ndarray], list[np.ndarray]]:
        """(the model, the arrays of its inputs, those of all inputs of the operator)"""
        g, feeds, arrays, numbers = Graph(), [], [], []
        for q in self.inputs:
            more = {"scale": q.scale, "zero": q.zero, "axis": q.axis}
            if isinstance(q.value, np.ndarray):
                numbers.append(g.constant(q.value, **(more if q.scale is not None else {})))
                arrays.append(q.value)
            else:
                numbers.append(g.input(q.value, q.dtype, **more))
                feeds.append(codes(seeded(f"{self.id} {len(feeds)}"), q.dtype, *q.value))
                arrays.append(feeds[-1])
        out = {"scale": self.out.scale, "zero": self.out.zero}
        wanted = dict(shape=self.out.value, dtype=self.out.dtype, **out)
        g.outputs = [g.op(self.kind, numbers, wanted, self.options, **self.values)]
        return model(g), feeds, arrays

    def expected(self, arrays: list[np.ndarray]) -> np.ndarray:
        """The nearest numbers, of exact arithmetic."""
        pairs = zip(self.inputs, arrays, strict=True)
        reals = [a if q.scale is None else q.real(a) for q, a in pairs]
        info = np.iinfo(self.out.dtype)
        out = np.floor(self.meaning(*reals) / F(self.out.scale) + 0.5) + self.out.zero
        return np.clip(out, info.min, info.max)


def _limited(kind: int) -> Callable[[Any], Any]:
    low, high = {0: (None, None), 1: (0, None), 3: (0, 6)}[kind]
    return lambda v: v if low is None else np.clip(v, low, high)


def _cases(rng: np.random.Generator) -> list[Case]:
    cases = []
    for dtype, zero in (("int8", 3), ("uint8", 120), ("int16", 0)):
        shifted = lambda by, zero=zero: 0 if not zero else zero + by  # noqa: E731
        wide = "int64" if dtype == "int16" else "int32"
        weight = "uint8" if dtype == "uint8" else "int8"
        least = 130 if dtype == "uint8" else 0
        for fused in (0, 1, 3):
            limit = _limited(fused)
            for each in (False, True)[: 1 if dtype == "uint8" else 2]:
                scale: Any = rng.uniform(0.01, 0.03, 12).astype(F) if each else 0.02
                name = f"fused{fused}-{'channels' if each else 'tensor'}"
                x = Q((2, 7, 6, 6), dtype, 0.05, zero)
                bias = Q(rng.integers(-2000, 2000, 12).astype(wide), wide, np.asarray(scale) * 0.05)
                steps = {"Padding": 0, "StrideH": 2, "StrideW": 2, "DilationHFactor": 1,
                         "DilationWFactor": 1, "FusedActivationFunction": fused}  # fmt: skip
                out = Q((2, 4, 3, 12), dtype, 0.31, shifted(-5))
                mean = lambda x, w, b, limit=limit: limit(convolved(x, w, b, (2, 2), True))  # noqa: E731
                w = Q(codes(rng, weight, 12, 3, 3, 6), weight, scale, least)
                cases.append(Case("CONV_2D", [x, w, bias], out, mean, "Conv2D", steps, name=name))
                deep = lambda x, w, b, limit=limit: limit(  # noqa: E731
                    convolved(x, w.transpose(3, 1, 2, 0), b, (2, 2), True, groups=6)
                )
                w = Q(codes(rng, weight, 1, 3, 3, 12), weight, scale, least, 3)
                cases.append(
                    Case(
                        "DEPTHWISE_CONV_2D",
                        [x, w, bias],
                        out,
                        deep,
                        "DepthwiseConv2D",
                        {**steps, "DepthMultiplier": 2},
                        name=name,
                    )
                )
                rows = lambda x, w, b, limit=limit: limit(x @ w.T + b)  # noqa: E731
                w = Q(codes(rng, weight, 12, 33), weight, scale, least)
                cases.append(
                    Case(
                        "FULLY_CONNECTED",
                        [Q((5, 33), dtype, 0.05, zero), w, bias],
                        Q((5, 12), dtype, 0.3, shifted(5)),
                        rows,
                        "FullyConnected",
                        {"FusedActivationFunction": fused},
                        name=name,
                        steps=int(dtype == "int16"),
                    )
                )
            a, b = Q((3, 4, 5), dtype, 0.05, zero), Q((4, 5), dtype, 0.032, shifted(7))
            for kind, options, fold in (
                ("ADD", "Add", np.add),
                ("SUB", "Sub", np.subtract),
                ("MUL", "Mul", np.multiply),
            ):
                values = {"FusedActivationFunction": fused}
                values |= {"PotScaleInt16": False} if kind != "MUL" else {}
                mean = lambda a, b, f=fold, limit=limit: limit(f(a, b))  # noqa: E731
                out = Q((3, 4, 5), dtype, 0.07, shifted(-9))
                cases.append(Case(kind, [a, b], out, mean, options, values, name=f"fused{fused}"))
            pool = {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 3,
                    "FusedActivationFunction": fused}  # fmt: skip
            for kind, fold in (("AVERAGE_POOL_2D", np.mean), ("MAX_POOL_2D", np.max)):
                mean = lambda x, f=fold, limit=limit: limit(pooled(x, 3, 2, f))  # noqa: E731
                x, out = (Q(s, dtype, 0.05, zero) for s in ((2, 9, 8, 6), (2, 5, 4, 6)))
                cases.append(Case(kind, [x], out, mean, "Pool2D", pool, name=f"fused{fused}"))
        axes = Q(np.array([1, 2], np.int32), "int32", None)
        for kind, fold, out in (
            ("MEAN", np.mean, Q((2, 6), dtype, 0.041, shifted(-4))),
            ("REDUCE_MAX", np.max, Q((2, 6), dtype, 0.05, zero)),
        ):
            mean = lambda x, _, f=fold: f(x, (1, 2))  # noqa: E731
            x = Q((2, 7, 5, 6), dtype, 0.05, zero)
            cases.append(Case(kind, [x, axes], out, mean, "Reducer", {"KeepDims": False}))
        x = Q((4, 30), dtype, 0.05, zero)
        cases.append(Case("QUANTIZE", [x], Q((4, 30), dtype, 0.07, shifted(3)), lambda x: x))
        cases.append(Case("RELU", [x], Q((4, 30), dtype, 0.05, zero), lambda x: np.maximum(x, 0)))
        pads = Q(np.array([[1, 0], [0, 2]], np.int32), "int32", None)
        mean = lambda x, _: np.pad(x, [(1, 0), (0, 2)])  # noqa: E731
        cases.append(Case("PAD", [x, pads], Q((5, 32), dtype, 0.05, zero), mean))
        mean = lambda a, b: np.concatenate([a, b], 1)  # noqa: E731
        other = Q((4, 3), dtype, 0.05, zero)
        both = Q((4, 33), dtype, 0.05, zero)
        cases.append(Case("CONCATENATION", [x, other], both, mean, "Concatenation", {"Axis": 1}))
        if dtype == "int16":
            continue
        size = Q(np.array([7, 11], np.int32), "int32", None)
        for centers, corners in ((False, False), (True, False), (False, True)):
            mean = lambda x, s, a=centers, b=corners: bilinear(x.astype(F), s.astype(int), a, b)  # noqa: E731
            values = {"HalfPixelCenters": centers, "AlignCorners": corners}
            name = f"centers{centers}-corners{corners}"
            image = [Q((1, h, w, 3), dtype, 0.05, zero) for h, w in ((4, 5), (7, 11))]
            steps, kind = int(dtype == "uint8"), "RESIZE_BILINEAR"
            cases.append(
                Case(kind, [image[0], size], image[1], mean, "ResizeBilinear", values, steps, name)
            )
        slopes = Q(codes(rng, dtype, 30), dtype, 0.01, shifted(4))
        mean = lambda x, a: np.where(x < 0, a * x, x)  # noqa: E731
        cases.append(Case("PRELU", [x, slopes], Q((4, 30), dtype, 0.07, shifted(-9)), mean))
        low = -128 if dtype == "int8" else 0
        mean = lambda x: softmax(x.astype(F))  # noqa: E731
        out = Q((4, 30), dtype, 1 / 256, low)
        cases.append(Case("SOFTMAX", [x], out, mean, "Softmax", {"Beta": 1.0}))
        for kind, fold, scale, zero_out in (
            ("LOGISTIC", sigmoid, 1 / 256, low),
            ("TANH", np.tanh, 1 / 128, low + 128),
            ("HARD_SWISH", lambda x: x * np.clip(x + 3, 0, 6) / 6, 0.06, low + 125),
        ):
            out = Q((4, 30), dtype, scale, zero_out)
            cases.append(Case(kind, [x], out, fold, steps=int(kind == "HARD_SWISH")))
    return cases


CASES = _cases(TABLE)


@pytest.mark.sample(12)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_against_real_numbers(case: Case):
    data, feeds, arrays = case.made()
    (got,) = run(data, feeds)
    assert (got.shape, got.dtype) == (case.out.value, case.out.dtype)
    np.testing.assert_allclose(got, case.expected(arrays), rtol=0, atol=1)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_against_the_interpreter(case: Case):
    pytest.importorskip("ai_edge_litert", reason="the package ai-edge-litert is not installed")
    data, feeds, _ = case.made()
    (got,), (wanted,) = run(data, feeds), interpreted(data, feeds, reference=True)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=case.steps)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_to_and_from_real_numbers(rng: np.random.Generator, dtype: str):
    g = Graph()
    x = g.input((4, 30))
    zero = {"int8": 9, "uint8": 120, "int16": 0}[dtype]
    y = g.op("QUANTIZE", [x], {"shape": (4, 30), "dtype": dtype, "scale": 0.25, "zero": zero})
    g.outputs = [y, g.op("DEQUANTIZE", [y], {"shape": (4, 30)})]
    values = rng.uniform(-9, 9, (4, 30)).astype(F)
    values[0, :4] = [0.125, -0.125, 0.375, -0.375]  # halves of a step
    whole, real = run(model(g), [values])
    away = np.sign(values) * np.floor(np.abs(values) / F(0.25) + 0.5)
    np.testing.assert_array_equal(whole, (away + zero).astype(dtype))
    np.testing.assert_array_equal(real, away * F(0.25))


def test_weights_of_integers_beside_real_activations(rng):
    g = Graph()
    x = g.input((3, 8))
    w = g.constant(codes(rng, "int8", 4, 8), scale=rng.uniform(0.01, 0.03, 4).astype(F))
    b = g.constant(np.arange(4, dtype=F))
    g.outputs = [g.op("FULLY_CONNECTED", [x, w, b], {"shape": (3, 4)}, "FullyConnected")]
    values = rng.uniform(-1, 1, (3, 8)).astype(F)
    (got,) = run(model(g), [values])
    tensor = g.tensors[w]
    real = tensor.data * tensor.scale[:, None]
    np.testing.assert_allclose(got, values @ real.T + np.arange(4), rtol=1e-5, atol=1e-5)


def _mixed(rng: np.random.Generator) -> list[Case]:
    """One input of real numbers, or of a scale for each channel, beside integers: what TFLite has no kernel of
    integers for is computed in real numbers."""
    x, image = Q((3, 8), "int8", 0.05, 3), Q((1, 5, 4, 6), "int8", 0.05, 3)
    real = lambda *shape: Q(rng.uniform(-0.1, 0.1, shape).astype(F), "float32", None)  # noqa: E731
    out, like = Q((3, 4), "int8", 0.02, -5), Q((3, 8), "int8", 0.02, -5)
    steps = {"Padding": 0, "StrideH": 2, "StrideW": 2, "DilationHFactor": 1, "DilationWFactor": 1}
    conv = lambda x, w: convolved(x, w, np.zeros(4), (2, 2), True)  # noqa: E731
    columns = Q(codes(rng, "int8", 8, 4), "int8", rng.uniform(0.01, 0.03, 4).astype(F), 0, 1)
    plain = {"FusedActivationFunction": 0, "PotScaleInt16": False}
    short = Q((3, 8), "int16", 1 / 32768)
    return [
        Case("CONV_2D", [image, real(4, 3, 3, 6)], Q((1, 3, 2, 4), "int8", 0.02), conv, "Conv2D", steps),
        Case("FULLY_CONNECTED", [x, real(4, 8)], out, lambda x, w: x @ w.T, "FullyConnected"),
        Case("BATCH_MATMUL", [x, real(8, 4)], out, lambda a, b: a @ b, "BatchMatMul", name="real"),
        Case("BATCH_MATMUL", [x, columns], out, lambda a, b: a @ b, "BatchMatMul", name="channels"),
        Case("ADD", [x, real(3, 8)], like, np.add, "Add", plain),
        Case("MUL", [x, real(3, 8)], like, np.multiply, "Mul", {"FusedActivationFunction": 0}),
        Case("PRELU", [x, real(8)], like, lambda x, a: np.where(x < 0, a * x, x)),
        Case("SOFTMAX", [Q((3, 8), "int16", 0.001)], short, lambda x: softmax(x.astype(F)), "Softmax", {"Beta": 1.0}),
    ]  # fmt: skip


@pytest.mark.parametrize("case", _mixed(TABLE), ids=lambda case: case.id)
def test_integers_beside_real_numbers(case: Case):
    data, feeds, arrays = case.made()
    got = Interpreter(from_tflite(data))["main"](*feeds).numpy()
    assert (got.shape, got.dtype) == (case.out.value, case.out.dtype)
    np.testing.assert_allclose(got, case.expected(arrays), rtol=0, atol=1)
