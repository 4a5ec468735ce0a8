"""Random integer expressions, their values over whole ranges, and what the analyzer must get right.

`random_case` draws from anything with the methods of `random.Random`, so the same generator serves
hypothesis (`st.randoms()`, which shrinks) and the long run (plain seeds). `check` asks the analyzer
everything it can be asked about a case and compares with the values at every point of the domain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loopwright.arith import Analyzer, ConstIntBound, eval_set, is_neg_inf, is_pos_inf
from loopwright.base.errors import DivisionByZero
from loopwright.ir import prim_expr as pe
from loopwright.ir.dtype import DataType
from loopwright.ir.prim_expr import IntImm, Range, Var
from loopwright.ir.structural import structural_equal

INDEX = ("int32", "int64")
OTHER = ("uint8", "int8", "uint16", "int16", "uint32", "uint64")

# ---------------------------------------------------------------------------- values


@dataclass
class Values:
    """The values of an expression at all points. Where a bit of `trap` is set the evaluation
    divides by zero (or shifts out of the type); `eager` also counts operands that are not needed:
    the other side of a Select, the right side of a decided `and`. `overflow`: an int32 or int64
    left its type, which programs never do; `spill`: also where the value is not needed."""

    value: Any
    trap: Any = False
    eager: Any = False
    overflow: Any = False
    spill: Any = False


def wrapped(value: Any, dtype: DataType) -> Any:
    """Two's complement."""
    if dtype.is_bool:
        return value
    size, low = 1 << dtype.bits, pe.int_min(dtype)
    return (_array(value, dtype) - low) % size + low


def _array(value: Any, dtype: DataType) -> Any:
    """An array: of Python integers where numpy's would overflow."""
    made = np.asarray(value)
    return made.astype(object) if dtype.bits == 64 else made


def _join(*parts: Values) -> dict[str, Any]:
    masks = {"trap": False, "eager": False, "overflow": False, "spill": False}
    for part in parts:
        for name in masks:
            masks[name] = masks[name] | getattr(part, name)
    return masks


def _trunc_div(a: Any, b: Any) -> Any:
    q = abs(a) // abs(b)
    sign = np.where((a < 0) == (b < 0), 1, -1)
    return q * (sign if np.asarray(q).dtype == np.int64 else sign.astype(object))


_ARITH = {
    pe.Add: lambda a, b: a + b,
    pe.Sub: lambda a, b: a - b,
    pe.Mul: lambda a, b: a * b,
    pe.Min: np.minimum,
    pe.Max: np.maximum,
    pe.EQ: lambda a, b: a == b,
    pe.NE: lambda a, b: a != b,
    pe.LT: lambda a, b: a < b,
    pe.LE: lambda a, b: a <= b,
    pe.GT: lambda a, b: a > b,
    pe.GE: lambda a, b: a >= b,
}
_DIVISIONS = {
    pe.FloorDiv: lambda a, b: a // b,
    pe.FloorMod: lambda a, b: a - a // b * b,
    pe.Div: _trunc_div,
    pe.Mod: lambda a, b: a - _trunc_div(a, b) * b,
}
_BITS = {
    "tir.bitwise_and": lambda a, b: a & b,
    "tir.bitwise_or": lambda a, b: a | b,
    "tir.bitwise_xor": lambda a, b: a ^ b,
}


def evaluate(e: Any, env: dict[Var, Any]) -> Values:
    """The values of `e` where each variable has an array of values (of Python integers where
    64 bits could overflow)."""
    kind = type(e)
    if kind is IntImm:
        return Values(bool(e.value) if e.dtype.is_bool else _array(e.value, e.dtype))
    if isinstance(e, Var):
        found = env[e]
        return found if isinstance(found, Values) else Values(found)
    if kind in _ARITH:
        a, b = evaluate(e.a, env), evaluate(e.b, env)
        values = (_array(x.value, e.a.dtype) for x in (a, b))
        return _fitted(_ARITH[kind](*values), e.dtype, _join(a, b))
    if kind in _DIVISIONS:
        a, b = evaluate(e.a, env), evaluate(e.b, env)
        masks = _join(a, b)
        zero = np.equal(b.value, 0)
        masks["trap"], masks["eager"] = masks["trap"] | zero, masks["eager"] | zero
        divisor = np.where(zero, 1, _array(b.value, e.dtype))
        return _fitted(_DIVISIONS[kind](_array(a.value, e.dtype), divisor), e.dtype, masks)
    if kind is pe.And or kind is pe.Or:
        a, b = evaluate(e.a, env), evaluate(e.b, env)
        left = np.asarray(a.value, bool)
        needed = left if kind is pe.And else ~left
        value = np.where(needed, b.value, left)
        return Values(value, **_guarded(a, [(needed, b)]))
    if kind is pe.Not:
        a = evaluate(e.a, env)
        return Values(~np.asarray(a.value, bool), **_join(a))
    if kind is pe.Select:
        return _choice(e.condition, e.true_value, e.false_value, env, True)
    if kind is pe.Cast:
        a = evaluate(e.value, env)
        value = np.asarray(a.value)
        if e.dtype.is_bool:
            return Values(value != 0, **_join(a))
        value = value.astype(object) if value.dtype == object else value.astype(np.int64)
        return Values(wrapped(value, e.dtype), **_join(a))
    if kind is pe.Let:
        value = evaluate(e.value, env)
        body = evaluate(e.body, {**env, e.var: value})
        return Values(body.value, **_join(value, body))
    assert kind is pe.Call, e
    return _call(e, env)


