"""`storage_align`: the stride of a buffer's dimension."""

from __future__ import annotations

from ..machinery import BlockArg, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_lookup import alloc_site, buffer_at

ALIGN = "buffer_dim_align"


@primitive("StorageAlign", inputs="block", attrs="buffer_index axis factor offset")
def storage_align(
    sch: ScheduleBase, block: BlockArg, buffer_index: int, axis: int, factor: int, offset: int
) -> None:
    """Make the stride of dimension `axis` of a buffer that a block writes k * factor + offset.

    Raises ScheduleError for a dimension that the buffer does not have, and a factor below 1.

    Before (-) and after (+) ``sch.storage_align("B", 0, axis=1, factor=16, offset=1)``,
    with ``A: T.Buffer((4, 8, 8))``::

          B = T.alloc_buffer((4, 8, 8))
          for n, i, j in T.grid(4, 8, 8):
              with T.block("B"):
                  vn, vi, vj = T.axis.remap("SSS", [n, i, j])
        +         T.block_attr({"buffer_dim_align": [[0, 1, 16, 1]]})
                  B[vn, vi, vj] = A[vn, vi, vj] * 2.0
    """
    ref = sch.block(block)
    buffer = buffer_at(ref, buffer_index, write=True)
    alloc_site(ref, buffer)
    index = next(n for n, r in enumerate(ref.stmt.writes) if r.buffer is buffer)
    ndim = len(buffer.shape)
    if not -ndim <= axis < ndim:
        what = f"{buffer.name} has {ndim} dimensions"
        raise ScheduleError(what, got=axis, instead=f"0 to {ndim - 1}", at=ref.node)
    if factor <= 0:
        raise ScheduleError("the factor is 1 or more", got=factor, at=ref.node)
    axis %= ndim
    entries = [list(map(int, entry)) for entry in ref.stmt.annotations.get(ALIGN, ())]
    others = [entry for entry in entries if entry[:2] != [index, axis]]
    notes = {**ref.stmt.annotations, ALIGN: [*others, [index, axis, factor, offset]]}
    sch.state.replace(ref, ref.stmt.replace(annotations=notes))
