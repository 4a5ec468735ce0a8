"""A compiled module that is called like the module it was made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ...base.errors import UnknownName
from ...runtime.tensor import Tensor, from_dlpack
from ...runtime.vm.builtins import KVCache
from .spec import Int, ModuleSpec, Tuple


class TorchModule:
    """Methods of a compiled module, with the parameters' values bound: `model["forward"](x)`.

    Arguments are arrays that speak DLPack (torch tensors among them) and ints. `out_format`
    "torch" returns torch tensors, "tvm" runtime tensors.
    """

    def __init__(self, spec: ModuleSpec, vm: Any, params: list[Any], out_format: str) -> None:
        self.spec = spec
        self.vm = vm
        self.params = params
        self.out_format = out_format
        self.effects: list[Any] = []
        if "_initialize_effect" in vm:
            self.effects = _listed(vm["_initialize_effect"]())

    def __getitem__(self, method_name: str) -> Callable[..., Any]:
        """The method of that name."""
        names = self.spec.method_names
        if method_name not in names:
            raise UnknownName(f"no method {method_name!r}; one of: {', '.join(names)}")
        method = self.spec.method_specs[names.index(method_name)]

        def call(
            *args: np.ndarray[Any, Any] | int | Sequence[np.ndarray[Any, Any] | Sequence[Any]],
        ) -> Any:
            inputs = _as_arguments(method.arg_specs, args)
            result = self.vm[method_name](*inputs, *self._passed(method))
            if self.effects and method.effect_mode != "none":
                result, self.effects = result[0], _listed(result[1])
            return self._returned(result)

        return call

    def forward(self, *args: np.ndarray[Any, Any] | int) -> Any:
        """Call the method `forward`."""
        return self["forward"](*args)

    def _passed(self, method: Any) -> list[Any]:
        groups = ((method.effect_mode, self.effects), (method.param_mode, self.params))
        passed: list[Any] = []
        for mode, values in groups:
            if mode == "packed":
                passed.append(list(values))
            elif mode == "plain":
                passed += values
        return passed

    def _returned(self, value: Tensor | Sequence[Tensor | Sequence[Tensor]]) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple(self._returned(v) for v in value)
        if self.out_format == "torch" and isinstance(value, Tensor):
            return import_module("torch").from_dlpack(value)
        return value


def _listed(value: Sequence[KVCache | None]) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _as_arguments(specs: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    return [_as_argument(s, v) for s, v in zip(specs, values, strict=True)]


def _as_argument(spec: object, value: Any) -> Any:
    """A value as the function takes it where the method has this spec."""
    if isinstance(spec, Tuple):
        return _as_arguments(spec.elements, value)
    if isinstance(spec, Int):
        return (int(value),)
    return from_dlpack(value.detach() if hasattr(value, "detach") else value)
