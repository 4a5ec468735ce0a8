"""`set_scope`: where a buffer lies."""

from __future__ import annotations

from typing import Any

from ....ir.prim_expr import Var
from ...buffer import Buffer
from ..machinery.buffer_accesses import ReplaceBuffer
from ..machinery.errors import ScheduleError
from ..machinery.primitive import primitive
from ..machinery.random_variables import BlockRV
from ..machinery.state import Ref
from .cache_read_write import buffer_at, check_storage_scope


@primitive("SetScope", inputs="block", attrs="buffer_index storage_scope")
def set_scope(
    sch: Any, block: BlockRV, buffer_index: int | str | Buffer, storage_scope: str
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
    replace_buffer(sch, site, {buffer: buffer.replace(data=data)})


def alloc_site(ref: Ref, buffer: Buffer) -> Ref:
    """The block around that allocates a buffer. Raises ScheduleError for a parameter's buffer."""
    for above in (ref, *ref.ancestors()):
        if above.is_block and buffer in above.stmt.alloc_buffers:
            return above
    what = f"{buffer.name} is not allocated by the function"
    raise ScheduleError(what, instead="a buffer from T.alloc_buffer", at=ref.node)


def replace_buffer(sch: Any, site: Ref, table: dict[Buffer, Buffer]) -> None:
    """Other buffers in the place of some, in the block that allocates them."""
    renamed: dict[Any, Any] = {}
    made = ReplaceBuffer(table, renamed).visit(site.realize)
    sch.state.update(site.func, {site: made}, renamed)
