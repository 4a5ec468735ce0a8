"""Relay's operators of neural networks, images, sorting: a row each, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relay
from loopwright.base.errors import DiagnosticError
from loopwright.ops import OPERATORS
from loopwright.ops.blocks import from_plain
from loopwright.ops.random import first_key
from loopwright.relay.translate import to_relax
from loopwright.relay.walk import free_vars
from loopwright.topi import testing as ref

from ..drawing import drawn

Array = np.ndarray[Any, Any]
TABLE = drawn("test_operators_nn")


def rand(*shape: int, low: float = -2.0, high: float = 2.0) -> Array:
    return TABLE.uniform(low, high, shape).astype("float32")


def ints(*shape: int, high: int = 9, dtype: str = "int32") -> Array:
    return TABLE.integers(0, high, shape).astype(dtype)


def meaning(name: str, **attrs: Any) -> Callable[..., Any]:
    return lambda *args: OPERATORS[f"relax.{name}"].op.get_attr("FNumpy")(*args, **attrs)


def result_types(type_: Any) -> list[Any]:
    return list(type_.fields) if isinstance(type_, relay.TupleType) else [type_]


def check(build: Callable[..., Any], arrays: list[Any], want: Any, tolerance: float = 1e-5) -> None:
    """The result of a function of one call is numpy's, of the type that was inferred."""
    params = [
        relay.var(f"x{n}", shape=np.shape(a), dtype=str(np.asarray(a).dtype))
        for n, a in enumerate(arrays)
    ]
    body = build(*params)
    body = body.astuple() if isinstance(body, relay.TupleWrapper) else body
    mod = relay.transform.InferType()(lw.IRModule({"main": relay.Function(params, body)}))
    got = lw.compile(to_relax(mod), "llvm")(*map(np.asarray, arrays))
    got = list(got) if isinstance(got, (list, tuple)) else [got]
    wanted = list(want) if isinstance(want, (list, tuple)) else [want]
    for one, array, type_ in zip(got, wanted, result_types(mod["main"].ret_type), strict=True):
        value = one.numpy()
        assert (str(value.dtype), len(type_.shape)) == (str(type_.dtype), value.ndim)
        for dim, size in zip(type_.shape, value.shape, strict=True):
            assert isinstance(dim, relay.Any) or int(dim) == size
        np.testing.assert_allclose(value, array, rtol=tolerance, atol=tolerance)


X, W = rand(1, 4, 7, 6), rand(6, 4, 3, 3)
V = rand(2, 3, 5)
VOLUME = rand(1, 2, 4, 5, 6)
IMAGE = rand(2, 4, 6, 8)
SPREAD = rand(3, low=0.5)
BOUNDS = [rand(3), rand(3), rand(3), SPREAD]
CHANNELS = rand(2, 3, 4, 5)


def conv(
    x: Array, w: Array, stride: Any, padding: Any, groups: int = 1, dilation: Any = 1
) -> Array:
    letters = "DHW"[5 - x.ndim :]
    return ref._conv(x, w, stride, padding, f"NC{letters}", f"OI{letters}", groups, dilation)


def flipped(x: Array, order: str, plain: str) -> Array:
    """An array of a plain layout in another order of the same axes."""
    return np.ascontiguousarray(x.transpose([plain.index(n) for n in order]))


TRANSPOSE = {"groups": 1, "out_dtype": None, "dilation": [1, 1], "padding": [1, 1, 1, 1]}
TRANSPOSE |= {"data_layout": "NCHW", "kernel_layout": "IOHW", "out_layout": "NCHW"}
DOWN = rand(4, 3, 3, 3)
UP = meaning("nn.conv2d_transpose", strides=[2, 2], output_padding=[1, 1], **TRANSPOSE)

