"""`ForceNarrowIndexToInt32`: makes loops and indices int32.

Before (-) and after (+)::

      @T.prim_func
    - def main(A: T.Buffer((T.int64(64),), "float32")):
    -     for i in range(T.int64(64)):
    + def main(A: T.Buffer((64,), "float32")):
    +     for i in range(64):
              A[i] = T.float32(1)

Integer parameters and values cast to int64 for an index become int32, too: the caller says that all
fit. Raises ValueError for a buffer with more elements than int32 can count.
"""

from __future__ import annotations

from typing import Any

from ...base.errors import explain
from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...ir.prim_expr import IntImm
from ...tir.function import PrimFunc
from ...tir.index_dtype import with_index_dtype
from ...tir.transform.base import PrimFuncPass


def too_large(func: PrimFunc) -> Any:
    """A parameter whose constant size does not fit int32, or None."""
    for buffer in func.buffers:
        size = 1
        for extent in buffer.shape:
            size *= extent.value if isinstance(extent, IntImm) else 1
        if size >= 1 << 31:
            return buffer
    return None


class ForceNarrowIndexToInt32(PrimFuncPass):
    """Makes loops and indices int32."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        large = too_large(func)
        if large is not None:
            what = f"buffer {large.name} has more elements than int32 counts"
            shape = " x ".join(str(e) for e in large.shape)
            raise ValueError(explain(what, got=shape, instead="keep int64 indices", span=func.span))
        return with_index_dtype(func, "int32", force=True)
