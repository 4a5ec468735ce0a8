"""topi's searches, whose results depend on values: nonzero elements, distinct values, sorted
positions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from ... import te, tir
from ...base.errors import explain
from ...ir.prim_expr import PrimExpr
from ...ops import OPERATORS
from ...ops.statements import loops, written
from ...te.tensor import Tensor
from ...tir.expr import BufferLoad
from ...tir.ir_builder import BufferVar, IRBuilder


def argwhere(output_shape: Tensor, condition: Tensor) -> Tensor:
    """The positions of the elements that are not 0, in order, one a row: the number of rows is in
    the tensor `output_shape`."""

    def write(ib: IRBuilder, x: BufferVar, out: BufferVar) -> None:
        count = ib.allocate("int32", (1,), "count")
        count[0] = te.const(0, "int32")
        with ExitStack() as stack:
            at = loops(ib, stack, list(condition.shape), parallel=False)
            room = count[0] < output_shape.shape[0]
            stack.enter_context(
                ib.if_scope(tir.all(x[tuple(at)] != te.const(0, condition.dtype), room))
            )
            for n, i in enumerate(at):
                out[count[0], n] = i.astype("int32")
            count[0] = count[0] + 1

    return written([output_shape.shape], [condition], write, "int32", "argwhere")


def binary_search(
    ib: IRBuilder, sequence_offset: PrimExpr | int, search_range: PrimExpr | int,
    sorted_sequence: BufferVar, value: BufferLoad, right: bool, out_dtype: str,
) -> Any:  # fmt: skip
    """Statements that find where `value` belongs in the `search_range` elements of a flat buffer from
    `sequence_offset` on. Returns the place, from 0; after equal elements with `right`."""
    low, high = (ib.allocate(out_dtype, (1,), name) for name in ("lo", "hi"))
    low[0], high[0] = te.const(0, out_dtype), tir.Cast(out_dtype, te.const(search_range, out_dtype))
    with ib.while_loop(low[0] < high[0]):
        middle = low[0] + ((high[0] - low[0]) >> 1)
        element = sorted_sequence[sequence_offset + middle]
        with ib.if_scope(element <= value if right else element < value):
            low[0] = middle + 1
        with ib.else_scope():
            high[0] = middle
    return low[0]


def searchsorted(
    sorted_sequence: Tensor, values: Tensor, right: bool = False, out_dtype: str = "int64"
) -> Tensor:
    """Where each value would be inserted to keep a vector in order (with `right` after equal ones);
    of several vectors, the one in the same row."""
    if sorted_sequence.ndim not in (1, values.ndim):
        what = "searchsorted takes a vector, or one for each row of the values"
        raise ValueError(explain(what, got=f"{sorted_sequence.ndim} and {values.ndim} axes"))
    k = te.reduce_axis((0, sorted_sequence.shape[-1]), name="k")
    one, none = te.const(1, out_dtype), te.const(0, out_dtype)

    def count(*i: PrimExpr) -> Any:
        bound = sorted_sequence(*(i[:-1] if sorted_sequence.ndim > 1 else ()), k)
        before = bound <= values(*i) if right else bound < values(*i)
        return te.sum(tir.Select(before, one, none), axis=k)

    return te.compute(values.shape, count, name="searchsorted")


def unique(data: Tensor, is_sorted: bool = True, return_counts: bool = False) -> list[Tensor]:
    """The distinct values of a vector: [values, the first position of each, the distinct value's
    number of each element, how many distinct values there are (1 element), and their counts].
    Values are in order, or in that of their first positions. Elements after the last one are not
    written."""
    size = data.shape[0]
    order = OPERATORS["relax.argsort"](data, axis=0, descending=False, dtype="int32")

    def write(ib: IRBuilder, x: BufferVar, by_value: BufferVar, *results: BufferVar) -> None:
        values, positions, number, total = results[:4]
        first = ib.allocate(
            "int32", (size,), "first"
        )  # of each element: where its value came first
        begin = ib.allocate("int32", (1,), "begin")
        with ib.for_range(0, size, "i") as i:
            here = by_value[i]
            with ib.if_scope(tir.any(i < 1, x[here] != x[by_value[tir.max(i - 1, 0)]])):
                begin[0] = here
            first[here] = begin[0]
        total[0] = te.const(0, "int32")
        with ib.for_range(0, size, "i") as i:
            here = by_value[i] if is_sorted else i.astype("int32")
            with ib.if_scope(first[here].equal(here)):
                values[total[0]] = x[here]
                positions[total[0]] = here
                number[here] = total[0]
                if return_counts:
                    results[4][total[0]] = te.const(0, "int32")
                total[0] = total[0] + 1
        with ib.for_range(0, size, "i") as i:
            number[i] = number[first[i]]
            if return_counts:
                results[4][number[i]] = results[4][number[i]] + 1

    shapes = [data.shape, data.shape, data.shape, (1,), *[data.shape] * return_counts]
    kinds = [data.dtype, *["int32"] * (3 + return_counts)]
    return list(written(shapes, [data, order], write, kinds, "unique"))


def sparse_reshape(
    sparse_indices: Tensor, prev_shape: Tensor, new_shape: Tensor,
    new_sparse_indices_shape: Sequence[int], new_shape_shape: Sequence[int],
) -> list[Tensor]:  # fmt: skip
    """The positions of a sparse tensor's elements, one a row, in another shape (with -1 for an extent
    that follows from the others), and that shape."""
    old, new = prev_shape.shape[0], new_shape.shape[0]
    kind = prev_shape.dtype

    def write(ib: IRBuilder, *buffers: BufferVar) -> None:
        indices, before, after, moved, shape = buffers
        flat, product = (ib.allocate(kind, (1,), name) for name in ("flat", "known"))
        flat[0] = product[0] = te.const(1, kind)
        with ib.for_range(0, old, "d") as d:
            flat[0] = flat[0] * before[d]
        with ib.for_range(0, new, "d") as d, ib.if_scope(after[d] >= 0):
            product[0] = product[0] * after[d]
        with ib.for_range(0, new, "d") as d:
            shape[d] = tir.if_then_else(after[d] >= 0, after[d], flat[0] // tir.max(product[0], 1))
        with ib.for_range(0, sparse_indices.shape[0], "row") as row:
            flat[0] = te.const(0, kind)
            with ib.for_range(0, old, "d") as d:
                flat[0] = flat[0] * before[d] + indices[row, d].astype(kind)
            with ib.for_range(0, new, "d") as d:
                back = new - 1 - d
                moved[row, back] = (flat[0] % shape[back]).astype(sparse_indices.dtype)
                flat[0] = flat[0] // shape[back]

    kinds = [sparse_indices.dtype, kind]
    shapes = [new_sparse_indices_shape, new_shape_shape]
    inputs = [sparse_indices, prev_shape, new_shape]
    return list(written(shapes, inputs, write, kinds, "sparse_reshape"))


def sparse_to_dense(
    sparse_indices: Tensor,
    output_shape: Sequence[int],
    sparse_values: Tensor,
    default_value: Tensor | float = 0,
) -> Tensor:
    """A tensor with `sparse_values` at the positions of `sparse_indices` (one a row; a vector or number
    for a result of one axis), and `default_value` elsewhere."""
    kind = sparse_values.dtype
    default_is_tensor = isinstance(default_value, te.Tensor)

    def write(ib: IRBuilder, indices: BufferVar, values: BufferVar, *others: BufferVar) -> None:
        out = others[-1]
        with ExitStack() as stack:
            at = loops(ib, stack, list(output_shape), parallel=False)
            out[tuple(at)] = others[0][()] if default_is_tensor else te.const(default_value, kind)
        count = 1 if sparse_indices.ndim == 0 else sparse_indices.shape[0]
        with ib.for_range(0, count, "n") as n:
            if sparse_indices.ndim == 2:
                columns = range(len(output_shape))
                index = tuple(indices[n, c] for c in columns)
            else:
                index = (indices[n] if sparse_indices.ndim else indices[()],)
            out[index] = values[n] if sparse_values.ndim else values[()]

    inputs = [sparse_indices, sparse_values, *([default_value] if default_is_tensor else [])]
    return written([tuple(output_shape)], inputs, write, kind, "sparse_to_dense")
