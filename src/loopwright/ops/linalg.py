"""Dense linear algebra: factorizations of batches of matrices (..., m, n), and what they solve.

Results are LAPACK's, packed and numbered as there. All work in the type of the matrix: for a few more digits,
cast it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const, minimum
from ..tir.ir_builder import BufferVar, IRBuilder
from .common import accumulator, shape_of, shape_text
from .core import case, op
from .extents import differ, shorter, simplify, text
from .params import Prim, Tensor
from .statements import long, loops, written


class _Matrix:
    """One matrix, or row, of a batch."""

    def __init__(self, batch: BufferVar, at: Sequence[PrimExpr]) -> None:
        self.batch, self.at = batch, tuple(at)

    def __getitem__(self, index: Any) -> Any:
        return self.batch[(*self.at, *(index if isinstance(index, tuple) else (index,)))]

    def __setitem__(self, index: Any, value: PrimExpr) -> None:
        self.batch[(*self.at, *(index if isinstance(index, tuple) else (index,)))] = value


def each(
    name: str, inputs: list[Any], results: dict[str, Sequence[Any]], write: Callable[..., None]
) -> list[Any]:
    """The results of `write(ib, *matrices)` for each matrix of the inputs; results: the type of each,
    and its shape without the batch's axes."""
    lead = list(inputs[0].shape[:-2])

    def body(ib: IRBuilder, *batches: BufferVar) -> None:
        with ExitStack() as stack:
            at = loops(ib, stack, lead, parallel=True)
            write(ib, *(_Matrix(b, at) for b in batches))

    shapes = [(*lead, *dims) for _, *dims in results.values()]
    out = written(shapes, inputs, body, [kind for kind, *_ in results.values()], name)
    return list(out) if len(shapes) > 1 else out


@contextmanager
def span(ib: IRBuilder, begin: Any, end: PrimExpr, name: str) -> Iterator[Any]:
    """A loop from `begin` up to `end`."""
    with ib.for_range(long(0), simplify(end - begin), name, dtype="int64") as i:
        yield i if isinstance(begin, int) and begin == 0 else begin + i


def copied(ib: IRBuilder, source: Any, target: Any, rows: PrimExpr, columns: PrimExpr) -> None:
    with span(ib, 0, rows, "i") as i, span(ib, 0, columns, "j") as j:
        target[i, j] = source[i, j]


def square(x: Any, name: str) -> PrimExpr:
    """The extent of square matrices. Raises ValueError for others."""
    *_, n, other = x.shape
    if differ(other, n):
        raise ValueError(explain(f"{name} is of square matrices", got=shape_text(x.shape)))
    return n


def smaller(m: PrimExpr, n: PrimExpr) -> PrimExpr:
    return simplify(minimum(m, n))


