"""Operands of products that a later tile reads are fetched while this one is computed.

    for strip, rows, k:
        prefetch(packed[strip + 1, <a part that grows with rows and k>])
        ...

All rows read a strip of a packed right side from the cache but the first ones, which would wait for
memory. So it is with the weights of convolutions in blocked layouts: all tiles of an image read the same
ones, the first of them from memory, which is slower than the tile's arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..arith import Analyzer
from ..ir.prim_expr import IterVar, PrimExpr, Var
from ..ir.prim_op import add, const, floordiv, floormod, minimum, multiply
from ..ir.variables import substitute, uses_any, vars_in
from ..ops.packed import FOUR, WIDE
from ..tir import stmt as st
from ..tir.buffer import Buffer
from ..tir.expr import BufferLoad
from ..tir.index_map import IndexMap
from ..tir.schedule.primitives.prefetch import symbolic_sizes
from .analysis import REDUCE, SPATIAL, constant, loads_in
from .machine import RuleSchedule

L2 = 2  # locality of operands that are read once more: not in the first cache


def prefetch_strips(sch: RuleSchedule, block: Any, loop: Any, axis: int, rows: int) -> None:
    """Let each step of a product's loop over k fetch a part of the next strip, at the offset that it has
    reached in this one. axis: the position of the axis of rows among the block's, of which there are
    `rows`. Strips of one step are left."""
    node, around = _Nest(sch, block), list(sch.get_loops(block))
    at = 1 + next(n for n, x in enumerate(around) if sch.get(x) is sch.get(loop))
    tile = {x.loop_var: x.range for x in node.loops[at:]}
    axes = node.realize.block.iter_vars
    term = next(v.var for v in axes if v.iter_type == REDUCE)
    # The load whose lanes are behind its terms: [..., strip, k, lane].
    strips, own = next(
        (
            (x, n)
            for x in loads_in(node.realize.block.body)
            for n, index in enumerate(x.indices)
            if 0 < n < len(x.indices) - 1 and uses_any(index, (term,))
        ),
        (None, 0),
    )
    if strips is None:
        return
    starts = {v: const(0, v.dtype) for v in tile}
    row, *batch, strip, k = (
        substitute(substitute(e, node.bound), starts)
        for e in (axes[axis].var, *strips.indices[: own + 1])
    )
    at_once = [tile[v].extent for v in vars_in(node.bound[axes[axis].var]) if v in tile]
    count, terms, *inner = strips.buffer.shape[own - 1 :]
    width = math.prod(constant(d) or 1 for d in inner)
    done = add(multiply(row, terms), multiply(k, at_once[0] if at_once else const(1, k.dtype)))
    step = 1 << max(-(-rows // width) - 1, 0).bit_length()
    offset = floordiv(done, step) if step > 1 else multiply(done, max(width // max(rows, 1), 1))
    following = minimum(add(strip, 1), add(count, -1))
    part = [floormod(offset, width)]
    if len(inner) > 1:  # of the terms of an instruction
        part = [floordiv(part[0], inner[-1]), floormod(part[0], inner[-1])]
    place = [*batch, following, floordiv(offset, width), *part]
    node.prefetch(at, strips.buffer, place, locality=L2)


def prefetch_panels(sch: RuleSchedule, numbers: Any, condition: PrimExpr) -> None:
    """Let each tile of rows fetch the next panel of packed weights (see `ops.packed`), of which a block unpacks
    numbers in loops over panels, tiles and blocks of rows. condition: where more than one pass reads a panel: memory
    would wait in all but the first of them."""
    node, columns = _Nest(sch, numbers), sch.machine.line // FOUR  # columns: of a line
    panel, _, block = (loop.loop_var for loop in node.loops[:3])
    blocks = constant(node.loops[2].extent)
    for plane in (read.buffer for read in node.realize.block.reads):
        if rows := (constant(plane.shape[1]) or 0) // (blocks or 1):
            row, part = floordiv(node.line, WIDE // columns), floormod(node.line, WIDE // columns)
            place = [panel + 1, block * rows + row, part * columns, const(0, node.line.dtype)]
            node.prefetch(3, plane, place, rows * WIDE // columns, condition, locality=L2)


def prefetch_operands(sch: RuleSchedule, block: Any, parts: int) -> None:
    """Let each tile of a convolution in blocked layouts prefetch its part of the weights that the
    next blocks of output channels need, if it has few pixels its own weights, and, of one tap, the
    next tile's pixels. parts: of the image, each of which all threads' tiles cover.

    The weights' elements `[out, ..., i, :]` for one `i` are a line; of the `i` each tile of the image
    prefetches enough for all to be read when the last one ends.
    """
    if all(len(load.indices) < 4 for load in loads_in(sch.get(block).body)):  # matrices
        return
    node = _Nest(sch, block)
    inner = (st.ForKind.UNROLLED, st.ForKind.VECTORIZED)
    first = len(node.loops)
    while first and node.loops[first - 1].kind in inner:
        first -= 1
    for at in range(max(first - 1, 0), len(node.loops)):
        if node.loops[at].kind in (st.ForKind.SERIAL, st.ForKind.UNROLLED):
            if _Ahead(node, at, parts).prefetch():
                return


class _Nest:
    """A block that accumulates products, its loops, and the values of its axes."""

    def __init__(self, sch: RuleSchedule, block: Any) -> None:
        self.sch, self.rv = sch, block
        self.realize: st.BlockRealize = sch.get_sref(block).realize
        self.rvs = list(sch.get_loops(block))
        self.loops: list[st.For] = [sch.get(loop) for loop in self.rvs]
        axes = self.realize.block.iter_vars
        self.bound = dict(zip((v.var for v in axes), self.realize.iter_values, strict=True))
        self.ana = Analyzer()
        self.line = Var("line", self.loops[-1].loop_var.dtype)

    def prefetch(
        self,
        depth: int,
        buffer: Buffer,
        indices: Sequence[PrimExpr],
        lines: int = 1,
        condition: PrimExpr | None = None,
        locality: int = 3,
    ) -> None:
        """Fetch lines of a buffer in each iteration of the loops of this depth."""
        around = [loop.loop_var for loop in self.loops[:depth]]
        variables = [*around, self.line, *symbolic_sizes(self.sch.func)]
        to = IndexMap(variables, [self.ana.simplify(i) for i in indices])
        test = None if condition is None else IndexMap(variables, [condition])
        at = [r.buffer for r in self.realize.block.reads].index(buffer)
        loop = self.rvs[depth - 1]
        self.sch.prefetch(self.rv, loop, at, to, lines, condition=test, locality=locality)


class _Ahead:
    """The lines to fetch before a loop over the elements of a block of input channels; the loops inside of
    it are a tile."""

    def __init__(self, nest: _Nest, at: int, parts: int) -> None:
        self.nest, self.at, self.parts = nest, at, parts
        self.loop = nest.loops[at]
        self.tile = {loop.loop_var: loop.extent for loop in nest.loops[at + 1 :]}
        self.zero = {v: const(0, v.dtype) for v in self.tile}

    def prefetch(self) -> bool:
        """Whether there was something to fetch."""
        axes, bound = self.nest.realize.block.iter_vars, self.nest.bound
        lanes = [v.var for v in axes if v.iter_type == SPATIAL][-1]
        inner = next((v for v, value in bound.items() if value is self.loop.loop_var), None)
        some = False
        for load in loads_in(self.nest.realize.block.body):
            if len(load.indices) < 4 or self.at == 0:
                continue
            if load.indices[-1] is lanes and load.indices[-2] is inner:
                some |= self.weights(load, axes)
            elif load.indices[-1] is inner and _one_tap(axes, load):
                some |= self.pixels(load)
        return some

    def weights(self, weight: BufferLoad, axes: tuple[IterVar, ...]) -> bool:
        """Fetch this tile's share of the next blocks of output channels."""
        bound, tile, nest = self.nest.bound, self.tile, self.nest
        machine = nest.sch.machine
        sizes, lines = [constant(d) for d in weight.buffer.shape], constant(self.loop.extent)
        size = math.prod(d or 0 for d in sizes) * weight.buffer.dtype.bits // 8
        out = next((v for v in axes if v.var is weight.indices[0]), None)
        if (
            size < machine.cached_weights
            or lines is None
            or out is None
            or out.iter_type != SPATIAL
        ):
            return False
        others = [v.var for v in axes if v.iter_type == SPATIAL and v is not out]
        if uses_any(tuple(weight.indices[:-1]), others):  # a product of many matrices
            return False
        image = [
            v
            for v in axes[axes.index(out) + 1 :]
            if v.iter_type == SPATIAL and not uses_any(tuple(weight.indices), (v.var,))
        ]
        number, count = self.position(image)
        if count is not None and self.parts > 1:
            count //= self.parts
            number = nest.ana.simplify(floormod(number, const(count, number.dtype)))
        row = int(sizes[-1] or 1) * weight.buffer.dtype.bits // 8
        per = max(machine.line // row, 1)  # elements of `i` to a line of the cache
        lines = -(-lines // per)
        each = 1 if count is None else -(-lines // count)
        first = multiply(number, each)
        if lines % each:
            first = minimum(first, const(lines - each, first.dtype))
        start, width = substitute(bound[out.var], self.zero), _step(bound[out.var], tile)
        step = [substitute(substitute(i, bound), self.zero) for i in weight.indices[1:-2]]

        def fetch(
            block: PrimExpr, line: PrimExpr | int, count: int, condition: PrimExpr | None = None
        ) -> None:
            position = multiply(add(nest.line, line), per)
            indices = [block, *step, position, const(0, nest.line.dtype)]
            nest.prefetch(self.at, weight.buffer, indices, count, condition)

        unused = None
        if count is None or (count - 1) * each >= lines:
            unused = multiply(number, each) < lines
        last = const((sizes[0] or 1) - 1, start.dtype)
        for vector in reversed(range(width)):
            fetch(minimum(add(start, width + vector), last), first, each, unused)
        pixels = math.prod(_step(bound[v.var], tile) for v in image)
        if (
            pixels <= machine.few_pixels
            and size // int(sizes[0] or 1) * width > machine.cached_stream
        ):
            # Further along the same memory, which may be the next step's: an address, not an access.
            for vector in reversed(range(width)):
                fetch(add(start, vector), machine.ahead // (row * per), lines)
        return True

    def pixels(self, image: BufferLoad) -> bool:
        """Fetch the next tile's pixels, of the same block of channels: each block is contiguous in
        memory, and there are more of these streams than the hardware prefetcher follows."""
        bound, nest = self.nest.bound, self.nest
        column = substitute(image.indices[-2], bound)
        rows = next((v for v in self.tile if uses_any(column, (v,))), None)
        if rows is None:
            return False
        step, last = constant(self.tile[rows]) or 1, add(image.buffer.shape[-2], -1)
        at = [substitute(substitute(i, bound), self.zero) for i in image.indices[:-2]]
        ahead = substitute(column, {**self.zero, rows: add(nest.line, step)})
        indices = [*at, minimum(ahead, last), const(0, nest.line.dtype)]
        nest.prefetch(self.at, image.buffer, indices, step)
        return True

    def position(self, axes: list[IterVar]) -> tuple[PrimExpr, int | None]:
        """The number of a tile within its image, and how many there are, None if that is symbolic."""
        number: PrimExpr = const(0, self.nest.line.dtype)
        count: int | None = 1
        for axis in axes:
            value, extent = self.nest.bound[axis.var], constant(axis.dom.extent)
            step = _step(value, self.tile)
            tiles = floordiv(add(axis.dom.extent, step - 1), step)
            start = floordiv(substitute(value, self.zero), step)
            number = add(multiply(number, tiles), start)
            count = None if extent is None or count is None else count * -(-extent // step)
        return self.nest.ana.simplify(number), count


def _step(value: PrimExpr, tile: dict[Var, PrimExpr]) -> int:
    """The distance that the value of an axis covers within a tile."""
    return next((constant(e) or 1 for v, e in tile.items() if uses_any(value, (v,))), 1)


def _one_tap(axes: tuple[IterVar, ...], load: BufferLoad) -> bool:
    """Whether it reads blocks of channels, and each pixel for one pixel of the result only."""
    sums = [v for v in axes if v.iter_type == REDUCE]
    return uses_any(load.indices[1], [v.var for v in sums]) and all(
        v.dom is not None and constant(v.dom.extent) == 1
        for v in sums
        if uses_any(tuple(load.indices[2:-1]), (v.var,))
    )
