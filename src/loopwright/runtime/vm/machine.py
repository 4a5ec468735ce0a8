"""The machine: links a program with the functions that it calls, and runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Any

from ...base.errors import explain
from ..ffi import ffi
from ..native import array_functions
from ..packed_func import get_global_func
from ..profiler import Profile
from ..tensor import ShapeTuple, Tensor
from .builtins import (
    as_function,
    byte_at,
    check_tensor_info,
    match_shape,
    mismatch,
    read_if_cond,
    shape_of,
)
from .bytecode import Operand, VMExecutable, VMFuncKind
from .translate import Translated
from .values import VMTypeError, arrive, depart, inward


class VMInstrumentReturnKind(IntEnum):
    """The decision of an instrument about a call: to make it, or to skip it."""

    NO_OP = 0
    SKIP_RUN = 1


Instrument = Callable[..., Any]


class Machine:
    """A program, ready to run: `machine["main"](x)`.

    natives: native functions by name, called before those of the runtime's table.
    """

    def __init__(self, program: VMExecutable, natives: Mapping[str, Any] | None = None) -> None:
        self.program = program
        self.natives = {**program.natives, **(natives or {})}
        self._translated: dict[str, Translated] = {}
        self._linked: dict[int, Callable[..., Any]] = {}
        self._constants = [arrive(c) for c in program.constants]
        self._instrument: Instrument | None = None
        self._profile: Profile | None = None

    # -- calls ---------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function of that name, called with what users have. Raises KeyError."""
        self.program.function(name)
        return partial(self._enter, self.program.index[name])

    def link(self) -> None:
        """Find all functions from outside. Raises an error for a missing one."""
        for func in self.program.functions:
            if func.kind is VMFuncKind.PACKED_FUNC:
                self._outside(func.name)

    def __contains__(self, name: str) -> bool:
        index = self.program.index.get(name)
        return index is not None and (
            self.program.functions[index].kind is not VMFuncKind.PACKED_FUNC
        )

    def _enter(self, number: int, *args: Any) -> Any:
        func = self.program.functions[number]
        if len(args) != len(func.params):
            what = f"{func.name} takes {len(func.params)} arguments ({', '.join(func.params)})"
            raise VMTypeError(explain(what, got=len(args)))
        originals: dict[int, Any] = {}
        values = [arrive(a, originals) for a in args]
        try:
            return depart(self._function(number)(*values), originals)
        except RecursionError as error:
            what = f"{func.name} calls itself too often"
            hint = "make the call the last step of the function"
            raise RecursionError(explain(what, instead=hint)) from error
        except MemoryError as error:
            self._note(error)
            what = f"{func.name}: out of memory for a result"
            raise MemoryError(explain(what, got=str(error), instead="smaller sizes")) from error
        except Exception as error:
            self._note(error)
            raise

    def _note(self, error: Exception) -> None:
        """Say where in the program an error came up, innermost first."""
        files = {t.file: t for t in self._translated.values()}
        trace, notes = error.__traceback__, []
        while trace is not None:
            where = files.get(trace.tb_frame.f_code.co_filename)
            if where is not None:
                span = where.location(trace.tb_lineno)
                notes.append(f"while running {where.name}{f' ({span})' if span else ''}")
            trace = trace.tb_next
        for note in reversed(notes[-4:]):
            error.add_note(note)

    def callable(self, function: int | Callable[..., Any]) -> Callable[..., Any]:
        """The function in a register, or its name."""
        return as_function(function, self._by_name)

    def _by_name(self, name: str) -> Callable[..., Any]:
        number = self.program.index.get(name)
        return self._outside(name) if number is None else self._function(number)

    # -- linking -------------------------------------------------------------------------------

    def _function(self, number: int) -> Callable[..., Any]:
        linked = self._linked.get(number)
        if linked is None:
            linked = self._link(number)
            self._linked[number] = linked
        return linked

    def _link(self, number: int) -> Callable[..., Any]:
        func = self.program.functions[number]
        if func.kind is not VMFuncKind.PACKED_FUNC:
            return self._compile(number)
        return self._watched(func.name, self._outside(func.name))

    def _outside(self, name: str) -> Callable[..., Any]:
        """A native function, a builtin, or a function of the runtime's table."""
        if name in self.natives:
            return inward(self.natives[name])
        return inward(get_global_func(name))

    def _compile(self, number: int) -> Callable[..., Any]:
        func = self.program.functions[number]
        translated = Translated(self.program, func)
        self._translated[func.name] = translated
        scope: dict[str, Any] = {
            "vm": self,
            "truth": read_if_cond,
            "callee": self.callable,
            "flat": lambda v: v if isinstance(v, ShapeTuple) else (v,),
            "check_tensor_info": check_tensor_info,
            "match_shape": match_shape,
            "shape_of": shape_of,
            "mismatch": mismatch,
            "shape": tuple.__new__,
            "ShapeTuple": ShapeTuple,
            "Tensor": ffi().Tensor,
            "item": array_functions()[0],
            "byte": byte_at,
        }
        for op in func.code:
            called = getattr(op, "func", None)
            operands = getattr(op, "args", ())
            for operand in (*operands, *([] if called is None else [Operand("f", called)])):
                if operand.kind == "c":
                    scope[f"c{operand.value}"] = self._constants[operand.value]
                elif operand.kind == "f":
                    scope[f"f{operand.value}"] = self._later(scope, operand.value)
        exec(translated.code(), scope)  # our own text, from the bytecode
        return scope["run"]

    def _later(self, scope: dict[str, Any], number: int) -> Callable[..., Any]:
        """The function, or one that looks it up when it is first called: it may be registered, or
        defined, later."""
        linked = self._linked.get(number)
        if linked is not None:
            return linked

        def first(*args: Any) -> Any:
            function = self._function(number)
            scope[f"f{number}"] = function
            return function(*args)

        return first

    # -- watching ------------------------------------------------------------------------------

    def set_instrument(self, instrument: Instrument | None) -> None:
        """Call `instrument(function, name, before, result, *args)` around each call of a function
        that is not the program's own; it may return `SKIP_RUN`."""
        self._instrument = instrument
        self._linked.clear()

    def profile(self, name: str, args: Sequence[Any], number: int = 1) -> Profile:
        """Call a function and measure its calls."""
        self._profile = profile = Profile()
        self._linked.clear()
        try:
            for _ in range(number):
                self[name](*args)
        finally:
            self._profile = None
            self._linked.clear()
        return profile

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        instrument, profile = self._instrument, self._profile
        if instrument is not None:
            return partial(_instrumented, instrument, name, function)
        if profile is None:
            return function

        def timed(*args: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*args)
            finally:
                profile.add(name, (time.perf_counter() - begin) * 1e6)

        return timed

    def source(self, name: str) -> str:
        """The Python code that runs a function."""
        self._function(self.program.index[name])
        return self._translated[name].source


def _instrumented(watch: Instrument, name: str, function: Callable[..., Any], *args: Any) -> Any:
    operands = [depart(a) for a in args]

    def outside(*values: Tensor) -> Any:
        return depart(function(*map(arrive, values)))

    if watch(outside, name, True, None, *operands) == VMInstrumentReturnKind.SKIP_RUN:
        return None
    result = function(*args)
    watch(outside, name, False, depart(result), *operands)
    return result


def tensors_of(value: Any) -> Any:
    """An argument kept for later calls: arrays as Tensors."""
    return value if isinstance(value, Tensor) else depart(arrive(value))
