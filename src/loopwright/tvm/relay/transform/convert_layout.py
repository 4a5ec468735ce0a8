"""ConvertLayout: the named operators, and those that follow them, get the desired layouts.

The layouts of an operator are named in the order of its data and its weight; "default" is the weight's
usual layout for the data's. Operators whose layout cannot be chosen follow their arguments. A rule of one's own is the fact "FTVMConvertOpLayout":
`rule(attrs, inputs, tinfos, desired_layouts) -> call`.

    ConvertLayout({"nn.conv2d": ["NHWC", "default"]})

    before: nn.relu(nn.conv2d(%x, %w))
    after:  %0 = layout_transform(%w, "OIHW", "HWIO")
            %1 = nn.conv2d(layout_transform(%x, "NCHW", "NHWC"), %0, data_layout="NHWC", ...)
            layout_transform(nn.relu(%1), "NHWC", "NCHW")
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar

from ....base.errors import explain
from ....ir.expr import Attrs
from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.prim_expr import IntImm
from ....tir import layout as layout_of
from ..expr import Call, Function
from ..infer import infer_function
from ..operators.layouts import changed
from ..strategy import placeholders
from .base import RelayPass
from .canonicalize_ops import CanonicalizeOps
from .layout_rewrite import LayoutRewriter, as_call

RULE = "FTVMConvertOpLayout"
_PLAIN_2D, _PLAIN_3D = {"NCHW": "OIHW", "NHWC": "HWIO"}, {"NCDHW": "OIDHW", "NDHWC": "DHWIO"}

# operator -> the usual layout of its weight by that of its data
WEIGHTS: dict[str, dict[str, str]] = {
    "nn.conv2d": {**_PLAIN_2D, "HWNC": "HWOI"},
    "nn.conv2d_transpose": {"NCHW": "IOHW", "NHWC": "HWIO"},
    "nn.conv3d": _PLAIN_3D,
    "nn.conv3d_transpose": {"NCDHW": "IODHW", "NDHWC": "DHWOI"},
    "nn.deformable_conv2d": _PLAIN_2D,
    "nn.conv2d_backward_weight": _PLAIN_2D,
}
# operator -> the attributes that are the layout of its data
IMAGES: dict[str, tuple[str, ...]] = {
    **{
        f"nn.{k}_pool2d": ("layout", "out_layout")
        for k in ("max", "avg", "global_max", "global_avg")
    },
    **dict.fromkeys(
        ("image.resize1d", "image.resize2d", "vision.roi_align", "vision.roi_pool"), ("layout",)
    ),
}


class LayoutConfig:
    """A scope in which ConvertLayout leaves some convolutions as they are.

    skip_layers: their numbers, in the order in which they are met."""

    current: ClassVar[LayoutConfig | None] = None

    def __init__(self, skip_layers: Sequence[int] | None = None) -> None:
        self.skip_counter = 0
        self.skip_layers = list(skip_layers or ())

    def check_skip(self) -> bool:
        """Whether the next convolution is left as it is."""
        skip = self.skip_counter in self.skip_layers
        self.skip_counter += 1
        return skip

    def reset(self) -> None:
        """Leave none as it is, and count from 0."""
        self.skip_counter, self.skip_layers = 0, []

    def __enter__(self) -> LayoutConfig:
        self._outer = LayoutConfig.current
        LayoutConfig.current = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        LayoutConfig.current = self._outer


class ConvertLayout(RelayPass):
    """The named operators, and those that follow them, get the desired layouts. desired_layouts:
    by the operator's name."""

    desired_layouts: Mapping[str, Sequence[Any]]

    opt_level = 3

    def run_function(self, func: Function, mod: IRModule) -> Function:
        requested = {
            name: [str(one) for one in layouts]
            for name, layouts in self.desired_layouts.items()
            if name in WEIGHTS or name in IMAGES or Op.get(name).get_attr(RULE) is not None
        }
        rewriter = LayoutRewriter(
            lambda call, attrs, args: _converted(call, attrs, args, requested.get(call.op.name)),
            lambda op: op.name in requested,
        )
        return rewriter.run(infer_function(CanonicalizeOps().run_function(func, mod), mod))


def _converted(call: Call, attrs: Attrs | None, args: list[Any], layouts: list[str] | None) -> Any:
    if layouts is None:
        return None
    rule = call.op.get_attr(RULE)
    if rule is not None:
        infos = [p for a in call.args for p in placeholders(a.checked_type)]
        return as_call(rule(attrs, args, infos, layouts), call.op.name)
    name = call.op.name
    if (
        not layouts
        or layouts[0] == "default"
        or len(layouts) > 1 + (name in WEIGHTS or "roi" in name)
    ):
        what = f"the desired layouts of {name} are that of its data, and that of its weight"
        raise ValueError(explain(what, got=str(layouts), instead='["NHWC", "default"]'))
    if name in IMAGES:
        return Call(
            call.op, args, changed(attrs, **dict.fromkeys(IMAGES[name], layouts[0])), span=call.span
        )
    if "2d" in name and LayoutConfig.current is not None and LayoutConfig.current.check_skip():
        return None
    return _convolution(call, attrs, args, layouts)


def _convolution(call: Call, attrs: Any, args: list[Any], layouts: list[str]) -> Any:
    op, data = call.op, layouts[0]
    weight = layouts[1] if len(layouts) > 1 else "default"
    if weight == "default":
        weight = WEIGHTS[op.name].get(data, "")
        if not weight:
            what = f"{op.name} has no usual layout of the weight for data of layout {data}"
            raise ValueError(explain(what, instead="name the weight's layout, too"))
        weight = "HWOI" if data == "NHWC" and _depthwise(call) else weight
    block = re.fullmatch(r"NCHW(\d+)c", data) if op.name == "nn.conv2d" else None
    if block:
        size = call.args[0].checked_type.shape[layout_of(attrs["data_layout"]).index_of("C")]
        if not isinstance(size, IntImm) or size.value % int(block[1]):
            return None
        op = Op.get("nn.contrib_conv2d_NCHWc")
    values = {"data_layout": data, "kernel_layout": weight}
    if "grad_layout" in attrs:
        values["grad_layout"] = data
    if attrs.get("out_layout"):
        values["out_layout"] = ""
    return Call(op, args, changed(attrs, **values), span=call.span)


def _depthwise(call: Call) -> bool:
    """Whether each channel has filters of its own."""
    attrs, plan = call.attrs, layout_of(call.attrs["data_layout"])
    channels = call.args[0].checked_type.shape[plan.index_of("C")]
    return call.op.name == "nn.conv2d" and str(channels) == str(attrs["groups"]) != "1"
