"""Annotations for later passes: `annotate`, `unannotate`, `annotate_buffer_access`,
`enter_postproc`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.prim_expr import IntImm, PrimExpr, Range
from ....ir.prim_op import const
from ...buffer import BufferRegion
from ...index_map import IndexMap
from ..machinery import BlockArg, LoopRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_lookup import buffer_at


@primitive("Annotate", inputs="block_or_loop ann_val", attrs="ann_key")
def annotate(
    sch: ScheduleBase, block_or_loop: BlockArg | LoopRV, ann_key: str, ann_val: Any
) -> None:
    """Annotate a block or loop with `ann_key: ann_val`.

    Raises ScheduleError where it has an annotation of this key.

    Before (-) and after (+) ``sch.annotate(sch.get_block("B"), "key", 1)``,
    with ``A: T.Buffer(8), B: T.Buffer(8)``::

          for i in range(8):
              with T.block("B"):
                  v = T.axis.spatial(8, i)
        +         T.block_attr({"key": 1})
                  B[v] = A[v] * 2.0
    """
    ref = sch.get_sref(block_or_loop)
    value = (
        sch.value(ann_val) if not isinstance(ann_val, (str, list, tuple, dict, float)) else ann_val
    )
    if isinstance(ann_val, (list, tuple)):
        value = [v if isinstance(v, (str, float)) else sch.value(v) for v in ann_val]
    if ann_key in ref.stmt.annotations:
        what = f"there is an annotation {ann_key!r} already"
        raise ScheduleError(
            what, got=ref.stmt.annotations[ann_key], instead="unannotate it first", at=ref.node
        )
    sch.state.replace(ref, ref.stmt.replace(annotations={**ref.stmt.annotations, ann_key: value}))


@primitive("Unannotate", inputs="block_or_loop", attrs="ann_key")
def unannotate(sch: ScheduleBase, block_or_loop: BlockArg | LoopRV, ann_key: str) -> None:
    """Remove the annotation `ann_key` from a block or loop.

    Raises ScheduleError where the annotation is missing.

    Before (-) and after (+) ``sch.unannotate(sch.get_loops("B")[0], "key")``,
    with ``A: T.Buffer(8), B: T.Buffer(8)``::

        - for i in T.serial(8, annotations={"key": 1}):
        + for i in range(8):
              with T.block("B"):
                  v = T.axis.spatial(8, i)
                  B[v] = A[v] * 2.0
    """
    ref = sch.get_sref(block_or_loop)
    remaining = {k: v for k, v in ref.stmt.annotations.items() if k != ann_key}
    if len(remaining) == len(ref.stmt.annotations):
        listed = ", ".join(remaining) or "it has none"
        raise ScheduleError("no such annotation", got=ann_key, instead=listed, at=ref.node)
    sch.state.replace(ref, ref.stmt.replace(annotations=remaining))


def ranges_of(ref: Ref, gen_new_ranges: Callable[..., Any]) -> list[Any]:
    """The results of the function for the axes of a block: indices, and pairs of them."""
    axes = [axis.var for axis in ref.stmt.iter_vars]
    try:
        ranges: Any = gen_new_ranges(*axes)
    except TypeError as error:  # of another number of axes
        ranges = error
    pairs = ranges if isinstance(ranges, (tuple, list)) else [None]
    ends = [e for p in pairs for e in (p if isinstance(p, (tuple, list)) and len(p) == 2 else [p])]
    if not all(isinstance(end, (int, PrimExpr)) for end in ends):
        what = "gen_new_ranges returns, for each dimension, an index or a pair (begin, end)"
        hint = f"a function of the {len(axes)} axes of block {ref.stmt.name_hint!r}"
        raise ScheduleError(what, got=ranges, instead=hint, at=ref.node)
    return list(ranges)


@primitive("EnterPostproc")
def enter_postproc(sch: ScheduleBase) -> None:
    """Mark the end of the search space: what follows is dropped by `remove_postproc`."""


@primitive("AnnotateBufferAccess", inputs="block", attrs="buffer_index buf_type gen_new_ranges")
def annotate_buffer_access(
    sch: ScheduleBase,
    block: BlockArg,
    buffer_index: int,
    buf_type: str,
    gen_new_ranges: IndexMap | Callable[..., Any],
) -> None:
    """Declare which region of a buffer a block reads or writes.

    `gen_new_ranges(*axes)` returns for each dimension an index, or a pair (begin, end). The block
    notes which of its regions are declared.

    Raises ScheduleError for a `buf_type` other than "read" and "write", and for another number
    of ranges than the buffer has dimensions.

    Before (-) and after (+) ``sch.annotate_buffer_access("B", 0, "read", lambda v: [(v, v + 3)])``,
    with ``A: T.Buffer(10), B: T.Buffer(8)``::

          for i in range(8):
              with T.block("B"):
                  v = T.axis.spatial(8, i)
        +         T.reads(A[v:v + 3])
        +         T.writes(B[v])
        +         T.block_attr({"explicit_read_region": [0]})
                  B[v] = A[v + 1] * 2.0
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
        for item in ranges_of(ref, gen_new_ranges):
            flat += item if isinstance(item, (tuple, list)) else (item, item + 1)
    if len(flat) != 2 * len(buffer.shape):
        what = f"{buffer.name} has {len(buffer.shape)} dimensions"
        raise ScheduleError(what, got=f"{len(flat) // 2} ranges", at=ref.node)
    ends: list[PrimExpr] = []
    for dim, *pair in zip(buffer.shape, flat[::2], flat[1::2], strict=True):
        # The numbers of a map that was read back have no type of their own.
        kind = next((e.dtype for e in pair if not isinstance(e, (int, IntImm))), dim.dtype)
        ends += [const(int(e), kind) if isinstance(e, (int, IntImm)) else e for e in pair]
    ana = sch.state.analyzer(ref)
    ranges = [
        Range.from_min_extent(a, ana.simplify(b - a))
        for a, b in zip(ends[::2], ends[1::2], strict=True)
    ]
    region = BufferRegion(buffer, tuple(ranges))
    sch.record_as(gen_new_ranges=IndexMap(axes, ends))
    side = "reads" if buf_type == "read" else "writes"
    regions = tuple(region if r.buffer is buffer else r for r in getattr(ref.stmt, side))
    at = next(n for n, r in enumerate(getattr(ref.stmt, side)) if r.buffer is buffer)
    key = f"explicit_{buf_type}_region"
    before = [int(n) for n in ref.stmt.annotations.get(key, ()) if int(n) != at]
    notes = {**ref.stmt.annotations, key: [*before, at]}
    sch.state.replace(ref, ref.stmt.replace(**{side: regions}, annotations=notes))
