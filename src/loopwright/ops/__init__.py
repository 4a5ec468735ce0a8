"""Every graph operator, one definition each, a file per family; see `core` for the form.

Importing this package fills the views: `relax.op`, `R`, `topi`, Python's operators.
"""

from . import (
    binary,
    conv,
    create,
    index,
    layout,
    linear,
    manipulate,
    nn,
    pool,
    reduce,
    sets,
    sort,
    unary,
)
from .core import OPERATORS, Case, Operator, case, find_operator, install_python_operators, op

install_python_operators()

__all__ = [
    "OPERATORS",
    "Case",
    "Operator",
    "binary",
    "case",
    "conv",
    "create",
    "find_operator",
    "index",
    "layout",
    "linear",
    "manipulate",
    "nn",
    "op",
    "pool",
    "reduce",
    "sets",
    "sort",
    "unary",
]
