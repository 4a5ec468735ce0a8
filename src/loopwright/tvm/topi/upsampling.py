"""topi's images enlarged by factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ops.blocks import spatial
from ...te.tensor import Tensor
from ...tir import layout as layout_of
from .image import resize2d, resize3d
from .utils import get_const_int


def _sizes(
    data: Tensor, scales: list[float], layout: str, output_shape: Sequence[int] | None
) -> list[Any]:
    plan = layout_of(layout)
    axes = [plan.index_of(s) for s in spatial(plan)]
    if output_shape:
        return [output_shape[a] for a in axes]
    return [round(get_const_int(data.shape[a]) * s) for a, s in zip(axes, scales, strict=True)]


def upsampling(
    data: Tensor, scale_h: float, scale_w: float, layout: str = "NCHW",
    method: str = "nearest_neighbor", align_corners: bool = False,
    output_shape: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """The image enlarged, or in the height and width of `output_shape`."""
    size = _sizes(data, [scale_h, scale_w], layout, output_shape)
    mode = "align_corners" if align_corners else "asymmetric"
    return resize2d(data, None, size, layout, method.removeprefix("bi"), mode)


def upsampling3d(
    data: Tensor, scale_d: float, scale_h: float, scale_w: float, layout: str = "NCDHW",
    method: str = "nearest_neighbor", coordinate_transformation_mode: str = "half_pixel",
    output_shape: Any = None,
) -> Tensor:  # fmt: skip
    """The volume enlarged, or in the depth, height and width of `output_shape`."""
    size = _sizes(data, [scale_d, scale_h, scale_w], layout, output_shape)
    mode = coordinate_transformation_mode
    return resize3d(data, None, size, layout, method.removeprefix("tri"), mode)
