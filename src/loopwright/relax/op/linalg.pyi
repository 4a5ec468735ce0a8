"""Builders of the operators `linalg.*`.

Made by `python -m tools.make_stubs`.
"""

from loopwright.relax.expr import Call as _Call, TensorLike as _TensorLike

def det(x: _TensorLike) -> _Call: """The determinants of square matrices (..., n, n), by elimination with the greatest pivot."""
def inv(x: _TensorLike) -> _Call: """The inverses of square matrices (..., n, n), by elimination with the greatest pivot; of one that has none, numbers that are not finite."""
