"""The namespace `I` of TVMScript: modules, their attributes and global infos."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import explain
from ..base.late import public_names as _public_names
from ..ir.module import DummyGlobalInfo, GlobalInfo, IRModule, VDevice
from ..ir.prim_expr import Range  # noqa: F401
from .parser.entry import ModuleDecorator

ir_module = ModuleDecorator[IRModule]()


class _Open(threading.local):
    def __init__(self) -> None:
        self.states: list[ModuleState] = []


_OPEN = _Open()


class ModuleState:
    """Attributes and global infos of the module that is being read."""

    def __init__(self) -> None:
        self.attrs: dict[str, Any] = {}
        self.global_infos: dict[str, list[GlobalInfo]] = {}

    def __enter__(self) -> ModuleState:
        _OPEN.states.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _OPEN.states.remove(self)


def _state() -> ModuleState:
    """The module that is being read. Python runs the class's body before the parser does: anything
    set then is discarded."""
    return _OPEN.states[-1] if _OPEN.states else ModuleState()


def module_attrs(attrs: dict[str, Any], allow_overwrite: bool = False) -> None:
    """Attributes of the module."""
    attributes = _state().attrs
    twice = sorted(set(attributes) & set(attrs))
    if twice and not allow_overwrite:
        what = f"the module has the attributes {twice} already"
        raise ValueError(explain(what, instead="pass allow_overwrite=True"))
    attributes.update(attrs)


def module_get_attr(attr_key: str) -> Any:
    """An attribute of the module, or None."""
    return _state().attrs.get(attr_key)


def module_get_attrs() -> dict[str, Any]:
    """All attributes of the module."""
    return dict(_state().attrs)


def module_set_attr(
    attr_key: str, attr_value: int | Mapping[str, int] | None, allow_overwrite: bool = False
) -> None:
    """Set one attribute of the module."""
    module_attrs({attr_key: attr_value}, allow_overwrite)


def module_global_infos(global_infos: dict[str, list[GlobalInfo]]) -> None:
    """Facts about the whole module, as lists by name."""
    infos = _state().global_infos
    infos.update({name: list(items) for name, items in global_infos.items()})


def dummy_global_info() -> DummyGlobalInfo:
    """A global info without content."""
    return DummyGlobalInfo()


def vdevice(
    target: str | Mapping[str, str | Sequence[str]] | None = None,
    vdevice_id: int = 0,
    memory_scope: str = "global",
) -> VDevice:
    """A device that tensors are stored on."""
    return VDevice(target, vdevice_id, memory_scope)


def lookup_vdevice(target_kind: str | None = None, device_index: int = -1) -> VDevice:
    """A vdevice of the module's global infos, by target kind and its index among that kind; of the
    kind "vdevice" are all.

    Raises ValueError if it does not exist.
    """
    registered = _state().global_infos.get("vdevice", [])
    devices = [
        device
        for device in registered
        if isinstance(device, VDevice)
        and (
            target_kind == "vdevice"
            or (device.target is not None and device.target.kind_name == target_kind)
        )
    ]
    index = 0 if device_index < 0 else device_index
    if index >= len(devices):
        names = [str(getattr(device, "target", None)) for device in registered]
        what = f"the module has no vdevice {target_kind}:{index}"
        hint = 'declare it: I.module_global_infos({"vdevice": [I.vdevice("llvm")]})'
        raise ValueError(explain(what, got=names, instead=hint))
    return devices[index]


__dir__ = _public_names(__name__)
