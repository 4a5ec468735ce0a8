"""`transform_layout`: a buffer in another layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import is_
from typing import Any

from ....arith import Analyzer
from ....ir.functor import any_node
from ....ir.literals import is_one, is_zero
from ....ir.prim_expr import ConstExpr, IntImm, PrimExpr, ScalarLike, Var
from ....ir.prim_op import const
from ...buffer import Buffer, BufferRegion
from ...expr import BufferLoad
from ...index_map import IndexMap
from ...stmt import Block, BufferStore, For, ForKind, Stmt
from ..machinery import BlockArg, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_accesses import with_detected_regions
from ..machinery.buffer_lookup import buffer_name, pick_buffer
from ..machinery.layout_padding import Layout, plan_padding, with_padding
from ..machinery.parallel_checks import is_private
from ..machinery.rewriting import BlockRewriter, substitute
from ..machinery.scope import write_buffers
from ..machinery.state import bind_range
from .buffer_properties import set_axis_separator


@primitive(
    "TransformLayout", inputs="block", attrs="buffer index_map pad_value assume_injective_transform"
)
def transform_layout(
    sch: ScheduleBase,
    block: BlockArg,
    buffer: tuple[str, int] | str | Buffer,
    index_map: IndexMap | Callable[..., Any],
    pad_value: int | float | bool | PrimExpr | IndexMap | Callable[..., Any] | None = None,
    *,
    assume_injective_transform: bool = False,
) -> None:
    """Store the elements of a buffer in another order: element `i` is stored at `index_map(i)`.

    buffer: ("read", n) or ("write", n), the name, or the buffer. A parameter's buffer changes its
    shape. Where the new layout is larger, `pad_value`, a value or a function of the new indices,
    is written to the padding: by the nest that writes the buffer in its order, else by one behind
    the last writer. The caller fills that of a parameter that is only read; `T.assume` says so.

    Raises ScheduleError when the map is not injective, or leaves padding without a `pad_value`.

    Before (-) and after (+)
    ``sch.transform_layout("B", ("write", 0), lambda i, j: (j // 4, i, j % 4))``,
    with ``A: T.Buffer((8, 8)), B: T.Buffer((8, 8))`` that become
    ``A: T.Buffer((8, 8)), B: T.Buffer((2, 8, 4))``::

          for i, j in T.grid(8, 8):
              with T.block("B"):
                  vi, vj = T.axis.remap("SS", [i, j])
        -         B[vi, vj] = A[vi, vj] * 2.0
        +         B[vj // 4, vi, vj % 4] = A[vi, vj] * 2.0
    """
    ref = sch.block(block)
    old = pick_buffer(ref, buffer)
    dtype = old.shape[0].dtype if old.shape else "int32"
    separators: Sequence[int] = ()
    if not isinstance(index_map, IndexMap):
        index_map, separators = IndexMap.from_func_with_separators(
            index_map, ndim=len(old.shape), index_dtype=str(dtype)
        )
    index_map = index_map.with_dtype(dtype).with_values(sch.value)
    name = buffer_name(ref, old)
    if separators:
        sch.go_on_with(lambda: set_axis_separator(sch, block, name, list(separators)))
    if index_map.final_indices == index_map.initial_indices:
        sch.record_as(index_map=index_map, buffer=name, pad_value=None)
        return
    ana = sch.state.analyzer(ref)
    try:
        shape = tuple(ana.simplify(s) for s in index_map.map_shape(old.shape))
        padded = const(False, "bool")
        checked = sch.enable_check or pad_value is not None
        if checked and not assume_injective_transform:
            inverse, padded = index_map.non_surjective_inverse(list(old.shape))
    except ValueError as error:
        what = f"the layout of {old.name} cannot be changed by this map"
        hint = "a map that keeps every element, such as lambda i, j: (j // 4, i, j % 4)"
        raise ScheduleError(what, got=error, instead=hint, at=ref.node) from None
    value = pad_map(pad_value, old, shape, ref)
    plain = value.final_indices[0] if value is not None else None
    literal = plain if isinstance(plain, ConstExpr) else value  # its text has no type
    sch.record_as(index_map=index_map, buffer=name, pad_value=literal)
    has_padding = not is_zero(padded)
    if has_padding and pad_value is None:
        raise no_pad_value(old, shape, ref)
    new = old.replace(shape=shape, strides=(), axis_separators=())
    owners = (r for r in (ref, *ref.ancestors()) if r.is_block and old in r.stmt.alloc_buffers)
    site = next(owners, None)
    root = site or sch.state.index(ref.func).root
    assert root is not None
    renamed: dict[Block, Block] = {}
    realize = root.realize
    if has_padding and value is not None:
        points, sources = inverse.initial_indices, inverse.final_indices
        at = partial(value.map_indices, analyzer=Analyzer())
        layout = Layout(old, new, points, sources, padded, lambda indices: at(indices)[0])
        plan = plan_padding(root.stmt, layout, site is None)
        if plan.behind is not None:
            check_shared(ref, old, plan.behind[0])
        realize = with_padding(realize, plan)
        renamed = plan.renamed
    later: dict[Block, Block] = {}
    body = MapAccesses(ana, old, new, index_map, later).visit(realize)
    renamed = {**later, **{a: later.get(b, b) for a, b in renamed.items()}}
    if site is not None:
        sch.state.update(ref.func, {site: body}, renamed)
        return
    func = sch.state.func(ref.func)
    params = {p: new if b is old else b for p, b in func.buffer_map.items()}
    sch.state.set_func(ref.func, func.replace(body=body, buffer_map=params), renamed)


def pad_map(pad_value: Any, old: Buffer, shape: Sequence[PrimExpr], ref: Ref) -> IndexMap | None:
    """The contents of the padding, as a map from the new indices to a value."""
    if pad_value is None:
        return None
    kinds = {"int": int, "uint": int, "float": float, "bool": int}
    kind = next((k for name, k in kinds.items() if str(old.dtype).startswith(name)), float)
    dtype = str(shape[0].dtype) if shape else "int32"

    def fits(number: ScalarLike) -> bool:
        return isinstance(number, kind) and (not old.dtype.is_bool or number in (0, 1))

    if callable(pad_value) and not isinstance(pad_value, (PrimExpr, IndexMap)):
        pad_value = IndexMap.from_func(pad_value, ndim=len(shape), index_dtype=dtype)
        values = [
            const(e.value, old.dtype) if isinstance(e, IntImm) and fits(e.value) else e
            for e in pad_value.final_indices
        ]  # results of the function that are plain numbers
        pad_value = IndexMap(pad_value.initial_indices, values)
    elif not isinstance(pad_value, IndexMap):
        pad_value = const(pad_value, old.dtype) if fits(pad_value) else pad_value
        points = [Var(f"i{n}", dtype) for n in range(len(shape))]
        pad_value = IndexMap(points, [pad_value])
    values = pad_value.final_indices
    if len(values) != 1:
        raise ScheduleError("the padding holds one value", got=f"{len(values)} values", at=ref.node)
    (value,) = values
    if value.dtype != old.dtype:
        what = f"the padding of {old.name} holds {old.dtype}"
        raise ScheduleError(
            what, got=f"{value} of {value.dtype}", instead="cast the value", at=ref.node
        )
    others = [b for b in accessed_buffers(value) if b is not old]
    if others:
        what = f"the pad value of {old.name} may load from no other buffer"
        raise ScheduleError(what, got=others[0].name, instead="a value of the indices", at=ref.node)
    return pad_value


def no_pad_value(old: Buffer, shape: Sequence[PrimExpr], ref: Ref) -> ScheduleError:
    """The error for a layout with padding of no value."""
    what = f"the new layout of {old.name} has elements that hold nothing"
    before, after = (", ".join(map(str, s)) for s in (old.shape, shape))
    got = f"shape ({before}) becomes ({after})"
    return ScheduleError(what, got=got, instead="give pad_value=", at=ref.node)


def accessed_buffers(value: PrimExpr) -> list[Buffer]:
    """The buffers that an expression loads from."""
    buffers: list[Buffer] = []
    any_node(value, lambda n: isinstance(n, BufferLoad) and buffers.append(n.buffer))
    return buffers


def check_shared(ref: Ref, buffer: Buffer, after: Stmt) -> None:
    """Raise ScheduleError where each iteration of a loop of `after` that does not run serially has
    a copy of the buffer: filling its padding behind the loop would merge the copies."""
    for writer in ref.scope().blocks():
        if buffer not in write_buffers(writer.stmt):
            continue
        for above in writer.ancestors():
            if above.is_block or above.stmt.kind in (ForKind.SERIAL, ForKind.UNROLLED):
                continue
            inside = any_node(after, partial(is_, above.stmt))
            if inside and is_private(above, writer):
                name = above.stmt.loop_var.name
                what = f"each iteration of loop {name!r} has a copy of {buffer.name}"
                hint = "change the layout first, then the kind of the loop"
                raise ScheduleError(what, instead=hint, at=[above.stmt, writer.node])


class MapAccesses(BlockRewriter):
    """Changes the indices of a buffer's accesses; the regions of the blocks follow."""

    def __init__(
        self,
        ana: Analyzer,
        old: Buffer,
        new: Buffer,
        index_map: IndexMap,
        renamed: dict[Block, Block],
    ) -> None:
        super().__init__(renamed)
        self.ana, self.old, self.new, self.map = ana, old, new, index_map
        self.single: dict[Var, PrimExpr] = {}  # variables of one value

    def bind(self, var: Var, low: PrimExpr, extent: PrimExpr) -> None:
        bind_range(self.ana, var, low, extent)
        if is_one(extent):
            self.single[var] = low

    def mapped(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """The new indices: sums without the variables of one value."""
        values = dict(zip(self.map.initial_indices, indices, strict=True))
        mapped = [self.ana.simplify(substitute(e, values)) for e in self.map.final_indices]
        return tuple(
            e if isinstance(e, Var) else self.ana.simplify(substitute(e, self.single))
            for e in mapped
        )

    def regions(
        self, declared: tuple[BufferRegion, ...], detected: tuple[BufferRegion, ...]
    ) -> tuple[BufferRegion, ...]:
        """The declared regions, with those found for the new buffer in the old one's place, and
        indices that load from it."""
        positions = [n for n, region in enumerate(declared) if region.buffer is self.old]
        regions = [self.visit_default(r) for r in declared if r.buffer is not self.old]
        at = positions[0] if positions else len(regions)
        regions[at:at] = [region for region in detected if region.buffer is self.new]
        return tuple(regions)

    def visit_For(self, node: For) -> Any:
        self.bind(node.loop_var, node.min, node.extent)
        return self.visit_default(node)

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        load = self.visit_default(node)
        if load.buffer is not self.old:
            return load
        return BufferLoad._make(self.new, self.mapped(load.indices), load.predicate, span=load.span)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        store = self.visit_default(node)
        if store.buffer is not self.old:
            return store
        return BufferStore._make(
            self.new, store.value, self.mapped(store.indices), store.predicate, span=store.span
        )

    def visit_BufferRegion(self, node: BufferRegion) -> Any:
        return node

    def visit_Block(self, node: Block) -> Any:
        regions = (*node.reads, *node.writes)
        accesses = any(r.buffer is self.old for r in regions)
        for axis in node.iter_vars:
            self.bind(axis.var, axis.dom.min, axis.dom.extent)
        if any(m.source.buffer is self.old for m in node.match_buffers):
            what = f"block {node.name_hint!r} matches a region of {self.old.name}"
            raise ScheduleError(what, instead="change the layout before tensorize", at=node)
        block = self.visit_default(node)
        if self.old in block.alloc_buffers:
            buffers = tuple(self.new if b is self.old else b for b in block.alloc_buffers)
            block = block.replace(alloc_buffers=buffers)
        if accesses:
            detected = with_detected_regions(block)
            block = block.replace(
                reads=self.regions(block.reads, detected.reads),
                writes=self.regions(block.writes, detected.writes),
            )
        if block is not node:
            self.renamed[node] = block
        return block
