"""Converters of ATen's operators: (context, node, arguments of the schema) -> results."""

from . import complexes, elementwise, indices, nn, reductions, shapes, special
