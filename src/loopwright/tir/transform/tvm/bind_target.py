"""`BindTarget`: sets the target of each PrimFunc that has none.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4,), "float32")):
    +     T.func_attr({"target": T.target("llvm")})
          A[0] = T.float32(1)

Pass::

    BindTarget("llvm")
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....ir.target import Target
from ...function import PrimFunc
from .._base import PrimFuncPass


@dataclass(frozen=True)
class BindTarget(PrimFuncPass):
    """`target`: a Target or its text; by default the current one."""

    name = "tir.BindTarget"
    target: Any = None

    def run_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        if "target" in func.attrs:
            return func
        target = Target.current(allow_none=False) if self.target is None else Target(self.target)
        if "tir.is_host_func" in func.attrs:
            host = target.host or Target("llvm")
            func, target = func.without_attr("tir.is_host_func"), host.with_host(host)
        return func.with_attr("target", target)


__all__ = ["BindTarget"]
