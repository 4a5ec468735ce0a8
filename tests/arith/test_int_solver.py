"""Linear systems, deduced bounds and repeated parts, against all points of small boxes."""

from __future__ import annotations

import itertools
import random

import pytest

import loopwright.script  # noqa: F401 - fills in how expressions print
from loopwright.arith import (
    Analyzer,
    IntConstraintsTransform,
    IntervalSet,
    IntGroupBounds,
    PresburgerSet,
    deduce_bound,
    detect_common_subexpr,
    is_neg_inf,
    is_pos_inf,
    solve_linear_equations,
    solve_linear_inequalities,
)
from loopwright.ir import prim_expr as pe
from loopwright.ir import prim_op as po
from loopwright.ir.prim_expr import IntImm, Range, Var
from loopwright.tvm.arith.int_solver import smith_normal_form
from tests.arith.test_simplify import evaluate as evaluate_by_name

x, y, z, n, m = VARS = [Var(name) for name in "xyznm"]
BOX = range(-4, 5)


def value(e, env):
    return evaluate_by_name(e, {v.name: k for v, k in env.items()})


def holds(constraints, env):
    """Whether a point is in the ranges and agrees with the relations."""
    for var, rng in constraints.ranges.items():
        first = value(rng.min, env)
        if not first <= env[var] < first + value(rng.extent, env):
            return False
    return all(value(c, env) for c in constraints.relations)


def solutions(conditions, variables, params):
    for point in itertools.product(BOX, repeat=len(variables)):
        env = {**params, **dict(zip(variables, point, strict=True))}
        if all(value(c, env) for c in conditions):
            yield env


def linear(rng, variables, symbolic):
    total = po.const(rng.randint(-4, 4), "int32")
    for var in variables:
        total = total + var * rng.choice((-3, -2, -1, -1, 0, 1, 1, 2, 3))
    return total + n * rng.choice((0, 1, 2)) if symbolic else total


def system(seed, kinds, most):
    rng = random.Random(seed)
    variables = [x, y, z][: rng.randint(1, 3)]
    symbolic = rng.random() < 0.4
    rows = range(rng.randint(1, most))
    conditions = [
        rng.choice(kinds)(linear(rng, variables, symbolic), IntImm("int32", 0)) for _ in rows
    ]
    ranges = {
        v: Range.from_min_extent(rng.randint(-4, 0), rng.randint(1, 5))
        for v in variables
        if rng.random() < 0.5
    }
    return conditions, variables, ranges


def in_ranges(env, ranges):
    return all(r.min.value <= env[v] < r.min.value + r.extent.value for v, r in ranges.items())


@pytest.mark.parametrize("seed", range(60))
def test_equations_have_the_same_solutions(seed):
    conditions, variables, ranges = system(seed, [pe.EQ], 3)
    found = solve_linear_equations(conditions, variables, ranges)
    assert set(found.src.variables) == set(variables)
    for k in (0, 3):
        params = {n: k}
        points = [e for e in solutions(conditions, variables, params) if in_ranges(e, ranges)]
        for env in points:
            new = {v: value(e, env) for v, e in found.dst_to_src.items()}
            assert holds(found.dst, {**params, **new})
            for v in variables:
                assert value(found.src_to_dst[v], {**params, **new}) == env[v]
        # ... and every point of the new system is one of the old
        for point in itertools.product(range(-3, 4), repeat=len(found.dst.variables)):
            new = {**params, **dict(zip(found.dst.variables, point, strict=True))}
            if found.src_to_dst and holds(found.dst, new):
                env = {**params, **{v: value(found.src_to_dst[v], new) for v in variables}}
                assert all(value(c, env) for c in conditions) and in_ranges(env, ranges)


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(120))
def test_inequalities_have_the_same_solutions(seed):
    conditions, variables, ranges = system(seed, [pe.LE, pe.LT, pe.GE, pe.GT, pe.GE, pe.EQ], 4)
    found = solve_linear_inequalities(conditions, variables, ranges)
    moved = solve_linear_inequalities(conditions, variables, ranges, deskew_range=True)
    assert isinstance(moved, IntConstraintsTransform)
    place = {v: i for i, v in enumerate(variables)}
    for v, rng in found.ranges.items():  # in triangular form
        used = [u for u in variables if Analyzer().key(u) in str_vars(rng)]
        assert all(place[u] > place[v] for u in used)
    for k in (0, 3):
        for point in itertools.product(BOX, repeat=len(variables)):
            env = {n: k, **dict(zip(variables, point, strict=True))}
            wanted = all(value(c, env) for c in conditions) and in_ranges(env, ranges)
            assert holds(found, env) == wanted
            if moved.dst_to_src and wanted:
                new = {v: value(e, env) for v, e in moved.dst_to_src.items()}
                assert holds(moved.dst, {n: k, **new})
                for v in variables:
                    assert value(moved.src_to_dst[v], {n: k, **new}) == env[v]


def str_vars(rng):
    ana, found = Analyzer(), set()
    for e in (rng.min, rng.extent):
        stack = [e]
        while stack:
            node = stack.pop()
            if isinstance(node, Var):
                found.add(ana.key(node))
            stack += [c for c in node.children() if isinstance(c, pe.PrimExpr)]
    return found


