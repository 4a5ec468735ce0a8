"""Pools whose windows divide an axis into a number of parts."""

from __future__ import annotations

from typing import Any

from ....relax.expr import ShapeExpr
from ...graph.values import literal
from ..context import Size, Term
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from .table import aten


@aten("adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(cx: Context, node: Node, x: Term, size: list[Size]) -> list[Term]:
    """The maximum of each part, and its index in the image, flattened. The last axis is reduced first: to the
    first maximum of each row, then to the first row that has it."""
    rank = int(node.op_type.split("max_pool")[1][0])
    dims, counts = x.shape[x.ndim - rank :], cx.dims(node.value[0])[-rank:]
    best, at = x, cx.line(cx.product(dims)).reshape(ShapeExpr(dims))
    at = at.broadcast_to(ShapeExpr(x.shape))
    for axis in range(x.ndim - 1, x.ndim - rank - 1, -1):
        table = part_indices(cx, x.shape[axis], counts[axis - x.ndim + rank])
        windows = [v.take(table.expr, axis) for v in (best, at)]
        which = windows[0].argmax(axis + 1, True).expr
        best, at = (v.gather_elements(which, axis + 1).squeeze([axis + 1]) for v in windows)
    return [best, at]


def part_indices(cx: Context, extent: Size, parts: Size) -> Term:
    """The indices of the elements of each part, from floor(i d / n) up to ceil((i + 1) d / n) for part i of n. All
    are as long as the longest one; shorter ones repeat their last element."""
    d, n = literal(extent), literal(parts)
    if isinstance(d, int) and isinstance(n, int):
        longest = max((-(-(i + 1) * d // n) - i * d // n for i in range(n)), default=1)
    else:
        longest = cx.simplify(d // n + 2)
    part = cx.line(n).expand_dims([1])
    last = ((part + 1) * d - 1) // n
    return (part * d // n + cx.line(longest)).minimum(last)


@aten("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward",
      "max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")  # fmt: skip
def max_pool_backward(cx: Context, node: Node, grad: Term, x: Term, *more: Any) -> Term:
    """The gradient of each maximum, added where it was: the last argument has the indices."""
    rank = int(node.op_type.split("max_pool")[1][0])
    lead, indices = list(x.shape[: x.ndim - rank]), more[-1]
    zeros = cx.filled([*lead, cx.product(x.shape[-rank:])], 0, node.dtype)
    count = ShapeExpr([*lead, cx.product(indices.shape[-rank:])])
    at, new = (v.reshape(count).expr for v in (indices, grad))
    return zeros.scatter_elements(at, new, len(lead), "add").reshape(ShapeExpr(x.shape))
