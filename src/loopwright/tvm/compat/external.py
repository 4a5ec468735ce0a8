"""TVM's `contrib.cblas`, `mkl`, `dnnl` and `random`: tensors computed by registered functions.

Here numpy computes them all (`runtime/by_numpy.py`), with the BLAS that it was built with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import te, tir
from ...base.errors import explain
from ...ir.literals import is_one
from ...ir.prim_expr import PrimExpr
from ...tir.buffer import Buffer


def _extern(
    shape: Sequence[PrimExpr | int],
    inputs: Sequence[te.Tensor],
    func: str,
    args: Sequence[Sequence[PrimExpr | int]],
    **options: Any,
) -> Any:
    """A tensor computed by a registered function; args: (arguments before the inputs and the
    result, arguments after them)."""
    front, behind = args

    def call(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Any:
        return tir.call_packed(f"tvm.contrib.{func}", *front, *ins, outs[0], *behind)

    return te.extern(shape, inputs, call, **options)


def matmul(
    lhs: te.Tensor, rhs: te.Tensor, transa: bool = False, transb: bool = False, **kwargs: Any
) -> te.Tensor:
    """The product of two matrices, of which either may be transposed."""
    shape = (lhs.shape[1 if transa else 0], rhs.shape[0 if transb else 1])
    options = ((), (transa, transb))
    return _extern(shape, [lhs, rhs], "cblas.matmul", options, **{"name": "C", **kwargs})


def batch_matmul(
    lhs: te.Tensor,
    rhs: te.Tensor,
    transa: bool = False,
    transb: bool = False,
    iterative: bool = False,
    **kwargs: Any,
) -> te.Tensor:
    """The products of batches of matrices; one batch may have a single matrix. iterative: taken for
    TVM's sake."""
    batch = lhs.shape[0] if is_one(rhs.shape[0]) else rhs.shape[0]
    shape = (batch, lhs.shape[2 if transa else 1], rhs.shape[1 if transb else 2])
    options = ((), (transa, transb))
    return _extern(shape, [lhs, rhs], "cblas.batch_matmul", options, **{"name": "C", **kwargs})


def randint(low: int, high: int, size: Sequence[int], dtype: str = "int32") -> te.Tensor:
    """Random integers from `low` up to, and without, `high`. Raises ValueError for a float type."""
    if "int" not in dtype:
        raise ValueError(explain("randint makes integers", got=dtype))
    return _extern(size, [], "random.randint", ((int(low), int(high)), ()), dtype=dtype)


def uniform(low: float, high: float, size: Sequence[int]) -> te.Tensor:
    """Random float32 numbers from `low` to `high`."""
    return _extern(size, [], "random.uniform", (_floats(low, high), ()), dtype="float32")


def normal(loc: float, scale: float, size: Sequence[int]) -> te.Tensor:
    """Random float32 numbers around `loc` with the standard deviation `scale`."""
    return _extern(size, [], "random.normal", (_floats(loc, scale), ()), dtype="float32")


def _floats(*values: float) -> tuple[Any, ...]:
    return tuple(tir.const(float(value), "float64") for value in values)
