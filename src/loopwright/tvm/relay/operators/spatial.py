"""Operators that move pixels: padding, blocks of pixels in channels or batches, enlarging."""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ....ir.prim_expr import IntImm
from ....ir.prim_op import cast
from ....ops.core import FUSABLE, INJECTIVE
from ....relax import expr as rx
from ....tir import layout as layout_of
from ...topi import image as topi_image
from ...topi import nn as topi_nn
from ..expr import Expr
from . import layouts
from .common import dims_in
from .core import Input, InputFloat64, InputNumber, R, builder, kernel, numbers, op
from .transform import dims_of

# ---------------------------------------------------------------------- padding

_MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect"}


def _number(value: rx.Constant | Input) -> Any:
    """A constant of Relax as a number, None where it is known only at run time."""
    return value.data.numpy().item() if isinstance(value, rx.Constant) else None


def _filled(padded: Any, mask: Any, value: Any) -> Any:
    """The padded data with a value of run time where the padded mask is not set."""
    bb = builder()
    fill = R.astype(R.reshape(value, []), str(padded.struct_info.dtype))
    return R.where(bb.emit(mask), padded, bb.emit(fill))


def _mask(data: Any) -> Any:
    return builder().emit(R.ones(dims_of(data), "bool"))


@op("nn.pad", attrs="PadAttrs", kind=INJECTIVE, mixed="follow", layout=layouts.padding)
def pad(data: Input, pad_width: Any, pad_value: InputNumber = 0, pad_mode: str = "constant") -> Any:
    """The data grown by (before, after) elements along each axis, of a value, its edge or mirrored."""
    if pad_mode not in _MODES:
        raise ValueError(explain("unknown pad_mode", got=repr(pad_mode), instead=f"{[*_MODES]}"))
    widths = [int(w) for pair in pad_width for w in pair]
    if len(widths) != 2 * data.struct_info.ndim:
        what = f"pad_width has a pair for each of {data.struct_info.ndim} axes"
        raise ValueError(explain(what, got=str(pad_width)))
    value = _number(pad_value)
    if value is not None or pad_mode != "constant":
        return R.nn.pad(data, widths, pad_mode, float(value or 0.0))
    padded = builder().emit(R.nn.pad(data, widths))
    return _filled(padded, R.nn.pad(_mask(data), widths), pad_value)


@pad.build
def _(pad_width: Any, **attrs: Any) -> dict[str, Any]:
    widths = numbers(pad_width)
    if not isinstance(widths, Expr):
        widths = [[w if isinstance(w, IntImm) else int(w) for w in pair] for pair in widths]
    return {"pad_width": widths, **attrs}


@op("dyn.nn.pad", attrs="PadAttrs", static=pad)
def dyn_pad(
    data: Input, pad_width: Input, pad_value: InputNumber, pad_mode: str = "constant"
) -> Any:
    """`pad` by widths of run time, a tensor of a row (before, after) for each axis."""
    if pad_mode != "constant":
        what = 'pads of run time are of the pad_mode "constant"'
        raise ValueError(explain(what, got=repr(pad_mode)))
    rank = data.struct_info.ndim
    pads = dims_in(builder().emit(R.reshape(pad_width, [2 * rank])), 2 * rank)
    before, after = pads[0::2], pads[1::2]
    value = _number(pad_value)
    if value is not None:
        return R.nn.pad_by(data, before, after, float(value))
    padded = builder().emit(R.nn.pad_by(data, before, after))
    mask = R.astype(_mask(data), "float32")
    grown = R.nn.pad_by(builder().emit(mask), before, after)
    return _filled(padded, R.astype(grown, "bool"), pad_value)


@op("nn.mirror_pad", attrs="MirrorPadAttrs", kind=INJECTIVE)
def mirror_pad(data: Input, pad_width: Any, mode: str = "SYMMETRIC") -> Any:
    """The data with mirrored borders, which repeat the edge ("SYMMETRIC") or not ("REFLECT")."""
    before, after = ([int(p[k]) for p in pad_width] for k in (0, 1))
    return kernel(topi_nn.mirror_pad, data, before, after, mode)


@op("nn.dilate", attrs="DilateAttrs", kind=INJECTIVE)
def dilate(data: Input, strides: Any, dilation_value: float = 0.0) -> Any:
    """strides[n] - 1 elements of a value between those along each axis n."""
    return kernel(topi_nn.dilate, data, [int(s) for s in strides], float(dilation_value))


# ---------------------------------------------------------------------- blocks


@op("nn.depth_to_space", attrs="SubPixelAttrs", kind=INJECTIVE, mixed="follow")
def depth_to_space(data: Input, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Any:
    """Channels as blocks of pixels."""
    return kernel(topi_nn.depth_to_space, data, int(block_size), layout, mode)


@op("nn.space_to_depth", attrs="SubPixelAttrs", kind=INJECTIVE)
def space_to_depth(data: Input, block_size: int, layout: str = "NCHW") -> Any:
    """Blocks of pixels as channels."""
    return kernel(topi_nn.space_to_depth, data, int(block_size), layout)


@op("nn.space_to_batch_nd", attrs="SpaceToBatchNDAttrs", kind=INJECTIVE)
def space_to_batch_nd(data: Input, block_shape: Any, paddings: Any, pad_value: float = 0) -> Any:
    """Blocks of the axes after the first, once padded, as further batches."""
    before, after = ([int(p[k]) for p in paddings] for k in (0, 1))
    blocks = [int(b) for b in block_shape]
    return kernel(topi_nn.space_to_batch_nd, data, blocks, before, after, float(pad_value))


@op("nn.batch_to_space_nd", attrs="BatchToSpaceNDAttrs", kind=INJECTIVE)
def batch_to_space_nd(data: Input, block_shape: Any, crops: Any) -> Any:
    """The inverse of `space_to_batch_nd`, whose padding is cut."""
    before, after = ([int(p[k]) for p in crops] for k in (0, 1))
    return kernel(topi_nn.batch_to_space_nd, data, [int(b) for b in block_shape], before, after)


# ---------------------------------------------------------------------- enlarging

_METHODS = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}
Scales = dict[str, Any]


