"""Every graph operator, one definition each, a file per family; see `core` for the form.

Importing this package fills the views: `relax.op`, `R`, `topi`, Python's operators.
"""

from . import (
    attention,
    binary,
    conv,
    conv1d_transpose,
    create,
    index,
    layout,
    linear,
    manipulate,
    nn,
    norm,
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
    "attention",
    "binary",
    "case",
    "conv",
    "conv1d_transpose",
    "create",
    "find_operator",
    "index",
    "layout",
    "linear",
    "manipulate",
    "nn",
    "norm",
    "op",
    "pool",
    "reduce",
    "sets",
    "sort",
    "unary",
]
