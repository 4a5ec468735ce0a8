"""Models in float16: as fast as in float32, and as exact up to the results' own rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.tir import PrimFunc

from .graphs import graph

CPU = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"


def half(*shape: int) -> np.ndarray:
    """Whole numbers divided by 8: sums of their products are exact in float32 in any order."""
    return (np.random.default_rng(sum(shape)).integers(-16, 16, shape) / 8).astype(np.float16)


def network(emit: Any, x: Any) -> Any:
    """Convolutions, depthwise too, with a residual, a pooling and a product."""

    def weight(*shape: int) -> Any:
        return relax.const(half(*shape).astype(str(x.struct_info.dtype)))

    image = emit(op.nn.conv2d(x, weight(24, 3, 3, 3), strides=2, padding=1))
    y = emit(op.add(image, weight(24, 1, 1)))
    deep = emit(op.nn.conv2d(y, weight(24, 1, 3, 3), padding=1, groups=24))
    y = emit(op.nn.relu(emit(op.add(y, deep))))
    y = emit(op.reshape(emit(op.nn.max_pool2d(y, (2, 2), (2, 2))), (2, 24 * 9)))
    return emit(op.matmul(y, weight(24 * 9, 5)))


def test_only_results_are_rounded():
    mod, x = graph(network, (2, 3, 12, 12), dtype="float16"), half(2, 3, 12, 12)
    got = np.asarray(lw.compile(mod)["main"](x))
    exact = np.asarray(Interpreter(graph(network, x.shape))["main"](x.astype(np.float32)))
    assert got.dtype == np.float16 and exact.dtype == np.float32
    np.testing.assert_array_equal(got, exact.astype(np.float16))
    stepwise = np.asarray(Interpreter(mod)["main"](x))
    assert (stepwise != got).any()


def test_a_batch_norm_s_constants_are_not_rounded():
    def build(emit, x):
        dtype = str(x.struct_info.dtype)
        y = emit(op.nn.conv2d(x, relax.const(half(4, 3, 1, 1).astype(dtype))))
        params = [relax.const((np.abs(half(k, 4)[0]) + 1).astype(dtype)) for k in range(1, 5)]
        y = emit(relax.TupleGetItem(emit(op.nn.batch_norm(y, *params, axis=1, training=False)), 0))
        return emit(op.nn.conv2d(y, relax.const(half(2, 4, 1, 1).astype(dtype))))

    x = half(2, 3, 5, 5)
    got = np.asarray(lw.compile(graph(build, x.shape, dtype="float16"))["main"](x))
    exact = np.asarray(lw.compile(graph(build, x.shape))["main"](x.astype(np.float32)))
    np.testing.assert_array_equal(got, exact.astype(np.float16))


def test_values_cast_to_other_shapes_stay_wide():
    def build(emit, x):
        y = emit(op.nn.conv2d(x, relax.const(half(4, 3, 1, 1))))
        bb = relax.BlockBuilder.current()
        y = bb.match_cast(y, relax.TensorStructInfo((2, 4, 5, 5), "float16"))
        return emit(op.nn.relu(y))

    rows = lw.tir.Var("n", "int64")
    after = relax.transform.WidenFloats()(graph(build, (2, 3, rows, 5), dtype="float16"))
    (block,) = after["main"].body.blocks
    casts = [str(b.struct_info.dtype) for b in block.bindings if isinstance(b, relax.MatchCast)]
    assert casts == ["float32"]


def test_a_cast_of_the_graph_s_own_rounds():
    def build(emit, x):
        narrow = emit(op.astype(emit(op.multiply(x, relax.const(np.float32(1 / 3)))), "float16"))
        return emit(op.astype(emit(op.matmul(narrow, relax.const(half(8, 4)))), "float32"))

    mod, x = graph(build, (6, 8)), np.ones((6, 8), np.float32)
    got = np.asarray(lw.compile(mod)["main"](x))
    third = np.float32(np.float16(1 / 3))
    np.testing.assert_array_equal(got, (x * third) @ half(8, 4).astype(np.float32))


def test_kernels_read_images_in_float32():
    trace = lw.lower(graph(network, (2, 3, 12, 12), dtype="float16"), CPU)
    kernels = trace["FuseTIR"].after
    for gvar, func in kernels.functions.items():
        if isinstance(func, PrimFunc) and "conv" in gvar.name_hint:
            assert {str(b.dtype) for b in func.buffer_map.values()} == {"float32"}, gvar


@pytest.mark.parametrize("given", ["constant", "parameter"])
def test_weights_of_products_stay_short(given):
    def build(emit, x, w=None):
        return emit(op.nn.relu(emit(op.matmul(x, w or relax.const(half(8, 4))))))

    shapes = [(6, 8)] if given == "constant" else [(6, 8), (8, 4)]
    after = relax.transform.WidenFloats()(graph(build, *shapes, dtype="float16"))
    (product,) = (
        b.value
        for b in after["main"].body.blocks[0].bindings
        if getattr(b.value, "op", None) is lw.ir.Op.get("relax.matmul")
    )
    assert [str(a.struct_info.dtype) for a in product.args] == ["float32", "float16"]
