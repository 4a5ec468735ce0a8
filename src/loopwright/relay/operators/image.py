"""Operators on images."""

from __future__ import annotations

from typing import Any

from .core import Input, R, op


@op("image.resize2d", attrs="Resize2DAttrs")
def resize2d(
    data: Input,
    size: Any,
    roi: Any = None,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: Any = None,
) -> Any:
    """Resize the two spatial axes of a batch of images."""
    return R.image.resize2d(
        data,
        list(size),
        roi,
        layout,
        method,
        coordinate_transformation_mode,
        rounding_method or "round",
        cubic_alpha,
        cubic_exclude,
        extrapolation_value,
        out_dtype,
    )
