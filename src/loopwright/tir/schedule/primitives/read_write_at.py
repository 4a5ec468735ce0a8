"""`read_at` and `write_at`: a copy of what one iteration of a loop reads or writes."""

from __future__ import annotations

from ..machinery import BlockRV, LoopRV, ScheduleBase, primitive, unrecorded
from .cache_read_write import cache_read, cache_write
from .compute_at import compute_at
from .reverse_compute_at import reverse_compute_at


@primitive("ReadAt", inputs="loop block", attrs="read_buffer_index storage_scope")
def read_at(
    sch: ScheduleBase, loop: LoopRV, block: BlockRV, read_buffer_index: int, storage_scope: str
) -> BlockRV:
    """Copy, in each iteration of `loop`, the region of a buffer that a block reads there.

    Before (-) and after (+)
    ``sch.read_at(sch.get_loops("B")[0], sch.get_block("B"), 0, "shared")``,
    with ``A: T.Buffer((4, 8)), B: T.Buffer((4, 8))``::

        + A_shared = T.alloc_buffer((4, 8), scope="shared")
          for i in range(4):
        +     for ax0 in range(8):
        +         with T.block("A_shared"):
        +             v0, v1 = T.axis.remap("SS", [i, ax0])
        +             T.block_attr({"auto_copy": 1})
        +             A_shared[v0, v1] = A[v0, v1]
              for j in range(8):
                  with T.block("B"):
                      v_i, v_j = T.axis.remap("SS", [i, j])
        -             B[v_i, v_j] = A[v_i, v_j] * 2.0
        +             B[v_i, v_j] = A_shared[v_i, v_j] * 2.0
    """

    copy = unrecorded(cache_read)(sch, block, read_buffer_index, storage_scope)
    unrecorded(compute_at)(sch, copy, loop)
    return _marked(sch, copy)


@primitive("WriteAt", inputs="loop block", attrs="write_buffer_index storage_scope")
def write_at(
    sch: ScheduleBase, loop: LoopRV, block: BlockRV, write_buffer_index: int, storage_scope: str
) -> BlockRV:
    """Write to a copy, and copy back what each iteration of `loop` has written.

    Before (-) and after (+)
    ``sch.write_at(sch.get_loops("B")[0], sch.get_block("B"), 0, "shared")``,
    with ``A: T.Buffer((4, 8)), B: T.Buffer((4, 8))``::

        + B_shared = T.alloc_buffer((4, 8), scope="shared")
          for i in range(4):
              for j in range(8):
                  with T.block("B"):
                      v_i, v_j = T.axis.remap("SS", [i, j])
        -             B[v_i, v_j] = A[v_i, v_j] * 2.0
        +             B_shared[v_i, v_j] = A[v_i, v_j] * 2.0
        +     for ax0 in range(8):
        +         with T.block("B_shared"):
        +             v0, v1 = T.axis.remap("SS", [i, ax0])
        +             T.block_attr({"auto_copy": 1})
        +             B[v0, v1] = B_shared[v0, v1]
    """

    copy = unrecorded(cache_write)(sch, block, write_buffer_index, storage_scope)
    unrecorded(reverse_compute_at)(sch, copy, loop)
    return _marked(sch, copy)


def _marked(sch: ScheduleBase, copy: BlockRV) -> BlockRV:
    ref = sch.block(copy)
    sch.state.replace(ref, ref.stmt.replace(annotations={**ref.stmt.annotations, "auto_copy": 1}))
    return copy
