"""Operators that move elements, and those that look at shapes."""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ....relax import op
from ....relax.expr import ShapeExpr
from ...graph.operators import shapes
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter, define


@converter("Shape")
def shape_of(cx: Context, node: Node, data: Value) -> Any:
    return cx.ops.shape_of(data, start=node.integer("start", 0), end=node.integer("end", None))


define("Size", lambda cx, node, data: cx.ops.size(data))


@converter("Reshape")
def reshape_attribute(cx: Context, node: Node, data: Value) -> Any:
    node.skip("consumed_inputs")
    return cx.ops.reshape(data, node.integers("shape"), allow_zero=False)


@converter("Reshape", 5)
def reshape(cx: Context, node: Node, data: Value, shape: Value) -> Any:
    return cx.ops.reshape(data, shape, allow_zero=node.flag("allowzero"))


@converter("Flatten")
def flatten(cx: Context, node: Node, data: Value) -> Any:
    axis = node.integer("axis", 1)
    if not -data.ndim <= axis <= data.ndim:
        what = "attribute axis is out of range"
        raise ValueError(explain(what, got=f"{axis} for rank {data.ndim}"))
    axis = axis + data.ndim if axis < 0 else axis
    dims = [literal(d) for d in data.shape]
    return op.reshape(data.expr, ShapeExpr([cx.product(dims[:axis]), cx.product(dims[axis:])]))


define("Squeeze", lambda cx, node, data: cx.ops.squeeze(data, node.integers("axes", None)))


@converter("Squeeze", 13)
def squeeze(cx: Context, node: Node, data: Value, axes: Value | None = None) -> Any:
    return cx.ops.squeeze(data, axes)


define("Unsqueeze", lambda cx, node, data: cx.ops.expand_dims(data, node.integers("axes")))
define("Unsqueeze", lambda cx, node, data, axes: cx.ops.expand_dims(data, axes), 13)


@converter("Transpose")
def transpose(cx: Context, node: Node, data: Value) -> Any:
    return cx.ops.permute_dims(data, axes=node.integers("perm", None))


define("Concat", lambda cx, node, *inputs: cx.ops.concat(*inputs, axis=node.integer("axis", 1)))
define("Concat", lambda cx, node, *inputs: cx.ops.concat(*inputs, axis=node.integer("axis")), 4)


@converter("Split")
def split_attribute(cx: Context, node: Node, data: Value) -> Any:
    lengths, axis = node.integers("split", None), node.integer("axis", 0)
    return cx.ops.split(data, lengths, axis=axis, count=len(node.outputs))


@converter("Split", 13)
def split(cx: Context, node: Node, data: Value, split: Value | None = None) -> Any:
    return cx.ops.split(data, split, axis=node.integer("axis", 0), count=len(node.outputs))


@converter("Split", 18)
def split_count(cx: Context, node: Node, data: Value, lengths: Value | None = None) -> Any:
    count = node.integer("num_outputs", len(node.outputs))
    if count != len(node.outputs):
        what = "num_outputs must be the number of outputs"
        raise ValueError(explain(what, got=f"{count} for {len(node.outputs)} outputs"))
    return split(cx, node, data, lengths)


@converter("Slice")
def slice_attributes(cx: Context, node: Node, data: Value) -> Any:
    starts, ends = node.integers("starts"), node.integers("ends")
    axes = node.integers("axes", list(range(len(starts))))
    return cx.ops.strided_slice(data, starts, ends, axes)


@converter("Slice", 10)
def slice_inputs(
    cx: Context,
    node: Node,
    data: Value,
    starts: Value,
    ends: Value,
    axes: Value | None = None,
    steps: Value | None = None,
) -> Any:
    return cx.ops.strided_slice(data, starts, ends, axes, steps)


define("Expand", lambda cx, node, data, shape: cx.ops.broadcast_to(data, shape), 8)


@converter("Tile")
def tile_1(cx: Context, node: Node, data: Value, tiles: Value, axis: Value) -> Any:
    """The number of copies and the axis are numbers of the data's type, which have to be known."""
    constants: list[Any] = [v.constant for v in (tiles, axis)]
    if any(k is None or k.size != 1 for k in constants):
        what = "tiles and axis must be constants of one element before opset 6"
        raise ValueError(explain(what, got=f"{tiles.info} and {axis.info}"))
    count, position = (int(k.item()) for k in constants)
    if not -data.ndim <= position < data.ndim:
        raise ValueError(explain("axis is out of range", got=f"{position} for rank {data.ndim}"))
    counts = [1] * data.ndim
    counts[position] = count
    return op.tile(data.expr, counts)


define("Tile", lambda cx, node, data, repeats: cx.ops.tile(data, repeats), 6)


@converter("Pad")
def pad_1(cx: Context, node: Node, data: Value) -> Any:
    widths = node.integers("paddings" if node.has("paddings") else "pads")
    fill, mode = node.real("value", 0.0), node.text("mode", "constant")
    return shapes.widened(cx, data, widths, fill, mode, None)


@converter("Pad", 11)
def pad(
    cx: Context,
    node: Node,
    data: Value,
    pads: Value,
    value: Value | None = None,
    axes: Value | None = None,
) -> Any:
    return cx.ops.pad(data, pads, value, axes, mode=node.text("mode", "constant"))


@converter("DepthToSpace")
def depth_to_space(cx: Context, node: Node, data: Value) -> Any:
    return cx.ops.depth_to_space(
        data, size=node.integer("blocksize"), mode=node.text("mode", "DCR")
    )


@converter("SpaceToDepth")
def space_to_depth(cx: Context, node: Node, data: Value) -> Any:
    return cx.ops.space_to_depth(
        data, size=node.integer("blocksize"), mode=node.text("mode", "DCR")
    )
