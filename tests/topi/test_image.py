"""topi's images against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import te
from loopwright.topi import image, nn, testing

from ..drawing import drawn
from .common import check, floats

TABLE = drawn("test_image")

X1, X2, X3 = floats(TABLE, 1, 2, 5), floats(TABLE, 2, 2, 5, 4), floats(TABLE, 1, 2, 3, 4, 3)


@pytest.mark.sample(4)
@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
@pytest.mark.parametrize("places", ["half_pixel", "align_corners", "asymmetric"])
def test_resized(method, places):
    for x, make, reference, scale, plain in (
        (X1, image.resize1d, testing.resize1d_python, (2.0,), "NCW"),
        (X2, image.resize2d, testing.resize2d_python, (1.6, 0.5), "NCHW"),
        (X3, image.resize3d, testing.resize3d_python, (2, 0.5, 1), "NCDHW"),
    ):
        size = [round(d * s) for d, s in zip(x.shape[2:], scale, strict=True)]
        expected = reference(x, scale, plain, method, places)
        check(
            lambda x, f=make, n=size, p=plain: f(x, None, n, p, method, places, bicubic_alpha=-0.5),
            [x], expected, atol=1e-5,
        )  # fmt: skip
    with pytest.raises(ValueError, match="unknown method"):
        image.resize2d(te.placeholder(X2.shape), None, (2, 2), method="linaer")


def test_enlarged():
    check(lambda x: nn.upsampling(x, 2, 3), [X2], X2.repeat(2, 2).repeat(3, 3))
    last = X2.transpose(0, 2, 3, 1)
    twice = testing.resize2d_python(X2, (2, 2), method="linear").transpose(0, 2, 3, 1)
    check(lambda x: nn.upsampling(x, 2, 2, "NHWC", "bilinear", True), [last], twice)
    check(
        lambda x: nn.upsampling3d(x, 2, 1, 2, coordinate_transformation_mode="asymmetric"),
        [X3], X3.repeat(2, 2).repeat(2, 4),
    )  # fmt: skip


@pytest.mark.parametrize("method", ["bilinear", "nearest_neighbor"])
def test_cropped(method):
    boxes = np.array([[0.1, 0.2, 0.8, 0.9], [-0.3, 0, 0.6, 1.2]], "float32")
    which = np.array([1, 0], "int32")
    expected = testing.crop_and_resize_python(X2, boxes, which, (3, 5), "NCHW", method, 7.0)
    check(
        lambda x, b, i: image.crop_and_resize(x, b, i, (3, 5), "NCHW", method, 7.0),
        [X2, boxes, which], expected, atol=1e-5,
    )  # fmt: skip


def test_affine_grid(rng):
    moved = floats(rng, 2, 2, 3)
    check(
        lambda m: image.affine_grid(m, (3, 4)), [moved], testing.affine_grid_python(moved, (3, 4))
    )
    with pytest.raises(ValueError, match="2 or more"):
        image.affine_grid(te.placeholder((1, 2, 3)), (1, 4))


@pytest.mark.sample(6)
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("method", ["bilinear", "nearest", "bicubic"])
def test_sampled(rng, method, padding, align):
    grid = floats(rng, 2, 2, 3, 3) * 3.4 - 1.9
    options = (method, "NCHW", padding, align)
    expected = testing.grid_sample_python(X2, grid, *options)
    check(lambda x, g: image.grid_sample(x, g, *options), [X2, grid], expected, atol=1e-4)
    volume = floats(rng, 1, 3, 2, 2, 2) * 3.4 - 1.9
    options = (method, "NCDHW", padding, align)
    if method == "bicubic":
        with pytest.raises(ValueError, match="for images"):
            image.grid_sample(te.placeholder(X3.shape), te.placeholder(volume.shape), *options)
        return
    expected = testing.grid_sample_python(X3, volume, *options)
    check(lambda x, g: image.grid_sample(x, g, *options), [X3, volume], expected, atol=1e-4)


def test_dilated(rng):
    w = floats(rng, 2, 3, 2)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(X2, [(0, 0)] * 2 + [(1, 1)] * 2), (3, 2), (2, 3)
    )
    expected = (windows + w[:, None, None]).max((-2, -1))[:, :, ::2]
    check(lambda x, w: image.dilation2d_nchw(x, w, (2, 1), 1, 1), [X2, w], expected)
    last = [X2.transpose(0, 2, 3, 1), w.transpose(1, 2, 0)]
    check(
        lambda x, w: image.dilation2d_nhwc(x, w, (2, 1), 1, 1), last, expected.transpose(0, 2, 3, 1)
    )
