"""`LowerDeviceKernelLaunch`: turns calls of functions for another device into launches: the name,
the arguments, and the numbers of blocks and threads.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func
          def main(A: T.handle("float32", "global"), n: T.int32):
              T.func_attr({"global_symbol": "main", "target": T.target("llvm")})
    -         Module.kernel(A, n)
    +         T.call_packed("kernel", A, n, n, 4)

    -     @T.prim_func(private=True)
    +     @T.prim_func
          def kernel(A: T.handle("float32", "global"), n: T.int32):
    -         T.func_attr({"target": T.target("cuda")})
    +         T.func_attr({"target": T.target("cuda"), "global_symbol": "kernel", "calling_conv": 2, "tir.kernel_launch_params": ["blockIdx.x", "threadIdx.x"], "tir.is_global_func": True})
              A_1 = T.Buffer((n * 4,), data=A)
              bx = T.launch_thread("blockIdx.x", n)
              tx = T.launch_thread("threadIdx.x", 4)
              A_1[bx * 4 + tx] = T.float32(0)

A function for another target on the same kind of device is called as a C function. Dynamic shared
memory (scope "shared.dyn") is a launch parameter too, "tir.use_dyn_shared_memory", in bytes. It
runs after `SplitHostDevice`; a function whose target has a host runs on that host.
"""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ....ir.expr import GlobalVar
from ....ir.prim_expr import Call, IntImm, IterVar, PrimExpr, StringImm, Var
from ....ir.prim_op import const, multiply
from ....ir.target import Target
from ....ir.transform import IRModule, Pass, PassContext
from ...function import PrimFunc
from ...stmt import Allocate, AttrStmt, Evaluate, Stmt
from ...stmt_functor import substitute
from ..base import StmtRewriter, StmtVisitor

DYNAMIC = "tir.use_dyn_shared_memory"


class _Launch(StmtVisitor):
    """The launch parameters of a kernel: the extents of its threads by tag, in order of
    appearance."""

    def __init__(self) -> None:
        self.extents: dict[str, PrimExpr] = {}

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        if node.attr_key == "thread_extent" and isinstance(node.node, IterVar):
            self.extents.setdefault(node.node.thread_tag, node.value)
        self.visit(node.body)

    def visit_Allocate(self, node: Allocate) -> None:
        kind = node.buffer_var.type_annotation
        if kind is not None and kind[1] == "shared.dyn":
            if DYNAMIC in self.extents:
                what = "a kernel has one allocation of dynamic shared memory"
                hint = "MergeSharedMemoryAllocations makes one of several"
                raise ValueError(explain(what, got=node.buffer_var.name, instead=hint))
            size: PrimExpr = const(1, "int32")
            for extent in node.extents:
                size = multiply(size, extent)
            item = node.dtype.lane_bytes * node.dtype.lanes
            self.extents[DYNAMIC] = multiply(size, const(item, size.dtype))
        self.visit(node.body)


class _Calls(StmtRewriter):
    """The calls of one function, with the kernels that they launch."""

    def __init__(self, target: Target | None, mod: IRModule, names: dict[str, str]) -> None:
        self.target, self.mod, self.names = target, mod, names
        self.launched: dict[str, list[str]] = {}
        self.external: set[str] = set()

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        call = node.value
        if not isinstance(call, Call) or not isinstance(call.op, GlobalVar):
            return self.visit_default(node)
        functions = {var.name_hint: func for var, func in self.mod.functions.items()}
        name = call.op.name_hint
        func = functions.get(name)
        if not isinstance(func, PrimFunc):
            return node
        target = func.attrs.get("target")
        if target is None or self.target is None or target == self.target:
            return node
        device = target.get_target_device_type()
        if device == self.target.get_target_device_type() or self.target.kind.name == "c":
            self.external.add(name)
            args = [StringImm(self.names[name]), *call.args]
            return node.replace(value=Call(call.dtype, "tir.call_extern", args))
        launch = _Launch()
        launch.visit(func.body)
        values = dict(zip(func.params, call.args, strict=True))
        extents = [self.outside(e, values, name) for e in launch.extents.values()]
        self.launched[name] = list(launch.extents)
        args = [StringImm(self.names[name]), *call.args, *extents]
        return node.replace(value=Call("int32", "tir.call_packed", args))

    def outside(self, extent: PrimExpr, values: dict[Var, Any], name: str) -> PrimExpr:
        """An extent in terms of the arguments."""
        return extent if isinstance(extent, IntImm) else substitute(extent, values)


class LowerDeviceKernelLaunch(Pass):
    """Turns calls of functions for another device into launches."""

    name = "tir.LowerDeviceKernelLaunch"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        names = {
            v.name_hint: f.attrs.get("global_symbol", v.name_hint) for v, f in mod.functions.items()
        }
        functions: dict[GlobalVar, Any] = {}
        launched: dict[str, list[str]] = {}
        external: set[str] = set()
        for var, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                target = func.attrs.get("target")
                own = None if target is None else target.host or target
                calls = _Calls(own, mod, names)
                func = func.replace(body=calls.visit(func.body))
                launched.update(calls.launched)
                external |= calls.external
            functions[var] = func
        for var, func in functions.items():
            name = var.name_hint
            if name in launched:
                attrs = {
                    "global_symbol": names[name],
                    "calling_conv": 2,
                    "tir.kernel_launch_params": launched[name],
                    "tir.is_global_func": True,
                }
                functions[var] = func.with_attrs(attrs)
            elif name in external:
                attrs = {"global_symbol": names[name], "tir.is_global_func": True}
                functions[var] = func.with_attrs(attrs)
        return mod.replace(functions=functions)
