"""Eigenvalues and singular values of batches of small matrices, by Jacobi's rotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tir
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const
from ..tir.ir_builder import BufferVar, IRBuilder
from .core import case, op
from .linalg import DEFINITE, by_matrix, copied, each, smaller, span, square
from .params import Tensor
from .statements import long

_SWEEPS = 30  # Jacobi's method converges quadratically: about 6 to 10 are needed


def _rotation(ib: IRBuilder, p: PrimExpr, q: PrimExpr, r: PrimExpr) -> tuple[Any, Any]:
    """Cosine and sine of the rotation that makes [[p, r], [r, q]] diagonal, by the smaller angle."""
    one = const(1, p.dtype)
    theta = ib.let("theta", (q - p) / (r + r))
    size = one / (tir.abs(theta) + tir.sqrt(theta * theta + one))
    tangent = ib.let(
        "tangent", tir.Select(theta < const(0, p.dtype), const(0, p.dtype) - size, size)
    )
    cosine = ib.let("cosine", one / tir.sqrt(tangent * tangent + one))
    return cosine, ib.let("sine", tangent * cosine)


def _rotate(
    ib: IRBuilder, matrix: Any, count: PrimExpr, first: Callable[..., Any], second: Callable[..., Any],
    by: tuple[Any, Any],
) -> None:  # fmt: skip
    """Rotate two rows or columns of a matrix, whose elements are at first(k) and second(k)."""
    cosine, sine = by
    with span(ib, 0, count, "k") as k:
        a, b = ib.let("a", matrix[first(k)]), ib.let("b", matrix[second(k)])
        matrix[first(k)] = cosine * a - sine * b
        matrix[second(k)] = sine * a + cosine * b


def _unit(ib: IRBuilder, matrix: Any, n: PrimExpr, dtype: Any) -> None:
    with span(ib, 0, n, "i") as i, span(ib, 0, n, "j") as j:
        matrix[i, j] = cast(dtype, i.equal(j))


def _order(ib: IRBuilder, values: Any, n: PrimExpr, order: BufferVar, descending: bool) -> None:
    """The order of values, by selection."""
    with span(ib, 0, n, "i") as i:
        order[i] = i
    with span(ib, 0, n, "i") as i, span(ib, i + 1, n, "j") as j:
        a, b = values(order[i]), values(order[j])
        with ib.if_scope(b > a if descending else b < a):
            saved = ib.let("saved", order[i])
            order[i] = order[j]
            order[j] = saved


def _sweep(
    ib: IRBuilder, n: PrimExpr, rotate: Callable[[PrimExpr, PrimExpr], PrimExpr], body
) -> None:
    """`body(p, q)` for all pairs of columns of which rotate(p, q) holds, until it holds of none."""
    count, again = ib.allocate("int64", 1, "count"), ib.allocate("bool", 1, "again")
    count[0] = long(0)
    again[0] = const(True, "bool")
    with ib.while_loop(tir.all(again[0], count[0] < _SWEEPS)):
        count[0] = count[0] + 1
        again[0] = const(False, "bool")
        with span(ib, 0, n, "p") as p, span(ib, p + 1, n, "q") as q, ib.if_scope(rotate(p, q)):
            again[0] = const(True, "bool")
            body(p, q)


def _epsilon(dtype: Any) -> Any:
    return const(float(np.finfo(str(dtype)).eps), dtype)


@op("relax.linalg.eigh", alone=True)
def eigh(x: Tensor):
    """The eigenvalues of symmetric matrices, in ascending order, and their vectors as columns, of which the
    element of the greatest absolute value is positive; by Jacobi's rotations, from the lower triangle."""
    n, zero = square(x, "eigh"), const(0, x.dtype)

    def write(ib, matrix, values, vectors):
        a, v = (ib.allocate(x.dtype, [n, n], name) for name in ("rows", "basis"))
        order, best = ib.allocate("int64", [n], "order"), ib.allocate(x.dtype, 1, "best")
        with span(ib, 0, n, "i") as i, span(ib, 0, n, "j") as j:
            a[i, j] = matrix[tir.max(i, j), tir.min(i, j)]
        _unit(ib, v, n, x.dtype)

        def apart(p, q):
            least = _epsilon(x.dtype) * tir.sqrt(tir.abs(a[p, p] * a[q, q]))
            return tir.abs(a[p, q]) > tir.max(
                least, const(1e-300 if x.dtype.bits == 64 else 1e-37, x.dtype)
            )

        def body(p, q):
            by = _rotation(ib, a[p, p], a[q, q], a[p, q])
            _rotate(ib, a, n, lambda k: (k, p), lambda k: (k, q), by)
            _rotate(ib, a, n, lambda k: (p, k), lambda k: (q, k), by)
            _rotate(ib, v, n, lambda k: (k, p), lambda k: (k, q), by)

        _sweep(ib, n, apart, body)
        _order(ib, lambda k: a[k, k], n, order, False)
        with span(ib, 0, n, "j") as j:
            column = ib.let("column", order[j])
            values[j] = a[column, column]
            best[0] = zero
            with span(ib, 0, n, "i") as i, ib.if_scope(tir.abs(v[i, column]) > tir.abs(best[0])):
                best[0] = v[i, column]
            with span(ib, 0, n, "i") as i:
                vectors[i, j] = tir.Select(best[0] < zero, zero - v[i, column], v[i, column])

    return each("eigh", [x], {"values": (x.dtype, n), "vectors": (x.dtype, n, n)}, write)


