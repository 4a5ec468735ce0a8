"""`fuse_reduction_axes`: one axis instead of the last ones of a reduction."""

from __future__ import annotations

import math

from ....ir.literals import int_value, is_true
from ....ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ....ir.prim_op import const, floordiv, floormod
from ....ir.variables import substitute
from ...stmt import Block, BlockRealize, ForKind
from ..machinery import BlockArg, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_accesses import with_detected_regions
from ..machinery.loop_nests import single_path


@primitive("FuseReductionAxes", inputs="block", attrs="count")
def fuse_reduction_axes(sch: ScheduleBase, block: BlockArg, count: int) -> None:
    """Make one of the last `count` axes of a reduction, and one of their loops.

    Unlike `fuse`, which fuses loops, this leaves the block an axis that is contiguous in memory
    where the axes are adjacent dimensions. Raises ScheduleError unless they are reduction axes of
    constant extents, each bound to a loop of its own, the innermost ones.

    Before (-) and after (+) ``sch.fuse_reduction_axes("S", 2)``,
    with ``A: T.Buffer((4, 7, 7)), S: T.Buffer(4)``::

        - for i, y, x in T.grid(4, 7, 7):
        + for i, x in T.grid(4, 49):
              with T.block("S"):
        -         v, vy, vx = T.axis.remap("SRR", [i, y, x])
        +         v, k = T.axis.remap("SR", [i, x])
                  with T.init():
                      S[v] = 0.0
        -         S[v] = S[v] + A[v, vy, vx]
        +         S[v] = S[v] + A[v, k // 7, k % 7]
    """
    ref = sch.block(block)
    if not 1 < count <= len(reduction_axes_in_order(ref)):
        what = f"the last {count} axes of block {ref.stmt.name_hint!r} cannot become one"
        hint = "reduction axes of constant extents, each of a loop of its own, the innermost"
        raise ScheduleError(what, instead=hint, at=ref.node)
    loops = single_path(ref)
    last = loops[-1].stmt
    axes = ref.stmt.iter_vars[-count:]
    nest = fused(ref.realize, last.loop_var, axes)
    extent = math.prod(int_value(axis.dom.extent) or 0 for axis in axes)
    loop = last.replace(body=nest, extent=const(extent, last.extent.dtype))
    sch.state.update(ref.func, {loops[-count]: loop}, {ref.stmt: nest.block})


def reduction_axes_in_order(ref: Ref) -> list[IterVar]:
    """The last axes of a block that are reduction axes of constant extents, bound to its innermost
    loops in their order; none if there is a predicate."""
    axes: list[IterVar] = []
    if not is_true(ref.realize.predicate):
        return axes
    bound = zip(
        reversed(ref.stmt.iter_vars),
        reversed(ref.realize.iter_values),
        reversed(single_path(ref)),
        strict=False,
    )
    for axis, value, loop in bound:
        plain = loop.stmt.kind == ForKind.SERIAL and value is loop.stmt.loop_var
        reduces = axis.iter_type == IterVar.CommReduce
        if not (reduces and plain and isinstance(axis.dom.extent, IntImm)):
            break
        axes.insert(0, axis)
    return axes


def fused(realize: BlockRealize, loop: Var, axes: tuple[IterVar, ...]) -> BlockRealize:
    """The block with one axis, of that loop, instead of its last ones."""
    block: Block = realize.block
    sizes = [int_value(axis.dom.extent) or 0 for axis in axes]
    last = axes[-1]
    size = const(math.prod(sizes), last.var.dtype)
    axis = last.replace(dom=Range.from_min_extent(last.dom.min, size), var=Var("k", last.var.dtype))
    values: dict[Var, PrimExpr] = {}
    rest: PrimExpr = axis.var
    for old, count in reversed(list(zip(axes, sizes, strict=True))):
        values[old.var] = rest if old is axes[0] else floormod(rest, count)
        rest = floordiv(rest, count)
    others = block.iter_vars[: -len(axes)]
    block = block.replace(iter_vars=(*others, axis), body=substitute(block.body, values))
    bound = (*realize.iter_values[: len(others)], loop)
    return realize.replace(iter_values=bound, block=with_detected_regions(block))
