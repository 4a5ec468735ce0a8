"""Convolutions by prepared weights compute what they do by the weights before."""

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relay
from loopwright.ops.winograd import transforms
from loopwright.relay.walk import free_vars

pytestmark = pytest.mark.no_roundtrip

nn = relay.nn


def compute(expr: relay.Expr, *arrays: Any) -> np.ndarray:
    mod = lw.IRModule({"main": relay.Function(free_vars(expr), expr)})
    return relay.create_executor("graph", mod, target="llvm").evaluate()(*arrays).numpy()


def type_of(expr: relay.Expr) -> str:
    mod = lw.IRModule.from_expr(expr)
    return str(relay.transform.InferType()(mod)["main"].ret_type)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "tile, kernel, packed",
    [
        (2, (6, 3, 3, 3), (4, 4, 6, 3)),
        (4, (6, 3, 5, 3), (8, 6, 6, 3)),
        (2, (6, 3, 3, 3, 3), (4, 4, 4, 6, 3)),
        (4, (6, 3, 1, 3, 5), (6, 8, 1, 6, 3)),
    ],
)
def test_winograd(
    rng: np.random.Generator, tile: int, kernel: tuple[int, ...], packed: tuple[int, ...]
) -> None:
    rank = len(kernel) - 2
    data = rng.standard_normal((2, 3, 5, 9, 8)[: 1 + 1 + rank]).astype("float32")
    weight = rng.standard_normal(kernel).astype("float32")
    x, w = relay.var("x", shape=data.shape), relay.var("w", shape=kernel)
    options = {"channels": 6, "kernel_size": kernel[2:], "padding": (1,) * rank}
    made = getattr(nn, f"contrib_conv{rank}d_winograd_weight_transform")(w, tile)
    assert type_of(made) == str(relay.TensorType(packed))
    conv = getattr(nn, f"contrib_conv{rank}d_winograd_without_weight_transform")
    got = compute(conv(x, made, tile, **options), data, weight)
    want = compute(getattr(nn, f"conv{rank}d")(x, w, **options), data, weight)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


def test_the_transform_of_the_usual_filters() -> None:
    want = [[-1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]
    np.testing.assert_array_equal(transforms(2, 3).window, want)


@pytest.mark.parametrize("dtype, packed", [("int8", (2, 16, 4, 3)), ("float32", (2, 16, 3, 4))])
def test_products_of_matrices(
    rng: np.random.Generator, dtype: str, packed: tuple[int, ...]
) -> None:
    data = rng.integers(-5, 5, (1, 6, 7, 5)).astype(dtype)
    weight = rng.integers(-5, 5, (3, 3, 5, 7)).astype(dtype)
    x, w = (relay.var(n, shape=a.shape, dtype=dtype) for n, a in (("x", data), ("w", weight)))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    options = {"channels": 7, "kernel_size": (3, 3), "out_dtype": "int32", **layouts}
    options["out_dtype"] = "int32" if dtype == "int8" else dtype
    made = nn.contrib_conv2d_gemm_weight_transform(w, 4, 3)
    assert type_of(made) == str(relay.TensorType(packed, dtype))
    got = compute(nn.contrib_conv2d_gemm_without_weight_transform(x, made, **options), data, weight)
    want = compute(nn.conv2d(x, w, **options), data, weight)
    np.testing.assert_array_equal(got, want)


def test_what_is_missing_is_said() -> None:
    x = relay.var("x", shape=(1, 3, 8, 8))
    packed, tiles = relay.var("p", shape=(4, 4, 6, 3)), relay.var("t", shape=(2, 9, 3, 4))
    for expr, message in (
        (nn.contrib_conv2d_winograd_without_weight_transform(x, packed, 2), "kernel_size"),
        (nn.contrib_conv2d_gemm_without_weight_transform(x, tiles), "kernel_size=None"),
        (
            nn.contrib_conv2d_winograd_weight_transform(relay.var("i", shape=(2, 2, 3, 3), dtype="int8"), 2),
            "floating numbers",
        ),
    ):  # fmt: skip
        with pytest.raises(lw.DiagnosticError, match=message):
            type_of(expr)
