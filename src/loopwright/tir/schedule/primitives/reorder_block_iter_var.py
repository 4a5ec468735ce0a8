"""`reorder_block_iter_var`: the axes of a block in another order."""

from __future__ import annotations

from ..machinery import BlockArg, ScheduleBase, ScheduleError, primitive


@primitive("ReorderBlockIterVar", inputs="block", attrs="new_order")
def reorder_block_iter_var(sch: ScheduleBase, block: BlockArg, new_order: list[int]) -> None:
    """Put the axes of a block in another order: `new_order[n]` is the axis that comes n-th.

    Raises ScheduleError for an order that is not a permutation of the axes.

    Before (-) and after (+) ``sch.reorder_block_iter_var("B", [1, 0])``,
    with ``A: T.Buffer((8, 4)), B: T.Buffer((8, 4))``::

          for i, j in T.grid(8, 4):
              with T.block("B"):
        -         v_i, v_j = T.axis.remap("SS", [i, j])
        +         v_j, v_i = T.axis.remap("SS", [j, i])
                  B[v_i, v_j] = A[v_i, v_j] * 2.0
    """
    ref = sch.block(block)
    axes, values = ref.stmt.iter_vars, ref.realize.iter_values
    order = [int(n) for n in new_order]
    if sorted(order) != list(range(len(axes))):
        what = f"block {ref.stmt.name_hint!r} has {len(axes)} axes"
        hint = f"an order of 0 to {len(axes) - 1}"
        raise ScheduleError(what, got=order, instead=hint, at=ref.node)
    reordered = ref.stmt.replace(iter_vars=tuple(axes[n] for n in order))
    realize = ref.realize.replace(block=reordered, iter_values=tuple(values[n] for n in order))
    sch.state.update(ref.func, {ref: realize}, {ref.stmt: reordered})
