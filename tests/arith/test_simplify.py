"""The simplifier against plain evaluation: random expressions over small ranges."""

from __future__ import annotations

import contextlib
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.arith import Analyzer
from loopwright.ir import prim_expr as pe
from loopwright.ir import prim_op as po
from loopwright.ir.prim_expr import IntImm, Range, Var
from loopwright.ir.structural import structural_equal

NAMES = ("x", "y", "z")
VARS = {name: Var(name) for name in NAMES}

_FN = {
    pe.Add: lambda a, b: a + b,
    pe.Sub: lambda a, b: a - b,
    pe.Mul: lambda a, b: a * b,
    pe.FloorDiv: lambda a, b: a // b,
    pe.FloorMod: lambda a, b: a % b,
    pe.Div: po.trunc_div,
    pe.Mod: lambda a, b: a - po.trunc_div(a, b) * b,
    pe.Min: min,
    pe.Max: max,
    pe.LT: lambda a, b: a < b,
    pe.LE: lambda a, b: a <= b,
    pe.GT: lambda a, b: a > b,
    pe.GE: lambda a, b: a >= b,
    pe.EQ: lambda a, b: a == b,
    pe.NE: lambda a, b: a != b,
}


def evaluate(e, env):
    """The value of an expression; ZeroDivisionError where it has none."""
    kind = type(e)
    if kind is IntImm:
        return e.value
    if isinstance(e, Var):
        return env[e.name]
    if kind in _FN:
        return _FN[kind](evaluate(e.a, env), evaluate(e.b, env))
    if kind is pe.And:
        return bool(evaluate(e.a, env)) and bool(evaluate(e.b, env))
    if kind is pe.Or:
        return bool(evaluate(e.a, env)) or bool(evaluate(e.b, env))
    if kind is pe.Not:
        return not evaluate(e.a, env)
    if kind is pe.Select:
        return evaluate(e.true_value if evaluate(e.condition, env) else e.false_value, env)
    if kind is pe.Cast:
        return evaluate(e.value, env)
    raise AssertionError(f"unknown {kind}")


constants = st.integers(-9, 17)
divisors = st.one_of(st.sampled_from([2, 3, 4, 6, 8, 16]), st.integers(-5, -1))
leaves = st.one_of(
    st.sampled_from(NAMES).map(VARS.get), constants.map(lambda v: IntImm("int32", v))
)


def _extend(inner):
    pairs = st.tuples(inner, inner)
    arith = st.tuples(
        st.sampled_from([pe.Add, pe.Sub, pe.Mul, pe.Min, pe.Max, pe.Add, pe.Add]), pairs
    ).map(lambda t: t[0](*t[1]))
    by_number = st.tuples(
        st.sampled_from([pe.FloorDiv, pe.FloorMod, pe.FloorDiv, pe.FloorMod, pe.Div, pe.Mod]),
        inner,
        divisors,
    ).map(lambda t: t[0](t[1], IntImm("int32", t[2])))
    scaled = st.tuples(inner, st.sampled_from([2, 4, 8, -1, 3])).map(
        lambda t: pe.Mul(t[0], IntImm("int32", t[1]))
    )
    by_expr = st.tuples(st.sampled_from([pe.FloorDiv, pe.FloorMod]), pairs).map(
        lambda t: t[0](*t[1])
    )
    select = st.tuples(
        st.sampled_from([pe.LT, pe.LE, pe.GT, pe.GE, pe.EQ, pe.NE]), pairs, pairs
    ).map(lambda t: pe.Select(t[0](*t[1]), *t[2]))
    return st.one_of(arith, by_number, scaled, by_number, by_expr, select)


integers = st.recursive(leaves, _extend, max_leaves=10)
comparisons = st.tuples(
    st.sampled_from([pe.LT, pe.LE, pe.GT, pe.GE, pe.EQ, pe.NE]), integers, integers
).map(lambda t: t[0](t[1], t[2]))
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from([pe.And, pe.Or]), inner, inner).map(lambda t: t[0](t[1], t[2])),
        inner.map(pe.Not),
    ),
    max_leaves=3,
)
ranges = st.tuples(st.integers(-6, 6), st.integers(1, 9))


