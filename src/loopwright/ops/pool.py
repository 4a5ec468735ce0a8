"""Pooling: a reduction over windows that slide along the spatial axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import product
from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.dtype import DataType
from ..ir.literals import int_value, is_one
from ..ir.prim_expr import IntImm, PrimExpr
from ..ir.prim_op import add, cast, ceildiv, const, div, floordiv, infimum, multiply
from ..relax import op as R
from ..relax.struct_info import TensorStructInfo
from ..tir import Layout
from ..tir import layout as layout_of
from ..tir.analysis.op_pattern import OP_PATTERN
from .blocks import extent, from_plain, index_in, shape_in, sliding, spatial, to_plain
from .common import accumulator, compute, listed, shape_text, widened
from .conv import conv_extent, expand_padding, expand_per_axis
from .core import FUSABLE, case, op
from .extents import simplify
from .layout_rules import image
from .nn import padded
from .params import Ints, Tensor

LINES = "pool_lines"  # of a block: where an image's pixels begin in its lines, and their number
SMALL = 5  # a window's most pixels along an axis that are terms of one expression


def pool_windows(
    shape: Sequence[Any],
    layout: Layout,
    pool_size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> dict[str, tuple[Any, ...]]:
    """Per spatial letter: (extent out, size, window, stride, dilation, before, after), the last
    enlarged so that a window of ceil mode stays inside."""
    letters = spatial(layout)
    rank = len(letters)
    before, after = expand_padding(padding, rank)
    windows = {}
    for k, s in enumerate(letters):
        size = extent(layout, shape, s)
        window, stride, dil = pool_size[k], strides[k], dilation[k]
        extra = stride - 1 if ceil_mode else 0
        out = conv_extent(size, window, stride, dil, before[k], after[k] + extra)
        windows[s] = (out, size, window, stride, dil, before[k], after[k] + extra)
    return windows


def _out_shape(shape, layout, windows):
    dims = [windows[n][0] if n in windows else d for n, d in zip(layout, shape, strict=True)]
    extents = [(w[0].value, w[3]) for w in windows.values() if isinstance(w[0], IntImm)]
    # One larger than the data, in steps of 1: nothing. In larger steps others see a window there.
    if any(size < 0 or (size == 0 and stride > 1) for size, stride in extents):
        what = "the window is larger than the padded data"
        raise ValueError(explain(what, got=f"data of {shape_text(shape)}"))
    return dims


def _wide(dtype: DataType | str) -> DataType:
    """The dtype that a window is summed in: bytes and short integers would wrap."""
    dtype = DataType(dtype)
    return DataType("int32") if dtype.is_integer and dtype.bits < 32 else accumulator(dtype)


def _padded_input(data, layout, windows, value):
    sides = [windows[n][5:7] if n in windows else (0, 0) for n in layout]
    if not any(b or a for b, a in sides):
        return data
    before, after = [b for b, _ in sides], [a for _, a in sides]
    return padded(data, before, after, value, "constant", "pad_temp")


def pool_arguments(rank: int, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a pool's builder with one number for each axis, and padding for each side."""
    for key in ("pool_size", "strides", "dilation"):
        arguments[key] = expand_per_axis(listed(arguments[key]), rank, key)
    before, after = expand_padding(listed(arguments["padding"]), rank)
    arguments["padding"] = [*before, *after]
    arguments["out_layout"] = arguments["out_layout"] or arguments["layout"]
    return arguments


def infer_image(
    data: TensorStructInfo,
    rank: int,
    layout: str,
    out_layout: str | None,
    dims: Callable[[Any, Layout], Sequence[Any]],
) -> TensorStructInfo:
    """The struct info of an operator on images with `rank` spatial axes. dims(shape, layout) returns
    the result's shape in the layout of `data`."""
    plan, out_plan = layout_of(layout), layout_of(out_layout or layout)
    for what, axes in (("layout", plan), ("out_layout", out_plan)):
        letters = sorted(n for n in axes if n.isupper())
        if letters != sorted("NC" + "DHW"[3 - rank :]):
            hint = f"name the axes NC{'DHW'[3 - rank :]} in any order"
            raise ValueError(explain(f"{what} of other axes", got=str(axes), instead=hint))
    if data.ndim not in (-1, len(plan)):
        what = f"data of layout {plan} has {len(plan)} axes"
        raise ValueError(explain(what, got=f"rank {data.ndim}"))
    shape = data.get_shape()
    if shape is None:
        return TensorStructInfo(dtype=data.dtype, ndim=len(out_plan))
    pooled = dims(shape, plan)
    return TensorStructInfo(moved_dims(pooled, plan, out_plan), data.dtype)