def _grown(data: Any, scales: Scales, layout: str) -> list[Any]:
    """The spatial extents times the scales of their letters, rounded."""
    shape = dict(zip(layout_of(layout), dims_of(data), strict=True))
    sizes = []
    for letter, scale in scales.items():
        dim = shape[letter]
        if isinstance(dim, IntImm):
            sizes.append(round(dim.value * float(scale)))
        elif float(scale).is_integer():
            sizes.append(dim * int(scale))
        else:
            sizes.append(cast("int64", cast("float64", dim) * float(scale) + 0.5))
    return sizes


def _enlarged(data: rx.Var | Input, sizes: list[Any], layout: str, method: str, mode: Any) -> Any:
    """The data in other sizes. mode: of the coordinates, or whether corners are aligned."""
    if not isinstance(mode, str):
        mode = "align_corners" if mode else "asymmetric"
    resize = topi_image.resize2d if len(sizes) == 2 else topi_image.resize3d
    return kernel(resize, data, None, sizes, layout, _METHODS.get(method, method), mode)


def _grown_at_run_time(data: Any, scales: Scales, layout: str) -> list[Any]:
    """`_grown` by scales that are tensors without axes."""
    bb = builder()
    shape = dict(zip(layout_of(layout), dims_of(data), strict=True))
    have = bb.emit(R.shape_to_tensor(rx.ShapeExpr([shape[letter] for letter in scales])))
    factors = [R.astype(R.reshape(s, [1]), "float64") for s in scales.values()]
    grown = R.multiply(R.astype(have, "float64"), R.concat(factors, 0))
    rounded = bb.emit(R.astype(R.round(grown), "int64"))
    return dims_in(rounded, len(scales))


# Attributes of both forms of an operator, by numbers and by tensors.
_PLANE = {"layout": "NCHW", "method": "nearest_neighbor", "align_corners": False}
_VOLUME = {
    "layout": "NCDHW",
    "method": "nearest_neighbor",
    "coordinate_transformation_mode": "half_pixel",
}


@op("nn.upsampling", attrs="UpSamplingAttrs", options=_PLANE, kind=INJECTIVE,
    layout=layouts.imaging)  # fmt: skip
def upsampling(data: Input, scale_h: float = 1.0, scale_w: float = 1.0, **options: Any) -> Any:
    """The image enlarged by two factors."""
    sizes = _grown(data, {"H": scale_h, "W": scale_w}, options["layout"])
    return _enlarged(data, sizes, *options.values())


@op("dyn.nn.upsampling", attrs="UpSamplingAttrs", static=upsampling, options=_PLANE)
def dyn_upsampling(
    data: Input, scale_h: InputFloat64, scale_w: InputFloat64, **options: Any
) -> Any:
    """`upsampling` by factors of run time."""
    sizes = _grown_at_run_time(data, {"H": scale_h, "W": scale_w}, options["layout"])
    return _enlarged(data, sizes, *options.values())


@op("nn.upsampling3d", attrs="UpSampling3DAttrs", options=_VOLUME, layout=layouts.imaging)
def upsampling3d(
    data: Input, scale_d: float = 1.0, scale_h: float = 1.0, scale_w: float = 1.0, **options: Any
) -> Any:
    """The volume enlarged by three factors."""
    sizes = _grown(data, {"D": scale_d, "H": scale_h, "W": scale_w}, options["layout"])
    return _enlarged(data, sizes, *options.values())


@op("dyn.nn.upsampling3d", attrs="UpSampling3DAttrs", static=upsampling3d, options=_VOLUME)
def dyn_upsampling3d(
    data: Input, scale_d: InputFloat64, scale_h: InputFloat64, scale_w: InputFloat64,
    **options: Any,
) -> Any:  # fmt: skip
    """`upsampling3d` by factors of run time."""
    sizes = _grown_at_run_time(data, {"D": scale_d, "H": scale_h, "W": scale_w}, options["layout"])
    return _enlarged(data, sizes, *options.values())


@op("nn.correlation", attrs="CorrelationAttrs", kind=FUSABLE)
def correlation(
    data1: Input, data2: Input, kernel_size: int, max_displacement: int, stride1: int, stride2: int,
    padding: Any, is_multiply: bool, layout: str,
) -> Any:  # fmt: skip
    """The mean product (or distance) of two images for each displacement of the second one."""
    if layout != "NCHW":
        raise ValueError(explain("correlation takes the layout NCHW", got=layout))
    options = (kernel_size, max_displacement, stride1, stride2)
    return kernel(topi_nn.correlation_nchw, data1, data2, *options, padding, bool(is_multiply))