CONVOLUTIONS = {
    "conv1d": (
        lambda x, w: relay.nn.conv1d(x, w, 2, 1), [V, rand(4, 3, 3)],
        lambda x, w: conv(x, w, 2, 1),
    ),
    "conv2d": (
        lambda x, w: relay.nn.conv2d(x, w, 2, (1, 2)), [X, W],
        lambda x, w: conv(x, w, 2, (1, 2)),
    ),
    "conv2d_dilated": (
        lambda x, w: relay.nn.conv2d(x, w, dilation=2, channels=6, kernel_size=3),
        [X, W], lambda x, w: conv(x, w, 1, 0, 1, 2),
    ),
    "conv2d_groups": (
        lambda x, w: relay.nn.conv2d(x, w, groups=2), [X, rand(6, 2, 3, 3)],
        lambda x, w: conv(x, w, 1, 0, 2),
    ),
    "conv2d_depthwise": (
        lambda x, w: relay.nn.conv2d(x, w, groups=4), [X, rand(4, 2, 3, 3)],
        lambda x, w: conv(x, w.reshape(8, 1, 3, 3), 1, 0, 4),
    ),
    "conv2d_depthwise_nhwc": (
        lambda x, w: relay.nn.conv2d(x, w, groups=4, data_layout="NHWC", kernel_layout="HWOI"),
        [flipped(X, "NHWC", "NCHW"), rand(3, 3, 4, 2)],
        lambda x, w: flipped(
            conv(X, flipped(w, "OIHW", "HWOI").reshape(8, 1, 3, 3), 1, 0, 4), "NHWC", "NCHW"
        ),
    ),
    "conv2d_nhwc": (
        lambda x, w: relay.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO"),
        [flipped(X, "NHWC", "NCHW"), flipped(W, "HWIO", "OIHW")],
        lambda x, w: flipped(conv(X, W, 1, 0), "NHWC", "NCHW"),
    ),
    "conv2d_int8": (
        lambda x, w: relay.nn.conv2d(x, w, out_dtype="int32"),
        [ints(1, 4, 5, 5, dtype="uint8"), ints(6, 4, 3, 3, dtype="int8")],
        lambda x, w: conv(x.astype("int32"), w.astype("int32"), 1, 0),
    ),
    "conv3d": (
        lambda x, w: relay.nn.conv3d(x, w, 1, 1), [VOLUME, rand(3, 2, 3, 3, 3)],
        lambda x, w: conv(x, w, 1, 1),
    ),
    "conv2d_transpose": (
        lambda x, w: relay.nn.conv2d_transpose(x, w, 2, 1, output_padding=1), [X, DOWN], UP,
    ),
    "conv2d_transpose_nhwc": (
        lambda x, w: relay.nn.conv2d_transpose(
            x, w, 2, 1, output_padding=1, data_layout="NHWC", kernel_layout="HWOI"
        ),
        [flipped(X, "NHWC", "NCHW"), flipped(DOWN, "HWOI", "IOHW")],
        lambda x, w: flipped(UP(X, DOWN), "NHWC", "NCHW"),
    ),
    "conv1d_transpose": (
        lambda x, w: relay.nn.conv1d_transpose(x, w, 2, 1), [V, rand(3, 4, 3)],
        lambda x, w: ref.group_conv1d_transpose_ncw_python(x, w, 2, (1, 1), (0,), 1),
    ),
    "conv3d_transpose": (
        lambda x, w: relay.nn.conv3d_transpose(x, w), [VOLUME, rand(2, 3, 1, 1, 1)],
        lambda x, w: np.einsum("nidhw,io->nodhw", x, w[:, :, 0, 0, 0]),
    ),
}  # fmt: skip


def pool(x: Array, size: Any, strides: Any, kind: str, pads: Any = (0, 0), **options: Any) -> Array:
    n = len(pads) // 2
    return ref.poolnd_python(
        x, size, strides, [1] * n, pads[:n], pads[n:], kind, options.pop("count", False), **options
    )


