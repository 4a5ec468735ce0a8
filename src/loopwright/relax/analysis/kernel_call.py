"""The arguments of a `call_tir` compared with the parameters of its PrimFunc."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...arith import Analyzer
from ...ir.prim_expr import IntImm, PrimExpr
from ...ir.prim_expr import Var as TirVar
from ...ir.variables import substitute
from ...tir.buffer import Buffer
from ...tir.function import PrimFunc
from ..struct_info import PrimStructInfo, StructInfo, TensorStructInfo


def conflicts(func: PrimFunc, passed: Sequence[StructInfo | None]) -> Iterator[str]:
    """What contradicts the parameters of a kernel, which `passed` are for, arguments and results:
    their ranks, dtypes, and the extents that are proved to differ. The kernel's symbolic extents
    are those of the first tensor that has them."""
    bound: dict[TirVar, PrimExpr] = {}
    ana = Analyzer()
    for param, info in zip(func.params, passed, strict=False):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            if isinstance(info, PrimStructInfo) and info.value is not None:
                bound.setdefault(param, info.value)
            continue
        if not isinstance(info, TensorStructInfo):
            continue
        if not info.dtype.is_void and info.dtype != buffer.dtype:
            yield f"{buffer.name} is of {buffer.dtype}, not {info.dtype}"
        dims = info.get_shape()
        rank = info.ndim if dims is None else len(dims)
        if rank not in (-1, len(buffer.shape)):
            yield f"{buffer.name} has {len(buffer.shape)} dimensions, not {rank}"
        elif dims is not None:
            yield from _extents(ana, buffer, dims, bound)


def _extents(
    ana: Analyzer, buffer: Buffer, dims: Sequence[PrimExpr], bound: dict[TirVar, PrimExpr]
) -> Iterator[str]:
    for extent, dim in zip(buffer.shape, dims, strict=True):
        if isinstance(extent, TirVar):
            bound.setdefault(extent, dim)
    for k, (extent, dim) in enumerate(zip(buffer.shape, dims, strict=True)):
        required = substitute(extent, bound)
        values = [v.value if isinstance(v, IntImm) else v for v in (required, dim)]
        if ana.can_prove(required.astype("int64") != dim.astype("int64")):
            yield f"extent {k} of {buffer.name} is {values[0]}, not {values[1]}"
