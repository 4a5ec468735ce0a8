"""The rule for attention: what it takes, and what only looks like it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, te, tir
from loopwright.relax import op
from loopwright.sched.attention import attention
from loopwright.tir import interpreter

TARGET = "llvm -mcpu=skylake-avx512"


def kernel(low: Any = None, shift: Any = None, keys: int = 40, sums: Any = te.sum) -> tir.PrimFunc:
    """softmax(q @ k) @ v; the exponent is less the maximum of a row, by `low` of the row's values, or
    what `shift` makes of a score and that. sums: what the result is divided by."""
    rows, size = 24, 16
    q = te.placeholder((2, rows, size), "float32", "q")
    k = te.placeholder((2, size, keys), "float32", "k")
    v = te.placeholder((2, keys, size), "float32", "v")
    axes = {n: te.reduce_axis((0, size if n == "d" else keys), n) for n in ("d", "x", "y", "z")}
    d, x, y, z = axes.values()
    square, column = (2, rows, keys), (2, rows, 1)
    scores = te.compute(square, lambda b, i, j: te.sum(q[b, i, d] * k[b, d, j], d), "scores")
    top = te.compute(column, lambda b, i, _: (low or te.max)(scores[b, i, x], x), "top")
    shift = shift or (lambda score, most: te.exp(score - most))
    power = te.compute(square, lambda b, i, j: shift(scores[b, i, j], top[b, i, 0]), "power")
    total = te.compute(column, lambda b, i, _: sums(power[b, i, y], y), "total")
    mixed = te.compute(
        (2, rows, size), lambda b, i, c: te.sum(power[b, i, z] * v[b, z, c], z), "mixed"
    )
    one = tir.const(1, "float32")  # the sums are read first, so they are computed first
    out = te.compute((2, rows, size), lambda b, i, c: one / total[b, i, 0] * mixed[b, i, c], "out")
    return te.create_prim_func([q, k, v, out])


def result(func: tir.PrimFunc, keys: int = 40) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    shapes = ((2, 24, 16), (2, 16, keys), (2, keys, 16))
    q, k, v = (rng.standard_normal(s).astype("float32") for s in shapes)
    out = np.empty((2, 24, 16), np.float32)
    lw.compile(func)["main"](q, k, v, out)
    return q @ k, v, out


def softmax(scores: np.ndarray, top: np.ndarray, v: np.ndarray) -> np.ndarray:
    power = np.exp(scores - top)
    return power @ v / power.sum(-1, keepdims=True)


@pytest.mark.parametrize("keys", [40, 64, 5])
def test_a_kernel_of_a_users(keys: int) -> None:
    func = kernel(keys=keys)
    few = keys < 16  # than a vector has lanes
    assert (attention(func, lw.Target(TARGET)) is None) == few
    scores, v, out = result(func, keys)
    want = softmax(scores, scores.max(-1, keepdims=True), v)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)


def test_exponentials_that_padding_would_change() -> None:
    func = kernel(shift=lambda score, most: te.exp(score - most) + tir.const(1, "float32"))
    assert attention(func, lw.Target(TARGET)) is None
    scores, v, out = result(func)
    power = np.exp(scores - scores.max(-1, keepdims=True)) + 1
    want = power @ v / power.sum(-1, keepdims=True)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)


def test_another_fold_than_the_maximum() -> None:
    func = kernel(low=te.min)
    assert attention(func, lw.Target(TARGET)) is None
    scores, v, out = result(func)
    want = softmax(scores, scores.min(-1, keepdims=True), v)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


def test_another_fold_than_the_sum() -> None:
    func = kernel(sums=te.max)
    assert attention(func, lw.Target(TARGET)) is None
    scores, v, out = result(func)
    power = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(out, power @ v, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "causal", "rule"),
    [(24, None, "attention"), (24, "TopLeft", "attention"), (1, None, "stages")],
)
def test_the_operator(rows: int, causal: str | None, rule: str) -> None:
    shapes = [(2, rows, 3, 16), (2, 40, 3, 16), (2, 40, 3, 24)]
    params = [
        relax.Var(n, relax.TensorStructInfo(s, "float32"))
        for n, s in zip("qkv", shapes, strict=True)
    ]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            made = bb.emit_output(op.nn.attention(*params, causal_mask=causal))
        bb.emit_func_output(made)
    (note,) = lw.lower(bb.get(), TARGET).explain("attention", "schedule")
    assert note.facts["rule"] == rule
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(s).astype("float32") for s in shapes)
    scores = np.einsum("nihd,njhd->nhij", q, k) / 4
    if causal:
        scores = np.where(np.triu(np.ones((rows, 40)), 1) > 0, np.finfo(np.float32).min, scores)
    power = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("nhij,njhd->nihd", power / power.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(lw.compile(bb.get())(q, k, v).numpy(), want, rtol=1e-5, atol=1e-5)


def test_heads_of_a_symbolic_size_stay_in_their_buffers() -> None:
    size = tir.Var("size", "int64")
    shapes = [(2, 9, 2, size), (2, 40, 2, size), (2, 40, 2, 24)]
    params = [
        relax.Var(n, relax.TensorStructInfo(s, "float32"))
        for n, s in zip("qkv", shapes, strict=True)
    ]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            attended = bb.emit_output(op.nn.attention(*params))
        bb.emit_func_output(attended)
    (kernel,) = (
        f
        for f in lw.lower(bb.get(), TARGET)["ApplyDefaultSchedule"].after.functions.values()
        if isinstance(f, tir.PrimFunc)
    )
    rng = np.random.default_rng(0)
    q, k, v = (
        rng.standard_normal([2 if d is size else d for d in s]).astype("float32") for s in shapes
    )
    out = np.empty((2, 9, 2, 24), np.float32)
    interpreter.run(kernel, [q, k, v, out])  # an access beyond a buffer is an error
    power = np.exp(np.einsum("nihd,njhd->nhij", q, k) / 2**0.5)
    want = np.einsum("nhij,njhd->nihd", power / power.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)