@eigh.numpy
@by_matrix("(n,n)->(n),(n,n)")
def _(x):
    values, vectors = np.linalg.eigh(np.tril(x) + np.tril(x, -1).T)
    best = np.take_along_axis(vectors, abs(vectors).argmax(0)[None], 0)
    return values, vectors * np.where(best < 0, -1.0, 1.0)


eigh.samples(case(DEFINITE), case((2, 4, 4)), case(np.array([[[2.0]]])), case(("n", 3, 3)))


@op("relax.linalg.svd", alone=True)
def svd(x: Tensor):
    """U (..., m, k), the singular values (..., k) in descending order, and V^T (..., k, n), k = min(m, n), by
    Jacobi's rotations of columns (Hestenes). The element of the greatest absolute value of a row of V^T is
    positive; a column of U whose value is 0 is 0."""
    *_, m, n = x.shape
    size, zero = smaller(m, n), const(0, x.dtype)

    def write(ib, matrix, left, values, right):
        u, v = ib.allocate(x.dtype, [m, n], "columns"), ib.allocate(x.dtype, [n, n], "basis")
        order, norms = ib.allocate("int64", [n], "order"), ib.allocate(x.dtype, [n], "norms")
        sums, best = ib.allocate(x.dtype, 4, "sums"), ib.allocate(x.dtype, 1, "best")
        copied(ib, matrix, u, m, n)
        _unit(ib, v, n, x.dtype)
        sums[3] = zero
        with span(ib, 0, m, "i") as i, span(ib, 0, n, "j") as j:
            sums[3] = sums[3] + u[i, j] * u[i, j]

        def products(p, q):
            for k in range(3):
                sums[k] = zero
            with span(ib, 0, m, "i") as i:
                for k, (a, b) in enumerate([(p, p), (q, q), (p, q)]):
                    sums[k] = sums[k] + u[i, a] * u[i, b]
            least = tir.max(tir.sqrt(sums[0]) * tir.sqrt(sums[1]), _epsilon(x.dtype) * sums[3])
            return tir.abs(sums[2]) > _epsilon(x.dtype) * least

        def body(p, q):
            by = _rotation(ib, sums[0], sums[1], sums[2])
            _rotate(ib, u, m, lambda k: (k, p), lambda k: (k, q), by)
            _rotate(ib, v, n, lambda k: (k, p), lambda k: (k, q), by)

        _sweep(ib, n, products, body)
        with span(ib, 0, n, "j") as j:
            norms[j] = zero
            with span(ib, 0, m, "i") as i:
                norms[j] = norms[j] + u[i, j] * u[i, j]
        _order(ib, lambda k: norms[k], n, order, True)
        with span(ib, 0, size, "j") as j:
            column = ib.let("column", order[j])
            value = ib.let("value", tir.sqrt(norms[column]))
            values[j] = value
            best[0] = zero
            with span(ib, 0, n, "i") as i, ib.if_scope(tir.abs(v[i, column]) > tir.abs(best[0])):
                best[0] = v[i, column]
            sign = ib.let("sign", tir.Select(best[0] < zero, const(-1, x.dtype), const(1, x.dtype)))
            with span(ib, 0, n, "i") as i:
                right[j, i] = v[i, column] * sign
            divisor = ib.let("divisor", tir.Select(value > zero, value, const(1, x.dtype)) * sign)
            with span(ib, 0, m, "i") as i:
                left[i, j] = u[i, column] / divisor

    results = {"u": (x.dtype, m, size), "s": (x.dtype, size), "vt": (x.dtype, size, n)}
    return each("svd", [x], results, write)


@svd.numpy
@by_matrix("(m,n)->(m,k),(k),(k,n)")
def _(x):
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    best = np.take_along_axis(vt, abs(vt).argmax(1)[:, None], 1)
    sign = np.where(best < 0, -1.0, 1.0)
    return u * sign[:, 0], s, vt * sign


svd.samples(case((3, 3)), case((2, 4, 3)), case(("n", 2, 4)))
