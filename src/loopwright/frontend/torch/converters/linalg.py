"""Dense linear algebra, in float64. Large matrices are left to LAPACK, which is faster there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ....base.errors import explain
from ....ir.prim_expr import IntImm
from ....relax import op
from ....relax.expr import Expr, ShapeExpr
from ...graph.operators.shapes import axis_of
from ...graph.registry import register_converter
from ..context import Size, Term
from ..context import TorchContext as Context
from ..model import DOMAIN
from ..model import TorchNode as Node
from .table import aten

_LARGE = 128  # extent from which LAPACK's blocks are worth a pass through eager torch
_LARGE_JACOBI = 32  # whose sweeps are about ten times the work of LAPACK's reduction


def _wide(cx: Context, x: Term, most: int = _LARGE) -> Term:
    """Matrices in float64. Raises ValueError for large ones."""
    if any(isinstance(d, IntImm) and d.value > most for d in x.shape[-2:]):
        raise ValueError(explain(f"matrices of more than {most} rows are LAPACK's"))
    return cx.tensor(x, "float64")


def _parts(cx: Context, call: Expr, count: int) -> list[Term]:
    """The results of an operator of several."""
    whole = cx.emit(call)
    return [cx.value(whole[k]) for k in range(count)]


def _transposed(x: Term) -> Term:
    return x.permute_dims([*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def _matmul(cx: Context, a: Term, b: Term) -> Term:
    return cx.value(cx.ops.matmul(a, b))


def _batch(cx: Context, x: Term, lead: Sequence[Size]) -> Term:
    """Matrices of a batch with the axes `lead`."""
    return x.broadcast_to(ShapeExpr([*lead, *x.shape[-2:]]))


def _eye(
    cx: Context, lead: Sequence[Size], rows: Size, columns: Size, dtype: str = "float64"
) -> Term:
    return _batch(cx, cx.value(op.eye(rows, columns, 0, dtype)), lead)


def _diagonal(cx: Context, x: Term) -> Term:
    """The diagonals of square matrices."""
    on = cx.value(op.eye(x.shape[-1], x.shape[-1], 0, "bool"))
    return cx.where(on, x, 0.0).sum([x.ndim - 1], False)


def _triangular(x: Term, b: Term, upper: bool = False, unit: bool = False) -> Term:
    return x._context.value(op.linalg.solve_triangular(x.expr, b.expr, upper, unit))


# ---------------------------------------------------------------- elimination


def _factor(cx: Context, x: Term) -> list[Term]:
    return _parts(cx, op.linalg.lu_factor(x.expr), 3)


def _rows(x: Term, order: Term) -> Term:
    """The rows of matrices in an order."""
    at = order.expand_dims([order.ndim]).broadcast_to(ShapeExpr(x.shape))
    return x.gather_elements(at.expr, x.ndim - 2)


def _permutation(cx: Context, pivots: Term, rows: Size) -> Term:
    return cx.value(op.linalg.permutation(pivots.expr, rows))


def _solved(cx: Context, lu: Term, pivots: Term, b: Term, adjoint: bool = False) -> Term:
    """x of P L U x = b, or of its transpose."""
    order = _permutation(cx, pivots, lu.shape[-1])
    if not adjoint:
        return _triangular(lu, _triangular(lu, _rows(b, order), unit=True), upper=True)
    flipped = _transposed(lu)
    y = _triangular(flipped, _triangular(flipped, b), upper=True, unit=True)
    return _rows(y, order.argsort(order.ndim - 1, False, "int64"))


def _is_row_major(node: Node) -> bool:
    """Whether torch factorizes the transpose of a node's matrix, whose memory LAPACK reads as columns."""
    return node.source.args[0].meta["val"].is_contiguous()


@aten("linalg_lu_factor_ex")
def lu_factor_ex(
    cx: Context, node: Node, x: Term, *, pivot: bool = True, check_errors: bool = False
) -> list[Term]:
    return _factor(cx, _pivoted(cx, x, pivot))


def _pivoted(cx: Context, x: Term, pivot: bool) -> Term:
    if not pivot:
        raise ValueError(explain("elimination without pivots"))
    return _wide(cx, x)


@aten("linalg_lu")
def linalg_lu(cx: Context, node: Node, x: Term, *, pivot: bool = True) -> list[Term | None]:
    lu, pivots, _ = _factor(cx, _pivoted(cx, x, pivot))
    return lu_unpack(cx, node, lu, pivots)