def by_matrix(signature: str) -> Callable[..., Any]:
    """numpy's meaning of a batch from that of one matrix in float64; signature: as `np.vectorize` has it."""
    ranks = [part.count(",") + 1 for part in signature.split("->")[0].split("),(")]

    def decorate(meaning: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arrays: np.ndarray[Any, Any], **attrs: Any) -> Any:
            lead = arrays[0].shape[: -ranks[0]]
            count = math.prod(lead)
            rows = [  # of an empty batch the results' shapes are those of one matrix
                np.resize(a.astype(np.float64), (max(count, 1), *a.shape[a.ndim - r :]))
                for a, r in zip(arrays, ranks, strict=True)
            ]
            out = np.vectorize(partial(meaning, **attrs), signature=signature)(*rows)

            def shaped(y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
                y = y.astype(arrays[0].dtype) if y.dtype.kind == "f" else y
                return y[:count].reshape((*lead, *y.shape[1:]))

            return tuple(map(shaped, out)) if isinstance(out, tuple) else shaped(out)

        return run

    return decorate


# ---------------------------------------------------------------- elimination


def _loop(ib: IRBuilder, extent: PrimExpr, name: str) -> Any:
    return ib.for_range(long(0), extent, name, dtype="int64")


def _pivot(
    ib: IRBuilder, rows: BufferVar, best: BufferVar, step: PrimExpr, shape: tuple[Any, Any]
) -> Any:
    """The greatest number of a column in the rows from `step` on, whose row (`best`) is exchanged with
    that one."""
    count, width = shape
    best[0] = step
    with _loop(ib, count - step - 1, "i") as i:
        row = step + 1 + i
        with ib.if_scope(tir.abs(rows[row, step]) > tir.abs(rows[best[0], step])):
            best[0] = row
    pivot = ib.let("pivot", rows[best[0], step])
    with _loop(ib, width, "j") as j:
        saved = ib.let("held", rows[best[0], j])
        rows[best[0], j] = rows[step, j]
        rows[step, j] = saved
    return pivot


@op("relax.linalg.inv", alone=True)
def inv(x: Tensor):
    """The inverses of square matrices (..., n, n), by elimination with the greatest pivot; of one that has
    none, numbers that are not finite."""
    *lead, n, other = x.shape
    if differ(other, n):
        raise ValueError(explain("inv is of square matrices", got=shape_text(x.shape)))
    wide = accumulator(x.dtype)

    def write(ib, matrix, out):
        with ExitStack() as stack:
            at = loops(ib, stack, lead, parallel=True)
            rows, best = ib.allocate(wide, [n, 2 * n], "rows"), ib.allocate("int64", 1, "best")
            loop = partial(_loop, ib)
            with loop(n, "i") as i, loop(n, "j") as j:
                rows[i, j] = cast(wide, matrix[(*at, i, j)])
                rows[i, n + j] = cast(wide, i.equal(j))
            with loop(n, "step") as step:
                pivot = _pivot(ib, rows, best, step, (n, 2 * n))
                with loop(2 * n, "j") as j:
                    rows[step, j] = rows[step, j] / pivot
                with loop(n, "i") as i, ib.if_scope(i != step):
                    factor = ib.let("factor", rows[i, step])
                    with loop(2 * n, "j") as j:
                        rows[i, j] = rows[i, j] - factor * rows[step, j]
            with loop(n, "i") as i, loop(n, "j") as j:
                out[(*at, i, j)] = cast(x.dtype, rows[i, n + j])

    return written([(*lead, n, n)], [x], write, [x.dtype], "inv")


_TURNS = np.array([[0, 2, 0], [1, 0, 0], [3, 1, 4]], np.float32)
inv.numpy(lambda x: np.asarray(np.linalg.inv(x.astype(np.float64)).astype(x.dtype)))
inv.samples(case(_TURNS), case(np.stack([[_TURNS], [_TURNS.T]])), case(np.eye(1, dtype=np.float32)))


@op("relax.linalg.det", alone=True)
def det(x: Tensor):
    """The determinants of square matrices (..., n, n), by elimination with the greatest pivot."""
    *lead, n, other = x.shape
    if differ(other, n):
        raise ValueError(explain("det is of square matrices", got=shape_text(x.shape)))
    wide = accumulator(x.dtype)

    def write(ib, matrix, out):
        with ExitStack() as stack:
            at = loops(ib, stack, lead, parallel=True)
            rows = ib.allocate(wide, [n, n], "rows")
            best, total = ib.allocate("int64", 1, "best"), ib.allocate(wide, 1, "total")
            loop = partial(_loop, ib)
            with loop(n, "i") as i, loop(n, "j") as j:
                rows[i, j] = cast(wide, matrix[(*at, i, j)])
            total[0] = const(1, wide)
            with loop(n, "step") as step:
                pivot = _pivot(ib, rows, best, step, (n, n))
                total[0] = total[0] * tir.Select(best[0].equal(step), pivot, -pivot)
                with ib.if_scope(pivot.equal(const(0, wide))):
                    total[0] = const(0, wide)
                with ib.else_scope(), loop(n - step - 1, "i") as i:
                    row = step + 1 + i
                    factor = ib.let("factor", rows[row, step] / pivot)
                    with loop(n - step - 1, "j") as j:
                        column = step + 1 + j
                        rows[row, column] = rows[row, column] - factor * rows[step, column]
            out[tuple(at)] = cast(x.dtype, total[0])

    return written([tuple(lead)], [x], write, [x.dtype], "det")


det.numpy(lambda x: np.asarray(np.linalg.det(x.astype(np.float64)).astype(x.dtype)))
det.samples(
    case((3, 3)), case((2, 1, 4, 4)), case(("n", "m", "m")), case(np.ones((2, 2), np.float32))
)


@op("relax.linalg.lu_factor", alone=True)
def lu_factor(x: Tensor):
    """P L U of matrices, by elimination with the greatest pivot (getrf): L, without its diagonal of ones, and
    U in one matrix; the row with which each was exchanged, from 1 on; the first row whose pivot is 0, or 0."""
    *_, m, n = x.shape

    def write(ib, matrix, rows, pivots, info):
        best = ib.allocate("int64", 1, "best")
        copied(ib, matrix, rows, m, n)
        info[()] = const(0, "int32")
        with span(ib, 0, smaller(m, n), "step") as step:
            pivot = _pivot(ib, rows, best, step, (m, n))
            pivots[step] = cast("int32", best[0] + 1)
            singular = pivot.equal(const(0, x.dtype))
            with ib.if_scope(tir.all(singular, info[()].equal(0))):
                info[()] = cast("int32", step + 1)
            with ib.if_scope(tir.Not(singular)), span(ib, step + 1, m, "i") as i:
                rows[i, step] = rows[i, step] / pivot
                with span(ib, step + 1, n, "j") as j:
                    rows[i, j] = rows[i, j] - rows[i, step] * rows[step, j]

    results = {"lu": (x.dtype, m, n), "pivots": ("int32", smaller(m, n)), "info": ("int32",)}
    return each("lu_factor", [x], results, write)


@lu_factor.numpy
@by_matrix("(m,n)->(m,n),(k),()")
def _(x):
    a, pivots, info = x.copy(), np.zeros(min(x.shape), np.int32), 0
    for k in range(min(a.shape)):
        row = k + int(np.argmax(abs(a[k:, k])))
        pivots[k] = row + 1
        a[[k, row]] = a[[row, k]]
        if a[k, k] == 0:
            info = info or k + 1
            continue
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, pivots, np.int32(info)


lu_factor.samples(
    case(_TURNS), case((2, 1, 4, 3)), case(("n", 2, 5)), case(np.ones((3, 3), np.float32))
)


@op("relax.linalg.permutation", alone=True)
def permutation(pivots: Tensor, size: Prim):
    """The order of `size` rows after the exchanges (..., k) of `lu_factor`, as int64: row i is row out[i] of the
    matrix."""
    *lead, count = pivots.shape
    if shorter(size, count):
        what = "permutation: there are more exchanges than rows"
        raise ValueError(explain(what, got=f"{text(count)} of {text(size)}"))

    def write(ib, exchanged, order):
        with ExitStack() as stack:
            at = loops(ib, stack, lead, parallel=True)
            with span(ib, 0, size, "i") as i:
                order[(*at, i)] = i
            with span(ib, 0, count, "k") as k:
                other = tir.checked_index(cast("int64", exchanged[(*at, k)]) - 1, size)
                other = ib.let("other", other)
                saved = ib.let("saved", order[(*at, other)])
                order[(*at, other)] = order[(*at, k)]
                order[(*at, k)] = saved

    return written([(*lead, size)], [pivots], write, ["int64"], "permutation")


@permutation.numpy
def _(pivots, size):
    out = np.tile(np.arange(size), (*pivots.shape[:-1], 1))
    for at in np.ndindex(pivots.shape[:-1]):
        for k, other in enumerate(pivots[at] - 1):
            out[at][[k, other]] = out[at][[other, k]]
    return out


permutation.samples(
    case(np.array([[3, 2, 3], [1, 4, 3]], np.int32), 4), case(np.array([2, 2], np.int64), 2)
)


@op("relax.linalg.cholesky", alone=True)
def cholesky(x: Tensor):
    """L, of which L L^T is a symmetric matrix, from the lower triangle of that (potrf); and the number of the
    first column at which a matrix is not positive definite, else 0."""
    n = square(x, "cholesky")

    def write(ib, matrix, out, info):
        info[()] = const(0, "int32")
        with span(ib, 0, n, "i") as i, span(ib, 0, n, "j") as j:
            out[i, j] = tir.Select(j <= i, matrix[i, j], const(0, x.dtype))
        with span(ib, 0, n, "j") as j, ib.if_scope(info[()].equal(0)):
            with span(ib, 0, j, "k") as k, span(ib, j, n, "i") as i:
                out[i, j] = out[i, j] - out[i, k] * out[j, k]
            with ib.if_scope(out[j, j] > const(0, x.dtype)):
                root = ib.let("root", tir.sqrt(out[j, j]))
                out[j, j] = root
                with span(ib, j + 1, n, "i") as i:
                    out[i, j] = out[i, j] / root
            with ib.else_scope():
                info[()] = cast("int32", j + 1)

    return each("cholesky", [x], {"factor": (x.dtype, n, n), "info": ("int32",)}, write)


@cholesky.numpy
@by_matrix("(n,n)->(n,n),()")
def _(x):
    out, info = np.tril(x), 0
    for j in range(len(x)):
        out[j:, j] -= out[j:, :j] @ out[j, :j]
        if not out[j, j] > 0:
            info = j + 1
            break
        out[j:, j] /= np.sqrt(out[j, j])
    return out, np.int32(info)


DEFINITE = np.array([[4, 9, 9], [2, 5, 9], [-1, 0.5, 3]], np.float32)
cholesky.samples(
    case(DEFINITE), case(np.stack([DEFINITE, -DEFINITE])), case(np.eye(1, dtype=np.float64))
)


@op("relax.linalg.solve_triangular", alone=True)
def solve_triangular(x: Tensor, b: Tensor, upper: bool = False, unit: bool = False):
    """y (..., n, k) with x y = b, of lower triangular matrices x (upper: of upper ones); the other triangle is
    not read, nor the diagonal of `unit` ones, which is 1 (trtrs)."""
    n, columns = square(x, "solve_triangular"), b.shape[-1]
    if len(x.shape) != len(b.shape) or any(map(differ, x.shape[:-1], b.shape[:-1])):
        what = "solve_triangular: b has rows as x has"
        raise ValueError(explain(what, got=f"{shape_text(x.shape)} and {shape_text(b.shape)}"))

    def write(ib, matrix, right, out):
        copied(ib, right, out, n, columns)
        with span(ib, 0, n, "step") as step:
            i = n - 1 - step if upper else step
            others = (i + 1, n) if upper else (0, i)
            with span(ib, *others, "k") as k, span(ib, 0, columns, "j") as j:
                out[i, j] = out[i, j] - matrix[i, k] * out[k, j]
            if not unit:
                with span(ib, 0, columns, "j") as j:
                    out[i, j] = out[i, j] / matrix[i, i]

    return each("solve_triangular", [x, b], {"y": (x.dtype, n, columns)}, write)


@solve_triangular.numpy
@by_matrix("(n,n),(n,k)->(n,k)")
def _(x, b, upper=False, unit=False):
    triangle = np.triu(x) if upper else np.tril(x)
    if unit:
        np.fill_diagonal(triangle, 1)
    return np.linalg.solve(triangle, b)


solve_triangular.samples(
    case(DEFINITE, (3, 2)),
    case(DEFINITE, (3, 2), upper=True),
    case((2, 4, 4), (2, 4, 1), unit=True),
    case(("n", 3, 3), ("n", 3, "m"), upper=True, unit=True),
)


# ---------------------------------------------------------------- reflections


@op("relax.linalg.qr_factor", alone=True)
def qr_factor(x: Tensor):
    """Q R of matrices by Householder's reflections (geqrf): R, and below it the vectors v of the reflections
    1 - tau v v^T, whose first element, 1, is left out; and tau."""
    *_, m, n = x.shape
    zero = const(0, x.dtype)

    def write(ib, matrix, out, tau):
        total = ib.allocate(x.dtype, 1, "total")
        copied(ib, matrix, out, m, n)
        with span(ib, 0, smaller(m, n), "step") as step:
            total[0] = zero
            with span(ib, step + 1, m, "i") as i:
                total[0] = total[0] + out[i, step] * out[i, step]
            with ib.if_scope(total[0].equal(zero)):
                tau[step] = zero
            with ib.else_scope():
                alpha = ib.let("alpha", out[step, step])
                norm = tir.sqrt(alpha * alpha + total[0])
                beta = ib.let("beta", zero - tir.copysign(norm, alpha))  # as LAPACK, for -0 too
                tau[step] = (beta - alpha) / beta
                with span(ib, step + 1, m, "i") as i:
                    out[i, step] = out[i, step] / (alpha - beta)
                out[step, step] = beta
                _reflect(ib, (out, step, m), tau[step], out, (step + 1, n))

    results = {"packed": (x.dtype, m, n), "tau": (x.dtype, smaller(m, n))}
    return each("qr_factor", [x], results, write)


def _reflect(
    ib: IRBuilder, vector: tuple[_Matrix, PrimExpr, PrimExpr], tau: PrimExpr, out: _Matrix,
    columns: tuple[Any, Any],
) -> None:  # fmt: skip
    """Columns of `out` minus tau v v^T times them; vector: the matrix whose column of this number is v, and its
    number of rows."""
    packed, step, rows = vector
    total = ib.allocate(tau.dtype, 1, "product")
    with span(ib, *columns, "j") as j:
        total[0] = out[step, j]
        with span(ib, step + 1, rows, "i") as i:
            total[0] = total[0] + packed[i, step] * out[i, j]
        scaled = ib.let("scaled", total[0] * tau)
        out[step, j] = out[step, j] - scaled
        with span(ib, step + 1, rows, "i") as i:
            out[i, j] = out[i, j] - packed[i, step] * scaled


@qr_factor.numpy
@by_matrix("(m,n)->(m,n),(k)")
def _(x):
    packed, tau = np.linalg.qr(x, mode="raw")
    return packed.T, tau


qr_factor.samples(
    case((3, 3)),
    case((2, 4, 3)),
    case(("n", 2, 3)),
    case(np.eye(3, dtype=np.float32)),
    case(np.array([[-0.0, 1], [2, 3]], np.float32)),
)


@op("relax.linalg.reflect", alone=True)
def reflect(packed: Tensor, tau: Tensor, b: Tensor, transpose: bool = False):
    """Q b, or Q^T b, of the matrix Q of `qr_factor` (ormqr)."""
    *lead, m, n = packed.shape
    count, columns = tau.shape[-1], b.shape[-1]
    fits = len(tau.shape) == len(packed.shape) - 1 and len(b.shape) == len(packed.shape)
    differs = any(map(differ, [*tau.shape[:-1], *b.shape[:-1]], [*lead, *lead, m]))
    if not fits or differs or shorter(smaller(m, n), count):
        what = "reflect: of matrices (..., m, n), tau is (..., k), k at most m and n, and b (..., m, c)"
        shapes = (packed.shape, tau.shape, b.shape)
        raise ValueError(explain(what, got=", ".join(map(shape_text, shapes))))

    def write(ib, vectors, factors, right, out):
        copied(ib, right, out, m, columns)
        with span(ib, 0, count, "t") as t:
            step = t if transpose else count - 1 - t
            _reflect(ib, (vectors, step, m), factors[step], out, (0, columns))

    return each("reflect", [packed, tau, b], {"out": (b.dtype, m, columns)}, write)


@reflect.numpy
@by_matrix("(m,n),(k),(m,c)->(m,c)")
def _(packed, tau, b, transpose=False):
    order = range(len(tau)) if transpose else reversed(range(len(tau)))
    for k in order:
        v = np.concatenate([np.zeros(k), [1], packed[k + 1 :, k]])
        b = b - tau[k] * np.outer(v, v @ b)
    return b


reflect.samples(case((4, 3), (3,), (4, 2)), case((2, 4, 3), (2, 2), (2, 4, 4), transpose=True))


# ---------------------------------------------------------------- errors


@op("relax.linalg.check", alone=True)
def check(x: Tensor, info: Tensor, message: str = "a matrix cannot be factorized"):
    """x; raises the message where a number of `info` is not 0."""
    tensors = [t for t in (x, info) if isinstance(t, te.Tensor)]

    def write(ib, *buffers):
        at_x, at_info = shape_of(x), shape_of(info)
        with ExitStack() as stack:
            at = tuple(loops(ib, stack, at_info, parallel=False))
            code = buffers[len(tensors) - 1][at] if isinstance(info, te.Tensor) else info
            ib.emit(lambda body: tir.AssertStmt(code.equal(0), tir.StringImm(message), body))
        with ExitStack() as stack:
            at = tuple(loops(ib, stack, at_x, parallel=False))
            buffers[-1][at] = buffers[0][at] if isinstance(x, te.Tensor) else x

    return written([tuple(shape_of(x))], tensors, write, [x.dtype], "check")


@check.numpy
def _(x, info, message="a matrix cannot be factorized"):
    if info.any():
        raise ValueError(message)
    return x


check.samples(case((2, 3), np.zeros(2, np.int32)), case((), np.zeros((), np.int32)))
