"""topi's functions where arguments are left out, at their extremes, or of a form of their own."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import te, tir, topi
from loopwright.topi import image, nn, testing, utils

from ..drawing import drawn
from .common import check, floats

TABLE = drawn("test_edges")

X, CUBE, IMAGE = floats(TABLE, 3, 7), floats(TABLE, 2, 4, 3, 2), floats(TABLE, 1, 2, 6, 5)
BAND, FOUR, SIGNS, LINE = (
    floats(TABLE, 3),
    floats(TABLE, 4),
    floats(TABLE, 32, 2) - 0.6,
    floats(TABLE, 1, 1, 6),
)
KERNEL, DEEP, VOLUME = (
    floats(TABLE, 3, 4, 2, 2),
    floats(TABLE, 3, 3, 4, 2),
    floats(TABLE, 1, 2, 4, 3, 5),
)
LAST = (0, 2, 3, 1)
WIDE, TAPS = floats(TABLE, 1, 2, 3, 5, 4), floats(TABLE, 1, 2, 1, 1, 4, 8)


def ints(*values):
    return [np.array(v, "int32") for v in values]


def changed(rng, *slices):
    """(new elements, X with these in the slices)"""
    new, out = floats(rng, *X[slices].shape), X.copy()
    out[slices] = new
    return new, out


ROWS, WHOLE = changed(TABLE, slice(1, 3)), changed(TABLE, slice(-9, 99), slice(-99, 4))
BACK, STEPS = (
    changed(TABLE, slice(99, -99, -2), slice(5, None, -1)),
    changed(TABLE, slice(-2, -1), slice(1, -1, 3)),
)
PIXELS = [
    (lambda x: nn.space_to_batch_nd(x, (2,), [1], [1]), [CUBE],  # two axes behind
     np.pad(CUBE, [(0, 0), (1, 1), (0, 0), (0, 0)]).reshape(2, 3, 2, 3, 2).transpose(2, 0, 1, 3, 4)
     .reshape(4, 3, 3, 2)),
    (lambda x: nn.space_to_batch_nd(x, (2, 3), [0, 0], [0, 0]), [CUBE[..., 0]],
     testing.space_to_batch_nd_python(CUBE[..., 0], (2, 3), [0, 0], [0, 0])),
    (lambda x: nn.batch_to_space_nd(x, (2,), [1], [2]), [CUBE],
     np.stack([CUBE[:1], CUBE[1:]], 2).reshape(1, 8, 3, 2)[:, 1:-2]),
    (lambda x: nn.fifo_buffer(x, te.compute((3, 9), lambda i, j: i + j + 0.0), -1), [X],
     np.concatenate([np.add.outer(np.arange(3), [7, 8]), X], 1)),
    (lambda x: nn.lrn(x, 4), [CUBE], testing.lrn_python(CUBE, 4, 1, 2, 1e-4, 0.75)),
    (lambda x: nn.reflect_pad(x, [1, 2]), [X], np.pad(X, [(1, 1), (2, 2)], "reflect")),
    (lambda x: nn.mirror_pad(x, [1, 2]), [X], np.pad(X, [(1, 1), (2, 2)], "symmetric")),
    (lambda x: nn.pad(x, [1, 2]), [X], np.pad(X, [(1, 1), (2, 2)])),
    (lambda x: nn.dilate(x, (1, 3)), [X], testing.dilate_python(X, (1, 3))),
    (lambda x: nn.dilate(x, (2, 1), 5.0), [X],
     np.stack([X, np.full_like(X, 5)], 1).reshape(6, 7)[:5]),
    (lambda x: nn.dilate(x, (1, 1)), [X], X),
    (lambda x: nn.upsampling(x, 9, 9, output_shape=(2, 4, 6, 2)), [CUBE], CUBE.repeat(2, 2)),
    *(
        (lambda x, how=rounding: image.resize1d(
            x, None, 3, method="nearest_neighbor", rounding_method=how), [LINE], LINE[..., at])
        for rounding, at in (
            ("round_prefer_floor", [0, 2, 4]), ("round_prefer_ceil", [1, 3, 5]), ("", [0, 2, 4]),
            ("floor", [0, 2, 4]), ("ceil", [1, 3, 5]),
        )
    ),
    # Rows 0 and 2.5 and columns 4 and 8, the last one outside.
    (lambda x: image.resize2d(
        x, [0.0, 1.0, 0.5, 2.0], (2, 2), coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.0, out_dtype="float64"), [IMAGE],
     np.stack([IMAGE[:, :, [0, 2], 4] * [1, 0.5] + IMAGE[:, :, [0, 3], 4] * [0, 0.5],
               np.full((1, 2, 2), 7)], -1)),
    (lambda x, b: image.crop_and_resize(x, b, te.compute((1,), lambda _: te.const(0, "int32")),
                                        (2, 1)),
     [IMAGE, np.array([[-1, 0, 1, 1]], "float32")],
     np.stack([IMAGE[:, :, 5, 2] * 0, IMAGE[:, :, 5, 2]], -1)[..., None]),
    (lambda x, w: image.dilation2d_nchw(x, w, 1, 0, (2, 1)), [IMAGE, floats(TABLE, 2, 2, 1) * 0],
     np.maximum(IMAGE[:, :, :-2], IMAGE[:, :, 2:])),
]  # fmt: skip
LAYERS = [
    (lambda x, w: nn.conv2d(x, w, 1, 0, 1), [CUBE, KERNEL],
     testing.conv2d_nchw_python(CUBE, KERNEL, 1, 0)),
    (lambda x, w: nn.conv2d(x, w, 1, 0, 1, "NHWC"),
     [CUBE.transpose(LAST), KERNEL.transpose(2, 3, 1, 0)],
     testing.conv2d_nchw_python(CUBE, KERNEL, 1, 0).transpose(LAST)),
    *(
        (lambda x, w, how=options: nn.depthwise_conv2d_nhwc(x, w, 1, 1, 1, *how),
         [CUBE.transpose(LAST), DEEP.swapaxes(2, 3) if options[0] == "HWIO" else DEEP],
         testing.depthwise_conv2d_python_nhwc(CUBE.transpose(LAST), DEEP, 1, 1))
        for options in (("HWIO",), ("HWOI", "float32"), ("float32",))
    ),
    (lambda x: nn.adaptive_pool3d(x, (2, 1, 3), "max"), [VOLUME],
     testing.adaptive_pool(VOLUME, (2, 1, 3), "max", "NCDHW")),
    *(
        (lambda x, how=options: nn.pool2d(x, 3, 2, 1, *how), [IMAGE],
         testing.poolnd_python(IMAGE, (3, 3), (2, 2), (1, 1), *[(options[0],) * 2] * 2, options[1],
                               True, len(options) > 2))
        for options in ((1, "avg"), (0, "max"), (0, "max", True))
    ),
    *(
        (lambda x, *t, how=options: nn.batch_norm(x, *t, **how), [CUBE, *norm],
         testing.batch_norm(CUBE, *norm, options.get("axis", 1), 1e-5, True, True,
                            "training" in options, 0.5))
        for norm, options in (
            ([floats(TABLE, 4) for _ in range(4)], {}), ([floats(TABLE, 2) for _ in range(4)], {"axis": 3}),
            ([floats(TABLE, 4) for _ in range(4)], {"training": True, "momentum": 0.5}),
        )
    ),
    *(
        (lambda x, g, b, how=axes: nn.instance_norm(x, g, b, *how, 0.5), [CUBE, FOUR, FOUR],
         testing.instance_norm_python(CUBE, FOUR, FOUR, (2, 3), 0.5))
        for axes in ([[2, 3]], [1, [2, 3]])
    ),
    (nn.scale_shift_nhwc, [CUBE, FOUR[:2], FOUR[2:]], CUBE * FOUR[:2] + FOUR[2:]),
    (nn.dense, [X, X, BAND], X @ X.T + BAND),
    (lambda x, b: nn.matmul(x, x, b, transpose_a=True), [X, BAND[:1]], X.T @ X + BAND[0]),
    (lambda x: nn.batch_matmul(x, x, transpose_a=True, transpose_b=False), [CUBE[0]],
     CUBE[0].swapaxes(1, 2) @ CUBE[0]),
    (nn.simulated_quantize, [X * 100, *ints(1)], X * 100),
    (nn.simulated_dequantize, [X * 100, *ints(1)], X * 100),
    (nn.simulated_quantize, [X * 100, *ints(2), np.array(0.5, "float32"), *ints(3)],
     np.clip(np.rint(X * 200) + 3, 0, 255)),
    (lambda x, *rest: nn.simulated_dequantize(x, *rest, axis=0),
     [X, *ints(2), BAND, *ints([1, 2, 3])], (X - np.array([[1], [2], [3]])) * BAND[:, None]),
    (lambda x: nn.binarize_pack(x, 0), [SIGNS],
     np.array([[int("".join(str(int(s >= 0)) for s in row), 2) for row in SIGNS.T]], "uint32")),
]  # fmt: skip
PLACES = [
    (lambda x, y: topi.expand_like(x, y, (0, 1)), [X[0, :1], CUBE[0, 0]], np.full((3, 2), X[0, 0])),
    (lambda x, y: topi.expand_like(x, y, -1), [X[0, :3], CUBE[0, 0]],
     np.repeat(X[0, :3, None], 2, 1)),
    (lambda x, y: topi.expand_like(x, y, [1]), [X[:2, :1], CUBE[..., 0]],
     np.broadcast_to(X[:2, :1, None], (2, 4, 3))),
    (lambda x: topi.sliding_window(x, -1, (3,), (2,)), [X],
     np.lib.stride_tricks.sliding_window_view(X, 3, 1)[:, ::2]),
    (topi.strided_set, [X, ROWS[0], *ints([1], [3])], ROWS[1]),
    (topi.strided_set, [X, WHOLE[0], *ints([-9, -99], [99, 4])], WHOLE[1]),
    (topi.strided_set, [X, BACK[0], *ints([99, 5], [-99, -99], [-2, -1])], BACK[1]),
    (topi.strided_set, [X, STEPS[0], *ints([-2, 1], [-1, -1], [1, 3])], STEPS[1]),
    *(
        (lambda x, d, k=k: topi.matrix_set_diag(x, d, k), [m, bands],
         testing.matrix_set_diag(m, bands, k))
        for m, bands, k in (
            (X, BAND, 1), (X.T, BAND, -2), (X[:, :4], floats(TABLE, 2, 3), (1, 2)),
            (np.stack([X, X]), floats(TABLE, 2, 3), 0), (X, floats(TABLE, 2, 3), (-2, -1)),
        )
    ),
    (topi.where, [np.array([0.0, -1.0, 0.5], "float32"), BAND, -BAND],  # a condition of numbers
     BAND * np.array([-1, 1, 1], "float32")),
    (lambda x: topi.argwhere(te.placeholder((2, 1), "int32"), x), ints([0, 3, 1, 0, 2]),
     np.array([[1], [2]])),
    (topi.unique, ints([4, 2, 4]), ints([2, 4, 0], [1, 0, 0], [1, 0, 1], [2])),
    (lambda i, v: topi.sparse_to_dense(i, (4,), v), ints([3, 1], [7, 8]), ints([0, 8, 0, 7])[0]),
    (lambda i, v: topi.sparse_to_dense(i, (4,), v, 2), ints(3, 7), ints([2, 2, 2, 7])[0]),
    (lambda i, v: topi.sparse_to_dense(i, (4,), v, 2), ints([3, 1], 7), ints([2, 7, 2, 7])[0]),
    (lambda i, a, b: topi.sparse_reshape(i, a, b, (1, 3), (3,)),
     ints([[1, 5]], [2, 6], [3, -1, 2]), ints([[2, 1, 1]], [3, 2, 2])),
    (lambda x, w: topi.stft(x, 8, 3, 4, w, False, True, (3, 3, 2, 2)), [X, FOUR],
     np.stack([(s := np.fft.rfft(np.stack([X[:, :4], X[:, 3:]], 2) * FOUR[:, None], axis=1)).real,
               s.imag], -1)),
]  # fmt: skip
SIGNATURES = [
    (lambda x: topi.argmax(x, [0]), [X], X.argmax(0).astype("int32")),
    (lambda x: topi.argmin(x, None, True), [X], X.argmin(keepdims=True).astype("int32")),
    (lambda x: topi.argmax(x, -1, select_last_index=True), ints([[1, 2, 2], [3, 0, 3]]),
     ints([2, 2])[0]),
    (lambda x: topi.cumsum(x, 1, exclusive=True), [X], X.cumsum(1) - X),
    (topi.cumprod, [X], X.cumprod()),
    (topi.squeeze, [X[:1, :, None]], X[0]),
    (lambda x: topi.add(x, topi.arange(0.5, 3.5)), [BAND], BAND + np.arange(0.5, 3.5)),
    (lambda x: topi.strided_slice(x, [0, 1], [3, 7], [2]), [X], X[0:3:2, 1:7]),
    (lambda x: topi.strided_slice(x, [1], [-1], [5], [1], "size"), [X], X[:, 1:]),
    (lambda x, i: topi.gather_nd(x, i, 1), [X, *ints([[0, 6, 2]])], X[[0, 1, 2], [0, 6, 2]]),
    (lambda x: topi.one_hot(x, 2, 1, 3, 0, "int8"), ints([0, 2]),
     np.eye(3, dtype="int8")[:, [0, 2]] + np.int8(1)),
    (lambda x: topi.add(x, topi.eye(3)), [X[:, :3]], X[:, :3] + np.eye(3)),
    (lambda x: topi.ndarray_size(x, "int64"), [X], np.array(21, "int64")),
    (lambda x: topi.trilu(x, -1, False), [X], np.tril(X, -1)),
    (lambda x: topi.full_like(x, 3), ints([1, 2]), ints([3, 3])[0]),
    (lambda x: topi.topk(x, axis=0, is_ascend=True), [X],
     [X.min(0, keepdims=True), X.argmin(0)[None]]),
    (lambda x: topi.topk(x, 2, ret_type="values"), [X], -np.sort(-X)[:, :2]),
    (topi.argsort, [X], X.argsort().astype("float32")),
    (lambda x, y: topi.tensordot(x, y, (1, 0)), [X, X.T], X @ X.T),
    (lambda x, y: topi.tensordot(x, y, 0), [BAND, FOUR], np.multiply.outer(BAND, FOUR)),
    (lambda x: topi.meshgrid([x], "xy"), [BAND], [BAND]),
    # Blocks of 4 channels in, of 8 out: one group.
    (lambda x, w: nn.conv2d_NCHWc(x, w, 1, 0, 1, "NCHW4c", "NCHW8c"),
     [WIDE, TAPS], np.einsum("ncyxi,cio->nyxo", WIDE, TAPS[0, :, 0, 0])[:, None]),
    (lambda x: topi.reinterpret(topi.elemwise_sum([x]), "uint32"), [X], X.view("uint32")),
    (lambda x: x + utils.const_vector(np.array([1, 2, 3], "int32")), ints([1, 1, 1]),
     ints([2, 3, 4])[0]),
]  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize(("make", "arrays", "expected"), PIXELS + LAYERS + PLACES + SIGNATURES)
def test_values(make, arrays, expected):
    check(make, [np.array(a, order="C") for a in arrays], expected, atol=1e-4)


def tensor(*shape):
    return te.placeholder(shape)


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (lambda: topi.expand_like(tensor(3, 7), tensor(3, 7, 2), (1, 2)), "2 axes and 2 new ones"),
        (lambda: topi.expand_like(tensor(3, 7), tensor(3, 7, 2, 2), (1,)), "2 axes and 1 new ones"),
        (lambda: topi.sliding_window(tensor(3, 7), 1, (3, 3), (1, 1)), "for each of 1 axes"),
        (lambda: topi.sliding_window(tensor(3, 7), 0, (3, 3), (1,)), "for each of 2 axes"),
        (lambda: topi.strided_set(tensor(3), tensor(1), tensor(1, 1), tensor(1)), "takes vectors"),
        (lambda: topi.strided_set(tensor(3), tensor(1), tensor(1), tensor(1, 1)), "takes vectors"),
        (lambda: topi.strided_set(tensor(3), tensor(1), *[tensor(1)] * 2, tensor(1, 1)), "vectors"),
        (lambda: nn.mirror_pad(tensor(3), [1], mode="EDGE"), '"SYMMETRIC" or "REFLECT"'),
        (lambda: nn.get_padded_shape(tensor(3), [1], [1, 2]), "two numbers for each of 1 axes"),
        (lambda: nn.dilate(tensor(3), (1, 1)), "a stride for each of 1 axes"),
        (lambda: nn.get_pad_tuple((1, 2, 3), (3, 3)), "padding takes 1, 2 or 4 numbers"),
        (lambda: nn.infer_pad3d(tensor(1, 1, 2, 2, 2), None, "DHWNC"), "NCDHW or NDHWC"),
        (lambda: topi.searchsorted(tensor(2, 3), tensor(3)), "2 and 1 axes"),
        (lambda: topi.strided_slice(tensor(3), [0], [1], slice_mode="last"), '"end" or "size"'),
        (lambda: topi.tensordot(tensor(3), tensor(3), ((0,), ())), "pairs of dimensions"),
        (lambda: topi.tensordot(tensor(3), tensor(3), (1, 0)), "no such axis"),
        (lambda: topi.tensordot(tensor(3), tensor(3), (-2, 0)), "-1 to 0"),
        (lambda: topi.meshgrid([tensor(3)], "yx"), '"ij" or "xy"'),
        (lambda: topi.elemwise_sum([]), "got: none"),
        (lambda: topi.sequence_mask(tensor(3, 2), tensor(3), axis=2), "axis is 0 or 1"),
        (lambda: nn.binarize_pack(tensor(33), 0), "a multiple of 32"),
        (lambda: nn.conv2d_transpose_nchw(tensor(1, 1, 3, 3), tensor(1, 1, 2, 2), 2, 0, None, 2),
         "less than the stride"),
        (lambda: image.affine_grid(tensor(1, 2, 3), (3,)), "a height and a width"),
        (lambda: image.affine_grid(tensor(1, 2, 3), (1, 3)), "2 or more"),
        (lambda: utils.get_const_float(te.var("n")), "a number is needed here"),
    ],
)  # fmt: skip
def test_refused(refused, words):
    with pytest.raises(ValueError, match=words):
        refused()


def test_sides_of_windows():
    wide, data = tensor(1, 1, 6, 9), tensor(1, 1, 4, 5)
    assert nn.infer_pad(data, None) == (0, 0)
    assert nn.infer_stride(wide, tensor(1, 1, 2, 3), tensor(1, 1, 1, 1)) == (1, 1)
    assert nn.infer_stride(wide, tensor(1, 1, 2, 3), tensor(1, 1, 2, 3)) == (4, 3)
    for layout, shapes in (
        ("NCDHW", [(1, 1, 4, 5, 6), (1, 1, 5, 7, 9)]), ("NDHWC", [(1, 4, 5, 6, 1), (1, 5, 7, 9, 1)])
    ):  # fmt: skip
        small, grown = (tensor(*s) for s in shapes)
        assert nn.infer_pad3d(small, grown, layout) == (1, 2, 3)
        assert nn.infer_pad3d(small, None, layout) == (0, 0, 0)
    assert nn.get_pad_tuple((0, 1, 2, 3), (3, 3)) == (0, 1, 2, 3)


def test_helpers_of_shapes():
    assert [utils.get_max_power2_factor(24, most) for most in (0, 1, 3, 9)] == [1, 1, 2, 8]
    assert utils.get_const_float(te.const(2)) == 2.0
    matched = [f("NCHW4c") for f in (utils.nchw_pack_layout, utils.nchw_xc_layout)]
    assert matched == [False, True] and not utils.nchw_xc_layout("NCHW4n")
    assert utils.prod(()).value == 1
    inside = [utils.get_const_int(utils.within_index(1, 7, 3, te.const(v))) for v in range(9)]
    assert inside == [v in range(1, 7, 3) for v in range(9)]
    ends = [utils.get_const_int(utils.within_index(6, 0, -3, te.const(v))) for v in range(9)]
    assert ends == [v in range(6, 0, -3) for v in range(9)]
    where = [utils.get_const_int(utils.make_idx(te.const(9), 0, te.const(-3), 9, te.const(v)))
             for v in (8, 5)]  # fmt: skip
    assert where == [0, 1]
    assert not utils.is_dynamic_shape((2, tir.const(3)))


def normal(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


PAIR = FOUR.reshape(4, 1, 1)
WIDE = CUBE.reshape(2, 2, 12)
CLASSES = np.array([1, 0, 1])
REFERENCES = [
    (testing.log_softmax_python(CUBE), CUBE - np.log(np.exp(CUBE).sum(1, keepdims=True))),
    (testing.softmax_python(CUBE), np.exp(CUBE) / np.exp(CUBE).sum(1, keepdims=True)),
    (testing.layer_norm_python(X, X[0], X[1], 1), normal(X, 1) * X[0] + X[1]),
    (testing.rms_norm_python(X, X[0], -1),
     X / np.sqrt((X**2).mean(1, keepdims=True) + 1e-5) * X[0]),
    (testing.group_norm_python(CUBE, FOUR, -FOUR, 2, 1, (2, 3)),
     normal(WIDE, 2).reshape(CUBE.shape) * PAIR - PAIR),
    (testing.l2_normalize_python(X, 0.1), X / np.sqrt((X**2).sum())),
    (testing.l2_normalize_python(X, 99.0, 1), X / np.sqrt(99)),
    (testing.dense(X, X, BAND), X @ X.T),
    (testing.dense(X, X - 0.6, BAND, True, True), np.maximum(X @ (X - 0.6).T + BAND, 0)),
    (testing.dense(X, X, BAND, out_dtype="float64"), X.astype("float64") @ X.T),
    (testing.batch_matmul(CUBE[0], CUBE[0]), CUBE[0] @ CUBE[0].swapaxes(1, 2)),
    (testing.batch_matmul(CUBE[0], CUBE[0], None, True, False), CUBE[0].swapaxes(1, 2) @ CUBE[0]),
    (testing.nll_loss(X[:, :2], CLASSES, X[0, :2]),
     -(X[[0, 1, 2], CLASSES] * X[0, CLASSES]).sum() / X[0, CLASSES].sum()),
    (testing.nll_loss(X[:, :2], CLASSES, X[0, :2], "sum", 1), -X[1, 0] * X[0, 0]),
    (testing.gather_python(X, 1, np.array([[6], [0], [2]])), X[[[0], [1], [2]], [[6], [0], [2]]]),
    (testing.sequence_mask(X, np.array([2, 0, 7]), -1, 1),
     np.where(np.arange(7) < [[2], [0], [7]], X, -1)),
    (testing.sequence_mask(CUBE, np.array([0, 1, 2, 1]), 9, 0),
     np.where(np.array([[0, 1, 1, 1], [0, 0, 1, 0]], bool)[..., None, None], CUBE, 9)),
    (testing.slice_axis_python(X, 1, 2), X[:, 2:]),
    (testing.slice_axis_python(X, -2, 1, 2), X[1:2]),
    (testing.strided_slice_python(X, [0, 1], [3, 9], [2]), X[0:3:2, 1:]),
    (testing.strided_slice_python(X, [1], [2], None, "size", [-1]), X[:, 1:3]),
    (testing.strided_slice_python(X, [1, 2], [-1], None), X[1:-1, 2:]),
    (testing.one_hot(CLASSES, 5, 2, 3, -1, "int8"), np.eye(3)[CLASSES] * 3 + 2),
    (testing.one_hot(CLASSES, 1, 0, 3, 0, "float32"), np.eye(3)[CLASSES].T),
    (testing.conv2d_transpose_nhwc_python(CUBE.transpose(LAST), KERNEL.transpose(2, 3, 0, 1), "HWOI",
                                          2, 1, (1, 0)),
     testing.conv2d_transpose_nchw_python(CUBE, KERNEL.swapaxes(0, 1), 2, 1, (1, 0))
     .transpose(LAST)),
    (testing.deformable_conv2d_nhwc_python(
        CUBE.transpose(LAST), np.zeros((2, 2, 1, 8)), KERNEL.transpose(2, 3, 1, 0), 1, 0, 1, 1, 1),
     testing.conv2d_nchw_python(CUBE, KERNEL, 1, 0).transpose(LAST)),
]  # fmt: skip


@pytest.mark.parametrize(("got", "expected"), REFERENCES)
def test_references(got, expected):
    assert np.shape(got) == np.shape(expected)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_helpers_of_tests():
    table = {"cpu": 1, "generic": 2}
    assert [testing.dispatch(name, table) for name in ("llvm", "cuda")] == [1, 2]
    for schedule in (testing.get_injective_schedule("llvm"), testing.get_reduce_schedule("llvm")):
        args = [X], X + 1, "llvm", lw.cpu(), lambda x: te.compute(x.shape, lambda *i: x(*i) + 1.0)
        testing.compare_numpy_tvm(*args, schedule)
        with pytest.raises(AssertionError):
            testing.compare_numpy_tvm([X], X, *args[2:], schedule)
    convolution, schedule = testing.get_conv2d_nchw_implement("llvm")
    made = convolution(tensor(1, 2, 3, 3), tensor(4, 2, 3, 3), 1, 0, 1)
    assert [int(d) for d in made.shape] == [1, 4, 1, 1] and made.op in schedule(made).stage_map
