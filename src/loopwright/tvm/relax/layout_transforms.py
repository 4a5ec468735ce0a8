"""Layouts of a kernel's blocks and inputs that follow from new layouts of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from ...arith.iter_affine_map import detect_iter_map
from ...arith.iter_map_node import IterMapLevel
from ...base.errors import CallValueError, explain
from ...ir.functor import Visitor
from ...ir.prim_expr import IterVar, PrimExpr, Range, Var
from ...ir.variables import vars_in
from ...tir.buffer import Buffer
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc
from ...tir.index_map import IndexMap
from ...tir.stmt import Block, BlockRealize, BufferStore

Axes: TypeAlias = tuple[Var | None, ...]  # of an access: the axis that each index runs along
Layouts: TypeAlias = dict[Block | Buffer, IndexMap]


def suggest_layout_transforms(
    func: PrimFunc, write_buffer_transforms: Sequence[IndexMap | Callable[..., Any]]
) -> dict[Block, Layouts]:
    """{block: {the block, or a buffer that it accesses: its new layout}} for new layouts of the
    function's last parameters, such that each block still iterates over its buffers in order.

    A block follows if it writes one of these buffers, at indices that each run along one of its
    axes, in order; a buffer that it reads follows if its indices do so too.

    Raises CallValueError for more layouts than parameters or one of another rank, AssertionError for
    a layout that is neither an index map nor a function.
    """
    maps = [_index_map(transform) for transform in write_buffer_transforms]
    if len(maps) > len(func.params):
        what = "Incompatible PrimFunc and write_transformations: more layouts than parameters"
        raise CallValueError(explain(what, got=f"{len(maps)} for {len(func.params)}"))
    layouts: dict[Buffer, IndexMap] = {}
    for param, index_map in zip(func.params[len(func.params) - len(maps) :], maps, strict=True):
        buffer, rank = func.buffer_map.get(param), len(index_map.initial_indices)
        if buffer is None or len(buffer.shape) != rank:
            what = "Mismatch between output buffer shape and index map"
            shape = "no buffer" if buffer is None else f"{len(buffer.shape)} dimensions"
            raise CallValueError(explain(what, got=f"{param.name} has {shape}, the map {rank}"))
        layouts[buffer] = index_map
    walk = _Blocks(layouts)
    if maps:
        walk.visit(func.body)
    return walk.moves


def _index_map(transform: IndexMap | int | Callable[..., Any]) -> IndexMap:
    if isinstance(transform, IndexMap):
        return transform
    if not callable(transform):
        what = "a layout is an index map or a function of indices"
        raise AssertionError(explain(what, got=repr(transform)))
    return IndexMap.from_func(transform)


class _Blocks(Visitor):
    """Visits the blocks below the root and collects the new layouts of each."""

    def __init__(self, layouts: dict[Buffer, IndexMap]) -> None:
        self.layouts = layouts
        self.moves: dict[Block, Layouts] = {}

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        if node.block.name_hint == "root":
            self.visit(node.block.body)
            return
        written = {region.buffer for region in node.block.writes}
        layout = self.layouts.get(next(iter(written))) if len(written) == 1 else None
        if layout is not None:
            self.follow(node.block, *written, layout)

    def follow(self, block: Block, written: Buffer, index_map: IndexMap) -> None:
        """Add the layouts of a block that follow from the layout of the buffer that it writes."""
        order = [axis.var for axis in block.iter_vars]
        accesses = _Accesses(block, written)
        source = accesses.in_order(written, order)
        if source is None or None in source:
            return
        moved = _carried(index_map, source, tuple(order))
        if moved is None or not _is_bijective(moved, [axis.dom for axis in block.iter_vars]):
            return
        self.moves[block] = {block: moved, written: index_map}
        for buffer in dict.fromkeys(region.buffer for region in block.reads):
            axes = accesses.in_order(buffer, order)
            layout = None if axes is None else _carried(index_map, source, axes)
            if layout is not None and buffer not in self.layouts:
                self.layouts[buffer] = self.moves[block][buffer] = layout


class _Accesses(Visitor):
    """The axes of a block that its accesses of each buffer run along; None where they are not
    known or differ between accesses."""

    def __init__(self, block: Block, written: Buffer) -> None:
        parallel = [axis for axis in block.iter_vars if axis.iter_type == IterVar.DataPar]
        self.domain = {axis.var: axis.dom for axis in parallel}
        self.axes: dict[Buffer, Axes | None] = {}
        self.written = written
        reductions = sum(axis.iter_type == IterVar.CommReduce for axis in block.iter_vars)
        self.simple = len(parallel) + reductions == len(block.iter_vars)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)

    def in_order(self, buffer: Buffer, order: list[Var]) -> Axes | None:
        """The axes along which a buffer is accessed, if they have the order of the block's."""
        axes = self.axes.get(buffer) if self.simple else None
        positions = [order.index(axis) for axis in axes or () if axis is not None]
        return axes if all(a < b for a, b in pairwise(positions)) else None

    def visit_Block(self, node: Block) -> None:
        self.simple = False

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.simple = self.simple and node.buffer is self.written
        self.note(node.buffer, node.indices)
        self.visit_default(node)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.note(node.buffer, node.indices)
        self.visit_default(node)

    def visit_Buffer(self, node: Buffer) -> None:
        """Its shape is not an access."""

    def note(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> None:
        affine = detect_iter_map(indices, self.domain, check_level=IterMapLevel.NoCheck)
        used = [[v for v in vars_in(index) if v in self.domain] for index in indices]
        axes = None
        if affine.indices and all(len(vars_of) <= 1 for vars_of in used):
            axes = tuple(vars_of[0] if vars_of else None for vars_of in used)
        self.axes[buffer] = axes if self.axes.get(buffer, axes) == axes else None


def _carried(index_map: IndexMap, source: Axes, target: Axes) -> IndexMap | None:
    """The layout of a buffer accessed along the axes `target` when one accessed along `source` gets
    `index_map`: indices of axes that only `source` has are left out, those of other axes stay where they are.
    None where the map merges axes of which `target` has some only."""
    var_of = {
        axis: var
        for axis, var in zip(source, index_map.initial_indices, strict=True)
        if axis in target
    }
    shared, final = set(var_of.values()), []
    for index in index_map.final_indices:
        used = vars_in(index)
        if shared.issuperset(used):
            final.append(index)
        elif not shared.isdisjoint(used):
            return None
    dtype = str(index_map.initial_indices[0].dtype)
    initial, position = [], 0
    for n, axis in enumerate(target):
        if axis in var_of:
            initial.append(var_of[axis])
        else:
            initial.append(Var(f"d{n}", dtype))
            final.insert(position, initial[-1])
        position = min(position + 1, len(final))
    return IndexMap(initial, final)


def _is_bijective(index_map: IndexMap, ranges: list[Range]) -> bool:
    domain = dict(zip(index_map.initial_indices, ranges, strict=True))
    level = IterMapLevel.Bijective
    return bool(detect_iter_map(index_map.final_indices, domain, check_level=level).indices)
