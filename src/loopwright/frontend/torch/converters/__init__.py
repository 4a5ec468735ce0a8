"""Converters of ATen's operators: (context, node, arguments of the schema) -> results."""

from . import (
    calls,
    complexes,
    control,
    elementwise,
    images,
    indices,
    linalg,
    nn,
    quantized,
    reductions,
    separable,
    shapes,
    special,
)
