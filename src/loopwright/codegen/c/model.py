"""Models as C source: `compile(model, target="c")` returns a `CModel`.

    model = loopwright.compile("model.onnx", target="c")
    model.write("out")                # model.c, model.h, model_weights.c, external sources
    model["main"](x)                  # compiled by the system's C compiler, called from Python
    run = model.build(flags=["-O1"])  # the same with flags of one's own; results are arrays

`codegen.c.program` describes the files.
"""

from __future__ import annotations

import copy
import ctypes
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, UnknownName, explain
from ...base.host import host
from ...ir.expr import Attrs
from ...ir.prim_expr import Var
from ...ir.serialize import load_json, save_json
from ...runtime.arguments import Converted, placed
from ...runtime.c_compiler import compile_c, find_compiler, run_tool
from ...runtime.dtype import elements_per_byte, numpy_dtype
from ...runtime.library import C_ENTRIES_SYMBOL, c_text
from ...runtime.library_file import LibraryFile, loaded_from
from ...runtime.signature import Signature
from ...runtime.tensor import PackedTensor, Tensor, as_array, tensor
from ..compiled import CompiledModel
from ..lowered import Lowered
from ..objects import write_archive
from .program import ARRAYS, Area, CFiles, Entry, Field, ProgramText, stack_bytes_for
from .project import compiler_of, copied, size_of, write_project
from .types import identifier

C_FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
C_FLAGS += ("-Wno-tautological-compare",)  # a model may compare a value with itself
C_FLAGS += ("-ffp-contract=off",)  # the code says which products are fused with a sum


