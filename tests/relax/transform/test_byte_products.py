"""ByteProducts keeps every number: convolutions and products of quantized tensors, before and after."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax
from loopwright.driver import compile, lower
from loopwright.ir.target import Target
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import ByteProducts
from loopwright.script import relax as R

ARM = {"neoverse-v1": "neon.usdot", "cortex-a76": "neon.sdot", "cortex-a72": "neon.smull"}


def target_of(cpu: str) -> Target:
    return Target(f"llvm -mtriple={'aarch64' if cpu in ARM else 'x86_64'}-linux-gnu -mcpu={cpu}")


VNNI = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake")


def bytes_of(rng, shape, dtype):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def module(rng, shape, weight, build, dtype, axis, symbolic, whole=False, weight_zero=0):
    """`build` of a quantized input and a quantized weight; symbolic: whether its first axis is, or which
    ones are; whole: in int32 without scales."""
    unknown = (0,) * symbolic if isinstance(symbolic, bool) else symbolic
    dims = [f"d{k}" if k in unknown else d for k, d in enumerate(shape)]
    x = relax.Var("x", R.Tensor(dims, dtype))
    zero = relax.const(np.asarray(7, dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            if whole:
                parts = [
                    op.subtract(op.astype(v, "int32"), op.astype(z, "int32"))
                    for v, z in (
                        (x, zero),
                        (relax.const(weight), relax.const(np.asarray(weight_zero, weight.dtype))),
                    )
                ]
            else:
                channels = weight.shape[axis]
                scale = relax.const(rng.uniform(0.01, 0.1, channels).astype(np.float32))
                none = relax.const(np.full(channels, weight_zero, weight.dtype))
                one = relax.const(np.float32(0.25))
                parts = [op.dequantize(x, one, zero, 0)]
                parts.append(op.dequantize(relax.const(weight), scale, none, axis))
            result = builder.emit_output(build(*(builder.emit(p) for p in parts)))
        builder.emit_func_output(result)
    return builder.finalize()


def check(mod, x, name):
    with VNNI:
        after = ByteProducts()(mod)
    assert f"R.nn.{name}" in after.script()
    expected = Interpreter(mod)["main"](x).numpy()
    np.testing.assert_allclose(Interpreter(after)["main"](x).numpy(), expected, 1e-4, 1e-3)
    np.testing.assert_allclose(compile(mod)["main"](x).numpy(), expected, 1e-4, 1e-3)


CONV = [
    ((2, 3, 9, 11), (5, 3, 3, 3), {"padding": 1}),
    ((1, 8, 20, 18), (16, 8, 3, 3), {"padding": [1, 0, 2, 1]}),
    ((1, 6, 13, 15), (8, 6, 5, 3), {"strides": 2, "padding": [2, 1, 2, 1]}),
    ((1, 4, 12, 12), (8, 4, 1, 1), {"strides": 2}),
    ((1, 4, 12, 12), (8, 4, 3, 3), {"dilation": 2, "padding": 2}),
    ((1, 4, 17, 19), (8, 4, 3, 3), {"strides": 3, "dilation": 2, "padding": 1}),
    ((1, 4, 2, 1), (8, 4, 1, 1), {}),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("row", CONV, ids=range(len(CONV)))
def test_convolutions(rng, row, dtype):
    shape, weight, attrs = row
    build = lambda x, w: op.nn.conv2d(x, w, **attrs)  # noqa: E731
    given = module(
        rng, shape, bytes_of(rng, weight, "int8"), build, dtype, 0, symbolic=dtype == "uint8"
    )
    check(given, bytes_of(rng, shape, dtype), "byte_conv2d")


DEPTHWISE = [  # shape, window: images and windows of any size, stride and padding
    ((2, 3, 7, 7), (3, 3), {"padding": 1}),
    ((1, 16, 6, 5), (5, 5), {"padding": 2}),
    ((1, 20, 1, 20), (3, 3), {"padding": 1}),
    ((2, 33, 11, 33), (3, 3), {"strides": 2, "padding": [1, 0, 2, 1]}),
    ((1, 8, 9, 40), (5, 5), {"strides": (3, 2), "padding": 2}),
    ((1, 5, 9, 34), (1, 2), {"strides": 2}),
    ((1, 40, 12, 16), (7, 1), {"padding": [3, 0]}),
    ((1, 4, 9, 11), (3, 4), {"dilation": (2, 1)}),
    ((2, 9, 31), (9,), {"padding": 4}),
]


@pytest.mark.sample(16)
@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512", "cascadelake", *ARM])
@pytest.mark.parametrize("row", DEPTHWISE, ids=range(len(DEPTHWISE)))
def test_depthwise_convolutions(rng, row, cpu):
    shape, window, attrs = row
    weight = bytes_of(rng, (shape[1], 1, *window), "int8")
    build = lambda x, w: getattr(op.nn, f"conv{len(window)}d")(x, w, groups=shape[1], **attrs)  # noqa: E731
    given = module(rng, shape, weight, build, "uint8", 0, True, whole=True)
    x = bytes_of(rng, shape, "uint8")
    want = Interpreter(given)["main"](x).numpy()
    scheduled = lower(given, target_of(cpu)).last("ApplyDefaultSchedule").after
    assert INSTRUCTIONS[cpu] in scheduled.script()
    np.testing.assert_array_equal(Interpreter(scheduled)["main"](x).numpy(), want)
    np.testing.assert_array_equal(compile(given)["main"](x).numpy(), want)


@pytest.mark.parametrize("unknown", [(1,), (0, 1, 2, 3)])
def test_channels_that_only_the_weight_knows(rng, unknown):
    build = lambda x, w: op.nn.conv2d(x, w, padding=1)  # noqa: E731
    weight = bytes_of(rng, (20, 8, 3, 3), "int8")
    given = module(rng, (1, 8, 9, 10), weight, build, "uint8", 0, unknown, whole=True)
    scheduled = lower(given, VNNI).last("ApplyDefaultSchedule").after
    assert "vpdpbusd" in scheduled.script()
    check(given, bytes_of(rng, (1, 8, 9, 10), "uint8"), "byte_conv2d")


ROWS = [
    ((2, 3, 31), (20, 3, 5), {"padding": [2, 1], "strides": 2}, ()),
    ((1, 8, 40), (48, 8, 3), {"padding": 4, "dilation": 4}, (0, 2)),
    ((1, 4, 12), (13, 4, 1), {}, (2,)),
    ((2, 6, 9, 11), (16, 6, 3, 2), {"padding": [1, 0, 2, 1], "strides": (2, 1)}, (0, 2, 3)),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_convolutions_over_one_side_or_unknown_ones(rng, row, dtype):
    shape, weight, attrs, unknown = row
    build = lambda x, w: getattr(op.nn, f"conv{len(shape) - 2}d")(x, w, **attrs)  # noqa: E731
    given = module(rng, shape, bytes_of(rng, weight, "int8"), build, dtype, 0, unknown)
    check(given, bytes_of(rng, shape, dtype), f"byte_conv{len(shape) - 2}d")
    given = module(
        rng, shape, bytes_of(rng, weight, "uint8"), build, dtype, 0, unknown, True, weight_zero=128
    )
    check(given, bytes_of(rng, shape, dtype), f"byte_conv{len(shape) - 2}d")


PRODUCTS = [((5, 8), (8, 48)), ((9, 7), (7, 10)), ((2, 3, 64), (64, 100)), ((1, 4), (4, 1))]


@pytest.mark.sample(2)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("row", PRODUCTS, ids=range(len(PRODUCTS)))
def test_matrix_products(rng, row, whole):
    shape, weight = row
    given = module(
        rng, shape, bytes_of(rng, weight, "int8"), op.matmul, "uint8", 1, not whole, whole
    )
    check(given, bytes_of(rng, shape, "uint8"), "byte_matmul")


def test_transposed_weights_of_a_fully_connected_layer(rng):
    build = lambda x, w: op.matmul(x, op.permute_dims(w))  # noqa: E731
    given = module(rng, (3, 8), bytes_of(rng, (10, 8), "int8"), build, "int8", 0, False)
    check(given, bytes_of(rng, (3, 8), "int8"), "byte_matmul")


def test_weights_transposed_before_they_are_widened(rng):
    x, weight = (
        relax.Var("x", R.Tensor((3, 8), "uint8")),
        relax.const(bytes_of(rng, (10, 8), "int8")),
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            turned = builder.emit(op.permute_dims(weight, [1, 0]))
            wide = [builder.emit(op.astype(v, "int32")) for v in (x, turned)]
            result = builder.emit_output(op.matmul(*wide))
        builder.emit_func_output(result)
    check(builder.finalize(), bytes_of(rng, (3, 8), "uint8"), "byte_matmul")


@pytest.mark.sample(2)
@pytest.mark.parametrize("zero", [0, 3, 128, 255])
def test_unsigned_weights(rng, zero):
    """Less their zero point they may not be int8: then another output adds the data."""
    values = bytes_of(rng, (8, 4), "uint8")
    for weights in (values, np.minimum(values, 128), np.minimum(values, 127)):
        given = module(rng, (3, 8), weights, op.matmul, "uint8", 1, False, weight_zero=zero)
        check(given, bytes_of(rng, (3, 8), "uint8"), "byte_matmul")
    values = bytes_of(rng, (8, 4, 3, 3), "uint8")
    build = lambda x, w: op.nn.conv2d(x, w, padding=1)  # noqa: E731
    given = module(rng, (1, 4, 9, 9), values, build, "int8", 0, True, True, weight_zero=zero)
    check(given, bytes_of(rng, (1, 4, 9, 9), "int8"), "byte_conv2d")


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("pair", "fits"),
    [
        ((64, 64), True), ((127, 1), True), ((-128, 127), True), ((-64, -64), True),
        ((65, 64), False), ((127, 2), False), ((-128, -1), False), ((-65, -64), False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("processor", ["haswell", "skylake-avx512", "cascadelake"])
@pytest.mark.parametrize("product", ["conv2d", "matmul"])
def test_data_and_weights_have_the_bits_that_pairs_of_products_need(
    rng, product, processor, pair, fits
):
    """Pairs of unsigned bytes where they fit, else words."""
    weight = np.zeros((8, 4), np.int8)
    weight[3, 2:] = pair
    shape, axis, build = (1, 4, 9, 9), 0, op.nn.conv2d
    if product == "matmul":
        weight, shape, axis, build = weight.T.copy(), (9, 4), 1, op.matmul
    else:
        weight = weight.reshape(8, 4, 1, 1)
    given = module(rng, shape, weight, build, "uint8", axis, False, whole=True)
    with Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={processor}"):
        made = ByteProducts()(given)
    calls = [b.value for block in made["main"].body.blocks for b in block.bindings]
    (call,) = [c for c in calls if c.op.name == f"relax.nn.byte_{product}"]
    assert [str(a.struct_info.dtype) for a in call.args[:2]] == ["uint8", "int8"]
    assert call.attrs.narrow == (processor != "cascadelake" and fits)
    x = np.full(shape, 255, np.uint8)
    want = Interpreter(given)["main"](x).numpy()
    np.testing.assert_array_equal(Interpreter(made)["main"](x).numpy(), want)
    np.testing.assert_array_equal(compile(given)["main"](x).numpy(), want)


def test_other_processors_keep_the_graph(rng):
    given = module(rng, (3, 8), bytes_of(rng, (8, 4), "int8"), op.matmul, "uint8", 1, False)
    with Target("llvm -mtriple=x86_64-linux-gnu -mcpu=nehalem"):
        assert ByteProducts()(given) is given


PROCESSORS = {"haswell": "avx2", "skylake-avx512": "avx512bw", "cascadelake": "avx512vnni"}
PROCESSORS |= dict.fromkeys(ARM, "neon")
INSTRUCTIONS = {
    "haswell": "avx2.pmadd.wd",
    "skylake-avx512": "pmaddw.d.512",
    "cascadelake": "vpdpbusd",
    **ARM,
}
EXTREMES = {
    "matmul": ((5, 36), (36, 50), op.matmul, 1),
    "conv2d": ((1, 12, 7, 9), (13, 12, 3, 3), lambda x, w: op.nn.conv2d(x, w, padding=1), 0),
    "pointwise": ((1, 12, 5, 7), (13, 12, 1, 1), op.nn.conv2d, 0),
    "depthwise": ((1, 8, 9, 20), (8, 1, 3, 3), lambda x, w: op.nn.conv2d(x, w, groups=8), 0),
}


@pytest.mark.sample(18)
@pytest.mark.parametrize("least", [-128, -127, -64])
@pytest.mark.parametrize("cpu", PROCESSORS)
@pytest.mark.parametrize("row", EXTREMES.values(), ids=EXTREMES)
def test_no_processor_saturates_between(rng, row, cpu, least):
    """Pairs of products of 255 and -128 or 127 need more than 16 bits, those of -64 or 64 just not. What this machine cannot run is
    interpreted, as the rest is, too."""
    shape, weight, build, axis = row
    weights = np.where(rng.random(weight) < 0.5, least, min(-least, 127)).astype(np.int8)
    weights[(slice(None),) * axis + (0,)] = least  # an output of nothing else
    given = module(rng, shape, weights, build, "uint8", axis, False, True)
    x = np.where(rng.random(shape) < 0.9, 255, 0).astype(np.uint8)
    want, target = Interpreter(given)["main"](x).numpy(), target_of(cpu)
    legal = lower(given, target).last("ApplyDefaultSchedule").after
    assert INSTRUCTIONS[cpu] in legal.script()
    assert "psign.b" not in legal.script()  # slower than words
    narrow = least == -64 and cpu in ("haswell", "skylake-avx512")
    assert ("pmadd.ub" in legal.script() or "pmaddubs" in legal.script()) == narrow
    np.testing.assert_array_equal(Interpreter(legal)["main"](x).numpy(), want)
    if PROCESSORS[cpu] in Target("llvm").features:
        np.testing.assert_array_equal(compile(given, target)["main"](x).numpy(), want)


@pytest.mark.parametrize(
    ("shape", "weight", "build", "axis"),
    [
        ((3, 0), (0, 5), op.matmul, 1),
        ((3, 4), (4, 0), op.matmul, 1),
        ((2, 0, 5, 5), (4, 0, 3, 3), op.nn.conv2d, 0),
        ((2, 3, 0, 5), (4, 3, 3, 3), lambda x, w: op.nn.conv2d(x, w, padding=2), 0),
    ],
)
def test_sums_of_nothing_and_no_sums_stay(rng, shape, weight, build, axis):
    mod = module(rng, shape, bytes_of(rng, weight, "int8"), build, "uint8", axis, False, whole=True)
    with VNNI:
        assert "R.nn.byte" not in ByteProducts()(mod).script()
    x = bytes_of(rng, shape, "uint8")
    np.testing.assert_array_equal(
        compile(mod)["main"](x).numpy(), Interpreter(mod)["main"](x).numpy()
    )


def real(x, scale=0.5, zero=3, axis=0, dtype="uint8"):
    """A quantized value as float32."""
    numbers = [np.asarray(v, d) for v, d in ((scale, "float32"), (zero, dtype))]
    return op.dequantize(x, *map(relax.const, numbers), axis)


def whole(x):
    return op.astype(x, "int32")


SIGNED = relax.const(np.arange(-9, 15, dtype="int8").reshape(4, 6))
UNSIGNED = relax.const(np.arange(9, 250, 10, dtype="uint8")[:24].reshape(4, 6))
FILTER, SHORT, WINDOW = (
    relax.const(np.arange(np.prod(s)).astype("int8").reshape(s))
    for s in ((12, 4, 3), (1, 4, 3), (12, 4, 3, 2))
)
WEIGHT = real(SIGNED, 0.25, 1, 0, "int8")
STAYS = {
    "weights of floats": lambda e, x, *_: op.matmul(real(x), real(op.astype(SIGNED, "float32"))),
    "bytes in int32": lambda e, x, *_: op.matmul(real(e(whole(x)), dtype="int32"), e(WEIGHT)),
    "a scale for each of what is added": lambda e, x, *_: op.matmul(
        e(real(x)), e(real(SIGNED, [1, 2, 3, 4], [0] * 4, 0, "int8"))
    ),
    "weights of more than 8 bits": lambda e, x, *_: op.matmul(
        e(real(x)), e(real(UNSIGNED, [1] * 6, [0, 255] * 3, 1))
    ),
    "a scale for each column": lambda e, x, *_: op.matmul(e(real(x, [1] * 4, [3] * 4, 1)), e(WEIGHT)),
    "a zero point for each column": lambda e, x, *_: op.matmul(
        e(real(x, [1] * 4, [1, 2, 3, 4], 1)), e(WEIGHT)
    ),
    "a vector": lambda e, x, *_: op.matmul(e(real(e(op.reshape(x, [20])))), e(real(relax.const(np.ones((20, 2), "int8")), 1, 0, 0, "int8"))),
    "many matrices": lambda e, x, *_: op.matmul(
        e(real(x)), e(real(e(op.reshape(SIGNED, [2, 4, 3])), 1, 0, 0, "int8"))
    ),
    "sums in another type": lambda e, x, *_: op.matmul(
        e(whole(x)), e(whole(SIGNED)), out_dtype="float32"
    ),
    "half sums": lambda e, x, *_: op.matmul(e(real(x)), e(WEIGHT), out_dtype="float16"),
    "a factor of floats": lambda e, x, *_: op.matmul(e(whole(x)), e(WEIGHT), out_dtype="float32"),
    "channels last": lambda e, x, y, z, i: op.nn.conv1d(
        e(real(op.permute_dims(y, [0, 2, 1]))), e(real(FILTER, 1, 0, 0, "int8")), data_layout="NWC"
    ),
    "few outputs": lambda e, x, y, z, i: op.nn.conv1d(e(real(y)), e(real(SHORT, 1, 0, 0, "int8"))),
    "a scale for each channel": lambda e, x, y, z, i: op.nn.conv1d(
        e(real(y, [1] * 4, [3] * 4, 1)), e(real(FILTER, 1, 0, 0, "int8"))
    ),
    "a scale for each channel of an image": lambda e, x, y, z, i: op.nn.conv2d(
        e(real(i, [1] * 4, [3] * 4, 1)), e(real(WINDOW, 1, 0, 0, "int8"))
    ),
    "a scale for each place of a window": lambda e, x, y, z, i: op.nn.conv2d(
        e(real(i)), e(real(WINDOW, [1] * 3, [0] * 3, 2, "int8"))
    ),
}  # fmt: skip
BECOMES = {
    "weights of 8 bits after their zero point": lambda e, x, *_: op.matmul(
        e(real(x)), e(real(UNSIGNED, [1, 2] * 3, [128, 130] * 3, 1))
    ),
    "a zero point that is given": lambda e, x, y, z, i: op.matmul(
        e(op.dequantize(x, relax.const(np.float32(0.5)), z, 0)), e(WEIGHT)
    ),
    "the last axis counted from behind": lambda e, x, *_: op.matmul(
        e(real(x)), e(real(SIGNED, [1, 2] * 3, [1, 2] * 3, -1, "int8"))
    ),
    "enough outputs": lambda e, x, y, z, i: op.nn.conv1d(e(real(y)), e(real(FILTER, 1, 0, 0, "int8"))),
    "a window of two sizes": lambda e, x, y, z, i: op.nn.conv2d(
        e(real(i)), e(real(WINDOW, 1, 0, 0, "int8")), strides=(1, 2)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*STAYS, *BECOMES])
def test_what_becomes_a_product_of_bytes(rng, name):
    shapes = [(5, 4), (2, 4, 9), (), (1, 4, 9, 9)]
    params = [relax.Var(f"x{k}", R.Tensor(s, "uint8")) for k, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            made = {**STAYS, **BECOMES}[name](builder.emit, *params)
            result = builder.emit_output(made)
        builder.emit_func_output(result)
    mod = builder.finalize()
    with VNNI:
        after = ByteProducts()(mod)
    assert ("R.nn.byte" in after.script()) == (name in BECOMES)
    given = [bytes_of(rng, s, "uint8") for s in shapes]
    want, got = (Interpreter(m)["main"](*given).numpy() for m in (mod, after))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, 1e-5, 1e-3)


def test_an_image_of_an_unknown_shape():
    x = relax.Var("x", R.Tensor(ndim=4, dtype="uint8"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        product = op.nn.conv2d(builder.emit(real(x)), builder.emit(real(WINDOW, 1, 0, 0, "int8")))
        builder.emit_func_output(builder.emit(product))
    with VNNI:
        assert "R.nn.byte" not in ByteProducts()(builder.finalize()).script()


X = (1, 4, 8, 8)
REFUSED = {
    "other channels": ("byte_conv2d", [X, (8, 3, 3, 3), ()], (), "takes 3 channels"),
    "a part of a block": (
        "byte_conv2d", [X, (6, 4, 3, 3), ()], ([1], [0], [1], 1, "NCHW", "OIHW", "NCHW8c"), "multiple of 8",
    ),
    "a small image": ("byte_conv2d", [X, (8, 4, 9, 9), ()], (), "larger than the padded data"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "shapes", "attrs", "message"), REFUSED.values(), ids=REFUSED)
def test_extents_that_do_not_fit(name, shapes, attrs, message):
    kinds = ["uint8", "int8", "uint8"]
    given = [
        relax.Var(f"x{k}", relax.TensorStructInfo(shape, kind))
        for k, (shape, kind) in enumerate(zip(shapes, kinds, strict=False))
    ]
    with pytest.raises(ValueError, match=message):
        relax.BlockBuilder().normalize(getattr(op.nn, name)(*given, *attrs))
