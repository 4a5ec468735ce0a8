"""Kinds of answers that were wrong once: reductions of nothing but the least, products of nothing, rows
that see nothing, sums of short floats, shapes with zeros. Compiled, with static and symbolic sizes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import loopwright

from .support import close, floats, graph, node, operator, reference, value

F32, INF = np.float32, np.inf
SIZES = pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])


def run(op_type: str, *inputs: Any, **options: Any) -> np.ndarray:
    model, feeds = operator(op_type, *inputs, **options)
    (got,) = loopwright.compile(model).run(feeds).values()
    return got.numpy()


def least(dtype: Any) -> Any:
    return -INF if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min


@pytest.mark.sample(2)
@SIZES
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int32", "int64"])
def test_all_elements_are_the_least(dtype, symbolic):
    x = np.full((2, 3), least(dtype), dtype)
    how: dict[str, Any] = {"symbolic": symbolic}
    np.testing.assert_array_equal(run("ArgMax", x, axis=1, **how), [[0], [0]])
    np.testing.assert_array_equal(run("ReduceMax", x, axes=[1], **how), x[:, :1])
    most = -1 - x if np.dtype(dtype).kind == "i" else -x
    np.testing.assert_array_equal(run("ArgMin", most, axis=1, **how), [[0], [0]])
    np.testing.assert_array_equal(run("ReduceMin", most, axes=[1], **how), most[:, :1])


@SIZES
@pytest.mark.parametrize("number", [INF, -INF])
def test_log_sum_of_infinities(number, symbolic):
    got = run("ReduceLogSumExp", np.full((2, 3), number, F32), axes=[1], symbolic=symbolic)
    np.testing.assert_array_equal(got, [[number], [number]])


@pytest.mark.sample(2)
@SIZES
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_rows_of_attention_that_see_nothing_are_zero(kind, symbolic):
    q, k, v = floats(1, 2, 3, 4), floats(1, 2, 5, 4, seed=1), floats(1, 2, 5, 4, seed=2)
    seen = np.array([[1, 1, 0, 0, 1], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]], bool)
    mask = seen if kind == "bool" else np.where(seen, F32(0), F32(-INF))
    model, feeds = operator("Attention", q, k, v, mask, opset=24, symbolic=symbolic)
    (got,) = loopwright.compile(model).run(feeds).values()
    close([got.numpy()], ReferenceEvaluator(model).run(None, feeds), 1e-5)
    assert not got.numpy()[:, :, 1].any()


@SIZES
def test_products_over_no_elements(symbolic):
    a, b, c = np.zeros((2, 0), F32), np.zeros((0, 3), F32), floats(3)
    np.testing.assert_array_equal(run("MatMul", a, b, symbolic=symbolic), np.zeros((2, 3)))
    np.testing.assert_array_equal(run("Gemm", a, b, c, symbolic=symbolic), np.tile(c, (2, 1)))
    got = run("Einsum", a, b, equation="ij,jk->ik", symbolic=symbolic)
    np.testing.assert_array_equal(got, np.zeros((2, 3)))


@pytest.mark.sample(2)
@SIZES
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_short_floats_are_summed_in_float32(dtype, symbolic):
    row, column = np.ones((1, 4096), dtype), np.ones((4096, 1), dtype)
    image, kernel = row.reshape(1, 4096, 1, 1), row.reshape(1, 4096, 1, 1)
    how: dict[str, Any] = {"symbolic": symbolic}
    found = [
        run("MatMul", row, column, **how),
        run("Gemm", row, column, **how),
        run("Einsum", row, column, equation="ij,jk->ik", **how),
        run("ReduceSum", row, np.array([1]), fed=1, **how),
        run("Conv", image, kernel, fed=1, **how),
    ]
    assert [float(v.reshape(())) for v in found] == [4096] * 5


@pytest.mark.parametrize("slope", [[0.1], [0.1, 0.2, 0.3]])
@SIZES
def test_slopes_of_channels_before_opset_7(slope, symbolic):
    x = floats(2, 3, 4)
    each = np.array(slope, F32).reshape(-1, 1)
    got = run("PRelu", x, np.array(slope, F32), fed=1, opset=6, symbolic=symbolic)
    np.testing.assert_allclose(got, np.where(x > 0, x, x * each), rtol=1e-6)


@SIZES
def test_a_reshape_to_no_elements(symbolic):
    options = {"fed": 1, "allowzero": 1, "symbolic": symbolic}
    assert run("Reshape", np.zeros((2, 0, 3), F32), np.array([0, 3, 2]), **options).shape == (
        0,
        3,
        2,
    )
    full, _ = operator("Reshape", np.zeros((2, 1, 3), F32), np.array([0, 3, 2]), **options)
    with pytest.raises((loopwright.LoopwrightError, ValueError)):
        loopwright.compile(full).run({"x0": np.zeros((2, 1, 3), F32)})


def test_a_reshape_to_another_number_of_elements_is_an_error():
    model, _ = operator("Reshape", floats(5, 4), np.array([-1, 8]), fed=1, symbolic=True)
    compiled = loopwright.compile(model)
    assert next(iter(compiled.run({"x0": floats(6, 4)}).values())).numpy().shape == (3, 8)
    with pytest.raises((loopwright.LoopwrightError, ValueError)):
        compiled.run({"x0": floats(5, 4)})


@SIZES
def test_batch_normalization_by_statistics_of_the_run(symbolic):
    dims = ["n" if symbolic else 2, 4, "h" if symbolic else 6, 5]
    names = ["scale", "bias", "mean", "var"]
    model = graph(
        [node("BatchNormalization", ["x", *names], ["y"]), node("Relu", ["y"], ["z"])],
        [value("x", dims), *(value(n, [4]) for n in names)],
        [value("z", None)],
    )
    feeds = {"x": floats(2, 4, 6, 5)}
    feeds |= {n: floats(4, low=0.5, seed=k) for k, n in enumerate(names)}
    got = loopwright.compile(model).run(feeds)
    close([v.numpy() for v in got.values()], reference(model, feeds))


def test_a_remainder_by_infinity_and_the_sign_of_nan():
    x = np.array([1, -1, 5.5], F32)
    got = run("Mod", x, np.array([INF, INF, -INF], F32), fmod=1)
    np.testing.assert_array_equal(got, np.fmod(x, INF))
    np.testing.assert_array_equal(run("Sign", np.array([np.nan, 0, -2], F32)), [np.nan, 0, -1])


def test_the_greatest_of_no_truth_values():
    got = run("ReduceMax", np.zeros((2, 0), bool), np.array([1]), fed=1, opset=20)
    np.testing.assert_array_equal(got, np.zeros((2, 1), bool))


@pytest.mark.parametrize("rows", [15, 17, 85])
def test_a_weight_of_odd_rows_times_any_number_of_columns(rows):
    """LLVM once ended the process."""
    w, x = floats(rows, 7), floats(7, 5, seed=1)
    ports, results = [value("x", [7, "n"])], [value("y", [rows, "n"])]
    model = graph([node("MatMul", ["w", "x"], ["y"])], ports, results, {"w": w})
    (got,) = loopwright.compile(model).run({"x": x}).values()
    close([got.numpy()], [w @ x])


def test_whole_numbers_that_are_known_are_divided_as_at_run_time():
    a, b = np.array([4, -3, 0, -7], "int32"), np.array([0, 2, 0, 3], "int32")
    for fed in (0, 1, 2):
        np.testing.assert_array_equal(run("Div", a, b, fed=fed), [0, -1, 0, -2])
        np.testing.assert_array_equal(run("Mod", a, b, fed=fed), [0, 1, 0, 2])


@SIZES
@pytest.mark.parametrize("norm", ["LayerNormalization", "RMSNormalization"])
def test_norms_over_many_axes_are_as_exact_as_over_one(norm, symbolic):
    x, scale = floats(40, 50, 60), floats(40, 50, 60, seed=1)
    got = run(norm, x, scale, axis=0, symbolic=symbolic, opset=23)
    wide = x.astype("float64")
    wide -= wide.mean() if norm == "LayerNormalization" else 0
    right = wide / np.sqrt((wide**2).mean() + 1e-5) * scale
    assert np.abs(got - right).max() < 5e-6 * np.abs(right).max()


def test_an_axis_that_is_not_there_is_named():
    model, _ = operator("ArgMax", floats(2, 3), axis=2**31, select_last_index=1)
    with pytest.raises(loopwright.LoopwrightError, match="ArgMax: attribute axis is out of range"):
        loopwright.compile(model)
