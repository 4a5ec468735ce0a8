"""Builders of the operators `linalg.*`.

Made by `python -m tools.make_stubs`.
"""

from loopwright.relax.expr import Call as _Call, PrimLike as _PrimLike, TensorLike as _TensorLike

def check(x: _TensorLike, info: _TensorLike, message: str = 'a matrix cannot be factorized') -> _Call: """x; raises the message where a number of `info` is not 0."""
def cholesky(x: _TensorLike) -> _Call: """L, of which L L^T is a symmetric matrix, from the lower triangle of that (potrf); and the number of the first column at which a matrix is not positive definite, else 0."""
def det(x: _TensorLike) -> _Call: """The determinants of square matrices (..., n, n), by elimination with the greatest pivot."""
def eigh(x: _TensorLike) -> _Call: """The eigenvalues of symmetric matrices, in ascending order, and their vectors as columns, of which the element of the greatest absolute value is positive; by Jacobi's rotations, from the lower triangle."""
def inv(x: _TensorLike) -> _Call: """The inverses of square matrices (..., n, n), by elimination with the greatest pivot; of one that has none, numbers that are not finite."""
def lu_factor(x: _TensorLike) -> _Call: """P L U of matrices, by elimination with the greatest pivot (getrf): L, without its diagonal of ones, and U in one matrix; the row with which each was exchanged, from 1 on; the first row whose pivot is 0, or 0."""
def permutation(pivots: _TensorLike, size: _PrimLike) -> _Call: """The order of `size` rows after the exchanges (..., k) of `lu_factor`, as int64: row i is row out[i] of the matrix."""
def qr_factor(x: _TensorLike) -> _Call: """Q R of matrices by Householder's reflections (geqrf): R, and below it the vectors v of the reflections 1 - tau v v^T, whose first element, 1, is left out; and tau."""
def reflect(packed: _TensorLike, tau: _TensorLike, b: _TensorLike, transpose: bool = False) -> _Call: """Q b, or Q^T b, of the matrix Q of `qr_factor` (ormqr)."""
def solve_triangular(x: _TensorLike, b: _TensorLike, upper: bool = False, unit: bool = False) -> _Call: """y (..., n, k) with x y = b, of lower triangular matrices x (upper: of upper ones); the other triangle is not read, nor the diagonal of `unit` ones, which is 1 (trtrs)."""
def svd(x: _TensorLike) -> _Call: """U (..., m, k), the singular values (..., k) in descending order, and V^T (..., k, n), k = min(m, n), by Jacobi's rotations of columns (Hestenes). The element of the greatest absolute value of a row of V^T is positive; a column of U whose value is 0 is 0."""
