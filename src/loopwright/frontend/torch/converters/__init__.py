"""Converters of ATen's operators: (context, node, arguments of the schema) -> results."""

from . import complexes, elementwise, indices, linalg, nn, pools, reductions, shapes, special
