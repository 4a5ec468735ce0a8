"""The virtual machine: runs an executable, including its functions that are not native.

    vm = relax.VirtualMachine(exe, lw.cpu())
    y = vm["main"](x)

Functions compiled to native code are called directly. Others (control flow over run-time
values, closures, packed calls, shapes known only at run time) are interpreted binding by binding,
with compiled kernels for their call_tir.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...relax.interpreter import Interpreter
from ...runtime.device import Device
from ...runtime.module import Timed
from ...runtime.profiler import Profile
from ...runtime.tensor import tensor
from ...tir.function import PrimFunc
from .executable import Executable


class GraphMachine(Interpreter):
    """Interprets graph functions, with native kernels."""

    def __init__(self, exe: Executable) -> None:
        super().__init__(exe.mod)
        self._measured: Profile | None = None
        self._kernels: dict[int, Any] = {}
        self._names: dict[int, str] = {}
        for gvar, func in exe.mod.functions.items():
            if isinstance(func, PrimFunc):
                self._names[id(func)] = gvar.name_hint
                if gvar.name_hint in exe.kernels:
                    self._kernels[id(func)] = exe.kernels[gvar.name_hint]

    def profile(self, function: str, args: Any, number: int) -> Profile:
        """Call a function and measure its kernels."""
        profile = Profile()
        for _ in range(number):
            self._measured = profile
            try:
                self[function](*args)
            finally:
                self._measured = None
        return profile

    def _run_tir(self, func: PrimFunc, args: list[Any]) -> None:
        if self._measured is None:
            self._run_kernel(func, args)
            return
        begin = time.perf_counter()
        self._run_kernel(func, args)
        spent = (time.perf_counter() - begin) * 1e6
        self._measured.add(self._names.get(id(func), "kernel"), spent)

    def _run_kernel(self, func: PrimFunc, args: list[Any]) -> None:
        native = self._kernels.get(id(func))
        if native is None:
            super()._run_tir(func, args)
            return
        given = [_compact(a) if isinstance(a, np.ndarray) else a for a in args]
        native(*given)
        for original, used in zip(args, given, strict=True):
            if original is not used and isinstance(original, np.ndarray):
                original[...] = used


class VirtualMachine(Timed):
    """Runs an executable on a device.

    profile: record the time of each call; see `profile(...)`.
    """

    def __init__(
        self,
        rt_mod: Any,
        device: Any = None,
        memory_cfg: Any = None,
        profile: bool = False,
    ) -> None:
        exe = getattr(rt_mod, "executable", rt_mod)
        if not hasattr(exe, "function_names"):
            what = "VirtualMachine takes an executable"
            hint = "give it the result of relax.build or loopwright.compile"
            raise TypeError(explain(what, got=type(rt_mod).__name__, instead=hint))
        devices = device if isinstance(device, (list, tuple)) else [device]
        for d in devices:
            if isinstance(d, Device) and d.type != "cpu":
                raise LoopwrightError(explain("only the CPU can run code", got=str(d)))
        self.module = exe
        self._saved: dict[str, Callable[[], Any]] = {}
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function of that name."""
        if name in self._saved:
            return self._saved[name]
        function = self.module[name]

        def call(*args: Any) -> Any:
            if not args and name in self._inputs and self._arity(name):
                what = f"the inputs of {name} were set with set_input"
                hint = f'call invoke_stateful("{name}")'
                raise RuntimeError(explain(what, instead=hint))
            return function(*args)

        return call

    def _arity(self, name: str) -> int:
        return len(self.module.input_names(name))

    def profile(self, func_name: str, *args: Any) -> Profile:
        """Call a function and measure each of its kernels."""
        return self.module.profile(*args, function=func_name)

    def invoke_closure(self, closure: Any, *args: Any) -> Any:
        """Call a closure that a function returned."""
        return closure(*args)

    # -- stateful calls ------------------------------------------------------------------------

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set inputs for `invoke_stateful`, in order or by name."""
        self._inputs[func_name] = tuple(self._bound(func_name, args, kwargs))
        self._outputs.pop(func_name, None)

    def _bound(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if not kwargs:
            return [_as_tensor(a) for a in args]
        names = self.module.input_names(name)
        unknown = [k for k in kwargs if k not in names]
        rest = [n for n in names[len(args) :] if n not in kwargs]
        if unknown or rest:
            got = ", ".join(unknown) or f"missing {', '.join(rest)}"
            raise ValueError(explain(f"{name} takes {', '.join(names)}", got=got))
        return [_as_tensor(v) for v in (*args, *(kwargs[n] for n in names[len(args) :]))]

    def invoke_stateful(self, func_name: str) -> None:
        """Call a function with the inputs of `set_input` and keep its result."""
        if func_name not in self._inputs:
            what = f"no inputs were set for {func_name}"
            raise ValueError(explain(what, instead=f'set_input("{func_name}", ...) first'))
        self._outputs[func_name] = self.module[func_name](*self._inputs[func_name])

    def get_outputs(self, func_name: str) -> Any:
        """The result of the last `invoke_stateful`."""
        if func_name not in self._outputs:
            what = f"{func_name} has not been invoked"
            raise ValueError(explain(what, instead=f'invoke_stateful("{func_name}") first'))
        return self._outputs[func_name]

    def save_function(
        self,
        func_name: str,
        saved_name: str,
        *args: Any,
        include_return: bool = True,
        **kwargs: Any,
    ) -> None:
        """Save a call with its arguments as a function without arguments."""
        if func_name == saved_name:
            what = "a saved function needs a name of its own"
            raise ValueError(explain(what, got=saved_name))
        bound, function = self._bound(func_name, args, kwargs), self.module[func_name]

        def run() -> Any:
            result = function(*bound)
            return result if include_return else None

        self._saved[saved_name] = run


def _compact(array: np.ndarray) -> np.ndarray:
    return array if array.flags.c_contiguous else array.copy(order="C")


def _as_tensor(value: Any) -> Any:
    return tensor(value) if isinstance(value, np.ndarray) else value


__all__ = ["GraphMachine", "VirtualMachine"]
