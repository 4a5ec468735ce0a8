"""`UnpackSignatures`: makes a kernel take pointers for its buffers, and its symbolic dimensions.

Before (-) and after (+)::

      @T.prim_func
    - def main(a: T.handle, k: T.int32):
    -     n = T.int32()
    -     A = T.match_buffer(a, (n,), "float32")
    + def main(A_data: T.handle("float32", "global"), k: T.int32, n: T.int32):
    +     A = T.Buffer((n,), data=A_data)
          for i in range(n):
              A[i] = T.Cast("float32", k)

The parameters keep their order, so a call `Module.main(A.data, k)` is valid before and after.
The symbolic dimensions follow: the variables in shapes, strides and offsets of the parameters'
buffers that are not parameters themselves, by first appearance.
"""

from __future__ import annotations

from ....base.errors import explain
from ....ir.expr import GlobalVar
from ....ir.functor import nodes_of
from ....ir.prim_expr import Call, IntImm, Var
from ....ir.transform import IRModule, PassContext
from ...analysis.liveness import ALIGNMENT as ATTRIBUTE
from ...analysis.liveness import alignment_of
from ...buffer import ALIGNMENT
from ...function import PrimFunc
from ..base import PrimFuncPass, StmtVisitor


def symbolic_dims(func: PrimFunc) -> list[Var]:
    """The variables that the shapes, strides and offsets of the parameters define."""
    dims: dict[Var, None] = {}
    params = set(func.params)
    for buffer in func.buffers:
        offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
        for e in (*buffer.shape, *buffer.strides, *offset):
            if not isinstance(e, IntImm):
                dims.update(dict.fromkeys(v for v in nodes_of(e, Var) if v not in params))
    return list(dims)


def unpacked_params(func: PrimFunc) -> tuple[Var, ...]:
    """The parameters with pointers for buffers, then the symbolic dimensions."""
    params: list[Var] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None and buffer.data in params:
            what = f"two parameters share the memory of buffer {buffer.name}"
            hint = "give each parameter a buffer of its own"
            raise ValueError(explain(what, instead=hint, span=func.span))
        params.append(param if buffer is None else buffer.data)
    return (*params, *symbolic_dims(func))


class _Calls(StmtVisitor):
    """Checks the number of arguments in calls of functions with symbolic dimensions."""

    def __init__(self, functions: dict[GlobalVar, PrimFunc]) -> None:
        self.functions = functions

    def visit_Call(self, node: Call) -> None:
        self.visit(node.args)
        func = self.functions.get(node.op) if isinstance(node.op, GlobalVar) else None
        if func is not None and len(node.args) != len(unpacked_params(func)):
            what = f"{node.op.name_hint} takes another number of arguments"
            got = ", ".join(map(str, node.args)) or "none"
            expected = ", ".join(p.name for p in unpacked_params(func))
            hint = f"pass {expected} (pointers for buffers, symbolic dimensions at the end)"
            raise ValueError(explain(what, got=got, instead=hint, span=node.span))


class UnpackSignatures(PrimFuncPass):
    """Makes a kernel take pointers for its buffers, and its symbolic dimensions."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        functions = {g: f for g, f in mod.functions.items() if isinstance(f, PrimFunc)}
        called = {g: f for g, f in functions.items() if symbolic_dims(f)}
        if called and len(functions) > 1:
            calls = _Calls(called)
            for func in functions.values():
                calls.visit(func.body)
        return super().run(mod, ctx)

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        if func.attrs.get("tir.noalias") and not ctx.option("tir.noalias"):
            func = func.with_attr("tir.noalias", False)
        if not func.buffer_map:
            return func
        if alignment_of(func) > ALIGNMENT:  # pointers do not say it
            func = func.with_attr(ATTRIBUTE, alignment_of(func))
        return func.replace(params=unpacked_params(func), buffer_map={})
