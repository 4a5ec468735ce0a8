"""Which loops of a block correspond to the loops of an intrinsic's description."""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer
from ...ir.functor import nodes_of
from ...ir.literals import is_one
from ...ir.node import Node
from ...ir.op import Op
from ...ir.prim_expr import IntImm, IterVar, PrimExpr, Var
from ...ir.prim_op import add, const, multiply
from ...ir.variables import vars_in
from ...tir.buffer import Buffer
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc, TensorIntrin
from ...tir.index_map import IndexMap
from ...tir.schedule.machinery import BlockRV, LoopRV, Ref, ScheduleBase
from ...tir.stmt import Block, BlockRealize, BufferStore, For


class TensorizeInfo:
    """`loop_map`: loop of the block (its ref) to loop of the description; `desc_loop_indexer`:
    loop of the description to its number; `block_iter_paddings`: what each axis of the block has
    to be padded to a multiple of, None where nothing has to."""

    def __init__(
        self,
        loop_map: dict[Ref, For],
        desc_loop_indexer: dict[For, int],
        block_iter_paddings: list[int] | None,
    ) -> None:
        self.loop_map = loop_map
        self.desc_loop_indexer = desc_loop_indexer
        self.block_iter_paddings = block_iter_paddings


class AutoTensorizeMappingInfo:
    """`mappings`: for `transform_block_layout`, so that the block has the description's axes last;
    `lhs_buffer_map`: buffer of the block to buffer of the description; `rhs_buffer_indices`: how
    the description indexes its own; `lhs_iters`, `rhs_iters`: the axes of both."""

    def __init__(
        self,
        mappings: list[IndexMap],
        lhs_buffer_map: dict[Buffer, Buffer],
        rhs_buffer_indices: dict[Buffer, list[PrimExpr]],
        lhs_iters: list[IterVar],
        rhs_iters: list[IterVar],
    ) -> None:
        self.mappings = mappings
        self.lhs_buffer_map = lhs_buffer_map
        self.rhs_buffer_indices = rhs_buffer_indices
        self.lhs_iters = lhs_iters
        self.rhs_iters = rhs_iters


def get_tensorize_loop_mapping(
    sch: ScheduleBase, block: BlockRV, desc_func: PrimFunc, allow_padding: bool = False
) -> TensorizeInfo | None:
    """The loops of a block that a description's loops are to be tiles of: from the last axis on,
    axes of the same kind whose extents divide (or are to be padded). None without such loops."""
    ref = sch.block(block)
    desc = _described(desc_func)
    if desc is None:
        return None
    realize, desc_loops = desc
    loops = {r.stmt.loop_var: r for r in ref.loops()}
    desc_loop_of = {f.loop_var: f for f in desc_loops}
    bindings = list(zip(ref.stmt.iter_vars, ref.realize.iter_values, strict=True))
    paddings = [1] * len(bindings)
    padded = False
    loop_map: dict[Ref, For] = {}
    n = len(bindings)
    for axis, value in reversed(
        list(zip(realize.block.iter_vars, realize.iter_values, strict=True))
    ):
        loop = desc_loop_of.get(value) if isinstance(value, Var) else None
        size = None if loop is None else loop.extent
        if loop is None or not isinstance(size, IntImm):
            return None
        while n > 0:
            n -= 1
            own_axis, bound = bindings[n]
            outer = loops.get(bound) if isinstance(bound, Var) else None
            if own_axis.iter_type != axis.iter_type or outer is None:
                continue
            extent = own_axis.dom.extent
            whole = isinstance(extent, IntImm) and extent.value % size.value == 0
            if whole or allow_padding:
                padded = padded or not whole
                paddings[n] = 1 if whole else size.value
                loop_map[outer] = loop
                break
        else:
            return None
    indexer = {f: k for k, f in enumerate(desc_loops)}
    return TensorizeInfo(loop_map, indexer, paddings if padded else None)


