"""`pad_reduction`, `pad_rows`: axes that are whole vectors long, with terms that change nothing."""

from __future__ import annotations

from typing import Any

from ....arith import Analyzer
from ....ir.functor import rewrite
from ....ir.literals import int_value
from ....ir.node import Node
from ....ir.prim_expr import BinaryOpExpr, IterVar, Let, PrimExpr, Range, Select, Var
from ....ir.prim_op import add, const, floordiv, less, multiply
from ...buffer import Buffer
from ...expr import BufferLoad
from ...op import if_then_else
from ...stmt import Block, BufferStore, For
from ...stmt_functor import keep_buffers
from ..machinery import BlockArg, BlockRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.arguments import Positive
from ..machinery.buffer_accesses import ReplaceBuffer
from ..machinery.loop_nests import single_path


@primitive("PadReduction", inputs="block", attrs="factor")
def pad_reduction(sch: ScheduleBase, block: BlockArg, factor: Positive) -> None:
    """Round the last reduction axis of a block up to a multiple of `factor`: beyond its end a term is the
    reduction's identity.

    Unlike `pad_einsum` it copies nothing. Raises ScheduleError unless the block is a fold (an element,
    an operator, a term) and the axis has a loop of its own.

    Before (-) and after (+) ``sch.pad_reduction("S", 8)``,
    with ``A: T.Buffer((4, 13)), S: T.Buffer(4)``::

        - for i, k in T.grid(4, 13):
        + for i, k in T.grid(4, 16):
              with T.block("S"):
                  v = T.axis.spatial(4, i)
        -         vk = T.axis.reduce(13, k)
        +         vk = T.axis.reduce(16, k)
                  with T.init():
                      S[v] = 0.0
        -         S[v] = S[v] + A[v, vk]
        +         S[v] = S[v] + T.if_then_else(vk < 13, A[v, vk], 0.0)
    """
    ref = sch.block(block)
    node: Block = ref.stmt
    reduced = [n for n, v in enumerate(node.iter_vars) if v.iter_type == IterVar.CommReduce]
    store, start = node.body, node.init
    fold = store.value if isinstance(store, BufferStore) else None
    if not reduced or not isinstance(start, BufferStore) or not isinstance(fold, BinaryOpExpr):
        what = f"block {node.name_hint!r} is not a fold over an axis"
        raise ScheduleError(what, instead="x[...] = x[...] + term, with an init", at=ref.node)
    axis = node.iter_vars[reduced[-1]]
    padded = _rounded_up(axis, factor)
    if padded is None:
        return
    term = if_then_else(less(axis.var, axis.dom.extent), fold.b, start.value)
    _resize(sch, ref, reduced[-1], padded, store.replace(value=fold.replace(b=term)))


