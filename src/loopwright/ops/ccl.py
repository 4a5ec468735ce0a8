"""Operators between the workers that run one model: each runs it in a process of its own, with a
communicator that its caller brings (`runtime.collective`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import explain
from ..ir.prim_expr import IntImm
from ..ir.prim_op import floordiv, multiply
from ..relax.block_builder import BlockBuilder
from ..relax.expr import Call, Expr, PrimValue
from ..relax.op import call_dps_packed
from ..relax.struct_info import TensorStructInfo
from ..runtime import collective
from .common import normalize_axis
from .core import Operator, case, op
from .extents import simplify
from .params import Tensor


@op("relax.ccl.allreduce", body=False, choices={"op_type": collective.OPS})
def allreduce(x: Tensor, op_type: str = "sum", in_group: bool = True):
    """The sum of all workers' tensors (op_type: "sum", "prod", "min", "max", "avg")."""


@op("relax.ccl.broadcast_from_worker0", body=False)
def broadcast_from_worker0(x: Tensor):
    """The first worker's tensor."""


allreduce.infer(lambda x, op_type, in_group: x)
broadcast_from_worker0.infer(lambda x: x)
allreduce.numpy(lambda x, op_type="sum", in_group=True: collective.allreduce(x, op_type))
broadcast_from_worker0.numpy(lambda x: collective.broadcast(x))


@op("relax.ccl.allgather", body=False)
def allgather(x: Tensor, num_workers: int, in_group: bool = True):
    """All workers' tensors, joined along the first axis."""


@allgather.infer
def _(x: TensorStructInfo, num_workers, in_group=True):
    shape = x.get_shape()
    if not shape:
        return TensorStructInfo(dtype=x.dtype, ndim=x.ndim)
    return TensorStructInfo([multiply(shape[0], num_workers), *shape[1:]], x.dtype)


@allgather.numpy
def _(x, num_workers, in_group=True):
    return collective.allgather(x, num_workers)


@op("relax.ccl.scatter_from_worker0", body=False)
def scatter_from_worker0(x: Tensor, num_workers: int, axis: int = 0):
    """This worker's part of the first one's tensor, which is cut along `axis`."""


@scatter_from_worker0.infer
def _(x: TensorStructInfo, num_workers, axis=0):
    shape = x.get_shape()
    if shape is None:
        return TensorStructInfo(dtype=x.dtype, ndim=x.ndim)
    axis = normalize_axis(axis, len(shape))
    whole = shape[axis]
    if isinstance(whole, IntImm) and whole.value % num_workers:
        what = "the axis cannot be cut into equal parts"
        raise ValueError(explain(what, got=f"{whole.value} for {num_workers} workers"))
    part = simplify(floordiv(whole, num_workers))
    return TensorStructInfo([*shape[:axis], part, *shape[axis + 1 :]], x.dtype)


@scatter_from_worker0.numpy
def _(x, num_workers, axis=0):
    return collective.scatter(x, num_workers, axis)


def _packed(operator: Operator, options: Callable[[Any], list[int]]) -> None:
    """Lower an operator to the runtime's function of its name, with options after the tensor."""

    def legalize(bb: BlockBuilder, call: Call) -> Expr:
        name = operator.name.rpartition(".")[2]
        args = [call.args[0], *map(PrimValue, options(call.attrs))]
        return call_dps_packed(f"runtime.disco.{name}", args, call.struct_info)

    operator.legalize(legalize)
    operator.op.set_attr("folds", False)  # other workers have other values


_packed(allreduce, lambda attrs: [collective.OPS.index(attrs.op_type), int(attrs.in_group)])
_packed(broadcast_from_worker0, lambda attrs: [0])
_packed(allgather, lambda attrs: [int(attrs.in_group)])
_packed(scatter_from_worker0, lambda attrs: [attrs.axis])

allreduce.samples(case((2, 3)), case(("n", 3), op_type="max"))
broadcast_from_worker0.samples(case((2, 3)))
allgather.samples(case((2, 3), num_workers=1))
scatter_from_worker0.samples(case((4, 3), num_workers=1), case((4, 3), num_workers=1, axis=-1))
