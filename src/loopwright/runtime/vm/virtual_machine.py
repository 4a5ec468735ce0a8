"""VirtualMachine: TVM's interface to compiled programs.

    vm = relax.VirtualMachine(exe, lw.cpu())
    y = vm["main"](x)

Functions that are native code are called directly; the others run on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...base.errors import LoopwrightError, explain
from ..arguments import leaves
from ..device import Device
from ..module import BenchmarkResult, Timed
from ..profiler import Profile
from .bytecode import VMExecutable
from .machine import Instrument, Machine, tensors_of
from .values import inward, outward

if TYPE_CHECKING:
    import numpy as np

    from ..tensor import Tensor


class NotReady(LoopwrightError, ValueError):
    """A call that must follow another call came first."""


class VirtualMachine(Timed):
    """Runs an executable on a device.

    profile, memory_cfg: accepted for compatibility; `profile(...)` works in any case.
    """

    def __init__(
        self,
        rt_mod: Any,
        device: Device | Sequence[Device] | None = None,
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
        remote = (d for d in devices if isinstance(d, Device) and d.link is not None)
        self._device = next(remote, None)  # the other machine's, where the module is
        self.module = exe
        self._machine = Machine(exe) if isinstance(exe, VMExecutable) else None
        self._saved: dict[str, Callable[[], Any]] = {}
        self._saved_calls: dict[str, tuple[str, list[Any]]] = {}
        self._inputs: dict[str, tuple[Any, ...]] = {}
        self._outputs: dict[str, Any] = {}

    def _function(self, name: str) -> Callable[..., Any]:
        return self.module[name] if self._machine is None else self._machine[name]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function of that name."""
        if name in self._saved:
            return self._saved[name]
        if name in ("invoke_stateful", "get_outputs", "set_input"):
            return getattr(self, name)
        function = self._function(name)

        def call(*args: Any) -> Any:
            if not args and name in self._inputs and self.module.input_names(name):
                what = f"the inputs of {name} were set with set_input"
                hint = f'call invoke_stateful("{name}")'
                raise RuntimeError(explain(what, instead=hint))
            return function(*args)

        return call

    def invoke(self, func_name: str, *args: Tensor | np.ndarray, **kwargs: np.ndarray | int) -> Any:
        """Call a function, with arguments in order or by name; without any, with the inputs of
        `set_input`, if there are some."""
        if not args and not kwargs and func_name in self._inputs:
            return self._function(func_name)(*self._inputs_of(func_name))
        return self._function(func_name)(*self._bound(func_name, args, kwargs))

    def run(self, *args: np.ndarray, **kwargs: Any) -> Any:
        """Call `main`."""
        return self.invoke("main", *args, **kwargs)

    def invoke_closure(self, closure: Callable[..., Any], *args: int) -> Any:
        """Call a closure that a function returned."""
        return outward(inward(closure))(*args)

    # -- stateful calls ------------------------------------------------------------------------

    def set_input(
        self, func_name: str, *args: Tensor | np.ndarray | int, **kwargs: Tensor | np.ndarray | int
    ) -> None:
        """Set inputs for `invoke_stateful`, in order or by name."""
        self._inputs[func_name] = tuple(self._bound(func_name, args, kwargs))
        self._outputs.pop(func_name, None)

    def set_one_input(
        self, func_name: str, *args: Any, **kwargs: Tensor | np.ndarray | int
    ) -> None:
        """Set one input, by name or position: `("main", "x", x)` or `("main", x=x)`."""
        if len(args) + 2 * len(kwargs) != 2:
            what = "one input is set"
            raise ValueError(explain(what, got=f"{len(args)} and {len(kwargs)} by name"))
        key, value = args or next(iter(kwargs.items()))
        names = self.module.input_names(func_name)
        index = self.get_input_index(key, func_name) if isinstance(key, str) else int(key)
        if not 0 <= index < len(names):
            raise ValueError(explain(f"{func_name} takes {', '.join(names)}", got=key))
        inputs = list(self._inputs.get(func_name, [None] * len(names)))
        inputs[index] = tensors_of(value)
        self._inputs[func_name] = tuple(inputs)

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """The position of an input, -1 for an unknown name."""
        names = self.module.input_names(func_name)
        return names.index(input_name) if input_name in names else -1

    def _bound(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if not kwargs:
            return [tensors_of(a) for a in args]
        names = self.module.input_names(name)
        left = names[len(args) :]
        unknown = [k for k in kwargs if k not in left]
        rest = [n for n in left if n not in kwargs]
        if unknown or rest:
            got = ", ".join(unknown) or f"missing {', '.join(rest)}"
            raise ValueError(explain(f"{name} takes {', '.join(names)}", got=got))
        return [tensors_of(v) for v in (*args, *(kwargs[n] for n in left))]

    def _inputs_of(self, func_name: str) -> tuple[Any, ...]:
        if func_name not in self._inputs:
            what = f"no inputs were set for {func_name}"
            raise NotReady(explain(what, instead=f'set_input("{func_name}", ...) first'))
        inputs = self._inputs[func_name]
        missing = [i for i, value in enumerate(inputs) if value is None]
        if missing:
            what = f"not all inputs were set for {func_name}"
            names = self.module.input_names(func_name)
            raise NotReady(explain(what, got=f"without {', '.join(names[i] for i in missing)}"))
        return inputs

    def invoke_stateful(self, func_name: str, *args: np.ndarray, **kwargs: Any) -> None:
        """Call a function with the inputs of `set_input`, or these, and keep its result."""
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        inputs = self._inputs_of(func_name)
        self._outputs.pop(func_name, None)
        self._outputs[func_name] = self._function(func_name)(*inputs)

    def invoke_with_outputs(
        self, func_name: str, input_args: Mapping[str, Any] | None, output_args: Sequence[Tensor]
    ) -> None:
        """Call a function with inputs by name (None: those of `set_input`) and write its results to
        tensors."""
        if input_args:
            self.set_input(func_name, **input_args)
        results = leaves(self.invoke(func_name))
        if len(results) != len(output_args):
            what = f"{func_name} has {len(results)} results"
            raise ValueError(explain(what, got=f"{len(output_args)} tensors for them"))
        for value, into in zip(results, output_args, strict=True):
            value.copyto(into)

    def get_outputs(self, func_name: str | None = None) -> Any:
        """The result of the last `invoke_stateful`, of any function as a list of tensors."""
        if func_name is None:
            name = next(reversed(self._outputs), "main")
            return leaves(self.get_outputs(name))
        if func_name not in self._outputs:
            what = f"{func_name} has not been invoked"
            raise NotReady(explain(what, instead=f'invoke_stateful("{func_name}") first'))
        return self._outputs[func_name]

    def save_function(
        self,
        func_name: str,
        saved_name: str,
        *args: Tensor | np.ndarray | int,
        include_return: bool = True,
        **kwargs: Tensor | np.ndarray | int,
    ) -> None:
        """Save a call with its arguments as a function without arguments."""
        if func_name == saved_name:
            raise ValueError(explain("a saved function needs a name of its own", got=saved_name))
        bound, function = self._bound(func_name, args, kwargs), self._function(func_name)

        def run() -> Any:
            result = function(*bound)
            return result if include_return else None

        self._saved[saved_name] = run
        self._saved_calls[saved_name] = (func_name, bound)

    # -- measuring, watching ---------------------------------------------------------------------

    def time_evaluator(
        self, func_name: str, dev: Device | str | None = None, number: int = 10, repeat: int = 1,
        min_repeat_ms: float = 0, cooldown_interval_ms: float = 0, repeats_to_cooldown: int = 1,
        f_preproc: str | Callable[..., Any] = "", **more: Any,
    ) -> Callable[..., BenchmarkResult]:  # fmt: skip
        """A function that times `func_name`, also "invoke_stateful"; see `runtime.module.Timing`."""
        how = (dev, number, repeat, min_repeat_ms, 100, cooldown_interval_ms, repeats_to_cooldown)
        timer = super() if self._device is None else self.module  # there, not from here
        if self._device is None or func_name not in self._saved_calls:
            return timer.time_evaluator(func_name, *how, f_preproc=f_preproc, **more)
        name, bound = self._saved_calls[func_name]
        timed = timer.time_evaluator(name, *how, f_preproc=f_preproc, **more)
        return lambda: timed(*bound)

    def benchmark(
        self, device: Device, *args: Tensor | np.ndarray | int, func_name: str = "main",
        repeat: int = 5, number: int = 5, min_repeat_ms: float | None = None,
        limit_zero_time_iterations: int = 100, end_to_end: bool = False,
        cooldown_interval_ms: float = 0, repeats_to_cooldown: int = 1, **kwargs: Any,
    ) -> BenchmarkResult:  # fmt: skip
        """The times of calls of a function with such arguments."""
        how = (device, number, repeat, min_repeat_ms or 0, cooldown_interval_ms)
        timed = self.time_evaluator(func_name, *how, repeats_to_cooldown)
        return timed(*self._bound(func_name, args, kwargs))

    def profile(self, func_name: str, *args: Any) -> Profile:
        """Call a function, with the inputs of `set_input` if none are given, and measure each of
        its kernels."""
        inputs = args or self._inputs.get(func_name, ())
        if self._machine is not None:
            return self._machine.profile(func_name, inputs)
        return self.module.profile(*inputs, function=func_name)

    def set_instrument(self, instrument: Instrument | None) -> None:
        """Call `instrument(function, name, before, result, *args)` around each kernel and packed
        function that the machine calls; see `Machine.set_instrument`."""
        machine = self._machine or self.module.watched_machine()
        machine.set_instrument(instrument)
        self._machine = machine
