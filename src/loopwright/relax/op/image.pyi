"""Builders of the operators `image.*`.

Made by `python -m tools.make_stubs`.
"""

from loopwright.ir.dtype import DataType as _DataType
from loopwright.relax.expr import (
    Call as _Call, PrimLike as _PrimLike, ShapeLike as _ShapeLike, TensorLike as _TensorLike,
)
from typing import Any as _Any

def resize2d(data: _TensorLike, size: _ShapeLike, roi: _Any = None, layout: str = 'NCHW', method: str = 'linear', coordinate_transformation_mode: str = 'half_pixel', rounding_method: str = 'round', cubic_alpha: float = -0.75, cubic_exclude: int = 0, extrapolation_value: float = 0.0, out_dtype: str | _DataType | None = None) -> _Call: """The image in another size. `method`: "nearest_neighbor" (rounded by `rounding_method`), "linear" or "cubic" (with the parameter `cubic_alpha`; `cubic_exclude` leaves out what lies outside). `coordinate_transformation_mode` says where pixels lie, as ONNX does; for "tf_crop_and_resize" `roi` is [top, left, bottom, right] as parts of the image, and what lies outside is `extrapolation_value`."""
def resize_taps(have: _PrimLike, want: _PrimLike, scale: float | None = None, method: str = 'linear', coordinate_transformation_mode: str = 'half_pixel', rounding_method: str = 'round_prefer_floor', cubic_alpha: float = -0.75, cubic_exclude: int = 0, dtype: str | _DataType | None = 'float32') -> _Call: """What the elements of an axis of extent `want` are made of when one of extent `have` is resized as ONNX's Resize does it: the indices of the elements picked, then their weights of type `dtype`, a vector of each for every tap; the indices only of nearest ones. `scale`, the factor that places are computed with, is by default the ratio of the extents; the other attributes are those of `resize2d`."""
