"""Operators between workers. A program runs in one process, so there is one worker: a gathered or
scattered tensor is the tensor itself, and more workers are an error at run time."""

from __future__ import annotations

from typing import Any

from ..base.errors import LoopwrightError, explain
from ..ir.prim_expr import IntImm
from ..ir.prim_op import floordiv, multiply
from ..relax.struct_info import TensorStructInfo
from .common import compute, normalize_axis
from .core import case, op
from .extents import simplify
from .params import Tensor


def _same(x: Any, name: str) -> Any:
    return compute(x.shape, lambda *i: x(*i), name, axes="i")


def _one_worker(name: str, workers: int) -> None:
    if workers != 1:
        what = f"{name} runs in one process"
        raise LoopwrightError(explain(what, got=f"{workers} workers", instead="num_workers=1"))


@op("relax.ccl.allreduce", choices={"op_type": ("sum", "prod", "min", "max", "avg")})
def allreduce(x: Tensor, op_type: str = "sum", in_group: bool = True):
    """The sum of all workers' tensors (op_type: "sum", "prod", "min", "max", "avg")."""
    return _same(x, "allreduce")


@op("relax.ccl.broadcast_from_worker0")
def broadcast_from_worker0(x: Tensor):
    """The first worker's tensor."""
    return _same(x, "broadcast_from_worker0")


allreduce.infer(lambda x, op_type, in_group: x)
broadcast_from_worker0.infer(lambda x: x)
allreduce.numpy(lambda x, op_type="sum", in_group=True: x)
broadcast_from_worker0.numpy(lambda x: x)


@op("relax.ccl.allgather")
def allgather(x: Tensor, num_workers: int, in_group: bool = True):
    """All workers' tensors, joined along the first axis."""
    _one_worker("allgather", num_workers)
    return _same(x, "allgather")


@allgather.infer
def _(x: TensorStructInfo, num_workers, in_group=True):
    shape = x.get_shape()
    if not shape:
        return TensorStructInfo(dtype=x.dtype, ndim=x.ndim)
    return TensorStructInfo([multiply(shape[0], num_workers), *shape[1:]], x.dtype)


@allgather.numpy
def _(x, num_workers, in_group=True):
    _one_worker("allgather", num_workers)
    return x


@op("relax.ccl.scatter_from_worker0")
def scatter_from_worker0(x: Tensor, num_workers: int, axis: int = 0):
    """This worker's part of the first one's tensor, which is cut along `axis`."""
    _one_worker("scatter_from_worker0", num_workers)
    return _same(x, "scatter_from_worker0")


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
    _one_worker("scatter_from_worker0", num_workers)
    return x


allreduce.samples(case((2, 3)), case(("n", 3), op_type="max"))
broadcast_from_worker0.samples(case((2, 3)))
allgather.samples(case((2, 3), num_workers=1))
scatter_from_worker0.samples(case((4, 3), num_workers=1), case((4, 3), num_workers=1, axis=-1))
