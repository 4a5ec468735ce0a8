"""SplitTransposedConvolutions: strided transposed convolutions become plain ones.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((1, 1, 3), dtype="float32")) -> R.Tensor((1, 1, 6), dtype="float32"):
          with R.dataflow():
    -         gv: R.Tensor((1, 1, 6), dtype="float32") = R.nn.conv1d_transpose(x, R.const([[[1.0, 2.0, 3.0, 4.0]]], "float32"), strides=[2], padding=[1, 1])
    +         lv: R.Tensor((1, 2, 4), dtype="float32") = R.nn.conv1d(x, R.const([[[3.0, 1.0]], [[4.0, 2.0]]], "float32"), padding=[1, 1])
    +         gv: R.Tensor((1, 1, 6), dtype="float32") = R.nn.join_phases(lv, strides=[2], before=[1], after=[1])
              R.output(gv)
          return gv

Of a stride s, each s-th element of the result sees the same taps: these are a convolution, and the s of
them one with s times the outputs, whose elements are then put side by side. The weight is a constant. One
whose windows do not overlap and that fills blocks of channels is computed in them as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ir.module import IRModule
from ....ir.target import Target
from ....ir.transform import ModulePass, PassContext
from ... import op as relax_op
from ...expr import Call, Constant, const
from .._graph import device_of
from .._products import is_call
from .._rewriting import SweepingRewriter
from ..legalize_ops.common import may_be_taken

LEAST = 8  # channels of the result that fill a block
_KINDS = {
    "relax.nn.conv1d_transpose": ("NCW", "IOW"),
    "relax.nn.conv2d_transpose": ("NCHW", "IOHW"),
}


@dataclass(frozen=True)
class SplitTransposedConvolutions(ModulePass):
    """See the file's docstring."""

    name = "SplitTransposedConvolutions"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite every function."""
        return _Splitter(mod).run()


class _Splitter(SweepingRewriter):
    def call(self, call: Call) -> Any:
        name = next((n for n in _KINDS if is_call(call, n)), None)
        if name is None:
            return call
        weight, attrs = self.definition(call.args[1]), call.attrs
        if not isinstance(weight, Constant):
            return call
        data_layout, kernel_layout = _KINDS[name]
        layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout or data_layout)
        if layouts != (data_layout, kernel_layout, data_layout) or attrs.groups != 1:
            return call
        fields = (attrs.strides, attrs.dilation, attrs.padding, attrs.output_padding)
        strides, dilation, padding, more = ([int(v) for v in field] for field in fields)
        values = weight.data.numpy()
        window = list(values.shape[2:])
        apart = len(window) == 2 and strides == window and not any((*padding, *more))
        in_blocks = apart and values.shape[1] >= LEAST
        if max(strides) == 1 or max(dilation) > 1 or in_blocks:
            return call
        device = device_of(call.args)
        target = Target.current(allow_none=True) if device is None else device.target
        if may_be_taken(call, target):
            return call
        rank = len(window)
        taps = [-(-k // s) for k, s in zip(window, strides, strict=True)]
        # What the result has less than the joined phases, which are at least as long.
        ends = zip(window, padding[rank:], more, strides, taps, strict=True)
        spare = [s * t - k + after - m for k, after, m, s, t in ends]
        over = [max(-(n // s), 0) for n, s in zip(spare, strides, strict=True)]
        spare = [n + s * o for n, s, o in zip(spare, strides, over, strict=True)]
        around = [t - 1 for t in taps] + [t - 1 + o for t, o in zip(taps, over, strict=True)]
        convolve = relax_op.nn.conv1d if rank == 1 else relax_op.nn.conv2d
        matrix = const(_phases(values, strides, taps))
        made = convolve(call.args[0], matrix, padding=around, out_dtype=attrs.out_dtype)
        return relax_op.nn.join_phases(made, strides, padding[:rank], spare)


def _phases(values: np.ndarray, strides: list[int], taps: list[int]) -> np.ndarray:
    """The weight (channels, outputs, *window) of the convolution with an output for each phase:
    (outputs * strides, channels, *taps)."""
    rank, (channels, outputs, *window) = len(taps), values.shape
    parts = list(zip(taps, strides, strict=True))
    fill = [(0, s * t - k) for (t, s), k in zip(parts, window, strict=True)]
    values = np.pad(values, [(0, 0), (0, 0), *fill])
    values = values.reshape(channels, outputs, *(d for pair in parts for d in pair))
    phase, tap = [3 + 2 * k for k in range(rank)], [2 + 2 * k for k in range(rank)]
    values = np.flip(values.transpose(1, *phase, 0, *tap), tuple(range(-rank, 0)))
    return np.ascontiguousarray(values).reshape(-1, channels, *taps)


__all__ = ["SplitTransposedConvolutions"]
