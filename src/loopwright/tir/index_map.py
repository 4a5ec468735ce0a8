"""Index maps: functions from the indices of a buffer to those of another layout."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..arith import Analyzer
from ..base.errors import CallValueError, explain
from ..ir import prim_expr as pe
from ..ir.functor import rewrite
from ..ir.node import Node, as_tuple, define, field
from ..ir.prim_expr import ScalarLike
from ..ir.prim_op import cast, const, convert, convert_all
from ..ir.structural import structural_equal
from ..ir.variables import vars_in
from ..runtime.tensor import Tensor, tensor
from .analysis.bounds import bounds_of
from .index_map_inverse import inverse_of, refuse
from .stmt_functor import substitute

if TYPE_CHECKING:
    pass


class IndexMap(Node):
    """(i, j, ...) -> final_indices, in terms of `initial_indices`."""

    AXIS_SEPARATOR: ClassVar[str] = "axis_separator"
    opens_scope: ClassVar[bool] = True

    initial_indices: tuple[pe.Var, ...] = define(converter=as_tuple)
    final_indices: tuple[pe.PrimExpr, ...] = field(converter=convert_all)
    inverse_index_map: Any = field(default=None)

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any],
        ndim: int | None = None,
        inverse_index_map: Any = None,
        *,
        index_dtype: str = "int64",
    ) -> IndexMap:
        """The map of a Python function from indices to a sequence of expressions.

        `ndim` is needed if the function takes `*args`; keyword-only parameters are the last
        indices. Raises ValueError for axis separators
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
        variables, named = _variables(mapping_function, ndim, index_dtype)
        mapped = mapping_function(*variables, **named)
        variables += named.values()
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
                what = "an index map returns expressions or IndexMap.AXIS_SEPARATOR"
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

    def with_values(self, value: Callable[[Any], Any]) -> IndexMap:
        """The same map with numbers for other variables: `value(v)` is the number for `v`, or `v`
        itself."""
        free = {v for e in self.final_indices for v in vars_in(e)} - set(self.initial_indices)
        table = {v: const(value(v), v.dtype) for v in free if value(v) is not v}
        if not table:
            return self
        final = [Analyzer().simplify(substitute(e, table)) for e in self.final_indices]
        return IndexMap(self.initial_indices, final, self.inverse_index_map, self.span)

    def is_equivalent_to(self, other_map: IndexMap) -> bool:
        """Whether both maps agree on every index."""
        own, others = self.final_indices, other_map.final_indices
        same_rank = len(self.initial_indices) == len(other_map.initial_indices)
        if not same_rank or len(own) != len(others):
            return False
        renamed = other_map.map_indices(self.initial_indices)
        analyzer = Analyzer()
        pairs = zip(own, renamed, strict=True)
        return all(structural_equal(a, b) or analyzer.can_prove_equal(a, b) for a, b in pairs)

    def map_indices(self, indices: Sequence[Any], analyzer: Analyzer | None = None) -> list[Any]:
        """The final indices of `indices`, simplified."""
        self._check_rank(len(indices), "indices")
        mapping = dict(zip(self.initial_indices, indices, strict=True))
        simplify = (analyzer or Analyzer()).simplify
        return [simplify(substitute(e, mapping)) for e in self.final_indices]

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
        dtype = max((e.dtype for e in extents), key=lambda t: t.bits, default="int64")
        mapped = self.map_ranges([pe.Range(e) for e in extents])
        return [cast(dtype, r.min + r.extent) for r in mapped]

    def map_ndarray(self, arr_src: Tensor | np.ndarray | Sequence[Sequence[Sequence[Any]]]) -> Any:
        """An array in the new layout, of numpy or of a Tensor as it came; padding is 0."""
        if isinstance(arr_src, Tensor):
            return tensor(self.map_ndarray(arr_src.numpy()), arr_src.device)
        source = np.asarray(arr_src)
        shape: list[Any] = self.map_shape(source.shape)
        grid = np.indices(source.shape, sparse=True)
        coordinates = dict(zip(self.initial_indices, grid, strict=True))
        target = np.zeros([int(s) for s in shape], source.dtype)
        target[tuple(_evaluate(e, coordinates) for e in self.final_indices)] = source
        return target

    def inverse(self, shape: Sequence[ScalarLike]) -> IndexMap:
        """The map back, for indices in `shape`. Raises ValueError if some index of the new
        layout has no source (see `non_surjective_inverse`)."""
        if self.inverse_index_map is not None:
            return self.inverse_index_map
        inverted, padded = self.non_surjective_inverse(shape)
        if not (isinstance(padded, pe.IntImm) and not padded.value):
            what = "the index map is not bijective for this shape"
            got = f"padding where {padded}"
            raise CallValueError(explain(what, got=got, instead="use non_surjective_inverse"))
        return inverted

    def non_surjective_inverse(self, shape: Sequence[Any]) -> tuple[IndexMap, pe.PrimExpr]:
        """(the inverse map, the condition on the new indices that holds in padding).

        Works for splits, fusions and permutations, of an index or of one plus a constant; a fusion
        split again across the old boundaries must be bijective. Raises ValueError for other maps.
        """
        ranges = [s if isinstance(s, pe.Range) else pe.Range(convert(s)) for s in shape]
        self._check_rank(len(ranges), "extents")
        if ranges and not self.final_indices:
            what = "the index map returns no index"
            raise ValueError(explain(what, got=self, instead="lambda i, j: (j, i)"))
        extents = {v: r.extent for v, r in zip(self.initial_indices, ranges, strict=True)}
        outs, back, padded = inverse_of(
            self.final_indices, extents, self.map_shape([r.extent for r in ranges])
        )
        return IndexMap(outs, back), padded

    def _check_rank(self, count: int, what: str) -> None:
        if count != len(self.initial_indices):
            text = f"the index map takes {len(self.initial_indices)} {what}"
            raise ValueError(explain(text, got=count))


