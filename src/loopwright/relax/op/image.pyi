"""Builders of the operators `image.*`.

Made by `python -m tools.make_stubs`.
"""

from loopwright.ir.dtype import DataType as _DataType
from loopwright.relax.expr import Call as _Call, ShapeLike as _ShapeLike, TensorLike as _TensorLike
from typing import Any as _Any

def resize2d(data: _TensorLike, size: _ShapeLike, roi: _Any = None, layout: str = 'NCHW', method: str = 'linear', coordinate_transformation_mode: str = 'half_pixel', rounding_method: str = 'round', cubic_alpha: float = -0.75, cubic_exclude: int = 0, extrapolation_value: float = 0.0, out_dtype: str | _DataType | None = None) -> _Call: """The image in another size. `method`: "nearest_neighbor" (rounded by `rounding_method`), "linear" or "cubic" (with the parameter `cubic_alpha`; `cubic_exclude` leaves out what lies outside). `coordinate_transformation_mode` says where pixels lie, as ONNX does; for "tf_crop_and_resize" `roi` is [top, left, bottom, right] as parts of the image, and what lies outside is `extrapolation_value`."""
