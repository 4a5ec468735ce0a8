"""`transform_block_layout`: a block over transformed axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....arith import Analyzer
from ....ir.literals import is_zero
from ....ir.prim_expr import IntImm, IterVar, Range, Var
from ....ir.variables import vars_in
from ...expr import BufferLoad
from ...index_map import IndexMap
from ...stmt import Block, BlockRealize, BufferStore, serial_nest
from ..machinery import BlockArg, ScheduleBase, ScheduleError, primitive
from ..machinery.loop_nests import check_loops
from ..machinery.rewriting import BlockRewriter, substitute
from ..machinery.scope import axes_of_kinds
from ..machinery.state import bind_range
from .reindex import map_of_axes


@primitive("TransformBlockLayout", inputs="block", attrs="index_map")
def transform_block_layout(
    sch: ScheduleBase, block: BlockArg, index_map: IndexMap | Callable[..., Any]
) -> None:
    """Replace a block's axes by `index_map` of them, with a loop for each new axis.

    The map must be one to one (splits, fusions, permutations), and the block have one loop for
    each axis.

    Raises ScheduleError for a map that is not one to one, for axes that do not begin at 0 or
    run in a fixed order, and for a new axis that is spatial and reduction at once.

    Before (-) and after (+) ``sch.transform_block_layout("B", lambda i, j: (i * 4 + j,))``,
    with ``A: T.Buffer((8, 4)), B: T.Buffer((8, 4))``::

        - for i, j in T.grid(8, 4):
        + for ax0 in range(32):
              with T.block("B"):
        -         v_i, v_j = T.axis.remap("SS", [i, j])
        -         B[v_i, v_j] = A[v_i, v_j] * 2.0
        +         v0 = T.axis.spatial(32, ax0)
        +         B[v0 // 4, v0 % 4] = A[v0 // 4, v0 % 4] * 2.0
    """
    ref = sch.block(block)
    node: Block = ref.stmt
    if not axes_of_kinds(node):
        what = f"block {node.name_hint!r} has axes that run in a fixed order"
        raise ScheduleError(what, at=ref.node)
    for axis in node.iter_vars:
        if not is_zero(axis.dom.min):
            what = f"axis {axis.var.name!r} of block {node.name_hint!r} does not begin at 0"
            raise ScheduleError(what, got=axis.dom.min, instead="axes from 0 on", at=ref.node)
    index_map = map_of_axes(sch, ref, index_map)
    axes = [a.var for a in node.iter_vars]
    chain = check_loops(ref)
    extents = [a.dom.extent for a in node.iter_vars]
    ana = sch.state.analyzer(ref)
    try:
        shape = [ana.simplify(e) for e in index_map.map_shape(extents)]
        inverse, padded = index_map.non_surjective_inverse(extents)
    except ValueError:
        what = f"the axes of block {node.name_hint!r} cannot be mapped this way"
        hint = "splits, fusions and permutations of the axes: lambda i, j: (j // 4, i, j % 4)"
        got = f"lambda {', '.join(v.name for v in axes)}: {_shown(index_map.map_indices(axes))}"
        raise ScheduleError(what, got=got, instead=hint, at=ref.node) from None
    if not (isinstance(padded, IntImm) and not padded.value):
        what = "the new axes have points that no old one has"
        raise ScheduleError(what, got=padded, instead="factors that divide", at=ref.node)
    kinds = {a.var: a.iter_type for a in node.iter_vars}
    axis_of = dict(zip(index_map.initial_indices, axes, strict=True))
    made_axes: list[IterVar] = []
    loops: list[Var] = []
    for n, (final, extent) in enumerate(zip(index_map.final_indices, shape, strict=True)):
        of = {kinds[axis_of[v]] for v in vars_in(final) if v in axis_of}
        if len(of) > 1:
            what = "a new axis would be spatial and reduction at once"
            raise ScheduleError(what, got=final, instead="keep the kinds apart", at=ref.node)
        dom = Range.upto(extent)
        kind = of.pop() if of else IterVar.DataPar
        made_axes.append(IterVar(dom, Var(f"v{n}", extent.dtype), kind))
        loops.append(Var(f"ax{n}", extent.dtype))
    new = dict(zip(inverse.initial_indices, [a.var for a in made_axes], strict=True))
    for axis in made_axes:
        bind_range(ana, axis.var, axis.dom.min, axis.dom.extent)
    values = {
        axis: ana.simplify(substitute(back, new))
        for axis, back in zip(axes, inverse.final_indices, strict=True)
    }
    renamed: dict[Block, Block] = {}
    body = substitute(node.replace(iter_vars=()), values, renamed)
    renamed.pop(node.replace(iter_vars=()), None)
    body = _Tidy(ana, renamed).visit(body)
    block_made = body.replace(iter_vars=tuple(made_axes))
    renamed[node] = block_made
    realize = BlockRealize(loops, True, block_made, span=ref.realize.span)
    nest = serial_nest(loops, (axis.dom.extent for axis in made_axes), realize)
    sch.state.update(ref.func, {chain[0]: nest}, renamed)


class _Tidy(BlockRewriter):
    """Simplifies the indices of accesses."""

    def __init__(self, ana: Analyzer, renamed: dict[Block, Block]) -> None:
        super().__init__(renamed)
        self.ana = ana

    def visit_BufferLoad(self, node: BufferLoad | BufferStore) -> Any:
        node = self.visit_default(node)
        return node.replace(indices=tuple(map(self.ana.simplify, node.indices)))

    visit_BufferStore = visit_BufferLoad

    def visit_Range(self, node: Range) -> Range:
        return node.replace(min=self.ana.simplify(node.min))


def _shown(indices: list[Any]) -> str:
    return f"({', '.join(map(str, indices))})"
