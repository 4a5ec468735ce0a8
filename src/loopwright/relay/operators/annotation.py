"""Marks in a program: on which device, for which compiler, what is not fused. They compute nothing."""

from __future__ import annotations

from typing import Any

from .common import same_type
from .core import Input, op, view


def _mark(name: str, doc: str) -> None:
    def body(data: Input) -> Any:
        return data

    body.__doc__ = doc
    op(f"annotation.{name}")(body).infer(same_type)


_mark("stop_fusion", "The same value, which is not fused with what uses it.")
_mark("checkpoint", "The same value, which a gradient computes again.")


def _compiler(name: str, doc: str) -> None:
    def body(data: Input, compiler: str) -> Any:
        return data

    body.__doc__ = doc
    op(f"annotation.{name}", attrs="CompilerAttrs")(body).infer(same_type)


_compiler("compiler_begin", "The same value, where a region for another compiler begins.")
_compiler("compiler_end", "The same value, where a region for another compiler ends.")


@op("on_device", attrs="OnDeviceAttrs", view=False)
def on_device(
    body: Input,
    virtual_device: Any = None,
    constrain_result: bool = False,
    constrain_body: bool = True,
) -> Any:
    """The same value, computed on a device; there is one here."""
    return body


on_device.infer(same_type)


@view("annotation.on_device")
def _on_device(
    body: Any, device: Any, constrain_result: bool = False, constrain_body: bool = True
) -> Any:
    """The same value, computed on a device."""
    return on_device.builder(body, device, constrain_result, constrain_body)


@view("annotation.function_on_device")
def _function_on_device(function: Any, param_devices: Any, result_device: Any) -> Any:
    """The function with the devices of its parameters and result as attributes."""
    given = {"param_virtual_devices": tuple(param_devices), "result_virtual_device": result_device}
    return function.with_attrs(given)
