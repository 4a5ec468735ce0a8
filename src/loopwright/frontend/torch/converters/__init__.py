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
    pools,
    quantized,
    reductions,
    separable,
    shapes,
    special,
)