POOLS = {
    "max_pool1d": (lambda x: relay.nn.max_pool1d(x, 2, 2), [V], lambda x: pool(x, [2], [2], "max")),
    "max_pool2d": (
        lambda x: relay.nn.max_pool2d(x, 3, 2, padding=1), [IMAGE],
        lambda x: pool(x, [3, 3], [2, 2], "max", (1, 1, 1, 1)),
    ),
    "avg_pool2d": (
        lambda x: relay.nn.avg_pool2d(x, (3, 2), 2, padding=(1, 0)), [IMAGE],
        lambda x: pool(x, [3, 2], [2, 2], "avg", (1, 0, 1, 0)),
    ),
    "avg_pool2d_count": (
        lambda x: relay.nn.avg_pool2d(x, 3, 2, padding=1, count_include_pad=True), [IMAGE],
        lambda x: pool(x, [3, 3], [2, 2], "avg", (1, 1, 1, 1), count=True),
    ),
    "avg_pool3d": (
        lambda x: relay.nn.avg_pool3d(x, 2, 2), [VOLUME],
        lambda x: pool(x, [2] * 3, [2] * 3, "avg", (0,) * 6),
    ),
    "global_avg_pool2d": (
        relay.nn.global_avg_pool2d, [IMAGE],
        lambda x: x.mean((2, 3), keepdims=True),
    ),
    "global_max_pool2d_nhwc": (
        lambda x: relay.nn.global_max_pool2d(x, "NHWC"), [IMAGE],
        lambda x: x.max((1, 2), keepdims=True),
    ),
    "global_max_pool3d": (
        relay.nn.global_max_pool3d, [VOLUME],
        lambda x: x.max((2, 3, 4), keepdims=True),
    ),
    "adaptive_max_pool2d": (
        lambda x: relay.nn.adaptive_max_pool2d(x, (4, 3)), [IMAGE],
        lambda x: ref.adaptive_pool(x, (4, 3), "max", "NCHW"),
    ),
    "adaptive_avg_pool1d": (
        lambda x: relay.nn.adaptive_avg_pool1d(x, 2), [V],
        lambda x: ref.adaptive_pool(x, (2,), "avg", "NCW"),
    ),
    "adaptive_same": (relay.nn.adaptive_max_pool2d, [IMAGE], lambda x: x),
    "max_pool2d_grad": (
        lambda g, x: relay.nn.max_pool2d_grad(g, x, (2, 2), (2, 2)), [rand(2, 4, 3, 4), IMAGE],
        lambda g, x: ref.pool_grad_nchw(x, g, (2, 2), (2, 2), [0] * 4, "max", False),
    ),
    "avg_pool2d_grad": (
        lambda g, x: relay.nn.avg_pool2d_grad(g, x, (2, 2), (2, 2)), [rand(2, 4, 3, 4), IMAGE],
        lambda g, x: ref.pool_grad_nchw(x, g, (2, 2), (2, 2), [0] * 4, "avg", False),
    ),
}  # fmt: skip


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def normal(x: Array, axes: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Array:
    spread = np.sqrt(x.var(axes, keepdims=True) + eps)
    return (x - x.mean(axes, keepdims=True)) / spread * gamma + beta


def per_channel(v: Array) -> Array:
    return v[:, None, None]


def batch_norm(x: Array, g: Array, b: Array, mean: Array, var: Array) -> tuple[Array, ...]:
    centred = (x - per_channel(mean)) / np.sqrt(per_channel(var) + 1e-5)
    return centred * per_channel(g) + per_channel(b), mean, var


NORMS = {
    "softmax": (lambda x: relay.nn.softmax(x, 1), [V], lambda x: softmax(x, 1)),
    "fast_softmax": (relay.nn.fast_softmax, [V], lambda x: softmax(x, -1)),
    "log_softmax": (relay.nn.log_softmax, [V], lambda x: np.log(softmax(x, -1))),
    "batch_norm": (relay.nn.batch_norm, [CHANNELS, *BOUNDS], batch_norm),
    "layer_norm": (
        relay.nn.layer_norm, [CHANNELS, rand(5), rand(5)], lambda x, g, b: normal(x, 3, g, b),
    ),
    "instance_norm": (
        relay.nn.instance_norm, [CHANNELS, *BOUNDS[:2]],
        lambda x, g, b: normal(x, (2, 3), per_channel(g), per_channel(b)),
    ),
    "group_norm": (
        lambda x, g, b: relay.nn.group_norm(x, g, b, 2), [IMAGE, rand(4), rand(4)],
        lambda x, g, b: normal(x.reshape(2, 2, 2, 6, 8), (2, 3, 4), 1, 0).reshape(x.shape)
        * per_channel(g) + per_channel(b),
    ),
    "l2_normalize": (
        lambda x: relay.nn.l2_normalize(x, 0.001, [1]), [V],
        lambda x: ref.l2_normalize_python(x, 0.001, 1),
    ),
    "lrn": (
        lambda x: relay.nn.lrn(x, 3, 1, 0.5, 0.1, 0.75), [IMAGE],
        lambda x: ref.lrn_python(x, 3, 1, 0.5, 0.1, 0.75),
    ),
    "dropout": (relay.nn.dropout, [V], lambda x: x),
    "dropout_raw": (relay.nn.dropout_raw, [V], lambda x: (x, np.ones_like(x))),
}  # fmt: skip

PRODUCTS = {
    "relu": (relay.nn.relu, [V], lambda x: np.maximum(x, 0)),
    "leaky_relu": (
        lambda x: relay.nn.leaky_relu(x, 0.1), [V],
        lambda x: np.where(x > 0, x, 0.1 * x),
    ),
    "prelu": (
        relay.nn.prelu, [V, rand(3)], lambda x, a: np.where(x > 0, x, a[:, None] * x),
    ),
    "bias_add": (relay.nn.bias_add, [CHANNELS, rand(3)], lambda x, b: x + per_channel(b)),
    "bias_add_last": (lambda x, b: relay.nn.bias_add(x, b, -1), [V, rand(5)], lambda x, b: x + b),
    "batch_flatten": (relay.nn.batch_flatten, [IMAGE], lambda x: x.reshape(2, -1)),
    "dense": (relay.nn.dense, [V, rand(4, 5)], lambda x, w: x @ w.T),
    "dense_int8": (
        lambda x, w: relay.nn.dense(x, w, out_dtype="int32"),
        [ints(2, 8, dtype="uint8"), ints(3, 8, dtype="int8")],
        lambda x, w: x.astype("int32") @ w.T.astype("int32"),
    ),
    "dense_pack": (
        lambda x, w: relay.nn.contrib_dense_pack(x, w, "NC4n", 8), [rand(2, 5), rand(2, 5, 4)],
        lambda x, w: x @ w.swapaxes(1, 2).reshape(8, 5).T,
    ),
    "matmul": (
        lambda a, b: relay.nn.matmul(a, b, transpose_a=True), [rand(5, 3), rand(5, 4)],
        lambda a, b: a.T @ b,
    ),
    "batch_matmul": (relay.nn.batch_matmul, [V, rand(2, 4, 5)], lambda a, b: a @ b.swapaxes(1, 2)),
    "batch_matmul_one": (
        lambda a, b: relay.nn.batch_matmul(a, b, transpose_b=False), [V, rand(1, 5, 4)],
        lambda a, b: a @ b,
    ),
    "fifo_buffer": (
        lambda x, b: relay.nn.fifo_buffer(x, b, 1), [rand(2, 3), rand(2, 5)],
        lambda x, b: np.concatenate([b[:, 3:], x], 1),
    ),
    "cross_entropy": (
        relay.nn.cross_entropy, [rand(3, 4, low=0.1), rand(3, 4)],
        lambda p, t: -np.sum(t * np.log(p)) / 3,
    ),
    "cross_entropy_with_logits": (
        relay.nn.cross_entropy_with_logits, [rand(3, 4), rand(3, 4)],
        lambda p, t: -np.sum(t * p) / 3,
    ),
    "nll_loss": (
        relay.nn.nll_loss, [rand(4, 3), ints(4, high=3), rand(3, low=0.1)],
        lambda p, t, w: -np.sum(p[np.arange(4), t] * w[t]) / np.sum(w[t]),
    ),
}  # fmt: skip

SPATIAL = {
    "pad": (
        lambda x: relay.nn.pad(x, ((0, 0), (1, 2), (0, 1)), 2.5), [V],
        lambda x: np.pad(x, ((0, 0), (1, 2), (0, 1)), constant_values=2.5),
    ),
    "pad_edge": (
        lambda x: relay.nn.pad(x, ((0, 0), (1, 2), (0, 1)), pad_mode="edge"), [V],
        lambda x: np.pad(x, ((0, 0), (1, 2), (0, 1)), "edge"),
    ),
    "pad_value_of_run_time": (
        lambda x, v: relay.nn.pad(x, ((0, 0), (1, 2), (0, 1)), v), [V, np.float32(3)],
        lambda x, v: np.pad(x, ((0, 0), (1, 2), (0, 1)), constant_values=3),
    ),
    "dyn_pad": (
        relay.nn.pad, [V, np.array([[0, 0], [1, 2], [0, 1]])],
        lambda x, w: np.pad(x, w),
    ),
    "dyn_pad_value": (
        relay.nn.pad, [V, np.array([[0, 0], [1, 2], [0, 1]]), np.float32(3)],
        lambda x, w, v: np.pad(x, w, constant_values=3),
    ),
    "mirror_pad": (
        lambda x: relay.nn.mirror_pad(x, ((0, 0), (1, 2), (0, 1)), "REFLECT"), [V],
        lambda x: np.pad(x, ((0, 0), (1, 2), (0, 1)), "reflect"),
    ),
    "dilate": (
        lambda x: relay.nn.dilate(x, (1, 2, 3)), [V], lambda x: ref.dilate_python(x, (1, 2, 3)),
    ),
    "depth_to_space": (
        lambda x: relay.nn.depth_to_space(x, 2), [IMAGE], lambda x: ref.depth_to_space_python(x, 2),
    ),
    "space_to_depth": (
        lambda x: relay.nn.space_to_depth(x, 2), [IMAGE], lambda x: ref.space_to_depth_python(x, 2),
    ),
    "space_to_batch_nd": (
        lambda x: relay.nn.space_to_batch_nd(x, (2,), ((1, 0),)), [rand(2, 3, 2)],
        lambda x: ref.space_to_batch_nd_python(x, (2,), (1,), (0,)),
    ),
    "batch_to_space_nd": (
        lambda x: relay.nn.batch_to_space_nd(x, (2,), ((1, 0),)), [rand(4, 3, 2)],
        lambda x: ref.batch_to_space_nd_python(x, (2,), (1,), (0,)),
    ),
    "upsampling": (
        lambda x: relay.nn.upsampling(x, 2, 3), [X],
        lambda x: x.repeat(2, 2).repeat(3, 3),
    ),
    "upsampling_bilinear": (
        lambda x: relay.nn.upsampling(x, 1.5, 2, method="bilinear"), [IMAGE],
        lambda x: ref.resize2d_python(x, (1.5, 2), "NCHW", "linear", "asymmetric"),
    ),
    "upsampling3d": (
        lambda x: relay.nn.upsampling3d(x, 2, 2, 2, coordinate_transformation_mode="asymmetric"),
        [VOLUME], lambda x: x.repeat(2, 2).repeat(2, 3).repeat(2, 4),
    ),
    "dyn_upsampling": (
        relay.nn.upsampling, [X, np.float32(2), np.float32(3)],
        lambda x, h, w: x.repeat(2, 2).repeat(3, 3),
    ),
    "correlation": (
        lambda a, b: relay.nn.correlation(a, b, 1, 2, 1, 1, 2, True, "NCHW"),
        [X, rand(1, 4, 7, 6)],
        lambda a, b: ref.correlation_nchw_python(a, b, 1, 2, 1, 1, 2, True),
    ),
}  # fmt: skip

BOXES = np.array([[0, 0, 1, 1], [0.2, 0.3, 1.1, 0.5]], "float32")
PLACES = {"coordinate_transformation_mode": "asymmetric"}
IMAGES = {
    "resize1d": (
        lambda x: relay.image.resize1d(x, 8, **PLACES), [rand(1, 2, 4)],
        lambda x: ref.resize1d_python(x, (2,), "NCW", "linear", "asymmetric"),
    ),
    "resize2d": (
        lambda x: relay.image.resize2d(x, (12, 4)), [IMAGE],
        lambda x: ref.resize2d_python(x, (2, 0.5), "NCHW", "linear", "half_pixel"),
    ),
    "resize2d_nearest": (
        lambda x: relay.image.resize2d(x, (12, 24), method="nearest_neighbor", **PLACES), [IMAGE],
        lambda x: x.repeat(2, 2).repeat(3, 3),
    ),
    "resize2d_ties": (  # half of an element is rounded up
        lambda x: relay.image.resize1d(
            x, 25, method="nearest_neighbor", coordinate_transformation_mode="align_corners"
        ),
        [rand(1, 2, 5)], lambda x: x[..., np.floor(np.arange(25) * 4 / 24 + 0.5).astype(int)],
    ),
    "resize2d_cubic": (
        lambda x: relay.image.resize2d(x, (12, 24), layout="NHWC", method="cubic"),
        [rand(1, 6, 8, 2)],
        lambda x: ref.resize2d_python(x, (2, 3), "NHWC", "cubic", "half_pixel"),
    ),
    "resize3d": (
        lambda x: relay.image.resize3d(x, (8, 10, 12)), [VOLUME],
        lambda x: ref.resize3d_python(x, (2, 2, 2), "NCDHW", "linear", "half_pixel"),
    ),
    "dyn_resize2d": (
        relay.image.resize2d, [IMAGE, np.array([12, 4])],
        lambda x, s: ref.resize2d_python(x, (2, 0.5), "NCHW", "linear", "half_pixel"),
    ),
    "crop_and_resize": (
        lambda x, b, i: relay.image.crop_and_resize(x, b, i, (3, 4), "NCHW", extrapolation_value=1),
        [IMAGE, BOXES, np.array([1, 0], "int32")],
        lambda x, b, i: ref.crop_and_resize_python(x, b, i, (3, 4), "NCHW", "bilinear", 1),
    ),
    "affine_grid": (
        lambda x: relay.image.affine_grid(x, (4, 5)), [rand(2, 2, 3)],
        lambda x: ref.affine_grid_python(x, (4, 5)),
    ),
    "grid_sample": (
        relay.image.grid_sample, [IMAGE, rand(2, 2, 3, 4, low=-1, high=1)],
        lambda x, g: ref.grid_sample_python(x, g, "bilinear", "NCHW", "zeros", True),
    ),
    "dilation2d": (
        relay.image.dilation2d, [np.arange(9.0).reshape(1, 1, 3, 3), np.ones((1, 2, 2))],
        lambda x, w: np.array([[[[5.0, 6], [8, 9]]]]),
    ),
}  # fmt: skip

SORTED = np.sort(rand(3, 9))
SEARCHED = np.stack([np.searchsorted(a, b) for a, b in zip(SORTED, V[0], strict=True)])
ALGORITHMS = {
    "sort": (lambda x: relay.sort(x, 1, False), [V], lambda x: -np.sort(-x, 1)),
    "argsort": (lambda x: relay.argsort(x, dtype="int64"), [V], lambda x: np.argsort(x)),
    "topk": (
        lambda x: relay.topk(x, 2), [V], lambda x: (-np.sort(-x)[..., :2], np.argsort(-x)[..., :2]),
    ),
    "topk_values": (
        lambda x: relay.topk(x, 2, 1, "values", True), [V], lambda x: np.sort(x, 1)[:, :2],
    ),
    "dyn_topk": (
        relay.topk, [V, np.array([2])],
        lambda x, k: (-np.sort(-x)[..., :2], np.argsort(-x)[..., :2]),
    ),
    "dyn_topk_all": (
        lambda x, k: relay.topk(x, k, 0, "values"), [V, np.array([0.0], "float32")],
        lambda x, k: -np.sort(-x, 0),
    ),
    "searchsorted": (relay.searchsorted, [SORTED, V[0]], lambda s, v: SEARCHED),
}  # fmt: skip


def of_sample(name: str, build: Callable[..., Any], number: int = 0) -> Any:
    """A case of an operator of Relax, whose attributes the builder takes too."""
    operator = OPERATORS[f"relax.vision.{name}"]
    case = operator.cases[number]
    args = [rand(*a, low=-0.5, high=0.5) if isinstance(a, tuple) else a for a in case.args]
    made = lambda *values: build(*values, **case.attrs)  # noqa: E731
    return made, args, meaning(f"vision.{name}", **case.attrs)


def limited(*values: Any) -> Any:
    """With the limits as numbers."""
    return relay.vision.all_class_non_max_suppression(*values, 3, 0.21, 0.3)


VISION = {
    name: of_sample(name, getattr(relay.vision, name))
    for name in (
        "multibox_prior", "multibox_transform_loc", "get_valid_counts", "non_max_suppression",
        "all_class_non_max_suppression", "regular_non_max_suppression", "roi_align", "roi_pool",
    )
}  # fmt: skip
_, SAMPLE, WANT = VISION["all_class_non_max_suppression"]
VISION |= {
    "proposal": of_sample("proposal", lambda *a, **k: relay.vision.proposal(*a, **k, iou_loss=False)),
    "numbers": (limited, SAMPLE[:2], lambda b, s: WANT(b, s, *SAMPLE[2:])),
    "yolo_reorg": (
        lambda x: relay.vision.yolo_reorg(x, 2), [IMAGE], lambda x: ref.reorg_python(x, 2),
    ),
}  # fmt: skip

KEY = first_key(3)
BITS = meaning("random.threefry_generate", shape=(4, 3))
HALVES = meaning("random.threefry_split")


def drawn(key: Array, shape: Any, scale: float, width: int) -> tuple[Array, Array]:
    """Numbers between 0 and 1 from the last bits of random words, but the lowest ones."""
    new, bits = meaning("random.threefry_generate", shape=shape)(key)
    kept = bits.astype(f"uint{width}") >> np.array(width - int(scale), f"uint{width}")
    return new, (kept / 2.0**scale).astype(f"float{width}")


def bell(key: Array) -> tuple[Array, Array]:
    new, (one, two) = drawn(key, (2, 5), 23, 32)
    return new, np.sqrt(-2 * np.log(1 - one)) * np.sin(2 * np.pi * two) * 2 + 1


PROBS = np.array([[1.0, 2.0, 1.0], [0.0, -1.0, 3.0]], "float32")


def columns(key: Array, probs: Array) -> tuple[Array, Array]:
    new, values = drawn(key, (2, 6), 23, 32)
    weights = probs.clip(0)
    total = np.cumsum(weights / weights.sum(1, keepdims=True), 1)
    return new, (total[:, None] <= values[..., None]).sum(-1).astype("int32")


RANDOM = {
    "threefry_generate": (lambda k: relay.random.threefry_generate(k, (4, 3)), [KEY], BITS),
    "threefry_split": (relay.random.threefry_split, [KEY], HALVES),
    "uniform": (
        lambda k: relay.random.uniform(k, (5,), low=1.0, high=3.0), [KEY],
        lambda k: (drawn(k, (5,), 23, 32)[0], drawn(k, (5,), 23, 32)[1] * 2 + 1),
    ),
    "uniform_wide": (
        lambda k: relay.random.uniform(k, (5,), "float64"), [KEY], lambda k: drawn(k, (5,), 52, 64),
    ),
    "normal": (lambda k: relay.random.normal(k, (5,), mean=1.0, scale=2.0), [KEY], bell),
    "multinomial": (lambda k, p: relay.random.multinomial(k, p, 6), [KEY, PROBS], columns),
}  # fmt: skip


def rows_of(matrix: Array) -> list[Array]:
    """The values of a matrix that are not 0, their columns, and where each row begins."""
    begin = np.concatenate([[0], (matrix != 0).sum(1).cumsum()]).astype("int32")
    return [matrix[matrix != 0], np.nonzero(matrix)[1].astype("int32"), begin]


SPARSE = (rand(6, 6) * (rand(6, 6) > 0.5)).astype("float32")
BLOCKS = [rand(3, 2, 3), np.array([1, 0, 1], "int32"), np.array([0, 1, 3], "int32")]
WHOLE = np.zeros((4, 6), "float32")
WHOLE[:2, 3:], WHOLE[2:, :3], WHOLE[2:, 3:] = BLOCKS[0]
FEW = ints(2, 64, high=4, dtype="int16")
SIGNS = ints(5, 64, high=2, dtype="int16")
PLANES = np.stack([np.packbits(FEW >> b & 1, axis=1) for b in (0, 1)], 1)
CELLS, FILTERS = ints(1, 32, 5, 5, high=2, dtype="int16"), ints(3, 32, 3, 3, high=4, dtype="int16")


def gradient(g: Array, x: Array) -> Array:
    """Of a convolution of strides 2 by 3 x 3 taps."""
    taps = [
        np.einsum("nohw,nihw->oi", g, x[:, :, i : i + 5 : 2, j : j + 5 : 2])
        for i, j in np.ndindex(3, 3)
    ]
    return np.stack(taps, -1).reshape(*taps[0].shape, 3, 3)


CONTRIB = {
    "sparse_dense": (
        lambda x, *m: relay.nn.sparse_dense(x, m), [rand(3, 6), *rows_of(SPARSE)],
        lambda x, *_: x @ SPARSE.T,
    ),
    "sparse_dense_left": (
        lambda x, *m: relay.nn.sparse_dense(x, m, True), [rand(3, 6), *rows_of(SPARSE)],
        lambda x, *_: SPARSE @ x.T,
    ),
    "sparse_dense_blocks": (
        lambda x, *m: relay.nn.sparse_dense(x, m), [rand(3, 6), *BLOCKS], lambda x, *_: x @ WHOLE.T,
    ),
    "sparse_conv2d": (
        lambda x, *m: relay.nn.sparse_conv2d(x, m), [rand(1, 3, 2, 6), *rows_of(SPARSE)],
        lambda x, *_: x @ SPARSE.T,
    ),
    "sparse_conv2d_nchw": (
        lambda x, *m: relay.nn.sparse_conv2d(x, m, "NCHW"), [rand(1, 6, 3, 2), *rows_of(SPARSE)],
        lambda x, *_: np.einsum("nchw,oc->nohw", x, SPARSE),
    ),
    "fixed_point_multiply_per_axis": (
        lambda x, *m: relay.fixed_point_multiply_per_axis(x, *m, True, True, (1,)),
        [ints(4, 3, high=90), *(np.array(v, "int32") for v in ([2**30, 2**29, 2**30], [1, 0, 2], [0, 1, 1]))],
        lambda x, m, left, right: (
            ((x.astype("int64") << left) * m + (np.int64(1) << (30 + right).astype("int64"))) >> (31 + right)
        ),
    ),
    "sparse_transpose": (
        lambda *m: relay.nn.sparse_transpose(m), rows_of(SPARSE), lambda *_: rows_of(SPARSE.T),
    ),
    "sparse_add": (
        lambda x, *m: relay.nn.sparse_add(x, m), [rand(6, 6), *rows_of(SPARSE)],
        lambda x, *_: x + SPARSE,
    ),
    "bitpack": (
        lambda x: relay.nn.bitpack(x, 2, 1, 1, "uint8"), [FEW], lambda x: PLANES,
    ),
    "bitserial_dense": (
        lambda x, w: relay.nn.bitserial_dense(x, w, 5, 2), [FEW, SIGNS], lambda x, w: x @ (2 * w - 1).T,
    ),
    "bitserial_dense_packed": (
        lambda x, w: relay.nn.bitserial_dense(x, w, 2, 1, 2, "uint8", unipolar=False),
        [SIGNS, PLANES], lambda x, w: x @ FEW.T,
    ),
    "bitserial_conv2d": (
        lambda x, w: relay.nn.bitserial_conv2d(x, w, channels=3, weight_bits=2, unipolar=False),
        [CELLS, FILTERS], lambda x, w: conv(x.astype("int32"), w.astype("int32"), 1, 0),
    ),
    "deformable_conv2d": (
        lambda x, o, w: relay.nn.deformable_conv2d(x, o, w),
        [X, rand(1, 18, 5, 4, low=-1, high=1), W],
        lambda x, o, w: ref.deformable_conv2d_nchw_python(x, o, w, (1, 1), (0, 0), (1, 1), 1, 1),
    ),
    "deformable_conv2d_nhwc": (
        lambda x, o, w: relay.nn.deformable_conv2d(
            x, o, w, (2, 1), 1, 1, 2, 2, data_layout="NHWC", kernel_layout="HWIO"
        ),
        [rand(1, 6, 5, 4), rand(1, 3, 5, 36, low=-1, high=1), rand(3, 3, 2, 6)],
        lambda x, o, w: ref.deformable_conv2d_nhwc_python(x, o, w, (2, 1), (1, 1), (1, 1), 2, 2),
    ),
    "conv2d_backward_weight": (
        lambda g, x: relay.nn.conv2d_backward_weight(g, x, 2, kernel_size=3),
        [rand(1, 6, 3, 3), rand(1, 4, 8, 8)], gradient,
    ),
    "contrib_conv2d_nchwc_blocks": (  # of the kernel, as its shape says
        lambda x, w: relay.nn.contrib_conv2d_nchwc(x, w, data_layout="NCHW2c", out_layout="NCHW3c"),
        [from_plain(X, "NCHW2c", "NCHW"), from_plain(W, "OIHW2i3o", "OIHW")],
        lambda x, w: from_plain(conv(X, W, 1, 0), "NCHW3c", "NCHW"),
    ),
    "contrib_depthwise_conv2d_nchwc": (
        lambda x, w: relay.nn.contrib_depthwise_conv2d_nchwc(
            x, w, data_layout="NCHW2c", kernel_layout="OIHW1i2o", out_layout="NCHW2c"
        ),
        [from_plain(X, "NCHW2c", "NCHW"), from_plain(W[:4, :1], "OIHW1i2o", "OIHW")],
        lambda x, w: from_plain(conv(X, W[:4, :1], 1, 0, 4), "NCHW2c", "NCHW"),
    ),
    "contrib_conv2d_nchwc": (
        lambda x, w: relay.nn.contrib_conv2d_nchwc(
            x, w, data_layout="NCHW2c", kernel_layout="OIHW2i3o", out_layout="NCHW3c"
        ),
        [from_plain(X, "NCHW2c", "NCHW"), from_plain(W, "OIHW2i3o", "OIHW")],
        lambda x, w: from_plain(conv(X, W, 1, 0), "NCHW3c", "NCHW"),
    ),
}  # fmt: skip

TABLES = (
    CONVOLUTIONS,
    POOLS,
    NORMS,
    PRODUCTS,
    SPATIAL,
    IMAGES,
    ALGORITHMS,
    VISION,
    RANDOM,
    CONTRIB,
)
CASES = {name: row for table in TABLES for name, row in table.items()}


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", CASES)
def test_numpy(name: str) -> None:
    build, arrays, want = CASES[name]
    check(build, arrays, want(*arrays), 1e-4)


def weights(body: Any, *others: Any) -> list[Any]:
    """The shapes of the parameters `others` as inference finds them."""
    mod = lw.IRModule({"main": relay.Function(free_vars(body), body)})
    typed = relay.transform.InferType()(mod)["main"]
    names = [v.name_hint for v in others]
    found = {p.name_hint: p.type_annotation for p in typed.params}
    return [tuple(int(d) for d in found[n].shape) for n in names]


DATA, SEQ = relay.var("data", shape=(1, 8, 9, 9)), relay.var("seq", shape=(2, 5))
A, B = relay.var("a"), relay.var("b")
OFFSETS = relay.var("offsets")


def deformable(offset: Any, weight: Any, groups: int) -> Any:
    """Three moved taps to each of two parts of the data's channels, along both axes."""
    return relay.nn.deformable_conv2d(
        DATA, offset, weight, (2, 1), (1, 2), (1, 1), 2, groups, channels=6, kernel_size=(3, 3)
    )


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (relay.nn.conv2d(DATA, A, channels=6, kernel_size=3), (6, 8, 3, 3)),
        (relay.nn.conv2d(DATA, A, channels=8, kernel_size=3, groups=8), (8, 1, 3, 3)),
        (
            relay.nn.conv2d(
                relay.var("x", shape=(1, 2, 9, 9, 4)), A, channels=8, kernel_size=(3, 1),
                data_layout="NCHW4c", kernel_layout="OIHW4i8o",
            ),
            (1, 2, 3, 1, 4, 8),
        ),
        (relay.nn.conv2d_transpose(DATA, A, channels=6, kernel_size=3), (8, 6, 3, 3)),
        (relay.nn.dense(SEQ, A, units=7), (7, 5)),
        (relay.nn.matmul(SEQ, A, units=7), (5, 7)),
        (relay.nn.bias_add(DATA, A), (8,)),
        (relay.nn.prelu(DATA, A), (8,)),
        (relay.nn.layer_norm(DATA, A, A), (9,)),
        (relay.nn.batch_norm(DATA, A, A, A, A)[0], (8,)),
        (relay.nn.nll_loss(SEQ, relay.var("t", shape=(2,), dtype="int32"), A), (5,)),
        (deformable(A, OFFSETS, groups=1), (1, 36, 5, 11)),
        (deformable(OFFSETS, A, groups=1), (6, 8, 3, 3)),
        (deformable(OFFSETS, A, groups=2), (6, 4, 3, 3)),
    ],
)  # fmt: skip
def test_a_weight_follows_from_the_data(body: Any, want: tuple[int, ...]) -> None:
    assert weights(body, A) == [want]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (lambda: relay.nn.conv2d(DATA, relay.var("w", shape=W.shape), kernel_size=5), "extent H"),
        (lambda: relay.nn.dense(SEQ, relay.var("w", shape=(7, 4))), "extent of 5"),
        (lambda: relay.nn.dense(SEQ, relay.var("w", shape=(7, 5)), units=8), "extent of 8"),
        (lambda: relay.nn.bias_add(DATA, relay.var("w", shape=(9,))), "extent of axis 1"),
    ],
)  # fmt: skip
def test_a_weight_that_does_not_fit(body: Any, said: str) -> None:
    with pytest.raises(DiagnosticError, match=said):
        weights(body())


