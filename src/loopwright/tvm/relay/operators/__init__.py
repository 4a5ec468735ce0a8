"""Relay's operators, a row each: what its result is in Relax's operators. See `core`."""

from . import (
    algorithm,
    annotation,
    contrib,
    conv,
    create,
    image,
    indexing,
    nn,
    norm,
    pool,
    prepared,
    random,
    reduce,
    slices,
    sparse,
    spatial,
    tensor,
    transform,
    vision,
)
from .core import ROWS, VIEWS, Row, op, row_of
