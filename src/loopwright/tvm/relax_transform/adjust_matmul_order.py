"""AdjustMatmulOrder: a product of three matrices begins with the pair that makes it cheaper.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((16,), dtype="float32"), A: R.Tensor((16, "r"), dtype="float32"), B: R.Tensor(("r", 32), dtype="float32")) -> R.Tensor((32,), dtype="float32"):
          r = T.int64()
    -     weight: R.Tensor((16, 32), dtype="float32") = R.matmul(A, B)
    -     out: R.Tensor((32,), dtype="float32") = R.matmul(x, weight)
    +     gv: R.Tensor((r,), dtype="float32") = R.matmul(x, A)
    +     out: R.Tensor((32,), dtype="float32") = R.matmul(gv, B)
          return out

The product of two may be transposed in between. Two weights, known at compile time (`num_input`), come
first. Otherwise the multiplications decide, counted for one matrix of a batch; where they are symbolic
(with bounds from `tir_var_upper_bound`), what cannot be proved to be less stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product as choices
from typing import Any

from ...arith import Analyzer
from ...ir.prim_expr import PrimExpr, Range, Var
from ...ir.prim_op import const
from ...ir.variables import vars_in
from ...relax import expr as rx
from ...relax.analysis.variables import computable_at_compile_time
from ...relax.dpl.pattern import wildcard
from ...relax.transform.products import keeps_dtype, product, shape_of, transposed, transposes
from ...relax.transform.rewriting import PatternPass, calls

MANY = 1 << 31  # no dimension is larger, for the proofs


class AdjustMatmulOrder(PatternPass):
    """A product of three matrices begins with the pair that makes it cheaper."""

    def rules(self, func: rx.Function) -> list[Any]:
        a, b, c = wildcard(), wildcard(), wildcard()
        ab, bc = calls("matmul", a, b), calls("matmul", b, c)
        ba_permuted, cb_permuted = calls("permute_dims", ab), calls("permute_dims", bc)
        order = _Order(func)
        return [
            (calls("matmul", ab, c), _Rule(order, ab, None, (a, b, c), True)),
            (calls("matmul", a, bc), _Rule(order, bc, None, (a, b, c), False)),
            (calls("matmul", ba_permuted, c), _Rule(order, ab, ba_permuted, (b, a, c), True)),
            (calls("matmul", a, cb_permuted), _Rule(order, bc, cb_permuted, (a, c, b), False)),
        ]


@dataclass(frozen=True)
class _Factor:
    """One of the three matrices; `transposed`: it is to be transposed."""

    value: Any
    transposed: bool
    early: bool

    def dims(self) -> list[Any]:
        """Its last two dimensions, or the one of a vector."""
        dims = list((shape_of(self.value) or ())[-2:])
        return dims[::-1] if self.transposed else dims

    def expr(self) -> Any:
        return transposed(self.value) if self.transposed else self.value


@dataclass(frozen=True)
class _Rule:
    """Replaces a product of three by another order of it, where that is better.

    pair: the pattern of the product of two; transposed: of its transposition, if there is one.
    factors: the patterns of the three, in the order in which they are multiplied.
    left_first: whether the pair is the left two.
    """

    order: _Order
    pair: Any
    transposed: Any
    factors: tuple[Any, Any, Any]
    left_first: bool

    def __call__(self, value: rx.Call, m: dict[Any, Any]) -> Any:
        two = self.factors[:2] if self.left_first else self.factors[1:]
        transposed_factors = two if self.transposed is not None else ()
        a, b, c = (
            _Factor(m[p], p in transposed_factors, self.order.knows(m[p])) for p in self.factors
        )
        ranks = [x.value.struct_info.ndim for x in (a, b, c)]
        if min(ranks) < 1 or ranks[1] < 2 or not (keeps_dtype(value) and keeps_dtype(m[self.pair])):
            return None
        if min(ranks[0], ranks[2]) == 1 and ranks[1] > 2:
            return None  # the axes of the batch would be taken for those of the matrix
        if transposed_factors and not (
            transposes(m[self.transposed]) and min(m[p].struct_info.ndim for p in two) > 1
        ):
            return None
        better = self.order.left_is_better(a, b, c)
        if better is None or better is self.left_first:
            return None
        if self.left_first:
            return product(a.expr(), product(b.expr(), c.expr()))
        return product(product(a.expr(), b.expr()), c.expr())


class _Order:
    """Which order is better, in a function."""

    def __init__(self, func: rx.Function) -> None:
        self.early = set(computable_at_compile_time(func))
        self.bounds = dict(func.attrs.get("tir_var_upper_bound") or {})

    def knows(self, value: rx.Expr) -> bool:
        """Whether a value is known at compile time."""
        return value in self.early or isinstance(value, rx.Constant)

    def left_is_better(self, a: _Factor, b: _Factor, c: _Factor) -> bool | None:
        """Whether `(a b) c` is better than `a (b c)`; None: not known."""
        if a.early and b.early and c.early:
            return None
        if a.early and b.early:
            return True
        if b.early and c.early:
            return False
        middle = b.dims()
        if len(middle) < 2 or not (a.dims() and c.dims()):
            return None
        one = const(1, "int64")
        rows = a.dims()[0] if len(a.dims()) == 2 else one
        columns = c.dims()[1] if len(c.dims()) == 2 else one
        dims = (rows, *middle, columns)
        if self.always(lambda m, k, p, q: (m * k * p + m * p * q, k * p * q + m * k * q), dims):
            return True
        if self.always(lambda m, k, p, q: (k * p * q + m * k * q, m * k * p + m * p * q), dims):
            return False
        return None

    def always(self, costs: Callable[..., Any], dims: tuple[Any, ...]) -> bool:
        """Whether the first cost is less than the second for all dimensions of at least 1.

        Both are linear in each of the four, so that for one with a bound its least and greatest value
        cover all in between.
        """
        analyzer = Analyzer()
        for var in vars_in(rx.ShapeExpr(dims)):
            analyzer.bind(var, Range.from_min_extent(const(1, "int64"), const(MANY, "int64")))
        ends = [self.ends(dim) for dim in dims]
        return all(analyzer.can_prove_less(*costs(*values)) for values in choices(*ends))

    def ends(self, dim: PrimExpr) -> list[Any]:
        """The least and the greatest value of a dimension that has a bound; else itself."""
        if not isinstance(dim, Var) or self.bounds.get(dim.name) is None:
            return [dim]
        return [const(1, "int64"), const(int(self.bounds[dim.name]), "int64")]