def get_auto_tensorize_mapping_info(
    sch: ScheduleBase, block: BlockRV, desc_func: PrimFunc
) -> AutoTensorizeMappingInfo | None:
    """How to fuse the axes of a block so that it has the form of a description: axes that occur in
    the same buffers become one. None where the two compute different expressions.

    This does not mean that the block can be tensorized: the layouts of its buffers must fit too.
    """
    ref = sch.block(block)
    desc = _described(desc_func)
    update = _update(ref.stmt)
    desc_update = None if desc is None else _update(desc[0].block)
    if desc is None or update is None or desc_update is None:
        return None
    pairs: dict[Buffer, tuple[Buffer, Any, Any]] = {}
    if not _alike(desc_update, update, pairs):
        return None
    lhs, rhs = list(ref.stmt.iter_vars), list(desc[0].block.iter_vars)

    several = [axis for axis in (*lhs, *rhs) if not is_one(axis.dom.extent)]  # the rest stay, too
    ana = Analyzer({axis.var: axis.dom for axis in several})
    used = {  # a group's number is always 0 where there is one group
        (b, side): {var for index in pair[1 + side] for var in vars_in(ana.simplify(index))}
        for b, pair in pairs.items()
        for side in range(2)
    }

    def where(axis: IterVar, side: int) -> frozenset[Buffer]:
        """The description's buffers in whose indices (or the program's) an axis occurs."""
        return frozenset(b for b in pairs if axis.var in used[b, side])

    groups: dict[Any, list[IterVar]] = {(where(a, 0), a.iter_type): [] for a in rhs}
    if len(groups) != len(rhs):
        return None
    alone: list[IterVar] = []
    for axis in lhs:
        groups.get((where(axis, 1), axis.iter_type), alone).append(axis)
    axis_vars = [a.var for a in lhs]
    final: list[PrimExpr] = [a.var for a in alone]
    for axis in rhs:
        fused: PrimExpr = const(0, axis_vars[0].dtype)
        for part in groups[where(axis, 0), axis.iter_type]:
            fused = add(multiply(fused, part.dom.extent), part.var)
        final.append(fused)
    return AutoTensorizeMappingInfo(
        [IndexMap(axis_vars, final)],
        {pair[0]: b for b, pair in pairs.items()},
        {b: list(pair[1]) for b, pair in pairs.items()},
        lhs,
        rhs,
    )


def tile_with_tensor_intrin(
    sch: ScheduleBase, block: BlockRV, intrin_name: str, allow_padding: bool = False
) -> LoopRV | None:
    """Split and reorder a block's loops so that the inner ones are those of an intrinsic (padding
    before, where that is allowed and needed). Returns the loop to tensorize, None if the block and
    the intrinsic do not match."""
    intrin: Any = TensorIntrin.get(intrin_name)
    info = get_tensorize_loop_mapping(sch, block, intrin.desc, allow_padding)
    if info is None:
        return None
    all_loops = sch.block(block).loops()
    sizes: dict[int, tuple[int, int]] = {}  # number of the loop: that of the tile, its extent
    for ref, loop in info.loop_map.items():
        number = next(n for n, r in enumerate(all_loops) if r is ref)
        sizes[number] = info.desc_loop_indexer[loop], loop.extent.value
    if info.block_iter_paddings is not None:
        sch.pad_einsum(block, info.block_iter_paddings)
    tiles: dict[int, LoopRV] = {}
    around: list[LoopRV] = []
    for number, loop in enumerate(sch.get_loops(block)):
        if number in sizes:
            position, extent = sizes[number]
            loop, tiles[position] = sch.split(loop, [None, extent])
        around.append(loop)
    inner = [tiles[position] for position in sorted(tiles)]
    sch.reorder(*around, *inner)
    return inner[0]


def _described(func: PrimFunc) -> tuple[BlockRealize, list[For]] | None:
    """The one block of a description, and the loops around it."""
    inner = [r for r in nodes_of(func.body, BlockRealize) if r is not func.body]
    return (inner[0], nodes_of(func.body, For)[::-1]) if len(inner) == 1 else None


def _update(block: Block) -> BufferStore | None:
    return block.body if isinstance(block.body, BufferStore) else None


def _alike(a: PrimExpr | BufferStore, b: Any, pairs: dict[Buffer, tuple[Buffer, Any, Any]]) -> bool:
    """Whether the program's `b` equals the description's `a` up to indices; records the buffers."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (BufferStore, BufferLoad)):
        pair = pairs.setdefault(a.buffer, (b.buffer, a.indices, b.indices))
        if pair[0] is not b.buffer or a.buffer.dtype != b.buffer.dtype:
            return False
        return isinstance(a, BufferLoad) or _alike(a.value, b.value, pairs)
    if isinstance(a, PrimExpr) and a.dtype != b.dtype:
        return False
    if getattr(a, "value", None) != getattr(b, "value", None) and not isinstance(
        getattr(a, "value", None), Node
    ):
        return False
    if isinstance(getattr(a, "op", None), Op) and a.op is not b.op:
        return False
    xs, ys = list(a.children()), list(b.children())
    return len(xs) == len(ys) and all(
        isinstance(x, Op) or _alike(x, y, pairs) for x, y in zip(xs, ys, strict=True)
    )
