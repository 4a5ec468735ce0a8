"""Bounds, residues and regions: forms that the algebra does not take apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from loopwright import arith, tir
from loopwright.arith import Analyzer, ConstIntBound, IntervalSet, bounds
from loopwright.ir import Range, structural_equal
from loopwright.ir.dtype import DataType
from loopwright.tir import Broadcast, Let, Ramp, Select, Var, floordiv, truncdiv, truncmod

X, Y, Z = Var("x", "int32"), Var("y", "int32"), Var("z", "int32")
BYTE = Var("byte", "int8")


def bounds_of(e, condition=None, **known):
    ana = Analyzer()
    for var in (X, Y, Z):
        if var.name in known:
            ana.update(var, ConstIntBound(*known[var.name]))
    if condition is None:
        found = ana.const_int_bound(e)
    else:
        with ana.constraint_scope(condition):
            found = ana.const_int_bound(e)
    return (found.min_value, found.max_value)


INF = ConstIntBound.POS_INF


@pytest.mark.parametrize(
    ("e", "known", "expected"),
    [
        (truncmod(X, 3).astype("float32").astype("int32"), {}, (-2, 2)),
        (X.astype("float16").astype("int32"), {"x": (0, 2049)}, (-(1 << 31), (1 << 31) - 1)),
        (X >> Y, {"x": (-9, 11), "y": (2, 10)}, (-3, 2)),
        (Let(X, tir.const(1), X + 1), {}, (2, 2)),
        (Let(X, Y * 2, X + 1), {"y": (0, 4)}, (1, 9)),
        (Broadcast(X, 4), {"x": (0, 128)}, (0, 128)),
        (Ramp(X, 2, 4) + 2, {"x": (0, 128)}, (2, 136)),
        (X % Y, {"x": (0, 6), "y": (0, INF)}, (0, 6)),
        (X % Y, {"x": (17, 19), "y": (8, 8)}, (1, 3)),
        (X % Y, {"x": (15, 16), "y": (8, 8)}, (0, 7)),
        (X % Y, {"x": (-9, -8), "y": (8, 8)}, (0, 7)),
        ((X + Y) * 8 - X * Y, {"x": (1, 7), "y": (1, 7)}, (15, 63)),
        (BYTE % 3 * (BYTE % 5), {}, (0, 8)),
        (BYTE % 3 * BYTE, {}, (-128, 127)),
        ((X + Y) * 8 - X * Y, {"x": (1, 7), "y": (1, INF)}, (15, INF)),
    ],
)
def test_constant_bounds(e, known, expected):
    assert bounds_of(e, **known) == expected


def test_bounds_of_products_hold_at_all_points():
    e = X * Y * 3 - X * 5 + Y * Z - 2
    box = {"x": (-2, 3), "y": (-1, 4), "z": (0, 5)}
    low, high = bounds_of(e, **box)
    points = itertools.product(*(range(a, b + 1) for a, b in box.values()))
    values = [x * y * 3 - x * 5 + y * z - 2 for x, y, z in points]
    assert (low, high) == (min(values), max(values))


def test_bounds_from_what_is_assumed():
    assumed = tir.all(X % 58 >= 1, X % 58 < 57)
    assert bounds_of(X % 58 - 1, assumed, x=(0, 128)) == (0, 55)
    assert bounds_of((X * 4 + Y) * 2 + 1, X * 4 + Y < 63, x=(0, 15), y=(0, 3)) == (1, 125)


def residues(e, *conditions):
    ana = Analyzer()
    if conditions:
        with ana.constraint_scope(tir.all(*conditions)):
            found = ana.modular_set(e)
    else:
        found = ana.modular_set(e)
    return (found.coeff, found.base)


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (truncmod(X * 4 + 1, 4), (4, 1)),
        (Select(X > 0, X * 4, Y * 4) % 8, (4, 0)),
        ((X * 16 + Y * 4) & 31, (4, 0)),
        ((X * 16 + Y * 4) & 17, (1, 0)),
        ((X * 4 + 2) >> 1, (2, 1)),
        (Select(X > 0, Y * 6 + 1, Z * 9 + 4), (3, 1)),
        (Let(X, Y * 10, X + 1), (10, 1)),
    ],
)
def test_residues(e, expected):
    c, b = residues(e)
    assert (c, b) == expected


def test_residues_hold_for_narrow_casts():
    e = (X * 12 + 5).astype("int8")
    c, b = residues(e)
    values = (np.arange(-300, 300) * 12 + 5).astype("int8").astype(int)
    assert c == 4 and ((values - b) % c == 0).all()


def test_a_bool_has_no_residue():
    e = (X * 2).astype("bool").astype("int32")  # 1 wherever X is not 0
    assert residues(e) == (1, 0) and not Analyzer().can_prove(e != 1)


def test_residues_from_conditions_are_combined():
    assert residues(X, truncmod(X, 4) == 1, truncmod(X, 3) == 1) == (12, 1)
    assert residues(X, X % 3 == 2, X % 5 == 3, X % 7 == 2) == (105, 23)
    assert residues(X, X % 6 == 4, X % 4 == 2) == (12, 10)
    assert residues(X, X % 4 == 1, X % 2 == 0) == (2, 0)  # of no number: the last one is kept


def interval(e, **domain):
    ana = Analyzer()
    sets = {v: IntervalSet(*domain[v.name]) for v in (X, Y) if v.name in domain}
    found = ana.int_set(e, sets)
    return found.min_value, found.max_value


def test_intervals_of_choices_and_truncated_divisions():
    assert [int(v) for v in interval(Select(X > 0, X - 1, X + 1), x=(0, 10))] == [-1, 11]
    ana = Analyzer()
    ana.update(Y, ConstIntBound(1, 100))
    found = ana.int_set(truncdiv(X, Y), {X: IntervalSet(0, 10)})
    assert int(found.min_value) == 0
    assert structural_equal(found.max_value, floordiv(tir.const(10), Y))


def region(begins, extents, domain, predicate=True, exact=True):
    estimate = arith.estimate_region_lower_bound if exact else arith.estimate_region_upper_bound
    ranges = [Range.from_min_extent(b, e) for b, e in zip(begins, extents, strict=True)]
    found = estimate(ranges, {v: Range(*ends) for v, ends in domain.items()}, predicate)
    return None if found is None else [(int(s.min_value), int(s.max_value)) for s in found]


def points_of(begins, extents, domain, holds):
    """The points that are accessed, by running over the domain."""
    points = set()
    for values in itertools.product(*(range(*ends) for ends in domain.values())):
        at = dict(zip((v.name for v in domain), values, strict=True))
        if holds(at):
            ranges = [range(b(at), b(at) + e) for b, e in zip(begins, extents, strict=True)]
            points |= set(itertools.product(*ranges))
    return points


@pytest.mark.parametrize(
    ("begin", "extent", "limit"), [(lambda x: x, 1, 63), (lambda x: x * 4, 8, 63)]
)
def test_regions_with_a_predicate(begin, extent, limit):
    domain = {X: (0, 16), Y: (0, 4)}
    whole = X * 4 + Y
    found = region([begin(whole)], [extent], domain, whole < limit)
    expected = points_of(
        [lambda at: begin(at["x"] * 4 + at["y"])],
        [extent],
        domain,
        lambda at: at["x"] * 4 + at["y"] < limit,
    )
    assert found is not None
    ((low, high),) = found
    assert {(i,) for i in range(low, high + 1)} == expected
    assert region([begin(whole)], [extent], domain, whole < limit, exact=False) == found


def test_regions_whose_dimensions_depend_on_each_other_are_not_dense():
    assert region([X, X + 2], [2, 2], {X: (0, 64)}) is None
    assert region([X * 4], [2], {X: (0, 64)}) is None
    assert region([X // 16, X % 16 * 2], [1, 2], {X: (0, 32)}) == [(0, 1), (0, 31)]


def test_quotients_of_sums_that_stay_below_the_divisor():
    ana = Analyzer({X: Range(0, 2), Y: Range(0, 7)})
    assert structural_equal(ana.simplify((X * 360 + Y) // 16), X * 22)


def test_divisions_of_ramps():
    ana = Analyzer({X: Range(0, 8)})
    made = ana.simplify(truncdiv(Ramp(X * 8 + 1, 1, 4), Broadcast(8, 4)))
    assert structural_equal(made, Broadcast(X, 4))
    made = ana.simplify(truncmod(Ramp(X * 8 + 1, 15, 4), Broadcast(8, 4)))
    assert structural_equal(made, truncmod(Ramp(1, 15, 4), Broadcast(8, 4)))
    negative = truncdiv(Ramp(Y * 8 + 1, 1, 4), Broadcast(8, 4))  # -7 / 8 is 0
    assert structural_equal(ana.simplify(negative), negative)


def test_conditions_within_calls_are_rewritten():
    made = Analyzer().rewrite_simplify(tir.if_then_else(X > 2, X, 0))
    assert structural_equal(made, tir.if_then_else(tir.LT(2, X), X, 0))


def test_products():
    assert bounds_of(X * Y, x=(2, 6), y=(3, 9)) == (6, 54)
    assert bounds_of(X * Y, x=(-2, 6), y=(-3, 9)) == (-18, 54)


SMALL = {"float16": 2048, "bfloat16": 256, "float32": 1 << 24}
NATURAL = (-(1 << 31), (1 << 31) - 1)


@pytest.mark.parametrize(
    ("e", "known", "expected"),
    [
        ((X.astype("float32") * tir.const(2.5, "float32")).astype("int32"), (1, 7), (2, 17)),
        ((X.astype("float32") * tir.const(2.5, "float32")).astype("int32"), (-3, 7), (-7, 17)),
        ((X.astype("float32") * tir.const(-2.5, "float32")).astype("int32"), (1, 7), NATURAL),
        (X % 8, (17, 19), (1, 3)),
        (X % 8, (15, 16), (0, 7)),
        *((X.astype(t).astype("int32"), (-n, n), (-n, n)) for t, n in SMALL.items()),
        *((X.astype(t).astype("int32"), (-n - 1, n), NATURAL) for t, n in SMALL.items()),
        *((X.astype(t).astype("int32"), (-n, n + 1), NATURAL) for t, n in SMALL.items()),
        *(
            (tir.ceil(tir.log2(X.astype("float64"))).astype("int32"), known, wanted)
            for known, wanted in (
                ((1, 8), (0, 3)), ((2, 9), (1, 4)), ((1, 1), (0, 0)), ((0, 8), NATURAL),
            )
        ),
        (tir.ceil(tir.log2(X.astype("float32"))).astype("int32"), (1, 8), NATURAL),
        (tir.ceil(tir.log2(tir.const(5.0, "float64"))).astype("int32"), (1, 8), (3, 3)),
        (tir.ceil(tir.log2(tir.const(5.5, "float64"))).astype("int32"), (1, 8), NATURAL),
        (Var("f", "float32").astype("int32"), (1, 2), NATURAL),
        (Var("f", "float16").astype("float32").astype("int32"), (1, 2), NATURAL),
        (tir.popcount(X), (-9, 9), (0, 32)),
        (tir.popcount(X.astype("int64")), (-9, 9), (0, 64)),
        (X << (X - 1), (1, 3), (1, 12)),
        (X << (X - 2), (1, 3), NATURAL),
        (X.astype("int8") << tir.const(5, "int8"), (0, 3), (0, 96)),
        (X.astype("int8") << tir.const(5, "int8"), (0, 4), (-128, 127)),
        (X.astype("int8") << tir.const(3, "int8"), (-1, 4), (-128, 127)),
    ],
)  # fmt: skip
def test_bounds_of_calls_and_casts(e, known, expected):
    assert bounds_of(e, x=known) == expected


def test_sets_of_points_and_vectors():
    point = arith.IntSet.single_point(3)
    assert (int(point.min_value), int(point.max_value)) == (3, 3) and not point.is_everything()
    for stride, ends in ((2, (5, 11)), (-2, (-1, 5))):
        found = arith.IntSet.vector(Ramp(tir.const(5), stride, 4))
        simple = Analyzer().simplify
        assert (int(simple(found.min_value)), int(simple(found.max_value))) == ends
    low, high = arith.neg_inf(), arith.pos_inf()
    assert IntervalSet(low, high).is_everything() and not IntervalSet(low, 3).is_everything()
    assert not IntervalSet(3, high).is_everything() and not IntervalSet(low, high).is_nothing()
    assert IntervalSet(high, low).is_nothing() and IntervalSet(3, 2).is_nothing()
    assert not IntervalSet(3, 3).is_nothing() and not IntervalSet(low, 3).is_nothing()
    assert IntervalSet(high, high).is_nothing() and IntervalSet(low, low).is_nothing()
    whole = Range(2, 9)
    for one in (IntervalSet(low, 3), IntervalSet(3, high)):
        assert one.cover_range(whole) is whole
        with pytest.raises(ValueError, match="no range"):
            one.cover_range()
    found = IntervalSet(3, 5).cover_range(whole)
    assert (int(found.min), int(found.extent)) == (3, 3)
    assert IntervalSet(3, high).has_lower_bound() and not IntervalSet(3, high).has_upper_bound()


def test_what_an_analyzer_was_told():
    ana = Analyzer()
    ana.bind(Y, Range(0, 4))
    assert ana.const_int_bound_is_bound(Y) and not ana.const_int_bound_is_bound(X)
    ana.simplify(X + Z)
    assert not ana.const_int_bound_is_bound(X)
    with pytest.raises(TypeError, match="takes a ConstIntBound.*\n  got: int\n  instead: use bind"):
        ana.update(X, 3)


VECTOR = Broadcast(X > 3, 4)
LINE = Ramp(X, 4, 4)
SCALABLE = tir.vscale() * 4
PAIR = Ramp(X, 1, 2)
NESTED = [  # vectors of vectors, beside plain ones
    (Broadcast(PAIR, 4), Broadcast(Y, 8)), (Broadcast(Y, 8), Broadcast(PAIR, 4)), (Ramp(X, 1, 8), Broadcast(PAIR, 4)),
    (Broadcast(PAIR, 4), Ramp(X, 1, 8)), (Ramp(Broadcast(X, 2), Broadcast(4, 2), 4), Broadcast(Y, 8)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("e", "wanted"),
    [
        (tir.Not(VECTOR), Broadcast(X <= 3, 4)),
        (Select(Broadcast(tir.const(True, "bool"), 4), LINE, LINE + 1), LINE),
        (Select(Broadcast(tir.const(False, "bool"), 4), LINE + LINE, LINE), LINE),
        (tir.Cast("int64x4", Broadcast(X, 4)), Broadcast(tir.Cast("int64", X), 4)),
        (LINE * Broadcast(0, 4), Broadcast(0, 4)),
        (LINE % Broadcast(4, 4), Broadcast(X % 4, 4)),
        (LINE // Broadcast(4, 4), Ramp(X // 4, 1, 4)),
        (LINE // Broadcast(Y, 4), LINE // Broadcast(Y, 4)),
        (LINE * LINE, LINE * LINE),
        (LINE - Ramp(Y, 4, 4), Broadcast(X - Y, 4)),
        (tir.Min(tir.Min(LINE * LINE, Broadcast(5, 4)), Broadcast(3, 4)), tir.Min(LINE * LINE, Broadcast(3, 4))),
        (tir.Max(tir.Max(LINE * LINE, Broadcast(5, 4)), Broadcast(3, 4)), tir.Max(LINE * LINE, Broadcast(5, 4))),
        (Ramp(X, 1, 4) < Broadcast(X + 4, 4), Broadcast(tir.const(True, "bool"), 4)),
        (Ramp(X, 1, 4) < Broadcast(X + 3, 4), Ramp(X, 1, 4) < Broadcast(X + 3, 4)),
        (Ramp(X, 1, 4) < Broadcast(X, 4), Broadcast(tir.const(False, "bool"), 4)),
        (Ramp(X, 1, 4) <= Broadcast(X + 3, 4), Broadcast(tir.const(True, "bool"), 4)),
        (Ramp(X, 1, 4) <= Broadcast(X - 1, 4), Broadcast(tir.const(False, "bool"), 4)),
        (Ramp(X, -1, 4) > Broadcast(X - 4, 4), Broadcast(tir.const(True, "bool"), 4)),
        (Ramp(X, -1, 4) > Broadcast(X, 4), Broadcast(tir.const(False, "bool"), 4)),
        (Ramp(X, -1, 4) >= Broadcast(X - 3, 4), Broadcast(tir.const(True, "bool"), 4)),
        (Ramp(X, -1, 4) >= Broadcast(X + 1, 4), Broadcast(tir.const(False, "bool"), 4)),
    ],
)  # fmt: skip
def test_forms_of_vectors(e, wanted):
    found = Analyzer().simplify(e)
    assert structural_equal(found, wanted), found


def ceil_log2(x):
    return tir.ceil(tir.log2(x.astype("float64"))).astype("int64")


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [(1, 8, (0, 3)), (2, 9, (1, 4)), (5, 5, (3, 3)), ((1 << 40) - 1, (1 << 40) - 1, (40, 40)), (0, 8, None), (5, 1 << 40, None)],
)  # fmt: skip
def test_bounds_of_the_logarithm_of_a_whole_number(low, high, found):
    ana, x = Analyzer(), Var("x", "int64")
    ana.update(x, ConstIntBound(low, high))
    bound = ana.const_int_bound(ceil_log2(x))
    assert (bound.min_value, bound.max_value) == (found or (-INF, INF))


@pytest.mark.parametrize(
    ("begin", "extent", "holds", "exact", "upper"),
    [
        (X, 1, tir.all(X >= 3, X < 7), (3, 6), (3, 6)), (X * 2 + Y, 1, tir.all(X >= 3, X < 7), (6, 13), (6, 13)),
        (9 - X, 1, True, (0, 9), (0, 9)), (9 - X * 2, 2, X < 5, (1, 10), (1, 10)), (9 - X * 2, 1, X < 5, None, (1, 9)),
        (X, X + 1, True, None, (0, 18)), (X * 3, 2, True, None, (0, 28)), (X * 3, 3, True, (0, 29), (0, 29)),
        (X + 1, 1, X < 1, (1, 1), (1, 1)),
    ],
)  # fmt: skip
def test_dense_regions(begin, extent, holds, exact, upper):
    """x is of 0 to 9, y of 0 and 1."""
    domain = {X: (0, 10), Y: (0, 2)}
    assert region([begin], [extent], domain, holds) == (exact and [exact])
    assert region([begin], [extent], domain, holds, exact=False) == [upper]
    if isinstance(extent, int):

        def at(e, values):
            there = tir.stmt_functor.substitute(e, {v: tir.const(values[v.name]) for v in (X, Y)})
            return Analyzer().simplify(there).value

        begins = [lambda values: at(begin, values)]
        points = {
            p
            for (p,) in points_of(begins, [extent], domain, lambda v: holds is True or at(holds, v))
        }
        assert (min(points), max(points)) == upper
        assert (len(points) == upper[1] - upper[0] + 1) == (exact is not None)


def test_vectors_of_conditions():
    ramp = Ramp(0, 1, 4)
    ana = Analyzer()
    assert ana.can_prove(ramp < Broadcast(tir.const(4), 4))
    assert not ana.can_prove(ramp < Broadcast(tir.const(3), 4))
    assert ana.can_prove(Broadcast(tir.const(True), 4)) and not ana.can_prove(
        Broadcast(tir.const(False), 4)
    )


@pytest.mark.parametrize(
    ("e", "simple"),
    [
        (Ramp(X * 4, 8, 4) // Broadcast(4, 4), Ramp(X, 2, 4)), (Ramp(X * 4, 8, 4) % Broadcast(4, 4), Broadcast(0, 4)),
        (Ramp(X * 4, 1, 4) // Broadcast(4, 4), Broadcast(X, 4)), (Ramp(X * 4, 1, 4) % Broadcast(4, 4), Ramp(0, 1, 4)),
        (Ramp(X * 4, 1, 5) // Broadcast(4, 5), None), (Ramp(X, 1, 4) // Broadcast(Y, 4), None),
        (Ramp(X, Y, 4) // Broadcast(4, 4), None), (Ramp(X, 1, 4) % Broadcast(-4, 4), None),
        (Ramp(X * 4 + 3, -1, 4) // Broadcast(4, 4), Broadcast(X, 4)), (Ramp(X * 4 + 3, -1, 4) % Broadcast(4, 4), Ramp(3, -1, 4)),
        (Ramp(X * 4 + 2, -1, 4) % Broadcast(4, 4), Ramp(2, -1, 4) % Broadcast(4, 4)), (Ramp(X, 1, 4) * Broadcast(0, 4), Broadcast(0, 4)),
        (Var("v", "int32x4") + Broadcast(0, 4), Var("v", "int32x4")), (Ramp(X, 2, 4) - Ramp(Y, 2, 4), Broadcast(X - Y, 4)),
        (Var("v", "float32x4") + Broadcast(tir.const(0.0, "float32"), 4), Var("v", "float32x4")),
        *((kind(a, b), None) for a, b in NESTED for kind in (tir.Add, tir.Sub, tir.Mul, tir.FloorMod, tir.LT)),
        (Ramp(X * 4 + 8, 4, SCALABLE) % Broadcast(tir.const(4), SCALABLE), Broadcast(0, SCALABLE)),
        (Ramp(X * 4 + 9, 1, SCALABLE) // Broadcast(tir.const(4), SCALABLE), None),
    ],
    ids=str,
)  # fmt: skip
def test_vectors_of_places(e, simple):
    assert structural_equal(
        Analyzer().simplify(e), e if simple is None else simple, map_free_vars=True
    )


def test_ranges_of_types():
    everything, inf = bounds.EVERYTHING, float("inf")
    for dtype in ("float32", "int64", "int32x4", "float16x2"):
        assert bounds.dtype_bounds(DataType(dtype)) == everything
    assert bounds.dtype_bounds(DataType("uint64")) == (0, inf)
    assert bounds.dtype_bounds(DataType("uint8x4")) == (0, inf)
    assert bounds.dtype_bounds(DataType("uint8")) == (0, 255)
    assert bounds.dtype_bounds(DataType("bool")) == (0, 1)


def test_equal_lets_are_one_value():
    x, v = Var("x", "int32"), Var("v", "int32")
    first, second = (Let(v, floordiv(x, 3), v * v) for _ in "ab")
    assert Analyzer().can_prove_equal(first, second)
    assert not Analyzer().can_prove_equal(first, Let(v, floordiv(x, 3), v * x))
