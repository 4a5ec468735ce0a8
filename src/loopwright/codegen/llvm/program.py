"""`NativeProgram`: compiled modules and the data they refer to; loads without the compiler."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ...base.errors import LoopwrightError, explain
from ...base.host import host, native_arch
from ...runtime.extern import ExternLibrary
from ...runtime.native import NativeFunction
from ...runtime.packed_func import register_func, remove_global_func
from ...runtime.signature import few
from . import jit, support
from .abi import IMPORT_PREFIX
from .cpu_features import missing_features, required_features
from .machine import resolve

if TYPE_CHECKING:
    import numpy as np

    from ...ir.target import Target

ENTRY_PREFIX = "__tvm_ffi_"
GRAPH = "graph functions"  # the name of the module of graph functions and entries
LEVEL = "short"  # the list of LLVM's passes (`jit`): kernels are vectorized and unrolled before
_SYSTEMS = ("linux", "darwin", "windows", "macosx", "none")  # in a triple
_numbers = itertools.count()


@dataclass(repr=False)
class NativeProgram:
    """Native code: the text and object of each module, and the data that it refers to.

    constants: arrays by the symbol under which code reads them. entries: functions that can be called, without
    `ENTRY_PREFIX`. imports: packed functions of this process that code calls by name. library: the loaded
    objects, None before `load`.
    """

    texts: Mapping[str, str]
    objects: dict[str, bytes]
    constants: dict[str, Any]
    entries: list[str]
    target: Target
    libraries: tuple[ExternLibrary, ...] = ()
    imports: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    threads: int | None = None  # of its own pool; None: it uses the process's
    library: Any = None
    functions: dict[str, NativeFunction] = field(default_factory=dict)

    @property
    def is_foreign(self) -> bool:
        """Whether the code cannot run in this process: it is for another processor or system, or
        takes instructions that this one lacks."""
        here = jit.host_triple()
        triple = compile_options(self.target)[0] or here
        if triple.split("-")[0] != here.split("-")[0]:
            return True
        other_system = any((name in here) != (name in triple) for name in _SYSTEMS)
        return other_system or bool(self.missing_features)

    @property
    def missing_features(self) -> frozenset[str]:
        """The instruction sets that the code takes and this machine lacks."""
        return missing_features(*resolve(*compile_options(self.target)))

    def text(self, name: str) -> str:
        """The LLVM text of a kernel; of the graph functions and entries for `GRAPH`."""
        return self.texts[name]

    def assembly(self, name: str) -> str:
        """The assembly of a kernel; of the graph functions and entries for `GRAPH`."""
        return jit.assembly(self.texts[name], *compile_options(self.target), opt=LEVEL)

    def __repr__(self) -> str:
        code = sum(map(len, self.objects.values()))
        data = sum(c.nbytes for c in self.constants.values())
        sizes = f"{code} bytes of code, {data} of constants"
        return (
            f"<{type(self).__name__} of {len(self.objects)} modules: {few(self.objects)}; {sizes}>"
        )

    def load(self) -> dict[str, NativeFunction]:
        """Load into this process and return the entries by name. Entries for another machine raise
        when they are called."""
        if self.is_foreign:
            triple = compile_options(self.target)[0] or ""
            self.functions = {e: Elsewhere(e, triple, self) for e in self.entries}  # type: ignore[misc]
            return self.functions
        if self.library is None:
            symbols = dict(support.symbols(self.threads))
            for name, data in self.constants.items():
                symbols[name] = data.ctypes.data
            for extern in self.libraries:
                symbols.update(extern.symbols())
            imports = [_Import(name, f, symbols) for name, f in self.imports.items()]
            exports = {e: f"{ENTRY_PREFIX}{e}" for e in self.entries}
            objects = list(self.objects.values())
            self.library = jit.load_objects(objects, symbols, exports=list(exports.values()))
            keep = (self.library, self.constants, imports)
            for e, symbol in exports.items():
                self.functions[e] = NativeFunction(self.library[symbol], e, keep_alive=keep)
        return self.functions


@dataclass
class Elsewhere:
    """A function compiled for another machine.

    simulator: runs one, with the arguments and options of its call; None: calls raise.
    """

    name: str
    triple: str
    program: NativeProgram
    signature: Any = None
    simulator: ClassVar[Callable[..., Any] | None] = None

    def __call__(self, *args: np.ndarray | None, **options: Any) -> Any:
        if Elsewhere.simulator is not None:
            return Elsewhere.simulator(self, *args, **options)
        compiled_for, this_machine = self.triple, jit.host_triple()
        if not self.triple or self.triple.split("-")[0] == this_machine.split("-")[0]:
            missing = ", ".join(sorted(self.program.missing_features))
            compiled_for, this_machine = str(self.program.target), f"a processor without {missing}"
            if host().named:
                compiled_for += f" with LOOPWRIGHT_HOST_CPU={host().name}"
        what = f"{self.name} was compiled for {compiled_for}; it cannot run on this machine"
        hint = "export_library writes it to a file for that machine"
        raise LoopwrightError(explain(what, got=this_machine, instead=hint))


class _Import:
    """A packed function registered under a unique name for as long as this object lives.
    `symbols` maps the symbol that native code reads to the address of the name."""

    def __init__(self, name: str, function: Callable[..., Any], symbols: dict[str, int]) -> None:
        self.name = f"{name}@{next(_numbers)}"
        self.text = ctypes.create_string_buffer(self.name.encode())
        symbols[f"{IMPORT_PREFIX}{name}"] = ctypes.addressof(self.text)
        register_func(self.name, function)

    def __del__(self) -> None:
        remove_global_func(self.name)


def needs_of(target: Target) -> str:
    """The architecture of a target and the instruction sets that its code takes, one a line; of another
    architecture than this machine's, that alone."""
    triple, cpu, features = resolve(*compile_options(target))
    arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(a := triple.partition("-")[0], a)
    sets = required_features(triple, cpu, features) if arch == native_arch() else ()
    return "\n".join([arch, *sorted(sets)])


def compile_options(target: Target) -> tuple[str | None, str | None, str | None]:
    """(triple, cpu, features) for LLVM; None means the host's."""
    triple = target.attrs.get("mtriple") or None
    cpu = target.attrs.get("mcpu") or None
    features = target.attrs.get("mattr") or None
    if cpu == "native":
        cpu = None
    if isinstance(features, (list, tuple)):
        features = ",".join(features)
    if triple is None and cpu is None and not features:
        return None, None, None
    return triple, cpu, features
