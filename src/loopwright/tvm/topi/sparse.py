"""topi's products with sparse matrices, given by rows: the values, their columns, and where each row
begins (CSR); or blocks of values in their place (BSR)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from ... import te
from ...ops.overlap import rows
from ...ops.statements import long, loops, written
from ...te.tensor import Tensor
from ...tir.ir_builder import BufferVar, IRBuilder
from .utils import simplify


def sparse_dense(
    dense_data: Tensor, sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor,
    sparse_lhs: bool = False,
) -> Tensor:  # fmt: skip
    """dense @ sparse.T, or sparse @ dense.T with `sparse_lhs`."""
    blocks = sparse_data.ndim == 3
    high, wide = sparse_data.shape[1:] if blocks else (long(1), long(1))
    count, others = simplify(sparse_indptr.shape[0] - 1), dense_data.shape[0]

    def write(ib: IRBuilder, *buffers: BufferVar) -> None:
        x, values, columns, begin, out = buffers
        with ExitStack() as stack:
            i, row, j = loops(ib, stack, [others, count, high], parallel=True)
            total = ib.allocate(dense_data.dtype, 1, "total")
            total[0] = te.const(0, dense_data.dtype)
            first = begin[row].astype("int64")
            length = begin[row + 1].astype("int64") - first
            with rows(ib, length, "e") as e, rows(ib, wide, "c") as c:
                at = first + e
                value = values[at, j, c] if blocks else values[at]
                total[0] = total[0] + value * x[i, columns[at].astype("int64") * wide + c]
            column = row * high + j
            out[(column, i) if sparse_lhs else (i, column)] = total[0]

    size = simplify(count * high)
    shape = (size, others) if sparse_lhs else (others, size)
    inputs = [dense_data, sparse_data, sparse_indices, sparse_indptr]
    return written([shape], inputs, write, [dense_data.dtype], "sparse_dense")


def sparse_transpose(
    sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor
) -> list[Tensor]:
    """The transposed matrix (CSR) of a square one: values, columns, and where each row begins."""
    count, kind = simplify(sparse_indptr.shape[0] - 1), sparse_indptr.dtype
    one = te.const(1, kind)

    def write(ib: IRBuilder, values: Any, columns: Any, begin: Any, *results: Any) -> None:
        out, positions, starts = results
        with rows(ib, count + 1, "i") as i:
            starts[i] = te.const(0, kind)
        with rows(ib, sparse_data.shape[0], "e") as e:
            column = columns[e].astype("int64")
            starts[column + 1] = starts[column + 1] + one
        with rows(ib, count, "i") as i:
            starts[i + 1] = starts[i + 1] + starts[i]
        free = ib.allocate(kind, count, "free")
        with rows(ib, count, "i") as i:
            free[i] = starts[i]
        with rows(ib, count, "i") as i:
            first = begin[i].astype("int64")
            with rows(ib, begin[i + 1].astype("int64") - first, "e") as e:
                column = ib.let("column", columns[first + e].astype("int64"))
                out[free[column]] = values[first + e]
                positions[free[column]] = i.astype(sparse_indices.dtype)
                free[column] = free[column] + one

    inputs = [sparse_data, sparse_indices, sparse_indptr]
    shapes, kinds = [t.shape for t in inputs], [t.dtype for t in inputs]
    return list(written(shapes, inputs, write, kinds, "sparse_transpose"))


def sparse_add(
    dense_data: Tensor, sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor
) -> Tensor:
    """dense + sparse (CSR)."""
    count, wide = dense_data.shape

    def write(ib: IRBuilder, *buffers: BufferVar) -> None:
        x, values, columns, begin, out = buffers
        with ExitStack() as stack:
            (i,) = loops(ib, stack, [count], parallel=True)
            with rows(ib, wide, "j") as j:
                out[i, j] = x[i, j]
            first = begin[i].astype("int64")
            with rows(ib, begin[i + 1].astype("int64") - first, "e") as e:
                column = ib.let("column", columns[first + e].astype("int64"))
                out[i, column] = out[i, column] + values[first + e]

    inputs = [dense_data, sparse_data, sparse_indices, sparse_indptr]
    return written([dense_data.shape], inputs, write, [dense_data.dtype], "sparse_add")