@primitive("PadRows", inputs="*blocks", attrs="factor fill")
def pad_rows(sch: ScheduleBase, *blocks: BlockRV, factor: Positive, fill: float) -> None:
    """Round the last axis of blocks up to a multiple of `factor`, and with it the last dimension of the
    buffers that they write.

    The first block stores `fill` beyond the end; the others compute what follows from it, along their
    last axis or a reduction over it, and must not make an output of the function longer.

    Raises ScheduleError for a block without axes or with several stores, and where an output of the
    function would become longer.

    Before (-) and after (+)
    ``sch.pad_rows(sch.get_block("X"), sch.get_block("M"), factor=8, fill=0.0)``,
    with ``A: T.Buffer((4, 13)), M: T.Buffer(4)``::

        - X = T.alloc_buffer((4, 13))
        - for i, j in T.grid(4, 13):
        + X = T.alloc_buffer((4, 16))
        + for i, j in T.grid(4, 16):
              with T.block("X"):
                  vi = T.axis.spatial(4, i)
        -         vj = T.axis.spatial(13, j)
        -         X[vi, vj] = A[vi, vj] * 2.0
        - for i, j in T.grid(4, 13):
        +         vj = T.axis.spatial(16, j)
        +         x = T.float32()
        +         X[vi, vj] = T.Let(T.Select(vj < 13, x, T.float32(0)),
        +             where={x: T.if_then_else(vj < 13, A[vi, vj], T.float32(0)) * 2.0})
        + for i, j in T.grid(4, 16):
              with T.block("M"):
                  vi = T.axis.spatial(4, i)
        -         vj = T.axis.reduce(13, j)
        +         vj = T.axis.reduce(16, j)
                  with T.init():
                      M[vi] = 0.0
                  M[vi] = T.max(M[vi], X[vi, vj])
    """
    if not blocks or not all(sch.block(rv).stmt.iter_vars for rv in blocks):
        what, hint = "a block without axes has no rows", "blocks that write or reduce rows"
        raise ScheduleError(what, got=f"{len(blocks)} blocks", instead=hint)
    gvar = sch.block(blocks[0]).func
    arguments = set(sch.state.func(gvar).buffer_map.values())
    longer: dict[Buffer, Buffer] = {}
    for rv in blocks:
        ref = sch.block(rv)
        node: Block = ref.stmt
        at = len(node.iter_vars) - 1
        axis, store = node.iter_vars[at], node.body
        padded = _rounded_up(axis, factor)
        if padded is None:
            continue
        if not isinstance(store, BufferStore):
            what = f"block {node.name_hint!r} stores more than one element"
            raise ScheduleError(what, instead="blocks of one store", at=ref.node)
        if axis.iter_type == IterVar.DataPar:
            if store.buffer in arguments or store.indices[-1] is not axis.var:
                what = f"the rows of {store.buffer.name} cannot become longer"
                raise ScheduleError(
                    what, instead="a buffer that the function allocates", at=ref.node
                )
            shape = (*store.buffer.shape[:-1], padded)
            longer[store.buffer] = store.buffer.replace(shape=shape)
        if rv is blocks[0]:
            store = _filled(store, axis, fill, arguments)
        _resize(sch, ref, at, padded, store)
    renamed: dict[Block, Block] = {}
    body = ReplaceBuffer(longer, renamed).visit(sch.state.func(gvar).body)
    sch.state.set_func(gvar, sch.state.func(gvar).with_body(body), renamed)


def _filled(store: BufferStore, axis: IterVar, fill: float, arguments: set[Buffer]) -> BufferStore:
    """The store with `fill` beyond the axis's end, where no argument is loaded."""
    inside = less(axis.var, axis.dom.extent)

    def guard(load: Node) -> PrimExpr | None:
        if not isinstance(load, BufferLoad) or load.buffer not in arguments:
            return None
        return if_then_else(inside, load, const(0, load.dtype))

    value = rewrite(store.value, guard, keep_buffers)
    bound = Var("x", value.dtype)  # first: a load under a condition is a masked one
    return store.replace(value=Let(bound, value, Select(inside, bound, const(fill, value.dtype))))


def _rounded_up(axis: IterVar, factor: int) -> PrimExpr | None:
    """The extent rounded up to a multiple; None if it is one already."""
    extent = int_value(axis.dom.extent)
    if extent is not None and extent % factor == 0:
        return None
    whole = multiply(floordiv(add(axis.dom.extent, factor - 1), factor), factor)
    return Analyzer().simplify(whole)


def _resize(sch: ScheduleBase, ref: Ref, at: int, extent: PrimExpr, store: BufferStore) -> None:
    """Give an axis of a block, and its loop, another extent, and the block another body."""
    node: Block = ref.stmt
    axis, value = node.iter_vars[at], ref.realize.iter_values[at]
    loop = next((r for r in single_path(ref) if r.stmt.loop_var is value), None)
    if loop is None:
        what = f"axis {axis.var.name!r} of block {node.name_hint!r} has no loop of its own"
        raise ScheduleError(what, got=value, instead="pad before other steps", at=ref.node)
    longer = axis.replace(dom=Range.from_min_extent(axis.dom.min, extent))
    axes = (*node.iter_vars[:at], longer, *node.iter_vars[at + 1 :])
    block = node.replace(iter_vars=axes, body=store)

    def resized(new: Any) -> For:
        return new.replace(extent=extent)

    changes = {ref: ref.realize.replace(block=block)}
    sch.state.update(ref.func, changes, {node: block}, {loop: resized})
