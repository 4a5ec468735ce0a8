"""`set_scope`: where a buffer lies."""

from __future__ import annotations

from ....ir.prim_expr import Var
from ...buffer import Buffer
from ..machinery.buffer_accesses import replace_buffer
from ..machinery.buffer_lookup import alloc_site, buffer_at
from ..machinery.copy_placement import check_storage_scope
from ..machinery.primitive import primitive
from ..machinery.random_variables import BlockRV
from ..machinery.schedule_base import ScheduleBase


@primitive("SetScope", inputs="block", attrs="buffer_index storage_scope")
def set_scope(
    sch: ScheduleBase, block: BlockRV | str, buffer_index: int | str | Buffer, storage_scope: str
) -> None:
    """Put a buffer that a block writes, allocated by the function, into a memory scope.

    Before::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
            B = T.alloc_buffer((8,))
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)
            for i in range(8):
                with T.block("C"):
                    v = T.axis.spatial(8, i)
                    C[v] = B[v] + T.float32(1)

    After ``sch.set_scope("B", 0, "shared")``::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
            B = T.alloc_buffer((8,), scope="shared")
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)
            for i in range(8):
                with T.block("C"):
                    v = T.axis.spatial(8, i)
                    C[v] = B[v] + T.float32(1)
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
