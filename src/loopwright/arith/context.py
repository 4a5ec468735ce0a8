"""Shared by the components of an analyzer: known facts, caches, and the interface between them.

The components depend on each other in this order: atoms, bounds, modular, proof, division, convert,
build, normal, constraints, rules_*, simplify. Each is a module of functions `f(ctx, ...)` and calls
those below it directly; the few upward calls (the bound of an expression is that of its polynomial)
are made through the `Context`, which `Analyzer` implements. The context is passed on, never stored,
so an analyzer has no reference cycles and is freed by its last reference: compilation runs with
Python's garbage collector off.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag
from typing import Any, Protocol

from ..ir.prim_expr import IntImm, PrimExpr, Range, Var
from .atoms import Atoms
from .cost import Costs
from .examples import Examples
from .facts import Facts
from .keys import Keys
from .poly import Monomial, Poly

Bound = tuple[float, float]  # least and greatest value: integers, or the infinities


class Extension(Flag):
    """TVM's optional rewrites. Conditions become conjunctions of disjunctions only on request; the
    others are always on."""

    NoExtensions = 0
    TransitivelyProveInequalities = 1
    ConvertBooleanToAndOfOrs = 2
    ApplyConstraintsToBooleanBranches = 4
    ComparisonOfProductAndSum = 8


class Pairing:
    """A polynomial with its remainders: rest + sum of scale * factor * (value % divisor), of floor
    (DIV) or truncated (TRUNC) divisions. positions: the number of terms of the rest before each."""

    __slots__ = ("mods", "positions", "rest")

    def __init__(
        self, rest: Poly, mods: list[tuple[int, Monomial, Poly, Poly, int]], positions: list[int]
    ) -> None:
        self.rest = rest
        self.mods = mods
        self.positions = positions


class Assumptions:
    """Facts about atoms, by number, and about conditions and variables."""

    __slots__ = ("bounds", "modular", "nonzero", "truths", "values")

    def __init__(
        self,
        bounds: dict[int, Bound],
        modular: dict[int, tuple[int, int]],
        truths: set[tuple[Any, bool]],
        values: dict[Var, Poly],
    ) -> None:
        self.bounds = bounds
        self.modular = modular
        self.truths = truths  # (key of a condition, whether it holds)
        self.values = values
        self.nonzero: tuple[Poly, ...] = ()  # polynomials known not to be 0

    def copy(self) -> Assumptions:
        """A copy for a scope; the values of variables stay known outside."""
        new = Assumptions(dict(self.bounds), dict(self.modular), set(self.truths), self.values)
        new.nonzero = self.nonzero
        return new


class Cache:
    """Results that depend on the known bounds and constraints."""

    __slots__ = ("bounds", "cases", "pairings", "polys", "products", "proofs", "risks", "simple")

    def __init__(self) -> None:
        self.polys: dict[int, tuple[Any, Poly]] = {}  # by the id of an expression, as below
        self.simple: dict[int, tuple[Any, Any]] = {}
        self.risks: dict[int, tuple[Any, int]] = {}
        self.bounds: dict[Any, Bound] = {}
        self.products: dict[Monomial, Bound] = {}
        self.proofs: dict[Any, bool] = {}
        self.pairings: dict[Any, Pairing] = {}
        self.cases = 0  # minima and maxima within which a bound is being sought


class Counts:
    """Statistics of simplification."""

    __slots__ = ("entered", "rewritten", "visited")

    def __init__(self) -> None:
        self.visited = self.entered = self.rewritten = 0


class Context(Protocol):
    """The state of an analyzer, and the upward calls of its components."""

    atoms: Atoms
    keys: Keys
    costs: Costs
    facts: Facts
    examples: Examples
    assumed: Assumptions
    cache: Cache
    counts: Counts
    enabled_extensions: Extension
    literals: dict[tuple[Any, int], IntImm]

    def poly(self, expr: PrimExpr, /) -> Poly: ...
    def paired(self, p: Poly, /) -> Pairing: ...
    def modular(self, p: Poly, /) -> tuple[int, int]: ...
    def bind(self, var: Var, expr: PrimExpr | Range, /) -> None: ...
    def bind_value_bounds(self, var: Var, value: Any, /) -> None: ...
    def rebuilt(self, expr: Any, /) -> Any: ...
    def simplified(self, expr: Any, /) -> Any: ...


Rule = Callable[[Context, Any], Any]  # from an expression to an equal one that costs no more
