"""The images and recurrences of topi in numpy: see `testing`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops import OPERATORS
from ...ops.resizing import ARRAYS, COORDINATE_MODES, Span, Style
from ...tir import layout as layout_of
from .padding import Ints, get_pad_tuple

Array = np.ndarray[Any, Any]


def _resized(
    data: Array, scale: Sequence[float], layout: str, method: str, coordinates: str
) -> Array:
    """Axis by axis, by the rules of `ops.resizing`."""
    rounding = "round_prefer_ceil" if coordinates == "align_corners" else "floor"
    style = Style(method, coordinates, rounding, -0.5 if method == "cubic" else -0.75)
    out, plan = data, layout_of(layout)
    axes = [plan.index_of(s) for s in "DHW" if s in str(layout)]
    for axis, factor in zip(axes, scale, strict=True):
        have, want = out.shape[axis], round(out.shape[axis] * factor)
        coordinate = COORDINATE_MODES[coordinates](
            np.arange(want, dtype="float64"), Span(ARRAYS, have, want)
        )
        taps = style.taps(
            np.floor(coordinate + 1e-9) if style.count == 1 and rounding == "floor" else coordinate,
            have,
            ARRAYS,
        )
        shape = [want if n == axis else 1 for n in range(out.ndim)]
        parts = [np.take(out, at, axis) * np.reshape(weight, shape) for at, weight in taps]
        out = np.sum(parts, axis=0)
    return out.astype(data.dtype)


def _resize_of(plain: str) -> Callable[..., Array]:
    def resize(
        data: Array, scale: Sequence[float], layout: str = plain, method: str = "nearest_neighbor",
        coordinate_transformation_mode: str = "align_corners",
    ) -> Array:  # fmt: skip
        """The data enlarged by factors."""
        return _resized(data, scale, layout, method, coordinate_transformation_mode)

    return resize


resize1d_python, resize2d_python, resize3d_python = map(_resize_of, ("NCW", "NCHW", "NCDHW"))


def _meaning(name: str) -> Callable[..., Any]:
    """The numpy meaning of a graph operator."""
    return OPERATORS[f"relax.{name}"].op.get_attr("FNumpy")


def crop_and_resize_python(
    image: Array, boxes: Array, box_indices: Array, crop_size: Sequence[int], layout: str,
    method: str = "bilinear", extrapolation_value: float = 0,
) -> Array:  # fmt: skip
    """Boxes of images in another size."""
    options = {
        "method": method.removeprefix("bi"), "coordinate_transformation_mode": "tf_crop_and_resize",
        "rounding_method": "round", "cubic_alpha": -0.75, "cubic_exclude": 0,
    }  # fmt: skip
    crops = [
        _meaning("image.resize2d")(
            image[[which]],
            crop_size,
            box,
            layout,
            extrapolation_value=extrapolation_value,
            **options,
        )
        for box, which in zip(boxes, box_indices, strict=True)
    ]
    return np.concatenate(crops)


def affine_grid_python(data: Array, target_shape: Sequence[int]) -> Array:
    """The coordinates of pixels, transformed by matrices."""
    return _meaning("image.affine_grid")(data, target_shape)


def grid_sample_python(
    data: Array, grid: Array, method: str = "bilinear", layout: str = "NCHW",
    padding_mode: str = "zeros", align_corners: bool = True,
) -> Array:  # fmt: skip
    """The data at the coordinates of a grid."""
    options = (method, layout, padding_mode, align_corners)
    return _meaning("image.grid_sample")(data, grid, *options)


def correlation_nchw_python(
    data1: Array, data2: Array, kernel_size: int, max_displacement: int, stride1: int, stride2: int,
    padding: Ints, is_multiply: bool,
) -> Array:  # fmt: skip
    """What two images have in common, for each displacement."""
    top, left, down, right = get_pad_tuple(padding, (1, 1))
    one, two = (np.pad(d, [(0, 0), (0, 0), (top, down), (left, right)]) for d in (data1, data2))
    border = max_displacement + (kernel_size - 1) // 2
    rows, columns = (-(-(d - 2 * border) // stride1) for d in one.shape[2:])
    steps = max_displacement // stride2
    around = [n * stride2 for n in range(-steps, steps + 1)]
    out = np.zeros((len(one), len(around) ** 2, rows, columns), data1.dtype)
    for q, (dy, dx) in enumerate(itertools.product(around, around)):
        for i, j in np.ndindex(rows, columns):
            y, x = i * stride1 + max_displacement, j * stride1 + max_displacement
            a = one[:, :, y : y + kernel_size, x : x + kernel_size]
            b = two[:, :, y + dy : y + dy + kernel_size, x + dx : x + dx + kernel_size]
            both = a * b if is_multiply else np.abs(a - b)
            out[:, q, i, j] = both.mean((1, 2, 3))
    return out


def deformable_conv2d_nchw_python(
    a_np: Array, offset_np: Array, w_np: Array, stride: Ints, padding: Ints, dilation: int,
    deformable_groups: int, groups: int,
) -> Array:  # fmt: skip
    """A convolution whose taps are moved by offsets."""
    steps, gaps = ((v, v) if isinstance(v, int) else tuple(v) for v in (stride, dilation))
    dilated = [(k - 1) * gap + 1 for k, gap in zip(w_np.shape[2:], gaps, strict=True)]
    options = (steps, get_pad_tuple(padding, dilated), gaps, groups, deformable_groups)
    return _meaning("nn.deform_conv2d")(a_np, offset_np, w_np, None, *options)


def deformable_conv2d_nhwc_python(
    a_np: Array, offset_np: Array, w_np: Array, stride: int, padding: int, dilation: int,
    deformable_groups: int, groups: int,
) -> Array:  # fmt: skip
    """The same of data NHWC by a kernel HWIO."""
    first = (
        a_np.transpose(0, 3, 1, 2),
        offset_np.transpose(0, 3, 1, 2),
        w_np.transpose(3, 2, 0, 1),
    )
    options = (stride, padding, dilation, deformable_groups, groups)
    return deformable_conv2d_nchw_python(*first, *options).transpose(0, 2, 3, 1)


def lstm_python(
    Xs: Array, Wi: Array, Wh: Array, Bi: Array | None = None, Bh: Array | None = None,
    h_init: Array | None = None, c_init: Array | None = None, proj: Array | None = None,
    p_i: Array | None = None, p_f: Array | None = None, p_o: Array | None = None,
    f_act: str = "sigmoid", g_act: str = "tanh", h_act: str = "tanh", reverse: bool = False,
    weight_layout: str = "IFGO",
) -> tuple[Array, Array]:  # fmt: skip
    """(hidden states, cell states) of a sequence."""
    acts: dict[str, Callable[[Any], Any]] = {
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "tanh": np.tanh,
        "relu": lambda x: np.maximum(x, 0),
    }
    opened, entered, shown = acts[f_act], acts[g_act], acts[h_act]
    hidden = Wi.shape[0] // 4
    shape = (Xs.shape[1], hidden)
    c = np.zeros(shape, Xs.dtype) if c_init is None else c_init
    start = shape if proj is None else (shape[0], proj.shape[0])
    h = np.zeros(start, Xs.dtype) if h_init is None else h_init
    seen = lambda weights, cell: 0 if weights is None else weights * cell  # noqa: E731
    states = []
    for x in Xs[::-1] if reverse else Xs:
        gates = x @ Wi.T + h @ Wh.T + (0 if Bi is None else Bi) + (0 if Bh is None else Bh)
        at = {n: gates[:, k * hidden : (k + 1) * hidden] for k, n in enumerate(weight_layout)}
        carried = opened(at["F"] + seen(p_f, c)) * c
        c = carried + opened(at["I"] + seen(p_i, c)) * entered(at["G"])
        h = opened(at["O"] + seen(p_o, c)) * shown(c)
        h = h if proj is None else h @ proj.T
        states.append((h, c))
    hs, cs = zip(*states, strict=True)
    return np.stack(hs), np.stack(cs)


def _roi_align_of(layout: str) -> Callable[..., Array]:
    def roi_align(
        a_np: Array, rois_np: Array, pooled_size: Sequence[int], spatial_scale: float, sample_ratio: int,
        mode: bytes = b"avg",
    ) -> Array:  # fmt: skip
        """The mean or greatest value of points in the cells of regions."""
        size = list(pooled_size) if hasattr(pooled_size, "__len__") else [pooled_size] * 2
        kind = {b"avg": "avg", 0: "avg", b"max": "max", 1: "max"}.get(mode, mode)
        return _meaning("vision.roi_align")(
            a_np, rois_np, size, spatial_scale, sample_ratio, layout, kind
        )

    return roi_align


roi_align_nchw_python, roi_align_nhwc_python = map(_roi_align_of, ("NCHW", "NHWC"))


def roi_pool_nchw_python(
    a_np: Array, rois_np: Array, pooled_size: Any, spatial_scale: float
) -> Array:
    """The greatest value of the pixels in the cells of regions."""
    size = list(pooled_size) if hasattr(pooled_size, "__len__") else [pooled_size] * 2
    return _meaning("vision.roi_pool")(a_np, rois_np, size, spatial_scale)