def moved_dims(dims: Sequence[Any], plan: Layout, out_plan: Layout) -> Sequence[Any]:
    """A shape in another layout."""
    if plan == out_plan:
        return dims
    return shape_in(out_plan, {n: extent(plan, dims, n) for n in plan if n.isupper()})


def _pool(rank: int, average: bool) -> None:
    letters = "DHW"[3 - rank :]
    name = f"{'avg' if average else 'max'}_pool{rank}d"

    def body(
        data: Tensor,
        pool_size: Ints = (1,) * rank,
        strides: Ints = (1,) * rank,
        padding: Ints = (0,) * rank,
        dilation: Ints = (1,) * rank,
        ceil_mode: bool = False,
        count_include_pad: bool = average and rank != 2,  # TVM's defaults
        layout: str = f"NC{letters}",
        out_layout: str | None = None,
    ):
        return pooled(
            data, pool_size, strides, padding, dilation, ceil_mode, count_include_pad, layout,
            out_layout, average,
        )  # fmt: skip

    body.__name__ = name
    what = "mean" if average else "greatest value"
    body.__doc__ = (
        f"The {what} of each window of `pool_size`. `ceil_mode` lets a last partial window in; "
        "`count_include_pad` counts the padding in a mean."
    )
    operator = op(f"relax.nn.{name}", mixed="follow")(body)

    operator.build(lambda **arguments: pool_arguments(rank, arguments))

    @operator.infer
    def _(data: TensorStructInfo, **attrs):
        keys = ("pool_size", "strides", "padding", "dilation", "ceil_mode")

        def dims(shape, layout):
            windows = pool_windows(shape, layout, *[attrs[k] for k in keys])
            return _out_shape(shape, layout, windows)

        return infer_image(data, rank, attrs["layout"], attrs["out_layout"], dims)

    if rank == 2:

        @operator.grad
        def _(cx, data, **attrs):
            return getattr(R.grad, f"{name}_backward")(cx.grad, data, **attrs)

    operator.layout(image("layout"))
    operator.numpy(lambda data, **attrs: _numpy_pool(data, average, **attrs))
    spatial = {1: (9,), 2: (8, 7), 3: (4, 5, 6)}[rank]
    operator.samples(
        case((2, 3, *spatial), pool_size=(2,) * rank, strides=(2,) * rank),
        case(("n", 3, *spatial), pool_size=(3,) * rank, padding=(1,) * rank),
        case((1, 2, *spatial), pool_size=(3,) * rank, strides=(2,) * rank, ceil_mode=True),
    )


def relaid(tensor: te.Tensor, plan: Layout, out_plan: Layout) -> te.Tensor:
    """A tensor of layout `plan` in the layout `out_plan`."""
    if plan == out_plan:
        return tensor

    def cell(*i):
        at = {}
        for (letter, factor), index in zip(out_plan.parts, i, strict=True):
            if factor > 0:
                index = add(multiply(at[letter.upper()], factor), index)
            at[letter.upper()] = index
        return tensor(*index_in(plan, at))

    return compute(moved_dims(tensor.shape, plan, out_plan), cell, "relaid", tag="injective")


def pooled(
    data, pool_size, strides, padding, dilation, ceil_mode, include, layout, out_layout, average,
    lines=True,
):  # fmt: skip
    """te: the means or greatest values of windows; lines: those of small windows in two stages."""
    layout, out_plan = layout_of(layout), layout_of(out_layout or layout)
    windows = pool_windows(data.shape, layout, pool_size, strides, padding, dilation, ceil_mode)
    start = const(0, data.dtype) if average else infimum(data.dtype)
    shape = _out_shape(data.shape, layout, windows)
    names = [f"ax{k}" for k in range(len(shape))]
    if lines and not average and _in_lines(data, layout, windows):
        return relaid(_greatest_of_lines(data, layout, windows), layout, out_plan)
    source = _padded_input(data, layout, windows, start.value)
    spans = {
        s: te.reduce_axis((const(0, "int64"), const(w[2], "int64")), name=f"rv{k}")
        for k, (s, w) in enumerate(windows.items())
    }

    def window_at(*i):
        value = source(*_in_window(layout, windows, i, spans))
        return cast(_wide(data.dtype), value) if average else value

    reduce = te.sum if average else te.max
    cell = lambda *i: reduce(window_at(*i), axis=list(spans.values()))  # noqa: E731
    name = "pool_sum" if average else "pool_max"
    total = te.compute(shape, cell, name=name, tag=name, varargs_names=names)
    if not average:
        return relaid(total, layout, out_plan)

    def mean(*i):
        count = cast(total.dtype, window_count(i, layout, windows, padding, include))
        return cast(data.dtype, div(total(*i), count))

    pooled = te.compute(shape, mean, name="pool_avg", tag="elemwise", varargs_names=names)
    return relaid(pooled, layout, out_plan)


