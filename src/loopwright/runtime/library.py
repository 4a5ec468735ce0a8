"""Exported libraries: loading them, and the metadata of their functions."""

from __future__ import annotations

import base64
import ctypes
import json
import re
import struct
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..base.errors import LoopwrightError, UnknownName, explain
from ..base.late import Slot
from ..base.trusted import unpack
from .arguments import Converted
from .c_compiler import compile_c, find_compiler, run_tool
from .collective import communicator
from .ffi import ffi
from .library_file import LibraryFile, loaded_from
from .module import Module, call_args, run_by_name
from .native import NativeFunction, nested
from .profiler import Profile
from .signature import Signature, few
from .threads import bind_pool, checked
from .vm import Machine, VMExecutable
from .vm.saved import from_bytes, to_bytes

if TYPE_CHECKING:
    import numpy as np

# An exported library names its entries in this symbol: each name ends in a zero byte, an empty one
# ends the list. The entry of `f` is the symbol `__tvm_ffi_f`, which tvm-ffi's loader knows too.
EXPORTS_SYMBOL = "lw_exports"
C_ENTRIES_SYMBOL = "lw_c_entries"  # JSON: the functions of a library of C, called with its structs
BYTECODE_SYMBOL = "lw_bytecode"  # in base 85: a program of the virtual machine
METADATA_SYMBOL = "lw_metadata"  # JSON: the inputs and outputs of each function
NEEDS_SYMBOL = "lw_needs"  # the architecture and the instruction sets of its code, one a line
THREADS_SYMBOL = "lw_threads"  # an int32: how many threads the model was compiled with
ENTRY_PREFIX = "__tvm_ffi_"
# A library of C is called by the code that wrote it.
C_LIBRARY: Slot[Callable[[Path, str], Any]] = Slot("runtime.c_library")
# A file of LLVM is compiled.
LLVM_FILE: Slot[Callable[[Path], Module]] = Slot("runtime.llvm_file")
# The functions that a TVM script calls by the name of its graph: inputs set by name, then run.
GRAPH_RUNTIME: Slot[Callable[[Module, list[Any]], Any]] = Slot("runtime.graph_runtime")
_POOL_SYMBOLS = ("lw_set_num_threads", "lw_num_threads", "lw_pool_reset", "lw_pool_set_pinning")


_TEXTS = ("as_text", "as_python", "stats")  # a program's texts about itself


class LoadedLibrary(Module):
    """The functions of an exported library, and its metadata of them by name. It is pickled with the
    bytes of its file, which protocol 5 passes out of band."""

    file: LibraryFile | None = None
    threads: int | None = None  # as `load_module` got them
    signatures: Mapping[str, Signature] = MappingProxyType({})
    machine: Machine | None = None
    graph_name = "default"  # the name of the graph executor of `main`

    def _find(self, name: str, imports: bool) -> Any:
        function = super()._find(name, imports)
        if function is None and name == self.graph_name and "main" in self._functions:
            return lambda *devices: GRAPH_RUNTIME.get()(self, list(devices))
        if function is None and self.machine is not None and name in _TEXTS:
            return getattr(self.machine.program, name)
        return function

    def run_on(self, machine: Machine) -> None:
        """Add the functions that the virtual machine runs, where the library describes them."""
        self.machine = machine
        described = ((n, s) for n, s in self.signatures.items() if n in machine)
        untold = (n for n in machine.program.function_names() if n not in self.signatures)
        self._functions |= {n: machine[n] for n in untold}
        self._functions |= {n: Converted(n, machine[n], s) for n, s in described}

    def watched_machine(self) -> Machine:
        """The machine, for `VirtualMachine.set_instrument`. Raises LoopwrightError without one."""
        if self.machine is None:
            what = "this library is native code, without calls that an instrument could observe"
            raise LoopwrightError(explain(what, instead="watch the model before it is exported"))
        return self.machine

    def profile(
        self, *args: Any, function: str = "main", number: int = 1, **named: np.ndarray
    ) -> Profile:
        """Call a function and measure it; one of the virtual machine, what it calls. Inputs are given
        in order, or by name as `run` takes them."""
        args = call_args(self, function, args, named)
        if self.machine is not None and function in self.machine:
            return self.machine.profile(function, args, number)
        profile, call = Profile(), self[function]
        for _ in range(number):
            begin = time.perf_counter()
            call(*args)
            profile.add(function, (time.perf_counter() - begin) * 1e6)
        return profile

    def __reduce__(self) -> Any:
        if self.file is None:
            what = "a library is pickled with the bytes of its file"
            raise LoopwrightError(explain(what, got="one without", instead="load_module of a file"))
        return _arrived, (*self.file.pickled(), self.threads)

    def inputs(self, name: str = "main") -> list[tuple[str, str, tuple[int | str, ...]]]:
        """(name, dtype, shape) of each input; symbolic dimensions are given by name."""
        return [p.described() for p in self.signature(name).params]

    def outputs(self, name: str = "main") -> list[tuple[str, str, tuple[int | str, ...]]]:
        """(name, dtype, shape) of each output."""
        return [r.described() for r in self.signature(name).results]

    def input_names(self, name: str = "main") -> list[str]:
        """The names of a function's inputs. Raises KeyError."""
        return [p.name for p in self.signature(name).params]

    def output_names(self, name: str = "main") -> list[str]:
        """The names of a function's outputs. Raises KeyError."""
        return [r.name for r in self.signature(name).results]

    def signature(self, name: str) -> Signature:
        """The inputs and outputs of a function. Raises KeyError for an unknown name."""
        if name not in self.signatures:
            have = ", ".join(self.signatures) or "none"
            raise UnknownName(f"the library does not describe a function {name!r}; it has: {have}")
        return self.signatures[name]

    def __repr__(self) -> str:
        texts = (s.text(n) for n, s in self.signatures.items())
        return f"<LoadedLibrary: {few(texts, 2) or few(self._functions)}>"

    def run(
        self,
        feeds: Sequence[Any] | Mapping[str, Any] = (),
        /,
        *,
        function: str = "main",
        comm: Any = None,
        **named: np.ndarray | Sequence[np.ndarray] | Mapping[str, np.ndarray],
    ) -> dict[str, Any]:
        """Run with inputs by name (a dict, keywords) or in order; outputs by name, written to the
        arrays of `out`, if it is given (one, a list, or a dict by name). comm: the communicator of a model
        of several workers, see `runtime.collective`.

        Raises ValueError naming the inputs that are missing or unknown.
        """
        with nullcontext() if comm is None else communicator(comm):
            return run_by_name(self, function, feeds, named)


