"""Builders of the operators `ml.*`.

Made by `python -m tools.make_stubs`.
"""

from loopwright.relax.expr import Call as _Call, TensorLike as _TensorLike

def couple_pairs(chances: _TensorLike) -> _Call: """The probability of each class (rows, classes) from those of pairs, (rows, classes * (classes - 1) / 2): for each i < j that of i, knowing that it is i or j. The second method of Wu, Lin, Weng: Probability Estimates for Multi-class Classification by Pairwise Coupling (2004), as libsvm."""
def tree_ensemble(data: _TensorLike, roots: _TensorLike, features: _TensorLike, thresholds: _TensorLike, children: _TensorLike, targets: _TensorLike, weights: _TensorLike, start: _TensorLike, aggregate: str = 'sum') -> _Call: """For each row of data (rows, columns) and each target: `start` (targets,) and the weights of the leaves that the row reaches in the trees, added, or the least or greatest of them."""
