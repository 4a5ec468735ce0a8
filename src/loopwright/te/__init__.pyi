"""Tensor expressions: definitions of tensors by element, and their conversion to TensorIR.

Made by `python -m tools.make_stubs`.
"""

from loopwright.ir.prim_op import (
    add as add, ceildiv as ceildiv, div as div, floordiv as floordiv, floormod as floormod,
    indexdiv as indexdiv, indexmod as indexmod, max_value as max_value, min_value as min_value,
    multiply as multiply, subtract as subtract, truncdiv as truncdiv, truncmod as truncmod,
)
from loopwright.te.operation import (
    compute as compute, const as const, extern as extern, extern_primfunc as extern_primfunc,
    placeholder as placeholder, reduce_axis as reduce_axis, size_var as size_var,
    thread_axis as thread_axis, var as var,
)
from loopwright.te.prim_func import (
    create_prim_func as create_prim_func, create_relax_prim_func as create_relax_prim_func,
)
from loopwright.te.tensor import (
    BaseComputeOp as BaseComputeOp, ComputeOp as ComputeOp, ExternOp as ExternOp,
    Operation as Operation, PlaceholderOp as PlaceholderOp, Tensor as Tensor,
    TensorSlice as TensorSlice,
)
from loopwright.tir.index_map import IndexMap as IndexMap
from loopwright.tir.op import (
    abs as abs, acos as acos, acosh as acosh, all as all, any as any, asin as asin,
    asinh as asinh, atan as atan, atan2 as atan2, atanh as atanh, ceil as ceil, clz as clz,
    copysign as copysign, cos as cos, cosh as cosh, erf as erf, exp as exp, exp10 as exp10,
    exp2 as exp2, floor as floor, fmod as fmod, hypot as hypot, if_then_else as if_then_else,
    isfinite as isfinite, isinf as isinf, isnan as isnan, ldexp as ldexp, log as log,
    log10 as log10, log1p as log1p, log2 as log2, logaddexp as logaddexp,
    nearbyint as nearbyint, nextafter as nextafter, popcount as popcount, power as power,
    reinterpret as reinterpret, round as round, rsqrt as rsqrt, sigmoid as sigmoid, sin as sin,
    sinh as sinh, sqrt as sqrt, tan as tan, tanh as tanh, trunc as trunc,
)
from loopwright.tir.reduction import (
    comm_reducer as comm_reducer, max as max, min as min, prod as prod, sum as sum,
)
from loopwright.tvm.te import hybrid as hybrid
from loopwright.tvm.te.autodiff import gradient as gradient
from loopwright.tvm.te.scan import ScanOp as ScanOp, scan as scan
from loopwright.tvm.te.schedule import (
    Schedule as Schedule, build as build, create_schedule as create_schedule, lower as lower,
)
from loopwright.tvm.te.specialize import SpecializedCondition as SpecializedCondition
from loopwright.tvm.te.stage import Stage as Stage
from loopwright.tvm.te.tag import TagScope as TagScope, tag_scope as tag_scope
from loopwright.tvm.te.tensor_intrin import (
    TensorIntrin as TensorIntrin, decl_tensor_intrin as decl_tensor_intrin,
)

fabs = abs