def analyzer(bounds):
    ana = Analyzer()
    for name, (low, extent) in zip(NAMES, bounds, strict=True):
        ana.bind(VARS[name], Range.from_min_extent(low, extent))
    return ana


def points(bounds):
    axes = [range(low, low + extent) for low, extent in bounds]
    for values in itertools.product(*axes):
        yield dict(zip(NAMES, values, strict=True))


def check_equal(expr, made, env):
    try:
        want = evaluate(expr, env)
    except ZeroDivisionError:
        return
    assert evaluate(made, env) == want, f"{expr} became {made} at {env}"


@settings(max_examples=500, deadline=None)
@given(integers, st.tuples(ranges, ranges, ranges))
def test_integers_keep_their_value_and_bounds_hold(expr, bounds):
    ana = analyzer(bounds)
    made = ana.simplify(expr)
    bound, mod = ana.const_int_bound(expr), ana.modular_set(expr)
    for env in itertools.islice(points(bounds), 0, None, 3):
        check_equal(expr, made, env)
        try:
            value = evaluate(expr, env)
        except ZeroDivisionError:
            continue
        assert bound.min_value <= value <= bound.max_value, (expr, env)
        if mod.coeff:
            assert value % mod.coeff == mod.base, (expr, env)
        else:
            assert value == mod.base
    assert ana.simplify(made) is made


@settings(max_examples=300, deadline=None)
@given(conditions, st.tuples(ranges, ranges, ranges))
def test_conditions_keep_their_truth(expr, bounds):
    ana = analyzer(bounds)
    made = ana.simplify(expr)
    proven = ana.can_prove(expr)
    for env in itertools.islice(points(bounds), 0, None, 5):
        check_equal(expr, made, env)
        if proven:
            with contextlib.suppress(ZeroDivisionError):
                assert evaluate(expr, env)


@settings(max_examples=300, deadline=None)
@given(conditions, integers, comparisons, st.tuples(ranges, ranges, ranges))
def test_inside_a_constraint(constraint, expr, question, bounds):
    ana = analyzer(bounds)
    before = ana.simplify(expr)
    with ana.constraint_scope(constraint):
        made, answer = ana.simplify(expr), ana.simplify(question)
    assert ana.simplify(expr) is before
    for env in itertools.islice(points(bounds), 0, None, 5):
        try:
            holds = evaluate(constraint, env)
        except ZeroDivisionError:
            continue
        if holds:
            check_equal(expr, made, env)
            check_equal(question, answer, env)


@settings(max_examples=200, deadline=None)
@given(comparisons, st.integers(1, 5))
def test_symbolic_ranges(question, n):
    """x in [0, z), y in [z, 2 z): facts that are not constant bounds."""
    ana = Analyzer()
    x, y, z = (VARS[name] for name in NAMES)
    ana.bind(z, Range(1, 6))
    ana.bind(x, Range(0, z))
    ana.bind(y, Range.from_min_extent(z, z))
    made = ana.simplify(question)
    for a in range(n):
        for b in range(n, 2 * n):
            check_equal(question, made, {"x": a, "y": b, "z": n})


def test_long_conditions_take_no_exponential_time():
    """Each `and` asks what its right operand implies of the left one, which holds `and`s too."""
    variables = [Var(f"x{n}") for n in range(60)]
    zero = IntImm("int32", 0)
    flat = mixed = pe.LT(zero, variables[0])
    for v in variables[1:]:
        flat = pe.And(flat, v < 5)
        mixed = pe.And(pe.Or(mixed, pe.LT(zero, v)), v < 5)
    assert Analyzer().simplify(flat) is flat
    assert Analyzer().simplify(mixed) is mixed
    assert isinstance(Analyzer().simplify(pe.Not(mixed)), pe.Or)


def test_what_an_operand_implies():
    x, y = Var("x"), Var("y")
    assert str(Analyzer().simplify(pe.And(pe.And(x > 0, x > 1), x > 2))) == "2 < x"
    assert str(Analyzer().simplify(pe.And(pe.Or(x > 0, y > 0), x > 2))) == "2 < x"
    both = pe.And(pe.And(x > 0, y > 0), x > 2)
    assert str(Analyzer().simplify(both)) == "0 < x and 0 < y and 2 < x"


