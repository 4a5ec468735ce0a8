"""AlterOpImpl: replaces kernels by the user's, whose buffers may have other layouts.

Pass::

    AlterOpImpl({"relax.twice": create_relax_prim_func([
        x := placeholder((2, 4), "float32", "x"),
        compute((2, 4), lambda i, j: x[i, j] + x[i, j], "y"),
    ])}, {"relax.twice": [lambda i: (i // 4, i % 4)] * 2})

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func(private=True)
          def twice(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
              T.func_attr({"operator_name": "relax.twice"})
              for i in range(8):
                  with T.block("y"):
                      vi = T.axis.remap("S", [i])
                      y[vi] = x[vi] * T.float32(2)

    +     @T.prim_func(private=True)
    +     def relax_twice_replacement(x: T.Buffer((T.int64(2), T.int64(4)), "float32"), y: T.Buffer((T.int64(2), T.int64(4)), "float32")):
    +         T.func_attr({"operator_name": "relax.twice", "tir.noalias": True})
    +         for i, j in T.grid(T.int64(2), T.int64(4)):
    +             with T.block("y"):
    +                 vi, vj = T.axis.remap("SS", [i, j])
    +                 y[vi, vj] = x[vi, vj] + x[vi, vj]
    +
          @R.function
          def main(x: R.Tensor((8,), dtype="float32")) -> R.Tensor((8,), dtype="float32"):
              cls = Module
              with R.dataflow():
    -             gv = R.call_tir(cls.twice, (x,), out_sinfo=R.Tensor((8,), dtype="float32"))
    +             lv: R.Tensor((2, 4), dtype="float32") = R.layout_transform(x, index_map=lambda i: (i // 4, i % 4))
    +             lv1 = R.call_tir(cls.relax_twice_replacement, (lv,), out_sinfo=R.Tensor((2, 4), dtype="float32"))
    +             gv: R.Tensor((8,), dtype="float32") = R.layout_transform(lv1, index_map=lambda i, j: (i * 4 + j,))
                  R.output(gv)
              return gv

A kernel is chosen by its attribute `operator_name`. Where a layout pads a result, a kernel
`remove_pad` takes the padding away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...base.errors import explain
from ...ir.literals import is_zero
from ...ir.prim_expr import Range, Var
from ...ir.prim_op import const
from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax import op as relax_op
from ...relax.functor import GraphRewriter
from ...relax.struct_info import TensorStructInfo, TupleStructInfo
from ...relax.transform.queries import call_fields, is_tir_call
from ...te import compute, placeholder
from ...te.prim_func import create_relax_prim_func
from ...tir.function import PrimFunc
from ...tir.index_map import IndexMap

OPERATOR = "operator_name"


class AlterOpImpl(ModulePass):
    """Replaces kernels by the user's, whose buffers may have other layouts. All tables are by
    operator name.

    op_impl_map: the kernel that is called from now on.
    op_buffer_transforms: for each buffer of the kernel, inputs first, an `IndexMap` or a function from the
        indices of the old kernel's buffer to those of the new one's; None: as it is.
    op_buffer_axis_separators, op_buffer_input_axis_separators: for each buffer, the
        attributes of its `layout_transform`.
    """

    op_impl_map: Mapping[str, PrimFunc]
    op_buffer_transforms: Mapping[str, Sequence[Any]]
    op_buffer_axis_separators: Mapping[str, Any] = field(default_factory=dict)
    op_buffer_input_axis_separators: Mapping[str, Any] = field(default_factory=dict)

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return _Replacer(mod, self).run()


@dataclass(frozen=True)
class _Layout:
    """How a buffer's layout changes."""

    index_map: IndexMap | None
    separators: Any
    input_separators: Any

    def info(self, info: TensorStructInfo) -> TensorStructInfo:
        """The struct info of a tensor in the new layout."""
        if self.index_map is None:
            return info
        return TensorStructInfo(self.index_map.map_shape(_dims(info)), info.dtype)

    def applied(self, tensor: rx.Expr, index_map: IndexMap | None) -> Any:
        if index_map is None or tensor.struct_info.ndim == 0:
            return tensor
        separators = self.separators, self.input_separators
        return relax_op.layout_transform(tensor, index_map, None, *separators)


