"""What makes a function a primitive: it is recorded in the trace, and its refusal is located.

    @primitive("Split", inputs="loop *factors", attrs="preserve_unit_iters disable_predication")
    def split(sch, loop, factors, preserve_unit_iters=True, disable_predication=False): ...

The function is a method of `Schedule` (its first parameter is the schedule). `inputs` names the
parameters that hold random variables, with a star for a list of them (the last); `attrs` the rest.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ...analysis import verify_well_formed
from .errors import ScheduleError


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
        self.defaults = {p.name: p.default for p in params if p.default is not p.empty}

    is_pure = property(lambda self: self.name in PURE)

    @staticmethod
    def get(name: str) -> InstructionKind:
        """The kind of that name ("Split")."""
        if name not in KINDS:
            raise ScheduleError("no primitive of this name", got=name)
        return KINDS[name]

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Parameter name to value."""
        if self.varargs is not None:
            return {**self.defaults, self.varargs: list(args), **kwargs}
        return {**self.defaults, **dict(zip(self.params, args, strict=False)), **kwargs}

    def __repr__(self) -> str:
        return f"InstructionKind({self.name})"


_BLOCKS = ("block", "block_or_loop", "scope_block", "target")
KINDS: dict[str, InstructionKind] = {}
PURE = {"GetBlock", "GetLoops", "GetChildBlocks", "GetProducers", "GetConsumers"}


def primitive(
    kind: str, *, inputs: str = "", attrs: str = "", name: str = ""
) -> Callable[[Any], Any]:
    """Register a primitive; see above. `name` is the method's where it is not the function's."""

    def wrap(fn: Callable[..., Any]) -> Callable[..., Any]:
        if name:
            fn.__name__ = name
        spec = InstructionKind(kind, fn, tuple(inputs.split()), tuple(attrs.split()))
        KINDS[kind] = spec
        shown = fn.__name__.replace("_", "-")

        by_name = bool(spec.inputs) and spec.inputs[0] in _BLOCKS
        first = spec.inputs[0] if spec.inputs else ""
        more = [i[1:] for i in spec.inputs[1:] if i == "*consumer_blocks"]

        @functools.wraps(fn)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            if by_name:  # a block may be given by its name
                if args and isinstance(args[0], str):
                    args = (self.get_block(args[0]), *args[1:])
                elif isinstance(kwargs.get(first), str):
                    kwargs[first] = self.get_block(kwargs[first])
            for name in more:
                given = spec.arguments(args, kwargs).get(name)
                if isinstance(given, str):
                    given = [given]
                if given and any(isinstance(b, str) for b in given):
                    blocks = [self.get_block(b) if isinstance(b, str) else b for b in given]
                    at = spec.params.index(name)
                    if at < len(args):
                        args = (*args[:at], blocks, *args[at + 1 :])
                    else:
                        kwargs[name] = blocks
            # What an analyzer writes depends on what it has seen: each step starts with its own, so
            # that a trace gives the same text wherever it is replayed.
            self.state.forget_ranges()
            try:
                result = fn(self, *args, **kwargs)
            except ScheduleError as error:
                self._override = None
                raise error.located(
                    shown, self._func_of(args, kwargs), self.error_render_level
                ) from None
            if self.state.debug_mask:
                verify_well_formed(self.state.mod)
            if self.trace is not None:
                self._record(spec, args, kwargs, result)
            return result

        return method

    return wrap
