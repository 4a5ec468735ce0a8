"""Every graph operator, one definition each, a file per family; see `core` for the form.

Importing this package fills the views: `relax.op`, `R`, `topi`, Python's operators. Users define
operators in the same form, under their own names:

    from loopwright.ops import Tensor, op

    @op("mylib.swish")
    def swish(x: Tensor, beta: float = 1.0): ...
"""

from ..base.registry import registering

with registering(__name__):
    from . import (
        activation,
        anchors,
        attention,
        backward,
        binary,
        byte_conv,
        cached,
        ccl,
        conv,
        conv_transpose,
        create,
        detect,
        dynamic_size,
        image,
        index,
        integer,
        iterated,
        joining,
        layout,
        linalg,
        linear,
        loss,
        manipulate,
        ml,
        nms,
        nn,
        norm,
        packed,
        paged,
        pool,
        quantize,
        ragged,
        random,
        recurrent,
        reduce,
        roi,
        running,
        sampling,
        scatter,
        signal,
        sort,
        special,
        spectral,
        unary,
        winograd,
    )

from .core import OPERATORS, Case, Operator, case, find_operator, install_python_operators, op
from .params import (
    Axes,
    Axis,
    Callee,
    DType,
    Ints,
    Operand,
    Prim,
    Prims,
    Scalar,
    Sections,
    Shape,
    Tensor,
    Tensors,
)

install_python_operators()
