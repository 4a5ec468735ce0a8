"""MergeLayoutChanges: two rearrangements in a row become one, or none.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor((2, 3, 4), dtype="float32")) -> R.Tensor((2, 3, 4), dtype="float32"):
              with R.dataflow():
                  lv = R.exp(x)
    -             lv1 = R.permute_dims(lv, axes=[0, 2, 1])
    -             lv2 = R.permute_dims(lv1, axes=[0, 2, 1])
    +             lv2: R.Tensor((2, 3, 4), dtype="float32") = lv
                  gv = R.exp(lv2)
                  R.output(gv)
              return gv

Permutations and reshapes are merged; a layout_transform vanishes with its inverse, written as
another one or as a permutation, where nothing is padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....arith import Analyzer
from ....ir.op import Op
from ....ir.prim_expr import PrimExpr, Range, Var
from ....ir.prim_op import const
from ....ir.transform import IRModule, ModulePass, PassContext
from ....tir.index_map import IndexMap
from ... import op as relax_op
from ...expr import Call, Function
from ...functor import GraphRewriter
from .dead_code import clean

LAYOUT_CHANGES = ("relax.layout_transform", "relax.permute_dims", "relax.reshape")


class _Merge(GraphRewriter):
    def call(self, call: Call) -> Any:
        kind = _kind(call)
        inner = self.definition(call.args[0]) if kind else None
        inner = inner if _kind(inner) else None
        shape = None if inner is None else inner.args[0].struct_info.get_shape()
        if inner is not None and shape is not None:
            source: Any = inner.args[0]
            if kind == "relax.reshape" == _kind(inner):
                call = relax_op.reshape(source, call.args[1]).with_span(call.span)
            elif kind == "relax.permute_dims" == _kind(inner):
                first = _axes(inner)
                axes = [first[k] for k in _axes(call)]
                call = relax_op.permute_dims(source, axes).with_span(call.span)
            elif _is_identity(_index_map(inner), _index_map(call), shape):
                return source
        return call.args[0] if self.changes_nothing(call) else call

    def changes_nothing(self, call: Call) -> bool:
        """Whether a permutation leaves all axes in place, or a reshape keeps the shape."""
        if _kind(call) == "relax.permute_dims":
            return _axes(call) == sorted(_axes(call))
        if _kind(call) != "relax.reshape":
            return False
        old, new = (v.struct_info.get_shape() for v in (call.args[0], self.builder.normalize(call)))
        comparable = old is not None and new is not None and len(old) == len(new)
        return comparable and all(map(Analyzer().can_prove_equal, old or (), new or ()))


def _kind(call: Call | None) -> str:
    name = call.op.name if isinstance(call, Call) and isinstance(call.op, Op) else ""
    return name if name in LAYOUT_CHANGES else ""


def _axes(call: Call) -> list[int]:
    ndim, axes = call.args[0].struct_info.ndim, call.attrs.axes
    return [int(a) % ndim for a in axes] if axes is not None else [*reversed(range(ndim))]


def _index_map(call: Call) -> IndexMap | None:
    """The target index of each element of a permutation or a layout_transform."""
    if _kind(call) == "relax.layout_transform":
        return call.attrs.index_map
    if _kind(call) == "relax.permute_dims":
        axes = _axes(call)
        return IndexMap.from_func(lambda *i: [i[a] for a in axes], ndim=len(axes))
    return None


def _is_identity(
    first: IndexMap | None, second: IndexMap | None, shape: Sequence[PrimExpr]
) -> bool:
    """Whether both maps together leave a tensor of this shape unchanged. An equal number of elements means that
    no padding was added in between."""
    if first is None or second is None:
        return False
    analyzer, indices = Analyzer(), [Var(f"i{k}", "int64") for k in range(len(shape))]
    for index, extent in zip(indices, shape, strict=True):
        analyzer.bind(index, Range.from_min_extent(const(0, "int64"), extent))
    middle = first.with_dtype("int64").map_indices(indices, analyzer)
    final = second.with_dtype("int64").map_indices(middle, analyzer)
    sizes = [shape, first.map_shape(shape)]
    sizes.append(second.map_shape(sizes[1]))
    counts = [analyzer.simplify(_product(dims)) for dims in sizes]
    prove = analyzer.can_prove_equal
    same = len(final) == len(indices) and all(map(prove, final, indices))
    return same and prove(counts[0], counts[1]) and all(map(prove, shape, sizes[2]))


def _product(dims: Sequence[PrimExpr]) -> Any:
    total = const(1, "int64")
    for dim in dims:
        total = total * dim
    return total


class MergeLayoutChanges(ModulePass):
    """Merges consecutive permutations, reshapes and layout transforms."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        changed = {}
        for gvar, func in mod.functions.items():
            if isinstance(func, Function):
                merged = _Merge(mod).function(func)
                changed[gvar] = func if merged is func else clean(merged)
        return mod.with_functions(changed)
