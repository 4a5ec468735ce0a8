"""Extents compared: now where they can be, else by checks that LegalizeOps puts before the kernel.

`differ(a, b)` is how an operator's inference compares extents that must be equal. Where the answer is
not known it is noted, and `open_pairs` yields the notes: the pairs that must be equal at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..arith import Analyzer, ConstIntBound
from ..base.errors import explain
from ..ir.literals import broadcast_parts, int_value, is_one, is_zero
from ..ir.prim_expr import IntImm, Or, PrimExpr, Select, Var
from ..ir.prim_op import const, equal, floormod, match_types, minimum, not_equal, subtract
from ..ir.variables import vars_in

Shape = Sequence[PrimExpr]
_NOTES: ContextVar[list[tuple[PrimExpr, PrimExpr]] | None] = ContextVar("open_pairs", default=None)


def dims_equal(a: PrimExpr, b: PrimExpr | int) -> bool:
    """Whether two dimensions are provably equal."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    return a is b or Analyzer().can_prove_equal(*match_types(a, b))


def dims_gap(a: PrimExpr, b: PrimExpr | int) -> int | None:
    """The difference of two dimensions, None where it is not known."""
    gap = simplify(subtract(a, b))
    return gap.value if isinstance(gap, IntImm) else None


def simplify(expr: PrimExpr) -> Any:
    """A dimension or index simplified."""
    return Analyzer().simplify(expr) if isinstance(expr, PrimExpr) else expr


def of_extent(dim: PrimExpr) -> Callable[[Any], Any]:
    """`simplify` for expressions of an extent: the sizes in it are not negative."""
    analyzer = Analyzer()
    for size in vars_in(dim):
        analyzer.update(size, ConstIntBound(0, ConstIntBound.POS_INF))
    return analyzer.simplify


def text(dim: int | PrimExpr) -> str:
    """A dimension in a message."""
    return str(dim.value if isinstance(dim, IntImm) else dim)


def differ(a: PrimExpr, b: Any) -> bool:
    """Whether two extents that must be equal are known to differ; where that is open, it is
    checked at run time."""
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value != b.value
    if a is b or (gap := dims_gap(a, b)) == 0:
        return False
    notes = _NOTES.get()
    if notes is not None and gap is None and not dims_equal(a, b):
        notes.append((a, b))
    return gap is not None


@contextmanager
def open_pairs() -> Iterator[list[tuple[PrimExpr, PrimExpr]]]:
    """The pairs of which `differ` does not know the answer, while the context lasts."""
    notes: list[tuple[PrimExpr, PrimExpr]] = []
    token = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(token)


def check_filled(what: str, *extents: PrimExpr) -> None:
    """Check that no extent is 0. Raises ValueError where a literal is; a symbolic one is checked at run time."""
    if any(shorter(d, 1) for d in extents):
        raise ValueError(explain(f"{what} may not be empty", got=", ".join(map(text, extents))))


def broadcast_differ(shape: Shape, other: Shape, both: bool = True) -> bool:
    """`differ` of shapes that broadcast: each extent is equal to the other's, or 1. both: the other's
    may be 1 as well."""
    pairs = zip(reversed(shape), reversed(other), strict=False)
    return any(differ(*pair) for dims in pairs for pair in _to_compare(*dims, both))


def _to_compare(dim: PrimExpr, have: PrimExpr, both: bool) -> list[tuple[PrimExpr, PrimExpr]]:
    """Extents and their required values. Of one that is a part of the other, only the parts before it are
    compared: where they are 1, the other is this one."""
    before = _parts_before(dim, have)
    if before is not None:
        return [(dim, _required(dim, part, True)) for part in before]
    before = _parts_before(have, dim) if both else None
    if before is not None:
        return [(part, _required(part, have, True)) for part in before]
    return [(dim, _required(dim, have, both))]


def _parts_before(dim: PrimExpr, extent: PrimExpr) -> list[PrimExpr] | None:
    parts = broadcast_parts(extent)
    indices = (k for k, part in enumerate(parts) if len(parts) > 1 and dims_equal(part, dim))
    index = next(indices, None)
    return None if index is None else parts[:index]


def _required(dim: PrimExpr, have: PrimExpr, both: bool) -> PrimExpr:
    """The value that a dimension must have to broadcast with `have`."""
    if is_one(dim) or (both and is_one(have)) or dims_equal(dim, have):
        return dim
    if isinstance(dim, IntImm) and isinstance(have, IntImm):
        return have
    is_dim = equal(dim, 1)
    if both and not isinstance(have, IntImm):
        is_dim = Or(is_dim, equal(have, 1))
    return simplify(Select(is_dim, dim, have))


