"""`set_scope`: the memory a buffer is in."""

from __future__ import annotations

from ....ir.prim_expr import Var
from ..machinery import BlockArg, ScheduleBase, primitive
from ..machinery.buffer_accesses import replace_buffer
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
    element = buffer.data.type_annotation[0] if buffer.data.type_annotation else str(buffer.dtype)
    data = Var._make(buffer.data.name, buffer.data.dtype, (element, storage_scope))
    replace_buffer(sch.state, site, {buffer: buffer.replace(data=data)})