class CModel(CompiledModel):
    """A model as C source.

    `source`, `header` and `weights_source` are the texts of the files, `weights` the bytes of the
    binary weights (empty if they are C arrays), `workspace_bytes` the scratch memory that a call
    needs. `mod` and `lowered` are the module after the graph passes and after the loop passes.
    """

    runs = True
    form = "C source"
    suffix = ".c"

    def __init__(self, lowered: Lowered) -> None:
        super().__init__(lowered)
        self.libraries = list(lowered.libraries)
        self.files = self.render()
        self._library: CLibrary | None = None

    def render(self, name: str = "model", weights: str = ARRAYS, **options: int) -> CFiles:
        """The files with another name prefix, or with `weights="binary"`.

        stack_bytes: larger arrays of a kernel are placed in the workspace.
        """
        options = {"stack_bytes": stack_bytes_for(self.target), **options}
        functions = {g.name_hint: f for g, f in self.lowered.functions.items()}
        text = ProgramText(
            identifier(name), functions, libraries=self.libraries, weights=weights, **options
        )
        return text.files(self.entries, {k: v for k, v in self.names.items() if v})

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts of the files by name."""
        return _texts(self.files)

    @property
    def source(self) -> str:
        """`model.c`."""
        return self.files.source

    @property
    def header(self) -> str:
        """`model.h`."""
        return self.files.header

    @property
    def weights_source(self) -> str:
        """`model_weights.c`; empty for a model without weights."""
        return self.files.weights_source

    @property
    def weights(self) -> bytes:
        """The weights as one binary file."""
        return self.files.weights

    @property
    def workspace_bytes(self) -> int:
        """The bytes that a call needs besides inputs, outputs and the stack."""
        return sum(a.bytes for a in self.files.areas.values())

    def write(
        self, folder: str | Path, name: str = "model", weights: str = ARRAYS, *,
        project: bool = False, **options: Any,
    ) -> list[Path]:  # fmt: skip
        """Write the files into a folder, created if missing; return their paths.

        The sources of external libraries and the headers they include are copied into the same folder.
        project: also `main.c`, which reads inputs from its standard input and writes the outputs,
        `CMakeLists.txt`, and `README.md` with the flags that matter and the flash, RAM and stack of
        the model, measured by the target's compiler where that is installed.
        Raises LoopwrightError for a library with neither sources nor a shared library, a header that is
        not found, and for two files of one name.
        """
        files, folder = self.render(name, weights, **options), Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for label, text in _texts(files).items():
            paths.append(folder / label)
            paths[-1].write_text(text, encoding="utf-8")
        if files.weights:
            paths.append(folder / f"{files.prefix}.weights")
            paths[-1].write_bytes(files.weights)
        for library in self.libraries:
            paths += copied(library, folder, paths)
        if project:
            paths += write_project(files, folder, self.target, self.libraries)
        return paths

    def compiler_command(self) -> list[str]:
        """The C compiler for the target, and its flags for the processor."""
        compiler, flags = compiler_of(self.target)
        return [compiler, *flags]

    def build(
        self, folder: str | Path | None = None, *, name: str = "model", weights: str = ARRAYS,
        compiler: str | None = None, flags: Iterable[str] | None = None, **options: Any,
    ) -> CLibrary:  # fmt: skip
        """Compile the files as a shared library and load it.

        folder: where the files are written; by default a temporary folder. The compiler is `cc`, `gcc` or
        `clang`, called with `C_FLAGS` and `flags`, by default -O3 and all that the host's
        CPU has. Raises LoopwrightError with its output.
        """
        flags = ("-O3", host().c_flag) if flags is None else (*flags,)
        needs = host().needs if host().c_flag in flags else ""
        where = (
            Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="loopwright-c-"))
        )
        own = self._sources(where, name, weights, **options)
        out = where / f"lib{identifier(name)}.so"
        more = [*self._objects(where, compiler), *self._linked()]
        compile_c(own, out, [*self._flags(name), *flags, "-fPIC", "-shared"], more, compiler)
        return CLibrary(out, self.render(name, weights, **options), needs=needs)

    def _sources(self, folder: Path, name: str, *args: Any, **options: Any) -> list[str]:
        """The generated sources, written into a folder with all that they include."""
        self.write(folder, name, *args, **options)
        own = _texts(self.render(name, *args, **options))
        return [str(folder / label) for label in own if label.endswith(".c")]

    def _objects(self, folder: Path, compiler: str | None) -> list[str]:
        """The sources of external libraries, compiled with their own flags, in a folder."""
        objects = [o for lib in self.libraries if lib.sources for o in lib.objects(compiler)]
        paths = [folder / f"external{k}.o" for k in range(len(objects))]
        for path, data in zip(paths, objects, strict=True):
            path.write_bytes(data)
        return [str(path) for path in paths]

    def _flags(self, name: str) -> list[str]:
        """The flags that a model of that name is compiled with: it keeps the message of an error."""
        includes = [f"-I{folder}" for library in self.libraries for folder in library.include_dirs]
        return [*C_FLAGS, f"-D{identifier(name).upper()}_LAST_ERROR=1024", *includes]

    def _linked(self) -> list[str]:
        """Linker inputs: external libraries that are not compiled in, and the math library."""
        flags = [
            library.link if library.sources else library.linker_flags()
            for library in self.libraries
        ]
        return [*(flag for group in flags for flag in group), "-lm"]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function of that name, compiled by the system's C compiler at the first call.
        "get_func_names" returns the names of those that can be called."""
        if name == "get_func_names":
            return lambda: list(self.files.entries)
        if self._library is None:
            built = self.build()
            needs = built.file.needs if built.file else ""
            self._library = CLibrary(built.path, built.files, tensors=True, needs=needs)
        return self._library[name]

    def uncompiled(self) -> CModel:
        """The same model, which the system's C compiler compiles again at the first call."""
        model = copy.copy(self)
        model._library = None
        return model

    def export_library(
        self, file_name: str | Path, *, compiler: str | None = None,
        flags: Iterable[str] = ("-O3",), fcompile: Callable[..., object] | None = None,
        workspace_dir: str | Path | None = None, **options: Sequence[str],
    ) -> Path:  # fmt: skip
        """Compile the files to a shared library (`.so`), which `runtime.load_module` loads, a static
        library (`.a`) or an object (`.o`), with the header next to it. fcompile: makes the file instead
        (`contrib.cc.create_shared`): called with its path, those of the objects and the options.
        workspace_dir: an existing folder for files on the way."""
        path = Path(file_name)
        name = identifier(path.name.split(".")[0].removeprefix("lib"))
        if fcompile is None and options:
            what = "export_library has no options of these names"
            hint = "compiler, flags, workspace_dir; others are those of fcompile="
            raise TypeError(explain(what, got=", ".join(options), instead=hint))
        shared = path.suffix not in (".a", ".o")
        if shared and fcompile is None and path.suffix not in (".so", ".dylib"):
            what = "the file's suffix selects the kind of export"
            raise LoopwrightError(explain(what, got=path.name, instead="one of .so, .a, .o"))
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=workspace_dir) as folder:
            sources = self._sources(Path(folder), name)
            objects = self._objects(Path(folder), compiler)
            shutil.copy(Path(folder, f"{name}.h"), path.with_suffix(".h"))
            if shared:
                sources.append(str(Path(folder, f"{name}_entries.c")))
                Path(sources[-1]).write_text(_entries_text(self.render(name)), encoding="utf-8")
            if shared and fcompile is None:
                more = [*objects, *self._linked()]
                compile_c(
                    sources, path, [*self._flags(name), *flags, "-fPIC", "-shared"], more, compiler
                )
                return path
            for source in sources:
                objects.append(str(Path(source).with_suffix(".o")))
                compile_c(
                    [source], objects[-1], [*self._flags(name), *flags, "-fPIC", "-c"], (), compiler
                )
            if fcompile is not None:
                fcompile(str(path), objects, **options)
            elif path.suffix == ".a":
                write_archive([Path(o).read_bytes() for o in objects], path)
            else:
                run_tool([find_compiler(compiler), "-r", "-nostdlib", "-o", str(path), *objects])
        return path


