"""The specs of a module's methods for export: their arguments and parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...base.errors import explain
from ...ir.prim_expr import PrimExpr
from .core import Module
from .core import Object as NNObject

MODES = ("plain", "packed", "none")


@dataclass(frozen=True)
class Int:
    """An integer argument: the method gets a symbolic variable."""


class Tensor:
    """A tensor argument; dimensions are ints, names of symbolic dimensions, or tir.Vars."""

    def __init__(self, shape: Iterable[Any], dtype: str) -> None:
        if isinstance(shape, (str, int, PrimExpr)):
            what = "nn.spec.Tensor takes its shape as a list of dimensions"
            raise TypeError(explain(what, got=repr(shape), instead='write ("n", 784)'))
        self.shape = list(shape)
        self.dtype = str(dtype)

    def __repr__(self) -> str:
        return f"Tensor([{', '.join(str(d) for d in self.shape)}], '{self.dtype}')"


@dataclass(frozen=True)
class Object:
    """An argument that is not a tensor; the method gets an `object_type`."""

    object_type: type = NNObject


class Tuple:
    """A tuple of arguments; the method gets a list if the elements are given as one."""

    def __init__(self, name: str, elements: Iterable[Any]) -> None:
        self.name = name
        self.kind = list if isinstance(elements, list) else tuple
        self.elements = list(elements)

    def __repr__(self) -> str:
        return f"Tuple({', '.join(map(repr, self.elements))})"


@dataclass
class MethodSpec:
    """One method: its arguments, and how parameters and effects are passed ("plain": each as an
    argument, "packed": in one tuple, "none": not at all)."""

    method: Callable[..., Any]
    arg_names: list[str]
    arg_specs: list[Any]
    param_mode: str = "plain"
    effect_mode: str = "plain"

    def __post_init__(self) -> None:
        for mode in (self.param_mode, self.effect_mode):
            if mode not in MODES:
                hint = f"use one of {', '.join(MODES)}"
                raise ValueError(explain("unknown mode of passing", got=repr(mode), instead=hint))

    @staticmethod
    def from_raw(spec: MethodSpec | Mapping[str, Any], method: Callable[..., Any]) -> MethodSpec:
        """From {"argument": spec, ..., "$": {"param_mode": ..., "effect_mode": ...}}.

        Raises TypeError where the names do not match the method's parameters.
        """
        if isinstance(spec, MethodSpec):
            return spec
        by_name = dict(spec)
        modes = dict(by_name.pop("$", {}))
        names = _names_in_order(method, by_name)
        specs = [as_arg_spec(by_name[name], name) for name in names]
        return MethodSpec(method, names, specs, **modes)

    @staticmethod
    def from_torch(args: Iterable[Any], method: Callable[..., Any]) -> MethodSpec:
        """From example arguments: torch tensors and ints."""
        inputs = list(args)
        names = list(inspect.signature(method).parameters)[: len(inputs)]
        specs: list[Any] = []
        for arg in inputs:
            if isinstance(arg, int):
                specs.append(Int())
            else:
                specs.append(Tensor(tuple(arg.shape), str(arg.dtype).rsplit(".", 1)[-1]))
        return MethodSpec(method, names, specs)

    def __repr__(self) -> str:
        args = ", ".join(f"{n}: {s!r}" for n, s in zip(self.arg_names, self.arg_specs))
        modes = f"param_mode={self.param_mode!r}, effect_mode={self.effect_mode!r}"
        return f"{getattr(self.method, '__name__', 'method')}({args}), {modes}"


def _names_in_order(method: Callable[..., Any], specs: dict[str, Any]) -> list[str]:
    params = inspect.signature(method).parameters
    name = getattr(method, "__qualname__", repr(method))
    named = [p for p in params.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    missing = [p.name for p in named if p.default is p.empty and p.name not in specs]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in params.values())
    unknown = [n for n in specs if n not in params and not takes_any]
    if missing or unknown:
        parts = [f"missing {', '.join(missing)}"] if missing else []
        parts += [f"unknown {', '.join(unknown)}"] if unknown else []
        hint = f"it takes {', '.join(p.name for p in named) or 'no argument'}"
        what = f"the spec does not match the parameters of {name}"
        raise TypeError(explain(what, got="; ".join(parts), instead=hint))
    ordered = [p.name for p in named if p.name in specs]
    return [*ordered, *(n for n in specs if n not in ordered)]


def as_arg_spec(spec: object, name: str) -> Any:
    """The spec of an argument from itself, `int`, or a list of them."""
    if isinstance(spec, (Int, Tensor, Object, Tuple)):
        return spec
    if spec is Int or spec is int or spec == "int":
        return Int()
    if isinstance(spec, type) and issubclass(spec, NNObject):
        return Object(spec)
    if isinstance(spec, (list, tuple)):
        elements = (as_arg_spec(s, f"{name}_{i}") for i, s in enumerate(spec))
        return Tuple(name, type(spec)(elements))
    what = f"no spec for argument {name}"
    hint = "use nn.spec.Tensor(shape, dtype), int, nn.spec.Object(type), or a list of them"
    raise TypeError(explain(what, got=repr(spec), instead=hint))


@dataclass
class ModuleSpec:
    """The methods of a module that are exported."""

    module: Module
    method_names: list[str]
    method_specs: list[MethodSpec]

    @staticmethod
    def from_raw(spec: Mapping[str, Mapping[str, Any]], module: Module) -> ModuleSpec:
        """From {"method": {"argument": spec}}. Raises AttributeError for an unknown method."""
        if isinstance(spec, ModuleSpec):
            return spec
        specs = []
        for name, raw in spec.items():
            method = getattr(module, name, None)
            if not callable(method):
                what = f"{type(module).__name__} has no method to export"
                raise AttributeError(explain(what, got=repr(name)))
            specs.append(MethodSpec.from_raw(raw, method))
        return ModuleSpec(module, list(spec), specs)
