"""Systems of linear equations and inequalities over the integers.

Equations are solved by bringing their matrix to diagonal form with unimodular row and column steps
(Smith), inequalities by eliminating one variable after another (Fourier and Motzkin). Coefficients
are numbers; everything but the system's variables may be symbolic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd
from typing import Any

from ...arith import poly as P
from ...arith.analyzer import Analyzer, IntSet
from ...arith.atoms import is_index
from ...arith.build import atom_expr
from ...arith.int_set import eval_set
from ...arith.interval import is_infinite
from ...arith.poly import ONE, Poly
from ...base.errors import explain
from ...ir import prim_expr as pe
from ...ir import prim_op as po
from ...ir.literals import int_value, is_one, is_true
from ...ir.node import Node, as_dict, as_tuple, field
from ...ir.prim_expr import FALSE, TRUE, IntImm, PrimExpr, Range, Var
from ...ir.variables import substitute, vars_in

# Eliminating a variable pairs its lower bounds with its upper ones, and a condition with n choices
# has 2**n disjuncts: more than this takes minutes, or years.
MOST_PAIRS = 1000
MOST_WAYS = 20_000


class IntGroupBounds(Node):
    """Bounds on a variable: coef * var >= each of lower, == each of equal, <= each of upper."""

    coef: PrimExpr = field(converter=po.convert)
    lower: tuple[PrimExpr, ...] = field(converter=po.convert_all)
    equal: tuple[PrimExpr, ...] = field(converter=po.convert_all)
    upper: tuple[PrimExpr, ...] = field(converter=po.convert_all)

    @staticmethod
    def from_range(rng: Range) -> IntGroupBounds:
        """The bounds given by a range."""
        one = po.const(1, rng.min.dtype)
        extent = Analyzer().simplify(rng.extent)
        if is_one(extent):
            return IntGroupBounds(one, [], [rng.min], [])
        last = Analyzer().simplify(rng.min + extent - 1)
        return IntGroupBounds(one, [rng.min], [], [last])

    def find_best_range(self, ranges: Mapping[Var, Range] | None = None) -> Range | None:
        """The shortest range given by two of the bounds, or None; `ranges` of other variables help
        to compare lengths."""
        ana = Analyzer(ranges)
        ends = [(e, e) for e in self.equal]
        ends += [(a, b) for a in (*self.lower, *self.equal) for b in (*self.upper, *self.equal)]
        between = [_between(ana, a, self.coef, b, self.coef) for a, b in ends]
        return _shortest(ana, between)


class IntConstraints(Node):
    """Variables, their ranges (which may depend on other variables), and conditions on them."""

    variables: tuple[Var, ...] = field(converter=as_tuple)
    ranges: dict[Var, Range] = field(converter=as_dict)
    relations: tuple[PrimExpr, ...] = field(converter=as_tuple)


class IntConstraintsTransform(Node):
    """Two systems with the same solutions; the variables of each in terms of the other's."""

    src: IntConstraints
    dst: IntConstraints
    src_to_dst: dict[Var, PrimExpr]
    dst_to_src: dict[Var, PrimExpr]


# ---------------------------------------------------------------------------- systems


class _System:
    """Conditions read as polynomials: p == 0 or p >= 0 linear in the variables, and others."""

    def __init__(self, conditions: Any, variables: Any, ranges: Mapping[Var, Range] | None) -> None:
        listed = [conditions] if isinstance(conditions, PrimExpr) else list(conditions)
        self.conditions = [po.convert(c) for c in listed]
        if isinstance(variables, Var):
            variables = [variables]
        self.variables = list(_variables(self.conditions) if variables is None else variables)
        self.ranges = dict(ranges or {})
        self.ana = Analyzer()
        self.dtype = self.variables[0].dtype if self.variables else po.INT32
        self.number = {v: self.ana.atoms.of_var(v) for v in self.variables}
        self.equations: list[Poly] = []
        self.inequalities: list[Poly] = []
        self.others: list[PrimExpr] = []
        for condition in self.conditions:
            self.read(condition)

    def read(self, condition: PrimExpr) -> None:
        """Classify a condition."""
        if isinstance(condition, pe.And):
            self.read(condition.a)
            self.read(condition.b)
            return
        if is_true(condition):
            return
        if isinstance(condition, pe.CmpExpr) and is_index(condition.a.dtype):
            a, b = self.ana.poly(condition.a), self.ana.poly(condition.b)
            p = P.add(a, b, -1)
            if self.linear(p):
                if isinstance(condition, pe.EQ):
                    self.equations.append(p)
                    return
                if not isinstance(condition, pe.NE):
                    if isinstance(condition, (pe.LT, pe.LE)):
                        p = P.scaled(p, -1)
                    strict = isinstance(condition, (pe.LT, pe.GT))
                    self.inequalities.append(P.shift(p, -1) if strict else p)
                    return
        self.others.append(condition)

    def linear(self, p: Poly) -> bool:
        """Whether p is a sum of numbers times variables and of terms without variables."""
        atoms = set(self.number.values())
        for m in p:
            inside = [a for a in m if a in atoms or self.hides(a)]
            if inside and (len(m) > 1 or inside[0] not in atoms):
                return False
        return True

    def hides(self, number: int) -> bool:
        """Whether a non-variable atom contains one of the variables."""
        expr = atom_expr(self.ana, self.ana.atoms.all[number], self.dtype)
        return any(v in self.number for v in _variables([expr]))

    def split(self, p: Poly) -> tuple[list[int], Poly]:
        """(coefficients of the variables, the rest)"""
        row = [p.get((number,), 0) for number in self.number.values()]
        atoms = set(self.number.values())
        return row, {m: f for m, f in p.items() if len(m) != 1 or m[0] not in atoms}

    def build(self, p: Poly) -> PrimExpr:
        return self.ana.build(p, self.dtype)


