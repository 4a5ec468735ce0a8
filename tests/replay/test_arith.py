"""What the analyzer makes of random questions: not only that it holds, but how much it knows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from loopwright import arith
from loopwright.arith import Analyzer, int_set, interval
from loopwright.arith.int_set import IntervalSet
from loopwright.ir import prim_expr as pe
from loopwright.ir.prim_expr import IntImm, Range, Var
from loopwright.tvm.arith.rewrite_rules import RULES
from loopwright.tvm.arith.rule_text import _build

from ..arith.fuzz import INDEX, bound_analyzer, random_case
from .stages import said

PART, ROW = 40, 8  # cases of a test, and of a row
Answers = dict[str, str]


def rows(part: int, answers: Callable[[random.Random], tuple[str, Answers]]) -> dict[str, Answers]:
    """The answers to the questions of a part, some in a row."""
    made: dict[str, Answers] = {}
    for seed in range(part * PART, (part + 1) * PART):
        question, texts = answers(random.Random(seed))
        row = made.setdefault(str(seed // ROW * ROW), dict.fromkeys(texts, ""))
        for name, text in texts.items():
            row[name] += f"{seed}: {question}\n    {text}\n"
    return made


def _expression(rng: random.Random) -> tuple[str, Answers]:
    case = random_case(rng)
    e, ana = case.expr, bound_analyzer(case)
    ranges = {v: (a, a + n - 1) for v, (a, n) in case.domain.items() if v.dtype in INDEX}
    sets = {v: IntervalSet(IntImm(v.dtype, a), IntImm(v.dtype, b)) for v, (a, b) in ranges.items()}
    answers = {
        "simplified": said(ana.simplify, e),
        "rewritten": said(ana.rewrite_simplify, e),
        "canonical": said(ana.canonical_simplify, e),
        "bound": said(ana.const_int_bound, e),
        "modular": said(ana.modular_set, e),
        "set": said(arith.eval_set, e, sets),
        "free": said(Analyzer().simplify, e),
        "proved": said(lambda: [ana.can_prove(c) for c in (e >= 0, e < 64, pe.EQ(e, e + 1))]),
        "linear": said(arith.detect_linear_equation, e, list(case.domain)),
        "deduced": said(arith.deduce_bound, next(iter(case.domain)), case.constraint, {}, {}),
        "clip": said(arith.detect_clip_bound, case.constraint, list(case.domain)),
        "common": said(arith.detect_common_subexpr, e, 1),
    }
    whether, c = e if e.dtype.is_bool else e >= 3, case.constraint
    ana.enabled_extensions = arith.Extension.ConvertBooleanToAndOfOrs
    forms = (
        pe.Or(c, pe.And(whether, pe.Not(c))),
        pe.And(pe.Or(c, pe.Not(whether)), pe.Or(pe.And(c, whether), pe.Not(whether))),
    )
    answers["and of ors"] = str([said(ana.simplify, form) for form in forms])
    ana.enabled_extensions = arith.Extension.NoExtensions
    with ana.constraint_scope(case.constraint):
        answers["limited"] = said(ana.simplify, e) + said(ana.const_int_bound, e)
    return str(case), answers


@pytest.mark.parametrize("part", range(20))
def test_expressions(part: int, replay: Any) -> None:
    replay(f"arith/expressions-{part}", rows(part, _expression))


def _vector(rng: random.Random) -> tuple[str, Answers]:
    """An operation of ramps and broadcasts."""
    x, y, ana = Var("x"), Var("y"), Analyzer()
    ana.bind(x, Range(0, rng.choice((1, 4, 16))))
    lanes = rng.choice((2, 4, 8))

    def scalar() -> Any:
        number = IntImm("int32", rng.choice((0, 1, 2, 3, 4, 8, -4)))
        return rng.choice((number, x, x * number, x * 8 + number, y, y * 4 + x))

    def vector(depth: int) -> Any:
        pick = rng.random()
        if depth and pick < 0.5:
            kind = rng.choice((pe.Add, pe.Sub, pe.Mul, pe.FloorDiv, pe.FloorMod, pe.Min, pe.Max))
            right = pe.Broadcast(IntImm("int32", rng.choice((2, 4, 8))), lanes)
            return kind(
                vector(depth - 1), right if kind in (pe.FloorDiv, pe.FloorMod) else vector(0)
            )
        if pick < 0.75:
            return pe.Ramp(scalar(), IntImm("int32", rng.choice((1, 2, 4, -1))), lanes)
        return pe.Broadcast(scalar(), lanes)

    e = vector(rng.randint(1, 3))
    compared = rng.choice((pe.LT, pe.LE, pe.GT, pe.GE, pe.EQ, pe.NE))(e, vector(0))
    return f"{compared}", {
        "value": said(ana.simplify, e),
        "rewritten": said(ana.rewrite_simplify, e),
        "compared": said(ana.simplify, compared),
        "bound": said(ana.const_int_bound, e),
        "set": said(arith.eval_set, e, {x: IntervalSet(IntImm("int32", 0), IntImm("int32", 3))}),
    }


@pytest.mark.parametrize("part", range(4))
def test_vectors(part: int, replay: Any) -> None:
    replay(f"arith/vectors-{part}", rows(part, _vector))


def _conditions(rng: random.Random) -> tuple[str, Answers]:
    """Conditions that share parts, as conjunctions of disjunctions."""
    x, y, ana = Var("x"), Var("y"), Analyzer()
    ana.bind(x, Range(0, 9))
    numbers = [rng.randint(-1, 9) for _ in range(3)]
    parts = [
        rng.choice((pe.LT, pe.GE, pe.EQ, pe.NE))(v, IntImm("int32", n))
        for v in (x, y, x + y)
        for n in numbers
    ]

    def one(depth: int) -> Any:
        if not depth or rng.random() < 0.2:
            return rng.choice(parts)
        if rng.random() < 0.15:
            return pe.Not(one(depth - 1))
        return rng.choice((pe.And, pe.Or))(one(depth - 1), one(depth - 1))

    e = one(3)
    ana.enabled_extensions = arith.Extension.ConvertBooleanToAndOfOrs
    answers = {"clauses": said(ana.rewrite_simplify, e)}
    ana.enabled_extensions = arith.Extension.NoExtensions
    with ana.constraint_scope(parts[0]):
        answers["limited"] = said(ana.simplify, e)
    return f"{e}", answers | {"simplified": said(ana.simplify, e)}


@pytest.mark.parametrize("part", range(4))
def test_conditions(part: int, replay: Any) -> None:
    replay(f"arith/conditions-{part}", rows(part, _conditions))


def _sets(rng: random.Random) -> tuple[str, Answers]:
    """Unions and intersections of intervals with symbolic and infinite ends."""
    n = Var("n")
    ends = [IntImm("int32", k) for k in (-4, 0, 3, 4, 9)] + [n, n + 1, n + 4, n * 2]

    def one() -> Any:
        low, high = rng.choice([*ends, interval.neg_inf()]), rng.choice([*ends, interval.pos_inf()])
        return IntervalSet(low, high)

    sets = [one() for _ in range(rng.randint(1, 4))]
    value = rng.choice((n, n * 2 + 1, n // 3, n % 4, pe.Min(n, IntImm("int32", 5))))
    return f"{sets} {value}", {
        "union": said(int_set.union_interval, Analyzer(), sets[0], sets[-1]),
        "lower": said(int_set.union_lower_bound, sets),
        "set": said(arith.eval_set, value, {n: sets[0]}),
    }


@pytest.mark.parametrize("part", range(2))
def test_sets(part: int, replay: Any) -> None:
    replay(f"arith/sets-{part}", rows(part, _sets))


def _index(rng: random.Random, atoms: list[Any], depth: int) -> Any:
    """An index of loops that were split and fused, mostly."""
    if not depth or rng.random() < 0.2:
        return rng.choice(atoms)
    e = _index(rng, atoms, depth - 1)
    pick = rng.random()
    if pick < 0.3:
        return e // rng.choice((2, 3, 4, 8))
    if pick < 0.6:
        return e % rng.choice((2, 3, 4, 8))
    if pick < 0.7:
        return e + rng.choice((-3, 1, 4))
    return e * rng.choice((2, 3, 4, 8, 16)) + rng.choice(atoms)


def _map(rng: random.Random) -> tuple[str, Answers]:
    dtype = rng.choice(INDEX)
    loops = [Var(name, dtype) for name in "ijkn"[: rng.randint(1, 4)]]
    domain = {}
    for v in loops:
        first, extent = rng.choice((0, 0, 0, 2)), rng.choice((1, 2, 4, 6, 8, 16))
        domain[v] = Range.from_min_extent(IntImm(dtype, first), IntImm(dtype, extent))
    fused: Any = loops[0]
    for v in loops[1:]:
        fused = fused * domain[v].extent + v
    count = rng.randint(1, 3)
    indices = [_index(rng, [*loops, fused, fused], rng.randint(0, 3)) for _ in range(count)]
    limits = [True, True, fused < rng.randint(1, 40), loops[-1] < 3, loops[0] * 2 + 1 < 6]
    limits.append(pe.And(fused * 3 >= rng.randint(1, 9), fused * 6 <= rng.randint(20, 90)))
    limit = rng.choice(limits)
    level = rng.choice(["surjective", "bijective", "nocheck"])
    found = arith.detect_iter_map(indices, domain, limit, level)
    results = [Var(f"o{k}", dtype) for k in range(len(found.indices))]
    inner = loops[len(loops) // 2 :]
    return f"{indices} of {domain} where {limit}, {level}", {
        "map": f"{found.indices} {found.padding_predicate} {found.errors}",
        "simplified": said(arith.iter_map_simplify, indices, domain, limit, level),
        "everywhere": said(arith.iter_map_simplify, indices, domain),
        "plain": str([said(arith.normalize_iter_map_to_expr, m) for m in found.indices]),
        "inverse": said(arith.inverse_affine_iter_map, found.indices, results),
        "sums": str([said(arith.normalize_to_iter_sum, i, domain) for i in indices]),
        "parts": said(arith.subspace_divide, indices, domain, inner, limit, level),
    }


@pytest.mark.parametrize("part", range(8))
def test_iteration_maps(part: int, replay: Any) -> None:
    replay(f"arith/iteration-maps-{part}", rows(part, _map))


SIZE = Var("n")


def _linear(rng: random.Random, unknowns: Iterable[Var]) -> Any:
    total: Any = IntImm("int32", rng.randint(-4, 4))
    for v in unknowns:
        total = total + v * rng.choice((-3, -2, -1, 0, 1, 1, 2, 3))
    return total + SIZE * rng.choice((0, 0, 1, 2))


def _system(rng: random.Random) -> tuple[str, Answers]:
    xs = [Var(n) for n in "xyz"[: rng.randint(1, 3)]]
    equations = [pe.EQ(_linear(rng, xs), IntImm("int32", 0)) for _ in range(rng.randint(1, 3))]
    bounds = []
    for _ in range(rng.randint(1, 4)):
        relation = rng.choice((pe.LE, pe.LT, pe.GE, pe.EQ))
        bounds.append(relation(_linear(rng, xs), IntImm("int32", rng.randint(0, 9))))
    ranges = {v: Range(0, rng.randint(1, 9)) for v in xs if rng.random() < 0.6}
    solved = arith.solve_linear_inequalities
    return f"{equations} {bounds} {ranges}", {
        "equations": said(arith.solve_linear_equations, equations, xs, ranges),
        "bounds": said(solved, bounds, xs, ranges),
        "ranges": said(solved, bounds, xs, ranges, deskew_range=True),
    }


@pytest.mark.parametrize("part", range(3))
def test_systems(part: int, replay: Any) -> None:
    replay(f"arith/systems-{part}", rows(part, _system))


def test_rules(replay: Any) -> None:
    """Each rule of the table, on variables and literals."""
    made: dict[str, Answers] = {}
    names = {n: Var(n, "bool" if n == "b" else "int32") for n in "xyzwb"}
    for kind, rules in RULES.items():
        lines = []
        for rule in rules:
            rng, ana = random.Random(rule.text), Analyzer()
            for v in names.values():
                ana.bind(v, Range(0, 2 if v.dtype.is_bool else 9))
            for _ in range(4):
                literals = {f"c{k}": rng.choice((-6, -2, 1, 2, 3, 4, 12)) for k in range(1, 5)}
                before = _build(rule.left, names | literals, names["x"].dtype)
                after = said(ana.rewrite_simplify, before)
                lines.append(f"{rule.text}: {before}: {after}")
        made[getattr(kind, "__name__", str(kind))] = {"": "\n".join(lines)}
    replay("arith/rules", made)