def _texts(files: CFiles) -> dict[str, str]:
    texts = {f"{files.prefix}.c": files.source, f"{files.prefix}.h": files.header}
    if files.weights_source:
        texts[f"{files.prefix}_weights.c"] = files.weights_source
    return texts


# ---------------------------------------------------------------------- metadata inside a library


def _entries_text(files: CFiles) -> str:
    """C text of the symbol by which `load_module` knows a library of C: its entries as JSON."""
    return c_text(C_ENTRIES_SYMBOL, _entries_json(files).encode())


def _entries_json(files: CFiles) -> str:
    entries = [
        {**vars(e), **{k: _plain(getattr(e, k)) for k in _LISTS}} for e in files.entries.values()
    ]
    return save_json(Attrs("loopwright.c_entries", {"prefix": files.prefix, "entries": entries}))


_LISTS = {"inputs": Field, "outputs": Field, "order": Field, "areas": Area}


def _plain(items: Sequence[Any]) -> list[dict[str, Any]]:
    return [dict(vars(item)) for item in items]


def load_entries(path: Path, text: str) -> CLibrary:
    """The functions of a C library that contains the list of its entries."""
    return CLibrary(path, _files_of(text), tensors=True)


def _arrived(
    data: np.ndarray, suffix: str, digest: bytes, needs: str, text: str, weights: np.ndarray,
    tensors: bool,
) -> CLibrary:  # fmt: skip
    """The library of a pickle."""
    files = replace(_files_of(text), weights=weights)
    load = partial(CLibrary, files=files, tensors=tensors, needs=needs)
    library, library.file = loaded_from(data, suffix, digest, needs, load)
    return library


def _files_of(text: str) -> CFiles:
    """The files of a library, of which only the entries are known."""
    attrs = load_json(text)
    entries = {}
    for entry in attrs["entries"]:
        lists = {k: tuple(of(**dict(item)) for item in entry[k]) for k, of in _LISTS.items()}
        sizes = {k: tuple(entry[k]) for k in ("symbols", "fields")}
        loaded = Entry(**{**entry, **lists, **sizes})
        entries[loaded.name] = loaded
    return CFiles(attrs["prefix"], "", "", "", b"", entries, {})


# ---------------------------------------------------------------------- calls from Python


