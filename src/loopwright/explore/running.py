"""Runs modules without the passes that follow: operators by their numpy
definitions, kernels as machine code of their loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.registry import is_own
from ..driver.differences import difference, flat
from ..driver.options import CompileOptions
from ..driver.steps import compile_steps
from ..ir.expr import GlobalVar
from ..ir.module import IRModule, called_global_vars
from ..ir.pass_context import PassContext
from ..ir.transform import Sequential
from ..relax import expr as rx
from ..relax.analysis import free_vars
from ..relax.interpreter import Closure, Interpreter
from ..sched.apply import SCHEDULES, ApplyDefaultSchedule
from ..tir import interpreter
from ..tir.function import PrimFunc
from ..tir.signature import signature_of
from ..tir.transform import FillNewMemory
from .origins import Names, names_of

AS_IT_IS = CompileOptions(relax_pipeline=Sequential([]))
_OWN = CompileOptions(relax_pipeline=ApplyDefaultSchedule())
Arrays = list[np.ndarray]


@dataclass
class Event:
    """A binding that ran: the arrays that it made, and the kernel that made them, with the arguments
    that it had before."""

    binding: Any
    values: Arrays
    func: PrimFunc | None = None
    args: list[Any] = field(default_factory=list)
    makes: set[rx.Var] = field(default_factory=set)

    @property
    def nodes(self) -> Names:
        """The nodes of the model that it came from."""
        return names_of(self.binding.span or self.binding.value.span)

    @property
    def reads(self) -> set[rx.Var]:
        """The variables that it uses."""
        return set(free_vars(self.binding.value))

    @property
    def allocates(self) -> bool:
        """Whether it only takes memory."""
        return "alloc" in getattr(getattr(self.binding.value, "op", None), "name", "")


class Runner:
    """Compiles each kernel once. interpreted: kernels are run by the interpreter instead, as those are
    that have no buffers any more; scheduled: those that are not are given schedules by the package's
    own rules, for speed."""

    def __init__(self, *, interpreted: bool = False, scheduled: bool = False) -> None:
        self.interpreted, self.scheduled = interpreted, scheduled
        self._kernels: dict[int, tuple[PrimFunc, Callable[..., Any]]] = {}

    def outputs(self, mod: IRModule, args: Sequence[Any], entry: str = "main") -> Arrays:
        """The results of a function; of a kernel all its arguments, after it has run."""
        func = mod[entry]
        if not isinstance(func, PrimFunc):
            self.compile(mod)
            return flat(Interpreter(mod, run_tir=lambda f, a: self.run(f, a, mod))[entry](*args))
        if signature_of(func) is None:
            return self.ran(func, args, mod)
        with PassContext():
            return flat(compile_steps(mod, None, AS_IT_IS)[0][entry](*args))

    def events(self, mod: IRModule, args: Sequence[Any]) -> list[Event]:
        """The calls that ran in `main`, in order."""
        events: list[Event] = []
        ran: list[tuple[PrimFunc, list[Any], list[Any]]] = []

        def run_tir(func: PrimFunc, arguments: list[Any]) -> None:
            before = copied(arguments)
            self.run(func, arguments, mod)
            ran.append((func, before, arguments))

        def observe(
            name: str, binding: Any, value: Closure | np.ndarray[Any, Any] | tuple[Any, ...]
        ) -> None:
            event = Event(binding, arrays_in(value), makes={binding.var})
            if ran:
                event.func, event.args, after = ran[-1]
                ran.clear()
                if not event.values:  # a call that writes to its arguments
                    written = [k for k, a in enumerate(after) if _differs(event.args[k], a)]
                    event.values = [np.array(after[k]) for k in written]
                    event.makes |= {a for k, a in enumerate(binding.value.args) if k in written}
            events.append(event)

        self.compile(mod)
        Interpreter(mod, run_tir=run_tir, observer=observe)["main"](*args)
        return events

    def ran(self, func: PrimFunc, args: Sequence[Any], mod: IRModule) -> Arrays:
        """The arguments after a kernel, of a module, has run on copies; what it does not take is left
        out."""
        after = copied(args)[: len(func.params)]
        self.in_place(func, after, mod)
        return arrays_in(tuple(after))

    def in_place(self, func: PrimFunc, args: Sequence[Any], mod: IRModule) -> None:
        """Run a kernel that may be new to the module."""
        if id(func) not in self._kernels and func.buffer_map:
            gvar = next((g for g, f in mod.functions.items() if f is func), GlobalVar("kernel"))
            self.compile(mod.with_functions({gvar: func}), func)
        self.run(func, args, mod)

    def run(self, func: PrimFunc, args: Sequence[Any], mod: IRModule | None = None) -> None:
        """Run a kernel."""
        if id(func) in self._kernels:
            self._kernels[id(func)][1](*args)
        else:
            interpreter.run(func, args, mod)

    def compile(self, mod: IRModule, only: PrimFunc | None = None) -> None:
        """Make machine code of the kernels of a module, or one of them, in a context of its own."""
        if self.interpreted:
            return
        todo = {
            g: f
            for g, f in mod.functions.items()
            if isinstance(f, PrimFunc)
            and id(f) not in self._kernels
            and signature_of(f) is None
            and only in (None, f)
        }
        if todo:
            schedules = _OWN if self.scheduled and only is None else AS_IT_IS
            with filling(PassContext()), _own_rules():
                exe = compile_steps(kernels_of(mod, todo), None, schedules)[0]
            self._kernels |= {id(f): (f, exe[g.name_hint]) for g, f in todo.items()}


def filling(context: PassContext) -> PassContext:
    """That context, in which new memory holds NaN: a read before the first write is then not
    right by chance."""
    added = [*(context.option("tir.add_lower_pass") or ()), (1, FillNewMemory())]
    config = {**context.config, "tir.add_lower_pass": added}
    return PassContext(
        context.opt_level, context.required_pass, context.disabled_pass, config=config
    )


@contextmanager
def _own_rules() -> Iterator[None]:
    """Without the schedule rules that the user added."""
    rules = SCHEDULES.registry
    with rules.snapshot():
        for entry in rules.entries():
            if not is_own(entry.origin):
                rules.remove(entry.key)
        yield


def kernels_of(
    mod: IRModule, kernels: Sequence[GlobalVar] | Mapping[GlobalVar, PrimFunc]
) -> IRModule:
    """The module with these functions and those that they call only, each under its own name."""
    called = {g for g in kernels for g in called_global_vars(mod[g])}
    functions = {g: mod[g].with_attr("global_symbol", g.name_hint) for g in kernels}
    others = [g for g in mod.functions if g not in functions and g not in called]
    return mod.with_functions(functions, remove=others)


def copied(args: Sequence[Any]) -> list[Any]:
    """Arguments in memory of their own."""
    return [np.array(a) if isinstance(a, np.ndarray) else a for a in args]


def arrays_in(
    value: Closure | np.ndarray[Any, Any] | Sequence[np.ndarray[Any, Any] | int],
) -> Arrays:
    """Copies of the arrays of a value."""
    parts = value if isinstance(value, tuple) else (value,)
    return [np.array(v) for v in parts if isinstance(v, np.ndarray)]


def _differs(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    return isinstance(a, np.ndarray) and difference(a, b) > 0
