"""LowerRuntimeBuiltin: lowers runtime operators to calls of the virtual machine's builtins.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((6,), dtype="float32"):
          R.func_attr({"relax.force_pure": True})
    -     gv: R.Tensor((6,), dtype="float32") = R.reshape(x, R.shape([6]))
    +     gv: R.Tensor((6,), dtype="float32") = R.call_packed("vm.builtin.reshape", x, R.shape([6]), sinfo_args=(R.Tensor((6,), dtype="float32"),))
          return gv
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base.errors import LoopwrightError, explain
from ....ir.op import Op
from ....ir.serialize import save_json
from ....runtime.device import Device
from ...expr import Call, DataTypeImm, ExternFunc, PrimValue, ShapeExpr, StringImm, Tuple
from ...functor import GraphRewriter
from ...op.base import call_builtin_with_ctx, call_packed, tensor_argument
from ...op.storage import (
    BUILTIN_ALLOC_TENSOR,
    INFER_VIEW,
    MEMORY_ALLOC_STORAGE,
    MEMORY_ALLOC_TENSOR,
    MEMORY_KILL_STORAGE,
    MEMORY_KILL_TENSOR,
    optional,
    vm_alloc_storage,
    vm_alloc_tensor,
    vm_kill_object,
)
from ...struct_info import FuncStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo
from ..decorators import RewriterPass


class _Lower(GraphRewriter):
    def call(self, call: Call) -> Any:
        if not isinstance(call.op, Op):
            return call
        rule = _RULES.get(call.op.name)
        if rule is not None:
            return rule(self, call)
        packed = call.op.get_attr("FCallPacked")
        if packed is not None:
            return _packed(packed)(self, call)
        return _by_numpy(self, call) if self._without_rank(call) else call

    def _without_rank(self, call: Call) -> bool:
        """Whether an operator has no kernel because a rank is known at run time only."""
        infos = (getattr(a, "struct_info", None) for a in [*call.args, call])
        unknown = any(isinstance(i, TensorStructInfo) and i.ndim < 0 for i in infos)
        return unknown and call.op.get_attr("FNumpy") is not None

    def info(self, call: Call) -> Any:
        """The struct info of a call."""
        return call.struct_info or self.builder.normalize(call).struct_info


Rule = Callable[[_Lower, Call], Any]


def _packed(name: str) -> Rule:
    """A rule that passes the same arguments to a packed function."""

    def lower(work: _Lower, call: Call) -> Any:
        return call_packed(name, *call.args, sinfo_args=[work.info(call)])

    return lower


def _storage(work: _Lower, call: Call) -> Any:
    size, device, scope, _ = call.args
    return vm_alloc_storage(size, device, "uint8", scope)


def _tensor(work: _Lower, call: Call) -> Any:
    return vm_alloc_tensor(*call.args)


def _too_late(work: _Lower, call: Call) -> Any:
    what = "builtin.alloc_tensor is to be gone before LowerRuntimeBuiltin"
    raise LoopwrightError(explain(what, instead="run LowerAllocTensor first", span=call.span))


def _kill(work: _Lower, call: Call) -> Any:
    return vm_kill_object(call.args[0])


def _pure_packed(work: _Lower, call: Call) -> Any:
    return Call(call.args[0], call.args[1:], call.attrs, call.sinfo_args)


def _closure(work: _Lower, call: Call) -> Any:
    func, args = call.args
    name = getattr(func, "name_hint", None) or getattr(func, "global_symbol", "")
    fields = args.fields if isinstance(args, Tuple) else list(args)
    call_args = Tuple([StringImm(name), *fields])
    return call_builtin_with_ctx("vm.builtin.make_closure", call_args, sinfo_args=[work.info(call)])


def _invoke(work: _Lower, call: Call) -> Any:
    closure, args = call.args
    fields = args.fields if isinstance(args, Tuple) else list(args)
    return call_builtin_with_ctx(
        "vm.builtin.invoke_closure", Tuple([closure, *fields]), sinfo_args=call.sinfo_args
    )


def _to_device(work: _Lower, call: Call) -> Any:
    device = call.attrs.dst_vdevice
    kind = "cpu" if device.target is None else device.target.device_type
    code = Device(kind, device.vdevice_id).dlpack_device_type()
    args = [call.args[0], PrimValue(code), PrimValue(device.vdevice_id)]
    return call_packed("vm.builtin.to_device", *args, sinfo_args=[work.info(call)])


def _view(work: _Lower, call: Call) -> Any:
    """The data itself if the view changes nothing; else a view with all properties explicit."""
    data, shape, dtype, offset = call.args
    info = tensor_argument(call)
    if all(optional(arg) is None for arg in (shape, dtype, offset)):
        return data
    if optional(shape) is None:
        shape = info.shape
        if not isinstance(shape, ShapeExpr):
            of_rank = ShapeStructInfo(ndim=info.ndim)
            shape = call_packed("vm.builtin.shape_of", data, sinfo_args=[of_rank])
    if optional(dtype) is None:
        if info.dtype.is_void:
            what = "memory.view of a tensor whose data type is not known"
            raise LoopwrightError(explain(what, instead="give the view's dtype", span=call.span))
        dtype = DataTypeImm(info.dtype)
    offset = PrimValue(0) if optional(offset) is None else offset
    derived = FuncStructInfo.opaque_func(derive_func=INFER_VIEW, purity=True)
    return Call(ExternFunc("runtime.TVMArrayCreateView", derived), [data, shape, dtype, offset])


def _by_numpy(work: _Lower, call: Call) -> Any:
    attrs = StringImm(save_json(dict(call.attrs.items()) if call.attrs is not None else {}))
    args = [StringImm(call.op.name), attrs, *call.args]
    return call_packed("relax.run.operator", *args, sinfo_args=[work.info(call)])


def _tuple_or_void(name: str) -> Rule:
    def lower(work: _Lower, call: Call) -> Any:
        return call_packed(name, *call.args, sinfo_args=[TupleStructInfo([])])

    return lower


_RULES: dict[str, Rule] = {
    BUILTIN_ALLOC_TENSOR.name: _too_late,
    MEMORY_ALLOC_STORAGE.name: _storage,
    MEMORY_ALLOC_TENSOR.name: _tensor,
    MEMORY_KILL_STORAGE.name: _kill,
    MEMORY_KILL_TENSOR.name: _kill,
    "relax.call_pure_packed": _pure_packed,
    "relax.call_inplace_packed": _pure_packed,
    "relax.make_closure": _closure,
    "relax.invoke_closure": _invoke,
    "relax.invoke_pure_closure": _invoke,
    "relax.to_vdevice": _to_device,
    "relax.reshape": _packed("vm.builtin.reshape"),
    "relax.shape_of": _packed("vm.builtin.shape_of"),
    "relax.tensor_to_shape": _packed("vm.builtin.tensor_to_shape"),
    "relax.shape_to_tensor": _packed("relax.run.shape_to_tensor"),
    "relax.null_value": _packed("vm.builtin.null_value"),
    "relax.memory.view": _view,
    "relax.memory.ensure_zero_offset": _packed("vm.builtin.ensure_zero_offset"),
    "relax.print": _tuple_or_void("relax.run.print"),
    "relax.assert_op": _tuple_or_void("relax.run.assert_op"),
}


class LowerRuntimeBuiltin(RewriterPass):
    """Call builtins of the virtual machine.

    An operator with the attribute `FCallPacked` becomes a call of the packed function it names.
    """

    rewriter = _Lower
