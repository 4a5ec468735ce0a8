"""CallTIRRewrite: makes destination passing explicit.

The outputs of call_tir, call_tir_inplace and call_dps_packed are allocated, and the callee is
called with them after its inputs. Runs on functions without dataflow blocks.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func
          def exp(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
              for i in range(T.int64(4)):
                  with T.block("y"):
                      vi = T.axis.spatial(T.int64(4), i)
                      y[vi] = T.exp(x[vi])

          @R.function
          def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              R.func_attr({"relax.force_pure": True})
              cls = Module
    -         gv = R.call_tir(cls.exp, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))
    +         alloc: R.Tensor((4,), dtype="float32") = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
    +         cls.exp(x, alloc)
    +         gv: R.Tensor((4,), dtype="float32") = alloc
              return gv
"""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ....ir.expr import GlobalVar
from ....ir.transform import IRModule, ModulePass, PassContext
from ...expr import Call, Function, ShapeExpr, Tuple
from ...functor import GraphRewriter
from ...op.base import CALL_DPS_PACKED, CALL_TIR_INPLACE
from ...op.storage import builtin_alloc_tensor, vm_call_tir_dyn
from ...struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from ..queries import call_fields, is_tir_call


class CallTIRRewrite(ModulePass):
    """Allocate outputs and call kernels with them."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        work = _Rewriter(mod)
        for gvar, func in list(mod.functions.items()):
            if isinstance(func, Function):
                work.update(gvar, work.function(func))
        return work.builder.get()


class _Rewriter(GraphRewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.devices = list(mod.global_infos.get("vdevice", ()))

    def call(self, call: Call) -> Any:
        if not is_tir_call(call) and call.op is not CALL_DPS_PACKED:
            return call
        info = call.sinfo_args[0]
        inputs = list(call_fields(call))
        if isinstance(call.args[1].struct_info, TupleStructInfo) and not isinstance(
            call.args[1], Tuple
        ):
            inputs = [self.builder.normalize_argument(f) for f in call.args[1]]
        inplace: list[int] = []
        if call.op is CALL_TIR_INPLACE:
            inplace = list(call.attrs.inplace_indices)
        outs: list[Any] = []
        allocated: list[Any] = []
        result = self.allocate(call, info, inputs, inplace, outs, allocated)
        callee = call.args[0]
        args = [*inputs, *allocated]
        if len(call.args) > 2:
            shape = call.args[2]
            kernel = isinstance(callee, GlobalVar)
            if kernel and isinstance(shape, ShapeExpr):
                new: Any = vm_call_tir_dyn(callee, [*args, shape])
            else:
                new = Call(callee, [*args, shape])
        else:
            new = Call(callee, args)
        self.builder.emit(new.with_span(call.span), "_")
        return result

    def allocate(
        self,
        call: Call,
        info: StructInfo,
        inputs: list[Any],
        inplace: list[int],
        outs: list[Any],
        allocated: list[Any],
    ) -> Any:
        """The outputs as one value; the allocated ones are appended to `allocated`."""
        if isinstance(info, TupleStructInfo):
            fields = [self.allocate(call, f, inputs, inplace, outs, allocated) for f in info.fields]
            return Tuple(fields)
        at = inplace[len(outs)] if inplace else -1
        var = inputs[at] if at >= 0 else self.alloc(call, info)
        if at < 0:
            allocated.append(var)
        outs.append(var)
        return var

    def alloc(self, call: Call, info: StructInfo) -> Any:
        if not isinstance(info, TensorStructInfo) or info.shape is None:
            what = f"{call.op.name} cannot allocate its output"
            hint = "state the shape in out_sinfo"
            raise ValueError(explain(what, got=str(info), instead=hint, span=call.span))
        index, scope = 0, "global"
        if info.vdevice is not None:
            scope = info.vdevice.memory_scope
            same = [n for n, d in enumerate(self.devices) if d is info.vdevice]
            index = same[0] if same else info.vdevice.vdevice_id
        tensor = builtin_alloc_tensor(info.shape, info.dtype, index, scope)
        return self.builder.emit(tensor.with_span(call.span), "alloc")
