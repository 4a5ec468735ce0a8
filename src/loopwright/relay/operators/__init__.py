"""Relay's operators, a row each: what its result is in Relax's operators. See `core`."""

from . import annotation, image, nn, reduce, tensor, transform, vision
from .core import ROWS, VIEWS, Row, op, row_of

__all__ = [
    "ROWS",
    "VIEWS",
    "Row",
    "annotation",
    "image",
    "nn",
    "op",
    "reduce",
    "row_of",
    "tensor",
    "transform",
    "vision",
]
