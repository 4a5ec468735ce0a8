"""Running sums and products along an axis: TensorIR, because a result reads the one before it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from .. import tir
from ..ir.dtype import DataType, numpy_dtype
from ..ir.literals import int_value
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const, floordiv
from ..relax import op as R
from ..relax.expr import Expr
from ..relax.struct_info import TensorStructInfo
from ..tir.ir_builder import BufferVar, IRBuilder
from .binary import log_add_exp
from .common import accumulator, like, normalize_axis, product, void_or
from .core import Operator, case, op
from .extents import simplify
from .gradient import Backward
from .layout_rules import along
from .params import Axis, DType, Tensor
from .statements import in_vectors, long, loops, prim_func

_TOGETHER = 8  # rows whose running values are computed side by side


def _along_memory(
    ib: IRBuilder,
    shape: list[Any],
    start: PrimExpr,
    step: Callable[[BufferVar, tuple[Any, ...], int], None],
) -> None:
    """Running values along the last axis: of several rows at once, since each step of one waits for the one before;
    the last group takes the last row more than once. step(totals, indices, the number of the total)."""
    height = shape[-2]
    together = min(_TOGETHER, int_value(height) or _TOGETHER)
    with ExitStack() as stack:
        groups = floordiv(height + together - 1, together)
        *outer, group = loops(ib, stack, [*shape[:-2], groups], parallel=True)
        total = ib.allocate(start.dtype, together, "total")
        for n in range(together):
            total[n] = start
        with ib.for_range(long(0), shape[-1], "k", dtype="int64") as k:
            for n in range(together):
                step(total, (*outer, tir.min(group * together + n, height - 1), k), n)


def _running_kernel(short, combine, start, data, axis=None, dtype=None, exclusive=False):
    """The PrimFunc of a running sum or product; `combine` and `start` are its operation."""
    kind = void_or(dtype, data.dtype)
    shape = list(data.get_shape() or ())
    flat = axis is None
    which = 0 if flat else normalize_axis(axis, len(shape))
    wide = accumulator(kind)
    source = tir.decl_buffer(shape, data.dtype, "data")
    result = tir.decl_buffer([simplify(product(shape))] if flat else shape, kind, short)

    def step(total, x, out, here, position, n=0):
        if exclusive:
            out[position] = cast(kind, total[n])
        total[n] = combine(total[n], cast(wide, x[here]))
        if not exclusive:
            out[position] = cast(kind, total[n])

    def write_flat(ib, x, out):
        total = ib.allocate(wide, 1, "total")
        total[0] = const(start, wide)
        with ExitStack() as stack:
            at = loops(ib, stack, shape, parallel=False)
            position = long(0)
            for i, extent in zip(at, shape, strict=True):
                position = position * extent + i
            step(total, x, out, tuple(at), position)

    def write_along(ib, x, out):
        own = lambda total, at, n: step(total, x, out, at, at, n)  # noqa: E731
        _along_memory(ib, shape, const(start, wide), own)

    def write_rows(ib, x, out):
        """Row by row, with a running value of more digits than the result."""
        with ExitStack() as stack:
            rest = loops(ib, stack, [*shape[:which], *shape[which + 1 :]], parallel=True)
            total = ib.allocate(wide, 1, "total")
            total[0] = const(start, wide)
            with ib.for_range(long(0), shape[which], "k", dtype="int64") as k:
                here = (*rest[:which], k, *rest[which:])
                step(total, x, out, here, here)

    def write(ib, x, out):
        """All of an index along the axis before the next one, in vectors."""

        def step(here, before, k):
            with ib.if_scope(k < 1):
                out[here] = const(start, kind) if exclusive else cast(kind, x[here])
            with ib.else_scope():
                value = cast(kind, x[before if exclusive else here])
                out[here] = combine(out[before], value)

        with ExitStack() as stack:
            outer = loops(ib, stack, shape[:which], parallel=True)
            k = stack.enter_context(ib.for_range(long(0), shape[which], "k", dtype="int64"))
            inner = loops(ib, stack, shape[which + 1 : -1], parallel=False)
            for last in in_vectors(ib, shape[-1]):
                step(*((*outer, at, *inner, last) for at in (k, k - 1)), k)

    last = len(shape) - 1
    fits = {write_flat: flat, write_along: 0 < which == last, write: which < last and wide == kind}
    return prim_func([source, result], next((w for w, ok in fits.items() if ok), write_rows))


def _running(
    name: str, combine: Callable[..., Any], start: float, meaning: Any, what: str = ""
) -> Operator:
    short = name.removeprefix("relax.")

    def body(data: Tensor, axis: Axis = None, dtype: DType = None, exclusive: bool = False): ...

    body.__name__ = short
    body.__doc__ = (
        f"{what or f'`np.{short}`'} along `axis` (None: of the flattened tensor) in `dtype` (None: data's); "
        "`exclusive` leaves the element itself out."
    )
    operator = op(name)(body)

    @operator.infer
    def _(data: TensorStructInfo, axis=None, dtype=None, exclusive=False):
        kind = void_or(dtype, data.dtype)
        if axis is not None:
            if data.ndim != -1:
                normalize_axis(axis, data.ndim)
            return like(data, kind)
        shape = data.get_shape()
        if shape is None:
            return TensorStructInfo(dtype=kind, ndim=1)
        return TensorStructInfo([simplify(product(shape))], kind)

    @operator.numpy
    def _(data, axis=None, dtype=None, exclusive=False):
        kind = data.dtype if dtype is None else numpy_dtype(dtype)
        wide = numpy_dtype(accumulator(str(np.dtype(kind))))
        full = np.asarray(meaning(data, axis=axis, dtype=wide)).astype(kind)
        if not exclusive:
            return full
        axis = 0 if axis is None else axis
        shifted = np.roll(full, 1, axis)
        shifted[tuple([slice(None)] * (axis % full.ndim) + [slice(0, 1)])] = start
        return shifted

    operator.tir(partial(_running_kernel, short, combine, start))
    operator.layout(along("axis"))
    if name == "relax.cumsum":
        operator.grad(_backwards)
    operator.samples(
        case((2, 5), axis=1, dtype="void"),
        case((3, "n", 4), axis=-2, dtype="void", exclusive=True),
        case(("n", 4), dtype="float64"),
        case((3, 0), axis=1, dtype="void"),
    )
    return operator


def _backwards(
    cx: Backward, data: Expr, axis: int | None, dtype: DataType | None, exclusive: bool
) -> Any:
    """The running sum of the gradient from the end."""
    which = 0 if axis is None else axis
    sums = R.flip(R.cumsum(R.flip(cx.grad, which), which, exclusive=exclusive), which)
    sums = R.reshape(sums, cx.shape(data)) if axis is None else sums
    return sums if dtype is None else R.astype(sums, str(data.struct_info.dtype))


cumsum = _running("relax.cumsum", lambda a, b: a + b, 0, np.cumsum)
cumprod = _running("relax.cumprod", lambda a, b: a * b, 1, np.cumprod)
_WHOLE = case(np.arange(1, 7, dtype=np.int32).reshape(2, 3), dtype="int64", exclusive=True)
cumsum.samples(_WHOLE)
cumprod.samples(_WHOLE)


def _numpy_logcumsumexp(data: np.ndarray, axis: int | None, dtype: np.dtype) -> np.ndarray:
    rows = data.reshape(-1) if axis is None else data
    return np.logaddexp.accumulate(rows, 0 if axis is None else axis, dtype)


logcumsumexp = _running(
    "relax.logcumsumexp",
    log_add_exp,
    -np.inf,
    _numpy_logcumsumexp,
    "The logarithms of the running sums of exponentials",
)
