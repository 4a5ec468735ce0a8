"""Operations on vectors in the interpreter, lane by lane; a vector is a numpy array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.dtype import DataType
from .meaning import float_to_int, fma, index_from_data, int_pow, wrapper


def vector_nextafter(x: Any, y: Any) -> Any:
    """Lane by lane `nextafter`."""
    return np.where(x == y, y, np.nextafter(x, y))


def vector_fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Any:
    """Lane by lane `fma`."""
    lanes = zip(a.astype(float), b.astype(float), c.astype(float), strict=True)
    return np.array([fma(*map(float, lane)) for lane in lanes]).astype(a.dtype)


def vector_index_from_data(
    index: Any, extent: Any, mask: np.ndarray | None, where: str
) -> np.ndarray:
    """Lane by lane `index_from_data`; 0 where a mask does not hold."""
    index, extent = np.broadcast_arrays(index, extent)
    active = np.broadcast_to(True if mask is None else mask, index.shape)
    lanes = zip(index.tolist(), extent.tolist(), active.tolist(), strict=True)
    indices = [index_from_data(i, n, where) if w else 0 for i, n, w in lanes]
    return np.array(indices, np.int64)


def ramp(base: np.ndarray | int, stride: np.ndarray | int, lanes: int) -> np.ndarray:
    """base, base + stride, ...; a vector base is repeated whole, with one stride or one per lane."""
    steps = np.multiply.outer(np.arange(lanes, dtype=np.int64), stride)
    return (steps.reshape(lanes, -1) + base).reshape(-1)


def broadcast(value: np.ndarray | float, lanes: int, kind: np.dtype) -> np.ndarray:
    """`lanes` copies of a scalar or of a vector."""
    if isinstance(value, np.ndarray):
        return np.tile(value, lanes)
    return np.full(lanes, value, kind)


def element_lanes(index: int, lanes: int) -> np.ndarray:
    """Flat element indices of a buffer whose elements are vectors."""
    return (np.asarray(index)[..., None] * lanes + np.arange(lanes)).reshape(-1)


def masked_store(array: np.ndarray, index: np.ndarray, value: np.ndarray, mask: np.ndarray) -> None:
    """Store the lanes for which the mask holds."""
    keep = np.asarray(mask, bool)
    array[np.asarray(index)[keep]] = value[keep] if isinstance(value, np.ndarray) else value


def vector_trunc_div(a: np.ndarray, b: np.ndarray) -> Any:
    """`trunc_div` on each lane."""
    quotient = a // b
    down = (a - quotient * b != 0) & ((a < 0) != (b < 0)) & (b != 0)
    return quotient + down.astype(quotient.dtype)


def vector_floor_div(a: np.ndarray, b: np.ndarray) -> Any:
    """Floor division on each lane."""
    return np.floor(a / b)


def vector_floor_mod(a: np.ndarray, b: np.ndarray) -> Any:
    """`real_floor_mod` on each lane."""
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def vector_min(a: np.ndarray, b: np.ndarray) -> Any:
    """Minimum on each lane: NaN wins; of two zeros the first."""
    return np.where((b < a) | (b != b), b, a)


def vector_max(a: np.ndarray, b: np.ndarray) -> Any:
    """Maximum on each lane: NaN wins; of two zeros the first."""
    return np.where((b > a) | (b != b), b, a)


def vector_cut(values: np.ndarray, bits: int, signed: bool) -> Any:
    """Integers below a byte, wrapped around to their width."""
    if not signed:
        return values & np.uint8((1 << bits) - 1)
    spare = np.int8(8 - bits)
    return (values << spare) >> spare


def vector_bits(values: np.ndarray, bits: int) -> Any:
    """The bits of integers, as unsigned integers."""
    raw = values.view(f"u{values.itemsize}")
    return raw & raw.dtype.type((1 << bits) - 1)


def vector_popcount(values: np.ndarray, bits: int) -> Any:
    """The number of set bits of each lane."""
    return np.bitwise_count(vector_bits(values, bits)).astype(values.dtype)


def vector_pow(a: np.ndarray, b: np.ndarray, bits: int) -> Any:
    """`int_pow` on each lane."""
    wrap = wrapper(bits, a.dtype.kind == "i")
    return np.array(
        [wrap(int_pow(int(x), int(y), bits)) for x, y in zip(a, b, strict=True)], a.dtype
    )


def vector_shift(direction: str, dtype: DataType) -> Callable[[Any, Any], Any]:
    """`shifted_left` or `shifted_right` on each lane."""
    bits = dtype.bits
    shift = np.left_shift if direction == "left" else np.right_shift

    def apply(a: np.ndarray, b: np.ndarray) -> Any:
        inside = (b >= 0) & (b < bits)
        most = (
            a >> a.dtype.type(bits - 1) if direction != "left" and dtype.is_int else a.dtype.type(0)
        )
        return np.where(inside, shift(a, np.where(inside, b, 0)), most).astype(a.dtype)

    return apply


def vector_to_int(bits: int, signed: bool, kind: np.dtype) -> Callable[[Any], Any]:
    """`float_to_int` on each lane."""
    convert = float_to_int(bits, signed)
    return lambda values: np.array([convert(float(v)) for v in values], kind)


def vector_select(cond: np.ndarray, yes: np.ndarray, no: np.ndarray) -> Any:
    """A choice on each lane."""
    return np.where(cond, yes, no)
