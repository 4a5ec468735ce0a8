"""Operators that visit an axis in order: running sums and products, sorting.

They are TensorIR, not tensor expressions, because they read elements that they wrote before.
NaN counts as the greatest value, as in numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from .. import tir
from ..ir.dtype import DataType, numpy_dtype
from ..ir.prim_expr import IntImm, PrimExpr
from ..ir.prim_op import cast, const
from ..relax import op as R
from ..relax.expr import Expr
from ..relax.struct_info import TensorStructInfo, TupleStructInfo
from ..tir.ir_builder import BufferVar, IRBuilder
from .binary import log_add_exp
from .common import accumulator, like, normalize_axis, product, void_or
from .core import Operator, case, op
from .extents import simplify
from .gradient import Backward
from .layout_rules import along
from .params import Axis, DType, Tensor
from .statements import long, loops, prim_func

# ---------------------------------------------------------------- running sums and products


def _running_kernel(short, combine, start, data, axis=None, dtype=None, exclusive=False):
    """The PrimFunc of a running sum or product; `combine` and `start` are its operation."""
    kind = void_or(dtype, data.dtype)
    shape = list(data.get_shape() or ())
    flat = axis is None
    which = 0 if flat else normalize_axis(axis, len(shape))
    wide = accumulator(kind)
    source = tir.decl_buffer(shape, data.dtype, "data")
    result = tir.decl_buffer([simplify(product(shape))] if flat else shape, kind, short)

    def step(total, x, out, here, position):
        if exclusive:
            out[position] = cast(kind, total[0])
        total[0] = combine(total[0], cast(wide, x[here]))
        if not exclusive:
            out[position] = cast(kind, total[0])

    def write_flat(ib, x, out):
        total = ib.allocate(wide, 1, "total")
        total[0] = const(start, wide)
        with ExitStack() as stack:
            at = loops(ib, stack, shape, parallel=False)
            position = long(0)
            for i, extent in zip(at, shape, strict=True):
                position = position * extent + i
            step(total, x, out, tuple(at), position)

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
        with ExitStack() as stack:
            outer = loops(ib, stack, shape[:which], parallel=True)
            k = stack.enter_context(ib.for_range(long(0), shape[which], "k", dtype="int64"))
            inner = loops(ib, stack, shape[which + 1 :], parallel=False)
            here = (*outer, k, *inner)
            before = (*outer, k - 1, *inner)
            first = const(start, kind) if exclusive else cast(kind, x[here])
            value = cast(kind, x[before if exclusive else here])
            with ib.if_scope(k < 1):
                out[here] = first
            with ib.else_scope():
                out[here] = combine(out[before], value)

    rows = write_rows if wide != kind else write
    return prim_func([source, result], write_flat if flat else rows)


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


# ---------------------------------------------------------------- sorting


def _comes_after(a: PrimExpr, b: PrimExpr, descending: bool) -> Any:
    """Whether `b` sorts before `a`, which currently precedes it."""
    if not a.dtype.is_float:
        return b > a if descending else b < a
    # Comparisons with NaN are false; NaN is the greatest.
    if descending:
        return tir.Or(b > a, tir.And(tir.isnan(b), tir.Not(tir.isnan(a))))
    return tir.Or(b < a, tir.And(tir.isnan(a), tir.Not(tir.isnan(b))))


def _merge_sort(
    ib: IRBuilder, size: PrimExpr, keys: BufferVar, order: BufferVar | None, descending: bool
) -> Any:
    """Sort the first half of `keys` and `order` (buffers of 2 * size elements; `order` may be
    None): runs of 1, 2, 4, ... elements are merged from one half to the other. Returns the start of
    the sorted half. Stable; at most size * ceil(log2(size)) comparisons.

    The merge branches: branch prediction beats selecting (measured on rows of 1000
    random floats: 1.3 times numpy's stable sort against 2 to 3 times)."""
    state = ib.allocate("int64", 2, "state")  # length and start of the sorted runs
    cursor = ib.allocate("int64", 2, "cursor")  # of the left run, of the right one
    state[0] = long(1)
    state[1] = long(0)
    with ib.while_loop(state[0] < size):
        width, source = ib.let("width", state[0]), ib.let("source", state[1])
        target = ib.let("target", size - source)
        pairs = tir.floordiv(size + width * 2 - 1, width * 2)
        with ib.for_range(long(0), pairs, "pair", dtype="int64") as pair:
            low = ib.let("low", pair * width * 2)
            middle = ib.let("middle", tir.min(low + width, size))
            high = ib.let("high", tir.min(low + width * 2, size))
            cursor[0] = low
            cursor[1] = middle
            with ib.for_range(long(0), high - low, "at", dtype="int64") as at:
                left, right = ib.let("left", cursor[0]), ib.let("right", cursor[1])
                after = _comes_after(keys[source + left], keys[source + right], descending)
                both = tir.And(left < middle, right < high)
                from_right = tir.if_then_else(both, after, right < high)

                def take(source_at: PrimExpr, end: int, value: PrimExpr) -> None:
                    keys[target + low + at] = keys[source + source_at]
                    if order is not None:
                        order[target + low + at] = order[source + source_at]
                    cursor[end] = value

                with ib.if_scope(from_right):
                    take(right, 1, right + 1)
                with ib.else_scope():
                    take(left, 0, left + 1)
        state[0] = width * 2
        state[1] = target
    return state[1]


# Candidates that are sorted at once: of few results, few sorts (64 rows of 4,096, k = 8: 43 to 0.15 ms).
_LEAST_CANDIDATES = 16
_GROUP = 16  # elements that are compared at once; of 32, few results took 1.4 times as long


def _select(
    ib: IRBuilder,
    size: PrimExpr,
    read: Callable[[PrimExpr], PrimExpr],
    room: int,
    count: PrimExpr,
    keys: BufferVar,
    order: BufferVar | None,
    descending: bool,
) -> None:
    """Sort the first `count` elements of a row of `size` into `keys` and `order`: elements that sort
    before the last of those so far are collected, and sorted each time that `room` are."""
    state = ib.allocate("int64", 2, "scan")  # elements visited, candidates
    bound, hits = ib.allocate(keys.dtype, 1, "bound"), ib.allocate("int32", _GROUP, "hits")
    lanes = lambda n: ib.for_range(0, n, "k", dtype="int64", kind="vectorize")  # noqa: E731
    state[0] = long(0)
    state[1] = long(0)
    bound[0] = const(0, keys.dtype)  # read only once there is one, which C compilers cannot see
    with ib.while_loop(state[0] < size):
        bounded = ib.let("bounded", state[1] >= count)
        with ib.while_loop(tir.And(state[0] < size, state[1] < room)):
            at = ib.let("at", state[0])
            alone = tir.Or(tir.Not(bounded), at + _GROUP > size)
            hits[0] = cast("int32", alone)
            with ib.if_scope(tir.Not(alone)):
                with lanes(_GROUP) as k:
                    hits[k] = cast("int32", _comes_after(bound[0], read(at + k), descending))
                for half in (8, 4, 2, 1):
                    with lanes(half) as k:
                        hits[k] = hits[k] + hits[k + half]
            with ib.if_scope(hits[0] > 0):
                some = tir.min(long(_GROUP), size - at)
                with ib.for_range(long(0), some, "k", dtype="int64") as k:
                    value = ib.let("value", read(at + k))
                    before = _comes_after(bound[0], value, descending)
                    with ib.if_scope(tir.Or(tir.Not(bounded), before)):
                        end = ib.let("end", state[1])
                        keys[end] = value
                        if order is not None:
                            order[end] = cast(order.dtype, at + k)
                        state[1] = end + 1
            state[0] = at + _GROUP
        begin = ib.let("begin", _merge_sort(ib, state[1], keys, order, descending))
        with ib.for_range(long(0), count, "k", dtype="int64") as k:
            for buffer in (keys, order):
                if buffer is not None:
                    buffer[k] = buffer[begin + k]
        state[1] = count
        bound[0] = keys[count - 1]


def _sorting(
    x: TensorStructInfo,
    axis: int,
    descending: bool,
    count: int | None,
    values: str | None,
    indices: str | None,
    dtype: DataType | None,
) -> tir.PrimFunc:
    """Each row along `axis` sorted; its first `count` (None: all) values and indices, in results
    with these names."""
    shape = list(x.get_shape() or ())
    which = normalize_axis(axis, len(shape))
    size = shape[which]
    length = size if count is None else long(count)
    dims = [length if a == which else d for a, d in enumerate(shape)]
    source = tir.decl_buffer(shape, x.dtype, "data")
    results = []
    if values is not None:
        results.append(tir.decl_buffer(dims, x.dtype, values))
    if indices is not None:
        results.append(tir.decl_buffer(dims, dtype, indices))

    def write(ib: IRBuilder, data: BufferVar, *outs: BufferVar) -> None:
        if count is not None and not isinstance(size, IntImm):
            what = f"topk: the axis has fewer than {count} elements; give a smaller k"
            text = tir.StringImm(what)
            ib.emit(lambda body: tir.AssertStmt(length <= size, text, body))
        with ExitStack() as stack:
            rest = loops(ib, stack, [*shape[:which], *shape[which + 1 :]], parallel=True)
            row = lambda k: (*rest[:which], k, *rest[which:])  # noqa: E731
            kind = "int8" if x.dtype.is_bool else x.dtype  # booleans have no order
            read = lambda k: cast(kind, data[row(k)])  # noqa: E731
            some = max(2 * (count or 0), _LEAST_CANDIDATES)
            few = count is None or (isinstance(size, IntImm) and size.value <= some)
            room = size if few else long(some + _GROUP)
            keys = ib.allocate(kind, room * 2, "keys")
            order = None if indices is None else ib.allocate(dtype, room * 2, "order")
            if few:
                with ib.for_range(long(0), size, "k", dtype="int64") as k:
                    keys[k] = read(k)
                    if order is not None:
                        order[k] = cast(dtype, k)
                begin = _merge_sort(ib, size, keys, order, descending)
            else:
                _select(ib, size, read, some, length, keys, order, descending)
                begin = long(0)
            sorted_ = [*([keys] if values is not None else []), *([order] if order else [])]
            with ib.for_range(long(0), length, "k", dtype="int64") as k:
                for out, source in zip(outs, sorted_, strict=True):
                    out[row(k)] = cast(out.dtype, source[begin + k])

    return prim_func([source, *results], write)


def sorted_indices(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """The indices of a stable sort; NaN counts as the greatest value."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    reversed_order = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(reversed_order, axis)


def _check_axis(x: TensorStructInfo, axis: int) -> None:
    if x.ndim != -1:
        normalize_axis(axis, x.ndim)


@op("relax.sort")
def sort(x: Tensor, axis: int = -1, descending: bool = False):
    """The values along `axis` in order, NaN as the greatest."""


@sort.infer
def _(x: TensorStructInfo, axis=-1, descending=False):
    _check_axis(x, axis)
    return like(x)


@sort.numpy
def _(x, axis=-1, descending=False):
    return np.take_along_axis(x, sorted_indices(x, axis, descending), axis)


@sort.tir
def _(x: TensorStructInfo, axis=-1, descending=False):
    return _sorting(x, axis, descending, None, "sort", None, None)


_SPECIAL = np.array([[3, np.nan, -np.inf, 0.0], [np.nan, 1, np.inf, 1]], np.float32)
sort.layout(along("axis"))
sort.samples(
    case((3, 17)),
    case(("n", 5, 2), axis=1, descending=True),
    case((4, "n"), axis=1),
    case(_SPECIAL),
    case(_SPECIAL, descending=True),
    case(np.array([5, -2, 5, 7, 0], np.int64), axis=0),
    case((2, 0)),
)


@op("relax.argsort")
def argsort(data: Tensor, axis: int = -1, descending: bool = False, dtype: DType = "int32"):
    """The indices that sort `data` along `axis`; equal values keep their order."""


@argsort.infer
def _(data: TensorStructInfo, axis=-1, descending=False, dtype="int32"):
    _check_axis(data, axis)
    return like(data, void_or(dtype, "int32"))


@argsort.numpy
def _(data, axis=-1, descending=False, dtype="int32"):
    return sorted_indices(data, axis, descending).astype(numpy_dtype(void_or(dtype, "int32")))


@argsort.tir
def _(data: TensorStructInfo, axis=-1, descending=False, dtype="int32"):
    kind = void_or(dtype, "int32")
    return _sorting(data, axis, descending, None, None, "argsort", kind)


_TIES = np.array([[2, 1, 2, 1, 2], [0, 0, 1, 0, 0]], np.int32)
argsort.layout(along("axis"))
argsort.samples(
    case((3, 9), dtype="int32"),
    case(_TIES, dtype="int64"),
    case(_TIES, dtype="int32", descending=True),
    case(_TIES, dtype="int32", axis=0),
    case(_SPECIAL, dtype="int64", descending=True),
)


@op("relax.topk", choices={"ret_type": ("both", "values", "indices")})
def topk(
    data: Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    largest: bool = True,
    dtype: DType = "int32",
):
    """The k greatest (`largest` False: least) values along `axis`, in order, and their indices:
    `ret_type` "both" a tuple, "values" or "indices" one of them. k below 1 means all."""


@topk.infer
def _(data: TensorStructInfo, k=1, axis=-1, ret_type="both", largest=True, dtype="int32"):
    _check_axis(data, axis)
    shape = data.get_shape()
    kind = DataType(void_or(dtype, "int32"))
    if shape is None:
        values, indices = (TensorStructInfo(dtype=d, ndim=data.ndim) for d in (data.dtype, kind))
    else:
        which = normalize_axis(axis, len(shape))
        size = shape[which]
        most = isinstance(size, IntImm) and k >= size.value  # all of them
        whole = most or k < 1
        dims = [d if whole or a != which else long(k) for a, d in enumerate(shape)]
        values, indices = (TensorStructInfo(dims, d) for d in (data.dtype, kind))
    both = {"values": values, "indices": indices}
    return both.get(ret_type) or TupleStructInfo([values, indices])


@topk.numpy
def _(data, k=1, axis=-1, ret_type="both", largest=True, dtype="int32"):
    order = sorted_indices(data, axis, largest)
    if k > 0:
        order = np.take(order, np.arange(k), axis)
    values = np.take_along_axis(data, order, axis)
    indices = order.astype(numpy_dtype(void_or(dtype, "int32")))
    return {"values": values, "indices": indices}.get(ret_type, (values, indices))


@topk.tir
def _(data: TensorStructInfo, k=1, axis=-1, ret_type="both", largest=True, dtype="int32"):
    values = None if ret_type == "indices" else "values"
    indices = None if ret_type == "values" else "indices"
    kind = void_or(dtype, "int32")
    return _sorting(data, axis, largest, k if k > 0 else None, values, indices, kind)


topk.samples(
    case((3, 9), k=3, dtype="int32"),
    case(("n", 6, 2), k=2, axis=1, largest=False, dtype="int64"),
    case(_TIES, k=4, dtype="int32"),
    case(_SPECIAL, k=2, ret_type="indices", dtype="int32"),
    case((4, 5), k=0, axis=0, ret_type="values", dtype="int32"),
)
