"""Compiles lowered functions to native code and loads it.

Each kernel is a module of its own, so that kernels compile in parallel and are cached separately;
the native graph functions and their entries form one more. `NativeProgram` keeps the text and the
objects for inspection and export.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType
from ...ir.prim_expr import PrimExpr, Var
from ...ir.prim_op import cast
from ...ir.target import Target
from ...ir.variables import vars_in
from ...runtime.extern import ExternLibrary
from ...runtime.signature import Argument, Signature, number
from ...runtime.tensor import Tensor, aligned
from ...runtime.weights import Weight
from ...tir import stmt as st
from ...tir.buffer import decl_buffer
from ...tir.byte_size import Sizes
from ...tir.function import PrimFunc
from . import jit, support
from .debug_info import asked
from .emit import add_function
from .entry import Entry
from .module_text import ModuleText, text_of, without_comments
from .program import ENTRY_PREFIX, GRAPH, LEVEL, NativeProgram, compile_options
from .types import is_soft, llvm_type, memory_type, scalar_type, symbol

_AHEAD = 4  # one kernel in four is compiled before the graph functions


def build_program(
    kernels: Mapping[str, PrimFunc], graphs: Mapping[str, PrimFunc],
    entries: Mapping[str, Signature], target: Target, *, jobs: int | None = None,
    compiled: NativeProgram | None = None, libraries: Sequence[ExternLibrary] = (),
    imports: Mapping[str, Callable[..., Any]] = MappingProxyType({}), threads: int | None = None,
    silent: Container[str] = (),
) -> NativeProgram:  # fmt: skip
    """Compile lowered kernels and graph functions.

    kernels, graphs: lowered PrimFuncs by name; if they are lowered lazily, on access, those
    already lowered compile meanwhile; the graph functions, the longest, come early, behind kernels that
    keep LLVM busy until then. entries: the signature of each function that is callable from outside, by name.
    compiled: an already compiled program whose kernels are called too.
    libraries: the C functions that they may call; imports: packed functions private to them.
    threads: the size of its own thread pool; None: it uses the process's.
    silent: functions without `T.ret`, which graph functions call without having seen them.
    """
    functions: Mapping[str, PrimFunc] = ChainMap(kernels, graphs)  # type: ignore[arg-type]
    triple, cpu, features = compile_options(target)
    externs = {name for library in libraries for name in library.prototypes}
    modules: dict[str, list[str]] = {}
    constants: dict[str, Any] = {}
    keys: dict[str, str] = {}
    debug = asked()

    def module_of(owner: str) -> ModuleText:
        module = ModuleText(owner, functions, imports, externs, target, silent)
        module.debug = debug()
        return module

    with jit.ObjectStream(triple=triple, cpu=cpu, features=features, jobs=jobs) as stream:

        def add(name: str, lines: list[str]) -> list[str]:
            keys[name] = stream.add(text_of(without_comments(lines)), LEVEL, name=name)
            return lines

        def add_kernels(names: Sequence[str]) -> None:
            for name in names:
                module = module_of(name)
                add_function(module, name, kernels[name])
                modules[name] = add(name, module.code())
                constants.update(module.constants)

        main, early = module_of("graph"), len(kernels) // _AHEAD
        add_kernels(list(kernels)[:early])
        graph = add(GRAPH, _graph_module(main, graphs, entries)) if graphs or entries else None
        add_kernels(list(kernels)[early:])
        by_key = stream.finish()
    if graph is not None:
        modules[GRAPH] = graph
    data = {n: aligned(_array(c)) for n, c in (constants | main.constants).items()}
    objects = {name: by_key[key] for name, key in keys.items()}
    texts = {name: text_of(lines) for name, lines in modules.items()}
    if compiled is not None:
        objects = {n: o for n, o in compiled.objects.items() if n != GRAPH} | objects
        data = {n: d for n, d in compiled.constants.items() if _of_kernel(n)} | data
    return NativeProgram(
        texts,
        objects,
        data,
        list(entries),
        target,
        tuple(libraries),
        dict(imports),
        threads=threads,
    )


def _array(constant: Tensor) -> np.ndarray:
    """A constant's own memory."""
    if isinstance(constant, Weight):
        return constant.storage()
    return constant.view() if isinstance(constant, Tensor) else constant.numpy()


def _of_kernel(constant: str) -> bool:
    return not constant.startswith("graph.const.")