def _in_window(layout, windows, i, inside):
    """The indices of the elements of windows, some index `inside` of them; axes without one are read at their own."""
    return [
        v * windows[n][3] + inside[n] * windows[n][4] if n in inside else v
        for n, v in zip(layout, i, strict=True)
    ]


def _in_lines(data, layout, windows):
    """Whether the pixels of an image's rows are adjacent, windows are small, and they share
    columns: 2 x 2 of float32 are faster at once."""
    *above, last = windows
    static = isinstance(windows[last][1], IntImm)
    small = all(1 <= w[2] <= SMALL for w in windows.values())
    shares = windows[last][2] > windows[last][3] or data.dtype.bits < 32
    return static and small and shares and above and last == layout[-1]


def _greatest_of_lines(data, layout, windows):
    """The greatest values of windows: first those of a window's rows, of which each pixel is read once."""
    *above, last = windows
    least = infimum(data.dtype)
    out, size, window, stride, dil, before, _ = windows[last]
    used = int_value((out - 1) * stride + (window - 1) * dil + 1)
    read = {**windows, last: (*windows[last][:6], max(used - size.value - before, 0))}
    source = _padded_input(data, layout, read, least.value)

    def greatest(tensor, axes):
        all_of_them = product(*(range(windows[s][2]) for s in axes))
        cells = [dict(zip(axes, one, strict=True)) for one in all_of_them]
        return lambda *i: reduce(
            tir.max, [tensor(*_in_window(layout, windows, i, one)) for one in cells]
        )

    shape = _out_shape(data.shape, layout, windows)
    line = [used if n == last else d for n, d in zip(layout, shape, strict=True)]
    # Where the image is in a line: the rest has the least value.
    inside = [before, min(size.value, max(used - before, 0))]
    rows = compute(line, greatest(source, above), "pool_rows", attrs={LINES: inside})
    return compute(shape, greatest(rows, [last]), "pool_max", attrs={OP_PATTERN: FUSABLE})


def window_count(
    i: Sequence[PrimExpr],
    layout: Layout,
    windows: dict[str, tuple[Any, ...]],
    padding: Sequence[int],
    include: bool,
) -> PrimExpr:
    """The number of counted elements in the window of element `i`."""
    _, after = expand_padding(padding, len(windows))
    count = const(1, "int64")
    for k, s in enumerate(windows):
        _, size, window, stride, dil, before, grown = windows[s]
        if before == 0 and grown == 0:
            count = multiply(count, window)
            continue
        index = i[layout.index_of(s)]
        first = index * stride - before
        low = const(-before if include else 0, "int64")
        high = size + after[k] if include else size
        end = tir.min(first + window * dil, high)
        begin = tir.max(first, low)
        if dil > 1:
            begin = first + ceildiv(begin - first, dil) * dil
        count = multiply(count, tir.max(ceildiv(end - begin, dil), const(1, "int64")))
    return count


def _numpy_pool(
    data, average, pool_size, strides, padding, dilation, ceil_mode, count_include_pad, layout,
    out_layout,
):  # fmt: skip
    parsed = layout_of(layout)
    letters = spatial(parsed)
    x = to_plain(data, layout, "NC" + letters)
    rank = len(letters)
    before, after = expand_padding(padding, rank)
    extra = [s - 1 if ceil_mode else 0 for s in strides]
    wide = [(0, 0), (0, 0), *((b, a + e) for b, a, e in zip(before, after, extra, strict=True))]
    inner = tuple(range(-rank, 0))

    def windows(array, fill):
        padded = np.pad(array, wide, constant_values=fill)
        return sliding(padded, pool_size, strides, dilation)

    if not average:
        lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
        pooled = windows(x, lowest).max(inner)
    else:
        sides = list(zip(before, after, strict=True))
        edge = 1 if count_include_pad else 0  # elements added by ceil mode are never counted
        counted = np.pad(np.ones(x.shape[2:]), sides, constant_values=edge)
        counted = np.pad(counted, [(0, e) for e in extra])
        count = sliding(counted, pool_size, strides, dilation).sum(inner)
        pooled = windows(widened(x), 0).sum(inner) / np.maximum(count, 1)
    return from_plain(pooled.astype(x.dtype), out_layout or layout, "NC" + letters)


for _rank in (1, 2, 3):
    _pool(_rank, average=False)
    _pool(_rank, average=True)


