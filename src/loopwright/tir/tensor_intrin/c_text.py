"""The C of dot products: intrinsics where the compiler says that the processor has them, else plain loops.

A kernel for the target `c` calls a function by the record's name; its text has the intrinsics of all
records that compute the same, the cheapest first, and the loops:

    static inline void lw_dot_16x4_vnni(int32_t* c, const uint8_t* a, const int8_t* b) {
    #if !defined(MODEL_PLAIN) && defined(__AVX512VNNI__)
      ...
    #else
      for (int32_t i = 0; i < 16; ++i) ...
    #endif
    }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...ir.prim_expr import Shuffle, StringImm
from ..buffer import Buffer
from ..op import call_pure_extern
from ..stmt import Stmt
from .dot import Dot, lanes, store

FUNCTION = "c.dot"  # call_pure_extern(dtype, "c.dot", record, C, A, the rows of B)


@dataclass(frozen=True)
class CText:
    """The C of a dot product. condition: of `#if`, whether the processor has it; header: what declares its
    intrinsics; lines(dot): the statements, of the pointers c, a and b."""

    condition: str
    header: str
    lines: Callable[[Dot], Sequence[str]]


def in_c(record: str, dot: Dot) -> Dot:
    """A dot product that is computed by the C function of a record."""

    def update(a: Buffer, b: Buffer, c: Buffer) -> Stmt:
        rows = [lanes(b, n) for n in range(dot.lanes)]
        right = Shuffle(rows, list(range(dot.lanes * dot.depth)))
        kind = str(c.dtype.with_lanes(dot.lanes))
        args = StringImm(record), lanes(c), lanes(a), right
        return store(c, call_pure_extern(kind, FUNCTION, *args))

    return replace(dot, update=update)


def x86(features: Sequence[str], value: Callable[[str, Dot], str], bits: int = 0) -> CText:
    """Intrinsics of x86, with LLVM's features. value(prefix, dot): the C of the sums z + x y; x: A in each lane; y: the rows of B.
    bits: of a vector; 0: of all lanes."""

    def lines(dot: Dot) -> list[str]:
        width = bits or 32 * dot.lanes
        mm, kind, to = f"_mm{width if width > 128 else ''}", f"si{width}", f"__m{width}i*"
        to, of = ("", "") if width == 512 else (f"({to})", f"(const {to})")
        y, z = (f"{mm}_loadu_{kind}({of}{p})" for p in "bc")
        word, read, vectors = _loaded(f"__m{width}i", f"{mm}_set1_epi32(word)", y, z)
        body = [vectors, f"{mm}_storeu_{kind}({to}c, {value(mm, dot)});"]
        count = 32 * dot.lanes // width
        if count > 1:
            step = f"b += {dot.depth * width // 32}, c += {width // 32}"
            inner = (f"  {line}" for line in body)
            body = [f"for (int32_t i = 0; i < {count}; ++i, {step}) {{", *inner, "}"]
        return [word, read, *body]

    conditions = (f"defined(__{feature.upper()}__)" for feature in features)
    return CText(" && ".join(conditions), "immintrin.h", lines)


def neon(condition: str, value: str) -> CText:
    """Intrinsics of NEON. value: the C of the sums z + x y, as in `x86`."""

    def lines(dot: Dot) -> list[str]:
        kind = dot.b[0].replace("i", "s") + "8"
        y = f"vreinterpretq_s32_{kind}(vld1q_{kind}(b))"
        return [
            *_loaded("int32x4_t", "vdupq_n_s32(word)", y, "vld1q_s32(c)"),
            f"vst1q_s32(c, {value});",
        ]

    return CText(condition, "arm_neon.h", lines)


def _loaded(kind: str, x: str, y: str, z: str) -> list[str]:
    return ["int32_t word;", "memcpy(&word, a, 4);", f"const {kind} x = {x}, y = {y}, z = {z};"]


def _simd32(dot: Dot) -> list[str]:
    """Two halves of each word as words of 16 bits, multiplied and added in pairs."""
    a, b = (f"__{'u' if t == 'uint8' else 's'}xtb16" for t in (dot.a, dot.b))
    return [
        "uint32_t word;",
        "memcpy(&word, a, 4);",
        f"const {'u' * (dot.a == 'uint8')}int16x2_t even = {a}(word), odd = {a}(word >> 8);",
        f"for (int32_t i = 0; i < {dot.lanes}; ++i) {{",
        "  memcpy(&word, b + 4 * i, 4);",
        f"  c[i] = __smlad(even, {b}(word), __smlad(odd, {b}(word >> 8), c[i]));",
        "}",
    ]


# Cortex-M4 and larger: of the registers of integers.
SIMD32 = CText("defined(__ARM_FEATURE_SIMD32)", "arm_acle.h", _simd32)


def loops(dot: Dot) -> list[str]:
    """The plain loops."""
    terms = (f"a[{k}] * b[{dot.depth} * i + {k}]" for k in range(dot.depth))
    total = f"c[i] = (int32_t)((uint32_t)c[i] + (uint32_t)({' + '.join(terms)}));"
    return [f"for (int32_t i = 0; i < {dot.lanes}; ++i) {{", f"  {total}", "}"]
