"""Products by packed weights: numbers of few bits, of which a block of rows shares a scale.

A step of a language model reads all its weights for one row: its time is the number of their bytes.
So they are stored packed, and unpacked in registers, where several rows may use them. A weight is

    (number - zero) * scale + least

in panels of 64 columns: planes of a number's bits hold four rows of a column side by side, the terms of one
instruction, and in the bits above them the next four; the scales of a block follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from operator import or_
from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const
from ..tir.tensor_intrin.instructions import FACTS, PAIRS_FIT, SEVEN_BITS
from .common import NO_INLINE, compute
from .core import case, op
from .extents import check_filled, check_multiple, differ, dims_equal, extents_of, simplify
from .params import Ints, Tensor, Tensors

WIDE = 64  # columns of a panel
FOUR = 4  # rows whose numbers are adjacent
MOST = 1 << 16  # rows of a block whose products of bytes int32 holds in all: 255 * 128 each
PLAIN_PARTS = "product_by_panels"  # the same of weights in panels that are not packed
PARTS = "packed_product"  # of the block that adds the sums of blocks up: the rule knows it by this


@dataclass(frozen=True)
class Columns:
    """The columns of a matrix as rows: numbers, unsigned (columns, depth); scale and least, (columns,
    blocks), floats, or short numbers times steps (columns, groups of blocks)."""

    numbers: np.ndarray
    scale: np.ndarray
    least: np.ndarray | None = None
    step: np.ndarray | None = None
    least_step: np.ndarray | None = None

    def dequantized(self, zero: int) -> np.ndarray:
        """The matrix's columns, float32 (columns, depth)."""
        whole = lambda part, step: _each(_each(step, part.shape[1]) * part, self.numbers.shape[1])  # noqa: E731
        value, least = self.numbers.astype(np.float32) - zero, self.least
        if least is not None and self.least_step is None and least.dtype.kind in "iu":
            value, least = value + _each(least, value.shape[1]), None
        value *= whole(self.scale, self.step)
        return value if least is None else value + whole(least, self.least_step)


