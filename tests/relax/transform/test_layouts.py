"""ConvertLayout and BlockedLayout: the numbers stay, and tensors are moved at borders only."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from loopwright import driver, relax, te, tir
from loopwright.base.span import Span
from loopwright.ir.structural import structural_equal
from loopwright.ops import OPERATORS, Tensor, layout_rules, op
from loopwright.relax import op as R
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import BlockedLayout, ConvertLayout

from .graphs import graph

NHWC = {"relax.nn.conv2d": ["NHWC", "OHWI"]}


def const(rng, *shape):
    return relax.const(rng.normal(size=shape).astype("float32"))


def conv(rng, emit, x, channels, **attrs):
    weight = const(rng, channels, x.struct_info.shape.values[1].value, 3, 3)
    return emit(R.nn.conv2d(x, weight, padding=1, **attrs))


def calls(mod, name):
    """The calls of an operator in `main`."""
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    return [v for v in values if isinstance(v, relax.Call) and v.op.name == f"relax.{name}"]


def run(mod, *arrays):
    results = Interpreter(mod)["main"](*arrays)
    results = results if isinstance(results, tuple | list) else [results]
    return [np.asarray(r.numpy() if hasattr(r, "numpy") else r) for r in results]


def check(rng, build, *shapes, desired=NHWC, moves=2, sizes=None, **options):
    """Convert a graph; its results stay, and so many tensors are transposed (constants apart)."""
    mod = graph(build, *shapes)
    converted = ConvertLayout(desired, **options)(mod)
    arrays = [
        rng.normal(size=[(sizes or {}).get(d, d) for d in shape]).astype("float32")
        for shape in shapes
    ]
    for got, wanted in zip(run(converted, *arrays), run(mod, *arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    moved = [
        call
        for name in ("permute_dims", "layout_transform")
        for call in calls(converted, name)
        if not isinstance(call.args[0], relax.Constant)
    ]
    assert len(moved) == moves, converted.script()
    return converted


def elementwise(rng, emit, x):
    y = emit(R.nn.relu(conv(rng, emit, x, 6)))
    return emit(R.sigmoid(conv(rng, emit, emit(R.clip(y, -1, 1)), 5)))


def bias(rng, emit, x):
    y = emit(R.add(conv(rng, emit, x, 6), const(rng, 6, 1, 1)))
    y = emit(R.multiply(const(rng, 1, 6, 1, 1), y))
    return emit(R.maximum(emit(R.add(y, const(rng, 1, 6, 8, 8))), relax.const(0.5, "float32")))


def residual(rng, emit, x):
    y = conv(rng, emit, x, 4)
    z = emit(R.nn.relu(conv(rng, emit, y, 4)))
    return emit(R.add(emit(R.add(y, z)), y))


def gate(rng, emit, x):
    y = conv(rng, emit, x, 6)
    return emit(R.multiply(y, emit(R.sigmoid(emit(R.mean(y, [2, 3], True))))))


def pools(rng, emit, x):
    y = emit(R.nn.max_pool2d(conv(rng, emit, x, 6), [3, 2], [2, 1], [1, 0, 1, 1], ceil_mode=True))
    y = emit(R.nn.avg_pool2d(y, 2, 1, 1))
    return emit(R.nn.adaptive_avg_pool2d(y, [2, 3]))


def joined(rng, emit, x):
    y, z = conv(rng, emit, x, 6), conv(rng, emit, x, 2)
    return conv(rng, emit, emit(R.concat([y, emit(R.nn.relu(z)), y], 1)), 3)


def norms(rng, emit, x):
    y = conv(rng, emit, x, 6)
    batch = emit(
        R.nn.batch_norm(
            y,
            const(rng, 6),
            const(rng, 6),
            const(rng, 6),
            relax.const(np.ones(6, "float32")),
            1,
            training=False,
        )
    )
    y = emit(relax.TupleGetItem(batch, 0))
    y = emit(R.nn.group_norm(y, const(rng, 6), const(rng, 6), 3, 1, [2, 3]))
    return emit(R.nn.layer_norm(y, const(rng, 8, 8), const(rng, 8, 8), [-2, -1]))


def halves(rng, emit, x):
    y = emit(R.split(conv(rng, emit, x, 6), 2, 1))
    first, second = emit(relax.TupleGetItem(y, 0)), emit(relax.TupleGetItem(y, 1))
    return emit(R.multiply(first, emit(R.nn.softmax(second, 1))))


def sliced(rng, emit, x):
    y = emit(R.strided_slice(conv(rng, emit, x, 6), [1, -1], [1, 0], [5, 8], [2, 1]))
    return emit(R.nn.pad(y, [0, 0, 0, 0, 1, 2, 0, 1]))


@pytest.mark.parametrize(
    "build", [elementwise, bias, residual, gate, pools, joined, norms, halves, sliced]
)
def test_what_follows_takes_the_layout(rng, build):
    converted = check(rng, partial(build, rng), (2, 4, 8, 8))
    assert all(c.attrs.data_layout == "NHWC" for c in calls(converted, "nn.conv2d"))


def test_symbolic_extents(rng):
    n, h = tir.Var("n", "int64"), tir.Var("h", "int64")
    check(rng, partial(residual, rng), (n, 4, h, 8), sizes={n: 2, h: 5})


def test_a_transposed_input_and_result_are_what_is_wanted(rng):
    """A model whose images are NHWC, written for operators that take NCHW."""

    def build(emit, x):
        y = conv(rng, emit, emit(R.permute_dims(x, [0, 3, 1, 2])), 6)
        return emit(R.permute_dims(y, [0, 2, 3, 1]))

    converted = check(rng, build, (2, 8, 8, 4), moves=1)  # the one that nothing uses any more
    (of_weight,) = calls(relax.transform.DeadCodeElimination()(converted), "permute_dims")
    assert isinstance(of_weight.args[0], relax.Constant)


def test_transposing_otherwise_moves_once(rng):
    def build(emit, x):
        return emit(R.exp(emit(R.permute_dims(conv(rng, emit, x, 6), [1, 0, 3, 2]))))

    check(rng, build, (2, 4, 8, 8), moves=2)


def test_a_reshape_needs_the_plain_tensor(rng):
    def build(emit, x):
        y = emit(R.reshape(conv(rng, emit, x, 6), [2, 3, 16, 8]))
        return conv(rng, emit, y, 4)

    check(rng, build, (2, 4, 8, 8), moves=4)


def test_dropping_the_pixels_needs_nothing_moved(rng):
    def build(emit, x):
        y = emit(R.nn.adaptive_avg_pool2d(conv(rng, emit, x, 6), [1, 1]))
        y = emit(R.squeeze(y, [2, 3]))
        return emit(R.matmul(y, const(rng, 6, 5)))

    check(rng, build, (2, 4, 8, 8), moves=1)
    check(rng, lambda emit, x: emit(R.sum(conv(rng, emit, x, 6), [2, 3])), (2, 4, 8, 8), moves=1)


def test_an_operand_that_does_not_follow_is_met_by_the_plain_tensor(rng):
    """A vector along columns, which are not last in NHWC."""

    def build(emit, x, v):
        return emit(R.nn.relu(emit(R.add(conv(rng, emit, x, 6), v))))

    check(rng, build, (2, 4, 8, 8), (8,))


def test_weights_that_are_parameters_are_moved_too(rng):
    def build(emit, x, w):
        return emit(R.nn.conv2d(x, w, strides=[2, 1], dilation=[1, 2]))

    check(rng, build, (2, 4, 9, 8), (6, 4, 3, 3), moves=3)


def test_a_result_in_a_layout_of_its_own(rng):
    desired = {"relax.nn.conv2d": ["NHWC", "HWIO", "NCHW"]}
    converted = check(rng, partial(residual, rng), (2, 4, 8, 8), desired=desired, moves=2)
    assert calls(converted, "nn.conv2d")[0].attrs.out_layout == "NCHW"


def test_an_operator_that_is_not_named_follows(rng):
    desired = {"relax.nn.max_pool2d": ["NHWC"]}

    def build(emit, x):
        return conv(rng, emit, emit(R.nn.max_pool2d(x, 2)), 6)

    converted = check(rng, build, (2, 4, 8, 8), desired=desired)
    (call,) = calls(converted, "nn.conv2d")
    assert (call.attrs.data_layout, call.attrs.kernel_layout) == ("NHWC", "OIHW")


def test_blocks_where_they_divide(rng):
    desired = {"relax.nn.conv2d": ["NCHW4c", "OIHW4i4o"]}

    def build(emit, x):
        y = emit(R.nn.relu(conv(rng, emit, x, 8)))
        y = emit(R.concat([y, conv(rng, emit, y, 8)], 1))
        y = emit(R.nn.max_pool2d(y, 2))
        return emit(R.nn.softmax(y, 2))

    converted = check(rng, build, (2, 4, 8, 8), desired=desired, moves=2)
    assert calls(converted, "nn.softmax")[0].struct_info.ndim == 5
    odd = check(rng, lambda emit, x: conv(rng, emit, x, 6), (2, 4, 8, 8), desired=desired, moves=0)
    assert calls(odd, "nn.conv2d")[0].attrs.data_layout == "NCHW"


def test_tuples_and_several_results(rng):
    def build(emit, x):
        y = conv(rng, emit, x, 6)
        return relax.Tuple([y, emit(R.split(y, 3, 1)), x])

    mod = graph(build, (2, 4, 8, 8))
    converted = ConvertLayout(NHWC)(mod)
    array = rng.normal(size=(2, 4, 8, 8)).astype("float32")
    (y, parts, x), (y1, parts1, x1) = (Interpreter(m)["main"](array) for m in (converted, mod))
    for got, wanted in zip((y, *parts, x), (y1, *parts1, x1), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-4)


def test_branches_and_dataflow_blocks_end_a_layout(rng):
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((2, 4, 8, 8), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit_output(R.nn.relu(conv(rng, bb.emit, x, 4)))
        z = bb.emit(R.exp(y))
        with bb.dataflow():
            out = bb.emit_output(R.add(conv(rng, bb.emit, z, 4), y))
        bb.emit_func_output(out)
    mod = bb.get()
    array = rng.normal(size=(2, 4, 8, 8)).astype("float32")
    converted = ConvertLayout(NHWC)(mod)
    np.testing.assert_allclose(run(converted, array)[0], run(mod, array)[0], rtol=1e-4, atol=1e-4)


def test_a_callback_decides_call_by_call(rng):
    def layout_of(call):
        small = call.op.name == "relax.nn.conv2d" and call.args[1].struct_info.shape.values[0] == 6
        return {"relax.nn.conv2d": ["NHWC", "OHWI"]} if small else {}

    def build(emit, x):
        return conv(rng, emit, emit(R.reshape(conv(rng, emit, x, 4), [2, 4, 8, 8])), 6)

    converted = check(rng, build, (2, 4, 8, 8), desired={}, layout_cb=layout_of)
    first, second = calls(converted, "nn.conv2d")
    assert (first.attrs.data_layout, second.attrs.data_layout) == ("NCHW", "NHWC")


def test_a_module_without_them_stays():
    mod = graph(lambda emit, x: emit(R.nn.relu(emit(R.permute_dims(x, [1, 0])))), (2, 4))
    assert structural_equal(ConvertLayout(NHWC)(mod), mod)


def test_mistakes(rng):
    mod = graph(partial(residual, rng), (2, 4, 8, 8))
    with pytest.raises(ValueError, match="relax.matmul does not say how layouts pass"):
        ConvertLayout({"relax.matmul": ["AB"]})(mod)
    with pytest.raises(AttributeError, match="no operator of this name"):
        ConvertLayout({"relax.nn.conv2": ["NHWC", "OHWI"]})(mod)
    with pytest.raises(ValueError, match="the axes NCHW"):
        ConvertLayout({"relax.nn.conv2d": ["NDHWC", "OHWI"]})(mod)


def test_an_operator_of_ones_own_takes_part(rng):
    """Without the hook it gets the plain tensor; with it, both passes leave the layout."""

    @op("testlayouts.swish")
    def swish(x: Tensor):
        return te.compute(x.shape, lambda *i: x(*i) * tir.sigmoid(x(*i)), "swish")

    try:
        swish.numpy(lambda x: x / (1 + np.exp(-x)))

        def build(emit, x):
            return conv(rng, emit, emit(swish.builder(conv(rng, emit, x, 8))), 8)

        mod, block = graph(build, (2, 8, 8, 8)), BlockedLayout(block=4)
        check(rng, build, (2, 8, 8, 8), moves=4)
        assert len(calls(block(mod), "nn.unpack_channels")) == 2
        swish.layout(layout_rules.elementwise(finite=True))
        check(rng, build, (2, 8, 8, 8), moves=2)
        assert len(calls(block(mod), "nn.unpack_channels")) == 1
    finally:
        OPERATORS.remove("testlayouts.swish")


# ------------------------------------------------------------------ BlockedLayout


def attention(rng, emit, x):
    """A map of one channel times all channels: its blocks hold one number and zeros."""
    y = conv(rng, emit, x, 16)
    return conv(rng, emit, emit(R.multiply(emit(R.sigmoid(conv(rng, emit, y, 1))), y)), 8)


@pytest.mark.parametrize("build", [elementwise, bias, residual, gate, pools, joined, attention])
def test_blocks_keep_the_numbers(rng, build):
    mod = graph(partial(build, rng), (2, 4, 8, 8))
    blocked = BlockedLayout(block=4)(mod)
    assert calls(blocked, "nn.pack_weight")
    array = rng.normal(size=(2, 4, 8, 8)).astype("float32")
    np.testing.assert_allclose(run(blocked, array)[0], run(mod, array)[0], rtol=1e-4, atol=1e-4)


def test_images_grow_in_blocks(rng):
    def build(emit, x):
        y = emit(R.repeat(emit(R.repeat(conv(rng, emit, x, 6), 2, 2)), 2, -1))
        z = emit(R.repeat(emit(R.flip(conv(rng, emit, x, 6), 1)), 2, 2))
        return emit(R.add(y, emit(R.repeat(z, 2, 3))))

    mod = graph(build, (1, 3, 6, 6))
    blocked = BlockedLayout(block=4)(mod)
    ranks = [len(c.struct_info.get_shape()) for c in calls(blocked, "repeat")]
    assert sorted(ranks) == [4, 4, 5, 5]  # channels that are flipped leave their blocks
    array = rng.normal(size=(1, 3, 6, 6)).astype("float32")
    np.testing.assert_allclose(run(blocked, array)[0], run(mod, array)[0], rtol=1e-4, atol=1e-4)


def test_what_fills_up_a_block_is_not_read(rng):
    mod = graph(
        lambda emit, x: conv(rng, emit, emit(R.nn.relu(conv(rng, emit, x, 6))), 9), (1, 3, 6, 6)
    )
    blocked = BlockedLayout(block=8)(mod)
    assert [c.attrs.layout for c in calls(blocked, "nn.pack_weight")] == ["OIHW8o", "OIHW6i8o"]
    array = rng.normal(size=(1, 3, 6, 6)).astype("float32")
    np.testing.assert_allclose(run(blocked, array)[0], run(mod, array)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "channels, results, groups, blocked_groups",
    [
        (16, 24, 2, 2),
        (8, 8, 2, 2),
        (8, 12, 4, 0),
        (8, 16, 4, 2),
        (8, 8, 4, 2),
        (8, 8, 8, 8),
        (4, 4, 2, 1),
    ],
)
def test_groups_of_whole_blocks_are_blocked(rng, channels, results, groups, blocked_groups):
    """Two groups that share a block of four become one, whose weight has zeros."""

    def build(emit, x):
        weight = const(rng, results, channels // groups, 3, 3)
        return emit(R.nn.conv2d(x, weight, padding=1, groups=groups))

    mod = graph(build, (2, channels, 6, 6))
    blocked = BlockedLayout(block=4)(mod)
    (call,) = calls(blocked, "nn.conv2d")
    assert call.attrs.data_layout == ("NCHW4c" if blocked_groups else "NCHW")
    assert call.attrs.groups == (blocked_groups or groups)
    x = rng.normal(size=(2, channels, 6, 6)).astype("float32")
    native = np.asarray(driver.compile(blocked)["main"](x))
    for got in (run(blocked, x)[0], native):
        np.testing.assert_allclose(got, run(mod, x)[0], rtol=1e-4, atol=1e-5)


def test_few_results_have_vectors_along_rows(rng):
    """A block of channels would hold two results; across columns that are left out, none fit."""
    mod = graph(lambda emit, x: conv(rng, emit, conv(rng, emit, x, 8), 2), (1, 8, 6, 6))
    blocked = BlockedLayout(block=8)(mod)
    assert [c.attrs.out_layout for c in calls(blocked, "nn.conv2d")] == ["NCHW8c", "NCHW"]
    strided = graph(lambda emit, x: conv(rng, emit, x, 2, strides=2), (1, 8, 6, 6))
    (call,) = calls(BlockedLayout(block=8)(strided), "nn.conv2d")
    assert call.attrs.out_layout == "NCHW8c"


def test_volumes_are_blocked(rng):
    def build(emit, x):
        y = emit(
            R.nn.conv3d(x, const(rng, 6, 4, 3, 3, 2), padding=[1, 1, 0, 1, 1, 1], strides=(1, 2, 1))
        )
        y = emit(R.add(y, const(rng, 6, 1, 1, 1)))
        gate = emit(R.sigmoid(emit(R.mean(y, [2, 3, 4], True))))
        z = emit(R.nn.conv3d(emit(R.multiply(y, gate)), const(rng, 5, 6, 1, 1, 1)))
        return emit(R.add(emit(R.nn.relu(z)), const(rng, 5, 1, 1, 1)))

    rows = tir.Var("h", "int64")
    mod = graph(build, (2, 4, 3, rows, 6))
    blocked = BlockedLayout(block=4)(mod)
    assert len(calls(blocked, "nn.pack_weight")) == len(calls(blocked, "nn.conv3d")) == 2
    assert len(calls(blocked, "nn.unpack_channels")) == 1
    array = rng.normal(size=(2, 4, 3, 7, 6)).astype("float32")
    np.testing.assert_allclose(run(blocked, array)[0], run(mod, array)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", ["w", 12])
def test_rows_are_blocked(rng, width):
    def build(emit, x):
        y = emit(R.nn.conv1d(x, const(rng, 9, 3, 5), padding=2, strides=2))  # of few channels
        y = emit(R.nn.relu(emit(R.add(y, const(rng, 9, 1)))))
        z = emit(R.nn.conv1d(y, const(rng, 9, 1, 3), groups=9, padding=1))
        z = emit(R.multiply(z, emit(R.sigmoid(emit(R.mean(z, [2], True))))))
        return emit(R.nn.conv1d(z, const(rng, 6, 9, 1)))

    mod = graph(build, (2, 3, tir.Var(width, "int64") if width == "w" else width))
    blocked = BlockedLayout(block=4)(mod)
    assert len(calls(blocked, "nn.pack_weight")) == len(calls(blocked, "nn.conv1d")) == 3
    assert len(calls(blocked, "nn.unpack_channels")) == 2  # and for the mean
    array = rng.normal(size=(2, 3, 12)).astype("float32")
    np.testing.assert_allclose(run(blocked, array)[0], run(mod, array)[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        np.asarray(driver.compile(mod)["main"](array)), run(mod, array)[0], rtol=1e-4, atol=1e-4
    )


def test_the_mean_of_a_long_sequence_is_exact(rng):
    """As norms of audio need it, which subtract it from each element."""

    def build(emit, x):
        return emit(R.mean(emit(R.nn.conv1d(x, const(rng, 16, 8, 1))), [2], True))

    mod = graph(build, (1, 8, 30000))
    array = rng.uniform(1.0999, 1.1, (1, 8, 30000)).astype("float32")  # so that roundings add up
    got = np.asarray(driver.compile(mod)["main"](array))
    weight = calls(mod, "nn.conv1d")[0].args[1].data.numpy().astype("float64")
    expected = np.einsum("oik,nil->no", weight, array.astype("float64"))[..., None] / 30000
    np.testing.assert_allclose(got, expected, 6e-6)


@pytest.mark.parametrize("axis", [2, 3])
def test_a_reduction_to_another_rank_ends_the_blocks(rng, axis):
    check(
        rng,
        lambda emit, x: emit(R.nn.relu(emit(R.max(conv(rng, emit, x, 4), [axis])))),
        (1, 3, 6, 6),
    )


def test_images_are_resized_in_the_layout_at_hand(rng):
    def build(emit, x):
        y = conv(rng, emit, x, 4)
        z = emit(R.image.resize2d(y, (10, 12), layout="NCHW"))
        return emit(R.nn.relu(z))

    converted = check(rng, build, (1, 3, 6, 6))
    (resized,) = calls(converted, "image.resize2d")
    assert resized.attrs.layout == "NHWC"
    desired = {**NHWC, "relax.image.resize2d": ["NHWC"]}
    first = lambda emit, x: conv(rng, emit, emit(R.image.resize2d(x, (8, 8))), 4)  # noqa: E731
    check(rng, first, (1, 3, 6, 6), desired=desired)


def test_new_axes_stand_where_the_plain_tensor_has_them(rng):
    def build(emit, x):
        y = emit(R.expand_dims(conv(rng, emit, x, 4), (-3, 1)))
        return emit(R.nn.relu(y))

    converted = check(rng, build, (2, 3, 6, 6))
    (grown,) = calls(converted, "expand_dims")
    assert [int(d) for d in grown.struct_info.shape.values] == [2, 1, 6, 1, 6, 4]


@pytest.mark.parametrize("name", ["expand_dims", "squeeze", "permute_dims"])
def test_operators_that_take_no_blocks(rng, name):
    def build(emit, x):
        y = conv(rng, emit, x, 4)
        arguments = {"expand_dims": [1], "squeeze": [0], "permute_dims": [3, 2, 1, 0]}
        return emit(getattr(R, name)(y, arguments[name]))

    desired = {"relax.nn.conv2d": ["NCHW4c", "OIHW4i4o"]}
    check(rng, build, (1, 4, 6, 6), desired=desired, moves=3 if name == "permute_dims" else 2)


def test_the_places_of_operators_are_kept(rng):
    def build(emit, x):
        return emit(R.nn.conv2d(x, const(rng, 6, 4, 3, 3)).with_span(Span("onnx:/conv")))

    (made,) = calls(ConvertLayout(NHWC)(graph(build, (1, 4, 8, 8))), "nn.conv2d")
    assert made.attrs.data_layout == "NHWC" and str(made.span) == "onnx:/conv"


@pytest.mark.parametrize(("channels", "unpacked"), [(8, 0), (6, 1)])
def test_a_range_to_quantize_is_of_blocks_that_are_whole(rng, channels: int, unpacked: int) -> None:
    def build(emit, x):
        y = conv(rng, emit, x, channels)
        ends = emit(R.quantize_range(y))
        scale = emit(R.quantize_scale(ends))
        zero = emit(R.quantize_zero_point(ends, scale))
        return conv_of_bytes(emit, y, scale, zero)

    def conv_of_bytes(emit, y, scale, zero):
        whole = emit(R.dequantize(emit(R.quantize(y, scale, zero, out_dtype="uint8")), scale, zero))
        return conv(rng, emit, whole, 4)

    mod = graph(build, (1, 4, 6, 6))
    blocked = BlockedLayout(block=4)(mod)
    x = rng.normal(size=(1, 4, 6, 6)).astype("float32")
    np.testing.assert_allclose(run(blocked, x)[0], run(mod, x)[0], rtol=1e-4, atol=1e-4)
    (ends,) = calls(blocked, "quantize_range")
    assert len(ends.args[0].struct_info.shape.values) == 5 - unpacked
    assert len(calls(blocked, "nn.unpack_channels")) == 1 + unpacked  # the result, too