def test_divisions_by_symbols_have_one_form():
    x, m, q, b = (Var(n, "int64") for n in ("x", "m", "q", "b"))
    twelve, one, many = po.const(12, "int64"), po.const(1, "int64"), po.const(10_000, "int64")
    div, mod = po.floordiv, po.floormod
    ana = Analyzer()
    # x // (12 m) and x // m // 12 are the same, for every sign of m.
    assert structural_equal(
        ana.simplify((div(x, m * 12) * 12 + mod(div(x, m), twelve)) * m + mod(x, m)), x
    )
    assert structural_equal(ana.simplify(mod(div(x, m), twelve)), mod(div(x, m), twelve))
    for var in (m, q, b):
        ana.bind(var, Range(one, many))
    # x // (m q), x // m // q and x // q // m are the same for positive m and q.
    assert structural_equal(ana.simplify(div(x, m * q) * m + mod(div(x, q), m)), div(x, q))
    assert structural_equal(
        ana.simplify(div(div(x, q), m) - div(div(x, m), q)), po.const(0, "int64")
    )
    with ana.constraint_scope(x < m * 12 * b):
        assert ana.can_prove(div(x, m * 12) < b)
        assert not ana.can_prove(div(x, m * 11) < b)


def test_the_factors_of_a_positive_product_are_positive():
    m, b = Var("m", "int64"), Var("b", "int64")
    ana = Analyzer()
    ana.assume_nonnegative(m)
    ana.assume_nonnegative(b)
    assert not ana.can_prove(m >= 1)
    with ana.constraint_scope(m * b * 12 >= 1):
        assert ana.can_prove(m >= 1)
    assert not ana.can_prove(m >= 1)


