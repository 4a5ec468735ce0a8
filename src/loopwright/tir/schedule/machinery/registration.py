"""`@primitive`: records a step in the trace, and locates the errors it raises in the program.

    @primitive("Split", inputs="loop *factors", attrs="preserve_unit_iters disable_predication")
    def split(sch, loop, factors, preserve_unit_iters=True, disable_predication=False): ...

The function is a method of `Schedule` (its first parameter is the schedule). `inputs` names the
parameters that hold random variables, with a star for a list of them (the last); `attrs` the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ....base.registry import origin_of
from ...analysis import verify_well_formed
from .errors import ScheduleError
from .instruction import KINDS, InstructionKind
from .schedule_base import ScheduleBase

_BLOCKS = ("block", "block_or_loop", "scope_block", "target")


Fn = TypeVar("Fn", bound=Callable[..., Any])


def primitive(
    kind: str, *, inputs: str = "", attrs: str = "", name: str = ""
) -> Callable[[Fn], Fn]:
    """Register a primitive; see above. `name` is the method's where it is not the function's."""

    def wrap(fn: Fn) -> Fn:
        if name:
            fn.__name__ = name
        spec = InstructionKind(kind, fn, tuple(inputs.split()), tuple(attrs.split()))
        KINDS.register(kind, spec, origin=origin_of(fn))
        shown = fn.__name__.replace("_", "-")
        first = spec.inputs[0] if spec.inputs else ""
        lists = [i[1:] for i in spec.inputs[1:] if i == "*consumer_blocks"]

        @functools.wraps(fn)
        def method(self: ScheduleBase, *args: Any, **kwargs: Any) -> Any:
            try:
                args, kwargs = spec.converted_arguments(args, kwargs)
            except ScheduleError as error:
                raise error.located(shown, None, self.error_render_level) from None
            if first in _BLOCKS:  # a block may be given by its name
                if args and isinstance(args[0], str):
                    args = (self.block_named(args[0]), *args[1:])
                elif isinstance(kwargs.get(first), str):
                    kwargs[first] = self.block_named(kwargs[first])
            for name in lists:
                block_args = spec.arguments(args, kwargs).get(name)
                if isinstance(block_args, str):
                    block_args = [block_args]
                if block_args and any(isinstance(b, str) for b in block_args):
                    blocks = [self.block_named(b) if isinstance(b, str) else b for b in block_args]
                    at = spec.params.index(name)
                    if at < len(args):
                        args = (*args[:at], blocks, *args[at + 1 :])
                    else:
                        kwargs[name] = blocks
            self.start_step()
            try:
                result = fn(self, *args, **kwargs)
                self.state.check_scopes()
            except Exception as error:
                # The nodes of the error are in the function as the step changed it.
                func = self.state.undo() or self.func_of(args, kwargs)
                if not isinstance(error, ScheduleError):
                    raise
                raise error.located(shown, func, self.error_render_level) from None
            if self.state.debug_mask and not spec.is_pure:
                verify_well_formed(self.state.mod, once=False)
            self.record(spec, args, kwargs, result)
            self.take_next()()
            return result

        return cast(Fn, method)

    return wrap


def unrecorded(fn: Fn) -> Fn:
    """A primitive without its record in the trace: for primitives composed of others."""
    return getattr(fn, "__wrapped__", fn)
