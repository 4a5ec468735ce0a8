"""Steps that change properties of a buffer: `set_axis_separator`, `unsafe_set_dtype`,
`unsafe_hide_buffer_access`."""

from __future__ import annotations

from typing import Any

from ....ir.dtype import DataType
from ....ir.prim_expr import Var
from ....ir.prim_op import cast
from ...buffer import Buffer
from ...expr import BufferLoad
from ...stmt import Block, BufferStore
from ..machinery import BlockArg, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_accesses import ReplaceBuffer, of_memory, with_matches
from ..machinery.buffer_lookup import alloc_site, buffer_at, buffer_name, pick_buffer
from ..machinery.rewriting import BlockRewriter


@primitive("SetAxisSeparator", inputs="block", attrs="buffer axis_separators")
def set_axis_separator(
    sch: ScheduleBase,
    block: BlockArg,
    buffer: tuple[str, int] | str | Buffer,
    axis_separators: list[int] | None,
) -> None:
    """Set the dimensions between which a buffer is not flattened.

    Raises ScheduleError for separators that are not ascending and between dimensions.

    Before (-) and after (+)
    ``sch.set_axis_separator("B", ("write", 0), [1])``,
    with ``A: T.Buffer((8, 8)), B: T.Buffer((8, 8))`` that become
    ``A: T.Buffer((8, 8)), b: T.handle``::

        + B = T.match_buffer(b, (8, 8), axis_separators=[1])
          for i, j in T.grid(8, 8):
              with T.block("B"):
                  vi, vj = T.axis.remap("SS", [i, j])
                  B[vi, vj] = A[vi, vj] * 2.0
    """
    ref = sch.block(block)
    old = pick_buffer(ref, buffer)
    sch.record_as(buffer=buffer_name(ref, old))
    separators = [int(n) for n in axis_separators or ()]
    if separators != sorted(set(separators)) or any(not 0 < n < len(old.shape) for n in separators):
        what = "separators are between dimensions, in ascending order"
        raise ScheduleError(what, got=separators, instead=f"1 to {len(old.shape) - 1}", at=ref.node)
    new = old.replace(axis_separators=tuple(separators))
    if new is old:
        return
    renamed: dict[Block, Block] = {}
    func = sch.state.func(ref.func)
    root: Any = sch.state.index(ref.func).root
    table = with_matches(root, old, new, separated)
    body = ReplaceBuffer(table, renamed).visit(func.body)
    params = {p: new if b is old else b for p, b in func.buffer_map.items()}
    sch.state.set_func(ref.func, func.replace(body=body, buffer_map=params), renamed)


def separated(part: Buffer, whole: Buffer) -> Buffer:
    """The buffer that matches a region, with the separators of the whole: counted from the last
    dimension, as dimensions of one element are left out at the front."""
    missing = len(whole.shape) - len(part.shape)
    separators = sorted({max(n - missing, 0) for n in whole.axis_separators})
    return part.replace(axis_separators=tuple(separators))


class _Retype(BlockRewriter):
    """Buffers of another element type: values are cast where they are stored and loaded."""

    def __init__(self, table: dict[Buffer, Buffer], renamed: dict[Block, Block]) -> None:
        super().__init__(renamed)
        self.table = table
        self.old = {new: old for old, new in table.items()}
        self.pointers = {old.data for old in table}

    def visit_Buffer(self, node: Buffer) -> Any:
        return self.table.get(node, node)

    def visit_Var(self, node: Var) -> Any:
        if node in self.pointers:
            what = f"a block uses the pointer {node.name}, whose elements would change"
            raise ScheduleError(what, instead="change the type before tensorize")
        return node

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        load = self.visit_default(node)
        old = self.old.get(load.buffer)
        return load if old is None else cast(_as_wide(old.dtype, load.dtype), load)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        store = self.visit_default(node)
        if store.buffer not in self.old:
            return store
        dtype = _as_wide(store.buffer.dtype, store.value.dtype)
        return store.replace(value=cast(dtype, store.value))


def _as_wide(dtype: DataType, of: DataType) -> DataType:
    """A type of the number of lanes of another: a slice of a buffer has several."""
    return dtype.with_lanes(dtype.lanes * of.lanes) if of.lanes > 1 else dtype


@primitive("UnsafeSetDType", inputs="block", attrs="buffer_index dtype")
def unsafe_set_dtype(
    sch: ScheduleBase, block: BlockArg, buffer_index: int | str, dtype: str
) -> None:
    """Store the results of a block in another type; its readers cast it back. Unsafe: it may lose
    precision.

    Before (-) and after (+) ``sch.unsafe_set_dtype("B", 0, "float64")``, with ``A: T.Buffer(8)``::

        - B = T.alloc_buffer(8)
        + B = T.alloc_buffer(8, "float64")
          for i in range(8):
              with T.block("B"):
                  v = T.axis.spatial(8, i)
        -         B[v] = A[v] * 2.0
        +         B[v] = T.Cast("float64", A[v] * 2.0)
    """
    ref = sch.block(block)
    buffer = buffer_at(ref, buffer_index, write=True)
    site = alloc_site(ref, buffer)
    new_dtype = DataType(dtype)
    if buffer.dtype == new_dtype:
        return

    def retyped(part: Buffer, _: Buffer) -> Buffer:
        return of_memory(part, new_dtype, part.scope())

    renamed: dict[Block, Block] = {}
    table = with_matches(site, buffer, retyped(buffer, buffer), retyped)
    realize = _Retype(table, renamed).visit(site.realize)
    sch.state.update(site.func, {site: realize}, renamed)


@primitive("UnsafeHideBufferAccess", inputs="block", attrs="buf_type buf_index_array")
def unsafe_hide_buffer_access(
    sch: ScheduleBase, block: BlockArg, buf_type: str, buf_index_array: list[int]
) -> None:
    """Leave accesses out of the regions that a block declares. Unsafe: later steps do not see them.

    Raises ScheduleError for a `buf_type` other than "read" and "write", and an index that
    the block does not have.

    Before (-) and after (+) ``sch.unsafe_hide_buffer_access("B", "read", [0])``,
    with ``A: T.Buffer(8), B: T.Buffer(8)``::

          for i in range(8):
              with T.block("B"):
                  v = T.axis.spatial(8, i)
        +         T.reads()
        +         T.writes(B[v])
                  B[v] = A[v] * 2.0
    """
    ref = sch.block(block)
    if buf_type not in ("read", "write"):
        raise ScheduleError(
            'buf_type is "read" or "write"', got=buf_type, instead="one of the two", at=ref.node
        )
    side = f"{buf_type}s"
    regions = getattr(ref.stmt, side)
    hidden = {int(n) for n in buf_index_array}
    if not hidden <= set(range(len(regions))):
        what = f"block {ref.stmt.name_hint!r} {side} {len(regions)} regions"
        raise ScheduleError(what, got=sorted(hidden), at=ref.node)
    remaining = tuple(r for n, r in enumerate(regions) if n not in hidden)
    sch.state.replace(ref, ref.stmt.replace(**{side: remaining}))
