"""Dense linear algebra, in float64. Large matrices are left to LAPACK, which is faster there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ....base.errors import explain
from ....ir.prim_expr import IntImm
from ...graph.registry import register_converter
from ..context import Size, Term, op
from ..context import TorchContext as Context
from ..model import DOMAIN
from ..model import TorchNode as Node
from .nn import transposed_matrices as _transposed
from .table import aten, rows

_LARGE = 128  # extent from which LAPACK's blocks are worth a pass through eager torch
_LARGE_JACOBI = 32  # whose sweeps are about ten times the work of LAPACK's reduction

Results = list[Term | None]


def _wide(cx: Context, x: Term, most: int = _LARGE) -> Term:
    """Matrices in float64. Raises ValueError for large ones."""
    if any(isinstance(d, IntImm) and d.value > most for d in x.shape[-2:]):
        raise ValueError(explain(f"matrices of more than {most} rows are LAPACK's"))
    return cx.tensor(x, "float64")


def _batch(cx: Context, x: Term, lead: Sequence[Size]) -> Term:
    """Matrices of a batch with the axes `lead`, in float64."""
    return cx.tensor(x, "float64").broadcast_to([*lead, *x.shape[-2:]])


def _eye(cx: Context, shape: Sequence[Size]) -> Term:
    return _batch(cx, cx.value(op.eye(*shape[-2:], 0, "float64")), shape[:-2])


# ---------------------------------------------------------------- elimination


def _factor(cx: Context, x: Term, pivot: bool = True) -> list[Term]:
    """The factors L and U in one matrix, the exchanges of rows, and whether x is singular."""
    if not pivot:
        raise ValueError(explain("elimination without pivots"))
    return op.linalg.lu_factor(_wide(cx, x))


def _rows(x: Term, order: Term) -> Term:
    """The rows of matrices in an order."""
    return x.gather_elements(order.expand_dims([order.ndim]).broadcast_to(x.shape), x.ndim - 2)


def _solved(
    cx: Context, lu: Term, pivots: Term, b: Term, lead: Sequence[Size], left: bool = True, adjoint: bool = False
) -> Term:  # fmt: skip
    """x of P L U x = b, or of its transpose; not left: of x P L U = b, which is the transposed problem."""
    lu, b, solve = _batch(cx, lu, lead), _batch(cx, b, lead), op.linalg.solve_triangular
    order = op.linalg.permutation(pivots.broadcast_to([*lead, pivots.shape[-1]]), lu.shape[-1])
    b = b if left else _transposed(b)
    if adjoint != left:
        out = solve(lu, solve(lu, _rows(b, order), False, True), True, False)
    else:
        flipped = _transposed(lu)
        y = solve(flipped, solve(flipped, b, False, False), True, True)
        out = _rows(y, order.argsort(order.ndim - 1, False, "int64"))
    return out if left else _transposed(out)


def _by_columns(node: Node, x: Term) -> Term:
    """A matrix, or its transpose where torch factorizes that, since LAPACK reads memory as columns."""
    return _transposed(x) if node.source.args[0].meta["val"].is_contiguous() else x


@aten("lu_unpack")
def lu_unpack(
    cx: Context, node: Node, lu: Term, pivots: Term, data: bool, permutes: bool
) -> Results:
    (*lead, m, _), count, last = lu.shape, pivots.shape[-1], lu.ndim - 1
    p = lower = upper = cx.filled([0], 0, str(lu.dtype))
    if permutes:
        p = _transposed(_rows(_eye(cx, [*lead, m, m]), op.linalg.permutation(pivots, m)))
    if data:
        ones = cx.value(op.eye(m, count, 0, str(lu.dtype)))
        lower = cx.part(lu, last, 0, count).tril(-1) + ones
        upper = cx.part(lu, last - 1, 0, count).triu(0)
    return [p, lower, upper]


@aten("_linalg_solve_ex")
def solve_ex(cx: Context, node: Node, x: Term, b: Term, *, left: bool) -> Results:
    lu, pivots, info = _factor(cx, x)
    a, right = (arg.meta["val"] for arg in node.source.args[:2])
    vector = right.ndim == 1 or (a.ndim - 1 == right.ndim and right.shape == a.shape[:-1])
    columns = b.expand_dims([b.ndim]) if vector else b
    lead = cx.dims(node.value[0])[: node.value[0].ndim - (1 if vector else 2)]
    out = _solved(cx, lu, pivots, columns, lead, left)
    return [out.squeeze([out.ndim - 1]) if vector else out, lu, pivots, info]


@aten("linalg_inv_ex")
def inv_ex(cx: Context, node: Node, x: Term) -> Results:
    lu, pivots, info = _factor(cx, x)
    return [_solved(cx, lu, pivots, _eye(cx, x.shape), x.shape[:-2]), info]


@aten("_linalg_det", "_linalg_slogdet")
def det(cx: Context, node: Node, x: Term) -> Results:
    """The product of the diagonal and the sign of the exchanges of rows; or the sign of both, and the logarithm."""
    lu, pivots, _ = _factor(cx, _by_columns(node, x))
    axis, on = x.ndim - 2, cx.value(op.eye(x.shape[-1], x.shape[-1], 0, "bool"))
    diagonal = cx.where(on, lu, 0.0).sum([axis + 1], False)
    moved = pivots.not_equal(cx.tensor(cx.line(pivots.shape[-1]) + 1, str(pivots.dtype)))
    odd = moved.astype("int64").sum([axis], False) % 2
    sign = cx.where(odd.equal(0), cx.tensor(1.0, "float64"), -1.0)
    if "slogdet" not in node.op_type:
        return [diagonal.prod([axis], False) * sign, lu, pivots]
    logarithm = diagonal.abs().log().sum([axis], False)
    return [diagonal.sign().prod([axis], False) * sign, logarithm, lu, pivots]


# ---------------------------------------------------------------- triangles


def _triangle(
    cx: Context, x: Term, b: Term, lead: Sequence[Size], upper: bool, left: bool = True, unit: bool = False
) -> Term:  # fmt: skip
    matrix, right = _batch(cx, _wide(cx, x), lead), _batch(cx, b, lead)
    solve = op.linalg.solve_triangular
    if left:
        return solve(matrix, right, upper, unit)
    return _transposed(solve(_transposed(matrix), _transposed(right), not upper, unit))


@aten("triangular_solve")
def triangular_solve(
    cx: Context, node: Node, b: Term, x: Term, upper: bool, transpose: bool, unit: bool
) -> Results:
    lead = cx.dims(node.value[0])[:-2]
    matrix = _transposed(x) if transpose else x
    return [_triangle(cx, matrix, b, lead, upper != transpose, True, unit), _batch(cx, x, lead)]


@aten("linalg_cholesky_ex")
def cholesky_ex(cx: Context, node: Node, x: Term, *, upper: bool) -> Results:
    wide = _wide(cx, x)
    factor, info = op.linalg.cholesky(_transposed(wide) if upper else wide)
    return [_transposed(factor) if upper else factor, info]


def _by_cholesky(cx: Context, b: Term, x: Term, lead: Sequence[Size], upper: bool) -> Term:
    lower = _transposed(x) if upper else x
    return _triangle(cx, _transposed(lower), _triangle(cx, lower, b, lead, False), lead, True)


# ---------------------------------------------------------------- reflections


@aten("linalg_qr")
def qr(cx: Context, node: Node, x: Term, mode: str) -> Results:
    (*lead, m, _), (packed, tau) = x.shape, op.linalg.qr_factor(_wide(cx, x))
    count = m if mode == "complete" else tau.shape[-1]
    r = cx.part(packed, x.ndim - 2, 0, count).triu(0)
    if mode == "r":
        return [cx.filled([0], 0, "float64"), r]
    return [op.linalg.reflect(packed, tau, _eye(cx, [*lead, m, count]), False), r]


@aten("ormqr")
def ormqr(
    cx: Context, node: Node, x: Term, tau: Term, b: Term, left: bool, transpose: bool
) -> Term:
    packed, (factors, right) = _wide(cx, x), (cx.tensor(v, "float64") for v in (tau, b))
    if left:
        return op.linalg.reflect(packed, factors, right, transpose)
    return _transposed(op.linalg.reflect(packed, factors, _transposed(right), not transpose))


# ---------------------------------------------------------------- eigenvalues and singular values


def _alone(node: Node, *outputs: int) -> None:
    """Vectors have signs (and bases) of the algorithm; torch's are LAPACK's."""
    if any(node.outputs[k] for k in outputs):
        raise ValueError(explain("the signs of vectors are LAPACK's"))


@aten("_linalg_eigh")
def eigh(cx: Context, node: Node, x: Term, uplo: str) -> Results:
    _alone(node, 1)
    wide = _wide(cx, x, _LARGE_JACOBI)
    return [op.linalg.eigh(_transposed(wide) if uplo.upper() == "U" else wide)[0], None]


def _singular(cx: Context, x: Term) -> list[Term]:
    """U, the singular values and V^T, of the rotations of the shorter side."""
    x = _wide(cx, x, _LARGE_JACOBI)
    m, n = x.shape[-2:]
    if isinstance(m, IntImm) and isinstance(n, IntImm) and m.value < n.value:
        v, s, ut = op.linalg.svd(_transposed(x))
        return [_transposed(ut), s, _transposed(v)]
    return op.linalg.svd(x)


@aten("_linalg_svd")
def svd(cx: Context, node: Node, x: Term) -> Results:
    _alone(node, 0, 2)
    return [None, _singular(cx, x)[1], None]


def _recomposed(cx: Context, u: Term, s: Term, vt: Term) -> Term:
    """u diag(s) vt."""
    return cx.value(cx.ops.matmul(u * s.expand_dims([s.ndim - 1]), vt))


@aten("linalg_pinv.atol_rtol_tensor")
def pinv(
    cx: Context, node: Node, x: Term, *, atol: Term | None, rtol: Term | None, hermitian: bool
) -> Term:
    """V S^-1 U^T without the singular values up to the tolerances."""
    if hermitian:
        x = x.tril(0) + _transposed(x.tril(-1))
    u, s, vt = _singular(cx, x)
    axis = s.ndim - 1
    least = cx.tensor(0.0 if atol is None else atol, "float64")
    if rtol is None:
        most = max(int(d) for d in node.source.args[0].meta["val"].shape[-2:])
        relative = cx.tensor(most * torch.finfo(node.value.dtype).eps, "float64")
        if atol is not None:
            relative = cx.where(least > 0.0, 0.0, relative)
    else:
        relative = cx.tensor(rtol, "float64")
    least, relative = (v.expand_dims([v.ndim]) if v.ndim else v for v in (least, relative))
    bound = least.maximum(relative * s.max([axis], True))
    inverse = cx.where(s > bound, 1.0 / cx.where(s > bound, s, 1.0), 0.0)
    return _recomposed(cx, _transposed(vt), inverse, _transposed(u))


@aten("linalg_polar")
def polar(cx: Context, node: Node, x: Term) -> Results:
    u, s, vt = _singular(cx, x)
    return [cx.value(cx.ops.matmul(u, vt)), _recomposed(cx, _transposed(vt), s, vt)]


@aten("linalg_matrix_sqrth")
def matrix_sqrth(cx: Context, node: Node, x: Term) -> Term:
    values, vectors = op.linalg.eigh(_wide(cx, x, _LARGE_JACOBI))
    return _recomposed(cx, vectors, values.sqrt(), _transposed(vectors))


@aten("diagonal_scatter")
def diagonal_scatter(
    cx: Context, node: Node, x: Term, source: Term, offset: int, dim1: int, dim2: int
) -> Term:
    """x with a diagonal of two axes replaced."""
    order = [*(a for a in range(x.ndim) if a not in (dim1, dim2)), dim1, dim2]
    moved = x.permute_dims(order)
    m, n = moved.shape[-2:]
    row, column = cx.line(m).expand_dims([1]), cx.line(n).expand_dims([0])
    index = (row if offset >= 0 else column).broadcast_to([m, n])
    at = index.minimum(cx.tensor(source.shape[-1], "int64") - 1).maximum(0)
    spread = cx.ops.take(source, at, axis=source.ndim - 1)
    out = cx.where((column - row).equal(offset), spread, moved)
    return out.permute_dims([order.index(a) for a in range(x.ndim)])


# The rest are formulas.
rows({
    "linalg_lu_factor_ex": lambda cx, node, x, *, pivot: _factor(cx, x, pivot),
    "linalg_lu": lambda cx, node, x, *, pivot: lu_unpack(cx, node, *_factor(cx, x, pivot)[:2], True, True),
    "linalg_lu_solve": lambda cx, node, lu, pivots, b, *, left, adjoint:
        _solved(cx, _wide(cx, lu), pivots, b, cx.dims(node.value)[:-2], left, adjoint),
    "cholesky_inverse": lambda cx, node, x, upper:
        _by_cholesky(cx, _eye(cx, x.shape), x, x.shape[:-2], upper),
    "linalg_householder_product": lambda cx, node, x, tau:
        ormqr(cx, node, x, tau, _eye(cx, x.shape), True, False),
    "linalg_solve_triangular": lambda cx, node, x, b, *, upper, left, unitriangular:
        _triangle(cx, x, b, cx.dims(node.value)[:-2], upper, left, unitriangular),
    "cholesky_solve": lambda cx, node, b, x, upper:
        _by_cholesky(cx, b, x, cx.dims(node.value)[:-2], upper),
    "geqrf": lambda cx, node, x: op.linalg.qr_factor(_wide(cx, x)),
})  # fmt: skip


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
    return [op.linalg.check(token, info, message)]


register_converter("with_effects", convert=with_effects, domain=DOMAIN)
