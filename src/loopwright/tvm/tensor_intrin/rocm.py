"""Tensor intrinsics of AMD's GPUs. Loopwright does not generate code for them; schedules that use
them can be made and printed."""

from __future__ import annotations

from ...ir.prim_op import add, const
from ...tir.buffer import Buffer
from ...tir.expr import BufferLoad
from ...tir.op import call_llvm_pure_intrin, reinterpret
from ...tir.stmt import BufferStore, Stmt
from ...tir.tensor_intrin.dot import Dot, lanes, register

AMDGPU_SDOT4_INTRIN = "sdot4"


def _sdot4(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
    parts = [reinterpret("int32", lanes(x)) for x in (a, b)]
    last = (const(0, "int32"), const(True, "bool"))
    call = call_llvm_pure_intrin("int32", "llvm.amdgcn.sdot4", *parts, *last)
    return BufferStore(c, add(BufferLoad(c, [const(0)]), call), [const(0)])


_SCOPES = ("shared", "shared", "local")
register(AMDGPU_SDOT4_INTRIN, Dot(1, "int8", "int8", "int32", _sdot4, scopes=_SCOPES))