class CLibrary:
    """A `CModel` compiled and loaded: `library(x)` calls `main`, `library["f"]` another entry.

    Inputs are arrays, or what `runtime.arguments` makes arrays of; results are new arrays, or those
    of `out=`. A kernel without results takes the arrays that it writes as arguments, in the order of
    its parameters. tensors: results are tensors, as those of other models. needs: see `check_machine`.
    It is pickled with the bytes of its library and its weights, as arrays.
    """

    def __init__(
        self, path: str | Path, files: CFiles, *, tensors: bool = False, needs: str = ""
    ) -> None:
        self.path, self.files, self.tensors = Path(path), files, tensors
        self.file: LibraryFile | None = LibraryFile.of(self.path, needs=needs)
        self.library = ctypes.CDLL(str(path))
        weights = np.frombuffer(files.weights, np.uint8)
        self.weights = _aligned(weights.size)
        self.weights[:] = weights

    def __reduce__(self) -> Any:
        if self.file is None:
            raise LoopwrightError(
                "a C library is pickled with the bytes of its file, which is missing"
            )
        return _arrived, (
            *self.file.pickled(),
            _entries_json(self.files),
            self.weights,
            self.tensors,
        )

    def __getitem__(self, name: str) -> CFunction:
        entry = self.files.entries.get(name)
        if entry is None:
            have = ", ".join(self.files.entries)
            what = "no function of this name"
            raise UnknownName(explain(what, got=name, instead=f"one of: {have}"))
        return CFunction(self, entry)

    def __call__(self, *args: Any, out: np.ndarray | None = None) -> Any:
        names = list(self.files.entries)
        return self[names[0] if len(names) == 1 else "main"](*args, out=out)

    def last_error(self) -> str:
        """The message of this thread's last error; empty where the library keeps none."""
        said = getattr(self.library, f"{self.files.prefix}_last_error", None)
        if said is None:
            return ""
        said.restype = ctypes.c_char_p
        return said().decode(errors="replace")


class CFunction:
    """An entry of a C library."""

    def __init__(self, library: CLibrary, entry: Entry) -> None:
        self.library, self.entry = library, entry
        self.native = getattr(library.library, f"{entry.symbol}_run")
        self.native.restype = ctypes.c_int32
        results = entry.outputs if entry.returns else ()
        self.signature = Signature(entry.inputs if entry.returns else entry.order, results)
        self.converted = Converted(entry.name, self._of_arrays, self.signature)

    def __call__(self, *args: Any, out: np.ndarray | None = None) -> Any:
        if self.entry.returns:
            return self.converted(*args, out=out)
        if out is not None:
            placed(self.entry.name, 0, out)  # refuses it
        return self._of_arrays(*args)  # it copies back the results that a kernel wrote to a copy

    def _of_arrays(self, *args: Tensor | np.ndarray | float) -> Any:
        entry = self.entry
        fields = entry.inputs if entry.returns else entry.order
        if len(args) != len(fields):
            raise TypeError(explain(f"{entry.name} takes {len(fields)} arguments", got=len(args)))
        values: dict[str, Any] = {}
        extents: dict[Var, int] = {}
        written: list[tuple[np.ndarray, np.ndarray, str]] = []
        for arg, value in zip(fields, args, strict=True):
            if arg.dims is None:
                scalar = np.asarray(value, numpy_dtype(arg.dtype))
                values[arg.field] = scalar.view(_bits(scalar.dtype)).item()
                continue
            array = _stored(value, arg, entry)
            _match(arg, np.shape(value), extents, entry)
            values[arg.field] = array
            if not entry.returns and arg in entry.outputs and not isinstance(value, PackedTensor):
                written.append((as_array(value), array, arg.dtype))
        _check(fields, args, extents, entry)
        results = []
        for arg in entry.outputs if entry.returns else ():
            shape = [size_of(d, extents) for d in arg.dims or ()]
            values[f"out.{arg.field}"] = result = _empty(shape, arg.dtype)
            results.append((result, shape, arg))
        for field, var in zip(entry.fields, entry.symbols, strict=True):
            values[field] = extents[var]
        self._call(values)
        for value, array, dtype in written:
            if array is not value:
                value[...] = _loaded(array, value.shape, dtype)
        outs: list[Any] = [_loaded(a, shape, arg.dtype) for a, shape, arg in results]
        outs = [tensor(a) for a in outs] if self.library.tensors else outs
        return None if not outs else outs[0] if len(outs) == 1 else outs

    def _call(self, values: Mapping[str, Any]) -> None:
        entry = self.entry
        out = "out." if entry.returns else ""
        scalars = [(f, ctypes.c_int64) for f in entry.fields]
        inputs = _struct([*map(_c_field, entry.inputs), *scalars], values, "")
        outputs = _struct([*map(_c_field, entry.outputs)], values, out)
        areas = [_aligned(a.bytes, a.alignment) for a in entry.areas]
        extra = [a.ctypes.data for a in areas]
        if self.library.weights.size:
            extra.append(self.library.weights.ctypes.data)
        pointers = [ctypes.c_void_p(p) for p in extra]
        code = self.native(ctypes.byref(inputs), ctypes.byref(outputs), *pointers)
        if code:
            what, said = f"{entry.name} returned {code}", self.library.last_error()
            hint = "an assertion of the model did not hold: do the inputs have the shapes it takes?"
            raise RuntimeError(f"{what}: {said}" if said else explain(what, instead=hint))


