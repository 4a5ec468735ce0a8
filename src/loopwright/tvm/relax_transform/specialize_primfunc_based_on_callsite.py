"""SpecializePrimFuncBasedOnCallSite: kernels know the memory scopes of the tensors that they get.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          I.module_global_infos({"vdevice": [I.vdevice("opencl", 0, "global.texture")]})

          @T.prim_func(private=True)
    -     def exp(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
    +     def exp1(x: T.Buffer((T.int64(4),), "float32", scope="global.texture"), y: T.Buffer((T.int64(4),), "float32")):
              for i in range(T.int64(4)):
                  with T.block("y"):
                      vi = T.axis.spatial(T.int64(4), i)
                      y[vi] = T.exp(x[vi])

          @R.function
          def main(x: R.Tensor((4,), dtype="float32", vdevice="opencl:0")) -> R.Tensor((4,), dtype="float32"):
              cls = Module
    -         gv = R.call_tir(cls.exp, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))
    +         gv = R.call_tir(cls.exp1, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))
              return gv

A tensor's scope is that of its virtual device. Calls with the same scopes share a kernel.
"""

from __future__ import annotations

from typing import Any

from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax.functor import GraphRewriter
from ...relax.op.base import CALL_TIR
from ...relax.struct_info import TensorStructInfo
from ...relax.transform.graph.dead_code import DeadCodeElimination
from ...relax.transform.queries import call_fields, tensor_fields
from ...tir.buffer import Buffer
from ...tir.function import PrimFunc
from ...tir.stmt_functor import substitute_buffers


class SpecializePrimFuncBasedOnCallSite(ModulePass):
    """Kernels know the memory scopes of the tensors that they get."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        new = _Specializer(mod).run()
        return mod if new is mod else DeadCodeElimination(keep_packed=True)(new)


class _Specializer(GraphRewriter):
    def call(self, call: rx.Call) -> Any:
        kernel = self.mod.get(call.args[0]) if call.op is CALL_TIR and self.mod else None
        if not isinstance(kernel, PrimFunc):
            return call
        infos = [info for field in call_fields(call) for info in tensor_fields(field.struct_info)]
        infos += [info for out in call.sinfo_args for info in tensor_fields(out)]
        tensors = [info for info in infos if isinstance(info, TensorStructInfo)]
        changed: dict[Buffer, Buffer] = {}
        for buffer, info in zip(kernel.buffers, tensors, strict=False):
            scope = None if info.vdevice is None else info.vdevice.memory_scope
            if scope and scope != buffer.scope():
                changed[buffer] = _in_scope(buffer, scope)
        if not changed:
            return call
        views = {p: changed.get(b, b) for p, b in kernel.buffer_map.items()}
        new = kernel.replace(buffer_map=views, body=substitute_buffers(kernel.body, changed))
        gvar = self.builder.add_func(new, call.args[0].name_hint)
        return call.replace(args=(gvar, *call.args[1:]))


def _in_scope(buffer: Buffer, scope: str) -> Buffer:
    storage = "int8" if buffer.dtype.is_bool else str(buffer.dtype)
    data = type(buffer.data)(buffer.data.name, "handle", type_annotation=(storage, scope))
    return buffer.replace(data=data)
