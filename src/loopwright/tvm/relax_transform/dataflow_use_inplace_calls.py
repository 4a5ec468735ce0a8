"""DataflowUseInplaceCalls: elementwise operators write over an argument that is not used again.

Before::

    @R.function
    def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        with R.dataflow():
            y: R.Tensor((4,), dtype="float32") = R.exp(x)
            z: R.Tensor((4,), dtype="float32") = R.negative(y)
            R.output(z)
        return z

After::

    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def negative_inplace(x: T.Buffer((T.int64(4),), "float32")):
            T.func_attr({"tir.noalias": True})
            for i0 in range(T.int64(4)):
                with T.block("compute"):
                    v_i0 = T.axis.spatial(T.int64(4), i0)
                    x[v_i0] = x[v_i0] * T.float32(-1.0)

        @R.function
        def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
            cls = Module
            with R.dataflow():
                y: R.Tensor((4,), dtype="float32") = R.exp(x)
                z: R.Tensor((4,), dtype="float32") = R.call_tir_inplace(cls.negative_inplace, (y,), out_sinfo=R.Tensor((4,), dtype="float32"), inplace_indices=[0])
                R.output(z)
            return z

Parameters, constants and values from outside of the dataflow block are not written over, nor what
may share their memory (`relax.analysis.in_place`). The kernels are those of LegalizeOps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import explain
from ...ir.module import IRModule
from ...ir.transform import ModulePass, PassContext
from ...relax import expr as rx
from ...relax.analysis.in_place import in_place_calls
from ...relax.block_builder import BlockBuilder
from ...relax.functor import GraphRewriter
from ...relax.op.base import CALL_TIR, call_tir_inplace
from ...relax.transform.graph.legalize import LegalizeOps
from ...relax.transform.queries import bindings_of, call_fields
from ...tir.function import PrimFunc
from ...tir.stmt_functor import substitute_buffers


@dataclass(frozen=True, repr=False)
class DataflowUseInplaceCalls(ModulePass):
    """Elementwise operators write over an argument that is not used again."""

    name = "DataflowUseInplaceCalls"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return _Overwriter(mod).run()


class _Overwriter(GraphRewriter):
    inputs: tuple[rx.Var, ...] = ()
    chosen: dict[rx.Var, int] = {}  # of a block: which argument is written over

    def function(self, func: rx.Function) -> rx.Function:
        outer, self.inputs = self.inputs, func.params
        new = super().function(func)
        self.inputs = outer
        return new

    def block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        self.chosen = {}
        if isinstance(block, rx.DataflowBlock):
            for index, args in in_place_calls(block, self.inputs):
                self.chosen[block.bindings[index].var] = max(args)
        return super().block(block)

    def binding(self, binding: Any) -> None:
        index = self.chosen.get(binding.var)
        if index is None:
            super().binding(binding)
            return
        new = in_place(self.builder, binding.value, index)
        self.emit(binding, binding.value if new is None else self.value(new))


def in_place(builder: BlockBuilder, call: rx.Call, index: int) -> rx.Call | None:
    """The call with its result written over an argument; its kernel is added to the builder's
    module. None if the operator has no such kernel."""
    own = [rx.Var(f"arg{i}", arg.struct_info) for i, arg in enumerate(call.args)]
    args = [v if isinstance(a, rx.Var) else a for v, a in zip(own, call.args, strict=True)]
    inner = BlockBuilder()
    with inner.function("main", own):
        result = inner.emit(call.replace(args=tuple(args)))
        inner.emit_func_output(result)
    mod = LegalizeOps()(inner.get())
    values: list[Any] = [binding.value for binding in bindings_of(mod["main"])]
    kernel = mod.get(values[0].args[0]) if getattr(values[0], "op", None) is CALL_TIR else None
    if len(values) != 1 or not isinstance(kernel, PrimFunc) or len(values[0].args) > 2:
        return None
    fields = call_fields(values[0])
    if own[index] not in fields:
        return None
    overwritten = fields.index(own[index])
    gvar = builder.add_func(over(kernel, overwritten), f"{call.op.name.split('.')[-1]}_inplace")
    tensors = [call.args[own.index(f)] if f in own else f for f in fields]
    return call_tir_inplace(gvar, tensors, [overwritten], values[0].sinfo_args[0])


def over(kernel: PrimFunc, index: int) -> PrimFunc:
    """A kernel of one result that it writes over an input."""
    *inputs, output = kernel.buffers
    target = inputs[index]
    params = [p for p in kernel.params if kernel.buffer_map.get(p) is not output]
    views = {p: b for p, b in kernel.buffer_map.items() if b is not output}
    body = substitute_buffers(kernel.body, {output: target})
    return PrimFunc(params, body, kernel.ret_type, views, kernel.attrs, kernel.span)


def with_call_in_place(
    mod: IRModule, call: rx.Call, inplace_indices: Sequence[int]
) -> tuple[rx.Call, IRModule]:
    """A call that writes over its argument of the one index, and the module with its kernel.

    Raises ValueError for several indices, or an operator that has no such kernel.
    """
    builder = BlockBuilder(mod)
    new = in_place(builder, call, inplace_indices[0]) if len(inplace_indices) == 1 else None
    if new is None:
        what = "this call cannot write over these arguments"
        raise ValueError(explain(what, got=f"{call}, {list(inplace_indices)}"))
    return new, builder.get()
