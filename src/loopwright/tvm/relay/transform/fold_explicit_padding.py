"""FoldExplicitPadding: padding with the fill value of a convolution or pool becomes its own.

before: nn.conv2d(nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]]), %w)
after:  nn.conv2d(%x, %w, padding=[1, 1, 1, 1])
"""

from __future__ import annotations

from typing import Any

from ....ir.prim_op import min_value
from ..expr import Call, Constant
from ..operators.common import sides
from ..walk import name_of
from .base import RelayPass

_SPATIAL = "DHW"
LAYOUTS = {
    **{f"nn.conv{n}d": "data_layout" for n in (1, 2, 3)},
    **{f"nn.{kind}_pool{n}d": "layout" for kind in ("max", "avg") for n in (1, 2, 3)},
}


class FoldExplicitPadding(RelayPass):
    """Padding with the fill value of a convolution or pool becomes its own."""

    operators = LAYOUTS

    def replaced(self, old: Call, new: Call) -> Any:
        return _folded(new) if name_of(new.args[0]) == "nn.pad" else None


def _folded(call: Call) -> Any:
    pad = call.args[0]
    name, layout = call.op.name, call.attrs[LAYOUTS[call.op.name]]
    value = pad.args[1]
    if pad.attrs.pad_mode != "constant" or not isinstance(value, Constant):
        return None
    if value.data.numpy().item() != _neutral(name, value):
        return None
    width = [tuple(int(v) for v in pair) for pair in pad.attrs.pad_width]
    letters = [c for c in layout if c.isalpha()]
    if any(any(w) for w, c in zip(width, letters, strict=True) if c not in _SPATIAL):
        return None
    spatial = [w for w, c in zip(width, letters, strict=True) if c in _SPATIAL]
    have = sides(call.attrs.padding, len(spatial))
    if name.startswith("nn.avg_pool") and not call.attrs.count_include_pad and any(have):
        return None
    new = [v for side in (0, 1) for v in (w[side] for w in spatial)]
    padding = tuple(a + b for a, b in zip(new, have, strict=True))
    values = {**call.attrs.values, "padding": padding}
    if name.startswith("nn.avg_pool"):
        values["count_include_pad"] = True
    return call.replace(args=(pad.args[0], *call.args[1:]), attrs=call.attrs.replace(values=values))


def _neutral(name: str, value: Constant) -> Any:
    """The value that the operator pads with."""
    if "max_pool" not in name:
        return 0
    return min_value(value.data.dtype).value
