"""Converters of ATen's operators: (context, node, arguments of the schema) -> results."""

from . import (
    complexes,
    control,
    elementwise,
    images,
    indices,
    linalg,
    nn,
    pools,
    quantized,
    random,
    reductions,
    separable,
    shapes,
    special,
)
