"""`set_scope`: the memory a buffer is in."""

from __future__ import annotations

from ...buffer import Buffer
from ..machinery import BlockArg, ScheduleBase, primitive
from ..machinery.buffer_accesses import of_memory, replace_buffer, with_matches
from ..machinery.buffer_lookup import BufferArg, alloc_site, buffer_at
from ..machinery.copy_placement import check_storage_scope


@primitive("SetScope", inputs="block", attrs="buffer_index storage_scope")
def set_scope(
    sch: ScheduleBase, block: BlockArg, buffer_index: BufferArg, storage_scope: str
) -> None:
    """Put a buffer that a block writes, allocated by the function, into a memory scope.

    Before (-) and after (+) ``sch.set_scope("B", 0, "shared")``, with ``A: T.Buffer((8, 8))``::

        - B = T.alloc_buffer((8, 8))
        + B = T.alloc_buffer((8, 8), scope="shared")
          for i, j in T.grid(8, 8):
              with T.block("B"):
                  vi, vj = T.axis.remap("SS", [i, j])
                  B[vi, vj] = A[vi, vj] * 2.0
    """
    ref = sch.block(block)
    check_storage_scope(storage_scope)
    buffer = buffer_at(ref, buffer_index, write=True)
    site = alloc_site(ref, buffer)
    if buffer.scope() == storage_scope:
        return

    def moved(part: Buffer, _: Buffer) -> Buffer:
        return of_memory(part, part.dtype, storage_scope)

    table = with_matches(site, buffer, moved(buffer, buffer), moved)
    replace_buffer(sch.state, site, table)
