"""`unsafe_ignore_nan`, `unsafe_reuse_buffer`: steps for which the caller knows that the meaning stays."""

from __future__ import annotations

from ....ir.prim_expr import Let, Max, Min, Select, Var
from ....ir.prim_op import less
from ....ir.structural import structural_equal
from ...expr import BufferLoad
from ...stmt import Block, BufferStore
from ..machinery import BlockArg, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_accesses import ReplaceBuffer
from ..machinery.buffer_lookup import alloc_site, buffer_at, drop_buffer


@primitive("UnsafeIgnoreNan", inputs="block")
def unsafe_ignore_nan(sch: ScheduleBase, block: BlockArg) -> None:
    """Let a reduction's maximum, or minimum, ignore NaN: one instruction instead of four.

    For results that are NaN anyway where an element is: those of a softmax, whose sum has it.

    Raises ScheduleError for a block that does not fold maxima or minima.

    Before (-) and after (+) ``sch.unsafe_ignore_nan("M")``,
    with ``A: T.Buffer((4, 8)), M: T.Buffer(4)``::

          for i, k in T.grid(4, 8):
              with T.block("M"):
                  v, vk = T.axis.remap("SR", [i, k])
                  with T.init():
                      M[v] = T.float32("-inf")
        -         M[v] = T.max(M[v], A[v, vk])
        +         x = T.float32()
        +         y = T.float32()
        +         M[v] = T.Let(
        +             T.Let(T.Select(x < y, y, x), where={y: A[v, vk]}), where={x: M[v]})
    """
    ref = sch.block(block)
    node: Block = ref.stmt
    store = node.body
    value = store.value if isinstance(store, BufferStore) else None
    if not isinstance(value, Max | Min) or not isinstance(value.a, BufferLoad):
        what = f"block {node.name_hint!r} does not fold maxima or minima"
        raise ScheduleError(what, instead="x[...] = max(x[...], value)", at=ref.node)
    # Bound first: a load under a condition is a masked one.
    x, y = Var("x", value.dtype), Var("y", value.dtype)
    test = less(x, y) if isinstance(value, Max) else less(y, x)
    chosen = Let(x, value.a, Let(y, value.b, Select(test, y, x)))
    sch.state.replace(ref, node.replace(body=store.replace(value=chosen)))


@primitive("UnsafeReuseBuffer", inputs="block other")
def unsafe_reuse_buffer(sch: ScheduleBase, block: BlockArg, other: BlockArg) -> None:
    """Let a block write into the buffer that another block writes, instead of one of its own.

    For values of which each is read for the last time where the other block stores in its position.

    Raises ScheduleError for buffers of different dtypes or shapes.

    Before (-) and after (+) ``sch.unsafe_reuse_buffer("E", sch.get_block("B"))``,
    with ``A: T.Buffer(8), B: T.Buffer(8)``::

        - E = T.alloc_buffer(8)
          for i in range(8):
              with T.block("E"):
                  v = T.axis.spatial(8, i)
        -         E[v] = T.exp(A[v])
        +         B[v] = T.exp(A[v])
          for i in range(8):
              with T.block("B"):
                  v = T.axis.spatial(8, i)
        -         B[v] = E[v] * 2.0
        +         B[v] = B[v] * 2.0
    """
    ref, to = sch.block(block), sch.block(other)
    old, new = buffer_at(ref, 0, write=True), buffer_at(to, 0, write=True)
    site = alloc_site(ref, old)
    if old.dtype != new.dtype or not structural_equal(old.shape, new.shape):
        what = f"{old.name} and {new.name} differ"
        got = f"{old.dtype} {old.shape} and {new.dtype} {new.shape}"
        raise ScheduleError(what, got=got, instead="buffers of one type and shape", at=ref.node)
    renamed: dict[Block, Block] = {}
    block_made = ReplaceBuffer({old: new}, renamed).visit(drop_buffer(old)(site.stmt))
    sch.state.replace(site, block_made, renamed)
