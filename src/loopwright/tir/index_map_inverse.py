"""The inverse of an index map, and which new indices are padding.

An index is read as the digits of a mixed-radix number. What they are digits of is a `Source`: an
index of the old layout, or a fusion of such indices to which a constant is added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from typing import Any

from ..arith import Analyzer, detect_iter_map, inverse_affine_iter_map
from ..base.errors import CallValueError, explain
from ..ir import prim_expr as pe
from ..ir.literals import is_zero
from ..ir.prim_expr import ScalarLike
from ..ir.prim_op import (
    add,
    cast,
    const,
    convert,
    floordiv,
    floormod,
    logical_and,
    logical_or,
    multiply,
    subtract,
)  # fmt: skip


@dataclass(eq=False)
class Source:
    """Numbers from `start` to before `start + extent`. var: the index they are; else they are the
    number of the digits in `row`, plus `start`."""

    extent: Any
    start: int = 0
    var: pe.Var | None = None
    row: list[Digit] = field(default_factory=list)
    pieces: list[tuple[int, Any, pe.PrimExpr]] = field(default_factory=list)


Digit = tuple[Source, int, Any]  # ((source // lower) % extent); extent an int or an expression


def refuse(expr: pe.PrimExpr) -> Any:
    """Raise ValueError: the map has no inverse that is known here."""
    what = "only splits, fusions and permutations of indices have an inverse here"
    raise CallValueError(explain(what, got=str(expr), instead="pass inverse_index_map"))


def inverse_of(
    final: Sequence[pe.PrimExpr],
    extents: Mapping[pe.Var, pe.PrimExpr],
    shape: Sequence[pe.PrimExpr],
) -> tuple[list[pe.Var], list[pe.PrimExpr], pe.PrimExpr]:
    """(new indices, the old ones in their terms, the condition on the new ones that holds in
    padding). shape: the extents of the new indices."""
    digits = Digits(extents)
    try:
        rows = [digits.of(e) for e in final]
        outs = [pe.Var(f"axis{n}", e.dtype) for n, e in enumerate(final)]
        return outs, *digits.solve(rows, outs, shape)
    except CallValueError:
        inverse = _bijective(final, extents)
        before, after = (reduce(multiply, sizes) for sizes in (extents.values(), shape))
        if inverse is None or not Analyzer().can_prove_equal(before, after):
            raise
        return *inverse, const(False, "bool")


def _bijective(
    final: Sequence[pe.PrimExpr], extents: Mapping[pe.Var, pe.PrimExpr]
) -> tuple[list[pe.Var], list[pe.PrimExpr]] | None:
    """The inverse map, if the indices are one to one, by the general analysis of iterations."""
    ranges = {v: pe.Range(const(0, v.dtype), cast(v.dtype, e)) for v, e in extents.items()}
    iter_map = detect_iter_map(final, ranges, check_level="bijective")
    if iter_map.errors:
        return None
    outs = [pe.Var(f"axis{n}", e.dtype) for n, e in enumerate(final)]
    back = inverse_affine_iter_map(iter_map.indices, outs)
    return (outs, [back[v] for v in extents]) if all(v in back for v in extents) else None


class Digits:
    """The indices of a map as digits of numbers, and the numbers from their digits."""

    def __init__(self, extents: Mapping[pe.Var, pe.PrimExpr]) -> None:
        plain = {v: e.value if isinstance(e, pe.IntImm) else e for v, e in extents.items()}
        self.extents = plain
        self.vars = {v: Source(e, var=v) for v, e in plain.items()}
        self.sums: dict[tuple[Any, ...], Source] = {}

    def of(self, expr: pe.PrimExpr) -> list[Digit]:
        """The expression as digits, most significant first."""
        if isinstance(expr, pe.Var) and expr in self.vars:
            return [(self.vars[expr], 1, self.extents[expr])]
        if is_zero(expr):
            return []
        if isinstance(expr, (pe.FloorDiv, pe.FloorMod)) and isinstance(expr.b, pe.IntImm):
            keep, low = _split(self.of(expr.a), expr.b.value, expr)
            return keep if isinstance(expr, pe.FloorDiv) else low
        if isinstance(expr, pe.Add):
            return self.sum(expr)
        return refuse(expr)

    def sum(self, expr: pe.Add) -> list[Digit]:
        for high, low in ((expr.a, expr.b), (expr.b, expr.a)):
            if isinstance(low, pe.IntImm) and low.value > 0:
                return self.shifted(self.of(high), low.value, expr)
            if isinstance(high, pe.Mul):
                right = self.of(low)
                if _same(_size(right), high.b):
                    return self.of(high.a) + right
            if isinstance(high, pe.Add):  # a*12 + b*4 + c
                factored = self.factored(high, low)
                if factored is not None:
                    return factored
        return refuse(expr)

    def shifted(self, row: list[Digit], start: int, expr: pe.PrimExpr) -> list[Digit]:
        """A number plus a constant, as one digit of its own."""
        size = row[0][2] if len(row) == 1 else _size(row)
        if not row:
            return refuse(expr)
        key = (start, *((id(source), lower, str(extent)) for source, lower, extent in row))
        shifted = self.sums.setdefault(key, Source(size, start, row=row))
        return [(shifted, 1, size + start)]

    def factored(self, high: pe.PrimExpr, low: pe.PrimExpr) -> list[Digit] | None:
        right = self.of(low)
        size = _size(right)
        divided = Analyzer().simplify(floordiv(high, size))
        exact = Analyzer().can_prove_equal(multiply(divided, size), high)
        return self.of(divided) + right if exact else None

    def solve(
        self, rows: list[list[Digit]], outs: list[pe.Var], shape: Sequence[pe.PrimExpr]
    ) -> tuple[list[pe.PrimExpr], pe.PrimExpr]:
        """(the old indices, the condition of padding)"""
        analyzer = Analyzer()
        for out, extent in zip(outs, shape, strict=True):
            analyzer.bind(out, pe.Range(cast(out.dtype, extent)))
        for out, row in zip(outs, rows, strict=True):
            _spread(row, out)
        back: dict[pe.Var, pe.PrimExpr] = {}
        bounds_of: dict[Source, list[pe.PrimExpr]] = {}
        for source in (*reversed(self.sums.values()), *self.vars.values()):
            if source.var is not None and not source.pieces and source.extent == 1:
                back[source.var] = const(0, source.var.dtype)
                continue
            number, bounds_of[source] = _assembled(analyzer, source)
            if source.var is not None:
                back[source.var] = number
            else:
                _spread(source.row, Analyzer().simplify(subtract(number, source.start)))
        by_source = [bounds_of.get(s) for s in (*self.sums.values(), *self.vars.values())]
        tests = [reduce(logical_or, group) for group in by_source if group]
        return [back[v] for v in self.vars], reduce(logical_or, tests, const(False, "bool"))


def _size(row: list[Digit]) -> Any:
    """How many values a row of digits has: an int or an expression."""
    sizes = [e for _, _, e in row]
    whole = prod(e for e in sizes if isinstance(e, int))
    symbols = [e for e in sizes if not isinstance(e, int)]
    return reduce(multiply, symbols if whole == 1 else [*symbols, whole]) if symbols else whole


def _same(a: ScalarLike, b: pe.PrimExpr) -> bool:
    """Whether two sizes are the same; literals are compared without a proof."""
    if isinstance(a, int):
        return isinstance(b, pe.IntImm) and a == b.value
    return not isinstance(b, pe.IntImm) and Analyzer().can_prove_equal(a, b)


def _spread(row: list[Digit], value: pe.PrimExpr) -> None:
    """Give the digits of a number to their sources."""
    scale: Any = 1
    units = next((n for n, (_, _, extent) in enumerate(row) if extent != 1), 0)
    for source, lower, extent in row[:units]:
        source.pieces.append((lower, extent, const(0, value.dtype)))
    for n, (source, lower, extent) in enumerate(reversed(row[units:])):
        digit = floordiv(value, scale) if n else value
        if n + 1 < len(row) - units:
            digit = floormod(digit, extent)
            scale = multiply(extent, scale) if isinstance(extent, pe.PrimExpr) else extent * scale
        source.pieces.append((lower, extent, digit))


def _split(row: list[Digit], base: int, expr: pe.PrimExpr) -> tuple[list[Digit], list[Digit]]:
    """(digits of row // base, digits of row % base)"""
    low: list[Digit] = []
    rest, row = base, list(row)
    while row and rest > 1:
        source, lower, extent = row.pop()
        whole = isinstance(extent, int)
        if whole and rest % extent == 0 and rest >= extent and (row or rest == extent):
            low.insert(0, (source, lower, extent))
            rest //= extent
            continue
        if row and not (whole and extent % rest == 0):
            refuse(expr)
        over = -(-extent // rest) if whole else floordiv(extent + (rest - 1), rest)
        low.insert(0, (source, lower, rest))
        row.append((source, lower * rest, over))
        rest = 1
    return row, low


def _assembled(analyzer: Analyzer, source: Source) -> tuple[pe.PrimExpr, list[pe.PrimExpr]]:
    """(the number from its digits, the conditions under which the source does not have it)"""
    total = rest = top = const(0)
    covered: Any = 1
    step: Any = 1
    for n, (lower, count, value) in enumerate(sorted(source.pieces, key=lambda piece: piece[0])):
        if lower != covered:
            return refuse(value)
        rest, top, step = total, value, lower
        total = add(multiply(value, lower), total) if n else value
        covered = lower * count if isinstance(count, int) else multiply(count, lower)
    if not source.pieces:
        return refuse(total if source.var is None else source.var)
    end = source.extent + source.start
    plain = Analyzer().simplify
    total, top, rest = plain(total), plain(top), plain(rest) if step != 1 else None
    tests = []
    if source.start:
        inside = rest is not None and isinstance(step, int) and source.start < step
        tests.append(
            logical_and(pe.EQ(top, const(0, top.dtype)), _less(rest, source.start))
            if rest is not None and inside
            else _less(total, source.start)
        )
    if not (isinstance(covered, int) and isinstance(end, int)):
        if not Analyzer().can_prove_equal(covered, end):
            tests.append(convert(end) <= total)
    elif covered < end:
        return refuse(total)
    elif covered > end:
        whole, left = divmod(end, step)
        if rest is None or not left or (whole + 1) * step != covered:
            tests.append(_at_least(total, end, covered))
        else:
            last = _at_least(rest, left, step)
            one = whole == 0
            tests.append(last if one else logical_and(pe.EQ(top, const(whole, top.dtype)), last))
    return total, [t for t in tests if not is_zero(analyzer.simplify(t))]


def _less(value: pe.PrimExpr, bound: int) -> pe.PrimExpr:
    return pe.LT(value, const(bound, value.dtype))


def _at_least(value: pe.PrimExpr, bound: int, end: int) -> pe.PrimExpr:
    """bound <= value, where value < reach"""
    limit = const(bound, value.dtype)
    return pe.EQ(value, limit) if bound + 1 == end else pe.LE(limit, value)
