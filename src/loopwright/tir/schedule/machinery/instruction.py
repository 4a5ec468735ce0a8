"""Instructions: the steps of a trace, and their kinds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ....base.errors import suggest
from ....base.registry import Registry
from .arguments import converted_argument, kinds_of
from .errors import ScheduleError
from .instruction_text import Names, python_line


class InstructionKind:
    """A primitive as the trace sees it."""

    def __init__(
        self, name: str, fn: Callable[..., Any], inputs: tuple[str, ...], attrs: tuple[str, ...]
    ) -> None:
        self.name = name
        self.fn = fn
        self.inputs = inputs
        self.attrs = attrs
        signature = inspect.signature(fn)
        params = list(signature.parameters.values())[1:]
        self.gives_list = str(signature.return_annotation).startswith("list[")
        self.params = [p.name for p in params]
        self.varargs = next((p.name for p in params if p.kind is p.VAR_POSITIONAL), None)
        self.takes = kinds_of(fn)
        self.defaults = {p.name: p.default for p in params if p.default is not p.empty}

    def same_as(self, other: object) -> bool:
        """Whether `other` is this very kind."""
        return self is other

    is_pure = property(lambda self: self.name in PURE)

    @staticmethod
    def get(name: str) -> InstructionKind:
        """The kind of a name such as "Split"."""
        if name not in KINDS:
            raise ScheduleError("no primitive of this name", got=name, instead=suggest(name, KINDS))
        return KINDS[name]

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The value of each parameter, by name."""
        if self.varargs is not None:
            return {**self.defaults, self.varargs: list(args), **kwargs}
        return {**self.defaults, **dict(zip(self.params, args, strict=False)), **kwargs}

    def converted_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as the primitive takes them. Raises WrongArgument."""
        takes = self.takes
        names = self.params if self.varargs is None else [self.varargs] * len(args)
        converted = [
            a if type(a) in takes[name].plain else converted_argument(takes[name], name, a)
            for name, a in zip(names, args, strict=False)
        ]
        named = {
            n: a
            if n not in takes or type(a) in takes[n].plain
            else converted_argument(takes[n], n, a)
            for n, a in kwargs.items()
        }
        return (*converted, *args[len(converted) :]), named

    def __repr__(self) -> str:
        return f"InstructionKind({self.name})"


KINDS: Registry[str, InstructionKind] = Registry("primitive of schedules")

PURE = {"GetBlock", "GetLoops", "GetChildBlocks", "GetProducers", "GetConsumers"}


class Instruction:
    """One step: its kind, its inputs (random variables), its attributes, its outputs."""

    __slots__ = ("attrs", "inputs", "kind", "outputs")

    def __init__(
        self, kind: InstructionKind, inputs: Sequence[Any], attrs: list[Any], outputs: list[Any]
    ) -> None:
        self.kind = kind
        self.inputs = list(inputs)
        self.attrs = list(attrs)
        self.outputs = list(outputs)

    def same_as(self, other: object) -> bool:
        """Whether `other` is this very step."""
        return self is other

    def __repr__(self) -> str:
        return python_line(self, Names(matter=False))
