"""Passes for convolutions, in addition to tiles: padding, and weights that are read ahead."""

from __future__ import annotations

import itertools
import math
from typing import Any

from ..arith import Analyzer
from ..ir.prim_expr import IterVar, PrimExpr, Var
from ..ir.prim_op import add, const, floordiv, floormod, minimum, multiply
from ..ir.variables import substitute, uses_any
from ..ops.common import NO_INLINE
from ..tir import stmt as st
from ..tir.expr import BufferLoad
from ..tir.function import PrimFunc
from ..tir.op import address_of, call_intrin, is_call_to
from ..tir.schedule import Schedule
from ..tir.stmt_functor import ExprKeeper
from .analysis import BlockInfo, as_product, constant, loads_in
from .loops import parallel_tiles
from .parts import PARTS

# A padded image is copied if each element is read this often: the checks of a tile at the border then
# cost more than the copy (resnet50's first layer: 2014 to 1827 us, docs/performance.md).
LEAST_USES = 9
LEAST_COPIED = 1 << 12  # elements: smaller images are read with checks
LINE = 64  # bytes of the cache's lines
LEAST_BYTES = 1 << 17  # smaller weights are in the cache anyway
# Tiles of at most this many pixels wait for the second cache unless they prefetch their own weights,
# this many bytes ahead (resnet18 on Zen 3: 40.8 to 32.0 ms, docs/performance.md).
FEW_PIXELS = 6
AHEAD = 1 << 10
# 64 bytes of a block of 16 channels in bytes; a depthwise layer of 32 x 112 x 112 took 92 us with one pixel, 78 with 4.
PIXELS = 4
LEAST_STREAM = 1 << 14  # bytes of a tile's weights: fewer stay in the first cache


def is_padded_for_lanes(padding: BlockInfo, reduction: BlockInfo) -> bool:
    """Whether a copy of the padded image pays: a tile's pixels are adjacent in memory, so that
    otherwise each load of a tile at the border has a check of its own, and each element is used
    often."""
    product, store = as_product(reduction), padding.store
    if product is None or product.depthwise or store is None or reduction.store is None:
        return False
    sizes = [constant(d) for d in store.buffer.shape]
    few = None not in sizes and math.prod(d or 0 for d in sizes) < LEAST_COPIED
    if few or not is_call_to(store.value, "if_then_else"):
        return False
    pixels = [v.var for v in reduction.spatial]
    uses = 1
    for load in loads_in(reduction.store.value):
        if load.buffer is store.buffer:
            if not uses_any(load.indices[-1], pixels):
                return False
            shared = [
                i for i in load.indices if uses_any(i, pixels)
            ]  # an element is of many windows
            for axis in (*reduction.spatial, *reduction.reduce):
                is_pixel = axis.iter_type == IterVar.DataPar
                if uses_any(tuple(shared), (axis.var,)) != is_pixel:
                    uses *= constant(axis.dom.extent) or LEAST_USES
    return uses >= LEAST_USES


def copy_padded(sch: Schedule, block: Any) -> bool:
    """Schedule a copy of an image in blocks of channels with something around it; False for other blocks. Of a few
    pixels together, those inside need no checks."""
    node, loops = sch.get(block), list(sch.get_loops(block))
    is_copy = NO_INLINE in node.annotations and is_call_to(node.body.value, "if_then_else")
    if not is_copy or len(loops) < 3 or constant(sch.get(loops[-1]).extent) is None:
        return False
    *outer, pixels, channels = loops
    pixels, some = sch.split(pixels, [None, PIXELS])
    sch.unroll(some)
    sch.vectorize(channels)
    parallel_tiles(sch, [*outer, pixels], PIXELS * (constant(sch.get(channels).extent) or 1))
    return True


def prefetch_operands(func: PrimFunc, blocks: set[str]) -> PrimFunc:
    """Let each tile of a convolution in blocked layouts prefetch its part of the weights that the
    next blocks of output channels need, if it has few pixels its own weights, and, of one tap, the
    next tile's pixels.

    All tiles of an image read the same weights, the first of them from memory, which is slower than
    the tile's arithmetic. The weights' elements `[out, ..., i, :]` for one `i` are a line; of the
    `i` each tile of the image prefetches enough for all to be read when the last one ends. `blocks`
    are the names of those that accumulate products.
    """
    return func.replace(body=_Prefetch(blocks).visit(func.body))