def _graph_module(
    main: ModuleText, graphs: Mapping[str, PrimFunc], entries: Mapping[str, Signature]
) -> list[str]:
    """The lines of the module of graph functions and entries."""
    for name, func in graphs.items():
        add_function(main, name, func)
    for name, spec in entries.items():
        if name not in graphs:
            main.declare(symbol(name), _kernel_declaration(name, spec, main.returned(name)))
    parts = [emit_entry_of(main, name, spec) for name, spec in entries.items()]
    lines = main.code()
    declarations = support.declarations("\n".join(parts))
    return [*lines, _missing(declarations, main), *parts]


def _missing(declarations: str, module: ModuleText) -> str:
    """The `declare` lines that the module does not have yet."""
    lines = [line for line in declarations.splitlines() if line]
    name = lambda line: line.split("@", 1)[1].split("(", 1)[0]  # noqa: E731
    return "\n".join(line for line in lines if name(line) not in module.declared)


def emit_entry_of(module: ModuleText, name: str, spec: Signature) -> str:
    """The text of the entry `__tvm_ffi_<name>` of a native function."""
    names = {id(v): f"n{k}" for k, v in enumerate(spec.symbols)}
    derived: list[PrimExpr] = []

    def dim(expr: PrimExpr | int) -> int | str:
        expr = number(expr)
        if isinstance(expr, int):
            return expr
        if id(expr) in names:
            return names[id(expr)]
        derived.append(expr)
        return f"={len(derived) - 1}"

    def written(p: Argument) -> Argument:
        return replace(p, dims=None if p.dims is None else tuple(dim(d) for d in p.dims))

    for p in spec.params:
        if is_soft(DataType(p.dtype)) and not p.is_tensor:
            what = f"{name}: no scalar parameter has the type of {p.name}"
            raise LoopwrightError(explain(what, got=p.dtype, instead="declare it float32 and cast"))
    params, results = ([written(a) for a in part] for part in (spec.params, spec.results))
    helper, sizes = None, []
    dynamic = [r for r in spec.results if not all(isinstance(number(d), int) for d in r.dims or ())]
    if derived or dynamic:
        helper = f"{name}.dims"
        scalars = [v for v in vars_in(derived) if id(v) not in names]
        position_of = {p.name: k for k, p in enumerate(spec.params) if not p.is_tensor}
        sizes = [position_of[v.name] for v in scalars]
        add_function(
            module, helper, _dims_function(name, [*spec.symbols, *scalars], derived, dynamic)
        )
    entry = f"{ENTRY_PREFIX}{name}"
    kinds = {names[id(v)]: llvm_type(v.dtype) for v in spec.symbols}
    returned = module.returned(name)
    return Entry(
        entry,
        symbol(name),
        params,
        results,
        kinds,
        None if helper is None else symbol(helper),
        shown=name,
        returned=None if returned is None else _packed_kind(returned),
        sizes=sizes,
    ).text()


def _packed_kind(dtype: DataType) -> tuple[int, str, str]:
    """How a returned scalar is packed: (type index, type in memory, conversion)."""
    memory = memory_type(dtype)
    if dtype.is_bool:
        return 2, memory, "zext"
    if dtype.is_float:
        if scalar_type(dtype)[0] == "i":
            what = "T.ret of this type"
            raise LoopwrightError(explain(what, got=str(dtype), instead="cast it to float32"))
        return 3, memory, "" if memory == "double" else "fpext"
    return 1, memory, "" if memory == "i64" else "sext" if dtype.is_int else "zext"


def _kernel_declaration(name: str, spec: Signature, returned: DataType | None) -> str:
    """The `declare` line of a kernel that an entry calls."""
    kinds = ["ptr" if p.is_tensor else llvm_type(DataType(p.dtype)) for p in spec.params]
    kinds += ["ptr"] * len(spec.results) + [llvm_type(v.dtype) for v in spec.symbols]
    kinds += ["ptr"] if returned is not None else []
    return f"declare i32 @{symbol(name)}({', '.join(kinds)})"


def _dims_function(
    name: str, symbols: Sequence[Var], dims: Sequence[PrimExpr], results: Sequence[Argument]
) -> PrimFunc:
    """A function that computes dimensions from the symbols into an int64 array, and fails where
    one of the `results` is too large."""
    out = decl_buffer((len(dims),), "int64", "dims")
    stores = [st.BufferStore(out, cast("int64", d), [k]) for k, d in enumerate(dims)]
    sizes = Sizes()
    for result in results:
        sizes.add(result.dims or (), result.dtype, f"result {result.name}")
    body = sizes.checked(name, st.seq(*stores) if stores else st.Evaluate(0))
    params: list[Var] = []
    for v in reversed(symbols):
        wide = v if v.dtype == "int64" else Var(v.name, "int64")
        params.insert(0, wide)
        if wide is not v:
            body = st.LetStmt(v, cast(v.dtype, wide), body)
    return PrimFunc([*params, out.data], body)
