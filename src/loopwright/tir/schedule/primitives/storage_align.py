"""Steps that leave a note for later passes: `storage_align`, `enter_postproc`,
`annotate_buffer_access`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.prim_expr import Range
from ....ir.prim_op import const
from ...buffer import BufferRegion
from ...index_map import IndexMap
from ..machinery.errors import ScheduleError
from ..machinery.primitive import primitive
from ..machinery.random_variables import BlockRV
from .cache_read_write import buffer_at
from .set_scope import alloc_site

ALIGN = "buffer_dim_align"


@primitive("StorageAlign", inputs="block", attrs="buffer_index axis factor offset")
def storage_align(
    sch: Any, block: BlockRV, buffer_index: int, axis: int, factor: int, offset: int
) -> None:
    """Have the stride of dimension `axis` of a buffer that a block writes be k * factor + offset.

    Before::

        @T.prim_func
        def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
            B = T.alloc_buffer((8, 8))
            for i, j in T.grid(8, 8):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for i, j in T.grid(8, 8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + T.float32(1)

    After ``sch.storage_align("B", 0, axis=0, factor=16, offset=1)``::

        @T.prim_func
        def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
            B = T.alloc_buffer((8, 8))
            for i, j in T.grid(8, 8):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.block_attr({"buffer_dim_align": [[0, 0, 16, 1]]})
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for i, j in T.grid(8, 8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + T.float32(1)
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
    known = [list(map(int, entry)) for entry in ref.stmt.annotations.get(ALIGN, ())]
    kept = [entry for entry in known if entry[:2] != [index, axis]]
    notes = {**ref.stmt.annotations, ALIGN: [*kept, [index, axis, factor, offset]]}
    sch.state.replace(ref, ref.stmt.replace(annotations=notes))


@primitive("EnterPostproc")
def enter_postproc(sch: Any) -> None:
    """Mark the end of the search space: what follows is dropped by `remove_postproc`."""


@primitive("AnnotateBufferAccess", inputs="block", attrs="buffer_index buf_type gen_new_ranges")
def annotate_buffer_access(
    sch: Any,
    block: BlockRV,
    buffer_index: int,
    buf_type: str,
    gen_new_ranges: IndexMap | Callable[..., Any],
) -> None:
    """Say by hand which region of a buffer a block reads or writes.

    `gen_new_ranges(*axes)` gives for each dimension an index, or a pair (begin, end).

    Before::

        @T.prim_func
        def main(A: T.Buffer((10,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v + 1] * T.float32(2)

    After ``sch.annotate_buffer_access("B", 0, "read", lambda v: [(v, v + 3)])``::

        @T.prim_func
        def main(A: T.Buffer((10,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    T.reads(A[v:v + 3])
                    T.writes(B[v])
                    T.block_attr({"explicit_read_region": 0})
                    B[v] = A[v + 1] * T.float32(2)
    """
    ref = sch.block(block)
    if buf_type not in ("read", "write"):
        raise ScheduleError(
            'buf_type is "read" or "write"', got=buf_type, instead="one of the two", at=ref.node
        )
    buffer = buffer_at(ref, buffer_index, write=buf_type == "write")
    axes = [a.var for a in ref.stmt.iter_vars]
    dtype = axes[0].dtype if axes else "int32"
    if isinstance(gen_new_ranges, IndexMap):
        flat = gen_new_ranges.with_dtype(dtype).map_indices(axes)
    else:
        flat = []
        for item in gen_new_ranges(*axes):
            pair = item if isinstance(item, (tuple, list)) else (item, item + 1)
            flat += pair
    ends = [const(e, dtype) if isinstance(e, int) else e for e in flat]
    if len(ends) != 2 * len(buffer.shape):
        what = f"{buffer.name} has {len(buffer.shape)} dimensions"
        raise ScheduleError(what, got=f"{len(ends) // 2} ranges", at=ref.node)
    ana = sch.state.analyzer(ref)
    ranges = [
        Range.from_min_extent(a, ana.simplify(b - a))
        for a, b in zip(ends[::2], ends[1::2], strict=True)
    ]
    region = BufferRegion(buffer, tuple(ranges))
    sch._override = {"gen_new_ranges": IndexMap(axes, ends)}
    side = "reads" if buf_type == "read" else "writes"
    made = tuple(region if r.buffer is buffer else r for r in getattr(ref.stmt, side))
    at = next(n for n, r in enumerate(getattr(ref.stmt, side)) if r.buffer is buffer)
    key = f"explicit_{buf_type}_region"
    notes = {**ref.stmt.annotations, key: at}
    sch.state.replace(ref, ref.stmt.replace(**{side: made}, annotations=notes))
