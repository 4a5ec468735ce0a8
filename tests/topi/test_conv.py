"""topi's convolutions and pools against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import te, topi
from loopwright.topi import nn, testing

from ..drawing import drawn
from .common import check, floats

TABLE = drawn("test_conv")

X1, X2, X3 = floats(TABLE, 2, 4, 9), floats(TABLE, 1, 4, 7, 6), floats(TABLE, 1, 2, 4, 5, 4)
W1, W2, W3 = floats(TABLE, 6, 4, 3), floats(TABLE, 6, 4, 3, 2), floats(TABLE, 4, 2, 2, 3, 2)
LAST = (0, 2, 3, 1)


@pytest.mark.parametrize("padding", ["SAME", "VALID", 1, (1, 0), (0, 1, 1, 2)])
@pytest.mark.parametrize("dilation", [1, 2])
def test_padding_of_conv2d(padding, dilation):
    wide = testing.dilate_python(W2, (1, 1, dilation, dilation))
    check(
        lambda x, w: nn.conv2d_nchw(x, w, (2, 1), padding, dilation),
        [X2, W2],
        testing.conv2d_nchw_python(X2, wide, (2, 1), padding),
    )


@pytest.mark.parametrize(
    ("make", "arrays", "expected"),
    [
        (lambda x, w: nn.conv1d_ncw(x, w, 2, "SAME"), [X1, W1],
         testing.conv1d_ncw_python(X1, W1, 2, "SAME", 1)),
        (lambda x, w: nn.conv1d_nwc(x, w, 1, 1), [X1.swapaxes(1, 2), W1.transpose(2, 1, 0)],
         testing.conv1d_ncw_python(X1, W1, 1, 1, 1).swapaxes(1, 2)),
        (lambda x, w: nn.group_conv1d_ncw(x, w, 1, 1, 1, 2), [X1, W1[:, :2]],
         testing.group_conv1d_ncw_python(X1, W1[:, :2], 1, 1, 1, 2)),
        (lambda x, w: nn.conv2d_nhwc(x, w, 1, "SAME"),
         [X2.transpose(LAST), W2.transpose(2, 3, 1, 0)],
         testing.conv2d_nchw_python(X2, W2, 1, "SAME").transpose(LAST)),
        (lambda x, w: nn.conv2d_hwcn(x, w, 1, 0),
         [X2.transpose(2, 3, 1, 0), W2.transpose(2, 3, 1, 0)],
         testing.conv2d_nchw_python(X2, W2, 1, 0).transpose(2, 3, 1, 0)),
        (lambda x, w: nn.conv3d_ncdhw(x, w, 1, "SAME", 1, 1), [X3, W3],
         testing.conv3d_ncdhw_python(X3, W3, 1, "SAME")),
        (lambda x, w: nn.conv3d_ndhwc(x, w, (1, 2, 1), 0, 1, 1),
         [X3.transpose(0, 2, 3, 4, 1), W3.transpose(2, 3, 4, 1, 0)],
         testing.conv3d_ncdhw_python(X3, W3, (1, 2, 1), 0).transpose(0, 2, 3, 4, 1)),
        (lambda x, w: nn.depthwise_conv2d_nchw(x, w, 1, "SAME", 1), [X2, floats(TABLE, 4, 1, 3, 3)], None),
        (lambda x, w: nn.depthwise_conv2d_nchw(x, w, 2, 1, 1), [X2, floats(TABLE, 4, 2, 3, 3)], None),
        (lambda x, w: nn.depthwise_conv2d_nhwc(x, w, 2, 1, 1),
         [X2.transpose(LAST), floats(TABLE, 3, 3, 4, 2)], None),
    ],
)  # fmt: skip
def test_layouts(make, arrays, expected):
    if expected is None:
        x, w = arrays
        channels_first = w.shape[0] == 4
        name = "nchw" if channels_first else "nhwc"
        stride, padding = (1, "SAME") if w.shape[:2] == (4, 1) else (2, 1)
        expected = getattr(testing, f"depthwise_conv2d_python_{name}")(x, w, stride, padding)
    check(make, arrays, expected)


def test_blocks_of_channels(rng):
    blocked = X2.reshape(1, 2, 2, 7, 6).transpose(0, 1, 3, 4, 2)
    kernel = W2.reshape(3, 2, 2, 2, 3, 2).transpose(0, 2, 4, 5, 3, 1)
    out = testing.conv2d_nchw_python(X2, W2, 1, 1)
    expected = out.reshape(1, 3, 2, *out.shape[2:]).transpose(0, 1, 3, 4, 2)
    conv = lambda x, w: nn.conv2d_NCHWc(x, w, 1, 1, 1, "NCHW2c", "NCHW2c")  # noqa: E731
    check(conv, [blocked, kernel], expected)
    thirds = W2.reshape(2, 3, 2, 2, 3, 2).transpose(0, 2, 4, 5, 3, 1)  # blocks of other sizes
    check(
        lambda x, w: nn.conv2d_NCHWc(x, w, 1, 1, 1, "NCHW2c", "NCHW3c"),
        [blocked, thirds],
        out.reshape(1, 2, 3, *out.shape[2:]).transpose(0, 1, 3, 4, 2),
    )
    unpacked = lambda x, w: nn.unpack_NCHWc_to_nchw(conv(x, w), "float32")  # noqa: E731
    check(unpacked, [blocked, kernel], out)
    each = floats(rng, 2, 1, 3, 3, 1, 2)
    check(
        lambda x, w: nn.depthwise_conv2d_NCHWc(x, w, 1, 1, 1, "NCHW2c", "NCHW2c"),
        [blocked, each],
        testing.depthwise_conv2d_python_nchwc(blocked, each, 1, 1),
    )


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("stride", "padding", "more"), [(1, 0, 0), (2, 1, 1), (3, (0, 1), 2)])
def test_transposed(rng, groups, stride, padding, more):
    x, w = floats(rng, 1, 4, 5), floats(rng, 4, 3, 3)
    check(
        lambda x, w: nn.group_conv1d_transpose_ncw(x, w, stride, padding, "float32", more, groups),
        [x, w],
        testing.group_conv1d_transpose_ncw_python(x, w, stride, padding, more, groups),
    )
    # The transposed convolution is the gradient: <conv(y), x> = <y, transposed(x)>.
    y = floats(rng, 1, 3, testing.conv1d_transpose_ncw_python(x, w, stride, padding, more).shape[2])
    back = testing.conv1d_ncw_python(y, w, stride, padding, 1)[..., :5]
    made = testing.conv1d_transpose_ncw_python(x, w, stride, padding, more)
    np.testing.assert_allclose((back * x).sum(), (y * made).sum(), rtol=1e-5)


def test_transposed_images(rng):
    x, w = floats(rng, 1, 2, 3, 4), floats(rng, 2, 3, 3, 2)
    check(
        lambda x, w: nn.conv2d_transpose_nchw(x, w, (2, 1), 1, "float32", (1, 0)),
        [x, w],
        testing.conv2d_transpose_nchw_python(x, w, (2, 1), 1, (1, 0)),
    )
    with pytest.raises(ValueError, match="output_padding is less than the stride"):
        nn.conv2d_transpose_nchw(te.placeholder(x.shape), te.placeholder(w.shape), 1, 0, None, 1)


def test_gradients_of_depthwise(rng):
    x, w = floats(rng, 1, 5, 6, 2), floats(rng, 3, 3, 2, 2)
    out = testing.depthwise_conv2d_python_nhwc(x, w, 2, 1)
    g, step = floats(rng, *out.shape), np.float32(1e-2)

    def numeric(array, of):
        grad = np.zeros_like(array)
        for at in np.ndindex(array.shape):
            moved = array.copy()
            moved[at] += step
            grad[at] = ((of(moved) - out) * g).sum() / step
        return grad

    data = numeric(x, lambda a: testing.depthwise_conv2d_python_nhwc(a, w, 2, 1))
    kernel = numeric(w, lambda a: testing.depthwise_conv2d_python_nhwc(x, a, 2, 1))
    shapes = out.shape, x.shape, w.shape
    check(
        lambda w, g: nn.depthwise_conv2d_backward_input_nhwc(w, g, *shapes[:2], (2, 2), 1),
        [w, g], data, rtol=1e-2,
    )  # fmt: skip
    check(
        lambda x, g: nn.depthwise_conv2d_backward_weight_nhwc(x, g, shapes[0], shapes[2], 2, 1),
        [x, g], kernel, rtol=1e-2,
    )  # fmt: skip


@pytest.mark.parametrize("pool_type", ["avg", "max"])
def test_pools(rng, pool_type):
    check(
        lambda x: nn.pool1d(x, 3, 2, 1, (1, 1), pool_type),
        [X1],
        testing.poolnd_python(X1, (3,), (2,), (1,), (1,), (1,), pool_type),
    )
    check(
        lambda x: nn.pool3d(x, (2, 2, 2), 2, 1, 0, pool_type, layout="NCDHW"),
        [X3],
        testing.poolnd_python(X3, (2, 2, 2), (2, 2, 2), (1, 1, 1), (0,) * 3, (0,) * 3, pool_type),
    )
    check(
        lambda x: nn.adaptive_pool(x, (3, 4), pool_type),
        [X2],
        testing.adaptive_pool(X2, (3, 4), pool_type, "NCHW"),
    )
    check(
        lambda x: nn.adaptive_pool1d(x, 4, pool_type, "NWC"),
        [X1],
        testing.adaptive_pool(X1, (4,), pool_type, "NWC"),
    )
    take = {"avg": np.mean, "max": np.max}[pool_type]
    check(lambda x: nn.global_pool(x, pool_type), [X2], take(X2, (2, 3), keepdims=True))
    g = floats(rng, 1, 4, 3, 3)
    check(
        lambda g, x: nn.pool_grad(g, x, (3, 2), (2, 2), (0, 0, 0, 0), pool_type),
        [g, X2],
        testing.pool_grad_nchw(X2, g, (3, 2), (2, 2), (0, 0, 0, 0), pool_type, False),
    )
    with pytest.raises(ValueError, match="pool_type"):
        nn.global_pool(te.placeholder(X2.shape), "sum")


def test_sides():
    assert topi.nn.get_pad_tuple("SAME", (4, 3)) == (2, 1, 1, 1)
    assert topi.nn.get_pad_tuple((1, 2), (3, 3)) == (1, 2, 1, 2)
    assert topi.nn.get_pad_tuple1d("VALID", 3) == (0, 0)
    assert topi.nn.get_pad_tuple_generic(1, (3, 3, 3)) == ([1] * 3, [1] * 3)
    with pytest.raises(ValueError, match="got: .?\"?'?HALF"):
        topi.nn.get_pad_tuple("HALF", (3, 3))
    data, wide = te.placeholder((1, 1, 4, 5)), te.placeholder((1, 1, 6, 9))
    assert topi.nn.infer_pad(data, wide) == (1, 2)
    kernel, out = te.placeholder((1, 1, 2, 3)), te.placeholder((1, 1, 3, 4))
    assert topi.nn.infer_stride(wide, kernel, out) == (2, 2)


def test_a_pool_is_one_reduction_for_schedules():
    data = te.placeholder((1, 64, 16, 16), name="data")
    pool = nn.pool2d(data, 3, 1, 1, 0, "max")
    assert len(pool.op.reduce_axis) == 2 and list(pool.op.input_tensors) == [data]
