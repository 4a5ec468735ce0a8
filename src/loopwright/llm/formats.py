"""How files store the weights of language models: a table of formats, and what `matmul_packed` reads of each.

    parts = pack("q4_K", [raw])            # raw: uint8 (columns, bytes of a column), as in the file
    product(x, parts, "q4_K", columns)     # an expression: x (rows, depth) by the matrix

The layouts are those of GGUF (the blocks of ggml-common.h); "intB_N" are weights of B bits of which N rows share
a scale (AWQ, GPTQ, ONNX), which readers bring as `Columns`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate

import numpy as np

from ..base.errors import explain, suggest
from ..ops.packed import FOUR, WIDE, Columns
from ..ops.packed import pack as pack_columns
from ..relax import op
from ..relax.expr import Expr, Tuple, TupleGetItem
from ..runtime.tensor import aligned_empty
from ..runtime.threads import default_num_threads

_PIECE = 1 << 19  # numbers that are unpacked at once


@dataclass(frozen=True)
class Format:
    """bits: of a number's planes, from the low ones on. block: rows that share a scale; zero: of all numbers. least:
    whether there are least values. size: bytes of `steps` blocks, whose scales, of one byte, share a step (None: they
    are floats); unpack: these, uint8 (columns, groups, size), as `Columns`."""

    bits: tuple[int, ...]
    block: int
    zero: int = 0
    least: bool = False
    size: int = 0
    steps: int = 1
    unpack: Callable[[np.ndarray], Columns] | None = None

    @property
    def group(self) -> int:
        """Rows that are stored together."""
        return self.block * self.steps


def _half(raw: np.ndarray, at: int) -> np.ndarray:
    """The float16 at a byte of each group."""
    return np.ascontiguousarray(raw[..., at : at + 2].view("<f2")[..., 0])


def _bits(raw: np.ndarray, bits: int, width: int) -> np.ndarray:
    """The numbers in runs of `width` bytes, first the lowest bits of all, then the next ones: (columns, numbers)."""
    run = np.dtype(f"V{width}")  # numpy copies these at once
    runs = np.ascontiguousarray(raw.view(run)).reshape(len(raw), -1)
    mask = np.uint64(((1 << bits) - 1) * 0x0101010101010101)
    numbers = np.empty((*runs.shape, 8 // bits), run)
    for k in range(8 // bits):
        numbers[..., k] = (runs.view(np.uint64) >> np.uint64(k * bits) & mask).view(run)
    return numbers.view(np.uint8).reshape(len(raw), -1)


def _of_32(fifth: bool, least: bool, raw: np.ndarray) -> Columns:
    """d; m, if there are least values; 32 fifth bits; 32 numbers, the first 16 in the lower halves."""
    at = 4 if least else 2
    numbers = _bits(raw[..., at + 4 * fifth :], 4, 16)
    if fifth:
        high = np.unpackbits(raw[..., at : at + 4], axis=-1, bitorder="little")
        numbers = numbers | high.reshape(numbers.shape) << 4
    return Columns(numbers, _half(raw, 0), _half(raw, 2) if least else None)


def _q8_0(raw: np.ndarray) -> Columns:
    """d, then 32 signed numbers."""
    return Columns(_bits(raw[..., 2:], 8, 32) ^ np.uint8(128), _half(raw, 0))


def _of_256(fifth: bool, raw: np.ndarray) -> Columns:
    """d, dmin; 8 scales and least values of six bits; fifth bits, of block k in bit k of 32 bytes; numbers of two
    blocks in the halves of 32 bytes."""
    numbers = _bits(raw[..., 16 + 32 * fifth :], 4, 32)
    if fifth:
        numbers = numbers | _bits(raw[..., 16:48], 1, 32) << 4
    # The first four of each in the low six bits of four bytes; of the others the low four bits, whose upper two are
    # above the first.
    first, second, rest = raw[..., 4:8], raw[..., 8:12], raw[..., 12:16]
    scale = np.concatenate([first & 63, rest & 15 | first >> 6 << 4], -1)
    least = np.concatenate([second & 63, rest >> 4 | second >> 6 << 4], -1)
    flat = (part.reshape(len(raw), -1) for part in (scale, least))
    return Columns(numbers, *flat, _half(raw, 0), -_half(raw, 2))


def _q6_k(raw: np.ndarray) -> Columns:
    """The low four bits in the halves of 64 bytes, the upper two in the quarters of 32; 16 scales; d."""
    numbers = _bits(raw[..., :128], 4, 64) | _bits(raw[..., 128:192], 2, 32) << 4
    scale = np.ascontiguousarray(raw[..., 192:208]).view(np.int8).reshape(len(raw), -1)
    return Columns(numbers, scale, step=_half(raw, 208))


FORMATS = {
    "q4_0": Format((4,), 32, 8, size=18, unpack=partial(_of_32, False, False)),
    "q4_1": Format((4,), 32, least=True, size=20, unpack=partial(_of_32, False, True)),
    "q5_0": Format((4, 1), 32, 16, size=22, unpack=partial(_of_32, True, False)),
    "q5_1": Format((4, 1), 32, least=True, size=24, unpack=partial(_of_32, True, True)),
    "q8_0": Format((8,), 32, 128, size=34, unpack=_q8_0),
    "q4_K": Format((4,), 32, least=True, size=144, steps=8, unpack=partial(_of_256, False)),
    "q5_K": Format((4, 1), 32, least=True, size=176, steps=8, unpack=partial(_of_256, True)),
    "q6_K": Format((4, 2), 16, 32, size=210, steps=16, unpack=_q6_k),
}


@cache
def format_of(name: str) -> Format:
    """The format of a name: of the table, or "intB_N". Raises ValueError for another one."""
    integers = re.fullmatch(r"int([248])_(\d+)", name)
    if integers:
        return Format((int(integers[1]),), int(integers[2]), least=True)
    if name not in FORMATS:
        what = "weights of this format are not read"
        raise ValueError(explain(what, got=name, instead=suggest(name, FORMATS, "one of")))
    return FORMATS[name]


def columns_of(name: str, raw: np.ndarray) -> Columns:
    """The weights in bytes (columns, bytes of a column). Raises ValueError where these are not whole blocks."""
    form = format_of(name)
    if form.unpack is None or raw.shape[1] % form.size:
        what = f"a column of {name} holds blocks of {form.size} bytes"
        raise ValueError(explain(what, got=f"{raw.shape[1]} bytes"))
    return form.unpack(raw.reshape(len(raw), -1, form.size))


def pack(name: str, weights: Sequence[np.ndarray] | Columns) -> list[np.ndarray]:
    """The arrays of a product, in the order of `part_infos`, of columns, or of bytes as in the file: of one tensor
    behind another."""
    form = format_of(name)
    if isinstance(weights, Columns):
        return [array for part in pack_columns(weights, form.bits) for array in part]
    depth = weights[0].shape[1] // form.size * form.group
    *starts, columns = accumulate(map(len, weights), initial=0)
    parts = [aligned_empty(s, np.dtype(d)) for s, d in part_infos(name, columns, depth)]

    def piece(start: int) -> None:
        own = (w[max(start - s, 0) : max(start + step - s, 0)] for w, s in zip(weights, starts))
        some = columns_of(name, np.concatenate(list(own)))
        arrays = (array for part in pack_columns(some, form.bits) for array in part)
        for whole, array in zip(parts, arrays, strict=True):
            whole[start // WIDE : start // WIDE + len(array)] = array

    # The numbers of a piece stay in the cache.
    step = max(_PIECE // max(depth, 1) // WIDE, 1) * WIDE
    with ThreadPoolExecutor(default_num_threads()) as pool:
        list(pool.map(piece, range(0, columns, step)))
    return parts


def dequantized(name: str, raw: np.ndarray) -> np.ndarray:
    """The values of weights in bytes: float32 (columns, depth)."""
    return columns_of(name, raw).dequantized(format_of(name).zero)


def part_infos(name: str, columns: int, depth: int) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and dtypes of the arrays of a matrix. Raises ValueError where blocks do not divide the depth."""
    form = format_of(name)
    if depth % form.group:
        what = f"a column of {name} holds blocks of {form.group} rows"
        raise ValueError(explain(what, got=f"{depth} rows"))
    panels = -(-columns // WIDE)
    planes = [((panels, depth * b // (FOUR * 8), WIDE, FOUR), "uint8") for b in form.bits]
    scale, step = ((panels, depth // rows, WIDE) for rows in (form.block, form.group))
    short = "uint8" if form.least else "int8"
    one = [(scale, "float16")] if form.steps == 1 else [(scale, short), (step, "float16")]
    return planes + one * (1 + form.least)


def product(
    emit: Callable[[Expr], Expr], x: Expr, parts: Sequence[Expr], name: str, columns: int,
    in_bytes: bool = True, chosen: Expr | None = None, matrices: int = 1,
) -> Expr:  # fmt: skip
    """x, float32 (rows, depth), by packed weights: float32 (rows, columns). emit: binds an expression to a variable.
    in_bytes: each block of x is rounded to 127 steps of its largest magnitude, as ggml does. chosen, matrices: see
    `matmul_packed`."""
    form = format_of(name)
    rows, depth = x.struct_info.get_shape()
    if in_bytes:
        short = emit(op.nn.quantize_blocks(x, form.block))
        data = [emit(TupleGetItem(short, n)) for n in range(3)]
    elif form.zero or form.least:
        blocks = emit(op.reshape(x, (rows, depth // form.block, form.block)))
        data = [x, emit(op.sum(blocks, axis=2))]
    else:
        data = [x]
    scaling = form.bits, form.block, form.zero
    out = emit(op.nn.matmul_packed(Tuple(data), *_weight(form, parts), chosen, *scaling, matrices))
    return flattened(emit, out, columns)


def _weight(form: Format, parts: Sequence[Expr]) -> list[Expr]:
    """Planes, scales and least values."""
    low, high = len(form.bits), len(form.bits) + 1 + (form.steps > 1)
    return [Tuple(list(part)) for part in (parts[:low], parts[low:high], parts[high:])]


def columns_at(ids: Expr, parts: Sequence[Expr], name: str) -> Expr:
    """Columns of a matrix by their numbers (n): float32 (n, depth)."""
    form = format_of(name)
    return op.nn.take_packed(ids, *_weight(form, parts), form.bits, form.block, form.zero)


def flattened(emit: Callable[[Expr], Expr], panels: Expr, columns: int) -> Expr:
    """Results in panels (rows, panels, 64) as (rows, columns)."""
    flat = emit(op.reshape(panels, (panels.struct_info.shape[0], -1)))
    if columns % WIDE:
        flat = emit(op.strided_slice(flat, axes=[1], begin=[0], end=[columns]))
    return flat
