"""ByteTails keeps every byte: quantized sums, pooling and moves, before and after, interpreted and compiled."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax
from loopwright.driver import compile
from loopwright.ir.module import IRModule
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import ByteProducts, ByteTails
from loopwright.script import from_source
from loopwright.script import relax as R

from .test_byte_products import VNNI, bytes_of


def const(value, dtype):
    return relax.const(np.asarray(value, dtype))


def function(shape, dtype, build):
    x = relax.Var("x", R.Tensor(shape, dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(build(builder.emit, x))
        builder.emit_func_output(result)
    return builder.finalize()


def network(rng, shape, weight, axis, product, dtype, unit=0.02, bias=True):
    """x, quantized, by a quantized weight, with a bias of int32, quantized."""
    count = weight.shape[axis]
    scale = rng.uniform(0.01, 0.02, count).astype(np.float32)
    values = rng.integers(-3000, 3000, count).astype(np.int32)

    def build(emit, x):
        real = emit(op.dequantize(x, const(unit, "float32"), const(7, dtype), 0))
        w = op.dequantize(
            const(weight, "int8"), const(scale, "float32"), const([0] * count, "int8"), axis
        )
        total = emit(product(real, emit(w)))
        if bias:
            none = const([0] * count, "int32")
            step = const(scale * np.float32(unit), "float32")
            some = emit(op.dequantize(const(values, "int32"), step, none, 0))
            dims = [1, count, 1, 1] if len(shape) == 4 else [count]
            total = emit(op.add(total, emit(op.reshape(some, dims))))
        return op.quantize(total, const(0.25, "float32"), const(5, dtype), 0, dtype)

    return function(shape, dtype, build)


def check(mod, x, *names, exact=True):
    with VNNI:
        after = ByteTails()(ByteProducts()(mod))
    for name in names:
        assert f"R.{name}(" in after.script()
    expected = Interpreter(mod)["main"](x).numpy().astype(int)
    got = Interpreter(after)["main"](x).numpy()
    np.testing.assert_array_equal(compile(mod)["main"](x).numpy(), got)
    # The float graph rounds a sum and a quotient more: at ties it may be the next byte.
    assert np.abs(got - expected).max() <= (0 if exact else 1)
    assert (got != expected).mean() < 0.02


SUMS = [
    ((2, 3, 9, 11), (5, 3, 3, 3), {"padding": 1}),
    ((1, 8, 14, 14), (16, 8, 1, 1), {}),
    ((1, 8, 30, 30), (16, 8, 3, 3), {"padding": 1, "strides": 2}),
    ((1, 5, 9, 9), (5, 1, 3, 3), {"padding": 1, "groups": 5}),
    ((2, 4, 23, 40), (4, 1, 5, 5), {"padding": [2, 1, 2, 3], "groups": 4, "strides": 2}),
    ((1, 2, 400, 300), (2, 1, 3, 3), {"groups": 2}),
    ((1, 2, 3, 3), (2, 1, 3, 3), {"padding": 1, "groups": 2}),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("row", SUMS, ids=range(len(SUMS)))
def test_convolutions(rng, row, dtype):
    shape, weight, attrs = row
    product = lambda x, w: op.nn.conv2d(x, w, **attrs)  # noqa: E731
    mod = network(rng, shape, bytes_of(rng, weight, "int8"), 0, product, dtype)
    check(mod, bytes_of(rng, shape, dtype), "nn.byte_conv2d", "round", exact=False)


@pytest.mark.parametrize("shape", [(5, 64), (2, 3, 62)])
def test_products(rng, shape):
    mod = network(rng, shape, bytes_of(rng, (shape[-1], 50), "int8"), 1, op.matmul, "uint8")
    check(mod, bytes_of(rng, shape, "uint8"), "nn.byte_matmul", "round", exact=False)


@pytest.mark.parametrize("off", [1.5, -1.0])
def test_a_bias_of_another_scale_stays(rng, off):
    def build(emit, x):
        real = emit(op.dequantize(x, const(0.5, "float32"), const(0, "uint8"), 0))
        w = op.dequantize(const(np.eye(8), "int8"), const(0.25, "float32"), const(0, "int8"), 0)
        total = emit(op.matmul(real, emit(w)))
        some = op.dequantize(const([3] * 8, "int32"), const(off, "float32"), const(0, "int32"), 0)
        total = emit(op.add(total, emit(some)))
        return op.quantize(total, const(0.25, "float32"), const(5, "uint8"), 0, "uint8")

    mod = function((3, 8), "uint8", build)
    with VNNI:
        assert "R.round" not in ByteTails()(ByteProducts()(mod)).script()
    check(mod, bytes_of(rng, (3, 8), "uint8"), "nn.byte_matmul")


def test_sums_that_are_read_twice_stay_sums():
    def build(emit, x):
        real = emit(op.dequantize(x, const(0.5, "float32"), const(0, "uint8"), 0))
        w = op.dequantize(const(np.eye(8), "int8"), const(0.25, "float32"), const(0, "int8"), 0)
        total = emit(op.matmul(real, emit(w)))
        short = emit(op.quantize(total, const(0.25, "float32"), const(5, "uint8"), 0, "uint8"))
        return op.add(op.astype(short, "float32"), total)

    mod = function((3, 8), "uint8", build)
    with VNNI:
        assert "R.round" not in ByteTails()(ByteProducts()(mod)).script()


POOLS = [
    ((1, 3, 112, 112), {"pool_size": 3, "strides": 2, "padding": 1}),
    ((2, 5, 9, 13), {"pool_size": [3, 2], "strides": [1, 3], "padding": [1, 0, 2, 1]}),
    ((1, 2, 14, 14), {"pool_size": 5, "padding": 2}),
    ((1, 2, 15, 15), {"pool_size": 2, "strides": 2, "ceil_mode": True}),
    ((1, 2, 15, 15), {"pool_size": 2, "dilation": 2}),
]


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("row", POOLS, ids=range(len(POOLS)))
def test_the_greatest_bytes(rng, row, dtype):
    """Pooling of quantized numbers is pooling of their bytes; the same scale again is nothing."""
    shape, attrs = row

    def build(emit, x):
        scale, zero = const(0.3, "float32"), const(7, dtype)
        real = emit(op.dequantize(x, scale, zero, 0))
        pooled = emit(op.nn.max_pool2d(real, **attrs))
        flat = emit(op.reshape(pooled, [shape[0], -1]))
        return op.quantize(flat, scale, zero, 0, dtype)

    mod = function(shape, dtype, build)
    check(mod, bytes_of(rng, shape, dtype), "nn.max_pool2d")
    with VNNI:
        text = ByteTails()(mod).script()
    assert "quantize" not in text


def test_another_scale_is_quantized_again(rng):
    def build(emit, x):
        real = emit(op.dequantize(x, const(0.3, "float32"), const(7, "uint8"), 0))
        return op.quantize(real, const(0.4, "float32"), const(7, "uint8"), 0, "uint8")

    check(function((3, 8), "uint8", build), bytes_of(rng, (3, 8), "uint8"), "quantize")


TAIL = """
@R.function
def main(x: R.Tensor((2, 4), dtype="uint8"), w: R.Tensor((4, 2), dtype="int8"), s: R.Tensor((2, 2), dtype="int32"), f: R.Tensor((2,), dtype="float32")):
    k = T.int64()
    with R.dataflow():
        sums = R.nn.byte_matmul(x, w)
        less = R.subtract(sums, R.const([5, 6], "int32"))
        wide = R.astype(less, dtype="float32")
        real = R.multiply(wide, R.const([0.5, 0.25], "float32"))
        step = R.dequantize(R.const([3, -4], "int32"), R.const([0.5, 0.25], "float32"), R.const(0, "int32"), axis=0)
        whole = R.add(real, step)
        gv = R.quantize(whole, R.const(2.0, "float32"), R.const(3, "uint8"), axis=0, out_dtype="uint8")
        R.output(gv)
    return gv
