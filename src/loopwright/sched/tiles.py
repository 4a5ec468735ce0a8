"""Register tiles of CPU kernels: accumulators in vector registers over a whole reduction.

acc[rows, vectors] = 0
for reduction:
    acc[r, v] += broadcast(lhs[r]) * rhs[v]             # unrolled, vectorized
"""

from __future__ import annotations

import math
from typing import Any

from ..ir.functor import any_node
from ..ir.target import Target
from ..ir.variables import uses_any
from ..tir.op import is_call_to
from ..tir.stmt import Block
from ..tir.tensor_intrin.instructions import DotProduct
from .analysis import REDUCE, SPATIAL, BlockInfo, Stage, constant, loads_in
from .apply import give_reason
from .decisions import decide
from .dots import split_terms
from .machine import RuleSchedule

UNROLLED_TAPS = 9  # largest window that is unrolled, in elements
# Steps of a product that are one iteration, and the most products of vectors in one: fewer addresses
# for each multiply-add (bert_base on Zen 3: 250 to 166 ms).
STEPS, UNROLLED_STEPS = 4, 64
# The most products of vectors in a block of channels that is unrolled: on AVX2 the loop over 8
# channels took 4 of its 19 instructions a channel (Zen 3: resnet50 1.78 to 1.05 of onnxruntime's
# time, with other changes; docs/notebook.md).
UNROLLED_PRODUCTS = 96
MASKED_TERMS = 64  # of a tile with a condition for each lane: most that are unrolled
LEAST_ROWS = 4  # fewer rows of two vectors leave multiply-adds waiting for each other
# Tiles of a product with at most this many rows take more vectors, if at least this many strips are
# left (products of one row: 53 to 64 GB/s from memory, 64 to 91 from the L3 cache).
FEW_ROWS = 6
LEAST_STRIPS = 8
RUN = 16  # vectors of a tile that reads each element once: 1 KB of adjacent memory
PARTIAL = 1.02  # cost of a last tile with bounds checks


class Tile:
    """Sizes of a register tile: the row axis (None: none), its rows, vectors, lanes; the axis that
    counts the vectors if it is not the last axis itself."""

    def __init__(self, row: int | None, rows: int, column: int, vectors: int, lanes: int) -> None:
        self.row, self.rows, self.column = row, rows, column
        self.vectors, self.lanes = vectors, lanes


