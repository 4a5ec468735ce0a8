"""dp4a: one dot product of four bytes, in plain arithmetic."""

from __future__ import annotations

from ...ir.prim_expr import PrimExpr
from ...ir.prim_op import add, cast, const, multiply
from ..buffer import Buffer
from ..expr import BufferLoad
from ..stmt import BufferStore, Stmt
from .dot import Dot, register
from .instructions import register_in_c

DP4A_S8S8S32_INTRIN = "dp4a_s8s8s32"
DP4A_U8S8S32_INTRIN = "dp4a_u8s8s32"
DP4A_S8U8S32_INTRIN = "dp4a_s8u8s32"
DP4A_U8U8U32_INTRIN = "dp4a_u8u8u32"


def _dp4a(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
    total: PrimExpr = BufferLoad(c, [const(0)])
    for k in range(4):
        pair = (cast(c.dtype, BufferLoad(x, [const(k)])) for x in (a, b))
        total = add(total, multiply(*pair))
    return BufferStore(c, total, [const(0)])


SPECS: dict[str, Dot] = {
    DP4A_S8S8S32_INTRIN: Dot(1, "int8", "int8", "int32", _dp4a),
    DP4A_U8S8S32_INTRIN: Dot(1, "uint8", "int8", "int32", _dp4a),
    DP4A_S8U8S32_INTRIN: Dot(1, "int8", "uint8", "int32", _dp4a),
    DP4A_U8U8U32_INTRIN: Dot(1, "uint8", "uint8", "uint32", _dp4a),
}
for _name, _spec in SPECS.items():
    register(_name, _spec)

# What plain loops of C compute, of any processor.
for _a, _b in (("uint8", "int8"), ("int8", "int8"), ("int8", "uint8")):
    for _lanes in (4, 8, 16):
        _name = f"dot_{_lanes}x4_{_a}_{_b}"
        register_in_c(_name, Dot(_lanes, _a, _b, "int32", _dp4a), None, cost=16)
