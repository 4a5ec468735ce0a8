"""FoldScaleAxis: factors along the channels become a part of weights, and constants are computed.

before: multiply(nn.conv2d(%x, w), scale)            # w and scale are constants
after:  nn.conv2d(%x, w * scale)
"""

from __future__ import annotations

from ....ir.module import IRModule
from ..expr import Function
from ..infer import infer_function
from .backward_fold_scale_axis import BackwardFoldScaleAxis
from .base import RelayPass
from .fold_constant import FoldConstant
from .forward_fold_scale_axis import ForwardFoldScaleAxis


class FoldScaleAxis(RelayPass):
    """Factors along the channels become a part of weights, and constants are computed."""

    opt_level = 3

    def run_function(self, func: Function, mod: IRModule) -> Function:
        result = func
        for step in (BackwardFoldScaleAxis(), ForwardFoldScaleAxis()):
            changed = step.run_function(result, mod)
            result = result if changed is result else infer_function(changed, mod)
        return func if result is func else FoldConstant().run_function(result, mod)