def test_smith_normal_form():
    rng = random.Random(5)
    for _ in range(50):
        rows, cols = rng.randint(1, 4), rng.randint(1, 4)
        a = [[rng.randint(-6, 6) for _ in range(cols)] for _ in range(rows)]
        u, s, v, w = smith_normal_form(a)
        assert product(product(u, a), v) == s
        assert product(v, w) == [[int(i == j) for j in range(cols)] for i in range(cols)]
        assert all(s[i][j] == 0 for i in range(rows) for j in range(cols) if i != j)


def product(a, b):
    return [
        [sum(p * q for p, q in zip(row, col, strict=True)) for col in zip(*b, strict=True)]
        for row in a
    ]


def text(*exprs):
    return [str(e) for e in exprs]


def test_one_solution():
    found = solve_linear_equations([pe.EQ(x + y, 20), pe.EQ(x - y, 10)])
    assert text(found.src_to_dst[x], found.src_to_dst[y]) == ["15", "5"]
    assert not found.dst.variables and not found.dst.relations


def test_a_free_variable_gets_a_range():
    ranges = {x: Range.from_min_extent(-5, 10), y: Range.from_min_extent(0, 10)}
    found = solve_linear_equations([pe.EQ(x + y, 0)], [x, y], ranges)
    ((var, rng),) = found.dst.ranges.items()
    assert text(rng.min, rng.extent) == ["-5", "6"]
    assert found.src_to_dst[x] is var and not found.dst.relations


@pytest.mark.parametrize(
    "equations", [[pe.EQ(x + y, 0), pe.EQ(x + y, 1)], [pe.EQ(x * 2 + y * 2, 3)]]
)
def test_no_solution(equations):
    found = solve_linear_equations(equations, [x, y])
    assert text(*found.dst.relations) == ["T.bool(False)"] and not found.src_to_dst


def test_symbolic_right_side():
    found = solve_linear_equations(pe.EQ(x * 3, n), x)
    assert text(found.src_to_dst[x], *found.dst.relations) == ["n // 3", "n % 3 == 0"]


def test_what_is_not_linear_stays():
    found = solve_linear_equations([pe.EQ(x * x, 4), pe.EQ(x, y)], [x, y])
    ((new,),) = [found.dst.variables]
    assert text(*found.dst.relations) == [f"{new.name} * {new.name} == 4"]


def test_a_triangle():
    found = solve_linear_inequalities([x * 2 >= y, x <= 10, y >= 0], [x, y])
    assert text(found.ranges[y].min, found.ranges[y].extent) == ["0", "21"]
    assert text(found.ranges[x].min) == ["(y + 1) // 2"] and not found.relations


def test_contradicting_inequalities():
    assert text(*solve_linear_inequalities([x >= 4, x <= 3]).relations) == ["T.bool(False)"]


def test_group_bounds():
    group = IntGroupBounds.from_range(Range.from_min_extent(2, 8))
    assert text(group.coef, *group.lower, *group.upper) == ["1", "2", "9"]
    best = IntGroupBounds(2, [2, x], [], [9]).find_best_range()
    assert text(best.min, best.extent) == ["1", "4"]
    assert IntGroupBounds(1, [2], [], []).find_best_range() is None
    point = IntGroupBounds(1, [], [x], [9]).find_best_range()
    assert point.min is x and point.extent.value == 1


# ---------------------------------------------------------------------------- deduce_bound

i, j, k = Var("i"), Var("j"), Var("k")


def interval(first, extent):
    return IntervalSet(first, first + extent - 1)


