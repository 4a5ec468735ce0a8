"""RealizeVDevice: every tensor gets a virtual device, from annotations and R.hint_on_device.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda")]})

          @R.function
    -     def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    -         a: R.Tensor((4,), dtype="float32") = R.hint_on_device(x, R.device(1, 0))
    -         b: R.Tensor((4,), dtype="float32") = R.exp(a)
    -         c: R.Tensor((4,), dtype="float32") = R.hint_on_device(b, R.device(2, 0))
    +     def main(x: R.Tensor((4,), dtype="float32", vdevice="llvm:0")) -> R.Tensor((4,), dtype="float32", vdevice="cuda:0"):
    +         a: R.Tensor((4,), dtype="float32", vdevice="llvm:0") = x
    +         b: R.Tensor((4,), dtype="float32", vdevice="llvm:0") = R.exp(a)
    +         c: R.Tensor((4,), dtype="float32", vdevice="cuda:0") = R.to_vdevice(b, dst_vdevice="cuda:0")
              return c

The tensors of an operator are on one device; only R.to_vdevice moves them. A hint says where a
tensor is if nothing else does, and is a copy if it is somewhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...base.errors import explain
from ...ir.expr import GlobalVar
from ...ir.module import IRModule, VDevice
from ...ir.structural import structural_equal
from ...ir.transform import ModulePass, PassContext
from ...relax import expr as rx
from ...relax.analysis.variables import bindings_of
from ...relax.functor import GraphRewriter
from ...relax.op.base import HINT_ON_DEVICE, TO_VDEVICE, to_vdevice
from ...relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from ...relax.transform.queries import functions_of
from ...runtime.device import Device

# A tensor: the variable that holds it, and its place in the variable's tuple.
Tensor = tuple[Any, ...]


class RealizeVDevice(ModulePass):
    """Every tensor gets a virtual device, from annotations and R.hint_on_device. Raises ValueError
    for an operator on several devices."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        devices = _Devices(mod)
        for _, func in functions_of(mod):
            devices.function(func)
        for tensor, device in devices.hints:
            devices.find_or_set(tensor, device)
        work = _Realized(devices.mod, devices)
        for gvar, func in functions_of(mod):
            params = tuple(devices.with_devices(param) for param in func.params)
            if all(a is b for a, b in zip(params, func.params, strict=True)):
                params = func.params
            new = work.with_params(func, params)
            if new is not func:
                body = new.body
                new = rx.Function(params, body, None, func.is_pure, func.attrs, func.span)
                work.update(gvar, new)
        return work.builder.get()