def _variables(
    fn: Callable[..., Any], ndim: int | None, dtype: str
) -> tuple[list[pe.Var], dict[str, pe.Var]]:
    """The variables that a function takes by position, and by name: those come last."""
    first: list[str] = []
    last: list[str] = []
    rest = None
    for p in inspect.signature(fn).parameters.values():
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            first.append(p.name)
        elif p.kind is p.VAR_POSITIONAL:
            rest = p.name
        elif p.kind is p.KEYWORD_ONLY and p.default is p.empty:
            last.append(p.name)
    if rest is not None:
        if ndim is None:
            what = f"the number of indices in *{rest} is not known"
            raise ValueError(explain(what, instead="pass ndim="))
        first += [f"{rest}_{n}" for n in range(ndim - len(first) - len(last))]
    return [pe.Var(n, dtype) for n in first], {n: pe.Var(n, dtype) for n in last}


def _retyped(expr: pe.PrimExpr, fresh: dict[pe.Var, pe.Var], dtype: str) -> Any:
    """The expression with other variables; its integer literals take their type."""

    def leaf(node: pe.PrimExpr) -> Any:
        if isinstance(node, pe.IntImm) and node.dtype != "bool":
            return const(node.value, dtype)
        if isinstance(node, pe.Cast) and node.value.dtype == dtype:
            return node.value
        return fresh.get(node) if isinstance(node, pe.Var) else None

    return rewrite(expr, leaf)


NUMPY: dict[type, Callable[[Any, Any], Any]] = {
    pe.Add: np.add,
    pe.Sub: np.subtract,
    pe.Mul: np.multiply,
    pe.FloorDiv: np.floor_divide,
    pe.FloorMod: np.mod,
    pe.Min: np.minimum,
    pe.Max: np.maximum,
}


def _evaluate(expr: pe.PrimExpr, coordinates: dict[pe.Var, Any]) -> Any:
    if isinstance(expr, pe.IntImm):
        return expr.value
    if isinstance(expr, pe.Var):
        return coordinates[expr]
    rule = NUMPY.get(type(expr))
    if rule is None:
        return refuse(expr)
    return rule(_evaluate(expr.a, coordinates), _evaluate(expr.b, coordinates))