@pytest.mark.parametrize(
    ("cond", "relax", "low", "high"),
    [
        (i * 2 + 3 < 20, {}, None, "8"),
        (i + j < 10, {j: interval(0, 5)}, None, "5"),
        (i * 4 - j >= k, {j: interval(0, 5)}, "(k + 3) // 4 + 1", None),
        (pe.EQ(i * 4, 8), {}, "2", "2"),
        (10 - i * 3 > j, {j: interval(2, 5)}, None, "1"),
        (i // 8 + 62 <= 100, {}, None, "311"),
        (i // 4 < k, {}, None, "k * 4 - 1"),
        (po.logical_and(i >= 3, i < n), {}, "3", "n - 1"),
    ],
)
def test_deduced_bounds(cond, relax, low, high):
    found = deduce_bound(i, cond, relax, relax)
    assert is_neg_inf(found.min_value) if low is None else text(found.min_value) == [low]
    assert is_pos_inf(found.max_value) if high is None else text(found.max_value) == [high]
    for iv, jv, kv, nv in itertools.product(range(-9, 30), (0, 2, 4), (-3, 0, 5), (1, 7)):
        env = {i: iv, j: jv, k: kv, n: nv}
        inside = (low is None or value(found.min_value, env) <= iv) and (
            high is None or iv <= value(found.max_value, env)
        )
        if inside and (not relax or interval_holds(relax, env)):
            assert value(cond, env)
        elif not relax and not inside:
            assert not value(cond, env)


def interval_holds(relax, env):
    return all(
        value(s.min_value, env) <= env[v] <= value(s.max_value, env) for v, s in relax.items()
    )


@pytest.mark.parametrize(
    "cond",
    [
        pe.EQ(i * 4, j), pe.NE(i, IntImm("int32", 3)), j + k < 10, po.minimum(i, j) < 10, i * i < 9, i // n < 4,
        (i // j) // 4 < 4, 4 // i < 3,
    ],
)  # fmt: skip
def test_nothing_can_be_deduced(cond):
    assert deduce_bound(i, cond, {}, {}).is_nothing()


def test_the_hint_gives_the_sign_of_a_factor():
    assert deduce_bound(i, i * n < 10, {}, {}).is_nothing()
    found = deduce_bound(i, i * n < 10, {n: Range(1, 6)}, {})
    assert text(found.max_value) == ["9 // n"]


# ---------------------------------------------------------------------------- the rest


def test_common_subexpressions():
    e = (x + y) * (x + y) + (x + y) * z
    assert {str(k): v for k, v in detect_common_subexpr(e, 2).items()} == {"x + y": 3}
    assert detect_common_subexpr(e, 4) == {}
    nested = (x + y) * z + ((x + y) * z + 1) * x
    assert [str(k) for k in detect_common_subexpr(nested, 2)] == ["(x + y) * z"]
    assert not detect_common_subexpr((x + y) + (y + x), 2)


def test_sets_of_points():
    assert PresburgerSet().is_everything() and not PresburgerSet().is_nothing()
    assert PresburgerSet(po.logical_and(x > y, y > x)).is_nothing()
    assert PresburgerSet(po.logical_and(x * 2 >= 5, x * 2 <= 5)).is_nothing()
    low, high = PresburgerSet(x < 2), PresburgerSet(x > 3)
    assert low.intersect(high).is_nothing() and not low.union(high).is_nothing()
    assert low.union(PresburgerSet(x > -1)).is_everything()
    assert PresburgerSet(pe.Not(pe.EQ(x, x))).is_nothing()
    assert not PresburgerSet(pe.NE(x, y)).is_nothing()
    assert not PresburgerSet(pe.Not(pe.Not(x < 2))).is_nothing()
    assert PresburgerSet(pe.Not(pe.Or(x < 2, pe.Not(x < 2)))).is_nothing()


def test_sets_and_counts_of_an_analyzer():
    ana = Analyzer()
    ana.bind(x, Range(0, 10))
    found = ana.int_set(x * 2 + y, {x: interval(0, 4)})
    assert text(found.min_value, found.max_value) == ["y", "y + 6"]
    known = ana.int_set(x * 2 + 1)
    assert text(known.min_value, known.max_value) == ["1", "19"]
    ana.update(z, interval(1, 5))
    assert ana.const_int_bound(z).max_value == 5
    ana.reset_rewrite_simplify_stats()
    ana.simplify(x + 1 - x)
    stats = ana.rewrite_simplify_stats
    assert stats.nodes_visited > 0 and stats.rewrites_performed == 1
    with ana.constraint_scope(x > 3):
        assert ana.rewrite_simplify_stats.constraints_entered == 1


def test_systems_that_grow_without_end():
    """Elimination squares the number of bounds with each variable: it is refused, not begun."""
    variables = [Var(f"x{n}") for n in range(6)]
    rng = random.Random(1)
    rows = []
    for _ in range(14):
        total = po.const(rng.randint(-9, 9), "int32")
        for v in variables:
            total = total + v * rng.randint(-3, 3)
        rows.append(total >= rng.randint(-20, 0))
    with pytest.raises(ValueError, match=r"bound x\d in too many ways"):
        solve_linear_inequalities(rows, variables)
    condition = variables[0] > 0
    for n in range(40):
        v = Var(f"y{n}")
        condition = pe.And(condition, pe.Or(v < 0, v > 5))
    with pytest.raises(ValueError, match="too many ways for this condition to hold"):
        PresburgerSet(condition).is_nothing()


def test_bounds_of_ranges():
    for rng, lower, equal, upper in (
        (Range(3, 7), ["3"], [], ["6"]),
        (Range(3, 4), [], ["3"], []),
        (Range(n, n + 1), [], ["n"], []),
        (Range(n, n + 2), ["n"], [], ["n + 1"]),
    ):
        found = IntGroupBounds.from_range(rng)
        parts = (found.lower, found.equal, found.upper)
        assert [[str(e) for e in part] for part in parts] == [lower, equal, upper]
        assert int(found.coef) == 1


def test_conditions_joined_by_and_are_several():
    joined = solve_linear_inequalities(pe.And(pe.And(x >= 1, x + 2 <= 5), IntImm("bool", 1)), [x])
    apart = solve_linear_inequalities([x >= 1, x + 2 <= 5], [x])
    assert str(joined) == str(apart) and len(joined.relations) == 0


def test_no_equations_leave_the_variables_free():
    x = Var("x", "int32")
    found = solve_linear_equations([], [x])
    (new,) = found.dst.variables
    assert found.src_to_dst == {x: new} and found.dst_to_src == {new: x} and not found.dst.relations
