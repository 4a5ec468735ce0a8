"""`annotate` and `unannotate`: notes on blocks and loops for later passes."""

from __future__ import annotations

from typing import Any

from ..machinery.errors import ScheduleError
from ..machinery.primitive import primitive
from ..machinery.random_variables import BlockRV, LoopRV


@primitive("Annotate", inputs="block_or_loop ann_val", attrs="ann_key")
def annotate(sch: Any, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: Any) -> None:
    """Note `ann_key: ann_val` on a block or loop.

    Before::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)

    After ``sch.annotate(sch.get_block("B"), "key", 1)``::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    T.block_attr({"key": 1})
                    B[v] = A[v] * T.float32(2)
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
def unannotate(sch: Any, block_or_loop: BlockRV | LoopRV, ann_key: str) -> None:
    """Take the annotation `ann_key` off a block or loop.

    Before::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in T.serial(8, annotations={"key": 1}):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)

    After ``sch.unannotate(sch.get_loops("B")[0], "key")``::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)
    """
    ref = sch.get_sref(block_or_loop)
    kept = {k: v for k, v in ref.stmt.annotations.items() if k != ann_key}
    if len(kept) == len(ref.stmt.annotations):
        known = ", ".join(kept) or "it has none"
        raise ScheduleError("no such annotation", got=ann_key, instead=known, at=ref.node)
    sch.state.replace(ref, ref.stmt.replace(annotations=kept))