def _variables(exprs: Iterable[Any]) -> list[Var]:
    """The integer variables that occur."""
    return [v for v in vars_in(tuple(exprs)) if is_index(v.dtype)]


# ---------------------------------------------------------------------------- equations


def smith_normal_form(
    matrix: Sequence[Sequence[int]],
) -> tuple[list[list[int]], list[list[int]], list[list[int]], list[list[int]]]:
    """(U, S, V, W): U * matrix * V = S is diagonal, U and V are unimodular, W is V's inverse."""
    s = [list(row) for row in matrix]
    rows, cols = len(s), len(s[0]) if s else 0
    u, v, w = _identity(rows), _identity(cols), _identity(cols)

    def add_row(to: int, source: int, f: int) -> None:
        for part in (s, u):
            part[to] = [a + f * b for a, b in zip(part[to], part[source], strict=True)]

    def add_column(to: int, source: int, f: int) -> None:
        for part in (s, v):
            for row in part:
                row[to] += f * row[source]
        w[source] = [a - f * b for a, b in zip(w[source], w[to], strict=True)]

    for k in range(min(rows, cols)):
        while True:
            nonzero = [
                (abs(s[i][j]), i, j) for i in range(k, rows) for j in range(k, cols) if s[i][j]
            ]
            if not nonzero:
                return u, s, v, w
            _, i, j = min(nonzero)
            for part in (s, u):
                part[k], part[i] = part[i], part[k]
            for part in (s, v):
                for row in part:
                    row[k], row[j] = row[j], row[k]
            w[k], w[j] = w[j], w[k]
            for i in range(k + 1, rows):
                add_row(i, k, -(s[i][k] // s[k][k]))
            for j in range(k + 1, cols):
                add_column(j, k, -(s[k][j] // s[k][k]))
            if not any(s[i][k] for i in range(k + 1, rows)) and not any(s[k][k + 1 :]):
                break
    return u, s, v, w


def _identity(size: int) -> list[list[int]]:
    return [[int(i == j) for j in range(size)] for i in range(size)]


def solve_linear_equations(
    equations: pe.EQ | Sequence[PrimExpr],
    variables: Var | list[PrimExpr] | None = None,
    ranges: Mapping[Var, Range] | None = None,
) -> IntConstraintsTransform:
    """All integer solutions of equations, in terms of a minimal number of new variables.

    equations: one or several `a == b`; other conditions are kept as relations. variables: the
    unknowns, by default all. ranges: domains of the variables, from which ranges of the new
    variables are derived if possible. An unsatisfiable system has the relation False, and no
    variables.

    >>> x, y = Var("x"), Var("y")
    >>> found = solve_linear_equations([pe.EQ(x + y, 20), pe.EQ(x - y, 10)], [x, y])
    >>> [int(found.src_to_dst[v]) for v in (x, y)]
    [15, 5]
    """
    system = _System(equations, variables, ranges)
    ana, split = system.ana, [system.split(p) for p in system.equations]
    src = IntConstraints(system.variables, system.ranges, system.conditions)
    size = len(system.variables)
    if not split:
        split = [([0] * size, {})]
    u, s, v, w = smith_normal_form([row for row, _ in split])
    relations: list[PrimExpr] = []
    values: list[Poly] = []  # of the diagonal system's variables
    for i, row in enumerate(u):
        right: Poly = {}
        for f, (_, rest) in zip(row, split, strict=True):
            right = P.add(right, rest, -f)
        d = s[i][i] if i < size else 0
        zero = po.const(0, system.dtype)
        if d == 0:
            relations.append(ana.simplify(pe.EQ(system.build(right), zero)))
            continue
        quotient = ana.poly_div(right, P.constant(d), system.dtype)
        assert quotient is not None
        rest = pe.FloorMod(system.build(right), po.const(abs(d), system.dtype))
        relations.append(ana.simplify(pe.EQ(rest, zero)))
        values.append(quotient)
    if any(isinstance(r, IntImm) and not r.value for r in relations):
        return IntConstraintsTransform(src, IntConstraints([], {}, [FALSE]), {}, {})
    rank = len(values)
    fresh = [Var(f"n{k}", system.dtype) for k in range(size - rank)]
    for k in range(rank, size):  # the first variable that depends on a new one grows with it
        if next((row[k] for row in v if row[k]), 1) < 0:
            w[k] = [-f for f in w[k]]
            for row in v:
                row[k] = -row[k]
    values += [ana.poly(n) for n in fresh]
    forward = {
        var: system.build(_combination(row, values))
        for var, row in zip(system.variables, v, strict=True)
    }
    olds = [ana.poly(var) for var in system.variables]
    back = {
        n: system.build(_combination(row, olds)) for n, row in zip(fresh, w[rank:], strict=True)
    }
    others = [*system.others, *(system.build(p) >= 0 for p in system.inequalities)]
    relations += [ana.simplify(substitute(e, forward)) for e in others]
    limits = [c for var in system.variables for c in _limits(system.ranges.get(var), forward[var])]
    fresh_ranges = _ranges_of(fresh, back, system, limits)
    fresh_ana = Analyzer(fresh_ranges)
    remaining = _open(fresh_ana, [*relations, *limits])
    if any(isinstance(c, IntImm) for c in remaining):
        return IntConstraintsTransform(src, IntConstraints([], {}, [FALSE]), {}, {})
    return IntConstraintsTransform(
        src, IntConstraints(fresh, fresh_ranges, remaining), forward, back
    )


def _open(ana: Analyzer, conditions: Iterable[PrimExpr]) -> list[PrimExpr]:
    """The distinct conditions that are not known to hold."""
    distinct = {ana.key(c): c for c in map(ana.simplify, conditions)}
    return [c for c in distinct.values() if not is_true(c)]


def _combination(row: Sequence[int], values: Sequence[Poly]) -> Poly:
    total: Poly = {}
    for f, value in zip(row, values, strict=True):
        total = P.add(total, value, f)
    return total


def _limits(rng: Range | None, value: PrimExpr) -> list[PrimExpr]:
    if rng is None:
        return []
    inside: list[Any] = [pe.LE(rng.min, value), pe.LT(value, po.add(rng.min, rng.extent))]
    return inside


def _ranges_of(
    fresh: list[Var], back: dict[Var, PrimExpr], system: _System, limits: list[PrimExpr]
) -> dict[Var, Range]:
    """Ranges of the new variables, derived from the old variables' and from the conditions."""
    fresh_ranges = {}
    for n in fresh:
        lower, upper = [], []
        ends = eval_set(back[n], system.ranges)
        if not is_infinite(ends.min_value):
            lower.append(ends.min_value)
        if not is_infinite(ends.max_value):
            upper.append(ends.max_value)
        alone = [c for c in limits if not any(k in fresh for k in _variables([c]) if k is not n)]
        own = solve_linear_inequalities(alone, [n]).ranges.get(n) if alone else None
        if own is not None:
            lower.append(own.min)
            upper.append(own.last)
        ana = {v: r for v, r in system.ranges.items() if v not in system.number}
        best = IntGroupBounds(po.const(1, n.dtype), lower, [], upper).find_best_range(ana)
        if best is not None and not any(v in system.number for v in _variables([best])):
            fresh_ranges[n] = best
    return fresh_ranges


# ---------------------------------------------------------------------------- inequalities


class _Bounds:
    """The bounds of one variable: (coefficient > 0, value): coefficient * var >= or <= value."""

    def __init__(self) -> None:
        self.lower: list[tuple[int, Poly]] = []
        self.upper: list[tuple[int, Poly]] = []


def solve_linear_inequalities(
    equations: PrimExpr | list[PrimExpr],
    variables: Sequence[PrimExpr] | None = None,
    ranges: Mapping[Var, Range] | None = None,
    deskew_range: bool = False,
) -> Any:
    """Ranges of variables with the same solutions as a system of inequalities.

    Returns `IntConstraints`: the range of a variable may depend only on the variables after it;
    what ranges cannot express is left in `relations`. An unsatisfiable system
    results in the relation False. With `deskew_range`, an `IntConstraintsTransform` to variables
    that all start at 0. Raises ValueError for a system whose elimination would take too long.
    """
    system = _System(equations, variables, ranges)
    src = IntConstraints(system.variables, system.ranges, system.conditions)
    bounds = _eliminated(system)
    if bounds is None:
        result = IntConstraints([], {}, [FALSE])
        return IntConstraintsTransform(src, result, {}, {}) if deskew_range else result
    solved: dict[Var, Range] = {}
    relations = list(system.others)
    for var in reversed(system.variables):
        best, rest = _best(system, var, bounds[var], solved)
        if best is not None:
            solved[var] = best
        relations += rest
    # In elimination order a range depends on later variables only: bind those first.
    ana = Analyzer(solved)
    remaining = _open(ana, relations)
    result = IntConstraints(system.variables, solved, remaining)
    return _deskewed(src, result) if deskew_range else result


def _eliminated(system: _System) -> dict[Var, _Bounds] | None:
    """The bounds of each variable in terms of those after it; None if the system has no
    solution."""
    ana = system.ana
    rows = list(system.inequalities)
    for p in system.equations:
        rows += [p, P.scaled(p, -1)]
    for var, dom in system.ranges.items():
        if var in system.number:
            low, x = ana.poly(dom.min), ana.poly(var)
            rows.append(P.add(x, low, -1))
            rows.append(P.shift(P.add(P.add(low, ana.poly(dom.extent)), x, -1), -1))
    outside = Analyzer({v: r for v, r in system.ranges.items() if v not in system.number})
    bounds: dict[Var, _Bounds] = {}
    for var, number in system.number.items():
        rows = _useful(system, rows, outside)
        own, rest = _Bounds(), []
        for p in rows:
            f = p.get((number,), 0)
            others = {m: c for m, c in p.items() if m != (number,)}
            if f > 0:
                own.lower.append((f, P.scaled(others, -1)))
            elif f < 0:
                own.upper.append((-f, others))
            else:
                rest.append(p)
        if len(own.lower) * len(own.upper) > MOST_PAIRS:
            what = f"the inequalities bound {var.name} in too many ways to solve them"
            got = f"{len(own.lower)} lower and {len(own.upper)} upper bounds"
            raise ValueError(explain(what, got=got, instead="solve for fewer variables at once"))
        for a, low in own.lower:
            for b, high in own.upper:  # low / a <= var <= high / b
                rest.append(P.add(P.scaled(high, a), low, -b))
        bounds[var], rows = own, rest
    for p in rows:
        if outside.can_prove(system.build(P.scaled(p, -1)) > 0):
            return None
        if not outside.can_prove(system.build(p) >= 0):
            system.others.append(system.build(p) >= 0)
    return bounds


def _useful(system: _System, rows: list[Poly], outside: Analyzer) -> list[Poly]:
    """Rows divided by their common factor, without duplicates, and only the strongest of those that
    differ by a constant."""
    best: dict[Any, tuple[Poly, int]] = {}
    for p in rows:
        row, rest = system.split(p)
        g = gcd(*row) if row else 0
        if g > 1 and all(f % g == 0 for m, f in rest.items() if m != ONE):
            p = {m: f // g for m, f in p.items()}  # floors the constant, which loses no integer
            p = {m: f for m, f in p.items() if f}
        elif not any(row) and outside.can_prove(system.build(p) >= 0):
            continue
        offset = p.get(ONE, 0)
        key = P.key_of({m: f for m, f in p.items() if m != ONE})
        if key not in best or best[key][1] > offset:
            best[key] = (p, offset)
    return [p for p, _ in best.values()]


def _best(
    system: _System, var: Var, bounds: _Bounds, ranges: dict[Var, Range]
) -> tuple[Range | None, list[PrimExpr]]:
    """(the shortest range that a lower and an upper bound make, conditions for the others)"""
    ana = Analyzer(ranges)
    number = {(system.number[var],): 1}
    pairs = []
    for low in bounds.lower:
        for high in bounds.upper:
            rng = _between(ana, system.build(low[1]), low[0], system.build(high[1]), high[0])
            pairs.append((rng, low, high))
    best = _shortest(ana, [rng for rng, _, _ in pairs])
    used = next(((low, high) for rng, low, high in pairs if rng is best), (None, None))
    rest = [P.add(P.scaled(number, f), e, -1) for f, e in bounds.lower if (f, e) != used[0]]
    rest += [P.add(e, P.scaled(number, f), -1) for f, e in bounds.upper if (f, e) != used[1]]
    return best, [_at_least_zero(ana, system, p) for p in rest]


def _at_least_zero(ana: Analyzer, system: _System, p: Poly) -> PrimExpr:
    return ana.simplify(pe.GE(system.build(p), po.const(0, system.dtype)))


def _between(
    ana: Analyzer, low: PrimExpr, a: PrimExpr | int, high: PrimExpr, b: PrimExpr | int
) -> Range:
    """The x with a * x >= low and b * x <= high."""
    first = ana.simplify(low if int_value(a) == 1 else po.floordiv(low + (a - 1), a))
    last = high if int_value(b) == 1 else po.floordiv(high, b)
    return Range.from_min_extent(first, ana.expand(last - first + 1))


def _shortest(ana: Analyzer, ranges: Sequence[Range]) -> Range | None:
    best: Range | None = None
    size: Any = None
    for rng in ranges:
        bound = ana.const_int_bound(rng.extent).max_value
        if best is None or bound < size or ana.can_prove(rng.extent < best.extent):
            best, size = rng, bound
    return best


def _deskewed(src: IntConstraints, solution: IntConstraints) -> IntConstraintsTransform:
    """The same system over variables that start at 0."""
    forward: dict[Var, PrimExpr] = {}
    back: dict[Var, PrimExpr] = {}
    ranges: dict[Var, Range] = {}
    ana = Analyzer()
    for var in reversed(solution.variables):
        rng = solution.ranges.get(var)
        if rng is None:
            forward[var] = back[var] = var
            continue
        first, extent = (ana.simplify(substitute(e, forward)) for e in (rng.min, rng.extent))
        if is_one(extent):
            forward[var] = first
            continue
        shifted = Var(f"{var.name}_shifted", var.dtype)
        ranges[shifted] = Range.from_min_extent(po.const(0, var.dtype), extent)
        ana.bind(shifted, ranges[shifted])
        forward[var] = ana.simplify(shifted + first)
        back[shifted] = ana.simplify(var - rng.min)
    variables = list(reversed(back))
    relations = _open(ana, [substitute(c, forward) for c in solution.relations])
    dst = IntConstraints(variables, ranges, relations)
    return IntConstraintsTransform(src, dst, forward, back)


# ---------------------------------------------------------------------------- sets of points


class PresburgerSet(IntSet):
    """The points at which a condition of linear comparisons, `and`, `or` and
    `not` holds."""

    constraint: PrimExpr

    def __init__(self, constraint: PrimExpr | int = TRUE, span: Any = None) -> None:
        self._set(Analyzer().simplify(po.convert(constraint)), span)

    @property
    def variables(self) -> list[Var]:
        """The variables in the condition."""
        return _variables([self.constraint])

    def disjuncts(self) -> list[list[PrimExpr]]:
        """The condition in disjunctive normal form. Raises ValueError if it is too large."""
        return _disjuncts(self.constraint)

    def union(self, other: PresburgerSet) -> PresburgerSet:
        """The union of both sets."""
        return PresburgerSet(po.logical_or(self.constraint, other.constraint))

    def intersect(self, other: PresburgerSet) -> PresburgerSet:
        """The intersection of both sets."""
        return PresburgerSet(po.logical_and(self.constraint, other.constraint))

    def is_nothing(self) -> bool:
        for conditions in self.disjuncts():
            solved = solve_linear_inequalities(conditions, self.variables)
            if not any(isinstance(c, IntImm) for c in solved.relations):
                return False
        return True

    def is_everything(self) -> bool:
        return Analyzer().can_prove(self.constraint)


def _disjuncts(condition: PrimExpr) -> list[list[PrimExpr]]:
    """The disjuncts, each a list of conjuncts, of a simplified condition."""
    if isinstance(condition, (pe.And, pe.Or)):
        a, b = _disjuncts(condition.a), _disjuncts(condition.b)
        if isinstance(condition, pe.And):
            if len(a) * len(b) > MOST_WAYS:
                what = "there are too many ways for this condition to hold"
                got = f"{len(a)} times {len(b)}"
                hint = "query parts of it with fewer choices"
                raise ValueError(explain(what, got=got, instead=hint))
            return [x + y for x in a for y in b]
        return a + b
    if isinstance(condition, IntImm):
        return [[]] if condition.value else []
    if isinstance(condition, pe.NE):
        a, b = condition.a, condition.b
        sides: list[list[Any]] = [[pe.LT(a, b)], [pe.GT(a, b)]]
        return sides
    return [[condition]]
