"""Builders of the operators `random.*`.

Made by `python -m tools.make_stubs`.
"""

from loopwright.relax.expr import Call as _Call, ShapeLike as _ShapeLike, TensorLike as _TensorLike

def threefry_generate(key: _TensorLike, shape: _ShapeLike) -> _Call: """The key for the next numbers, and random words (uint64) of a shape."""
def threefry_split(key: _TensorLike) -> _Call: """Two keys whose numbers have nothing to do with each other."""
