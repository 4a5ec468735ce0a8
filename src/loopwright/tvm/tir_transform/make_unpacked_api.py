"""`MakeUnpackedAPI`: public functions get the signature of a C function: pointers, and a code of
errors.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func
    -     def main(A: T.Buffer((4,), "float32")):
    -         T.func_attr({"target": T.target("cuda", host="llvm")})
    -         A[0] = T.float32(1)
    +     def main(A_data: T.handle("float32", "global")) -> T.int32:
    +         T.func_attr({"target": T.target("llvm")})
    +         A = T.Buffer((4,), data=A_data)
    +         T.attr("default", "device_id", 0)
    +         T.attr("default", "device_type", 2)
    +         A[0] = T.float32(1)
    +         return 0

A function then belongs to its target's host; one whose target has no host stays as it is, and so do
private functions and those with a calling convention. The tensors that calls of public functions pass
(`T.tvm_stack_make_array`) become their pointers. Symbolic dimensions are the last parameters, as
`UnpackSignatures` has them, which the pipelines of this package use instead.
"""

from __future__ import annotations

from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType
from ...ir.expr import GlobalVar
from ...ir.prim_expr import Call, PrimType
from ...ir.prim_op import const
from ...ir.target import Target
from ...ir.transform import IRModule, Pass, PassContext
from ...tir.function import PrimFunc
from ...tir.op import is_call_to, ret
from ...tir.stmt import AttrStmt, Evaluate, Stmt, seq
from ...tir.transform.base import StmtRewriter
from ...tir.transform.lower.unpack_signatures import unpacked_params


class _Calls(StmtRewriter):
    """Calls of public functions pass pointers and return an int32."""

    def __init__(self, public: set[GlobalVar]) -> None:
        self.public = public

    def visit_Call(self, node: Call) -> Any:
        call = self.visit_default(node)
        if call.op not in self.public:
            return call
        args = [a.args[0] if is_call_to(a, "tvm_stack_make_array") else a for a in call.args]
        return call.replace(dtype=DataType("int32"), args=tuple(args))


def _unpacked(func: PrimFunc, target: Target) -> PrimFunc:
    body: Stmt = seq(func.body, Evaluate(ret(const(0, "int32"))))
    if func.buffer_map:
        kind = const(target.get_target_device_type(), "int32")
        for key, value in (("device_type", kind), ("device_id", const(0, "int32"))):
            body = AttrStmt("default", key, value, body)
    host = func.replace(
        params=unpacked_params(func), buffer_map={}, body=body, ret_type=PrimType(DataType("int32"))
    )
    return host.with_attr("target", target.host)


class MakeUnpackedAPI(Pass):
    """Public functions get the signature of a C function: pointers, and a code of errors. Raises
    LoopwrightError for a public function without a target."""

    name = "tir.MakeUnpackedAPI"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        functions = {g: f for g, f in mod.functions.items() if isinstance(f, PrimFunc)}
        public = {g for g, f in functions.items() if "global_symbol" in f.attrs}
        calls = _Calls(public)
        unpacked: dict[GlobalVar, Any] = {}
        for gvar, func in functions.items():
            func = func.replace(body=calls.visit(func.body))
            if gvar in public and not func.attrs.get("calling_conv"):
                func = self.public(func, gvar)
            unpacked[gvar] = func
        return mod.replace(functions={**mod.functions, **unpacked})

    def public(self, func: PrimFunc, gvar: GlobalVar) -> PrimFunc:
        """A public function with its new signature."""
        target = func.attrs.get("target")
        if target is None:
            what = f"MakeUnpackedAPI needs the target of function {gvar.name_hint}"
            hint = "run tir.transform.BindTarget(target) before"
            tvm = "MakeUnpackedAPI required the function to be annotated with tvm::attr::kTarget"
            raise LoopwrightError(explain(what, instead=hint, span=func.span, tvm=tvm))
        return func if target.host is None else _unpacked(func, target)