class _Devices:
    """Which tensors are on one device (a union-find), and on which."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.above: dict[Tensor, Tensor] = {}
        self.device: dict[Tensor, VDevice] = {}
        self.hints: list[tuple[Tensor, VDevice]] = []

    def group(self, tensor: Tensor) -> Tensor:
        while tensor in self.above:
            tensor = self.above[tensor]
        return tensor

    def of(self, tensor: Tensor) -> VDevice | None:
        """The device of a tensor."""
        return self.device.get(self.group(tensor))

    def find_or_set(self, tensor: Tensor, device: VDevice) -> VDevice:
        """The device of a tensor; `device` becomes it if it had none."""
        return self.device.setdefault(self.group(tensor), device)

    def put(self, tensor: Tensor, device: VDevice) -> None:
        current = self.find_or_set(tensor, device)
        if not structural_equal(current, device):
            what = f"RealizeVDevice: {tensor[0].name_hint} would be on two devices"
            hint = "move one of the tensors with R.to_vdevice"
            raise ValueError(explain(what, got=f"{current} and {device}", instead=hint))

    def join(self, tensors: list[Tensor | None]) -> None:
        """Tensors that are on one device."""
        groups = [self.group(t) for t in tensors if t is not None]
        for other in groups[1:]:
            first, other = self.group(groups[0]), self.group(other)
            if first != other:
                device = self.device.pop(other, None)
                self.above[other] = first
                if device is not None:
                    self.put(first, device)

    def pair(self, one: list[Tensor | None], other: list[Tensor | None]) -> None:
        for both in zip(one, other, strict=False):
            self.join(list(both))

    def function(self, func: rx.Function) -> None:
        for param in func.params:
            self.annotated(param)
        for binding in bindings_of(func):
            self.annotated(binding.var)
            self.binding(binding.var, binding.value)
        result, info = tensors_of(func.body.body), func.ret_struct_info
        for tensor, (_, leaf) in zip(result, _leaves(info), strict=False):
            if tensor is not None and leaf.vdevice is not None:
                self.put(tensor, leaf.vdevice)

    def annotated(self, var: rx.Var) -> None:
        for path, leaf in _leaves(var.struct_info):
            if leaf.vdevice is not None:
                self.put((var, *path), leaf.vdevice)

    def binding(self, var: rx.Var, value: rx.Expr) -> None:
        results = tensors_of(var)
        if isinstance(value, rx.If):
            for branch in (value.true_branch, value.false_branch):
                self.pair(results, tensors_of(branch.body))
        elif not isinstance(value, rx.Call):
            self.pair(results, tensors_of(value))
        elif value.op is TO_VDEVICE:
            self.put((var,), value.attrs.dst_vdevice)
        elif value.op is HINT_ON_DEVICE:
            self.put((var,), self.hinted(value))
            self.hints += [(t, self.hinted(value)) for t in tensors_of(value.args[0]) if t]
        elif isinstance(value.op, GlobalVar) and isinstance(self.mod.get(value.op), rx.Function):
            func = self.mod[value.op]
            for param, arg in zip(func.params, value.args, strict=True):
                self.pair(tensors_of(param), tensors_of(arg))
            self.pair(results, tensors_of(func.body.body))
        else:
            operands = [t for arg in value.args for t in tensors_of(arg) if t is not None]
            self.join([*operands, *results] if operands else [])

    def hinted(self, call: rx.Call) -> VDevice:
        """The module's virtual device that a hint means; a new one if it has none."""
        attrs: Any = call.attrs
        devices: list[Any] = list(self.mod.global_infos.get("vdevice", ()))
        for candidate in devices:
            target = candidate.target
            if (
                target is not None
                and Device(target.device_type).device_type == attrs.device_type
                and (candidate.vdevice_id, candidate.memory_scope)
                == (attrs.index, attrs.memory_scope)
            ):
                return candidate
        kind = Device(attrs.device_type).type
        new = VDevice("llvm" if kind == "cpu" else kind, attrs.index, attrs.memory_scope)
        self.mod = self.mod.clone()
        self.mod.update_global_info("vdevice", [*devices, new])
        return new

    def with_devices(self, var: rx.Var) -> rx.Var:
        """The variable with the devices of its tensors."""
        info = self.info(var, var.struct_info)
        return var if info is var.struct_info else type(var)(var.name_hint, info, var.span)

    def info(self, var: rx.Var, info: StructInfo, path: tuple[int, ...] = ()) -> Any:
        """A struct info of a variable, with devices."""
        if isinstance(info, TupleStructInfo):
            fields = [self.info(var, f, (*path, i)) for i, f in enumerate(info.fields)]
            same = all(a is b for a, b in zip(fields, info.fields, strict=True))
            return info if same else TupleStructInfo(fields, info.span)
        if isinstance(info, TensorStructInfo) and info.vdevice is None:
            device = self.of((var, *path))
            return info if device is None else info.replace(vdevice=device)
        return info


def _leaves(info: StructInfo | None, path: tuple[int, ...] = ()) -> Iterator[Any]:
    """(path, struct info) of each tensor."""
    if isinstance(info, TupleStructInfo):
        for i, field in enumerate(info.fields):
            yield from _leaves(field, (*path, i))
    elif isinstance(info, TensorStructInfo):
        yield path, info


def tensors_of(expr: rx.Expr, path: tuple[int, ...] = ()) -> list[Tensor | None]:
    """The tensors of an expression, in order; None for one that no variable holds."""
    if isinstance(expr, rx.Tuple):
        return [t for field in expr.fields for t in tensors_of(field)]
    steps: list[int] = []
    while isinstance(expr, rx.TupleGetItem):
        steps.append(expr.index)
        expr = expr.tuple_value
    start = tuple(reversed(steps))
    paths = [p for p, _ in _leaves(expr.struct_info) if p[: len(start)] == start]
    return [(expr, *p) if isinstance(expr, rx.Var) else None for p in paths]


class _Realized(GraphRewriter):
    def __init__(self, mod: IRModule, devices: _Devices) -> None:
        super().__init__(mod)
        self.devices = devices

    def binding(self, binding: rx.Binding) -> None:
        var, value = binding.var, binding.value
        if isinstance(binding, rx.MatchCast):
            info = self.devices.info(var, binding.struct_info)
            new = type(var)(var.name_hint, info, var.span)
            self.var_map[var] = new
            cast = rx.MatchCast(new, self.value(value), info, binding.span)
            self.builder.emit_normalized(cast)
            return
        if isinstance(value, rx.Call) and value.op is HINT_ON_DEVICE:
            source, device = tensors_of(value.args[0])[0], self.devices.of((var,))
            near = source is None or structural_equal(self.devices.of(source), device)
            moved = self.value(value.args[0])
            self.emit(binding, moved if near else to_vdevice(moved, device))
            return
        if isinstance(value, rx.Call) and value.sinfo_args:
            own = value.sinfo_args
            paths: list[tuple[int, ...]] = (
                [()] if len(own) == 1 else [(i,) for i in range(len(own))]
            )
            infos = [self.devices.info(var, info, p) for info, p in zip(own, paths, strict=True)]
            if any(a is not b for a, b in zip(infos, own, strict=True)):
                value = value.replace(sinfo_args=tuple(infos))
        self.emit(binding, self.value(value))
