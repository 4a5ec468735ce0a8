"""Matrix products of bytes, added in int32, and what operators of bytes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.prim_expr import IntImm, PrimExpr, Ramp
from ..ir.prim_op import cast, const
from ..relax.struct_info import TensorStructInfo
from ..tir.tensor_intrin.instructions import FACTS, PAIRS_FIT
from .common import compute
from .core import case, op
from .extents import differ, extents_of, simplify, text
from .params import Tensor
from .statements import long


@op("relax.nn.byte_matmul")
def byte_matmul(data: Tensor, weight: Tensor, narrow: bool = False):
    """data uint8 or int8 (rows, depth) by weight int8 (depth, columns), in int32. narrow: any two bytes of its
    dtype times two adjacent weights of a column add up to 16 bits."""
    rows, depth = extents_of(data, "data", None, None)
    _, columns = extents_of(weight, "weight", depth, None)
    k = te.reduce_axis((const(0, "int64"), depth), name="k")

    def cell(i, j):
        return te.sum(cast("int32", data(i, k)) * cast("int32", weight(k, j)), axis=k)

    facts = [PAIRS_FIT] if narrow else []
    return compute([rows, columns], cell, "byte_matmul", attrs={FACTS: facts})


@byte_matmul.infer
def _matmul_info(data, weight, narrow):
    check_dtypes(data=(data, "uint8", "int8"), weight=(weight, "int8"))
    a, b = data.get_shape(), weight.get_shape()
    if a is None or b is None:
        return TensorStructInfo(dtype="int32", ndim=2)
    check_extent("weight", 0, b[0], a[1])
    return TensorStructInfo([a[0], b[1]], "int32")


def check_dtypes(**tensors: tuple[Any, ...]) -> None:
    """Check the dtypes of tensors: name=(struct info, one dtype or several)."""
    for name, (info, *some) in tensors.items():
        if str(info.dtype) not in some:
            what = f"{name} must hold {' or '.join(some)}"
            raise TypeError(explain(what, got=str(info.dtype)))


def check_extent(name: str, axis: int, got: PrimExpr, required: PrimExpr) -> None:
    if differ(got, required := simplify(required)):
        raise ValueError(explain(f"axis {axis} of {name} must be {text(required)}", got=text(got)))


@byte_matmul.numpy
def _matmul_numpy(data, weight, narrow):
    return data.astype(np.int32) @ weight.astype(np.int32)


def open_shape(shape: Sequence[PrimExpr | None]) -> list[Any]:
    """A shape with new variables for its unknown extents."""
    return [d if isinstance(d, IntImm) else tir.Var(f"d{k}", "int64") for k, d in enumerate(shape)]


def ramp(start: PrimExpr, lanes: int) -> Ramp:
    return Ramp(start, long(1), lanes)


def random_bytes(*shape: int, dtype: str = "uint8") -> np.ndarray:
    """The operands of these operators' samples: always the same for one shape and dtype."""
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    return np.random.default_rng((*shape, high)).integers(low, high, shape).astype(dtype)


byte_matmul.samples(
    case(random_bytes(3, 8), random_bytes(8, 96, dtype="int8")),
    case(random_bytes(60, 8), random_bytes(8, 48, dtype="int8")),
    case(("n", 4), random_bytes(4, 50, dtype="int8"), dtype="uint8", low=0, high=255),
    case(random_bytes(13, 8), random_bytes(8, 48, dtype="int8") // 2, narrow=True),
    case(random_bytes(13, 8, dtype="int8"), random_bytes(8, 48, dtype="int8")),
)