@aten("lu_unpack")
def lu_unpack(
    cx: Context, node: Node, lu: Term, pivots: Term, data: bool = True, permutes: bool = True
) -> list[Term | None]:
    (*lead, m, _), count = lu.shape, pivots.shape[-1]
    none, results = cx.filled([0], 0, str(lu.dtype)), []
    if permutes:
        order = _permutation(cx, pivots, m)
        results.append(_transposed(_rows(_eye(cx, lead, m, m), order)))
    else:
        results.append(none)
    if data:
        last = lu.ndim - 1
        lower = cx.part(lu, last, 0, count).tril(-1)
        upper = cx.part(lu, last - 1, 0, count).triu(0)
        results += [lower + cx.value(op.eye(m, count, 0, str(lu.dtype))), upper]
    return results if data else [*results, none, none]


@aten("linalg_lu_solve")
def lu_solve(
    cx: Context, node: Node, lu: Term, pivots: Term, b: Term, *, left: bool = True, adjoint: bool = False
) -> Term:  # fmt: skip
    lead = cx.dims(node.value)[:-2]
    right = _batch(cx, cx.tensor(b, "float64"), lead)
    flat = pivots.broadcast_to(ShapeExpr([*lead, pivots.shape[-1]]))
    factors = _batch(cx, _wide(cx, lu), lead)
    if left:
        out = _solved(cx, factors, flat, right, adjoint)
    else:  # x A = b is A^T x^T = b^T
        out = _transposed(_solved(cx, factors, flat, _transposed(right), not adjoint))
    return out.astype(node.dtype)


@aten("_linalg_solve_ex")
def solve_ex(
    cx: Context, node: Node, x: Term, b: Term, *, left: bool = True, check_errors: bool = False
) -> list[Term | None]:
    lu, pivots, info = _factor(cx, _wide(cx, x))
    a, right = (arg.meta["val"] for arg in node.source.args[:2])
    vector = right.ndim == 1 or (a.ndim - 1 == right.ndim and right.shape == a.shape[:-1])
    columns = b.expand_dims([b.ndim]) if vector else b
    fake = node.value[0]
    lead = cx.dims(fake)[: fake.ndim - (1 if vector else 2)]
    wide = _batch(cx, cx.tensor(columns, "float64"), lead)
    factors = _batch(cx, lu, lead)
    flat = pivots.broadcast_to(ShapeExpr([*lead, pivots.shape[-1]]))
    if left:
        out = _solved(cx, factors, flat, wide)
    else:
        out = _transposed(_solved(cx, factors, flat, _transposed(wide), True))
    out = out.squeeze([out.ndim - 1]) if vector else out
    return [out, lu, pivots, info]


@aten("linalg_inv_ex")
def inv_ex(cx: Context, node: Node, x: Term, *, check_errors: bool = False) -> list[Term | None]:
    *lead, n, _ = x.shape
    lu, pivots, info = _factor(cx, _wide(cx, x))
    return [_solved(cx, lu, pivots, _eye(cx, lead, n, n)), info]


def _exchanges(cx: Context, pivots: Term) -> Term:
    """1 or -1: the determinant of the exchanges of rows."""
    moved = pivots.not_equal(cx.tensor(cx.line(pivots.shape[-1]) + 1, str(pivots.dtype)))
    odd = moved.astype("int64").sum([pivots.ndim - 1], False) % 2
    return cx.where(odd.equal(0), cx.tensor(1.0, "float64"), -1.0)


@aten("_linalg_det")
def det(cx: Context, node: Node, x: Term) -> list[Term | None]:
    wide = _wide(cx, x)
    lu, pivots, _ = _factor(cx, _transposed(wide) if _is_row_major(node) else wide)
    product = _diagonal(cx, lu).prod([x.ndim - 2], False)
    return [product * _exchanges(cx, pivots), lu, pivots]


@aten("_linalg_slogdet")
def slogdet(cx: Context, node: Node, x: Term) -> list[Term | None]:
    wide = _wide(cx, x)
    lu, pivots, _ = _factor(cx, _transposed(wide) if _is_row_major(node) else wide)
    diagonal, axis = _diagonal(cx, lu), [x.ndim - 2]
    sign = diagonal.sign().prod(axis, False) * _exchanges(cx, pivots)
    return [sign, diagonal.abs().log().sum(axis, False), lu, pivots]


# ---------------------------------------------------------------- triangles


def _triangle(
    cx: Context, x: Term, b: Term, lead: Sequence[Size], upper: bool, left: bool = True, unit: bool = False
) -> Term:  # fmt: skip
    matrix, right = (_batch(cx, v, lead) for v in (_wide(cx, x), cx.tensor(b, "float64")))
    if left:
        return _triangular(matrix, right, upper, unit)
    return _transposed(_triangular(_transposed(matrix), _transposed(right), not upper, unit))


