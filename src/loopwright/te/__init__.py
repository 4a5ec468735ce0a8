"""Tensor expressions: definitions of tensors by element, and their conversion to TensorIR."""

from ..base.late import late_names as _late_names
from ..base.late import public_names as _public_names
from ..ir.prim_op import add as add
from ..ir.prim_op import max_value as max_value
from ..ir.prim_op import min_value as min_value
from ..ir.prim_op import multiply as multiply
from ..ir.prim_op import subtract as subtract
from ..tir.index_map import IndexMap
from ..tir.op import abs as abs
from ..tir.op import acos as acos
from ..tir.op import acosh as acosh
from ..tir.op import all as all
from ..tir.op import any as any
from ..tir.op import asin as asin
from ..tir.op import asinh as asinh
from ..tir.op import atan as atan
from ..tir.op import atan2 as atan2
from ..tir.op import atanh as atanh
from ..tir.op import ceil as ceil
from ..tir.op import ceildiv as ceildiv
from ..tir.op import clz as clz
from ..tir.op import copysign as copysign
from ..tir.op import cos as cos
from ..tir.op import cosh as cosh
from ..tir.op import div as div
from ..tir.op import erf as erf
from ..tir.op import exp as exp
from ..tir.op import exp2 as exp2
from ..tir.op import exp10 as exp10
from ..tir.op import fabs as fabs
from ..tir.op import floor as floor
from ..tir.op import floordiv as floordiv
from ..tir.op import floormod as floormod
from ..tir.op import fmod as fmod
from ..tir.op import hypot as hypot
from ..tir.op import if_then_else as if_then_else
from ..tir.op import indexdiv as indexdiv
from ..tir.op import indexmod as indexmod
from ..tir.op import isfinite as isfinite
from ..tir.op import isinf as isinf
from ..tir.op import isnan as isnan
from ..tir.op import ldexp as ldexp
from ..tir.op import log as log
from ..tir.op import log1p as log1p
from ..tir.op import log2 as log2
from ..tir.op import log10 as log10
from ..tir.op import logaddexp as logaddexp
from ..tir.op import nearbyint as nearbyint
from ..tir.op import nextafter as nextafter
from ..tir.op import popcount as popcount
from ..tir.op import power as power
from ..tir.op import reinterpret as reinterpret
from ..tir.op import round as round
from ..tir.op import rsqrt as rsqrt
from ..tir.op import sigmoid as sigmoid
from ..tir.op import sin as sin
from ..tir.op import sinh as sinh
from ..tir.op import sqrt as sqrt
from ..tir.op import tan as tan
from ..tir.op import tanh as tanh
from ..tir.op import trunc as trunc
from ..tir.op import truncdiv as truncdiv
from ..tir.op import truncmod as truncmod
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

AXIS_SEPARATOR = IndexMap.AXIS_SEPARATOR

__getattr__ = _late_names(
    __name__
)  # schedules, scans, hybrid script: names defined in the TVM wing
__dir__ = _public_names(__name__)
