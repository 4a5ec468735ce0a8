"""Pools whose windows divide an axis into a number of parts."""

from __future__ import annotations

import itertools

import numpy as np

from ....base.errors import explain
from ....relax.expr import ShapeExpr
from ..context import Size, Term
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from .table import aten


@aten("adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(cx: Context, node: Node, x: Term, size: list[Size]) -> list[Term]:
    """The maximum of each part, and its index in the image, flattened: part i of n is from floor(i d / n) up to
    ceil((i + 1) d / n), whose elements are taken as often as the longest part has some, the last one again."""
    rank = int(node.op_type.split("max_pool")[1][0])
    dims = node.source.args[0].meta["val"].shape[-rank:]
    counts = node.value[0].shape[-rank:]
    if not all(isinstance(d, int) for d in (*dims, *counts)):
        raise ValueError(explain("parts of an axis of symbolic extent"))
    grids = [_part_indices(d, n) for d, n in zip(dims, counts, strict=True)]
    lead, area = list(x.shape[: x.ndim - rank]), int(np.prod(dims))
    offsets = []
    for choice in itertools.product(*(range(g.shape[1]) for g in grids)):
        chosen = [g[:, c] for g, c in zip(grids, choice, strict=True)]
        offsets.append(np.ravel_multi_index(np.meshgrid(*chosen, indexing="ij"), dims).reshape(-1))
    table = np.stack(offsets).astype("int64")  # element of a window, window
    flat = x.reshape(ShapeExpr([*lead, area]))
    values = cx.ops.take(flat, cx.literal(table), axis=len(lead))
    which = values.argmax(len(lead), True)
    at = cx.value(cx.literal(table)).broadcast_to(ShapeExpr([*lead, *table.shape]))
    best = [v.gather_elements(which.expr, len(lead)) for v in (values, at)]
    return [b.reshape(cx.shape(f)) for b, f in zip(best, node.value, strict=True)]


def _part_indices(extent: int, parts: int) -> np.ndarray:
    """The indices of the elements of each part, (parts, elements of the longest one)."""
    begin = [i * extent // parts for i in range(parts)]
    end = [-(-(i + 1) * extent // parts) for i in range(parts)]
    longest = max((e - b for b, e in zip(begin, end, strict=True)), default=1)
    steps = np.arange(longest)
    return np.stack([np.minimum(b + steps, e - 1) for b, e in zip(begin, end, strict=True)])


@aten("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward")
def adaptive_max_pool_backward(cx: Context, node: Node, grad: Term, x: Term, indices: Term) -> Term:
    """The gradient of each maximum, added where it was."""
    rank = int(node.op_type.split("max_pool")[1][0])
    lead = list(x.shape[: x.ndim - rank])
    zeros = cx.filled([*lead, cx.product(x.shape[-rank:])], 0, node.dtype)
    count = ShapeExpr([*lead, cx.product(indices.shape[-rank:])])
    at, new = (v.reshape(count).expr for v in (indices, grad))
    return zeros.scatter_elements(at, new, len(lead), "add").reshape(ShapeExpr(x.shape))
