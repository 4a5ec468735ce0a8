"""Converters of ATen's operators: (context, node, arguments of the schema) -> results."""

from . import complexes, control, elementwise, indices, nn, quantized, reductions, shapes, special