def _each(part: np.ndarray | None, count: int) -> Any:
    """float32 (columns, parts) for each of `count` rows; 1 for None."""
    if part is None:
        return np.float32(1)
    return np.repeat(part.astype(np.float32), count // max(part.shape[1], 1), 1)


def pack(columns: Columns, bits: Sequence[int]) -> tuple[list[np.ndarray], ...]:
    """The weights of `matmul_packed`: planes, scale and least with their steps. What fills up the last panel is 0.

    bits: of the planes, from the low ones on."""
    starts = accumulate(bits, initial=0)
    planes = [_plane(columns.numbers, start, b) for start, b in zip(starts, bits)]
    scale, least = (columns.scale, columns.step), (columns.least, columns.least_step)
    return planes, *([in_panels(p) for p in part if p is not None] for part in (scale, least))


def in_panels(part: np.ndarray) -> np.ndarray:
    """(columns, n) as (panels, n, 64)."""
    if len(part) % WIDE:
        part = np.pad(part, [(0, -len(part) % WIDE), (0, 0)])
    return np.ascontiguousarray(part.reshape(-1, WIDE, part.shape[1]).swapaxes(1, 2))


def _plane(numbers: np.ndarray, start: int, bits: int) -> np.ndarray:
    """The bits from `start` on of numbers (columns, depth) as uint8 (panels, depth / rows of a byte, 64, 4)."""
    words = np.ascontiguousarray(numbers).view(np.uint32)  # four rows of a column move together
    words = words.reshape(len(numbers), -1, 8 // bits)
    mask, fours = np.uint32(((1 << bits) - 1) * 0x01010101), np.zeros(words.shape[:2], np.uint32)
    for k in range(8 // bits):
        fours |= (words[:, :, k] >> np.uint32(start) & mask) << np.uint32(k * bits)
    panels = in_panels(fours)
    return panels.view(np.uint8).reshape(*panels.shape, FOUR)


@op("relax.nn.quantize_blocks")
def quantize_blocks(data: Tensor, block: int):
    """Blocks of rows of float32 (rows, depth) as int8, to 127 of their largest magnitude: the numbers, float32
    (rows, blocks) that they are multiplied by, and their sums, int32 (rows, blocks)."""
    rows, depth = extents_of(data, "data", None, None)
    if not 0 < block <= MOST:
        raise ValueError(explain(f"block must be from 1 to {MOST}", got=block))
    check_multiple(depth, block, "axis 1 of data")
    shape = [rows, simplify(depth // block)]
    k, n = (te.reduce_axis((const(0, "int64"), const(block, "int64")), name=x) for x in "kn")
    most = compute(shape, lambda i, b: te.max(tir.abs(data(i, b * block + k)), axis=k), "most")
    factor = compute(shape, lambda i, b: most(i, b) * const(1 / 127, "float32"), "factor")

    def number(i, j):
        step = most(i, j // block)
        scaled = data(i, j) * (const(127, "float32") / tir.max(step, const(1e-30, "float32")))
        return cast("int8", tir.nearbyint(scaled))

    numbers = compute([rows, depth], number, "numbers")
    terms = lambda i, b: te.sum(cast("int32", numbers(i, b * block + n)), axis=n)  # noqa: E731
    return numbers, factor, compute(shape, terms, "sums")


@quantize_blocks.numpy
def _quantized(data, block):
    parts = data.reshape(len(data), data.shape[1] // block, block)
    most = np.abs(parts).max(2, initial=0)
    step = np.float32(127) / np.maximum(most, np.float32(1e-30))
    numbers = np.rint(parts * step[..., None]).astype(np.int8)
    factor = most * np.float32(1 / 127)
    return numbers.reshape(data.shape), factor, numbers.sum(2, dtype=np.int32)


quantize_blocks.samples(case((3, 64), block=32), case(("n", 32), block=16))


@op("relax.nn.matmul_packed")
def matmul_packed(
    data: Tensors, planes: Tensors, scale: Tensors, least: Tensors = (),
    chosen: Tensor | None = None, bits: Ints = (4,), block: int = 32, zero: int = 0,
    matrices: int = 1,
):  # fmt: skip
    """Rows by packed weights, float32 (rows, panels, 64): see `pack`.

    data: float32 (rows, depth), or the three results of `quantize_blocks`; where zero is not 0 or there is a least
    value, floats come with their sums of blocks, (rows, depth / block). planes: uint8 (panels, depth / (4 * 8 /
    bits), 64, 4), of these bits each. scale and least: floats (panels, depth / block, 64), or short numbers and
    their steps, (panels, groups, 64), each of equally many blocks; a least value of short numbers alone counts in scales.

    chosen: integers (n, k), where the weight is several `matrices` of equally many panels, one after another: row i
    of n * k is by matrix chosen[i // k, i % k] (an index out of range is clamped), and only these are read; data has
    n * k rows, or n.
    """
    own, factor, sums = _data(data, bool(zero or least))
    total, blocks, _ = extents_of(scale[0], "scale", None, None, WIDE)
    depth = simplify(blocks * block)
    _check(planes, [int(b) for b in bits], block, total, depth)
    rows, _ = extents_of(own, "data", None, depth)
    if factor is not None and block > MOST:
        raise ValueError(explain(f"a block of bytes has at most {MOST} rows", got=block))
    for part in (part for part in (factor, sums) if part is not None):
        extents_of(part, "the factor and the sums of data", rows, blocks)
    for part in (scale, least):
        _check_scales(part, total, blocks)
    panels, share, panel_of = _matrices(chosen, matrices, total, rows)
    rows = simplify(rows * share)
    in_bytes = factor is not None
    wide = "int32" if in_bytes else "float32"
    apart = [] if chosen is None else [rows]  # each row has numbers of its own
    numbers = _numbers(planes, bits, [*apart, panels, simplify(depth // FOUR)], in_bytes, panel_of)
    axes = {"w": const(block // FOUR, "int64"), "t": const(FOUR, "int64"), "b": blocks}
    w, t, b = (te.reduce_axis((const(0, "int64"), n), name=name) for name, n in axes.items())

    def term(i, g, p, c):
        four = g * (block // FOUR) + w
        x, at = own(i // share, four * FOUR + t), (c, t) if in_bytes else (t, c)
        at = (*[i][: len(apart)], p, four, *at)
        return te.sum(cast(wide, x) * cast(wide, numbers(*at)), axis=[w, t])

    facts = {FACTS: [PAIRS_FIT, SEVEN_BITS]} if sum(bits) < 8 else {}
    products = compute([rows, blocks, panels, WIDE], term, "products", attrs=facts)

    in_steps = _in_steps(least)

    def whole(i, p, c):
        value, row, at = products(i, b, p, c), i // share, panel_of(i, p)
        if zero:
            value = value - sums(row, b) * const(zero, wide)
        if in_steps:
            value = value + sums(row, b) * cast(wide, least[0](at, b, c))
        value = cast("float32", value) * _real(scale, blocks, b, at, c)
        more = None if not least or in_steps else cast("float32", sums(row, b))
        if factor is not None:
            value = value * factor(row, b)
            more = None if more is None else more * factor(row, b)
        if more is not None:
            value = value + more * _real(least, blocks, b, at, c)
        return te.sum(value, axis=b)

    attrs = {PARTS: "apart" if apart else "shared"}
    return compute([rows, panels, WIDE], whole, "matmul_packed", attrs=attrs)


@op("relax.nn.take_packed")
def take_packed(
    ids: Tensor, planes: Tensors, scale: Tensors, least: Tensors = (), bits: Ints = (4,),
    block: int = 32, zero: int = 0,
):  # fmt: skip
    """Columns of packed weights as rows, float32 (n, depth), by their numbers (n), which are clamped: the embeddings
    of tokens. The others: see `matmul_packed`."""
    (count,) = extents_of(ids, "ids", None)
    total, blocks, _ = extents_of(scale[0], "scale", None, None, WIDE)
    depth = simplify(blocks * block)
    check_filled("a weight whose columns are taken", total)
    _check(planes, [int(b) for b in bits], block, total, depth)
    for part in (scale, least):
        _check_scales(part, total, blocks)
    in_steps = _in_steps(least)

    def value(i, k):
        which = tir.max(tir.min(cast("int64", ids(i)), total * WIDE - 1), 0)
        panel, c, b = which // WIDE, which % WIDE, k // block
        number = cast("int32", _number(planes, bits, panel, k // FOUR, c, k % FOUR)) - zero
        if in_steps:
            number = number + cast("int32", least[0](panel, b, c))
        real = cast("float32", number) * _real(scale, blocks, b, panel, c)
        return real + _real(least, blocks, b, panel, c) if least and not in_steps else real

    return compute([count, depth], value, "take_packed")


def _matrices(
    chosen: Any, count: int, panels: PrimExpr, rows: PrimExpr
) -> tuple[PrimExpr, PrimExpr, Callable[[Any, Any], Any]]:
    """The panels of a matrix, how many results each row of data has, and the panel of a row's own matrix."""
    if count < 1 or (count > 1 and chosen is None):
        raise ValueError(explain("several matrices are chosen from", got=f"{count} matrices"))
    check_multiple(panels, count, "the number of panels")
    each, one = simplify(panels // count), const(1, "int64")
    if chosen is None:
        return each, one, lambda i, p: p
    n, many = extents_of(chosen, "chosen", None, None)
    share = one if dims_equal(rows, n * many) else many
    if differ(simplify(rows * share), n * many):
        raise ValueError(explain(f"data has {rows} rows", got=f"{n} x {many} chosen matrices"))

    def panel_of(i, p):
        which = cast("int64", chosen(i // many, i % many))
        return tir.max(tir.min(which, count - 1), 0) * each + p

    return each, share, panel_of


def _numbers(
    planes: Sequence[Any], bits: Sequence[int], dims: list[Any], in_bytes: bool,
    panel_of: Callable[[Any, Any], Any],
) -> Any:  # fmt: skip
    """The numbers of a weight, in fours of rows: bytes of a column side by side, for an instruction, or floats of
    adjacent columns, for vectors. dims: panels, and fours of rows; before them rows of results, where each has its
    own. panel_of: see `matmul_packed`."""

    def number(*at):
        *row, p, four, c, t = at
        return _number(planes, bits, panel_of(row[0] if row else None, p), four, c, t)

    def as_float(*at):
        *of, t, c = at
        return cast("float32", number(*of, c, t))

    shape, cell = ([WIDE, FOUR], number) if in_bytes else ([FOUR, WIDE], as_float)
    return compute([*dims, *shape], cell, "numbers", attrs={NO_INLINE: True})


def _number(planes: Sequence[Any], bits: Sequence[int], *at: Any) -> PrimExpr:
    """The number in a panel, at a four of rows, a column, and a row of the four."""
    panel, four, c, t = at
    parts = []
    for plane, size, low in zip(planes, bits, accumulate(bits, initial=0)):
        per = 8 // size
        part = plane(panel, four // per, c, t)
        if per > 1:
            part = tir.shift_right(part, cast("uint8", four % per * size))
            part = part & const((1 << size) - 1, "uint8")
        parts.append(part if low == 0 else part << const(low, "uint8"))
    return reduce(or_, parts)


def _in_steps(least: Sequence[Any]) -> bool:
    """Whether least values count in scales, not in steps of their own."""
    return len(least) == 1 and least[0].dtype.is_integer


def _real(part: Sequence[Any], blocks: PrimExpr, b: Any, p: Any, c: Any) -> PrimExpr:
    """A scale or least value: a float, or a short number times its step."""
    value = cast("float32", part[0](p, b, c))
    for step in part[1:]:
        value = value * cast("float32", step(p, b // simplify(blocks // step.shape[1]), c))
    return value


def _data(data: Sequence[Any], needs_sums: bool) -> tuple[Any, Any, Any]:
    """The rows, their factor or None, and their sums or None."""
    kinds = [str(part.dtype) for part in data]
    if kinds == ["int8", "float32", "int32"]:
        numbers, factor, sums = data
        return numbers, factor, sums
    if kinds != ["float32"] * (1 + needs_sums):
        sums = ", the sums of their blocks" if needs_sums else ""
        what = f"data must be the results of quantize_blocks, or float32 numbers{sums}"
        raise TypeError(explain(what, got=", ".join(kinds) or "nothing"))
    return data[0], None, data[1] if needs_sums else None


def _check(
    planes: Sequence[Any], bits: list[int], block: int, panels: PrimExpr, depth: PrimExpr
) -> None:
    """Raises ValueError for planes that are none of numbers of these bits."""
    if len(planes) != len(bits) or not set(bits) <= {1, 2, 4, 8} or sum(bits) > 8:
        what = "bits must say 1, 2, 4 or 8 for each plane, and 8 in all or fewer"
        raise ValueError(explain(what, got=f"{bits} for {len(planes)} planes"))
    if block < FOUR or block % FOUR:
        raise ValueError(explain(f"block must be a multiple of {FOUR}", got=block))
    for plane, own in zip(planes, bits, strict=True):
        rows = FOUR * 8 // own
        check_multiple(depth, rows, "the number of rows")
        extents_of(plane, "a plane", panels, simplify(depth // rows), WIDE, FOUR)


def _check_scales(parts: Sequence[Any], panels: PrimExpr, blocks: PrimExpr) -> None:
    """Raises ValueError for scales or least values, and their steps, that do not fit the planes."""
    if len(parts) > 2:
        raise ValueError(explain("scales are one tensor, or two with their steps", got=len(parts)))
    for part in parts[:1]:
        extents_of(part, "a scale", panels, blocks, WIDE)
    for step in parts[1:]:
        _, groups, _ = extents_of(step, "the step of scales", panels, None, WIDE)
        check_filled("the step of scales", groups)
        check_multiple(blocks, groups, "the number of scales")


@matmul_packed.numpy
def _(data, planes, scale, least, chosen=None, bits=(4,), block=32, zero=0, matrices=1):
    weights = _dequantized(planes, scale, least, bits, zero)
    rows = data[0] if len(data) < 3 else data[0] * np.repeat(data[1], block, 1)
    if chosen is not None:
        rows = np.repeat(rows, chosen.size // len(rows), 0)[:, None]
        weights = weights.reshape(matrices, -1, weights.shape[1])
        weights = weights[chosen.clip(0, matrices - 1).ravel()].swapaxes(1, 2)
        return (rows @ weights).reshape(len(rows), -1, WIDE)
    return (rows @ weights.T).reshape(len(rows), len(weights) // WIDE, WIDE)


def _dequantized(planes, scale, least, bits, zero):
    """The columns of packed weights, float32 (columns, depth)."""
    value = 0
    for plane, own, low in zip(planes, bits, accumulate(bits, initial=0)):
        shifts = np.arange(0, 8, own, dtype=np.uint8)[:, None, None]
        rows = plane.swapaxes(2, 3)[:, :, None] >> shifts & np.uint8((1 << own) - 1)
        value = value | rows.reshape(len(plane), plane.shape[1] * 8 // own * FOUR, WIDE) << low
    flat = lambda part: part.swapaxes(1, 2).reshape(len(part) * WIDE, part.shape[1])  # noqa: E731
    scale, least = ([*map(flat, part), None, None][:2] for part in (scale, least))
    return Columns(flat(value), scale[0], least[0], scale[1], least[1]).dequantized(zero)


@take_packed.numpy
def _(ids, planes, scale, least, bits=(4,), block=32, zero=0):
    weights = _dequantized(planes, scale, least, bits, zero)
    return weights[ids.clip(0, len(weights) - 1)]


def _sample(
    rows: int, depth: int, columns: int, bits: tuple[int, ...], block: int, zero: int = 0,
    least: bool = False, groups: int = 0, data: bool = False, chosen: Any = None, matrices: int = 1,
) -> Any:  # fmt: skip
    """groups: of scales with a step, or 0; data: in bytes."""
    rng = np.random.default_rng((depth, columns, block))
    some = (columns, depth // block)
    numbers = rng.integers(0, 1 << sum(bits), (columns, depth)).astype(np.uint8)
    half = lambda *shape: rng.uniform(0.01, 0.1, shape).astype(np.float16)  # noqa: E731
    part = (lambda: rng.integers(0, 64, some).astype(np.uint8)) if groups else lambda: half(*some)
    step = half(columns, groups) if groups else None
    weight = Columns(numbers, part(), part() if least else None, step, step if least else None)
    planes, *scales = pack(weight, bits)
    rows_of = rng.uniform(-2, 2, (rows, depth)).astype(np.float32)
    sums = rows_of.reshape(rows, -1, block).sum(2)
    operands = _quantized(rows_of, block) if data else [rows_of, sums][: 1 + bool(zero or least)]
    which = [] if chosen is None else [np.array(chosen, np.int32)]
    options: dict[str, Any] = {"matrices": matrices} if which else {}
    return case(
        list(operands), planes, *scales, *which, bits=bits, block=block, zero=zero, **options
    )


matmul_packed.samples(
    _sample(1, 64, 64, (4,), 32, 8),
    _sample(5, 64, 100, (4,), 32, 8, data=True),
    _sample(3, 256, 64, (4, 1), 32, 0, True, 1, data=True),
    _sample(2, 64, 64, (4, 2), 16, 32, groups=2, data=True),
    _sample(9, 64, 64, (8,), 32, 128, data=True),
    _sample(2, 32, 64, (2,), 32, 0, True),
    _sample(2, 64, 192, (4,), 32, 8, data=True, chosen=[[2, 0], [1, 2]], matrices=3),
    _sample(4, 64, 128, (8,), 32, 128, data=True, chosen=[[1, 0], [1, 1]], matrices=2),
    _sample(1, 64, 128, (4,), 32, 8, chosen=[[1, 5]], matrices=2),
)
_WEIGHTS = (
    _sample(1, 64, 128, (4,), 32, 8),
    _sample(1, 256, 64, (4, 1), 32, 0, True, 1),
)
take_packed.samples(
    *(
        case(np.array([3, 61, 0, 200], np.int32), *sample.args[1:4], **sample.attrs)
        for sample in _WEIGHTS
    )
)
