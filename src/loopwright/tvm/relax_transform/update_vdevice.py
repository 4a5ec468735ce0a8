"""UpdateVDevice: another device replaces one of the module's virtual devices.

Pass::

    UpdateVDevice(VDevice("metal"), 0)

Before (-) and after (+)::

      @I.ir_module
      class Module:
    -     I.module_global_infos({"vdevice": [I.vdevice("cuda")]})
    +     I.module_global_infos({"vdevice": [I.vdevice("metal")]})

          @R.function
    -     def main(x: R.Tensor((4,), dtype="float32", vdevice="cuda:0")) -> R.Tensor((4,), dtype="float32", vdevice="cuda:0"):
    -         gv: R.Tensor((4,), dtype="float32", vdevice="cuda:0") = R.exp(x)
    +     def main(x: R.Tensor((4,), dtype="float32", vdevice="metal:0")) -> R.Tensor((4,), dtype="float32", vdevice="metal:0"):
    +         gv: R.Tensor((4,), dtype="float32", vdevice="metal:0") = R.exp(x)
              return gv
"""

from __future__ import annotations

from typing import Any

from ...base.errors import explain
from ...ir.expr import Attrs
from ...ir.module import GlobalInfo, IRModule, VDevice
from ...ir.structural import structural_equal
from ...ir.transform import ModulePass, PassContext
from ...relax import expr as rx
from ...relax.block_builder import BlockBuilder
from ...relax.specialize import ReplaceVars
from ...relax.struct_info import TensorStructInfo
from ...relax.transform.queries import functions_of


class UpdateVDevice(ModulePass, repr=False):
    """Another device replaces one of the module's virtual devices.

    index: which of the module's devices `new_vdevice` replaces. Raises ValueError where it has no
        device of that number.
    """

    new_vdevice: VDevice
    index: int

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        devices = list(mod.global_infos.get("vdevice", ()))
        if not 0 <= self.index < len(devices):
            what = f"UpdateVDevice: the module has {len(devices)} virtual devices"
            raise ValueError(explain(what, got=f"index {self.index}"))
        old, devices[self.index] = devices[self.index], self.new_vdevice
        functions = dict(mod.functions)
        for gvar, func in functions_of(mod):
            new: Any = _Moved(old, self.new_vdevice).visit(func)
            if new is not func:
                body = BlockBuilder(mod).normalize(new).body
                functions[gvar] = rx.Function(
                    new.params, body, None, new.is_pure, new.attrs, new.span
                )
        infos = {**mod.global_infos, "vdevice": devices}
        return IRModule(functions, mod.attrs, infos, mod.span)


class _Moved(ReplaceVars):
    def __init__(self, old: GlobalInfo, new: VDevice) -> None:
        super().__init__({})
        self.old, self.new = old, new

    def moved(self, device: VDevice) -> Any:
        return self.new if device is not None and structural_equal(device, self.old) else device

    def visit_TensorStructInfo(self, info: TensorStructInfo) -> Any:
        new: Any = self.visit_default(info)
        device = self.moved(new.vdevice)
        return new if device is new.vdevice else new.replace(vdevice=device)

    def visit_Attrs(self, attrs: Attrs) -> Any:
        if attrs.get("dst_vdevice") is None:
            return attrs
        device = self.moved(attrs.dst_vdevice)
        if device is attrs.dst_vdevice:
            return attrs
        return Attrs(attrs.key, {**attrs.values, "dst_vdevice": device})
