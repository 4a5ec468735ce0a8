"""The converters of the standard operators: a file per family.

Importing this package fills the table of `registry`.
"""

from . import (
    control,
    create,
    elementwise,
    linear,
    nn,
    order,
    pool,
    quantize,
    reduce,
    resize,
    scatter,
    shape,
)
