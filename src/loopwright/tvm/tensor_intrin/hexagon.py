"""Tensor intrinsics of Hexagon's vector unit: dot products for 32 rows at once. Loopwright does not
generate code for it; schedules that use them can be made and printed."""

from __future__ import annotations

from functools import partial

from ...ir.prim_expr import Broadcast, PrimExpr
from ...tir.buffer import Buffer
from ...tir.op import call_llvm_pure_intrin, reinterpret
from ...tir.stmt import Stmt
from ...tir.tensor_intrin.dot import Dot, lanes, register, rows_of, store

VRMPY_u8u8i32_INTRIN = "dot_32x4_u8u8i32_vrmpy"
VRMPY_u8i8i32_INTRIN = "dot_32x4_u8i8i32_vrmpy"
VDMPY_i16i16i32_INTRIN = "dot_product_32x2_i16i16i32_vdmpy"
VRMPY_u8u8i32_VTCM_INTRIN = "dot_32x4_u8u8i32_vtcm_vrmpy"
VRMPY_u8i8i32_VTCM_INTRIN = "dot_32x4_u8i8i32_vtcm_vrmpy"


def _call(name: str, repeated: bool, a: Buffer, b: Buffer, c: Buffer) -> Stmt:
    """The instruction `name`; repeated: it takes A as a vector of copies, else as one number."""
    one = reinterpret("int32", lanes(a))
    first: PrimExpr = Broadcast(one, 32) if repeated else one
    call = call_llvm_pure_intrin("int32x32", name, lanes(c), rows_of(b, range(32)), first)
    return store(c, call)


_UNSIGNED = partial(_call, "llvm.hexagon.V6.vrmpyub.acc.128B", False)
_MIXED = partial(_call, "llvm.hexagon.V6.vrmpybusv.acc.128B", True)
_SHORTS = partial(_call, "llvm.hexagon.V6.vdmpyhvsat.acc.128B", True)
_VTCM = ("global.vtcm", "global.vtcm", "global.vtcm")

register(VRMPY_u8u8i32_INTRIN, Dot(32, "uint8", "uint8", "int32", _UNSIGNED))
register(VRMPY_u8i8i32_INTRIN, Dot(32, "uint8", "int8", "int32", _MIXED))
register(VDMPY_i16i16i32_INTRIN, Dot(32, "int16", "int16", "int32", _SHORTS, depth=2))
register(VRMPY_u8u8i32_VTCM_INTRIN, Dot(32, "uint8", "uint8", "int32", _UNSIGNED, scopes=_VTCM))
register(VRMPY_u8i8i32_VTCM_INTRIN, Dot(32, "uint8", "int8", "int32", _MIXED, scopes=_VTCM))
