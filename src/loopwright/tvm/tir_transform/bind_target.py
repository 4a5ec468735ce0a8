"""`BindTarget`: sets the target of each PrimFunc that has none.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4,), "float32")):
    +     T.func_attr({"target": T.target("llvm")})
          A[0] = T.float32(1)

Pass::

    BindTarget("llvm")

A function with a `global_symbol` also has the target's host, for how it is called; one that only its
module calls has not.
"""

from __future__ import annotations

from typing import Any

from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...ir.target import Target
from ...tir.function import PrimFunc
from ...tir.transform.base import PrimFuncPass


class BindTarget(PrimFuncPass):
    """`target`: a Target or its text; by default the current one."""

    target: Any = None

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        own = func.attrs.get("target")
        requested = Target(self.target) if self.target is not None else Target.current()
        exposed = "global_symbol" in func.attrs
        if own is not None:
            if (
                exposed
                and own.host is None
                and requested is not None
                and requested.host is not None
            ):
                return func.with_attr("target", own.with_host(requested.host))
            return func
        requested = requested or Target.current(allow_none=False)
        if "tir.is_host_func" in func.attrs:
            host = requested.host or Target("llvm")
            return func.without_attr("tir.is_host_func").with_attr("target", host.with_host(host))
        return func.with_attr("target", requested if exposed else requested.replace(host=None))
