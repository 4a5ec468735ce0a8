"""What a reduction block does with each value: the combiner, seen from its store."""

from __future__ import annotations

from typing import Any

from ...ir.prim_expr import Add, FloatImm, IntImm, Max, Min, Mul, PrimExpr
from ..expr import BufferLoad
from ..stmt import BufferStore
from .error import ScheduleError
from .state import Ref

_KINDS = (Add, Mul, Max, Min)


class Reducer:
    """`store.buffer[...] = kind(itself, value)`; `left` says that itself comes first."""

    __slots__ = ("init", "kind", "left", "store", "value")

    def __init__(
        self, kind: Any, store: BufferStore, value: PrimExpr, left: bool, init: PrimExpr
    ) -> None:
        self.kind, self.store, self.value, self.left, self.init = kind, store, value, left, init

    def combine(self, itself: PrimExpr, value: PrimExpr) -> PrimExpr:
        """The combiner with other operands."""
        return self.kind._make(itself, value) if self.left else self.kind._make(value, itself)


def find_reducer(sch: Any, ref: Ref) -> Reducer:
    """The combiner of a reduction block. Raises ScheduleError where it is not a sum, product,
    minimum or maximum, or where repeating its init would change the result."""
    block = ref.stmt
    store, init = block.body, block.init
    what = f"the reduction of block {block.name_hint!r} is not one that is known"
    hint = "C[...] = C[...] + value with init 0; or *, T.max, T.min"
    if not isinstance(store, BufferStore) or not isinstance(init, BufferStore):
        raise ScheduleError(what, instead=hint, at=ref.node)
    value = store.value
    key = sch.state.analyzer(ref).key
    if type(value) not in _KINDS:
        raise ScheduleError(what, got=value, instead=hint, at=ref.node)
    for itself, other, left in ((value.a, value.b, True), (value.b, value.a, False)):
        if (
            isinstance(itself, BufferLoad)
            and itself.buffer is store.buffer
            and key(itself.indices) == key(store.indices)
        ):
            _check_identity(type(value), init.value, ref, what)
            return Reducer(type(value), store, other, left, init.value)
    raise ScheduleError(what, got=value, instead=hint, at=ref.node)


def _check_identity(kind: Any, init: PrimExpr, ref: Ref, what: str) -> None:
    """min and max may start anywhere, any number of times; sums start at 0, products at 1."""
    if kind in (Max, Min):
        return
    wanted = 0 if kind is Add else 1
    if not isinstance(init, (IntImm, FloatImm)) or init.value != wanted:
        raise ScheduleError(what, got=f"init {init}", instead=f"init {wanted}", at=ref.node)
