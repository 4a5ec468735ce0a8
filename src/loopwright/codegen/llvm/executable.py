"""What `compile` returns: native functions, how they are called, and everything to look at."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...base.errors import explain
from ...runtime.module import Timed, ordered_inputs
from ...runtime.native import NativeFunction
from ...runtime.profiler import Profile
from ...runtime.signature import Argument, Signature
from ...runtime.tensor import Tensor
from .program import NativeProgram

if TYPE_CHECKING:
    from ...ir.module import IRModule
    from ...tir.memory_plan import MemoryPlan
    from .profiling import TimedFunction


class Executable(Timed):
    """A compiled model.

    `exe["main"](x)` calls a function, as in TVM; `exe.run({"x": x})` feeds by name and returns
    results by name. `exe.mod` is the module after the graph passes, `exe.lowered` after the loop
    passes; `exe.program` has LLVM text, assembly and objects.
    """

    def __init__(
        self,
        program: NativeProgram,
        entries: Mapping[str, Signature],
        mod: IRModule,
        lowered: IRModule,
        machine: Mapping[str, Any],
    ) -> None:
        self.mod = mod
        self.lowered = lowered
        self.machine = dict(machine)
        attrs = {} if mod.attrs is None else mod.attrs
        self._load(program, entries, {k: attrs.get(k) for k in ("input_names", "output_names")})

    def _load(
        self, program: NativeProgram, entries: Mapping[str, Signature], names: Mapping[str, Any]
    ) -> None:
        self.program = program
        self.entries = dict(entries)
        self.names = {k: list(v) for k, v in names.items() if v is not None}
        self.machine_runner: Any = None
        self._functions: dict[str, Any] = {}
        self._timed: dict[str, TimedFunction] = {}
        self.kernels: dict[str, Any] = {}
        for name, native in self.program.load().items():
            tree = self.entries[name].tree
            self._functions[name] = native if _is_flat(tree) else _Nested(native, tree)
            if not self.entries[name].results:
                self.kernels[name] = native

    def add_machine(self, machine: Any) -> None:
        """Functions that are no native code run on `machine`: `machine[name]`."""
        self.machine_runner = machine
        for name, func in self.machine.items():
            if "global_symbol" in func.attrs or name == "main":
                self._functions[name] = machine[name]

    # -- calls ---------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        """The function of that name."""
        found = self._functions.get(name)
        if found is None:
            have = ", ".join(self.function_names()) or "none"
            raise KeyError(explain("no function of this name", got=name, instead=f"one of: {have}"))
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def __call__(self, *args: Any) -> Any:
        """Run `main`, or the only function there is."""
        names = self.function_names()
        return self[names[0] if len(names) == 1 else "main"](*args)

    def function_names(self) -> list[str]:
        """The functions that can be called, `main` first."""
        return sorted(self._functions, key=lambda n: (n != "main", n))

    def inputs(self, name: str = "main") -> list[tuple[str, str, tuple[Any, ...]]]:
        """(name, dtype, shape) of each input; a shape's symbols are their names."""
        return [p.described() for p in self.signature(name).params]

    def outputs(self, name: str = "main") -> list[tuple[str, str, tuple[Any, ...]]]:
        """(name, dtype, shape) of each output."""
        names = self.output_names(name)
        specs = self.signature(name).results
        return [(n, s.dtype, s.shape()) for n, s in zip(names, specs, strict=True)]

    def signature(self, name: str) -> Signature:
        """The parameters and results of a function, native or not. Raises KeyError."""
        if name in self.entries:
            return self.entries[name]
        if name in self.machine:
            return _machine_signature(self.machine[name])
        self[name]  # raises, naming the functions there are
        return Signature(())

    def output_names(self, name: str = "main") -> list[str]:
        """The outputs' names: the model's own where it has them."""
        given = self.names.get("output_names")
        specs = self.signature(name).results
        if given is not None and len(given) == len(specs):
            return list(given)
        return [s.name for s in specs]

    def input_names(self, name: str = "main") -> list[str]:
        """The inputs' names: the model's own where it has them."""
        given = self.names.get("input_names")
        specs = self.signature(name).params
        if given is not None and len(given) == len(specs):
            return list(given)
        return [p.name for p in specs]

    def run(self, feeds: Any = (), /, *, function: str = "main", **named: Any) -> dict[str, Tensor]:
        """Run with inputs by name (a dict, keywords) or in order (a list), outputs by name.

        Raises ValueError naming the inputs that are missing or unknown.
        """
        plain = [p.name for p in self.signature(function).params]
        args = ordered_inputs(function, self.input_names(function), feeds, named, plain)
        result = self[function](*args)
        flat = _flatten(result)
        return dict(zip(self.output_names(function), flat, strict=True))

    @property
    def memory_plan(self) -> MemoryPlan | None:
        """Where the tensors of `main`, or of the only planned function, lie in the arenas that
        `compile` was given; None without arenas."""
        # Not at the top: an executable runs without it.
        return importlib.import_module("loopwright.tir.memory_plan").plan_of_module(self.lowered)

    def profile(self, *args: Any, function: str = "main", number: int = 1) -> Profile:
        """Call a function `number` times and tell how long each of its kernels took.

        The first call compiles a version of the function that reads a clock around each kernel.
        Raises KeyError for an unknown function.
        """
        if function in self.machine and function not in self.entries:
            return self.machine_runner.profile(function, args, number)
        if function in self.kernels or function not in self.entries:
            return _profile_calls(function, self[function], args, number)
        timed = self._timed.get(function)
        if timed is None:
            func = self.lowered[function]
            # Not at the top: it needs the compiler, without which an executable runs.
            profiling = importlib.import_module(f"{__package__}.profiling")
            timed = profiling.TimedFunction(function, func, self.entries[function], self.program)
            self._timed[function] = timed
        return timed(args, number)

    def export_library(self, file_name: Any, **options: Any) -> Any:
        """Write it as a library (`.so`, `.a`, `.o`) with a C header: see `library.py`."""
        # Not at the top: it needs the compiler, without which an executable runs.
        return importlib.import_module(f"{__package__}.library").export_library(
            self, file_name, **options
        )

    # -- looking -------------------------------------------------------------------------------

    def stats(self) -> str:
        """Counts of functions and sizes of code and constants, as text."""
        code = sum(len(o) for o in self.program.objects.values())
        data = sum(c.nbytes for c in self.program.constants.values())
        kernels = [n for n in self.program.objects if n != "main"]
        return (
            f"functions: {', '.join(self.function_names())}\n"
            f"kernels: {len(kernels)}\ncode: {code} bytes\nconstants: {data} bytes"
        )

    def as_text(self) -> str:
        """The LLVM text of the whole program."""
        return "\n".join(f"; ==== {n}\n{t}" for n, t in self.program.texts.items())

    def as_python(self) -> str:
        """The lowered module as TVMScript."""
        return self.lowered.script()


