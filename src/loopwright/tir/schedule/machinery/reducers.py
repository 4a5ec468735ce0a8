"""The combiner of a reduction block, detected from its stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from ....arith import Analyzer
from ....ir import prim_expr as pe
from ....ir.prim_expr import Add, FloatImm, IntImm, Max, Min, Mul, PrimExpr, Select, Var
from ....ir.prim_op import COMPARE
from ....ir.variables import vars_in
from ...buffer import Buffer
from ...expr import BufferLoad
from ...stmt import BlockRealize, BufferStore, LetStmt, SeqStmt, Stmt, seq
from .buffer_accesses import MapLoads, loads_of
from .errors import ScheduleError
from .rewriting import substitute

_KINDS = (Add, Mul, Max, Min)
_HINT = (
    "C[...] = C[...] + value with init 0; *, T.max or T.min; for several buffers T.Select by "
    "comparisons of each with its value, as argmax does"
)


class Reducer:
    """`stores[n].buffer[...] = results[n]`, in terms of `itself` (the buffers' own elements) and
    `other` (the values combined with them, here `values`)."""

    __slots__ = ("inits", "itself", "other", "results", "stores", "values")

    def __init__(self, stores: list[BufferStore], inits: list[PrimExpr]) -> None:
        self.stores, self.inits = stores, inits
        self.itself = [Var(f"x{n}", s.buffer.dtype) for n, s in enumerate(stores)]
        self.other = [Var(f"y{n}", s.buffer.dtype) for n, s in enumerate(stores)]
        self.results: list[PrimExpr] = []
        self.values: list[PrimExpr] = []

    def combine(self, itself: Sequence[PrimExpr], values: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The results for other operands."""
        table = dict(zip([*self.itself, *self.other], [*itself, *values], strict=True))
        return [substitute(result, table) for result in self.results]

    def update(
        self, buffers: Sequence[Buffer], indices: Sequence[PrimExpr], values: Sequence[PrimExpr]
    ) -> Stmt:
        """The statement that combines `values` into elements of `buffers`."""
        results = self.combine([BufferLoad(b, indices) for b in buffers], values)
        if len(buffers) == 1:
            return BufferStore(buffers[0], results[0], indices)
        # All results are taken before the first is stored.
        names = [Var(f"v_{b.name}", b.dtype) for b in buffers]
        body = seq(*(BufferStore(b, v, indices) for b, v in zip(buffers, names, strict=True)))
        for name, result in reversed(list(zip(names, results, strict=True))):
            body = LetStmt(name, result, body)
        return body

    def start(self, buffers: Sequence[Buffer], indices: Sequence[PrimExpr]) -> Stmt:
        """The statement that sets elements of `buffers` to the inits."""
        return seq(*(BufferStore(b, i, indices) for b, i in zip(buffers, self.inits, strict=True)))


def find_reducer(ana: Analyzer, realize: BlockRealize) -> Reducer:
    """The combiner of a reduction block: a sum, product, minimum or maximum, or several buffers
    that are combined together by these or by selections (argmax). Raises ScheduleError for other
    combiners, or where repeating the init would change the result."""
    block = realize.block
    what = f"the reduction of block {block.name_hint!r} is not recognized"

    def refuse(got: PrimExpr | str, hint: str = _HINT) -> ScheduleError:
        return ScheduleError(what, got=got, instead=hint, at=realize)

    stores, values = _stored(block.body)
    starts, inits = _stored(block.init)
    key = ana.key
    indices_by_buffer = {s.buffer: key(s.indices) for s in stores}
    if (
        not stores
        or len(indices_by_buffer) != len(stores)
        or len(set(indices_by_buffer.values())) != 1
    ):
        raise refuse("a body that is not one store for each buffer, all at the same indices")
    if {s.buffer: key(s.indices) for s in starts} != indices_by_buffer or len(starts) != len(
        stores
    ):
        raise refuse("an init that does not set the same elements")
    written = [region.buffer for region in block.writes]
    order = sorted(range(len(stores)), key=lambda n: written.index(stores[n].buffer))
    stores, values = [stores[n] for n in order], [values[n] for n in order]
    begin = {s.buffer: value for s, value in zip(starts, inits, strict=True)}
    reducer = Reducer(stores, [begin[s.buffer] for s in stores])
    for n, value in enumerate(values):
        for buffer in indices_by_buffer:
            loads = loads_of(value, buffer)
            if any(key(load.indices) != indices_by_buffer[buffer] for load in loads):
                raise refuse(value)
        for store, itself in zip(stores, reducer.itself, strict=True):
            value = MapLoads(store.buffer, lambda _, itself=itself: itself).visit(value)
        split = _operands(value, reducer.itself[n], set(reducer.itself))
        if split is None:
            raise refuse(values[n])
        reducer.results.append(value)
        reducer.values.append(split)
    for n, init in enumerate(reducer.inits):
        identity = {Add: 0, Mul: 1}.get(type(reducer.results[n]))
        if identity is not None and not (
            isinstance(init, (IntImm, FloatImm)) and init.value == identity
        ):
            raise refuse(f"init {init}", f"init {identity}")
    for n, result in enumerate(reducer.results):
        generic = _generic(result, reducer, n, key)
        if generic is None:
            raise refuse(values[n])
        reducer.results[n] = generic
    if not _associative(reducer):
        raise refuse(values[0], "a combiner that is associative")
    return reducer


def _stored(body: Stmt | None) -> tuple[list[BufferStore], list[PrimExpr]]:
    """The stores of a body and their values, with lets substituted. None where there is anything
    else, or a value reads what an earlier store has changed."""
    named: dict[Var, PrimExpr] = {}
    while isinstance(body, LetStmt):
        named[body.var] = substitute(body.value, named)
        body = body.body
    stores: list[Any] = list(body.seq) if isinstance(body, SeqStmt) else [body]
    if not all(isinstance(s, BufferStore) and s.predicate is None for s in stores):
        return [], []
    for n, store in enumerate(stores):
        if any(loads_of(store.value, earlier.buffer) for earlier in stores[:n]):
            return [], []
    return stores, [substitute(s.value, named) for s in stores]


def _branches(value: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr] | None:
    """(condition, then, else) of a selection."""
    if isinstance(value, Select):
        return value.condition, value.true_value, value.false_value
    if isinstance(value, pe.Call) and getattr(value.op, "name", "") == "tir.if_then_else":
        return value.args[0], value.args[1], value.args[2]
    return None


def _operands(value: PrimExpr, itself: Var, own: set[Var]) -> PrimExpr | None:
    """The operand that `value` combines with `itself`; None if the combination is not known."""
    branches = _branches(value)
    if branches is not None:
        pair = branches[1:]
    elif type(value) in _KINDS:
        pair = (value.a, value.b)
    else:
        return None
    for x, y in (pair, pair[::-1]):
        if x is itself and not vars_in(y) & own:
            return y
    return None


def _generic(
    result: PrimExpr, reducer: Reducer, n: int, key: Callable[..., Any]
) -> PrimExpr | None:
    """A result in terms of `itself` and `other` alone; None where it uses more."""
    x, y = reducer.itself[n], reducer.other[n]
    branches = _branches(result)
    if branches is None:
        kind = type(result)
        return kind._make(x, y) if result.a is x else kind._make(y, x)
    condition = _condition(branches[0], reducer, key)
    if condition is None:
        return None
    then, other = (x, y) if branches[1] is x else (y, x)
    if isinstance(result, Select):
        return Select(condition, then, other)
    return result.replace(args=(condition, then, other))


def _condition(node: PrimExpr, reducer: Reducer, key: Callable[..., Any]) -> PrimExpr | None:
    """A condition made of comparisons of buffers' elements with their own values."""
    if isinstance(node, (pe.And, pe.Or)):
        a, b = _condition(node.a, reducer, key), _condition(node.b, reducer, key)
        return None if a is None or b is None else type(node)._make(a, b)
    if isinstance(node, pe.Not):
        a = _condition(node.a, reducer, key)
        return None if a is None else type(node)._make(a)
    if type(node) not in COMPARE:
        return None
    for x, y, left in ((node.a, node.b, True), (node.b, node.a, False)):
        if x not in reducer.itself:
            continue
        n = reducer.itself.index(x)
        if key((y,)) == key((reducer.values[n],)) and type(reducer.results[n]) not in (Add, Mul):
            pair = (x, reducer.other[n]) if left else (reducer.other[n], x)
            return type(node)._make(*pair)
    return None


def _associative(reducer: Reducer) -> bool:
    """Whether the combiner is associative, and commutative in all that is compared (of equal
    elements any may win, as in other orders of the reduction's loops).

    Sums and products of single buffers are. A selection depends only on how elements compare, and
    each component of three elements takes at most three different values: all cases are tried.
    """
    if all(_branches(result) is None for result in reducer.results):
        return True
    tests = [_case(result, reducer) for result in reducer.results]
    compared = sorted({n for result in reducer.results for n in _compared(result, reducer)})
    if not compared or len(compared) > 2:
        return False

    def combine(a: Sequence[int], b: Sequence[int]) -> Any:
        return tuple(test(a, b) for test in tests)

    every = list(product(range(3), repeat=len(compared)))
    for keys in product(every, repeat=3):
        # A value that is not compared identifies its element.
        a, b, c = ([who] * len(tests) for who in range(3))
        for element, values in zip((a, b, c), keys, strict=True):
            for n, value in zip(compared, values, strict=True):
                element[n] = value
        ab = combine(a, b)
        if combine(ab, c) != combine(a, combine(b, c)):
            return False
        ba = combine(b, a)
        if any(ab[n] != ba[n] for n in compared):
            return False
    return True


def _compared(result: PrimExpr, reducer: Reducer) -> set[int]:
    branches = _branches(result)
    if branches is None:
        return set()
    return {n for n, x in enumerate(reducer.itself) if x in vars_in(branches[0])}


def _case(node: Any, reducer: Reducer) -> Callable[[Any, Any], Any]:
    """A result, or a condition, as a function of two elements."""
    if node in reducer.itself:
        n = reducer.itself.index(node)
        return lambda a, b: a[n]
    if node in reducer.other:
        n = reducer.other.index(node)
        return lambda a, b: b[n]
    branches = _branches(node)
    if branches is not None:
        test, then, other = (_case(part, reducer) for part in branches)
        return lambda a, b: then(a, b) if test(a, b) else other(a, b)
    if isinstance(node, pe.Not):
        inner = _case(node.a, reducer)
        return lambda a, b: not inner(a, b)
    first, second = _case(node.a, reducer), _case(node.b, reducer)
    if isinstance(node, pe.And):
        return lambda a, b: first(a, b) and second(a, b)
    if isinstance(node, pe.Or):
        return lambda a, b: first(a, b) or second(a, b)
    if isinstance(node, (Max, Min)):
        pick = max if isinstance(node, Max) else min
        return lambda a, b: pick(first(a, b), second(a, b))
    if isinstance(node, (Add, Mul)):  # independent of the others: any value will do
        return lambda a, b: 0
    compare = COMPARE[type(node)]
    return lambda a, b: compare(first(a, b), second(a, b))
