"""Tensor intrinsics of x86: dot products of bytes, of four, and of bfloat16, of two, for a vector of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ...ir.prim_expr import Broadcast, PrimExpr
from ...ir.prim_op import add, const
from ..buffer import Buffer
from ..function import PrimFunc, TensorIntrin
from ..op import bitwise_and, call_llvm_pure_intrin, reinterpret
from ..stmt import Stmt
from .c_text import x86 as in_c
from .dot import Dot, Update, lanes, left_of, rows_of, size, store
from .instructions import PAIRS_FIT, register_dots, register_in_c

VNNI_DOT_16x4_INTRIN = "dot_16x4_vnni"
AVX512_DOT_16x4_INTRIN = "dot_16x4_avx512"

# By lanes of int32: products of unsigned and signed bytes, added in pairs, saturated to int16; products of
# words, added in pairs.
_BYTE_PAIRS = {8: "llvm.x86.avx2.pmadd.ub.sw", 16: "llvm.x86.avx512.pmaddubs.w.512"}
_WORD_PAIRS = {8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}


def _operands(a: Buffer, b: Buffer, count: int) -> list[PrimExpr]:
    """Both, as vectors of int32; unsigned bytes first, as the instructions have them."""
    both = [left_of(a, range(count)), rows_of(b, range(count))]
    return both[::-1] if str(b.dtype) == "uint8" else both


def _whole(name: str, a: Buffer, b: Buffer, c: Buffer) -> Stmt:
    """C + the products, in one instruction: `name` and the bits of a vector."""
    count, kind = size(c.shape[0]), c.dtype.with_lanes(size(c.shape[0]))
    pair = _operands(a, b, count)
    if str(a.dtype) == "bfloat16":
        pair = [reinterpret(f"bfloat16x{2 * count}", v) for v in pair]
    call = call_llvm_pure_intrin(str(kind), f"{name}.{32 * count}", lanes(c), *pair)
    return store(c, call)


def _pairs(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
    """Products in pairs, which saturate to int16 as the instruction does, then the pairs."""
    count = size(c.shape[0])
    left, right = _operands(a, b, count)
    kinds = f"uint8x{4 * count}", f"int8x{4 * count}"
    return store(c, _sum_of_pairs(c, *map(reinterpret, kinds, (left, right))))


def _sum_of_pairs(c: Buffer, unsigned: PrimExpr, signed: PrimExpr) -> PrimExpr:
    """C + the products of unsigned and signed bytes."""
    count = size(c.shape[0])
    pairs = call_llvm_pure_intrin(f"int16x{2 * count}", _BYTE_PAIRS[count], unsigned, signed)
    ones = Broadcast(const(1, "int16"), 2 * count)
    sums = call_llvm_pure_intrin(f"int32x{count}", _WORD_PAIRS[count], pairs, ones)
    return add(lanes(c), sums)


def _signed_pairs(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
    """`_pairs` of the absolute values of A, its bytes by their own signs, and of B by the signs of A."""
    count = size(c.shape[0])
    kind = f"int8x{4 * count}"
    signs = partial(call_llvm_pure_intrin, kind, "llvm.x86.avx2.psign.b")
    left, right = (
        reinterpret(kind, v) for v in (left_of(a, range(count)), rows_of(b, range(count)))
    )
    return store(c, _sum_of_pairs(c, signs(left, left), signs(right, left)))


def _words(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
    """The first and the second bytes of all pairs as words, multiplied and added in pairs."""
    count = size(c.shape[0])
    kind = f"int16x{2 * count}"
    number = lambda v: Broadcast(const(v, "int16"), 2 * count)  # noqa: E731
    left = reinterpret(kind, left_of(a, range(count)))
    right = reinterpret(kind, rows_of(b, range(count)))
    total: PrimExpr = lanes(c)
    halves = [
        [bitwise_and(v, number(255)) for v in (words, words >> number(8))]
        if str(side.dtype) == "uint8"
        else [(words << number(8)) >> number(8), words >> number(8)]
        for side, words in ((a, left), (b, right))
    ]
    for x, y in zip(*halves, strict=True):
        total = add(total, call_llvm_pure_intrin(f"int32x{count}", _WORD_PAIRS[count], x, y))
    return store(c, total)


def _of_words(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
    """Products of words, added in pairs."""
    count = size(c.shape[0])
    pair = (left_of(a, range(count)), rows_of(b, range(count)))
    pair = (reinterpret(f"int16x{2 * count}", v) for v in pair)
    sums = call_llvm_pure_intrin(f"int32x{count}", _WORD_PAIRS[count], *pair)
    return store(c, add(lanes(c), sums))


_VNNI = partial(_whole, "llvm.x86.avx512.vpdpbusd")
_AVXVNNI = partial(_whole, "llvm.x86.avx512.vpdpbusd")
_WORDS = partial(_whole, "llvm.x86.avx512.vpdpwssd")
_BFLOAT16 = partial(_whole, "llvm.x86.avx512bf16.dpbf16ps")


# The same in C: the sums z + x y, where x is A in each lane and y the rows of B; mm: the prefix of intrinsics.


def _unsigned_first(dot: Dot) -> tuple[str, str]:
    return ("y", "x") if dot.b == "uint8" else ("x", "y")


def _whole_in_c(name: str, mm: str, dot: Dot) -> str:
    return f"{mm}_{name}(z, {', '.join(_unsigned_first(dot))})"


def _of_words_in_c(mm: str, dot: Dot, *pairs: str) -> str:
    total = "z"
    for pair in pairs or ("x, y",):
        total = f"{mm}_add_epi32({total}, {mm}_madd_epi16({pair}))"
    return total


def _pairs_in_c(mm: str, dot: Dot) -> str:
    u, s = _unsigned_first(dot)
    if dot.a == dot.b:
        u, s = f"{mm}_abs_epi8(x)", f"{mm}_sign_epi8(y, x)"
    return _of_words_in_c(mm, dot, f"{mm}_maddubs_epi16({u}, {s}), {mm}_set1_epi16(1)")


def _words_in_c(mm: str, dot: Dot) -> str:
    halves = [
        [f"{mm}_and_si{mm[3:] or 128}({v}, {mm}_set1_epi16(255))", f"{mm}_srli_epi16({v}, 8)"]
        if dtype == "uint8"
        else [f"{mm}_srai_epi16({mm}_slli_epi16({v}, 8), 8)", f"{mm}_srai_epi16({v}, 8)"]
        for v, dtype in (("x", dot.a), ("y", dot.b))
    ]
    return _of_words_in_c(mm, dot, *map(", ".join, zip(*halves, strict=True)))


_IN_C: dict[Update, Callable[[str, Dot], str]] = {
    _VNNI: partial(_whole_in_c, "dpbusd_epi32"),
    _AVXVNNI: partial(_whole_in_c, "dpbusd_avx_epi32"),
    _WORDS: partial(_whole_in_c, "dpwssd_epi32"),
    _pairs: _pairs_in_c,
    _signed_pairs: _pairs_in_c,
    _words: _words_in_c,
    _of_words: _of_words_in_c,
}


def _bytes(lanes: int, update: Update, a: str = "uint8") -> Dot:
    return Dot(lanes, a, "int8", "int32", update)


def _bfloat16(lanes: int) -> Dot:
    return Dot(lanes, "bfloat16", "bfloat16", "float32", _BFLOAT16, depth=2)


def _int16(lanes: int, update: Update = _of_words) -> Dot:
    return Dot(lanes, "int16", "int16", "int32", update, depth=2)


_IN_PAIRS: dict[str, Any] = {"requires": (PAIRS_FIT,), "cost": 3}
# Two shifts of each side in registers, which a tile shares; one more for each signed row. Costs as measured
# (docs/notebook.md): on Zen 4, 128 x 256 x 1024 took 463 us by words of unsigned bytes, 524 by signs.
_IN_WORDS: dict[str, Any] = {"cost": 4.5, "registers": 8}
_IN_SIGNED_WORDS = {**_IN_WORDS, "cost": 4.7}
_RECORDS: dict[str, tuple[Dot, dict[str, Any]]] = {
    VNNI_DOT_16x4_INTRIN: (_bytes(16, _VNNI), {"features": ["avx512vnni"]}),
    "dot_8x4_vnni": (_bytes(8, _VNNI), {"features": ["avx512vnni", "avx512vl"]}),
    "dot_8x4_avxvnni": (_bytes(8, _AVXVNNI), {"features": ["avxvnni"]}),
    AVX512_DOT_16x4_INTRIN: (_bytes(16, _pairs), {"features": ["avx512bw"], **_IN_PAIRS}),
    "dot_8x4_avx2": (_bytes(8, _pairs), {"features": ["avx2"], **_IN_PAIRS}),
    "dot_8x4_i8i8s32_avx2": (
        _bytes(8, _signed_pairs, "int8"), {"features": ["avx2"], **_IN_PAIRS, "cost": 4.6},
    ),
    "dot_16x4_words_avx512": (_bytes(16, _words), {"features": ["avx512bw"], **_IN_WORDS}),
    "dot_8x4_words_avx2": (_bytes(8, _words), {"features": ["avx2"], **_IN_WORDS}),
    "dot_16x4_i8i8s32_words_avx512": (
        _bytes(16, _words, "int8"), {"features": ["avx512bw"], **_IN_SIGNED_WORDS},
    ),
    "dot_8x4_i8i8s32_words_avx2": (
        _bytes(8, _words, "int8"), {"features": ["avx2"], **_IN_SIGNED_WORDS},
    ),
    "dot_16x2_i16": (_int16(16), {"features": ["avx512bw"], "cost": 2}),
    "dot_8x2_i16": (_int16(8), {"features": ["avx2"], "cost": 2}),
    "dot_16x2_i16_vnni": (_int16(16, _WORDS), {"features": ["avx512vnni"]}),
    "dot_16x2_bf16": (_bfloat16(16), {"features": ["avx512bf16"]}),
    "dot_8x2_bf16": (_bfloat16(8), {"features": ["avx512bf16", "avx512vl"]}),
}  # fmt: skip
_RECORDS |= {  # and with unsigned bytes on the right: weights of few bits
    f"{name}_i8u8s32": (replace(spec, a="int8", b="uint8"), record)
    for name, (spec, record) in _RECORDS.items()
    if spec.a == "uint8"
}
SPECS = {name: spec for name, (spec, _) in _RECORDS.items()}
for _name, (_spec, _record) in _RECORDS.items():
    _value = _IN_C.get(_spec.update)
    _text = None if _value is None else in_c(_record["features"], _value)
    register_dots(_name, _spec, c=_text, **_record)
# Each x86-64 multiplies words; in C alone, for compilers without -march.
for _name, (_spec, _record) in _RECORDS.items():
    if _spec.update in (_words, _of_words):
        _text = in_c(["sse2"], _IN_C[_spec.update], bits=128)
        _cost = _record["cost"] * _spec.lanes / 4
        _own = _name.replace("_avx512", "").replace("_avx2", "")
        register_in_c(f"{_own}_sse2", _spec, _text, features=["sse2"], cost=_cost)


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
