"""Sorting, and the first elements in order.

They are TensorIR, not tensor expressions, because they read elements that they wrote before.
NaN counts as the greatest value, as in numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from .. import tir
from ..ir.dtype import DataType, numpy_dtype
from ..ir.literals import is_one
from ..ir.prim_expr import IntImm, PrimExpr
from ..ir.prim_op import cast, const
from ..relax import op as R
from ..relax.expr import Tuple, TupleGetItem
from ..relax.struct_info import TensorStructInfo, TupleStructInfo
from ..tir.ir_builder import BufferVar, IRBuilder
from .common import like, normalize_axis, void_or
from .core import Operator, case, op
from .layout_rules import along
from .params import DType, Tensor
from .statements import long, loops, prim_func


def _comes_after(a: PrimExpr, b: PrimExpr, descending: bool) -> Any:
    """Whether `b` sorts before `a`, which currently precedes it."""
    if not a.dtype.is_float:
        return b > a if descending else b < a
    # Comparisons with NaN are false; NaN is the greatest.
    if descending:
        return tir.Or(b > a, tir.And(tir.isnan(b), tir.Not(tir.isnan(a))))
    return tir.Or(b < a, tir.And(tir.isnan(a), tir.Not(tir.isnan(b))))


# Elements of a run that is sorted by counting: 64 rows of 256 take 0.19 ms (of 32 0.21, of 64 0.31;
# merged from single elements 0.78).
_RUN = 16


def _lanes(ib: IRBuilder, n: int) -> Any:
    return ib.for_range(0, n, "k", dtype="int64", kind="vectorize")


def _sort_runs(
    ib: IRBuilder,
    size: PrimExpr,
    keys: BufferVar,
    order: BufferVar | None,
    descending: bool,
    start: PrimExpr,
) -> None:
    """Sort each run of _RUN of `size` elements at `start` into the place behind all of them: an element's
    index is the number of those that sort before it, counted in vectors without a branch. Elements after
    the last are compared, too, and ignored."""
    ranks = ib.allocate("int32", _RUN, "ranks")
    with ib.for_range(long(0), tir.floordiv(size + _RUN - 1, _RUN), "run", dtype="int64") as run:
        low = ib.let("low", start + run * _RUN)
        count = ib.let("count", tir.min(start + size - low, long(_RUN)))
        with _lanes(ib, _RUN) as k:
            ranks[k] = const(0, "int32")
        with ib.for_range(long(0), count, "j", dtype="int64") as j, _lanes(ib, _RUN) as k:
            here, other = keys[low + k], keys[low + j]
            stays = tir.And(j < k, tir.Not(_comes_after(other, here, descending)))
            moves = tir.And(j > k, _comes_after(here, other, descending))
            ranks[k] = ranks[k] + cast("int32", tir.Or(stays, moves))
        with ib.for_range(long(0), count, "k", dtype="int64") as k:
            to = ib.let("to", size + low + cast("int64", ranks[k]))
            for buffer in (keys, order):
                if buffer is not None:
                    buffer[to] = buffer[low + k]


def _merge(
    ib: IRBuilder,
    keys: BufferVar,
    order: BufferVar | None,
    runs: tuple[PrimExpr, PrimExpr, PrimExpr, PrimExpr],
    target: PrimExpr,
    length: PrimExpr,
    descending: bool,
) -> None:
    """The first `length` elements of two sorted runs (the start and end of each) in order, at `target`.

    It branches: branch prediction beats selecting (measured on rows of 1000 random floats: 1.3 times
    numpy's stable sort against 2 to 3 times)."""
    low, middle, start, high = runs
    cursor = ib.allocate("int64", 2, "cursor")  # of the left run, of the right one
    cursor[0] = low
    cursor[1] = start
    with ib.for_range(long(0), length, "at", dtype="int64") as at:
        left, right = ib.let("left", cursor[0]), ib.let("right", cursor[1])
        after = _comes_after(keys[left], keys[right], descending)
        both = tir.And(left < middle, right < high)
        from_right = tir.if_then_else(both, after, right < high)

        def take(source: PrimExpr, end: int) -> None:
            keys[target + at] = keys[source]
            if order is not None:
                order[target + at] = order[source]
            cursor[end] = source + 1

        with ib.if_scope(from_right):
            take(right, 1)
        with ib.else_scope():
            take(left, 0)


def _merge_sort(
    ib: IRBuilder,
    size: PrimExpr,
    keys: BufferVar,
    order: BufferVar | None,
    descending: bool,
    start: PrimExpr,
) -> Any:
    """Sort `size` elements of `keys` and `order` (may be None) at `start`, behind which there is room for
    size + _RUN more: runs of _RUN, 2 * _RUN, ... elements are merged from one half to the other. Returns
    the start of the sorted half. Stable."""
    state = ib.allocate("int64", 2, "state")  # length and start of the sorted runs
    _sort_runs(ib, size, keys, order, descending, start)
    state[0] = long(_RUN)
    state[1] = start + size
    with ib.while_loop(state[0] < size):
        width, source = ib.let("width", state[0]), ib.let("source", state[1])
        target = ib.let("target", start * 2 + size - source)
        pairs = tir.floordiv(size + width * 2 - 1, width * 2)
        with ib.for_range(long(0), pairs, "pair", dtype="int64") as pair:
            first = ib.let("first", pair * width * 2)
            low = ib.let("low", source + first)
            middle = ib.let("middle", source + tir.min(first + width, size))
            high = ib.let("high", source + tir.min(first + width * 2, size))
            runs = (low, middle, middle, high)
            _merge(ib, keys, order, runs, target + first, high - low, descending)
        state[0] = width * 2
        state[1] = target
    return state[1]


_GROUP = 16  # elements that are compared at once; of 32, few results took 1.4 times as long


def _next_group(
    ib: IRBuilder,
    size: PrimExpr,
    at: PrimExpr,
    read: Callable[[PrimExpr], PrimExpr],
    chosen: Callable[[PrimExpr], PrimExpr],
    bounded: PrimExpr,
    hit: Callable[[PrimExpr, PrimExpr], None],
) -> None:
    """`hit(value, index)` for the elements of the group at `at` if one of them is `chosen`, or until it is
    `bounded`. Most groups have none, which vectors of comparisons find."""
    hits = ib.allocate("int32", _GROUP, "hits")
    alone = tir.Or(tir.Not(bounded), at + _GROUP > size)
    hits[0] = cast("int32", alone)
    with ib.if_scope(tir.Not(alone)):
        with _lanes(ib, _GROUP) as k:
            hits[k] = cast("int32", chosen(read(at + k)))
        for half in (8, 4, 2, 1):
            with _lanes(ib, half) as k:
                hits[k] = hits[k] + hits[k + half]
    some = tir.min(long(_GROUP), size - at)
    with ib.if_scope(hits[0] > 0), ib.for_range(long(0), some, "k", dtype="int64") as k:
        hit(ib.let("value", read(at + k)), at + k)


# Results up to which each is inserted where it belongs: of 64 rows of 1,000, the first 8 take 52 us
# (collected and sorted 62), 16 take 86 (93), but 24 take 208 (117).
_INSERTED = 16


def _insert(
    ib: IRBuilder,
    size: PrimExpr,
    read: Callable[[PrimExpr], PrimExpr],
    count: int,
    keys: BufferVar,
    order: BufferVar | None,
    descending: bool,
) -> Any:
    """As _select, for few results: each element that sorts before the last of them is inserted."""
    state = ib.allocate("int64", 3, "scan")  # elements visited, results, where to insert
    buffers = [b for b in (keys, order) if b is not None]
    state[0] = long(0)
    state[1] = long(0)
    # Read only once there is one, which C compilers cannot see.
    keys[count - 1] = const(0, keys.dtype)

    chosen = lambda value: _comes_after(keys[count - 1], value, descending)  # noqa: E731

    def hit(value: PrimExpr, index: PrimExpr) -> None:
        with ib.if_scope(tir.Or(state[1] < count, chosen(value))):
            state[2] = tir.min(state[1], long(count - 1))
            state[1] = tir.min(state[1] + 1, long(count))
            previous = keys[tir.max(state[2] - 1, long(0))]
            with ib.while_loop(tir.And(state[2] > 0, _comes_after(previous, value, descending))):
                for buffer in buffers:
                    buffer[state[2]] = buffer[state[2] - 1]
                state[2] = state[2] - 1
            keys[state[2]] = value
            if order is not None:
                order[state[2]] = cast(order.dtype, index)

    with ib.while_loop(state[0] < size):
        bounded = ib.let("bounded", state[1] >= count)
        _next_group(ib, size, ib.let("at", state[0]), read, chosen, bounded, hit)
        state[0] = state[0] + _GROUP
    return long(0)


def _first_of_groups(
    ib: IRBuilder,
    size: PrimExpr,
    read: Callable[[PrimExpr], PrimExpr],
    count: int,
    keys: BufferVar,
    bound: BufferVar,
    descending: bool,
) -> bool:
    """Write a bound that `count` elements or more do not sort after, where that pays: of 2 `count` groups the
    elements that sort first, and of these the one at `count`. Of random elements 1.4 times `count` are left."""
    groups = -(-2 * count // _GROUP) * _GROUP
    length = size.value // groups if isinstance(size, IntImm) else 0
    if not 4 <= length <= 64:  # a row of 640 times `count` has had a bound as good soon enough
        return False
    with (
        ib.for_range(long(0), long(length), "r", dtype="int64") as r,
        ib.for_range(long(0), long(groups // _GROUP), "g", dtype="int64") as g,
        _lanes(ib, _GROUP) as k,
    ):
        at = g * _GROUP + k
        value, first = read(r * groups + at), keys[at]
        before = tir.Or(r < 1, _comes_after(first, value, descending))
        keys[at] = tir.Select(before, value, first)
    bound[0] = keys[_merge_sort(ib, long(groups), keys, None, descending, long(0)) + (count - 1)]
    return True


def _select(
    ib: IRBuilder,
    size: PrimExpr,
    read: Callable[[PrimExpr], PrimExpr],
    count: int,
    keys: BufferVar,
    order: BufferVar | None,
    descending: bool,
) -> Any:
    """Sort the first `count` elements of a row of `size`; returns their start in `keys` and `order`.
    Elements that sort before the last of those so far are collected behind two places for the results;
    each time that `count` are, they are sorted and merged with those so far from one place to the other.
    Before the first time, elements do not sort after a bound from `_first_of_groups`."""
    state = ib.allocate("int64", 4, "scan")  # elements visited, candidates, results and their start
    bound, start = ib.allocate(keys.dtype, 1, "bound"), long(2 * count)
    state[0] = long(0)
    state[2] = long(0)
    state[3] = long(0)
    bound[0] = const(0, keys.dtype)  # read only once there is one, which C compilers cannot see
    estimated = _first_of_groups(ib, size, read, count, keys, bound, descending)
    with ib.while_loop(state[0] < size):
        started = ib.let("started", state[2] > 0)
        bounded = const(True, "bool") if estimated else started
        state[1] = long(0)

        def chosen(value: PrimExpr, started: PrimExpr = started) -> Any:
            before = _comes_after(bound[0], value, descending)
            if not estimated:
                return before
            ties = tir.And(tir.Not(started), tir.Not(_comes_after(value, bound[0], descending)))
            return tir.Or(before, ties)

        def hit(value: PrimExpr, index: PrimExpr) -> None:
            with ib.if_scope(tir.Or(tir.Not(bounded), chosen(value))):
                end = ib.let("end", state[1])
                keys[start + end] = value
                if order is not None:
                    order[start + end] = cast(order.dtype, index)
                state[1] = end + 1

        with ib.while_loop(tir.And(state[0] < size, state[1] < count)):
            _next_group(ib, size, ib.let("at", state[0]), read, chosen, bounded, hit)
            state[0] = state[0] + _GROUP
        begin = ib.let("begin", _merge_sort(ib, state[1], keys, order, descending, start))
        low, results = ib.let("low", state[3]), ib.let("results", state[2])
        target = ib.let("target", count - low)
        runs = (low, low + results, begin, begin + state[1])
        _merge(ib, keys, order, runs, target, long(count), descending)
        state[2] = long(count)
        state[3] = target
        bound[0] = keys[target + (count - 1)]
    return state[3]


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
            if count is None or (isinstance(size, IntImm) and size.value <= 2 * count):
                select, room = None, size * 2 + _RUN
            elif count <= _INSERTED:
                select, room = _insert, long(count)
            else:
                select, room = _select, long(2 * count + 2 * (count + _GROUP) + _RUN)
            keys = ib.allocate(kind, room, "keys")
            order = None if indices is None else ib.allocate(dtype, room, "order")
            if select is None or count is None:
                with ib.for_range(long(0), size, "k", dtype="int64") as k:
                    keys[k] = read(k)
                    if order is not None:
                        order[k] = cast(dtype, k)
                begin = _merge_sort(ib, size, keys, order, descending, long(0))
            else:
                begin = select(ib, size, read, count, keys, order, descending)
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


def _along_memory(operator: Operator) -> None:
    """Transpose operands that are sorted along another axis than the last: an element of each cache line that
    a column reads is used, and tiles are transposed in registers (the 4 greatest of each column of 256 x
    256: 150 to 117 us)."""

    @operator.legalize
    def _(bb, call):
        data, attrs = call.args[0], operator.attrs_of(call)
        shape = data.struct_info.get_shape() or ()
        which = normalize_axis(attrs["axis"], len(shape)) if shape else 0
        if all(is_one(d) for d in shape[which + 1 :]):
            return operator._legalize(bb, call)
        swapped = list(range(len(shape)))
        swapped[which], swapped[-1] = swapped[-1], which
        rows = bb.emit(R.permute_dims(data, swapped))
        out = bb.emit(operator.builder(rows, **(attrs | {"axis": -1})))
        if not isinstance(out.struct_info, TupleStructInfo):
            return R.permute_dims(out, swapped)
        fields = [bb.emit(TupleGetItem(out, k)) for k in range(len(out.struct_info.fields))]
        return Tuple([bb.emit(R.permute_dims(f, swapped)) for f in fields])


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
_along_memory(sort)
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
_along_memory(argsort)
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


_along_memory(topk)
topk.samples(
    case((3, 9), k=3, dtype="int32"),
    case(("n", 6, 2), k=2, axis=1, largest=False, dtype="int64"),
    case(_TIES, k=4, dtype="int32"),
    case(_SPECIAL, k=2, ret_type="indices", dtype="int32"),
    case((4, 5), k=0, axis=0, ret_type="values", dtype="int32"),
)
