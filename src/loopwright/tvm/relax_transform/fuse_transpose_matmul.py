"""FuseTransposeMatmul: a product with a transposed matrix becomes one kernel that reads the matrix
as it is stored.

Before (-) and after (+)::

      @I.ir_module
      class Module:
    +     @T.prim_func(private=True)
    +     def NT_matmul(x: T.Buffer((T.int64(8), T.int64(16)), "float32"), w: T.Buffer((T.int64(4), T.int64(16)), "float32"), NT_matmul: T.Buffer((T.int64(8), T.int64(4)), "float32")):
    +         T.func_attr({"tir.noalias": True})
    +         for i0, i1, k in T.grid(T.int64(8), T.int64(4), T.int64(16)):
    +             with T.block("NT_matmul"):
    +                 v_i0, v_i1, v_k = T.axis.remap("SSR", [i0, i1, k])
    +                 T.reads(x[v_i0, v_k], w[v_i1, v_k])
    +                 T.writes(NT_matmul[v_i0, v_i1])
    +                 with T.init():
    +                     NT_matmul[v_i0, v_i1] = T.float32(0)
    +                 NT_matmul[v_i0, v_i1] = NT_matmul[v_i0, v_i1] + x[v_i0, v_k] * w[v_i1, v_k]
    +
          @R.function
          def main(x: R.Tensor((8, 16), dtype="float32"), w: R.Tensor((4, 16), dtype="float32")) -> R.Tensor((8, 4), dtype="float32"):
    +         cls = Module
              with R.dataflow():
    -             wT: R.Tensor((16, 4), dtype="float32") = R.permute_dims(w, axes=[1, 0])
    -             o: R.Tensor((8, 4), dtype="float32") = R.matmul(x, wT)
    +             o = R.call_tir(cls.NT_matmul, (x, w), out_sinfo=R.Tensor((8, 4), dtype="float32"))
                  R.output(o)
              return o

The kernel is that of `matmul`, whose definition reads the second matrix with its last two axes
exchanged.
"""

from __future__ import annotations

from typing import Any

from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax.transform.products import is_call, shape_of, transposes
from ...relax.transform.rewriting import SweepingRewriter
from ...te import ComputeOp, Tensor

NAME = "NT_matmul"


class FuseTransposeMatmul(ModulePass):
    """A product with a transposed matrix becomes one kernel that reads the matrix as it is
    stored."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return _Fuse(mod).run()


class _Fuse(SweepingRewriter):
    def call(self, call: rx.Call) -> Any:
        if not is_call(call, "relax.matmul"):
            return call
        permuted = self.definition(call.args[1])
        if not is_call(permuted, "relax.permute_dims") or not transposes(permuted):
            return call
        if shape_of(call) is None or call.struct_info.dtype.is_void:
            return call
        matmul = call.op.get_attr("definition")

        def multiplied(x: Tensor, w: Tensor) -> Tensor:
            product = matmul(x, _Transposed(w), out_dtype=call.struct_info.dtype)
            op = product.op
            if op.name != matmul.te_name:  # rounded to another type at the end
                return product
            return ComputeOp(NAME, op.tag, op.attrs, op.axis, op.body).output(0)

        return self.builder.call_te(
            multiplied, call.args[0], permuted.args[0], primfunc_name_hint=NAME
        )


class _Transposed:
    """A matrix, or a batch of them, as an operator's body reads it transposed."""

    def __init__(self, matrix: Tensor) -> None:
        *batch, rows, columns = matrix.shape
        self.matrix = matrix
        self.shape = (*batch, columns, rows)
        self.dtype = matrix.dtype

    def __call__(self, *indices: Any) -> Any:
        *batch, row, column = indices
        return self.matrix(*batch, column, row)
