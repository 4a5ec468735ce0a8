"""CPU instructions that tensor intrinsics use, by LLVM's names, on numpy vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _bytes(vector: np.ndarray, dtype: str) -> Any:
    """The bytes of a vector, in groups of four, as wide integers."""
    return np.ascontiguousarray(vector).view(dtype).reshape(-1, 4).astype(np.int64)


def _fours(a: str, b: str) -> Callable[..., Any]:
    """acc + the dot product of each group of four bytes, modulo 2**32."""

    def meaning(acc: np.ndarray, x: np.ndarray, y: np.ndarray) -> Any:
        sums = (_bytes(x, a) * _bytes(y, b)).sum(axis=1)
        return (np.asarray(acc, "int64") + sums).astype(np.asarray(acc).dtype)

    return meaning


def _pairs_of_bytes(a: np.ndarray, b: np.ndarray) -> Any:
    """Unsigned times signed bytes, added in pairs, saturated to int16."""
    products = np.asarray(a).view("uint8").astype("int32") * np.asarray(b).view("int8")
    return np.clip(products.reshape(-1, 2).sum(axis=1), -(1 << 15), (1 << 15) - 1).astype("int16")


def _pairs_of_words(a: np.ndarray, b: np.ndarray) -> Any:
    products = np.asarray(a, "int16").astype("int64") * np.asarray(b, "int16")
    return products.reshape(-1, 2).sum(axis=1).astype("int32")


def _pairs_of_words_added(acc: np.ndarray, a: np.ndarray, b: np.ndarray) -> Any:
    """acc + products of words, two in each int32, added in pairs."""
    products = np.asarray(a).view("int16").astype("int64") * np.asarray(b).view("int16")
    return (np.asarray(acc, "int32") + products.reshape(-1, 2).sum(axis=1)).astype("int32")


def _pairs_of_bfloat16(acc: np.ndarray, a: np.ndarray, b: np.ndarray) -> Any:
    """acc + products of bfloat16, added in pairs."""
    products = np.asarray(a).astype("float32") * np.asarray(b).astype("float32")
    return np.asarray(acc, "float32") + products.reshape(-1, 2).sum(axis=1, dtype="float32")


def _signs_of_bytes(a: Any, b: Any) -> Any:
    """a times the sign of b."""
    return np.asarray(a, "int8") * np.sign(np.asarray(b, "int8"))


def _widening(a: np.ndarray, b: np.ndarray) -> Any:
    return np.asarray(a, "int8").astype("int16") * np.asarray(b, "int8")


def _sums_of_pairs(a: np.ndarray) -> Any:
    return np.asarray(a, "int16").astype("int32").reshape(-1, 2).sum(axis=1, dtype="int32")


def _adjacent(a: np.ndarray, b: np.ndarray) -> Any:
    both = np.concatenate([np.asarray(a, "int32"), np.asarray(b, "int32")])
    return both.reshape(-1, 2).sum(axis=1, dtype="int32")


def _in_c(record: str, acc: np.ndarray, a: np.ndarray, b: np.ndarray) -> Any:
    """acc + the dot products of A and the rows of B: `tir.tensor_intrin.c_text`."""
    rows = np.asarray(b).astype("int64").reshape(len(acc), -1)
    return (np.asarray(acc, "int64") + rows @ np.asarray(a).astype("int64")).astype("int32")


MACHINE: dict[str, Callable[..., Any]] = {
    "llvm.x86.avx512.vpdpbusd.128": _fours("uint8", "int8"),
    "llvm.x86.avx512.vpdpbusd.256": _fours("uint8", "int8"),
    "llvm.x86.avx512.vpdpbusd.512": _fours("uint8", "int8"),
    **{f"llvm.x86.avx512.vpdpwssd.{n}": _pairs_of_words_added for n in (128, 256, 512)},
    "c.dot": _in_c,
    "llvm.x86.sse2.pmadd.wd": _pairs_of_words,
    "llvm.x86.avx2.pmadd.wd": _pairs_of_words,
    "llvm.x86.ssse3.pmadd.ub.sw.128": _pairs_of_bytes,
    "llvm.x86.avx2.pmadd.ub.sw": _pairs_of_bytes,
    "llvm.x86.ssse3.psign.b.128": _signs_of_bytes,
    "llvm.x86.avx2.psign.b": _signs_of_bytes,
    "llvm.x86.avx512.pmaddubs.w.512": _pairs_of_bytes,
    "llvm.x86.avx512.pmaddw.d.512": _pairs_of_words,
    "llvm.x86.avx512bf16.dpbf16ps.256": _pairs_of_bfloat16,
    "llvm.x86.avx512bf16.dpbf16ps.512": _pairs_of_bfloat16,
    "llvm.aarch64.neon.sdot.v4i32.v16i8": _fours("int8", "int8"),
    "llvm.aarch64.neon.udot.v4i32.v16i8": _fours("uint8", "uint8"),
    "llvm.aarch64.neon.usdot.v4i32.v16i8": _fours("uint8", "int8"),
    "llvm.aarch64.neon.bfdot.v4f32.v8bf16": _pairs_of_bfloat16,
    "llvm.aarch64.neon.smull.v8i16": _widening,
    "llvm.aarch64.neon.saddlp.v4i32.v8i16": _sums_of_pairs,
    "llvm.aarch64.neon.addp.v4i32": _adjacent,
}
