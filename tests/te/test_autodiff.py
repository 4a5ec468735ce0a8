"""te.gradient against finite differences, and what it cannot derive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import te, tir, topi
from loopwright.testing.gradients import check_numerical_grads

A = te.placeholder((4, 5), name="A", dtype="float64")
B = te.placeholder((5, 4), name="B", dtype="float64")
V = te.placeholder((12,), name="V", dtype="float64")


def axis(extent: int) -> Any:
    return te.reduce_axis((0, extent), name="k")


def run(tensors: list[Any], arrays: list[np.ndarray], result: Any) -> np.ndarray:
    out = np.zeros([int(d) for d in result.shape], "float64")
    tir.interpreter.run(te.create_prim_func([*tensors, result]), [*arrays, out])
    return out


K5, K3, K4 = axis(5), axis(3), axis(4)
PRODUCT = te.comm_reducer(lambda x, y: x * y, lambda t: tir.const(1, t), name="product")
CASES = {
    "elements": (lambda: topi.tanh(A * A) + topi.exp(A) / (A + 3.0), [A]),
    "turned": (lambda: te.compute((5, 4), lambda i, j: A[j, i] * B[i, j]), [A, B]),
    "choice": (lambda: te.compute((4, 5), lambda i, j: tir.Select(
        A[i, j] > 0.2, A[i, j] * 2.0, tir.max(A[i, j], B[j, i]))), [A, B]),
    "matmul": (lambda: te.compute((4, 4), lambda i, j: te.sum(A[i, K5] * B[K5, j], K5)), [A, B]),
    "window": (lambda: te.compute((5,), lambda i: te.sum(V[i * 2 + K3] * V[K3], K3)), [V]),
    "dilated": (lambda: te.compute((4,), lambda i: te.sum(V[i + K3 * 4], K3)), [V]),
    "folded": (lambda: te.compute((3, 4), lambda i, j: V[i * 4 + j] * V[11 - i * 4 - j]), [V]),
    "padded": (lambda: te.compute((14,), lambda i: tir.if_then_else(
        tir.all(i >= 1, i < 13), V[i - 1] * 3.0, 0.0)), [V]),
    "maximum": (lambda: te.compute((4,), lambda i: te.max(A[i, K5] * B[K5, i], K5)), [A, B]),
    "product": (lambda: te.compute((5,), lambda j: PRODUCT(A[K4, j] + B[j, K4], K4)), [A, B]),
    "softmax": (lambda: topi.nn.softmax(A), [A]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_against_differences(name: str) -> None:
    make, inputs = CASES[name]
    out = make()
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, [int(d) for d in t.shape]) for t in inputs]
    weights = rng.uniform(0.5, 1, [int(d) for d in out.shape])
    head = te.placeholder(out.shape, name="head", dtype="float64")
    grads = [
        run([*inputs, head], [*arrays, weights], grad)
        for grad in te.gradient(out, inputs, head=head)
    ]

    def weighed(*given: np.ndarray) -> float:
        return float((run(inputs, list(given), out) * weights).sum())

    check_numerical_grads(weighed, arrays, grads, delta=1e-4, atol=1e-5, rtol=1e-4)


def test_without_a_head_it_is_the_jacobian() -> None:
    out = te.compute((4,), lambda i: te.sum(A[i, K5] * A[i, K5], K5))
    (grad,) = te.gradient(out, A)
    assert [int(d) for d in grad.shape] == [4, 4, 5]
    a = np.random.default_rng(0).normal(size=(4, 5))
    want = np.zeros((4, 4, 5))
    want[range(4), range(4)] = 2 * a
    np.testing.assert_allclose(run([A], [a], grad), want)


def test_products_are_one_sum() -> None:
    """The indices tell all but one axis: no sum over a whole Jacobian."""
    out = te.compute((4, 4), lambda i, j: te.sum(A[i, K5] * B[K5, j], K5))
    (grad,) = te.gradient(out, [A], head=topi.full_like(out, 1.0))
    assert [len(grad.op.axis), len(grad.op.reduce_axis)] == [2, 1]
    assert "if_then_else" not in str(te.create_prim_func([A, B, grad]))


def test_what_has_no_influence_or_no_derivative() -> None:
    (grad,) = te.gradient(topi.exp(A), [B], head=topi.full_like(A, 1.0))
    assert not run([A, B], [np.ones((4, 5)), np.ones((5, 4))], grad).any()
    with pytest.raises(ValueError, match="no derivative of this expression"):
        te.gradient(te.compute((4, 5), lambda i, j: te.atan2(A[i, j], A[i, j])), [A])
    with pytest.raises(ValueError, match="goes through computes only"):
        te.gradient(topi.sort(A), [A])
    assert lw.te.gradient is te.gradient