def test_attributes_are_completed() -> None:
    attrs = relay.nn.conv2d(DATA, A, strides=2, padding=1, kernel_size=3).attrs
    assert attrs.strides == (2, 2) and attrs.padding == (1, 1, 1, 1) and attrs.kernel_size == (3, 3)
    with pytest.raises(ValueError, match="Size of padding"):
        relay.nn.conv2d(DATA, A, padding=(1, 2, 3))


MARKS = {
    "stop_fusion": relay.annotation.stop_fusion,
    "checkpoint": relay.annotation.checkpoint,
    "compiler": lambda x: relay.annotation.compiler_end(
        relay.annotation.compiler_begin(x, "c"), "c"
    ),
    "on_device": lambda x: relay.annotation.on_device(x, "cpu"),
}


@pytest.mark.parametrize("name", MARKS)
def test_marks_compute_nothing(name: str) -> None:
    check(MARKS[name], [V], V)


def test_extents_of_run_time() -> None:
    x = relay.var("x", shape=(relay.Any(), 8, 9, 9))
    w = relay.var("w", shape=(6, 8, 3, 3))
    out = relay.nn.global_avg_pool2d(relay.nn.max_pool2d(relay.nn.conv2d(x, w), 2, 2))
    func = relay.Function([x, w], relay.nn.batch_flatten(out))
    mod = relay.transform.InferType()(lw.IRModule({"main": func}))
    assert mod["main"].ret_type == relay.TensorType((relay.Any(), 6))


