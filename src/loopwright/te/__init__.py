"""Tensor expressions: definitions of tensors by element, and their conversion to TensorIR."""

from ..base.examples import add_examples as _add_examples
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

_add_examples(
    globals(),
    """
    A = te.placeholder((4, 8), "float32", "A");
    k = te.reduce_axis((0, 8), "k");
    i = te.var("i");
    x = te.var("x", "float32");
    B = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, "B")
    """,
    """
    te.abs(x)  # T.fabs(x)
    te.all(i > 0, i < 8)  # i > 0 and i < 8
    te.any(i > 0, i < 8)  # i > 0 or i < 8
    te.atan2(x, 1.0)  # T.atan2(x, T.float32(1.0))
    te.ceildiv(i, 4)  # (i + 3) // 4
    te.clz(i)  # T.clz(i)
    te.copysign(x, -1.0)  # T.copysign(x, T.float32(-1.0))
    te.div(i, 4)  # T.Div(i, 4)
    te.fabs(x)  # T.fabs(x)
    te.floordiv(i, 4)  # i // 4
    te.floormod(i, 4)  # i % 4
    te.fmod(x, 2.0)  # T.fmod(x, T.float32(2.0))
    te.hypot(x, 1.0)  # T.hypot(x, T.float32(1.0))
    te.if_then_else(i > 0, x, 0.0)  # T.if_then_else(i > 0, x, T.float32(0.0))
    te.indexdiv(i, 4)  # i // 4
    te.indexmod(i, 4)  # i % 4
    te.isfinite(x)  # not T.isinf(x) and not T.isnan(x)
    te.isinf(x)  # T.isinf(x)
    te.isnan(x)  # T.isnan(x)
    te.ldexp(x, i)  # T.ldexp(x, i)
    te.logaddexp(x, 0.0)  # T.max(x, T.float32(0.0)) + T.log1p(T.exp(T.min(x, T.float32(0.0)) - T.max(x, T.float32(0.0))))
    te.nextafter(x, 1.0)  # T.nextafter(x, T.float32(1.0))
    te.popcount(i)  # T.popcount(i)
    te.power(x, 2.0)  # T.pow(x, T.float32(2.0))
    te.reinterpret("int32", x)  # T.reinterpret("int32", x)
    te.truncdiv(i, 4)  # T.Div(i, 4)
    te.truncmod(i, 4)  # T.truncmod(i, 4)
    te.add(i, 1)  # i + 1
    te.subtract(i, 1)  # i - 1
    te.multiply(i, 2)  # i * 2
    te.max_value("int8")  # T.int8(127)
    te.min_value("int8")  # T.int8(-128)
    te.comm_reducer(lambda a, b: a ^ b, lambda t: tir.const(0, t), name="xor")(i, 1)  # T.bitwise_xor(i, 1)
    te.sum(A[i, k], axis=k)  # T.reduce(T.comm_reducer(lambda x, y: x + y, ...
    te.prod(A[i, k], axis=k)  # T.reduce(T.comm_reducer(lambda x, y: x * y, ...
    te.max(A[i, k], axis=k, where=k < i)  # T.reduce(T.comm_reducer(lambda x, y: T.max(x, y), ...
    te.min(A[i, k], axis=k)  # T.reduce(T.comm_reducer(lambda x, y: T.min(x, y), ...
    te.placeholder((4, "n"), "float16", name="A")  # Tensor(shape=[4, "n"], op.name=A)
    te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="sums")  # Tensor(shape=[4], op.name=sums)
    te.const(1.5, "float32")  # T.float32(1.5)
    te.extern((4, 8), [A], lambda ins, outs: tir.call_packed("copy", ins[0], outs[0]), name="C")  # Tensor(shape=[4, 8], op.name=C)
    te.extern_primfunc([A], te.create_prim_func([A, B])).shape  # (4, 8)
    te.reduce_axis((0, 8), "k")  # T.iter_var(k, T.Range(0, 8), "CommReduce", "")
    te.size_var("n")  # n
    te.thread_axis((0, 32), "threadIdx.x")  # T.iter_var(threadIdx_x, T.Range(0, 32), "ThreadIndex", "threadIdx.x")
    te.var("n", "int64")  # n
    te.create_prim_func([A, B]).params  # (var_A, var_B)
    te.create_relax_prim_func([A, B]).attrs  # {"tir.noalias": True}
    BaseComputeOp: isinstance(B.op, te.BaseComputeOp)  # True
    ComputeOp: B.op.body  # (A[i, j] + T.float32(1.0),)
    ExternOp: te.extern((4,), [], lambda _, outs: outs[0].vstore(0, 1.0), dtype="float32").op.inputs  # ()
    IndexMap: te.IndexMap.from_func(lambda i, j: [j // 4, i, j % 4]).map_indices([i, 6])  # [1, i, 2]
    Operation: B.op.name, B.op.output(0)  # ('B', Tensor(shape=[4, 8], op.name=B))
    PlaceholderOp: A.op.shape  # (4, 8)
    Tensor: A[i, 0], A.shape, A.dtype  # (A[i, 0], (4, 8), 'float32')
    TensorSlice: A[i][0]  # A[i, 0]
    """,
)