def _signature_of(lists: Mapping[str, Any]) -> Signature:
    """The signature that a library's metadata has: {"inputs": [[name, dtype, shape]...], "outputs":
    ...}; a scalar has no shape, and a tree is the nesting of several outputs."""
    renamed = {"params": lists["inputs"], "results": lists["outputs"], "symbols": ()}
    return Signature.from_lists({**lists, **renamed})


def _check_whole(file: Path) -> None:
    """Raise ValueError for an ELF file that is shorter than its headers say: loading one ends
    the process with SIGBUS."""
    with file.open("rb") as stream:
        head = stream.read(64)
        if sys.platform != "linux":
            return
        size = file.stat().st_size
        end, whole = 64, head[:5] == b"\x7fELF\x02" and len(head) == 64
        if whole:
            segments, sections = struct.unpack_from("<QQ", head, 32)
            length, count, width, number = struct.unpack_from("<HHHH", head, 54)
            end = max(segments + length * count, sections + width * number)
            stream.seek(segments)
            table = stream.read(length * count)
            whole = len(table) == length * count and length in (0, 56)
            for at in range(0, len(table) if whole else 0, 56):
                offset, _, _, filled = struct.unpack_from("<QQQQ", table, at + 8)
                end = max(end, offset + filled)
    if not whole or end > size:
        what = f"{file} is not a whole library"
        raise ValueError(explain(what, got=f"{size} bytes", instead="export or copy it again"))


