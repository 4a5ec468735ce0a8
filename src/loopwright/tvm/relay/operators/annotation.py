"""Marks in a program: the device, the compiler, barriers of fusion. They compute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base.errors import explain
from ....runtime.device import Device, VirtualDevice
from ....runtime.device import device as device_of
from ..expr import Expr, Function
from . import layouts
from .core import Input, op, view


@op("annotation.stop_fusion", layout=layouts.elementwise)
def stop_fusion(data: Input) -> Any:
    """The same value, which is not fused with what uses it."""
    return data


@op("annotation.checkpoint", layout=layouts.elementwise)
def checkpoint(data: Input) -> Any:
    """The same value, which a gradient computes again."""
    return data


@op("annotation.compiler_begin", attrs="CompilerAttrs", layout=layouts.elementwise)
def compiler_begin(data: Input, compiler: str) -> Any:
    """The same value, where a region for another compiler begins."""
    return data


@op("annotation.compiler_end", attrs="CompilerAttrs", layout=layouts.elementwise)
def compiler_end(data: Input, compiler: str) -> Any:
    """The same value, where a region for another compiler ends."""
    return data


@op("on_device", attrs="OnDeviceAttrs", view=False, layout=layouts.elementwise)
def on_device(
    body: Input,
    virtual_device: Any = None,
    constrain_result: bool = False,
    constrain_body: bool = True,
) -> Any:
    """The same value, computed on a device; there is one here."""
    return body


on_device.infer(lambda types, attrs: types[0])  # of a function, too


def _virtual_device(device: object) -> VirtualDevice:
    """Where a value is to be, of a device or its name."""
    if isinstance(device, VirtualDevice):
        return device
    if isinstance(device, (str, Device)):
        return VirtualDevice(device_of(device))
    what = "a device is a Device, its name or a VirtualDevice"
    raise ValueError(explain(what, got=repr(device)))


@view("annotation.on_device")
def _on_device(
    body: Expr,
    device: VirtualDevice | str | float,
    constrain_result: bool = False,
    constrain_body: bool = True,
) -> Any:
    """The same value, computed on a device: the value, its result, or both are held to it."""
    free = not (constrain_result or constrain_body)
    virtual_device = VirtualDevice() if free else _virtual_device(device)
    return on_device.builder(body, virtual_device, constrain_result, constrain_body)


@view("annotation.function_on_device")
def _function_on_device(
    function: Function, param_devices: Sequence[str], result_device: Device
) -> Any:
    """The function with the devices of its parameters and result as attributes."""
    devices = tuple(_virtual_device(d) for d in param_devices)
    attrs = {
        "param_virtual_devices": devices,
        "result_virtual_device": _virtual_device(result_device),
    }
    return function.with_attrs(attrs)


@op("device_copy", attrs="DeviceCopyAttrs", view=False, layout=layouts.elementwise)
def device_copy(body: Input, src_virtual_device: Any, dst_virtual_device: Any) -> Any:
    """The same values on another device; there is one here."""
    return body


@view("device_copy")
def _device_copy(data: Expr, src_device: Device | str, dst_device: Device | str) -> Any:
    """The same values on another device, a Device, its name or a VirtualDevice."""
    return device_copy.builder(data, _virtual_device(src_device), _virtual_device(dst_device))
