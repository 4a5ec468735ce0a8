"""`CompiledModel`: the result of `loopwright.compile`, for every target."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, Self

from ..base.errors import CallError, LoopwrightError, explain
from ..base.frames import hide_frames
from ..base.late import VIEWS, Slot
from ..runtime.collective import communicator
from ..runtime.module import Timed, call_args, run_by_name
from ..runtime.profiler import Profile
from ..runtime.signature import Argument, Signature, few
from ..runtime.tensor import Tensor
from .border import Border, Structure
from .state import State

if TYPE_CHECKING:
    import numpy as np

    from ..ir.module import IRModule
    from ..ir.target import Target
    from ..relax.expr import Function
    from ..relax.struct_info import StructInfo
    from ..tir.memory_plan import MemoryPlan
    from .lowered import Lowered

# A compiled model runs without these.
OVERRIDING: Slot[Callable[[Any, Sequence[str]], Any]] = Slot("codegen.overriding")
PLAN_OF_MODULE: Slot[Callable[[IRModule], MemoryPlan | None]] = Slot("codegen.plan_of_module")

# Attributes of a module: the model's own names.
_NAMES = ("input_names", "output_names", "overridable_initializers")


class Compilation(NamedTuple):
    """The arguments of `compile`."""

    model: Any
    target: Any
    options: Any


class CompiledModel(Timed):
    """A model as code for a target; base class of `Executable`, `CModel` and those of plug-ins.

    `mod` is the module after the graph passes, `lowered` after the loop passes; `inputs()` and
    `outputs()` describe the signature of `main`. A subclass leaves out what its target cannot do
    (run in this process, be written as files or as a library); the method then raises
    LoopwrightError.
    """

    form: ClassVar[str] = "code for this target"  # names the code in messages
    runs: ClassVar[bool] = False  # whether functions can be called from this process
    suffix: ClassVar[str] = ""  # suffix of the files that `write` makes; "" if none

    mod: IRModule
    lowered: IRModule
    target: Target

    compilation: Compilation | None = None
    border = Border()

    def __init__(self, lowered: Lowered) -> None:
        self.mod, self.lowered, self.target = lowered.graph, lowered.module, lowered.target
        attrs = self.mod.attrs or {}
        names = {k: attrs[k] for k in _NAMES if attrs.get(k) is not None}
        state = State(**dict(attrs["state"])) if attrs.get("state") else None
        calls = attrs.get("torch_inputs")
        self.border = Border(state, attrs.get("torch_pairs"), calls and Structure(**dict(calls)))
        self._describe(lowered.entries, names, lowered.machine)

    def _describe(
        self, entries: Mapping[str, Signature], names: Mapping[str, Any], machine: Mapping[str, Any]
    ) -> None:
        """Set the signatures of functions, and the model's own names of inputs and outputs."""
        self.entries, self.machine = dict(entries), dict(machine)
        self.machine_signatures = {
            n: _machine_signature(f)
            for n, f in self.machine.items()
            if n == "main" or "global_symbol" in f.attrs
        }
        self.names = {k: list(v) for k, v in names.items()}
        self._runs: dict[str, Any] = {}
        self._variants: dict[tuple[str, ...], Any] = {}

    def compiled_from(self, model: Any, target: Any, options: Any) -> Self:
        """This executable, with the arguments of the `compile` that returns it, for `explored`."""
        self.compilation = Compilation(model, target, options)
        return self

    @cached_property
    def explored(self) -> Any:
        """The model compiled once more, with a trace. Raises LoopwrightError where its source is not known."""
        if self.compilation is None:
            what = "it is not known what this was compiled from"
            raise LoopwrightError(explain(what, got=repr(self), instead="loopwright.compile"))
        return VIEWS.get().Explored.compiled(*self.compilation)

    @property
    def texts(self) -> Mapping[str, str]:
        """The emitted text by the name of a function, or of a file."""
        self._cannot("has no text to show")

    def levels(self, name: str) -> dict[str, str]:
        """The forms of a kernel after the loop passes by their titles, from the emitted text on."""
        return {"code": self.texts[name]}

    def get_source(self, fmt: str = "") -> str:
        """All the emitted text; with "asm" or "s", the assembly of native functions."""
        if fmt in ("asm", "s"):
            return "\n".join([*self.levels(name).values()][-1] for name in self.texts)
        return "\n".join(self.texts.values())

    inspect_source = get_source

    @property
    def entry_name(self) -> str:
        """The function that a call of the model runs: `main`, or the only one."""
        names = self.function_names()
        return names[0] if len(names) == 1 else "main"

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether there is a function of that name."""
        return name in self._callable()

    # -- calls ---------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function of that name, called with tensors."""
        self._cannot("is not run from here")

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run `main`, or the only function. With tensors of torch among the arguments, results are
        tensors of torch, too. A model of torch takes its arguments as torch does, or its tensors one after another. Buffers that the model writes have their new values after it."""
        return self.border.call(self, args, options)

    def state_dict(self) -> dict[str, Tensor]:
        """The buffers that calls write, by name, as they are now."""
        return {} if self.border.state is None else dict(self.border.state.tensors)

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Set buffers that calls write. Raises KeyError for an unknown one, ValueError for another shape."""
        (self.border.state or State((), (), ())).load(values)

    def function_names(self) -> list[str]:
        """The functions that can be called, `main` first."""
        return sorted(self._callable(), key=lambda n: (n != "main", n))

    def _callable(self) -> Mapping[str, Any]:
        return {**self.entries, **self.machine_signatures}

    def inputs(self, name: str = "main") -> list[tuple[str, str, tuple[Any, ...]]]:
        """(name, dtype, shape) of each input; symbolic dimensions are given by name."""
        return [p.described() for p in self.signature(name).params]

    def outputs(self, name: str = "main") -> list[tuple[str, str, tuple[Any, ...]]]:
        """(name, dtype, shape) of each output."""
        names = self.output_names(name)
        specs = self.signature(name).results
        return [(n, s.dtype, s.shape()) for n, s in zip(names, specs, strict=True)]

    def signature(self, name: str) -> Signature:
        """The parameters and results of a function. Raises KeyError for an unknown name."""
        if name in self.entries:
            return self.entries[name]
        if name in self.machine_signatures:
            return self.machine_signatures[name]
        if name in self.machine:
            return _machine_signature(self.machine[name])
        self[name]  # raises KeyError with the known names
        return Signature(())

    def output_names(self, name: str = "main") -> list[str]:
        """The outputs' names: the model's own if it has them."""
        return self._names("output_names", self.signature(name).results)

    def input_names(self, name: str = "main") -> list[str]:
        """The inputs' names: the model's own if it has them."""
        return self._names("input_names", self.signature(name).params)

    def overridable_names(self) -> list[str]:
        """The initializers of an ONNX model that a run may give, too."""
        return list(self.names.get("overridable_initializers", ()))

    def _names(self, key: str, specs: Sequence[Any]) -> list[str]:
        names = self.names.get(key)
        if names is not None and len(names) == len(specs):
            return list(names)
        return [s.name for s in specs]

    def run(
        self,
        feeds: np.ndarray | Sequence[Any] | Mapping[str, Any] = (),
        /,
        *,
        function: str = "main",
        comm: Any = None,
        **named: np.ndarray | Sequence[np.ndarray] | Mapping[str, np.ndarray],
    ) -> dict[str, Tensor]:
        """Run with inputs by name (a dict, keywords) or in order (a list); return outputs by name,
        written to the arrays of `out`, if it is given (one, a list, or a dict by name). comm: the
        communicator of a model of several workers, see `runtime.collective`.

        Initializers of an ONNX model that are inputs, too, may be given by name: the first such run
        compiles the model once more, with these as inputs. Raises ValueError naming the inputs that
        are missing or unknown.
        """
        if comm is not None:
            with communicator(comm):
                return self.run(feeds, function=function, **named)
        try:
            if self.border.state is not None and function == self.entry_name:
                return self.border.run(self, self.border.state, feeds, named)
            if type(feeds) is dict and not named:  # one look at each input
                names, outputs, opened, call = self._runs.get(function) or self._run_of(function)
                if feeds.keys() == names.keys():
                    result = call(*map(feeds.__getitem__, names))
                    if len(outputs) == 1 and type(result) is Tensor:
                        return {outputs[0]: result}
                    return dict(zip(outputs, opened(result), strict=True))
            model = self.overriding([*(feeds if isinstance(feeds, Mapping) else ()), *named])
            plain = [p.name for p in model.signature(function).params]
            return run_by_name(model, function, feeds, named, plain)
        except CallError as error:
            hide_frames(error)
            raise

    def overriding(self, names: Collection[str]) -> CompiledModel:
        """This model, or where initializers that a run may give are among the names, the one that has
        these as inputs. Raises LoopwrightError for a model that cannot be imported again."""
        overridden = tuple(n for n in self.overridable_names() if n in names)
        if overridden and overridden not in self._variants:
            self._variants[overridden] = OVERRIDING.get()(self, overridden)
        return self._variants[overridden] if overridden else self

    def _run_of(self, function: str) -> Any:
        """The names of a function's inputs, those of its outputs, what opens its result, and it."""
        names, outputs = self.input_names(function), self.output_names(function)
        runs = dict.fromkeys(names if len(set(names)) == len(names) else [None])
        opened = self.signature(function).leaves
        self._runs[function] = runs, outputs, opened, self[function]
        return self._runs[function]

    def profile(
        self,
        *args: np.ndarray | Tensor | tuple[Tensor, ...],
        function: str = "main",
        number: int = 1,
        **named: np.ndarray,
    ) -> Profile:
        """Call a function `number` times and measure how long it takes. Inputs are given in order, or
        by name as `run` takes them."""
        profile, args = Profile(), call_args(self, function, args, named)
        for _ in range(number):
            begin = time.perf_counter()
            self[function](*args)
            profile.add(function, (time.perf_counter() - begin) * 1e6)
        return profile

    def described(self, name: str = "main") -> Signature:
        """The parameters and results of a function under the model's own names."""
        return self.signature(name).named(self.input_names(name), self.output_names(name)).plain()

    def _target_text(self) -> str:
        return str(self.target)

    def __repr__(self) -> str:
        functions = few((self.described(n).text(n) for n in self.function_names()), 2)
        return f"<{type(self).__name__} for {self._target_text()}: {functions}>"

    def _repr_html_(self) -> str:
        """The functions of the model and its kernels in a notebook."""
        return VIEWS.get().notebook_executable(self)

    # -- files ---------------------------------------------------------------------------------

    def write(self, folder: str | Path, name: str = "model", **options: Any) -> list[Path]:
        """Write the source files into a folder (created if missing) and return their paths."""
        if not self.suffix:
            self._cannot("is not written as files")
        paths = [Path(folder) / f"{label}{self.suffix}" for label in self.texts]
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, self.texts.values(), strict=True):
            path.write_text(text, encoding="utf-8")
        return paths

    def export_library(self, file_name: str | Path, **options: int) -> Path:
        """Write a library; the suffix selects its kind."""
        self._cannot("is not written as a library")

    @property
    def memory_plan(self) -> MemoryPlan | None:
        """The offsets of the tensors of `main`, or of the only planned function, in the arenas that
        `compile` was given; None without arenas."""
        return PLAN_OF_MODULE.get()(self.lowered)

    # -- where everything came from ------------------------------------------------------------

    def origin(self, node: str) -> Any:
        """What became of a node of the model ("/conv1"): kernels, lines of their TensorIR, counts of
        instructions, or the pass that removed it. The model is compiled once more, with a trace.
        Raises UnknownName."""
        return self.explored.origin(node)

    def where(self, kernel: str, line: int) -> Any:
        """The origin of a line (from 1) of a kernel's lowered TensorIR, as gdb, perf and `html`
        number them. Raises UnknownName, ValueError."""
        return self.explored.where(kernel, line)

    def costs(self, inputs: Mapping[str, Any], number: int = 10) -> Any:
        """Calls, time, GFLOP/s, GB/s and the part of this machine's roof, by kernel and by node of the
        model, in `number` runs with inputs by name; print it, `save` it, `compare` it with another."""
        return VIEWS.get().costs_of(self, inputs, number)

    def html(
        self,
        file: str | Path | None = None,
        inputs: Mapping[str, Any] | None = None,
        *,
        title: str = "",
        number: int = 10,
        against: Any = None,
    ) -> str:
        """One page, written to `file` if it is given, with the model's graph, all passes, machine code,
        memory plan and, with inputs by name, the times of kernels in `number` runs; a click
        marks the origins of a line. It needs no network. against: an executable of before, or the
        file of its page; both are shown side by side then."""
        return VIEWS.get().page_of_executable(
            self, file, inputs, title=title, number=number, against=against
        )

    def _cannot(self, what: str) -> NoReturn:
        raise LoopwrightError(explain(f"{self.form} {what}", got=str(self.target)))


def _machine_signature(func: Function) -> Signature:
    """The parameters and results of a graph function, as far as they are known."""
    leaves: list[Any] = []
    tree = _tree(func.ret_struct_info, leaves)
    names = ["out"] if len(leaves) == 1 else [f"out{k}" for k in range(len(leaves))]
    params = tuple(_argument(p.name_hint, p.struct_info) for p in func.params)
    results = tuple(map(_argument, names, leaves))
    return Signature(params, results, tree=tree if isinstance(tree, list) else None)


def _argument(name: str, info: StructInfo) -> Argument:
    if not hasattr(info, "get_shape"):  # a number, a shape, a tuple
        return Argument(name, str(getattr(info, "dtype", "object")))
    dims = info.get_shape()
    if dims is None:  # of the rank, if that is known, under names of their own
        dims = [f"{name}_dim{k}" for k in range(max(info.ndim, 0))]
    return Argument(name, str(info.dtype), tuple(dims))


def _tree(info: Any, leaves: list[Any]) -> Any:
    """The indices of a value's parts among the leaves, to which they are appended."""
    if not hasattr(info, "fields"):
        leaves.append(info)
        return len(leaves) - 1
    return [_tree(field, leaves) for field in info.fields]