def broadcast_extent(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The extent that two broadcast to, of which each is 1 or equal to the other (`broadcast_differ` has
    that checked): one of them where that is known, else the first of their parts that is not 1.

    The parts have a fixed order without duplicates, so that x + y, y + x and (x + y) * x have one extent."""
    if is_one(a) or is_one(b):
        return b if is_one(a) else a
    if isinstance(a, IntImm) or isinstance(b, IntImm):
        return a if isinstance(a, IntImm) else b
    if covers(a, b):
        return a
    if covers(b, a):
        return b
    for one, other in ((a, b), (b, a)):
        if not may_be_one(one) or _is_unit_of(other, one):
            return one
    more = [p for p in broadcast_parts(b) if not any(dims_equal(p, q) for q in broadcast_parts(a))]
    *first, extent = sorted([*broadcast_parts(a), *more], key=_rank)
    for part in reversed(first):
        extent = Select(equal(part, 1), *match_types(extent, part))
    return extent


def is_in_order(extent: PrimExpr) -> bool:
    """Whether the parts of an extent are in the order of `broadcast_extent`."""
    parts = broadcast_parts(extent)
    return len(parts) == 1 or (ranks := [*map(_rank, parts)]) == sorted(ranks)


def _rank(part: PrimExpr) -> tuple[bool, str]:
    """Names first, of which the order of their letters decides."""
    return not isinstance(part, Var), str(part)


def covers(extent: PrimExpr, dim: PrimExpr) -> bool:
    """Whether an extent is the result of broadcasting `dim` with others: all parts of the one are among
    those of the other."""
    parts = broadcast_parts(extent)
    return all(any(dims_equal(p, q) for q in parts) for p in broadcast_parts(dim))


def may_be_one(dim: PrimExpr) -> bool:
    """Whether an extent is not known to be another than 1."""
    if isinstance(dim, Var | IntImm):
        return isinstance(dim, Var) or is_one(dim)
    return not _proven(not_equal(dim, 1))


def at_most_one(dim: PrimExpr) -> bool:
    """Whether an extent is known to be 0 or 1: that of x[:1]."""
    return not isinstance(dim, Var) and _proven(dim <= 1)


def equal_beside(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> bool:
    """Whether two extents that broadcast are equal, because neither is 1 unless both are: n and
    min(512, n). analyzer: has the facts about their variables."""
    if not {*vars_in(a)} & {*vars_in(b)}:
        return not (may_be_one(a) or may_be_one(b))
    a, b = analyzer.simplify(a), analyzer.simplify(b)
    return _one_with(a, b, analyzer) and _one_with(b, a, analyzer)


def _one_with(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> bool:
    """Whether the first of two extents is known to be 1 only where the other is."""
    apart = (_proven(not_equal(a, 1), where, analyzer) for where in (b < 1, b > 1))
    return _proven(equal(b, 1), equal(a, 1), analyzer) or all(apart)


def _is_unit_of(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether an extent is known to be at most 1, and less only where `b` is: that of x[:1] with x."""
    return at_most_one(a) and _proven(a >= 1, b >= 1)


def _proven(
    condition: PrimExpr, where: PrimExpr | None = None, facts: Analyzer | None = None
) -> bool:
    """Whether a condition holds wherever `where` does. Values in an extent may be negative, such as
    the begin of a slice, about which nothing is known."""
    analyzer = Analyzer() if facts is None else facts
    if where is None:
        return analyzer.can_prove(condition)
    with analyzer.constraint_scope(where):
        return analyzer.can_prove(condition)


def check_within(shape: Shape, other: Shape, axis: int) -> None:
    """Check that `shape` is within another on all axes but one. Raises ValueError where literals
    are not; symbolic extents are checked at run time."""
    for a, (d, most) in enumerate(zip(shape, other, strict=True)):
        least = d if a == axis else simplify(minimum(d, most))
        if differ(d, least):
            what = f"axis {a} is longer than the data's"
            raise ValueError(explain(what, got=f"{text(d)} and {text(most)}"))


def extents_of(tensor: Any, what: str, *required: PrimExpr | int | None) -> list[PrimExpr]:
    """The extents of a tensor, which must be the required ones; None matches any. Raises
    ValueError where they are not; symbolic ones are checked at run time."""
    shape = list(tensor.shape)
    pairs = [(d, w) for d, w in zip(shape, required, strict=False) if w is not None]
    if len(shape) != len(required) or any(differ(d, const(w, "int64")) for d, w in pairs):
        need = ", ".join("any" if w is None else text(w) for w in required)
        got = ", ".join(map(text, shape))
        raise ValueError(explain(f"{what} must have the shape ({need})", got=f"({got})"))
    return shape


def check_multiple(size: PrimExpr, factor: PrimExpr | int, what: str) -> None:
    """Check that an extent is a multiple of another. Raises ValueError where it is not; a symbolic one is
    checked at run time."""
    size, factor = match_types(size, factor)
    if is_zero(factor) or differ(simplify(floormod(size, factor)), const(0, "int64")):
        raise ValueError(explain(f"{what} must be a multiple of {text(factor)}", got=text(size)))


def shorter(size: PrimExpr, least: PrimExpr | int) -> bool:
    """`differ` of an extent that must be `least` or more."""
    bound = const(least, "int64") if isinstance(least, int) else least
    value = int_value(bound)
    if value is not None and value <= 0:  # no extent is negative
        return False
    return differ(simplify(minimum(bound, size)), bound)


def check_columns(size: PrimExpr, **columns: int) -> None:
    """Check that columns are of rows of a size. Raises ValueError where they are not; an open size
    is checked at run time."""
    for name, column in columns.items():
        if column < 0 or shorter(size, column + 1):
            raise ValueError(explain(f"{name} is not a column of {text(size)}", got=str(column)))
