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


@pytest.mark.sample(2)
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
    with pytest.raises(ValueError, match="differentiates computes only"):
        te.gradient(topi.sort(A), [A])
    assert lw.te.gradient is te.gradient


# Functions and their derivatives, for 0 < x < 1.
DERIVATIVES = {
    "exp": np.exp,
    "exp2": lambda x: np.exp2(x) * np.log(2),
    "log": lambda x: 1 / x,
    "log1p": lambda x: 1 / (1 + x),
    "log2": lambda x: 1 / (x * np.log(2)),
    "sqrt": lambda x: 0.5 / np.sqrt(x),
    "rsqrt": lambda x: -0.5 * x**-1.5,
    "sigmoid": lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2,
    "tanh": lambda x: 1 / np.cosh(x) ** 2,
    "sin": np.cos,
    "cos": lambda x: -np.sin(x),
    "fabs": np.ones_like,
    "erf": lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x),
    "tan": lambda x: 1 / np.cos(x) ** 2,
    "sinh": np.cosh,
    "cosh": np.sinh,
    "asin": lambda x: 1 / np.sqrt(1 - x * x),
    "acos": lambda x: -1 / np.sqrt(1 - x * x),
    "atan": lambda x: 1 / (1 + x * x),
    "asinh": lambda x: 1 / np.sqrt(1 + x * x),
    "atanh": lambda x: 1 / (1 - x * x),
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "nearbyint"), np.zeros_like),
}


def slope(element: Any, x: np.ndarray) -> np.ndarray:
    """The derivative of a function of the elements of a vector."""
    v = te.placeholder(x.shape, "float64", name="v")
    out = te.compute(x.shape, lambda i: element(v[i]))
    (grad,) = te.gradient(out, v, head=topi.full_like(out, 1.0))
    return run([v], [x], grad)


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_of_functions(name: str) -> None:
    x = np.linspace(0.05, 0.95, 7)
    np.testing.assert_allclose(slope(getattr(te, name), x), DERIVATIVES[name](x), rtol=1e-12)


@pytest.mark.parametrize(
    ("element", "wanted"),
    [
        (te.fabs, [-1, 1, 1]),  # at -1, 0 and 2
        (lambda e: tir.max(e * 3.0, 0.0), [0, 3, 3]),  # of equal operands the first one counts
        (lambda e: tir.max(0.0, e * 3.0), [0, 0, 3]),
        (lambda e: tir.min(e * 3.0, 0.0), [3, 3, 0]),
        (lambda e: tir.min(0.0, e * 3.0), [3, 0, 0]),
        (lambda e: tir.Select(e < 0.0, e * 2.0, e * 5.0), [2, 5, 5]),
        (lambda e: tir.if_then_else(e < 0.0, e * 2.0, e * 5.0), [2, 5, 5]),
        (lambda e: 1.0 - e * 4.0, [-4, -4, -4]),
        (lambda e: e / 4.0, [0.25] * 3),
        (lambda e: 8.0 / (e + 3.0), [-2, -8 / 9, -8 / 25]),
        (lambda e: te.power(e + 2.0, 3.0), [3, 12, 48]),
        (lambda e: te.power(tir.const(2.0, "float64"), e), [np.log(2) / 2, np.log(2), 4 * np.log(2)]),
        (lambda e: (e * 0.5).astype("float32").astype("float64"), [0.5] * 3),
        (lambda e: e.astype("int32").astype("float64") + e, [1, 1, 1]),
    ],
)  # fmt: skip
def test_derivatives_at_ends_and_ties(element: Any, wanted: list[float]) -> None:
    np.testing.assert_allclose(slope(element, np.float64([-1, 0, 2])), wanted)


def test_heads_of_more_axes_and_sums_with_a_condition() -> None:
    a = np.arange(20.0).reshape(4, 5)
    out = te.compute((4,), lambda i: te.sum(A[i, K5] * A[i, K5], K5, where=i >= K5), name="out")
    head = te.placeholder((2, 3, 4), "float64", name="head")
    (grad,) = te.gradient(out, A, head=head)
    h = np.random.default_rng(0).normal(size=(2, 3, 4))
    want = np.where(np.arange(5) < np.arange(4)[:, None] + 1, 2 * a, 0)
    np.testing.assert_allclose(run([A, head], [a, h], grad), h[..., None] * want)
    assert [t.op.name for t in te.gradient(out, A)] == ["A_grad_of_out_sum"]
    (zeros,) = te.gradient(out, B, head=head)
    assert [int(d) for d in zeros.shape] == [2, 3, 5, 4] and zeros.op.name == "B_grad"
    many = te.comm_reducer(lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda s, t: (
        tir.const(0, s), tir.const(1, t)), name="many")  # fmt: skip
    both = te.compute((4,), lambda i: many((A[i, K5], A[i, K5]), axis=K5), name="both")
    with pytest.raises(ValueError, match="reductions of one value.*\n  got: both"):
        te.gradient(both[0], A)


def test_results_of_one_operation_and_tensors_of_integers() -> None:
    n = te.placeholder((4,), "int32", name="n")
    two = te.compute((4,), lambda i: (A[i, 0] * 2.0, A[i, 1] * A[i, n[i]]), name="two")
    out = te.compute((4,), lambda i: two[0][i] + two[1][i] * 3.0, name="out")
    a, at = np.random.default_rng(0).normal(size=(4, 5)), np.int32([0, 1, 4, 3])
    grads = te.gradient(out, [A, n, two[1]], head=topi.full_like(out, 1.0))
    want = np.zeros((4, 5))
    want[:, 0] = 2
    want[range(4), 1] += 3 * a[range(4), at]
    want[range(4), at] += 3 * a[:, 1]
    np.testing.assert_allclose(run([A, n], [a, at], grads[0]), want)
    assert grads[1].dtype == "int32" and not any(grads[1].op.reduce_axis)
    np.testing.assert_array_equal(run([A, n], [a, at], grads[2]), [3] * 4)
