"""Calls of operators whose kernels write over an argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import explain
from ...ir.module import IRModule
from ...relax import expr as rx
from ...relax.block_builder import BlockBuilder
from ...relax.op.base import CALL_TIR, call_tir_inplace
from ...relax.transform.graph.legalize import LegalizeOps
from ...relax.transform.queries import bindings_of, call_fields
from ...tir.function import PrimFunc
from ...tir.stmt_functor import substitute_buffers


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
