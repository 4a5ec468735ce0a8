"""Tensors kept in other layouts from one call to the next, as the hooks of operators plan it: shared by
ConvertLayout and SinkPermutes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.prim_expr import IntImm
from ...tir import BijectiveLayout, Layout
from .. import op as relax_op
from ..expr import Call, DataflowVar, Expr, Tuple, TupleGetItem, Var, VarBinding
from ..layout import (
    LETTERS,
    LayoutPlan,
    LayoutQuery,
    LayoutRewriter,
    is_plain,
    plain,
    rank,
    tensor_arguments,
    with_tensors,
)
from ..struct_info import TensorStructInfo, TupleStructInfo

Layouts = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class _Stored:
    """The replacement of a variable: a tensor, or a tuple of them, and the layout of each."""

    var: Var
    layouts: tuple[Layout | None, ...]


class Converter(LayoutRewriter):
    """Keeps tensors in the layouts that the hooks of operators plan."""

    def __init__(
        self, mod: IRModule, desired: Layouts, callback: Callable[..., Any] | None
    ) -> None:
        super().__init__(mod)
        self.desired = desired
        self.callback = callback

    def laid_out(self, binding: VarBinding) -> _Stored | Expr | None:
        value, hint = binding.value, binding.var.name_hint
        if isinstance(value, TupleGetItem):
            return self.field(value, hint)
        if not isinstance(value, Call):
            return None
        plan = self.plan(value)
        if plan is None:
            return None
        tensors = tensor_arguments(value)
        parts = [self.stored_as(t, layout) for t, layout in zip(tensors, plan.inputs, strict=True)]
        changed = parts[0] if plan.moves_nothing else with_tensors(value, parts, plan)
        if all(is_plain(layout) for layout in plan.outputs):
            return changed
        if isinstance(changed, Var):
            return _Stored(changed, plan.outputs)
        return _Stored(self.builder.emit(changed, hint), plan.outputs)

    def plan(self, call: Call) -> LayoutPlan | None:
        """How a call is computed in another layout; None if it is not."""
        hook = self.hook(call)
        if hook is None:
            return None
        tensors = tensor_arguments(call)
        stored = [self.laid.get(t) if isinstance(t, Var) else None for t in tensors]
        layouts = tuple(None if s is None else s.layouts[0] for s in stored)
        desired = self.callback(call).get(call.op.name) if self.callback else None
        if desired is None:
            desired = self.desired.get(call.op.name, ())
        plan = hook(call, LayoutQuery(layouts, tuple(desired)))
        if plan is None or all(is_plain(layout) for layout in (*plan.inputs, *plan.outputs)):
            return None
        info = call.struct_info
        results = info.fields if isinstance(info, TupleStructInfo) else [info]
        fits = all(map(_fits, plan.inputs, [t.struct_info for t in tensors]))
        return plan if fits and all(map(_fits, plan.outputs, results)) else None

    def field(self, value: TupleGetItem, hint: str) -> _Stored | Expr | None:
        """A field of a tuple of tensors in other layouts."""
        stored = self.laid.get(value.tuple_value) if isinstance(value.tuple_value, Var) else None
        if stored is None:
            return None
        field, layout = TupleGetItem(stored.var, value.index), stored.layouts[value.index]
        if is_plain(layout):
            return field
        return _Stored(self.builder.emit(field, hint), (layout,))

    def restore(self, laid: _Stored) -> Any:
        if not isinstance(laid.var.struct_info, TupleStructInfo):
            return _moved(laid.var, laid.layouts[0], None)
        fields = [TupleGetItem(laid.var, i) for i in range(len(laid.layouts))]
        return Tuple([_moved(f, s, None) for f, s in zip(fields, laid.layouts, strict=True)])

    def stored_as(self, value: Expr, layout: Layout | None) -> Any:
        """A tensor in a layout, converted if it is in another one."""
        laid = self.laid.get(value) if isinstance(value, Var) else None
        if layout is None or is_plain(layout):
            return self.value(value)
        if laid is not None and laid.layouts[0] == layout:
            return laid.var
        key = value, layout
        if key not in self.packed:
            if laid is not None:
                moved = _moved(laid.var, laid.layouts[0], layout)
            else:
                moved = _moved(*self.source(self.value(value), layout))
            if not isinstance(value, Var):
                return moved
            self.packed[key] = self.builder.normalize_argument(moved)
        return self.packed[key]

    def source(self, value: Expr, layout: Layout) -> tuple[Any, Layout | None, Layout]:
        """A plain tensor to be converted, its layout and the desired one; or the tensor that it was
        transposed from."""
        bound = self.builder.lookup_binding(value) if isinstance(value, Var) else None
        if not isinstance(bound, Call) or bound.op is not Op.get("relax.permute_dims"):
            return value, None, layout
        if isinstance(bound.args[0], DataflowVar) and not isinstance(value, DataflowVar):
            return value, None, layout  # from a finished block
        ndim = rank(layout)
        axes = bound.attrs.axes or reversed(range(ndim))
        letters = [LETTERS[axis % ndim] for axis in axes]  # of the tensor before, in order
        return bound.args[0], None, layout.renamed(LETTERS[:ndim], "".join(letters))


def _moved(value: Expr, old: Layout | None, new: Layout | None) -> Any:
    """The expression that converts a tensor from the layout `old` to `new` (None: plain)."""
    ndim = rank(old or new or plain(0))
    old, new = old or plain(ndim), new or plain(ndim)
    if old == new:
        return value
    if not (str(old) + str(new)).isupper():
        index_map = BijectiveLayout(old, new).index_map()
        return relax_op.layout_transform(value, index_map.with_dtype("int32"))
    return relax_op.permute_dims(value, [old.index_of(letter) for letter in new])


def _fits(layout: Layout | None, info: TensorStructInfo) -> bool:
    """Whether blocks of a layout divide a tensor's axes."""
    if layout is None or str(layout).isupper():
        return True
    shape = info.get_shape()
    if shape is None:
        return False
    sizes = [(shape[LETTERS.index(c.upper())], factor) for c, factor in layout.parts if factor > 0]
    return all(isinstance(d, IntImm) and d.value % factor == 0 for d, factor in sizes)