def _c_field(arg: Field) -> tuple[str, Any]:
    if arg.dims is not None:
        return arg.field, ctypes.c_void_p
    return arg.field, np.ctypeslib.as_ctypes_type(_bits(numpy_dtype(arg.dtype)))


def _bits(dtype: np.dtype) -> np.dtype:
    """The whole numbers as which scalars of a type are stored: ctypes knows few types."""
    return np.dtype(f"u{dtype.itemsize}")


def _struct(fields: list[tuple[str, Any]], values: Mapping[str, Any], prefix: str) -> Any:
    kind = type("Arguments", (ctypes.Structure,), {"_fields_": fields or [("none", ctypes.c_char)]})
    struct = kind()
    for name, of in fields:
        value = values[f"{prefix}{name}"]
        setattr(struct, name, value.ctypes.data if of is ctypes.c_void_p else of(value).value)
    return struct


def _aligned(size: int, alignment: int = 64) -> np.ndarray:
    """Bytes at an address that is a multiple of `alignment`."""
    block = np.empty(size + alignment, np.uint8)
    start = -block.ctypes.data % alignment
    return block[start : start + size]


def _stored(value: Any, arg: Field, entry: Entry) -> np.ndarray:
    """The memory of an argument as C code reads it."""
    if isinstance(value, PackedTensor):
        return value.bytes()
    array = as_array(value)
    if elements_per_byte(arg.dtype) > 1:
        return PackedTensor.of(array, arg.dtype).bytes()
    plain = numpy_dtype(arg.dtype)
    if array.dtype.newbyteorder("=") != plain:
        what = f"{entry.name}: {arg.name} has dtype {arg.dtype}"
        raise TypeError(explain(what, got=str(array.dtype)))
    return np.ascontiguousarray(array, plain)


def _empty(shape: Sequence[int], dtype: str) -> np.ndarray:
    if elements_per_byte(dtype) > 1:
        return PackedTensor.of(np.zeros(shape, np.int8), dtype).bytes()
    return np.empty(shape, numpy_dtype(dtype))


def _loaded(array: np.ndarray, shape: Sequence[int], dtype: str) -> np.ndarray:
    if elements_per_byte(dtype) > 1:
        return PackedTensor(array, dtype, tuple(shape)).view()
    return array


def _match(arg: Field, shape: Sequence[int], extents: dict[Var, int], entry: Entry) -> None:
    if len(shape) != len(arg.dims or ()):
        what = f"{entry.name}: {arg.name} has {len(arg.dims or ())} axes"
        raise ValueError(explain(what, got=str(tuple(shape))))
    for dim, size in zip(arg.dims or (), shape, strict=True):
        if isinstance(dim, Var):
            extents.setdefault(dim, size)


def _check(
    fields: Sequence[Field], args: Sequence[Any], extents: Mapping[Var, int], entry: Entry
) -> None:
    for arg, value in zip(fields, args, strict=True):
        if arg.dims is None:
            continue
        for k, (dim, size) in enumerate(zip(arg.dims, np.shape(value), strict=True)):
            if size_of(dim, extents) != size:
                what = f"{entry.name}: axis {k} of {arg.name} must be {size_of(dim, extents)}"
                raise ValueError(explain(what, got=size))
