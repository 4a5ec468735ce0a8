"""The result of `compile`: native functions with their signatures, and all intermediate forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.errors import LoopwrightError, UnknownName, explain
from ...base.late import Slot
from ...runtime.arguments import Converted
from ...runtime.linked import LinkedModule
from ...runtime.module import call_args
from ...runtime.native import nested
from ...runtime.profiler import Profile
from ...runtime.vm import Machine, VMExecutable
from ..compiled import CompiledModel
from .program import GRAPH, NativeProgram

if TYPE_CHECKING:
    from ..lowered import Lowered
    from .profiling import TimedFunction

# Filled by modules that need the compiler, which a model loaded from disk runs without.
TIMED_FUNCTION: Slot[type[TimedFunction]] = Slot("codegen.timed_function")
SAVE_MODULE: Slot[Callable[..., None]] = Slot("codegen.save_module")
EXPORT_LIBRARY: Slot[Callable[..., Any]] = Slot("codegen.export_library")
PICKLING: Slot[Any] = Slot("codegen.pickling")


class Executable(CompiledModel):
    """A compiled model: native functions, and bytecode for the graph functions that are not native.

    `exe["main"](x)` calls a function, as in TVM; `exe.run({"x": x})` feeds by name and returns
    results by name. `exe.mod` is the module after the graph passes, `exe.lowered` after the loop
    passes; `exe.program` has LLVM text, assembly and objects.
    """

    form = "native code"
    runs = True
    is_binary_serializable = False
    is_runnable = is_dso_exportable = True
    graph_name = ""  # the name of the graph executor of `main` in a library, if not "default"

    def __init__(self, program: NativeProgram, lowered: Lowered) -> None:
        super().__init__(lowered)
        self._load(program)
        for part in lowered.parts:
            self._functions.pop(part, None)

    def _load(self, program: NativeProgram) -> None:
        self.program = program
        self.machine_runner: Machine | None = None
        self._functions: dict[str, Any] = {}
        self._timed: dict[str, TimedFunction] = {}
        self.kernels: dict[str, Any] = {}
        self.imported_modules: list[LinkedModule] = []
        for name, native in self.program.load().items():
            tree = self.entries[name].tree
            self._functions[name] = nested(native, tree)
            native.signature = self.entries[name]
            if not self.entries[name].results:
                self.kernels[name] = native

    def add_machine(self, bytecode: VMExecutable) -> None:
        """Run the functions that are not native code on a virtual machine, which calls the native ones."""
        natives = dict(self.program.imports)
        for name, native in self.program.functions.items():
            natives[name] = nested(native, self.entries[name].tree)
        self.machine_runner = Machine(bytecode, natives)
        for name, signature in self.machine_signatures.items():
            self._functions[name] = Converted(name, self.machine_runner[name], signature)

    def watched_machine(self) -> Machine:
        """The virtual machine, for `VirtualMachine.set_instrument`. Raises LoopwrightError for a model
        that needs none."""
        if self.machine_runner is None:
            what = "this model is native code, without calls that an instrument could observe"
            hint = 'profile it, or compile with a pipeline without the pass "GraphToTIR"'
            raise LoopwrightError(explain(what, instead=hint))
        return self.machine_runner

    # -- calls ---------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        """The function `name`. Raises KeyError for an unknown one."""
        function = self._functions.get(name)
        if function is None:
            names = ", ".join(self.function_names()) or "none"
            what = "no function of this name"
            raise UnknownName(explain(what, got=name, instead=f"one of: {names}"))
        return function

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def _callable(self) -> Mapping[str, Any]:
        return self._functions

    def profile(self, *args: Any, function: str = "main", number: int = 1, **named: Any) -> Profile:
        """Call a function `number` times and measure each of its kernels. Inputs are passed in order,
        or by name as to `run`: arrays, `Tensor`s or anything with DLPack.

        The first call compiles a version of the function that reads a clock around each kernel.
        Raises KeyError for an unknown function.
        """
        args = call_args(self, function, args, named)
        if function in self.machine and function not in self.entries:
            assert self.machine_runner is not None
            return self.machine_runner.profile(function, args, number)
        if function in self.kernels or function not in self.entries:
            return super().profile(*args, function=function, number=number)
        timed = self._timed.get(function)
        if timed is None:
            functions = {g.name_hint: f for g, f in self.lowered.functions.items()}
            graphs = {n: f for n, f in functions.items() if n not in self.program.objects}
            timed = TIMED_FUNCTION.get()(function, graphs, self.entries[function], self.program)
            self._timed[function] = timed
        return timed(args, number)

    def import_module(self, module: LinkedModule) -> None:
        """Make an object or C source part of the library that `export_library` writes."""
        if not isinstance(module, LinkedModule):
            what = "only objects and C sources become part of a model's library"
            hint = "runtime.load_static_library of what save(.o) wrote"
            raise LoopwrightError(explain(what, got=repr(module), instead=hint))
        self.imported_modules.append(module)

    def export_library(self, file_name: Path | str, **options: Any) -> Any:
        """Write a library (`.so`, `.a`, `.o`) with a C header; options: of `library.export_library`."""
        return EXPORT_LIBRARY.get()(self, file_name, **options)

    def save(self, file_name: Path | str, fmt: str = "") -> None:
        """Write LLVM text (`.ll`), bitcode (`.bc`), assembly (`.s`, `.asm`), or what `export_library`
        writes without the header: of an object `contrib.cc.create_shared` makes a library. fmt: "ll",
        "bc", "s" or "asm", instead of the suffix of the name."""
        path = Path(file_name)
        kind = fmt or path.suffix.lstrip(".")
        if kind in ("ll", "bc"):
            SAVE_MODULE.get()(self.program, path, kind)
        elif kind in ("s", "asm"):
            path.write_text(self.get_source("asm"), encoding="utf-8")
        else:
            self.export_library(path, header=False, loadable=True)

    def __reduce__(self) -> Any:
        """Its objects and signatures, and its weights as arrays, which protocol 5 passes out of band.
        What arrives has no module or text. Raises LoopwrightError for code that calls functions of others."""
        return PICKLING.get().reduced(self)

    def __deepcopy__(self, memo: Any) -> Executable:
        """The same code on the same weights, with buffers of its own."""
        return PICKLING.get().copied(self)

    # -- inspection ----------------------------------------------------------------------------

    @property
    def texts(self) -> Mapping[str, str]:
        """LLVM text by kernel name."""
        return self.program.texts

    def levels(self, name: str) -> dict[str, str]:
        """The LLVM text and the assembly of a kernel."""
        return {"LLVM": self.program.text(name), "assembly": self.program.assembly(name)}

    def stats(self) -> str:
        """Counts of functions and sizes of code and constants, as text."""
        code = sum(len(o) for o in self.program.objects.values())
        data = sum(c.nbytes for c in self.program.constants.values())
        kernels = [n for n in self.program.objects if n != GRAPH]
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
