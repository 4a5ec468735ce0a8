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

Of a stride s, each s-th element of the result sees the same taps: these are a convolution, and those of
them with the same number of taps are one, whose elements are then interleaved. The weight is a finite constant:
beyond the data's ends it is multiplied by 0. One whose windows do not overlap and that fills blocks of channels
is computed in them unchanged.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ....ir.target import Target
from ....ir.transform import IRModule, ModulePass, PassContext
from ... import op as relax_op
from ...expr import Call, Constant, const
from ..legalize_ops.common import may_be_taken
from ..products import is_call
from ..queries import device_of
from ..rewriting import SweepingRewriter

LEAST = 8  # channels of the result that fill a block
_KINDS = {
    "relax.nn.conv1d_transpose": ("NCW", "IOW"),
    "relax.nn.conv2d_transpose": ("NCHW", "IOHW"),
}


class SplitTransposedConvolutions(ModulePass):
    """Splits strided transposed convolutions with constant weights into phases."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite every function."""
        return _Splitter(mod).run()


class _Splitter(SweepingRewriter):
    def call(self, call: Call) -> Any:
        name = next((n for n in _KINDS if is_call(call, n)), None)
        if name is None:
            return call
        weight, attrs = self.definition(call.args[1]), call.attrs
        if not isinstance(weight, Constant) or weight.is_weight:
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
        if (
            any(s > k for k, s in zip(window, strides, strict=True))
            or not np.isfinite(values).all()
        ):
            return call  # phases without taps; 0 * inf at the ends
        taps = [-(-k // s) for k, s in zip(window, strides, strict=True)]
        # The elements that the joined phases, which are at least as long, have more than the result.
        ends = zip(window, padding[rank:], more, strides, taps, strict=True)
        spare = [s * t - k + after - m for k, after, m, s, t in ends]
        over = [max(-(n // s), 0) for n, s in zip(spare, strides, strict=True)]
        spare = [n + s * o for n, s, o in zip(spare, strides, over, strict=True)]
        behind = [t - 1 + o for t, o in zip(taps, over, strict=True)]
        convolve = relax_op.nn.conv1d if rank == 1 else relax_op.nn.conv2d
        parts = []
        for part in _phases(values, strides):
            around = [t - 1 for t in part.shape[2:]] + behind
            joined = convolve(call.args[0], const(part), padding=around, out_dtype=attrs.out_dtype)
            parts.append(joined)
        joined = parts[0] if len(parts) == 1 else relax_op.concat(parts, axis=1)
        return relax_op.nn.join_phases(joined, strides, padding[:rank], spare)


def _phases(values: np.ndarray, strides: list[int]) -> list[np.ndarray]:
    """The weight (channels, outputs, *window) as those of convolutions whose outputs are the phases, one
    after the other: (phases * outputs, channels, *taps). The phases of one have the same number of taps."""
    runs = [sorted({0, k % s, s}) for k, s in zip(values.shape[2:], strides, strict=True)]
    if len(runs[-1]) > 2:
        runs[:-1] = [list(range(s + 1)) for s in strides[:-1]]
    return [
        _part(values, strides, group) for group in itertools.product(*map(itertools.pairwise, runs))
    ]


def _part(values: np.ndarray, strides: list[int], group: tuple[tuple[int, int], ...]) -> np.ndarray:
    """The weight of the phases [first, end) of each axis."""
    rank, (channels, _, *window) = len(group), values.shape
    for axis, ((first, end), s) in enumerate(zip(group, strides, strict=True)):
        taps = np.arange(first, window[axis], s)[::-1]
        values = values.take(np.arange(end - first)[:, None] + taps, 2 + 2 * axis)
    phase, tap = [2 + 2 * k for k in range(rank)], [3 + 2 * k for k in range(rank)]
    values = values.transpose(*phase, 1, 0, *tap)
    return np.ascontiguousarray(values).reshape(-1, channels, *values.shape[-rank:])