class _Replacer(GraphRewriter):
    def __init__(self, mod: IRModule, tables: AlterOpImpl) -> None:
        super().__init__(mod)
        self.tables = tables

    def call(self, call: rx.Call) -> Any:
        if not is_tir_call(call) or not isinstance(call.args[0], rx.GlobalVar):
            return call
        kernel = self.mod.get(call.args[0]) if self.mod is not None else None
        name = str(getattr(kernel, "attrs", {}).get(OPERATOR, ""))
        if name not in self.tables.op_impl_map:
            return call
        inputs, out = call_fields(call), call.sinfo_args[0]
        outs: tuple[Any, ...] = out.fields if isinstance(out, TupleStructInfo) else (out,)
        layouts = self.layouts(name, len(inputs) + len(outs), call)
        args = [t.applied(x, t.index_map) for x, t in zip(inputs, layouts, strict=False)]
        behind = layouts[len(inputs) :]
        infos: list[Any] = [t.info(info) for t, info in zip(behind, outs, strict=True)]
        info = TupleStructInfo(infos) if isinstance(out, TupleStructInfo) else infos[0]
        operands = (self.kernel(name), rx.Tuple(args), *call.args[2:])
        new = call.replace(args=operands, sinfo_args=(info,)).with_span(call.span)
        if all(t.index_map is None for t in behind):
            return new
        value = self.builder.emit(new)
        if not isinstance(out, TupleStructInfo):
            return self.restored(value, behind[0], outs[0])
        parts = [rx.TupleGetItem(value, n) for n in range(len(outs))]
        triples = zip(parts, behind, outs, strict=True)
        return rx.Tuple([self.restored(*t) for t in triples])

    def kernel(self, name: str) -> rx.GlobalVar:
        """The new kernel of an operator, in the module."""
        func = self.tables.op_impl_map[name].without_attr("global_symbol").with_attr(OPERATOR, name)
        return self.builder.add_func(func, f"{name.replace('.', '_')}_replacement")

    def layouts(self, name: str, count: int, call: rx.Call) -> list[_Layout]:
        """Those of the buffers of an operator's kernel."""
        tables = self.tables
        maps = list(tables.op_buffer_transforms.get(name) or [None] * count)
        columns = [maps]
        for table in (tables.op_buffer_axis_separators, tables.op_buffer_input_axis_separators):
            columns.append(list(table.get(name) or [None] * count))
        if any(len(column) != count for column in columns):
            what = f"AlterOpImpl: {name} has {count} buffers"
            got = f"layouts and separators of {', '.join(str(len(c)) for c in columns)}"
            hint = "give one for each input, then one for each result; None where nothing changes"
            raise ValueError(explain(what, got=got, instead=hint, span=call.span))
        rows = zip(*columns, strict=True)
        return [_Layout(_index_map(m), s or None, i or None) for m, s, i in rows]

    def restored(self, value: rx.Expr, layout: _Layout, info: TensorStructInfo) -> Any:
        """A result of the new kernel in the layout of the old one."""
        if layout.index_map is None:
            return value
        dims = _dims(info)
        ranges = [Range.from_min_extent(const(0, "int64"), d) for d in dims]
        inverse, padded = layout.index_map.non_surjective_inverse(ranges)
        back = layout.applied(value, inverse)
        if is_zero(padded):
            return back
        whole = self.builder.emit(back)
        kernel = self.builder.add_func(_remove_pad(len(dims), str(info.dtype)), "remove_pad")
        return relax_op.call_tir(kernel, [whole], info)


def _index_map(mapping: Any) -> IndexMap | None:
    """The user's index map of a buffer; separators count in their own table."""
    if isinstance(mapping, (list, tuple)):
        mapping = mapping[0]
    if mapping is None or isinstance(mapping, IndexMap):
        return mapping
    return IndexMap.from_func_with_separators(mapping)[0]


def _dims(info: TensorStructInfo) -> Sequence[Any]:
    dims = info.get_shape()
    if dims is None:
        what = "AlterOpImpl changes the layout of a tensor whose shape is not known"
        raise ValueError(explain(what, got=str(info), instead="annotate the shape"))
    return dims


def _remove_pad(ndim: int, dtype: str) -> PrimFunc:
    """The kernel that copies the leading elements along each axis, up to its result's extents."""
    source = placeholder([Var(f"p{k}", "int64") for k in range(ndim)], dtype, "input")
    sizes = [Var(f"i{k}", "int64") for k in range(ndim)]
    result = compute(sizes, lambda *i: source(*i), "output")
    return create_relax_prim_func([source, result]).with_attr(OPERATOR, "remove_pad")
