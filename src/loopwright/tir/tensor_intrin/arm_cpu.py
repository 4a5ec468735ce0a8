"""Tensor intrinsics of ARM: four bytes by four bytes, for 4 rows at once."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...ir.prim_expr import PrimExpr
from ...ir.prim_op import add
from ..buffer import Buffer
from ..op import call_llvm_pure_intrin, reinterpret
from ..stmt import Stmt
from .c_text import SIMD32
from .c_text import neon as in_c
from .dot import Dot, lanes, left_of, rows_of, size, store
from .instructions import SEVEN_BITS, register_dots, register_in_c

ARM_DOT_4x4_i8_NEON_INTRIN = "dot_4x4_i8i8s32_neon"
ARM_DOT_4x4_i8_SDOT_INTRIN = "dot_4x4_i8i8s32_sdot"
ARM_DOT_4x4_u8_UDOT_INTRIN = "dot_4x4_u8u8u32_udot"
ARM_DOT_4x4_u8_HDOT_INTRIN = "dot_4x4_u8u8i32_hdot"
ARM_DOT_4x4_u8i8_USDOT = "dot_4x4_u8i8s32_usdot"
ARM_DOT_4x2_BFDOT = "dot_4x2_bf16_bfdot"


def _dot(name: str, a: Buffer, b: Buffer, c: Buffer) -> Stmt:
    """C + the products of a vector of 128 bits, in one instruction."""
    depth, kind = size(a.shape[0]), "float32x4" if c.dtype.is_float else "int32x4"
    kind = "uint32x4" if name == "udot" else kind
    left = reinterpret(f"{a.dtype}x{4 * depth}", left_of(a, range(4)))
    right = reinterpret(f"{b.dtype}x{4 * depth}", rows_of(b, range(4)))
    if name == "usdot" and str(b.dtype) == "uint8":
        left, right = right, left
    elif name == "sdot":
        right = reinterpret("int8x16", right)  # of numbers below 128 the same
    types = "v4f32.v8bf16" if c.dtype.is_float else "v4i32.v16i8"
    own = c.dtype.with_lanes(4) == kind
    total: PrimExpr = lanes(c) if own else reinterpret(kind, lanes(c))  # the same bits
    call = call_llvm_pure_intrin(kind, f"llvm.aarch64.neon.{name}.{types}", total, left, right)
    return store(c, call if own else reinterpret("int32x4", call))


def _neon(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
    """Widening products of two rows at a time, summed in pairs, twice."""

    def two(rows: range) -> PrimExpr:
        name = "llvm.aarch64.neon.smull.v8i16"
        data, weights = (reinterpret("int8x8", x) for x in (left_of(a, rows), rows_of(b, rows)))
        products = call_llvm_pure_intrin("int16x8", name, data, weights)
        return call_llvm_pure_intrin("int32x4", "llvm.aarch64.neon.saddlp.v4i32.v8i16", products)

    name = "llvm.aarch64.neon.addp.v4i32"
    sums = call_llvm_pure_intrin("int32x4", name, two(range(2)), two(range(2, 4)))
    return store(c, add(lanes(c), sums))


SPECS: dict[str, Dot] = {
    ARM_DOT_4x4_i8_NEON_INTRIN: Dot(4, "int8", "int8", "int32", _neon),
    ARM_DOT_4x4_i8_SDOT_INTRIN: Dot(4, "int8", "int8", "int32", partial(_dot, "sdot")),
    ARM_DOT_4x4_u8_UDOT_INTRIN: Dot(4, "uint8", "uint8", "uint32", partial(_dot, "udot")),
    ARM_DOT_4x4_u8_HDOT_INTRIN: Dot(4, "uint8", "uint8", "int32", partial(_dot, "udot")),
    ARM_DOT_4x4_u8i8_USDOT: Dot(4, "uint8", "int8", "int32", partial(_dot, "usdot")),
    "dot_4x4_i8u8s32_usdot": Dot(4, "int8", "uint8", "int32", partial(_dot, "usdot")),
    ARM_DOT_4x2_BFDOT: Dot(4, "bfloat16", "bfloat16", "float32", partial(_dot, "bfdot"), depth=2),
}
for _name, _spec in list(SPECS.items()):
    if (_spec.a, _spec.b) == ("int8", "int8"):
        SPECS[f"{_name}_of_seven_bits"] = replace(_spec, b="uint8")
# As C: x is A in each lane, y the rows of B, z the sums.
_S8, _U8 = "vreinterpretq_s8_s32({})".format, "vreinterpretq_u8_s32({})".format
_HALVES = [
    f"vpaddlq_s16(vmull_s8(vget_{half}_s8({_S8('x')}), vget_{half}_s8({_S8('y')})))"
    for half in ("low", "high")
]
_SDOT = in_c("defined(__ARM_FEATURE_DOTPROD)", f"vdotq_s32(z, {_S8('x')}, {_S8('y')})")
_UDOT = in_c(
    "defined(__ARM_FEATURE_DOTPROD)",
    f"vreinterpretq_s32_u32(vdotq_u32(vreinterpretq_u32_s32(z), {_U8('x')}, {_U8('y')}))",
)
_I8MM = "defined(__ARM_FEATURE_MATMUL_INT8)"
_TEXTS = {
    ARM_DOT_4x4_i8_NEON_INTRIN: in_c(
        "defined(__ARM_NEON) && defined(__aarch64__)",
        f"vaddq_s32(z, vpaddq_s32({', '.join(_HALVES)}))",
    ),
    ARM_DOT_4x4_i8_SDOT_INTRIN: _SDOT,
    ARM_DOT_4x4_u8_HDOT_INTRIN: _UDOT,
    ARM_DOT_4x4_u8i8_USDOT: in_c(_I8MM, f"vusdotq_s32(z, {_U8('x')}, {_S8('y')})"),
    "dot_4x4_i8u8s32_usdot": in_c(_I8MM, f"vusdotq_s32(z, {_U8('y')}, {_S8('x')})"),
}
_FEATURES = {"usdot": "i8mm", "bfdot": "bf16"}
for _name, _spec in SPECS.items():
    text = _TEXTS.get(_name.removesuffix("_of_seven_bits"))
    facts = [SEVEN_BITS] if _name.endswith("_of_seven_bits") else []
    if _spec.update is _neon:
        register_dots(_name, _spec, features=["neon"], requires=facts, cost=6, c=text)
    else:
        feature = next((f for end, f in _FEATURES.items() if _name.endswith(end)), "dotprod")
        register_dots(_name, _spec, features=[feature], requires=facts, c=text)
for _a, _b in (("uint8", "int8"), ("int8", "int8"), ("int8", "uint8")):
    _spec = Dot(4, _a, _b, "int32", _neon)
    register_in_c(f"dot_4x4_{_a}_{_b}_simd32", _spec, SIMD32, features=["dsp"], cost=8)
