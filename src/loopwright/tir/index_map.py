"""Index maps: functions from the indices of a buffer to those of another layout."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ..arith import Analyzer, detect_iter_map, inverse_affine_iter_map
from ..base.errors import explain
from ..ir import prim_expr as pe
from ..ir.functor import rewrite
from ..ir.literals import is_zero
from ..ir.node import Node, define, field
from ..ir.prim_op import add, cast, const, convert, floordiv, floormod, logical_or, multiply
from ..ir.structural import structural_equal
from .analysis.bounds import bounds_of
from .stmt_functor import substitute


class IndexMap(Node):
    """(i, j, ...) -> final_indices, in terms of `initial_indices`.

    >>> IndexMap.from_func(lambda n, c, h, w: [n, c // 16, h, w, c % 16])
    """

    AXIS_SEPARATOR: ClassVar[str] = "axis_separator"
    opens_scope: ClassVar[bool] = True

    initial_indices: tuple[pe.Var, ...] = define()
    final_indices: tuple[pe.PrimExpr, ...]
    inverse_index_map: Any = field(default=None)

    def __init__(
        self,
        initial_indices: Any,
        final_indices: Any,
        inverse_index_map: IndexMap | None = None,
        span: Any = None,
    ) -> None:
        final = tuple(convert(e) for e in final_indices)
        self._set(tuple(initial_indices), final, inverse_index_map, span)

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Any = None,
        *,
        index_dtype: str = "int64",
    ) -> IndexMap:
        """The map of a Python function from indices to a sequence of expressions.

        `ndim` is needed if the function takes `*args`. Raises ValueError for axis separators
        (use `from_func_with_separators`).
        """
        index_map, separators = IndexMap.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            what = "this index map has axis separators"
            raise ValueError(explain(what, instead="use from_func_with_separators"))
        return index_map

    @staticmethod
    def from_func_with_separators(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Any = None,
        *,
        index_dtype: str = "int64",
    ) -> tuple[IndexMap, list[int]]:
        """(map, positions of the axis separators among the final indices)"""
        variables = _variables(mapping_function, ndim, index_dtype)
        mapped = mapping_function(*variables)
        if not isinstance(mapped, (list, tuple)):
            mapped = [mapped]
        final: list[Any] = []
        separators: list[int] = []
        for item in mapped:
            if isinstance(item, str) and item == IndexMap.AXIS_SEPARATOR:
                separators.append(len(final))
            elif isinstance(item, int):
                final.append(const(item, index_dtype))
            elif isinstance(item, pe.PrimExpr):
                final.append(item)
            else:
                what = "an index map gives expressions or IndexMap.AXIS_SEPARATOR"
                raise TypeError(explain(what, got=type(item).__name__))
        if inverse_index_map is not None and not isinstance(inverse_index_map, IndexMap):
            inverse_index_map = IndexMap.from_func(
                inverse_index_map, ndim=len(final), index_dtype=index_dtype
            )
        return IndexMap(variables, final, inverse_index_map), separators

    def with_dtype(self, dtype: str) -> IndexMap:
        """The same map on indices of another type: a printed map does not show its type."""
        if all(v.dtype == dtype for v in self.initial_indices):
            return self
        fresh = {v: pe.Var(v.name, dtype) for v in self.initial_indices}
        inverse = self.inverse_index_map
        final = [_retyped(e, fresh, dtype) for e in self.final_indices]
        return IndexMap(
            fresh.values(), final, None if inverse is None else inverse.with_dtype(dtype)
        )

    def is_equivalent_to(self, other_map: IndexMap) -> bool:
        """Whether both maps agree on every index."""
        mine, theirs = self.final_indices, other_map.final_indices
        same_rank = len(self.initial_indices) == len(other_map.initial_indices)
        if not same_rank or len(mine) != len(theirs):
            return False
        renamed = other_map.map_indices(self.initial_indices)
        analyzer = Analyzer()
        pairs = zip(mine, renamed, strict=True)
        return all(structural_equal(a, b) or analyzer.can_prove_equal(a, b) for a, b in pairs)

    def map_indices(self, indices: Sequence[Any], analyzer: Analyzer | None = None) -> list[Any]:
        """The final indices of `indices`, simplified."""
        self._check_rank(len(indices), "indices")
        given = dict(zip(self.initial_indices, indices, strict=True))
        simplify = (analyzer or Analyzer()).simplify
        return [simplify(substitute(e, given)) for e in self.final_indices]

    def map_ranges(self, ranges: Sequence[pe.Range]) -> list[pe.Range]:
        """Boxes that contain the image of a box."""
        self._check_rank(len(ranges), "ranges")
        loops: dict[pe.Var, Any] = {}
        analyzer = Analyzer()
        for var, r in zip(self.initial_indices, ranges, strict=True):
            loops[var] = (r.min, r.last)
            analyzer.bind(var, r)

        def block(node: pe.FloorMod) -> pe.Var | None:
            """The whole block axis, even if the box covers only part of it."""
            if not isinstance(node.b, pe.IntImm):
                return None
            inner = pe.Var("block", node.dtype)
            loops[inner] = (const(0, node.dtype), const(node.b.value - 1, node.dtype))
            return inner

        mapped = []
        for expr in map(Analyzer().simplify, self.final_indices):  # without the ranges: see block
            bound = bounds_of(rewrite(expr, {pe.FloorMod: block}), loops)
            if bound is None:
                what = "the range of an index map's result is not known"
                raise ValueError(explain(what, got=str(expr)))
            low, high = analyzer.simplify(bound[0]), analyzer.simplify(bound[1])
            mapped.append(pe.Range.from_min_extent(low, analyzer.simplify(high - low + 1)))
        return mapped

    def map_shape(self, shape: Sequence[Any]) -> list[pe.PrimExpr]:
        """The shape of a buffer in the new layout; partial blocks count as whole ones."""
        extents = [convert(s) for s in shape]
        return [r.min + r.extent for r in self.map_ranges([pe.Range(e) for e in extents])]

    def map_ndarray(self, arr_src: Any) -> np.ndarray:
        """A numpy array in the new layout; padding is 0."""
        source = np.asarray(arr_src)
        shape: list[Any] = self.map_shape(source.shape)
        grid = np.indices(source.shape, sparse=True)
        known = dict(zip(self.initial_indices, grid, strict=True))
        target = np.zeros([int(s) for s in shape], source.dtype)
        target[tuple(_evaluate(e, known) for e in self.final_indices)] = source
        return target

    def inverse(self, shape: Any) -> IndexMap:
        """The map back, for indices in `shape`. Raises ValueError if some index of the new
        layout has no source (see `non_surjective_inverse`)."""
        if self.inverse_index_map is not None:
            return self.inverse_index_map
        inverted, padded = self.non_surjective_inverse(shape)
        if not (isinstance(padded, pe.IntImm) and not padded.value):
            what = "the index map is not bijective for this shape"
            got = f"padding where {padded}"
            raise ValueError(explain(what, got=got, instead="use non_surjective_inverse"))
        return inverted

    def non_surjective_inverse(self, shape: Any) -> tuple[IndexMap, pe.PrimExpr]:
        """(the inverse map, the condition on the new indices that holds in padding).

        Works for splits, fusions and permutations; a fusion split again across the old
        boundaries must be bijective. Raises ValueError for other maps.
        """
        ranges = [s if isinstance(s, pe.Range) else pe.Range(convert(s)) for s in shape]
        self._check_rank(len(ranges), "extents")
        extents = {v: r.extent for v, r in zip(self.initial_indices, ranges, strict=True)}
        try:
            rows = [_digits(e, extents) for e in self.final_indices]
        except ValueError:
            inverted = self._bijective_inverse(extents)
            if inverted is None:
                raise
            return inverted, const(False, "bool")
        dtype = self.initial_indices[0].dtype if self.initial_indices else "int64"
        outs = [pe.Var(f"axis{n}", dtype) for n in range(len(rows))]
        pieces: dict[pe.Var, list[tuple[int, Any, pe.PrimExpr]]] = {
            v: [] for v in self.initial_indices
        }
        for out, row in zip(outs, rows, strict=True):
            scale = 1
            for n, (var, lower, extent) in enumerate(reversed(row)):
                value: pe.PrimExpr = floordiv(out, scale) if scale != 1 else out
                if n + 1 < len(row):
                    value = floormod(value, extent)
                    scale *= extent
                pieces[var].append((lower, extent, value))
        analyzer = Analyzer()
        for out, extent in zip(outs, self.map_shape([r.extent for r in ranges]), strict=True):
            analyzer.bind(out, pe.Range(extent))
        back, padded = [], const(False, "bool")
        for var in self.initial_indices:
            value, over = _assemble(var, pieces[var], extents[var])
            back.append(analyzer.simplify(value))
            if over:
                padded = logical_or(padded, convert(extents[var]) <= back[-1])
        return IndexMap(outs, back), analyzer.simplify(padded)

    def _bijective_inverse(self, extents: dict[pe.Var, pe.PrimExpr]) -> IndexMap | None:
        """The inverse map, if the indices are one to one, by the general analysis of iterations."""
        ranges = {v: pe.Range(const(0, v.dtype), cast(v.dtype, e)) for v, e in extents.items()}
        iter_map = detect_iter_map(self.final_indices, ranges, check_level="bijective")
        if iter_map.errors:
            return None
        outs = [pe.Var(f"axis{n}", e.dtype) for n, e in enumerate(self.final_indices)]
        back = inverse_affine_iter_map(iter_map.indices, outs)
        if any(v not in back for v in self.initial_indices):
            return None
        return IndexMap(outs, [back[v] for v in self.initial_indices])

    def _check_rank(self, count: int, what: str) -> None:
        if count != len(self.initial_indices):
            text = f"the index map takes {len(self.initial_indices)} {what}"
            raise ValueError(explain(text, got=count))


Digit = tuple[pe.Var, int, Any]  # ((var // lower) % extent); extent an int or an expression


def _variables(fn: Callable[..., Any], ndim: int | None, dtype: str) -> list[pe.Var]:
    names: list[str] = []
    rest = None
    for p in inspect.signature(fn).parameters.values():
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
        elif p.kind is p.VAR_POSITIONAL:
            rest = p.name
        elif p.kind is p.KEYWORD_ONLY and p.default is p.empty:
            what = "an index map's function takes indices by position"
            raise ValueError(explain(what, got=f"keyword-only {p.name}"))
    if rest is not None:
        if ndim is None:
            what = f"the number of indices in *{rest} is not known"
            raise ValueError(explain(what, instead="pass ndim="))
        names += [f"{rest}_{n}" for n in range(ndim - len(names))]
    return [pe.Var(name, dtype) for name in names]


def _retyped(expr: pe.PrimExpr, fresh: dict[pe.Var, pe.Var], dtype: str) -> Any:
    """The expression with other variables; its integer literals take their type."""

    def leaf(node: Any) -> Any:
        if isinstance(node, pe.IntImm) and node.dtype != "bool":
            return const(node.value, dtype)
        if isinstance(node, pe.Cast) and node.value.dtype == dtype:
            return node.value
        return fresh.get(node) if isinstance(node, pe.Var) else None

    return rewrite(expr, leaf)


def _refuse(expr: pe.PrimExpr) -> Any:
    what = "only splits, fusions and permutations of indices have an inverse here"
    raise ValueError(explain(what, got=str(expr), instead="pass inverse_index_map"))


def _digits(expr: pe.PrimExpr, extents: dict[pe.Var, pe.PrimExpr]) -> list[Digit]:
    """The expression as digits of a mixed-radix number, most significant first."""
    if isinstance(expr, pe.Var) and expr in extents:
        extent = extents[expr]
        return [(expr, 1, extent.value if isinstance(extent, pe.IntImm) else extent)]
    if is_zero(expr):
        return []
    if isinstance(expr, (pe.FloorDiv, pe.FloorMod)) and isinstance(expr.b, pe.IntImm):
        keep, low = _split(_digits(expr.a, extents), expr.b.value, expr)
        return keep if isinstance(expr, pe.FloorDiv) else low
    if isinstance(expr, pe.Add):
        return _fuse(expr, extents)
    return _refuse(expr)


def _split(row: list[Digit], base: int, expr: pe.PrimExpr) -> tuple[list[Digit], list[Digit]]:
    """(digits of row // base, digits of row % base)"""
    low: list[Digit] = []
    rest, row = base, list(row)
    while row and rest > 1:
        var, lower, extent = row.pop()
        whole = isinstance(extent, int)
        if whole and rest % extent == 0 and rest >= extent:
            low.insert(0, (var, lower, extent))
            rest //= extent
            continue
        if whole and extent < rest:
            if row:
                _refuse(expr)
            low.insert(0, (var, lower, rest))  # the number is less than its base
            return [], low
        if row and not (whole and extent % rest == 0):
            _refuse(expr)
        over = -(-extent // rest) if whole else floordiv(extent + (rest - 1), rest)
        low.insert(0, (var, lower, rest))
        row.append((var, lower * rest, over))
        rest = 1
    if rest > 1 and low:  # the number is less than its base: the rest is padding
        var, lower, extent = low[0]
        low[0] = (var, lower, extent * rest)
    return row, low


def _fuse(expr: pe.Add, extents: dict[pe.Var, pe.PrimExpr]) -> list[Digit]:
    for high, low in ((expr.a, expr.b), (expr.b, expr.a)):
        if isinstance(high, pe.Mul) and isinstance(high.b, pe.IntImm):
            right = _digits(low, extents)
            size = 1
            for _, _, extent in right:
                if not isinstance(extent, int):
                    _refuse(expr)
                size *= extent
            if size == high.b.value:
                return _digits(high.a, extents) + right
        if isinstance(high, pe.Add) and isinstance(low, pe.PrimExpr):  # a*12 + b*4 + c
            factored = _common_factor(high, low, extents)
            if factored is not None:
                return factored
    return _refuse(expr)


def _common_factor(
    high: pe.PrimExpr, low: pe.PrimExpr, extents: dict[pe.Var, pe.PrimExpr]
) -> list[Digit] | None:
    right = _digits(low, extents)
    size = 1
    for _, _, extent in right:
        if not isinstance(extent, int):
            return None
        size *= extent
    divided = Analyzer().simplify(floordiv(high, size))
    exact = Analyzer().can_prove_equal(multiply(divided, size), high)
    return _digits(divided, extents) + right if exact else None


def _assemble(
    var: pe.Var, pieces: list[tuple[int, Any, pe.PrimExpr]], extent: Any
) -> tuple[pe.PrimExpr, bool]:
    """(the variable from its digits, whether the digits exceed its extent)"""
    size = extent.value if isinstance(extent, pe.IntImm) else extent
    if not pieces and size == 1:
        return const(0, var.dtype), False
    total: pe.PrimExpr = const(0, var.dtype)
    reach: Any = 1
    for n, (lower, count, value) in enumerate(sorted(pieces, key=lambda piece: piece[0])):
        if lower != reach:
            _refuse(var)
        total = add(multiply(value, lower), total) if n else value
        reach = lower * count if isinstance(count, int) else multiply(count, lower)
    if not pieces:
        _refuse(var)
    if isinstance(reach, int) and isinstance(size, int):
        if reach < size:
            _refuse(var)
        return total, reach > size
    return total, not Analyzer().can_prove_equal(reach, size)


NUMPY: dict[type, Callable[[Any, Any], Any]] = {
    pe.Add: np.add,
    pe.Sub: np.subtract,
    pe.Mul: np.multiply,
    pe.FloorDiv: np.floor_divide,
    pe.FloorMod: np.mod,
    pe.Min: np.minimum,
    pe.Max: np.maximum,
}


def _evaluate(expr: Any, known: dict[pe.Var, Any]) -> Any:
    if isinstance(expr, pe.IntImm):
        return expr.value
    if isinstance(expr, pe.Var):
        return known[expr]
    rule = NUMPY.get(type(expr))
    if rule is None:
        return _refuse(expr)
    return rule(_evaluate(expr.a, known), _evaluate(expr.b, known))


__all__ = ["IndexMap"]
