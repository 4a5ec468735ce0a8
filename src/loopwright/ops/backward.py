"""Operators that gradients are made of: marks for the pass Gradient, and gradients of pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const
from ..relax import op as R
from ..relax.expr import Constant, Expr, Tuple
from ..tir import layout as layout_of
from ..tir.data_layout import Layout
from ..tir.ir_builder import BufferVar, IRBuilder
from .common import compute, like
from .core import OPERATORS, Operator, case, op
from .extents import differ
from .gradient import no_gradient
from .layout_rules import elementwise
from .params import Ints, Tensor, Value
from .pool import pool_arguments, pool_windows, window_count
from .statements import long, loops, prim_func


def _mark(name: str, doc: str) -> Operator:
    """An operator whose result is its argument; it is lowered to that."""

    def body(input: Value):
        return compute(input.shape, lambda *i: input(*i), "T_identity", axes="i")

    body.__name__, body.__doc__ = name, doc
    operator = op(f"relax.grad.{name}")(body)
    operator.infer(lambda input: input)
    operator.numpy(lambda input: input)
    operator.legalize(lambda bb, call: call.args[0])
    operator.layout(elementwise(finite=True))
    operator.grad(no_gradient if name == "no_grad" else lambda cx, input: cx.grad)
    operator.samples(case((2, 3)), case(("n", 3)))
    if name != "no_grad":
        operator.build(_computed(name))
    return operator


def _computed(name: str) -> Any:
    def check(input: Expr | Sequence[Expr]) -> Any:
        if isinstance(input, (tuple, list, Constant, Tuple)):
            what = f"relax.grad.{name} marks one value that is computed"
            raise TypeError(explain(what, got=type(input).__name__))
        return {"input": input}

    return check


_mark("no_grad", "`input`, which counts as a constant: no gradient flows into it.")
_mark("start_checkpoint", "`input`, kept for the backward pass; later values are computed again.")
_mark("end_checkpoint", "`input`, where the part that is computed again ends.")


def _pool_backward(average: bool) -> None:
    name = "avg_pool2d" if average else "max_pool2d"

    def body(
        output_grad: Tensor, data: Tensor, pool_size: Ints = (1, 1), strides: Ints = (1, 1),
        padding: Ints = (0, 0, 0, 0), dilation: Ints = (1, 1), ceil_mode: bool = False,
        count_include_pad: bool = False, layout: str = "NCHW", out_layout: str | None = None,
    ):  # fmt: skip
        plan = layout_of(layout)
        windows = pool_windows(data.shape, plan, pool_size, strides, padding, dilation, ceil_mode)
        incoming, source = (tir.decl_buffer(t.shape, t.dtype, "in") for t in (output_grad, data))
        result = tir.decl_buffer(data.shape, data.dtype, "out")

        def write(ib, grad, x, out):
            with ExitStack() as stack:
                out[tuple(loops(ib, stack, list(data.shape), parallel=True))] = const(0, data.dtype)
            with ExitStack() as stack:
                at = loops(ib, stack, list(output_grad.shape), parallel=False)
                if average:
                    count = window_count(at, plan, windows, padding, count_include_pad)
                    share = ib.let("share", grad[tuple(at)] / cast(data.dtype, count))
                    _each(ib, stack, at, plan, windows, lambda where: _add(out, where, share))
                else:
                    _to_greatest(ib, at, plan, windows, x, out, grad[tuple(at)])

        func = prim_func([incoming, source, result], write)
        return te.extern_primfunc([output_grad, data], func, name=f"{name}_backward")

    body.__name__ = f"{name}_backward"
    body.__doc__ = f"The gradient of {name} for `data`." + (
        "" if average else " It is added to the first of equal elements of a window."
    )
    operator = op(f"relax.grad.{name}_backward")(body)
    operator.build(lambda **arguments: pool_arguments(2, arguments))

    @operator.infer
    def _(output_grad, data, **attrs):
        forward = OPERATORS[f"relax.nn.{name}"].hooks["infer"](data, **attrs)
        have, want = output_grad.get_shape(), forward.get_shape()
        if have is not None and want is not None:
            if len(have) != len(want) or any(map(differ, have, want)):
                what = f"output_grad must have the shape of the result of {name}"
                raise ValueError(explain(what, got=f"{output_grad} for {forward}"))
        return like(data)

    operator.numpy(lambda output_grad, data, **attrs: _numpy(output_grad, data, average, **attrs))
    operator.samples(
        case((2, 3, 4, 3), (2, 3, 8, 7), pool_size=(2, 2), strides=(2, 2)),
        case(
            (1, 2, 4, 4),
            (1, 2, 7, 7),
            pool_size=(3, 3),
            strides=(2, 2),
            padding=(1, 1, 1, 1),
            count_include_pad=True,
        ),
        case((1, 4, 3, 2), (1, 7, 5, 2), pool_size=(3, 3), strides=(2, 2), padding=(1, 1),
             layout="NHWC"),
    )  # fmt: skip


def _each(
    ib: IRBuilder,
    stack: ExitStack,
    at: Sequence[PrimExpr],
    plan: Layout,
    windows: Any,
    do: Callable[..., Any],
) -> None:
    """`do(indices)` for each element of the window of result `at` that is not padding."""
    taps = loops(ib, stack, [long(w[2]) for w in windows.values()], parallel=False)
    where, inside = list(at), []
    for tap, (s, (_, size, _, stride, dil, before, _)) in zip(taps, windows.items(), strict=True):
        axis = plan.index_of(s)
        where[axis] = at[axis] * stride + tap * dil - before
        inside += [where[axis] >= 0, where[axis] < size]
    with ib.if_scope(tir.all(*inside)):
        do(tuple(where))


def _add(out: BufferVar, where: Sequence[PrimExpr], value: PrimExpr) -> None:
    out[where] = out[where] + value


def _to_greatest(
    ib: Any, at: list[PrimExpr], plan: Any, windows: Any, x: Any, out: Any, value: Any
) -> None:
    """Adds `value` at the index of the greatest element of the window."""
    best = ib.allocate("int64", len(windows), "place")
    for k in range(len(windows)):
        best[k] = long(-1)
    axes = [plan.index_of(s) for s in windows]

    def chosen() -> tuple[Any, ...]:
        where = list(at)
        for k, axis in enumerate(axes):
            where[axis] = tir.max(best[k], long(0))
        return tuple(where)

    def better(where: Sequence[PrimExpr]) -> None:
        with ib.if_scope(tir.any(best[0] < 0, x[where] > x[chosen()])):
            for k, axis in enumerate(axes):
                best[k] = where[axis]

    with ExitStack() as stack:
        _each(ib, stack, at, plan, windows, better)
    with ib.if_scope(best[0] >= 0):
        _add(out, chosen(), value)


def _numpy(
    grad: np.ndarray[Any, Any], data: np.ndarray[Any, Any], average: bool, pool_size: Sequence[int], strides: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool, count_include_pad: bool, layout: str, **_: str,
) -> Any:  # fmt: skip
    rows, cols = layout.index("H"), layout.index("W")
    out = np.zeros(data.shape, np.float64)
    top, left, bottom, right = padding
    for at in np.ndindex(grad.shape):
        spots, counted = [], 0
        for r, c in np.ndindex(*pool_size):
            where = list(at)
            where[rows] = at[rows] * strides[0] + r * dilation[0] - top
            where[cols] = at[cols] * strides[1] + c * dilation[1] - left
            fits = 0 <= where[rows] < data.shape[rows] and 0 <= where[cols] < data.shape[cols]
            padded = where[rows] < data.shape[rows] + bottom
            counted += padded and where[cols] < data.shape[cols] + right
            spots += [tuple(where)] if fits else []
        if average:
            for where in spots:
                out[where] += grad[at] / (counted if count_include_pad else len(spots))
        elif spots:
            out[max(spots, key=lambda where: data[where])] += grad[at]
    return out.astype(data.dtype)


_pool_backward(average=False)
_pool_backward(average=True)


def _conv2d_gradient(
    cx, data, weight, strides, padding, dilation, groups, data_layout, kernel_layout, out_layout,
    out_dtype,
):  # fmt: skip
    """Of the data a transposed convolution; of the weight a convolution of the data with the
    gradient, in which batch and channels change their roles, as do strides and dilation."""
    if (data_layout, kernel_layout, out_layout) != ("NCHW", "OIHW", "NCHW"):
        raise cx.refusal("other layouts than NCHW and OIHW", (data_layout, kernel_layout))
    batch, channels, high, wide = data.struct_info.get_shape()
    kernel = weight.struct_info.get_shape()
    small = cx.out.struct_info.get_shape()
    top, left, bottom, right = padding
    more = []
    for size, tap, out, k, sides in (
        (high, kernel[2], small[2], 0, top + bottom),
        (wide, kernel[3], small[3], 1, left + right),
    ):
        covered = (cx.literal(out) - 1) * strides[k] + (cx.literal(tap) - 1) * dilation[k] + 1
        more.append(cx.literal(size) - (covered - sides))
    of_data = R.nn.conv2d_transpose(
        cx.grad,
        weight,
        strides=strides,
        padding=padding,
        output_padding=more,
        dilation=dilation,
        groups=groups,
    )
    each = cx.literal(channels) // groups
    cut = R.reshape(data, [batch, groups, each, high, wide])
    by_channel = R.permute_dims(cut, [2, 1, 0, 3, 4])
    by_channel = R.reshape(by_channel, [each, groups * cx.literal(batch), high, wide])
    of_weight = R.nn.conv2d(
        by_channel,
        R.permute_dims(cx.grad, [1, 0, 2, 3]),
        strides=dilation,
        padding=padding,
        dilation=strides,
        groups=groups,
    )
    of_weight = R.permute_dims(of_weight, [1, 0, 2, 3])
    of_weight = R.strided_slice(of_weight, [2, 3], [0, 0], [int(kernel[2]), int(kernel[3])])
    return [of_data, of_weight]


OPERATORS["relax.nn.conv2d"].grad(_conv2d_gradient)