def _profile_calls(name: str, function: Any, args: Any, number: int) -> Profile:
    profile = Profile()
    for _ in range(number):
        begin = time.perf_counter()
        function(*args)
        profile.add(name, (time.perf_counter() - begin) * 1e6)
    return profile


def _machine_signature(func: Any) -> Signature:
    """The parameters and results of a graph function, as far as they are known."""
    leaves = _leaves(func.ret_struct_info)
    names = ["out"] if len(leaves) == 1 else [f"out{k}" for k in range(len(leaves))]
    params = tuple(_argument(p.name_hint, p.struct_info) for p in func.params)
    return Signature(params, tuple(map(_argument, names, leaves)))


def _argument(name: str, info: Any) -> Argument:
    dims = info.get_shape() if hasattr(info, "get_shape") else None
    return Argument(name, str(getattr(info, "dtype", "object")), tuple(dims or ()))


def _leaves(info: Any) -> list[Any]:
    fields = getattr(info, "fields", None)
    return [info] if fields is None else [leaf for f in fields for leaf in _leaves(f)]


def _is_flat(tree: Any) -> bool:
    return tree is None or all(isinstance(t, int) for t in tree)


class _Nested:
    """A native function whose results are a nested tuple."""

    def __init__(self, native: NativeFunction, tree: Any) -> None:
        self.native = native
        self.tree = tree

    def __call__(self, *args: Any) -> Any:
        flat = self.native(*args)
        flat = [flat] if isinstance(flat, Tensor) else flat
        return _nest(self.tree, flat)


def _nest(tree: Any, flat: list[Any]) -> Any:
    return flat[tree] if isinstance(tree, int) else [_nest(t, flat) for t in tree]


def _flatten(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in _flatten(v)]
    return [value]
