"""`MakeUnpackedAPI`: a kernel takes plain pointers, then scalars, then its symbolic dimensions.

Before::

    @T.prim_func
    def main(a: T.handle, k: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            A[i] = T.Cast("float32", k)

After::

    @T.prim_func
    def main(A_data: T.handle("float32", "global"), k: T.int32, n: T.int32):
        A = T.Buffer((n,), data=A_data)
        for i in range(n):
            A[i] = T.Cast("float32", k)

Symbolic dimensions are the variables in shapes, strides and offsets of the parameters' buffers that
are no parameters themselves, by first appearance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...base.errors import explain
from ...ir.functor import post_order_visit
from ...ir.prim_expr import Var
from ..function import PrimFunc
from ._base import PrimFuncPass


def symbolic_dims(func: PrimFunc) -> list[Var]:
    """The variables that the shapes, strides and offsets of the parameters define."""
    found: dict[Var, None] = {}
    given = set(func.params)

    def visit(node: Any) -> None:
        if isinstance(node, Var) and node not in given:
            found.setdefault(node)

    for buffer in func.buffers:
        offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
        for e in (*buffer.shape, *buffer.strides, *offset):
            post_order_visit(e, visit)
    return list(found)


def unpacked_params(func: PrimFunc) -> tuple[Var, ...]:
    """Pointers, other handles, scalars, symbolic dimensions: the parameters of the kernel."""
    pointers: list[Var] = []
    for buffer in func.buffers:
        if buffer.data in pointers:
            what = f"two parameters share the memory of buffer {buffer.name}"
            hint = "give each parameter a buffer of its own"
            raise ValueError(explain(what, instead=hint, span=func.span))
        pointers.append(buffer.data)
    plain = [p for p in func.params if p not in func.buffer_map]
    handles = [p for p in plain if p.dtype.is_handle]
    scalars = [p for p in plain if not p.dtype.is_handle]
    return (*pointers, *handles, *scalars, *symbolic_dims(func))


@dataclass(frozen=True)
class MakeUnpackedAPI(PrimFuncPass):
    """See the file's docstring."""

    name = "tir.MakeUnpackedAPI"

    def run_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        if not func.buffer_map:
            return func
        return func.replace(params=unpacked_params(func), buffer_map={})


__all__ = ["MakeUnpackedAPI"]