@aten("linalg_solve_triangular")
def solve_triangular(
    cx: Context, node: Node, x: Term, b: Term, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Term:  # fmt: skip
    lead = cx.dims(node.value)[:-2]
    return _triangle(cx, x, b, lead, upper, left, unitriangular).astype(node.dtype)


@aten("triangular_solve")
def triangular_solve(
    cx: Context, node: Node, b: Term, x: Term, upper: bool = True, transpose: bool = False,
    unitriangular: bool = False,
) -> list[Term | None]:  # fmt: skip
    lead = cx.dims(node.value[0])[:-2]
    matrix = _transposed(x) if transpose else x
    out = _triangle(cx, matrix, b, lead, upper != transpose, True, unitriangular)
    return [out, _batch(cx, x, lead)]


@aten("linalg_cholesky_ex")
def cholesky_ex(
    cx: Context, node: Node, x: Term, *, upper: bool = False, check_errors: bool = False
) -> list[Term | None]:
    wide = _wide(cx, x)
    factor, info = _parts(cx, op.linalg.cholesky((_transposed(wide) if upper else wide).expr), 2)
    return [_transposed(factor) if upper else factor, info]


@aten("cholesky_solve")
def cholesky_solve(cx: Context, node: Node, b: Term, x: Term, upper: bool = False) -> Term:
    return _by_cholesky(cx, b, x, cx.dims(node.value)[:-2], upper).astype(node.dtype)


def _by_cholesky(cx: Context, b: Term, x: Term, lead: Sequence[Size], upper: bool) -> Term:
    lower = _transposed(x) if upper else x
    y = _triangle(cx, lower, b, lead, False)
    return _triangle(cx, _transposed(lower), y, lead, True)


@aten("cholesky_inverse")
def cholesky_inverse(cx: Context, node: Node, x: Term, upper: bool = False) -> Term:
    *lead, n, _ = x.shape
    return _by_cholesky(cx, _eye(cx, lead, n, n), x, lead, upper).astype(node.dtype)


# ---------------------------------------------------------------- reflections


@aten("geqrf")
def geqrf(cx: Context, node: Node, x: Term) -> list[Term]:
    return _parts(cx, op.linalg.qr_factor(_wide(cx, x).expr), 2)


@aten("linalg_qr")
def qr(cx: Context, node: Node, x: Term, mode: str = "reduced") -> list[Term | None]:
    *lead, m, _ = x.shape
    packed, tau = _parts(cx, op.linalg.qr_factor(_wide(cx, x).expr), 2)
    rows = m if mode == "complete" else tau.shape[-1]
    r = cx.part(packed, x.ndim - 2, 0, rows).triu(0)
    if mode == "r":
        return [cx.filled([0], 0, "float64"), r]
    return [_reflected(cx, packed, tau, _eye(cx, lead, m, rows)), r]


def _reflected(cx: Context, packed: Term, tau: Term, b: Term, transpose: bool = False) -> Term:
    return cx.value(op.linalg.reflect(packed.expr, tau.expr, b.expr, transpose))


@aten("linalg_householder_product")
def householder_product(cx: Context, node: Node, x: Term, tau: Term) -> Term:
    *lead, m, n = x.shape
    wide = cx.tensor(tau, "float64")
    return _reflected(cx, _wide(cx, x), wide, _eye(cx, lead, m, n)).astype(node.dtype)


@aten("ormqr")
def ormqr(
    cx: Context, node: Node, x: Term, tau: Term, b: Term, left: bool = True, transpose: bool = False
) -> Term:
    packed, wide = _wide(cx, x), cx.tensor(tau, "float64")
    right = cx.tensor(b, "float64")
    if left:
        return _reflected(cx, packed, wide, right, transpose).astype(node.dtype)
    out = _reflected(cx, packed, wide, _transposed(right), not transpose)
    return _transposed(out).astype(node.dtype)


# ---------------------------------------------------------------- eigenvalues and singular values


def _alone(node: Node, *outputs: int) -> None:
    """Vectors have signs (and bases) of the algorithm; torch's are LAPACK's."""
    if any(node.outputs[k] for k in outputs):
        raise ValueError(explain("the signs of vectors are LAPACK's"))


@aten("_linalg_eigh")
def eigh(
    cx: Context, node: Node, x: Term, uplo: str = "L", compute_v: bool = True
) -> list[Term | None]:
    _alone(node, 1)
    wide = _wide(cx, x, _LARGE_JACOBI)
    values, _ = _eigen(cx, _transposed(wide) if uplo.upper() == "U" else wide)
    return [values, None]


def _eigen(cx: Context, x: Term) -> list[Term]:
    return _parts(cx, op.linalg.eigh(x.expr), 2)


def _singular(cx: Context, x: Term) -> list[Term]:
    """U, the singular values and V^T, of the rotations of the shorter side."""
    m, n = x.shape[-2:]
    if isinstance(m, IntImm) and isinstance(n, IntImm) and m.value < n.value:
        v, s, ut = _parts(cx, op.linalg.svd(_transposed(x).expr), 3)
        return [_transposed(ut), s, _transposed(v)]
    return _parts(cx, op.linalg.svd(x.expr), 3)


@aten("_linalg_svd")
def svd(
    cx: Context, node: Node, x: Term, full_matrices: bool = False, compute_uv: bool = True, *,
    driver: str | None = None,
) -> list[Term | None]:  # fmt: skip
    _alone(node, 0, 2)
    return [None, _singular(cx, _wide(cx, x, _LARGE_JACOBI))[1], None]


@aten("linalg_pinv.atol_rtol_tensor")
def pinv(
    cx: Context, node: Node, x: Term, *, atol: Term | None = None, rtol: Term | None = None,
    hermitian: bool = False,
) -> Term:  # fmt: skip
    """V S^-1 U^T without the singular values up to the tolerances."""
    wide = _wide(cx, x, _LARGE_JACOBI)
    if hermitian:
        wide = wide.tril(0) + _transposed(wide.tril(-1))
    u, s, vt = _singular(cx, wide)
    axis = s.ndim - 1
    least = cx.tensor(0.0 if atol is None else atol, "float64")
    if rtol is None:
        most = max(int(d) for d in node.source.args[0].meta["val"].shape[-2:])
        epsilon = most * torch.finfo(node.value.dtype).eps
        relative = cx.tensor(epsilon, "float64")
        if atol is not None:
            relative = cx.where(least > 0.0, 0.0, relative)
    else:
        relative = cx.tensor(rtol, "float64")
    grown = lambda v: v.expand_dims([v.ndim]) if v.ndim else v  # noqa: E731
    bound = grown(least).maximum(grown(relative) * s.max([axis], True))
    inverse = cx.where(s > bound, 1.0 / cx.where(s > bound, s, 1.0), 0.0)
    scaled = _transposed(vt) * inverse.expand_dims([axis])
    return _matmul(cx, scaled, _transposed(u)).astype(node.dtype)


@aten("linalg_polar")
def polar(cx: Context, node: Node, x: Term) -> list[Term | None]:
    u, s, vt = _singular(cx, _wide(cx, x, _LARGE_JACOBI))
    scaled = _transposed(vt) * s.expand_dims([s.ndim - 1])
    return [_matmul(cx, u, vt), _matmul(cx, scaled, vt)]


@aten("linalg_matrix_sqrth")
def matrix_sqrth(cx: Context, node: Node, x: Term) -> Term:
    values, vectors = _eigen(cx, _wide(cx, x, _LARGE_JACOBI))
    scaled = vectors * values.sqrt().expand_dims([values.ndim - 1])
    return _matmul(cx, scaled, _transposed(vectors)).astype(node.dtype)


@aten("diagonal_scatter")
def diagonal_scatter(
    cx: Context, node: Node, x: Term, source: Term, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Term:
    """x with a diagonal of two axes replaced."""
    axes = [axis_of(dim1, x.ndim), axis_of(dim2, x.ndim)]
    order = [*(a for a in range(x.ndim) if a not in axes), *axes]
    moved = x.permute_dims(order)
    m, n = moved.shape[-2:]
    row, column = cx.line(m).expand_dims([1]), cx.line(n).expand_dims([0])
    index = (row if offset >= 0 else column).broadcast_to(ShapeExpr([m, n]))
    last = cx.tensor(source.shape[-1], "int64") - 1
    at = index.minimum(last).maximum(0)
    spread = cx.ops.take(source, at, axis=source.ndim - 1)
    out = cx.where((column - row).equal(offset), spread, moved)
    return out.permute_dims([order.index(a) for a in range(x.ndim)])


# ---------------------------------------------------------------- errors


def with_effects(
    cx: Context, node: Node, token: Term, target: Any, *args: Any, is_matrix: bool = False
) -> list[Term | None]:
    """The check of the numbers that factorizations return: the token that later effects wait for depends on
    it, of a program its first result. Where it fails, eager torch repeats a graph, and raises its own error."""
    if target is not torch.ops.aten._linalg_check_errors.default:
        raise ValueError(explain("an effect without a counterpart here", got=str(target)))
    info, name = args
    message = f"{name}: a matrix is singular"
    if not cx.splits:
        cx.checks.append((info.expr, message))
        return [token]
    return [cx.value(op.linalg.check(token.expr, info.expr, message))]


register_converter("with_effects", convert=with_effects, domain=DOMAIN)
