"""UpdateParamStructInfo: parameters get other struct infos; those of their uses follow.

Pass::

    UpdateParamStructInfo(lambda var: type(var.struct_info)((4,), "float16"))

Before (-) and after (+)::

      @R.function
    - def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    -     gv: R.Tensor((4,), dtype="float32") = R.exp(x)
    + def main(x: R.Tensor((4,), dtype="float16")) -> R.Tensor((4,), dtype="float16"):
    +     gv: R.Tensor((4,), dtype="float16") = R.exp(x)
          return gv
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax.functor import GraphRewriter
from ...relax.struct_info import StructInfo
from ...relax.transform.queries import functions_of


class UpdateParamStructInfo(ModulePass, repr=False):
    """Parameters get other struct infos; those of their uses follow.

    sinfo_func: called with each parameter; its new struct info, or None to leave it.
    """

    sinfo_func: Callable[[rx.Var], StructInfo | None]

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        work = GraphRewriter(mod)
        for gvar, func in functions_of(mod):
            infos = [self.sinfo_func(param) for param in func.params]
            if any(info is not None for info in infos):
                params = tuple(
                    param if info is None else rx.Var(param.name_hint, info, param.span)
                    for param, info in zip(func.params, infos, strict=True)
                )
                work.update(gvar, work.with_params(func, params))
        return work.builder.get()
