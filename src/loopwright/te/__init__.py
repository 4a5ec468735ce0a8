"""Tensor expressions: definitions of tensors by element, and their conversion to TensorIR."""

from ..base.late import late_names as _late_names
from ..base.late import public_names as _public_names
from ..ir.prim_op import add as add
from ..ir.prim_op import max_value as max_value
from ..ir.prim_op import min_value as min_value
from ..ir.prim_op import multiply as multiply
from ..ir.prim_op import subtract as subtract
from ..tir import op as _op
from ..tir.index_map import IndexMap
from ..tir.reduction import comm_reducer as comm_reducer
from ..tir.reduction import max as max
from ..tir.reduction import min as min
from ..tir.reduction import prod as prod
from ..tir.reduction import sum as sum
from .operation import compute as compute
from .operation import const as const
from .operation import extern as extern
from .operation import extern_primfunc as extern_primfunc
from .operation import placeholder as placeholder
from .operation import reduce_axis as reduce_axis
from .operation import size_var as size_var
from .operation import thread_axis as thread_axis
from .operation import var as var
from .prim_func import create_prim_func as create_prim_func
from .prim_func import create_relax_prim_func as create_relax_prim_func
from .tensor import BaseComputeOp as BaseComputeOp
from .tensor import ComputeOp as ComputeOp
from .tensor import ExternOp as ExternOp
from .tensor import Operation as Operation
from .tensor import PlaceholderOp as PlaceholderOp
from .tensor import Tensor as Tensor
from .tensor import TensorSlice as TensorSlice

# The functions of scalars that it has in common with TensorIR.
_SCALAR = """
    abs acos acosh all any asin asinh atan atan2 atanh ceil ceildiv clz copysign cos cosh div
    erf exp exp2 exp10 fabs floor floordiv floormod fmod hypot if_then_else indexdiv indexmod
    isfinite isinf isnan ldexp log log1p log2 log10 logaddexp nearbyint nextafter popcount
    power reinterpret round rsqrt sigmoid sin sinh sqrt tan tanh trunc truncdiv truncmod
""".split()  # noqa: SIM905
globals().update({name: getattr(_op, name) for name in _SCALAR})

AXIS_SEPARATOR = IndexMap.AXIS_SEPARATOR

# Schedules, scans, hybrid script: names defined in the TVM wing.
__getattr__ = _late_names(__name__)
__dir__ = _public_names(__name__)
