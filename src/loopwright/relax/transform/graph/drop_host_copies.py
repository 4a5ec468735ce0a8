"""DropHostCopies: removes R.to_vdevice between devices that both use the host's memory.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("c")]})

          @R.function
          def main(x: R.Tensor((2, 3), dtype="float32", vdevice="llvm:0")) -> R.Tensor((2, 3), dtype="float32", vdevice="c:0"):
              with R.dataflow():
    -             lv: R.Tensor((2, 3), dtype="float32", vdevice="c:0") = R.to_vdevice(x, dst_vdevice="c:0")
    +             lv: R.Tensor((2, 3), dtype="float32", vdevice="llvm:0") = x
                  gv = R.call_dps_packed("f", (lv,), out_sinfo=R.Tensor((2, 3), dtype="float32", vdevice="c:0"))
                  R.output(gv)
              return gv

It runs after all operators are lowered: until then the device selects an operator's rules.
"""

from __future__ import annotations

from typing import Any

from ....ir.module import VDevice
from ...expr import Call
from ...functor import GraphRewriter
from ...op.base import TO_VDEVICE
from ..decorators import RewriterPass


class _Copies(GraphRewriter):
    def call(self, call: Call) -> Any:
        if call.op is not TO_VDEVICE:
            return call
        source = call.args[0]
        near = _on_host(source.struct_info.vdevice) and _on_host(call.attrs.dst_vdevice)
        return source if near else call


def _on_host(device: VDevice | None) -> bool:
    """Whether a device's tensors are in the host's memory."""
    if device is None:
        return True
    target = device.target
    plain = device.memory_scope in ("", "global")
    return plain and (target is None or target.device_type == "cpu")


class DropHostCopies(RewriterPass):
    """Use the source tensor directly if both devices are in host memory."""

    rewriter = _Copies