def load_module(path: str | Path, fmt: str = "", *, threads: int | None = None) -> Module:
    """Load an exported shared library; a `.tar` of objects is linked first, by the system's compiler, and
    LLVM's text or bitcode (`.ll`, `.bc`) compiled.

    threads: the size of its thread pool; by default the one that the model was compiled with, else
        the process's number, also when that changes.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"no such library: {file}")
    loaded = _loaded(file, threads)
    if isinstance(loaded, LoadedLibrary):
        needs = getattr(loaded._keep_alive, NEEDS_SYMBOL, None)
        needs = "" if needs is None else _text_at(loaded._keep_alive, NEEDS_SYMBOL).decode()
        loaded.file, loaded.threads = LibraryFile.of(file, needs=needs), threads
    return loaded


def _arrived(
    data: np.ndarray, suffix: str, digest: bytes, needs: str, own: int | None,
    threads: int | None = None,
) -> Module:  # fmt: skip
    """The library of a pickle. own, threads: the number of threads, and another one instead."""
    count = own if threads is None else threads
    loaded, file = loaded_from(data, suffix, digest, needs, lambda f: load_module(f, threads=count))
    loaded.file = file
    return loaded


def _loaded(file: Path, threads: int | None) -> Module:
    if file.suffix == ".tar":
        with tempfile.TemporaryDirectory() as folder:
            return _loaded(_linked(file, Path(folder)), threads)
    if file.suffix in (".ll", ".bc"):
        return LLVM_FILE.get()(file)
    _check_whole(file)
    ffi()  # the library uses its C API
    library = ctypes.CDLL(str(file.resolve()))
    if hasattr(library, C_ENTRIES_SYMBOL):
        c_library = C_LIBRARY.get()(file.resolve(), _text_at(library, C_ENTRIES_SYMBOL).decode())
        entries = {name: c_library[name] for name in c_library.files.entries}
        of_c = LoadedLibrary(entries, kind="library", keep_alive=c_library)
        of_c.signatures = {name: entry.signature.plain() for name, entry in entries.items()}
        return of_c
    functions = {}
    for name in _entry_names(library, file):
        entry = getattr(library, ENTRY_PREFIX + name)
        functions[name] = NativeFunction(
            ctypes.cast(entry, ctypes.c_void_p).value or 0, name, keep_alive=library
        )
    if hasattr(library, _POOL_SYMBOLS[0]):
        # ctypes never unloads a library, so the pool's code stays.
        pool = {s: ctypes.cast(getattr(library, s), ctypes.c_void_p).value for s in _POOL_SYMBOLS}
        if threads is None and hasattr(library, THREADS_SYMBOL):
            threads = ctypes.c_int32.in_dll(library, THREADS_SYMBOL).value
        size = None if threads is None else checked(threads)
        bind_pool({name: value or 0 for name, value in pool.items()}, size)
    loaded = LoadedLibrary(functions, kind="library", keep_alive=library)
    if hasattr(library, METADATA_SYMBOL):
        text = _text_at(library, METADATA_SYMBOL)
        metadata = json.loads(text)
        loaded.signatures = {name: _signature_of(lists) for name, lists in metadata.items()}
        loaded.graph_name = metadata.get("main", {}).get("graph", loaded.graph_name)
        for name, function in functions.items():
            function.signature = loaded.signatures.get(name)
        trees = ((n, s.tree) for n, s in loaded.signatures.items() if n in functions)
        loaded._functions |= {n: nested(functions[n], tree) for n, tree in trees}
    if hasattr(library, BYTECODE_SYMBOL):
        program = from_bytes(base64.b85decode(_text_at(library, BYTECODE_SYMBOL)))
        loaded.run_on(Machine(program, functions))
    return loaded


def system_lib(symbol_prefix: str = "") -> LoadedLibrary:
    """The functions, of names with that prefix, of exported libraries that this process has loaded by
    other means (`ctypes.CDLL`, or linked with a program). Needs Linux, which lists them."""
    maps = Path("/proc/self/maps")
    rows = maps.read_text().splitlines() if maps.exists() else []
    mapped = dict.fromkeys(row.split(maxsplit=5)[5] for row in rows if ".so" in row)
    files = [file for file in mapped if Path(file).is_file()]  # others were deleted since
    exported = [file for file in files if hasattr(ctypes.CDLL(file), _POOL_SYMBOLS[0])]
    functions = {n: f for file in exported for n, f in load_module(file)._functions.items()}
    of_prefix = {n: f for n, f in functions.items() if n.startswith(symbol_prefix)}
    return LoadedLibrary(of_prefix, kind="system_lib")


def _entry_names(library: ctypes.CDLL, file: Path) -> list[str]:
    """The names of a library's functions: listed, or, where it was linked of objects, among the symbols
    of its file. Raises ValueError where there are none."""
    if hasattr(library, EXPORTS_SYMBOL):
        address = ctypes.addressof(ctypes.c_char.in_dll(library, EXPORTS_SYMBOL))
        names = []
        while name := ctypes.string_at(address).decode():
            names.append(name)
            address += len(name.encode()) + 1
        return names
    symbols = re.findall(rb"\0%b([^\0]+)(?=\0)" % ENTRY_PREFIX.encode(), file.read_bytes())
    names = [
        n for n in dict.fromkeys(s.decode() for s in symbols) if hasattr(library, ENTRY_PREFIX + n)
    ]
    if not names:
        what = f"{file} was not exported by Loopwright: it has no symbol {EXPORTS_SYMBOL}"
        raise ValueError(what)
    return names


def export_program(program: VMExecutable, path: Path) -> Path:
    """Write a program of the virtual machine as a shared library. Raises LoopwrightError where it has
    functions of this process, and without a C compiler."""
    if program.natives:
        what = "functions of this process cannot be exported with a program"
        hint = "export the result of relax.build"
        raise LoopwrightError(explain(what, got=", ".join(program.natives), instead=hint))
    texts = {EXPORTS_SYMBOL: b"", BYTECODE_SYMBOL: base64.b85encode(to_bytes(program))}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "program.c")
        source.write_text("".join(c_text(name, text) for name, text in texts.items()))
        compile_c([source], path, ["-fPIC", "-shared"])
    return path


def c_text(symbol: str, text: bytes) -> str:
    """C that defines a text, as numbers: literals may not be long."""
    numbers = ", ".join(map(str, [*text, 0]))
    return f"extern const char {symbol}[];\nconst char {symbol}[] = {{{numbers}}};\n"


def _linked(file: Path, folder: Path) -> Path:
    """The shared library of a tar of objects. Raises ValueError for another file."""
    library = folder / f"{file.stem}.so"
    try:
        with tarfile.open(file) as tar:
            unpack(tar, folder)
            objects = [str(folder / name) for name in tar.getnames()]
    except tarfile.TarError as error:
        raise ValueError(explain(f"{file} is not a tar of objects", got=str(error))) from None
    run_tool([find_compiler(), "-shared", "-o", str(library), *objects])
    return library


def _text_at(library: ctypes.CDLL, symbol: str) -> bytes:
    """A text that a library has."""
    return ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, symbol)))