def test_marks_of_devices() -> None:
    x = relay.var("x", shape=(2,))
    call = relay.annotation.on_device(x, "cuda", constrain_result=True)
    assert call.attrs.virtual_device.device_type_int == 2 and call.attrs.constrain_result
    free = relay.annotation.on_device(x, "cuda", constrain_body=False)
    assert free.attrs.virtual_device.device_type_int == -1
    with pytest.raises(ValueError, match="a device is a Device"):
        relay.annotation.on_device(x, 3.5)
    with pytest.raises(ValueError, match="bogus"):
        relay.annotation.on_device(x, "bogus")


def test_a_size_of_variables() -> None:
    n, size = lw.te.var("n"), [lw.te.var("h"), lw.te.var("w")]
    x = relay.var("x", shape=(n, 3, 5, 5))
    func = relay.Function([x], relay.image.resize2d(x, size))
    typed = relay.transform.InferType()(lw.IRModule({"main": func}))["main"]
    assert typed.ret_type == relay.TensorType((n, 3, *size))


@pytest.mark.parametrize("layout, shape", [("NCHW", (1, 1, 3, 3)), ("NHWC", (1, 3, 3, 1))])
def test_windows_of_padding_alone(layout: str, shape: tuple[int, ...]) -> None:
    x = relay.var("x", shape=shape)
    body = relay.nn.max_pool2d(x, (2, 1), padding=(2, 0, 0, 1), layout=layout)
    mod = lw.IRModule({"main": relay.Function([x], body)})
    made = relay.create_executor("graph", mod, target="llvm").evaluate()(np.ones(shape, "float32"))
    least = np.finfo("float32").min
    want = np.array([[least] * 4, [1, 1, 1, least], [1, 1, 1, least], [1, 1, 1, least]], "float32")
    np.testing.assert_array_equal(made.numpy().reshape(4, 4), want)


def test_sparse_convolutions_of_larger_kernels_are_refused() -> None:
    x, *m = (relay.var("x", shape=(1, 3, 2, 6)), *map(relay.const, rows_of(SPARSE)))
    with pytest.raises(DiagnosticError, match="kernels of 1 x 1"):
        relay.transform.InferType()(
            lw.IRModule.from_expr(relay.nn.sparse_conv2d(x, m, kernel_size=(3, 3)))
        )
