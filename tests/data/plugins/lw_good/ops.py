"""An operator, and the ONNX node that is it."""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright import te
from loopwright.frontend.onnx import register_converter
from loopwright.ops import Tensor, op


@op("lw_good.cube")
def cube(x: Tensor) -> te.Tensor:
    """x * x * x."""
    return te.compute(x.shape, lambda *i: x(*i) * x(*i) * x(*i), "cube")


@cube.numpy
def _(x: np.ndarray) -> Any:
    return x * x * x


register_converter("Cube", domain="good", to="lw_good.cube")
