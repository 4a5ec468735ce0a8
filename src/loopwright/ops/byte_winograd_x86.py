"""Kernels for x86 of Winograd's algorithm for bytes: see `byte_winograd`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tir
from ..ir.literals import int_value
from ..ir.prim_expr import Broadcast, IntImm, PrimExpr, Shuffle
from ..ir.prim_op import cast, const
from ..ir.target import Target
from ..relax.transform.legalize_ops.common import register_legalize
from ..tir.tensor_intrin.instructions import WORDS, dot_product, value_of
from .byte_pool import READ, largest_power, pieces
from .byte_winograd import (
    LANES,
    ROWS,
    byte_winograd,
    byte_winograd_bytes,
    byte_winograd_tiles,
    divided,
    vector_of,
    whole,
)
from .integer import (
    begun,
    buffers_of,
    bytes_of,
    finished,
    joined,
    open_shape,
    ramp,
    tail_and_out,
)
from .statements import long, prim_func

if TYPE_CHECKING:
    from ..relax.expr import Call
    from ..tir.expr import BufferLoad
    from ..tir.ir_builder import BufferVar, IRBuilder

_FEW, _PARTS = 16, 4  # tasks; parts of their weights where tiles are fewer


def _times(ib: IRBuilder, matrix: np.ndarray, terms: list[Any], name: str) -> list[Any]:
    """A matrix times vectors. Rows, or columns, that are equal except for signs share their sums: those of
    points a and -a are."""
    matrix, terms = matrix.copy(), list(terms)
    for i, j in _paired(matrix.T):
        a, b = terms[i], terms[j]
        terms[i], terms[j] = ib.let(f"{name}_sum", a + b), ib.let(f"{name}_difference", a - b)
        first = matrix[:, i].copy()
        equal = first == matrix[:, j]
        matrix[:, i], matrix[:, j] = np.where(equal, first, 0), np.where(equal, 0, first)
    rows: list[Any] = [None] * len(matrix)
    for i, j in _paired(matrix):
        equal = matrix[i] == matrix[j]
        a, b = (ib.let(f"{name}_part", _dot(matrix[i] * k, terms)) for k in (equal, ~equal))
        rows[i], rows[j] = a + b, a - b
    products = [_dot(matrix[k], terms) if row is None else row for k, row in enumerate(rows)]
    return [ib.let(f"{name}{k}", row) for k, row in enumerate(products)]


def _paired(rows: np.ndarray) -> list[tuple[int, int]]:
    """Adjacent rows that are equal except for signs: some signs are equal, others opposite."""
    pairs = []
    for k in range(len(rows) - 1):
        a, b = rows[k], rows[k + 1]
        signs = set(np.sign(a * b)) - {0}
        if (abs(a) == abs(b)).all() and len(signs) == 2 and (not pairs or pairs[-1][1] < k):
            pairs.append((k, k + 1))
    return pairs


def _dot(numbers: np.ndarray, terms: list[Any]) -> Any:
    """Numbers, some of which are not 0, times vectors; positive ones first."""
    total: Any = None
    for number, term in sorted(zip(numbers.tolist(), terms, strict=True), key=lambda p: -p[0]):
        if not number:
            continue
        part = term if abs(number) == 1 else term * vector_of(abs(number), term)
        if total is None:
            total = part if number > 0 else vector_of(0, term) - part
        else:
            total = total + part if number > 0 else total - part
    return total


def framed(
    ib: IRBuilder,
    frame: BufferVar,
    size: int,
    pitch: int,
    row: Callable[..., Any],
    outside: BufferLoad,
    sides: tuple[int, int],
    before: tuple[int, int],
) -> None:
    """Fill a frame of `size` bytes, whose rows are of `pitch`, with a channel, whose pixels are
    `row(i, columns)`, and with `outside` around it."""
    (h, w), (top, left) = sides, before
    with ib.for_range(long(0), long(size // READ), "k", "int64") as k:
        frame[ramp(k * READ, READ)] = Broadcast(outside, READ)
    whole = min(READ, largest_power(w))
    with ib.for_range(long(0), long(h), "i", "int64") as i:
        first = ib.let("first", (i + top) * pitch + left)
        for j in pieces(w, whole):
            frame[ramp(first + j, whole)] = row(i, ramp(long(j), whole))


def _vector_tiles(call: Call) -> Any:
    """The kernel for x86; None where an extent is not known or tiles are few."""
    attrs, data = call.attrs, open_shape(call.args[0].struct_info.get_shape())
    literal = all(isinstance(d, IntImm) and d.value for d in data[1:])
    tile, rows, columns = int(attrs.tile), int(attrs.rows), int(attrs.columns)
    if not literal or call.args[1].struct_info.ndim or tile not in (2, 4) or columns < 2:
        return None
    channels, h, w = (d.value for d in data[1:])
    top, left = (int(b) for b in attrs.before)
    matrix, m, pairs = whole(tile)[0].data, tile + 2, -(-channels // 2)
    lanes = min(8, largest_power(columns))
    pitch = max(left + w, columns * tile + 2)
    size = -(-(max(top + h, rows * tile + 2) * pitch + 2 * READ) // READ) * READ
    blocks = -(-rows * columns // LANES)
    shape = (data[0], long(m * m), long(blocks), long(pairs), long(2 * LANES))
    buffers = [
        tir.decl_buffer(s, k, n)
        for s, k, n in ((data, "uint8", "data"), ((), "uint8", "zero"), (shape, "int16", "out"))
    ]

    def write(ib, x, zero, out):
        with ib.for_range(long(0), data[0] * pairs, "pair", "int64", "parallel") as item:
            n, c = ib.let("n", item // pairs), ib.let("c", item % pairs)
            frames = []
            for v in range(2):
                channel = ib.let(f"channel{v}", tir.min(c * 2 + v, channels - 1))
                frame = ib.allocate("uint8", size, f"frame{v}", scope="local")
                framed(ib, frame, size, pitch, lambda i, at, k=channel: x[n, k, i, at], zero[()],
                       (h, w), (top, left))  # fmt: skip
                frames.append(frame)

            def word(frame, at):
                bits = tir.reinterpret(f"uint{8 * tile}x{lanes}", frame[ramp(at, tile * lanes)])
                return ib.let("word", cast(f"uint32x{lanes}", bits))

            def pixel(words, b):
                """Byte b of each word of two channels, as pairs of int16."""
                number = lambda v: Broadcast(const(v, "uint32"), lanes)  # noqa: E731
                low = words[0] >> number(8 * b) & number(0xFF)
                shift = 16 - 8 * b
                upper = words[1] << number(shift) if shift > 0 else words[1] >> number(-shift)
                return tir.reinterpret(f"int16x{2 * lanes}", low | upper & number(0xFF0000))

            length = blocks * (2 * LANES)
            lines = ib.allocate("int16", m * m * length, "lines", scope="local")
            starts = pieces(columns, lanes)
            step = starts[1] if len(starts) > 1 else 0
            with (
                ib.for_range(long(0), long(rows), "i", "int64") as i,
                ib.for_range(long(0), long(len(starts)), "part", "int64") as part,
            ):
                j = ib.let("j", tir.min(part * step, long(starts[-1])))
                first = ib.let("first", i * (tile * pitch) + j * tile)
                columns_of: list[list[Any]] = [[] for _ in range(m)]
                for a in range(m):
                    for b in range(0, m, tile):
                        words = [word(f, first + (a * pitch + b)) for f in frames]
                        for k in range(min(tile, m - b)):
                            columns_of[b + k].append(ib.let("pixel", pixel(words, k)))
                halves = [_times(ib, matrix, column, "half") for column in columns_of]
                offset = (i * columns + j) * 2
                for a in range(m):
                    tiles = _times(ib, matrix, [half[a] for half in halves], "made")
                    for b, value in enumerate(tiles):
                        lines[ramp(offset + (a * m + b) * length, 2 * lanes)] = value
            with ib.for_range(long(0), long(m * m), "p", "int64") as p:
                unused = length - 2 * rows * columns
                if unused:
                    lines[ramp((p + 1) * length - unused, unused)] = Broadcast(
                        const(0, "int16"), unused
                    )
                with ib.for_range(long(0), long(blocks), "block", "int64") as k:
                    whole_block = ramp(long(0), 2 * LANES)
                    out[n, p, k, c, whole_block] = lines[
                        ramp(p * length + k * (2 * LANES), 2 * LANES)
                    ]

    return prim_func(buffers, write)


def tiles_of_tasks(
    ib: IRBuilder, stack: ExitStack, batch: PrimExpr, blocks: int, tiles: int, heavy: bool
) -> tuple[Any, Any, Any]:
    """Loops over images, blocks of weights and tiles of the image: (n, block, tile). A task is a tile with all
    weights, or, where these are more than the image (heavy), some weights with all tiles: the greater of
    the two is read once."""
    own, parts = (tiles, _FEW) if heavy else (1, _PARTS if tiles < _FEW else 1)
    parts = min(parts, blocks)
    tasks = tiles // own * parts
    loop = lambda *args: stack.enter_context(ib.for_range(long(0), *args))  # noqa: E731
    item = loop(batch * tasks, "task", "int64", "parallel")
    n, part = ib.let("n", item // tasks), item % parts
    begin = ib.let("begin", part * blocks // parts)
    end = ib.let("end", (part + 1) * blocks // parts)
    block = ib.let("block", begin + loop(end - begin, "k", "int64"))
    return n, block, item % tasks // parts * own + loop(long(own), "j", "int64")


def _vector_winograd(call: Call) -> Any:
    """The kernel for x86; None where tiles are few."""
    data, weight = (open_shape(a.struct_info.get_shape()) for a in call.args[:2])
    tile, rows, columns = (int(v) for v in (call.attrs.tile, call.attrs.rows, call.attrs.columns))
    blocks, pairs = int_value(weight[0]), int_value(data[3])
    target = Target.current(allow_none=True)
    width = 0 if target is None else target.vector_lanes("int32")
    dots = {}
    for n in (LANES, width):
        dot = None if target is None else dot_product(target, WORDS, n, of_vectors=True)
        if dot is None:
            return None
        dots[n] = dot
    m, lines = tile + 2, -(-rows * columns // LANES)
    if not (blocks and pairs and lines > 1):
        return None
    (matrix, _, _), unit = whole(tile)
    outputs = long(blocks * ROWS)
    buffers = buffers_of(
        bytes_of(call, 2),
        {"data": (data, "int16"), "weight": (weight, "int16")},
        (data[0], outputs, long(tile * lines * LANES * tile)),
        outputs,
    )
    order = [j * LANES + t for t in range(LANES) for j in range(tile)]

    def write(ib, x, w, *others):
        tail, out = tail_and_out(ib, others)
        with ExitStack() as stack:
            heavy = blocks * ROWS > lines * LANES
            n, block, at = tiles_of_tasks(ib, stack, data[0], blocks, lines // 2, heavy)

            def results(first, count):
                """Of `count` lines of tiles."""
                products = ib.allocate(
                    "int32", m * m * ROWS * count * LANES, "products", scope="local"
                )
                with ib.for_range(long(0), long(m * m), "p", "int64") as p:
                    add_products(first, count, p, products)
                with (
                    ib.for_range(long(0), long(ROWS), "r", "int64") as r,
                    ib.for_range(long(0), long(count), "q", "int64") as q,
                ):
                    row = ib.let("row", block * ROWS + r)
                    halves = []
                    for b in range(m):
                        column = []
                        for a in range(m):
                            offset = ((a * m + b) * ROWS + r) * count + q
                            offset = ramp(offset * LANES, LANES)
                            column.append(ib.let("product", products[offset]))
                        halves.append(_times(ib, matrix, column, "half"))
                    for i in range(tile):
                        totals = _times(ib, matrix, [half[i] for half in halves], "made")
                        totals = [ib.let("sum", divided(v, unit)) for v in totals]
                        value = joined(totals)
                        if tail:
                            value = value + begun(tail, row, tile * LANES)
                        pixels = Shuffle([finished(value, tail, row, out)], order)
                        offset = (i * lines + first + q) * (LANES * tile)
                        out[n, row, ramp(offset, tile * LANES)] = pixels

            def add_products(first, count, p, products):
                some = min(count, width // LANES)  # lines of a vector
                lanes = some * LANES
                cells = [(r, q) for r in range(ROWS) for q in range(0, count, some)]
                total = ib.allocate("int32", ROWS * count * LANES, "total", scope="local")
                own = {(r, q): ramp(long((r * count + q) * LANES), lanes) for r, q in cells}
                for cell in cells:
                    total[own[cell]] = Broadcast(const(0, "int32"), lanes)
                with ib.for_range(long(0), long(pairs), "k", "int64") as k:
                    line = ramp(long(0), 2 * LANES)
                    lines = [x[n, p, first + q, k, line] for q in range(count)]
                    for r, q in cells:
                        values = tir.reinterpret(f"int32x{lanes}", joined(lines[q : q + some]))
                        number = w[block, p, ramp((k * ROWS + r) * 2, 2)]
                        number = Broadcast(tir.reinterpret("int32", number), lanes)
                        total[own[r, q]] = value_of(dots[lanes], total[own[r, q]], values, number)
                for r, q in cells:
                    offset = ((p * ROWS + r) * count + q) * LANES
                    products[ramp(offset, lanes)] = total[own[r, q]]

            results(ib.let("first", at * 2), 2)
            if lines % 2:
                with ib.if_scope(at.equal(lines // 2 - 1)):
                    results(long(lines - 1), 1)

    return prim_func(buffers, write)


_KERNELS = {
    byte_winograd_tiles: _vector_tiles,
    byte_winograd: _vector_winograd,
    byte_winograd_bytes: _vector_winograd,
}
for _operator, _kernel in _KERNELS.items():
    register_legalize(_operator.name, tir=_kernel, target="llvm")