"""
KEPT = {
    "no sums of bytes": ("R.nn.byte_matmul(x, w)", "R.matmul(s, s)"),
    "given sums": ("R.subtract(sums", "R.subtract(s"),
    "no integers": ("R.multiply(wide", "R.multiply(R.exp(wide)"),
    "no offset": ("R.subtract(sums, R.const([5, 6], 'int32'))", "R.strided_slice(sums, [1], [0], [2])", "R.quantize(whole", "R.quantize(real"),
    "an unknown number of columns": ("(4, 2)", "(4, 'k')"),
    "a number for each row": ("R.const([5, 6], 'int32')", "s"),
    "a number for each sum": ("R.const([0.5, 0.25], 'float32'))\n        step", "R.const([[1.0], [2.0]]))\n        step"),
    "an unknown number of factors": (
        "f: R.Tensor((2,)", "f: R.Tensor(('k',)", "R.multiply(wide, R.const([0.5, 0.25], 'float32'))", "R.multiply(wide, f)",
        "R.quantize(whole", "R.quantize(real",
    ),
    "one bias for two factors": ("R.const([3, -4], 'int32'), R.const([0.5, 0.25]", "R.const([3], 'int32'), R.const([0.5]"),
    "a bias that is not quantized": ("step)", "R.exp(real))"),
    "a bias that is no number times the scale": ("step)", "f)"),
    "a bias that is not known": ("R.const([3, -4], 'int32')", "R.astype(f, 'int32')"),
    "a bias with a zero point": ("R.const(0, 'int32')", "R.const([0, 1], 'int32')"),
    "a bias of bytes": (
        "R.const([3, -4], 'int32')", "R.const([3, -4], 'int8')", "R.const(0, 'int32')", "R.const(0, 'int8')"
    ),
    "a bias of another scale": ("[0.5, 0.25], 'float32'), R.const(0", "[0.5, 0.26], 'float32'), R.const(0"),
    "sums of one column": ("(4, 2)", "(4, 1)"),
    "a scale for each column": ("R.const(2.0,", "R.const([2.0, 1.0],", "axis=0, out", "axis=1, out"),
    "a zero point for each column": ("R.const(3, 'uint8')", "R.const([3, 4], 'uint8')", "axis=0, out", "axis=1, out"),
    "16 bits": ("R.const(3, 'uint8'), axis=0, out_dtype='uint8'", "R.const(3, 'int16'), axis=0, out_dtype='int16'"),
}  # fmt: skip
TAILS = {
    "as it is": (),
    "one offset": ("[5, 6]", "5"),
    "one offset in a list": ("[5, 6]", "[5]"),
    "offsets in a row": ("[5, 6]", "[[5, 6]]"),
    "two offsets": ("R.const([5, 6], 'int32'))\n", "R.const([5, 6], 'int32'))\n        less = R.add(less, R.const([1, 8], 'int32'))\n"),
    "one factor": ("R.const([0.5, 0.25]", "R.const(0.5"),
    "a bias in a row": ("step)", "R.reshape(step, (1, 2)))"),
    "a factor in another shape": (
        "R.const([0.5, 0.25], 'float32'))\n        step",
        "R.reshape(R.const([[0.5], [0.25]], 'float32'), (2,)))\n        step",
    ),
    "one bias": ("R.const([0.5, 0.25]", "R.const(0.5", "R.const([3, -4], 'int32')", "R.const(3, 'int32')"),
    "a factor of factors": (
        "R.const([0.5, 0.25], 'float32'))\n        step",
        "R.divide(R.multiply(R.const([2.0, 1.0]), R.const(0.5)), R.const(2.0)))\n        step",
    ),
    "signed bytes": ("R.const(3, 'uint8'), axis=0, out_dtype='uint8'", "R.const(3, 'int8'), axis=0, out_dtype='int8'"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*KEPT, *TAILS])
def test_sums_that_are_made_bytes(rng, name):
    text = TAIL.replace('"', "'")
    edits = {**KEPT, **TAILS}[name]
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    mod = IRModule.from_expr(from_source(text))
    made = ByteTails()(mod)
    assert ("R.round" in made.script()) == (name in TAILS)
    rows = 1 if name == "sums of one column" else 2
    given = bytes_of(rng, (2, 4), "uint8"), bytes_of(rng, (4, rows), "int8")
    given = *given, np.int32([[9, 2], [3, 4]]), np.float32([1, 2])
    want, got = (Interpreter(m)["main"](*given).numpy() for m in (mod, made))
    np.testing.assert_array_equal(got, want)
