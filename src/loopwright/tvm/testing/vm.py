"""Functions by name for tests of the virtual machine; importing this registers them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runtime import register_func, tensor
from ...runtime.device import Device
from ...runtime.vm.virtual_machine import VirtualMachine


@register_func("test.vm.move", override=True)
def move(src: tensor.Tensor) -> Any:
    """The value itself."""
    return src


@register_func("test.vm.add", override=True)
def add(a: tensor.Tensor, b: tensor.Tensor) -> Any:
    """a + b"""
    return tensor(a.numpy() + b.numpy())


@register_func("test.vm.mul", override=True)
def mul(a: tensor.Tensor, b: tensor.Tensor) -> Any:
    """a * b"""
    return tensor(a.numpy() * b.numpy())


@register_func("test.vm.equal_zero", override=True)
def equal_zero(a: tensor.Tensor) -> Any:
    """Whether each element is 0."""
    return tensor(a.numpy() == 0)


@register_func("test.vm.subtract_one", override=True)
def subtract_one(a: tensor.Tensor) -> Any:
    """a - 1"""
    return tensor(np.subtract(a.numpy(), 1))


@register_func("test.vm.identity", override=True)
def identity_packed(a: tensor.Tensor, b: tensor.Tensor) -> None:
    """Write a to b."""
    b.copyfrom(a)


@register_func("test.vm.tile", override=True)
def tile_packed(a: tensor.Tensor, b: tensor.Tensor) -> None:
    """Write a, twice side by side, to b."""
    b.copyfrom(np.tile(a.numpy(), (1, 2)))


@register_func("test.vm.add_scalar", override=True)
def add_scalar(a: int, b: int) -> Any:
    """a + b of two numbers."""
    return a + b


@register_func("test.vm.get_device_id", override=True)
def get_device_id(device: Device) -> int:
    """The device's number."""
    return device.index


@register_func("test.vm.check_if_defined", override=True)
def check_if_defined(obj: Any) -> bool:
    """Whether a value is given."""
    return obj is not None


def check_saved_func(vm: VirtualMachine, func_name: str, *inputs: tensor.Tensor | int) -> Any:
    """Call a function directly and by a saved closure; both must give the same. Returns it."""
    direct = vm[func_name](*inputs)
    vm.save_function(func_name, "saved", *inputs)
    saved = vm["saved"]()
    np.testing.assert_array_equal(np.asarray(saved), np.asarray(direct))
    return saved
