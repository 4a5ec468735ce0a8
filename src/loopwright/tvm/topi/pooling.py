"""topi's pooling, over the graph operators; adaptive and global forms for "max" too, and the
gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import te, tir
from ...base.errors import explain
from ...ir.prim_expr import PrimExpr
from ...ops import OPERATORS
from ...ops.blocks import spatial
from ...ops.conv import expand_per_axis
from ...ops.pool import pooled
from ...te.tensor import Tensor
from ...tir import layout as layout_of
from .padding import Ints, listed
from .utils import get_const_int, simplify


def _check_type(pool_type: str) -> str:
    if pool_type not in ("avg", "max"):
        raise ValueError(explain('pool_type is "avg" or "max"', got=repr(pool_type)))
    return pool_type


def _pool(rank: int) -> Callable[..., Tensor]:
    plain = f"NC{'DHW'[3 - rank :]}"

    def pool(
        data: Tensor, kernel: Ints, stride: Ints, dilation: Ints, padding: Ints, pool_type: str,
        ceil_mode: bool = False, layout: str = plain, count_include_pad: bool = True,
    ) -> Tensor:  # fmt: skip
        average = _check_type(pool_type) == "avg"
        per_axis = [
            expand_per_axis([get_const_int(v) for v in listed(values)], rank, name)
            for values, name in ((kernel, "kernel"), (stride, "stride"), (dilation, "dilation"))
        ]
        pads = [get_const_int(p) for p in listed(padding)]
        size, steps, dilations = per_axis
        return pooled(  # one reduction, which schedules tile or tensorize
            data, size, steps, pads, dilations, ceil_mode, count_include_pad, layout, layout, average,
            lines=False,
        )  # fmt: skip

    pool.__name__ = pool.__qualname__ = f"pool{rank}d"
    pool.__doc__ = (
        'The "max" or "avg" of a window that slides over the data; padding is all before, then all '
        "after."
    )
    return pool


pool1d, pool2d, pool3d = map(_pool, (1, 2, 3))


def _windows(data: Tensor, sizes: dict[str, Any], layout: str) -> tuple[list[Any], Any, Any]:
    """(shape, source, axes): the result's shape, and for the index i of an element the value under
    `axes`, with a condition where windows differ in length."""
    plan = layout_of(layout)
    size = dict(zip(plan, data.shape, strict=True))
    shape = [sizes.get(n, size[n]) for n in plan]
    spans = {}
    for n, count in sizes.items():
        even = simplify(size[n] % count)
        whole = tir.ceildiv(size[n], count) + (0 if get_const_int(even) == 0 else 1)
        spans[n] = te.reduce_axis((0, simplify(whole)), name=f"rv_{n.lower()}")

    def window(i: Any) -> tuple[list[Any], list[Any]]:
        at, inside = [], []
        for n, v in zip(plan, i, strict=True):
            if n not in spans:
                at.append(v)
                continue
            first, last = v * size[n] // sizes[n], tir.ceildiv((v + 1) * size[n], sizes[n])
            at.append(tir.min(first + spans[n], size[n] - 1))
            inside.append(first + spans[n] < last)
        return at, inside

    return shape, window, list(spans.values())


def _adaptive(data: Tensor, output_size: Ints, pool_type: str, layout: str) -> Tensor:
    letters = spatial(layout_of(layout))
    sizes = expand_per_axis([get_const_int(v) for v in listed(output_size)], len(letters), "size")
    if _check_type(pool_type) == "avg":
        return OPERATORS[f"relax.nn.adaptive_avg_pool{len(letters)}d"](data, sizes, layout, layout)
    shape, window_at, spans = _windows(data, dict(zip(letters, sizes, strict=True)), layout)
    lowest = te.min_value(data.dtype)

    def greatest(*i: PrimExpr) -> Any:
        at, inside = window_at(i)
        return te.max(tir.if_then_else(tir.all(*inside), data(*at), lowest), axis=spans)

    return te.compute(shape, greatest, name="adaptive_pool_max")


def adaptive_pool(
    data: Tensor, output_size: Sequence[int], pool_type: str, layout: str = "NCHW"
) -> Tensor:
    """The "max" or "avg" of output_size windows that cover the image."""
    return _adaptive(data, output_size, pool_type, layout)


def adaptive_pool1d(data: Tensor, output_size: int, pool_type: str, layout: str = "NCW") -> Tensor:
    """The "max" or "avg" of output_size windows that cover the data."""
    return _adaptive(data, output_size, pool_type, layout)


def adaptive_pool3d(
    data: Tensor, output_size: Sequence[int], pool_type: str, layout: str = "NCDHW"
) -> Tensor:
    """The "max" or "avg" of output_size windows that cover the data."""
    return _adaptive(data, output_size, pool_type, layout)


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The "max" or "avg" of each channel's image."""
    return _adaptive(data, 1, pool_type, layout)


def pool_grad(
    grads: Tensor, data: Tensor, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], pool_type: str, ceil_mode: bool = False, count_include_pad: bool = True,
    layout: str = "NCHW",
) -> Tensor:  # fmt: skip
    """The gradient of `pool2d` with respect to its data, from that of its result."""
    operator = OPERATORS[f"relax.grad.{_check_type(pool_type)}_pool2d_backward"]
    size, steps = (
        expand_per_axis([get_const_int(v) for v in listed(values)], 2, name)
        for values, name in ((kernel, "kernel"), (stride, "stride"))
    )
    pads = [get_const_int(p) for p in listed(padding)]
    return operator(
        grads, data, size, steps, pads, [1, 1], ceil_mode, count_include_pad, layout, layout
    )