def tile_of(
    sch: RuleSchedule, reduction: BlockInfo, is_product: bool, target: Target,
    inlined: Block | None = None, dot: DotProduct | None = None, rows: int | None = None,
) -> Tile:  # fmt: skip
    """The tile of a reduction. inlined: its block with others inlined, where it has some; dot: the instruction
    that computes it; rows: of the tile, where they are decided already."""
    spatial = reduction.spatial
    extents = [constant(v.dom.extent) if v.dom is not None else None for v in spatial]
    lanes = target.vector_lanes(reduction.writes[0].dtype)
    last = len(spatial) - 1
    width = extents[last]
    lanes = min(lanes, width) if width is not None and dot is None else lanes
    column, vectors = last, 1
    row = _row_axis(extents)
    if is_product:
        if width is not None and width <= lanes and len(spatial) > 3:
            column = 1  # NCHW16c: several blocks of output channels
            count = extents[column]
            some = [v for v in (2, 3) if count is not None and count % v == 0]
            vectors = decide(sch, "vectors", [1, *some], some[0] if some else 1)
        elif width is None or width >= 2 * lanes:
            moved = _moved_along(reduction)
            shares = _row_axis([1 if k in moved else e for k, e in enumerate(extents)])
            row = row if shares is None else shares
            vectors = _vectors(1 if row is None else extents[row], width, lanes)
            vectors = decide(sch, "vectors", (1, 2, 4, 8), vectors)
    elif (width or 0) >= 2 * lanes and _each_read_once(inlined or reduction.block):
        row, most = None, -(-(width or 0) // lanes)
        vectors = decide(sch, "vectors", range(1, min(RUN, most) + 1), min(RUN, most))
    elif dot is not None and last > 3 and extents[last - 2] != 1:
        row = last - 2  # rows of an image: their windows share pixels
    if row == column:
        row = None
    left = sch.machine.registers_left
    registers = target.num_vector_registers - (dot.registers if dot else left)
    if dot is not None and dot.each:  # the weights of a window stay, and what orders its pixels
        registers -= (constant(reduction.reduce[0].dom.extent) or 0) + left
    most = max(registers // vectors, 1)
    most = min(most, 14) if is_product else min(most, 8)
    extent = 1 if row is None else extents[row]
    # Whether `parts_first` divides these rows.
    parts = column != last and row is not None and all(e == 1 for e in extents[2:row])
    if row is None:
        rows = 1
    elif rows is None:
        every = range(1, min(most, extent or most) + 1)
        rows = decide(sch, "rows", every, _rows(extent, most, parts))
    give_reason(lambda: _reason(reduction.name, rows, vectors, lanes, extent, target))
    return Tile(row, rows, column, vectors, lanes)


def _reason(
    name: str, rows: int, vectors: int, lanes: int, extent: int | None, target: Target
) -> str:
    """Which tile was chosen, and why."""
    registers = f"{rows * vectors} of {target.num_vector_registers} vector registers"
    text = f"{name}: tiles of {rows} x {vectors * lanes}, {registers}; "
    if extent is None:
        return text + "the number of rows is unknown"
    whole, rest = divmod(extent, rows)
    return text + f"{extent} rows make {whole}" + (f" and a part of {rest}" if rest else "")


def _moved_along(reduction: BlockInfo) -> set[int]:
    """The axes, the last one apart, by which the operand moves that the last axis indexes: rows along
    them share only the other operand."""
    spatial, store = [v.var for v in reduction.spatial], reduction.store
    moved: set[int] = set()
    for load in loads_in(store.value) if store is not None else ():
        assert store is not None
        if load.buffer is not store.buffer and uses_any(load.indices[-1:], (spatial[-1],)):
            used = [k for k, v in enumerate(spatial[:-1]) if uses_any(tuple(load.indices), (v,))]
            moved.update(used)
    return moved


def _each_read_once(block: Block) -> bool:
    """Whether each term reads an element of its own: rows of a tile would share little."""
    terms = [constant(v.dom.extent) for v in block.iter_vars]
    for load in loads_in(block.body):
        plain = {v.var for v in block.iter_vars} == set(load.indices)
        shape = [constant(d) for d in load.buffer.shape]
        whole = None not in terms and None not in shape and _size(terms) == _size(shape)
        if load.buffer is not block.writes[0].buffer and (plain or whole):
            return True
    return False


def _size(extents: list[int | None]) -> int:
    return math.prod(e or 0 for e in extents)


def _row_axis(extents: list[int | None]) -> int | None:
    """The axis whose adjacent iterations share operands: the second to last, ignoring extents
    of 1."""
    for axis in range(len(extents) - 2, -1, -1):
        if extents[axis] != 1:
            return axis
    return None


def _vectors(rows: int | None, width: int | None, lanes: int) -> int:
    """Vectors of a tile's row: more for products of few rows, which then read longer contiguous
    runs of the right side, if that leaves enough strips."""
    if rows is None or rows > FEW_ROWS or width is None:
        return 2
    strips = [v for v in (8, 4) if rows * v <= 24 and width >= v * lanes * LEAST_STRIPS]
    return strips[0] if strips else 2


def _rows(extent: int | None, most: int, even: bool) -> int:
    """Rows of a tile: those that compute the fewest beyond the end, and the most at once; even: few ones are of
    those that make an even number of tiles."""
    few = most <= FEW_ROWS
    if extent is None:
        return min(8, most)
    if extent <= most:
        return extent

    def cost(rows: int) -> float:
        # A step's instructions other than multiply-adds take the time of a row where rows are few.
        tiles = -(-extent // rows) * (max(rows, LEAST_ROWS) + few)
        return tiles if extent % rows == 0 else tiles * PARTIAL

    every = range(most, 0, -1)
    halves = [rows for rows in every if -(-extent // rows) % 2 == 0]
    return min(halves if even and few and halves else every, key=cost)


def _unrolled(reduction: BlockInfo, tile: Tile) -> int:
    """How many of the innermost reduction loops are unrolled: those of a small window (of a
    depthwise convolution, of pooling), so that boundary checks are done once per tile. Not where taps
    read the same pixels: what LLVM keeps of them takes the accumulators' registers."""
    count, taps, most = 0, 1, UNROLLED_TAPS
    if tile.column != len(reduction.spatial) - 1:  # blocks of channels
        domain = reduction.reduce[-1].dom
        block = constant(domain.extent) if domain is not None else None
        return int(block is not None and block * tile.rows * tile.vectors <= UNROLLED_PRODUCTS)
    if _has_masks(reduction):
        most = min(most, MASKED_TERMS // (tile.rows * tile.vectors))
    for v in reversed(reduction.reduce):
        extent = constant(v.dom.extent) if v.dom is not None else None
        if extent is None or taps * extent > most:
            break
        taps *= extent
        count += 1
    return count


def _has_masks(reduction: BlockInfo) -> bool:
    """Whether a term has a condition on the last axis, that of the lanes, which no whole tile loses:
    the axis is symbolic."""
    last, domain = reduction.spatial[-1].var, reduction.spatial[-1].dom
    if domain is not None and constant(domain.extent) is not None:
        return False

    def masks(node: Any) -> bool:
        return is_call_to(node, "if_then_else") and uses_any(node.args[0], (last,))

    return any_node(reduction.block.body, masks)


def stored(sch: RuleSchedule, stage: Stage) -> Any:
    """The block that stores a reduction's results, whose accumulators become local."""
    assert stage.reduction is not None
    block = sch.get_block(stage.reduction.name)
    if stage.last is stage.reduction:
        return sch.cache_write(block, 0, "local")
    sch.set_scope(block, 0, "local")
    return sch.get_block(stage.last.name)


def steps_at_once(sch: RuleSchedule, reduction: BlockInfo, tile: Tile) -> int:
    """How many steps of a matrix product are one iteration: in a small tile the loop, and what it
    reads ahead, takes about the same number of instructions as the products."""
    if len(reduction.reduce) != 1 or tile.column != len(reduction.spatial) - 1:
        return 1
    domain = reduction.reduce[0].dom
    extent = constant(domain.extent) if domain is not None else None
    if extent is None or extent == 0:
        return 1
    products = tile.rows * tile.vectors
    choices = [n for n in (1, 2, 4, 8) if extent % n == 0 and products * n <= UNROLLED_STEPS]
    return decide(sch, "steps", choices, STEPS if STEPS in choices else 1)


def schedule_accumulators(
    sch: RuleSchedule,
    block: Any,
    reduction: BlockInfo,
    tile: Tile,
    depth: int,
    dot: DotProduct | None = None,
    steps: int = 1,
) -> tuple[Any, Any]:
    """Schedule the block that fills the accumulators, and the one that begins with 0. Returns that one and
    the loop over lanes. dot: the instruction that computes it; steps: of the last axis of the reduction in one
    iteration."""
    inner = inner_loops(sch, block, reduction, tile, depth)
    reduce = list(sch.get_loops(block))[-len(inner) - len(reduction.reduce) : -len(inner)]
    init = sch.decompose_reduction(block, reduce[0])
    if dot is not None:
        split_terms(sch, inner, reduce, dot)
    elif steps > 1:
        sch.unroll(sch.split(reduce[-1], [None, steps])[1])
    else:
        for loop in reduce[len(reduce) - _unrolled(reduction, tile) :]:
            sch.unroll(loop)
    for loop in inner[:-1]:
        sch.unroll(loop)
    if dot is None:
        sch.vectorize(inner[-1])
    unroll_tile(sch, list(sch.get_loops(init))[-len(inner) :])
    return init, inner[-1]


def inner_loops(
    sch: RuleSchedule, block: Any, reduction: BlockInfo, tile: Tile, depth: int
) -> list[Any]:
    """Put the loops of a block that fills a tile in order and return the last: over rows, vectors,
    lanes."""
    axes = sch.get(
        block
    ).iter_vars  # in the order of the loops; a final `rfactor` has its sum first
    loops = [
        (v.iter_type, x) for v, x in zip(axes, list(sch.get_loops(block))[depth:], strict=True)
    ]
    spatial, reduce = ([x for kind, x in loops if kind == k] for k in (SPATIAL, REDUCE))
    count = len(reduction.spatial)
    vector = spatial[-1]
    if tile.column == count - 1:
        jv, vector = sch.split(spatial[-1], [None, tile.lanes])
    else:
        jv = spatial[tile.column]
    rest = [s for k, s in enumerate(spatial[:-1]) if k not in (tile.row, tile.column)]
    inner = ([spatial[tile.row]] if tile.row is not None else []) + [jv, vector]
    sch.reorder(*rest, *reduce, *inner)
    return inner


def unroll_tile(sch: RuleSchedule, inner: list[Any]) -> None:
    for loop in inner[:-1]:
        sch.unroll(loop)
    sch.vectorize(inner[-1])