def test_a_remainder_is_found_whatever_its_divisor_was_made_of():
    x, y = Var("x"), Var("y")
    for divisor in (y // 32 % 12 // 2, y // 64 % 6):
        bound = Analyzer().const_int_bound(x % divisor)
        assert (bound.min_value, bound.max_value) == (0, 4)
        assert structural_equal(Analyzer().simplify(x % divisor // 16), po.const(0))


def test_what_is_absorbed_is_so_beside_a_common_term():
    x, y = Var("x"), Var("y")
    made = Analyzer().simplify(po.minimum(po.minimum(y, 6) + x, x + 2))
    assert str(made) == "x + T.min(y, 2)"
    made = Analyzer().simplify(po.minimum(po.minimum(y, 6) * 3 + x, x + 6))
    assert str(made) == "x + T.min(y, 2) * 3"


def test_a_comparison_that_its_bound_decides_stays_equivalent():
    """16 <= column is i % 3 == 2: of the columns it leaves, 16 is only the first."""
    column = VARS["x"] % 3 * 8 + VARS["y"]
    ana = Analyzer()
    ana.bind(VARS["x"], Range(0, 6))
    ana.bind(VARS["y"], Range(0, 8))
    for cond in (column >= 16, column > 15, -column <= -16):
        made = ana.simplify(cond)
        for x, y in itertools.product(range(6), range(8)):
            env = {"x": x, "y": y}
            assert evaluate(made, env) == evaluate(cond, env), made


def factor(rng):
    return VARS[NAMES[rng.integers(3)]] if rng.integers(2) else po.const(int(rng.integers(2, 13)))


def product(rng):
    whole = factor(rng)
    for _ in range(rng.integers(3)):
        whole = pe.Mul(whole, factor(rng))
    return whole


def test_common_factors_of_divisions(rng):
    """Of products over products, for all signs; remainders keep the factor outside."""
    kinds = (pe.FloorDiv, pe.FloorMod, pe.Div, pe.Mod)
    for _ in range(150):
        first = product(rng)
        expr = kinds[rng.integers(4)](pe.Mul(first, product(rng)), pe.Mul(product(rng), first))
        made = Analyzer().simplify(expr)
        for values in rng.integers(-9, 10, (20, 3)).tolist():
            check_equal(expr, made, dict(zip(NAMES, values, strict=True)))


def test_quotients_of_remainders_of_quotients(rng):
    """x // a % b // c * c' in one split of x where it is one, for all signs of x."""
    x = VARS["x"]
    for div, mod in ((pe.FloorDiv, pe.FloorMod), (pe.Div, pe.Mod)):
        for _ in range(60):
            a, b, c, d = (po.const(int(n)) for n in rng.integers(2, 17, 4))
            expr = pe.Add(pe.Mul(div(mod(div(x, a), b), c), d), mod(div(pe.Mul(x, b), d), c))
            made = Analyzer().simplify(expr)
            for value in rng.integers(-400, 400, 30).tolist():
                check_equal(expr, made, {"x": value})


def test_comparisons_of_remainders(rng):
    """A remainder stays whole on its side."""
    x, y, z = (VARS[name] for name in NAMES)
    kinds = (pe.LT, pe.LE, pe.GT, pe.GE, pe.EQ, pe.NE)
    for _ in range(100):
        a, b, c, k = rng.integers(2, 20, 4).tolist()
        sign = (-1, 1)[rng.integers(2)]
        left = x * (a * b) + (y * b + z) % (a * b) * sign
        expr = kinds[rng.integers(6)](left, po.const(k * b) if rng.integers(2) else z * c)
        ana = analyzer(((-5, 11), (0, 50), (0, b)))
        made = ana.simplify(expr)
        for value in zip(
            rng.integers(-5, 6, 40), rng.integers(0, 50, 40), rng.integers(0, b, 40), strict=True
        ):
            check_equal(expr, made, dict(zip(NAMES, map(int, value), strict=True)))


def test_a_comparison_has_one_direction():
    x, y = Var("x", "int32"), Var("y", "int32")
    for one, other in (
        (x >= 20, pe.LE(20, x)),
        (y > x, x < y),
        (y + 1 > x * 2, pe.LT(x * 2, y + 1)),
    ):
        assert structural_equal(Analyzer().simplify(one), Analyzer().simplify(other))
    assert isinstance(Analyzer().simplify(x >= 20), pe.LE)


def test_what_a_choice_knows():
    """Each side is simplified under what its condition says, of integers and among other things."""
    x, y, flag = Var("x"), Var("y"), Var("flag", "bool")
    given = pe.LT(po.const(3), x)
    most, least = po.maximum(x, po.const(2)), po.minimum(y, x + 1)
    for condition in (given, pe.And(given, flag), pe.And(flag, given)):
        got = Analyzer().simplify(pe.Select(condition, most, y))
        assert structural_equal(got, pe.Select(condition, x, y))
    got = Analyzer().simplify(pe.Select(pe.Not(flag), most, least))
    assert structural_equal(got, pe.Select(pe.Not(flag), most, least))
    got = Analyzer().simplify(pe.Select(pe.LT(x, y), y - x, least))
    assert structural_equal(got, pe.Select(pe.LT(x, y), y - x, y))


def test_quotients_are_computed_in_the_type_of_their_parts():
    """Where that has the divisor, and the least number is not divided by -1."""
    x, y = Var("x", "int8"), Var("y", "int8")
    wide = pe.Cast("int64", x)
    for kind in (pe.Div, pe.Mod, pe.FloorDiv, pe.FloorMod):
        for divisor in (-7, 3, 100):
            expr = pe.Cast("int8", kind(wide, po.const(divisor, "int64")))
            made = Analyzer().simplify(expr)
            assert structural_equal(made, kind(x, po.const(divisor, "int8")))
            for value in range(-128, 128):
                check_equal(expr, made, {"x": value})
        expr = pe.Cast("int8", kind(wide, pe.Cast("int64", y)))
        assert "int64" in str(Analyzer().simplify(expr))
    n, m = Var("n"), Var("m")
    part = pe.Div(pe.Cast("int64", n), pe.Cast("int64", po.maximum(m, 1)))
    assert structural_equal(
        Analyzer().simplify(pe.Cast("int32", part)), pe.Div(n, po.maximum(m, 1))
    )


def test_conditions_of_all_lanes_that_are_literals() -> None:
    """A mask of a part that is whole, of a row whose bounds are known (basic-pitch's padded rows)."""
    true, false = (pe.Broadcast(po.const(v, "bool"), 4) for v in (True, False))
    ana = Analyzer()
    for kind, of in ((pe.And, all), (pe.Or, any)):
        for a, b in ((true, true), (true, false), (false, true), (false, false)):
            want = of(v is true for v in (a, b))
            assert structural_equal(ana.simplify(kind(a, b)), true if want else false)