def _adaptive(rank: int) -> None:
    letters = "DHW"[3 - rank :]

    def body(
        data: Tensor,
        output_size: Ints | None = None,
        layout: str = f"NC{letters}",
        out_layout: str | None = None,
    ):
        plan = layout_of(layout)
        result = _adaptive_expr(data, output_size, plan)
        return relaid(result, plan, layout_of(out_layout or layout))

    body.__name__ = f"adaptive_avg_pool{rank}d"
    body.__doc__ = (
        "The mean of output_size windows that cover the image (None: one per pixel). "
        "Window i of n over an extent s is [floor(i * s / n), ceil((i + 1) * s / n))."
    )
    operator = op(f"relax.nn.{body.__name__}", mixed="follow")(body)

    @operator.build
    def _(**arguments):
        if arguments["output_size"] is not None:
            sizes = expand_per_axis(listed(arguments["output_size"]), rank, "output_size")
            arguments["output_size"] = sizes
        arguments["out_layout"] = arguments["out_layout"] or arguments["layout"]
        return arguments

    @operator.infer
    def _(data: TensorStructInfo, output_size, layout, out_layout):
        def dims(shape, plan):
            sizes = {s: extent(plan, shape, s) for s in spatial(plan)}
            sizes_out = dict(zip(spatial(plan), _target_sizes(output_size, sizes), strict=True))
            return [sizes_out.get(n, d) for n, d in zip(plan, shape, strict=True)]

        result = infer_image(data, rank, layout, out_layout, dims)
        same = output_size is None and layout == (out_layout or layout)
        if same and data.shape is not None:
            return TensorStructInfo(data.shape, data.dtype)
        return result

    operator.numpy(partial(_numpy_adaptive, f"NC{letters}"))
    operator.layout(image("layout"))
    shape = {1: (9,), 2: (7, 5), 3: (4, 5, 6)}[rank]
    operator.samples(
        case((2, 3, *shape), output_size=(1,) * rank),
        case((1, 2, *shape), output_size=(3, 2, 4)[:rank]),
    )


def _numpy_adaptive(plain, data, output_size=None, layout="", out_layout=None):
    x = to_plain(data, layout, plain)
    sizes, every = tuple(output_size or x.shape[2:]), (slice(None), slice(None))
    out = np.empty((*x.shape[:2], *sizes), np.float64)
    for at in np.ndindex(*sizes):
        spans = [
            slice(i * s // n, -(-(i + 1) * s // n))
            for i, s, n in zip(at, x.shape[2:], sizes, strict=True)
        ]
        window = widened(x)[(*every, *spans)]
        out[(*every, *at)] = window.mean(tuple(range(2, window.ndim)))
    return from_plain(out.astype(x.dtype), out_layout or layout, plain)


def _adaptive_expr(data, output_size, parsed):
    sizes = {s: extent(parsed, data.shape, s) for s in spatial(parsed)}
    target = dict(zip(spatial(parsed), _target_sizes(output_size, sizes), strict=True))
    shape = [target.get(n, d) for n, d in zip(parsed, data.shape, strict=True)]
    spans = {}
    for k, s in enumerate(spatial(parsed)):
        longest = _longest(sizes[s], target[s])
        spans[s] = te.reduce_axis((const(0, "int64"), longest), name=f"rv{k}")

    def bounds(s, v):
        first = floordiv(v * sizes[s], target[s])
        return first, simplify(ceildiv((v + 1) * sizes[s], target[s]) - first)

    def cell(*i):
        at, inside = [], []
        for n, v in zip(parsed, i, strict=True):
            if n not in spans:
                at.append(v)
                continue
            first, length = bounds(n, v)
            at.append(simplify(first + spans[n]))
            if not _divides(target[n], sizes[n]):
                inside.append(spans[n].var < length)
        value = cast(_wide(data.dtype), data(*at))
        if inside:
            value = tir.if_then_else(tir.all(*inside), value, const(0, value.dtype))
        return te.sum(value, axis=list(spans.values()))

    names = [f"ax{k}" for k in range(len(shape))]
    total = te.compute(shape, cell, name="adaptive_pool_sum", varargs_names=names)

    def mean(*i):
        count = const(1, "int64")
        for n, v in zip(parsed, i, strict=True):
            if n in spans:
                count = multiply(count, bounds(n, v)[1])
        return cast(data.dtype, div(total(*i), cast(total.dtype, count)))

    return te.compute(shape, mean, name="adaptive_pool_avg", tag="elemwise", varargs_names=names)


def _divides(small, size):
    if is_one(small):
        return True
    return isinstance(small, IntImm) and isinstance(size, IntImm) and size.value % small.value == 0


def _longest(size, target):
    """The length of the longest window."""
    if _divides(target, size):
        return simplify(floordiv(size, target))
    return simplify(floordiv(size, target) + 2)


def _target_sizes(output_size, sizes):
    if output_size is None:
        return list(sizes.values())
    values = list(output_size) * (len(sizes) if len(output_size) == 1 else 1)
    return [const(v, "int64") for v in values]


for _rank in (1, 2, 3):
    _adaptive(_rank)
