"""Every graph operator, one definition each, a file per family; see `core` for the form.

Importing this package fills the views: `relax.op`, `R`, `topi`, Python's operators. An operator of
one's own is defined in the same form, under a name of one's own:

    from loopwright.ops import Tensor, op

    @op("mylib.swish")
    def swish(x: Tensor, beta: float = 1.0): ...
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
from .core import (
    OPERATORS,
    Axes,
    Axis,
    Callee,
    Case,
    DType,
    Ints,
    Operator,
    Prim,
    Prims,
    Sections,
    Shape,
    Tensor,
    Tensors,
    case,
    find_operator,
    install_python_operators,
    op,
)

install_python_operators()

__all__ = [
    "OPERATORS",
    "Axes",
    "Axis",
    "Callee",
    "Case",
    "DType",
    "Ints",
    "Operator",
    "Prim",
    "Prims",
    "Sections",
    "Shape",
    "Tensor",
    "Tensors",
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