class _Prefetch(ExprKeeper):
    def __init__(self, blocks: set[str]) -> None:
        self.blocks = blocks
        self.ana = Analyzer()

    def visit_For(self, node: st.For) -> Any:
        tile: dict[Var, PrimExpr] = {}
        inner: Any = node.body
        while isinstance(inner, st.For) and inner.kind in (
            st.ForKind.UNROLLED,
            st.ForKind.VECTORIZED,
        ):
            tile[inner.loop_var] = inner.extent
            inner = inner.body
        repeats = node.kind in (st.ForKind.SERIAL, st.ForKind.UNROLLED)
        if not repeats or not isinstance(inner, st.BlockRealize):
            return self.visit_default(node)
        notes = dict(node.annotations)
        parts = int(notes.pop(PARTS, 1))
        loop = node.replace(annotations=notes)
        if inner.block.name_hint not in self.blocks:
            return loop
        ahead = self.prefetches(loop, inner, tile, parts)
        return st.seq(*ahead, loop) if ahead else self.visit_default(loop)

    def prefetches(
        self, loop: st.For, realize: st.BlockRealize, tile: dict[Var, PrimExpr], parts: int
    ) -> list[st.Stmt]:
        """The statement before a loop over the elements of a block of input channels."""
        axes = realize.block.iter_vars
        bound = dict(zip((v.var for v in axes), realize.iter_values, strict=True))
        lanes = [v.var for v in axes if v.iter_type == IterVar.DataPar][-1]
        inner = next((v for v, value in bound.items() if value is loop.loop_var), None)
        stmts: list[st.Stmt] = []
        for load in loads_in(realize.block.body):
            if len(load.indices) < 4:  # matrices: see `prefetch`
                continue
            if load.indices[-1] is lanes and load.indices[-2] is inner:
                stmts += self.weights(load, loop.extent, axes, bound, tile, parts)
            elif load.indices[-1] is inner and _one_tap(axes, load):
                stmts += self.pixels(load, bound, tile)
        return stmts

    def weights(
        self,
        weight: BufferLoad,
        extent: PrimExpr,
        axes: tuple[IterVar, ...],
        bound: dict[Var, PrimExpr],
        tile: dict[Var, PrimExpr],
        parts: int,
    ) -> list[st.Stmt]:
        """This tile's share of the next blocks of output channels."""
        sizes, lines = [constant(d) for d in weight.buffer.shape], constant(extent)
        size = math.prod(d or 0 for d in sizes) * weight.buffer.dtype.bits // 8
        out = next((v for v in axes if v.var is weight.indices[0]), None)
        if size < LEAST_BYTES or lines is None or out is None or out.iter_type != IterVar.DataPar:
            return []
        others = [v.var for v in axes if v.iter_type == IterVar.DataPar and v is not out]
        if uses_any(tuple(weight.indices[:-1]), others):  # a product of many matrices
            return []
        image = [
            v
            for v in axes[axes.index(out) + 1 :]
            if v.iter_type == IterVar.DataPar and not uses_any(tuple(weight.indices), (v.var,))
        ]
        zero = {v: const(0, v.dtype) for v in tile}
        number, count = self.position(image, bound, tile, zero)
        if count is not None and parts > 1:
            count //= parts
            number = self.ana.simplify(floormod(number, const(count, number.dtype)))
        row = int(sizes[-1] or 1) * weight.buffer.dtype.bits // 8
        per = max(LINE // row, 1)  # elements of `i` to a line of the cache
        lines = -(-lines // per)
        each = 1 if count is None else -(-lines // count)
        first = multiply(number, each)
        if lines % each:
            first = minimum(first, const(lines - each, "int64"))
        start, width = substitute(bound[out.var], zero), _step(bound[out.var], tile)
        step = [substitute(substitute(i, bound), zero) for i in weight.indices[1:-2]]

        def fetch(block: PrimExpr, line: PrimExpr) -> st.Stmt:
            position = multiply(line, per)
            return self.prefetch(weight, [block, *step, position, const(0, "int64")])

        own: list[st.Stmt] = []
        pixels = math.prod(_step(bound[v.var], tile) for v in image)
        if pixels <= FEW_PIXELS and size // int(sizes[0] or 1) * width > LEAST_STREAM:
            # Further along the same memory, which may be the next step's: an address, not an access.
            steps = range(AHEAD // (row * per), AHEAD // (row * per) + lines)
            both = itertools.product(range(width), steps)
            own = [fetch(add(start, vector), const(line, "int64")) for vector, line in both]
        last = const((sizes[0] or 1) - 1, start.dtype)
        blocks = [minimum(add(start, width + vector), last) for vector in range(width)]
        stmts = [fetch(block, add(first, line)) for block in blocks for line in range(each)]
        if count is None or (count - 1) * each >= lines:
            stmts = [st.IfThenElse(multiply(number, each) < lines, st.seq(*stmts))]
        return [*own, *stmts]

    def pixels(
        self, image: BufferLoad, bound: dict[Var, PrimExpr], tile: dict[Var, PrimExpr]
    ) -> list[st.Stmt]:
        """The next tile's pixels, of the same block of channels: each block is contiguous in
        memory, and there are more of these streams than the hardware prefetcher follows."""
        column = substitute(image.indices[-2], bound)
        rows = next((v for v in tile if uses_any(column, (v,))), None)
        if rows is None:
            return []
        zero = {v: const(0, v.dtype) for v in tile}
        step, last = constant(tile[rows]) or 1, add(image.buffer.shape[-2], -1)
        at = [substitute(substitute(i, bound), zero) for i in image.indices[:-2]]
        stmts: list[st.Stmt] = []
        for pixel in range(step, 2 * step):
            ahead = substitute(column, {**zero, rows: const(pixel, rows.dtype)})
            stmts.append(self.prefetch(image, [*at, minimum(ahead, last), const(0, "int64")]))
        return stmts

    def prefetch(self, load: BufferLoad, index: list[PrimExpr]) -> st.Stmt:
        pointer = address_of(BufferLoad(load.buffer, [self.ana.simplify(i) for i in index]))
        how = (const(0, "int32"), const(3, "int32"), const(1, "int32"))
        return st.Evaluate(call_intrin("void", "tir.prefetch", pointer, *how))

    def position(
        self,
        axes: list[IterVar],
        bound: dict[Var, PrimExpr],
        tile: dict[Var, PrimExpr],
        zero: dict[Var, PrimExpr],
    ) -> tuple[PrimExpr, int | None]:
        """The number of a tile within its image, and how many there are, None if that is symbolic."""
        number: PrimExpr = const(0, "int64")
        count: int | None = 1
        for axis in axes:
            assert axis.dom is not None
            value, extent = bound[axis.var], constant(axis.dom.extent)
            step = _step(value, tile)
            tiles = floordiv(add(axis.dom.extent, step - 1), step)
            number = add(multiply(number, tiles), floordiv(substitute(value, zero), step))
            count = None if extent is None or count is None else count * -(-extent // step)
        return self.ana.simplify(number), count


def _step(value: PrimExpr, tile: dict[Var, PrimExpr]) -> int:
    """The distance that the value of an axis covers within a tile."""
    return next((constant(e) or 1 for v, e in tile.items() if uses_any(value, (v,))), 1)


def _one_tap(axes: tuple[IterVar, ...], load: BufferLoad) -> bool:
    """Whether it reads blocks of channels, and each pixel for one pixel of the result only."""
    sums = [v for v in axes if v.iter_type == IterVar.CommReduce]
    return uses_any(load.indices[1], [v.var for v in sums]) and all(
        v.dom is not None and constant(v.dom.extent) == 1
        for v in sums
        if uses_any(tuple(load.indices[2:-1]), (v.var,))
    )
