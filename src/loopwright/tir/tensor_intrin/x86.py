"""Tensor intrinsics of x86: four bytes by four bytes, for 16 rows at once."""

from __future__ import annotations

from ...ir.prim_expr import Broadcast
from ...ir.prim_op import add, const
from ..buffer import Buffer
from ..function import PrimFunc, TensorIntrin
from ..op import call_llvm_pure_intrin, reinterpret
from ..stmt import Stmt
from .dot import Spec, four_times, lanes, register, rows_of, store

VNNI_DOT_16x4_INTRIN = "dot_16x4_vnni"
AVX512_DOT_16x4_INTRIN = "dot_16x4_avx512"


def _vnni(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
    name = "llvm.x86.avx512.vpdpbusd.512"
    args = (lanes(c), four_times(a, 16), rows_of(b, range(16)))
    return store(c, call_llvm_pure_intrin("int32x16", name, *args))


def _avx512(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
    """Products in pairs (which saturate to int16, as the instruction does), then the pairs."""
    repeated = reinterpret("uint8x64", four_times(a, 16))
    weights = reinterpret("int8x64", rows_of(b, range(16)))
    name = "llvm.x86.avx512.pmaddubs.w.512"
    pairs = call_llvm_pure_intrin("int16x32", name, repeated, weights)
    ones = Broadcast(const(1, "int16"), 32)
    sums = call_llvm_pure_intrin("int32x16", "llvm.x86.avx512.pmaddw.d.512", pairs, ones)
    return store(c, add(lanes(c), sums))


SPECS: dict[str, Spec] = {
    VNNI_DOT_16x4_INTRIN: (16, "uint8", "int8", "int32", _vnni),
    AVX512_DOT_16x4_INTRIN: (16, "uint8", "int8", "int32", _avx512),
}
for _name, _spec in SPECS.items():
    register(_name, _spec)


def __getattr__(name: str) -> PrimFunc:
    """TVM's names of the functions, which are built on first use."""
    ends = {
        "desc": (VNNI_DOT_16x4_INTRIN, "desc"),
        "vnni": (VNNI_DOT_16x4_INTRIN, "impl"),
        "avx512": (AVX512_DOT_16x4_INTRIN, "impl"),
    }
    head, _, end = name.rpartition("_")
    if head != "dot_product_16x4_u8i8i32" or end not in ends:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    intrin, part = ends[end]
    return getattr(TensorIntrin.get(intrin), part)
