"""Converters of ATen's operators: (context, node, arguments of the schema) -> results."""

from . import (
    complexes,
    control,
    elementwise,
    indices,
    linalg,
    nn,
    pools,
    quantized,
    reductions,
    shapes,
    special,
)
