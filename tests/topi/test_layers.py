"""topi's layers, recurrences and helpers against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import te, tir, topi
from loopwright.topi import nn, testing, utils

from ..drawing import drawn
from .common import check, floats

TABLE = drawn("test_layers")

X = floats(TABLE, 2, 4, 4, 6)


def last(x):
    return x.transpose(0, 2, 3, 1)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_pixels_in_channels(mode):
    deep = testing.depth_to_space_python(X, 2, mode)
    check(lambda x: nn.depth_to_space(x, 2, "NCHW", mode), [X], deep)
    check(lambda x: nn.depth_to_space(x, 2, "NHWC", mode), [last(X)], last(deep))
    flat = testing.space_to_depth_python(X, 2)
    check(lambda x: nn.space_to_depth(x, 2), [X], flat)
    check(lambda x: nn.space_to_depth(x, 2, "NHWC"), [last(X)], last(flat))
    np.testing.assert_array_equal(testing.depth_to_space_python(flat, 2), X)
    with pytest.raises(ValueError, match="the layout is NCHW or NHWC"):
        nn.space_to_depth(te.placeholder(X.shape), 2, "HWCN")


def test_pixels_in_batches(rng):
    x = floats(rng, 2, 3, 5, 2)
    sides = ([1, 0], [0, 1])
    wide = testing.space_to_batch_nd_python(x, (2, 3), *sides, 2.0)
    check(lambda x: nn.space_to_batch_nd(x, (2, 3), *sides, 2.0), [x], wide)
    check(lambda x: nn.batch_to_space_nd(x, (2, 3), *sides), [wide], x)
    np.testing.assert_array_equal(testing.batch_to_space_nd_python(wide, (2, 3), *sides), x)


def test_borders(rng):
    x, sides = floats(rng, 3, 4), ([1, 2], [2, 0])
    pairs = list(zip(*sides, strict=True))
    for mode, name in (("SYMMETRIC", "symmetric"), ("REFLECT", "reflect")):
        check(lambda x, m=mode: nn.mirror_pad(x, *sides, m), [x], np.pad(x, pairs, name))
    for make, name in (
        (nn.reflect_pad, "reflect"), (nn.replicate_pad, "edge"), (nn.circular_pad, "wrap"),
    ):  # fmt: skip
        check(lambda x, f=make: f(x, *sides), [x], np.pad(x, pairs, name))
    assert nn.get_padded_shape(te.placeholder((3, 4)), *sides)[1].value == 6
    with pytest.raises(ValueError, match="two numbers for each of 2 axes"):
        nn.get_padded_shape(te.placeholder((3, 4)), [1])


def test_responses(rng):
    for axis in (1, 3):
        expected = testing.lrn_python(X, 3, axis, 2.0, 0.5, 0.75)
        check(lambda x, a=axis: nn.lrn(x, 3, a, 0.5, 0.75, 2.0), [X], expected)
    new = floats(rng, 2, 1, 4, 6)
    check(lambda d, b: nn.fifo_buffer(d, b, 1), [new, X], np.concatenate([X[:, 1:], new], 1))
    y = floats(rng, *X.shape)
    for options in ((1, 1, 1, 1, 1, True), (3, 2, 2, 2, (1, 2), False)):
        check(
            lambda a, b, o=options: nn.correlation_nchw(a, b, *o),
            [X, y],
            testing.correlation_nchw_python(X, y, *options),
        )
    with pytest.raises(ValueError, match="kernel_size is odd"):
        nn.correlation_nchw(te.placeholder(X.shape), te.placeholder(X.shape), 2, 1, 1, 1, 1, True)


@pytest.mark.parametrize("groups", [1, 2])
def test_deformed(rng, groups):
    w, offset = floats(rng, 4, 4 // groups, 3, 2), floats(rng, 2, 24, 2, 6) * 3 - 1
    options = ((2, 1), (1, 1, 1, 0), 1, 2, groups)
    expected = testing.deformable_conv2d_nchw_python(X, offset, w, *options)
    make = lambda x, o, w: nn.deformable_conv2d_nchw(x, o, w, *options, "float32")  # noqa: E731
    check(make, [X, offset, w], expected)
    make = lambda x, o, w: nn.deformable_conv2d_nhwc(x, o, w, *options, "float32")  # noqa: E731
    check(make, [last(X), last(offset), w.transpose(2, 3, 1, 0)], last(expected))


def test_deformed_by_nothing(rng):
    w, offset = floats(rng, 3, 4, 3, 3), np.zeros((2, 18, 4, 6), "float32")
    same = testing.deformable_conv2d_nchw_python(X, offset, w, 1, 1, 1, 1, 1)
    np.testing.assert_allclose(same, testing.conv2d_nchw_python(X, w, 1, 1), rtol=1e-5)


@pytest.mark.parametrize("options", ["plain", "all"])
def test_lstm(rng, options):
    length, batch, inputs, hidden, out = 3, 2, 3, 4, 2
    whole = options == "all"
    seen = out if whole else hidden
    names = ["Xs", "Wi", "Wh"]
    arrays = [
        floats(rng, length, batch, inputs),
        floats(rng, 4 * hidden, inputs),
        floats(rng, 4 * hidden, seen),
    ]
    kept = {"weight_layout": "IFGO"}
    if whole:
        names += ["Bi", "Bh", "h_init", "c_init", "proj", "p_i", "p_f", "p_o"]
        arrays += [
            floats(rng, 4 * hidden),
            floats(rng, 4 * hidden),
            floats(rng, batch, out),
            floats(rng, batch, hidden),
        ]
        arrays += [floats(rng, out, hidden), *(floats(rng, batch, hidden) for _ in range(3))]
        kept = {"weight_layout": "OGFI", "reverse": True}
    expected = testing.lstm_python(**dict(zip(names, arrays, strict=True)), **kept)
    given = [te.placeholder(a.shape, name=n) for n, a in zip(names, arrays, strict=True)]
    outs = nn.lstm(**dict(zip(names, given, strict=True)), **kept)
    built = te.build(te.create_schedule([o.op for o in outs]), [*given, *outs], "llvm")
    made = [np.zeros([int(e) for e in o.shape], "float32") for o in outs]
    built(*arrays, *made)
    for ours, theirs in zip(made, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    with pytest.raises(ValueError, match="names the gates"):
        nn.lstm(*given[:3], weight_layout="IFG")


@pytest.mark.parametrize("dtype", ["disable", "int8", "uint8", "int32"])
def test_simulated_quantization(rng, dtype):
    x = (floats(rng, 2, 3) - 0.5) * 600
    scale, zero = floats(rng, 3), np.array([3, -2, 0], "int32")
    code = np.array([nn.SQNN_DTYPE_TO_CODE[dtype]], "int32")
    there, back = x, x
    if dtype != "disable":
        info = np.iinfo(dtype)
        there = np.clip(np.rint(x / scale) + zero, info.min, info.max).astype("float32")
        back = (x - zero) * scale
    check(nn.simulated_quantize, [x, code, scale, zero], there)
    check(nn.simulated_dequantize, [x, code, scale, zero], back)


def test_products_of_signs(rng):
    a, b = floats(rng, 3, 64) - 0.6, floats(rng, 2, 64) - 0.6
    signs = lambda x: np.where(x >= 0, 1, -1)  # noqa: E731
    make = lambda a, b: nn.binary_dense(nn.binarize_pack(a), nn.binarize_pack(b))  # noqa: E731
    check(make, [a, b], (signs(a) @ signs(b).T).astype("float32"))
    with pytest.raises(ValueError, match="a multiple of 32"):
        nn.binarize_pack(te.placeholder((3, 31)))
    with pytest.raises(TypeError, match="packed words"):
        nn.binary_dense(te.placeholder((3, 2)), te.placeholder((3, 2)))


def test_other_layers(rng):
    x, w = floats(rng, 3, 4), floats(rng, 2, 4, 3)
    check(nn.dense_pack, [x, w], x @ w.transpose(0, 2, 1).reshape(6, 4).T)
    check(nn.dense_pack, [x, w[0].T.copy()], x @ w[0])
    for fast in (False, True):
        soft = testing.softmax_python(x, 1)
        check(lambda x, f=fast: nn.softmax_common(x, 1, f), [x], soft)
    blocked = floats(rng, 1, 2, 3, 3, 2)
    each = floats(rng, 2, 2)
    expected = blocked * each[:, None, None] + each[:, None, None]
    check(nn.scale_shift_nchwc, [blocked, each, each], expected)
    g = floats(rng, 4)
    expected = testing.instance_norm_python(X, g, g, (2, 3))
    check(lambda x, g, b: nn.instance_norm(x, g, b, 1, [2, 3]), [X, g, g], expected)
    check(lambda x, g, b: nn.instance_norm(x, g, b, [2, 3]), [X, g, g], expected)


def test_whole_numbers():
    x = np.array([1, 2, 3, 1000, 1 << 20], "int32")
    check(topi.ceil_log2, [x], np.ceil(np.log2(x)).astype("int32"))
    y = np.array([1.0, 5.0], "float32")
    check(topi.ceil_log2, [y], np.ceil(np.log2(y)))
    half = 1 << 30  # 0.5 of 31 bits
    check(lambda x: topi.fixed_point_multiply(x, half, 2), [x], x * 2)
    check(lambda x: topi.fixed_point_multiply(x, half, -1), [x], (x + 2) // 4)
    factor, up = np.array([half, half // 2], "int32"), np.array([1, 2], "int32")
    pairs = np.array([[4, 8], [12, 16]], "int32")
    check(
        lambda x, y, a, b: topi.fixed_point_multiply_per_axis(x, y, a, b, True, False, [1]),
        [pairs, factor, up, up],
        pairs,
    )


def test_scalars_stay_scalars():
    a, b = tir.Var("a", "int32"), tir.Var("b", "int32")
    for name in ("add", "floor_mod", "bitwise_and", "less", "power"):
        assert isinstance(getattr(topi, name)(a, b), tir.PrimExpr)
    assert isinstance(topi.add(te.placeholder((), "int32"), b), te.Tensor)
    compared = topi.greater(te.placeholder((3,)), te.placeholder((3,))).astype("int8")
    assert compared.dtype == "int8"


def test_utils_of_shapes():
    assert utils.get_shape((1, 2, 3, 4), "NCHW", "NHWC") == (1, 3, 4, 2)
    with pytest.raises(ValueError, match="layouts of the same axes"):
        utils.get_shape((1, 2, 3, 4), "NCHW", "NCWX")
    assert utils.nchw_pack_layout("NCHW1n4c") and not utils.nchw_pack_layout("NCHW4c")
    assert utils.nchw_xc_layout("NCHW16c") and utils.ncw_xc_layout("NCW4c")
    assert not utils.ncw_pack_layout("NCW") and not utils.nchw_xc_layout("NHWC")
    assert utils.get_max_power2_factor(24) == 8 and utils.get_max_power2_factor(24, 4) == 4
    assert utils.swap([1, 2, 3], 0) == [3, 2, 1]
    assert utils.is_empty_shape((2, 0)) and not utils.is_empty_shape((2, te.var("n")))
    assert utils.is_dynamic_shape((2, te.var("n"))) and not utils.is_dynamic_shape((2, 3))
    assert utils.get_float_tuple((te.const(1), 2.5)) == (1.0, 2.5)
    assert utils.get_const_int(utils.ceil_div(te.const(7), te.const(2))) == 4
    with lw.target.Target("llvm"):
        assert utils.is_target("cpu") and not utils.is_target(["gpu"])
    matrix = [[1, 2], [3, 4]]
    check(lambda x: x + utils.const_matrix(np.array(matrix, "float32")), [X[0, 0, :2, :2]],
          X[0, 0, :2, :2] + matrix)  # fmt: skip
    whole = [v for v in range(10) if utils.get_const_int(utils.within_index(8, 1, -3, te.const(v)))]
    assert whole == [2, 5, 8]
    assert utils.get_const_int(utils.make_idx(te.const(8), 1, te.const(-3), 10, te.const(2))) == 2
    assert topi.tag.is_injective("elemwise") and not topi.tag.is_broadcast("injective,dilate")