def _call(e: Any, env: dict[Var, Any]) -> Values:
    name = e.op.name
    if name == "tir.if_then_else":
        return _choice(*e.args, env, False)
    args = [evaluate(a, env) for a in e.args]
    masks = _join(*args)
    if name == "tir.likely":
        return args[0]
    if name in ("tir.shift_left", "tir.shift_right"):
        a, by = (_array(x.value, e.dtype) for x in args)
        out = (by < 0) | (by >= e.dtype.bits)
        masks["trap"], masks["eager"] = masks["trap"] | out, masks["eager"] | out
        power = 2 ** np.where(out, 0, by)
        return _fitted(a * power if name == "tir.shift_left" else a // power, e.dtype, masks)
    if name == "tir.bitwise_not":
        return _fitted(-1 - _array(args[0].value, e.dtype), e.dtype, masks)
    value = _BITS[name](*(_array(x.value, e.dtype) for x in args))
    return _fitted(value, e.dtype, masks)


def _fitted(value: Any, dtype: DataType, masks: dict[str, Any]) -> Values:
    if dtype.is_bool:
        return Values(value, **masks)
    kept = wrapped(value, dtype)
    if dtype in INDEX:
        left = np.not_equal(kept, value).astype(bool)
        masks["overflow"], masks["spill"] = masks["overflow"] | left, masks["spill"] | left
    return Values(kept, **masks)


def _guarded(first: Values, parts: list[tuple[Any, Values]]) -> dict[str, Any]:
    masks = _join(first)
    for needed, part in parts:
        masks["spill"] = masks["spill"] | part.spill
        masks["trap"] = masks["trap"] | (needed & part.trap)
        masks["overflow"] = masks["overflow"] | (needed & part.overflow)
        masks["eager"] = masks["eager"] | part.eager
    return masks


def _choice(condition: Any, t: Any, f: Any, env: dict[Var, Any], both: bool) -> Values:
    dtype = t.dtype
    c, t, f = (evaluate(part, env) for part in (condition, t, f))
    holds = np.asarray(c.value, bool)
    if not both:  # only the branch taken is evaluated
        t, f = (
            Values(part.value, part.trap, part.eager & needed, part.overflow, part.spill)
            for part, needed in ((t, holds), (f, ~holds))
        )
    value = np.where(holds, _array(t.value, dtype), _array(f.value, dtype))
    return Values(value, **_guarded(c, [(holds, t), (~holds, f)]))


# ---------------------------------------------------------------------------- random expressions


@dataclass
class Case:
    """A question: an expression, ranges of its variables, and a condition that holds."""

    expr: Any
    domain: dict[Var, tuple[int, int]]  # first value, number of values
    constraint: Any

    def __str__(self) -> str:
        ranges = ", ".join(
            f"{v.name}: {v.dtype} in [{a}, {a + n})" for v, (a, n) in self.domain.items()
        )
        return f"{self.expr}\n  where {ranges}\n  under {self.constraint}"

    def points(self) -> dict[Var, Any]:
        """An array of values for each variable: all points of the domain."""
        kind = object if _wide(self.expr) or _wide(self.constraint) else np.int64
        axes = [np.arange(a, a + n).astype(kind) for a, n in self.domain.values()]
        grid = np.meshgrid(*axes, indexing="ij") if axes else []
        return {v: g.ravel() for v, g in zip(self.domain, grid, strict=True)}


def _wide(e: Any) -> bool:
    """Whether values of 64 bits occur: numpy's int64 would overflow unseen."""
    if e.dtype.bits == 64:
        return True
    return any(_wide(c) for c in _operands(e))


def _operands(e: Any) -> list[Any]:
    if isinstance(e, pe.Call):
        return list(e.args)
    return [c for c in e.children() if isinstance(c, pe.PrimExpr)]


_INTEGER = (pe.Add, pe.Add, pe.Sub, pe.Mul, pe.Min, pe.Max)
_DIVIDE = (pe.FloorDiv, pe.FloorMod, pe.FloorDiv, pe.FloorMod, pe.Div, pe.Mod)
_COMPARE = (pe.LT, pe.LE, pe.GT, pe.GE, pe.EQ, pe.NE)
_DIVISORS = (2, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16, 32, -1, -2, -3, -4, -7)
_FACTORS = (-3, -2, -1, 2, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16, 32, 64)


class Expressions:
    """Draws expressions over some variables from a source of random numbers."""

    def __init__(self, rng: Any, variables: list[Var], dtypes: tuple[str, ...]) -> None:
        self.rng = rng
        self.variables = variables
        self.dtypes = dtypes
        self.lets = 0

    def literal(self, dtype: Any) -> IntImm:
        dtype = DataType(dtype)
        if self.rng.random() < 0.02:
            edge = self.rng.choice([pe.int_min(dtype), pe.int_max(dtype), pe.int_max(dtype) // 2])
            return IntImm(dtype, edge)
        return IntImm(dtype, self.rng.randint(0 if dtype.is_uint else -9, 17))

    def leaf(self, dtype: Any) -> Any:
        fitting = [v for v in self.variables if v.dtype == dtype]
        if fitting and self.rng.random() < 0.75:
            return self.rng.choice(fitting)
        if self.variables and self.rng.random() < 0.4:
            return pe.Cast(dtype, self.rng.choice(self.variables))
        return self.literal(dtype)

    def integer(self, size: int, dtype: str) -> Any:
        rng = self.rng
        pick = rng.random()
        if size <= 1 or pick < 0.03:
            return self.leaf(dtype)
        rest = size - 1
        left = rng.randint(1, max(1, rest - 1))
        if pick < 0.34:
            kind = rng.choice(_INTEGER)
            return kind(self.integer(left, dtype), self.integer(rest - left, dtype))
        if pick < 0.46:
            return pe.Mul(self.integer(rest, dtype), self.number(_FACTORS, dtype))
        if pick < 0.68:
            divisor = self.number(_DIVISORS, dtype)
            return rng.choice(_DIVIDE)(self.integer(rest, dtype), divisor)
        if pick < 0.74:
            kind = rng.choice(_DIVIDE)
            return kind(self.integer(left, dtype), self.integer(rest - left, dtype))
        if pick < 0.86:
            third = max(1, rest // 3)
            parts = (self.boolean(third), *(self.integer(third, dtype) for _ in "ab"))
            if rng.random() < 0.5:
                return pe.Select(*parts)
            return pe.Call(dtype, "tir.if_then_else", parts)
        if pick < 0.90:
            name = rng.choice(["shift_left", "shift_right", "shift_right"])
            by = IntImm(dtype, rng.randint(0, 4)) if rng.random() < 0.8 else self.leaf(dtype)
            return pe.Call(dtype, f"tir.{name}", [self.integer(rest, dtype), by])
        if pick < 0.95:
            name = rng.choice(["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"])
            args = [self.integer(left, dtype), self.integer(rest - left, dtype)]
            return pe.Call(dtype, f"tir.{name}", args[: 1 if name == "bitwise_not" else 2])
        if pick < 0.98:
            source = rng.choice(self.dtypes)
            return pe.Cast(dtype, self.integer(rest, source))
        self.lets += 1
        var = Var(f"t{self.lets}", dtype)
        value = self.integer(left, dtype)
        inner = Expressions(rng, [*self.variables, var, var], self.dtypes)
        inner.lets = self.lets
        return pe.Let(var, value, inner.integer(rest - left, dtype))

    def number(self, values: Any, dtype: str) -> IntImm:
        value = self.rng.choice(values)
        return IntImm(dtype, abs(value) if DataType(dtype).is_uint else value)

    def boolean(self, size: int) -> Any:
        rng = self.rng
        pick = rng.random()
        left = rng.randint(1, max(1, size - 2))
        if size >= 3 and pick < 0.25:
            kind = rng.choice((pe.And, pe.Or))
            return kind(self.boolean(left), self.boolean(size - left - 1))
        if size >= 2 and pick < 0.33:
            return pe.Not(self.boolean(size - 1))
        if size >= 3 and pick < 0.37:
            kind = rng.choice((pe.EQ, pe.NE))
            return kind(self.boolean(left), self.boolean(size - left - 1))
        if size >= 4 and pick < 0.40:
            third = size // 3
            return pe.Select(*(self.boolean(third) for _ in "abc"))
        if pick < 0.42:
            return pe.Call("bool", "tir.likely", [self.boolean(max(1, size - 1))])
        if pick < 0.44:
            return pe.Cast("bool", self.integer(size, rng.choice(self.dtypes)))
        dtype = rng.choice(self.dtypes)
        right = self.leaf(dtype) if rng.random() < 0.4 else self.integer(size - left, dtype)
        return rng.choice(_COMPARE)(self.integer(left, dtype), right)


def random_case(rng: Any) -> Case:
    """1 to 4 variables with small ranges, an expression and a condition over them."""
    main = "int32" if rng.random() < 0.8 else "int64"
    dtypes: tuple[str, ...] = (main,) * 6
    pick = rng.random()
    if pick < 0.15:
        dtypes = (*dtypes[:4], rng.choice(OTHER))
    elif pick < 0.25:
        dtypes = (*dtypes[:3], *INDEX)
    count = rng.choice((1, 2, 2, 3, 3, 4))
    longest = (40, 16, 8, 5)[count - 1] if "64" not in "".join(dtypes) else (16, 8, 4, 3)[count - 1]
    domain = {}
    for name in "xyzw"[:count]:
        var = Var(name, rng.choice(dtypes))
        first = 0 if rng.random() < 0.5 else rng.randint(-9, 9)
        if var.dtype.is_uint:
            first = abs(first)
        domain[var] = (first, rng.randint(1, longest))
    make = Expressions(rng, list(domain), dtypes)
    size = rng.randint(2, 22)
    expr = make.boolean(size) if rng.random() < 0.3 else make.integer(size, rng.choice(dtypes))
    return Case(expr, domain, make.boolean(rng.randint(1, 5)))


def parts_of(e: Any) -> Iterator[Any]:
    """`e` and all its operands."""
    yield e
    for child in _operands(e):
        yield from parts_of(child)


# ---------------------------------------------------------------------------- the checks


class Wrong(AssertionError):
    """The analyzer said something that does not hold."""


@dataclass
class Tally:
    """What was checked."""

    counts: Counter = field(default_factory=Counter)

    def __str__(self) -> str:
        return "\n".join(f"{name:>28} {self.counts[name]:>9}" for name in sorted(self.counts))


def bound_analyzer(case: Case) -> Analyzer:
    """An analyzer that knows the ranges."""
    ana = Analyzer()
    for var, (first, extent) in case.domain.items():
        if var.dtype in INDEX:
            dtype = var.dtype
            ana.bind(var, Range.from_min_extent(IntImm(dtype, first), IntImm(dtype, extent)))
    return ana


def check(case: Case, tally: Tally) -> None:
    """Ask everything about a case. Raises `Wrong`."""
    env = case.points()
    count = len(next(iter(env.values())))
    want = evaluate(case.expr, env)
    ana = bound_analyzer(case)
    everywhere = np.ones(count, bool)
    tally.counts["expressions"] += 1
    tally.counts["points"] += count
    made = _check_scope(case, ana, env, want, everywhere, tally)
    if not _spread(want.spill, count).any() and not structural_equal(
        bound_analyzer(case).simplify(made), made
    ):
        again = bound_analyzer(case).simplify(made)
        raise Wrong(f"not idempotent: {case.expr} -> {made} -> {again}")
    limit = evaluate(case.constraint, env)
    holds = np.broadcast_to(limit.value, count) & ~_spread(limit.trap | limit.overflow, count)
    with ana.constraint_scope(case.constraint):
        tally.counts["under a constraint"] += bool(holds.any())
        _check_scope(case, ana, env, want, holds, tally)
    if not structural_equal(ana.simplify(case.expr), made):
        raise Wrong(f"{case.expr}: not as before the scope: {made}")


def _spread(mask: Any, count: int) -> Any:
    return np.broadcast_to(np.asarray(mask, bool), count)


def _check_scope(
    case: Case, ana: Analyzer, env: Any, want: Values, where: Any, tally: Tally
) -> Any:
    expr, count = case.expr, len(where)
    made = ana.simplify(expr)
    runs = where & ~_spread(want.trap | want.overflow, count)
    eager = runs & ~_spread(want.eager, count)
    for name in ("simplify", "rewrite_simplify", "canonical_simplify"):
        try:
            out = getattr(ana, name)(expr)
        except DivisionByZero:
            if name != "rewrite_simplify":  # the one that refuses it
                raise
            continue
        if out.dtype != expr.dtype:
            raise Wrong(f"{name}: {expr} of {expr.dtype} became {out} of {out.dtype}")
        if name != "simplify" and out is made:
            continue
        got = evaluate(out, env)
        tally.counts[f"{name} changed"] += out is not expr
        if np.any(runs & _spread(got.trap, count)) or np.any(eager & _spread(got.eager, count)):
            raise Wrong(f"{name}: {expr} became {out}, which divides by zero where it did not")
        differs = runs & np.broadcast_to(np.not_equal(got.value, want.value), count).astype(bool)
        if differs.any():
            at = int(np.argmax(differs))
            point = {v.name: int(g[at]) for v, g in env.items()}
            raise Wrong(f"{name}: {expr} became {out}, not equal at {point}")
    if not runs.any():
        return made
    spills = _spread(want.spill, count).any()  # a literal that does not fit stays as written
    if not spills and not structural_equal(ana.simplify(made), made):
        raise Wrong(f"not idempotent: {expr} -> {made} -> {ana.simplify(made)}")
    values = np.broadcast_to(np.asarray(want.value), count)[runs]
    if expr.dtype.is_bool:
        _check_proofs(expr, ana, values.astype(bool), tally)
    else:
        _check_bounds(expr, ana, values, tally)
        _check_relations(expr, made, ana, values, tally)
    if expr.dtype in INDEX and where.all():
        _check_sets(case, ana, env, want, runs, tally)
    return made


def _check_proofs(expr: Any, ana: Analyzer, values: Any, tally: Tally) -> None:
    for question, holds in ((expr, values), (pe.Not(expr), ~values)):
        if ana.can_prove(question):
            tally.counts["proven"] += 1
            if not holds.all():
                raise Wrong(f"can_prove: {question} does not hold everywhere")
        elif holds.all():
            tally.counts["true, not proven"] += 1


def _check_bounds(expr: Any, ana: Analyzer, values: Any, tally: Tally) -> None:
    bound = ana.const_int_bound(expr)
    low, high = int(values.min()), int(values.max())
    limit = ConstIntBound.POS_INF  # stands for every greater value
    too_low = low < bound.min_value and -limit < low
    if too_low or (high > bound.max_value and -limit < high < limit):
        raise Wrong(
            f"const_int_bound: {expr} in [{bound.min_value}, {bound.max_value}], "
            f"has [{low}, {high}]"
        )
    tally.counts["bounds"] += 1
    tally.counts["bounds exact"] += (bound.min_value, bound.max_value) == (low, high)
    mod = ana.modular_set(expr)
    rest = values - mod.base
    if np.any(rest % mod.coeff if mod.coeff else rest):
        raise Wrong(f"modular_set: {expr} is {mod.coeff} * k + {mod.base}, has {values[:8]}")
    tally.counts["modular sets"] += mod.coeff != 1


def _check_relations(expr: Any, made: Any, ana: Analyzer, values: Any, tally: Tally) -> None:
    if not ana.can_prove_equal(expr, made):
        tally.counts["equal, not proven"] += 1
    low, high = int(values.min()), int(values.max())
    if expr.dtype not in INDEX or not -(2**31) < low <= high < 2**31 - 1:
        return
    if ana.can_prove_greater_equal(expr, low + 1) or ana.can_prove_less(expr, high):
        raise Wrong(f"{expr} has [{low}, {high}], less was proven")
    if low != high and ana.can_prove_equal(expr, IntImm(expr.dtype, low)):
        raise Wrong(f"{expr} is not always {low}")


def _check_sets(case: Case, ana: Analyzer, env: Any, want: Values, runs: Any, tally: Tally) -> None:
    """Intervals of the expression, some of its variables running and the others standing."""
    index = [v for v in case.domain if v.dtype in INDEX]
    count = len(runs)
    for moving in {tuple(index), tuple(index[:1]), tuple(index[1:])}:
        domain = {v: Range.from_min_extent(*case.domain[v]) for v in moving}
        standing = {v: env[v][:1] for v in moving}  # they must not matter
        for known in (None, ana):
            found = eval_set(case.expr, domain, known)
            tally.counts["int sets"] += 1
            for end, infinite, below in (
                (found.min_value, is_neg_inf, np.less_equal),
                (found.max_value, is_pos_inf, np.greater_equal),
            ):
                if infinite(end):
                    continue
                limit = evaluate(end, {**env, **standing} if len(moving) < len(env) else standing)
                unsaid = ~runs | _spread(limit.trap | limit.overflow, count)
                if not np.all(below(limit.value, want.value) | unsaid):
                    raise Wrong(
                        f"eval_set: {case.expr} over {[v.name for v in moving]} in "
                        f"[{found.min_value}, {found.max_value}]"
                    )
